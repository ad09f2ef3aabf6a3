"""Whose memory a question is about, and what the lists of memory select: what every front end and layer takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from consolidator.models.audience import audiences_for

OLD_NAMES = {
    "superseded": "include_superseded",
    "superseded_too": "include_superseded",
    "unsolved": "include_unsolved",
    "unsolved_too": "include_unsolved",
    "everything": "include_unworthy",
}  # of options, which HTTP and the library still accept
ALL_AGENTS = "all agents"  # the memory that the owner's agents share; `name_memory` says which sessions teach it


@dataclass(frozen=True, slots=True)
class MemoryScope:
    """Whose memory a question is about; None is everybody's.

    What is learned belongs to a *memory*: of the owner's sessions in projects to the one that all agents share, of all
    others to their agent's own. An agent is told both, but for a peer its own alone.
    """

    agent: str | None = None  # what this agent is told
    project: str | None = None  # its path, or the last part of it
    peer: str | None = None  # what this person may see; of facts, those about this person
    project_alone: bool = False  # for a viewer of one project: nothing that sessions outside of it taught

    # for a viewer of one agent: the projects whose shared memory it may see, "" for what holds in all of them
    shared_in: Sequence[str] | None = None

    @property
    def memories(self) -> list[str] | None:
        """The memories that a question is about, but for those of `shared_in`; None for all."""
        if not self.agent:
            return None
        return [self.agent] if self.peer or self.shared_in is not None else [self.agent, ALL_AGENTS]

    def values(self) -> dict[str, Any]:
        """Return it as a query's parameters; an agent or project that is "" is none."""
        return {
            "agents": self.memories,
            "shared_in": list(self.shared_in or ()),
            "project": self.project if self.project_alone else self.project or None,
            "project_alone": self.project_alone,
            "peer": self.peer,
            "audiences": audiences_for(self.peer),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFilter(MemoryScope):
    """What every list of memory takes."""

    query: str | None = None  # words to look for
    after: Sequence[Any] | None = None  # the position of the page before
    limit: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class FactFilter(MemoryFilter):
    """Which facts to list: those in use and with most sessions come first."""

    kind: str | None = None
    trust: str | None = None
    include_superseded: bool = False  # also those that are believed no more
    flagged: bool = False  # only those kept beside similar ones because neither code nor model could decide
    as_of: datetime | None = None  # what was believed then, in the words it had then
    valid_at: datetime | None = None  # what was true then, by what is known now (or at `as_of`)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcedureFilter(MemoryFilter):
    """Which procedures to list: the best come first, what mostly fails last."""

    include_unworthy: bool = False  # also those that are not worth telling, such as pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class SolutionFilter(MemoryFilter):
    """Which solutions to list: confirmed ones come first."""

    include_unsolved: bool = False  # also errors without a known fix


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonFilter(MemoryFilter):
    """Which lessons to list: the most helpful come first. An agent's are those that its sessions showed, too."""

    kinds: Sequence[str] | None = None  # of `memory.lessons.lesson.LessonKind`; None: all


T = TypeVar("T")


class Page(list[T]):
    """The rows of a page."""

    def __init__(self, rows: Iterable[T] = (), position: list[Any] | None = None) -> None:
        """Take the rows, and the position after the last one; None where no more follow."""
        super().__init__(rows)
        self.position = position

    @classmethod
    def cut(cls, rows: Sequence[T], limit: int, position_of: Callable[[T], list[Any]]) -> Page[T]:
        """Return the first rows of more than a page holds, with the position after the last of them."""
        return cls(rows[:limit], position_of(rows[limit - 1]) if 0 < limit < len(rows) else None)
