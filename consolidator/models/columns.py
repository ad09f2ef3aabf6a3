"""Column types every table uses, so that a table reads as a list of nouns."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Integer, LargeBinary, Text, text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, TIMESTAMP
from sqlmodel import Field

MOMENT = TIMESTAMP(timezone=True)


def words(*, primary_key: bool = False, default: str | None = None) -> Any:
    """A text that must be there."""
    server = {} if default is None else {"server_default": text(f"'{default}'")}
    return Field(default=default, sa_type=Text, primary_key=primary_key, nullable=False, sa_column_kwargs=server)


def maybe_words() -> Any:
    """A text that may be missing."""
    return Field(default=None, sa_type=Text, nullable=True)


def count(default: int = 0, *, primary_key: bool = False) -> Any:
    """A whole number that starts at `default`."""
    kwargs = {} if primary_key else {"server_default": text(str(default))}
    return Field(default=default, sa_type=BigInteger, primary_key=primary_key, nullable=False, sa_column_kwargs=kwargs)


def small(default: int = 0) -> Any:
    """A small whole number that starts at `default`."""
    server = {"server_default": text(str(default))}
    return Field(default=default, sa_type=Integer, nullable=False, sa_column_kwargs=server)


def maybe_small() -> Any:
    """A small whole number that may be missing."""
    return Field(default=None, sa_type=Integer, nullable=True)


def flag(default: bool = False) -> Any:
    """Yes or no."""
    return Field(default=default, nullable=False, sa_column_kwargs={"server_default": text(str(default).lower())})


def moment(*, primary_key: bool = False) -> Any:
    """A time that must be there."""
    return Field(sa_type=MOMENT, nullable=False, primary_key=primary_key)


def maybe_moment() -> Any:
    """A time that may be missing."""
    return Field(default=None, sa_type=MOMENT, nullable=True)


def document() -> Any:
    """A JSON object."""
    return Field(
        default_factory=dict, sa_type=JSONB, nullable=False, sa_column_kwargs={"server_default": text("'{}'::jsonb")}
    )


def listing() -> Any:
    """A JSON list."""
    return Field(
        default_factory=list, sa_type=JSONB, nullable=False, sa_column_kwargs={"server_default": text("'[]'::jsonb")}
    )


def packed() -> Any:
    """Bytes whose meaning the code that packs them knows."""
    server = {"server_default": text("''::bytea")}
    return Field(default=b"", sa_type=LargeBinary, nullable=False, sa_column_kwargs=server)


def maybe_packed() -> Any:
    """Bytes that may be missing."""
    return Field(default=None, sa_type=LargeBinary, nullable=True)


def names() -> Any:
    """A list of texts."""
    return Field(
        default_factory=list,
        sa_type=ARRAY(Text),
        nullable=False,
        sa_column_kwargs={"server_default": text("'{}'::text[]")},
    )
