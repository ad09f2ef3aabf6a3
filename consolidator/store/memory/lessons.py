"""Lessons of a person's projects, as the nights write them, and the traces that they are learned from."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from consolidator.database.jsonb import escape
from consolidator.database.partitions import Connection
from consolidator.models.provenance import Provenance
from consolidator.store.queries import (
    Column,
    FirstRow,
    Rows,
    Statement,
    StatementEach,
    UpsertEach,
    Value,
    fetch_all,
    load,
)

_SQL = load("memory/lessons")
LESSON_PREFIX = "l_"  # of an id
LOCKS = 64


@dataclass(frozen=True, slots=True)
class LessonRow:
    """A published lesson; `body` is its `Lesson` as JSON."""

    id: str
    person: str  # "" is the owner of the machine
    project: str
    kind: str
    key: str
    line: str
    score: float
    harm: str | None  # why it is told to no agent
    body: dict[str, Any]
    learned_at: datetime
    updated_at: datetime
    retired_at: datetime | None
    forgotten_at: datetime | None
    run_id: str | None
    cause: str
    pinned: bool = False  # a person has it told whatever its figures say
    corrects: bool = False  # a person lets calls be corrected by it before they run

    @property
    def withheld(self) -> str | None:
        """Why it is told to no agent: it is hostile, or what came of it says so; None for one that is told."""
        return self.harm or (None if self.pinned else self.body.get("worth", {}).get("withheld"))


@dataclass(frozen=True, slots=True)
class TraceRow:
    """What a session left for lessons."""

    session_id: str
    root_id: str
    agent: str
    trace: bytes


def lesson_id(person: str, project: str, kind: str, key: str) -> str:
    """Return the id of a lesson."""
    identity = "\x1f".join((person, project, kind, key))
    return LESSON_PREFIX + hashlib.blake2b(identity.encode("utf-8", "surrogatepass"), digest_size=5).hexdigest()


async def lock_scopes(conn: Connection, places: Iterable[tuple[str, str]]) -> None:
    """Keep other merges away from the lessons of people's projects until the transaction ends; name all of them."""
    buckets = {
        zlib.crc32(f"{person}\x1f{project}".encode("utf-8", "surrogatepass")) % LOCKS for person, project in places
    }
    await _lock(conn, buckets)


async def list_lessons(
    conn: Connection,
    person: str,
    project: str | None,
    *,
    kinds: Sequence[str] | None = None,
    agent: str | None = None,
    agent_alone: str | None = None,
    query: str | None = None,
    limit: int,
) -> list[LessonRow]:
    """Return a person's lessons, the most helpful first; of an `agent` those that its sessions showed, too.

    Calls that worked are among them only where `kinds` says so: there are many, and they are for who asks.

    With `agent_alone` those that no other agent's sessions had a part in.
    """
    words = escape(query or "").replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    values = {
        "person": person,
        "project": project,
        "kinds": None if kinds is None else list(kinds),
        "agent": agent,
        "agent_alone": agent_alone,
        "pattern": f"%{words}%" if words else None,
        "limit": limit,
    }
    return await fetch_all(conn, LessonRow, _SQL["listing"], values)


list_warnings = Rows[LessonRow, str, int](LessonRow, _SQL["warnings"], "person limit")
list_of_machine = Rows[LessonRow, str, str, str | None, int](
    LessonRow, _SQL["of_machine"], "person home agent_alone limit"
)
delete_retired = Statement[str, str](_SQL["delete_retired"], "person project")
load_lesson = FirstRow[LessonRow, str, str](LessonRow, _SQL["by_id"], "id person")
list_forgotten = Column[str, Sequence[str]](_SQL["forgotten"])
list_projects = Column[str, str](_SQL["projects"])
forget = Statement[str, datetime](_SQL["forget"], "id now")
choose = Statement[str, bool, bool](_SQL["choose"], "id pinned corrects")
retire_others = Value[int, str, str, Sequence[str], Provenance](_SQL["retire_others"], "person project kept *")
# The traces of a person's latest sessions in a project, of all agents; none of dry runs.
list_traces = Rows[TraceRow, str, str](TraceRow, _SQL["traces"], "person project", binary=True)
list_traces_of = Rows[TraceRow, Sequence[str]](TraceRow, _SQL["traces_of"], "sessions", binary=True)
save_each = UpsertEach(_SQL["save"], order="id")  # None also where a person has forgotten it
_lock = StatementEach(_SQL["lock"], "bucket", order="bucket")
