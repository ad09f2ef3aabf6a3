"""Asks a session's webhook, before a compaction, what the summary has to keep. One that fails stops nothing."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import time
from functools import partial
from typing import Any

from consolidator.context.compaction import CompactionHooks, CompactionPlan
from consolidator.errors import ModelUnavailable, UsageError
from consolidator.llm.protocol import ResponseTooLarge, create_http_client
from consolidator.llm.redaction.redact import redact_json
from consolidator.models.session import SessionRow
from consolidator.settings import Settings

log = logging.getLogger("consolidator.runtime")
_SECONDS = 10.0  # for an answer
_MAX_CHARACTERS = 4000  # of instructions
SIGNATURE = "consolidator-signature"


def check_webhook(settings: Settings, name: str | None) -> None:
    """Raise UsageError for a webhook that the settings do not name, or that could not be signed."""
    if name is not None and (name not in settings.webhooks or settings.webhook_secret is None):
        names = ", ".join(sorted(settings.webhooks)) or "none"
        raise UsageError(
            f"there is no webhook {name[:80]!r}: CONSOLIDATOR_WEBHOOKS names {names}, and CONSOLIDATOR_WEBHOOK_SECRET "
            "signs what they are sent"
        )


def webhook_hooks(settings: Settings, session: SessionRow) -> CompactionHooks | None:
    """Return the hooks of a session that names a webhook; None for any other."""
    name = session.config.get("before_compact")
    return None if name is None else CompactionHooks(before=partial(_ask, settings, session, str(name)))


def sign(secret: str, moment: int, body: bytes) -> str:
    """Return the signature of a request: HMAC-SHA256 of its Unix time, a dot and its body."""
    digest = hmac.new(secret.encode(), f"{moment}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={moment},v1={digest}"


async def _ask(settings: Settings, session: SessionRow, name: str, plan: CompactionPlan) -> str | None:
    """Send what is to be compacted; return the instructions of the answer, `{"instructions": text}`, if it has any."""
    import httpx2  # takes a while, so it is imported only where something is asked

    address, secret = settings.webhooks.get(name), settings.webhook_secret
    if address is None or secret is None:
        log.warning("session %s names the webhook %r, which the settings do not", session.id, name)
        return None
    message: dict[str, Any] = {
        "event": "before_compact",
        "session_id": session.id,
        "agent_id": session.agent,
        "compaction_count": session.compactions,
        "kept_from": plan.kept_from,
        "tokens_before": plan.tokens_before,
        "tokens_kept": plan.tokens_kept,
        "state": session.state,
        "data": plan.data,
    }
    body = json.dumps(redact_json(message), default=str).encode()
    headers = {"content-type": "application/json", SIGNATURE: sign(secret.get_secret_value(), int(time.time()), body)}
    try:
        async with create_http_client(_SECONDS) as client:
            answer = await client.post(
                address.get_secret_value(), content=body, headers=headers, follow_redirects=False
            )
        document = answer.raise_for_status().json()
        instructions = document.get("instructions") if isinstance(document, dict) else None
    except (httpx2.HTTPError, httpx2.InvalidURL, ResponseTooLarge, ModelUnavailable, ValueError) as error:
        log.warning("the webhook %r of session %s failed: %s", name, session.id, type(error).__name__)
        return None
    return str(instructions)[:_MAX_CHARACTERS] if instructions else None
