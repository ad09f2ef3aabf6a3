"""Folds the open end of a log: calls without a result, an unfinished generation, unanswered messages. Pure.

It reads all events after the mark, never just the last one: a steer after a tool call does not hide the call. An event
counts only if its principal may say it: the principal is the door's word, the payload anybody's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, assert_never

from consolidator.models.event import Event
from consolidator.models.payload import EventType
from consolidator.models.principal import counts_for_runtime
from consolidator.runtime.session.turn_limits import TurnUse

CallState = Literal["maybe_ran", "waiting", "granted", "denied", "not_started"]
_APPROVALS: dict[EventType, CallState] = {
    EventType.APPROVAL_REQUESTED: "waiting", EventType.APPROVAL_GRANTED: "granted", EventType.APPROVAL_DENIED: "denied",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A call without a result.

    Its state: `maybe_ran` (it may have run), `waiting` (for a person's decision), `granted` or `denied` (by a person;
    it did not run yet), `not_started` (it certainly did not run: a call before it has no result yet).
    """

    seq: int
    call_id: str
    tool: str
    arguments: Any
    message_id: str | None
    group: int  # the calls of a group run concurrently; the groups run one after the other
    state: CallState = "maybe_ran"
    reason: str | None = None  # what the person said who denied it
    tool_known: bool = True  # whether the tool existed where the model asked for it
    refusal: str | None = None  # why the harness never runs it
    guard: str | None = None  # what was known of it before it ran, told beside its result
    procedure: Mapping[str, Any] | None = None  # the run of which it is a step: `ProcedureRun` as JSON


@dataclass(frozen=True, slots=True)
class OpenGeneration:
    """A generation that has not ended."""

    seq: int  # of its ThinkingStart
    message_id: str
    upto_seq: int  # the last event that its context could hold
    withheld: tuple[int, ...]  # seqs of messages up to `upto_seq` that the model was not shown
    strategy: str | None = None


@dataclass(frozen=True, slots=True)
class OpenState:
    """What is open after `settled_to`; `head` is the last event that was read."""

    head: int
    calls: tuple[OpenCall, ...] = ()
    generation: OpenGeneration | None = None
    unanswered: tuple[Event, ...] = ()  # messages of people that the model has not seen
    unseen_results: tuple[int, ...] = ()  # seqs of tool results that the model has not seen
    settled_to: int = 0
    steer_seq: int = 0  # of the latest steer that the model has not seen, or of the stop of what is open
    last_error: str | None = None  # the error that people were told last, if the same request is to be made again
    routed_model: str | None = None  # to which the policy sent the current turn
    routed_seq: int = 0  # of that decision
    turn: TurnUse = field(default_factory=TurnUse)  # what the current turn has used

    @property
    def needs_model(self) -> bool:
        """Whether the model has something to answer."""
        return bool(self.unanswered or self.unseen_results)

    @property
    def waits_for_person(self) -> bool:
        """Whether nothing can go on before a person has decided."""
        return bool(self.calls) and self.calls[0].state == "waiting"

    @property
    def is_settled(self) -> bool:
        """Whether nothing is open."""
        return not (self.calls or self.generation or self.needs_model)


@dataclass(slots=True)
class _Stop:
    """What a person stopped last: the calls and messages that were under way, whose results nobody waits for."""

    seq: int = 0  # of the stop; 0: there was none
    began_at: int = 0  # from where on the log is needed to know what it stopped
    calls: set[str] = field(default_factory=set)
    messages: set[str] = field(default_factory=set)

    def begin(self, seq: int, calls: Mapping[str, OpenCall], generation: OpenGeneration | None) -> None:
        """Stop what is open at an event."""
        open_seqs = [call.seq for call in calls.values()] + ([generation.seq] if generation else [])
        before = [self.began_at] if self.holds(list(calls.values()), generation) else []
        self.seq, self.began_at = seq, min([*before, *open_seqs, seq])
        self.calls.update(calls)
        self.messages.update([generation.message_id] if generation else [])

    def add_message(self, generation: OpenGeneration) -> None:
        """Stop a message that was begun without having seen the stop."""
        if generation.upto_seq < self.seq:
            self.messages.add(generation.message_id)

    def add_call(self, call: OpenCall) -> None:
        """Stop a call of a message that is stopped."""
        if call.message_id in self.messages:
            self.calls.add(call.call_id)

    def holds(self, calls: Sequence[OpenCall], generation: OpenGeneration | None) -> bool:
        """Tell whether something that is open was stopped."""
        is_writing = generation is not None and generation.message_id in self.messages
        return is_writing or any(call.call_id in self.calls for call in calls)


