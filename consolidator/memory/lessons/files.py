"""Learns what a project's files show: where they are and tests lie, and what is changed or run together."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations
from math import log2
from posixpath import commonprefix

from consolidator.memory.calls import tool_kinds
from consolidator.memory.calls.directory import name_folder
from consolidator.memory.calls.installation import installed_packages
from consolidator.memory.lessons.harm import name_harm
from consolidator.memory.lessons.history import (
    Cases,
    History,
    TracedSession,
    code,
    is_inside,
    most_common,
    segment_purpose,
)
from consolidator.memory.lessons.lesson import Lesson
from consolidator.memory.lessons.trace import TracedCall
from consolidator.models.audience import pluralize

MIN_SESSIONS, MIN_CONFIDENCE, MIN_LIFT = 3, 0.6, 2.0
MIN_TOLD_SHARE = 0.75  # of the changes of one file, in which another is changed
MIN_TOLD_SCORE = 2.4  # of two files: below it most lines are of one feature
MAX_UNIT_FILES = 60  # edited between two commits; more say nothing of what belongs together
MIN_MUTUAL_SHARE = 0.5  # of the changes of the file that is changed more often, where both are of one kind
MAX_ONE_FILE = 0.9  # of the changes of a folder's files: more are changes of that file
MIN_KEPT_SHARE, MIN_KEPT, MAX_KEPT = 0.6, 4, 4  # of the sessions that change several files, and documents
MIN_TESTS, MIN_TEST_SESSIONS, MAX_TEST_PLACES = 3, 2, 2
MAX_ALIKE = 100  # files of one name that a test's folder is compared with: more say nothing
MAX_LIFT_BITS = 3.5  # from which on more says no more
MAX_PAIRED = 300  # files and patterns that are held against each other, the most frequent
MAX_TWINS = 8  # folders that have a file of one name; in more it is a usual name
MAX_INDEX = 400  # files that are known by their names
_OF_BROWSER = re.compile(r"^(?:[cm]?[jt]sx?|vue|svelte)$")  # endings of one language
_NO_FOLDER = re.compile(
    r"(?:node_modules|dist|build|out|target|vendor|site-packages|packages?|https?|a|b|lib)/|\.(?:git|venv)"
)
_NO_TWIN = tool_kinds.COMMON_FILE_NAMES | {"common", "helpers", "errors", "constants", "styles", "index"}
_SEVERAL_WORDS = re.compile(r"\w[-_.]\w|[a-z][A-Z]")  # such a name is rarely given twice
_TEST = re.compile(r"^test_(?=.)|[._-](?:test|spec)s?$|(?<=[a-z\d])Tests?$")  # in a file's name without its ending
_DOCUMENT = re.compile(r"\.(?:mdx?|ya?ml|rst)$")
_NO_SOURCE = re.compile(rf"{_DOCUMENT.pattern}|\.(?:json|toml|txt|css|html|sh|lock)$")
_NO_PAIR = re.compile(r"(?:^|/)(?:tests?|__tests__|spec)/|changelog|readme|lock", re.IGNORECASE)


def learn_files(history: History) -> Iterator[Lesson]:
    """Yield where files and tests lie, what follows a change, and files that are kept alike or changed together."""
    yield from _foreign_folders(history)
    yield from _index(history)
    yield from _tests(history)
    units = _collect_units(history)
    by_file: dict[str, set[int]] = defaultdict(set)
    for number, unit in enumerate(units.members):
        for path in unit.edits:
            by_file[path].add(number)
    yield from _follow_ups(units, by_file)
    yield from _kept_up(units, by_file)
    twins = list(_twins(units, by_file))
    yield from twins
    yield from _together(units, by_file, {tuple(lesson.match["folders"]) for lesson in twins})


def _foreign_folders(history: History) -> Iterator[Lesson]:
    """Yield the folders that failing checks name and nobody edits, such as leftovers whose tests are picked up.

    One that is called as an edited folder but for its beginning is built from it: `lib/test` from `src/test`.
    """
    failing: dict[str, Cases] = defaultdict(Cases)
    passing: Counter[str] = Counter()
    edited: set[str] = set()
    removed: set[str] = set()
    for session, call in history.calls():
        if call.kind == "edit" and call.path:
            edited.add(_two_levels(session, call.path))
        is_check = any(segment_purpose(s) == "test" or s.operation == "git commit" for s in call.segments)
        for name in set(call.folders) if is_check else ():
            if call.ok is False:
                failing[name].add(session, call)
            elif call.ok:
                passing[name] += 1
        removed.update(
            _two_levels(session, path) for s in call.segments if s.program == "rm" and s.ok for path in s.paths
        )
    sources = {part for folder in edited for part in folder.split("/")}
    for name, cases in sorted(failing.items()):
        if (
            len(cases.roots) < MIN_SESSIONS
            or name in edited
            or name.partition("/")[2] in sources
            or _NO_FOLDER.match(name)
            or len(cases) < 2 * passing[name]
            or f"{name}/" in f"{history.home}/"  # the rest of an absolute path that was cut
        ):
            continue
        helped = "; clearing it helped" if name in removed else ""
        yield cases.build_lesson(
            "foreign_folder",
            name,
            f"Failing tests and commits name files in {name_folder(name)}, which nobody edits ({len(cases.roots)} "
            f"sessions): look there first{helped}.",
            3.0 * len(cases.roots),
            failures=len(cases),
            match={"folder": name},
        )


def _two_levels(session: TracedSession, path: str) -> str:
    return "/".join((session.relative(path) or "").split("/")[:2])


def _index(history: History) -> Iterator[Lesson]:
    """Yield where the files are that sessions used, by name: for those that are looked for elsewhere."""
    used: dict[str, Counter[str]] = defaultdict(Counter)  # name -> path -> sessions
    seen: set[tuple[str, str]] = set()
    for session, call in history.calls():
        path = session.relative(call.path) if call.kind in ("read", "edit") and call.ok else None
        if path and is_inside(path) and (session.root, path) not in seen:
            seen.add((session.root, path))
            used[path.rsplit("/", 1)[-1]][path] += 1
    places = {}
    for name, paths in used.items():
        best = most_common(paths)
        is_usual = _TEST.sub("", _stem(name)).partition(".")[0].lower() in _NO_TWIN  # a name that any folder may have
        enough = 1 if _SEVERAL_WORDS.search(name.rpartition(".")[0]) else 2
        if not is_usual and paths[best] >= max(enough, 2 * (paths.total() - paths[best])):
            places[name] = best
        else:
            places |= {path: path for path in paths if path.count("/") > is_usual}
    ranked = sorted(places, key=lambda name: (-used[name].total() if name in used else 0, name))[: 2 * MAX_INDEX]
    ranked = [name for name in ranked if name_harm(places[name]) is None][:MAX_INDEX]
    if ranked:
        yield Cases().build_lesson(
            "file_moved",
            "index",
            f"{pluralize(len(ranked), 'file')} can be found by name, such as {code(places[ranked[0]])}.",
            0.0,
            sessions=len({root for root, _ in seen}),
            match={"index": {name: places[name] for name in sorted(ranked)}},
            starts=False,
        )


def find_tests(history: History) -> Iterator[tuple[str, str, str, Cases]]:
    """Yield where each edited test lies as seen from the source that is called as it is, that source, it, its edits."""
    edited: dict[str, Cases] = defaultdict(Cases)
    sources: dict[str, set[str]] = defaultdict(set)  # by their names without endings
    for session, call in history.calls():
        path = session.relative(call.path) if call.kind in ("read", "edit") and call.ok else None
        if not path or not is_inside(path) or _NO_SOURCE.search(path):
            continue
        if not _TEST.search(_stem(path)):
            sources[_stem(path)].add(path)
        elif call.kind == "edit":
            edited[path].add(session, call)
    for test in sorted(edited):
        if 0 < len(alike := sources[_TEST.sub("", _stem(test))]) <= MAX_ALIKE:
            _, place, source = max((*_compare_folders(path, test), path) for path in alike)
            yield place, source, test, edited[test]


def _tests(history: History) -> Iterator[Lesson]:
    """Yield where tests lie, by the folders of the files that are called as they are."""
    places: dict[str, dict[str, tuple[str, Cases]]] = defaultdict(dict)
    for place, source, test, edits in find_tests(history):
        places[place][test] = source, edits
    for place, tests in sorted(places.items(), key=lambda each: (-len(each[1]), each[0]))[:MAX_TEST_PLACES]:
        cases = Cases([case for _, edits in tests.values() for case in edits.members])
        is_told_by_language = not place and all(test.endswith("_test.go") for test in tests)
        if is_told_by_language or len(tests) < MIN_TESTS or len(cases.roots) < MIN_TEST_SESSIONS:
            continue
        test = max(tests, key=lambda test: (len(tests[test][1].roots), test))
        shown = code(test) if place else f"{code(test.rpartition('/')[2])} beside it"
        counts = f"{len(tests)} files, {len(cases.roots)} sessions"
        yield cases.build_lesson(
            "together",
            f"tests {place}",
            f"Tests lie like this: {code(tests[test][0])} has {shown} ({counts}).",
            (0.5 if place else 0.2) * len(cases.roots),
        )


def _stem(path: str) -> str:
    """Return a file's name without its ending."""
    name = path.rpartition("/")[2]
    return name.rpartition(".")[0] or name


