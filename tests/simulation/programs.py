"""What the commands of a simulated plan do: drawn from their key, so that it depends on nothing that went before."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from tests.simulation.agents import SimulatedAgent

from pilothouse.adapters.work.memory import MemoryProgram
from pilothouse.core.run.commands import Command

if TYPE_CHECKING:
    from tests.simulation.world import World

OWN = "own-{}.txt"
"""The file only one node writes."""


def program(world: World, command: Command, key: str) -> MemoryProgram:
    """``argv`` is (role, file stem, behaviour flags), or what ``agents`` says."""
    if command.argv[0] == "agent":
        return _agent(world, command, key)
    role, stem, flags = command.argv
    random = Random(f"{world.seed}/{key}")
    roll = random.random()
    if roll < 0.02:
        return MemoryProgram(not_started="no such file")
    duration = random.choice((0.0, 0.01, 0.1, 0.4, 0.4, 0.8, 1.5, 3.0))
    output: tuple[tuple[float, bytes], ...] = ()
    if random.random() < 0.4:
        output = tuple((duration * at, b"line\n") for at in (0.0, 0.3, 0.9)[: random.randint(1, 3)])
    failing = roll < (0.09 if role == "work" else 0.06)
    tree = world.git.worktree(command.cwd)
    if role == "work" and "n" not in flags:
        tree.files[f"draft-{stem}.txt"] = f"half done by {key}\n"

    def done() -> None:
        if command.cwd not in world.repo.worktrees:
            world.watch.broken(f"the worktree of {key} was removed while it ran")
            return
        files = world.git.worktree(command.cwd).files
        if role == "work" and "n" not in flags:
            files.pop(f"draft-{stem}.txt", None)
            if not failing:
                files[OWN.format(stem)] = f"by {key}\n"
                for flag in flags:
                    if flag.isdigit():
                        files[f"shared{flag}.txt"] = f"by {stem}\n"
        elif role == "postchecks" and "e" in flags:
            files["report.txt"] = f"by {key}\n"

    return MemoryProgram(
        duration_s=duration,
        output=output,
        code=1 if failing else 0,
        signal=9 if failing and random.random() < 0.3 else None,
        ignores_term=random.random() < 0.15,
        effect=done,
    )


def _agent(world: World, command: Command, key: str) -> MemoryProgram:
    _, phase, stem, flags, _ = command.argv

    def write(done: bool) -> None:
        if command.cwd not in world.repo.worktrees:
            world.watch.broken(f"the worktree of {key} was removed while it ran")
            return
        files = world.git.worktree(command.cwd).files
        if phase != "work" or "n" in flags:
            return
        if not done:
            files[f"draft-{stem}.txt"] = f"half done by {key}\n"
            return
        files.pop(f"draft-{stem}.txt", None)
        files[OWN.format(stem)] = f"by {key}\n"
        for flag in flags:
            if flag.isdigit():
                files[f"shared{flag}.txt"] = f"by {stem}\n"

    write(False)
    agent = world.at_work[key] = SimulatedAgent(world, command, key, write)
    return agent.begin()