@dataclass(slots=True)
class _OpenStateFold:
    """The fold's accumulator."""

    seen_to: int  # the model has seen every event up to here, except `withheld`
    withheld: tuple[int, ...] = ()
    calls: dict[str, OpenCall] = field(default_factory=dict)  # by call_id, as are the next three
    approvals: dict[str, CallState] = field(default_factory=dict)
    started: set[str] = field(default_factory=set)  # calls that began after their approval
    reasons: dict[str, str] = field(default_factory=dict)
    generation: OpenGeneration | None = None
    messages: list[Event] = field(default_factory=list)
    results: list[int] = field(default_factory=list)
    last_error: str | None = None
    routed_model: str | None = None
    routed_seq: int = 0
    turn: TurnUse = field(default_factory=TurnUse)
    stop: _Stop = field(default_factory=_Stop)

    def feed(self, event: Event) -> None:
        self.turn.feed(event)
        data = event.data
        match event.type:
            case EventType.USER_MESSAGE:
                self.messages.append(event)
                self.last_error = None
            case EventType.THINKING_START:
                if data.get("message_id"):
                    upto = data.get("upto_seq")
                    self.generation = OpenGeneration(
                        seq=event.seq,
                        message_id=str(data["message_id"]),
                        upto_seq=upto if isinstance(upto, int) else event.seq - 1,
                        withheld=tuple(data.get("held") or ()),
                        strategy=data.get("strategy"),
                    )
                    self.stop.add_message(self.generation)
            case EventType.ASSISTANT_RESPONSE | EventType.ERROR:
                self._end_generation(event)
            case EventType.TOOL_CALL:
                self.calls[str(data["call_id"])] = _open_call(event)
                self.stop.add_call(self.calls[str(data["call_id"])])
            case EventType.TOOL_RESULT:
                self.calls.pop(str(data["call_id"]), None)
                if str(data["call_id"]) not in self.stop.calls:
                    self.results.append(event.seq)
            case EventType.APPROVAL_REQUESTED | EventType.APPROVAL_GRANTED | EventType.APPROVAL_DENIED:
                if data.get("call_id") is not None:  # a foreign log may not say of which call
                    self.approvals[str(data["call_id"])] = _APPROVALS[event.type]
                    if event.type is EventType.APPROVAL_DENIED:
                        self.reasons[str(data["call_id"])] = str(data.get("reason") or "")
            case EventType.POLICY_DECISION:
                self._feed_decision(event)
            case (
                EventType.SESSION_START | EventType.SESSION_END | EventType.TASK_START | EventType.TASK_END
                | EventType.SUBAGENT_SPAWN | EventType.SUBAGENT_COMPLETE
            ):  # fmt: skip
                pass  # these open nothing
            case _:
                assert_never(event.type)

    def _feed_decision(self, event: Event) -> None:
        match event.data.get("decision"):
            case "call_started":
                self.started.update(map(str, event.data.get("call_ids") or ()))
            case "generation_replaced" | "turn_interrupted" | "budget_stop":
                self._end_generation(event)
            case "turn_stopped":
                self.seen_to, self.withheld = max(self.seen_to, event.seq), ()
                self.stop.begin(event.seq, self.calls, self.generation)
            case "model_routed":
                self.feed_route(event)
            case _:
                pass

    def feed_route(self, event: Event) -> None:
        """Note to which model the policy sent a turn."""
        if event.data.get("purpose") in ("turn", "spawned") and isinstance(event.data.get("model"), str):
            self.routed_model, self.routed_seq = event.data["model"], event.seq

    def _end_generation(self, event: Event) -> None:
        """End the generation that an event names. Its context counts as seen, unless the request is made again."""
        data, generation = event.data, self.generation
        if event.type is not EventType.POLICY_DECISION:
            self.last_error = str(data.get("message")) if data.get("again") else None
        is_named = generation is not None and data.get("message_id") == generation.message_id
        if is_named:
            self.generation = None
        if data.get("decision") == "generation_replaced" or data.get("again"):
            return
        if is_named and generation is not None:
            withheld = () if generation.message_id in self.stop.messages else generation.withheld
            self.seen_to, self.withheld = max(self.seen_to, generation.upto_seq), withheld
        elif isinstance(data.get("upto_seq"), int):
            self.seen_to, self.withheld = max(self.seen_to, data["upto_seq"]), tuple(data.get("held") or ())


