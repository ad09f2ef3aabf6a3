"""Count how often later sessions bear out the lines of a session's start.

    python -m benchmarks.quality.borne_out FOLDER [FOLDER ...] [--train SHARE] [--workers N] [--show]

Of each folder, which is one project, the first sessions in time are learned from by the folds and rules of the nights,
and each line for a start is held against the others: where its situation came, did it hold? A line of which half of
these sessions or more show that it holds is borne out, else contradicted; if its situation never came, it was not met.
A session's sub-agents count with it. No agent heard any of it. Of what no log can contradict, such as that a shell
refuses what nobody tried, a line is borne out or not met. What is printed is redacted.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from itertools import count
from pathlib import Path

from benchmarks.harness.report import Report
from benchmarks.quality.product_runs import print_report
from benchmarks.quality.replayed_sessions import find_format
from consolidator.formats.base import ForeignEvent, ForeignSession
from consolidator.llm.redaction.redact import redact
from consolidator.memory.calls.installation import installed_packages
from consolidator.memory.lessons.always_failing import MATCH_NAMES, keys_of
from consolidator.memory.lessons.commits import read_subject
from consolidator.memory.lessons.files import find_tests, wildcard
from consolidator.memory.lessons.harness import find_refusals
from consolidator.memory.lessons.history import History, TracedSession, is_inside, segment_purpose
from consolidator.memory.lessons.learning import learn_lessons
from consolidator.memory.lessons.lesson import LEAVES, OTHERS, Lesson
from consolidator.memory.lessons.measuring import neglects
from consolidator.memory.lessons.segments import Segment, purpose_of, run_elsewhere, split_line
from consolidator.memory.lessons.trace import Trace, TracedCall, TraceFold
from consolidator.memory.recall.block import KNOWN, START_NOTE, Section, lesson_item, render_block
from consolidator.models.event import Event
from consolidator.service.memory.telling.brief import START_TOKENS, choose_for_start

TRAIN_SHARE = 2 / 3  # of a project's sessions, that are learned from
MIN_HELD = 0.5  # of the sessions that met a line
_SPAN = re.compile(r"`([^`]+)`")
Judge = Callable[[TracedSession], bool | None]  # whether a line holds in a session; None where its situation never came
VERDICTS = ("borne out", "contradicted", "not met")


@dataclass(frozen=True, slots=True)
class Line:
    """What a start tells, or one of several things that a line of it tells, and the later sessions' word on it."""

    project: str
    kind: str  # a row of the table
    detail: str  # the purpose of a command, the kind of a key that always fails
    text: str
    score: float
    sessions: int  # that taught it
    is_told: bool  # in the tokens of a start; others are learned for it, and have no room
    met: int  # later sessions in which its situation came
    held: int

    @property
    def verdict(self) -> str:
        """What later sessions make of it."""
        return VERDICTS[2] if not self.met else VERDICTS[self.held < MIN_HELD * self.met]


def read_traces(folder: Path) -> list[Trace]:
    """Return the traces of a folder's sessions, those of one root together, in order of time."""
    folds: dict[str, tuple[ForeignSession, TraceFold]] = {}
    roots: dict[str, str] = {}
    began: dict[str, str] = {}  # by root
    numbers, read, session, root = count(1), datetime.now(UTC), None, ""
    log_format = find_format(folder)
    for path in log_format.files(folder):
        for item in log_format.read(path, folder):
            if isinstance(item, ForeignSession):
                session, parent = item, item.parent_origin or item.origin
                root = roots.setdefault(item.origin, roots.get(parent, parent))
                folds.setdefault(item.origin, (item, TraceFold(str)))
            elif isinstance(item, ForeignEvent) and session is not None:
                at = str(item.data.get("occurred_at") or "")
                began[root] = min(filter(None, [began.get(root), at]), default="")
                event = Event(session.origin, next(numbers), item.type, item.data, read, tool_name=item.tool_name)
                folds[session.origin][1].feed(event)
    traces = []
    for origin, (session, fold) in folds.items():
        trace = Trace.unpack(origin, roots[origin], session.agent, fold.pack())
        traces.append(replace(trace, start=trace.start or session.project))
    return sorted(traces, key=lambda trace: (began.get(trace.root_id, ""), trace.root_id, trace.session_id))


def split_traces(traces: Sequence[Trace], share: float) -> tuple[list[Trace], list[Trace]]:
    """Return the traces of the first sessions and of the others; a session without a call is neither."""
    roots = list(dict.fromkeys(trace.root_id for trace in traces if trace.calls))
    first = {*roots[: round(share * len(roots))]}
    return [trace for trace in traces if trace.root_id in first], [t for t in traces if t.root_id in {*roots} - first]


