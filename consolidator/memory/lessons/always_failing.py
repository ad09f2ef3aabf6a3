"""Learns what always fails here: a wrapper, program, flag, skill, root of paths, a tool's call without an argument, or
to read a large file whole; and what works in its place.

Each call has several *keys*. A key that never worked, and mostly failed with one headline that says that something is
not there or not understood, explains its failures. A headline that names a value of the case, or is about the place,
says nothing of a key. Only keys without a success are warned of before a call.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from consolidator.memory.calls import tool_kinds
from consolidator.memory.calls.blame import named_words
from consolidator.memory.calls.installation import installs_unnamed
from consolidator.memory.calls.shell_programs import PLAIN_PROGRAMS, PROVIDERS, RUNNERS
from consolidator.memory.calls.shell_words import PATTERN_SIGNS, SHELLS
from consolidator.memory.lessons.harm import quote_reason
from consolidator.memory.lessons.headlines import Headline
from consolidator.memory.lessons.history import Cases, History, TracedSession, code, is_inside, most_common
from consolidator.memory.lessons.lesson import ELSEWHERE, Lesson
from consolidator.memory.lessons.segments import ASSIGNMENTS, Segment, purpose_of
from consolidator.memory.lessons.trace import TracedCall
from consolidator.memory.solutions.fingerprint import missing_command
from consolidator.memory.solutions.line_kinds import NO_FILE, NOT_THERE, NOT_UNDERSTOOD, OF_SHELL

Key = tuple[str, ...]  # a kind and names: ("wrapper", "rtk", "bun")
MIN_FAILURES, MIN_DECISIVE_FAILURES, MIN_SESSIONS = 3, 2, 2
MIN_SAME_HEADLINE = 0.6  # of the failures
MIN_INSTEAD, MIN_INSTEAD_OF_FLAG = 0.34, 0.2  # of the failures, after which the other call worked
MAX_REASON = 90  # characters
MAX_RARE = 50  # lessons that no start tells, of what failed last
_QUOTED = re.compile(r"'[^']*'?|\"(?:\\.|[^\"\\])*\"?|\\.", re.DOTALL)
_LOSES_PATH = re.compile(r"\bfor path in\b|(?:^|[\s;&(])path=")  # zsh has the folders of programs in `path`
_SPEAKER = re.compile(r"^(?:\S+: )?<value>: (?=(?:error|fatal)\b)")  # a script's own file
_OF_CASE = re.compile(
    r"<(?:value|url)>(?!: no module)|not (?:in )?an? (?:\w+ )?(?:repository|work(?:ing )?tree|workspace|project)\b"
    rf"|{NO_FILE.pattern}",
    re.IGNORECASE,
)  # of a masked sentence: what it names, or where the call ran, is what is wrong
_OPTION = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*")
_CONFINES = re.compile(r"sandbox|jail|guard|audit|bwrap|bubblewrap|landlock|landrun|seccomp|safehouse|srt$|chroot")
_TOO_LARGE = re.compile(r"exceeds maximum allowed (?:tokens|size)")  # a file that is read whole
_REQUIRES = re.compile(  # an argument
    r"(?:missing|required) (?:parameter|argument|property|field)s?\b\W{0,3}(\w+)"
    r"|(\w+)\W? is (?:a )?(?:required|missing)\b",
    re.IGNORECASE,
)
_HAS_VALUE = re.compile(r"(?!.*\d).* -[\w-]+=")  # an option's; a number makes a call one case's own
_OF_PART = ("offset", "limit")  # arguments with which a file is read in part
_SKILL_FILE = re.compile(r"[/\\]skills[/\\]([^/\\]+)[/\\]")  # which makes the skill
NO_TOOL = re.compile(r"\bno such tool available", re.IGNORECASE)
# What explains more comes first.
_KINDS = ["wrapper", "program", "skill", "tool", "flag", "argument", "whole"]
MATCH_NAMES = {
    "wrapper": ("wrapper", "program"),
    "program": ("program",),
    "flag": ("operation", "option"),
    "skill": ("skill",),
    "tool": ("tool",),
    "argument": ("tool", "argument"),
    "whole": ("tool", "file"),  # and one of `_OF_PART` as the argument that it lacks
}  # how the names of a key are called in a lesson's match
_OF_PROJECT = re.compile(r"^(?!/(?:usr|opt)/).*/|\w=|\w\.[a-z]{1,5}\b")  # a file in it, or a variable's value
_NAME = re.compile(r"[A-Za-z_][\w+-]*(?:\.\d+)?(?: \w+)?", re.ASCII)  # no path, script or variable


@dataclass(frozen=True, slots=True)
class _Failure:
    session: TracedSession
    position: int
    call: TracedCall
    segment: Segment | None

    @property
    def id(self) -> tuple[str, int]:
        return self.session.session_id, self.call.seq


@dataclass(slots=True)
class _Uses:
    successes: int = 0
    unseen: int = 0  # of these, what only says that something was printed: a pipe hides how it ended
    failures: list[_Failure] = field(default_factory=list)
    worked_at: str = ""  # of the latest success that was seen


def keys_of(session: TracedSession, call: TracedCall, segment: Segment | None) -> Iterator[Key]:
    """Yield the keys of a call, or of one segment of a shell call."""
    if segment is None and (call.ok or any(NO_TOOL.search(headline.text) for headline in call.headlines)):
        yield "tool", call.name
    if segment is not None:
        for wrapper in segment.wrappers:
            if not _CONFINES.search(wrapper) and "/" not in segment.runner:  # none without limits
                yield "wrapper", wrapper, segment.program
        if segment.called is not None:
            yield "program", segment.called
        for option in segment.options:
            yield "flag", segment.operation, option
    elif call.kind == "skill":
        yield "skill", call.name
    elif call.kind == "read" and (path := session.relative(call.path)):
        is_too_large = any(_TOO_LARGE.search(headline.text) for headline in call.headlines)
        if is_inside(path) and {*_OF_PART}.isdisjoint(call.given) and (call.ok or is_too_large):
            yield "whole", call.name, path
    elif call.kind == "tool" and (name := _find_required(call)) is not None:
        yield "argument", call.name, name


def is_of_machine(key: Key) -> bool:
    """Whether a key is about the machine, not about one project: a program, one behind a wrapper, or one's option.

    What runs the programs of a project, and what a project mostly brings itself, such as its checks, is of that one.
    """
    if key[0] == "flag":
        return key[1] in PLAIN_PROGRAMS and purpose_of(key[1]) is None
    is_named = key[0] in ("wrapper", "program") and _NAME.fullmatch(key[1]) is not None and purpose_of(key[1]) is None
    return is_named and (key[0] == "program" or key[1].split()[0] not in PROVIDERS | RUNNERS.keys())


def _find_required(call: TracedCall) -> str | None:
    """Return the argument that a failed call of a tool lacks, by its error."""
    names = (name for each in call.headlines for found in _REQUIRES.finditer(each.text) for name in found.groups())
    return next((name for name in names if name and name not in call.given), None)


def learn_always_failing(history: History) -> list[Lesson]:
    """Return what never worked here, or of flags mostly failed; what one explains is no evidence of another."""
    uses = _collect(history)
    explained: set[tuple[str, int]] = set()
    lessons = []
    for key in sorted(uses, key=lambda key: (-len(uses[key].failures), _KINDS.index(key[0]), len(key), key)):
        unexplained = (failure for failure in uses[key].failures if failure.id not in explained)
        failures = [failure for failure in unexplained if not _is_of_case(history, failure)]
        headline = _find_headline(history, key, uses[key], failures)
        if headline is None:
            continue
        explained |= {failure.id for failure in failures}
        lessons.append(_build_lesson(history, key, uses[key], failures, headline))
    rare = sorted((lesson.last_at, lesson.key) for lesson in lessons if not lesson.starts)
    dropped = {key for _, key in rare[:-MAX_RARE]}
    return [lesson for lesson in lessons if lesson.key not in dropped]


def _collect(history: History) -> dict[Key, _Uses]:
    uses: dict[Key, _Uses] = defaultdict(_Uses)
    for session in history.sessions:
        end = max((call.at for call in session.calls), default="")
        for position, call in enumerate(session.calls):
            segments: list[Segment | None] = list(call.segments) if call.kind == "shell" else [None]
            for segment in segments:
                outcome = call.ok if segment is None else segment.ok
                if outcome is False and _is_of_shell(call):
                    continue
                for key in set(keys_of(session, call, segment)) if outcome is not None else ():
                    if outcome:
                        is_unseen = segment is not None and segment.piped
                        uses[key].successes += 1
                        uses[key].unseen += is_unseen
                        uses[key].worked_at = max(uses[key].worked_at, "" if is_unseen else call.at)
                    else:
                        uses[key].failures.append(_Failure(session, position, call, segment))
            if call.kind == "edit" and call.ok and (made := _SKILL_FILE.search(call.path or "")):
                skill = uses["skill", made[1]]  # a client knows it from its next session on
                skill.worked_at = max(skill.worked_at, end)
    return uses


def _is_of_shell(call: TracedCall) -> bool:
    """Whether the shell did not take a line as it was meant: that says nothing of the programs in it."""
    texts = [headline.text for headline in call.headlines]
    own = _QUOTED.sub("", call.line.partition("<<")[0])  # what the shell itself reads
    lost = _LOSES_PATH.search(own) and any(map(missing_command, texts))
    return bool(lost) or any(OF_SHELL.search(text) for text in texts)


def _find_headline(history: History, key: Key, uses: _Uses, failures: list[_Failure]) -> str | None:
    """Return the headline with which a key always fails (of flags: mostly); None if it does not."""
    if key[0] == "argument" and not _is_always_given(history, *key[1:]):
        return None
    allowed = {"flag": len(failures), "program": uses.unseen, "whole": uses.successes}.get(key[0], 0)
    if uses.worked_at and max((failure.call.at for failure in failures), default="") <= uses.worked_at:
        return None  # it works now
    is_sure = key[0] in ("whole", "tool") or (key[0] == "program" and _is_missing(failures))
    if uses.successes > allowed or len({each.session.root for each in failures}) < (1 if is_sure else MIN_SESSIONS):
        return None
    counts: Counter[str] = Counter()
    for failure in failures:
        reasons = history.reasons(failure.call)
        reasons = [reason for reason in reasons if missing_command(reason.text)] or reasons
        says = {"argument": _REQUIRES, "whole": _TOO_LARGE, "tool": NO_TOOL}.get(key[0])
        is_reason = [says.search(each.text) if says else _blames(failure, each) for each in reasons]
        counts.update({each.key for each, is_it in zip(reasons, is_reason, strict=True) if is_it})
    if not counts.total():
        return None
    headline = most_common(counts)
    options = _OPTION.findall(headline)
    is_of_script = any(failure.segment is not None and failure.segment.script for failure in failures)
    if key[0] == "program" and (uses.successes or is_of_script) and not missing_command(headline):
        return None  # only that a program is not there outweighs what it, or a script of its, seems to have printed
    if key[0] == "flag" and (missing_command(headline) or (options and key[-1] not in options)):
        return None  # it was the program's, or another option's
    if is_sure and key[0] != "tool":
        return headline
    needed = MIN_DECISIVE_FAILURES if NOT_UNDERSTOOD.search(headline) else MIN_FAILURES
    return headline if counts[headline] >= max(needed, MIN_SAME_HEADLINE * len(failures)) else None


def _is_always_given(history: History, tool: str, argument: str) -> bool:
    """Whether each call of a tool that worked had an argument, whatever an error says of it."""
    worked = [argument in call.given for _, call in history.calls() if call.name == tool and call.ok]
    return bool(worked) and all(worked)


def _blames(failure: _Failure, headline: Headline) -> bool:
    """Whether a line says that what a key names is not there or not understood, and no value of the case."""
    said = _SPEAKER.sub("", headline.key)
    sentences = [sentence for sentence in said.split(". ") if NOT_THERE.search(sentence)]
    segment = failure.segment
    if segment is None or headline.key.startswith("shell: "):
        return bool(sentences)
    words = (word for word in segment.call.split()[1:] if word[0] != "-")
    operands = {word for word in words if word.rpartition("/")[2] not in segment.operation.split()}
    return operands.isdisjoint(named_words(headline.text)) and not all(map(_OF_CASE.search, sentences))


def _is_of_case(history: History, failure: _Failure) -> bool:
    """Whether a failure only shows that a value of the case is not there: it is no evidence of a key."""
    reasons = [each for each in history.reasons(failure.call) if NOT_THERE.search(each.key)]
    return bool(reasons) and not any(_blames(failure, reason) for reason in reasons)


def _build_lesson(history: History, key: Key, uses: _Uses, failures: list[_Failure], headline: str) -> Lesson:
    kind, *names = key
    cases = Cases([(failure.session, failure.call) for failure in failures])
    reason = next((h.text for f in failures for h in history.reasons(f.call) if h.key == headline), "")
    instead = _find_instead(key, failures)
    counts = f"{len(failures)} of {len(failures) + uses.successes}"
    if kind != "argument" and (quoted := quote_reason(reason, MAX_REASON)):  # of a tool no content is told
        counts += f": {quoted}"
    always = "mostly" if uses.successes else "always"
    if kind == "skill":
        cure = f"; {code(instead)} then worked" if instead else ""
        line = f"There is no skill {code(names[0])} here ({len(failures)} of {len(failures)} failed){cure}."
    elif kind == "tool":
        line = f"There is no tool {code(names[0])} here ({len(failures)} of {len(failures)} failed)."
    elif kind == "argument":
        line = f"{code(names[0])} without {code(names[1])} always fails here ({counts}): give it."
    elif kind == "whole":
        line = f"{code(names[1])} is too large to be read whole: give `offset` and `limit`, or search in it."
    elif kind == "wrapper":
        others = _operations_without(history, *names)
        if instead is None and others and any(f.segment is not None and names[0] in f.segment.prefix for f in failures):
            instead = others[0]  # another one brings the program
        cure = f"; without {code(names[0])} it works: {', '.join(map(code, others))}" if others else ""
        prefix = most_common(Counter(ASSIGNMENTS.sub("", each.segment.prefix) for each in failures if each.segment))
        runner = prefix if prefix.endswith(" -m ") else f"{names[0]} "  # `python3 -m `
        line = f"{code(f'{runner}{names[1]} …')} {always} fails ({counts}){cure}."
    else:
        cure = f"; {code(instead)} then worked" if instead else ""
        line = f"{code(' '.join(names))} {always} fails here ({counts}){cure}."
    return cases.build_lesson(
        "always_fails",
        " ".join(key),
        line,
        3.0 * len(failures),
        failures=len(failures),
        successes=uses.successes,
        instead=instead,
        match={
            "kind": kind,
            "headline": headline,
            **({"argument": " or ".join(_OF_PART)} if kind == "whole" else {}),
            **dict(zip(MATCH_NAMES[kind], names, strict=True)),
            **_say_elsewhere(key, f"{always} fails on this machine ({counts})", headline, instead),
        },
        warns=kind == "whole" or (uses.successes == 0 and kind != "tool"),
        starts=kind != "whole" and (kind != "program" or instead is not None or len(cases.roots) >= MIN_SESSIONS),
    )


def _say_elsewhere(key: Key, fails: str, headline: str, instead: str | None) -> dict[str, str]:
    """Return for a lesson's match what is told in the other projects of the machine; {} where it is of this one."""
    kind, *names = key
    if not is_of_machine(key) or (kind == "program" and not missing_command(headline)):
        return {}
    named = f"{names[0]} {names[1]} …" if kind == "wrapper" else " ".join(names)
    is_own = kind == "wrapper" or (instead or "").split(" ")[0] in RUNNERS or _OF_PROJECT.search(instead or "")
    cure = f"; {code(instead)} then worked" if instead and not is_own else ""
    return {ELSEWHERE: f"{code(named)} {fails}{cure}."}


