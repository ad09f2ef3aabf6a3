"""Erases all that is kept on this machine: the embedded database, wherever its cluster is, and the rest of the home."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from consolidator.database import Database
from consolidator.errors import UsageError
from consolidator.service.bearer import TOKEN_FILE
from consolidator.settings import Settings

# What consolidator itself keeps in its home; anything else there is somebody else's.
_OWN = ("hooks", "install", "postgres", "tokenizer", TOKEN_FILE)


@dataclass(frozen=True, slots=True)
class Everything:
    """What would be erased."""

    home: Path
    data: str  # the directory of the database's cluster
    sessions: int
    events: int


async def describe_everything(database: Database, settings: Settings) -> Everything:
    """Return what would be erased; raise UsageError where the database is not ours to delete."""
    if database.server is None:
        raise UsageError(
            "the database is one that CONSOLIDATOR_DATABASE_URL names: drop it there (`dropdb`), then remove "
            f"{settings.home}"
        )
    async with database.connection() as conn:
        rows = await conn.execute("select count(*), coalesce(sum(head), 0) from session")
        sessions, events = (int(value) for value in (await rows.fetchone()) or (0, 0))
    return Everything(settings.home.absolute(), database.server.info()["data directory"], sessions, events)


async def erase_everything(database: Database, settings: Settings) -> list[Path]:
    """Delete the cluster and what else is ours in the home; return what is left in it, which is somebody else's.

    Raises UsageError while another process uses the database.
    """
    server = database.server
    assert server is not None
    await database.engine.dispose()
    if not await server.delete():
        raise UsageError("another process uses the database: stop `serve`, MCP servers and agents, then try again")
    home = settings.home.absolute()
    for path in (home / name for name in _OWN):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    left = sorted(home.iterdir()) if home.is_dir() else []
    if home.is_dir() and not home.is_symlink() and not left:
        home.rmdir()
    return left
