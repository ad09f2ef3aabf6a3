"""Dataclasses that are kept as JSON, with those within them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Self

from pydantic import TypeAdapter

_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)


class Plain:
    """A base of dataclasses; what JSON lacks has its default, and what is unknown in it is left out."""

    __slots__ = ()

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        values: dict[str, Any] = _adapter(type(self)).dump_python(self, mode="json")
        return values

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """Read what `to_json` returned."""
        value: Self = _adapter(cls).validate_python(data)
        return value
