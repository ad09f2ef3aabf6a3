"""Learns what a project's files and the agent's own tools show: folders, twins, follow-ups, values, and the harness."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations, takewhile
from math import log2

from consolidator.memory.calls import tool_kinds
from consolidator.memory.calls.directory import expects_root, goes_again, name_folder
from consolidator.memory.calls.installation import installed_packages
from consolidator.memory.calls.shell_words import find_patterns
from consolidator.memory.calls.symbols import PATCH_TOOL
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
from consolidator.memory.lessons.segments import paths_of
from consolidator.memory.lessons.trace import KILLED_SHELL, NO_MATCHES, POWERSHELL, SPARED_SHELL, TracedCall
from consolidator.models.audience import pluralize

MIN_SESSIONS = 3
MIN_CONFIDENCE, MIN_LIFT = 0.6, 2.0
MIN_TOLD_SHARE = 0.75  # of the changes of one file, in which another is changed; of failed edits, that lack a tab
MAX_COMMITS_SCORE = 4.0  # how commits are made matters less than what fails
MIN_TOLD_SCORE = 2.4  # of two files: below it most lines are of one feature
MAX_UNIT_FILES = 60  # edited between two commits; more say nothing of what belongs together
MIN_MUTUAL_SHARE = 0.5  # of the changes of the file that is changed more often, where both are of one kind
MAX_ONE_FILE = 0.9  # of the changes of a folder's files: more are changes of that file
MIN_KEPT_SHARE, MIN_KEPT, MAX_KEPT = 0.6, 4, 4  # of the sessions that change several files, and documents
MIN_TESTS, MIN_TEST_SESSIONS, MAX_TEST_PLACES = 3, 2, 2
MAX_ALIKE = 100  # files of one name that a test's folder is compared with: more say nothing
MIN_FORM_SHARE = 0.8  # of the commits, that have a subject of one form
MAX_NAMES = 4  # of types of commits, and of branches
MAX_LIFT_BITS = 3.5  # from which on more says no more
SLEPT = "Blocked: sleep"
KILLS_SHELL = "pkill -f"
SHELL_RULES = {  # that hold from the first case on
    KILLS_SHELL: "`pkill -f NAME` also ends the shell whose own line has that name, as `kill $(pgrep -f …)` does: "
    "the rest does not run. Write `pkill -f '[N]AME'`, its first letter in brackets, alone in its call "
    "(a shell ended so",
    SLEPT: "A call that sleeps first is refused: make it without that, or in the background (refused",
    NO_MATCHES: "The shell is zsh: quote a word with `*`, `?`, `[` or `(`, and one that begins with `==` "
    "(“no matches found”",
    POWERSHELL: "The shell is PowerShell: what sh alone reads fails: `<<EOF`, `ls -la`, in old versions `&&` (failed",
}
CANCELLED, UNMATCHED = "Sibling tool call errored", "String to replace not found"  # what Claude Code says
UNMARKED = "is not a valid hunk header"  # what `apply_patch` says
KEEPS_FOLDER = "Bash"  # Claude Code's shell; others' calls say where they run
LEFT_BEHIND = "kept directory"  # no words of an error: it shows by where a call ran
MAX_PAIRED = 300  # files and patterns that are held against each other, the most frequent
MAX_TWINS = 8  # folders that have a file of one name; in more it is a usual name
MAX_INDEX = 400  # files that are known by their names
MIN_CONSTANT_SHARE, MIN_CONSTANT_SESSIONS = 0.8, 2
_OF_BROWSER = re.compile(r"^(?:[cm]?[jt]sx?|vue|svelte)$")  # endings of one language
_NO_FOLDER = re.compile(
    r"(?:node_modules|dist|build|out|target|vendor|site-packages|packages?|https?|a|b|lib)/|\.(?:git|venv)"
)
_OF_REPOSITORY = re.compile(
    r"gh (?:pr|issue|run|workflow|release|repo (?:view|edit|sync)|label|cache|secret|variable)\b"
)
NO_REMOTE = re.compile(r"no git remotes|none of the git remotes|not a git repository", re.IGNORECASE)  # as `gh` says it
_NO_TWIN = tool_kinds.COMMON_FILE_NAMES | {"common", "helpers", "errors", "constants", "styles", "index"}
_SEVERAL_WORDS = re.compile(r"\w[-_.]\w|[a-z][A-Z]")  # such a name is rarely given twice
_TEST = re.compile(r"^test_(?=.)|[._-](?:test|spec)s?$|(?<=[a-z\d])Tests?$")  # in a file's name without its ending
_DOCUMENT = re.compile(r"\.(?:mdx?|ya?ml|rst)$")
_NO_SOURCE = re.compile(rf"{_DOCUMENT.pattern}|\.(?:json|toml|txt|css|html|sh|lock)$")
_SUBJECT = re.compile(  # a ticket, or a word and a scope before a colon, where a commit's subject begins
    r"\bgit (?:-[cC] \S+ )*commit [^&;|]*?(?:-[a-z]*m |--message[ =]|-F - ?)"
    r"(?:[\"']?\$\(cat )?(?:<<-?\s*[\"']?\w+[\"']?|[\"'])\s*(?=.{9})"
    r"(?:\[?([A-Z][A-Z\d]{1,9})-\d+\b|([A-Za-z][A-Za-z\d]{1,14})(\([^()]{1,40}\))?!?: )?",
    re.ASCII,
)
_BRANCH = re.compile(r"^git (?:checkout|switch) (?:.* )?-[bBcC] ([a-z][a-z\d]{1,14})/", re.ASCII)
_NO_PAIR = re.compile(r"(?:^|/)(?:tests?|__tests__|spec)/|changelog|readme|lock", re.IGNORECASE)


def learn_habits(history: History) -> list[Lesson]:
    """Return the lessons of files and of the harness."""
    files = [*_foreign_folders(history), *_index(history), *_tests(history), *_changes(history)]
    return [*_harness(history), *files, *_constants(history), *_commits(history)]


def broken_rule(call: TracedCall) -> str | None:
    """Return which of `SHELL_RULES` a call did not keep."""
    if call.kind == "shell" and call.ok is False and call.value in ("sleep", KILLED_SHELL):
        return SLEPT if call.value == "sleep" else KILLS_SHELL
    return next((headline.key for headline in call.headlines if headline.key in SHELL_RULES), None)


def _worked_against(rule: str, history: History) -> int:
    """Return how many calls worked though they are of the form that one of `SHELL_RULES` says to fail."""
    calls = (call for _, call in history.calls() if call.ok)
    return sum(bool(find_patterns(each.line)) if rule == NO_MATCHES else each.value == SPARED_SHELL for each in calls)


def _harness(history: History) -> Iterator[Lesson]:
    """Yield how the agent's own tools behave, in our words, with counts from the log."""
    cancelled, left, unmarked = Cases(), Cases(), Cases()
    refused: dict[str, Cases] = defaultdict(Cases)
    shifts: dict[str, Cases] = defaultdict(Cases)  # what a file shows of an edit that failed: "tab+1"
    for session, call in history.calls():
        if call.reason == "cascade" and call.kind == "shell":  # no other calls can be chained
            cancelled.add(session, call)
        if call.name == PATCH_TOOL and any(UNMARKED in headline.text for headline in call.headlines):
            unmarked.add(session, call)
        is_kept = call.name == KEEPS_FOLDER or (call.kind == "search" and call.path)
        place = session.relative(call.directory) if is_kept else None
        errors = "\n".join(headline.text for headline in call.headlines) if place and is_inside(place) else ""
        paths = [call.path] if call.kind == "search" and call.path else paths_of(call.segments)
        if place and errors and (goes_again(place, errors) or expects_root(place, paths, errors)):
            left.add(session, call)
        if (rule := broken_rule(call)) is not None:
            refused[rule].add(session, call)
        if call.kind in ("read", "edit") and call.ok and call.value:
            shifts[call.value].add(session, call)

    if len(cancelled.roots) >= MIN_SESSIONS:
        yield cancelled.build_lesson(
            "harness",
            "cancelled calls",
            f'One failure cancels its parallel calls ("Sibling tool call errored", {len(cancelled)} times): '
            "chain checks in one command.",
            1.2 * len(cancelled.roots),
            failures=len(cancelled),
            match={"error": CANCELLED},
        )
    if len(unmarked.roots) >= MIN_SESSIONS:
        yield unmarked.build_lesson(
            "harness",
            "patch lines",
            f'A patch fails at a line without its mark ("{UNMARKED}", {len(unmarked)} times): below `*** Add File`, '
            "each line begins with `+`, an empty one, too.",
            1.2 * len(unmarked.roots),
            failures=len(unmarked),
            match={"error": UNMARKED},
        )
    if left.members:
        yield left.build_lesson(
            "harness",
            "kept directory",
            f"The shell stays in the folder that a `cd` went to: calls that expect another one failed "
            f"{pluralize(len(left), 'time')}.",
            1.2 * len(left.roots),
            failures=len(left),
            match={"error": LEFT_BEHIND},
            starts=len(left.roots) >= MIN_SESSIONS,
        )
    for rule, cases in sorted(refused.items()):
        yield cases.build_lesson(
            "harness",
            rule,
            f"{SHELL_RULES[rule]} {pluralize(len(cases), 'time')}).",
            1.2 * len(cases.roots),
            failures=len(cases),
            match={"shell": rule, "kind": {NO_MATCHES: "pattern", KILLS_SHELL: "pkill"}.get(rule, rule)},
            warns=rule in (NO_MATCHES, KILLS_SHELL)
            and _worked_against(rule, history) < (1 if rule == NO_MATCHES else len(cases)),
            starts=len(cases.roots) > 1,
        )
    short, total = shifts["tab+1"], sum(map(len, shifts.values()))
    if len(short.roots) >= MIN_SESSIONS and len(short) >= MIN_TOLD_SHARE * total:
        yield short.build_lesson(
            "harness",
            "tabs",
            f'Edits that fail ("{UNMATCHED}") mostly lack a tab in each line ({len(short)} of {total} times).',
            1.5 * len(short.roots),
            failures=len(short),
            match={"error": UNMATCHED, "indented": "\t"},
        )


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


