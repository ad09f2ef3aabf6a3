"""Learns which calls worked here, operation by operation, with the words that were said of them, which only find them.

They are found by a question and told to nobody who did not ask, so they are no advice of ours: each is quoted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from consolidator.memory.calls.harm import line_harm
from consolidator.memory.calls.harm_in_text import text_harm
from consolidator.memory.facts.orders import commands_memory
from consolidator.memory.lessons.always_failing import is_of_machine, keys_of
from consolidator.memory.lessons.harm import name_harm, speaks_to_reader
from consolidator.memory.lessons.history import Cases, History, code, is_inside, most_common
from consolidator.memory.lessons.lesson import KEYS, WORKED_CALL, Lesson, WorkedCall
from consolidator.memory.lessons.segments import purpose_of

MAX_OF_OPERATION, MAX_OPERATIONS = 30, 100  # calls, those that worked most often first; operations
MAX_KEYS = 1000  # of what worked of the machine: programs before options
MAX_PURPOSES = 3  # of a call, in the words of whoever made it


@dataclass(slots=True)
class _Tally:
    """What became of one call."""

    worked: Cases = field(default_factory=Cases)
    failed: int = 0
    is_judged: bool = False
    folders: Counter[str] = field(default_factory=Counter)
    about: Counter[str] = field(default_factory=Counter)


def learn_worked_calls(history: History, failing: Collection[str] = ()) -> list[Lesson]:
    """Return for each operation the calls that worked, without hostile ones (I18); and what worked of the machine.

    `failing` are the keys that mostly fail.
    """
    keys: set[str] = set()
    operations: defaultdict[str, defaultdict[str, _Tally]] = defaultdict(lambda: defaultdict(_Tally))
    for session, call in history.calls():
        for segment in call.segments:
            if segment.ok:
                keys.update(" ".join(key) for key in keys_of(session, call, segment) if is_of_machine(key))
            if segment.is_trivial or segment.ok is None or segment.shown is None:
                continue
            tally = operations[segment.operation][segment.shown]
            tally.is_judged |= not segment.piped
            if segment.ok:
                tally.worked.add(session, call)
                tally.about.update([call.about] if call.about else [])
                place = session.relative(call.directory)
                is_told = place is not None and is_inside(place) and name_harm(place) is None
                tally.folders.update([place] if place is not None and is_told else [])
            else:
                tally.failed += 1
    lessons = [_build(operation, tallies, history.home) for operation, tallies in operations.items()]
    ordered = sorted((lesson for each in lessons for lesson in each), key=lambda each: (-each.sessions, each.key))
    sessions = len({session.root for session in history.sessions})
    match = {"keys": sorted(keys - {*failing}, reverse=True)[:MAX_KEYS]}
    machine = [Lesson(WORKED_CALL, KEYS, "", 0.0, sessions, starts=False, match=match)] if keys else []
    return [*ordered[:MAX_OPERATIONS], *machine]


def _build(operation: str, tallies: dict[str, _Tally], home: str | None) -> Iterator[Lesson]:
    calls = [
        WorkedCall(
            call,
            len(tally.worked),
            tally.failed,
            most_common(tally.folders) if tally.folders else None,
            tuple(
                sorted(filter(_is_plain, tally.about), key=lambda about: (-tally.about[about], about))[:MAX_PURPOSES]
            ),
            max(case.at for _, case in tally.worked.members),
            tally.is_judged,
        )
        for call, tally in tallies.items()
        if tally.worked.members and line_harm(call, home) is None and _is_plain(call)
    ]
    calls.sort(key=lambda call: call.call)
    calls.sort(key=lambda call: call.at, reverse=True)
    calls.sort(key=lambda call: -call.worked)
    if not calls:
        return
    cases = Cases([member for call in calls for member in tallies[call.call].worked.members])
    failed = sum(tally.failed for tally in tallies.values())
    yield cases.build_lesson(
        WORKED_CALL,
        operation,
        f"{code(operation)} worked {len(cases)} of {len(cases) + failed} times.",
        0.0,
        failures=failed,
        successes=len(cases),
        purpose=purpose_of(operation),
        starts=False,
        match={"calls": [call.to_json() for call in calls[:MAX_OF_OPERATION]]},
    )


def _is_plain(text: str) -> bool:
    """Whether a text neither is hostile nor speaks to its reader."""
    return text_harm(text) is None and not speaks_to_reader(text) and not commands_memory(text)
