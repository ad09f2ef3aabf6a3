"""Learns how a project's commands are run: for each purpose the call that works, what runs first fails, what a commit runs."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from consolidator.memory.lessons.headlines import STRONG
from consolidator.memory.lessons.history import History, TracedSession, code, folder, segment_purpose
from consolidator.memory.lessons.lesson import Lesson
from consolidator.memory.lessons.segments import Segment
from consolidator.memory.lessons.trace import TracedCall

MIN_SESSIONS = 2  # of a command that is told, and of a commit's checks
MIN_FIRST_FAILS, MIN_FIRST_SHARE, MIN_FOLLOWED = 3, 0.3, 0.2
MIN_HOME_USES, HOME_SHARE = 5, 0.9
MAX_EVIDENCE = 5
_TITLES = {
    "test": "Tests",
    "lint": "Lint",
    "format": "Format",
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
    worked: int = 0
    failed: int = 0
    roots: set[str] = field(default_factory=set)  # sessions in which it worked
    calls: Counter[str] = field(default_factory=Counter)
    places: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    agents: set[str] = field(default_factory=set)
    evidence: list[tuple[str, str, int]] = field(default_factory=list)
    lost: list[tuple[TracedSession, TracedCall, str]] = field(default_factory=list)  # failed as something is not there


def learn_commands(history: History) -> list[Lesson]:
    """Return the project's commands, and what is known about running them."""
    commands = _collect(history)
    return [
        *_purposes(commands),
        *_homes(commands),
        *_first_runs(history),
        *_commit_checks(history),
        *_finds_more(history),
    ]


def _collect(history: History) -> dict[str, _Command]:
    commands: dict[str, _Command] = defaultdict(_Command)
    for session, call in history.calls():
        for segment in call.segments:
            if segment.is_trivial or segment.ok is None:
                continue
            command = commands[segment.operation]
            place = session.relative(call.directory)
            if segment.ok:
                command.worked += 1
                command.roots.add(session.root)
                command.agents.add(session.agent)
                command.calls[segment.call] += 1
                command.evidence.append((call.at, session.session_id, call.seq))
                if place is not None:
                    command.places[place] += 1
                if len(call.segments) == 1 and call.seconds is not None:
                    command.seconds.append(call.seconds)
            elif not (segment.wrappers and any(w not in ("time", "timeout", "env") for w in segment.wrappers)):
                command.failed += 1
                reason = next((h.text for h in history.reasons(call) if STRONG.search(h.text)), None)
                if reason is not None:
                    command.lost.append((session, call, reason))
    return commands


