"""Learns how a project's commands are run: for each purpose the call that works, what fails at its first run, what a
commit runs, and what one check finds that another does not."""

from __future__ import annotations

import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice, pairwise

from consolidator.memory.calls.directory import changes_folder, is_absolute, name_folders
from consolidator.memory.calls.harm_rules import KNOWN_TOOLS
from consolidator.memory.calls.installation import installed_packages
from consolidator.memory.calls.shell_programs import CONDITION_PROGRAMS, MINOR_PROGRAMS, PLAIN_PROGRAMS
from consolidator.memory.calls.shell_words import program_name
from consolidator.memory.lessons.harm import lesson_harm, name_harm
from consolidator.memory.lessons.headlines import is_lint_rule
from consolidator.memory.lessons.history import (
    Cases,
    History,
    TracedSession,
    code,
    is_inside,
    most_common,
    segment_purpose,
)
from consolidator.memory.lessons.lesson import OTHERS, Lesson
from consolidator.memory.lessons.segments import (
    ASSIGNMENTS,
    FORMAT_CHECK,
    LEFT_OUT,
    MAX_CALL,
    NO_TASKS,
    TRANSPARENT_WRAPPERS,
    Segment,
    purpose_of,
    run_elsewhere,
)
from consolidator.memory.lessons.trace import TracedCall

MIN_SESSIONS = 2  # in which a command worked, or that show a commit's checks
MIN_FIRST_FAILS, MIN_FIRST_SHARE, MIN_MENDED_SHARE = 3, 0.3, 0.2
MIN_HOME_USES, HOME_SHARE = 5, 0.9
MAX_FOLDERS, MIN_FOLDER_USES = 3, 2  # in which a program works; of the project's own, where it failed
_CHECKS = ("check", "lint", "test", "typecheck", FORMAT_CHECK)  # what fails of them is mostly what they find
MIN_SHOWN_SECONDS = 20
MIN_TARGET_SESSIONS = 3  # that name the same files: these are no one change's
MAX_USUAL_CALL = 60  # characters
MIN_PARENT_DEPTH = 2  # folders above one that is seen from beside it: whoever's homes lie in one are others
MIN_USUAL_SHARE = 0.2  # of the calls
MENDED_WITHIN = 4  # acting calls
MIN_OTHER_SESSIONS, MIN_OTHER_SHARE, MAX_OTHERS = 3, 0.2, 4  # calls for no such purpose, and of all sessions
MIN_OWN_SHARE = 0.1  # of all sessions, for a script or what runs elsewhere: that is nobody's habit
_NO_OTHERS = PLAIN_PROGRAMS | MINOR_PROGRAMS | CONDITION_PROGRAMS | {"git"}  # as every project runs them
MIN_VALUES, MIN_CONSTANTS, MAX_PATTERN = 3, 2, 100  # of a word that varies; words beside it; characters
MAX_WORDS, MAX_CALLS = 16, 2000  # of a call; calls that are compared
_WORD = re.compile(r"(?:'[^']*'|[^\s'])+")
_PLAIN_WORD = re.compile(r"[\w./@?=:,%-]+")  # what holds no code, no sentence and no telephone's number
_PRIVATE = re.compile(  # an option with a value that is nobody's business, `--phone +49…`, `-p hunter2`
    r"(?i)--?[\w-]*(?:name|phone|mail|user|pass|pin|key|token|secret|auth|address)[\w-]*[ =]|-[pk] (?!\S*:)"
)
_ONLY_ASKS = re.compile(r" (?:-h|-V|--?help|--?version|(?:auth )?status|version|list|--list)$")
MAX_HOOK_WORDS = 4  # of a hook's name
_FOLDER_OPTIONS = frozenset({"-C", "--cwd", "--prefix", "--dir", "--directory", "--manifest-path", "--project"})
_FILE = re.compile(r"\S/(?!\.\.\.)\S|\s[\w-]+\.\w{1,5}\b")  # one call's own
_Name = tuple[str, str]  # an operation, and the script, the container or the machine that it runs
_TITLES = {
    "check": "All checks",
    "test": "Tests",
    "lint": "Lint",
    "format": "Format",
    FORMAT_CHECK: "Format check",
    "typecheck": "Type check",
    "build": "Build",
    "run": "Run",
    "install": "Install",
    "deploy": "Deploy",
    "migrate": "Migrate",
    "generate": "Generate",
}