def _find_instead(key: Key, failures: list[_Failure]) -> str | None:
    """Return the call of the same operation, without the key, that worked soon after the failures often enough."""
    if key[0] == "skill":
        return _find_near(key[1], failures)
    is_flag, is_missing = key[0] == "flag", key[0] == "program" and _is_missing(failures)
    counts: Counter[str] = Counter()
    calls: dict[str, set[tuple[str, str]]] = defaultdict(set)  # whole, and in which session, by what is counted
    for failure in failures:
        segment = failure.segment
        if segment is None:
            continue
        later = (
            [call for _, call in failure.session.acting(failure.position + 1, 2)]
            if not segment.is_trivial
            else failure.session.calls[failure.position + 1 : failure.position + 3]
        )
        for call in later:
            worked = [
                s
                for s in call.segments
                if s.ok
                and (s.operation == segment.operation or (is_missing and (_replaces(s, segment) or _runs(s, segment))))
            ]
            match = next((s for s in worked if key not in set(keys_of(failure.session, call, s))), None)
            if match is not None:
                shown = match.bare_call if is_missing or is_flag else match.shown  # if missing, whatever it was given
                if is_missing and shown is not None and _runs(match, segment):
                    shown = match.runner
                if is_flag and shown is not None:
                    shown = " ".join([shown, *match.options[:2]])
                if shown is not None and not match.is_hostile and not installs_unnamed(shown, segment.full_call):
                    counts[shown] += 1
                    whole = match.shown if is_flag and _HAS_VALUE.match(match.call) else None
                    calls[shown] |= {(whole, failure.session.root)} if whole else set()
                break
    needed = MIN_INSTEAD_OF_FLAG if is_flag else MIN_INSTEAD
    if not counts or counts.total() < needed * len(failures):
        return None
    best = min(counts, key=lambda call: (-counts[call], len(call), call))  # without what one of them may not need
    sessions = Counter(call for call, _ in calls[best])
    usual = most_common(sessions) if sessions else best
    return usual if sessions[usual] >= MIN_SESSIONS else best  # an option is nothing without its value


