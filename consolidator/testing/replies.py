"""What a stand-in for a model's server can answer: well, badly, late, or not at all."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class ScriptedReply:
    """One answer of the server; made by the functions below it."""

    text: str | None = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    finish: str = "stop"
    refusal: str | None = None
    body: Any = None  # the whole body, in place of a completion
    hang: float = 0  # seconds before anything is said
    cut: bool = False  # end the connection in the middle of the body
    usage: dict[str, Any] | None = None  # in place of what was counted; {} leaves it out
    parts: bool = False  # say the text as a list of parts
    calls: tuple[tuple[str, Any], ...] = ()  # tools it asks for: a name, and arguments or what it writes for them
    pace: float = 0  # seconds between two pieces of a stream
    silent_after: int | None = None  # pieces of a stream after which nothing more comes, until nobody listens
    cut_after: int | None = None  # pieces of a stream after which the connection ends; None with `cut`: half of them

    @classmethod
    def json(cls, value: Any) -> ScriptedReply:
        """Answer with a JSON value."""
        return cls(text=json.dumps(value, ensure_ascii=False))

    @classmethod
    def calling(cls, *calls: tuple[str, Any], text: str | None = None) -> ScriptedReply:
        """Ask for tools: each a name with its arguments, or with a text that is badly written JSON."""
        return cls(text=text, calls=calls, finish="tool_calls")

    @classmethod
    def cut_off(cls, text: str, after: int) -> ScriptedReply:
        """Say so many pieces of a text in a stream, then end the connection."""
        return cls(text=text, cut=True, cut_after=after)

    @classmethod
    def fenced(cls, value: Any) -> ScriptedReply:
        """Answer with JSON in a fence of Markdown, as some models do."""
        return cls(text=f"```json\n{json.dumps(value)}\n```")

    @classmethod
    def truncated(cls, text: str = '{"facts": [{"subj') -> ScriptedReply:
        """Be cut off by the limit of tokens."""
        return cls(text=text, finish="length")

    @classmethod
    def refused(cls, told: str = "I cannot help with that.") -> ScriptedReply:
        """Refuse."""
        return cls(refusal=told)

    @classmethod
    def quota(cls) -> ScriptedReply:
        """Say in prose, with status 200, that the quota is used up."""
        return cls(text="You have exceeded your current quota, please check your plan and billing details.")

    @classmethod
    def failed(cls, status: int, *, retry_after: float | None = None, told: str = "overloaded") -> ScriptedReply:
        """Fail with a status."""
        headers = {} if retry_after is None else {"retry-after": str(retry_after)}
        return cls(status=status, headers=headers, body={"error": {"message": told, "type": "server_error"}})

    @classmethod
    def unknown_option(cls, name: str = "response_format") -> ScriptedReply:
        """Refuse an option of the request that this server does not know."""
        told = f"Unsupported parameter: '{name}' is not supported with this model."
        return cls(status=400, body={"error": {"message": told, "type": "invalid_request_error", "param": name}})
