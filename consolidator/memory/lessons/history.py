"""The calls of one person's project, session by session, with paths as seen from the project's folder.

What a project's folder is follows from where most of its sessions began; a session that began elsewhere, as in a
worktree, is seen from there.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from consolidator.memory.calls.directory import is_absolute, place_below, plain_path
from consolidator.memory.lessons.headlines import Headline, line_hash
from consolidator.memory.lessons.lesson import Lesson, LessonKind
from consolidator.memory.lessons.segments import Segment, purpose_of
from consolidator.memory.lessons.trace import Trace, TracedCall
from consolidator.memory.solutions.line_kinds import NOT_THERE

MAX_EVIDENCE = 5  # calls that a lesson cites
MAX_CALLS_LEARNED = 40_000  # of all sessions together, the latest sessions' calls
MIN_PRINTED_SESSIONS = 2  # successful sessions that print a line: it is no reason of a failure
_WORKTREE = re.compile(r"^(?:\.[\w-]+/)?\.?worktrees/[^/]+(?:/|$)")  # a checkout of the project within its folder
_ELSEWHERE = re.compile(r"git -C (\S+) ")
_ACTING = ("shell", "edit", "skill", "tool")


@dataclass(frozen=True, slots=True)
class TracedSession:
    """One session's calls."""

    session_id: str
    root: str  # its lineage root, which counts once
    agent: str
    base: str | None  # the folder that its paths are seen from
    calls: tuple[TracedCall, ...]

    def relative(self, path: str | None) -> str | None:
        """Return a path as seen from the project's folder: "" for the folder itself; as it is where it lies outside."""
        return None if path is None else path_below(path, self.base)

    def place_of_script(self, call: TracedCall, segment: Segment) -> str | None:
        """Return where a segment's script lies as seen from the project's folder, "" for none.

        None for one that lies neither in the project nor where it runs: it is told to nobody.
        """
        written = segment.script or (segment.called or "")
        path = plain_path(written.rsplit(" ", 1)[-1].replace("\\", "/"))
        if not (segment.script or path.startswith("..")):
            return ""
        whole = path if is_absolute(path) else posixpath.join(call.directory or self.base or "", path)
        seen = self.relative(plain_path(whole))
        return seen if is_inside(path) or is_inside(seen) else None

    def is_here(self, call: TracedCall, segment: Segment) -> bool:
        """Whether `git` was run on the project, or nothing shows where."""
        given = _ELSEWHERE.match(segment.call)
        place = self.relative(posixpath.join(call.directory or "", given[1].strip("'")) if given else call.directory)
        return place is None or is_inside(place) or place.startswith(("~", "$"))

    def without_scripts_of_others(self) -> TracedSession:
        """Return the session with the scripts of other folders among what is told to nobody."""

        def judge(call: TracedCall) -> TracedCall:
            out = [each for each in call.segments if self.place_of_script(call, each) is None]
            judged = [replace(each, is_hostile=True) if each in out else each for each in call.segments]
            return replace(call, segments=judged) if out else call

        return replace(self, calls=tuple(map(judge, self.calls)))

    def acting(self, start: int, limit: int) -> list[tuple[int, TracedCall]]:
        """Return the next calls from an index on that do something, with their indexes."""
        calls: list[tuple[int, TracedCall]] = []
        for position in range(start, len(self.calls)):
            call = self.calls[position]
            if call.kind in _ACTING and (call.kind != "shell" or any(not s.is_trivial for s in call.segments)):
                calls.append((position, call))
                if len(calls) == limit:
                    break
        return calls


