"""What a confined command can and cannot do, asked of real ones."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest
from tests.adapters.work.sandbox.setting import SECRET, Setting

from pilothouse.adapters.work.sandbox.landlock import SCOPES_SINCE, abi
from pilothouse.adapters.work.sandbox.launcher import CANNOT_CONFINE, CANNOT_RUN

CONNECT = """
import socket
for address in ('{path}', '{abstract}'):
    try:
        socket.socket(socket.AF_UNIX).connect(address)
    except OSError as error:
        print(type(error).__name__)
"""


def test_the_worktree_the_private_tmp_and_declared_folders_can_be_written(setting: Setting) -> None:
    declared = setting.base / "declared"
    declared.mkdir()
    name = uuid4().hex
    done = setting.run(f"echo a >a && echo b >/tmp/{name} && echo c >{declared}/c", writable=(str(declared),))
    assert (done.returncode, done.stderr) == (0, "")
    assert (setting.worktree / "a").read_text() == "a\n"
    assert (setting.private / "tmp" / name).read_text() == "b\n"
    assert (declared / "c").read_text() == "c\n"
    assert not Path("/tmp", name).exists()


@pytest.mark.parametrize(
    "place", ["repo", "home", "data", "data/worktrees/theirs", "data/private/ours", "readable", "/etc", "/", "/dev"]
)
def test_nothing_else_can_be_written(setting: Setting, place: str) -> None:
    (setting.base / "readable").mkdir()
    target = setting.base / place / "written-by-a-test"
    setting.run(f"mkdir -p {target.parent}; echo x >{target}", readable=(str(setting.base / "readable"),))
    # Where all this lies in /tmp, the script may have written to a directory of the same name in a /tmp of its own.
    assert not target.exists()


@pytest.mark.parametrize("place", ["home/secret", "data/log.db"])
def test_what_is_the_users_or_pilothouses_cannot_be_read(setting: Setting, place: str) -> None:
    done = setting.run(f"cat {setting.base / place}; cat ../../../{place}; cat ~/secret; ls -R {setting.base}")
    assert SECRET not in done.stdout
    assert "secret\n" not in done.stdout
    assert "theirs" not in done.stdout


def test_the_home_of_the_user_the_system_knows_is_not_there(setting: Setting) -> None:
    home = Path.home()
    done = setting.run(f"ls -A {home}; ls -A ~")
    assert set(done.stdout.split()) <= {".gitconfig", ".cargo", ".local", ".pyenv", ".nvm", ".npm", ".rustup"}


def test_declared_folders_can_be_read_through_links_too(setting: Setting) -> None:
    real = setting.base / "real"
    real.mkdir()
    (real / "file").write_text("seen")
    (setting.base / "link").symlink_to("real")
    done = setting.run(
        f"cat {setting.base}/link/file; echo x >>{setting.base}/link/file", readable=(str(real.with_name("link")),)
    )
    assert done.stdout == "seen"
    assert (real / "file").read_text() == "seen"


def test_a_writable_folder_inside_a_readable_one_is_writable_and_the_other_way_round(setting: Setting) -> None:
    outer, inner = setting.base / "outer", setting.base / "outer" / "inner"
    inner.mkdir(parents=True)
    assert setting.run(f"echo x >{inner}/a", readable=(str(outer),), writable=(str(inner),)).returncode == 0
    done = setting.run(f"echo x >{outer}/b; echo x >{inner}/b", readable=(str(inner),), writable=(str(outer),))
    assert done.returncode != 0
    assert ((outer / "b").exists(), (inner / "b").exists()) == (True, False)


def test_git_commits_in_the_worktree_and_the_commit_is_the_repositorys(setting: Setting) -> None:
    before = setting.git("rev-parse", "main")
    done = setting.run("git log --oneline && echo x >new && git add new && git commit -qm second && git status -s")
    assert (done.returncode, done.stderr) == (0, "")
    head = setting.git("rev-parse", "HEAD", cwd=setting.worktree)
    assert setting.git("rev-parse", f"{head}^") == before
    assert setting.git("cat-file", "-p", f"{head}:new") == "x"
    setting.git("fsck", "--strict")


@pytest.mark.parametrize(
    "attempt",
    [
        "git update-ref refs/heads/main HEAD",
        "git branch --force main HEAD",
        "git checkout --ignore-other-worktrees main && git commit --allow-empty -m x",
        "git symbolic-ref HEAD refs/heads/main && git commit --allow-empty -m x",
        "git rev-parse HEAD >$(git rev-parse --git-common-dir)/refs/heads/main",
        "git rev-parse HEAD >$(git rev-parse --git-common-dir)/packed-refs",
        "git pack-refs --all && git tag t",
    ],
)
def test_no_ref_of_the_repository_moves(setting: Setting, attempt: str) -> None:
    before = setting.git("for-each-ref")
    done = setting.run(f"git commit -q --allow-empty -m mine; {attempt}")
    assert done.returncode != 0
    assert setting.git("for-each-ref") == before
    assert setting.git("status", "--porcelain") == ""


@pytest.mark.parametrize("file", ["config", "hooks/post-commit", "info/attributes", "objects/info/alternates", "HEAD"])
def test_what_git_would_run_or_believe_cannot_be_changed(setting: Setting, file: str) -> None:
    target = setting.repo / ".git" / file
    before = target.read_bytes() if target.exists() else None
    done = setting.run(f"mkdir -p {target.parent}; echo x >{target} || mv -f a {target}")
    assert done.returncode != 0
    assert (target.read_bytes() if target.exists() else None) == before


@pytest.mark.parametrize("file", ["worktree/.git", "admin/commondir", "admin/gitdir", "admin/config.worktree"])
def test_a_worktree_cannot_be_pointed_at_another_repository(setting: Setting, file: str) -> None:
    setting.git("config", "extensions.worktreeConfig", "true")
    place, name = file.split("/")
    target = (setting.worktree if place == "worktree" else setting.admin) / name
    setting.wrap(("true",))
    before = target.read_bytes()
    done = setting.run(f"echo x >{target}; rm -f {target}; mv {target} gone; echo x >new; mv -f new {target}")
    assert done.returncode != 0
    assert target.read_bytes() == before


def test_what_a_grandchild_does_is_confined_too(setting: Setting) -> None:
    script = f"setsid sh -c '(cat {setting.home}/secret; echo x >{setting.repo}/x; echo y >y) & wait' & wait"
    done = setting.run(script)
    assert SECRET not in done.stdout
    assert not (setting.repo / "x").exists()
    assert (setting.worktree / "y").exists()


def test_no_service_outside_is_reached_by_its_socket(setting: Setting) -> None:
    with socket.socket(socket.AF_UNIX) as service, socket.socket(socket.AF_UNIX) as abstract:
        path, name = setting.data_dir / "service.sock", f"pilothouse-test-{os.getpid()}"
        service.bind(str(path))
        service.listen()
        abstract.bind(f"\0{name}")
        abstract.listen()
        setting.env["PYTHON"] = sys.executable
        done = setting.run("exec $PYTHON -", stdin=CONNECT.format(path=str(path), abstract=f"\\0{name}"))
        refused = ["PermissionError"] if abi() >= SCOPES_SINCE else []
        assert done.stdout.split() == ["FileNotFoundError", *refused]


def test_no_process_outside_is_signalled_or_looked_into(setting: Setting) -> None:
    if abi() < SCOPES_SINCE:
        pytest.skip("needs Landlock ABI 6 (Linux 6.12)")
    with subprocess.Popen(["sleep", "300"], env={"MARK": SECRET}) as bystander:
        try:
            pid = bystander.pid
            done = setting.run(f"kill -KILL {pid}; cat /proc/{pid}/environ; ls /proc/{pid}/root/ /proc/{pid}/cwd/")
            assert (bystander.poll(), done.stdout) == (None, "")
        finally:
            bystander.kill()


def test_a_confined_command_has_no_privileges_and_can_mount_nothing(setting: Setting) -> None:
    done = setting.run(
        "grep -E '^(Cap|NoNewPrivs)' /proc/self/status; unshare -Urm mount -t tmpfs none /tmp && echo mounted"
    )
    said = dict(line.split(":\t") for line in done.stdout.splitlines() if ":\t" in line)
    assert said.pop("NoNewPrivs") == "1"
    assert {int(value, 16) for value in said.values()} == {0}
    assert abi() == 0 or "mounted" not in done.stdout


def test_nothing_of_the_outside_is_held_open(setting: Setting) -> None:
    listed = (
        "import os; print(*sorted(os.listdir('/proc/self/fd'))); print(os.readlink('/proc/self/root'), os.getcwd())"
    )
    done = setting.run(f'exec {sys.executable} -c "{listed}"')
    assert done.stdout == f"0 1 2 3\n/ {setting.worktree}\n"  # 3 is what lists them


def test_status_arguments_input_and_directory_are_as_without(setting: Setting) -> None:
    (setting.worktree / "sub").mkdir()
    wrapped = setting.wrap(
        ("sh", "-c", 'cat; pwd; printf "<%s>" "$@"; echo trouble >&2; exit 7', "sh", "a b", "", "$HOME")
    )
    done = subprocess.run(
        wrapped.argv, env=wrapped.env, cwd=setting.worktree / "sub", input=b"in\n", capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (7, b"trouble\n")
    assert done.stdout == f"in\n{setting.worktree}/sub\n<a b><><$HOME>".encode()


def test_a_home_that_is_not_writable_is_replaced_and_one_that_is_stays(setting: Setting) -> None:
    done = setting.run("echo $HOME $TMPDIR; touch ~/x $TMPDIR/y")
    assert (done.stdout, done.stderr) == (f"{setting.private}/home {setting.private}/tmp\n", "")
    assert setting.run("echo $HOME", writable=(str(setting.home),)).stdout == f"{setting.home}\n"


def test_a_home_of_the_commands_own_in_the_data_directory_is_written_and_nothing_beside_it(setting: Setting) -> None:
    state = setting.data_dir / "state"
    state.mkdir()
    setting.env["HOME"] = str(state)
    wrapped = setting.wrap(("sh", "-c", f"touch ~/x; touch ~/../y; ls {setting.data_dir}"), writable_too=[state])
    done = subprocess.run(wrapped.argv, env=wrapped.env, cwd=setting.worktree, capture_output=True, check=False)
    assert (state / "x").exists()
    assert not (setting.data_dir / "y").exists()
    assert b"log.db" not in done.stdout


def test_a_missing_program_says_so(setting: Setting) -> None:
    wrapped = setting.wrap(("no-such-program",))
    done = subprocess.run(wrapped.argv, env=wrapped.env, cwd=setting.worktree, capture_output=True, check=False)
    assert done.returncode == CANNOT_RUN
    assert b"cannot run no-such-program" in done.stderr


def test_a_command_that_cannot_be_confined_does_not_run(setting: Setting) -> None:
    gone = setting.base / "gone"
    gone.mkdir()
    wrapped = setting.wrap(("touch", str(setting.worktree / "ran")), readable=(str(gone),))
    gone.rmdir()
    done = subprocess.run(wrapped.argv, env=wrapped.env, cwd=setting.worktree, capture_output=True, check=False)
    assert done.returncode == CANNOT_CONFINE
    assert str(gone).encode() in done.stderr
    assert not (setting.worktree / "ran").exists()


def test_the_environment_of_a_command_does_not_choose_its_launcher(setting: Setting) -> None:
    evil = setting.base / "evil"
    evil.mkdir()
    for name in ("json.py", "sitecustomize.py", "pilothouse.py"):
        (evil / name).write_text("raise SystemExit('taken over')")
    setting.env |= {"PYTHONPATH": str(evil), "PYTHONHOME": str(evil), "PYTHONSTARTUP": str(evil / "json.py")}
    done = setting.run(f"echo $PYTHONPATH; ls {evil}")
    assert done.stdout == f"{evil}\n"
    assert "taken over" not in done.stderr


def test_the_python_pilothouse_runs_in_works_inside(setting: Setting) -> None:
    done = setting.run(f"{sys.executable} -c 'import pilothouse.errors, msgspec; print(msgspec.json.encode(1))'")
    assert (done.returncode, done.stdout) == (0, "b'1'\n")


def test_a_program_installed_in_the_home_directory_runs_with_its_modules_and_sees_nothing_else_there(
    setting: Setting,
) -> None:
    package = setting.home / ".tools" / "lib" / "node_modules" / "@vendor" / "tool"
    package.mkdir(parents=True)
    (package.parent / "sibling").write_text("sibling\n")
    (package / "cli.sh").write_text(f'#!/usr/bin/env sh\ncat "{package.parent}/sibling" "{setting.home}/secret"\n')
    (package / "cli.sh").chmod(0o755)
    programs = setting.home / ".tools" / "bin"
    programs.mkdir()
    (programs / "tool").symlink_to("../lib/node_modules/@vendor/tool/cli.sh")
    setting.env["PATH"] = f"{programs}:{setting.env['PATH']}"
    assert setting.run("tool").stdout == "sibling\n"
    wrapped = setting.wrap(("tool",))
    done = subprocess.run(wrapped.argv, env=wrapped.env, cwd=setting.worktree, capture_output=True, check=False)
    assert done.stdout == b"sibling\n"
