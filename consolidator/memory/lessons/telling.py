"""Chooses which lessons are told: before a call runs, and after it failed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from consolidator.memory.calls import tool_kinds
from consolidator.memory.calls.directory import (
    expects_root,
    goes_again,
    is_absolute,
    line_directory,
    name_folder,
    name_folders,
    names_path_in,
    place_below,
    plain_path,
    strip_cd,
)
from consolidator.memory.calls.shell_words import ends_own_shell, find_patterns
from consolidator.memory.calls.symbols import runs_in_shell, shell_command
from consolidator.memory.lessons.always_failing import NO_TOOL
from consolidator.memory.lessons.commits import NO_REMOTE
from consolidator.memory.lessons.harness import KILLS_SHELL, LEFT_BEHIND, SLEPT
from consolidator.memory.lessons.headlines import FORMATTED, find_headlines, find_rules
from consolidator.memory.lessons.history import code, path_below, segment_purpose
from consolidator.memory.lessons.lesson import LEAVES, Lesson
from consolidator.memory.lessons.segments import (
    ASSIGNMENTS,
    FORMAT_CHECK,
    Segment,
    blame_runners,
    has_ended_itself,
    judge_segments,
    paths_of,
    purpose_of,
    quote_pattern,
    split_line,
)
from consolidator.memory.lessons.trace import (
    NO_MATCHES,
    NO_SLEEP,
    POWERSHELL,
    SKILL_TOOLS,
    find_repository,
    name_of,
    skill_name,
)
from consolidator.memory.solutions.error_line import headline
from consolidator.memory.solutions.fingerprint import error_names, is_wrong_place, missing_command
from consolidator.memory.solutions.line_kinds import NO_FILE, NOT_SH, NOT_THERE

_MISSING_REPOSITORY = re.compile(r"not found|could not resolve", re.IGNORECASE)
_SLEEPS_FIRST = re.compile(r"\s*sleep [\d.]+[smh]?\s*(?:;|&&|\n)\s*")
CHECKS = ("test", "lint", "format", FORMAT_CHECK, "typecheck", "build")  # that change nothing outside the project
MAX_SHOWN = 200  # characters of a call that a text shows


@dataclass(frozen=True, slots=True)
class Told:
    """A lesson for one call, in the words for it."""

    lesson: Lesson
    text: str  # one or two sentences
    call: str | None = None  # the command line or path to use instead, as it can be run; None where there is none


def warn_before(lessons: Collection[Lesson], tool: str, arguments: Any, project: str | None = None) -> Told | None:
    """Return the warning for a call that never worked here, or fails at its first run; None for others."""
    from consolidator.memory.lessons.before_call import may_do_without  # no night asks

    line = shell_command(tool, arguments)
    segments = [] if line is None else split_line(line, None)[0]
    for lesson in lessons:
        kind = lesson.match.get("kind") if lesson.warns else None
        kills = kind == "pkill" and runs_in_shell(arguments) and ends_own_shell(line or "")
        if kills or (kind == "pattern" and find_patterns(line or "")):
            return Told(lesson, lesson.line)
        if lesson.warns and lesson.kind == "always_fails":
            for segment in [] if kind == "program" and may_do_without(line or "") else segments:
                if _matches(lesson, segment):
                    return _told_of(lesson, segment, lessons)
            if "skill" in lesson.match and lesson.match["skill"] == _skill(tool, arguments):
                return Told(lesson, lesson.line, lesson.instead)
            if _lacks(lesson, tool, arguments, project):
                return Told(lesson, lesson.line)
        is_first = lesson.kind == "first_run_fails" and lesson.instead is not None
        if is_first and any(segment.operation == lesson.key for segment in segments):
            return Told(lesson, lesson.line, lesson.instead)
    return None


def answer_failure(
    lessons: Iterable[Lesson],
    tool: str,
    arguments: Any,
    error: str,
    directory: str | None = None,
    project: str | None = None,
) -> Told | None:
    """Return what worked after such a failure in earlier sessions; None where nothing is known well enough.

    `directory` is where the call ran, below the project's folder, and `project` that folder.
    """
    all_lessons = list(lessons)
    line = shell_command(tool, arguments)
    if line is None:
        return next(_answers_of_tool(all_lessons, tool, arguments, error, directory, project), None)
    segments, place = split_line(line, directory)
    if (answer := _answer_of_rule(all_lessons, segments, line, error)) is not None:
        return answer
    if project and (answer := _answer_of_folder(all_lessons, segments, line, directory, error, project)) is not None:
        return answer
    segments = blame_runners(segments, error)
    outcomes = judge_segments(segments, line, False, error, False)
    failed = next((s for s, outcome in zip(segments, outcomes, strict=True) if outcome is False), None)
    if failed is None:
        return None
    if project and place is not None and is_absolute(place):
        place = place_below(place, project)
    headlines = find_headlines(error, failed.program or name_of(segments))
    keys = {headline.key for headline in headlines}
    return next(_answers_of_shell(all_lessons, failed, line, place, keys, error), None)


def _answer_of_rule(lessons: list[Lesson], segments: list[Segment], line: str, error: str) -> Told | None:
    """Return what to make of a call that sleeps first, ends its shell, or that zsh or PowerShell reads otherwise."""
    rules = {lesson.match["shell"]: lesson for lesson in lessons if "shell" in lesson.match}
    if SLEPT in rules and NO_SLEEP.match(error) and (slept := _SLEEPS_FIRST.match(line)):
        rest = line[slept.end() :]
        return Told(rules[SLEPT], f"To sleep before a command is refused here: run {code(rest)} alone.", rest)
    if POWERSHELL in rules and NOT_SH.search(error):
        cure = " Pipe a here-string (@'…'@) instead, or give the code as an argument." if "<<" in line else ""
        return Told(rules[POWERSHELL], rules[POWERSHELL].line + cure)
    if KILLS_SHELL in rules and has_ended_itself(segments, line, error):
        return Told(rules[KILLS_SHELL], rules[KILLS_SHELL].line)
    quoted = quote_pattern(line, error) if NO_MATCHES in rules else None
    if quoted is None:
        return None
    word, call = quoted
    shown = call if len(call) <= MAX_SHOWN else word
    return Told(rules[NO_MATCHES], f"The shell is zsh: quote what it takes for a pattern, {code(shown)}.", call)


def _answer_of_folder(
    lessons: list[Lesson], segments: list[Segment], line: str, directory: str | None, error: str, project: str
) -> Told | None:
    """Return that the shell was in the folder already that a call goes to, or that its paths begin with."""
    lesson, known = _find_kept_folder(lessons)
    place = line_directory(line, directory) or ""
    if lesson is None or not directory or is_absolute(place):
        return None
    if place == directory and expects_root(place, paths_of(segments), error, known):
        call = f"cd {shlex.quote(project)} && {line}"
        return Told(lesson, f"The shell is in {name_folder(place)}: run this in the project root.", call)
    if place != directory and goes_again(place, error):
        there = f"The shell is in {name_folder(directory)} already: leave out the `cd`."
        return Told(lesson, there, strip_cd(line).strip())
    return None


def _find_kept_folder(lessons: list[Lesson]) -> tuple[Lesson | None, Iterable[str]]:
    """Return by what lesson it is told that the shell is in a folder, and the project's known files."""
    index = next((lesson for lesson in lessons if "index" in lesson.match), None)
    lesson = next((lesson for lesson in lessons if lesson.match.get("error") == LEFT_BEHIND), index)
    return lesson, () if index is None else index.match["index"].values()


