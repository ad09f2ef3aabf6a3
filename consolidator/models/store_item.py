"""A store item: a value that a program keeps under a namespace and a key, such as a LangGraph agent's own memories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from consolidator.models import ESCAPED

ConditionKind = Literal["$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "object", "length"]
WILDCARD = "*"  # any label, in a pattern


@dataclass(frozen=True, slots=True)
class StoreItemRow:
    """A row of `store_item`, without its vectors."""

    namespace: list[str] = field(metadata=ESCAPED)
    key: str = field(metadata=ESCAPED)
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
