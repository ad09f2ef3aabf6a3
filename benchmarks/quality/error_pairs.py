"""Measures error pairs against hand labels: which call resolved which failed call.

    python -m benchmarks.quality.error_pairs FOLDER --labels FILE

`evaluate` is pure: it compares records that the product made with labels, and knows nothing of how they came about;
`paired` has them made, by an import and a night.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.quality import product
from benchmarks.report import Report
from benchmarks.server import Server, open_server
from consolidator.database.jsonb import escape
from consolidator.errors import NotFound
from consolidator.formats import recognise
from consolidator.formats.base import ForeignEvent, ForeignSession, Format
from consolidator.jobs.importing.importer import import_sources
from consolidator.memory.solutions.error_tracker import ErrorRecord
from consolidator.models.payload import EventType
from consolidator.store.queries import rows

PRECISION, RECALL = 0.75, 0.70  # the gates


@dataclass(frozen=True, slots=True)
class Label:
    """What a person said of one failed call."""

    session: str
    call_index: int  # 0-based, in the order of the session's tool calls
    label: str  # resolved | unresolved | noise
    resolving: tuple[int, ...]  # the calls that count as its resolver
    tool: str | None = None  # of the failed call, to tell which of a file's sessions is meant

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Label:
        """Read a line of a labels file."""
        return cls(
            data["session"], data["call_index"], data["label"], tuple(data["resolving_call_index"]), data.get("tool")
        )


def evaluate(records_by_session: Mapping[str, Iterable[ErrorRecord]], labels: Iterable[Label]) -> dict[str, Any]:
    """Return precision, recall and the wrong ones of the predicted pairs; errors without a label are ignored.

    precision: right pairs / predicted pairs, where a resolver of what is labelled noise or unresolved is wrong.
    recall: errors labelled resolved with an acceptable resolver predicted / errors labelled resolved.
    """
    records = {(session, record.index): record for session, found in records_by_session.items() for record in found}
    predicted = right = resolved = told_noise = is_noise = absent = 0
    wrong: list[dict[str, Any]] = []
    judged = sorted(labels, key=lambda label: (label.session, label.call_index))
    for label in judged:
        record = records.get((label.session, label.call_index))
        absent += record is None
        found = record.resolver_index if record is not None and record.status == "resolved" else None
        hit = label.label == "resolved" and found in label.resolving
        resolved += label.label == "resolved"
        predicted += found is not None
        right += hit
        is_noise += label.label == "noise"
        told_noise += label.label == "noise" and record is not None and record.status == "noise"
        if not hit and (found is not None or label.label == "resolved"):
            wrong.append(
                {
                    "session": label.session,
                    "call": label.call_index,
                    "label": label.label,
                    "acceptable": list(label.resolving),
                    "predicted": found,
                    "rule": record.rule if record is not None else None,
                    "reason": _reason(label, record),
                }
            )
    return {
        "labels": len(judged),
        "predicted": predicted,
        "right": right,
        "resolved": resolved,
        "precision": right / predicted if predicted else 1.0,
        "recall": right / resolved if resolved else 1.0,
        "noise": is_noise,
        "noise_told": told_noise,
        "not_failed": absent,
        "wrong": wrong,
    }


def _reason(label: Label, record: ErrorRecord | None) -> str:
    """Say what is wrong with what was predicted of a labelled call."""
    if record is None:
        return "the log does not have it as a failed call"
    what = f"{record.symbol}: {record.headline}"
    if record.resolver_index is None:
        why = f"taken for noise ({record.noise_reason})" if record.status == "noise" else "no resolver found"
        return f"{why}; {what}"
    return f"paired by {record.rule} with {record.resolver_symbol}, but it is {label.label}; {what}"


@dataclass(frozen=True, slots=True)
class LabelledFile:
    """A file that labels name, and which of its sessions they mean."""

    path: Path
    form: Format
    origin: str


def read_labels(path: Path) -> list[Label]:
    """Read a labels file, one JSON object a line."""
    with path.open(encoding="utf-8") as lines:
        return [Label.from_json(json.loads(line)) for line in lines if line.strip()]


def locate(folder: Path, labels: Iterable[Label], form: Format | None = None) -> dict[str, LabelledFile]:
    """Return the file and session behind each name that labels use: a path below the folder or beside it.

    Of a file that holds several sessions it is the one whose calls have the tools that the labels name; the rest of
    a name after "#" is what the session's own name ends with. Raises NotFound where there is no such log.
    """
    named: dict[str, list[Label]] = defaultdict(list)
    for label in labels:
        named[label.session].append(label)
    found = {}
    for name, ones in named.items():
        where, _, end = name.partition("#")
        path = next((one for one in (folder / where, folder.parent / where, Path(where)) if one.is_file()), None)
        known = form if form is not None else recognise(path) if path is not None else None
        if path is None or known is None:
            raise NotFound(f"{name}: the labels name it, and there is no log of that name at {folder}")
        tools = {origin: calls for origin, calls in _tools(path, folder, known).items() if origin.endswith(end)}
        if not tools:
            raise NotFound(f"{name}: no session of this file calls a tool")
        found[name] = LabelledFile(path, known, max(tools, key=lambda origin: _fitting(tools[origin], ones)))
    return found


def _tools(path: Path, root: Path, form: Format) -> dict[str, list[str]]:
    """Return the tools that each session of a file calls, in order."""
    tools: dict[str, list[str]] = defaultdict(list)
    origin = ""
    for item in form.read(path, root):
        if isinstance(item, ForeignSession):
            origin = item.origin
        elif isinstance(item, ForeignEvent) and item.type is EventType.TOOL_CALL:
            tools[origin].append(str(item.data.get("tool")))
    return dict(tools)


def _fitting(tools: list[str], labels: Iterable[Label]) -> int:
    """Return how many labels fit a session's calls."""
    return sum(one.call_index < len(tools) and one.tool in (None, tools[one.call_index]) for one in labels)