def _answers_of_shell(
    lessons: list[Lesson], failed: Segment, line: str, directory: str | None, keys: set[str], error: str
) -> Iterator[Told]:
    purpose, reason = segment_purpose(failed), headline(error)
    task = failed.operation if purpose else " ".join(failed.call.split()[:2])
    meant, task = purpose or purpose_of(task), task.rpartition(" ")[2]
    is_unknown = meant in CHECKS and not failed.is_trivial and task in error_names(reason)
    bare = ASSIGNMENTS.sub("", f"{failed.bare_call} ")
    named_otherwise = [  # how the check is called here, if not like that
        Told(lesson, lesson.line, lesson.instead)
        for lesson in lessons
        if is_unknown and lesson.kind == "command" and lesson.purpose == meant
        if not ASSIGNMENTS.sub("", f"{lesson.instead} ").startswith(bare)
    ]
    met = [each for each in lessons if each.kind == "always_fails" and each.match["headline"] in keys]
    known = [_told_of(lesson, failed, lessons) for lesson in met if _matches(lesson, failed)]
    yield from (told for told in known if told.call)
    yield from (*named_otherwise, *known) if known else ()
    for lesson in lessons:
        homes = lesson.match.get("homes", ()) if lesson.kind == "command" else ()
        is_its_home = homes and lesson.match["operation"] == failed.operation and directory not in (None, *homes)
        is_here = str(directory).endswith(tuple(f"/{home}" for home in homes))  # but in another checkout
        if is_its_home and not is_here and (NOT_THERE.search(error) or is_wrong_place(reason)):
            beginnings, call = [home for home in homes if names_path_in(home, failed.paths)], failed.full_call
            homes = [home for home in homes if home not in beginnings]
            if beginnings and any(path.removeprefix("./").rstrip("./") in error for path in failed.paths):
                homes, beginning = beginnings[:1], re.escape(beginnings[0])
                call = re.sub(rf"(?<![^\s'\"=])(?:\./)?{beginning}/", "./", call)
                if not all(names_path_in(beginnings[0], [path]) for path in failed.paths):
                    homes = []  # another path would not be there
            shown = call if len(homes) == 1 and failed.shown else None
            yield from [Told(lesson, f"Run {code(call)} in {name_folders(homes)}.", shown)] if homes else ()
    yield from named_otherwise
    rules = set(find_rules(error))
    is_left = bool(rules) and not any(key.lower().startswith(FORMATTED) for key in keys)
    for lesson in lessons:
        if is_left and lesson.key.endswith(LEAVES) and rules <= set(lesson.match.get("rules", ())):
            yield Told(lesson, lesson.line)  # the formatter mends none of them
    for lesson in lessons:
        if lesson.kind == "first_run_fails" and lesson.key == failed.operation and not NOT_THERE.search(error):
            yield Told(lesson, lesson.line, lesson.instead)
    if purpose == "test" or failed.operation == "git commit":
        for lesson in lessons:
            if lesson.kind == "foreign_folder" and f"{lesson.match['folder']}/" in error:
                yield Told(lesson, lesson.line)
    if failed.program == "gh":
        named = find_repository(line)
        parts = _fold_names(named or "") if _MISSING_REPOSITORY.search(error) else set()
        is_unnamed = named is None and NO_REMOTE.search(error) is not None
        for lesson in lessons:  # a call names none, or another with the owner or the name of the project's own
            own = lesson.instead if lesson.kind == "constant" else None
            if own and (is_unnamed or (named != own and parts & _fold_names(own))):
                yield Told(lesson, lesson.line, own)
    if failed.operation == "git commit" and not keys:  # it says nothing of why: what its hook runs will
        yield from (Told(lesson, lesson.line) for lesson in lessons if lesson.kind == "commit_check")
    yield from _answers_of_path(lessons, [path for path in failed.paths if path in error], error)


