"""Whole next call, tool and every argument: learned bindings against a bigram with last values or constants.

    python -m benchmarks.quality.next_call FOLDER [--format auto] [--split 0.5]

The pure part, sessions of events in and figures out, is below; `asked` asks the product, on what an import and a
night have stored of the training part.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.quality import product
from benchmarks.report import Report
from benchmarks.server import Server, open_server
from consolidator.database import Database
from consolidator.formats.base import Format
from consolidator.llm.redaction.redact import redact
from consolidator.memory.calls.call_pairing import CallPairer, CompletedCall
from consolidator.memory.calls.columns import flatten
from consolidator.memory.calls.symbols import call_symbol
from consolidator.memory.procedures.digest import Digest
from consolidator.memory.procedures.key_sums import KeySums
from consolidator.memory.procedures.key_texts import KeyTexts
from consolidator.memory.procedures.patterns import DigestArrays
from consolidator.memory.procedures.prediction import predict_argument, predict_next_calls
from consolidator.memory.procedures.tool_profiles import ToolProfile, build_profiles
from consolidator.models.event import Event
from consolidator.models.payload import EventType
from consolidator.service.explain import suggest_from_digest
from consolidator.store.memory import lookup
from consolidator.store.queries import Row

Session = tuple[str, list[Event]]
SALT = b"benchmark"
SURE = 0.6  # the confidence from which an argument counts as filled in
AIRLINE, BELOW = 0.22, 0.03  # the gates: on tau-airline, and elsewhere below the better baseline


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

    def learn(self, calls: Sequence[CompletedCall]) -> None:
        """Count a session of the training part."""
        last = "^"
        for call in calls:
            name = call_symbol(call)
            self.follows[last][name] += 1
            self.usual[name][_canonical(call.arguments)] += 1
            self.shapes[name][_names(call.arguments)] += 1
            self.tools[name] = call.tool
            last = name

    def guesses(self, before: Sequence[CompletedCall]) -> tuple[str, str, str] | None:
        """Return the next symbol, and its arguments by last value and by constant (canonical JSON)."""
        last = call_symbol(before[-1]) if before else "^"
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
    """Return the share of calls whose tool and every argument were predicted, each part learned from the others.

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
    return {"folds": folds, "sessions": sum(map(len, by_part.values())), **shares(hits)}


def shares(hits: Counter[str]) -> dict[str, Any]:
    """Return counts as shares: of the calls, and of the arguments."""
    calls, arguments, filled = (max(hits[name], 1) for name in ("calls", "arguments", "filled"))
    figures: dict[str, Any] = {"calls": hits["calls"]}
    for name in ("tool", "learned", "bigram", "last_value", "constant", "answered", "answered_right"):
        figures[name] = round(hits[name] / calls, 4)
    figures["arguments"] = hits["arguments"]
    figures["filled"] = round(hits["filled"] / arguments, 4)
    figures["filled_right"] = round(hits["filled_right"] / filled, 4)
    return figures


def learn(sessions: Iterable[Session]) -> dict[str, ToolProfile]:
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
    return build_profiles(KeySums.of_sessions(arrays), KeyTexts.from_dict(terms))


class Guess(NamedTuple):
    """A call that may come next."""

    symbol: str
    arguments: Any
    likelihood: float  # that this tool comes next
    confidence: float  # that the whole call is right


def _score(events: list[Event], profiles: dict[str, ToolProfile], baseline: Baseline) -> Counter[str]:
    def ask(digest: Digest) -> list[Guess]:
        return [Guess(s.symbol, s.arguments, s.likelihood, s.confidence) for s in predict_next_calls(profiles, digest)]

    digest = Digest(lambda text: text, SALT, keep_values=True)
    return score(events, digest, profiles, ask, baseline)


