"""Folds a session's events into its trace: what lessons need to know of its calls, redacted and bounded.

A left fold: however a session is cut into nights, the trace is the same. It is kept after the events are pruned.
"""

from __future__ import annotations

import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from consolidator.memory.calls import tool_kinds
from consolidator.memory.calls.blame import SAYS_NOT_FOUND, find_named
from consolidator.memory.calls.call_pairing import CallPairer, CompletedCall
from consolidator.memory.calls.directory import call_directory, is_absolute
from consolidator.memory.calls.harm import line_harm
from consolidator.memory.calls.operation import patched_files
from consolidator.memory.calls.shell_words import ends_own_shell
from consolidator.memory.calls.symbols import runs_in_shell, shell_command
from consolidator.memory.lessons.headlines import Headline, find_headlines, find_rules, hash_printed
from consolidator.memory.lessons.segments import (
    Segment,
    blame_runners,
    has_ended_itself,
    judge_segments,
    parse_segments,
    purpose_of,
    quote_pattern,
    split_line,
)
from consolidator.memory.solutions.error_line import shows_failure, truncate_middle
from consolidator.memory.solutions.line_kinds import NO_MATCH, NOT_SH
from consolidator.models.event import Event, parse_timestamp
from consolidator.models.payload import EventType

TRACE_VERSION = "t21"
MAX_CALLS = 3000  # of a session: the latest
MAX_LINE = 240  # characters of a command line
MAX_ABOUT, MAX_WORDS_READ = 120, 2000  # characters of what is said of a call, and that are redacted for it
MAX_FOLDERS = 12
CHARS_OF_TOKEN = 4
MAX_CHECKS = 10
MAX_GIVEN = 20  # names of arguments
MAX_UNMATCHED, MAX_UNMATCHED_LINES, MIN_LINE = 4, 20, 4  # failed edits and their lines; characters of a line
MAX_SCANNED = 60_000  # characters of an output that are searched for folders and checks
_REDACTED = 60_000  # characters of a failed output that are redacted before it is read
_BOOKKEEPING = re.compile(
    r"todo_?(?:write|read)|task(?:create|update|list|get|output|stop)?|agent|exit_?plan_?mode|enter_?plan_?mode|"
    r"ask_?user_?question|tool_?search|update_plan|write_stdin|bash_?output|kill_?shell|web_?(?:fetch|search)"
)
NO_SLEEP = re.compile(r"(?:<tool_use_error>)?Blocked: sleep \S+ followed by: ")  # by the client
NO_MATCHES, POWERSHELL = "shell: no matches found", "shell: powershell"
KILLED_SHELL, SPARED_SHELL = "pkill", "pkill spared"
NOT_MATCHED = "to replace not found"  # what an edit says whose old text is not in the file
SKILL_TOOLS = ("skill", "slashcommand")
_FOLDER = re.compile(r"(?<![\w/.@:-])(?:\./)?([A-Za-z_][\w-]*/[\w@.-]+)/[\w@./-]*\w\.\w{1,5}\b")
_CHECK = re.compile(
    r"^(?:\$ (?P<echo>\S.*)|\[STARTED\] (?P<staged>(?!Running|Preparing|Applying|Cleaning|Backing|[*.\w/{]*\*)\S.*)"
    r"|(?P<hook>[\w .:/()-]{2,60}?)\.{4,}\s?(?:Passed|Failed))$",
    re.MULTILINE,
)
_WARNS = re.compile(r"\bwarning|^\s*(?:!|info) ", re.IGNORECASE | re.MULTILINE)  # a linter, which may not fail by that
_PLAIN_NAME = re.compile(r"[A-Za-z]\w{1,39}", re.ASCII)
_LINE_NUMBER = re.compile(r"^ *\d+(?:\u2192|\t|[|:] ?)", re.MULTILINE)  # before the lines of a file that was read
_REPOSITORY = re.compile(
    r"repos/(\w[\w.-]*)/(\w[\w.-]*)|(?:--repo|-R)[ =](\w[\w.-]*)/(\w[\w.-]*)"
    r"|owner: ?\\?\"(\w[\w.-]*)\\?\",? ?(?:name|repo): ?\\?\"([\w.-]+)"  # in a GraphQL query
)


