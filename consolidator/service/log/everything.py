"""Erases all that is kept on this machine: the embedded database, the rest of the home, and the configuration file."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from consolidator.config_file import PATH_VARIABLE, config_path
from consolidator.database import Database
from consolidator.errors import UsageError
from consolidator.service.bearer import TOKEN_FILE
from consolidator.settings import Settings

# What consolidator itself keeps in its home; anything else there is somebody else's.
_OWN = ("hooks", "install", "postgres", "rules", "tokenizer", TOKEN_FILE)


@dataclass(frozen=True, slots=True)
class Everything:
    """What would be erased."""

    home: Path
    data: str  # the directory of the database's cluster
    sessions: int
    events: int
    config: Path | None  # the configuration file, where there is one in its usual place


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
    return Everything(
        home=settings.home.absolute(),
        data=database.server.info()["data directory"],
        sessions=sessions,
        events=events,
        config=_own_config(),
    )


async def erase_everything(database: Database, settings: Settings) -> list[Path]:
    """Delete the cluster, what else is ours in the home, and the configuration file.

    Returns what is left in the home, which is somebody else's.
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
    if (config := _own_config()) is not None:
        config.unlink()
        with suppress(OSError):  # somebody else's files are in it
            config.parent.rmdir()
    left = sorted(home.iterdir()) if home.is_dir() else []
    if home.is_dir() and not home.is_symlink() and not left:
        home.rmdir()
    return left


def _own_config() -> Path | None:
    """Return the configuration file, unless a variable names it: then it is the deployment's."""
    path = config_path()
    return None if os.environ.get(PATH_VARIABLE) or not path.is_file() else path
