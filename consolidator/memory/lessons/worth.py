"""Measures what a lesson is worth: how often its situation came, told and untold, and how that went.

Pure sums over traces and tellings, so nights may cut the log as they like. A session is one chance, however many calls
it made; it counts as told only if the lesson was told before the situation first came. Forks count with their root.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from fnmatch import fnmatch
from itertools import pairwise
from typing import Any

from consolidator.memory.lessons.always_failing import MATCH_NAMES, Key, keys_of
from consolidator.memory.lessons.headlines import is_lint_rule
from consolidator.memory.lessons.history import History, TracedSession
from consolidator.memory.lessons.lesson import Lesson
from consolidator.memory.lessons.segments import TRANSPARENT_WRAPPERS, Segment
from consolidator.memory.lessons.trace import Trace, TracedCall, call_mark
from consolidator.memory.plain import Plain
from consolidator.memory.solutions.line_kinds import NOT_THERE
from consolidator.models.event import parse_timestamp
from consolidator.models.injection import TellingRow

MIN_HARM_CHANCES, HARM_LEVEL = 3, 0.95  # a lesson harms if most told sessions fail, and more than untold ones
RARE_HARM_LEVEL = 0.999  # where fewer of them fail: it is looked at after every chance, and there are many lessons
MIN_CHANCES, MIN_UNTOLD_FAILURES = 20, 8  # chances after which it has to pay: as many as bring so many failures
MAX_WRONG = 20  # one wrong in so many warnings ends them
PAYS_SHARE = 0.6  # of the failures at most come back if it pays
MAX_GAP = 300.0  # seconds between two calls; what is longer is a pause
COST_WITHIN = 12  # calls after a failure, among which is the one that worked
Z = 1.959964  # of an interval that holds the share 95 times in 100
PRIOR_CHANCES = 5  # that a score trusts no figure: a few chances move it little
_SESSION: Key = ("session",)  # the situation of what can come in any session, and shows only where it fails


@dataclass(slots=True)
class Chances:
    """The sessions in which a lesson's situation came, and what the failures in them cost."""

    sessions: int = 0
    failed: int = 0  # in which the failure came back
    misled: int = 0  # in which the call that the lesson advises could not run
    wrong: int = 0  # in which either happened
    calls: int = 0  # until the next success
    seconds: float = 0.0  # pauses left out
    tokens: int = 0  # that these calls took of the context, about

    @property
    def share(self) -> float:
        """The expected share of sessions in which it goes wrong, from a uniform prior."""
        return (self.wrong + 1) / (self.sessions + 2)


