"""A store item: a value that a program keeps under a namespace and a key, such as a LangGraph agent's own memories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import Index, LargeBinary, Text, text
from sqlalchemy.dialects.postgresql import ARRAY, DOUBLE_PRECISION, JSONB
from sqlmodel import Field, SQLModel

from consolidator.models.columns import nullable_timestamp_column, timestamp_column

# By code points, so that what begins with the same labels stands together.
_PLAIN_TEXT = Text(collation="C")
ConditionKind = Literal["$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "object", "length"]
WILDCARD = "*"  # any label, in a pattern


@dataclass(frozen=True, slots=True)
class StoreItemRow:
    """A row of `store_item`, without its vectors."""

    namespace: list[str]  # labels, the outermost first
    key: str
    value: Any
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class ScoredItem:
    """An item that a search found."""

    item: StoreItemRow
    score: float | None  # cosine of its nearest vector; None where it has none, or nothing was compared


@dataclass(frozen=True, slots=True)
class Condition:
    """What a value has to say at a path: a comparison, to be an `object`, or to be an array of a `length`."""

    path: Sequence[str]
    kind: ConditionKind
    operand: Any = None


@dataclass(frozen=True, slots=True)
class GetItem:
    """Read one item; `refresh` prolongs it by its time to live."""

    namespace: Sequence[str]
    key: str
    refresh: bool = True


@dataclass(frozen=True, slots=True)
class SearchItems:
    """Read items whose namespace begins with a prefix: the nearest to a vector first, else the latest first."""

    prefix: Sequence[str]
    conditions: Sequence[Condition] = ()
    limit: int = 10
    offset: int = 0
    vector: Sequence[float] | None = None
    refresh: bool = True


@dataclass(frozen=True, slots=True)
class NamespacePattern:
    """Labels that a namespace begins or ends with; `*` is any label."""

    labels: Sequence[str]
    at_end: bool = False


@dataclass(frozen=True, slots=True)
class ListNamespaces:
    """Read namespaces that fit all patterns, cut to a depth."""

    patterns: Sequence[NamespacePattern] = ()
    max_depth: int | None = None
    limit: int = 100
    offset: int = 0


@dataclass(frozen=True, slots=True)
class PutItem:
    """Write an item, or delete it: without a value. Its vectors are what searches compare."""

    namespace: Sequence[str]
    key: str
    value: Any | None
    ttl_minutes: float | None = None  # since it was last written, or read with `refresh`
    vectors: Sequence[Sequence[float]] = ()


Operation = GetItem | SearchItems | ListNamespaces | PutItem


class StoreItemTable(SQLModel, table=True):
    """One row an item; no event and no evidence, so that programs may change and delete it."""

    __tablename__ = "store_item"
    __table_args__ = (Index("store_item_expires", "expires_at", postgresql_where=text("expires_at is not null")),)

    namespace: list[str] = Field(sa_type=ARRAY(_PLAIN_TEXT), primary_key=True, nullable=False)
    key: str = Field(sa_type=_PLAIN_TEXT, primary_key=True, nullable=False)
    value: dict[str, Any] = Field(sa_type=JSONB, nullable=False)
    vectors: list[bytes] = Field(
        default_factory=list,
        sa_type=ARRAY(LargeBinary),
        nullable=False,
        sa_column_kwargs={"server_default": text("'{}'::bytea[]")},
    )
    created_at: datetime = timestamp_column()
    updated_at: datetime = timestamp_column()
    ttl_minutes: float | None = Field(default=None, sa_type=DOUBLE_PRECISION, nullable=True)
    expires_at: datetime | None = nullable_timestamp_column()
