"""Error records: a failed call of a session, and what resolved it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from consolidator.memory.calls.argument_diff import ArgumentChange


@dataclass(frozen=True, slots=True)
class FixStep:
    """A successful call between an error and its resolver."""

    symbol: str
    argument: str  # what the call was given, redacted
    detail: str = ""  # of an edit: what it replaced by what


@dataclass(frozen=True, slots=True)
class ErrorRecord:
    """A failed call and its outcome. All texts are redacted."""

    seq: int  # of the ToolCall event
    index: int  # of the call in its session, 0-based
    result_seq: int  # of the ToolResult event
    occurred_at: str  # of the call, ISO 8601
    tool: str
    symbol: str  # "sh:git push"; else the tool's name
    operation: str  # the key of its `Operation`
    fingerprint: str
    headline: str  # the line that says what went wrong
    quote: str  # an excerpt of the result, verbatim but redacted
    failing: str  # summary of what the call was given
    status: str = "open"  # open | resolved | unresolved | noise
    noise_reason: str | None = None  # rejected | aborted | cascade | found nothing | polling
    resolver_index: int | None = None  # of the resolving call in its session
    resolver_seq: int | None = None
    resolver_symbol: str | None = None
    rule: str | None = None  # same-operation | substitution | superseded
    resolving: str | None = None  # summary of what the resolver was given
    fix: tuple[ArgumentChange, ...] = ()  # failing -> resolving
    between: tuple[FixStep, ...] = ()  # successes in between, up to the first run that failed with another error
    tried: tuple[str, ...] = ()  # attempts in between that failed with the same error

    def to_json(self) -> dict[str, Any]:
        """Return the record as JSON."""
        return {
            **asdict(self),
            "fix": [asdict(change) for change in self.fix],
            "between": [asdict(step) for step in self.between],
            "tried": list(self.tried),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ErrorRecord:
        """Read what `to_json` returned."""
        tuples = {
            "fix": tuple(ArgumentChange(**change) for change in data["fix"]),
            "between": tuple(FixStep(**step) for step in data["between"]),
            "tried": tuple(data["tried"]),
        }
        return cls(**{**data, **tuples})
