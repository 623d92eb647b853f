"""The event log, its read model, documents, and the owner epoch."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "meta",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("value", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_meta"),
    )
    op.create_table(
        "runs",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("session_id", sa.Text),
        sa.Column("parent_run_id", sa.Text),
        sa.Column("root_run_id", sa.Text, nullable=False),
        sa.Column("link", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("lifecycle", sa.Text, nullable=False),
        sa.Column("waiting", sa.Boolean, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("row", sa.JSON().with_variant(JSONB, "postgresql"), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
    )
    op.create_index("ix_runs_created", "runs", ["created_at", "id"])
    op.create_index("ix_runs_lifecycle", "runs", ["lifecycle"])
    for name, columns, where in (
        ("ix_runs_session", ["session_id", "created_at", "id"], "session_id IS NOT NULL"),
        ("ix_runs_parent", ["parent_run_id", "created_at", "id"], "parent_run_id IS NOT NULL"),
        ("ix_runs_waiting", ["created_at", "id"], "waiting"),
    ):
        op.create_index(name, "runs", columns, sqlite_where=sa.text(where), postgresql_where=sa.text(where))
    op.create_table(
        "segments",
        sa.Column("position", sa.BigInteger().with_variant(sa.Integer, "sqlite"), nullable=False, autoincrement=True),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("first_seq", sa.BigInteger, nullable=False),
        sa.Column("count", sa.Integer, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("deleted", sa.Boolean, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("position", name="pk_segments"),
        sa.UniqueConstraint("run_id", "first_seq", name="uq_segments_run_id_first_seq"),
        sqlite_autoincrement=True,
    )
    for table, key in (("documents", ["kind", "id"]), ("document_versions", ["kind", "id", "version"])):
        op.create_table(
            table,
            sa.Column("kind", sa.Text, nullable=False),
            sa.Column("id", sa.Text, nullable=False),
            sa.Column("version", sa.BigInteger, nullable=False),
            sa.Column("owner", sa.Text, nullable=False),
            sa.Column("updated_at", sa.BigInteger, nullable=False),
            sa.Column("body", sa.LargeBinary, nullable=False),
            sa.PrimaryKeyConstraint(*key, name=f"pk_{table}"),
        )
