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
from consolidator.models.fact import FactRow
from consolidator.models.solution import SolutionRow
from consolidator.store.memory.listing import FactTable, SolutionTable

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


def test_lists_are_composed_of_sqlmodel_tables_with_the_columns_of_their_rows() -> None:
    """K2."""
    tables = {SolutionTable: SolutionRow, FactTable: FactRow}
    for table, row in tables.items():
        assert issubclass(table, SQLModel)
        assert set(table.__table__.columns.keys()) <= NULLABLE[ROWS[row]].keys()
        assert f"FROM {ROWS[row]}" in str(select(table))


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
