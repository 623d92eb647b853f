"""Which entries a policy gets, in which order."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.adapters.work.sandbox.setting import Setting

from pilothouse.adapters.work.sandbox.folders import Scene, declared, show_repository, system, trail
from pilothouse.adapters.work.sandbox.policy import Entry, Kind
from pilothouse.errors import BadInput


def kinds(scene: Scene) -> list[tuple[str, str]]:
    return [(entry.kind.value, entry.path) for entry in scene.entries]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tmp_path.resolve()


def test_what_lies_in_something_shown_needs_no_entry_of_its_own(base: Path) -> None:
    (base / "a" / "b").mkdir(parents=True)
    scene = Scene()
    scene.show(base / "a" / "b", base / "a", base / "missing")
    scene.show(base / "a" / "b", kind=Kind.WRITE)
    assert kinds(scene) == [("read", f"{base}/a"), ("write", f"{base}/a/b")]


def test_what_lies_in_something_replaced_does(base: Path) -> None:
    (base / "a" / "b").mkdir(parents=True)
    (base / "other").mkdir()
    scene = Scene()
    scene.replace(base / "a", base / "other")
    scene.show(base / "a" / "b", kind=Kind.WRITE)
    assert kinds(scene) == [("write", f"{base}/a"), ("write", f"{base}/a/b")]


def test_only_what_was_shown_is_hidden_and_can_be_shown_again(base: Path) -> None:
    (base / "opt" / "home" / "bin").mkdir(parents=True)
    (base / "elsewhere").mkdir()
    scene = Scene()
    scene.show(base / "opt")
    scene.hide(base / "opt" / "home", base / "elsewhere")
    scene.show(base / "opt" / "home" / "bin")
    assert kinds(scene) == [
        ("read", f"{base}/opt"),
        ("empty", f"{base}/opt/home"),
        ("read", f"{base}/opt/home/bin"),
    ]


def test_links_on_the_way_are_kept(base: Path) -> None:
    (base / "real" / "sub").mkdir(parents=True)
    (base / "one").symlink_to("two")
    (base / "two").symlink_to(base / "real")
    (base / "up").symlink_to("real/../real/sub")
    assert trail(base / "one" / "sub") == (
        [Entry(Kind.LINK, f"{base}/one", "two"), Entry(Kind.LINK, f"{base}/two", f"{base}/real")],
        f"{base}/real/sub",
    )
    assert trail(base / "up")[1] == os.path.realpath(base / "up")


def test_links_in_a_circle_are_refused(base: Path) -> None:
    (base / "a").symlink_to("b")
    (base / "b").symlink_to("a")
    with pytest.raises(BadInput):
        trail(base / "a")


def test_the_system_has_no_home_and_no_sockets() -> None:
    shown = {str(path) for path in system()}
    assert {"/usr", "/etc"} <= shown
    assert not shown & {"/", "/home", "/root", "/run", "/var", "/tmp"}


@pytest.mark.parametrize("name", ["relative", "/no/such/folder", "/etc/passwd", "{data}", "{data}/worktrees"])
def test_a_folder_that_cannot_be_declared_is_refused_by_its_field(base: Path, name: str) -> None:
    data = base / "data"
    (data / "worktrees").mkdir(parents=True)
    with pytest.raises(BadInput) as refused:
        declared([str(base), name.format(data=data)], "sandbox.writable", [data])
    assert refused.value.field == "sandbox.writable[1]"


@pytest.mark.parametrize("name", ["/", "link"])
def test_the_whole_file_system_is_not_shown(base: Path, name: str) -> None:
    (base / "link").symlink_to("/")
    with pytest.raises(BadInput):
        Scene().show(base / name)


def test_a_clone_that_borrows_objects_sees_those_of_its_origin(setting: Setting) -> None:
    clone = setting.base / "clone"
    setting.git("clone", "--quiet", "--shared", str(setting.repo), str(clone))
    setting.git("worktree", "add", "--quiet", "--detach", str(setting.base / "wt"), cwd=clone)
    scene = Scene()
    show_repository(scene, setting.base / "wt")
    assert ("read", f"{setting.repo}/.git/objects") in kinds(scene)


def test_a_worktree_that_points_elsewhere_is_refused(setting: Setting) -> None:
    other = setting.repo / ".git" / "worktrees" / "theirs"
    for pointer in (f"gitdir: {other}\n", "gitdir: /nowhere\n", f"gitdir: {setting.repo}/.git\n"):
        (setting.worktree / ".git").write_text(pointer)
        with pytest.raises(BadInput):
            show_repository(Scene(), setting.worktree)


def test_a_folder_without_a_repository_is_only_a_folder(base: Path) -> None:
    scene = Scene()
    show_repository(scene, base)
    assert kinds(scene) == [("write", str(base))]
