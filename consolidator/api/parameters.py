"""The query parameters of lists: each filter is made from those that a route names, by the names of its fields."""

from __future__ import annotations

from dataclasses import MISSING, fields
from inspect import Parameter, Signature
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Query
from pydantic import AwareDatetime

from consolidator.models.memory_filter import FactFilter, LessonFilter, MemoryScope, ProcedureFilter, SolutionFilter
from consolidator.models.session import SessionFilter, StoredStatus

T = TypeVar("T")
Agent = Annotated[str | None, Query(max_length=200, description="only what this agent learned")]
Project = Annotated[str | None, Query(max_length=1000, description="its path, or the last part of it")]
Limit = Annotated[int, Query(ge=1, le=500, description="how many at most")]
_Name = Annotated[str | None, Query(min_length=1, max_length=1000)]
_Moment = Annotated[AwareDatetime | None, Query()]
_SCOPE: dict[str, Any] = {
    "agent": Agent,
    "project": Project,
    "peer": Annotated[str | None, Query(max_length=200, description="only what this person may see")],
}
_LIST: dict[str, Any] = {
    **_SCOPE,
    "query": Annotated[str | None, Query(max_length=1000, description="words to look for")],
    "limit": Limit,
}


def _flag(description: str) -> Any:
    return Annotated[bool, Query(description=description)]


def _read(kind: type[T], parameters: dict[str, Any]) -> Any:
    """Return a dependency that makes a filter of query parameters."""
    defaults = {field.name: field.default for field in fields(kind) if field.default is not MISSING}  # type: ignore[arg-type]

    def read(**values: Any) -> T:
        return kind(**values)

    read.__signature__ = Signature(  # type: ignore[attr-defined]
        [
            Parameter(name, Parameter.KEYWORD_ONLY, default=defaults[name], annotation=annotation)
            for name, annotation in parameters.items()
        ]
    )
    return Depends(read)


Scoped = Annotated[MemoryScope, _read(MemoryScope, _SCOPE)]
_OF_FACTS = {
    "peer": Annotated[str | None, Query(max_length=200, description="only facts about this peer")],
    "include_superseded": _flag("also those that are believed no more"),
    "flagged": _flag("only those kept beside what they resemble"),
    "as_of": _Moment,
    "valid_at": _Moment,
}
_UNWORTHY = _flag("also those that are not worth telling, such as pairs")
_UNSOLVED = _flag("also errors without a known fix")
Facts = Annotated[FactFilter, _read(FactFilter, _LIST | _OF_FACTS)]
Procedures = Annotated[ProcedureFilter, _read(ProcedureFilter, _LIST | {"include_unworthy": _UNWORTHY})]
Solutions = Annotated[SolutionFilter, _read(SolutionFilter, _LIST | {"include_unsolved": _UNSOLVED})]
Lessons = Annotated[LessonFilter, _read(LessonFilter, _LIST)]
_SESSION_NAMES = ("agent", "project", "peer", "key", "conversation", "trigger_type", "trigger_id", "parent")
_OF_SESSIONS = {
    "status": Annotated[StoredStatus | None, Query()],
    "hidden": _flag("also those that were deleted"),
}
Sessions = Annotated[SessionFilter, _read(SessionFilter, dict.fromkeys(_SESSION_NAMES, _Name) | _OF_SESSIONS)]
