"""/v1/sessions/{id}/hydrate: everything that a surface needs to show a session, in one call."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from consolidator.api.call import Reading, operation
from consolidator.api.replies import reply
from consolidator.api.routes.sessions import Cursor, show
from consolidator.api.schemas.hydrate import HydratedSession
from consolidator.api.schemas.session import SessionId
from consolidator.service.cursors import decode_cursor, encode_cursor
from consolidator.service.sessions import hydrate

router = APIRouter(tags=["sessions"])


@router.get("/sessions/{session_id}/hydrate", **operation("read", HydratedSession))
async def hydrate_session(
    call: Reading,
    session_id: SessionId,
    limit: Annotated[int, Query(ge=1, le=hydrate.MAX_MESSAGES, description="how many messages at most")] = 50,
    cursor: Cursor = None,
) -> Response:
    """Show a session with seeds, messages, state, notes, open calls, children and checkpoints, all of one moment.

    The messages are the latest ones; `next_cursor` gets those before them. Of a child they include what it reads of its
    ancestors. A stream of its events with `Last-Event-ID: {last_event_id}` goes on without a gap.
    """
    of = f"hydrate {session_id}"
    position = decode_cursor(of, cursor, int)
    found = await hydrate.hydrate_session(
        call.database,
        call.settings,
        session_id,
        before=None if position is None else position[0],
        limit=limit,
        viewer=call.viewer,
    )
    following = None if found.earlier_before is None else encode_cursor(of, [found.earlier_before])
    children = [show(call, row, found.titles.get(row.id)) for row in found.children]
    return reply(
        HydratedSession.of(found, show(call, found.session, found.titles.get(found.session.id)), children, following)
    )
