"""A session's context: what its model would be shown now, and its compaction."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Literal

from consolidator.context.build import DEFAULT_LAST, ContextRequest, advance_history, build_context, context_budget
from consolidator.context.build import Context as Context
from consolidator.context.compaction import Compaction as Compaction
from consolidator.context.reader import STRATEGIES as STRATEGIES
from consolidator.database import Database
from consolidator.errors import UsageError
from consolidator.llm.client import create_client
from consolidator.models.event import Event
from consolidator.models.injection import InjectionRow
from consolidator.models.payload import EventType
from consolidator.models.session import SessionRow
from consolidator.models.viewer import OWNER, Viewer
from consolidator.runtime.lineage.children import fold_past
from consolidator.runtime.session.access import find_session, get_session
from consolidator.runtime.session.budget import DEFAULT_ANSWER_TOKENS
from consolidator.runtime.session.lease import hold_session
from consolidator.runtime.session.routing import compared_model, side_model
from consolidator.runtime.session.webhooks import webhook_hooks
from consolidator.runtime.turn.compaction import SummaryWriter, compact
from consolidator.service.memory.recall import recall_for_message
from consolidator.settings import Settings
from consolidator.store.memory import injections
from consolidator.store.sessions import sessions
from consolidator.store.sessions.lineage import load_lineage, read_lineage
from consolidator.store.turns import context, generation

_LOOKED_BACK = 500  # events before a point among which the call of the model that it belongs to is looked for
_BY_AGENT = (EventType.THINKING_START, EventType.ASSISTANT_RESPONSE, EventType.TOOL_CALL)


@dataclass(frozen=True, slots=True)
class ShownContext:
    """What a model was shown before a point of its session, as far as the log tells."""

    at: int  # the point
    upto: int  # the last event that could be shown
    call: Event | None  # the ThinkingStart of the model's call; None where the log has none near
    context: Context | None  # None where it cannot be built: a prompt larger than the budget
    is_recorded: bool  # whether the call says up to where it was shown, so that this is what was sent
    injections: list[InjectionRow]  # what hooks added before the point, the newest first


@dataclass(frozen=True, slots=True)
class PreviewOptions:
    """How a context is shown; what is None is the session's own."""

    strategy: str | None = None
    budget: int | None = None
    last: int | None = None
    message_format: Literal["openai", "anthropic"] = "openai"
    with_recall: bool = True
    tools: Sequence[dict[str, Any]] = ()


async def preview_context(
    database: Database,
    settings: Settings,
    session_name: str,
    options: PreviewOptions = PreviewOptions(),
    *,
    viewer: Viewer = OWNER,
) -> tuple[Context, SessionRow]:
    """Return what the model would see of a session now, and the session; of its memory what the viewer reaches."""
    async with database.connection() as conn:
        session = await find_session(conn, viewer, session_name, "read")
        message = None
        if options.with_recall:
            lineage = await load_lineage(conn, session.id, session)
            message = await generation.get_last_user_text(conn, lineage, upto=session.head)
    config = session.config
    recalled = await recall_for_message(database, settings, session, message, viewer=viewer) if message else None
    strategy = options.strategy or config.get("strategy") or "budget"
    model = compared_model(settings, session) or settings.model or ""
    request = ContextRequest(
        strategy=strategy,
        budget=_budget(session, strategy, model, options.budget or config.get("budget")),
        last=options.last or config.get("last") or DEFAULT_LAST,
        message_format=options.message_format,
        system=config.get("system"),
        recalled=recalled,
        seeds=config.get("seeds"),
        tools=options.tools,
    )
    async with database.connection() as conn:
        while await advance_history(conn, session.id):  # as every turn does
            continue
        return await build_context(conn, session.id, request), session