@dataclass(slots=True)
class TracedCall:
    """One call of a session; how it is stored is `to_json`."""

    seq: int
    kind: str  # shell | read | edit | search | skill | tool
    ok: bool | None  # None: neither a success nor a failure (rejected, cancelled, nothing to tell)
    name: str = ""  # the tool; of a skill, which one
    reason: str | None = None  # cascade | rejected | aborted | timeout
    directory: str | None = None  # absolute, where known
    line: str = ""  # of a shell call, redacted and cut
    segments: list[Segment] = field(default_factory=list)
    path: str | None = None  # of a file tool; of a patch the first file
    headlines: list[Headline] = field(default_factory=list)  # of a failure
    printed: list[str] = field(default_factory=list)  # hashes of error-like lines of a success
    folders: list[str] = field(default_factory=list)  # that the output of a check or commit names
    checks: list[str] = field(default_factory=list)  # commands that a commit ran
    echoed: str | None = None  # what a task runner printed that it runs
    # Of `gh`: the repository; of a file tool: "tab+1" where a call shows that each line of a failed edit's old text
    # lacked a tab, "tab+0" where it shows no such thing; "sleep" of a call that was refused for that; `KILLED_SHELL`
    # where a line ended its own shell, `SPARED_SHELL` where it did not though its pattern matches the line.
    value: str | None = None
    at: str = ""  # ISO 8601
    seconds: float | None = None
    tokens: int = 0  # that it took of the context, about
    mark: int = 0  # by which its call id is known
    about: str = ""  # what was said of it before it ran, redacted and cut: its description, else the words before it
    given: list[str] = field(default_factory=list)  # the names of a tool's arguments, without what they hold
    rules: list[str] = field(default_factory=list)  # that a check or commit names beside what it found

    def to_json(self) -> list[Any]:
        """Return the call as JSON: its values in order."""
        return [_plain(getattr(self, name)) for name in self.__slots__]

    @classmethod
    def from_json(cls, values: list[Any]) -> TracedCall:
        """Read what `to_json` returned."""
        call = cls(*values)
        call.segments = [Segment.from_json(row) for row in values[7]]
        call.headlines = [Headline(*row) for row in values[9]]
        return call


def _plain(value: Any) -> Any:
    if isinstance(value, list) and value and isinstance(value[0], (Segment, Headline)):
        return [[getattr(item, name) for name in item.__slots__] for item in value]
    return value


