"""Measures what a lesson is worth: how often its situation came, told and untold, and how that went.

Pure sums over traces and tellings, so nights may cut the log as they like. A session is one chance, however many calls
it made; it counts as told only if the lesson was told before the situation first came. Forks count with their root.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from fnmatch import fnmatch
from itertools import pairwise

from consolidator.memory.lessons.always_failing import MATCH_NAMES, Key, keys_of
from consolidator.memory.lessons.harness import SHELL_RULES, broken_rule
from consolidator.memory.lessons.history import History, TracedSession
from consolidator.memory.lessons.lesson import Lesson
from consolidator.memory.lessons.segments import TRANSPARENT_WRAPPERS, Segment
from consolidator.memory.lessons.trace import Trace, TracedCall, call_mark
from consolidator.memory.lessons.worth import Worth
from consolidator.memory.solutions.line_kinds import NOT_THERE
from consolidator.models.event import parse_timestamp
from consolidator.models.injection import TellingRow

MAX_GAP = 300.0  # seconds between two calls; what is longer is a pause
COST_WITHIN = 12  # calls after a failure, among which is the one that worked
HABITS = ("together", "follow_up", "finds_more")  # no call fails where they are left out
_SESSION: Key = ("session",)  # the situation of what can come in any session, and shows only where it fails


def without_corrected(traces: Iterable[Trace], tellings: Iterable[TellingRow]) -> list[Trace]:
    """Return traces without the calls that were corrected before they ran: they are no evidence of what was typed."""
    made = {(each.session_id, call_mark(each.call_id or "")) for each in tellings if each.correction == "made"}
    return [
        replace(trace, calls=tuple(call for call in trace.calls if (trace.session_id, call.mark) not in made))
        for trace in traces
    ]


def _count_warnings(history: History, worths: Mapping[str, Worth], tellings: Iterable[TellingRow]) -> None:
    """Count of the calls that lessons were told before whether that was right, or would have been; once a session."""
    calls = {(session.session_id, call.mark): (session.root, call) for session, call in history.calls() if call.mark}
    warned = {
        (each.session_id, each.call_id, each.lesson_id): each for each in tellings if each.moment == "before_call"
    }
    counted: set[tuple[str, str, bool]] = set()
    for telling in warned.values():
        worth = worths.get(telling.lesson_id)
        root, call = calls.get((telling.session_id, call_mark(telling.call_id or "")), ("", None))
        if call is None or worth is None or call.ok is None:
            continue
        is_made = telling.correction == "made"
        is_wrong = history.did_not_run(call) if is_made and not call.ok else call.ok is not is_made
        outcome = (root, telling.lesson_id, is_wrong)
        if outcome in counted:
            continue
        counted.add(outcome)
        worth.wrong += is_wrong
        worth.prevented += not is_wrong
        worth.corrected += is_made


def measure_lessons(
    lessons: Sequence[Lesson], ids: Sequence[str], traces: Sequence[Trace], tellings: Iterable[TellingRow]
) -> list[Lesson]:
    """Return lessons with what each is worth; `ids` are theirs. What helped ranks higher, what did not lower."""
    history, told = History.of(traces), list(tellings)
    worths = _Chances(history, lessons, ids, told).count()
    _count_warnings(history, dict(zip(ids, worths, strict=True)), told)
    return [
        replace(lesson, worth=worth.to_json(), score=round(lesson.score * worth.factor, 2))
        for worth, lesson in zip(worths, lessons, strict=True)
    ]


@dataclass(slots=True)
class _Chance:
    """One session's chance, with its forks."""

    is_told: bool
    week: str  # its Monday; "" where that is unknown
    failed: bool = False
    misled: bool = False
    calls: int = 0
    seconds: float = 0.0
    tokens: int = 0
    until: tuple[str, int] = ("", 0)  # the call that worked after the last failure: up to it that is counted


