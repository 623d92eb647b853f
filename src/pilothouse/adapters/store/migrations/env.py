"""What Alembic runs for every command: the migrations, on the connection ``migrate`` hands in.

There is no offline mode and no ini file; the database is always the one the caller has open.
"""

from __future__ import annotations

from alembic import context

from pilothouse.adapters.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
