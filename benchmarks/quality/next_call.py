"""Whole next call, tool and every argument: learnt bindings against a bigram with last values or constants.

The pure part: sessions of events in, figures out, by the product's own digest, tally, profiles and prediction.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from consolidator.memory.calls import Call, CallFold
from consolidator.memory.digest import Digest
from consolidator.memory.patterns import DigestArrays, tally
from consolidator.memory.prediction import suggest
from consolidator.memory.profiles import Profile, build
from consolidator.memory.symbols import symbol
from consolidator.models.event import Event
from consolidator.models.payload import EventType

Session = tuple[str, list[Event]]
SALT = b"benchmark"


def fold_of(task_id: str, folds: int) -> int:
    """Return the part that a task falls into; all sessions of a task fall into the same one."""
    return int.from_bytes(hashlib.blake2b(task_id.encode(), digest_size=8).digest(), "big") % folds


@dataclass(slots=True)
class Baseline:
    """A bigram of symbols, with each argument's last value or the tool's most usual arguments."""

    follows: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    usual: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    shapes: dict[str, Counter[tuple[str, ...]]] = field(default_factory=lambda: defaultdict(Counter))
    tools: dict[str, str] = field(default_factory=dict)

    def learn(self, calls: Sequence[Call]) -> None:
        """Count a session of the training part."""
        last = "^"
        for call in calls:
            name = symbol(call)
            self.follows[last][name] += 1
            self.usual[name][_canonical(call.arguments)] += 1
            self.shapes[name][_names(call.arguments)] += 1
            self.tools[name] = call.tool
            last = name

    def guesses(self, before: Sequence[Call]) -> tuple[str, str, str] | None:
        """Return the next symbol, and its arguments by last value and by constant (canonical JSON)."""
        last = symbol(before[-1]) if before else "^"
        if last not in self.follows:
            return None
        name = _top(self.follows[last])
        values: dict[str, Any] = {}
        for call in before:
            if isinstance(call.arguments, dict):
                values.update(call.arguments)
        shape = _top(self.shapes[name])
        by_last = {key: values.get(key) for key in shape}
        return name, _canonical(by_last), _top(self.usual[name])


def evaluate(sessions: Iterable[Session], folds: int | None = None) -> dict[str, Any]:
    """Return the share of calls whose tool and every argument were predicted, each part learnt from the others.

    Two halves; five parts where there are fewer than twenty tasks, too few for a half to learn from.
    """
    sessions = list(sessions)
    if folds is None:
        folds = 2 if len({task_id for task_id, _ in sessions}) >= 20 else 5
    by_part: dict[int, list[Session]] = defaultdict(list)
    for task_id, events in sessions:
        by_part[fold_of(task_id, folds)].append((task_id, events))
    hits: Counter[str] = Counter()
    for part, held_out in sorted(by_part.items()):
        training = [session for other, found in by_part.items() if other != part for session in found]
        profiles = learn(training)
        baseline = Baseline()
        for _, events in training:
            baseline.learn(_calls(events))
        for _, events in held_out:
            hits += _score(events, profiles, baseline)
    calls = max(hits["calls"], 1)
    names = ("tool", "learnt", "bigram", "last_value", "constant", "answered", "answered_right")
    figures: dict[str, Any] = {"folds": folds, "sessions": sum(map(len, by_part.values())), "calls": hits["calls"]}
    figures |= {name: round(hits[name] / calls, 4) for name in names}
    return figures


def learn(sessions: Iterable[Session]) -> dict[str, Profile]:
    """Learn from sessions as a night does."""
    arrays = []
    terms: dict[int, str] = {}
    for number, (_, events) in enumerate(sessions):
        digest = Digest(lambda text: text, SALT)
        for event in events:
            digest.feed(event)
        packed = digest.pack()
        name = f"{number:06}"
        parts = (packed.sequence, packed.seqs, packed.keys, packed.counts)
        arrays.append(DigestArrays.unpack(name, name, *parts, last_at=float(number)))
        terms |= digest.counts.terms
    return build(tally(arrays), terms)


def _score(events: list[Event], profiles: dict[str, Profile], baseline: Baseline) -> Counter[str]:
    hits: Counter[str] = Counter()
    digest = Digest(lambda text: text, SALT, keep_values=True)
    calls = {call.seq: call for call in _calls(events)}
    before: list[Call] = []
    finished = {call.result_seq: call for call in calls.values()}
    for event in events:
        call = calls.get(event.seq)
        if call is not None:
            hits["calls"] += 1
            hits += _judge(call, before, digest, profiles, baseline)
        digest.feed(event)
        if event.seq in finished:
            before.append(finished[event.seq])
    return hits


def _judge(
    call: Call, before: list[Call], digest: Digest, profiles: dict[str, Profile], baseline: Baseline
) -> Counter[str]:
    hits: Counter[str] = Counter()
    actual = (symbol(call), _canonical(call.arguments))
    found = suggest(profiles, digest)
    if found:
        hits["tool"] += max(found, key=lambda one: one.likelihood).symbol == actual[0]
        right = (found[0].symbol, _canonical(found[0].arguments)) == actual
        hits["learnt"] += right
        if found[0].confidence >= 0.5:
            hits["answered"] += 1
            hits["answered_right"] += right
    guess = baseline.guesses(before)
    if guess is not None:
        hits["bigram"] += guess[0] == actual[0]
        hits["last_value"] += (guess[0], guess[1]) == actual
        hits["constant"] += (guess[0], guess[2]) == actual
    return hits


def _calls(events: list[Event]) -> list[Call]:
    fold = CallFold()
    kinds = (EventType.TOOL_CALL, EventType.TOOL_RESULT)
    return [call for event in events if event.type in kinds and (call := fold.feed(event)) is not None]


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _names(arguments: Any) -> tuple[str, ...]:
    return tuple(sorted(arguments)) if isinstance(arguments, dict) else ()


def _top(counter: Counter[Any]) -> Any:
    return min(counter.items(), key=lambda entry: (-entry[1], str(entry[0])))[0]
