"""A session's context: what its model would be shown now, and its compaction."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any, Literal

from consolidator.context.build import DEFAULT_LAST, Context, advance_history, build_context, context_budget
from consolidator.context.compaction import Compaction
from consolidator.context.strategies import STRATEGIES
from consolidator.database import Database
from consolidator.llm.client import create_client
from consolidator.models.event import Event
from consolidator.models.session import SessionRow
from consolidator.runtime.budget import DEFAULT_ANSWER_TOKENS
from consolidator.runtime.compaction import compact_on_request
from consolidator.runtime.routing import compared_model, side_model
from consolidator.service.memory.recall import recall_for_message
from consolidator.service.sessions.access import find_session
from consolidator.service.viewer import OWNER, Viewer
from consolidator.settings import Settings
from consolidator.store.log import context, generation, sessions
from consolidator.store.log.lineage import load_lineage

__all__ = ["STRATEGIES", "Compaction", "Context", "compact_session", "list_compactions", "preview_context"]


async def preview_context(
    database: Database,
    settings: Settings,
    session_name: str,
    *,
    strategy: str | None = None,
    budget: int | None = None,
    last: int | None = None,
    message_format: Literal["openai", "anthropic"] = "openai",
    with_recall: bool = True,
    tools: Sequence[dict[str, Any]] = (),
    viewer: Viewer = OWNER,
) -> tuple[Context, SessionRow]:
    """Return what the model would see of a session now, and the session; what is not given is the session's own."""
    async with database.connection() as conn:
        session = await find_session(conn, viewer, session_name, "read")
    config = session.config
    recalled = await _recall_for_last_message(database, settings, session) if with_recall else None
    strategy = strategy or config.get("strategy") or "budget"
    tokens = context_budget(
        strategy,
        budget or config.get("budget"),
        compared_model(settings, session) or settings.model or "",
        DEFAULT_ANSWER_TOKENS,
        window_tokens=config.get("context_window"),
    )
    async with database.connection() as conn:
        while await advance_history(conn, session.id):  # as every turn does
            continue
        built = await build_context(
            conn,
            session.id,
            strategy=strategy,
            budget=tokens,
            last=last or config.get("last") or DEFAULT_LAST,
            message_format=message_format,
            system=config.get("system"),
            recalled=recalled,
            seeds=config.get("seeds"),
            tools=tools,
        )
    return built, session


async def _recall_for_last_message(database: Database, settings: Settings, session: SessionRow) -> str | None:
    async with database.connection() as conn:
        lineage = await load_lineage(conn, session.id, session)
        message = await generation.get_last_user_text(conn, lineage, upto=session.head)
    return await recall_for_message(database, settings, session, message) if message else None


async def compact_session(
    database: Database,
    settings: Settings,
    session_name: str,
    *,
    budget: int | None = None,
    by_model: bool = True,
    viewer: Viewer = OWNER,
) -> Compaction | None:
    """Replace the older part of a session's contexts by a summary; None where there is too little to compact."""
    async with AsyncExitStack() as stack:
        async with database.connection() as conn:
            session = await find_session(conn, viewer, session_name, "write")
        side = side_model(None, settings, session, "compaction", prompt_tokens=0)
        model = side.model
        client = create_client(settings) if by_model and model else None
        if client is not None:
            stack.push_async_callback(client.close)
        tokens = context_budget(
            "compacted",
            budget or session.config.get("budget"),
            compared_model(settings, session) or "",
            DEFAULT_ANSWER_TOKENS,
            window_tokens=session.config.get("context_window"),
        )
        return await compact_on_request(
            database, session.id, budget=tokens, client=client, model=model, seconds=settings.session_lease_seconds,
            routed=side.reason, session_model=side.compared_to,
        )  # fmt: skip


async def list_compactions(database: Database, session_name: str) -> list[Event]:
    """Return the events of a session's compactions, in order."""
    async with database.connection() as conn:
        return await context.read_compactions(conn, await sessions.find_session_id(conn, session_name))
