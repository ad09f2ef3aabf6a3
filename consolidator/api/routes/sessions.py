"""/v1/sessions: open, list, show, end and delete sessions; all that a surface needs to show one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Literal, Self

from fastapi import APIRouter, Query
from pydantic import BaseModel, BeforeValidator, Field
from starlette.responses import Response

from consolidator.api.call import Call, Reading, Writing, operation, reply
from consolidator.api.parameters import Sessions
from consolidator.api.schemas import (
    LABELS,
    SPECIFIED,
    Checkpoint,
    Input,
    RequestOptions,
    RowAnswer,
    Scratchpad,
    Session,
    SessionId,
    SessionPage,
    StoredEvent,
    StoredSeed,
    Task,
    accept_members,
    of_row,
)
from consolidator.errors import UsageError
from consolidator.models.session import Seed as NewSeed
from consolidator.models.session import SessionCursor, SessionOrder, SessionRow
from consolidator.runtime.session import creation
from consolidator.runtime.session.agent_defaults import MAX_SECONDS
from consolidator.runtime.session.creation import MAX_SEED_CHARACTERS, MAX_SEEDS, SessionRequest
from consolidator.runtime.session.fold import OpenCall as FoldedCall
from consolidator.runtime.session.hydration import MAX_MESSAGES
from consolidator.runtime.session.safe_points import Recovery
from consolidator.runtime.turn import sessions as runtime
from consolidator.service.encoding import MAX_LENGTH, decode_cursor, encode_cursor
from consolidator.service.sessions import listing

router = APIRouter(tags=["sessions"])


class Seed(Input):
    """A message of the earlier thread, as another system has it."""

    role: Literal["user", "assistant", "tool"]
    content: str = Field(max_length=MAX_SEED_CHARACTERS)
    is_new: bool = Field(default=False, description="whether the session begins with it, and was not there before")
    occurred_at: datetime | None = None
    details: dict[str, Any] = Field(default_factory=dict)


class OpenSession(RequestOptions):
    """What a session begins with; what is null is the agent's, or stays as it is.

    A session that exists has its beginning: another project, conversation, trigger or seeds is refused (409).
    """

    _accept_specification = accept_members(SPECIFIED, inside="config")

    key: str | None = Field(
        default=None, min_length=1, max_length=300, description="agent:channel:peer", examples=["main:web:mara"]
    )
    new: bool = Field(default=False, description="create one also where the key names a session, and give it the key")
    agent: Annotated[
        str | None, BeforeValidator(lambda name: str(name) if type(name) is int and 0 <= name < 2**64 else name)
    ] = Field(default=None, min_length=1, max_length=200, description="or a number; with a key, the one that it names")
    channel: str | None = Field(default=None, min_length=1, max_length=200, description="without a key")
    peer: str | None = Field(default=None, min_length=1, max_length=300, description="without a key")
    system: str | None = Field(default=None, max_length=200_000, description="the system prompt")
    budget: int | None = Field(default=None, ge=1, le=100_000_000, description="tokens of the context")
    last: int | None = Field(default=None, ge=1, le=100_000, description="events that the strategy window shows")
    context_window: int | None = Field(default=None, ge=1, le=100_000_000, description="tokens, of an unknown model")
    session_ttl_seconds: int | None = Field(default=None, ge=1, le=MAX_SECONDS, description="after the last message")
    checkpoint_ttl_seconds: int | None = Field(default=None, ge=1, le=MAX_SECONDS)
    before_compact: str | None = Field(default=None, max_length=100, description="name of a webhook")
    labels: dict[str, str | int | float | bool] | None = Field(default=None, examples=[{"space_id": "s1"}])
    project: str | None = Field(default=None, min_length=1, max_length=1000)
    space_id: str | None = Field(default=None, min_length=1, max_length=500, description="a label of this name")
    mailbox_id: str | None = Field(default=None, min_length=1, max_length=500, description="a label of this name")
    policy: dict[str, Any] | None = Field(default=None, description="what the trigger's policy extraction decided")
    conversation_id: str | None = Field(default=None, min_length=1, max_length=1000, description="its thread")
    trigger_type: str | None = Field(default=None, min_length=1, max_length=64, description="such as email")
    trigger_id: str | None = Field(default=None, min_length=1, max_length=1000)
    seeds: list[Seed] = Field(default_factory=list, max_length=MAX_SEEDS, description="the earlier thread, in order")
    metadata: dict[str, Any] | None = None

    def to_request(self, driver_tools: Sequence[str] | None) -> SessionRequest:
        """Return it as the service takes it; `driver_tools` are those of what is to drive it."""
        named = self.named("key", "new", "agent", "channel", "peer", "seeds", *LABELS)
        for name in LABELS:
            if (value := getattr(self, name)) is not None:
                named["labels"] = {name: value, **(named["labels"] or {})}
        return SessionRequest(
            **named,
            tool_names=driver_tools,
            max_cost=self.max_cost_usd,
            tools=None if self.tools is None else tuple(self.tools),
            seeds=[NewSeed(**seed.model_dump()) for seed in self.seeds],
        )


def parse_labels(texts: list[str]) -> dict[str, Any] | None:
    """Return labels as a query names them, NAME=TEXT; None for none. Raises UsageError for anything else."""
    labels = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not name or not separator:
            raise UsageError(f"{text[:80]!r} is no label, such as space_id=s1")
        labels[name] = value
    return labels or None


class EndSession(Input):
    """Why a session ends."""

    reason: str = Field(default="ended by request", min_length=1, max_length=1000)


class Woken(BaseModel):
    """A session that a driver looks at."""

    session_id: str
    pending: bool
    state: str = Field(description="what its log ends in, such as TOOL_INVOKED")
    action: str = Field(description="what is done about it: the row of the recovery table")


@of_row(FoldedCall, only="seq call_id tool arguments message_id state", state="waiting: for a person's decision")
class OpenCall(RowAnswer):
    """A call without a result."""


class SubAgentOf(RowAnswer):
    """A sub-agent of a session."""

    session_id: str
    model: str | None
    status: str
    cost_usd: str

    @classmethod
    def of(cls, row: SessionRow, **own: Any) -> Self:
        """Return a sub-agent's row as the API shows it."""
        return super().of(row, session_id=row.id, **own)


