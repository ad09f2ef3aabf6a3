"""Predict whole next calls, tool and every argument: learned bindings against bigrams with last values or constants.

    python -m benchmarks.quality.next_call FOLDER [--format auto] [--split 0.5]

`evaluate` is pure: sessions of events in, figures out. `measure_folder` measures the product, after an import and a
night of the training part.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from benchmarks.harness.report import Report
from benchmarks.harness.server import BenchmarkServer, open_server
from benchmarks.quality import product_runs
from consolidator.database import Database
from consolidator.formats.base import Format
from consolidator.llm.redaction.redact import redact
from consolidator.memory.calls.call_pairing import CallPairer, CompletedCall
from consolidator.memory.calls.columns import flatten
from consolidator.memory.calls.symbols import call_symbol
from consolidator.memory.procedures.digest import Digest
from consolidator.memory.procedures.key_counts import KeySums
from consolidator.memory.procedures.key_texts import KeyTexts
from consolidator.memory.procedures.patterns import DigestArrays
from consolidator.memory.procedures.prediction import predict_argument, predict_next_calls
from consolidator.memory.procedures.tool_profiles import ToolProfile, build_profiles
from consolidator.models.event import Event
from consolidator.models.memory_filter import MemoryScope
from consolidator.models.session import SessionRow
from consolidator.service.memory.suggestions import suggest_from_digest
from consolidator.store.log.events import read
from consolidator.store.memory import lookup

TaskSession: TypeAlias = tuple[str, list[Event]]  # task id and events
SALT = b"benchmark"
MIN_CONFIDENCE = 0.6  # from which an argument counts as filled
AIRLINE_TARGET = 0.40  # share of whole calls on tau-airline
MAX_BELOW_BASELINE = 0.03  # on other folders, below the better baseline
_START = "^"


def task_fold(task_id: str, folds: int) -> int:
    """Return the fold of a task; all sessions of a task are in the same one."""
    return int.from_bytes(hashlib.blake2b(task_id.encode(), digest_size=8).digest(), "big") % folds


class BaselinePrediction(NamedTuple):
    """The next call as a baseline predicts it, arguments as canonical JSON."""

    symbol: str
    by_last_value: str
    by_constant: str


@dataclass(slots=True)
class Baseline:
    """A bigram of symbols, with each argument's last value or the symbol's most common arguments."""

    followers: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    arguments: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    shapes: dict[str, Counter[tuple[str, ...]]] = field(default_factory=lambda: defaultdict(Counter))

    def count_session(self, calls: Sequence[CompletedCall]) -> None:
        """Count a session of the training part."""
        last = _START
        for call in calls:
            symbol = call_symbol(call)
            self.followers[last][symbol] += 1
            self.arguments[symbol][_canonical(call.arguments)] += 1
            self.shapes[symbol][_argument_names(call.arguments)] += 1
            last = symbol

    def predict(self, earlier: Sequence[CompletedCall]) -> BaselinePrediction | None:
        """Return the next call after the earlier ones of a session; None where nothing followed the last one."""
        last = call_symbol(earlier[-1]) if earlier else _START
        if last not in self.followers:
            return None
        symbol = _most_common(self.followers[last])
        last_values: dict[str, Any] = {}
        for call in earlier:
            if isinstance(call.arguments, dict):
                last_values.update(call.arguments)
        arguments = {name: last_values.get(name) for name in _most_common(self.shapes[symbol])}
        return BaselinePrediction(symbol, _canonical(arguments), _most_common(self.arguments[symbol]))


def evaluate(sessions: Iterable[TaskSession], folds: int | None = None) -> dict[str, Any]:
    """Return the share of calls whose tool and every argument were predicted, each fold from the others.

    Two folds; five where there are fewer than twenty tasks, too few for a half to learn from.
    """
    sessions = list(sessions)
    if folds is None:
        folds = _default_folds({task_id for task_id, _ in sessions})
    by_fold: dict[int, list[TaskSession]] = defaultdict(list)
    for task_id, events in sessions:
        by_fold[task_fold(task_id, folds)].append((task_id, events))
    hits: Counter[str] = Counter()
    for fold, held_out in sorted(by_fold.items()):
        training = [session for other, members in by_fold.items() if other != fold for session in members]
        profiles = learn_profiles(training)
        baseline = Baseline()
        for _, events in training:
            baseline.count_session(_completed_calls(events))
        for _, events in held_out:
            hits += _score_without_product(events, profiles, baseline)
    return {"folds": folds, "sessions": len(sessions), **to_shares(hits)}


def _default_folds(tasks: Collection[str]) -> int:
    return 2 if len(tasks) >= 20 else 5


def to_shares(hits: Counter[str]) -> dict[str, Any]:
    """Return counts as shares of the calls and of the arguments."""
    calls, arguments, filled, beside_open = (
        max(hits[name], 1) for name in ("calls", "arguments", "filled", "beside_open")
    )
    figures: dict[str, Any] = {"calls": hits["calls"]}
    for name in ("tool", "learned", "bigram", "last_value", "constant", "answered", "answered_right"):
        figures[name] = round(hits[name] / calls, 4)
    figures["beside_open"] = hits["beside_open"]
    figures["beside_open_right"] = round(hits["beside_open_right"] / beside_open, 4)
    figures["under_way"] = round(hits["under_way"] / beside_open, 4)
    figures["arguments"] = hits["arguments"]
    figures["filled"] = round(hits["filled"] / arguments, 4)
    figures["filled_right"] = round(hits["filled_right"] / filled, 4)
    return figures


def learn_profiles(sessions: Iterable[TaskSession]) -> dict[str, ToolProfile]:
    """Learn from sessions as a night does."""
    arrays = []
    texts: dict[int, str] = {}
    for number, (_, events) in enumerate(sessions):
        digest = Digest(lambda text: text, SALT)
        for event in events:
            digest.feed(event)
        packed = digest.pack()
        session_id = f"{number:06}"
        parts = (packed.sequence, packed.seqs, packed.keys, packed.counts)
        arrays.append(DigestArrays.unpack(session_id, session_id, parts, float(number)))
        texts |= digest.counts.texts
    return build_profiles(KeySums.of_sessions(arrays), KeyTexts.from_dict(texts))


class PredictedCall(NamedTuple):
    """A call that may come next."""

    symbol: str
    arguments: Any
    likelihood: float  # that this tool comes next
    confidence: float  # that the whole call is right


def _score_without_product(events: list[Event], profiles: dict[str, ToolProfile], baseline: Baseline) -> Counter[str]:
    def predict(digest: Digest) -> list[PredictedCall]:
        suggestions = predict_next_calls(profiles, digest)
        return [PredictedCall(s.symbol, s.arguments, s.likelihood, s.confidence) for s in suggestions]

    digest = Digest(lambda text: text, SALT, keep_values=True)
    return score_session(events, digest, profiles, predict, baseline)


def score_session(
    events: list[Event],
    digest: Digest,
    profiles: dict[str, ToolProfile],
    predict: Callable[[Digest], list[PredictedCall]],
    baseline: Baseline,
) -> Counter[str]:
    """Count the correct predictions of a session's calls, each from the events before it."""
    hits: Counter[str] = Counter()
    calls = _completed_calls(events)
    call_by_seq = {call.seq: call for call in calls}
    call_by_result_seq = {call.result_seq: call for call in calls}
    earlier: list[CompletedCall] = []  # calls made, also those without a result yet
    open_calls: dict[int, CompletedCall] = {}  # by seq
    for event in events:
        call = call_by_seq.get(event.seq)
        if call is not None:
            hits["calls"] += 1
            hits += _score_call(call, predict(digest), list(open_calls.values()))
            hits += _score_baseline(call, earlier, baseline)
            hits += _score_arguments(call, profiles, digest)
            earlier.append(call)
            open_calls[call.seq] = call
        digest.feed(event)
        if event.seq in call_by_result_seq:
            del open_calls[call_by_result_seq[event.seq].seq]
    return hits


