"""Splits a shell call into its segments: each program that it runs, how, where, and which of them failed.

Pure. `calls.shell` parses the line; this module names the operation with its wrappers dropped and remembered, so that
`rtk bun run test` and `bun run test` are one operation.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice, takewhile
from typing import Any

from consolidator.memory.calls import shell
from consolidator.memory.calls.blame import find_blamed, only_looks
from consolidator.memory.calls.directory import line_directory
from consolidator.memory.calls.shell import Command
from consolidator.memory.calls.shell_programs import MINOR_PROGRAMS, word_set
from consolidator.memory.calls.shell_words import (
    MAX_LINE,
    PLAIN_WRAPPERS,
    ends_own_shell,
    find_patterns,
    is_pattern,
    skip_options,
)
from consolidator.memory.solutions.fingerprint import missing_command
from consolidator.memory.solutions.line_kinds import NO_FOLDER, NO_MATCH

MAX_SEGMENTS = 12
KILLED = re.compile(r"\s*(?:Error: )?Exit code (137|14[34]|1)\b")  # a shell that a signal ended, or may have ended
_ENDS_WELL = word_set("echo printf true : sleep date wc head tail")
MIN_SHARED_WORDS = 0.5  # of a call's words after its program, in another one that does the same
MAX_READ = 60_000  # characters of an output that are read for what the shell says
MAX_PATTERNS = 3  # words that are looked at for what a shell expands
_QUERY = re.compile(r"\w\?\w+=")
MAX_CALL = 160  # characters of a segment as it is shown
_SILENT_WRAPPERS = ("command", "exec", "builtin")
TRANSPARENT_WRAPPERS = frozenset(PLAIN_WRAPPERS).difference(_SILENT_WRAPPERS)  # a failure is the program's
_MUTE = frozenset({"2>/dev/null", "&>/dev/null"})  # what fails so shows nothing, and others' output is no sign of it
_TAKES_PATTERN = re.compile(r"\s--?(?:i?name|i?path|include|exclude|i?glob|g)\s+$")
_PATH = re.compile(r"(?=.{3,199}$)(?!.*(?:://|\s))(?:.*/|[\w.-]+\.\w{1,5}$)")
_ONE_WORD = re.compile(r"(?!\w+=)(?:[\w./@+?=-]|\[[\w.]+\]|\([\w-]+\))+")  # nothing that a shell reads otherwise
_PLAIN_ASSIGNMENT = re.compile(r"(?!.{81})\w+=(?:[\w./:~@%+,-]|\$\w+|\$\{\w+\})*")
ASSIGNMENTS = re.compile(r"^(?:\w+=(?:'[^']*'|[^\s'])* )*")
_SECRETS = re.compile(r"(?<!\S)(?<!-e )(?<!--env )\w+=\S*\[redacted:\S* ")  # in assignments
LEFT_OUT = re.compile(r"…|\[redacted:")
_CONTAINERS = frozenset({"docker", "podman", "kubectl", "docker-compose", "podman-compose"})
_EXEC_OPTIONS = word_set(
    "-e --env --env-file -u --user -w --workdir --index -n --namespace -c --container --context -i -p -o -l -F -J"
)
NO_TASKS = frozenset({"git", "gh", "glab", "hg", "jj", "docker", "kubectl"})  # whose subcommands are no project's tasks
_PURPOSES = {  # the first that an operation matches
    "format": r"\b(?:fmt|format|prettier|black|(?<!dart )(?:lint[:-])?fix|format:\w+)$|^ruff format|^gofmt",
    "typecheck": r"\b(?:type-?check|check-types|types|tsc|mypy|pyright|tsgo)(?::\S+)?$|^(?:cargo|ty) check",
    "lint": r"\blint(?:[:_-]\S+)?$|^[a-z-]*lint(?:-cli\d?)?\b|^(?:flake8|shellcheck)\b"
    r"|^(?:ruff|biome) (?:check|lint)|(?:clippy|credo)$|^(?:flutter|dart) analyze$",
    "test": r"\b(?:tests?|spec|e2e)(?:[:_-]\S+)?$|^(?:pytest|unittest|jest|vitest|mocha|rspec|phpunit|tox|nox)\b",
    "generate": r"\b(?:generate|codegen|gen)\b|:(?:generate|gen|types)$",
    "migrate": r"\bmigrat\w+\b|^alembic\b",
    "deploy": r"\b(?:deploy|publish|release)\b",
    "build": r"(?:\b|:)(?:build|compile|(?<!brew )bundle)\b",
    "install": r"\binstall$|^(?:uv|poetry) sync$|^(?:npm|pnpm) ci$|^mix deps\.get$",
    "run": r"\s(?:[\w.-]+[:_-])?(?:dev|start|serve)$|^serve$",
    "check": r"^(?:make|just|task|npm|pnpm|yarn|bun|deno|mise|turbo|nx|poe|rake|gradlew?|mvnw?|composer)\b.* "
    r"(?:checks?|verify|validate|ci|pre-?commit)(?::all)?$",
}
_SCRIPT = re.compile(  # what a script is for stands last in its name: `run_e2e.sh`, not `update-test-data.js`
    r"(^|\s)\S*?([A-Za-z0-9]+)(?:[_-]all)?\.(?:(?:ba|z)?sh|py|rb|pl|php|[cm]?[jt]s|exp|ps1|lua)$"
)
FORMAT_CHECK = "format check"  # of a formatter with an option by which it only looks
_PURPOSE_PATTERNS = {purpose: re.compile(pattern) for purpose, pattern in _PURPOSES.items()}


@dataclass(frozen=True, slots=True)
class Segment:
    """One program of a shell call."""

    program: str
    operation: str  # program, subcommand or task; without wrappers
    call: str  # as it can be run, without wrappers and redirections, cut to MAX_CALL
    wrappers: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    link: str = ""
    piped: bool = False  # its exit status does not decide the call's
    ok: bool | None = None  # None: it did not run, or nothing tells
    prefix: str = ""  # what the call needs before it: "CI=1 ", "uv run ", "./"
    is_hostile: bool = False  # the line that it stands in is told to nobody
    script: str = ""  # the call up to the script that its interpreter runs, as written: "bash -x tools/check.sh"

    @classmethod
    def from_json(cls, values: Sequence[Any]) -> Segment:
        """Read a segment whose values are stored in order."""
        values = [tuple(value) if isinstance(value, list) else value for value in values]
        return cls(*values)

    @property
    def full_call(self) -> str:
        """The call as it ran; where a word was left out, or the end, it has an ellipsis."""
        return self.prefix + self.call

    @property
    def bare_call(self) -> str | None:
        """The operation alone, with what it needs before it; None where that has a part that was left out."""
        bare = _SECRETS.sub("", self.prefix) + (self.script or self.operation)
        return None if LEFT_OUT.search(bare) else bare

    @property
    def shown(self) -> str | None:
        """The call as it ran and may be told; None for a hostile one, or where a part of it was left out."""
        return None if self.is_hostile or LEFT_OUT.search(self.full_call) else self.full_call

    @property
    def called(self) -> str | None:
        """The program as it is called, with its folder; None where another one runs it, which may have brought it."""
        folder = ASSIGNMENTS.sub("", self.prefix)
        is_alone = TRANSPARENT_WRAPPERS.issuperset(self.wrappers) and " " not in folder
        return folder + self.program if is_alone else None

    @property
    def runner(self) -> str:
        """What runs the program, as written: `python3` of `python3 -m pytest`; "" where nothing does."""
        name, space, _ = ASSIGNMENTS.sub("", self.prefix).partition(" ")
        return name if space else ""

    @property
    def is_trivial(self) -> bool:
        """Whether it only looks at something: never a fix, and for no purpose."""
        return only_looks(self.program, self.operation)


@lru_cache(maxsize=8192)
def purpose_of(operation: str) -> str | None:
    """Return what an operation is for: test, lint, format, typecheck, build, ...; None for anything else."""
    operation, _, only = operation.partition(" -")  # an option by which it only looks
    operation = _SCRIPT.sub(r"\1\2", operation)
    if operation.split(" ", 1)[0] in NO_TASKS or operation.startswith("/") or only == "-dry-run":
        return None  # what a path names was built for a moment, as /tmp/i.test
    purpose = next((purpose for purpose, pattern in _PURPOSE_PATTERNS.items() if pattern.search(operation)), None)
    return FORMAT_CHECK if purpose == "format" and only else purpose


def resolves(segment: Segment, failed: Segment) -> bool:
    """Whether the success of a segment shows that the failed operation works now."""
    if segment.operation in (failed.operation, failed.operation.partition(" -")[0]):
        return True
    if purpose_of(failed.operation) is not None or failed.program in NO_TASKS or segment.program != failed.program:
        return False
    words = set(failed.call.split()[1:])
    return len(words & set(segment.call.split()[1:])) >= MIN_SHARED_WORDS * len(words)


def parse_segments(line: str) -> list[Command]:
    """Return the commands of a line that its segments are made of."""
    return shell.parse_commands(line)[:MAX_SEGMENTS]


def split_line(line: str, directory: str | None) -> tuple[list[Segment], str | None]:
    """Return the segments of a line, and where it runs; `directory` is where the shell is before it."""
    commands = parse_segments(line)
    segments = []
    for position, command in enumerate(commands):
        following = commands[position + 1] if position + 1 < len(commands) else None
        segments.append(_segment(command, following is not None and following.link in ("|", "|&", "||", ";", "&")))
    return segments, line_directory(line, directory)


def run_elsewhere(segment: Segment) -> Segment | None:
    """Return the program that a call runs in a container, in a pod or on another machine, as it is called from here."""
    is_exec = segment.program in _CONTAINERS and segment.operation.endswith(" exec")
    return _parse_elsewhere(segment.full_call) if is_exec or segment.program == "ssh" else None


@lru_cache(maxsize=8192)
def _parse_elsewhere(call: str) -> Segment | None:
    command = parse_segments(call)[0]
    words = list(command.words[command.words.index("exec") + 1 :] if command.subcommand else command.words)
    inner = parse_segments(shlex.join(skip_options(words, _EXEC_OPTIONS, 1)))
    segment = _segment(inner[0], False) if len(inner) == 1 else None
    if segment is None or not call.endswith(f" {segment.full_call}"):
        return None  # a script of several programs, in one word
    prefix = call.removesuffix(segment.full_call) + segment.prefix
    return None if LEFT_OUT.search(prefix) else replace(segment, prefix=prefix)


def find_missing(text: str) -> set[str]:
    """Return the programs that a shell did not find."""
    lines = text[:MAX_READ].splitlines() if "not found" in text else ()
    return {name for line in lines if "not found" in line and (name := missing_command(line))}


def blame_runners(segments: list[Segment], text: str) -> list[Segment]:
    """Return segments; where what was to run one is not there, that is the program: of `python -m pytest` python."""
    missing = find_missing(text) if any(segment.runner for segment in segments) else ()
    return [_as_runner(segment, segment.runner) if segment.runner in missing else segment for segment in segments]


def _as_runner(segment: Segment, name: str) -> Segment:
    call = ASSIGNMENTS.sub("", segment.full_call)
    wrappers = tuple(wrapper for wrapper in segment.wrappers if wrapper in TRANSPARENT_WRAPPERS)
    prefix = segment.full_call.removesuffix(call)
    return Segment(name, name, call, wrappers, (), segment.paths, segment.link, segment.piped, prefix=prefix)


def has_ended_itself(segments: Sequence[Segment], line: str, text: str) -> bool:
    """Whether a line ended its own shell, by its exit code: of a signal, or 1 though it prints something, or ends well.

    `text` is what a failed call gave.
    """
    killed = KILLED.match(text) if segments and ends_own_shell(line) else None
    if killed is None or killed[1] != "1":
        return killed is not None
    link = next((each.link for each in reversed(segments) if each.link not in ("|", "|&")), "")
    return segments[-1].program in _ENDS_WELL and link in (";", "&", "||") and not text[killed.end() :].strip()


def quote_pattern(line: str, text: str) -> tuple[str, str] | None:
    """Return the word of a line that zsh took for a pattern by what it printed, and the line with that word quoted.

    None where the word may mean files: that there are none is what the call was about.
    """
    is_of_zsh = "zsh" in text or "(eval)" in text
    matches = [*islice(NO_MATCH.finditer(text[:MAX_READ]), MAX_PATTERNS)] if is_of_zsh else []
    words = line[:MAX_LINE].split() if matches else ()
    given = [word for word in words if _is_name(word) and _ONE_WORD.fullmatch(word)]
    for word in ((match[1] or (f"={match[2]}" if match[2] else "".join(given[:1]))).strip() for match in matches):
        names = {word, *given} if word and _is_name(word) else set()
        patterns = find_patterns(line, word, *names)
        meant = [p for p in patterns if p[0] in "-=" or p in names or _TAKES_PATTERN.search(line, 0, p.start)]
        first = next((pattern for pattern in patterns if pattern == word), None)  # where the shell ended
        if any(pattern is first for pattern in meant):
            for pattern in reversed(meant):
                line = f"{line[: pattern.start]}{_quote(pattern)}{line[pattern.start + len(pattern) :]}"
            return word, line
    return None


def _quote(word: str) -> str:
    return f"'{word}'" if word == shlex.quote(word) else shlex.quote(word)


def _is_name(word: str) -> bool:
    """Whether a word that a shell takes for a pattern is a name: `[slug].astro`, `app/(shop)/a.ts`, `path?ref=main`."""
    return "*" not in word and (is_pattern(f"/{word}/") or _QUERY.search(word) is not None)


def paths_of(segments: Sequence[Segment]) -> list[str]:
    """Return the paths that a line's programs were given."""
    return [path for segment in segments for path in segment.paths]