def score(
    events: list[Event],
    digest: Digest,
    profiles: dict[str, ToolProfile],
    ask: Callable[[Digest], list[Guess]],
    baseline: Baseline,
) -> Counter[str]:
    """Count what was predicted of a session's calls, each from the events before it."""
    hits: Counter[str] = Counter()
    calls = {call.seq: call for call in _calls(events)}
    before: list[CompletedCall] = []
    finished = {call.result_seq: call for call in calls.values()}
    for event in events:
        call = calls.get(event.seq)
        if call is not None:
            hits["calls"] += 1
            hits += _judge(call, ask(digest))
            hits += _judge_baseline(call, before, baseline)
            hits += _judge_arguments(call, profiles, digest)
        digest.feed(event)
        if event.seq in finished:
            before.append(finished[event.seq])
    return hits


def _judge(call: CompletedCall, found: list[Guess]) -> Counter[str]:
    hits: Counter[str] = Counter()
    if found:
        hits["tool"] += max(found, key=lambda one: one.likelihood).symbol == call_symbol(call)
        right = (found[0].symbol, _canonical(found[0].arguments)) == (call_symbol(call), _canonical(call.arguments))
        hits["learned"] += right
        if found[0].confidence >= 0.5:
            hits["answered"] += 1
            hits["answered_right"] += right
    return hits


def _judge_baseline(call: CompletedCall, before: list[CompletedCall], baseline: Baseline) -> Counter[str]:
    hits: Counter[str] = Counter()
    actual = (call_symbol(call), _canonical(call.arguments))
    guess = baseline.guesses(before)
    if guess is not None:
        hits["bigram"] += guess[0] == actual[0]
        hits["last_value"] += (guess[0], guess[1]) == actual
        hits["constant"] += (guess[0], guess[2]) == actual
    return hits


def _judge_arguments(call: CompletedCall, profiles: dict[str, ToolProfile], digest: Digest) -> Counter[str]:
    """Count the arguments that bindings would have filled, had the tool been known."""
    hits: Counter[str] = Counter()
    profile = profiles.get(call_symbol(call))
    for path, column in flatten(call.arguments).items():
        hits["arguments"] += 1
        if profile is None:
            continue
        value, sure, _ = predict_argument(profile, path, digest.bindings)
        if value is not None and sure >= SURE:
            hits["filled"] += 1
            hits["filled_right"] += _canonical(value) == _canonical(column)
    return hits


def _calls(events: list[Event]) -> list[CompletedCall]:
    fold = CallPairer()
    kinds = (EventType.TOOL_CALL, EventType.TOOL_RESULT)
    return [call for event in events if event.type in kinds and (call := fold.feed(event)) is not None]


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _names(arguments: Any) -> tuple[str, ...]:
    return tuple(sorted(arguments)) if isinstance(arguments, dict) else ()


def _top(counter: Counter[Any]) -> Any:
    return min(counter.items(), key=lambda entry: (-entry[1], str(entry[0])))[0]


@dataclass(slots=True)
class Imported:
    """A folder as the product's import has stored it."""

    rows: dict[str, Row]  # sessions by id
    events: dict[str, list[Event]]
    tasks: dict[str, str]

    @classmethod
    async def of(cls, database: Database) -> Imported:
        """Read every session that called a tool."""
        async with database.connection() as conn:
            rows = {row["id"]: row for row in await product.all_sessions(conn)}
            events = {name: await product.events_of(conn, row) for name, row in rows.items()}
        tasks = {name: product.task_of(rows[name], found) for name, found in events.items()}
        return cls(rows, events, tasks)

    def parts(self, split: float | None, folds: int | None) -> list[tuple[set[str], set[str]]]:
        """Return what to learn from and what to hold out, by task: once by a share, or each of several parts once."""
        if split is not None:
            early = {name for name, task in self.tasks.items() if share_of(task) < split}
            return [(early, set(self.tasks) - early)]
        several = folds or (2 if len(set(self.tasks.values())) >= 20 else 5)
        by_part: dict[int, set[str]] = defaultdict(set)
        for name, task in self.tasks.items():
            by_part[fold_of(task, several)].add(name)
        return [(set(self.tasks) - held, held) for _, held in sorted(by_part.items())]


def share_of(task_id: str) -> float:
    """Return where a task's hash falls between 0 and 1."""
    return fold_of(task_id, 1 << 32) / (1 << 32)