def _is_missing(failures: Collection[_Failure]) -> bool:
    """Whether a shell did not find the program, each time."""
    return bool(failures) and all(
        any(missing_command(headline.text) for headline in failure.call.headlines) for failure in failures
    )


def _replaces(segment: Segment, missing: Segment) -> bool:
    """Whether a program is given the words of a missing one, or code as that was, also by a here-document.

    A program that only looks takes the place of one that would have shown the same file, a shell that of none. The
    same options alone are words of any program.
    """
    if segment.program in (missing.program, *SHELLS):
        return False
    if segment.is_trivial:
        shows = tool_kinds.SHOWING_PROGRAMS.issuperset((segment.program.lower(), missing.program.lower()))
        return shows and not set(segment.paths).isdisjoint(missing.paths)
    words, others = segment.call.split()[1:], missing.call.split()[1:]
    is_code = words[:1] == others[:1] and set(words[:1]) <= tool_kinds.INLINE_CODE_OPTIONS
    is_same, is_given = bool(others) and words == others, any(word[0] != "-" for word in others)
    return (is_same and is_given) or ((is_same or is_code) and segment.program.startswith(missing.program[:3]))


def _runs(segment: Segment, missing: Segment) -> bool:
    """Whether a runner runs the same in place of one that is not there: `python3 -m pytest`."""
    words = ASSIGNMENTS.sub("", segment.full_call).split()[1:3]
    return segment.runner not in ("", missing.program) and len(words) == 2 and words == missing.call.split()[1:3]


