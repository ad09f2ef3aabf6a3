"""Accepts the members of the sessions' specification beside ours: each is renamed before a body is checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import model_validator


def accept_members(names: Mapping[str, str], *, inside: str | None = None) -> Any:
    """Return a validator that takes these names for ours; a member `inside` holds further ones, as if not nested.

    A member that stands there under both names is refused, and so is what nobody knows.
    """

    def rename(body: Any) -> Any:
        if not isinstance(body, Mapping):
            return body
        members = {name: value for name, value in body.items() if name != inside}
        nested = body.get(inside) if inside is not None else None
        if inside is not None and inside in body and not isinstance(nested, Mapping):
            members[inside] = nested  # which the check refuses by its name
            nested = None
        ours: dict[str, Any] = {}
        for name, value in [*members.items(), *(nested or {}).items()]:
            target = names.get(name, name)
            if target in ours:
                raise ValueError(f"{name} is named twice, also as {target}: leave one of them out")
            ours[target] = value
        return ours

    return model_validator(mode="before")(rename)