def _compare_folders(source: str, test: str) -> tuple[int, str]:
    """Return how many folders two paths share at both ends, and what the second one has between these."""
    first, second = source.split("/")[:-1], test.split("/")[:-1]
    start = len(commonprefix([first, second]))
    end = len(commonprefix([first[start:][::-1], second[start:][::-1]]))
    return start + end, "/".join(second[start : len(second) - end])


@dataclass(slots=True)
class _Unit:
    """What was edited and run between two commits of a session."""

    session: TracedSession
    edits: dict[str, TracedCall] = field(default_factory=dict)  # the last of each file
    commands: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Units:
    """All units, by number."""

    members: list[_Unit]

    def roots(self, numbers: set[int]) -> set[str]:
        return {self.members[number].session.root for number in numbers}

    def cases(self, numbers: set[int], *patterns: str) -> Cases:
        """Return the last edits of the files of these patterns, in these units."""
        units = (self.members[number] for number in sorted(numbers))
        edits = [(unit.session, path, call) for unit in units for path, call in unit.edits.items()]
        kinds = {path: {path, wildcard(path), wildcard(path, with_folder=False)} for _, path, _ in edits}
        return Cases([(session, call) for session, path, call in edits if not kinds[path].isdisjoint(patterns)])


def _collect_units(history: History) -> _Units:
    units: list[_Unit] = []
    for session in history.sessions:
        unit = _Unit(session)
        for call in session.calls:
            path = session.relative(call.path) if call.kind == "edit" and call.ok else None
            if path and is_inside(path):
                unit.edits[path] = call
            for segment in call.segments if unit.edits else ():
                # What makes something of changed files may follow; checks and formatters run after any change.
                purpose = segment_purpose(segment)
                makes = purpose in ("generate", "migrate") or (purpose == "build" and ":" in segment.operation)
                if purpose == "install":
                    makes = not installed_packages("bash", {"command": segment.call})  # not what is new
                if segment.ok and makes:
                    unit.commands.add(segment.operation)
                if segment.ok and segment.operation == "git commit" and unit.edits:
                    units.append(unit)
                    unit = _Unit(session)
        if unit.edits:
            units.append(unit)
    return _Units([unit for unit in units if len(unit.edits) <= MAX_UNIT_FILES])


