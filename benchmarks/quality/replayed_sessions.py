"""Sessions of Claude Code or Codex as their hooks met them: prompts and calls in order, each call with what came of it.

Pure but for reading the files. Only the main thread is replayed: what sub-agents did reaches no log line of its own.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from consolidator.formats.base import ForeignEvent, ForeignSession, Format
from consolidator.formats.common.drafts import object_of
from consolidator.formats.common.log_files import find_files
from consolidator.formats.registry import get_format, recognise_format
from consolidator.memory.calls.call_pairing import KEEPS_FOLDER
from consolidator.memory.calls.directory import find_left_folder, line_directory
from consolidator.memory.calls.shell import Command, parse_commands
from consolidator.memory.calls.shell_programs import word_set
from consolidator.memory.calls.symbols import read_call, shell_command
from consolidator.models.payload import EventType

FORMATS = ("claude-code", "codex")
Outcome = Literal["ok", "failed", "masked", "ignored"]  # masked: the exit code is another command's; ignored: none
READS = word_set("cat head tail less grep rg ls find wc sed awk jq sort uniq cut tr xargs echo printf cd pwd tree")
GIT_READS = word_set("log diff show status blame branch grep ls-files stash rev-parse")
_WRAPPED = frozenset({"rtk", "bunx", "npx", "uvx"})  # prefixes that run another program, unknown to a shell
_COUNTED = re.compile(r"\b[1-9]\d* (?:tests? )?(?:fail|error)|\bFound [1-9]\d* error", re.IGNORECASE)
_PASSED = re.compile(r"(?<!\d)0 (?:fail|errors?)\b", re.IGNORECASE)
_NAMED = re.compile(
    r"^(?:\S+: )?(?:\(eval\):\d+: |bash: |zsh: |sh: )?(?:line \d+: )?"
    r"(?:(?P<a>[\w.-]+): (?:illegal|invalid|unrecognized) option|command not found: (?P<b>[\w.-]+)"
    r"|(?P<c>[\w.-]+): command not found|error: unrecognized subcommand '(?P<d>[\w.-]+)')",
    re.MULTILINE,
)
_NOT_RUN = re.compile(r"^(?:\(eval\)|zsh):\d+: no matches found: -", re.MULTILINE)  # zsh, of an option not in quotes
_ERROR_LINE = re.compile(
    r"^error: |^CMake Error[: ]|^error\[|^error TS\d|\bScript not found\b|: error TS\d+:|husky - .* failed",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Segment:
    """One program of a shell call."""

    operation: str  # program, subcommand or task: "bun run test", "git commit"
    wrappers: tuple[str, ...]
    words: tuple[str, ...]  # all after the program
    directory: str | None  # where it runs

    @property
    def flags(self) -> frozenset[str]:
        """The options, as written."""
        return frozenset(word for word in self.words if word.startswith("-") and word != "-")

    @property
    def paths(self) -> frozenset[str]:
        """The operands that read like a path."""
        return frozenset(word for word in self.words if is_path(word))


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool: what the agent asked, where, and what came of it."""

    call_id: str
    tool: str
    arguments: Any
    directory: str  # the working directory of the log's line
    outcome: Outcome = "ok"
    text: str = ""  # of the result

    @property
    def command(self) -> str | None:
        """The command line of a shell call."""
        return shell_command(*read_call(self.tool, self.arguments))

    @property
    def segments(self) -> list[Segment]:
        """The programs of a shell call, without `cd`."""
        return [] if self.command is None else parse_segments(self.command, self.directory)

    @property
    def failed(self) -> bool:
        """Whether it failed, also where its exit code hides that."""
        return self.outcome in ("failed", "masked")


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that a hook is called for: a prompt, a call about to run, or a result."""

    kind: Literal["prompt", "call", "result"]
    directory: str
    text: str = ""  # of a prompt
    call: int = -1  # of a call and a result: its position among the session's calls


@dataclass(slots=True)
class ReplayedSession:
    """A session of the log."""

    agent: str  # and the format of its log
    origin: str
    path: Path
    started: str = ""
    directory: str = ""
    logged: str = ""  # the last directory of the log, which tells late where a call has left the shell
    left_in: str | None = None
    steps: list[Step] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)


def is_path(word: str) -> bool:
    """Whether a word reads like a path."""
    if word.startswith("-") or any(mark in word for mark in "<>{}*…|$") or "://" in word:
        return False
    return "/" in word.strip("/") or re.fullmatch(r"[\w.-]+\.[a-z]{1,5}", word) is not None


def parse_segments(line: str, directory: str) -> list[Segment]:
    """Return the programs that a command line runs, each with the directory that the line moved to before it."""
    where = line_directory(line, directory) or directory
    return [_build_segment(command, where) for command in parse_commands(line) if command.program != "cd"]


def _build_segment(command: Command, directory: str) -> Segment:
    program, words, wrappers = command.program, list(command.words), list(command.wrappers)
    while program in _WRAPPED and words and re.fullmatch(r"[a-z][\w.-]*", words[0]):
        wrappers.append(program)
        program, words = words[0], words[1:]
    if wrappers and wrappers[-1] in _WRAPPED:  # parsed again: the program's own subcommands are known then
        inner = parse_commands(" ".join([program, *(json.dumps(word) for word in words)]))
        command = inner[0] if inner else command
        program = command.program
    name, operands = command.subcommand or "", list(command.operands)
    if program in ("bun", "npm", "pnpm", "yarn", "mise", "deno", "just", "make", "task", "uv", "cargo"):
        if not name and operands:
            name = operands[0]
        elif name == "run" and operands:
            name += f" {operands[0]}"
    return Segment(f"{program} {name}".strip(), tuple(wrappers), tuple(words), directory)


def classify_outcome(call: Call, status: str, reason: str | None) -> Outcome:
    """Return what came of a call; a status that a pipe, `||` or `; echo` hides is read from the text."""
    if reason in ("rejected", "aborted", "cascade"):
        return "ignored"
    if status == "error":
        return "failed"
    return "masked" if call.command is not None and _shows_failure(call.command, call.text) else "ok"


def _shows_failure(line: str, text: str) -> bool:
    if _NOT_RUN.search(text):
        return True
    commands = parse_commands(line)
    programs = {command.program for command in commands} | {word for c in commands for word in c.words}
    for match in _NAMED.finditer(text):
        if programs & {name for name in match.groups() if name}:
            return True
    if not any(c.link in ("|", "|&", "||") or (c.link == ";" and c.program == "echo") for c in commands):
        return False
    if all(c.program in READS or (c.program == "git" and c.subcommand in GIT_READS) for c in commands):
        return False
    return not _PASSED.search(text) and bool(_ERROR_LINE.search(text) or _COUNTED.search(text))


def read_sessions(folder: Path) -> list[ReplayedSession]:
    """Return the sessions below a folder in order of time, without sub-agents' own files."""
    sessions: dict[str, ReplayedSession] = {}
    log_format = find_format(folder)
    for path in log_format.files(folder):
        session, origin = None, ""
        directories = _read_directories(path)
        pending: dict[str, int] = {}
        for item in log_format.read(path, folder):
            if isinstance(item, ForeignSession):
                origin = item.origin
                new = ReplayedSession(log_format.NAME, origin, path)
                session = None if item.kind == "sub-agent" else sessions.setdefault(origin, new)
            elif isinstance(item, ForeignEvent) and session is not None:
                _take_event(session, item, directories, pending)
    return sorted(sessions.values(), key=lambda session: (session.started, session.origin))