class WholeSession(Session):
    """A session with its checkpoints, scratchpad and sub-agents."""

    checkpoints: list[Checkpoint] = Field(description="the latest 100")
    scratchpad: Scratchpad
    sub_agents: list[SubAgentOf] = Field(description="of the newest 100 children")


class HydratedSession(RowAnswer):
    """A session at one moment: what it is, what was said, and what is open."""

    session: Session = Field(description="with its totals, and the calls that wait for a person")
    seeds: list[StoredSeed] = Field(description="the system prompt, then the latest 100 of the earlier thread")
    seed_count: int = Field(description="how many there are")
    messages: list[StoredEvent] = Field(
        description="what was said and done, in order: messages, answers, calls, results, decisions, errors"
    )
    next_cursor: str | None = Field(description="for the messages before these; null where there are none")
    state: dict[str, Any]
    scratchpad: Scratchpad
    open_calls: list[OpenCall]
    answering: str | None = Field(description="id of the message that is being generated")
    open_task: Task | None
    children: list[Session] = Field(description="the newest 100: forks, restores, branches and sub-agents")
    checkpoints: list[Checkpoint] = Field(description="the latest 100")
    last_event_id: str = Field(description="to follow from here: Last-Event-ID of a stream of its events")


SESSION_LOCATION = "/v1/sessions/{id}"
Limit = Annotated[int, Query(ge=1, le=200, description="how many at most")]
Cursor = Annotated[str | None, Query(max_length=MAX_LENGTH, description="next_cursor of the page before")]


@router.post("/sessions", **operation("write", Session, 201))
async def open_session(call: Writing, body: OpenSession) -> Response:
    """Return the session that a key names now, or create one: with `new`, without a key, or where the key names none.

    What the request leaves out is the agent's. On a session that exists, what is not null is set, labels and metadata
    are added name by name, and another project, conversation, trigger or seeds than it began with are a 409 `conflict`.
    """

    request = body.to_request(call.driver_tools)
    made: dict[str, Any] = {"location": SESSION_LOCATION}
    if body.key is not None and not body.new:
        creation.find_owner(body.key, body.agent, body.channel, body.peer)  # refuses what the key does not name
        return await call.change(partial(show, call), creation.open_session, call.settings, body.key, request, **made)
    made |= {"agent": body.agent, "channel": body.channel, "peer": body.peer, "key": body.key}
    return await call.change(partial(show, call), creation.create_session, call.settings, request, **made)