@dataclass(slots=True)
class _Command:
    """What became of an operation's calls."""

    worked: Cases = field(default_factory=Cases)
    failed: int = 0
    is_judged: bool = False  # whether an exit status of its own was seen: what a pipe follows has none
    is_script: bool = False
    is_elsewhere: bool = False  # run in a container, or on another machine
    heads: Counter[str] = field(default_factory=Counter)  # of its calls, what comes before all that it is given
    calls: dict[tuple[str, str], list[str]] = field(
        default_factory=lambda: defaultdict(list)
    )  # roots, by head and call
    hostile: list[str] = field(default_factory=list)  # calls in lines that are told to nobody
    places: Counter[str] = field(default_factory=Counter)  # where it worked; outside the project the whole path
    failed_places: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)

    def figures(self, *more: str) -> str:
        """Return how often it worked, if anything tells, and more, in brackets."""
        counts = [f"worked {len(self.worked)} of {len(self.worked) + self.failed}"] * self.is_judged
        return f" ({', '.join(figures)})" if (figures := [*counts, *filter(None, more)]) else ""

    @property
    def is_steady(self) -> bool:
        """Whether it worked again and again, in an environment that is not one session's own."""
        works = len(self.worked) >= MIN_SESSIONS and len(self.worked) > self.failed
        return self.is_judged and works and "=" not in most_common(self.heads)

    @property
    def is_own(self) -> bool:
        """Whether what it is says more than its program's name."""
        return self.is_script or self.is_elsewhere

    @property
    def known_places(self) -> Counter[str]:
        """Where it worked below the project's folder; outside, if it nearly always worked there."""
        outside = Counter({place: n for place, n in self.places.items() if is_absolute(place)})
        return outside if outside.total() >= HOME_SHARE * self.places.total() else self.places - outside

    @property
    def home(self) -> str | None:
        """The directory in which it nearly always worked."""
        places = self.known_places
        place = most_common(places) if places else None
        return place if place is not None and places[place] >= HOME_SHARE * places.total() else None

    @property
    def homes(self) -> list[str]:
        """The directory in which it nearly always worked; of a project with several modules, the two or three."""
        home, places = self.home, self.known_places
        if home is not None or places[""]:
            return [] if home is None else [home]
        often = sorted(places, key=lambda place: (-places[place], place))[:MAX_FOLDERS]
        is_most = sum(places[place] for place in often) >= HOME_SHARE * places.total()
        return sorted(often) if is_most else []

    def where(self, project: str | None) -> str:
        """Return the directories in words, where they are not the project's own."""
        homes = self.homes
        return f" in {name_folders([_seen_from(home, project) for home in homes])}" if any(homes) else ""

    def has_place(self, project: str | None) -> bool:
        """Whether it can be told where it works: a script in one folder; outside the project in one with a name."""
        if self.known_places and not self.known_places[""] and not self.homes:
            return False  # in many folders, and never in the project's own, where it would be run
        if not self.is_script and not any(map(is_absolute, self.known_places)):
            return True
        return self.home is not None and name_harm(_seen_from(self.home, project)) is None

    @property
    def nowhere(self) -> str:
        """That it never worked in the project's own directory, where it was tried."""
        is_never = any(self.homes) and not self.places[""] and self.failed_places[""] >= MIN_FOLDER_USES
        return f", never in the project root (0 of {self.failed_places['']})" if is_never else ""

    @property
    def head(self) -> str:
        """The operation with what it needs before it: an environment, if it mostly has that."""
        head = most_common(self.heads)
        if 2 * self.heads[head] >= self.heads.total():
            return head
        heads = Counter[str]()
        for each, count in self.heads.items():
            heads[ASSIGNMENTS.sub("", each)] += count
        return most_common(heads)

    @property
    def usual_call(self) -> str:
        """The call that is often made; where calls differ the operation with what it needs before it."""
        shown = {call: roots for (_, call), roots in self.calls.items() if not LEFT_OUT.search(call)}
        needed = min(MIN_SESSIONS, len(self.worked.roots))  # what is given in one session alone is its own
        of_files = {call for head, call in self.calls if _FILE.search(call.removeprefix(head))}
        if of_files.issuperset(shown):
            of_files, needed = set(), MIN_TARGET_SESSIONS
        calls = Counter({c: len(shown[c]) for c in shown if c not in of_files and len({*shown[c]}) >= needed})
        call, total = most_common(calls) if calls else "", sum(map(len, shown.values()))
        is_only = calls[call] == total >= MIN_SESSIONS
        is_usual = is_only or calls[call] >= max(3, MIN_USUAL_SHARE * total)
        return call if is_usual and len(call) <= MAX_USUAL_CALL else self.head

    def find_pattern(self) -> tuple[str, int] | None:
        """Return the call that is often made with one other word each time, as "…", and in how many sessions.

        The other words are the lesson. None of its cases is hostile, and what varies is not told.
        """
        roots: dict[tuple[str, ...], list[str]] = defaultdict(list)
        values: dict[tuple[str, ...], set[str]] = defaultdict(set)
        hostile: set[tuple[str, ...]] = set()
        first = len(_WORD.findall(self.head))
        latest = islice(reversed(self.calls.items()), MAX_CALLS)
        for (_, call), callers in [*latest, *((("", call), []) for call in {*self.hostile})]:
            words = _WORD.findall(call) if call.startswith(f"{self.head} ") and len(call) < MAX_CALL else []
            words = words if len(words) <= MAX_WORDS else []
            for place in range(first, len(words)):
                pattern = (*words[:place], "…", *words[place + 1 :])
                roots[pattern] += callers
                values[pattern] |= {words[place]} if words[place] != "…" else {f"…{n}" for n in range(len(callers))}
                hostile |= set() if callers else {pattern}

        sessions = {pattern: len({*callers}) for pattern, callers in roots.items()}
        for pattern in sorted(roots.keys() - hostile, key=lambda pattern: (-sessions[pattern], pattern)):
            given = [(before, word) for before, word in pairwise(pattern[first - 1 :]) if word != "…"]
            # A word that no option names may be anything, as a password that a script types.
            is_plain = all(
                _PLAIN_WORD.fullmatch(word) and "-" in (before[0], word[0]) and not _PRIVATE.match(f"{before} {word}")
                for before, word in given
            )
            says = len(given) >= MIN_CONSTANTS - self.is_own and is_plain
            is_often = sessions[pattern] >= MIN_OTHER_SESSIONS and len(values[pattern]) >= MIN_VALUES
            if says and is_often and len(call := " ".join(pattern)) <= MAX_PATTERN:
                return call, sessions[pattern]
        return None