async def paired(server: Server, folder: Path, labels: list[Label], form: Format | None = None) -> dict[str, Any]:
    """Import the sessions that labels name, run a night, and compare what it stored of their failed calls."""
    files = await asyncio.to_thread(locate, folder, labels, form)
    found: list[tuple[Path, Format | None]] = [(one.path, one.form) for one in files.values()]
    async with server.database(product.clock()) as database:
        imported = await import_sources(database, [product.Files(folder, found=tuple(dict(found).items()))])
        await product.night(database, server)
        async with database.connection() as conn:
            stored = await rows(
                conn, "select s.origin, e.record from error_record e join session s on s.id = e.session_id"
            )
    records: dict[str, list[ErrorRecord]] = defaultdict(list)
    for row in stored:
        records[row["origin"]].append(ErrorRecord.from_json(row["record"]))
    by_label = {name: records[escape(f"{one.form.NAME}:{one.origin}")] for name, one in files.items()}
    return {**evaluate(by_label, labels), "sessions": len(files), "problems": imported.problem_count}


def reported(figures: dict[str, Any]) -> Report:
    """Return the figures with their gates, and each miss with its reason."""
    report = Report("error_pairs", "which call resolved which failed call, against hand labels")
    report.details["wrong"] = figures["wrong"]
    report.add(
        "precision", figures["precision"], f"{figures['right']} of {figures['predicted']} pairs", at_least=PRECISION
    )
    report.add("recall", figures["recall"], f"{figures['right']} of {figures['resolved']} resolved", at_least=RECALL)
    report.add("noise told", figures["noise_told"], f"of {figures['noise']}")
    report.add("labels", figures["labels"], f"in {figures['sessions']} sessions")
    report.add("labels of calls that did not fail", figures["not_failed"])
    for one in figures["wrong"]:
        wanted = f"{one['label']} {one['acceptable'] or ''}".strip()
        report.notes.append(
            f"{one['session']} call {one['call']}: {wanted}, predicted {one['predicted']}: {one['reason']}"
        )
    return report


async def run(folder: Path, labels: Path, form: Format | None) -> Report:
    """Measure a folder on a server of its own."""
    told = await asyncio.to_thread(read_labels, labels)
    async with open_server() as server:
        return reported(await paired(server, folder, told, form))


def main() -> None:
    """Print a table, the misses, and a line of JSON."""
    parser = product.folder_parser(__doc__)
    parser.add_argument(
        "--labels", type=Path, required=True, help="JSONL: session, call_index, label, resolving_call_index"
    )
    options = parser.parse_args()
    form = product.known_format(options.format)
    product.show(asyncio.run(run(options.folder, options.labels, form)), options.json)


if __name__ == "__main__":
    main()