def judge_lines(project: str, first: Sequence[Trace], later: Sequence[Trace]) -> list[Line]:
    """Learn from the first sessions, and hold each line of a start against the later ones."""
    lessons = {lesson.key + lesson.kind: lesson for lesson in learn_lessons(first) if lesson.starts}
    items = [lesson_item(id, lesson.line, lesson.score) for id, lesson in choose_for_start(lessons)]
    block = render_block(START_NOTE, [Section(KNOWN, items)], START_TOKENS)
    told = {item.data["id"] for item in block.items} if block is not None else set()
    witness, lines = Witness(first, later), []
    for id, lesson in lessons.items():
        for kind, detail, text, judge in witness.read_claims(lesson):
            verdicts = [verdict for session in witness.sessions if (verdict := judge(session)) is not None]
            figures = lesson.score, lesson.sessions, id in told, len(verdicts), sum(verdicts)
            lines.append(Line(project, kind, detail, redact(text), *figures))
    return lines


class Witness:
    """A project's later sessions, each with its sub-agents' calls, and what they say of a line.

    A judge returns whether a line holds in one session, and None where its situation never came.
    """

    def __init__(self, first: Sequence[Trace], later: Sequence[Trace]) -> None:
        """Take the traces that taught the lines, and the later ones."""
        self._first, self._later = History.of(first), replace(History.of(later), home=History.of(first).home)
        calls: dict[str, list[TracedCall]] = defaultdict(list)
        for session in self._later.sessions:
            calls[session.root] += session.calls
        own = {session.root: session for session in self._later.sessions}
        self.sessions = [replace(own[r], calls=tuple(sorted(calls[r], key=lambda call: call.at))) for r in calls]

    @cached_property
    def _tests(self) -> dict[str, str]:
        """Where each test lies as seen from its source."""
        return {test: place for place, _, test, _ in find_tests(self._later)}

    def read_claims(self, lesson: Lesson) -> Iterator[tuple[str, str, str, Judge]]:
        """Yield what a line says: its row of the table, a detail, the words, and what judges it."""
        line = lesson.line
        spans = [span for span in _SPAN.findall(line) if " " in span or span[-1] != "/"]  # no folders
        match lesson.kind:
            case "command" if lesson.key == OTHERS:
                for span in spans:
                    yield "often run", "", span, partial(self._works, {*_operations([span])})
            case "command":
                judge = partial(self._runs_for, lesson.purpose or "", {*_operations(spans)})
                yield "command", lesson.purpose or "", line, judge
            case "always_fails":
                yield "always fails", lesson.match["kind"], line, partial(self._fails, lesson)
            case "commit_check":
                yield "commit hook", "", line, self._has_hook
            case "first_run_fails" if "rules" in lesson.match:
                kind = "rules left" if lesson.key.endswith(LEAVES) else "rules found"
                yield kind, "", line, partial(self._finds_rules, lesson)
            case "first_run_fails":
                yield "first run fails", "", line, partial(self._fails_first, lesson.key)
            case "finds_more":
                yield "finds more", "", line, partial(self._finds_more, lesson.key, {*_operations(spans)})
            case "foreign_folder":
                yield "foreign folder", "", line, partial(self._names_folder, lesson.match["folder"])
            case "follow_up" if "checks" in lesson.match:
                yield "before a commit", "", line, partial(self._checks, [*_operations(lesson.match["checks"])])
            case "follow_up":
                yield "follow-up", "", line, lambda session: _not(neglects(lesson, session))
            case "together" if "folders" in lesson.match:
                yield "twins", "", line, partial(self._keeps_alike, lesson.match["folders"], spans)
            case "together" if lesson.key.startswith("tests "):
                yield "tests' place", "", line, partial(self._places_tests, lesson.key.partition(" ")[2])
            case "together" if lesson.match["paths"][1] == "*":
                yield "kept up", "", line, partial(self._keeps_up, lesson.match["paths"][0])
            case "together":
                yield "together", "", line, partial(self._changes_both, *lesson.match["paths"])
            case "constant" if lesson.key == "commits":
                yield from self._read_commits(line)
            case "constant":
                yield "gh repository", "", line, partial(self._names_repository, lesson.instead)
            case _:
                key = "tab+1" if lesson.key == "tabs" else lesson.key
                yield "harness", lesson.key, line, partial(self._is_refused, key)

    def _runs_for(self, purpose: str, told: set[str], session: TracedSession) -> bool | None:
        """Whether the call for a purpose is the one that is told, and runs."""
        ran = []
        for call, segment in _segments(session):
            named = run_elsewhere(segment) or segment
            if purpose_of(named.operation) == purpose and not installed_packages("bash", {"command": segment.call}):
                ran.append(named.operation in told and (segment.ok or not self._later.did_not_run(call)))
        return any(ran) if ran else None

    def _works(self, told: set[str], session: TracedSession) -> bool | None:
        ran = [each.ok for _, each in _segments(session) if (run_elsewhere(each) or each).operation in told]
        return any(ran) if ran else None

    def _fails(self, lesson: Lesson, session: TracedSession) -> bool | None:
        """Whether a key mostly fails; a success that a pipe may hide is none."""
        kind = lesson.match["kind"]
        key = kind, *(lesson.match[name] for name in MATCH_NAMES[kind])
        outcomes = Counter[bool]()
        for call in session.calls:
            for segment in call.segments if call.kind == "shell" else (None,):
                ok = call.ok if segment is None else segment.ok
                given = kind == "argument" and call.ok and call.name == key[1] and key[2] not in call.given
                if ok is not None and (given or key in keys_of(session, call, segment)):
                    outcomes[ok] += not (ok and segment is not None and segment.piped)
        return None if not outcomes.total() else outcomes[False] >= outcomes[True]

    def _has_hook(self, session: TracedSession) -> bool | None:
        commits = [call for call, segment in _segments(session) if segment.operation == "git commit"]
        return any(call.checks or not call.ok for call in commits) if commits else None

    def _fails_first(self, operation: str, session: TracedSession) -> bool | None:
        runs = ((call, each.ok) for call, each in _segments(session) if each.operation == operation)
        return next((not ok for call, ok in runs if ok or not self._later.did_not_run(call)), None)

    def _finds_rules(self, lesson: Lesson, session: TracedSession) -> bool | None:
        """Whether what finds such rules names one of them; of a formatter that leaves them any check."""
        check, rules = lesson.key.removesuffix(" finds").removesuffix(LEAVES), {*lesson.match["rules"]}
        runs = [call for call, segment in _segments(session) if segment.operation == check or rules & {*call.rules}]
        return any(rules & {*call.rules} for call in runs) if runs else None

    def _finds_more(self, operation: str, told: set[str], session: TracedSession) -> bool | None:
        """Whether a check fails after the ones that it is told to outdo passed."""
        passed, finds = False, list[bool]()
        for call in session.calls:
            passed &= call.kind != "edit"
            for segment in call.segments:
                passed |= segment.operation in told - {operation} and segment.ok is True
                if passed and segment.operation == operation and segment.ok is not None:
                    finds.append(not segment.ok and not self._later.did_not_run(call))
        return any(finds) if finds else None

    def _names_folder(self, folder: str, session: TracedSession) -> bool | None:
        checks = [call for call, each in _segments(session) if segment_purpose(each) == "test"]
        failed = [folder in call.folders for call in checks if call.folders and not call.ok]
        return any(failed) if failed else None

    def _checks(self, told: Sequence[str], session: TracedSession) -> bool | None:
        """Whether most of the checks that are told ran before a commit."""
        ran, shares = set[str](), list[float]()
        for call in session.calls:
            ran |= {segment.operation for segment in call.segments if segment.ok is not None}
            if any(each.operation == "git commit" and each.ok for each in call.segments):
                shares.append(sum(each in ran for each in told) / len(told))
                ran = set()
        return max(shares) > MIN_HELD if shares else None

    def _changes_both(self, one: str, other: str, session: TracedSession) -> bool | None:
        """Whether where the rarer of two is changed, the other is."""
        counts = Counter(each for past in self._first.sessions for each in (one, other) if _changes(past, each))
        rarer, other = (one, other) if counts[one] <= counts[other] else (other, one)
        return _changes(session, other) if _changes(session, rarer) else None

    def _keeps_alike(self, folders: Sequence[str], names: Sequence[str], session: TracedSession) -> bool | None:
        changed = [{f for f in folders if _changes(session, f"{f}/{name}")} for name in names]
        return any(len(each) > 1 for each in changed) if any(changed) else None

    def _keeps_up(self, path: str, session: TracedSession) -> bool | None:
        edited = _edited(session)
        return path in edited if len(edited) > 1 else None

    def _places_tests(self, place: str, session: TracedSession) -> bool | None:
        places = [self._tests[path] for path in _edited(session) if path in self._tests]
        return place in places if places else None

    def _read_commits(self, line: str) -> Iterator[tuple[str, str, str, Judge]]:
        """Yield the form of commits, and that they are pushed."""
        shown = "" if "a plain subject" in line else _SPAN.findall(line)[0].replace("(scope)", "")
        yield "commits' form", "", line, partial(self._has_form, shown)
        if "pushed at once" in line:
            yield "commits pushed", "", line, self._is_pushed

    def _has_form(self, form: str, session: TracedSession) -> bool | None:
        lines = (call.line for call, each in _segments(session) if each.operation == "git commit" and each.ok)
        forms = [subject[0] == form for line in lines if (subject := read_subject(line))]
        return 2 * sum(forms) >= len(forms) if forms else None

    def _is_pushed(self, session: TracedSession) -> bool | None:
        made = [each.operation for _, each in _segments(session) if each.ok]
        return "git push" in made[made.index("git commit") :] if "git commit" in made else None

    def _names_repository(self, repository: str | None, session: TracedSession) -> bool | None:
        named = [call.value for call in session.calls if call.kind == "shell" and call.ok and "/" in (call.value or "")]
        return repository in named if named else None

    def _is_refused(self, key: str, session: TracedSession) -> bool | None:
        found = [each for call in session.calls for each in find_refusals(session, call)]
        return True if key in found else False if key == "tab+1" and any(e.startswith("tab") for e in found) else None


