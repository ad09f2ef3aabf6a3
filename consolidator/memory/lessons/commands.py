"""Learns how a project's commands are run: for each purpose the call that works, what fails at its first run, what a
commit runs, and what one check finds that another does not."""

from __future__ import annotations

import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator

from consolidator.memory.calls.harm_rules import KNOWN_TOOLS
from consolidator.memory.calls.shell_programs import CONDITION_PROGRAMS, MINOR_PROGRAMS, PLAIN_PROGRAMS
from consolidator.memory.calls.shell_words import program_name
from consolidator.memory.lessons.command_counts import MIN_SESSIONS, CountedCommand, Name, count_commands
from consolidator.memory.lessons.harm import lesson_harm, name_harm
from consolidator.memory.lessons.history import (
    Cases,
    History,
    TracedSession,
    code,
    is_inside,
    most_common,
    segment_purpose,
)
from consolidator.memory.lessons.lesson import LEAVES, OTHERS, Lesson
from consolidator.memory.lessons.segments import FORMAT_CHECK, NO_TASKS, purpose_of
from consolidator.memory.lessons.trace import TracedCall

MIN_FINDING_SESSIONS, MAX_RULES, MAX_RULES_TOLD = 3, 100, 4
_FINDS_RULES = ("check", "lint", "format", FORMAT_CHECK, "typecheck", "build")
MIN_FIRST_FAILS, MIN_MENDED_SHARE = 3, 0.2
MIN_FIRST_SHARE = 0.3  # of the sessions that run a check: in which its first run fails, or it finds one of its rules
MIN_HOME_USES = 5
_CHECKS = ("check", "lint", "test", "typecheck", FORMAT_CHECK)  # what fails of them is mostly what they find
_OF_TASKS = ("generate", "migrate", "run")  # what such names mean, one session does not tell
MIN_SHOWN_SECONDS = 20
MENDED_WITHIN = 4  # acting calls
MIN_OTHER_SESSIONS, MIN_OTHER_SHARE, MAX_OTHERS = 3, 0.2, 4  # calls for no such purpose, and of all sessions
MIN_OWN_SHARE = 0.1  # of all sessions, for a script or what runs elsewhere: that is nobody's habit
_NO_OTHERS = PLAIN_PROGRAMS | MINOR_PROGRAMS | CONDITION_PROGRAMS | {"git"}  # as every project runs them
_ONLY_ASKS = re.compile(r" (?:-h|-V|--?help|--?version|(?:auth )?status|version|list|--list)$")
MIN_BEFORE_COMMITS, MIN_SHARE_BEFORE_COMMITS = 3, 0.6  # sessions with a check, and of those that commit
MAX_HOOK_WORDS = 4  # of a hook's name
_TITLES = {"check": "All checks", "test": "Tests", "typecheck": "Type check"}  # others are as the purpose is called


def learn_commands(history: History) -> list[Lesson]:
    """Return the project's commands, and what is known about running them."""
    commands = count_commands(history)
    by_hook = list(_commit_checks(history))
    return [
        *_purposes(commands, history.home),
        *_others(commands, history),
        *_first_runs(history),
        *_findings(history),
        *by_hook,
        *_checks_before_commits(commands, history, "".join(lesson.line for lesson in by_hook)),
        *_finds_more(history),
    ]


