"""Which project a working directory belongs to."""

from __future__ import annotations

import re
from pathlib import Path, PurePath

from consolidator.database import Database
from consolidator.errors import UsageError
from consolidator.formats.common.project import derive_project
from consolidator.store.sessions.projects import find_known, list_projects, match_project

MAX_SHOWN = 5  # projects that an error names
MAX_PARENTS = 40  # directories above one that may be its project
_DRIVE = re.compile(r"[A-Za-z]:[\\/]|\\\\")  # of Windows, where `directory` may be of another system
_RELATIVE = re.compile(r"\.{1,2}$|~")


async def find_project(database: Database, directory: PurePath) -> str | None:
    """Return the nearest directory at or above one that sessions worked in, else its repository, else the directory.

    Not above the repository: what lies beside it is another project. None for a home directory and the root, which are
    no projects.
    """
    places = [place for place in (directory, *directory.parents)[:MAX_PARENTS] if not _is_no_project(place)]
    if not places or _is_no_project(directory):
        return None
    repository = next((place for place in places if (Path(place) / ".git").exists()), None)
    if repository is not None:
        places = places[: places.index(repository) + 1]
    projects = [project for place in places if (project := derive_project(str(place)))]
    async with database.connection() as conn:
        known = await find_known(conn, projects)
    return next((project for project in projects if project in known), projects[-1 if repository is not None else 0])


async def find_named_project(database: Database, name: str, directory: PurePath) -> str:
    """Return the project that a person names: one that sessions worked in, else that of a path from a directory.

    Raises UsageError for a name, not a path, that no project has or several have.
    """
    async with database.connection() as conn:
        known = await list_projects(conn)
    if (match := match_project(name, known)) in known:
        return match
    if _RELATIVE.match(name) or re.search(r"[/\\]", name):
        project = derive_project(_absolute(name, directory)) or "/"
        if _is_no_project(Path(project)):
            raise UsageError(
                f"{project} is no project: name a directory below it, or say whose it is with --me or --agent"
            )
        return match_project(project, known)
    shown = ", ".join(known[:MAX_SHOWN]) + (", ..." if len(known) > MAX_SHOWN else "")
    there_is = f"there are {shown}; name one, or give a path" if known else "there is none yet: give a path"
    raise UsageError(f"no project is called {name[:80]!r}: {there_is}, such as `--project .`")


def _absolute(path: str, directory: PurePath) -> str:
    """Return a path from a directory; one of Windows as it is."""
    return path if _DRIVE.match(path) else str(directory / Path(path).expanduser())


def _is_no_project(place: PurePath) -> bool:
    return place == Path.home() or place == place.parent
