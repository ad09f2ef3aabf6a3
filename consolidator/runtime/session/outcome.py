"""The outcome of a tool call: the text that the model reads, and how much of a long result it is shown."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from consolidator.memory.procedures.compiled_procedure import ProcedureRun
    from consolidator.runtime.session.changes import SessionChange

FailureReason = Literal["rejected", "aborted", "timeout"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a tool call."""

    content: Any = ""  # the whole result, not truncated
    status: Literal["ok", "error"] = "ok"
    reason: FailureReason | None = None  # as in the ToolResult event
    patch: Mapping[str, Any] | None = None  # a change of the session's state
    change: SessionChange | None = None  # what else it changes of its session; its answer replaces the content
    run: ProcedureRun | None = None  # a compiled procedure whose first step is the next call

    @classmethod
    def failed(cls, message: str, reason: FailureReason | None = None) -> Outcome:
        """Return a failure with a message that the model can act on."""
        return cls(message, "error", reason)


def to_text(content: Any) -> str:
    """Return a result's content as the text that a model reads. Lone surrogates become `?`: no protocol takes them."""
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, default=str)
    return text.encode("utf-8", "replace").decode()


def truncate(content: Any, limit: int) -> str:
    """Return a result as text of about `limit` bytes: its beginning, its end, and how much is left out between."""
    encoded = to_text(content).encode()
    if len(encoded) <= limit:
        return encoded.decode()
    head, tail = encoded[: limit * 3 // 4], encoded[len(encoded) - limit // 4 :]
    note = f"\n[... {len(encoded) - len(head) - len(tail)} of {len(encoded)} bytes left out ...]\n"
    return head.decode("utf-8", "ignore") + note + tail.decode("utf-8", "ignore")
