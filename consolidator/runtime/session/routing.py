"""Routing: which model answers where a session's model is `auto`. A policy decides; the log has its decision and why.

The policy is a function of the request alone, called once at the beginning of each turn; the steps of that turn, also
after a crash, go to the model that the log names. Pure.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from consolidator.errors import UsageError
from consolidator.llm.commands import split_agent_model
from consolidator.llm.prices import context_window
from consolidator.llm.redaction.redact import format_redacted_traceback
from consolidator.models.agent import AUTO
from consolidator.models.event import NewEvent
from consolidator.models.payload import EventType
from consolidator.models.session import SessionRow
from consolidator.settings import Settings

log = logging.getLogger("consolidator.runtime")
RoutePurpose = Literal["turn", "spawned", "compaction"]
NEARLY_SPENT = 0.8  # share of a session's cap from which on its turns go to the cheap model
_MAX_REASON = 500  # characters that are logged


@dataclass(frozen=True, slots=True)
class RouteRequest:
    """What a policy decides by: what the call is for, how much it reads, and what the session has left."""

    purpose: RoutePurpose  # a turn of a person's session or of a sub-agent, or a call beside the conversation
    session: SessionRow
    prompt_tokens: int  # of the context, before it is cut to a model's window
    answer_tokens: int  # at most
    cheap: str  # the configured models
    strong: str

    @property
    def spent_share(self) -> float | None:
        """The share of the session's cap that is spent or reserved; None without a cap."""
        cap = self.session.max_cost
        if cap is None:
            return None
        return float((self.session.cost + self.session.reserved) / cap) if cap else 1.0


@dataclass(frozen=True, slots=True)
class RouteDecision:
    """A model, and why."""

    model: str
    reason: str

    def event(self, purpose: RoutePurpose) -> NewEvent:
        """Return the decision as the log holds it."""
        data = {"decision": "model_routed", "model": self.model, "reason": self.reason, "purpose": purpose}
        return NewEvent(EventType.POLICY_DECISION, data)


RoutePolicy = Callable[[RouteRequest], RouteDecision]


def default_policy(request: RouteRequest) -> RouteDecision:
    """Send people's turns to the strong model, all else and a nearly spent cap to the cheap one, if its window fits."""
    spent = request.spent_share
    if request.purpose != "turn":
        model, reason = request.cheap, f"{request.purpose}: the cheap model"
    elif spent is not None and spent >= NEARLY_SPENT:
        model, reason = request.cheap, f"{spent:.0%} of the session's cap is spent: the cheap model"
    else:
        model, reason = request.strong, "a turn of a person: the strong model"
    needed = request.prompt_tokens + request.answer_tokens
    other = request.strong if model == request.cheap else request.cheap
    wanted_window, other_window = context_window(model), context_window(other)
    if wanted_window is not None and wanted_window < needed and wanted_window < (other_window or 0):
        return RouteDecision(other, f"{needed:,} tokens do not fit into the window of {model} ({wanted_window:,})")
    return RouteDecision(model, reason)


def _cheap_model(settings: Settings) -> str | None:
    """Return the model that reads sessions, if a conversation can ask it: not the command line of an agent."""
    return None if split_agent_model(settings.extract_model) is not None else settings.extract_model


def candidate_models(settings: Settings) -> tuple[str, str]:
    """Return the cheap and the strong model between which the default policy chooses. Raises UsageError for none."""
    if not settings.model:
        raise UsageError(
            "the model `auto` needs models to choose between: set CONSOLIDATOR_MODEL and CONSOLIDATOR_EXTRACT_MODEL"
        )
    return _cheap_model(settings) or settings.model, settings.model


def route(
    policy: RoutePolicy | None,
    settings: Settings,
    session: SessionRow,
    *,
    purpose: RoutePurpose,
    prompt_tokens: int,
    answer_tokens: int,
) -> RouteDecision:
    """Return the policy's decision; the default policy's where there is none, or where it fails.

    Raises UsageError where no model is configured.
    """
    cheap, strong = candidate_models(settings)
    request = RouteRequest(purpose, session, prompt_tokens, answer_tokens, cheap, strong)
    if policy is None:
        return default_policy(request)
    try:
        decision = policy(request)
        if not isinstance(decision, RouteDecision) or not decision.model.strip() or decision.model == AUTO:
            raise TypeError(f"a policy returns a RouteDecision with a model's name, not {decision!r}")
    except Exception as error:  # noqa: BLE001 - an author's code: the turn goes on
        log.warning("the routing policy failed: %s", format_redacted_traceback(error))
        fallback = default_policy(request)
        return RouteDecision(fallback.model, f"the policy failed ({type(error).__name__}); {fallback.reason}")
    return RouteDecision(decision.model, str(decision.reason)[:_MAX_REASON])


def side_model(
    policy: RoutePolicy | None, settings: Settings, session: SessionRow, *, prompt_tokens: int
) -> tuple[str | None, str | None, str | None]:
    """Return the model that writes a session's summary, why a policy chose it, and what a cheaper one is recognised by.

    Without a model the conversation's own writes it; without the last it is compared with the session's.
    """
    if (session.model or settings.model) != AUTO:
        return _cheap_model(settings) or session.model or settings.model, None, None
    decision = route(policy, settings, session, purpose="compaction", prompt_tokens=prompt_tokens, answer_tokens=0)
    return decision.model, decision.reason, compared_model(settings, session)


def turn_purpose(session: SessionRow) -> RoutePurpose:
    """Return what a session's turns are for: a person's, or the work of a sub-agent."""
    return "spawned" if session.kind == "sub-agent" else "turn"


def compared_model(settings: Settings, session: SessionRow) -> str | None:
    """Return the model against which a call of a session counts as cheap: its own, or the strong one for `auto`."""
    return settings.model if session.model == AUTO else session.model