def judge_segments(
    segments: Sequence[Segment], line: str, ok: bool, text: str, failure_text: bool
) -> list[bool | None]:
    """Return for each segment whether it succeeded, from the call's outcome and output.

    `failure_text` tells that the output shows a failure though the call's exit status hides it.
    """
    outcomes: list[bool | None] = [None] * len(segments)
    missing = find_missing(text)
    if ok and not failure_text:
        pipelines = sum(segment.link not in ("|", "|&") and segment.program != "cd" for segment in segments)
        commands = parse_segments(line) if pipelines > 1 and "/dev/null" in line else ()
        mute = {n for n, command in enumerate(commands) if not _MUTE.isdisjoint(command.redirections)}
        for n, segment in enumerate(segments):
            following = segments[n + 1] if n + 1 < len(segments) else None
            is_replaced = following is not None and following.link == "||" and following.program not in MINOR_PROGRAMS
            is_seen = not segment.piped or (bool(text.strip()) and not is_replaced and n not in mute)
            outcomes[n] = True if segment.link != "||" and is_seen and segment.program not in missing else None
        return outcomes
    has_no_folder = NO_FOLDER.search(text[:4000]) is not None
    failed = None if has_no_folder else find_blamed(parse_segments(line), text, is_masked=ok)
    if failed is None:
        return outcomes
    outcomes[failed] = False
    for n in range(failed):
        if segments[n].link in ("", "&&") and not segments[n].piped:
            outcomes[n] = True
    for n in range(failed + 1, len(segments)):
        if segments[n].link in (";", "|", "|&", "&") and ok:
            outcomes[n] = True if segments[n].is_trivial and segments[n].program not in missing else None
    return outcomes


