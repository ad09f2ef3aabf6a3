"""What a handler of the API works with: who calls, the open database, and how a request is done once and answered."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Header, Request
from pydantic import BaseModel
from starlette.responses import Response

from consolidator.api import guard, problems
from consolidator.api.guard import EVENT_STREAM
from consolidator.api.problems import Problem
from consolidator.models.viewer import Scope, Viewer
from consolidator.runtime.live.hub import FollowHub
from consolidator.runtime.turn.harness import Harness
from consolidator.service.credentials import BearerTokens
from consolidator.service.database import Database
from consolidator.service.encoding import encode_json
from consolidator.service.nights.requested import RequestedRuns
from consolidator.service.requests import Answer, KeyedRequest, Work, answer_again, answer_once
from consolidator.service.sessions.reruns import RequestedReruns
from consolidator.settings import Settings

MEDIA_TYPE = "application/json"


def to_document(value: Any) -> str:
    """Return a value as a JSON document in ASCII; NaN and infinities become strings."""
    try:
        return json.dumps(value, default=_encode, allow_nan=False, separators=(",", ":"))
    except ValueError:
        return to_document(_finite(json.loads(json.dumps(value, default=_encode))))


def _encode(value: Any) -> Any:
    return value.model_dump() if isinstance(value, BaseModel) else encode_json(value)


def reply(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return an answer with a JSON document."""
    return Response(to_document(value), status, headers=headers, media_type=MEDIA_TYPE)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, (list, tuple)) else value


T = TypeVar("T")
_KEY = re.compile(r"[\x21-\x7e]{1,200}")
REPEATED_HEADER = "idempotency-replayed"


@dataclass(frozen=True, slots=True)
class ApiServices:
    """What the process brings to every request."""

    database: Database
    settings: Settings
    harness: Harness | None  # of the driver in this process, if it has one
    tokens: BearerTokens
    stopping: asyncio.Event
    runs: RequestedRuns  # of the nights' jobs, on their connections
    reruns: RequestedReruns
    hub: FollowHub  # follows sessions for all streams
    previews: guard.Places = field(default_factory=lambda: guard.Places(guard.PREVIEWS_EACH, guard.PREVIEWS))


@dataclass(frozen=True, slots=True)
class Call:
    """One request: who makes it, and what it is answered from."""

    services: ApiServices
    viewer: Viewer
    request: Request
    keyed: KeyedRequest | None

    @property
    def database(self) -> Database:
        """The open database."""
        return self.services.database

    @property
    def settings(self) -> Settings:
        """The settings of the process."""
        return self.services.settings

    @property
    def driver_tools(self) -> Sequence[str] | None:
        """The names of the tools of what drives sessions in this process; None where nothing does."""
        harness = self.services.harness
        return None if harness is None else harness.tools.names

    @property
    def wants_stream(self) -> bool:
        """Whether the answer is to be a stream of events."""
        return EVENT_STREAM in self.request.headers.get("accept", "")

    async def do_once(self, work: Work) -> Answer:
        """Do what a request asks for in one transaction, or find out that it was done."""
        return await answer_once(self.database, self.keyed, work)

    async def change(
        self,
        show: Callable[[T], BaseModel | None],
        function: Callable[..., Awaitable[T]],
        *args: Any,
        location: str | None = None,
        **options: Any,
    ) -> Response:
        """Do what a function of the service does in one transaction, and answer what `show` makes of its result.

        The function gets the database, these arguments, and who calls.
        """

        async def work(database: Database) -> Answer:
            changed = await function(database, *args, **{"viewer": self.viewer, **options})
            return self.to_answer(show(changed), location)

        return to_response(await self.do_once(work))

    async def answer_again(self, work: Work) -> Response:
        """Do what a request asks for outside of any transaction, and answer it."""
        return to_response(await answer_again(self.database, self.keyed, work))

    def to_answer(self, value: BaseModel | None, location: str | None = None) -> Answer:
        """Return an answer that can be kept, with its route's status; `location` names fields of the value."""
        named = getattr(value, "session_id", None) or getattr(value, "session", None)
        session_id = named or self.request.path_params.get("session_id")
        where = None if location is None else location.format_map(dict(value or ()))
        document = "" if value is None else to_document(value)
        return Answer(self.request.scope["route"].status_code, document, where, session_id)


def to_response(answer: Answer) -> Response:
    """Return an answer as it is sent."""
    headers = {REPEATED_HEADER: "true"} if answer.repeated else {}
    if answer.location is not None:
        headers["location"] = answer.location
    if answer.status == 204:
        return Response(status_code=204, headers=headers)
    return Response(answer.document, answer.status, headers=headers, media_type=MEDIA_TYPE)


def _read_call(
    request: Request,
    idempotency_key: Annotated[
        str | None,
        Header(
            description="names the request: sent again with its key, within a day, it is answered and not done again",
            min_length=1,
            max_length=200,
        ),
    ] = None,
) -> Call:
    viewer: Viewer = request.state.viewer
    keyed = None
    if idempotency_key is not None:
        if not _KEY.fullmatch(idempotency_key):
            raise Problem(problems.BAD_REQUEST, "an Idempotency-Key has at most 200 visible characters of ASCII")
        head = f"{request.method} {request.url.path}?{request.url.query}\n".encode("utf-8", "surrogatepass")
        body: bytes = getattr(request.state, "body_hash", None) or request.state.body
        keyed = KeyedRequest(viewer.name, idempotency_key, hashlib.sha256(head + body).digest())
    return Call(request.app.state.services, viewer, request, keyed)


def _read_reading(request: Request) -> Call:
    return Call(request.app.state.services, request.state.viewer, request, None)


Writing = Annotated[Call, Depends(_read_call)]
Reading = Annotated[Call, Depends(_read_reading)]


def require(scope: Scope) -> Callable[[Request], Awaitable[None]]:
    """Return a dependency that refuses callers without a scope."""

    async def check(request: Request) -> None:
        viewer: Viewer = request.state.viewer
        viewer.check_may(scope)

    return check


def operation(
    scope: Scope, answer: Any, status: int = 200, *, also: Mapping[Scope, str] | None = None, **more: Any
) -> dict[str, Any]:
    """Return what the routes of the API declare alike: the scope that they need, and what they answer.

    `also` are scopes that some requests need besides, and which requests those are.
    """
    if also:
        more["openapi_extra"] = {"x-scope-also": dict(also), **more.get("openapi_extra", {})}
    return {
        "status_code": status,
        "response_model": answer,
        "dependencies": [Depends(require(scope))],
        "openapi_extra": {"x-scope": scope, **more.pop("openapi_extra", {})},
        **more,
    }
