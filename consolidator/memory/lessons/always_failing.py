"""Learns what always fails here: a wrapper, program, flag, place, path or skill; and what works in its place.

Each call has several *keys*; a key that never worked, and mostly failed with one headline that says that something is
not there or not understood, explains its failures. Only keys without a success are warned of before a call.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from consolidator.memory.lessons.headlines import DECISIVE, STRONG
from consolidator.memory.lessons.history import History, TracedSession, code, folder
from consolidator.memory.lessons.lesson import Lesson
from consolidator.memory.lessons.segments import Segment
from consolidator.memory.lessons.trace import TracedCall

Key = tuple[str, ...]
MIN_FAILURES, MIN_DECISIVE_FAILURES, MIN_SESSIONS = 3, 2, 2
MIN_SAME_HEADLINE = 0.6
MIN_INSTEAD, MIN_INSTEAD_OF_FLAG = 0.34, 0.2  # share of the failures after which it worked
MAX_EVIDENCE = 5
_GENERAL = ("wrapper", "program", "skill", "flag", "place", "argument", "path")  # of equal keys the first explains more


@dataclass(slots=True)
class _Failure:
    session: TracedSession
    position: int
    call: TracedCall
    segment: Segment | None


@dataclass(slots=True)
class _Uses:
    successes: int = 0
    worked: Counter[str] = field(default_factory=Counter)  # operations
    failures: list[_Failure] = field(default_factory=list)


def keys_of(session: TracedSession, call: TracedCall, segment: Segment | None) -> Iterator[Key]:
    """Yield the keys of a call, or of one segment of a shell call."""
    if segment is not None:
        for wrapper in segment.wrappers:
            yield "wrapper", wrapper, segment.program
        yield "program", segment.program
        for option in segment.options:
            yield "flag", segment.program, option
        directory = session.relative(call.directory)
        if directory is not None and not segment.is_trivial:
            yield "place", segment.operation, directory
        for path in segment.paths:
            yield "argument", segment.program, session.relative(path) or "."
    elif call.kind == "skill":
        yield "skill", call.name
    elif call.kind in ("read", "search") and call.path:
        path = session.relative(call.path) or "."
        yield "path", path
        parts = path.split("/")
        for depth in range(2, len(parts)):
            yield "path", "/".join(parts[:depth])


def learn_always_failing(history: History) -> tuple[list[Lesson], set[tuple[str, int]]]:
    """Return what never worked here, or of flags mostly failed, and the calls (session, seq) that this explains."""
    uses = _collect(history)
    explained: set[tuple[str, int]] = set()
    headlines_used: set[tuple[str, str]] = set()
    lessons = []
    order = sorted(uses, key=lambda key: (-len(uses[key].failures), _GENERAL.index(key[0]), len(key), key))
    for key in order:
        failures = [f for f in uses[key].failures if (f.session.session_id, f.call.seq) not in explained]
        headline = _accept(history, key, uses[key], failures)
        if headline is None or (headline, key[-1]) in headlines_used:
            continue
        explained |= {(f.session.session_id, f.call.seq) for f in failures}
        headlines_used.add((headline, key[-1]))
        if key[0] == "program" and any(lesson.match.get("program") == key[1] for lesson in lessons):
            continue
        lessons.append(_lesson(history, key, uses[key], failures, headline))
    return lessons, explained


def _collect(history: History) -> dict[Key, _Uses]:
    uses: dict[Key, _Uses] = defaultdict(_Uses)
    for session in history.sessions:
        for position, call in enumerate(session.calls):
            segments: list[Segment | None] = list(call.segments) if call.kind == "shell" else [None]
            for segment in segments:
                outcome = call.ok if segment is None else segment.ok
                if outcome is None:
                    continue
                for key in set(keys_of(session, call, segment)):
                    if outcome:
                        uses[key].successes += 1
                        if segment is not None:
                            uses[key].worked[segment.operation] += 1
                    else:
                        uses[key].failures.append(_Failure(session, position, call, segment))
    return uses


def _accept(history: History, key: Key, uses: _Uses, failures: list[_Failure]) -> str | None:
    """Return the headline with which a key fails, if it always (of flags: mostly) does; else None."""
    allowed = len(failures) if key[0] == "flag" else 0
    if uses.successes > allowed or len({f.session.root for f in failures}) < MIN_SESSIONS:
        return None
    counts: Counter[str] = Counter()
    for failure in failures:
        counts.update({h.key for h in history.reasons(failure.call) if STRONG.search(h.text)})
    if not counts:
        return None
    headline, count = min(counts.items(), key=lambda item: (-item[1], item[0]))
    needed = MIN_DECISIVE_FAILURES if DECISIVE.search(headline) else MIN_FAILURES
    return headline if count >= needed and count >= MIN_SAME_HEADLINE * len(failures) else None


def _lesson(history: History, key: Key, uses: _Uses, failures: list[_Failure], headline: str) -> Lesson:
    total = len(failures) + uses.successes
    roots = {failure.session.root for failure in failures}
    instead = _instead(history, key, failures)
    shown = next(h.text for f in failures for h in history.reasons(f.call) if h.key == headline)
    line, match = _describe(key, f"{len(failures)} of {total}", _short(shown), instead, uses, history)
    latest = sorted(failures, key=lambda f: f.call.at, reverse=True)
    return Lesson(
        kind="always_fails",
        key=" ".join(key),
        line=line,
        score=3.0 * len(failures),
        sessions=len(roots),
        failures=len(failures),
        successes=uses.successes,
        instead=instead,
        match={**match, "headline": headline, "kind": key[0]},
        warns=uses.successes == 0 and key[0] in ("wrapper", "program", "flag", "place", "skill"),
        last_at=latest[0].call.at,
        agents=tuple(sorted({failure.session.agent for failure in failures})),
        evidence=tuple((f.session.session_id, f.call.seq) for f in latest[:MAX_EVIDENCE]),
    )


def _instead(history: History, key: Key, failures: list[_Failure]) -> str | None:
    """Return the call that worked soon after the failures, where it did often enough."""
    counts: Counter[str] = Counter()
    for failure in failures:
        if failure.segment is None:
            continue
        for _, call in (
            failure.session.acting(failure.position + 1, 2) if not failure.segment.is_trivial else _next_calls(failure)
        ):
            match = next(
                (
                    s
                    for s in call.segments
                    if s.ok and _is_same(s, failure.segment) and not _has_key(failure, call, s, key)
                ),
                None,
            )
            if match is not None:
                counts[match.call if key[0] != "place" else match.operation] += 1
                break
    if not counts:
        return None
    best, count = min(counts.items(), key=lambda item: (-item[1], len(item[0]), item[0]))
    share = MIN_INSTEAD_OF_FLAG if key[0] == "flag" else MIN_INSTEAD
    if key[0] == "flag":
        by_flags: Counter[str] = Counter()
        for call, times in counts.items():
            words = call.split()
            by_flags[" ".join(words[:2]) if len(words) > 1 and words[1].startswith("-") else words[0]] += times
        best, count = min(by_flags.items(), key=lambda item: (-item[1], item[0]))
    elif count < share * len(failures) and sum(counts.values()) >= share * len(failures):
        return min(counts, key=lambda call: (-counts[call], len(call), call))
    return best if count >= share * len(failures) else None


def _next_calls(failure: _Failure) -> list[tuple[int, TracedCall]]:
    calls = failure.session.calls
    return [(n, calls[n]) for n in range(failure.position + 1, min(failure.position + 3, len(calls)))]


def _is_same(segment: Segment, failed: Segment) -> bool:
    return segment.operation == failed.operation


def _has_key(failure: _Failure, call: TracedCall, segment: Segment, key: Key) -> bool:
    return key in set(keys_of(failure.session, call, segment))


def _describe(
    key: Key, counts: str, reason: str, instead: str | None, uses: _Uses, history: History
) -> tuple[str, Mapping[str, str]]:
    kind, *names = key
    always = "always" if not uses.successes else "mostly"
    if kind == "wrapper":
        wrapper, program = names
        works = _operations_without(history, wrapper, program)
        cure = f"; without `{wrapper}` it works: {', '.join(map(code, works))}" if works else ""
        return (
            f"{code(f'{wrapper} {program} …')} {always} fails ({counts}: {reason}){cure}.",
            {"wrapper": wrapper, "program": program},
        )
    if kind == "program":
        cure = f"; {code(instead)} then worked" if instead else ""
        return f"{code(names[0])} {always} fails here ({counts}: {reason}){cure}.", {"program": names[0]}
    if kind == "flag":
        cure = f"; {code(instead)} then worked" if instead else ""
        match = {"program": names[0], "option": names[1]}
        return f"{code(' '.join(names))} {always} fails here ({counts}: {reason}){cure}.", match
    if kind == "place":
        home = _home_of(history, names[0])
        cure = f"; run it in {folder(home)}" if home is not None and home != names[1] else ""
        match = {"operation": names[0], "directory": names[1]}
        return f"{code(names[0])} fails in {folder(names[1])} ({counts}: {reason}){cure}.", match
    if kind == "skill":
        return f"There is no skill {code(names[0])} here ({counts} calls failed).", {"skill": names[0]}
    if kind == "argument":
        cure = f"; {code(instead)} then worked" if instead else ""
        match = {"program": names[0], "path": names[1]}
        return f"{code(' '.join(names))} always fails ({counts}: {reason}){cure}.", match
    return f"{code(names[0])} is not there ({counts}: {reason}).", {"path": names[0]}


def _operations_without(history: History, wrapper: str, program: str) -> list[str]:
    """Return the operations of a program that work without a wrapper, the most frequent first."""
    counts: Counter[str] = Counter()
    for _, call in history.calls():
        for segment in call.segments:
            if segment.ok and segment.program == program and wrapper not in segment.wrappers:
                counts[segment.operation] += 1
    return [operation for operation, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:3]]


def _home_of(history: History, operation: str) -> str | None:
    """Return the directory in which an operation nearly always worked."""
    places: Counter[str] = Counter()
    for session, call in history.calls():
        directory = session.relative(call.directory)
        if directory is not None and any(s.ok and s.operation == operation for s in call.segments):
            places[directory] += 1
    if not places:
        return None
    best = min(places, key=lambda place: (-places[place], place))
    return best if places[best] >= 0.9 * places.total() else None


def _short(reason: str) -> str:
    reason = reason.removeprefix("error: ").removeprefix("Error: ")
    return reason if len(reason) <= 90 else reason[:89] + "…"