class TraceFold:
    """The fold. Feed it a session's events in order of seq, then `pack` it."""

    def __init__(self, redact: Callable[[str], str], packed: bytes = b"", pairer: CallPairer | None = None) -> None:
        self._redact = redact
        state = _unpack(packed)
        self._start: str | None = state.get("start")
        if pairer is None:  # another fold shares none
            pairer = CallPairer.from_json(state["pairer"]) if "pairer" in state else CallPairer()
        self._pairer = pairer
        self._words: str = state.get("words", "")  # the last that were said since a call's result, redacted and cut
        self._unread: object = None  # likewise, as they stand in the event
        self._abouts: dict[int, str] = {int(seq): words for seq, words in state.get("abouts", {}).items()}
        self._unmatched: dict[str, dict[str, int]] = state.get("unmatched", {})  # old texts of failed edits, by path
        self._calls: list[Any] = state.get("calls", [])  # as JSON: old ones are never read again

    def feed(self, event: Event) -> None:
        """Take the next event."""
        if event.type is EventType.SESSION_START and self._start is None:
            cwd = event.data.get("cwd")
            self._start = self._redact(cwd)[:300] if isinstance(cwd, str) else None
        elif event.type in (EventType.USER_MESSAGE, EventType.ASSISTANT_RESPONSE):
            self._unread = event.data.get("text") or ""
        completed = self._pairer.feed(event)
        if event.type is EventType.TOOL_CALL:
            self._abouts[event.seq] = self._describe(**self._pairer.pending[-1])
        if completed is not None:
            call = self._trace(completed, completed.cwd and self._redact(completed.cwd), event.occurred_at)
            about, self._words, self._unread = self._abouts.pop(completed.seq, ""), "", None
            if call is not None:
                call.about = about
                self._calls.append(call.to_json())
                del self._calls[:-MAX_CALLS]

    def pack(self) -> bytes:
        """Return the trace with the state of the fold, compressed; `TraceFold` and `Trace.unpack` read it."""
        pending = {entry["seq"] for entry in self._pairer.pending}
        state = {
            "version": TRACE_VERSION,
            "start": self._start,
            "pairer": self._pairer.to_json(),
            "words": self._last_words(),
            "abouts": {str(seq): words for seq, words in sorted(self._abouts.items()) if seq in pending},
            "unmatched": self._unmatched,
            "calls": self._calls,
        }
        return zlib.compress(json.dumps(state, ensure_ascii=True, separators=(",", ":")).encode(), 3)

    def _describe(self, tool: str, arguments: Any, **_: Any) -> str:
        """Return what is said of a shell call: its description, else the words before it."""
        if shell_command(tool, arguments) is None:
            return ""
        described = arguments.get("description") if isinstance(arguments, Mapping) else None
        return self._read_words(described) or self._last_words()

    def _last_words(self) -> str:
        """Return the last words that were said, which are read once: cut, they may be redacted otherwise."""
        if self._unread is not None:
            self._words, self._unread = self._read_words(self._unread), None
        return self._words

    def _read_words(self, text: object) -> str:
        """Return the end of what was said, redacted: what is done next stands last."""
        if not isinstance(text, str):
            return ""
        end = text if len(text) <= MAX_WORDS_READ else text[-MAX_WORDS_READ:].partition(" ")[2]
        words = self._redact(" ".join(self._redact(end).split()))  # a line's end may hide what a word stands for
        return words if len(words) <= MAX_ABOUT else words[-MAX_ABOUT:].partition(" ")[2]

    def _trace(self, call: CompletedCall, place: str | None, ended: datetime) -> TracedCall | None:
        line = shell_command(call.tool, call.arguments)
        name = tool_kinds.tool_base_name(call.tool)
        if line is None and _BOOKKEEPING.fullmatch(name):
            return None
        ok: bool | None = call.ok
        if not call.ok and call.reason in ("rejected", "aborted", "cascade"):
            ok = None
        traced = TracedCall(call.seq, "tool", ok, name=call.tool[:80], reason=call.reason, at=call.occurred_at)
        traced.tokens = (len(json.dumps(call.arguments)) + len(call.result_text)) // CHARS_OF_TOKEN
        traced.mark = call_mark(call.call_id)
        started = parse_timestamp(call.occurred_at)
        traced.seconds = round((ended - started).total_seconds(), 1) if started is not None else None
        if line is not None:
            self._trace_shell(traced, call, line, place)
        else:
            self._trace_tool(traced, call, name, place)
        return traced

    def _trace_shell(self, traced: TracedCall, call: CompletedCall, line: str, place: str | None) -> None:
        traced.kind = "shell"
        folder = call_directory(call.tool, call.arguments) if isinstance(call.arguments, Mapping) else None
        start = folder if folder and is_absolute(folder) and not line.lstrip().startswith("cd ") else place
        segments, directory = split_line(line, start)
        traced.directory = directory
        traced.line = " ".join(self._redact(line[:2000]).split())[:MAX_LINE]
        text = call.result_text
        segments = blame_runners(segments, text)
        if call.is_unseen:
            segments = [replace(segment, piped=True) for segment in segments]
        hidden = [segment for segment in segments if segment.piped]
        # A shell's own word outweighs a status that a loop or `;` hides.
        may_mask = bool(hidden) or SAYS_NOT_FOUND.search(text) is not None
        masked = call.ok and may_mask and find_named(parse_segments(line), text) is not None
        if call.ok and any(not segment.is_trivial for segment in hidden):
            masked = masked or shows_failure(text)
        # The program did not run, whatever came after it; of a call that worked another's output may say so, too.
        is_unquoted = (not call.ok or NO_MATCH.match(text) is not None) and quote_pattern(line, text) is not None
        if masked := masked or (call.ok and is_unquoted):
            traced.ok = False
        elif call.ok and quote_pattern(line, text) is not None:
            traced.ok = None  # the shell's word, or what a program printed
        is_seen = traced.ok is not None
        may_end = runs_in_shell(call.arguments)
        has_ended = may_end and traced.ok is False and has_ended_itself(segments, line, text)
        is_judged = is_seen and not has_ended  # else nobody knows which segment it was
        outcomes = judge_segments(segments, line, call.ok, text, masked) if is_judged else [None] * len(segments)
        linters = [segment for segment in hidden if purpose_of(segment.operation) == "lint"]
        if linters and call.ok and not masked and not _WARNS.search(text) and find_rules(text):
            outcomes = [outcome and s not in linters for s, outcome in zip(segments, outcomes, strict=True)]
        is_hostile = True in outcomes and line_harm(line, self._start) is not None
        segments = [
            replace(
                segment,
                ok=outcome,
                call=self._redact(segment.call),
                prefix=self._redact(segment.prefix),
                operation=self._redact(segment.operation) if segment.script else segment.operation,
                script=self._redact(segment.script),
                is_hostile=is_hostile,
            )
            for segment, outcome in zip(segments, outcomes, strict=True)
        ]
        traced.segments = segments
        acting = [segment for segment in segments if not segment.is_trivial]
        if traced.ok is False:
            text = self._redact(truncate_middle(text, _REDACTED))
            failed = next((segment for segment in segments if segment.ok is False), None)
            traced.headlines = find_headlines(text, failed.program if failed else name_of(segments))
            traced.value = "sleep" if NO_SLEEP.match(text) else None
        elif traced.ok and acting:
            traced.printed = hash_printed(text)
        if has_ended or (may_end and traced.ok and not call.is_unseen and ends_own_shell(line)):
            traced.value = KILLED_SHELL if has_ended else SPARED_SHELL
        if is_unquoted:
            traced.headlines = [Headline(NO_MATCHES, NO_MATCHES), *traced.headlines]
        elif traced.ok is False and NOT_SH.search(text):
            traced.headlines = [Headline(POWERSHELL, POWERSHELL), *traced.headlines]
        if acting and traced.ok is not None:
            self._trace_output(traced, acting, text)
        is_gh = any(segment.operation.startswith("gh") for segment in segments)
        if is_gh and traced.ok is not None and traced.value is None:
            repository = find_repository(line)
            traced.value = self._redact(repository) if repository else None

    def _trace_output(self, traced: TracedCall, acting: list[Segment], text: str) -> None:
        folders = dict.fromkeys(match[1] for match in _FOLDER.finditer(text[:MAX_SCANNED]))
        traced.folders = [self._redact(folder) for folder in list(folders)[:MAX_FOLDERS]]
        named = _CHECK.finditer(text[:MAX_SCANNED])  # what a commit or a task runner names as run
        checks = [self._redact(match[match.lastgroup or 0].strip()[:120]) for match in named]
        is_commit = any(segment.operation == "git commit" for segment in acting)
        if is_commit or any(purpose_of(segment.operation) not in (None, "test") for segment in acting):
            traced.rules = list(map(self._redact, find_rules(text)))
        if is_commit:
            traced.checks = checks[:MAX_CHECKS]
        elif checks and len(acting) == 1 and f"$ {checks[0]}" in text:
            traced.echoed = checks[0]

    def _trace_tool(self, traced: TracedCall, call: CompletedCall, name: str, place: str | None) -> None:
        traced.directory = place
        arguments = call.arguments if isinstance(call.arguments, Mapping) else {}
        path = next((arguments[key] for key in tool_kinds.PATH_KEYS if isinstance(arguments.get(key), str)), None)
        if path is None and tool_kinds.EDITING_TOOLS.fullmatch(name):
            path = next(iter(patched_files(call.arguments)), None)
            path = f"{place}/{path}" if path and place and not is_absolute(path) else path
        traced.path = path[:300] if path else None
        traced.given = sorted(filter(_PLAIN_NAME.fullmatch, map(str, arguments)))[:MAX_GIVEN]
        if name in SKILL_TOOLS:
            traced.kind = "skill"
            traced.name = skill_name(arguments, name)
        elif tool_kinds.SEARCHING_TOOLS.fullmatch(name):
            traced.kind = "search"
            if traced.ok and re.match(r"(?:No (?:files|matches) found|Found 0)", call.result_text):
                traced.ok = None
        elif path and tool_kinds.READING_TOOLS.fullmatch(name):
            traced.kind = "read"
        elif path and tool_kinds.EDITING_TOOLS.fullmatch(name):
            traced.kind = "edit"
        if traced.path and traced.kind in ("read", "edit"):
            self._compare_indentation(traced, traced.path, arguments, call.result_text)
        if traced.ok is False:
            traced.headlines = find_headlines(self._redact(truncate_middle(call.result_text, 8000)), name)

    def _compare_indentation(self, traced: TracedCall, path: str, arguments: Mapping[str, Any], result: str) -> None:
        """Note how many tabs the old text of a failed edit lacks, once the file is read or edited again."""
        old = str(arguments.get("old_string") or "")[:MAX_SCANNED]
        if traced.ok is False and NOT_MATCHED in result[:MAX_LINE]:
            lines = list(_count_tabs(old).items())[:MAX_UNMATCHED_LINES]
            self._unmatched = {**dict([*self._unmatched.items()][1 - MAX_UNMATCHED :]), path: dict(lines)}
        elif traced.ok and path in self._unmatched:
            actual = _count_tabs(_LINE_NUMBER.sub("", result[:MAX_SCANNED]) if traced.kind == "read" else old)
            lacking = Counter(actual[line] - n for line, n in self._unmatched[path].items() if line in actual)
            if lacking:
                del self._unmatched[path]
                traced.value = f"tab{min(lacking, key=lambda n: (-lacking[n], n)):+d}"