async def asked(
    server: Server, folder: Path, form: Format | None = None, *, split: float | None = None, folds: int | None = None
) -> dict[str, Any]:
    """Import a folder, learn from a part of its tasks in a night, and ask for every call of the others."""
    async with server.database(product.clock()) as whole:
        report = await product.bring_in(whole, folder, form)
        imported = await Imported.of(whole)
    hits: Counter[str] = Counter()
    parts = imported.parts(split, folds)
    for training, held in parts:
        async with server.database(product.clock()) as database:
            await product.bring_in(database, folder, form, training)
            await product.night(database, server)
            hits += await _ask_all(database, imported, training, held)
    told = {"split": split} if split is not None else {"folds": len(parts)}
    held_out = sum(len(held) for _, held in parts)
    return {**told, "sessions": len(imported.rows), "held_out": held_out, "problems": report.problem_count} | shares(
        hits
    )


async def _ask_all(database: Database, imported: Imported, training: set[str], held: set[str]) -> Counter[str]:
    """Ask for the calls of held-out sessions as `next` does, and two baselines learned from the same sessions."""
    baselines: dict[str, Baseline] = defaultdict(Baseline)
    for name in sorted(training):
        baselines[imported.rows[name]["agent"]].learn(_calls(imported.events[name]))
    hits: Counter[str] = Counter()
    for name in sorted(held):
        row = imported.rows[name]
        async with database.connection() as conn:
            stored = await lookup.profiles(conn, row["agent"], row["project"])
        profiles = {one["tool"]: ToolProfile.from_json(one["body"]) for one in stored}
        hits += await asyncio.to_thread(_ask, imported.events[name], profiles, baselines[row["agent"]])
    return hits


def _ask(events: list[Event], profiles: dict[str, ToolProfile], baseline: Baseline) -> Counter[str]:
    """Ask for each call of a session; the digest is fed call by call, which gives what folding anew would."""

    def ask(digest: Digest) -> list[Guess]:
        found = suggest_from_digest(profiles, digest)
        return [Guess(s["symbol"], s["arguments"], s["likelihood"], s["confidence"]) for s in found]

    return score(events, Digest(redact, b"", keep_values=True), profiles, ask, baseline)


def reported(figures: dict[str, Any], folder: Path) -> Report:
    """Return the figures with their gates."""
    report = Report("next_call", f"whole next calls of {folder.name}, never seen", details={"figures_raw": figures})
    better = max(figures["last_value"], figures["constant"])
    gate = AIRLINE if folder.name == "tau-airline" else None
    report.add("whole call, learned bindings", figures["learned"], "of calls", at_least=gate)
    report.add("whole call, bigram + last value", figures["last_value"], "of calls")
    report.add("whole call, bigram + constant", figures["constant"], "of calls")
    report.add("learned - better baseline", figures["learned"] - better, "of calls", at_least=-BELOW)
    report.add("name alone, learned", figures["tool"], "of calls")
    report.add("name alone, bigram", figures["bigram"], "of calls")
    report.add(f"arguments filled at {SURE}", figures["filled"], "of arguments")
    report.add("of these right", figures["filled_right"], "of filled")
    report.add("calls", figures["calls"])
    report.add("sessions held out", figures["held_out"], f"of {figures['sessions']}")
    return report


async def run(folder: Path, form: Format | None, split: float | None, folds: int | None) -> Report:
    """Measure a folder on a server of its own."""
    async with open_server() as server:
        return reported(await asked(server, folder, form, split=split, folds=folds), folder)


def main() -> None:
    """Print a table and a line of JSON."""
    parser = product.folder_parser(__doc__)
    parser.add_argument("--split", type=float, help="learn from this share of the tasks, and ask for the rest")
    parser.add_argument("--folds", type=int, help="hold out each of so many parts once (2; of few tasks 5)")
    options = parser.parse_args()
    form = product.known_format(options.format)
    product.show(asyncio.run(run(options.folder, form, options.split, options.folds)), options.json)


if __name__ == "__main__":
    main()
