"""Learns what a project's files and the agent's own tools show: folders, twins, follow-ups, values, and the harness."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations

from consolidator.memory.lessons.history import History, TracedSession, code, folder, segment_purpose
from consolidator.memory.lessons.lesson import Lesson
from consolidator.memory.lessons.trace import TracedCall

MIN_SESSIONS = 3
MIN_CONFIDENCE, MIN_LIFT = 0.6, 2.0
MAX_UNIT_FILES = 60  # edited between two commits; more say nothing of what belongs together
MAX_TOGETHER = 12
MAX_EVIDENCE = 5
_NO_FOLDER = re.compile(
    r"node_modules|dist|build|\.git|target|vendor|\.venv|site-packages|lib/python|packages?/|https?|a/|b/"
)
_NO_TWIN = frozenset(
    [
        "index",
        "main",
        "types",
        "mod",
        "lib",
        "init",
        "__init__",
        "readme",
        "package",
        "setup",
        "config",
        "utils",
        "test",
        "styles",
    ]
)
_NO_PAIR = re.compile(
    r"(?:^|/)(?:tests?|__tests__|docs?|spec)/|\.(?:test|spec)\.|changelog|readme|\.md$|lock|package\.json",
    re.IGNORECASE,
)


def learn_habits(history: History) -> list[Lesson]:
    """Return the lessons of files and of the harness."""
    return [*_harness(history), *_foreign_folders(history), *_moved(history), *_constants(history), *_changes(history)]


def _harness(history: History) -> Iterator[Lesson]:
    """Yield how the agent's own tools behave, in our words, with counts from the log."""
    cancelled: list[tuple[TracedSession, TracedCall]] = []
    unmatched: list[tuple[TracedSession, TracedCall]] = []
    indents: Counter[str] = Counter()
    for session, call in history.calls():
        if call.reason == "cascade":
            cancelled.append((session, call))
        if call.kind == "edit":
            if call.ok and call.value:
                indents[call.value] += 1
            elif call.ok is False and any(
                "not found in file" in h.key or "to replace not found" in h.key for h in call.headlines
            ):
                unmatched.append((session, call))
    if len({session.root for session, _ in cancelled}) >= MIN_SESSIONS:
        yield _counted(
            "harness",
            "cancelled calls",
            f"Of calls sent together, one failure cancels the others (“Sibling tool call errored”, {len(cancelled)} times): chain "
            "checks in one command, or send them one after another.",
            1.2,
            cancelled,
        )
    if len({session.root for session, _ in unmatched}) >= MIN_SESSIONS and indents["tab"] > 0.6 * indents.total():
        yield _counted(
            "harness",
            "tabs",
            f"Sources are indented with tabs here: edits whose old text has other white space fail (“String to replace not "
            f"found”, {len(unmatched)} times); copy the tabs.",
            1.5,
            unmatched,
        )


def _counted(kind: str, key: str, line: str, weight: float, cases: list[tuple[TracedSession, TracedCall]]) -> Lesson:
    roots = {session.root for session, _ in cases}
    latest = sorted(cases, key=lambda case: (case[1].at, case[0].session_id, case[1].seq), reverse=True)
    return Lesson(
        kind=kind,  # type: ignore[arg-type]
        key=key,
        line=line,
        score=weight * len(roots),
        sessions=len(roots),
        failures=len(cases),
        match={},
        last_at=latest[0][1].at,
        agents=tuple(sorted({session.agent for session, _ in cases})),
        evidence=tuple((session.session_id, call.seq) for session, call in latest[:MAX_EVIDENCE]),
    )