def fold_open_state(events: Sequence[Event], *, settled_to: int, head: int, earlier: Sequence[Event] = ()) -> OpenState:
    """Return what is open; `events` are all of a session's events with settled_to < seq <= head.

    `earlier` are events of the same turn up to `settled_to`: they count for the turn's limits and its model alone.
    """
    fold = _OpenStateFold(seen_to=settled_to)
    for event in earlier:
        fold.turn.feed(event)
        if event.data.get("decision") == "model_routed" and counts_for_runtime(event.principal, event.type, event.data):
            fold.feed_route(event)
    for event in events:
        if counts_for_runtime(event.principal, event.type, event.data):
            fold.feed(event)

    unanswered = [event for event in fold.messages if event.seq > fold.seen_to or event.seq in fold.withheld]
    unseen_results = [seq for seq in fold.results if seq > fold.seen_to]
    calls = _open_calls(fold)
    steers = [event.seq for event in unanswered if event.data.get("mode") == "steer"]

    open_seqs = [*(call.seq for call in calls), *(event.seq for event in unanswered), *unseen_results]
    if fold.generation is not None:
        open_seqs.append(fold.generation.seq)
    stop_seq = fold.stop.seq if fold.stop.holds(calls, fold.generation) else 0
    if stop_seq:
        open_seqs.append(fold.stop.began_at)

    return OpenState(
        head=head,
        calls=calls,
        generation=fold.generation,
        unanswered=tuple(unanswered),
        unseen_results=tuple(unseen_results),
        settled_to=min(open_seqs) - 1 if open_seqs else head,
        steer_seq=max([*steers, stop_seq]),
        last_error=fold.last_error,
        routed_model=fold.routed_model,
        routed_seq=fold.routed_seq,
        turn=fold.turn,
    )


def find_safe_seqs(events: Sequence[Event], *, settled_to: int) -> list[int]:
    """Return the seqs after which no call and no generation is open; `events` are those after `settled_to`."""
    fold, safe = _OpenStateFold(seen_to=settled_to), [settled_to]
    for event in events:
        if counts_for_runtime(event.principal, event.type, event.data):
            fold.feed(event)
        if not fold.calls and fold.generation is None:
            safe.append(event.seq)
    return safe


def _open_calls(fold: _OpenStateFold) -> tuple[OpenCall, ...]:
    """Return the open calls in the order in which they run, each with its state.

    That is the log's order, but that a procedure's next step comes before what the same answer asked for after it.
    A group begins only after every call before it has its result. So of the open groups only the first may have run,
    and of that group not the calls that still waited for a person.
    """
    begins: dict[str | None, int] = {}  # of the calls of each message
    for call in fold.calls.values():
        begins[call.message_id] = min(call.seq, begins.get(call.message_id, call.seq))
    calls = sorted(fold.calls.values(), key=lambda call: (begins[call.message_id], call.group, call.seq))
    first_group = (calls[0].message_id, calls[0].group) if calls else None
    with_states = []
    for call in calls:
        approval = fold.approvals.get(call.call_id)
        state: CallState = "maybe_ran" if (call.message_id, call.group) == first_group else "not_started"
        if approval is not None and call.call_id not in fold.started:
            state = approval
        with_states.append(replace(call, state=state, reason=fold.reasons.get(call.call_id)))
    return tuple(with_states)


def _open_call(event: Event) -> OpenCall:
    data = event.data
    group = data.get("group")
    return OpenCall(
        seq=event.seq,
        call_id=str(data["call_id"]),
        tool=str(data.get("tool") or ""),
        arguments=data.get("arguments"),
        message_id=data.get("message_id"),
        group=group if isinstance(group, int) else event.seq,
        tool_known=data.get("known") is not False,
        refusal=str(data["refused"]) if data.get("refused") else None,
        guard=str(data["guard"]) if data.get("guard") else None,
        procedure=data["procedure"] if isinstance(data.get("procedure"), Mapping) else None,
    )
