"""Checkouts: which directories of the owner hold the same repository, and so are one project."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from consolidator.database.partitions import Connection
from consolidator.store.queries import Column, Pairs, Statement, StatementEach, Tuples, Value, execute, load

_SQL = load("sessions/checkouts")


async def add_each(conn: Connection, repositories: Mapping[str, str]) -> None:
    """Note which repository each of some directories is a checkout of; what is known of a directory stays."""
    if repositories:
        await execute(conn, _SQL["lock"])
        await _add_each(conn, repositories.items())


find_projects = Pairs[str, str, Sequence[str]](_SQL["projects"])
get_project_of_repository = Value[str | None, str](_SQL["project_of_repository"])
list_strayed_memories = Column[str](_SQL["strayed_memories"])
unite = Statement[()](_SQL["unite"])
forget_unused = Statement[()](_SQL["forget"])
list_others = Tuples[tuple[str, str], str | None](_SQL["others"])
_add_each = StatementEach(_SQL["add"], "directory repository")