@dataclass(frozen=True)
class History:
    """All sessions that the lessons of a project are learned from, in order of their ids."""

    sessions: tuple[TracedSession, ...]
    home: str | None = None  # the project's folder, where that is known

    @classmethod
    def of(cls, traces: Sequence[Trace]) -> History:
        """Return the history of traces, in whatever order they come."""
        starts = Counter(plain_path(trace.start) for trace in traces if trace.start)
        home = min(starts, key=lambda start: (-starts[start], len(start), start)) if starts else None
        sessions = []
        latest = sorted(traces, key=lambda trace: (trace.calls[-1].at if trace.calls else "", trace.session_id))
        room = MAX_CALLS_LEARNED
        within = [trace for trace in reversed(latest) if (room := room - len(trace.calls)) >= 0 or trace is latest[-1]]
        for trace in sorted(within, key=lambda trace: trace.session_id):
            base = plain_path(trace.start) if trace.start else None
            if home is not None and (base is None or (base + "/").startswith(home + "/")):
                base = home
            session = TracedSession(trace.session_id, trace.root_id, trace.agent, base, trace.calls)
            sessions.append(session.without_scripts_of_others())
        return cls(tuple(sessions), home)

    @cached_property
    def harmless(self) -> frozenset[str]:
        """Hashes of lines that successful calls of several sessions print."""
        roots: dict[str, set[str]] = {}
        for session, call in self.calls():
            for printed in call.printed:
                roots.setdefault(printed, set()).add(session.root)
        return frozenset(line for line, seen in roots.items() if len(seen) >= MIN_PRINTED_SESSIONS)

    @cached_property
    def worked(self) -> frozenset[str]:
        """The operations that worked at least once, in a line that is not hostile; and their programs."""
        segments = [segment for _, call in self.calls() for segment in call.segments]
        return frozenset(
            name
            for segment in segments
            if segment.ok and not segment.is_hostile
            for name in (segment.program, segment.operation)
        )

    def calls(self) -> Iterator[tuple[TracedSession, TracedCall]]:
        """Yield each call with its session."""
        for session in self.sessions:
            for call in session.calls:
                yield session, call

    def reasons(self, call: TracedCall) -> list[Headline]:
        """Return the lines that say why a call failed, without those that successful calls print, too."""
        return [headline for headline in call.headlines if line_hash(headline.text) not in self.harmless][:3]

    def did_not_run(self, call: TracedCall) -> bool:
        """Whether a call failed because something is not there or not understood: it says nothing of what it checks."""
        return any(NOT_THERE.search(headline.text) for headline in self.reasons(call)[:1])


@dataclass(slots=True)
class Cases:
    """The calls that a lesson rests on."""

    members: list[tuple[TracedSession, TracedCall]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.members)

    def add(self, session: TracedSession, call: TracedCall) -> None:
        """Add a call; a call that failed and one that worked are both evidence."""
        self.members.append((session, call))

    @property
    def roots(self) -> set[str]:
        """The lineage roots of the calls' sessions."""
        return {session.root for session, _ in self.members}

    def build_lesson(self, kind: LessonKind, key: str, line: str, score: float, **values: Any) -> Lesson:
        """Return the lesson that these calls teach, with the latest as its evidence."""
        latest = sorted(self.members, key=lambda case: (case[1].at, case[0].session_id, case[1].seq), reverse=True)
        return Lesson(
            kind=kind,
            key=key,
            line=line,
            score=round(score, 2),
            sessions=values.pop("sessions", len(self.roots)),
            last_at=latest[0][1].at if latest else "",
            agents=tuple(sorted({session.agent for session, _ in self.members})),
            evidence=tuple((session.session_id, call.seq) for session, call in latest[:MAX_EVIDENCE]),
            **values,
        )


def path_below(path: str, base: str | None) -> str:
    """Return a path as seen from a folder: "" for the folder itself; as it is where it lies outside."""
    return plain_path(path) if base is None else _WORKTREE.sub("", place_below(path, base))


def is_inside(path: str | None) -> bool:
    """Whether a path as seen from the project's folder lies in it."""
    return path is not None and not path.startswith(("~", "$", "..", "\\")) and not is_absolute(path)


def most_common(counts: Counter[str]) -> str:
    """Return the most frequent text; of several the first in alphabetical order."""
    return min(counts, key=lambda text: (-counts[text], text))


def failed_segment(call: TracedCall) -> Segment | None:
    """Return the segment that made a shell call fail."""
    return next((segment for segment in call.segments if segment.ok is False), None)


def segment_purpose(segment: Segment) -> str | None:
    """Return what a segment is for; None for one that only looks."""
    return None if segment.is_trivial else purpose_of(segment.operation)


def code(text: str) -> str:
    """Return a call or path as a code span, whatever it holds."""
    return f"`{text.replace('`', chr(39))}`"
