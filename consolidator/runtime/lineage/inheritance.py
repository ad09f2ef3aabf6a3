"""What a child inherits at a point: the session's state, its scratchpad, its compaction and its summary, as they stood.

What stands at the head is in the session's row and its view. At an earlier point the log says it, and of the log only
the few events that change these are read. All of it is immutable: it is found without any lock.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from consolidator.context.history import SessionHistory, apply_decision
from consolidator.database import Connection
from consolidator.models.lineage import Lineage
from consolidator.models.session import SessionRow
from consolidator.store.sessions import lineage as store
from consolidator.store.turns import context as views
from consolidator.store.turns.context import SessionView

_FIRST_PATCHES, _MAX_PATCHES = 8, 256  # read at once


@dataclass(frozen=True, slots=True)
class InheritedFold:
    """A session's past at a point, folded: what a child need not read again."""

    history: SessionHistory
    state: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return the fold as JSON can hold it."""
        return {**asdict(self.history), "state": dict(self.state)}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> InheritedFold:
        """Return the fold that `as_json` returned."""
        return cls(SessionHistory(**{name: stored[name] for name in SessionHistory.__slots__}), stored["state"])


async def fold_past(conn: Connection, session: SessionRow, lineage: Lineage, point: int) -> InheritedFold:
    """Return a session's past as it stood after the event at a point; `session` and what is read may be newer."""
    view = await views.load_view(conn, session.id)
    return InheritedFold(
        await _find_history(conn, view, lineage, point), await _find_state(conn, session, lineage, point)
    )


async def _find_history(conn: Connection, view: SessionView, lineage: Lineage, point: int) -> SessionHistory:
    """Return the view at a point; its summary ends earlier where the stored one goes further than the point."""
    history = SessionHistory(lineage.readable_after)
    if view.learned is not None and view.consolidated_to <= point:
        history.upto, history.summary = view.consolidated_to, view.learned
    elif view.upto is not None and view.upto <= point:
        history.upto, history.summary = view.upto, view.summary or {}
    is_folded = view.upto is not None
    if is_folded and view.compaction_seq <= point:
        history.compaction_seq, history.compaction = view.compaction_seq, view.compaction or {}
    elif (event := await store.find_mark(conn, lineage, "compaction", upto=point)) is not None:
        apply_decision(history, event)
    if is_folded and view.scratchpad_seq <= point:
        history.scratchpad_seq, history.scratchpad = view.scratchpad_seq, view.scratchpad
    elif (event := await store.find_mark(conn, lineage, "scratchpad_set", upto=point)) is not None:
        apply_decision(history, event)
    return history


async def _find_state(conn: Connection, session: SessionRow, lineage: Lineage, point: int) -> dict[str, Any]:
    """Return the state at a point: the row's, but for the keys that were changed later.

    What a key was before its later changes is said by the latest change up to the point; changes that are pruned are
    needed only for such keys.
    """
    if session.is_driven_elsewhere:  # its row has no state, whatever its log says
        summed: dict[str, Any] = {}
        async for patch in _patches_before(conn, lineage, after=lineage.readable_after, upto=point):
            summed = {**patch, **summed}
        return summed
    if point >= session.head:
        return dict(session.state)
    changed: set[str] = set()
    async for patch in _patches_before(conn, lineage, after=point, upto=session.head):
        changed |= patch.keys()
        if changed >= session.state.keys():
            break
    state = {key: value for key, value in session.state.items() if key not in changed}
    if not changed:
        return state
    async for patch in _patches_before(conn, lineage, after=lineage.readable_after, upto=point):
        state |= {key: value for key, value in patch.items() if key in changed}
        changed -= patch.keys()
        if not changed:
            break
    return state


async def _patches_before(
    conn: Connection, lineage: Lineage, *, after: int, upto: int
) -> AsyncIterator[Mapping[str, Any]]:
    """Yield the changes of the state with after < position <= upto, the latest first."""
    limit = _FIRST_PATCHES
    while patches := await store.read_state_patches(conn, lineage, after=after, upto=upto, limit=limit):
        for event in patches:
            yield event.data["state_patch"]
        upto, limit = patches[-1].seq - 1, min(limit * 2, _MAX_PATCHES)
