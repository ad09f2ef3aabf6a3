"""A typed row says of its table what the table says: the same columns, and None only where the table has null."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from consolidator.models.tables import METADATA, MODULES


def row_types() -> Iterator[tuple[type, str]]:
    """Yield each row of a whole table with the name of its table."""
    for module in MODULES:
        for name, value in vars(module).items():
            table = getattr(module, name.removesuffix("Row") + "Table", None)
            if name.endswith("Row") and table is not None and value.__module__ == module.__name__:
                yield value, str(table.__tablename__)


ROWS = dict(row_types())


def nullable_fields(row: type) -> dict[str, bool]:
    """Return a row's fields, and whether each may be None."""
    hints: dict[str, Any] = typing.get_type_hints(row, vars(import_module(row.__module__)))
    return {field.name: type(None) in typing.get_args(hints[field.name]) for field in dataclasses.fields(row)}


def test_the_rows_of_whole_tables_are_found() -> None:
    assert len(ROWS) >= 15


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.__name__)
def test_a_row_has_columns_of_its_table(row: type) -> None:
    columns = METADATA.tables[ROWS[row]].columns
    assert set(nullable_fields(row)) <= set(columns.keys())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.__name__)
def test_a_field_is_optional_where_its_column_is_nullable(row: type) -> None:
    columns = METADATA.tables[ROWS[row]].columns
    differing = {name for name, nullable in nullable_fields(row).items() if nullable != columns[name].nullable}
    assert differing == set()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.__name__)
def test_a_row_is_frozen(row: type) -> None:
    assert row.__dataclass_params__.frozen  # type: ignore[attr-defined]
