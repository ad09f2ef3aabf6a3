"""The query parameters of lists: each filter is made from those that a route names, by the names of its fields."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from inspect import Parameter, Signature
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Query
from pydantic import AwareDatetime

from consolidator.models.memory_filter import (
    OLD_NAMES,
    FactFilter,
    LessonFilter,
    MemoryScope,
    ProcedureFilter,
    SolutionFilter,
)
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


def _read(kind: type[T], parameters: dict[str, Any]) -> Callable[..., T]:
    """Return a dependency that makes a filter of query parameters; also of those that had another name."""
    defaults = {field.name: field.default for field in fields(kind) if field.default is not MISSING}  # type: ignore[arg-type]
    names = {name: name for name in parameters}
    names |= {old: new for old, new in OLD_NAMES.items() if new in parameters and not old.endswith("_too")}

    def read(**values: Any) -> T:
        old = {new: value for name, new in names.items() if name != new and (value := values.pop(name))}
        return kind(**values | old)

    read.__signature__ = Signature(  # type: ignore[attr-defined]
        [
            Parameter(
                name,
                Parameter.KEYWORD_ONLY,
                default=defaults[new],
                annotation=parameters[new]
                if name == new
                else Annotated[bool, Query(deprecated=True, description=f"the old name of {new}")],
            )
            for name, new in names.items()
        ]
    )
    return read


Scoped = Annotated[MemoryScope, Depends(_read(MemoryScope, _SCOPE))]
Facts = Annotated[
    FactFilter,
    Depends(
        _read(
            FactFilter,
            _LIST
            | {
                "peer": Annotated[str | None, Query(max_length=200, description="only facts about this peer")],
                "include_superseded": _flag("also those that are believed no more"),
                "flagged": _flag("only those kept beside what they resemble"),
                "as_of": _Moment,
                "valid_at": _Moment,
            },
        )
    ),
]
_UNWORTHY = _flag("also those that are not worth telling, such as pairs")
Procedures = Annotated[ProcedureFilter, Depends(_read(ProcedureFilter, _LIST | {"include_unworthy": _UNWORTHY}))]
_UNSOLVED = _flag("also errors without a known fix")
Solutions = Annotated[SolutionFilter, Depends(_read(SolutionFilter, _LIST | {"include_unsolved": _UNSOLVED}))]
Lessons = Annotated[LessonFilter, Depends(_read(LessonFilter, _LIST))]
_SESSION_NAMES = ("agent", "project", "peer", "key", "conversation", "trigger_type", "trigger_id", "parent")
Sessions = Annotated[
    SessionFilter,
    Depends(
        _read(
            SessionFilter,
            dict.fromkeys(_SESSION_NAMES, _Name)
            | {"status": Annotated[StoredStatus | None, Query()], "hidden": _flag("also those that were deleted")},
        )
    ),
]
