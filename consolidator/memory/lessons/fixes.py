"""Learns which call resolves an error, by the error's fingerprint: a variant of the failed call, or another command.

A variant is the same operation, told otherwise or elsewhere, that worked within two calls and without an edit; a command
is what ran in between before the same operation worked. An edit is no fix to tell, nor is the same call again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import dataclass

from consolidator.memory.lessons.headlines import mask
from consolidator.memory.lessons.history import History, TracedSession, code, failed_segment, folder, segment_purpose
from consolidator.memory.lessons.lesson import Lesson
from consolidator.memory.lessons.segments import Segment
from consolidator.memory.lessons.trace import TracedCall

WINDOW, VARIANT_WITHIN, COMMAND_WITHIN = 12, 2, 5  # acting calls
MIN_SESSIONS, MIN_SHARE = 2, 0.34
MAX_EVIDENCE = 5
_NO_FIX = (
    "git checkout",
    "git reset",
    "git restore",
    "git stash",
    "git clean",
    "git commit",
    "git add",
    "sleep",
    "kill",
)


@dataclass(frozen=True, slots=True)
class _Case:
    session: TracedSession
    call: TracedCall
    fix: str | None  # the call that worked
    directory: str | None  # where it ran, if that is the difference
    way: str = ""  # variant | command


def learn_fixes(history: History, explained: Collection[tuple[str, int]] = ()) -> list[Lesson]:
    """Return the fixes of errors that several sessions met; failures that are `explained` otherwise are left out."""
    cases: dict[tuple[str, str], list[_Case]] = defaultdict(list)
    for session in history.sessions:
        for position, call in enumerate(session.calls):
            segment = failed_segment(call) if call.kind == "shell" else None
            if segment is None or call.ok is not False or (session.session_id, call.seq) in explained:
                continue
            case = _find_fix(session, position, call, segment)
            for headline in history.reasons(call):
                cases[headline.key, headline.text].append(case)
    by_key: dict[str, list[_Case]] = defaultdict(list)
    texts: dict[str, Counter[str]] = defaultdict(Counter)
    for (key, text), members in cases.items():
        by_key[key] += members
        texts[key][text] += len(members)
    lessons = [
        lesson
        for key in sorted(by_key)
        if (lesson := _lesson(key, min(texts[key], key=lambda t: (-texts[key][t], t)), by_key[key])) is not None
    ]
    return _without_echoes(lessons)


def _find_fix(session: TracedSession, position: int, call: TracedCall, failed: Segment) -> _Case:
    """Return what resolved a failed call."""
    nothing = _Case(session, call, None, None)
    edited = False
    commands: list[tuple[int, Segment]] = []
    for step, (_, later) in enumerate(session.acting(position + 1, WINDOW), 1):
        if later.kind != "shell":
            edited = edited or later.kind == "edit"
            continue
        same = next((s for s in later.segments if s.ok and _resolves(s, failed)), None)
        if same is not None:
            elsewhere = session.relative(later.directory) != session.relative(call.directory)
            differs = _text(same) != _text(failed) or elsewhere
            if step <= VARIANT_WITHIN and not edited and not commands and differs:
                place = session.relative(later.directory) if elsewhere else None
                return _Case(session, call, _text(same), place, "variant")
            if commands and not (edited and commands[0][0] > 1):
                return _Case(session, call, _text(commands[-1][1]), None, "command")
            return nothing
        if any(s.ok is False and _resolves(s, failed) for s in later.segments):
            if not commands:
                edited = True  # it failed again: a later success is no variant of the first call
            continue
        for segment in later.segments:
            if segment.ok and step <= COMMAND_WITHIN and not segment.is_trivial and _may_fix(segment):
                commands.append((step, segment))
    if commands and segment_purpose(commands[0][1]) == "format" and segment_purpose(failed) in ("lint", "format"):
        return _Case(session, call, _text(commands[0][1]), None, "command")
    return nothing


def _may_fix(segment: Segment) -> bool:
    return (
        not segment.operation.startswith(("git ", "gh "))
        and segment.operation not in _NO_FIX
        and segment.program not in _NO_FIX
    )


def _resolves(segment: Segment, failed: Segment) -> bool:
    """Whether the success of a segment shows that the failed operation works now."""
    if segment.operation == failed.operation:
        return True
    if segment_purpose(failed) is not None or failed.program in ("git", "gh") or segment.program != failed.program:
        return False
    words, others = set(failed.call.split()), set(segment.call.split())
    return len(words & others) >= 0.5 * len(words)


def _text(segment: Segment) -> str:
    return segment.call


def _lesson(key: str, headline: str, cases: list[_Case]) -> Lesson | None:
    met = {case.session.root for case in cases}
    groups: dict[tuple[str, str | None], list[_Case]] = defaultdict(list)
    for case in cases:
        if case.fix is not None:
            groups[mask(case.fix), case.directory].append(case)
    if not groups:
        return None
    _, best = min(
        groups.items(), key=lambda item: (-len({c.session.root for c in item[1]}), item[0][0], item[0][1] or "")
    )
    roots = {case.session.root for case in best}
    if len(roots) < MIN_SESSIONS or len(roots) < MIN_SHARE * len(met):
        return None
    counts = Counter(case.fix for case in best if case.fix)
    instead = min(counts, key=lambda fix: (-counts[fix], len(fix), fix))
    directory = best[0].directory
    place = f" in {folder(directory)}" if directory is not None else ""
    text = headline if len(headline) <= 100 else headline[:99] + "…"
    latest = sorted(best, key=lambda case: case.call.at, reverse=True)
    then = f"{code(instead)}{place} then worked" if best[0].way == "variant" else f"{code(instead)} helped"
    return Lesson(
        kind="fix",
        key=key,
        line=f"“{text}”: {then} ({len(roots)} of {len(met)} sessions).",
        score=2.0 * len(roots),
        sessions=len(met),
        failures=len(cases),
        successes=len(best),
        instead=instead,
        match={"headline": key, "share": round(len(roots) / len(met), 3), "directory": directory},
        directory=directory,
        last_at=latest[0].call.at,
        agents=tuple(sorted({case.session.agent for case in best})),
        evidence=tuple((case.session.session_id, case.call.seq) for case in latest[:MAX_EVIDENCE]),
    )


def _without_echoes(lessons: list[Lesson]) -> list[Lesson]:
    """Keep of fixes with the same evidence the first: several lines of one output say the same."""
    seen: set[tuple[str | None, tuple[tuple[str, int], ...]]] = set()
    distinct = []
    for lesson in sorted(lessons, key=lambda lesson: (-lesson.score, lesson.key)):
        if (lesson.instead, lesson.evidence) not in seen:
            seen.add((lesson.instead, lesson.evidence))
            distinct.append(lesson)
    return distinct
