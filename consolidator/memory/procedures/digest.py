"""A session's digest: a left fold over its events, so that any cut into nights gives what one night would.

It holds all that procedures are summed from, and all that the fold needs to go on once the events are gone.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from consolidator.memory.calls.argument_summary import summarize_arguments
from consolidator.memory.calls.call_pairing import CallPairer, CompletedCall
from consolidator.memory.calls.symbols import call_symbol
from consolidator.memory.procedures.bindings import BindingFold
from consolidator.memory.procedures.key_counts import Ints, KeyCounts, hash_text
from consolidator.memory.procedures.preconditions import PreconditionFold
from consolidator.models.event import Event
from consolidator.models.payload import EventType

DIGEST_VERSION = "d2"  # of what is counted; digests of another version are derived again
QUOTE = 120  # characters of a quote
QUOTED_FROM = 1000  # characters that are redacted before they are cut, so that no half of a credential stays
START = "^"  # stands before the first call


class CallListener(Protocol):
    """Another fold over the same calls, such as the one of errors."""

    def feed(self, call: CompletedCall) -> None:
        """Take the next completed call."""


@dataclass(frozen=True, slots=True)
class PackedDigest:
    """A digest as it is stored: arrays of int64 as bytes, terms and state as compressed JSON."""

    calls: int
    sequence: bytes
    seqs: bytes
    keys: bytes
    counts: bytes
    terms: bytes
    quotes: bytes  # what the first call of each element of the sequence was given
    state: bytes
    version: str = DIGEST_VERSION


class Digest:
    """Feed it a session's events in order of seq."""

    def __init__(
        self,
        redact: Callable[[str], str],
        salt: bytes,
        *,
        call_listener: CallListener | None = None,
        keep_values: bool = False,
        packed: PackedDigest | None = None,
    ) -> None:
        self.redact = redact
        self.errors = call_listener
        self.counts = KeyCounts()
        self.sequence: list[int] = []
        self.seqs: list[int] = []
        self.quotes: list[str] = []
        self.calls = CallPairer()
        self.completed_calls = 0  # calls completed
        self.previous = (START, START)  # symbols of the last two calls, with how they went
        self.running = ""  # the last symbol of the sequence
        self.repeated = False  # whether it is a run already
        self.user_spoke = False  # whether the user spoke since the last call
        if packed is not None:
            self.counts = KeyCounts(_counted(packed), unpack_terms(packed.terms))
            self.sequence = np.frombuffer(packed.sequence, np.int64).tolist()
            self.seqs = np.frombuffer(packed.seqs, np.int64).tolist()
            self.quotes = unpack_quotes(packed.quotes)
        self.bindings = BindingFold(self.counts, salt, redact, keep_values=keep_values)
        self.fixes = PreconditionFold(self.counts)
        if packed is not None:
            self._load(json.loads(zlib.decompress(packed.state)))

    def feed(self, event: Event) -> None:
        """Take the next event."""
        if event.type is EventType.USER_MESSAGE:
            if event.data.get("origin", "user") == "user":
                self.bindings.feed_user_message(str(event.data.get("text", "")))
                self.user_spoke = True
        elif event.type is EventType.TASK_END:
            self.counts.add(("task", str(event.data.get("outcome", "unknown"))))
        else:
            call = self.calls.feed(event)
            if call is not None:
                self._complete(call)

    def _complete(self, call: CompletedCall) -> None:
        name = call_symbol(call)
        self._count_step(name, call)
        self._extend(name, call)
        self.bindings.feed_call(name, call.arguments, call.result, ok=call.ok)
        self.fixes.feed(name, self.bindings.last_argument_values(name), ok=call.ok)
        if self.errors is not None:
            self.errors.feed(call)
        self.completed_calls += 1

    def _count_step(self, name: str, call: CompletedCall) -> None:
        """Count what came before this call, and how it went."""
        before, last = self.previous
        spoken = "user" if self.user_spoke else ""
        add = self.counts.add
        add(("tool", name, call.tool))
        add(("ok" if call.ok else "failed", name))
        add(("next", last, spoken, name))
        add(("after", last, spoken))
        add(("next", before, last, spoken, name))
        add(("after", before, last, spoken))
        self.previous = (last, name if call.ok else name + "!")
        self.user_spoke = False

    def _extend(self, name: str, call: CompletedCall) -> None:
        """Add to the cleaned sequence: failed calls are dropped, and X X X is X+, one or more of it.

        X and X+ are one symbol, so that support does not split by how often a step was repeated.
        """
        if not call.ok:
            return
        if name != self.running:
            self.running, self.repeated = name, False
            value = hash_text(name)
            self.counts.set_symbol_text(value, name)
            self.counts.add(("step", name))
            self.sequence.append(value)
            self.seqs.append(call.seq)
            self.quotes.append(self._quoted(call))
        elif not self.repeated:
            self.repeated = True
            self.counts.add(("run", name))

    def _quoted(self, call: CompletedCall) -> str:
        """Return what a call was given, so that evidence can be shown when the event is gone."""
        given = summarize_arguments(
            call.tool, call.arguments, QUOTED_FROM, redact_named=self.bindings.redactor.redact_named
        )
        if len(given) >= QUOTED_FROM:
            given = given.rsplit(" ", 1)[0]  # without the word that is cut: hidden keys before it leave room for it
        given = self.redact(given)
        return given if len(given) <= QUOTE else given[: QUOTE - 1] + "…"

    def pack(self) -> PackedDigest:
        """Return the digest as it is stored."""
        self.bindings.count_pending_uses()
        self.counts.commit_texts(self.redact)
        keys, counts = self.counts.to_arrays()
        return PackedDigest(
            calls=self.completed_calls,
            sequence=np.asarray(self.sequence, np.int64).tobytes(),
            seqs=np.asarray(self.seqs, np.int64).tobytes(),
            keys=keys.tobytes(),
            counts=counts.tobytes(),
            terms=_compressed({str(key): text for key, text in sorted(self.counts.terms.items())}),
            quotes=_compressed(self.quotes),
            state=_compressed(self._state()),
        )

    def _state(self) -> dict[str, Any]:
        return {
            "calls": self.calls.to_json(),
            "done": self.completed_calls,
            "previous": self.previous,
            "running": self.running,
            "repeated": self.repeated,
            "spoken": self.user_spoke,
            "bindings": self.bindings.to_json(),
            "fixes": self.fixes.to_json(),
        }

    def _load(self, state: Mapping[str, Any]) -> None:
        self.calls = CallPairer.from_json(state["calls"])
        self.completed_calls = state["done"]
        self.previous = (state["previous"][0], state["previous"][1])
        self.running = state["running"]
        self.repeated = state["repeated"]
        self.user_spoke = state["spoken"]
        self.bindings.load(state["bindings"])
        self.fixes.load(state["fixes"])


def _counted(packed: PackedDigest) -> dict[int, int]:
    keys: Ints = np.frombuffer(packed.keys, np.int64)
    counts: Ints = np.frombuffer(packed.counts, np.int64)
    return dict(zip(keys.tolist(), counts.tolist(), strict=True))


def _compressed(value: Any) -> bytes:
    return zlib.compress(json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode(), 6)


def unpack_quotes(quotes: bytes) -> list[str]:
    """Return what the elements of a stored digest's sequence were given."""
    found: list[str] = json.loads(zlib.decompress(quotes))
    return found


def unpack_terms(terms: bytes) -> dict[int, str]:
    """Return the texts of a stored digest by their hashes."""
    return {int(key): text for key, text in json.loads(zlib.decompress(terms)).items()}
