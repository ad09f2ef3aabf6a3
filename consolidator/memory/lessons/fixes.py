"""Learns which call resolves an error, by the error's fingerprint: a variant of the failed call, or another command.

A variant is the same operation, said otherwise or elsewhere, that worked within two calls and without an edit; a
command is what ran in between before the same operation worked. An edit is no fix to tell, nor is the same call again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import dataclass

from consolidator.memory.calls.installation import installs_unnamed
from consolidator.memory.lessons.harm import quote_reason
from consolidator.memory.lessons.history import (
    Cases,
    History,
    TracedSession,
    code,
    failed_segment,
    folder,
    most_common,
    segment_purpose,
)
from consolidator.memory.lessons.lesson import Lesson
from consolidator.memory.lessons.segments import Segment
from consolidator.memory.lessons.trace import TracedCall
from consolidator.memory.solutions.fingerprint import mask_line as mask

WINDOW, VARIANT_WITHIN, COMMAND_WITHIN = 12, 2, 5  # acting calls
MIN_SESSIONS, MIN_SHARE = 2, 0.34  # of the sessions that met the error
MIN_SHARED_WORDS = 0.5  # of the failed call's other words, in a resolver of another operation of the same program
MAX_HEADLINE = 100  # characters
_NO_FIX = frozenset({"git", "gh", "sleep", "kill", "pkill", "true"})  # programs that mend nothing


@dataclass(frozen=True, slots=True)
class _Case:
    session: TracedSession
    call: TracedCall
    headline: str
    operation: str  # that failed
    fix: str | None = None  # the call that worked
    directory: str | None = None  # where it ran, if that is the difference
    is_variant: bool = False


def learn_fixes(history: History, explained: Collection[tuple[str, int]] = ()) -> list[Lesson]:
    """Return the fixes of errors that several sessions met; failures that are `explained` otherwise are left out."""
    cases: dict[str, list[_Case]] = defaultdict(list)
    for session in history.sessions:
        for position, call in enumerate(session.calls):
            failed = failed_segment(call)
            if failed is None or call.ok is not False or (session.session_id, call.seq) in explained:
                continue
            fix, directory, is_variant = _find_fix(session, position, call, failed)
            reasons = history.reasons(call)
            if fix and installs_unnamed(fix, " ".join([failed.full_call, *(reason.text for reason in reasons)])):
                fix = None  # what an error asks for is told, not whatever was installed after it
            for headline in reasons:
                cases[headline.key].append(
                    _Case(session, call, headline.text, failed.operation, fix, directory, is_variant)
                )
    lessons = [lesson for key in sorted(cases) if (lesson := _build_lesson(key, cases[key])) is not None]
    # Several lines of one output say the same: the first stands for them.
    distinct: dict[tuple[str | None, tuple[tuple[str, int], ...]], Lesson] = {}
    for lesson in sorted(lessons, key=lambda lesson: (-lesson.score, lesson.key)):
        distinct.setdefault((lesson.instead, lesson.evidence), lesson)
    return list(distinct.values())


def _find_fix(
    session: TracedSession, position: int, call: TracedCall, failed: Segment
) -> tuple[str | None, str | None, bool]:
    """Return the call that resolved a failed one, where it ran if that is the difference, and if it is a variant."""
    is_broken = False  # an edit or another failure stands between: what works now is no variant of the first call
    commands: list[Segment] = []
    for step, (_, later) in enumerate(session.acting(position + 1, WINDOW), 1):
        is_broken = is_broken or later.kind == "edit"
        same = next((segment for segment in later.segments if segment.ok and resolves(segment, failed)), None)
        if same is not None:
            place = session.relative(later.directory)
            moved = place != session.relative(call.directory)
            if (
                step <= VARIANT_WITHIN
                and not is_broken
                and not commands
                and (same.full_call != failed.full_call or moved)
            ):
                return same.shown, place if moved else None, True
            return (commands[-1].shown if commands and not is_broken else None), None, False
        if any(segment.ok is False and resolves(segment, failed) for segment in later.segments):
            is_broken = is_broken or not commands
        elif step <= COMMAND_WITHIN:
            commands += [segment for segment in later.segments if segment.ok and _may_mend(segment)]
    formatted = commands and segment_purpose(commands[0]) == "format" and segment_purpose(failed) == "lint"
    return (commands[0].shown if formatted else None), None, False


def _may_mend(segment: Segment) -> bool:
    """Whether a command may have mended something: a check did not, nor one that only looks."""
    is_check = segment_purpose(segment) in ("lint", "test", "typecheck")
    return not segment.is_trivial and not is_check and segment.program not in _NO_FIX


def resolves(segment: Segment, failed: Segment) -> bool:
    """Whether the success of a segment shows that the failed operation works now."""
    if segment.operation == failed.operation:
        return True
    if segment_purpose(failed) is not None or failed.program in _NO_FIX or segment.program != failed.program:
        return False
    words = set(failed.call.split()[1:])
    return len(words & set(segment.call.split()[1:])) >= MIN_SHARED_WORDS * len(words)


def _build_lesson(key: str, cases: list[_Case]) -> Lesson | None:
    met = {case.session.root for case in cases}
    groups: dict[tuple[str, str], list[_Case]] = defaultdict(list)
    for case in cases:
        if case.fix is not None:
            groups[mask(case.fix), case.directory or ""].append(case)
    ranked = sorted(groups.items(), key=lambda item: (-len({case.session.root for case in item[1]}), item[0]))
    if not ranked:
        return None
    best = ranked[0][1]
    share = len({case.session.root for case in best}) / len(met)
    supporting = Cases([(case.session, case.call) for case in best])
    if len(supporting.roots) < MIN_SESSIONS or share < MIN_SHARE:
        return None
    instead = _common_call([case.fix for case in best if case.fix])
    directory = best[0].directory
    place = f" in {folder(directory)}" if directory is not None else ""
    helped = f"{code(instead)}{place} then worked" if best[0].is_variant else f"{code(instead)} helped"
    reason = quote_reason(most_common(Counter(case.headline for case in cases)), MAX_HEADLINE)
    operation = most_common(Counter(case.operation for case in cases))
    error = f'"{reason}"' if reason else f"An error of {code(operation)}"
    return supporting.build_lesson(
        "fix",
        key,
        f"{error}: {helped} ({len(supporting.roots)} of {len(met)} sessions).",
        2.0 * len(supporting.roots),
        sessions=len(met),
        failures=len(cases),
        successes=len(best),
        instead=instead,
        match={"headline": key, "share": round(share, 3), "operation": operation},
        directory=directory,
    )


def _common_call(calls: list[str]) -> str:
    """Return the call of several cases, with "…" for the words in which they differ."""
    counts = Counter(calls)
    best = most_common(counts)
    if counts[best] > 0.5 * len(calls):
        return best
    rows = [call.split(" ") for call in counts]
    if len({len(row) for row in rows}) > 1:
        return mask(best)
    return " ".join(words[0] if len(set(words)) == 1 else "…" for words in zip(*rows, strict=True))
