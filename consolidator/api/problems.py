"""Problem documents (RFC 9457): every error of the package, and of HTTP, as one kind with a status and what to do next.

A problem of the server itself tells nothing of its insides: the log has that.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, Field
from starlette.responses import JSONResponse

from consolidator import errors
from consolidator.llm.redaction.redact import redact
from consolidator.service.request_limits import Refused

log = logging.getLogger("consolidator.api")
_COMMAND = re.compile(r"`consolidator ([^`]+)`")
ROUTES: Mapping[str, str] = {
    "agent show": "GET /v1/agents",
    "facts": "GET /v1/facts",
    "facts --all": "GET /v1/facts?include_superseded=true",
    "facts --review": "GET /v1/facts/quarantined",
    "forget": "POST /v1/forget",
    "learned": "GET /v1/learned",
    "revisions": "GET /v1/revisions",
    "rules": "GET /v1/rules",
    "run": "POST /v1/runs",
    "procedures": "GET /v1/procedures",
    "runs": "GET /v1/runs",
    "session branch": "POST /v1/sessions/{id}/branch",
    "session checkpoint": "GET /v1/sessions/{id}/checkpoints",
    "session create": "POST /v1/sessions",
    "session list": "GET /v1/sessions",
    "session list --attention": "GET /v1/attention",
    "session events": "GET /v1/sessions/{id}/events",
}  # by the beginning of the command


def find_route(command: str) -> str | None:
    """Return the route for a command, without its program's name; None for what only the machine's owner does there."""
    words = command.split()
    beginnings = (" ".join(words[:count]) for count in range(len(words), 0, -1))
    return next((ROUTES[beginning] for beginning in beginnings if beginning in ROUTES), None)


def name_routes(text: str) -> str:
    """Return an error's text with the route beside each command that it advises, unless it names the route itself."""

    def add(match: re.Match[str]) -> str:
        route = find_route(match[1])
        return match[0] if route is None or route in text else f"{match[0]} (here `{route}`)"

    return _COMMAND.sub(add, text)


MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:consolidator:problem:"
RETRY_SECONDS = 5
_MAX_DETAIL = 2000  # characters


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """A kind of problem: what its documents have in common."""

    slug: str  # the end of its type
    status: int
    title: str
    next_step: str


_SEND_VALID = "Change the request as the detail says, then send it again."
_READ_AGAIN = "Read the session again, then decide whether to repeat the request."
_LATER = "Send the same request again later, with the same Idempotency-Key."
_SERVERS_LOG = "Send it again later; if it keeps failing, the log of the service says why."

UNAUTHORIZED = ProblemKind(
    "unauthorized", 401, "The bearer token is missing, wrong, expired or revoked",
    "Send `Authorization: Bearer TOKEN`; `consolidator token create` makes a token.",
)  # fmt: skip
FORBIDDEN = ProblemKind(
    "forbidden", 403, "The credential may not do this", "Use a credential with the scope that it needs."
)
BAD_REQUEST = ProblemKind("bad-request", 400, "The request cannot be read", _SEND_VALID)
INVALID_CURSOR = ProblemKind("invalid-cursor", 400, "The cursor is none of this list", "Begin again without a cursor.")
WRONG_HOST = ProblemKind(
    "wrong-host", 421, "The request names a host that this service is not",
    "Use the address that the service listens on, or name yours in CONSOLIDATOR_HTTP_ALLOWED_HOSTS.",
)  # fmt: skip
NOT_FOUND = ProblemKind("not-found", 404, "There is nothing there", "List what there is, and take an id from that.")
METHOD_NOT_ALLOWED = ProblemKind(
    "method-not-allowed", 405, "This method is not one of the resource's", "Use a method that the header Allow names."
)
CONFLICT = ProblemKind("conflict", 409, "The session is not as the request takes it to be", _READ_AGAIN)
SESSION_CLOSED = ProblemKind(
    "session-closed", 409, "Nothing more happens in this session", "Read it, or open its key again for a new one."
)
BUSY = ProblemKind("busy", 409, "Something else holds this at the moment", _LATER)
TOO_LARGE = ProblemKind("too-large", 413, "The request is too large", "Send less at once.")
UNSUPPORTED_TYPE = ProblemKind(
    "unsupported-media-type", 415, "The body is not JSON", "Send JSON with `Content-Type: application/json`."
)
INVALID = ProblemKind("invalid", 422, "The request does not fit", _SEND_VALID)
KEY_REUSED = ProblemKind(
    "idempotency-key-reused", 422, "The Idempotency-Key came with another request", "Use a new key for each request."
)
TOO_MANY = ProblemKind("too-many-requests", 429, "Too many requests", "Wait as long as the header Retry-After says.")
TOO_MANY_STREAMS = ProblemKind(
    "too-many-streams", 429, "Too many open streams", "Close a stream before you open another."
)
INTERNAL = ProblemKind("internal", 500, "The service failed", _SERVERS_LOG)
MODEL_FAILED = ProblemKind("model-failed", 502, "The language model gave no usable answer", _SERVERS_LOG)
UNAVAILABLE = ProblemKind("unavailable", 503, "The service cannot answer now", _LATER)
OVER_BUDGET = ProblemKind(
    "over-budget", 409, "A cap on costs is reached", "Raise the cap of the session, then repeat it."
)
DISK_FULL = ProblemKind(
    "disk-full", 507, "A disk of the service is full", "Have its operator make room, then repeat it."
)