def _follow_ups(units: _Units, by_file: dict[str, set[int]]) -> Iterator[Lesson]:
    by_pattern: dict[str, set[int]] = defaultdict(set)
    for path, numbers in by_file.items():
        for pattern in filter(None, (path, wildcard(path), wildcard(path, with_folder=False))):
            by_pattern[pattern] |= numbers
    for command in sorted({command for unit in units.members for command in unit.commands}):
        ran = {number for number, unit in enumerate(units.members) if command in unit.commands}
        ranked = []
        for pattern, edited in by_pattern.items():
            both = edited & ran
            confidence = len(both) / len(edited)
            lift = confidence * len(units.members) / len(ran)
            if len(units.roots(both)) >= MIN_SESSIONS and confidence >= MIN_CONFIDENCE and lift >= MIN_LIFT:
                ranked.append((-round(confidence, 3), -len(both), pattern))
        if ranked:
            pattern = min(ranked)[2]
            both = by_pattern[pattern] & ran
            yield units.cases(both, pattern).build_lesson(
                "follow_up",
                command,
                f"After a change of {code(pattern)} {code(command)} is run ({len(both)} of {len(by_pattern[pattern])} "
                "times).",
                1.5 * len(units.roots(both)),
                match={"files": pattern},
            )


def wildcard(path: str, *, with_folder: bool = True) -> str | None:
    """Return the pattern of a path's kind: "styles/*.css", or "*.css"; None for a file without an extension."""
    directory, _, name = path.rpartition("/")
    extension = name.rpartition(".")[2] if "." in name else ""
    if not extension:
        return None
    return f"{directory}/*.{extension}" if directory and with_folder else f"*.{extension}"


def _kept_up(units: _Units, by_file: dict[str, set[int]]) -> Iterator[Lesson]:
    """Yield the documents that many sessions change beside what they work on, such as a plan or a changelog."""
    edited: dict[str, set[str]] = defaultdict(set)  # by session
    for unit in units.members:
        edited[unit.session.root] |= unit.edits.keys()
    several = [paths for paths in edited.values() if len(paths) > 1]
    counts = Counter(path for paths in several for path in paths if _DOCUMENT.search(path))
    for path, count in sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:MAX_KEPT]:
        if count >= max(MIN_KEPT, MIN_KEPT_SHARE * len(several)):
            line = f"{code(path)} is kept up: changed beside other files ({count} of {len(several)} sessions)."
            cases, match = units.cases(by_file[path], path), {"paths": [path, "*"]}
            yield cases.build_lesson("together", f"{path} *", line, 0.5 * count, match=match)