def _purposes(commands: dict[str, _Command]) -> Iterator[Lesson]:
    """Yield for each purpose the operation that worked in most sessions, and the next one."""
    by_purpose: dict[str, list[str]] = defaultdict(list)
    for operation, command in commands.items():
        purpose = segment_purpose(Segment(operation.split(" ", 1)[0], operation, operation))
        if purpose is not None and len(command.roots) >= MIN_SESSIONS:
            by_purpose[purpose].append(operation)
    for purpose in sorted(by_purpose):
        ranked = sorted(by_purpose[purpose], key=lambda operation: (-len(commands[operation].roots), operation))
        best, *others = ranked
        command = commands[best]
        call = _usual_call(best, command)
        place = _usual_place(command)
        where = f" in {folder(place)}" if place else ""
        also = [name for name in others if len(commands[name].roots) >= max(MIN_SESSIONS, len(command.roots) // 5)][:2]
        more = "".join(f"; also {code(_usual_call(name, commands[name]))} ({_counts(commands[name])})" for name in also)
        seconds = round(statistics.median(command.seconds), 1) if command.seconds else None
        lasting = f", some {round(seconds)} s" if seconds is not None and seconds >= 20 else ""
        yield Lesson(
            kind="command",
            key=purpose,
            line=f"{_TITLES[purpose]}: {code(call)}{where} ({_counts(command)}{lasting}){more}.",
            score=1.5 * len(command.roots),
            sessions=len(command.roots),
            failures=command.failed,
            successes=command.worked,
            instead=call,
            purpose=purpose,
            match={"operation": best, "home": place} if place is not None and command.worked >= MIN_HOME_USES else {},
            directory=place,
            seconds=seconds,
            **_provenance(command),
        )


def _homes(commands: dict[str, _Command]) -> Iterator[Lesson]:
    """Yield the operations that work in one folder alone, where they were tried elsewhere."""
    for operation, command in sorted(commands.items()):
        if command.worked < MIN_HOME_USES or not command.places:
            continue
        home, count = min(command.places.items(), key=lambda item: (-item[1], item[0]))
        lost = [(s, c, r) for s, c, r in command.lost if s.relative(c.directory) not in (home, None)]
        if count < HOME_SHARE * command.places.total() or not lost:
            continue
        places = sorted({s.relative(c.directory) or "" for s, c, _ in lost})
        failed = f"in {', '.join(map(folder, places[:2]))} it failed ({_short(lost[-1][2])})"
        yield Lesson(
            kind="command",
            key=f"folder of {operation}",
            line=f"{code(operation)} works in {folder(home)}; {failed}: the shell keeps its directory between calls.",
            score=1.5 * len(lost) + 2,
            sessions=len({s.root for s, _, _ in lost}),
            failures=len(lost),
            successes=command.worked,
            instead=operation,
            match={"operation": operation, "home": home},
            directory=home,
            **_provenance(command),
        )


def _first_runs(history: History) -> Iterator[Lesson]:
    """Yield the checks whose first run of a session mostly fails, with the command that mends it."""
    firsts: dict[str, dict[str, bool]] = defaultdict(dict)  # operation -> root -> whether the first run worked
    followed: dict[str, Counter[str]] = defaultdict(Counter)
    followed_roots: dict[str, set[str]] = defaultdict(set)
    failures: dict[str, list[tuple[str, str, int, str]]] = defaultdict(list)
    leaves: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for session in history.sessions:
        fixed_by: dict[str, str] = {}  # purpose "lint" -> the formatter that ran before
        for position, call in enumerate(session.calls):
            for segment in call.segments:
                if segment_purpose(segment) == "format" and segment.ok is not None:
                    fixed_by["lint"] = segment.operation
                if segment_purpose(segment) not in ("lint", "test", "typecheck", "build") or segment.ok is None:
                    continue
                if segment.wrappers and segment.ok is False and not call.headlines:
                    continue
                operation = segment.operation
                if segment.ok is False and any(STRONG.search(h.text) for h in history.reasons(call)[:1]):
                    continue  # it did not run
                if session.root not in firsts[operation]:
                    firsts[operation][session.root] = segment.ok
                    if not segment.ok:
                        failures[operation].append((call.at, session.session_id, call.seq, session.agent))
                if not segment.ok:
                    mending = _next_formatter(session, position)
                    if mending is not None:
                        followed[operation][mending] += 1
                        followed_roots[operation].add(session.root)
                    if "lint" in fixed_by and segment_purpose(segment) == "lint":
                        for headline in call.headlines:
                            if _is_rule(headline.key):
                                leaves[fixed_by["lint"]][headline.key].add(session.root)
            if call.kind == "shell" and call.ok is False:
                formatter = next((s for s in call.segments if segment_purpose(s) == "format"), None)
                if formatter is not None:
                    for headline in call.headlines:
                        if _is_rule(headline.key):
                            leaves[formatter.operation][headline.key].add(session.root)
    for operation, runs in sorted(firsts.items()):
        failed = [root for root, ok in runs.items() if not ok]
        if len(failed) < MIN_FIRST_FAILS or len(failed) < MIN_FIRST_SHARE * len(runs):
            continue
        if len(followed_roots[operation]) < MIN_FOLLOWED * len(failed):
            continue
        cure = min(followed[operation], key=lambda name: (-followed[operation][name], name))
        latest = sorted(failures[operation], reverse=True)
        yield Lesson(
            kind="first_run_fails",
            key=operation,
            line=(
                f"The first {code(operation)} of a session fails in {len(failed)} of {len(runs)}: run {code(cure)} "
                f"after editing, which mends formatting and the like."
            ),
            score=2.0 * len(failed),
            sessions=len(failed),
            failures=len(failed),
            successes=len(runs) - len(failed),
            instead=cure,
            match={"operation": operation},
            last_at=latest[0][0],
            agents=tuple(sorted({entry[3] for entry in latest})),
            evidence=tuple((entry[1], entry[2]) for entry in latest[:MAX_EVIDENCE]),
        )
    for formatter, rules in sorted(leaves.items()):
        stubborn = sorted(
            (rule for rule in rules if len(rules[rule]) >= MIN_SESSIONS), key=lambda r: (-len(rules[r]), r)
        )
        if stubborn:
            names = ", ".join(code(_rule_name(rule)) for rule in stubborn[:4])
            roots = set().union(*(rules[rule] for rule in stubborn))
            yield Lesson(
                kind="first_run_fails",
                key=f"{formatter} leaves",
                line=f"{code(formatter)} does not mend {names}: these lint errors are fixed by hand.",
                score=2.0 * len(roots),
                sessions=len(roots),
                match={},
            )


def _is_rule(key: str) -> bool:
    return "/" in key and " " not in key


def _rule_name(rule: str) -> str:
    return rule.rsplit("/", 1)[-1]


def _next_formatter(session: TracedSession, position: int) -> str | None:
    for _, call in session.acting(position + 1, 4):
        for segment in call.segments:
            if segment_purpose(segment) == "format" and segment.ok is not None:
                return segment.operation
    return None


def _commit_checks(history: History) -> Iterator[Lesson]:
    """Yield what a commit runs, by what its output shows in several sessions."""
    echoes: dict[str, Counter[str]] = defaultdict(Counter)  # what a task runner prints -> the operation that printed it
    for _, call in history.calls():
        if call.echoed:
            runner = next((s for s in call.segments if not s.is_trivial), None)
            if runner is not None:
                echoes[call.echoed][runner.operation] += 1
    roots: dict[str, set[str]] = defaultdict(set)
    order: dict[str, int] = {}
    refused = commits = 0
    evidence: list[tuple[str, str, int, str]] = []
    for session, call in history.calls():
        commit = next((s for s in call.segments if s.operation == "git commit"), None)
        if commit is None or call.ok is None:
            continue
        commits += 1
        refused += commit.ok is False
        if call.checks:
            evidence.append((call.at, session.session_id, call.seq, session.agent))
        for check in call.checks:
            name = echoes[check].most_common(1)[0][0] if echoes.get(check) else check
            order.setdefault(name, len(order))
            roots[name].add(session.root)
    names = sorted(
        (name for name in roots if len(roots[name]) >= MIN_SESSIONS), key=lambda name: (-len(roots[name]), order[name])
    )
    if not names:
        return
    latest = sorted(evidence, reverse=True)
    checks = ", ".join(code(name) for name in names[:4])
    yield Lesson(
        kind="commit_check",
        key="git commit",
        line=f"A commit runs {checks} first, in a hook ({refused} of {commits} commits were refused): run them before it.",
        score=1.5 * max(len(roots[name]) for name in names),
        sessions=len(set().union(*(roots[name] for name in names))),
        failures=refused,
        successes=commits - refused,
        match={},
        last_at=latest[0][0],
        agents=tuple(sorted({entry[3] for entry in latest})),
        evidence=tuple((entry[1], entry[2]) for entry in latest[:MAX_EVIDENCE]),
    )


def _finds_more(history: History) -> Iterator[Lesson]:
    """Yield the checks that failed though others had passed and nothing was edited in between."""
    cases: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))  # check -> what passed -> roots
    evidence: dict[str, list[tuple[str, str, int, str]]] = defaultdict(list)
    main_test = _main_test(history)
    for session in history.sessions:
        passed: set[str] = set()
        for call in session.calls:
            if call.kind == "edit":
                passed.clear()
            for segment in call.segments:
                purpose = segment_purpose(segment)
                if purpose in ("lint", "test", "typecheck") and segment.ok:
                    passed.add(segment.operation)
                    continue
                may_find = purpose == "typecheck" or (purpose == "test" and segment.operation != main_test)
                if (
                    segment.ok is False
                    and may_find
                    and not any(STRONG.search(h.text) for h in history.reasons(call)[:1])
                ):
                    for other in passed - {segment.operation}:
                        cases[segment.operation][other].add(session.root)
                    if passed - {segment.operation}:
                        evidence[segment.operation].append((call.at, session.session_id, call.seq, session.agent))
    for operation, others in sorted(cases.items()):
        roots = set().union(*others.values())
        if len(roots) < MIN_SESSIONS:
            continue
        names = sorted(others, key=lambda name: (-len(others[name]), name))[:2]
        latest = sorted(evidence[operation], reverse=True)
        yield Lesson(
            kind="finds_more",
            key=operation,
            line=(
                f"{code(operation)} fails though {' and '.join(map(code, names))} passed ({len(roots)} sessions): they do not "
                "find what it finds; run it too."
            ),
            score=2.5 * len(roots),
            sessions=len(roots),
            failures=len(latest),
            instead=operation,
            match={},
            last_at=latest[0][0],
            agents=tuple(sorted({entry[3] for entry in latest})),
            evidence=tuple((entry[1], entry[2]) for entry in latest[:MAX_EVIDENCE]),
        )


