"""Measure error pairs against hand labels: which call resolved which failed call.

    python -m benchmarks.quality.error_pairs FOLDER --labels FILE

`evaluate` is pure: it compares error records with labels. `measure_folder` makes the records, with an import and a
night of the product.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness.data_sets import recognise_format
from benchmarks.harness.report import Report
from benchmarks.harness.server import BenchmarkServer, open_server
from benchmarks.quality import product_runs
from consolidator.database.jsonb import escape
from consolidator.errors import NotFound
from consolidator.formats.base import ForeignEvent, ForeignSession, Format
from consolidator.jobs.importing.importer import import_sources
from consolidator.memory.solutions.error_records import ErrorRecord
from consolidator.models.payload import EventType
from consolidator.store.queries import fetch_all

PRECISION_TARGET, RECALL_TARGET = 0.75, 0.70  # the targets


@dataclass(frozen=True, slots=True)
class Label:
    """A person's label of one failed call."""

    session: str
    call_index: int  # 0-based, in the order of the session's tool calls
    label: str  # resolved | unresolved | noise
    resolving: tuple[int, ...]  # the calls that count as its resolver
    tool: str | None = None  # of the failed call: identifies the session in a file with several

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Label:
        """Read a line of a labels file."""
        return cls(
            data["session"], data["call_index"], data["label"], tuple(data["resolving_call_index"]), data.get("tool")
        )


def evaluate(records_by_session: Mapping[str, Iterable[ErrorRecord]], labels: Iterable[Label]) -> dict[str, Any]:
    """Return precision, recall and the wrong pairs; errors without a label are ignored.

    precision: right pairs / predicted pairs; a resolver for an error labelled noise or unresolved is wrong.
    recall: errors with an acceptable resolver predicted / errors labelled resolved.
    """
    records = {(session, record.index): record for session, group in records_by_session.items() for record in group}
    predicted = right = resolved = predicted_noise = labelled_noise = not_failed = 0
    wrong: list[dict[str, Any]] = []
    ordered = sorted(labels, key=lambda label: (label.session, label.call_index))
    for label in ordered:
        record = records.get((label.session, label.call_index))
        not_failed += record is None
        resolver = record.resolver_index if record is not None and record.status == "resolved" else None
        is_right = label.label == "resolved" and resolver in label.resolving
        resolved += label.label == "resolved"
        predicted += resolver is not None
        right += is_right
        labelled_noise += label.label == "noise"
        predicted_noise += label.label == "noise" and record is not None and record.status == "noise"
        if not is_right and (resolver is not None or label.label == "resolved"):
            wrong.append(
                {
                    "session": label.session,
                    "call": label.call_index,
                    "label": label.label,
                    "acceptable": list(label.resolving),
                    "predicted": resolver,
                    "rule": record.rule if record is not None else None,
                    "reason": _explain_miss(label, record),
                }
            )
    return {
        "labels": len(ordered),
        "predicted": predicted,
        "right": right,
        "resolved": resolved,
        "precision": right / predicted if predicted else 1.0,
        "recall": right / resolved if resolved else 1.0,
        "noise": labelled_noise,
        "noise_recognised": predicted_noise,
        "not_failed": not_failed,
        "wrong": wrong,
    }


def _explain_miss(label: Label, record: ErrorRecord | None) -> str:
    """Say what is wrong with the prediction for a labelled call."""
    if record is None:
        return "the log does not have it as a failed call"
    error = f"{record.symbol}: {record.headline}"
    if record.resolver_index is None:
        why = f"classified as noise ({record.noise_reason})" if record.status == "noise" else "no resolver found"
        return f"{why}; {error}"
    return f"paired by {record.rule} with {record.resolver_symbol}, but it is {label.label}; {error}"


@dataclass(frozen=True, slots=True)
class LabelledFile:
    """The file and session that labels refer to."""

    path: Path
    log_format: Format
    origin: str


@dataclass(frozen=True, slots=True)
class _StoredRecord:
    origin: str  # of its session
    record: dict[str, Any]


def read_labels(path: Path) -> list[Label]:
    """Read a labels file, one JSON object a line."""
    with path.open(encoding="utf-8") as lines:
        return [Label.from_json(json.loads(line)) for line in lines if line.strip()]


