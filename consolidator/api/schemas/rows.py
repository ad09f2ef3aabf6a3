"""Makes answers from rows: a field's type is the row's, its description the comment on its column or field."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, Self, TypeVar, cast, get_type_hints

from pydantic import BaseModel, Field, create_model

from consolidator.service.database import describe_columns

A = TypeVar("A", bound=BaseModel)
_NONE = re.compile(r"\bNone\b")
_COMMENT = re.compile(r"^    (\w+): .*?  # (.+)$", re.MULTILINE)


def _read_comments(row: type) -> dict[str, str]:
    """Return the comments of a row's own fields; unlike `inspect.getsource`, without parsing the whole module."""
    source = Path(inspect.getfile(row)).read_text(encoding="utf-8")
    body = re.search(rf"^class {row.__name__}\b[^\n]*\n(.*?)(?=^\S|\Z)", source, re.MULTILINE | re.DOTALL)
    return dict(_COMMENT.findall(body[1])) if body else {}


class RowAnswer(BaseModel):
    """An answer that shows a row."""

    @classmethod
    def of(cls, row: Any, **own: Any) -> Self:
        """Return a row as the API shows it; `own` are the fields that it does not have."""
        same = {name: getattr(row, name) for name in cls.model_fields if name not in own and hasattr(row, name)}
        return cast("Self", cls.model_construct(**same, **own))


def list_of(name: str, doc: str, **rows: Any) -> type[BaseModel]:
    """Return an answer of this name that lists rows."""
    fields_of: dict[str, Any] = {field: (list[row], ...) for field, row in rows.items()}  # type: ignore[valid-type]
    return create_model(name, __doc__=doc, **fields_of)


def of_row(
    row: type, table: str | None = None, *, only: str = "", leave_out: str = "", **descriptions: str
) -> Callable[[type[A]], type[A]]:
    """Return what adds a row's fields to an answer, which may have its own in place of some of them.

    `descriptions` are of fields whose comment does not say it. Fields that only people are shown are left out.
    """
    hints, comments = get_type_hints(row), describe_columns(table) if table else {}
    for kind in reversed(row.__mro__[:-1]):
        comments = comments | _read_comments(kind)
    comments = {name: _NONE.sub("null", comment) for name, comment in (comments | descriptions).items()}
    names = only.split() or [field.name for field in fields(row) if field.init]

    def add_fields(answer: type[A]) -> type[A]:
        left = {*leave_out.split(), *answer.model_fields}
        columns: dict[str, Any] = {
            name: (hints[name], Field(description=comments.get(name))) for name in names if name not in left
        }
        return create_model(
            answer.__name__, __base__=answer, __module__=answer.__module__, __doc__=answer.__doc__, **columns
        )

    return add_fields