def find_format(folder: Path) -> Format:
    """Return the format of a folder's logs, as the first of them that is of one of ours says."""
    recognised = (recognise_format(path) for path in find_files(folder, ".jsonl"))
    return next((each for each in recognised if each and each.NAME in FORMATS), get_format(FORMATS[0]))


def _read_directories(path: Path) -> dict[int, str]:
    directories: dict[int, str] = {}
    last = None  # that Codex' own lines say: it stands where it changes
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            entry = object_of(entry)
            last = object_of(entry.get("payload")).get("cwd") or last
            if isinstance(directory := entry.get("cwd") or last, str):
                directories[number] = directory
    return directories


def _take_event(
    session: ReplayedSession, event: ForeignEvent, directories: dict[int, str], pending: dict[str, int]
) -> None:
    data = event.data
    directory = directories.get(event.line or 0, session.directory)
    session.directory = session.directory or directory
    if directory != session.logged:
        session.logged, session.left_in = directory, None
    directory = session.left_in or directory
    session.started = session.started or str(data.get("occurred_at") or "")
    if event.type is EventType.USER_MESSAGE and data.get("origin", "user") == "user":
        session.steps.append(Step("prompt", directory, str(data["text"])))
    elif event.type is EventType.TOOL_CALL:
        tool, arguments = data["tool"], data.get("arguments")
        directory = object_of(arguments).get("workdir") or directory
        pending[data["call_id"]] = len(session.calls)
        session.steps.append(Step("call", directory, call=len(session.calls)))
        session.calls.append(Call(data["call_id"], tool, arguments, directory, "ignored"))
    elif event.type is EventType.TOOL_RESULT and data["call_id"] in pending:
        position = pending.pop(data["call_id"])
        asked = session.calls[position]
        text = data.get("content") if isinstance(data.get("content"), str) else json.dumps(data.get("content"))
        call = Call(asked.call_id, asked.tool, asked.arguments, asked.directory, "ok", strip_marks(str(text)))
        outcome = classify_outcome(call, data.get("status", "ok"), data.get("reason"))
        session.calls[position] = Call(call.call_id, call.tool, call.arguments, call.directory, outcome, call.text)
        if call.tool == KEEPS_FOLDER and call.command is not None and outcome in ("ok", "masked"):
            was_reset = "Shell cwd was reset" in call.text[-300:]
            session.left_in = None if was_reset else find_left_folder(call.command, call.directory)
        session.steps.append(Step("result", asked.directory if session.agent == "codex" else directory, call=position))


def strip_marks(text: str) -> str:
    """Return a result as the hook's payload has it: without the tags that the log puts around an error."""
    return re.sub(r"</?tool_use_error>", "", text)
