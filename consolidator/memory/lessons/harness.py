"""Learns how the agent's own tools and its shell behave: what they refuse, and what the refused calls lacked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from consolidator.memory.calls.call_pairing import KEEPS_FOLDER
from consolidator.memory.calls.directory import expects_root, goes_again
from consolidator.memory.calls.shell_words import find_patterns
from consolidator.memory.calls.symbols import PATCH_TOOL
from consolidator.memory.lessons.history import Cases, History, TracedSession, is_inside
from consolidator.memory.lessons.lesson import Lesson
from consolidator.memory.lessons.segments import paths_of
from consolidator.memory.lessons.trace import KILLED_SHELL, NO_MATCHES, POWERSHELL, SPARED_SHELL, TracedCall
from consolidator.models.audience import pluralize

MIN_SESSIONS = 3
MIN_TAB_SHARE = 0.75  # of failed edits, that lack a tab
SLEPT, KILLS_SHELL = "Blocked: sleep", "pkill -f"
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
LEFT_BEHIND = "kept directory"  # no words of an error: it shows by where a call ran
_REFUSALS = {  # by key and by what is said of one
    ("cancelled calls", CANCELLED): 'One failure cancels its parallel calls ("{}", {}): chain checks in one command.',
    ("patch lines", UNMARKED): 'A patch fails at a line without its mark ("{}", {}): below `*** Add File`, each line '
    "begins with `+`, an empty one, too.",
    (LEFT_BEHIND,) * 2: "The shell stays in the folder that a `cd` went to: calls that expect another one failed {1}.",
}


def learn_harness(history: History) -> Iterator[Lesson]:
    """Yield how the agent's own tools behave, in our words, with counts from the log."""
    cases: dict[str, Cases] = defaultdict(Cases)
    for session, call in history.calls():
        for key in find_refusals(session, call):
            cases[key].add(session, call)

    for (key, error), sentence in _REFUSALS.items():
        line = sentence.format(error, pluralize(len(cases[key]), "time"))
        is_often = len(cases[key].roots) >= MIN_SESSIONS
        if is_often or (key == LEFT_BEHIND and cases[key].members):
            yield _build_lesson(key, line, cases[key], match={"error": error}, starts=is_often)
    for rule in sorted(SHELL_RULES.keys() & cases.keys()):
        is_pattern, worked = rule == NO_MATCHES, (call for _, call in history.calls() if call.ok)
        against = sum(bool(find_patterns(each.line)) if is_pattern else each.value == SPARED_SHELL for each in worked)
        yield _build_lesson(
            rule,
            f"{SHELL_RULES[rule]} {pluralize(len(cases[rule]), 'time')}).",
            cases[rule],
            match={"shell": rule, "kind": {NO_MATCHES: "pattern", KILLS_SHELL: "pkill"}.get(rule, rule)},
            warns=rule in (NO_MATCHES, KILLS_SHELL) and against < (1 if is_pattern else len(cases[rule])),
            starts=len(cases[rule].roots) > 1,
        )
    short, total = cases["tab+1"], sum(len(cases[key]) for key in cases if key.startswith("tab"))
    if len(short.roots) >= MIN_SESSIONS and len(short) >= MIN_TAB_SHARE * total:
        line = f'Edits that fail ("{UNMATCHED}") mostly lack a tab in each line ({len(short)} of {total} times).'
        yield _build_lesson("tabs", line, short, 1.5, match={"error": UNMATCHED, "indented": "\t"})


def _build_lesson(key: str, line: str, cases: Cases, weight: float = 1.2, **values: object) -> Lesson:
    return cases.build_lesson("harness", key, line, weight * len(cases.roots), failures=len(cases), **values)


def find_refusals(session: TracedSession, call: TracedCall) -> Iterator[str]:
    """Yield what a call met of the agent's tools, by the keys of lessons; "tab+1" of an edit that showed a lost tab."""
    if call.reason == "cascade" and call.kind == "shell":  # no other calls can be chained
        yield "cancelled calls"
    if call.name == PATCH_TOOL and any(UNMARKED in headline.text for headline in call.headlines):
        yield "patch lines"
    is_kept = call.name == KEEPS_FOLDER or (call.kind == "search" and call.path)
    place = session.relative(call.directory) if is_kept else None
    errors = "\n".join(headline.text for headline in call.headlines) if place and is_inside(place) else ""
    paths = [call.path] if call.kind == "search" and call.path else paths_of(call.segments)
    if place and errors and (goes_again(place, errors) or expects_root(place, paths, errors)):
        yield LEFT_BEHIND
    if (rule := broken_rule(call)) is not None:
        yield rule
    if call.kind in ("read", "edit") and call.ok and call.value:
        yield call.value


def broken_rule(call: TracedCall) -> str | None:
    """Return which of `SHELL_RULES` a call did not keep."""
    if call.kind == "shell" and call.ok is False and call.value in ("sleep", KILLED_SHELL):
        return SLEPT if call.value == "sleep" else KILLS_SHELL
    return next((headline.key for headline in call.headlines if headline.key in SHELL_RULES), None)
