"""Fold a session's events into its digest: all that procedures are summed from.

A left fold: however a session is cut into nights, the digest is the same. It also keeps the state that the next night
continues from, since the events may be pruned by then.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, assert_never

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
START = "^"  # the symbol before the first call
_MAX_QUOTE = 120  # characters
_MAX_REDACTED = 1000  # characters that are redacted before the cut to a quote, so that no half of a credential remains


class CallListener(Protocol):
    """Another fold over the same calls, such as the error tracker."""

    def feed(self, call: CompletedCall) -> None:
        """Take the next completed call."""


@dataclass(frozen=True, slots=True)
class PackedDigest:
    """A digest as it is stored: int64 arrays as bytes; terms, quotes and state as compressed JSON."""

    calls: int  # completed calls
    sequence: bytes  # symbol hashes of the cleaned sequence
    seqs: bytes  # seq of the first call of each element of the sequence
    keys: bytes  # key hashes, ascending
    counts: bytes  # by key
    terms: bytes  # texts by key hash or symbol hash
    quotes: bytes  # summary of the first call of each element of the sequence
    state: bytes  # of the fold
    version: str = DIGEST_VERSION


class Digest:
    """The fold. Feed it a session's events in order of seq, then `pack` it."""

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
        self.call_listener = call_listener
        self.counts = KeyCounts()
        self.sequence: list[int] = []  # the cleaned sequence, as symbol hashes
        self.seqs: list[int] = []  # of the first call of each element
        self.quotes: list[str] = []  # what the first call of each element was given
        self.pairer = CallPairer()
        self.completed_calls = 0
        self.last_symbols = (START, START)  # of the last two calls, the latest last; "!" marks a failed call
        self.last_step = ""  # the last symbol of the sequence
        self.last_step_repeats = False
        self.user_spoke = False  # since the last call
        if packed is not None:
            self.counts = KeyCounts(_unpack_counts(packed), unpack_terms(packed.terms))
            self.sequence = np.frombuffer(packed.sequence, np.int64).tolist()
            self.seqs = np.frombuffer(packed.seqs, np.int64).tolist()
            self.quotes = unpack_quotes(packed.quotes)
        self.bindings = BindingFold(self.counts, salt, redact, keep_values=keep_values)
        self.preconditions = PreconditionFold(self.counts)
        if packed is not None:
            self._load_state(json.loads(zlib.decompress(packed.state)))

    def feed(self, event: Event) -> None:
        """Take the next event."""
        match event.type:
            case EventType.TOOL_CALL | EventType.TOOL_RESULT:
                call = self.pairer.feed(event)
                if call is not None:
                    self._feed_call(call)
            case EventType.USER_MESSAGE:
                if event.data.get("origin", "user") == "user":
                    self.bindings.feed_user_message(str(event.data.get("text", "")))
                    self.user_spoke = True
            case EventType.TASK_END:
                self.counts.add(("task", str(event.data.get("outcome", "unknown"))))
            case (
                EventType.ASSISTANT_RESPONSE
                | EventType.THINKING_START
                | EventType.POLICY_DECISION
                | EventType.APPROVAL_REQUESTED
                | EventType.APPROVAL_GRANTED
                | EventType.APPROVAL_DENIED
                | EventType.SUBAGENT_SPAWN
                | EventType.SUBAGENT_COMPLETE
                | EventType.TASK_START
                | EventType.ERROR
                | EventType.SESSION_START
                | EventType.SESSION_END
            ):
                pass
            case _:
                assert_never(event.type)

    def _feed_call(self, call: CompletedCall) -> None:
        symbol = call_symbol(call)
        self._count_step(symbol, call)
        self._extend_sequence(symbol, call)
        self.bindings.feed_call(symbol, call.arguments, call.result, ok=call.ok)
        self.preconditions.feed(symbol, self.bindings.last_argument_values(symbol), ok=call.ok)
        if self.call_listener is not None:
            self.call_listener.feed(call)
        self.completed_calls += 1

    def _count_step(self, symbol: str, call: CompletedCall) -> None:
        """Count the call's outcome, and what came before it."""
        before_last, last = self.last_symbols
        user = "user" if self.user_spoke else ""
        add = self.counts.add
        add(("tool", symbol, call.tool))
        add(("ok" if call.ok else "failed", symbol))
        add(("next", last, user, symbol))
        add(("after", last, user))
        add(("next", before_last, last, user, symbol))
        add(("after", before_last, last, user))
        self.last_symbols = (last, symbol if call.ok else symbol + "!")
        self.user_spoke = False

    def _extend_sequence(self, symbol: str, call: CompletedCall) -> None:
        """Add a call to the cleaned sequence: failed calls are dropped, and X X X becomes one element, X.

        X once and X several times are one symbol, so that support does not split by how often a step was repeated.
        """
        if not call.ok:
            return
        if symbol != self.last_step:
            self.last_step, self.last_step_repeats = symbol, False
            symbol_hash = hash_text(symbol)
            self.counts.set_symbol_text(symbol_hash, symbol)
            self.counts.add(("step", symbol))
            self.sequence.append(symbol_hash)
            self.seqs.append(call.seq)
            self.quotes.append(self._quote_arguments(call))
        elif not self.last_step_repeats:
            self.last_step_repeats = True
            self.counts.add(("run", symbol))

    def _quote_arguments(self, call: CompletedCall) -> str:
        """Summarize what a call was given, redacted: evidence that outlives the event."""
        summary = summarize_arguments(
            call.tool, call.arguments, _MAX_REDACTED, redact_named=self.bindings.redactor.redact_named
        )
        if len(summary) >= _MAX_REDACTED:
            # Drop the word at the cut: it may be half a credential, and redaction before it shortens the text.
            summary = summary.rsplit(" ", 1)[0]
        summary = self.redact(summary)
        return summary if len(summary) <= _MAX_QUOTE else summary[: _MAX_QUOTE - 1] + "…"

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
            terms=_compress_json({str(key): text for key, text in sorted(self.counts.texts.items())}),
            quotes=_compress_json(self.quotes),
            state=_compress_json(self._state()),
        )

    def _state(self) -> dict[str, Any]:
        return {
            "calls": self.pairer.to_json(),
            "done": self.completed_calls,
            "previous": self.last_symbols,
            "running": self.last_step,
            "repeated": self.last_step_repeats,
            "spoken": self.user_spoke,
            "bindings": self.bindings.to_json(),
            "fixes": self.preconditions.to_json(),
        }

    def _load_state(self, state: Mapping[str, Any]) -> None:
        self.pairer = CallPairer.from_json(state["calls"])
        self.completed_calls = state["done"]
        self.last_symbols = (state["previous"][0], state["previous"][1])
        self.last_step = state["running"]
        self.last_step_repeats = state["repeated"]
        self.user_spoke = state["spoken"]
        self.bindings.load(state["bindings"])
        self.preconditions.load(state["fixes"])


def _unpack_counts(packed: PackedDigest) -> dict[int, int]:
    keys: Ints = np.frombuffer(packed.keys, np.int64)
    counts: Ints = np.frombuffer(packed.counts, np.int64)
    return dict(zip(keys.tolist(), counts.tolist(), strict=True))


def _compress_json(value: Any) -> bytes:
    return zlib.compress(json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode(), 6)


def unpack_quotes(quotes: bytes) -> list[str]:
    """Return the quotes of a stored digest, one for each element of its sequence."""
    unpacked: list[str] = json.loads(zlib.decompress(quotes))
    return unpacked


def unpack_terms(terms: bytes) -> dict[int, str]:
    """Return the texts of a stored digest by key hash or symbol hash."""
    return {int(key): text for key, text in json.loads(zlib.decompress(terms)).items()}