def _constants(history: History) -> Iterator[Lesson]:
    """Yield the repository that nearly all successful `gh` calls name.

    One that is not called as the project's folder may be somebody else's: more calls have to name it than leave it out,
    in more sessions.
    """
    cases: dict[str, Cases] = defaultdict(Cases)
    unnamed = failures = 0  # the calls that leave it out
    for session, call in history.calls():
        if call.kind == "shell" and call.ok and call.value and "/" in call.value:
            cases[call.value].add(session, call)
        elif call.kind == "shell" and any(_OF_REPOSITORY.match(segment.operation) for segment in call.segments):
            unnamed += call.ok is True
            failures += any(NO_REMOTE.search(headline.text) is not None for headline in call.headlines)
    counts = Counter({value: len(members) for value, members in cases.items()})
    best = most_common(counts) if counts else None
    if best is None or len(cases[best].roots) < MIN_CONSTANT_SESSIONS:
        return
    is_own = best.rpartition("/")[2].casefold() == (history.home or "").rpartition("/")[2].casefold()
    if not is_own and (len(cases[best].roots) < MIN_SESSIONS or counts[best] <= unnamed):
        return
    if counts[best] >= MIN_CONSTANT_SHARE * counts.total():
        shares = f"{counts[best]} of {counts.total() + unnamed}" + (f"; {failures} failed without" if failures else "")
        yield cases[best].build_lesson(
            "constant",
            "gh repository",
            f"`gh` calls here name the repository {code(best)} ({shares}).",
            1.0 * len(cases[best].roots),
            successes=counts[best],
            failures=failures,
            instead=best,
            starts=failures > 0 or counts[best] > unnamed,
        )


