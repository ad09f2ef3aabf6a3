"""Draws what a session did in time, a row for each step, and the sessions that came of each other. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import Literal

from consolidator.models.lineage import CheckpointRow
from consolidator.models.session import SessionRow
from consolidator.service.sessions.listing import OutlineRow, TaughtRow

WIDTH, LEFT, ROW_HEIGHT, MAP_HEIGHT = 1000, 330, 20, 34  # units of the drawing; what each step is stands left
MAX_PAUSE = 45.0  # seconds of a pause that are drawn; a night between two messages is no longer
MIN_RUN = 3  # reads in a row that are folded
MAX_ROWS = 300
_READS = {"read", "grep", "glob", "ls", "notebookread", "webfetch", "read_file", "list_dir", "grep_search"}
_READING = {"cat", "ls", "head", "tail", "grep", "rg", "find", "sed", "wc", "tree", "pwd"}  # programs of a shell

StepKind = Literal["person", "agent", "call", "read", "error"]


@dataclass(slots=True)
class Step:
    """One thing that happened, or several reads in a row."""

    kind: StepKind
    seq: int
    name: str
    words: str
    begin: datetime
    end: datetime
    is_bad: bool = False
    count: int = 1
    seqs: list[int] = field(default_factory=list)
    x: float = 0.0
    width: float = 0.0
    y: int = 0
    taught: list[TaughtRow] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Waterfall:
    """A drawing of a session's steps."""

    steps: list[Step]  # those with a row
    left_out: int
    minimap: dict[str, str]  # a path by the kind of its marks: those above, "bad" and "taught"
    height: int
    width: int = WIDTH


def read_steps(rows: Iterable[OutlineRow]) -> list[Step]:
    """Return the steps of a session; a result ends its call, and a run of reads that went well is one step."""
    steps: list[Step] = []
    calls: dict[str, Step] = {}
    for row in rows:
        if row.event_type == "ToolResult":
            if (call := calls.get(row.call_id or "")) is not None:
                call.end, call.is_bad = max(row.at, call.begin), row.status not in (None, "ok")
                call.seqs.append(row.seq)
            continue
        kind: StepKind = {"UserMessage": "person", "AssistantResponse": "agent", "Error": "error"}.get(
            row.event_type, "call"
        )  # type: ignore[assignment] # the values are kinds
        name = row.tool or "tool" if kind == "call" else kind
        if kind == "call" and (name.lower() in _READS or (row.words.split() or [""])[0] in _READING):
            kind = "read"
        if kind == "agent" and not row.words.strip():
            continue
        words = " ".join(row.words.split())
        if words.startswith("/") and " " not in words:
            words = "/".join(words.split("/")[-2:])  # of a file's path what tells it
        step = Step(kind, row.seq, name, words, row.at, row.at, kind == "error", seqs=[row.seq])
        steps.append(step)
        if row.call_id:
            calls[row.call_id] = step
    return [
        folded
        for _, run in groupby(steps, lambda step: (step.kind == "read" and not step.is_bad) or -step.seq)
        for folded in _fold(list(run))
    ]


def _fold(run: Sequence[Step]) -> Sequence[Step]:
    if len(run) < MIN_RUN:
        return run
    first, names = run[0], sorted({step.name for step in run})
    words = ", ".join(dict.fromkeys(step.words.rpartition("/")[2] for step in run))
    seqs = [seq for step in run for seq in step.seqs]
    end = max(step.end for step in run)
    return [Step("read", first.seq, ", ".join(names), words, first.begin, end, count=len(run), seqs=seqs)]


