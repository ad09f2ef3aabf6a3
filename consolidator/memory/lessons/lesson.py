"""A lesson: one thing that a project's sessions showed about its commands, failures or files, with its counts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from consolidator.memory.plain import Plain

LessonKind = Literal[
    "command",  # for a purpose (test, lint, ...) or program: the call that works, and where
    "always_fails",  # what never worked, as a program, flag, tool or missing argument, and what works
    "commit_check",  # what a commit runs
    "first_run_fails",  # what fails first in most sessions, and the command that mends it
    "finds_more",  # a check that fails though another one passed
    "foreign_folder",  # a folder that failing output names and nobody edits
    "follow_up",  # a command that follows a change of some files, and the checks before a commit
    "together",  # files that are changed together
    "harness",  # how the agent's own tools behave
    "file_moved",  # where a file is that was looked for elsewhere
    "constant",  # a value that every successful call had
    "call",  # the calls of an operation that worked: told to who asks
]
WORKED_CALL: Final = "call"
LEAVES: Final = " leaves"  # ends the key of the rules that a formatter leaves
KEYS: Final = "*"  # key of the worked calls that names what worked of the machine, which other projects ask
ELSEWHERE: Final = "elsewhere"  # of a match: the line in the other projects of the machine
OTHERS: Final = "others"  # key of the line that names what is often run for no known purpose
# The folder of a person, else the topmost one: a pattern for the database, too.
HOME: Final = r"^(?:(?:[A-Za-z]:|/mnt/\w)?/(?:home|Users)/[^/]+|[A-Za-z]:|/[^/]+)"
_FILE = re.compile(r"[\w-]\.[a-z]{1,5}[\"']?$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Lesson(Plain):
    """One lesson of a person's project. All texts are redacted."""

    kind: LessonKind | str  # an older version may have stored one that is learned no more
    key: str  # what it is about, unique within its kind: "rtk bun", "test", an error's fingerprint
    line: str  # the sentence that an agent is told
    score: float  # how much it helps at a session's start: counts times a weight of its kind
    sessions: int  # distinct lineage roots that showed it
    failures: int = 0
    successes: int = 0
    instead: str | None = None  # the call that worked
    match: Mapping[str, Any] = field(default_factory=dict)  # what a call or its error must have; {} where nothing asks
    warns: bool = False  # told before such a call runs: it never worked
    starts: bool = True  # told at a session's start, if there is room
    purpose: str | None = None  # of a command: test | lint | format | typecheck | build | run | install | ...
    directory: str | None = None  # where it is run, below the project's folder; None where it does not matter
    seconds: float | None = None  # the median duration of the successful calls
    last_at: str = ""  # of the latest call that it rests on, ISO 8601
    agents: tuple[str, ...] = ()  # whose sessions showed it, sorted
    evidence: tuple[tuple[str, int], ...] = ()  # session and seq of calls, the latest first
    worth: Mapping[str, Any] = field(default_factory=dict)  # what came of it, told and untold: `Worth` as JSON


@dataclass(frozen=True, slots=True)
class WorkedCall(Plain):
    """One call that worked here, as a lesson of a kind of its own keeps it: its words find it, and are not shown."""

    call: str
    worked: int
    failed: int
    folder: str | None = None  # where it mostly ran, below the project's folder
    about: tuple[str, ...] = ()  # what was said of it before it ran
    at: str = ""  # of its latest success, ISO 8601
    is_judged: bool = True  # whether an exit status of its own was seen: what a pipe follows has none

    @property
    def line(self) -> str:
        """The call in a sentence."""
        from consolidator.memory.calls.directory import name_folder  # loads what parses command lines

        where = "" if self.folder is None else f" in {name_folder(self.folder)}"
        call = self.call.replace("`", "'")
        return f"`{call}`{where}" + f" (worked {self.worked} of {self.worked + self.failed})" * self.is_judged

    @property
    def searched(self) -> str:
        """The words by which it is found: not those of its files, which are of one change."""
        return " ".join([*(word for word in self.call.split() if not _FILE.search(word)), *self.about])


def told_elsewhere(lesson: Lesson) -> Lesson:
    """Return a lesson as it is told in another project of its machine."""
    line = lesson.match.get(ELSEWHERE, lesson.line)
    instead = lesson.instead if f"; `{lesson.instead}` then" in line else None
    return replace(lesson, line=line, instead=instead)


def home_folder(project: str) -> str:
    """Return the folder of a person's projects on one machine that a project is in; "" where it is no path."""
    found = re.match(HOME, project.replace("\\", "/"))
    return project[: found.end()] if found else ""


def read_calls(lesson: Lesson) -> list[WorkedCall]:
    """Return the calls of an operation."""
    return [WorkedCall.from_json(call) for call in lesson.match.get("calls", ())]
