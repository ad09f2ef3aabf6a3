"""Fold a session's events into its digest: all that procedures are summed from.

A left fold: however a session is cut into nights, the digest is the same. It also keeps the state that the next night
continues from, since the events may be pruned by then.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, assert_never

import numpy as np

from consolidator.memory.calls.argument_summary import summarize_arguments
from consolidator.memory.calls.call_pairing import CallPairer, CompletedCall
from consolidator.memory.calls.symbols import call_symbol, is_inspection, tool_symbol
from consolidator.memory.lessons.trace import TRACE_VERSION
from consolidator.memory.procedures.bindings import BindingFold
from consolidator.memory.procedures.key_counts import KeyCounts, hash_text
from consolidator.memory.text.invisible import strip_invisible
from consolidator.memory.text.markers import strip_recalled
from consolidator.models.event import Event
from consolidator.models.payload import EventType

DIGEST_VERSION = f"d16-{TRACE_VERSION}"  # of what is kept; digests of another version are derived again
SAME_TOOL, SAME_CALL = "same tool", "same call"  # what may follow any call
START = "^"  # the symbol before the first call
MAX_SAID_SHAPES = 4
COMPRESSION = 3  # zlib's level: half the time of 6, for a tenth more bytes
_MAX_QUOTE = 120  # characters
_MAX_REDACTED = 1000  # characters that are redacted before the cut to a quote, so that no half of a credential remains


class CallListener(Protocol):
    """Another fold over the same calls, such as the error tracker."""

    def feed(self, call: CompletedCall) -> None:
        """Take the next completed call."""

    def feed_user_message(self, text: str) -> None:
        """Take what a person said."""


class LastStep(NamedTuple):
    """One of the last calls made."""

    symbol: str  # "!" at its end marks a failed call
    call: int  # its index in the session; -1 before the first


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
        self.last_steps = [LastStep(START, -1)] * 2  # the last two calls, the latest last
        self.last_step = ""  # the last symbol of the sequence
        self.last_step_repeats = False
        self.last_call_hash = 0
        self.last_call: tuple[str, Any] | None = None  # tool and arguments of the last call in this process
        self.user_spoke = False  # since the last call
        self.said_shapes: set[str] = set()  # forms of the values that the user said since the last call
        if packed is not None:
            keys, counts = (
                np.frombuffer(packed_ints, np.int64).tolist() for packed_ints in (packed.keys, packed.counts)
            )
            self.counts = KeyCounts(dict(zip(keys, counts, strict=True)), unpack_terms(packed.terms))
            self.sequence = np.frombuffer(packed.sequence, np.int64).tolist()
            self.seqs = np.frombuffer(packed.seqs, np.int64).tolist()
            self.quotes = unpack_quotes(packed.quotes)
        self.bindings = BindingFold(self.counts, salt, redact, keep_values=keep_values)
        if packed is not None:
            self._load_state(json.loads(zlib.decompress(packed.state)))

    def feed(self, event: Event) -> None:
        """Take the next event."""
        match event.type:
            case EventType.TOOL_CALL:
                self.pairer.feed(event)
                if (call_made := self.pairer.pending[-1]).get("is_step", True):
                    self._begin_call(call_made)
            case EventType.TOOL_RESULT | EventType.POLICY_DECISION:  # some decisions end a call
                call = self.pairer.feed(event)
                if call is not None and call.is_step:
                    self._finish_call(call)
            case EventType.USER_MESSAGE:
                if event.is_persons_word:
                    text = strip_recalled(strip_invisible(str(event.data.get("text") or "")))
                    self.said_shapes |= self.bindings.feed_user_message(text)
                    if self.call_listener is not None:
                        self.call_listener.feed_user_message(text)
                    self.user_spoke = True
            case EventType.TASK_END:
                self.counts.add(("task", str(event.data.get("outcome", "unknown"))))
            case EventType.SESSION_START:
                self.pairer.feed(event)  # where calls run that say no folder
            case (
                EventType.TASK_START | EventType.ASSISTANT_RESPONSE | EventType.THINKING_START
                | EventType.APPROVAL_REQUESTED | EventType.APPROVAL_GRANTED | EventType.APPROVAL_DENIED
                | EventType.SUBAGENT_SPAWN | EventType.SUBAGENT_COMPLETE | EventType.ERROR
                | EventType.SESSION_END
            ):  # fmt: skip
                pass
            case _:
                assert_never(event.type)

    def _begin_call(self, open_call: Mapping[str, Any]) -> None:
        """Take a call when it is made: calls beside it must not wait for its result."""
        arguments = open_call["arguments"]
        symbol = tool_symbol(open_call["tool"], arguments)
        context, last_symbol = self.repetition_context, self.last_symbol
        self._count_step(symbol, open_call["tool"], open_call["index"])
        call_hash = self.bindings.begin_call(open_call["index"], symbol, arguments)
        if last_symbol != START:
            self.counts.add(("after", START, context))
            if symbol == last_symbol:
                self.counts.add(("next", START, context, SAME_TOOL))
            if call_hash == self.last_call_hash:
                self.counts.add(("next", START, context, SAME_CALL))
        self.last_call_hash = call_hash
        self.last_call = (open_call["tool"], arguments)

    def _finish_call(self, call: CompletedCall) -> None:
        symbol = call_symbol(call)
        self.counts.add(("ok" if call.ok else "failed", symbol))
        if not call.ok:
            self.last_steps = [
                step._replace(symbol=symbol + "!") if step.call == call.index else step for step in self.last_steps
            ]
        self._extend_sequence(symbol, call)
        self.bindings.finish_call(call.index, symbol, call.arguments, call.result, ok=call.ok)
        if self.call_listener is not None:
            self.call_listener.feed(call)
        self.completed_calls += 1

    def _count_step(self, symbol: str, tool: str, index: int) -> None:
        """Count the call, and what came before it."""
        before_last, last = (step.symbol for step in self.last_steps)
        since = self.since_last_call
        add = self.counts.add
        add(("tool", symbol, tool))
        add(("next", last, since, symbol))
        add(("after", last, since))
        add(("next", before_last, last, since, symbol))
        add(("after", before_last, last, since))
        if self.user_spoke:
            add(("next", last, self.said_context, symbol))
            add(("after", last, self.said_context))
        self.last_steps = [self.last_steps[1], LastStep(symbol, index)]
        self.user_spoke = False
        self.said_shapes = set()

    @property
    def last_symbol(self) -> str:
        """The symbol of the last call, failed or not; `START` before the first."""
        return self.last_steps[1].symbol.removesuffix("!")

    @property
    def repetition_context(self) -> str:
        """What decides whether the last call is made again, whatever it was: whether it failed, and what came since."""
        return f"again {self.since_last_call}{'!' if self.last_steps[1].symbol.endswith('!') else ''}"

    @property
    def said_context(self) -> str:
        """The forms of the values that the user said since the last call, as the last part of a context."""
        return " ".join(["said", *sorted(self.said_shapes)[:MAX_SAID_SHAPES]])

    @property
    def since_last_call(self) -> str:
        """What happened since the last call: "user" spoke; the call is still "open"; "" for neither."""
        if self.user_spoke:
            return "user"
        steps = (call for call in self.pairer.pending if call.get("is_step", True))
        open_calls = (call["index"] for call in steps if "in_background" not in call)
        return "open" if self.last_steps[1].call in open_calls else ""

    def _extend_sequence(self, symbol: str, call: CompletedCall) -> None:
        """Add a call to the cleaned sequence: what failed or only looked is no step, and X X X becomes one element, X.

        X once and X several times are one symbol, so that support does not split by how often a step was repeated.
        """
        if not call.ok or is_inspection(symbol):
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
            "previous": self.last_steps,
            "running": self.last_step,
            "repeated": self.last_step_repeats,
            "last": self.last_call_hash,
            "spoken": self.user_spoke,
            "said": sorted(self.said_shapes),
            "bindings": self.bindings.to_json(),
        }

    def _load_state(self, state: Mapping[str, Any]) -> None:
        self.pairer = CallPairer.from_json(state["calls"])
        self.completed_calls = state["done"]
        self.last_steps = [LastStep(symbol, index) for symbol, index in state["previous"]]
        self.last_step = state["running"]
        self.last_step_repeats = state["repeated"]
        self.last_call_hash = state["last"]
        self.user_spoke = state["spoken"]
        self.said_shapes = set(state["said"])
        self.bindings.load(state["bindings"])


def _compress_json(value: Any) -> bytes:
    return zlib.compress(json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode(), COMPRESSION)


def unpack_quotes(quotes: bytes) -> list[str]:
    """Return the quotes of a stored digest, one for each element of its sequence."""
    unpacked: list[str] = json.loads(zlib.decompress(quotes))
    return unpacked


def unpack_terms(terms: bytes) -> dict[int, str]:
    """Return the texts of a stored digest by key hash or symbol hash."""
    return {int(key): text for key, text in json.loads(zlib.decompress(terms)).items()}