def _foreign_folders(history: History) -> Iterator[Lesson]:
    """Yield the folders that failing checks name and nobody edits, such as leftovers whose tests are picked up."""
    failing: dict[str, list[tuple[TracedSession, TracedCall]]] = defaultdict(list)
    passing: Counter[str] = Counter()
    edited: set[str] = set()
    removed: dict[str, Counter[str]] = defaultdict(Counter)
    for session, call in history.calls():
        if call.kind == "edit" and call.path:
            edited.add("/".join((session.relative(call.path) or "").split("/")[:2]))
        purposes = {segment_purpose(segment) for segment in call.segments}
        is_check = "test" in purposes or any(s.operation == "git commit" for s in call.segments)
        for name in set(call.folders) if is_check else ():
            if call.ok is False:
                failing[name].append((session, call))
            elif call.ok:
                passing[name] += 1
        for segment in call.segments:
            if segment.program == "rm" and segment.ok:
                for path in segment.paths:
                    relative = session.relative(path) or ""
                    removed["/".join(relative.split("/")[:2])][session.root] += 1
    for name, cases in sorted(failing.items()):
        roots = {session.root for session, _ in cases}
        if len(roots) < MIN_SESSIONS or name in edited or _NO_FOLDER.match(name) or len(cases) < 2 * passing[name]:
            continue
        helped = "; removing what is left over there helped" if removed[name] else ""
        lesson = _counted(
            "foreign_folder",
            name,
            f"Failing tests and commits name files in {folder(name)}, which nobody edits here ({len(roots)} sessions): look "
            f"there first{helped}.",
            2.0,
            cases,
        )
        yield Lesson(**{**_fields(lesson), "match": {"folder": name}})


def _moved(history: History) -> Iterator[Lesson]:
    """Yield files that were looked for where they are not, with the place that other sessions used."""
    used: dict[str, Counter[str]] = defaultdict(Counter)  # base name -> path -> sessions
    seen: set[tuple[str, str]] = set()
    missed: dict[str, list[tuple[TracedSession, TracedCall]]] = defaultdict(list)
    for session, call in history.calls():
        path = session.relative(call.path) if call.kind in ("read", "edit") else None
        if not path or path.startswith("/"):
            continue
        if call.ok:
            if (session.root, path) not in seen:
                seen.add((session.root, path))
                used[path.rsplit("/", 1)[-1]][path] += 1
        elif call.ok is False and any("not exist" in h.text or "No such file" in h.text for h in call.headlines):
            missed[path].append((session, call))
    names = sorted(used)
    index = {name: place for name in names if (place := _only_place(used[name])) is not None}
    if index:
        yield Lesson(
            kind="file_moved",
            key="index",
            line=f"{len(index)} files are known by their names.",
            score=0.0,
            sessions=len(history.sessions),
            match={"index": dict(sorted(index.items(), key=lambda item: (-used[item[0]][item[1]], item[0]))[:400])},
            starts=False,
        )


def _only_place(places: Counter[str]) -> str | None:
    """Return where a file of a name is, if it is at one place, or mostly."""
    ranked = sorted(places.items(), key=lambda item: (-item[1], item[0]))
    return ranked[0][0] if len(ranked) == 1 or ranked[0][1] >= 2 * ranked[1][1] else None


def _constants(history: History) -> Iterator[Lesson]:
    """Yield the repository that nearly all successful `gh` calls name."""
    values: Counter[str] = Counter()
    roots: dict[str, set[str]] = defaultdict(set)
    cases: dict[str, list[tuple[TracedSession, TracedCall]]] = defaultdict(list)
    for session, call in history.calls():
        if call.kind == "shell" and call.ok and call.value:
            values[call.value] += 1
            roots[call.value].add(session.root)
            cases[call.value].append((session, call))
    if not values:
        return
    best = min(values, key=lambda value: (-values[value], value))
    if len(roots[best]) >= 2 and values[best] >= 0.8 * values.total():
        lesson = _counted(
            "constant", "gh repository", f"This project's GitHub repository is {code(best)}.", 1.0, cases[best]
        )
        yield Lesson(
            **{**_fields(lesson), "failures": 0, "successes": values[best], "instead": best, "match": {"program": "gh"}}
        )


def _fields(lesson: Lesson) -> dict[str, object]:
    return {name: getattr(lesson, name) for name in lesson.__dataclass_fields__}