class _Chances:
    def __init__(
        self, history: History, lessons: Sequence[Lesson], ids: Sequence[str], tellings: Iterable[TellingRow]
    ) -> None:
        self._history, self._lessons = history, lessons
        index = {identity: number for number, identity in enumerate(ids)}
        self._tellings: dict[str, dict[int, list[TellingRow]]] = defaultdict(lambda: defaultdict(list))  # by session
        for telling in tellings:
            if telling.lesson_id in index and telling.correction != "shadow":
                self._tellings[telling.session_id][index[telling.lesson_id]].append(telling)
        self._by_situation: dict[Key, list[int]] = defaultdict(list)
        self._failing: dict[Key, int] = {}
        for number, lesson in enumerate(lessons):
            for situation in _situations(lesson):
                self._by_situation[situation].append(number)
            if lesson.kind == "always_fails" and (kind := lesson.match.get("kind")) is not None:
                self._failing[kind, *(lesson.match[name] for name in MATCH_NAMES[kind])] = number
        self._habits = [number for number, lesson in enumerate(lessons) if lesson.kind in HABITS]
        self._chances: dict[tuple[str, int], _Chance] = {}

    def count(self) -> list[Worth]:
        """Return the sums of each lesson."""
        worths = [
            Worth(is_habit=lesson.kind in HABITS, is_command=lesson.kind == "command") for lesson in self._lessons
        ]
        for _, number in {(s.root, number) for s in self._history.sessions for number in self._tellings[s.session_id]}:
            worths[number].sessions += 1
        started = {session.session_id: call.at for session in self._history.sessions for call in session.calls[:1]}
        for session in sorted(self._history.sessions, key=lambda s: (started.get(s.session_id, ""), s.session_id)):
            self._read_session(session)
        for (_, number), chance in sorted(self._chances.items()):
            side = worths[number].told if chance.is_told else worths[number].untold
            side.sessions += 1
            side.failed += chance.failed
            if chance.week:
                counts = worths[number].weeks.get(chance.week, (0, 0, 0, 0))
                added = (1, chance.failed, 0, 0) if chance.is_told else (0, 0, 1, chance.failed)
                worths[number].weeks[chance.week] = tuple(map(sum, zip(counts, added, strict=True)))  # type: ignore[assignment]
            side.misled += chance.misled
            side.wrong += chance.failed or chance.misled
            side.calls += chance.calls
            side.seconds = round(side.seconds + chance.seconds, 1)
            side.tokens += chance.tokens
        return worths

    def _read_session(self, session: TracedSession) -> None:
        told_from = {
            number: _first_told_call(session, tellings)
            for number, tellings in self._tellings[session.session_id].items()
        }
        for number in self._by_situation[_SESSION] if session.calls else ():
            self._open(session, number, told_from.get(number) == 0)
        for number in self._habits if session.calls else ():
            neglected = neglects(self._lessons[number], session)
            if neglected is not None and (chance := self._open(session, number, told_from.get(number) == 0)):
                chance.failed |= neglected
        for position, call in enumerate(session.calls):
            for segment in call.segments if call.kind == "shell" else (None,):
                for number, has_failed in self._concerned(session, call, segment):
                    start = told_from.get(number)
                    chance = self._open(session, number, start is not None and position >= start)
                    if chance is not None:
                        self._take(session, chance, number, position, segment, has_failed)

    def _open(self, session: TracedSession, number: int, is_told: bool) -> _Chance | None:
        """Return the session's chance; None for what came after it was told in the midst of it."""
        chance = self._chances.get((session.root, number))
        if chance is None:
            moment = parse_timestamp(session.calls[0].at)
            monday = "" if moment is None else (moment.date() - timedelta(days=moment.weekday())).isoformat()
            chance = self._chances[session.root, number] = _Chance(is_told, monday)
        return chance if chance.is_told == is_told else None

    def _concerned(
        self, session: TracedSession, call: TracedCall, segment: Segment | None
    ) -> Iterator[tuple[int, bool]]:
        """Yield the lessons whose situation a call, or a segment of it, is; and whether their failure came back."""
        outcome = call.ok if segment is None else segment.ok
        if outcome is None and call.reason != "cascade":
            return
        numbers = dict.fromkeys(self._by_situation.get(("kind", call.kind), ()))
        if segment is not None:
            numbers |= dict.fromkeys(self._by_situation.get(("program", segment.called or segment.program), ()))
            numbers |= dict.fromkeys(self._by_situation.get(("operation", segment.operation), ()))
        keys = keys_of(session, call, segment) if outcome is not None else ()
        failing = {self._failing[key] for key in keys if key in self._failing}
        for number in {**numbers, **dict.fromkeys(self._by_situation[_SESSION])}:
            lesson = self._lessons[number]
            if lesson.kind == "always_fails":
                has_failed = outcome is False and number in failing
            else:
                has_failed = _has_failed(self._history, lesson, call, segment)
                is_first = lesson.kind == "first_run_fails" and number in numbers
                if is_first and outcome is False and not has_failed:
                    continue  # it did not run
            if has_failed or number in numbers:
                yield number, has_failed

    def _take(
        self,
        session: TracedSession,
        chance: _Chance,
        number: int,
        position: int,
        segment: Segment | None,
        has_failed: bool,
    ) -> None:
        call, lesson = session.calls[position], self._lessons[number]
        if lesson.kind == "first_run_fails" and chance.until != ("", 0):
            return  # only the first run counts
        if segment is not None and segment.ok is False and not has_failed:
            chance.misled |= is_advised(lesson, segment) and self._history.did_not_run(call)
        if has_failed:
            chance.failed = True
            if chance.until[0] != session.session_id or position >= chance.until[1]:
                end = _next_success(session, position, segment)
                chance.calls += end - position
                moments = [moment for each in session.calls[position : end + 1] if (moment := parse_timestamp(each.at))]
                gaps = ((later - earlier).total_seconds() for earlier, later in pairwise(moments))
                chance.seconds += sum(min(max(gap, 0.0), MAX_GAP) for gap in gaps)
                chance.tokens += sum(each.tokens for each in session.calls[position:end])
                chance.until = session.session_id, end
        if lesson.kind == "first_run_fails":
            chance.until = session.session_id, position + 1