def _count_tabs(text: str) -> dict[str, int]:
    """Return with how many tabs each line begins, by what it says."""
    tabs: dict[str, int] = {}
    for line in text.splitlines():
        if len(stripped := line.strip()) >= MIN_LINE:
            tabs.setdefault(
                f"{zlib.crc32(stripped.encode('utf-8', 'surrogatepass')):x}", len(line) - len(line.lstrip("\t"))
            )
    return tabs


def call_mark(call_id: str) -> int:
    """Return by what a trace knows a call's id."""
    return zlib.crc32(call_id.encode("utf-8", "surrogatepass"))


def find_repository(line: str) -> str | None:
    """Return the repository that a call of `gh` names: "owner/name"."""
    match = _REPOSITORY.search(line)
    return "/".join(part for part in match.groups() if part) if match else None


def skill_name(arguments: Mapping[str, Any], tool: str) -> str:
    """Return which skill a call asks for."""
    skill = arguments.get("skill") or arguments.get("command") or arguments.get("name")
    names = str(skill).lstrip("/").split() if skill else []
    return names[0][:80] if names else tool


def name_of(segments: list[Segment]) -> str:
    """Return the program that a call with these segments is about."""
    acting = [segment for segment in segments if not segment.is_trivial] or segments
    return acting[0].program if acting else "sh"


def _unpack(packed: bytes) -> dict[str, Any]:
    if not packed:
        return {}
    state: dict[str, Any] = json.loads(zlib.decompress(packed))
    return state if state.get("version") == TRACE_VERSION else {}


@dataclass(frozen=True, slots=True)
class Trace:
    """One session's trace, as lessons are learned from it."""

    session_id: str
    root_id: str  # its lineage root: forks and resumes count once
    agent: str
    calls: tuple[TracedCall, ...]
    start: str | None = None  # the folder in which the session began

    @classmethod
    def unpack(cls, session_id: str, root_id: str, agent: str, packed: bytes) -> Trace:
        """Read what `TraceFold.pack` returned; a trace of another version holds nothing."""
        state = _unpack(packed)
        calls = tuple(TracedCall.from_json(call) for call in state.get("calls", ()))
        return cls(session_id, root_id, agent, calls, state.get("start"))
