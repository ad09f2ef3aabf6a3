"""Column definitions that the tables share, named after their types."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Integer, LargeBinary, Text, text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, TIMESTAMP
from sqlmodel import Field

TIMESTAMP_WITH_ZONE = TIMESTAMP(timezone=True)

PEOPLE_ONLY = "people_only"  # in the metadata of a row's field: no program gets it


def text_column(*, primary_key: bool = False, default: str | None = None) -> Any:
    """A text, not null."""
    server = {} if default is None else {"server_default": text(f"'{default}'")}
    return Field(default=default, sa_type=Text, primary_key=primary_key, nullable=False, sa_column_kwargs=server)


def nullable_text_column() -> Any:
    """A text or null."""
    return Field(default=None, sa_type=Text, nullable=True)


def bigint_column(default: int = 0, *, primary_key: bool = False) -> Any:
    """A bigint, not null."""
    kwargs = {} if primary_key else {"server_default": text(str(default))}
    return Field(default=default, sa_type=BigInteger, primary_key=primary_key, nullable=False, sa_column_kwargs=kwargs)


def integer_column(default: int = 0) -> Any:
    """An integer, not null."""
    server = {"server_default": text(str(default))}
    return Field(default=default, sa_type=Integer, nullable=False, sa_column_kwargs=server)


def nullable_integer_column() -> Any:
    """An integer or null."""
    return Field(default=None, sa_type=Integer, nullable=True)


def float_column(default: int = 0) -> Any:
    """A double, not null."""
    return Field(default=float(default), nullable=False, sa_column_kwargs={"server_default": text(str(default))})


def boolean_column(default: bool = False, *, primary_key: bool = False) -> Any:
    """A boolean, not null."""
    server = {"server_default": text(str(default).lower())}
    return Field(default=default, nullable=False, primary_key=primary_key, sa_column_kwargs=server)


def timestamp_column(*, primary_key: bool = False) -> Any:
    """A timestamp with time zone, not null."""
    return Field(sa_type=TIMESTAMP_WITH_ZONE, nullable=False, primary_key=primary_key)


def nullable_bigint_column() -> Any:
    """A nullable 64-bit number."""
    return Field(default=None, sa_type=BigInteger, nullable=True)


def nullable_timestamp_column() -> Any:
    """A timestamp with time zone, or null."""
    return Field(default=None, sa_type=TIMESTAMP_WITH_ZONE, nullable=True)


def json_object_column() -> Any:
    """A jsonb object, not null."""
    return Field(
        default_factory=dict, sa_type=JSONB, nullable=False, sa_column_kwargs={"server_default": text("'{}'::jsonb")}
    )


def json_list_column() -> Any:
    """A jsonb array, not null."""
    return Field(
        default_factory=list, sa_type=JSONB, nullable=False, sa_column_kwargs={"server_default": text("'[]'::jsonb")}
    )


def bytes_column() -> Any:
    """A bytea, not null."""
    server = {"server_default": text("''::bytea")}
    return Field(default=b"", sa_type=LargeBinary, nullable=False, sa_column_kwargs=server)


def nullable_bytes_column() -> Any:
    """A bytea or null."""
    return Field(default=None, sa_type=LargeBinary, nullable=True)


def text_array_column() -> Any:
    """A text array, not null."""
    return Field(
        default_factory=list,
        sa_type=ARRAY(Text),
        nullable=False,
        sa_column_kwargs={"server_default": text("'{}'::text[]")},
    )