@dataclass(slots=True)
class _Unit:
    """What was edited and run between two commits of a session."""

    root: str
    session: TracedSession
    files: set[str] = field(default_factory=set)
    commands: set[str] = field(default_factory=set)
    last: TracedCall | None = None


def _units(history: History) -> list[_Unit]:
    units: list[_Unit] = []
    for session in history.sessions:
        unit = _Unit(session.root, session)
        for call in session.calls:
            path = session.relative(call.path) if call.kind == "edit" and call.ok else None
            if path and not path.startswith(("/", "~")):
                unit.files.add(path)
                unit.last = call
            for segment in call.segments:
                if segment.ok and _follows(segment_purpose(segment), segment.operation) and unit.files:
                    unit.commands.add(segment.operation)
                if segment.ok and segment.operation == "git commit" and unit.files:
                    units.append(unit)
                    unit = _Unit(session.root, session)
        if unit.files:
            units.append(unit)
    return [unit for unit in units if len(unit.files) <= MAX_UNIT_FILES]


def _follows(purpose: str | None, operation: str) -> bool:
    return purpose in ("generate", "install", "migrate") or (purpose == "build" and " " in operation)


def _changes(history: History) -> Iterator[Lesson]:
    """Yield commands that follow a change of some files, files kept alike in two folders, and files changed together."""
    units = _units(history)
    by_pattern: dict[str, set[int]] = defaultdict(set)
    by_command: dict[str, set[int]] = defaultdict(set)
    by_file: dict[str, set[int]] = defaultdict(set)
    for number, unit in enumerate(units):
        for path in unit.files:
            by_file[path].add(number)
            for pattern in _patterns(path):
                by_pattern[pattern].add(number)
        for command in unit.commands:
            by_command[command].add(number)
    yield from _follow_ups(history, units, by_pattern, by_command)
    twins = list(_twins(units, by_file))
    yield from twins
    yield from _together(units, by_file, {tuple(lesson.match["folders"]) for lesson in twins})


def _patterns(path: str) -> Iterator[str]:
    yield path
    directory, _, name = path.rpartition("/")
    extension = name.rpartition(".")[2] if "." in name else ""
    if extension:
        yield f"{directory}/*.{extension}" if directory else f"*.{extension}"
        yield f"*.{extension}"


def _roots(units: list[_Unit], numbers: set[int]) -> set[str]:
    return {units[number].root for number in numbers}


def _follow_ups(
    history: History, units: list[_Unit], by_pattern: dict[str, set[int]], by_command: dict[str, set[int]]
) -> Iterator[Lesson]:
    for command, ran in sorted(by_command.items()):
        best: tuple[float, int, str] | None = None
        for pattern, edited in sorted(by_pattern.items()):
            both = edited & ran
            needed = 2 if command.endswith("generate") or ":gen" in command else MIN_SESSIONS
            if len(_roots(units, both)) < needed:
                continue
            confidence = len(both) / len(edited)
            lift = confidence / (len(ran) / len(units))
            if confidence >= MIN_CONFIDENCE and lift >= MIN_LIFT:
                rank = (round(confidence, 3), len(both), pattern)
                if best is None or rank[:2] > best[:2]:
                    best = rank
        if best is None:
            continue
        both = by_pattern[best[2]] & ran
        cases = [(units[n].session, last) for n in sorted(both) if (last := units[n].last) is not None]
        yield _counted(
            "follow_up",
            command,
            f"After a change of {code(best[2])} {code(command)} is run ({len(both)} of {len(by_pattern[best[2]])} times).",
            1.5,
            cases,
        )