def find_labelled_files(
    folder: Path, labels: Iterable[Label], log_format: Format | None = None
) -> dict[str, LabelledFile]:
    """Return the file and session of each name in the labels: a path below the folder or beside it.

    In a file with several sessions, it is the one whose calls fit the labelled tools best. A name may end in "#" and
    the end of the session's own name. Raises NotFound where there is no such log.
    """
    labels_by_name: dict[str, list[Label]] = defaultdict(list)
    for label in labels:
        labels_by_name[label.session].append(label)
    files: dict[str, LabelledFile] = {}
    for name, session_labels in labels_by_name.items():
        location, _, end = name.partition("#")
        candidates = (folder / location, folder.parent / location, Path(location))
        path = next((candidate for candidate in candidates if candidate.is_file()), None)
        file_format = log_format if log_format is not None else recognise_format(path) if path is not None else None
        if path is None or file_format is None:
            raise NotFound(f"{name}: the labels name it, and there is no log of that name in {folder}")
        sessions = _tools_by_session(path, folder, file_format)
        tools = {origin: calls for origin, calls in sessions.items() if origin.endswith(end)}
        if not tools:
            raise NotFound(f"{name}: no session of this file calls a tool")
        fitting = {origin: _count_fitting(calls, session_labels) for origin, calls in tools.items()}
        files[name] = LabelledFile(path, file_format, max(fitting, key=lambda origin: fitting[origin]))
    return files


def _tools_by_session(path: Path, root: Path, log_format: Format) -> dict[str, list[str]]:
    """Return the tools that each session of a file calls, in order."""
    tools: dict[str, list[str]] = defaultdict(list)
    origin = ""
    for item in log_format.read(path, root):
        if isinstance(item, ForeignSession):
            origin = item.origin
        elif isinstance(item, ForeignEvent) and item.type is EventType.TOOL_CALL:
            tools[origin].append(str(item.data.get("tool")))
    return dict(tools)


def _count_fitting(tools: list[str], labels: Iterable[Label]) -> int:
    """Return how many labels fit a session's calls."""
    return sum(label.call_index < len(tools) and label.tool in (None, tools[label.call_index]) for label in labels)


async def measure_folder(
    server: BenchmarkServer, folder: Path, labels: list[Label], log_format: Format | None = None
) -> dict[str, Any]:
    """Import the labelled sessions, run a night, and compare the error records that it stored with the labels."""
    files = await asyncio.to_thread(find_labelled_files, folder, labels, log_format)
    formats: dict[Path, Format | None] = {file.path: file.log_format for file in files.values()}
    async with server.open_database(product_runs.freeze_clock()) as database:
        imported = await import_sources(database, [product_runs.SelectedFiles(folder, selected=tuple(formats.items()))])
        await product_runs.run_night(database, server)
        async with database.connection() as conn:
            rows = await fetch_all(
                conn,
                _StoredRecord,
                "select s.origin, e.record from error_record e join session s on s.id = e.session_id",
            )
    records: dict[str, list[ErrorRecord]] = defaultdict(list)
    for row in rows:
        records[row.origin].append(ErrorRecord.from_json(row.record))
    records_by_label = {name: records[escape(f"{file.log_format.NAME}:{file.origin}")] for name, file in files.items()}
    return {**evaluate(records_by_label, labels), "sessions": len(files), "problems": imported.problem_count}


def build_report(figures: dict[str, Any]) -> Report:
    """Return the figures as a report, with their targets, and each miss with its reason."""
    report = Report("error_pairs", "which call resolved which failed call, against hand labels")
    report.details["wrong"] = figures["wrong"]
    report.add(
        "precision",
        figures["precision"],
        f"{figures['right']} of {figures['predicted']} pairs",
        at_least=PRECISION_TARGET,
    )
    report.add(
        "recall", figures["recall"], f"{figures['right']} of {figures['resolved']} resolved", at_least=RECALL_TARGET
    )
    report.add("noise recognised", figures["noise_recognised"], f"of {figures['noise']}")
    report.add("labels", figures["labels"], f"in {figures['sessions']} sessions")
    report.add("labels of calls that did not fail", figures["not_failed"])
    for miss in figures["wrong"]:
        expected = f"{miss['label']} {miss['acceptable'] or ''}".strip()
        report.notes.append(
            f"{miss['session']} call {miss['call']}: {expected}, predicted {miss['predicted']}: {miss['reason']}"
        )
    return report


async def run(folder: Path, labels: Path, log_format: Format | None) -> Report:
    """Measure a folder, on the benchmark server."""
    parsed_labels = await asyncio.to_thread(read_labels, labels)
    async with open_server() as server:
        return build_report(await measure_folder(server, folder, parsed_labels, log_format))


def main() -> None:
    """Print a table, the misses, and a line of JSON."""
    parser = product_runs.create_folder_parser(__doc__)
    parser.add_argument(
        "--labels", type=Path, required=True, help="JSONL: session, call_index, label, resolving_call_index"
    )
    options = parser.parse_args()
    log_format = product_runs.parse_format(options.format)
    product_runs.print_report(asyncio.run(run(options.folder, options.labels, log_format)), options.json)


if __name__ == "__main__":
    main()
