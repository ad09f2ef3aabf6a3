"""The brief: what an agent is told unasked, at each moment, of all that memory knows; of every kind together.

Only what people said and what worked, of the person's own project, and nothing hostile (I18).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from consolidator.database import Database
from consolidator.memory.recall.block import RecallItem
from consolidator.memory.recall.injected_block import InjectedBlock, Section
from consolidator.models.injection import Moment
from consolidator.models.memory_filter import MemoryScope

START_TOKENS, PROMPT_TOKENS, FAILURE_TOKENS = 600, 400, 150


@dataclass(frozen=True, slots=True)
class Situation:
    """Where a moment happens, and what happens at it."""

    text: str = ""  # the prompt, or the error
    tool: str = ""  # of a call
    arguments: Any = None
    directory: str | None = None  # where the call runs, below the project's folder; None where that is unknown
    session_id: str = ""  # as it is called once it is imported
    shown: Collection[str] = ()  # what the session has seen (`Brief.shown`)


@dataclass(frozen=True, slots=True)
class Brief:
    """What is told at a moment, and what is counted of it."""

    moment: Moment
    block: InjectedBlock
    fix: dict[str, Any] = field(default_factory=dict)  # of a failed call: the suggestion as JSON
    sections: tuple[Section, ...] = ()  # what the block was made of, as far as it was told

    @property
    def items(self) -> list[RecallItem]:
        """The lines that are told, each with its citation."""
        return [item for section in self.sections for item in section.items]

    @property
    def shown(self) -> list[str]:
        """By what it is known later that this was shown: citations, or a fix as it was bound."""
        return [str(self.fix["text"])] if self.fix else self.block.cited


async def brief(
    database: Database,
    moment: Moment,
    scope: MemoryScope,
    situation: Situation = Situation(),
    *,
    tokens: int | None = None,
) -> Brief | None:
    """Return what an agent is told at a moment, within a number of tokens; None for nothing.

    `scope` names the project; its agent is who asks, and its peer whose session it is (None: the machine's owner).
    """
    return None
