"""Which project a working directory belongs to."""

from __future__ import annotations

from pathlib import Path, PurePath

from consolidator.database import Database
from consolidator.formats.common.project import derive_project
from consolidator.store.log.projects import find_known

MAX_PARENTS = 40  # directories above one that may be its project


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


def _is_no_project(place: PurePath) -> bool:
    return place == Path.home() or place == place.parent
