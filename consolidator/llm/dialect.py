"""What a server takes of the protocol: it begins with all of it, and learns from what is refused."""

from __future__ import annotations

from dataclasses import dataclass, replace

_SHAPES = ("schema", "object", "prose")


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a server can be asked."""

    shape: str = "schema"  # schema | object | prose: how for JSON
    limit: str = "max_completion_tokens"
    steady: bool = True  # whether it takes a temperature
    tells: bool = True  # whether it takes the wish to be told the usage of a stream

    def without(self, refusal: str) -> Dialect | None:
        """Return what is left where a question in this dialect was refused so; None where that was not its fault."""
        low = refusal.lower()
        if "max_completion_tokens" in low and self.limit == "max_completion_tokens":
            return replace(self, limit="max_tokens")
        if "stream_options" in low and self.tells:
            return replace(self, tells=False)
        if "temperature" in low and self.steady:
            return replace(self, steady=False)
        if self.shape != "prose" and any(word in low for word in ("response_format", "json_schema", "json_object")):
            return replace(self, shape=_SHAPES[_SHAPES.index(self.shape) + 1])
        return None

    def common(self, other: Dialect) -> Dialect:
        """Return what two dialects share: each may have learned something that the other had not yet."""
        return Dialect(
            max(self.shape, other.shape, key=_SHAPES.index),
            self.limit if self.limit == other.limit else "max_tokens",
            self.steady and other.steady,
            self.tells and other.tells,
        )
