"""Lays out a session's tree: a lane for each session from where it left its parent to its last event. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from consolidator.models.checkpoint import CheckpointRow
from consolidator.models.session import SessionRow

WIDTH, LEFT, LANE_HEIGHT = 900, 12, 46  # units of the drawing
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
    width: int = WIDTH


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
    scale = (WIDTH - _LABELS - 2 * LEFT) / last

    def place(row: SessionRow, seq: int) -> float:
        return round(LEFT + max(0, seq + starts[row.id]) * scale, 1)

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
