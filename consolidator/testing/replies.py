"""Scripted replies of a stand-in model server: correct, malformed, late, incomplete, or errors."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class ScriptedReply:
    """One reply of the server; the class methods create the usual ones."""

    text: str | None = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    finish_reason: str = "stop"
    refusal: str | None = None
    body: Any = None  # the whole body, instead of a completion
    delay: float = 0  # seconds before the first byte
    disconnect: bool = False  # end the connection in the middle of the body
    usage: dict[str, Any] | None = None  # instead of the counted usage; {} omits it
    as_parts: bool = False  # send the text as a list of parts
    calls: tuple[tuple[str, Any], ...] = ()  # tool calls: a name, and arguments or a string sent as the arguments
    pace: float = 0  # seconds between two pieces of a stream
    stall_after: int | None = None  # pieces of a stream after which nothing follows until the client disconnects
    disconnect_after: int | None = None  # pieces of a stream before a `disconnect`; None: half of them

    @classmethod
    def json(cls, value: Any) -> ScriptedReply:
        """Answer with a JSON value."""
        return cls(text=json.dumps(value, ensure_ascii=False))

    @classmethod
    def calling(cls, *calls: tuple[str, Any], text: str | None = None) -> ScriptedReply:
        """Call tools: each a name with its arguments, or with a string of malformed JSON."""
        return cls(text=text, calls=calls, finish_reason="tool_calls")

    @classmethod
    def disconnecting(cls, text: str, after: int) -> ScriptedReply:
        """Stream the first pieces of a text, then end the connection."""
        return cls(text=text, disconnect=True, disconnect_after=after)

    @classmethod
    def fenced(cls, value: Any) -> ScriptedReply:
        """Answer with JSON in a Markdown code fence, as some models do."""
        return cls(text=f"```json\n{json.dumps(value)}\n```")

    @classmethod
    def truncated(cls, text: str = '{"facts": [{"subj') -> ScriptedReply:
        """Stop at the token limit."""
        return cls(text=text, finish_reason="length")

    @classmethod
    def refused(cls, refusal: str = "I cannot help with that.") -> ScriptedReply:
        """Refuse to answer."""
        return cls(refusal=refusal)

    @classmethod
    def quota_exceeded(cls) -> ScriptedReply:
        """Report in prose, with status 200, that the quota is used up."""
        return cls(text="You have exceeded your current quota, please check your plan and billing details.")

    @classmethod
    def failed(cls, status: int, *, retry_after: float | None = None, message: str = "overloaded") -> ScriptedReply:
        """Fail with an HTTP status."""
        headers = {} if retry_after is None else {"retry-after": str(retry_after)}
        return cls(status=status, headers=headers, body={"error": {"message": message, "type": "server_error"}})

    @classmethod
    def unknown_option(cls, name: str = "response_format") -> ScriptedReply:
        """Reject an option of the request that this server does not support."""
        message = f"Unsupported parameter: '{name}' is not supported with this model."
        return cls(status=400, body={"error": {"message": message, "type": "invalid_request_error", "param": name}})
