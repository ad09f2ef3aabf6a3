"""Loads the named queries of the .sql files beside the modules that run them, and fetches typed rows.

A query's rows become instances of a frozen dataclass whose fields are the selected columns; a query that selects
other columns fails at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set, ValuesView
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, LiteralString, TypeVar, TypeVarTuple, cast

from psycopg.rows import BaseRowFactory, RowMaker

from consolidator.database.jsonb import ESCAPE_MARK, as_jsonb, escape, unescape
from consolidator.database.partitions import Connection
from consolidator.errors import NotFound

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from psycopg._cursor_base import BaseCursor
from typing import Literal

T = TypeVar("T")
K = TypeVar("K")
Ts = TypeVarTuple("Ts")
_INCLUDE = re.compile(r"^ *-- include: (\w+)\s*$", re.MULTILINE)
_COMMENT = re.compile(r"^ *--.*\n|^ +", re.MULTILINE)
_TEXT = re.compile(r"%\((\w+)!\)")
_PLACEHOLDER = re.compile(r"%\((\w+)\)[sb]")
_NAME = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)
# What a caller gives as one value: where a page begins, and between which times a session's events were ingested.
_PAIRS = {"after": ("at", "last_id"), "bounds": ("low", "high")}


def load(name: str, *before: str) -> dict[str, LiteralString]:
    """Return the queries of store/<name>.sql by their names; a query may include another that stands before it.

    What the files `before` hold stands before it, too. Comments and indents are left out: the driver remembers how it
    has converted a query only if that is short.
    """
    queries: dict[str, LiteralString] = {}
    for earlier in before:
        queries |= load(earlier)
    text = (Path(__file__).parent / f"{name}.sql").read_text(encoding="utf-8")
    parts = _NAME.split(text)
    for key, body in zip(parts[1::2], parts[2::2], strict=True):
        queries[key] = _COMMENT.sub("", _INCLUDE.sub(lambda include: queries[include[1]], body.strip()))
    return queries


def _typed_row(row_type: type[T]) -> BaseRowFactory[T]:
    """Return what makes rows of a type, their texts unescaped."""
    cached_type: Any = row_type  # a class is hashable

    def create_factory(cursor: BaseCursor[Any, T]) -> RowMaker[T]:
        result = cursor.pgresult  # its names alone: a `description` makes an object with all that is known of a column
        return _row_maker(cached_type, tuple(map(result.fname, range(result.nfields))) if result else ())

    return create_factory


@cache
def _row_maker(row_type: Any, columns: tuple[bytes | None, ...]) -> RowMaker[Any]:
    """Return what makes a row of a query's columns: by position where they are the type's fields, as is faster."""
    taken = [column for column in fields(row_type) if column.init]
    names = [(column or b"").decode() for column in columns]
    texts = [column.name for column in taken if "escaped" in column.metadata]
    order = [names.index(column.name) for column in taken if column.name in names and not column.kw_only]
    make: RowMaker[Any]
    if len(order) < len(names) or len(order) < len(taken) or len(order) < 2:
        make = lambda values: row_type(**dict(zip(names, values, strict=True)))  # noqa: E731 - one of three
    elif order == sorted(order):
        make = lambda values: row_type(*values)  # noqa: E731
    else:
        pick = itemgetter(*order)
        make = lambda values: row_type(*pick(values))  # noqa: E731
    return (lambda values: _unescape_texts(make(values), texts)) if texts else make


def _unescape_texts(row: T, names: Sequence[str]) -> T:
    texts = {name: text for name in names if (text := getattr(row, name)) is not None}
    if not any(ESCAPE_MARK in each for text in texts.values() for each in ([text] if isinstance(text, str) else text)):
        return row  # as most are: to copy one takes longer than to make it
    readable = {
        name: list(map(unescape, text)) if isinstance(text, list) else unescape(text) for name, text in texts.items()
    }
    changed: T = replace(cast("Any", row), **readable)
    return changed


async def fetch_all(
    conn: Connection,
    row_type: type[T],
    query: LiteralString,
    values: Mapping[str, Any] | None = None,
    *,
    binary: bool = False,
    prepare: bool | None = None,
) -> list[T]:
    """Run a query and return all its rows as instances of `row_type`."""
    async with conn.cursor(row_factory=_typed_row(row_type), binary=binary) as cursor:
        await cursor.execute(query, values, prepare=prepare)
        return await cursor.fetchall()


async def fetch_one(
    conn: Connection,
    row_type: type[T],
    query: LiteralString,
    values: Mapping[str, Any] | None = None,
    *,
    binary: bool = False,
) -> T | None:
    """Run a query and return its first row as an instance of `row_type`; None where it has no row."""
    async with conn.cursor(row_factory=_typed_row(row_type), binary=binary) as cursor:
        await cursor.execute(query, values)
        return await cursor.fetchone()


async def fetch_each(
    conn: Connection, row_type: type[T], query: LiteralString, values: Sequence[Mapping[str, Any]]
) -> list[list[T]]:
    """Run a query once for each of several parameter sets, in one round trip; return the rows of each."""
    if not values:
        return []
    results: list[list[T]] = []
    async with conn.cursor(row_factory=_typed_row(row_type)) as cursor:
        await cursor.executemany(query, values, returning=True)
        async for result in cursor.results():
            results.append(await result.fetchall())
    return results


async def fetch_value(conn: Connection, query: LiteralString, values: Mapping[str, Any] | None = None) -> Any:
    """Run a query and return the first column of its first row; None where it has no row."""
    cursor = await conn.execute(query, values)
    row = await cursor.fetchone()
    return None if row is None else row[0]


async def fetch_column(
    conn: Connection, query: LiteralString, values: Mapping[str, Any] | None = None, *, prepare: bool | None = None
) -> list[Any]:
    """Run a query and return the first column of all its rows."""
    cursor = await conn.execute(query, values, prepare=prepare)
    return [row[0] for row in await cursor.fetchall()]


async def execute(conn: Connection, query: LiteralString, values: Mapping[str, Any] | None = None) -> int:
    """Run a statement and return how many rows it touched."""
    cursor = await conn.execute(query, values)
    return cursor.rowcount


async def execute_each(conn: Connection, query: LiteralString, values: Sequence[Mapping[str, Any]]) -> int:
    """Run a statement for each of several parameter sets in one round trip; return the number of touched rows."""
    if not values:
        return 0
    async with conn.cursor() as cursor:
        await cursor.executemany(query, values)
        return cursor.rowcount


class _Query(Generic[*Ts]):
    """A named query as a function of a connection and its parameters, the first of them by position, as in `names`.

    Other parameters are given by name; those with a default may be left out. The name `*` stands for a row whose fields
    are parameters, `**` for rows that are: an array for each field that the query has beside the other parameters. Sets
    become arrays, mappings jsonb, the pairs of `_PAIRS` two parameters each; the texts of `%(name!)s` are escaped.
    """

    def __init__(self, query: LiteralString, names: str = "", **defaults: Any) -> None:
        self._texts = set(_TEXT.findall(query))
        self.query: LiteralString = query.replace("!)", ")")
        placeholders = dict.fromkeys(_PLACEHOLDER.findall(self.query))
        self._placeholders = placeholders.keys()
        self._names = names.split() or (list(placeholders) if len(placeholders) == 1 else [])
        self._defaults = defaults
        if not {*self._names, *defaults} - {"*", "**", *_PAIRS} <= self._placeholders:
            raise ValueError(f"a query with the parameters {list(placeholders)} is given {self._names}, {defaults}")

    def bind(self, values: tuple[*Ts], named: Mapping[str, Any]) -> dict[str, Any]:
        """Return the query's parameters by their names; raise TypeError if they are not those of the query."""
        bound = {**self._defaults, **named, **dict(zip(self._names, cast("tuple[Any, ...]", values), strict=False))}
        row, rows = bound.pop("*", None), bound.pop("**", None)
        for pair in _PAIRS.keys() & bound.keys() - self._placeholders:
            bound |= zip(_PAIRS[pair], bound.pop(pair) or (None, None), strict=True)
        if rows is not None:
            bound |= {name: [_field(each, name) for each in rows] for name in self._placeholders - bound.keys()}
        if row is not None:
            of_row = row if isinstance(row, Mapping) else row.values() if hasattr(row, "values") else row_values(row)
            bound = {**of_row, **bound}
        named_all = bound.keys() == self._placeholders or (row is not None and bound.keys() > self._placeholders)
        if not named_all or len(values) > len(self._names):
            raise TypeError(f"a query with the parameters {list(self._placeholders)} is called with {list(bound)}")
        return {name: _adapt(value, is_text=name in self._texts) for name, value in bound.items()}