def _not(value: bool | None) -> bool | None:
    return None if value is None else not value


def _segments(session: TracedSession) -> Iterator[tuple[TracedCall, Segment]]:
    """Yield the programs of a session that do something and of which it is known how they ended."""
    for call in session.calls:
        yield from ((call, each) for each in call.segments if each.ok is not None and not each.is_trivial)


def _operations(calls: Iterable[str]) -> Iterator[str]:
    for segment in (segment for call in calls for segment in split_line(call, None)[0]):
        yield (run_elsewhere(segment) or segment).operation


def _edited(session: TracedSession) -> set[str]:
    paths = {session.relative(call.path) for call in session.calls if call.kind == "edit" and call.ok}
    return {path for path in paths if path and is_inside(path)}


def _changes(session: TracedSession, pattern: str) -> bool:
    return any(pattern in (path, wildcard(path)) for path in _edited(session))


def measure_folder(share: float, folder: Path) -> list[Line]:
    """Return the lines of a project with what its later sessions say of them."""
    return judge_lines(folder.name, *split_traces(read_traces(folder), share))


def build_report(lines: Sequence[Line], projects: int, *, show: bool = False) -> Report:
    """Return the figures of each kind of line, those first of which most lines are told."""
    report = Report("borne_out", f"lines of a start that later sessions of {projects} projects met")
    told = [line for line in lines if line.is_told]
    report.details["kinds"] = {}
    for kind, number in [("all", len(told)), *Counter(line.kind for line in told).most_common()]:
        chosen = [line for line in told if kind in ("all", line.kind)]
        verdicts = Counter(line.verdict for line in chosen)
        met, held = sum(line.met for line in chosen), sum(line.held for line in chosen)
        words = [f"{verdicts[verdict]:3} {verdict}" for verdict in VERDICTS]
        report.add(kind, number - verdicts[VERDICTS[2]], f"of {number:3}: {', '.join(words)}; {held} of {met} sessions")
        counts = {verdict: verdicts[verdict] for verdict in VERDICTS}
        report.details["kinds"][kind] = {"told": number, **counts, "sessions met": met, "sessions held": held}
    if show:
        report.details["lines"] = [{**asdict(line), "verdict": line.verdict} for line in lines]
        report.notes += [
            f"{line.project} {line.kind}: {line.verdict} ({line.held} of {line.met} sessions): {line.text}"
            for line in sorted(told, key=lambda line: (line.kind, line.verdict, line.project))
        ]
    return report


def run(folders: Sequence[Path], share: float = TRAIN_SHARE, *, workers: int = 1, show: bool = False) -> Report:
    """Measure folders, each a project, in as many processes."""
    lines: list[Line] = []
    with ProcessPoolExecutor(workers) as pool:
        for folder, measured in zip(folders, pool.map(partial(measure_folder, share), folders), strict=True):
            lines += measured
            print(f"{folder.name}: {len(measured)} lines", file=sys.stderr, flush=True)
    return build_report(lines, len(folders), show=show)


def main() -> None:
    """Print a table, and a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", help="each the logs of one project")
    parser.add_argument("--train", type=float, default=TRAIN_SHARE, help="share of the sessions that are learned from")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--show", action="store_true", help="also print each line")
    options = parser.parse_args()
    report = run(options.folders, options.train, workers=options.workers, show=options.show)
    print_report(report, options.json)


if __name__ == "__main__":
    main()