def _first_told_call(session: TracedSession, tellings: Iterable[TellingRow]) -> int:
    """Return the first call that was made after a lesson was told."""
    marks = {call.mark: position for position, call in enumerate(session.calls) if call.mark}
    positions = []
    for telling in tellings:
        about = marks.get(call_mark(telling.call_id)) if telling.call_id else None
        later = (n for n, call in enumerate(session.calls) if (parse_timestamp(call.at) or telling.at) > telling.at)
        positions.append(about + 1 if about is not None else next(later, len(session.calls)))
    return min(positions)


def _situations(lesson: Lesson) -> list[Key]:
    """Return in which calls a lesson's failure may come; none where nobody can tell."""
    match, kind = lesson.match, lesson.match.get("kind")
    if lesson.kind == "always_fails" and kind == "wrapper":
        return [("program", match["program"])]
    if lesson.kind == "always_fails" and kind == "program" and lesson.instead:
        return [("program", match["program"]), ("program", lesson.instead.split()[0])]
    if lesson.kind == "command" or (lesson.kind == "always_fails" and kind == "flag"):
        return [("operation", match["operation"])] if "operation" in match else []
    if lesson.kind == "first_run_fails":
        return [_SESSION] if "rules" in match else [("operation", lesson.key)]
    if lesson.kind == "harness" and lesson.key == "tabs":
        return [("kind", "edit")]
    if lesson.kind == "constant" and lesson.instead is None:  # of commits
        return []
    named: dict[str, Key] = {"commit_check": ("operation", "git commit"), "constant": ("program", "gh")}
    named |= dict.fromkeys(("always_fails", "harness", "file_moved", "foreign_folder"), _SESSION)
    return [named[lesson.kind]] if lesson.kind in named else []


def is_advised(lesson: Lesson, segment: Segment) -> bool:
    """Whether a segment is the call that a lesson tells to make."""
    if lesson.match.get("kind") == "wrapper":
        return lesson.match["wrapper"] not in segment.wrappers
    is_plain = TRANSPARENT_WRAPPERS.issuperset(segment.wrappers)
    return is_plain and lesson.instead is not None and segment.full_call.startswith(lesson.instead)


def _has_failed(history: History, lesson: Lesson, call: TracedCall, segment: Segment | None) -> bool:
    """Whether a call is what a lesson, but for one that always fails, is about."""
    if lesson.kind == "harness":
        if lesson.key in SHELL_RULES:
            return broken_rule(call) == lesson.key
        if lesson.key != "tabs":
            return call.reason == "cascade"
        return any("to replace not found" in headline.key for headline in call.headlines)
    if lesson.kind == "file_moved":
        name = (call.path or "").rstrip("/").rsplit("/", 1)[-1]
        is_missing = call.ok is False and name in lesson.match.get("index", ())
        return is_missing and any(NOT_THERE.search(headline.text) for headline in call.headlines)
    if segment is None or segment.ok is not False:
        return False
    if lesson.kind == "foreign_folder":
        return lesson.match["folder"] in call.folders
    if "rules" in lesson.match:
        return not set(call.rules).isdisjoint(lesson.match["rules"])
    if lesson.kind == "constant":
        return call.value not in (None, lesson.instead)
    if lesson.kind == "command" and not TRANSPARENT_WRAPPERS.issuperset(segment.wrappers):
        return False  # it was the wrapper that failed
    return lesson.kind == "commit_check" or history.did_not_run(call) == (lesson.kind == "command")


def neglects(lesson: Lesson, session: TracedSession) -> bool | None:
    """Whether a session changed files of a habit and left the others, or what is run then, out; None without any."""
    if lesson.kind != "together":
        files = lesson.match.get("files", "*")
        is_changed = [
            c.kind == "edit" and c.ok and fnmatch(session.relative(c.path) or "", files) for c in session.calls
        ]
        later = session.calls[is_changed.index(True) :] if any(is_changed) else ()
        return all(segment.operation != lesson.key for call in later for segment in call.segments) if later else None
    edited = {session.relative(call.path) or "" for call in session.calls if call.kind == "edit" and call.ok}
    places = [f"{folder}/*" for folder in lesson.match.get("folders", ())] or lesson.match.get("paths", ())
    changed = [place in edited or any(fnmatch(path, place) for path in edited) for place in places]
    return not all(changed) if any(changed) else None


def _next_success(session: TracedSession, position: int, segment: Segment | None) -> int:
    """Return where the failed operation, or the next call of the tool, worked; else the next call."""
    failed = session.calls[position]
    for later in range(position + 1, min(position + 1 + COST_WITHIN, len(session.calls))):
        call = session.calls[later]
        if segment is None and call.ok and call.kind == failed.kind:
            return later
        if segment is not None and any(each.ok and each.operation == segment.operation for each in call.segments):
            return later
    return position + 1