def _field(row: Any, name: str) -> Any:
    return row[name] if isinstance(row, Mapping) else getattr(row, name)


def _adapt(value: Any, *, is_text: bool) -> Any:
    if is_text and value is not None:
        return escape(value) if isinstance(value, str) else [text and escape(text) for text in value]
    if isinstance(value, Mapping):
        return as_jsonb(dict(value))
    return list(value) if isinstance(value, (tuple, Set, ValuesView)) else value


class Statement(_Query[*Ts]):
    """A statement; it returns how many rows it touched."""

    async def __call__(self, conn: Connection, *values: *Ts, **named: Any) -> int:
        return await execute(conn, self.query, self.bind(values, named))


class Attempt(_Query[*Ts]):
    """A statement; it returns whether it touched a row."""

    async def __call__(self, conn: Connection, *values: *Ts, **named: Any) -> bool:
        return await execute(conn, self.query, self.bind(values, named)) > 0


class StatementEach(_Query[*tuple[Any, ...]]):
    """A statement that is run for each of several rows in one round trip; it returns how many rows it touched.

    A row is a tuple of the parameters in `names`, or the only one of these. With `order` the rows are sorted by these
    parameters, so that two writers never wait for each other in a circle.
    """

    def __init__(self, query: LiteralString, names: str = "*", *, order: str = "", **defaults: Any) -> None:
        super().__init__(query, names, **defaults)
        self._order = order.split()

    def bind_each(self, rows: Iterable[Any], named: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the query's parameters for each row."""
        bound = [self.bind(row if type(row) is tuple else (row,), named) for row in rows]
        return sorted(bound, key=lambda each: [each[name] for name in self._order]) if self._order else bound

    async def __call__(self, conn: Connection, rows: Iterable[Any], **named: Any) -> int:
        return await execute_each(conn, self.query, self.bind_each(rows, named))


class AttemptEach(StatementEach):
    """A statement for each of several rows; it returns whether it touched one row for each."""

    async def __call__(self, conn: Connection, rows: Iterable[Any], **named: Any) -> bool:
        bound = self.bind_each(rows, named)
        return await execute_each(conn, self.query, bound) == len(bound)


class UpsertEach(StatementEach):
    """A query that returns `added` for each row it writes; it returns what it did to each, None for nothing."""

    async def __call__(  # type: ignore[override] # what it did is more than how often
        self, conn: Connection, rows: Iterable[Any], **named: Any
    ) -> list[Outcome | None]:
        results = await fetch_each(conn, _Upserted, self.query, self.bind_each(rows, named))
        return [None if not written else "added" if written[0].added else "changed" for written in results]


class RowQuery(_Query[*Ts], Generic[T, *Ts]):
    """A query that only reads, and the type of its rows."""

    def __init__(
        self, row_type: type[T], query: LiteralString, names: str = "", *, binary: bool = False, **defaults: Any
    ) -> None:
        super().__init__(query, names, **defaults)
        self.row_type = row_type
        self.binary = binary  # whether the server sends the rows so, as is faster for large arrays

    def together(self, *values: *Ts, **named: Any) -> Bound:
        """Return the query for `fetch_together`."""
        return _typed_row(self.row_type), self.query, self.bind(values, named)


class Rows(RowQuery[T, *Ts]):
    """A query of rows; it returns all of them."""

    prepare: bool | None = None  # by the driver, as often as it is asked

    async def __call__(self, conn: Connection, *values: *Ts, **named: Any) -> list[T]:
        bound = self.bind(values, named)
        return await fetch_all(conn, self.row_type, self.query, bound, binary=self.binary, prepare=self.prepare)


class RowsByFilter(Rows[T, *Ts]):
    """A query of rows by filters that are left out where they are null: it is planned for the values it is given."""

    prepare = False


class FirstRow(RowQuery[T, *Ts]):
    """A query of one row; it returns None where there is none."""

    async def __call__(self, conn: Connection, *values: *Ts, **named: Any) -> T | None:
        return await fetch_one(conn, self.row_type, self.query, self.bind(values, named), binary=self.binary)


class OneRow(RowQuery[T, *Ts]):
    """A query that always has a row, such as one of sums; it returns that.

    With `missing`, which has a place for the first parameter, it raises NotFound where there is none.
    """

    def __init__(
        self, row_type: type[T], query: LiteralString, names: str = "", *, missing: str = "", **defaults: Any
    ) -> None:
        super().__init__(row_type, query, names, **defaults)
        self.missing = missing

    async def __call__(self, conn: Connection, *values: *Ts, **named: Any) -> T:
        row = await fetch_one(conn, self.row_type, self.query, self.bind(values, named))
        if row is None and self.missing:
            raise NotFound(self.missing.format(*values))
        assert row is not None
        return row


Bound = tuple[BaseRowFactory[Any], LiteralString, Mapping[str, Any]]  # a query with what makes its rows, and its values


async def fetch_together(conn: Connection, queries: Sequence[Bound]) -> list[list[Any]]:
    """Run several queries in one round trip, which commits where it ends; return the rows of each."""
    cursors = [conn.cursor(row_factory=row_factory) for row_factory, _, _ in queries]
    async with conn.pipeline() if len(queries) > 1 else nullcontext():
        for cursor, (_, query, values) in zip(cursors, queries, strict=True):
            await cursor.execute(query, values)
    return [await cursor.fetchall() for cursor in cursors]


class RowsByKey(RowQuery[T, *Ts], Generic[K, T, *Ts]):
    """A query of rows; it returns them by their first column."""

    async def __call__(self, conn: Connection, *values: *Ts, **named: Any) -> dict[K, T]:
        rows = await fetch_all(conn, self.row_type, self.query, self.bind(values, named))
        key = fields(cast("type[DataclassInstance]", self.row_type))[0].name
        return {getattr(row, key): row for row in rows}


class Column(_Query[*Ts], Generic[T, *Ts]):
    """A query of one column; it returns the column of all rows."""

    async def __call__(self, conn: Connection, *values: *Ts, **named: Any) -> list[T]:
        return await fetch_column(conn, self.query, self.bind(values, named))


class ColumnSet(_Query[*Ts], Generic[T, *Ts]):
    """A query of one column; it returns the values that are in it."""

    async def __call__(self, conn: Connection, *values: *Ts, **named: Any) -> set[T]:
        return set(await fetch_column(conn, self.query, self.bind(values, named)))


class Tuples(_Query[*Ts], Generic[T, *Ts]):
    """A query whose rows stay tuples; it returns all of them."""

    async def __call__(self, conn: Connection, *values: *Ts, **named: Any) -> list[T]:
        cursor = await conn.execute(self.query, self.bind(values, named))
        return cast("list[T]", await cursor.fetchall())


class Pairs(_Query[*Ts], Generic[K, T, *Ts]):
    """A query of two columns; it returns the second by the first."""

    async def __call__(self, conn: Connection, *values: *Ts, **named: Any) -> dict[K, T]:
        cursor = await conn.execute(self.query, self.bind(values, named))
        return dict(cast("list[tuple[K, T]]", await cursor.fetchall()))


class Value(_Query[*Ts], Generic[T, *Ts]):
    """A query of one value, None where it has no row."""

    async def __call__(self, conn: Connection, *values: *Ts, **named: Any) -> T:
        return cast("T", await fetch_value(conn, self.query, self.bind(values, named)))


def row_values(row: DataclassInstance) -> dict[str, Any]:
    """Return a row's values by column, as parameters of a query; unlike `asdict` it copies none of them."""
    values = {column.name: getattr(row, column.name) for column in fields(row) if column.init}
    for column in fields(row):
        if "escaped" in column.metadata and isinstance(values[column.name], str):
            values[column.name] = escape(values[column.name])
    return values


Outcome = Literal["added", "changed"]


@dataclass(frozen=True, slots=True)
class _Upserted:
    added: bool
