"""What a later warden knows of commands."""

from __future__ import annotations

from pathlib import Path

from pilothouse.adapters.work.protocol import exit_dict
from pilothouse.adapters.work.spool import Spool


def test_the_last_record_of_a_key_counts(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.write("../k\n", exit_dict("lost"))
    spool.write("other", exit_dict("lost"))
    spool.write("../k\n", exit_dict("exited", status=-9))
    assert spool.read_all() == {"../k\n": exit_dict("exited", status=-9), "other": exit_dict("lost")}


def test_a_torn_record_leaves_the_one_before_it(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.write("k", exit_dict("lost"))
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes() + b'{"key":"k","exit":{"rea')
    assert spool.read_all() == {"k": exit_dict("lost")}


def test_a_torn_record_does_not_take_the_next_one_with_it(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.write("k", exit_dict("lost"))
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-9])
    spool.write("k", exit_dict("exited", status=0))
    assert spool.read_all() == {"k": exit_dict("exited", status=0)}


def test_what_is_removed_is_unknown(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.write("k", exit_dict("lost"))
    spool.remove("k")
    spool.remove("k")
    assert spool.read_all() == {}