def _segment(command: Command, piped: bool) -> Segment:
    *before, written = command.leading or (command.program,)
    folder, _, name = written.rpartition("/")
    program = name[:80] or command.program  # as it is called: `python3` may be there where `python` is not
    words = [_show_word(word) for word in command.words]
    call = " ".join([program, *words])
    script = command.script or ""
    before = [_show_assignment(word) for word in command.assignments] + [_show_word(word) for word in before]
    return Segment(
        program=program,
        operation=" ".join(
            [program + command.operation.removeprefix(command.program), *filter(None, [re.split(r"[/\\]", script)[-1]])]
        ),
        call=call if len(call) <= MAX_CALL else call[: MAX_CALL - 1] + "…",
        wrappers=tuple(wrapper for wrapper in command.wrappers if wrapper not in _SILENT_WRAPPERS),
        options=tuple(option.partition("=")[0][:40] for option in _own_options(command)[:12]),
        paths=tuple(word for word in command.operands if _PATH.match(word))[:8],
        link=command.link,
        piped=piped,
        prefix="".join(f"{word} " for word in before) + (f"{folder}/" if folder or written.startswith("/") else ""),
        script=" ".join([program, *words[: command.words.index(script) + 1]]) if script else "",
    )


def _own_options(command: Command) -> tuple[str, ...]:
    """Return a command's options; of one that runs another elsewhere those before that, which has its own."""
    name = (command.subcommand or "").split()
    if command.program != "ssh" and (command.program not in _CONTAINERS or name[-1:] not in (["exec"], ["run"])):
        return command.options
    return tuple(takewhile(lambda word: word.startswith("-"), command.words[len(name) :]))


def _show_assignment(word: str) -> str:
    name, equals, value = word.partition("=")
    return word if _PLAIN_ASSIGNMENT.fullmatch(word) else name + equals + _show_word(value)


def _show_word(word: str) -> str:
    if len(word) > 80 or "\n" in word:
        return "…"
    return shlex.quote(word) if re.search(r"[\s;&|<>()$`\"']", word) else word