UNANSWERED = ProblemKind(
    "unanswered", 503, "Nobody can answer the message now",
    "Do not send it again. It is answered once the session has a model (`POST /v1/sessions` with its key and a model), "
    "or the service is started with a model and the tools.",
)  # fmt: skip

KINDS = tuple(value for value in list(globals().values()) if isinstance(value, ProblemKind))

# Every error is mapped here once: by its class, or else the nearest one that it is a kind of.
BY_ERROR: Mapping[type[errors.ConsolidatorError], ProblemKind] = {
    errors.ConsolidatorError: INTERNAL,
    errors.UsageError: INVALID,
    errors.Forbidden: FORBIDDEN,
    errors.SessionClosed: SESSION_CLOSED,
    errors.SessionDiffers: CONFLICT,
    errors.KeyReused: KEY_REUSED,
    errors.InvalidCursor: INVALID_CURSOR,
    errors.NotFound: NOT_FOUND,
    errors.DatabaseError: UNAVAILABLE,
    errors.DiskFull: DISK_FULL,
    errors.AppendError: CONFLICT,
    errors.InvalidEvent: INVALID,
    errors.SessionBusy: BUSY,
    errors.RequestUnderWay: BUSY,
    errors.ImportRefused: INVALID,
    errors.RunFailed: INTERNAL,
    errors.RetentionHalted: CONFLICT,
    errors.ModelError: MODEL_FAILED,
    errors.ModelUnavailable: UNAVAILABLE,
    errors.AnswerPending: BUSY,
    errors.OverBudget: OVER_BUDGET,
    errors.Interrupted: UNAVAILABLE,
}
BY_STATUS: Mapping[int, ProblemKind] = {
    400: BAD_REQUEST,
    401: UNAUTHORIZED,
    403: FORBIDDEN,
    404: NOT_FOUND,
    405: METHOD_NOT_ALLOWED,
    413: TOO_LARGE,
    415: UNSUPPORTED_TYPE,
    422: INVALID,
    429: TOO_MANY,
    503: UNAVAILABLE,
}


class Problem(Exception):
    """A request that is answered with a problem document."""

    def __init__(self, kind: ProblemKind, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.kind = kind
        self.headers = dict(headers or {})


def find_kind(error: errors.ConsolidatorError) -> ProblemKind:
    """Return the kind of an error."""
    return next(BY_ERROR[base] for base in type(error).__mro__ if base in BY_ERROR)


def describe(error: errors.ConsolidatorError) -> str:
    """Return the detail of an error for whoever asked; an error of the server itself keeps its details."""
    kind = find_kind(error)
    return kind.title if kind.status >= 500 else name_routes(str(error))


def error_response(error: Exception, path: str) -> JSONResponse | None:
    """Return how an error of a request or of the package is answered; None for what must be looked into."""
    if isinstance(error, Problem):
        return problem_response(error.kind, str(error), path, headers=error.headers)
    if isinstance(error, Refused):
        return problem_response(BY_STATUS[error.status], str(error), path, headers=error.headers)
    if isinstance(error, errors.ConsolidatorError):
        kind = find_kind(error)
        if kind.status >= 500:
            log.warning("%s: %s", path[:200], redact(str(error)))
        return problem_response(kind, describe(error), path)
    return None


def problem_document(kind: ProblemKind, detail: str, instance: str) -> dict[str, Any]:
    """Return a problem as JSON can hold it; `instance` is the path of the request."""
    return {
        "type": TYPE_PREFIX + kind.slug,
        "title": kind.title,
        "status": kind.status,
        "detail": redact(_printable(detail))[:_MAX_DETAIL],
        "instance": redact(_printable(instance))[:_MAX_DETAIL],
        "next": kind.next_step,
    }


def problem_response(
    kind: ProblemKind,
    detail: str,
    instance: str,
    *,
    headers: Mapping[str, str] | None = None,
    errors: list[dict[str, str]] | None = None,
) -> JSONResponse:
    """Return an answer with a problem document; `errors` are the fields that do not fit."""
    document = problem_document(kind, detail, instance)
    if errors is not None:
        document["errors"] = errors
    sent = dict(headers or {})
    if kind.status in (409, 429, 503) and kind in (BUSY, TOO_MANY, TOO_MANY_STREAMS, UNAVAILABLE):
        sent.setdefault("retry-after", str(RETRY_SECONDS))
    return JSONResponse(document, kind.status, headers=sent, media_type=MEDIA_TYPE)


def _printable(text: str) -> str:
    """Return a text without halves of characters, which no answer can hold."""
    return text.encode("utf-8", "replace").decode("utf-8")


class FieldError(BaseModel):
    """A part of a request that does not fit."""

    where: str = Field(description="such as body.text or query.limit")
    message: str


class ProblemDocument(BaseModel):
    """Why a request was not done, and what to do next."""

    type: str = Field(description="names the kind of problem")
    title: str = Field(description="the kind of problem, in words")
    status: int = Field(ge=400, le=599)
    detail: str = Field(description="what is wrong with this request")
    instance: str = Field(description="the path of the request")
    next: str = Field(description="what to do next")
    errors: list[FieldError] | None = Field(default=None, description="the parts that do not fit, of a 422")