def _tests(history: History) -> Iterator[Lesson]:
    """Yield where tests lie, by the folders of the files that are called as they are."""
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
    places: dict[str, dict[str, str]] = defaultdict(dict)  # test -> source
    for test in sorted(edited):
        if 0 < len(alike := sources[_TEST.sub("", _stem(test))]) <= MAX_ALIKE:
            _, place, source = max((*_compare_folders(path, test), path) for path in alike)
            places[place][test] = source

    for place, pairs in sorted(places.items(), key=lambda each: (-len(each[1]), each[0]))[:MAX_TEST_PLACES]:
        cases = Cases([case for test in pairs for case in edited[test].members])
        is_told_by_language = not place and all(test.endswith("_test.go") for test in pairs)
        if is_told_by_language or len(pairs) < MIN_TESTS or len(cases.roots) < MIN_TEST_SESSIONS:
            continue
        test = max(pairs, key=lambda test: (len(edited[test].roots), test))
        shown = code(test) if place else f"{code(test.rpartition('/')[2])} beside it"
        counts = f"{len(pairs)} files, {len(cases.roots)} sessions"
        yield cases.build_lesson(
            "together",
            f"tests {place}",
            f"Tests lie like this: {code(pairs[test])} has {shown} ({counts}).",
            (0.5 if place else 0.2) * len(cases.roots),
        )


def _stem(path: str) -> str:
    """Return a file's name without its ending."""
    name = path.rpartition("/")[2]
    return name.rpartition(".")[0] or name


def _compare_folders(source: str, test: str) -> tuple[int, str]:
    """Return how many folders two paths share at both ends, and what the second one has between these."""
    first, second = source.split("/")[:-1], test.split("/")[:-1]
    start = _count_equal(first, second)
    end = _count_equal(first[start:][::-1], second[start:][::-1])
    return start + end, "/".join(second[start : len(second) - end])