def _fold_names(repository: str) -> set[str]:
    """Return the owner and the name of a repository, as they are alike: `mainshop` for `Main-Shop`."""
    return {re.sub(r"[\W_]", "", part).lower() for part in repository.split("/")} - {""}


def _answers_of_tool(
    lessons: list[Lesson], tool: str, arguments: Any, error: str, directory: str | None, project: str | None
) -> Iterator[Told]:
    skill = _skill(tool, arguments)
    for lesson in lessons:
        if lesson.kind == "always_fails" and skill is not None and lesson.match.get("skill") == skill:
            yield Told(lesson, lesson.line, lesson.instead)
        if lesson.match.get("kind") == "tool" and lesson.match["tool"] == tool and NO_TOOL.search(error):
            yield Told(lesson, lesson.line)
        if lesson.match.get("argument", "\0") in error and _lacks(lesson, tool, arguments, project):
            yield Told(lesson, lesson.line)
    for lesson in lessons:
        is_met = lesson.kind == "harness" and lesson.match.get("error", "\0") in error
        if is_met and _is_concerned(lesson, arguments):
            yield Told(lesson, lesson.line)
    if isinstance(arguments, dict):
        paths = [arguments[key] for key in tool_kinds.PATH_KEYS if isinstance(arguments.get(key), str)]
        kept, known = _find_kept_folder(lessons)
        if kept and directory and project and paths and expects_root(directory, paths[:1], error, known):
            path = f"{project}/{plain_path(paths[0])}"
            yield Told(kept, f"The shell is in {name_folder(directory)}: look in {code(path)}.", path)
        yield from _answers_of_path(lessons, paths[:1], error, project)


