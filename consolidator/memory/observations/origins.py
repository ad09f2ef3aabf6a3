"""Reads from a session's events where an agent's words come from: what others told it, what it read, and what ran."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from consolidator.llm.redaction.redact import redact
from consolidator.memory.calls.call_pairing import CallPairer, CompletedCall
from consolidator.memory.calls.shell import Command, parse_commands
from consolidator.memory.calls.symbols import shell_command
from consolidator.memory.calls.tool_kinds import (
    EDITING_TOOLS,
    INSPECTING_PROGRAMS,
    PATH_KEYS,
    READING_TOOLS,
    tool_base_name,
)
from consolidator.memory.facts.questions.transcript import Origins, TranscriptLine
from consolidator.memory.text.quotations import split_quoted
from consolidator.models.event import Event
from consolidator.models.payload import EventType

_COMMITS = re.compile(r"\bgit\b[^;&|\n]*?\scommit\b[^;&|\n]{0,80}")
# What is read with other tools than these, and by these commands, are words of others.
_OWN_TOOL = re.compile(
    rf"{READING_TOOLS.pattern}|{EDITING_TOOLS.pattern}|codebase_search|grep_search|todo_?(?:read|write)|update_plan"
    r"|(?:grep|glob|ls|list|find|file|search)(?:_?(?:files?(?:_content)?|dir(?:ectory)?|search))?"
    r"|(?:bash|shell|kill|command)_?(?:output|status|shell|bash)?|exec_command|write_stdin"
)
_TELLING_COMMAND = re.compile(
    r"(?<![\w./-])(?:curl|wget|ssh|gh|glab|hub|http|xh|lynx|w3m|himalaya|consolidator|claude|codex|gemini"
    r"|git\b[^;&|\n]*?\s(?:log|show|blame|annotate|notes|shortlog|reflog|whatchanged|tag|rebase|pull|am|cherry-pick)"
    r"|(?:npm|pnpm|yarn|pip3?|cargo|gem|brew)\s+(?:view|info|show|search|home|docs|explain))(?![\w-])"
)
_INSTALLS = re.compile(
    r"\b(?:npm|pnpm|yarn|bun|pip3?|uv|cargo|gem|composer)\s+(?:\w+\s+)?(?:install|i|ci|add|update|sync)\b"
)
_DOCUMENT = re.compile(
    r"\.(?:md|mdx|txt|rst|adoc|org|html?|pdf|eml|mbox|docx?|diff|patch)\b|(?:node_modules|vendor|site-packages|docs?)/"
    r"|/tmp/|\b(?:readme|changelog|contributing|license)\b",
    re.IGNORECASE,
)
_FOREIGN_DOCUMENT = re.compile(
    r"\.(?:html?|pdf|eml|mbox|docx?|diff|patch)\b|(?:node_modules|vendor|site-packages)/|/tmp/", re.IGNORECASE
)
_FROM_DOCUMENT = re.compile(rf"^(?=[^\s:]*(?:{_DOCUMENT.pattern}))[^\s:]+:.*", re.IGNORECASE | re.MULTILINE)
_PROJECTS_CALL = re.compile(
    r"(?<![\w./-])(?:(?:(npm|pnpm|yarn|bun|deno|make|just|task|mise|uv|poetry|rake|nox|tox|gradle|mvn|ant)(?: run)?"
    r"|python\d?|node|bash|sh|ruby|perl) +)(?:-\S+ +)*([\w@./][\w@:./-]*)|(?<![\w./-])()(\./[\w./-]+)"
)
_TAKEN_AWAY = re.compile(r"old|edits|patch|diff", re.IGNORECASE)  # keys of an edit that says what it replaces
_WORD = re.compile(r"[\w@][\w@./:+#-]*")
_RUN = 5  # words in a row that are no accident


def read_origins(events: Sequence[Event], *, is_subagent: bool = False) -> Origins:
    """Return where an agent's words may come from: what others told it, what it read, what ran, what is vouched for.

    Told is what came by web, MCP, a sub-agent, an issue, another host, a document or an installed package, what a
    person passed on, and what a harness or memory wrote. Of a document of the project only the words count: the names
    in it are those of the project, which vouches for them as its other files do. What a program prints vouches for
    nothing.
    """
    told: list[tuple[int, str, bool]] = []
    read: list[tuple[int, str]] = []
    vouching, ran, committed = [], set[str](), list[tuple[TranscriptLine, str]]()
    edited: dict[str, str] = {}
    edits: list[tuple[int, str]] = []
    pairer = CallPairer()
    plans = {event.seq - 1 for event in events if event.data.get("approves") == "plan"}  # a person agreed to them
    for event in events:
        if event.type is EventType.USER_MESSAGE and event.data.get("origin") != "compaction":
            text = str(event.data.get("text") or "")
            is_persons = event.data.get("origin", "user") == "user" and event.is_persons_word and not is_subagent
            own, passed_on = split_quoted(text) if is_persons else ("", text)
            told.append((event.seq, passed_on, not is_subagent and event.seq not in plans))
            vouching.append(text if event.seq in plans else own)
        elif event.type is EventType.SUBAGENT_COMPLETE:
            told.append((event.seq, json.dumps(dict(event.data), ensure_ascii=False), True))
        if (call := pairer.feed(event)) is None:
            continue
        line, paths = shell_command(call.tool, call.arguments) or "", _paths(call)
        told_part, is_foreign = _told_part(call, line, paths)
        told.append((event.seq, told_part, is_foreign))
        ran |= projects_calls(line, "" if is_foreign else call.result_text)
        commands = parse_commands(line)
        if not is_foreign and _is_reading(call, commands):
            vouching.append(call.result_text)
            if not told_part:
                read.append((event.seq, f"{' '.join(paths)} {line} {call.result_text}"))
        if not call.ok:
            continue
        vouching += [" ".join((*command.wrappers, command.program)) for command in commands]
        if EDITING_TOOLS.fullmatch(tool_base_name(call.tool).lower()):
            is_known = isinstance(call.arguments, dict) and any(_TAKEN_AWAY.match(key) for key in call.arguments)
            changed = json.dumps(call.arguments, ensure_ascii=False).casefold() if is_known else ""
            edits += [(call.seq, path) for path in paths]
            for path in paths:
                before = edited.get(path)
                edited[path] = changed if before is None else before and changed and f"{before} {changed}"
        elif (commit := _COMMITS.search(line)) is not None:
            line_of_commit = TranscriptLine(call.seq, "E", redact(commit[0].strip()), event.occurred_at)
            committed += [(replace(line_of_commit, detail=path), words) for path, words in edited.items()]
            edited = {}
    return Origins(
        tuple((seq, folded, is_foreign) for seq, text, is_foreign in told if (folded := _fold(text))),
        tuple((seq, folded) for seq, text in read if (folded := _fold(text))),
        frozenset(ran),
        words_of_names(vouching),
        tuple(committed),
        tuple(edits),
    )


def words_of_names(texts: Iterable[str]) -> frozenset[str]:
    """Return the words of texts as names of packages and programs are looked up in them."""
    words = {word.rstrip(".,:;/") for text in texts for word in _WORD.findall(text.casefold())}
    return frozenset(words | {name for word in words if (name := word[:1] + word[1:].partition("@")[0])})


def _is_reading(call: CompletedCall, commands: Sequence[Command]) -> bool:
    """Tell whether a call's result is what the project's files hold, and nothing that a program says."""
    if commands:
        return all(command.program in INSPECTING_PROGRAMS or command.program == "cd" for command in commands)
    return READING_TOOLS.fullmatch(tool_base_name(call.tool).lower()) is not None


def projects_calls(*texts: str) -> frozenset[str]:
    calls = (match for text in texts for match in _PROJECTS_CALL.finditer(text))
    return frozenset(" ".join(filter(None, match.groups())) for match in calls)


def is_told(quote: str, names: Sequence[str], origins: Origins, before: int) -> bool:
    """Tell whether half of a quote's runs of five words stand in what was told before an event, or a name of strangers.

    A name is the project's where a file of it has it, or what a person typed or agreed to.
    """
    told = [words for words in origins.told if words[0] < before]
    named = {
        folded
        for name in names
        if len(folded := _fold(name)) > 1
        and folded not in origins.vouched
        and not any(folded in text for _, text in origins.read)
    }
    is_named = any(is_foreign and f" {name} " in f" {text} " for name in named for _, text, is_foreign in told)
    return is_named or is_repeated(quote, [text for _, text, _ in told])


def is_repeated(quote: str, texts: Sequence[str]) -> bool:
    """Tell whether half of a quote's runs of five words stand in folded texts."""
    words = _fold(quote).split()
    runs = {" ".join(words[start : start + _RUN]) for start in range(max(1, len(words) - _RUN + 1))}
    return 2 * sum(any(run in text for text in texts) for run in runs) >= len(runs)


def _paths(call: CompletedCall) -> list[str]:
    values = [call.arguments.get(key) for key in PATH_KEYS] if isinstance(call.arguments, dict) else []
    return [value for value in values if isinstance(value, str)]


def _told_part(call: CompletedCall, line: str, paths: Sequence[str]) -> tuple[str, bool]:
    """Return what of a call's result are words of others, and whether they may be strangers'."""
    if line:
        is_foreign = any(each.search(line) for each in (_TELLING_COMMAND, *([_INSTALLS] if call.ok else [])))
    else:
        is_foreign = call.tool.lower().startswith("mcp__") or not _OWN_TOOL.fullmatch(tool_base_name(call.tool))
    text = line or ("" if is_foreign else " ".join(paths))
    if is_foreign or _DOCUMENT.search(text):
        return call.result_text, is_foreign or _FOREIGN_DOCUMENT.search(text) is not None
    documents = [match[0] for match in _FROM_DOCUMENT.finditer(call.result_text)]
    return "\n".join(documents), any(map(_FOREIGN_DOCUMENT.search, documents))


def _fold(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))
