"""Tables as SQLModel classes, for your own queries: `select(Fact).where(Fact.project == "/src/shop")`. They only read.

The fields of a row are its table's columns; what each means stands on its line of `migrations/schema.sql`.
"""

from __future__ import annotations

from dataclasses import fields
from datetime import date, datetime
from decimal import Decimal
from typing import Any, get_args, get_origin, get_type_hints

from sqlalchemy import BigInteger, Boolean, Column, Date, Float, LargeBinary, Numeric, Text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, TIMESTAMP
from sqlalchemy.orm import registry
from sqlmodel import Field, SQLModel

from consolidator.models.event import EventRow
from consolidator.models.fact import CandidateRow, FactRow
from consolidator.models.procedure import ProcedureRow
from consolidator.models.session import SessionRow
from consolidator.models.solution import SolutionRow

_TYPES: dict[Any, Any] = {
    str: Text,
    int: BigInteger,
    bool: Boolean,
    float: Float,
    bytes: LargeBinary,
    date: Date,
    datetime: TIMESTAMP(timezone=True),
    Decimal: Numeric,
    dict: JSONB,
    list[str]: ARRAY(Text),
}


class _Table(SQLModel, registry=registry()):  # whoever creates their own tables creates none of these
    __table_args__ = {"schema": "consolidator"}


def _table_of(row: type) -> Any:
    """Return the table whose columns are the fields of a row type; the first key is `id`."""
    hints = get_type_hints(row)
    types = {field.name: hints[field.name] for field in fields(row) if field.init}
    columns = {name: _column(name, hint) for name, hint in types.items()}
    noun = row.__name__.removesuffix("Row")
    own = {"__tablename__": noun.lower(), "__module__": __name__, "__annotations__": types}
    metaclass: Any = type(SQLModel)
    return metaclass(noun, (_Table,), own | columns, table=True)


def _column(name: str, hint: Any) -> Any:
    types = [part for part in get_args(hint) if part is not type(None)]
    kind = types[0] if types and get_origin(hint) not in (dict, list) else hint  # of `X | None`, X
    column_type = _TYPES.get(kind) or _TYPES.get(get_origin(kind)) or (JSONB if get_origin(kind) is list else Text)
    return Field(sa_column=Column(name, column_type, primary_key=name == "id"))


Candidate, Event, Fact, Procedure, Session, Solution = map(
    _table_of, (CandidateRow, EventRow, FactRow, ProcedureRow, SessionRow, SolutionRow)
)
