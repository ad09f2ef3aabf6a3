"""/v1/sessions/{id}/messages, steer and follow-up: what people say, and the answers as they come."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from consolidator.api.call import Writing, operation, to_answer, to_response
from consolidator.api.schemas.message import NewMessage, SentMessage, StoppedTurn
from consolidator.api.schemas.session import SessionId
from consolidator.api.streaming import ALSO_READ, STREAMED, stream_turn
from consolidator.runtime.turn.sessions import MessageMode
from consolidator.service.database import Database
from consolidator.service.requests import Answer
from consolidator.service.sessions import access

router = APIRouter(tags=["messages"])


@router.post(
    "/sessions/{session_id}/messages", **operation("write", SentMessage, 202, also=ALSO_READ, responses=STREAMED)
)
async def send_message(call: Writing, session_id: SessionId, body: NewMessage) -> Response:
    """Send a person's message, said by `user:NAME` of the credential. A driver answers it.

    With `Accept: text/event-stream`, for which the credential needs the scope `read`, too, the answer is streamed.
    """
    if call.wants_stream:
        call.viewer.check_may("read")
    answer = await _send(call, session_id, body, "message")
    if not call.wants_stream:
        return to_response(answer)
    sent = SentMessage.model_validate_json(answer.document)
    return stream_turn(call, sent.session_id, sent.seq, repeated=answer.repeated)


@router.post("/sessions/{session_id}/steer", **operation("write", SentMessage, 202))
async def steer(call: Writing, session_id: SessionId, body: NewMessage) -> Response:
    """Send a message that cancels what is in flight."""
    return to_response(await _send(call, session_id, body, "steer"))


@router.post("/sessions/{session_id}/follow-up", **operation("write", SentMessage, 202))
async def follow_up(call: Writing, session_id: SessionId, body: NewMessage) -> Response:
    """Send a message that is answered after the current turn."""
    return to_response(await _send(call, session_id, body, "follow_up"))


@router.post("/sessions/{session_id}/stop", **operation("write", StoppedTurn, 202))
async def stop_turn(call: Writing, session_id: SessionId) -> Response:
    """End what is under way, without a message: an answer stays as far as it was written, the session stays open.

    Calls that did not run are aborted, one that ran may be uncertain; what was said before is answered no more,
    follow-ups included. The stop is in the log when this answers: a driver that dies meanwhile stops at the next wake.
    """
    return await call.change(
        lambda seq: to_answer(StoppedTurn(session_id=session_id, seq=seq), session_id, status=202),
        access.stop_turn,
        session_id,
        viewer=call.viewer,
    )


async def _send(call: Writing, session_id: str, body: NewMessage, mode: MessageMode) -> Answer:
    async def work(database: Database) -> Answer:
        seq = await access.send_message(
            database, session_id, body.text, mode=mode, speaker=body.speaker, viewer=call.viewer
        )
        return to_answer(SentMessage(session_id=session_id, seq=seq), session_id, status=202)

    return await call.do_once(work)