def _find_near(skill: str, failures: list[_Failure]) -> str | None:
    """Return the skill of the same name in a plugin that worked right after the failures, in several sessions."""
    roots: dict[str, set[str]] = defaultdict(set)
    for failure in failures:
        later = (call for _, call in failure.session.acting(failure.position + 1, 2))
        near = (call.name for call in later if call.kind == "skill" and call.ok and _plain(call.name) == _plain(skill))
        if (name := next(near, skill)) != skill:
            roots[name].add(failure.session.root)
    best = min(roots, key=lambda name: (-len(roots[name]), name), default=None)
    return best if best is not None and len(roots[best]) >= MIN_SESSIONS else None


def _plain(skill: str) -> str:
    """Return a skill's name without its plugin, however it parts its words."""
    return re.split(r"[:/]", skill)[-1].casefold().replace("_", "-")


def _operations_without(history: History, wrapper: str, program: str) -> list[str]:
    """Return the operations of a program that work without a wrapper, the most frequent first."""
    counts: Counter[str] = Counter()
    for _, call in history.calls():
        counts.update(
            segment.bare_call
            for segment in call.segments
            if segment.ok and segment.program == program and wrapper not in segment.wrappers
            if segment.bare_call is not None and not segment.is_hostile
        )
    return sorted(counts, key=lambda operation: (-counts[operation], operation))[:3]


def warning_words(lesson: Lesson) -> tuple[str, ...]:
    """Return literal words of which a call that the lesson warns of must hold all: a filter before any parsing.

    Of words with " or " between them one is enough.
    """
    match = lesson.match
    kind = match.get("kind")
    if not lesson.warns:
        return ()
    if kind == "wrapper":
        return match["wrapper"], match["program"]
    if kind == "pattern":
        return (" or ".join(PATTERN_SIGNS),)
    if kind == "pkill":
        return ("pkill or pgrep",)
    if kind == "flag":
        return (*match["operation"].split(), match["option"])
    if kind in ("argument", "whole"):
        return match["tool"], *filter(None, [match.get("file")])
    return (match["skill" if kind == "skill" else "program"],) if kind in ("program", "skill") else ()