def _score_call(
    call: CompletedCall, predictions: list[PredictedCall], open_calls: Sequence[CompletedCall]
) -> Counter[str]:
    """Score the predictions of a call; `open_calls` are those made before it whose results come after it."""
    hits: Counter[str] = Counter(beside_open=bool(open_calls))
    if predictions:
        best = predictions[0]
        likeliest = max(predictions, key=lambda prediction: prediction.likelihood)
        hits["tool"] += likeliest.symbol == call_symbol(call)
        suggested = (best.symbol, _canonical(best.arguments))
        is_right = suggested == _identify(call)
        hits["learned"] += is_right
        if open_calls:
            hits["beside_open_right"] += is_right
            hits["under_way"] += not is_right and suggested in map(_identify, open_calls)
        if best.confidence >= 0.5:
            hits["answered"] += 1
            hits["answered_right"] += is_right
    return hits


def _identify(call: CompletedCall) -> tuple[str, str]:
    return call_symbol(call), _canonical(call.arguments)


def _score_baseline(call: CompletedCall, earlier: list[CompletedCall], baseline: Baseline) -> Counter[str]:
    hits: Counter[str] = Counter()
    symbol, arguments = _identify(call)
    prediction = baseline.predict(earlier)
    if prediction is not None:
        hits["bigram"] += prediction.symbol == symbol
        hits["last_value"] += (prediction.symbol, prediction.by_last_value) == (symbol, arguments)
        hits["constant"] += (prediction.symbol, prediction.by_constant) == (symbol, arguments)
    return hits


