"""One call that worked here, as lessons keep it: its words find it, and are not shown."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from consolidator.memory.calls.directory import name_folder
from consolidator.memory.lessons.lesson import Lesson
from consolidator.memory.plain import Plain

KIND: Final = "call"
_FILE = re.compile(r"[\w-]\.[a-z]{1,5}[\"']?$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class WorkedCall(Plain):
    """One call that worked here."""

    call: str
    worked: int
    failed: int
    folder: str | None = None  # where it mostly ran, below the project's folder
    about: tuple[str, ...] = ()  # what was said of it before it ran
    at: str = ""  # of its latest success, ISO 8601

    @property
    def line(self) -> str:
        """The call in a sentence."""
        where = "" if self.folder is None else f" in {name_folder(self.folder)}"
        call = self.call.replace("`", "'")
        return f"`{call}`{where} (worked {self.worked} of {self.worked + self.failed})"

    @property
    def searched(self) -> str:
        """The words by which it is found: not those of its files, which are of one change."""
        return " ".join([*(word for word in self.call.split() if not _FILE.search(word)), *self.about])


def read_calls(lesson: Lesson) -> list[WorkedCall]:
    """Return the calls of an operation."""
    return [WorkedCall.from_json(call) for call in lesson.match["calls"]]