def _twins(units: _Units, by_file: dict[str, set[int]]) -> Iterator[Lesson]:
    """Yield folders of the same last name whose files of the same name are changed together."""
    by_name: dict[str, list[str]] = defaultdict(list)
    for path in sorted(by_file):
        if path.rsplit("/", 1)[-1].partition(".")[0].lower() not in _NO_TWIN:
            by_name[path.rsplit("/", 1)[-1]].append(path)
    changed: dict[tuple[str, str], set[int]] = defaultdict(set)
    names: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, paths in sorted(by_name.items()):
        for first, second in combinations(paths, 2) if len(paths) <= MAX_TWINS else ():
            folder, twin = first.rpartition("/")[0], second.rpartition("/")[0]
            both = by_file[first] & by_file[second]
            if folder and twin and both and folder.rsplit("/", 1)[-1] == twin.rsplit("/", 1)[-1]:
                changed[folder, twin] |= both
                names[folder, twin].append(name)
    for (folder, twin), numbers in sorted(changed.items()):
        if len(units.roots(numbers)) >= MIN_SESSIONS:
            files = [f"{place}/{name}" for place in (folder, twin) for name in names[folder, twin]]
            yield units.cases(numbers, *files).build_lesson(
                "together",
                f"{folder} {twin}",
                f"{name_folder(folder)} and {name_folder(twin)} keep the same files "
                f"({', '.join(map(code, names[folder, twin][:3]))}): change both.",
                2.0 * len(units.roots(numbers)),
                match={"folders": [folder, twin]},
            )


def _together(units: _Units, by_file: dict[str, set[int]], twins: set[tuple[str, ...]]) -> Iterator[Lesson]:
    """Yield pairs of files, or of a file and a folder's files, that are changed together; of each file one pair."""
    items: dict[str, set[int]] = defaultdict(set)
    most: Counter[str] = Counter()  # changes of one of the files
    for path, numbers in by_file.items():
        if _NO_PAIR.search(path) or _TEST.search(_stem(path)):
            continue
        items[path] |= numbers
        pattern = wildcard(path)
        if pattern and "/" in pattern:
            items[pattern] |= numbers
            most[pattern] = max(most[pattern], len(numbers))
    items = {item: numbers for item, numbers in items.items() if most[item] < MAX_ONE_FILE * len(numbers)}
    frequent = sorted(items, key=lambda item: (-len(items[item]), item))
    eligible = sorted([item for item in frequent if len(units.roots(items[item])) >= MIN_SESSIONS][:MAX_PAIRED])

    ranked = []
    for first, second in combinations(eligible, 2):
        both = items[first] & items[second]
        mutual, share = sorted((len(both) / len(items[first]), len(both) / len(items[second])))
        if share < MIN_TOLD_SHARE or len(units.roots(both)) < MIN_SESSIONS or not _may_pair(first, second):
            continue
        # Code beside code says nothing if some file is changed with everything, and less in any case.
        is_apart = _is_apart(first, second)
        if mutual >= MIN_MUTUAL_SHARE or is_apart:
            lift = len(both) * len(units.members) / (len(items[first]) * len(items[second]))
            weight = 1.4 if is_apart else 0.8
            ranked.append((-weight * len(both) * min(1.0, log2(lift) / MAX_LIFT_BITS), first, second))

    used: set[object] = set(twins)
    for score, first, second in sorted(ranked):
        folders = tuple(sorted((first.rpartition("/")[0], second.rpartition("/")[0])))
        if -score < MIN_TOLD_SCORE or not used.isdisjoint((first, second, folders)):
            continue
        used |= {first, second, folders}
        both = items[first] & items[second]
        total = min(len(items[first]), len(items[second]))
        yield units.cases(both, first, second).build_lesson(
            "together",
            f"{first} {second}",
            f"{code(first)} and {code(second)} change together ({len(both)} of {total} times).",
            -score,
            match={"paths": [first, second]},
            starts=False,  # no later session met most, and of the others half did not hold
        )


def _may_pair(first: str, second: str) -> bool:
    """Whether two files say more than that they are of one folder, or of one name in it."""
    if first.rpartition("/")[0] == second.rpartition("/")[0] and _stem(first) == _stem(second):
        return False
    return (first + second).count("*") < 2 and second != wildcard(first) and first != wildcard(second)


def _is_apart(first: str, second: str) -> bool:
    """Whether two files are of different languages and lie in folders neither of which is in the other."""
    places = first.rpartition("/")[0] + "/", second.rpartition("/")[0] + "/"
    is_within = places[0].startswith(places[1]) or places[1].startswith(places[0])
    endings = {_OF_BROWSER.sub("ts", path.rpartition(".")[2]) for path in (first, second)}
    return len(endings) == 2 and not is_within