@dataclass(slots=True)
class Worth(Plain):
    """What came of a lesson, told and untold."""

    sessions: int = 0  # that were told it, whether or not its situation came
    told: Chances = field(default_factory=Chances)
    untold: Chances = field(default_factory=Chances)
    prevented: int = 0  # sessions with calls that failed after a warning, or ran once they were corrected
    wrong: int = 0  # sessions with calls that worked in spite of a warning, or could not run once they were corrected
    corrected: int = 0  # of both
    is_habit: bool = False  # no call fails where it is not followed: it may not pay, but it does no harm
    # By Monday: chances that were told, those of them in which the failure came back, and the same untold.
    weeks: dict[str, tuple[int, int, int, int]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON, with what follows from it."""
        interval = [round(bound, 4) for bound in wilson_interval(self.told.failed, self.told.sessions)]
        return {**super(Worth, self).to_json(), "interval": interval, "withheld": self.withheld}

    @property
    def withheld(self) -> str | None:
        """Why the lesson is told no more; None while it pays, or nobody can know yet."""
        told, untold = self.told, self.untold
        if told.sessions >= MIN_HARM_CHANCES and not self.is_habit:
            misleads = told.misled >= MIN_HARM_CHANCES and 2 * told.misled > told.sessions
            level = HARM_LEVEL if 2 * told.wrong > told.sessions else RARE_HARM_LEVEL
            if misleads or probability_less(untold, told) >= level:
                return "it does harm"
        needed = max(MIN_CHANCES, math.ceil(MIN_UNTOLD_FAILURES / untold.share))
        if untold.wrong and told.sessions >= needed and told.share > PAYS_SHARE * untold.share:
            return "it does not pay"
        return None

    @property
    def is_stopped(self) -> bool:
        """Whether warning before calls, and correcting them, has ended: one in twenty was wrong."""
        return self.wrong > 0 and MAX_WRONG * self.wrong >= self.prevented + self.wrong

    @property
    def factor(self) -> float:
        """What the lesson's rank is multiplied by: 1 where nothing is known, less where it does not help."""
        trust = self.told.sessions / (self.told.sessions + PRIOR_CHANCES)
        return 1 + trust * (self.untold.share - self.told.share)

    def describe(self, failure: str = "the failure came back") -> str:
        """Return the figure in words; "" where there is none."""
        told, untold = self.told, self.untold
        parts = [f"told in {self.sessions} session{'' if self.sessions == 1 else 's'}"] if self.sessions else []
        if told.sessions:
            low, high = wilson_interval(told.failed, told.sessions)
            parts.append(f"{failure} in {told.failed} of {told.sessions} ({low:.0%} to {high:.0%})")
        if told.misled:
            parts.append(f"what it advises could not run in {told.misled}")
        if untold.sessions:
            parts.append(f"untold it failed in {untold.failed} of {untold.sessions}")
        if untold.calls:
            calls, minutes = untold.calls / untold.failed, untold.seconds / untold.failed / 60
            parts.append(f"at {calls:.1f} calls, {minutes:.1f} min and {untold.tokens / untold.failed:.0f} tokens each")
        if warned := self.prevented + self.wrong:
            parts.append(f"of {warned} warnings, counted once a session, {self.prevented} were right")
        return ", ".join([*parts, *["warns no more"] * self.is_stopped])


def wilson_interval(count: int, total: int) -> tuple[float, float]:
    """Return the 95 % interval of a share (E. B. Wilson, 1927, JASA 22: 209-212)."""
    if not total:
        return 0.0, 1.0
    share, weight = count / total, Z * Z / total
    half = Z * math.sqrt(share * (1 - share) / total + weight / (4 * total))
    return max(0.0, (share + weight / 2 - half) / (1 + weight)), min(1.0, (share + weight / 2 + half) / (1 + weight))


def probability_less(one: Chances, other: Chances) -> float:
    """Return how sure it is that things go wrong less often in one than in the other.

    Of two Beta posteriors with a uniform prior; the closed form is Evan Miller's, "Formulas for Bayesian A/B testing".
    """
    a, b = one.wrong + 1, one.sessions - one.wrong + 1
    c, d = other.wrong + 1, other.sessions - other.wrong + 1
    return sum(
        math.exp(_log_beta(a + i, b + d) - math.log(d + i) - _log_beta(1 + i, d) - _log_beta(a, b)) for i in range(c)
    )


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


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
        self._together = [number for number, lesson in enumerate(lessons) if lesson.kind == "together"]
        self._chances: dict[tuple[str, int], _Chance] = {}

    def count(self) -> list[Worth]:
        """Return the sums of each lesson."""
        worths = [Worth(is_habit=lesson.kind == "together") for lesson in self._lessons]
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
        for number in self._together if session.calls else ():
            neglected = _neglects(self._lessons[number], session)
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
            numbers |= dict.fromkeys(self._by_situation.get(("program", segment.program), ()))
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
        return [_SESSION] if lesson.key.endswith(" leaves") else [("operation", lesson.key)]
    if lesson.kind == "harness" and lesson.key == "tabs":
        return [("kind", "edit")]
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
    if lesson.key.endswith(" leaves"):
        rules = [headline.key.rsplit("/", 1)[-1] for headline in call.headlines if is_lint_rule(headline.key)]
        return any(f"`{rule}`" in lesson.line for rule in rules)
    if lesson.kind == "constant":
        return call.value not in (None, lesson.instead)
    if lesson.kind == "command" and not TRANSPARENT_WRAPPERS.issuperset(segment.wrappers):
        return False  # it was the wrapper that failed
    return lesson.kind == "commit_check" or history.did_not_run(call) == (lesson.kind == "command")


def _neglects(lesson: Lesson, session: TracedSession) -> bool | None:
    """Whether a session changed some of the files that change together, but not all; None where it changed none."""
    edited = {session.relative(call.path) or "" for call in session.calls if call.kind == "edit" and call.ok}
    places = [f"{folder}/*" for folder in lesson.match.get("folders", ())] or lesson.key.split(" ")
    changed = [any(fnmatch(path, place) for path in edited) for place in places]
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