def _seen_from(place: str, project: str | None) -> str:
    """Return a folder outside the project as seen from there, if it lies beside it, below more than a home."""
    parent = (project or "").rpartition("/")[0]
    is_home = parent.rpartition("/")[2].lower() in ("home", "homes", "users")
    is_beside = parent.count("/") >= MIN_PARENT_DEPTH and not is_home and place.startswith(f"{parent}/")
    return f"../{place.removeprefix(f'{parent}/')}" if is_beside else place


def learn_commands(history: History) -> list[Lesson]:
    """Return the project's commands, and what is known about running them."""
    commands = _collect(history)
    return [
        *_purposes(commands, history.home),
        *_others(commands, history),
        *_first_runs(history),
        *_unmended(history),
        *_commit_checks(history),
        *_finds_more(history),
    ]


def _collect(history: History) -> dict[_Name, _Command]:
    commands: dict[_Name, _Command] = defaultdict(_Command)
    for session, call in history.calls():
        for segment in call.segments:
            if segment.is_trivial or segment.ok is None:
                continue
            if segment_purpose(segment) == "install" and installed_packages("bash", {"command": segment.call}):
                continue  # of one package: not how the project is installed
            elsewhere = run_elsewhere(segment)
            if elsewhere is not None and elsewhere.is_trivial:
                continue
            named = elsewhere or segment
            place = session.place_of_script(call, segment)
            if place is None:
                continue
            if elsewhere is not None:
                place = " ".join(word for word in elsewhere.prefix.split() if not word.startswith("-"))
            command = commands[named.operation, place]
            if segment.ok and segment.is_hostile:
                command.hostile.append(segment.full_call)
                continue
            command.is_judged |= not segment.piped
            command.is_script |= bool(segment.script)
            command.is_elsewhere |= elsewhere is not None
            if segment.ok:
                command.worked.add(session, call)
                _note_call(command, session, segment, named)
                command.places.update(_places(session, call, segment))
                if len(call.segments) == 1 and call.seconds is not None:
                    command.seconds.append(call.seconds)
            elif all(wrapper in TRANSPARENT_WRAPPERS or wrapper in segment.prefix for wrapper in segment.wrappers):
                command.failed += 1
                command.failed_places.update(_places(session, call, segment))
    return commands


