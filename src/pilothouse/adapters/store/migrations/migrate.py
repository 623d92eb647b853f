"""Runs the migrations on an open SQLite connection, in process, from the files beside this one.

Importing this imports SQLAlchemy and Alembic, which takes most of a second: only ``schema`` does, and only when a
database is behind.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import StaticPool, create_engine
from sqlalchemy.exc import SQLAlchemyError

from pilothouse.adapters.store.queries import SCHEMA
from pilothouse.errors import Unavailable

HERE = Path(__file__).parent


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(HERE).replace("%", "%%"))
    return config


def newest_revision() -> str:
    """The revision the migrations end at."""
    return str(ScriptDirectory.from_config(_config()).get_current_head())


def migrate(connection: sqlite3.Connection, revision: str = "head") -> None:
    """Bring a database to ``revision``, all steps in one transaction. ``connection`` is in autocommit mode, with no
    transaction open. Raises ``Unavailable`` when that fails, with the database as it was."""
    engine = create_engine("sqlite://", creator=lambda: connection, poolclass=StaticPool)
    config = _config()
    try:
        with engine.begin() as opened:
            # SQLAlchemy leaves beginning to the driver, which is told not to; and whoever comes second must wait and
            # see.
            opened.exec_driver_sql("BEGIN IMMEDIATE")
            config.attributes["connection"] = opened
            command.upgrade(config, revision)
    except (SQLAlchemyError, CommandError) as error:
        raise Unavailable(f"the database could not be brought to this program's schema: {error}") from error


def dump(connection: sqlite3.Connection) -> str:
    """The schema of a database as the statements that make it."""
    statements = [sql for (sql,) in connection.execute(SCHEMA)]
    return "".join(f"{statement};\n\n" for statement in statements)