def _score_arguments(call: CompletedCall, profiles: dict[str, ToolProfile], digest: Digest) -> Counter[str]:
    """Count the arguments that bindings would have filled, had the tool been known."""
    hits: Counter[str] = Counter()
    profile = profiles.get(call_symbol(call))
    for path, column in flatten(call.arguments).items():
        hits["arguments"] += 1
        if profile is None:
            continue
        predicted = predict_argument(profile, path, digest.bindings)
        if predicted.column is not None and predicted.confidence >= MIN_CONFIDENCE:
            hits["filled"] += 1
            hits["filled_right"] += _canonical(predicted.column) == _canonical(column)
    return hits


def _completed_calls(events: list[Event]) -> list[CompletedCall]:
    pairer = CallPairer()
    return [call for event in events if (call := pairer.feed(event)) is not None]


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _argument_names(arguments: Any) -> tuple[str, ...]:
    return tuple(sorted(arguments)) if isinstance(arguments, dict) else ()


def _most_common(counter: Counter[Any]) -> Any:
    return min(counter.items(), key=lambda entry: (-entry[1], str(entry[0])))[0]


@dataclass(slots=True)
class ImportedFolder:
    """A folder as the product's import stored it."""

    sessions: dict[str, SessionRow]  # by id
    events: dict[str, list[Event]]  # by session id
    tasks: dict[str, str]  # task id by session id

    @classmethod
    async def load(cls, database: Database) -> ImportedFolder:
        """Read every session with its events."""
        async with database.connection() as conn:
            sessions = {session.id: session for session in await product_runs.load_sessions(conn)}
            events = {session_id: await read(conn, session_id) for session_id in sessions}
        tasks = {session_id: product_runs.find_task(sessions[session_id], log) for session_id, log in events.items()}
        return cls(sessions, events, tasks)

    def split_by_task(self, split: float | None, folds: int | None) -> list[tuple[set[str], set[str]]]:
        """Return pairs of training and held-out session ids, by task: one by a share, or one for each fold."""
        if split is not None:
            training = {session for session, task in self.tasks.items() if task_fraction(task) < split}
            return [(training, set(self.tasks) - training)]
        fold_count = folds or _default_folds(set(self.tasks.values()))
        by_fold: dict[int, set[str]] = defaultdict(set)
        for session, task in self.tasks.items():
            by_fold[task_fold(task, fold_count)].add(session)
        return [(set(self.tasks) - held_out, held_out) for _, held_out in sorted(by_fold.items())]


def task_fraction(task_id: str) -> float:
    """Return a task's hash as a number between 0 and 1."""
    return task_fold(task_id, 1 << 32) / (1 << 32)


