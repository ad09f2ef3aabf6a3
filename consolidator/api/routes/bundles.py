"""/v1/sessions/{session_id}/export and /v1/sessions/import: bundles, a session with all that belongs to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import IO, Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response, StreamingResponse

from consolidator.api.call import Reading, Writing, operation, to_answer
from consolidator.api.guard import JSON_LINES
from consolidator.api.schemas.child import ImportedBundle
from consolidator.api.schemas.session import SessionId
from consolidator.service.database import Database
from consolidator.service.requests import Answer
from consolidator.service.sessions import bundles

router = APIRouter(tags=["sessions"])
_CONTENT: dict[str, Any] = {JSON_LINES: {"schema": {"type": "string"}}}


@router.get(
    "/sessions/{session_id}/export",
    **operation("read", None, responses={200: {"description": "JSON lines: a bundle", "content": _CONTENT}}),
)
async def export_session(
    call: Reading,
    session_id: SessionId,
    exact: Annotated[bool, Query(description="with credentials, byte for byte; needs the scope admin")] = False,
) -> Response:
    """Stream a session as a bundle. The last line is a checksum: without it, the bundle is not whole."""
    lines = bundles.stream_bundle(call.database, session_id, exact=exact, viewer=call.viewer)
    first = await anext(lines)  # raises what must be answered otherwise

    async def body() -> AsyncIterator[bytes]:
        yield first.encode()
        async for line in lines:
            yield line.encode()

    name = f'attachment; filename="{session_id}.jsonl"'
    headers = {"content-disposition": name if session_id.isalnum() else "attachment", "cache-control": "no-store"}
    return StreamingResponse(body(), media_type=JSON_LINES, headers=headers)


@router.post(
    "/sessions/import",
    **operation("admin", ImportedBundle, openapi_extra={"requestBody": {"required": True, "content": _CONTENT}}),
)
async def import_session(
    call: Writing,
    copy: Annotated[bool, Query(description="a copy to look at and to run again, never evidence")] = False,
) -> Response:
    """Import a bundle. One that comes again adds only what is new; a damaged one is refused before it is written."""

    async def work(database: Database) -> Answer:
        content: IO[bytes] = call.request.state.body_file
        imported = await bundles.load_bundle_file(database, content, as_copy=copy, viewer=call.viewer)
        return to_answer(ImportedBundle.of(imported), location=f"/v1/sessions/{imported.session_id}")

    return await call.answer_again(work)
