"""A lesson: one thing that a project's sessions showed about its commands, failures or files, with its counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from consolidator.memory.plain import Plain

LessonKind = Literal[
    "command",  # for a purpose (test, lint, ...) or program: the call that works, and where
    "always_fails",  # a program, wrapper, flag, path or skill that never worked here, and what works instead
    "commit_check",  # what a commit runs
    "first_run_fails",  # what fails first in most sessions, and the command that mends it
    "finds_more",  # a check that fails though another one passed
    "foreign_folder",  # a folder that failing output names and nobody edits
    "follow_up",  # a command that follows a change of some files
    "together",  # files that are changed together
    "harness",  # how the agent's own tools behave
    "file_moved",  # where a file is that was looked for elsewhere
    "constant",  # a value that every successful call had
    "call",  # the calls of an operation that worked: told to who asks
]


@dataclass(frozen=True, slots=True)
class Lesson(Plain):
    """One lesson of a person's project. All texts are redacted."""

    kind: LessonKind
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
