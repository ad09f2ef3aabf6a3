"""A typed row says of its table what the schema says: the same columns, and None only where the table has null."""

from __future__ import annotations

import dataclasses
import pkgutil
import re
import typing
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
from sqlmodel import SQLModel, select

import consolidator.models
from consolidator.database import schema
from consolidator.models import tables

NULLABLE: dict[str, dict[str, bool]] = {}  # table -> column -> whether it may be null
for _table, _column, _, _required in schema.columns():
    NULLABLE.setdefault(_table, {})[_column] = not _required


def row_types() -> Iterator[tuple[type, str]]:
    """Yield each row of a whole table with the name of its table."""
    for module in pkgutil.iter_modules(consolidator.models.__path__):
        name = f"consolidator.models.{module.name}"
        for row, value in vars(import_module(name)).items():
            table = re.sub("(?<=[a-z])(?=[A-Z])", "_", row.removesuffix("Row")).lower()
            if row.endswith("Row") and table in NULLABLE and value.__module__ == name:
                yield value, table


ROWS = dict(row_types())


def nullable_fields(row: type) -> dict[str, bool]:
    """Return a row's fields, and whether each may be None."""
    hints: dict[str, Any] = typing.get_type_hints(row, vars(import_module(row.__module__)))
    return {
        field.name: type(None) in typing.get_args(hints[field.name]) for field in dataclasses.fields(row) if field.init
    }


TYPES = {"BIGINT": {"bigint", "integer"}, "TEXT": {"text", "event_kind", "session_kind", "session_status"}}
TYPES |= {"NUMERIC": {"numeric", "max_cost"}, "TIMESTAMP": {"timestamptz"}, "BLOB": {"bytea"}, "ARRAY": {"text[]"}}
TYPES |= {"FLOAT": {"double precision"}}


@pytest.mark.parametrize("table", ["Candidate", "Event", "Fact", "Procedure", "Session", "Solution"])
def test_a_table_for_ones_own_queries_has_the_columns_of_the_schema(table: str) -> None:
    """K2."""
    model = getattr(tables, table)
    assert issubclass(model, SQLModel)
    assert f"FROM consolidator.{table.lower()}" in str(select(model))
    on_page = {name: kind for of, name, kind, _ in schema.columns() if of == table.lower()}
    for column in model.__table__.columns:
        kind = str(column.type)
        assert on_page[column.name] in TYPES.get(kind, {kind.lower()}), column.name


def test_whoever_creates_tables_of_their_own_creates_none_of_ours() -> None:
    assert not {name for name in SQLModel.metadata.tables if name.startswith("consolidator.")}


def test_the_rows_of_whole_tables_are_found() -> None:
    assert len(ROWS) >= 15


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.__name__)
def test_a_row_has_columns_of_its_table(row: type) -> None:
    assert set(nullable_fields(row)) <= set(NULLABLE[ROWS[row]])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.__name__)
def test_a_field_is_optional_where_its_column_is_nullable(row: type) -> None:
    columns = NULLABLE[ROWS[row]]
    assert {name for name, nullable in nullable_fields(row).items() if nullable != columns[name]} == set()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.__name__)
def test_a_row_is_frozen(row: type) -> None:
    assert row.__dataclass_params__.frozen  # type: ignore[attr-defined]