def _purposes(commands: dict[Name, CountedCommand], project: str | None) -> Iterator[Lesson]:
    """Yield for each purpose the operation that worked in most sessions, and the next ones."""
    by_purpose: dict[str, list[Name]] = defaultdict(list)
    for name, command in commands.items():
        purpose = purpose_of(name[0])
        if purpose is not None and command.worked.roots and command.heads and command.has_place(project):
            by_purpose[purpose].append(name)
    for purpose, names in sorted(by_purpose.items()):
        roots = {name: len(commands[name].worked.roots) for name in names}
        # What can be run as it is told comes before what lacks what it is given.
        best, *others = sorted(
            names, key=lambda name: (-roots[name] / (1 + commands[name].is_bare), -commands[name].share, name)
        )
        command = commands[best]
        sessions = roots[best]
        is_own = command.is_steady and is_inside(command.home or "")
        if sessions < MIN_SESSIONS and (purpose in _OF_TASKS or not is_own):
            continue
        often = [name for name in others if roots[name] >= max(MIN_SESSIONS, sessions // 5)]
        also = "".join(
            f"; also {code(commands[name].shown_call)}{commands[name].where(project)}{commands[name].figures()}"
            for name in often[:2]
        )
        if purpose == "test" and (part := command.find_part()):
            also = f"; a part: {code(part)}{also}"
        seconds = round(statistics.median(command.seconds), 1) if command.seconds else None
        lasting = f"some {round(seconds)} s" if seconds is not None and seconds >= MIN_SHOWN_SECONDS else ""
        once = "in 1 session" if sessions < MIN_SESSIONS else ""
        homes, title = command.homes, _TITLES.get(purpose, purpose.capitalize())
        yield command.worked.build_lesson(
            "command",
            purpose,
            f"{title}: {code(command.shown_call)}{command.where(project)}{command.figures(lasting, once)}{also}.",
            1.5 * sessions,
            failures=command.failed,
            successes=len(command.worked),
            instead=command.usual_call,
            purpose=purpose,
            match={
                "operation": best[0],
                **({"homes": homes} if homes and len(command.worked) >= MIN_HOME_USES else {}),
            },
            directory=command.home if is_inside(command.home) else None,
            seconds=seconds,
        )


def _others(commands: dict[Name, CountedCommand], history: History) -> Iterator[Lesson]:
    """Yield what is run for no such purpose in many sessions, if the call says more than a known program's name."""
    sessions = len({session.root for session, call in history.calls() if call.kind == "shell"})
    often: dict[str, tuple[int, CountedCommand]] = {}  # by call, in how many sessions
    for (operation, _), command in commands.items():
        program = program_name(operation.split(" ", 1)[0])
        needed = max(MIN_OTHER_SESSIONS, (MIN_OWN_SHARE if command.is_own else MIN_OTHER_SHARE) * sessions)
        is_usual = purpose_of(operation) is None and len(command.worked.roots) >= needed and command.heads
        says_more = command.is_own or " -" in operation  # than its program's name: a script, an option to look alone
        if not is_usual or (program in _NO_OTHERS and not says_more) or not command.has_place(history.home):
            continue
        call, count = command.head if command.is_script else command.usual_call, len(command.worked.roots)
        if call == command.head and (program not in NO_TASKS or says_more):
            call, count = command.find_pattern() or (call, count)
        elif call != command.head:
            count = len({root for (_, each), roots in command.calls.items() if each == call for root in roots})
        is_told = " " in call and (call != operation or program not in NO_TASKS or says_more)
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
        cure = most_common(mended[operation])
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


def _findings(history: History) -> Iterator[Lesson]:
    """Yield the rules that checks find until code keeps them, and those that a command that fixes others leaves."""
    left: dict[str, dict[str, Cases]] = defaultdict(lambda: defaultdict(Cases))  # formatter -> rule -> cases
    found: dict[str, Cases] = defaultdict(Cases)
    checks: dict[str, Counter[str]] = defaultdict(Counter)  # rule -> what found it
    runs: dict[str, set[str]] = defaultdict(set)  # check -> roots that ran it
    for session in history.sessions:
        formatter = None
        first: dict[tuple[str, str], TracedCall] = {}  # by check and rule
        last: dict[str, TracedCall] = {}
        for call in session.calls:
            ran = {each.operation: segment_purpose(each) for each in call.segments if each.ok is not None}
            formatter = next((name for name in ran if ran[name] == "format" and "fix" in name), formatter)
            finding = [name for name in ran if ran[name] in _FINDS_RULES or name == "git commit"]
            if not finding or any(each.is_hostile for each in call.segments):
                continue
            failed = {each.operation for each in call.segments if each.ok is False}
            check = max(finding, key=lambda name: (name in failed, ran[name] != "format"))
            last[check] = call
            runs[check].add(session.root)
            for rule in call.rules:
                first.setdefault((check, rule), call)
                if formatter is not None and call.ok is False and ran[check] in ("lint", "format"):
                    left[formatter][rule].add(session, call)
        for (check, rule), call in first.items():
            if rule not in last[check].rules:  # else it stands in code that nobody was to change
                found[rule].add(session, call)
                checks[rule][check] += 1

    stubborn: set[str] = set()
    for formatter, rules in sorted(left.items()):
        if names := _frequent(rules):
            stubborn.update(names)
            shown = _name_rules(names)
            line = f"{code(formatter)} leaves the lint errors {', '.join(shown)}: fix them by hand."
            yield _finding(f"{formatter}{LEAVES}", line, rules, names, 2.0)
    by_check: dict[str, dict[str, Cases]] = defaultdict(dict)
    for rule in found.keys() - stubborn:
        by_check[most_common(checks[rule])][rule] = found[rule]
    for check, rules in sorted(by_check.items()):
        names = _frequent(rules)
        sessions = {root for name in names for root in rules[name].roots}
        if len(sessions) >= max(MIN_FINDING_SESSIONS, MIN_FIRST_SHARE * len(runs[check])):
            counts = [f"{len(rules[name].roots)}{' sessions' * (name == names[0])}" for name in names]
            shown = [f"{name} ({count})" for name, count in zip(_name_rules(names), counts, strict=False)]
            line = f"{code(check)} often finds {', '.join(shown)}."
            yield _finding(f"{check} finds", line, rules, names, 1.0)


def _frequent(rules: dict[str, Cases]) -> list[str]:
    """Return the rules that several sessions met, the most frequent first."""
    counts = {rule: len(cases.roots) for rule, cases in rules.items()}
    often = sorted((-count, rule) for rule, count in counts.items() if count >= MIN_SESSIONS)[:MAX_RULES]
    return [rule for _, rule in often if name_harm(rule) is None]


def _name_rules(names: list[str]) -> list[str]:
    return [code(name.rsplit("/", 1)[-1]) for name in names[:MAX_RULES_TOLD]]


def _finding(key: str, line: str, rules: dict[str, Cases], names: list[str], weight: float) -> Lesson:
    cases = Cases([case for name in names for case in rules[name].members])
    score = weight * len(cases.roots)
    return cases.build_lesson("first_run_fails", key, line, score, failures=len(cases), match={"rules": names})


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


def _checks_before_commits(commands: dict[Name, CountedCommand], history: History, by_hook: str) -> Iterator[Lesson]:
    """Yield the checks that most sessions run before they commit, in their order; without those that a hook runs."""
    committing: set[str] = set()
    places: dict[str, list[int]] = defaultdict(list)
    cases: dict[str, Cases] = defaultdict(Cases)
    for session in history.sessions:
        ran: dict[str, TracedCall] = {}  # since the last commit, by operation, the latest last
        for call in session.calls:
            for segment in call.segments:
                if segment.ok and segment_purpose(segment) in (*_CHECKS, "format", "build"):
                    ran.pop(segment.operation, None)
                    ran[segment.operation] = call
                elif segment.ok and segment.operation == "git commit":
                    committing.add(session.root)
                    for place, (operation, check) in enumerate(ran.items()):
                        places[operation].append(place)
                        cases[operation].add(session, check)
                    ran = {}

    needed = max(MIN_BEFORE_COMMITS, MIN_SHARE_BEFORE_COMMITS * len(committing))
    usual = [
        operation for operation in cases if len(cases[operation].roots) >= needed and code(operation) not in by_hook
    ]
    usual = [
        operation for operation in usual if (each := commands.get((operation, ""))) and each.heads and each.is_whole
    ]
    usual.sort(key=lambda operation: (statistics.mean(places[operation]), operation))
    checks = [operation for operation in usual if purpose_of(operation) != "build"]
    if checks and len(usual) > 1:
        calls = [commands[operation, ""].usual_call for operation in usual]
        least = min(len(cases[operation].roots) for operation in usual)
        yield Cases([case for operation in usual for case in cases[operation].members]).build_lesson(
            "follow_up",
            checks[-1],
            f"Before a commit: {', '.join(map(code, calls))} (each in {least} or more of {len(committing)} sessions).",
            2.0 * least,
            sessions=least,
            match={"checks": calls},
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
