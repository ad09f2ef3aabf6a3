"""SQLModel tables made from rows, for the selects that are composed from filters: a row's fields are its columns."""

from __future__ import annotations

from dataclasses import fields
from datetime import date, datetime
from decimal import Decimal
from typing import Any, get_args, get_origin, get_type_hints

from sqlalchemy import BigInteger, Boolean, Column, Date, Float, LargeBinary, Numeric, Text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, TIMESTAMP
from sqlmodel import Field, SQLModel

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


def table_of(name: str, row: type) -> Any:
    """Return the SQLModel of the table `name`, whose columns are the fields of a row type; the first key is `id`.

    It is for selects alone: what a column defaults to, and which indexes there are, stands in `schema.sql`.
    """
    hints = get_type_hints(row)
    columns = {field.name: _column(field.name, hints[field.name]) for field in fields(row) if field.init}
    own = {"__tablename__": name, "__module__": __name__, "__annotations__": dict.fromkeys(columns, Any)}
    metaclass: Any = type(SQLModel)
    return metaclass(f"{row.__name__.removesuffix('Row')}Table", (SQLModel,), own | columns, table=True)


def _column(name: str, hint: Any) -> Any:
    types = [part for part in get_args(hint) if part is not type(None)]
    kind = types[0] if types and get_origin(hint) not in (dict, list) else hint  # of `X | None`, X
    column_type = _TYPES.get(kind) or _TYPES.get(get_origin(kind)) or (JSONB if get_origin(kind) is list else Text)
    return Field(sa_column=Column(name, column_type, primary_key=name == "id"))
