"""One schema, said three times: in ``tables``, in the migrations, in ``schema.sql``."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateIndex, CreateTable

from pilothouse.adapters.store import schema, tables
from pilothouse.adapters.store.migrations import migrate as migrations
from pilothouse.adapters.store.migrations.migrate import dump, migrate, newest_revision
from pilothouse.adapters.store.sqlite import SqliteEventStore
from pilothouse.errors import Unavailable


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(tmp_path / "x.db", isolation_level=None)
    yield connection
    connection.close()


def engine_on(connection: sqlite3.Connection) -> sqlalchemy.Engine:
    return sqlalchemy.create_engine("sqlite://", creator=lambda: connection, poolclass=sqlalchemy.StaticPool)


def test_the_migrations_lead_to_the_tables(database: sqlite3.Connection) -> None:
    migrate(database)
    database.execute("DROP TABLE alembic_version")
    other = sqlite3.connect(":memory:")
    tables.metadata.create_all(engine_on(other))
    assert dump(database) == dump(other)
    other.close()


def test_alembic_finds_nothing_left_to_migrate(database: sqlite3.Connection) -> None:
    migrate(database)
    with engine_on(database).connect() as opened:
        context = MigrationContext.configure(opened, opts={"compare_type": True, "compare_server_default": True})
        assert compare_metadata(context, tables.metadata) == []


def test_the_schema_file_is_what_the_migrations_lead_to(database: sqlite3.Connection) -> None:
    migrate(database)
    text = f"{dump(database)}INSERT INTO alembic_version (version_num) VALUES ('{newest_revision()}');\n"
    assert schema.SCHEMA_FILE.read_text(encoding="utf-8") == text, f"write this to {schema.SCHEMA_FILE}"


def test_the_revision_the_program_speaks_is_the_newest() -> None:
    assert newest_revision() == schema.REVISION_NEEDED


def test_the_schema_can_be_said_in_postgres() -> None:
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]  # SQLAlchemy left it without types
    said = "".join(str(CreateTable(table).compile(dialect=dialect)) for table in tables.metadata.sorted_tables)
    for table in tables.metadata.sorted_tables:
        said += "".join(str(CreateIndex(index).compile(dialect=dialect)) for index in table.indexes)
    assert "position BIGSERIAL" in said
    assert "JSONB" in said
    assert "BYTEA" in said


def test_opening_a_new_or_a_present_database_does_not_import_sqlalchemy(tmp_path: Path) -> None:
    code = (
        "import asyncio, sys; from pilothouse.adapters.store.opening import open_event_store as o\n"
        f"for _ in range(2): asyncio.run(o({str(tmp_path / 'x.db')!r}))\n"
        "assert not {'sqlalchemy', 'alembic'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)


def next_revision(folder: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """Let the program speak a revision 0002 that takes ``step``."""
    shutil.copytree(migrations.HERE, folder)
    code = f"from alembic import op\nrevision = '0002'\ndown_revision = '0001'\ndef upgrade():\n    {step}\n"
    (folder / "versions" / "v0002_next.py").write_text(code, encoding="utf-8")
    monkeypatch.setattr(migrations, "HERE", folder)
    monkeypatch.setattr(schema, "REVISION_NEEDED", "0002")


def test_an_older_database_is_migrated_and_keeps_what_is_in_it(
    database: sqlite3.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema.prepare(database)
    database.execute("INSERT INTO meta VALUES ('owner_epoch', 7)")
    next_revision(tmp_path / "next", monkeypatch, "op.execute('CREATE TABLE extra (name TEXT)')")
    schema.prepare(database)
    assert database.execute("SELECT version_num FROM alembic_version").fetchall() == [("0002",)]
    assert database.execute("SELECT * FROM meta").fetchall() == [("owner_epoch", 7)]
    assert database.execute("SELECT * FROM extra").fetchall() == []


def test_a_migration_that_breaks_off_leaves_the_database_as_it_was(
    database: sqlite3.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema.prepare(database)
    before = list(database.iterdump())
    step = "op.execute('CREATE TABLE extra (name TEXT)'); op.execute('CREATE NONSENSE')"
    next_revision(tmp_path / "next", monkeypatch, step)
    with pytest.raises(Unavailable, match="NONSENSE"):
        schema.prepare(database)
    assert list(database.iterdump()) == before
    assert not database.in_transaction


def test_a_database_of_a_newer_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "y.db"

    async def opened() -> None:
        await (await SqliteEventStore.open(path)).close()

    asyncio.run(opened())
    connection = sqlite3.connect(path)
    connection.execute("UPDATE alembic_version SET version_num = '0999'")
    connection.commit()
    before = list(connection.iterdump())
    with pytest.raises(Unavailable, match="newer Pilothouse"):
        asyncio.run(opened())
    assert list(connection.iterdump()) == before
    connection.close()


def test_a_database_of_another_program_is_refused(tmp_path: Path, database: sqlite3.Connection) -> None:
    database.execute("CREATE TABLE recipes (name TEXT)")
    with pytest.raises(Unavailable, match="not one of Pilothouse"):
        schema.prepare(database)
    assert [name for (name,) in database.execute("SELECT name FROM sqlite_master")] == ["recipes"]


def test_a_creation_that_breaks_off_leaves_an_empty_database(
    database: sqlite3.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "schema.sql"
    broken.write_text(schema.SCHEMA_FILE.read_text(encoding="utf-8") + "CREATE NONSENSE;\n", encoding="utf-8")
    with monkeypatch.context() as patched:
        patched.setattr(schema, "SCHEMA_FILE", broken)
        with pytest.raises(sqlite3.OperationalError):
            schema.prepare(database)
    assert database.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
    schema.prepare(database)
    schema.prepare(database)
