"""The harness: what a process brings to every session it drives. Database, tools, model server and channels."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from consolidator.context.compaction import CompactionHooks
from consolidator.context.reader import TailCache
from consolidator.database import Database
from consolidator.llm.client import ModelClient
from consolidator.memory.procedures.compiled_procedure import CompiledProcedure
from consolidator.models.session import SessionRow
from consolidator.runtime.session.budget import Usage
from consolidator.runtime.session.routing import RoutePolicy
from consolidator.runtime.tools.procedure_tool import is_offered, procedure_tool
from consolidator.runtime.tools.tool import Toolbox
from consolidator.settings import Settings

MAX_SUB_AGENTS = 4  # that one process drives at the same time
MODEL_MISSING = "it waits for a model: this service has none; set CONSOLIDATOR_MODEL, or the session's or agent's own"
TOOLS_MISSING = "it waits for tools that no driver has here: "  # what a session's error begins with, until it is driven
DRIVER_ERRORS = (MODEL_MISSING, TOOLS_MISSING)


def waits_for_driver(error: str | None) -> bool:
    """Tell whether a session's error says that no driver here has its model or its tools."""
    return error is not None and error.startswith(DRIVER_ERRORS)


FinishReason = Literal["stop", "tool_calls", "approval", "budget", "error", "idle", "interrupted"]


@dataclass(frozen=True, slots=True)
class StepResult:
    """A pointer to what a step did: everything up to `to_seq` is committed.

    `finish_reason`: `tool_calls` (there is more to do at once), `stop` (the model has answered), `approval` (a person
    must decide), `budget` (the session's cap is reached), `error` (the model server failed), `interrupted` (a person
    steered or stopped the turn), `idle` (there was nothing to do).
    """

    to_seq: int
    finish_reason: FinishReason
    usage: Usage = field(default_factory=Usage)
    executed_tool_count: int = 0
    is_settled: bool = False  # whether nothing waited any more when the session was released


@dataclass(frozen=True, slots=True)
class Delta:
    """What a channel receives: a chunk of a message or, with kind `void`, the notice that the message is void."""

    session_id: str
    message_id: str
    seq: int  # of the chunk in its message, from 1: a channel recognises repeated chunks by it
    text: str
    kind: Literal["text", "void"] = "text"


@dataclass(frozen=True, slots=True)
class Guard:
    """What is done about a call that is known to fail, before it is logged: each is what a person said yes to."""

    note: str  # beside its result
    arguments: Mapping[str, Any] | None = None  # in place of its own
    first: Mapping[str, Any] | None = None  # of a call of the same tool before it, if that may run again


class GuardFunction(Protocol):
    """Tells what to do about a call before it is logged; None for nothing."""

    def __call__(
        self, session: SessionRow, tool: str, arguments: Any, call_id: str, *, may_go_first: bool
    ) -> Awaitable[Guard | None]: ...


Sender = Callable[[Delta], Awaitable[None]]  # sends a delta to a channel; returning acknowledges it
BranchHook = Callable[[SessionRow, str], Awaitable[Mapping[str, Any] | None]]  # (session, kind of branch)
RecallFunction = Callable[[SessionRow, str], Awaitable[str | None]]  # (session, latest message) -> recalled memory


@dataclass(slots=True)
class Harness:
    """What a process brings to every session it drives; it holds no state of any session but copies of its log."""

    database: Database
    settings: Settings
    client: ModelClient
    tools: Toolbox = field(default_factory=Toolbox)
    procedures: Sequence[CompiledProcedure] = ()
    senders: dict[str, Sender] = field(default_factory=dict)  # by channel
    listeners: dict[str, Sender] = field(default_factory=dict)  # by session; each replaces the session's channel
    recall: RecallFunction | None = None
    guard: GuardFunction | None = None
    policy: RoutePolicy | None = None  # chooses models where a session's is `auto`; None: the default policy
    compaction_hooks: CompactionHooks = field(default_factory=CompactionHooks)
    session_hooks: dict[str, CompactionHooks] = field(default_factory=dict)  # by session; in place of the ones above
    before_branch: BranchHook | None = None  # may give a dream a state to begin with
    tails: TailCache = field(default_factory=TailCache)
    sub_agent_slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_SUB_AGENTS))
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    redacts: bool = False  # the context is another program's log, whose credentials were not for our model

    def find_sender(self, session: SessionRow) -> Sender | None:
        """Return what takes a session's messages in this process, if anything does; a simulation reaches nobody."""
        channel = None if session.simulated else self.senders.get(session.channel_name)
        return self.listeners.get(session.id) or channel

    def tools_of(self, session: SessionRow) -> Toolbox:
        """Return the tools that a session may use, and the compiled procedures whose steps they can make."""
        allowed = self.tools.limited(session.config.get("allowed_tools"))
        fitting = [each for each in self.procedures if is_offered(each, session, allowed.names)]
        if fitting:
            allowed = allowed.extended(map(procedure_tool, fitting))
        return allowed.in_dry_run() if session.is_dry_run else allowed

    def missing_tools(self, config: Mapping[str, Any]) -> list[str]:
        """Return the names of the tools that a session of this configuration uses and this process does not have."""
        return [name for name in config.get("tools") or () if self.tools.get(name) is None]