async def measure_folder(
    server: BenchmarkServer,
    folder: Path,
    log_format: Format | None = None,
    *,
    split: float | None = None,
    folds: int | None = None,
) -> dict[str, Any]:
    """Import a folder, learn from a part of its tasks in a night, and predict every call of the others."""
    async with server.open_database(product_runs.freeze_clock()) as full_database:
        report = await product_runs.import_folder(full_database, folder, log_format)
        imported = await ImportedFolder.load(full_database)
    hits: Counter[str] = Counter()
    splits = imported.split_by_task(split, folds)
    for training, held_out in splits:
        async with server.open_database(product_runs.freeze_clock()) as database:
            await product_runs.import_folder(database, folder, log_format, training)
            await product_runs.run_night(database, server)
            hits += await _score_held_out(database, imported, training, held_out)
    return {
        **({"split": split} if split is not None else {"folds": len(splits)}),
        "sessions": len(imported.sessions),
        "held_out": sum(len(held_out) for _, held_out in splits),
        "problems": report.problem_count,
        **to_shares(hits),
    }


async def _score_held_out(
    database: Database, imported: ImportedFolder, training: set[str], held_out: set[str]
) -> Counter[str]:
    """Predict the calls of held-out sessions as `next` does, and with baselines that learned from the same sessions."""
    baselines: dict[str, Baseline] = defaultdict(Baseline)
    for name in sorted(training):
        baselines[imported.sessions[name].agent].count_session(_completed_calls(imported.events[name]))
    hits: Counter[str] = Counter()
    for name in sorted(held_out):
        session = imported.sessions[name]
        async with database.connection() as conn:
            rows = await lookup.load_tool_profiles(conn, MemoryScope(session.agent, session.project))
        profiles = {row.tool: ToolProfile.from_json(row.body) for row in rows}
        hits += await asyncio.to_thread(_score_with_product, imported.events[name], profiles, baselines[session.agent])
    return hits


def _score_with_product(events: list[Event], profiles: dict[str, ToolProfile], baseline: Baseline) -> Counter[str]:
    """Score a session call by call; one digest is fed along, with the same result as folding each prefix again."""

    def predict(digest: Digest) -> list[PredictedCall]:
        suggestions = suggest_from_digest(profiles, digest)
        return [PredictedCall(s["symbol"], s["arguments"], s["likelihood"], s["confidence"]) for s in suggestions]

    return score_session(events, Digest(redact, b"", keep_values=True), profiles, predict, baseline)


def build_report(figures: dict[str, Any], folder: Path) -> Report:
    """Return the figures as a report, with their targets."""
    report = Report("next_call", f"whole next calls of {folder.name}, never seen", details={"figures_raw": figures})
    better = max(figures["last_value"], figures["constant"])
    gate = AIRLINE_TARGET if folder.name == "tau-airline" else None
    report.add("whole call, learned bindings", figures["learned"], "of calls", at_least=gate)
    report.add("whole call, bigram + last value", figures["last_value"], "of calls")
    report.add("whole call, bigram + constant", figures["constant"], "of calls")
    report.add("learned - better baseline", figures["learned"] - better, "of calls", at_least=-MAX_BELOW_BASELINE)
    if figures["beside_open"]:
        report.add("calls made beside one still open", figures["beside_open"])
        report.add("whole call, beside one still open", figures["beside_open_right"], "of these calls")
        report.add("a call already under way suggested", figures["under_way"], "of these calls")
    report.add("name alone, learned", figures["tool"], "of calls")
    report.add("name alone, bigram", figures["bigram"], "of calls")
    report.add(f"arguments filled at {MIN_CONFIDENCE}", figures["filled"], "of arguments")
    report.add("of these right", figures["filled_right"], "of filled")
    report.add("calls", figures["calls"])
    report.add("sessions held out", figures["held_out"], f"of {figures['sessions']}")
    return report


async def run(folder: Path, log_format: Format | None, split: float | None, folds: int | None) -> Report:
    """Measure a folder, on the benchmark server."""
    async with open_server() as server:
        return build_report(await measure_folder(server, folder, log_format, split=split, folds=folds), folder)


def main() -> None:
    """Print a table and a line of JSON."""
    parser = product_runs.create_folder_parser(__doc__)
    parser.add_argument(
        "--split", type=float, help="learn from this share of the tasks, and predict the calls of the others"
    )
    parser.add_argument(
        "--folds", type=int, help="number of folds; each is held out once (default 2; 5 if there are few tasks)"
    )
    options = parser.parse_args()
    log_format = product_runs.parse_format(options.format)
    product_runs.print_report(asyncio.run(run(options.folder, log_format, options.split, options.folds)), options.json)


if __name__ == "__main__":
    main()