def _note_call(command: _Command, session: TracedSession, segment: Segment, named: Segment) -> None:
    """Note how an operation was called; a script of the project by where it is there."""
    own = f"{session.base}/" if segment.script and session.base else "\n"
    head = (named.bare_call or "").replace(own, "")
    command.heads.update([head] if head else [])
    command.calls[head, segment.full_call.replace(own, "")].append(session.root)


def _places(session: TracedSession, call: TracedCall, segment: Segment) -> list[str]:
    """Return where a segment ran; nothing where that did not matter, or is not certain."""
    if segment.script and session.base and f" {session.base}/" in segment.script:
        return [""]  # from where it is told
    is_told = _FOLDER_OPTIONS.intersection(segment.options) or any(map(is_absolute, segment.paths))
    place = None if is_told or changes_folder(call.line) else session.relative(call.directory)
    return [place] if place is not None and (is_inside(place) or is_absolute(place)) else []


def _purposes(commands: dict[_Name, _Command], project: str | None) -> Iterator[Lesson]:
    """Yield for each purpose the operation that worked in most sessions, and the next ones."""
    by_purpose: dict[str, list[_Name]] = defaultdict(list)
    for name, command in commands.items():
        purpose = purpose_of(name[0])
        if purpose in _TITLES and command.worked.roots and command.heads and command.has_place(project):
            by_purpose[purpose].append(name)
    for purpose, names in sorted(by_purpose.items()):
        best, *others = sorted(names, key=lambda name: (-len(commands[name].worked.roots), name))
        command = commands[best]
        sessions = len(command.worked.roots)
        if sessions < MIN_SESSIONS and not command.is_steady:
            continue
        often = [name for name in others if len(commands[name].worked.roots) >= max(MIN_SESSIONS, sessions // 5)]
        also = "".join(
            f"; also {code(commands[name].usual_call)}{commands[name].where(project)}{commands[name].figures()}"
            for name in often[:2]
        )
        seconds = round(statistics.median(command.seconds), 1) if command.seconds else None
        lasting = f"some {round(seconds)} s" if seconds is not None and seconds >= MIN_SHOWN_SECONDS else ""
        once = "in 1 session" if sessions < MIN_SESSIONS else ""
        call, homes = command.usual_call, command.homes
        yield command.worked.build_lesson(
            "command",
            purpose,
            f"{_TITLES[purpose]}: {code(call)}{command.where(project)}{command.figures(lasting, once)}{command.nowhere}"
            f"{also}.",
            1.5 * sessions,
            failures=command.failed,
            successes=len(command.worked),
            instead=call,
            purpose=purpose,
            match={
                "operation": best[0],
                **({"homes": homes} if homes and len(command.worked) >= MIN_HOME_USES else {}),
            },
            directory=command.home if is_inside(command.home) else None,
            seconds=seconds,
        )


def _others(commands: dict[_Name, _Command], history: History) -> Iterator[Lesson]:
    """Yield what is run for no such purpose in many sessions, if the call says more than a known program's name."""
    sessions = len({session.root for session, call in history.calls() if call.kind == "shell"})
    often: dict[str, tuple[int, _Command]] = {}  # by call, in how many sessions
    for (operation, _), command in commands.items():
        program = program_name(operation.split(" ", 1)[0])
        needed = max(MIN_OTHER_SESSIONS, (MIN_OWN_SHARE if command.is_own else MIN_OTHER_SHARE) * sessions)
        is_usual = purpose_of(operation) is None and len(command.worked.roots) >= needed and command.heads
        if not is_usual or (program in _NO_OTHERS and not command.is_own) or not command.has_place(history.home):
            continue
        call, count = command.head if command.is_script else command.usual_call, len(command.worked.roots)
        if call == command.head and (program not in NO_TASKS or command.is_own):
            call, count = command.find_pattern() or (call, count)
        is_told = " " in call and (call != operation or program not in NO_TASKS)
        if is_told and not _ONLY_ASKS.search(call) and lesson_harm(code(call), call, history.home) is None:
            often[call] = count, command  # one that may not be told hides no other
    if often:
        calls = sorted(often, key=lambda call: (-often[call][0], call))[:MAX_OTHERS]
        shown = (f"{code(call)}{often[call][1].where(history.home)} ({often[call][0]} sessions)" for call in calls)
        cases = Cases([case for call in calls for case in often[call][1].worked.members])
        yield cases.build_lesson(
            "command",
            OTHERS,
            f"Often run here, too: {', '.join(shown)}.",
            1.0 * often[calls[0]][0],
            successes=len(cases),
        )


def _first_runs(history: History) -> Iterator[Lesson]:
    """Yield the checks whose first run of a session mostly fails, with the command that mends it."""
    runs: dict[str, set[str]] = defaultdict(set)  # operation -> roots that ran it
    failed: dict[str, Cases] = defaultdict(Cases)  # at the first run
    mended: dict[str, Counter[str]] = defaultdict(Counter)
    for session in history.sessions:
        for position, call in enumerate(session.calls):
            for segment in call.segments:
                is_check = segment_purpose(segment) in (*_CHECKS, "build")
                if not is_check or segment.ok is None or (segment.ok is False and history.did_not_run(call)):
                    continue
                if session.root in runs[segment.operation]:
                    continue
                runs[segment.operation].add(session.root)
                if segment.ok is False:
                    failed[segment.operation].add(session, call)
                    formatter = _next_formatter(history, session, position)
                    if formatter is not None:
                        mended[segment.operation][formatter] += 1
    for operation, cases in sorted(failed.items()):
        is_frequent = len(cases) >= max(MIN_FIRST_FAILS, MIN_FIRST_SHARE * len(runs[operation]))
        if not is_frequent or mended[operation].total() < MIN_MENDED_SHARE * len(cases):
            continue
        own = [cure for cure in mended[operation] if operation.split(" ", 1)[0] in cure.split()]  # of the same program
        cure = most_common(Counter({cure: mended[operation][cure] for cure in own}) if own else mended[operation])
        yield cases.build_lesson(
            "first_run_fails",
            operation,
            f"The first {code(operation)} of a session fails in {len(cases)} of {len(runs[operation])}; run "
            f"{code(cure)} after editing.",
            2.0 * len(cases),
            failures=len(cases),
            successes=len(runs[operation]) - len(cases),
            instead=cure,
        )


def _next_formatter(history: History, session: TracedSession, position: int) -> str | None:
    """Return the formatter that was run next, with what it needs before it, if it ever worked here."""
    for _, call in session.acting(position + 1, MENDED_WITHIN):
        for segment in call.segments:
            is_format = segment_purpose(segment) == "format" and segment.ok is not None
            if is_format and segment.operation in history.worked and not segment.is_hostile:
                return segment.bare_call
    return None


def _unmended(history: History) -> Iterator[Lesson]:
    """Yield the lint rules that still fail after the formatter ran."""
    left: dict[str, dict[str, Cases]] = defaultdict(lambda: defaultdict(Cases))  # formatter -> rule -> cases
    for session in history.sessions:
        formatter = None
        for call in session.calls:
            for segment in call.segments:
                if segment_purpose(segment) == "format" and segment.ok is not None:
                    formatter = segment.operation
            is_lint = any(segment_purpose(segment) in ("lint", "format") for segment in call.segments)
            for headline in call.headlines if is_lint and formatter is not None and call.ok is False else ():
                if formatter is not None and is_lint_rule(headline.key):
                    left[formatter][headline.key].add(session, call)
    for formatter, rules in sorted(left.items()):
        stubborn = [rule for rule in rules if len(rules[rule].roots) >= MIN_SESSIONS and name_harm(rule) is None]
        stubborn.sort(key=lambda rule: (-len(rules[rule].roots), rule))
        if stubborn:
            names = ", ".join(code(rule.rsplit("/", 1)[-1]) for rule in stubborn[:4])
            cases = Cases([case for rule in stubborn for case in rules[rule].members])
            yield cases.build_lesson(
                "first_run_fails",
                f"{formatter} leaves",
                f"{code(formatter)} leaves the lint errors {names}: fix them by hand.",
                2.0 * len(cases.roots),
                failures=len(cases),
                match={"rules": stubborn},
            )


def _commit_checks(history: History) -> Iterator[Lesson]:
    """Yield what a commit runs, by what its output shows in several sessions."""
    echoes: dict[str, Counter[str]] = defaultdict(Counter)  # what a task runner prints -> the operation that printed it
    for _, call in history.calls():
        operation = next((segment.operation for segment in call.segments if not segment.is_trivial), None)
        if call.echoed and operation is not None:
            echoes[call.echoed][operation] += 1
    roots: dict[str, set[str]] = {}  # by check, in the order in which they were seen
    cases = Cases()
    outcomes: Counter[bool] = Counter()
    for session, call in history.calls():
        commit = next((segment for segment in call.segments if segment.operation == "git commit"), None)
        if commit is None or call.ok is None:
            continue
        outcomes[commit.ok is not False] += 1
        if call.checks:
            cases.add(session, call)
        for check in call.checks:
            name = most_common(echoes[check]) if echoes[check] else check
            if _is_check(history, name):
                roots.setdefault(name, set()).add(session.root)
    checks = sorted((name for name in roots if len(roots[name]) >= MIN_SESSIONS), key=lambda name: -len(roots[name]))
    if checks:
        yield cases.build_lesson(
            "commit_check",
            "git commit",
            f"The commit hook runs {', '.join(map(code, checks[:4]))} ({outcomes[False]} of {outcomes.total()} "
            "refused).",
            1.5 * len(roots[checks[0]]),
            failures=outcomes[False],
            successes=outcomes[True],
        )


def _is_check(history: History, name: str) -> bool:
    """Whether what a commit's output names is known to be a check: a program that worked here, a tool, or a hook."""
    program, *words = name.split() or [""]
    if words and words[-1] in ("file", "files"):
        return False  # what a check is run on
    is_hook = len(words) < MAX_HOOK_WORDS and not any(word.startswith("-") for word in words)
    return is_hook or program in history.worked or program in KNOWN_TOOLS


def _finds_more(history: History) -> Iterator[Lesson]:
    """Yield the checks that failed though others had passed and nothing was edited in between."""
    passed_before: dict[str, Counter[str]] = defaultdict(Counter)  # check -> what had passed
    cases: dict[str, Cases] = defaultdict(Cases)
    tests: Counter[str] = Counter()
    for _, call in history.calls():
        tests.update(
            segment.operation for segment in call.segments if segment.ok and segment_purpose(segment) == "test"
        )
    main_test = most_common(tests) if tests else None
    for session in history.sessions:
        passed: dict[str, str] = {}  # operation -> purpose
        for call in session.calls:
            if call.kind == "edit":
                passed.clear()
            for segment in call.segments:
                purpose, operation = segment_purpose(segment), segment.operation
                if segment.ok and purpose in ("lint", "test", "typecheck"):
                    passed[operation] = purpose
                # A type check is held against all others, a test against other tests alone; chosen tests are in work.
                others = {name for name in passed if name != operation and purpose in ("typecheck", passed[name])}
                finds = purpose == "typecheck" or (purpose == "test" and operation != main_test and not segment.options)
                if segment.ok is False and finds and others and not history.did_not_run(call):
                    passed_before[operation].update(others)
                    cases[operation].add(session, call)
    for operation, cases_of in sorted(cases.items()):
        if len(cases_of.roots) < MIN_SESSIONS or operation not in history.worked:
            continue
        names = sorted(passed_before[operation], key=lambda name: (-passed_before[operation][name], name))[:2]
        passing = f"{' and '.join(map(code, names))} {'do' if names[1:] else 'does'}"
        yield cases_of.build_lesson(
            "finds_more",
            operation,
            f"{passing} not catch what {code(operation)} finds ({len(cases_of.roots)} sessions): run it, too.",
            2.5 * len(cases_of.roots),
            failures=len(cases_of),
            instead=operation,
        )