def _main_test(history: History) -> str | None:
    counts: Counter[str] = Counter()
    for _, call in history.calls():
        counts.update(s.operation for s in call.segments if s.ok and segment_purpose(s) == "test")
    return min(counts, key=lambda name: (-counts[name], name)) if counts else None


def _usual_call(operation: str, command: _Command) -> str:
    """Return the call of an operation that is nearly always the same; else the operation alone."""
    if not command.calls:
        return operation
    call, count = min(command.calls.items(), key=lambda item: (-item[1], item[0]))
    return call if count >= 0.5 * command.calls.total() and len(call) <= 60 else operation


def _usual_place(command: _Command) -> str | None:
    if not command.places:
        return None
    place, count = min(command.places.items(), key=lambda item: (-item[1], item[0]))
    return place if count >= HOME_SHARE * command.places.total() else None


def _counts(command: _Command) -> str:
    return f"worked {command.worked} of {command.worked + command.failed}"


def _provenance(command: _Command) -> dict[str, object]:
    latest = sorted(command.evidence, reverse=True)
    return {
        "last_at": latest[0][0] if latest else "",
        "agents": tuple(sorted(command.agents)),
        "evidence": tuple((session, seq) for _, session, seq in latest[:MAX_EVIDENCE]),
    }


def _short(reason: str) -> str:
    reason = reason.removeprefix("error: ")
    return reason if len(reason) <= 60 else reason[:59] + "…"
