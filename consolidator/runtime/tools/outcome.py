"""What came of a tool's call: the words the model reads, and how much of a long result it is shown."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Reason = Literal["rejected", "aborted", "timeout"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a call; `content` is whole, `patch` changes the session's state, `reason` is ToolResult's."""

    content: Any = ""
    status: Literal["ok", "error"] = "ok"
    reason: Reason | None = None
    patch: Mapping[str, Any] | None = None

    @classmethod
    def failed(cls, told: str, reason: Reason | None = None) -> Outcome:
        """Return a failure whose words the model can act on."""
        return cls(told, "error", reason)


def text_of(content: Any) -> str:
    """Return a result's content as the text a model reads; no protocol carries half of a surrogate pair."""
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, default=str)
    return text.encode("utf-8", "replace").decode()


def cut(content: Any, limit: int) -> str:
    """Return a result as text of about `limit` bytes: its beginning and its end, and how much is left out."""
    whole = text_of(content).encode()
    if len(whole) <= limit:
        return whole.decode()
    head, tail = whole[: limit * 3 // 4], whole[len(whole) - limit // 4 :]
    told = f"\n[... {len(whole) - len(head) - len(tail)} of {len(whole)} bytes left out ...]\n"
    return head.decode("utf-8", "ignore") + told + tail.decode("utf-8", "ignore")
