"""What the next session would be told, for a person to read: each line of a brief with its id and its tokens."""

from __future__ import annotations

from dataclasses import dataclass

from consolidator.database import Database
from consolidator.memory.recall.block import estimate_tokens
from consolidator.models.injection import Moment
from consolidator.models.memory_filter import MemoryScope
from consolidator.models.viewer import OWNER, Viewer
from consolidator.service.memory.telling.brief import Situation, brief
from consolidator.service.scope import narrow_scope
from consolidator.store.sessions import projects

FORGETTABLE = ("fact", "lesson")  # kinds of lines that `forget` takes


@dataclass(frozen=True, slots=True)
class BriefLine:
    """One line of a brief."""

    kind: str  # fact | lesson | solution | rule | episode
    id: str  # of a fact, lesson or solution; of a turn its session and seq
    line: str  # as an agent reads it
    tokens: int  # about
    words: str = ""  # what it says

    @property
    def is_forgettable(self) -> bool:
        """Whether a person can have it forgotten by its id."""
        return self.kind in FORGETTABLE


@dataclass(frozen=True, slots=True)
class BriefPreview:
    """What an agent would be told at a moment."""

    moment: Moment
    project: str | None  # its path
    agent: str | None  # as which the session was taken; None where nothing was recorded yet
    text: str  # "" for nothing
    tokens: int  # about
    lines: tuple[BriefLine, ...]


async def preview_brief(
    database: Database,
    moment: Moment = "session_start",
    scope: MemoryScope = MemoryScope(),
    situation: Situation = Situation(),
    *,
    viewer: Viewer = OWNER,
) -> BriefPreview:
    """Return what the next session would be told, of the agent that worked last in the project if none is named.

    Raises Forbidden for a narrowed viewer: a brief is made of what all of a person's agents did.
    """
    viewer.check_reads_all()
    async with database.connection() as conn:
        scope = await narrow_scope(conn, viewer, scope)
        agent = scope.agent or await projects.find_latest_agent(conn, scope.project)
    shown = await brief(database, moment, MemoryScope(agent, scope.project, scope.peer), situation)
    items = () if shown is None else shown.block.items
    lines = [
        BriefLine(
            item.kind,
            item.citation.strip("[]").partition(":")[2],
            item.line,
            estimate_tokens(item.line + "\n"),
            str(item.data["text"]),
        )
        for item in items
    ]
    text, tokens = ("", 0) if shown is None else (shown.block.text, shown.block.tokens)
    return BriefPreview(moment, scope.project, agent, text, tokens, tuple(lines))