@router.get("/sessions", **operation("read", SessionPage))
async def list_sessions(
    call: Reading,
    filters: Sessions,
    label: Annotated[list[str] | None, Query(max_length=20, description="NAME=TEXT; all of them")] = None,
    space_id: Annotated[str | None, Query(max_length=500, description="the label of this name")] = None,
    mailbox_id: Annotated[str | None, Query(max_length=500, description="the label of this name")] = None,
    order: Annotated[SessionOrder, Query(description="runs: the oldest first")] = "latest",
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """List the sessions within the credential's reach, page by page."""
    owner = {"space_id": space_id, "mailbox_id": mailbox_id}
    labels = {name: value for name, value in owner.items() if value is not None}
    filters = replace(filters, labels={**labels, **(parse_labels(label or []) or {})} or None)
    of = f"sessions {call.viewer.name} {order} {filters}"
    load = partial(listing.list_sessions, call.database, filters, order=order)
    return await show_page(call, of, cursor, partial(load, limit=limit, viewer=call.viewer))


@router.get("/sessions/{session_id}", **operation("read", WholeSession))
async def get_session(
    call: Reading,
    session_id: SessionId,
    with_context: Annotated[bool, Query(description="also what its next context takes")] = False,
) -> Response:
    """Show a session, with its checkpoints, scratchpad and sub-agents."""
    details = await listing.show_session(
        call.database, call.settings, session_id, with_context=with_context, viewer=call.viewer
    )
    parts = await listing.hydrate_session(call.database, call.settings, details.session.id, limit=1, viewer=call.viewer)
    whole = {"checkpoints": parts.checkpoints, "scratchpad": parts.scratchpad}
    whole |= {"sub_agents": [row for row in parts.children if row.kind == "sub-agent"]}
    shown = {"activity": details.status, "context": details.context, "title": details.title}
    return reply(WholeSession.of(details.session, **shown, **whole))


async def show_page(
    call: Call, of: str, cursor: str | None, load: Callable[..., Awaitable[listing.SessionPage]]
) -> Response:
    """Answer with a page of sessions, with their titles; `of` names the list, and whatever it was narrowed to."""
    position = decode_cursor(of, cursor, str, str)
    page = await load(
        after=None if position is None else SessionCursor(datetime.fromisoformat(position[0]), position[1])
    )
    following = None if page.next is None else encode_cursor(of, [page.next.at.isoformat(), page.next.id])
    shown = [show(call, row, page.titles.get(row.id)) for row in page.sessions]
    return reply({"sessions": shown, "next_cursor": following})


def show(call: Call, row: SessionRow, title: str | None = None) -> Session:
    """Return a session as the API shows it; who may not read it is not shown what it holds."""
    status = listing.session_status(row, call.database.clock.now())
    if not call.viewer.may("read"):
        config = {name: value for name, value in row.config.items() if name not in ("system", "policy")}
        attention = {call_id: {"kind": waiting.get("kind")} for call_id, waiting in row.attention.items()}
        row, title = replace(row, config=config, attention=attention, error=None), None
    return Session.of(row, activity=status, title=title)


@router.delete("/sessions/{session_id}", **operation("write", None, 204))
async def delete_session(call: Writing, session_id: SessionId) -> Response:
    """End a session and list it no more. Its log stays, until retention or an erasure removes it."""
    reason = "deleted by request"
    return await call.change(lambda _: None, runtime.end_session, session_id, reason=reason, hide=True)


@router.post("/sessions/{session_id}/end", **operation("write", Session))
async def end_session(call: Writing, session_id: SessionId, body: EndSession | None = None) -> Response:
    """End a session: its key names none then. One that has ended stays as it is."""
    reason = (body or EndSession()).reason
    return await call.change(partial(show, call), runtime.end_session, session_id, reason=reason)


@router.post("/sessions/{session_id}/wake", **operation("write", Woken, 202))
async def wake_session(call: Writing, session_id: SessionId) -> Response:
    """Have a driver look at a session, though nothing new was said: after an error, or a change of its tools."""

    def show_woken(woken: tuple[SessionRow, Recovery]) -> Woken:
        return Woken(session_id=woken[0].id, pending=woken[0].pending, **asdict(woken[1]))

    return await call.change(show_woken, runtime.request_wake, session_id)


@router.get("/sessions/{session_id}/hydrate", **operation("read", HydratedSession))
async def hydrate_session(
    call: Reading,
    session_id: SessionId,
    limit: Annotated[int, Query(ge=1, le=MAX_MESSAGES, description="how many messages at most")] = 50,
    cursor: Cursor = None,
) -> Response:
    """Show a session with seeds, messages, state, notes, open calls, children and checkpoints, all of one moment.

    The messages are the latest ones; `next_cursor` gets those before them. Of a child they include what it reads of its
    ancestors. A stream of its events with `Last-Event-ID: {last_event_id}` goes on without a gap.
    """
    of = f"hydrate {session_id}"
    position = decode_cursor(of, cursor, int)
    hydrated = await listing.hydrate_session(
        call.database,
        call.settings,
        session_id,
        before=None if position is None else position[0],
        limit=limit,
        viewer=call.viewer,
    )
    following = None if hydrated.earlier_before is None else encode_cursor(of, [hydrated.earlier_before])
    session = hydrated.session
    shown: dict[str, Any] = {"session": show(call, session, hydrated.titles.get(session.id)), "next_cursor": following}
    shown["children"] = [show(call, row, hydrated.titles.get(row.id)) for row in hydrated.children]
    return reply(HydratedSession.of(hydrated, **shown, state=session.state, last_event_id=str(session.head)))
