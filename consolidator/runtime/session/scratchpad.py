"""A session's scratchpad: notes in Markdown that stand at the end of each of its contexts, until they are changed.

The agent and people change it, one after the other: whoever would overwrite what they have not seen is told so.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Literal, get_args

from consolidator.context.build import history_from_view
from consolidator.database import Connection, Database
from consolidator.errors import HeadConflict, UsageError
from consolidator.models.event import NewEvent
from consolidator.models.payload import EventType
from consolidator.models.principal import Role, role_of
from consolidator.models.session import SessionRow
from consolidator.models.viewer import OWNER, Viewer
from consolidator.runtime.session.access import check_reach, find_session
from consolidator.runtime.session.boundaries import boundary
from consolidator.runtime.session.changes import PlannedChange, SessionChange, apply_change, check_open
from consolidator.store.sessions.lineage import load_lineage
from consolidator.store.turns import context as store

EditMode = Literal["replace", "append", "edit"]
EDIT_MODES: tuple[EditMode, ...] = get_args(EditMode)
MAX_CHARS = 8000  # of a scratchpad


@dataclass(frozen=True, slots=True)
class Scratchpad:
    """A session's scratchpad as it stands."""

    session_id: str
    text: str
    seq: int  # of the event that set it, its version; 0 where none did
    limit: int = MAX_CHARS  # characters that it may have
    set_at: datetime | None = None  # None where no event of the session's own log set it


@dataclass(frozen=True, slots=True)
class ScratchpadEdit:
    """A change of a scratchpad: `replace` all of it, `append` a paragraph, or `edit` the one place that reads `old`."""

    mode: EditMode
    text: str
    old: str | None = None

    def apply(self, current: str, limit: int) -> str:
        """Return the changed text; raise UsageError, with both sizes, where it is too long, or no single place fits."""
        match self.mode:
            case "replace":
                changed = self.text.strip()
            case "append":
                changed = "\n".join(part for part in (current, self.text.strip()) if part)
            case "edit":
                changed = self._edit_place(current)
            case _:
                raise UsageError(f"{str(self.mode)[:80]!r} is no way to change a scratchpad: {', '.join(EDIT_MODES)}")
        if len(changed) > limit:
            raise UsageError(
                f"the scratchpad would have {len(changed):,} characters, and may have {limit:,} "
                f"(it has {len(current):,} now): shorten it; nothing was changed"
            )
        return changed

    def _edit_place(self, current: str) -> str:
        if not self.old:
            raise UsageError("to edit one place of the scratchpad, say in `old` what it reads now")
        places = current.count(self.old)
        if places != 1:
            how_often = "nowhere" if not places else f"{places} times"
            raise UsageError(f"{self.old[:200]!r} is {how_often} in the scratchpad, not once: nothing was changed")
        return current.replace(self.old, self.text).strip()


@dataclass(frozen=True, slots=True)
class ChangeScratchpad(SessionChange):
    """A change of the scratchpad within its limit; with `expected_seq`, only of that version."""

    edit: ScratchpadEdit
    limit: int = MAX_CHARS
    expected_seq: int | None = None

    async def plan(self, conn: Connection, session: SessionRow, principal: str) -> PlannedChange:
        """Return the decision that sets the scratchpad; nothing if it stays as it is."""
        check_open(session)
        view = await store.load_view(conn, session.id)
        if self.expected_seq not in (None, view.scratchpad_seq):
            raise HeadConflict(
                f"the scratchpad of session {session.id} was changed at event {view.scratchpad_seq}, after version "
                f"{self.expected_seq}: read it again; nothing was changed"
            )
        if self.edit.mode == "replace" and role_of(principal) is Role.AGENT and view.scratchpad_seq:
            setter = await store.find_scratchpad_setter(conn, session.id, view.scratchpad_seq)
            if setter is not None and role_of(setter.principal) is not Role.AGENT and not setter.was_shown:
                raise UsageError(
                    f"{setter.principal} has changed the scratchpad since you were shown it; nothing was replaced. "
                    f"It reads now:\n{view.scratchpad or ''}"
                )
        current = view.scratchpad or ""
        changed = self.edit.apply(current, self.limit)
        answer = f"The scratchpad has {len(changed):,} of {self.limit:,} characters."
        if changed == current:
            return PlannedChange([], f"{answer} It is as it was.", {"text": changed})
        data = {"decision": "scratchpad_set", "text": changed}
        decision = NewEvent(EventType.POLICY_DECISION, data, principal=principal)
        return PlannedChange([decision], answer, {"text": changed})

    async def save(self, conn: Connection, session: SessionRow, planned: PlannedChange, seq: int) -> None:
        """Store the scratchpad where contexts read it."""
        view = await store.load_view(conn, session.id)
        history = history_from_view(view, await load_lineage(conn, session.id, view))
        history.scratchpad_seq, history.scratchpad = seq, planned.details["text"] or None
        await store.save_view(conn, session.id, asdict(history))


async def read_scratchpad(database: Database, session: str, *, viewer: Viewer = OWNER) -> Scratchpad:
    """Return a session's scratchpad; `session` is an id or the beginning of one. Raises Forbidden and NotFound."""
    async with database.connection() as conn:
        session_id = (await find_session(conn, viewer, session, "read")).id
        return await load_scratchpad(conn, session_id, await store.load_view(conn, session_id))


async def load_scratchpad(conn: Connection, session_id: str, view: store.SessionView) -> Scratchpad:
    """Return the scratchpad of a session's view, with the time at which it was set."""
    setter = await store.find_scratchpad_setter(conn, session_id, view.scratchpad_seq) if view.scratchpad_seq else None
    set_at = None if setter is None else setter.created_at
    return Scratchpad(session_id, view.scratchpad or "", view.scratchpad_seq, set_at=set_at)


async def change_scratchpad(
    database: Database,
    session_id: str,
    edit: ScratchpadEdit,
    *,
    expected_seq: int | None = None,
    principal: str | None = None,
    viewer: Viewer = OWNER,
) -> Scratchpad:
    """Change a session's scratchpad, as a person does, or another principal, and return it.

    `expected_seq` is the version that the caller has seen. Raises Forbidden, NotFound, UsageError for a text beyond the
    limit and a place that is not there, and HeadConflict for another version.
    """
    change = ChangeScratchpad(edit, expected_seq=expected_seq)
    with boundary("commit scratchpad"):
        async with database.transaction() as conn:
            await check_reach(conn, viewer, session_id, "write")
            by = principal or viewer.user
            await apply_change(conn, session_id, change, principal=by, now=database.clock.now())
            return await load_scratchpad(conn, session_id, await store.load_view(conn, session_id))