def _lacks(lesson: Lesson, tool: str, arguments: Any, project: str | None) -> bool:
    """Whether a call of a tool leaves out what a lesson says that it needs."""
    from consolidator.memory.lessons.before_call import lacks_argument  # no night asks

    is_of_tool = lesson.match.get("tool") == tool and isinstance(arguments, dict)
    return is_of_tool and lacks_argument(lesson.match, arguments, project)


def _is_concerned(lesson: Lesson, arguments: Any) -> bool:
    """Whether a failed call is of a lesson's kind: of those about tabs, an edit whose lines are indented like that."""
    text = arguments.get("old_string") if isinstance(arguments, dict) else None
    indented = lesson.match.get("indented")
    # A line that begins with a number was copied with it: its indentation is not what is wrong.
    return not indented or (isinstance(text, str) and re.search(rf"(?m)^{indented}(?! *\d+\u2192)", text) is not None)


def _answers_of_path(lessons: list[Lesson], paths: list[str], error: str, project: str | None = None) -> Iterator[Told]:
    """Yield where a file is that was looked for in another folder, or under another root."""
    if not paths or not NO_FILE.search(error):
        return
    for lesson in lessons:
        index = lesson.match.get("index", {})
        for path in (plain_path(path, project) for path in paths):
            name = path.rstrip("/").rsplit("/", 1)[-1]
            below = path_below(path, project)
            place = index.get(name)
            has_place = place is not None and f"/{path}".endswith(f"/{place}")
            is_of_other_tree = is_absolute(below) and "/." in below  # as of ~/.claude/skills
            if place in (None, below) or (has_place and not project) or is_of_other_tree:
                continue  # it is not there, or may be that one
            if has_place and is_absolute(below):
                yield Told(lesson, f"{code(name)} is at {code(f'{project}/{place}')}.", f"{project}/{place}")
            else:
                yield Told(lesson, f"{code(name)} is at {code(place)} in this project.", place)


def _matches(lesson: Lesson, segment: Segment) -> bool:
    """Whether a call's segment has the key of an always-failing lesson."""
    match = lesson.match
    program = segment.called if match["kind"] == "program" else segment.program
    if match["kind"] == "program" and missing_command(match["headline"]):
        program = program or segment.runner
    values = {"program": program, "operation": segment.operation}
    is_same = all(match[name] == value for name, value in values.items() if name in match)
    return (
        match["kind"] in ("wrapper", "program", "flag")
        and is_same
        and match.get("wrapper") in (None, *(segment.wrappers if "/" not in segment.runner else ()))
        and match.get("option") in (None, *segment.options)
    )


def _told_of(lesson: Lesson, segment: Segment, lessons: Collection[Lesson]) -> Told:
    """Return an always-failing lesson for one call: of a wrapper with the call that it should have been.

    Where a call fails as well with what worked in the place of its program, the lesson of that.
    """
    if lesson.match["kind"] == "program" and lesson.instead:
        replaced = split_line(segment.full_call.replace(lesson.match["program"], lesson.instead, 1), None)[0]
        warning = (each for each in lessons if each.warns and each.kind == "always_fails")
        if worse := next((each for each in warning if any(_matches(each, other) for other in replaced)), None):
            return Told(worse, worse.line)
    if lesson.match["kind"] != "wrapper" or segment.shown is None:
        return Told(lesson, lesson.line, None if lesson.match["kind"] == "wrapper" else lesson.instead)
    if lesson.match["wrapper"] in segment.prefix:  # which brings the program: without it there is none
        return Told(lesson, lesson.line, lesson.instead)
    fails = lesson.line.partition(" (")[0]  # here, or on this machine
    counts = f"{lesson.failures} of {lesson.failures + lesson.successes}"
    return Told(lesson, f"{fails} ({counts}): run {code(segment.shown)}.", segment.shown)


def _skill(tool: str, arguments: Any) -> str | None:
    name = tool_kinds.tool_base_name(tool)
    return skill_name(arguments, name) if name in SKILL_TOOLS and isinstance(arguments, dict) else None
