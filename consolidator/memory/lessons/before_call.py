"""Tells by a call's words alone whether a lesson warns of it, and what it is without what never works.

A hook decides so before a call: it loads nothing else, and is rather silent than wrong. What parses the line is
`telling`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from consolidator.memory.calls.shell_programs import KNOWN_PROGRAMS, PROVIDERS, RUNNERS, SUBCOMMAND_VERBS
from consolidator.memory.calls.shell_words import (
    PASSED_ON,
    command_line,
    ends_own_shell,
    find_patterns,
    is_read_by_shell,
    program_name,
    split_commands,
    unwrap_shells,
)

_RUN_PROGRAMS = KNOWN_PROGRAMS - SUBCOMMAND_VERBS  # that a word after an unknown program names; `test` is its task
_BRINGING = ("source", ".", "eval", "export", "nvm", "fnm", "conda", "mise", "asdf", "pyenv")
_HAS_OTHER_WAY = re.compile(r"2> ?/dev/null *\|\|")  # whoever writes that expects that it may fail
_SHELL_TOOLS = ("Bash", "shell", "PowerShell")  # also a server's: `mcp__acp__Bash`


def concerns(match: Mapping[str, str], project: str, body: Mapping[str, object]) -> bool:
    """Tell whether a call never worked. `match` is that of the lesson; what is not sure is not."""
    cwd, tool_input, kind = body.get("cwd"), body.get("tool_input"), match.get("kind")
    if not isinstance(cwd, str) or not isinstance(tool_input, dict):
        return False
    places = ("/", "\\", "-worktrees/", ".worktrees/", "__worktrees/")
    if not (cwd + "/").startswith(tuple(project + place for place in places)):
        return False
    if kind == "skill":
        named = tool_input.get("skill", tool_input.get("command"))
        return body.get("tool_name") == "Skill" and named == match.get("skill")
    if kind in ("argument", "whole"):
        return body.get("tool_name") == match.get("tool") and lacks_argument(match, tool_input, project)
    given = tool_input.get("command")
    line = command_line(given)
    if str(body.get("tool_name")).rpartition("__")[2] not in _SHELL_TOOLS or line is None:
        return False
    if kind == "pattern":  # a vector's script is read by another shell than the one that was learned of
        return isinstance(given, str) and bool(find_patterns(given))
    if kind == "pkill":
        return is_read_by_shell(given) and ends_own_shell(line)
    commands = unwrap_shells(split_commands(line))
    return any(_is_match(match, words) for words in commands) and not (kind == "program" and may_do_without(line))


def may_do_without(line: str) -> bool:
    """Tell whether a line brings a program that was not there, or has another way if it is not."""
    commands = unwrap_shells(split_commands(line))
    return any(words[0] in _BRINGING or "install" in words for words in commands) or bool(_HAS_OTHER_WAY.search(line))


def lacks_argument(match: Mapping[str, str], arguments: Mapping[str, object], project: str | None) -> bool:
    """Tell whether a tool's call leaves out what it needs: the argument, or which part of a large file is read."""
    if any(name in arguments for name in match["argument"].split(" or ")):
        return False
    file = match.get("file")
    return file is None or any(value in (file, f"{project}/{file}") for value in arguments.values())


def correct(match: Mapping[str, str], line: object) -> str | None:
    """Return a call's line without a wrapper that cannot run its program; None where that is not sure.

    The wrapper goes only from where it begins a command: each other word stays, and so does a document.
    """
    if match.get("kind") != "wrapper" or not isinstance(line, str):
        return None
    if match["wrapper"].split()[0] in PROVIDERS | RUNNERS.keys():
        return None  # it brings the program: without it there is none
    wrapper, program = match["wrapper"].split(), re.escape(match["program"])
    head, begin, document = line.partition("<<")
    if "$'" in head or re.search(r'"[^"]*(?:\$\(|`|\$\{[^}"]*")', head):
        return None  # quotes that `split_commands` does not read as a shell does
    words = r"\s+".join(map(re.escape, wrapper))
    corrected = re.sub(rf"\b{words}\s+(?:(?:proxy|--)\s+)?(?={program}(?:[\s;&|)]|$))", "", head)
    before: list[Sequence[str]] = [*split_commands(line)]
    begun = [_is_match(match, command) for command in before]
    after = [c[c.index(match["program"]) :] if is_begun else c for c, is_begun in zip(before, begun, strict=True)]
    return corrected + begin + document if any(begun) and split_commands(corrected) == after else None


def _is_match(match: Mapping[str, str], words: Sequence[str]) -> bool:
    kind, program = match.get("kind"), match.get("program")
    operation = str(match.get("operation")).split()
    if kind == "wrapper":
        wrapper = str(match.get("wrapper")).split()
        name = words[0] if "/" in words[0] else program_name(words[0])  # `python` of `python3`
        return [name, *words[1 : len(wrapper)]] == wrapper and _find_run(words[len(wrapper) :]) == program
    if kind == "program":
        is_runner = words[1:2] == ["-m"] or _find_run(words[1:]) in _RUN_PROGRAMS  # which is there, but for a shell
        return words[0] == program and (not is_runner or "not found" in match.get("headline", ""))
    if kind == "flag":
        begin = [word.rpartition("/")[2] for word in words[: len(operation)]]  # a script is named without its folder
        options = words[1 : words.index("--") if "--" in words else None]
        named = [word.partition("=")[0] for word in options]
        return begin == operation and match.get("option") in named
    return False


def _find_run(words: Sequence[str]) -> str | None:
    """Return what a wrapper runs, of the words after it."""
    return next((word for word in words if word not in (*PASSED_ON, "-m")), None)