def _twins(units: list[_Unit], by_file: dict[str, set[int]]) -> Iterator[Lesson]:
    """Yield folders of the same last name whose files of the same name are changed together."""
    pairs: dict[tuple[str, str], set[int]] = defaultdict(set)
    names: dict[tuple[str, str], set[str]] = defaultdict(set)
    by_name: dict[str, list[str]] = defaultdict(list)
    for path in by_file:
        by_name[path.rsplit("/", 1)[-1]].append(path)
    for name, paths in by_name.items():
        if name.partition(".")[0].lower() in _NO_TWIN:
            continue
        for first, second in combinations(sorted(paths), 2):
            one, other = first.rpartition("/")[0], second.rpartition("/")[0]
            if one.rsplit("/", 1)[-1] == other.rsplit("/", 1)[-1] and one and other:
                pairs[one, other] |= by_file[first] & by_file[second]
                if by_file[first] & by_file[second]:
                    names[one, other].add(name)
    for (one, other), numbers in sorted(pairs.items()):
        if len(_roots(units, numbers)) < MIN_SESSIONS:
            continue
        cases = [(units[n].session, last) for n in sorted(numbers) if (last := units[n].last) is not None]
        shown = ", ".join(code(name) for name in sorted(names[one, other])[:3])
        lesson = _counted(
            "together",
            f"{one} {other}",
            f"{folder(one)} and {folder(other)} hold files of the same names that are kept alike ({shown}): change both.",
            2.0,
            cases,
        )
        yield Lesson(**{**_fields(lesson), "failures": 0, "match": {"folders": [one, other]}})


def _together(units: list[_Unit], by_file: dict[str, set[int]], twins: set[tuple[str, ...]]) -> Iterator[Lesson]:
    """Yield pairs of files, or of a file and a folder's files, in different folders that are changed together."""
    hubs = {path for path, numbers in by_file.items() if len(numbers) > 0.3 * len(units)}
    items: dict[str, set[int]] = defaultdict(set)
    for path, numbers in by_file.items():
        if path in hubs or (_NO_PAIR.search(path) and not path.endswith(".md")):
            continue
        if not _NO_PAIR.search(path):
            items[path] |= numbers
        directory, _, name = path.rpartition("/")
        extension = name.rpartition(".")[2]
        if directory and extension not in ("", name) and not re.search(r"changelog|readme", name, re.IGNORECASE):
            items[f"{directory}/*.{extension}"] |= numbers
    eligible = [item for item, numbers in items.items() if len(_roots(units, numbers)) >= MIN_SESSIONS]
    ranked: list[tuple[float, str, str, set[int]]] = []
    for first, second in combinations(sorted(eligible), 2):
        if ("*" in first and "*" in second) or not _apart(first, second):
            continue
        both = items[first] & items[second]
        if len(_roots(units, both)) < MIN_SESSIONS:
            continue
        confidence = max(len(both) / len(items[first]), len(both) / len(items[second]))
        lift = len(both) * len(units) / (len(items[first]) * len(items[second]))
        if confidence >= MIN_CONFIDENCE and lift >= MIN_LIFT:
            ranked.append((confidence * len(_roots(units, both)), first, second, both))
    used: set[tuple[str, str]] = set()
    for _, first, second, both in sorted(ranked, key=lambda entry: (-entry[0], entry[1], entry[2])):
        folders = tuple(sorted((first.rpartition("/")[0], second.rpartition("/")[0])))
        if folders in used or folders in twins or len(used) >= MAX_TOGETHER:
            continue
        used.add(folders)  # type: ignore[arg-type]
        cases = [(units[n].session, last) for n in sorted(both) if (last := units[n].last) is not None]
        total = min(len(items[first]), len(items[second]))
        lesson = _counted(
            "together",
            f"{first} {second}",
            f"{code(first)} and {code(second)} are changed together ({len(both)} of {total} times).",
            1.2,
            cases,
        )
        yield Lesson(**{**_fields(lesson), "failures": 0})


def _apart(first: str, second: str) -> bool:
    """Whether two patterns lie in different folders of which none contains the other."""
    one, other = first.rpartition("/")[0], second.rpartition("/")[0]
    return one != other and not (one + "/").startswith(other + "/") and not (other + "/").startswith(one + "/")
