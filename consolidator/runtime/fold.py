"""The fold of a log's open end: calls without a result, an unfinished generation, messages nobody answered. Pure.

Never just the last event: a steer that came after a tool call does not hide the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from consolidator.models.event import Event
from consolidator.models.payload import EventType

CallState = Literal["begun", "waiting", "granted", "denied", "fresh"]


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A call without a result.

    `begun` it may have run, `waiting` a person has not yet said a word, `granted` or `denied` they have and it did not
    run, `fresh` it certainly did not run: one that goes before it has no result yet.
    """

    seq: int
    call_id: str
    tool: str
    arguments: Any
    message_id: str | None
    group: int  # calls of a group run at once, groups one after the other
    state: CallState = "begun"
    reason: str | None = None  # what a person said in denying it
    known: bool = True  # whether there was such a tool where it was asked for


@dataclass(frozen=True, slots=True)
class OpenGeneration:
    """A call of the model that has not come to its end."""

    seq: int  # of its ThinkingStart
    message_id: str
    upto_seq: int  # what its context held
    held: tuple[int, ...]  # messages it was not shown, though they came before `upto_seq`
    strategy: str | None = None


@dataclass(frozen=True, slots=True)
class Open:
    """What is open after `settled_to`; `head` is the last event that was looked at."""

    head: int
    calls: tuple[OpenCall, ...] = ()
    generation: OpenGeneration | None = None
    unanswered: tuple[Event, ...] = ()  # what people said since the model last looked
    results: tuple[int, ...] = ()  # results of tools that the model has not seen
    settled_to: int = 0
    steer: int = 0  # seq of the latest steer that the model has not seen
    failed: str | None = None  # the error that people were told last, where the same question is to be asked again

    @property
    def needs_model(self) -> bool:
        """Whether the model has something to answer."""
        return bool(self.unanswered or self.results)

    @property
    def waiting(self) -> bool:
        """Whether nothing can go on before a person has said a word."""
        return bool(self.calls) and self.calls[0].state == "waiting"

    @property
    def is_settled(self) -> bool:
        """Whether nothing is open."""
        return not (self.calls or self.generation or self.needs_model)


@dataclass(slots=True)
class _OpenStateFold:
    seen: int
    held: tuple[int, ...] = ()
    calls: dict[str, OpenCall] = field(default_factory=dict)
    asked: dict[str, CallState] = field(default_factory=dict)
    begun: set[str] = field(default_factory=set)
    reasons: dict[str, str] = field(default_factory=dict)
    generation: OpenGeneration | None = None
    said: list[Event] = field(default_factory=list)
    results: list[int] = field(default_factory=list)
    failed: str | None = None

    def take(self, event: Event) -> None:
        data = event.data
        match event.type:
            case EventType.USER_MESSAGE:
                self.said.append(event)
                self.failed = None
            case EventType.THINKING_START if data.get("message_id"):
                self.generation = _generation(event)
            case EventType.ASSISTANT_RESPONSE | EventType.ERROR:
                self._conclude(event)
            case EventType.TOOL_CALL:
                self.calls[str(data["call_id"])] = _call(event)
            case EventType.TOOL_RESULT:
                self.calls.pop(str(data["call_id"]), None)
                self.results.append(event.seq)
            case EventType.APPROVAL_REQUESTED:
                self.asked[str(data["call_id"])] = "waiting"
            case EventType.APPROVAL_GRANTED:
                self.asked[str(data["call_id"])] = "granted"
            case EventType.APPROVAL_DENIED:
                self.asked[str(data["call_id"])] = "denied"
                self.reasons[str(data["call_id"])] = str(data.get("reason") or "")
            case EventType.POLICY_DECISION:
                self._decided(event)
            case _:
                pass

    def _decided(self, event: Event) -> None:
        match event.data.get("decision"):
            case "call_started":
                self.begun.update(map(str, event.data.get("call_ids") or ()))
            case "generation_replaced" | "turn_interrupted" | "budget_stop":
                self._conclude(event)
            case _:
                pass

    def _conclude(self, event: Event) -> None:
        """End the generation that an event names; what its context held is seen, unless it is to be asked again."""
        data, open_one = event.data, self.generation
        if event.type is not EventType.POLICY_DECISION:
            self.failed = str(data.get("message")) if data.get("again") else None
        named = open_one is not None and data.get("message_id") == open_one.message_id
        if named:
            self.generation = None
        if data.get("decision") == "generation_replaced" or data.get("again"):
            return
        if named and open_one is not None:
            self.seen, self.held = max(self.seen, open_one.upto_seq), open_one.held
        elif isinstance(data.get("upto_seq"), int):
            self.seen, self.held = max(self.seen, data["upto_seq"]), ()


def fold(events: Sequence[Event], *, settled_to: int, head: int) -> Open:
    """Return what is open among a session's events after `settled_to`, which are all up to `head`."""
    folding = _OpenStateFold(seen=settled_to)
    for event in events:
        folding.take(event)
    said = [one for one in folding.said if one.seq > folding.seen or one.seq in folding.held]
    results = [seq for seq in folding.results if seq > folding.seen]
    calls = _with_states(folding)
    steers = [one.seq for one in said if one.data.get("mode") == "steer"]
    firsts = [*(one.seq for one in calls), *(one.seq for one in said), *results]
    if folding.generation is not None:
        firsts.append(folding.generation.seq)
    return Open(
        head=head,
        calls=calls,
        generation=folding.generation,
        unanswered=tuple(said),
        results=tuple(results),
        settled_to=min(firsts) - 1 if firsts else head,
        steer=max(steers, default=0),
        failed=folding.failed,
    )


def _with_states(folding: _OpenStateFold) -> tuple[OpenCall, ...]:
    """Return the open calls in the log's order, each with what is known of it.

    A group begins only after all that goes before it has results, so that of the open groups only the first may have
    run; and of that not what still waited for a person.
    """
    calls = sorted(folding.calls.values(), key=lambda one: one.seq)
    first = (calls[0].message_id, calls[0].group) if calls else None
    found = []
    for call in calls:
        asked = folding.asked.get(call.call_id)
        state: CallState = "begun" if (call.message_id, call.group) == first else "fresh"
        if asked is not None and call.call_id not in folding.begun:
            state = asked
        found.append(replace(call, state=state, reason=folding.reasons.get(call.call_id)))
    return tuple(found)


def _call(event: Event) -> OpenCall:
    data = event.data
    group = data.get("group")
    return OpenCall(
        seq=event.seq,
        call_id=str(data["call_id"]),
        tool=str(data.get("tool") or ""),
        arguments=data.get("arguments"),
        message_id=data.get("message_id"),
        group=group if isinstance(group, int) else event.seq,
        known=data.get("known") is not False,
    )


def _generation(event: Event) -> OpenGeneration:
    data = event.data
    upto = data.get("upto_seq")
    return OpenGeneration(
        seq=event.seq,
        message_id=str(data["message_id"]),
        upto_seq=upto if isinstance(upto, int) else event.seq - 1,
        held=tuple(data.get("held") or ()),
        strategy=data.get("strategy"),
    )