def _count_equal(first: list[str], second: list[str]) -> int:
    return sum(1 for _ in takewhile(lambda names: names[0] == names[1], zip(first, second, strict=False)))


def _commits(history: History) -> Iterator[Lesson]:
    """Yield how commits are made: the form of their subjects, whether they are pushed, and how branches are called.

    Of subjects and names nothing is kept but a word before a colon or a slash.
    """
    forms: dict[str, Cases] = defaultdict(Cases)
    types: dict[str, set[str]] = defaultdict(set)  # sessions
    branches: dict[str, set[str]] = defaultdict(set)
    pushed: dict[str, bool] = {}  # session -> whether it pushed after a commit
    scoped = 0
    for session, call in history.calls():
        for segment in call.segments:
            if not segment.ok or segment.is_hostile or not session.is_here(call, segment):
                continue
            if segment.operation == "git push" and session.root in pushed:
                pushed[session.root] = True
            elif branch := _BRANCH.search(segment.call):
                branches[f"{branch[1]}/…"].add(session.root)
            elif segment.operation == "git commit":
                pushed.setdefault(session.root, False)
                if subject := _SUBJECT.search(call.line):
                    ticket, word, scope = subject.groups()
                    form = f"{ticket}-…" if ticket else f"{word}: …" if word else ""
                    if word and word.islower():
                        form, scoped = "type: …", scoped + bool(scope)
                        types[word].add(session.root)
                    forms[form].add(session, call)

    total = sum(map(len, forms.values()))
    form, cases = max(forms.items(), key=lambda each: (len(each[1]), each[0]), default=("", Cases()))
    if len(cases.roots) < MIN_SESSIONS or len(cases) < MIN_FORM_SHARE * total:
        return
    shown = code(form) if form else "a plain subject without `type:`"
    if form == "type: …":
        shown = "`type(scope): …`" if 2 * scoped > len(cases) else "`type: …`"
        shown += f", mostly {', '.join(names)}" if (names := _usual_names(types)) else ""
    counts = [f"{len(cases)} of {total}"]
    pushes = sum(pushed.values())
    if max(pushes, len(pushed) - pushes) >= MIN_FORM_SHARE * len(pushed):
        counts.append(f"{'mostly' if 2 * pushes > len(pushed) else 'rarely'} pushed at once")
    if names := _usual_names(branches):
        counts.append(f"branches are called {', '.join(names)}")
    line = f"Commits here: {shown} ({'; '.join(counts)})."
    yield cases.build_lesson("constant", "commits", line, min(MAX_COMMITS_SCORE, 0.3 * len(cases.roots)))


def _usual_names(sessions: dict[str, set[str]]) -> list[str]:
    """Return the names that several sessions gave, the most frequent first."""
    usual = sorted((-len(roots), name) for name, roots in sessions.items() if len(roots) > 1)
    return [code(name) for _, name in usual[:MAX_NAMES]]


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
        kinds = {path: {path, _wildcard(path), _wildcard(path, with_folder=False)} for _, path, _ in edits}
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


def _changes(history: History) -> Iterator[Lesson]:
    """Yield commands that follow a change of some files, files that are kept alike, and files changed together."""
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


def _follow_ups(units: _Units, by_file: dict[str, set[int]]) -> Iterator[Lesson]:
    by_pattern: dict[str, set[int]] = defaultdict(set)
    for path, numbers in by_file.items():
        for pattern in (path, _wildcard(path), _wildcard(path, with_folder=False)):
            if pattern:
                by_pattern[pattern] |= numbers
    by_command: dict[str, set[int]] = defaultdict(set)
    for number, unit in enumerate(units.members):
        for command in unit.commands:
            by_command[command].add(number)
    for command, ran in sorted(by_command.items()):
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


def _wildcard(path: str, *, with_folder: bool = True) -> str | None:
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
        pattern = _wildcard(path)
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
        )


def _may_pair(first: str, second: str) -> bool:
    """Whether two files say more than that they are of one folder, or of one name in it."""
    if first.rpartition("/")[0] == second.rpartition("/")[0] and _stem(first) == _stem(second):
        return False
    return (first + second).count("*") < 2 and second != _wildcard(first) and first != _wildcard(second)


def _is_apart(first: str, second: str) -> bool:
    """Whether two files are of different languages and lie in folders neither of which is in the other."""
    places = first.rpartition("/")[0] + "/", second.rpartition("/")[0] + "/"
    is_within = places[0].startswith(places[1]) or places[1].startswith(places[0])
    endings = {_OF_BROWSER.sub("ts", path.rpartition(".")[2]) for path in (first, second)}
    return len(endings) == 2 and not is_within
