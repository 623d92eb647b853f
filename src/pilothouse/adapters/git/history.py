"""What lies between two commits: numbers for people and the diff itself. Reads only."""

from __future__ import annotations

from pilothouse.adapters.git import parse
from pilothouse.adapters.git.run import Runner
from pilothouse.core.plan.integration import WorkSummary

# Neither the user's external diff tools nor text conversions: they are programs, and may ask or never end.
# The rest is what a user's configuration could change about the form.
_PLAIN = (
    *("--no-ext-diff", "--no-textconv", "--no-color", "--find-renames", "--ignore-submodules=none"),
    *("--no-relative", "--src-prefix=a/", "--dst-prefix=b/"),
)


async def summary(git: Runner, repo: str, base: str, commit: str) -> WorkSummary:
    counted = await git.run("rev-list", "--count", f"{base}..{commit}", "--", cwd=repo, writes=False)
    changed = await git.run("diff", "--raw", "--numstat", "-z", *_PLAIN, base, commit, "--", cwd=repo, writes=False)
    return parse.summary(int(counted.text), changed.stdout)


async def diff(git: Runner, repo: str, base: str, commit: str, limit: int) -> str:
    """At most ``limit`` bytes of diff; a cut one says so in a last line of its own."""
    found = await git.run("diff", "--patch", *_PLAIN, base, commit, "--", cwd=repo, writes=False, limit=limit)
    text = found.stdout.decode("utf-8", "replace")
    if not found.truncated:
        return text
    whole_lines = text[: text.rfind("\n") + 1]
    return f"{whole_lines}[cut after {limit} bytes]\n"