def draw_waterfall(rows: Iterable[OutlineRow], taught: Iterable[TaughtRow]) -> Waterfall:
    """Return the drawing; each lesson stands at the step whose event proves it."""
    steps = read_steps(rows)
    of_seq = {seq: step for step in steps for seq in step.seqs}
    for row in taught:
        if (step := of_seq.get(row.seq)) is not None and row.id not in {each.id for each in step.taught}:
            step.taught.append(row)
    places, place, before = dict[datetime, float](), 0.0, None
    for moment in sorted({moment for step in steps for moment in (step.begin, step.end)}):
        place += 0.0 if before is None else min((moment - before).total_seconds(), MAX_PAUSE) + 0.5
        places[moment], before = place, moment
    whole = place or 1.0
    scale, map_scale = (WIDTH - LEFT - 10) / whole, (WIDTH - 10) / whole
    marks: dict[str, list[str]] = defaultdict(list)
    for number, step in enumerate(steps):
        step.x = round(LEFT + places[step.begin] * scale, 1)
        step.width = round(max((places[step.end] - places[step.begin]) * scale, 3.0), 1)
        step.y = number * ROW_HEIGHT
        x = round(5 + places[step.begin] * map_scale, 1)
        marks["bad" if step.is_bad else step.kind].append(f"M{x} 8v18")
        if step.taught:
            marks["taught"].append(f"M{x} 0l4 4l-4 4l-4 -4z")
    shown = steps[:MAX_ROWS]
    minimap = {kind: " ".join(paths) for kind, paths in marks.items()}
    return Waterfall(shown, len(steps) - len(shown), minimap, len(shown) * ROW_HEIGHT)


_FAMILY_WIDTH, _FAMILY_LEFT, LANE_HEIGHT = 900, 12, 46  # units of the drawing
_LABELS = 300  # units at the right end, for what is written beside a lane


@dataclass(frozen=True, slots=True)
class Lane:
    """A session, drawn as a line with its label."""

    session: SessionRow
    title: str
    depth: int
    y: int
    begins_at: float
    ends_at: float
    path: str  # from its parent's lane; "" for the root


@dataclass(frozen=True, slots=True)
class Mark:
    """A checkpoint, drawn on its session's lane."""

    x: float
    y: int
    label: str
    seq: int
    session_id: str


@dataclass(frozen=True, slots=True)
class Family:
    """A drawing of sessions that came of each other."""

    lanes: list[Lane]
    marks: list[Mark]
    height: int
    width: int = _FAMILY_WIDTH


def draw_family(
    sessions: Iterable[SessionRow], titles: Mapping[str, str], checkpoints: Iterable[CheckpointRow]
) -> Family:
    """Return the drawing; children come below their parents in the order in which they were created."""
    rows = {row.id: row for row in sessions}
    children: dict[str | None, list[SessionRow]] = defaultdict(list)
    for row in sorted(rows.values(), key=lambda each: (each.created_at, each.id)):
        children[row.parent_id if row.parent_id in rows else None].append(row)
    starts: dict[str, int] = {}
    order: list[tuple[SessionRow, int]] = []
    waiting = [(row, 0) for row in reversed(children[None])]
    while waiting:
        row, depth = waiting.pop()
        # A sub-agent's numbers begin anew: it is drawn from the event that started it.
        shift = (row.parent_seq or 0) + starts.get(row.parent_id or "", 0) if row.kind == "sub-agent" else 0
        starts[row.id] = shift
        order.append((row, depth))
        waiting += [(child, depth + 1) for child in reversed(children[row.id])]
    last = max((row.head + starts[row.id] for row, _ in order), default=0) or 1
    scale = (_FAMILY_WIDTH - _LABELS - 2 * _FAMILY_LEFT) / last

    def place(row: SessionRow, seq: int) -> float:
        return round(_FAMILY_LEFT + max(0, seq + starts[row.id]) * scale, 1)

    lanes: list[Lane] = []
    heights: dict[str, int] = {}
    for number, (row, depth) in enumerate(order):
        y = heights[row.id] = LANE_HEIGHT * number + LANE_HEIGHT // 2
        begin, end, path = place(row, row.base_seq), place(row, row.head), ""
        parent = rows.get(row.parent_id or "")
        if parent is not None and parent.id in heights:
            leaves = place(parent, min(row.parent_seq or 0, parent.head))
            path = (
                f"M{leaves} {heights[parent.id]} V{y - 12} Q{leaves} {y} {min(leaves + 12, max(begin, leaves + 1))} {y}"
            )
            begin = max(begin, leaves)
        lanes.append(Lane(row, titles.get(row.id, ""), depth, y, begin, max(end, begin + 4), path))
    marks = [
        Mark(
            place(rows[each.session_id], each.seq),
            heights[each.session_id],
            each.label or "",
            each.seq,
            each.session_id,
        )
        for each in checkpoints
        if each.session_id in heights
    ]
    return Family(lanes, marks, max(1, len(order)) * LANE_HEIGHT)
