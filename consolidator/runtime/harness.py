"""What a process brings to every session it drives: a database, tools, a model's server, and ways to reach people."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from consolidator.context.compaction import Hooks
from consolidator.database import Database
from consolidator.llm.client import ModelClient
from consolidator.runtime.tools.tool import Toolbox
from consolidator.settings import Settings
from consolidator.store.queries import Row

DIRECT = "direct"  # the channel of a session that names none

FinishReason = Literal["stop", "tool_calls", "approval", "budget", "error", "idle", "interrupted"]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that a call took; the cached ones are among the input."""

    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        """Return what both took."""
        return Usage(
            self.input_tokens + other.input_tokens,
            self.cached_tokens + other.cached_tokens,
            self.output_tokens + other.output_tokens,
        )


@dataclass(frozen=True, slots=True)
class StepResult:
    """A slim pointer to what a step did: it is committed up to `to_seq`.

    `finish_reason`: `tool_calls` there is more to do at once, `stop` the model has answered, `approval` a person must
    say a word, `budget` the session's cap is reached, `error` the model's server failed, `interrupted` somebody
    steered, `idle` there was nothing to do.
    """

    to_seq: int
    finish_reason: FinishReason
    usage: Usage = field(default_factory=Usage)
    executed_tool_count: int = 0


@dataclass(frozen=True, slots=True)
class Delta:
    """What reaches a channel: a piece of a message, or the word that what was shown of it is void."""

    session_id: str
    message_id: str
    seq: int  # of the piece in its message, so that a channel can tell a repetition
    text: str
    kind: Literal["text", "void"] = "text"


Sender = Callable[[Delta], Awaitable[None]]  # to return is to acknowledge
Recall = Callable[[Row, str], Awaitable[str | None]]  # of a session's row and its latest message


@dataclass(slots=True)
class Harness:
    """The means of a process; it remembers nothing of any session."""

    database: Database
    settings: Settings
    client: ModelClient
    tools: Toolbox = field(default_factory=Toolbox)
    senders: dict[str, Sender] = field(default_factory=dict)  # by channel
    listeners: dict[str, Sender] = field(default_factory=dict)  # by session, in place of its channel's
    recall: Recall | None = None
    compacting: Hooks = field(default_factory=Hooks)
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    def sender(self, session_id: str, channel: str) -> Sender | None:
        """Return what takes a session's messages in this process, if anything does."""
        return self.listeners.get(session_id) or self.senders.get(channel)

    def lacks(self, session: Mapping[str, Any]) -> list[str]:
        """Return the tools that a session works with and this process does not have."""
        return [name for name in session["config"].get("tools") or () if self.tools.get(name) is None]


def channel_of(session: Mapping[str, Any]) -> str:
    """Return the name of a session's own channel."""
    return str(session["channel"] or DIRECT)