async def rebuild_context(
    database: Database, settings: Settings, session_id: str, at: int, *, viewer: Viewer = OWNER
) -> ShownContext:
    """Return what the model was shown in the call that an event belongs to: the last call up to that event.

    Prompt, budget and tools are the session's of today, and what memory recalled is not in the log. Of a session that
    another harness drove it is the log before what the agent did there: what that harness left out is not known.
    Raises NotFound.
    """
    async with database.connection() as conn:
        session = await get_session(conn, viewer, session_id, "read")
        lineage = await load_lineage(conn, session.id, session)
        at = max(lineage.readable_after, min(at, session.head))
        recent = await read_lineage(conn, lineage, after=at - _LOOKED_BACK, upto=at)
        added = await injections.list_of_session(conn, session.id)

    call = next((event for event in reversed(recent) if event.type is EventType.THINKING_START), None)
    moment = recent[-1].occurred_at if recent else session.created_at
    added = [injection for injection in added if injection.created_at <= moment]
    data = {} if call is None else call.data
    is_recorded = isinstance(data.get("upto_seq"), int)
    upto = data["upto_seq"] if is_recorded else _before_agent(recent, at)

    config, recorded = session.config, data.get("strategy")
    strategy = str(recorded if recorded in STRATEGIES else config.get("strategy") or "budget")
    model = data.get("model") or compared_model(settings, session) or settings.model or ""

    try:
        async with database.connection() as conn:
            past = await fold_past(conn, session, lineage, upto)
            request = ContextRequest(
                strategy=strategy,
                budget=_budget(session, strategy, str(model), config.get("budget"), config.get("answer_tokens")),
                last=config.get("last") or DEFAULT_LAST,
                system=config.get("system"),
                seeds=config.get("seeds"),
                upto=upto,
                withheld=tuple(seq for seq in data.get("held") or () if isinstance(seq, int)),
                past=past.history,
                state=past.state,
            )
            context = await build_context(conn, session.id, request)
    except UsageError:  # the prompt and the tools of today do not fit the budget
        context = None
    return ShownContext(at, upto, call, context, is_recorded, added)


def _budget(session: SessionRow, strategy: str, model: str, budget: int | None, answer: int | None = None) -> int:
    """Return the tokens that a context of a session may have."""
    window = session.config.get("context_window")
    return context_budget(strategy, budget, model, answer or DEFAULT_ANSWER_TOKENS, window_tokens=window)


def _before_agent(events: Sequence[Event], at: int) -> int:
    """Return the last event before what the agent said and called at a point; the point where it did neither there."""
    for event in reversed(events):
        if event.type not in _BY_AGENT:
            break
        at = event.seq - 1
    return at


async def compact_session(
    database: Database,
    settings: Settings,
    session_name: str,
    *,
    budget: int | None = None,
    by_model: bool = True,
    viewer: Viewer = OWNER,
) -> Compaction | None:
    """Replace the older part of a session's contexts by a summary; None where there is too little to compact.

    Raises SessionBusy where a model is to be paid and another process drives the session.
    """
    async with AsyncExitStack() as stack:
        async with database.connection() as conn:
            session = await find_session(conn, viewer, session_name, "write")
        model, *why = side_model(None, settings, session, prompt_tokens=0)
        writer = epoch = None
        if by_model and model:
            client = create_client(settings)
            stack.push_async_callback(client.close)
            writer = SummaryWriter(client, model, *why)
            # The session is held meanwhile: its next holder takes whatever is reserved for lost.
            holding = hold_session(database, session.id, seconds=settings.session_lease_seconds)
            epoch = (await stack.enter_async_context(holding)).epoch
        compared = compared_model(settings, session) or ""
        tokens = _budget(session, "compacted", compared, budget or session.config.get("budget"))
        hooks = webhook_hooks(settings, session)
        return await compact(database, session.id, budget=tokens, writer=writer, epoch=epoch, hooks=hooks)


async def list_compactions(database: Database, session_name: str) -> list[Event]:
    """Return the events of a session's compactions, in order."""
    async with database.connection() as conn:
        return await context.read_compactions(conn, await sessions.find_session_id(conn, session_name))
