"""Tell what makes a call hostile to repeat: what memory learned of it is shown to a person, and to no agent.

One decision for everything learned from calls: fixes, what is bound to an error, procedures, what usually comes next.
Pure, and rather too strict: of what it holds back only the telling is lost.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, reduce
from typing import Any

from consolidator.llm.patterns import lazy_regex
from consolidator.memory.calls import harm_rules as rules
from consolidator.memory.calls import shell
from consolidator.memory.calls.shell import Command
from consolidator.memory.calls.shell_programs import (
    COMMAND_KEYS,
    KNOWN_PROGRAMS,
    MINOR_PROGRAMS,
    PIPE_FILTERS,
    SUBCOMMAND_PROGRAMS,
)
from consolidator.memory.calls.shell_words import SHELLS
from consolidator.memory.calls.symbols import display_name, is_shell_symbol, shell_command
from consolidator.memory.calls.tool_kinds import EDITING_TOOLS, INLINE_CODE_OPTIONS, PATH_KEYS, tool_base_name

MAX_JUDGED = 8192  # characters of a line
MAX_TEXT = 4096  # characters of code that are searched
MAX_DEPTH = 8  # of commands within commands
MAX_READINGS = 64  # of a command whose words may be another one
_RUN = SHELLS | rules.INTERPRETERS | {"source", ".", "eval"}  # programs that run the text or the file they are given
_HOLE = lazy_regex(r"<(?:free|\d+)>|\{\d+\}|⟨[^⟩]*⟩|…")
_QUOTED = lazy_regex(r"^(['\"])(.*)\1$", re.DOTALL)
_NAMED_VALUE = lazy_regex(r"^-{0,2}\w[\w.-]*=")  # what stands before the value of `--exec=VALUE`, `CC=VALUE`
_SPACE, _INNER = lazy_regex(r"\s"), lazy_regex(r"[(`]")  # what is in each command within a command
_BALANCED = reduce(lambda inner, _: rf"(?:[^()]++|\({inner}\))*", range(4), r"[^()]*+")  # parentheses, nested
_SUBSTITUTION = lazy_regex(rf"[$<>=]\((?P<inner>{_BALANCED})\)|`(?P<ticks>[^`]*)`")
_POWERSHELL = lazy_regex(r"(?<![\w/.-])(?:iex|iwr|irm|(?i:Invoke|Start|New|Remove|Get|Set|Add)-[A-Za-z]{3,})(?![\w:-])")
_ITS_VARIABLE, _ITS_PATH = lazy_regex(r"\$\{?(?i:env):(\w+)\}?\s*\+?=\s*"), lazy_regex(r"(?<=[\w.~:])\\(?=[\w.])")
_RUN_OUTPUT = lazy_regex(rf"(?:^|[;&|]|-\w*c|\b(?:source|eval|exec)|\s\.)\s*[\"']?(?:{_SUBSTITUTION.pattern})")
_ASSIGNED = lazy_regex(rf"(?i:(?P<name>\w+))=[\"']?(?:{_SUBSTITUTION.pattern})")
_TAKES_TEXT = PIPE_FILTERS | MINOR_PROGRAMS | rules.SHOWERS  # what they are given, they do not run
_HEREDOC = lazy_regex(r"<<-?\s*['\"]?(\w+)['\"]?[^\n]*\n(.*?)\n\s*\1\b|<<<[\s'\"\\]*([^'\"\n]+)", re.DOTALL)
_WRITTEN = lazy_regex(r"(?<![<>&\d])\d?>{1,2}\|?\s*([^\s<>&|;()'\"]+)")
_PIECE = lazy_regex(r"&&|\|\||[;\n]")
_ADDRESS = lazy_regex(r"(?:[a-z][a-z0-9+.-]{0,20})://(?:[^/@\s]*@)?(\[[^\]]*\]|[^/:?#\s\"']*)", re.IGNORECASE)
_BARE_HOST = lazy_regex(r"(?!@)(?:[^\s@]*@)?\[?([\w.$:-]*?)\]?(?::\d*)?(?:[/?:]\S*)?")
_SCP_ADDRESS = lazy_regex(r"(?:[\w.-]+@)?[\w.-]+:(?!//|\\|\d+(?:/|$))\S*|rsync://\S*")
_WEB = lazy_regex(r"(?:https?|ftp|git|ssh|data|file|(?:git|hg|svn)\+\w+)://|git[+@]|(?:github|gitlab|bitbucket|gist):")
_FORGE = lazy_regex(r"(?:github|gitlab|bitbucket|gist|gh):")
_SENDING = lazy_regex(
    r"-(?:\w*[dFT])\S*|--(?:data\S*|form\S*|upload-file|json|post-(?:data|file)\S*|body-(?:data|file)\S*|method=P\w+|url-query)"
    r"|-X(?:P\w+|DELETE)|(?i:post|put|patch)|-b@\S+|(?:[\w.-]+=)?@\S+"
)
_WORKTREE = lazy_regex(r"\.claude/worktrees/[^/]+/")  # a checkout within the project's folder
_UNUSUAL_NAME = lazy_regex(r"['\"\\A-Z]|[^\x00-\x7f]|\.(?:exe|cmd|bat)$")  # of a program
_NO_NAME = lazy_regex(r"^\$(?=')|['\"\\]|\.(?:exe|cmd|bat)$")  # what is no part of it
_TARGET = lazy_regex(r"(?<!\S)(?:-t|--target-directory|(?i:-des\w*))[ =]?(\S+)")
_PATCHED = lazy_regex(r"^\*\*\* (?:\w+ File|Move to): (.+)$", re.MULTILINE)  # of `apply_patch`
_LONG = lazy_regex(r"'[^']{80,}'|\"[^\"]{80,}\"|[^\s'\"]{80,}")  # words
_HIDES = lazy_regex(r"\\(?=[a-z-])|\$'([^'\\]*)'")
_VARIABLE = lazy_regex(r"\$(?:(\w+)|\{(\w+)(?::?[-=+]([^{}]*))?\})")
_STRING = lazy_regex(r"(['\"`])((?:(?!\1)[^\\]|\\.)*)\1", re.DOTALL)  # of code
_NEXT_STRING = lazy_regex(r"(['\"`])\s*,\s*\1")  # of a list: `["git", "push"]`
_PROGRAM = lazy_regex(
    rf"(?:[^\s@]*/)?(?:{rules.NAMED_IN_PROSE}|{'|'.join(sorted(rules.CHANGERS))})(?:\.exe)?", re.IGNORECASE
)
_BRACED = lazy_regex(rf"(?:^|[;&|])\s*\{{(?:{rules.NAMED_IN_PROSE}),\S*\}}")  # `{git,push}` runs `git push`
_SECRET = lazy_regex(r"\$\{?\w*(?:TOKEN|SECRET|KEY|PASS|CRED|AUTH|HOME|USER)\w*", re.IGNORECASE)


def find_harm(tool: str, arguments: Any, project: str | None = None) -> str | None:
    """Return why a call is told to no agent; None for a harmless one. Paths within `project` are its own."""
    line = shell_command(tool, arguments)
    arguments = {"input": arguments} if line is None and isinstance(arguments, str) else arguments
    if line is None and isinstance(arguments, Mapping):
        if EDITING_TOOLS.fullmatch(tool_base_name(tool)):
            return next(_judge_edit(arguments, project), None)
        line = next((value for key in COMMAND_KEYS if isinstance(value := arguments.get(key), str)), "")
        line = " ".join([line, *map(str, words)]) if isinstance(words := arguments.get("args"), list) else line
        texts = [value for key, value in arguments.items() if isinstance(value, str) and key not in PATH_KEYS]
        harms = (harm for text in texts for harm in (*_judge_text(text), *_judge_code(text, project, 0)))
        return line_harm(line, project) or next(harms, None)
    return None if line is None else line_harm(line, project)


def symbol_harm(symbol: str) -> str | None:
    """Return why a program's very name and subcommand are told to no agent; None for any other symbol."""
    return line_harm(display_name(symbol)) if is_shell_symbol(symbol) else None


def line_harm(line: str, project: str | None = None) -> str | None:
    """Return why a command line is told to no agent; None for a harmless one."""
    return _judge_line(_HOLE.sub("hole", line), project, 0) if len(line) <= MAX_JUDGED else rules.UNREADABLE


@lru_cache(maxsize=8192)
def _judge_line(line: str, project: str | None, depth: int) -> str | None:
    return next(_judge(line, project, depth), None)


def _judge_lines(lines: Sequence[str], project: str | None, depth: int) -> Iterator[str]:
    """Judge lines within another one."""
    yield from (harm for line in lines if (harm := _judge_line(line, project, depth + 1)))


def _judge(line: str, project: str | None, depth: int) -> Iterator[str]:
    """Judge a line: its commands, what goes from one to the next, and the texts that they run or write."""
    if depth > MAX_DEPTH or rules.OPAQUE.search(line) or _BRACED.search(line):
        yield rules.DECODES_AND_RUNS
        return
    if not shell.is_readable(line):
        pieces = [piece for piece in (*line.splitlines(), *_PIECE.split(line)) if piece.strip() and piece != line]
        yield from _judge_lines(pieces, project, depth)
        yield from _judge_text(line)
        yield from _judge_code(line, project, depth)
        if len(line) > shell.MAX_COMMAND:
            short = _LONG.sub("…", line)
            is_shorter = len(short) < len(line)
            yield from _judge_lines([short], project, depth) if is_shorter else [rules.UNREADABLE] * (not pieces)
    commands = _parse(line)
    for command in commands:
        yield from _judge_command(command, project, depth)
    if _POWERSHELL.search(line):  # whose expressions are no commands
        yield from _judge_text(line)
    yield from _judge_pipes(commands, project, depth)
    yield from _judge_sequence(commands)
    yield from _judge_downloads(commands, line)
    substituted, assigned = shell.inner_texts(line)
    texts = [*substituted, *(text.partition("=")[2] for text in assigned)]
    yield from _judge_lines([*filter(_is_text, texts)], project, depth)
    if "$" in line and (expanded := _expand(line, assigned)) != line:
        yield from _judge_lines([expanded], project, depth) if len(expanded) <= MAX_JUDGED else [rules.UNREADABLE]
    if (plain := _ITS_VARIABLE.sub(r"export \1=", _ITS_PATH.sub("/", line))) != line:  # on Windows
        yield from _judge_lines([plain], project, depth)

    # What it runs that it holds or writes itself: here-documents, and what is printed into a file.
    written = _WRITTEN.findall(line)
    names = {*map(_file_name, written)}
    is_run = any(_runs_text(command) or command.program in names for command in commands)
    if is_run and re.search(r"<<<\s*\S", line):
        yield rules.FETCHES_AND_RUNS
    for match in _RUN_OUTPUT.finditer(line) if _INNER.search(line) else ():
        yield from _judge_source(_parse(match["inner"] or match["ticks"] or ""), project, depth)
    bodies = [match[2] or match[3] or "" for match in _HEREDOC.finditer(line)] if "<<" in line else []
    for body in bodies:
        yield from _judge_text(body)
        if not rules.INTERPRETERS.isdisjoint(command.program for command in commands):
            yield from _judge_code(body, project, depth)
    printed = _printed([command for command in commands if command.writes])
    yield from _judge_lines([*bodies, *printed] if is_run else [], project, depth)
    yield from _judge_file_text("\n".join(bodies), depth)
    if any(_is_outside(path, project) for path in written):
        yield rules.WRITES_OUTSIDE


def _expand(line: str, assignments: Sequence[str]) -> str:
    """Return a line with the values of the variables that it assigns, or names for want of another: `${A:-push}`."""
    values = dict(assignment.split("=", 1) for assignment in assignments if "$" not in assignment)
    return _VARIABLE.sub(lambda match: values.get(match[1] or match[2], match[3] or match[0]), line)


def _is_text(word: str) -> bool:
    """Tell whether a word has words of its own, and is no substitution: what that runs is judged by itself."""
    return _SPACE.search(word) is not None and not word.startswith(("$(", "<(", ">(", "=(", "`"))


def _runs_text(command: Command) -> bool:
    """Tell whether a command runs a text or a file that it is given, here or elsewhere (`docker exec -i X sh`)."""
    runs_words = command.program in rules.RUNS_WORDS and not SHELLS.isdisjoint(command.words)
    return command.program in _RUN or command.program == "ssh" or runs_words


def _printed(commands: Sequence[Command]) -> list[str]:
    printing = [command for command in commands if command.program in ("echo", "printf")]
    return [" ".join(command.words[n:]) for command in printing for n in (0, 1) if command.words[n:]]


def _parse(line: str) -> list[Command]:
    """Return a line's commands, their words without the marks that only hide them: `c'u'rl`, `pu\\sh`, `$'--force'`."""
    commands = shell.parse_commands(line)
    if _HIDES.search(line):
        commands = [
            replace(each, words=tuple(map(_reveal, each.words)), operands=tuple(map(_reveal, each.operands)))
            for each in commands
        ]
    return [
        replace(command, program=_file_name(command.program)) if _UNUSUAL_NAME.search(command.program) else command
        for command in commands
    ]


def _file_name(path: str) -> str:
    """Return the name of a program or a file as a program is called by: `a` is `a.bat`."""
    return _NO_NAME.sub("", re.split("[/:]", path)[-1].lower())


def _reveal(word: str) -> str:
    return word if _SPACE.search(word) else _HIDES.sub(r"\1", word)


def _judge_command(command: Command, project: str | None, depth: int, *, is_part: bool = False) -> Iterator[str]:
    program, words = command.program, command.words
    text = rule_text(command)
    if rules.ANY_RULE.match(text):
        yield from (reason for reason, pattern in rules.RULES if pattern.match(text))
    if not rules.PRIVILEGED.isdisjoint((program, *command.wrappers)):
        yield rules.RAISES_PRIVILEGES
    assignments = (*command.assignments, *(words if program in ("export", "env", "set", "setx") else ()))
    if assignments:
        yield from (reason for reason, rule in rules.ASSIGNMENT_RULES if any(map(rule.match, assignments)))
    yield from _judge_paths(command, project)
    yield from _judge_addresses(command)
    yield from _judge_leading(command.leading[:-1])
    if command.leading[-2:-1] and command.leading[-2].startswith("-") and program not in KNOWN_PROGRAMS:
        yield from _judge_leading((*command.leading, *words))  # it may be the option's value

    # What it runs: the code in its words and before them, the output of substitutions, the command that its words are.
    parts = [part for part in (*words, *command.assignments) if _INNER.search(part)]
    inner = [match["inner"] or match["ticks"] or "" for part in parts for match in _SUBSTITUTION.finditer(part)]
    if program in _RUN or program in ("exec", "iex") or program.startswith("$"):
        yield from (harm for line in inner for harm in _judge_source(_parse(line), project, depth))
    if inner and program in rules.FETCHERS and not _is_local([_SUBSTITUTION.sub("x", word) for word in words]):
        yield rules.SENDS_OUT
    if program in rules.INTERPRETERS or program in rules.DATABASE_CLIENTS:
        yield from _judge_text(" ".join((program, *words)))
    if not is_part:
        yield from _judge_words(command, project, depth)


def _judge_words(command: Command, project: str | None, depth: int) -> Iterator[str]:
    """Judge what a command may run of its words: each text, and what stands from the name of a program on."""
    program, words = command.program, command.words
    given = (*words, *command.leading[-1:] * bool(command.wrappers))
    spaced = [_QUOTED.sub(r"\2", word) for word in given if _is_text(word)]
    is_text = not rules.SEARCHERS.isdisjoint((program, command.name))
    if command.writes or not is_text:
        yield from _judge_file_text("\n".join(spaced).replace("\\n", "\n").replace("\\t", " "), depth)
    if is_text or program in rules.SHOWS_NAMES:
        return

    if any(map(rules.DESTROYS_TEXT.search, spaced)):
        yield rules.DESTROYS_WORK
    if not rules.INTERPRETERS.isdisjoint((program, *command.wrappers)):
        for text in spaced:
            yield from _judge_code(text, project, depth)
    if program in rules.INTERPRETERS - rules.RUNS_WORDS:  # what follows its script is that one's
        is_code = not INLINE_CODE_OPTIONS.isdisjoint(command.options)
        spaced = [] if is_code else [text for text in spaced if text not in command.operands[:1]]
    yield from _judge_lines([*spaced, *(_NAMED_VALUE.sub("", word) for word in spaced)], project, depth)

    readings = [*_readings(command)]
    if len(readings) > MAX_READINGS:
        yield rules.UNREADABLE
    for reading in readings[:MAX_READINGS]:
        line = " ".join(
            shlex.quote(word) if _is_text(word) and not _NAMED_VALUE.match(word) else word for word in reading
        )
        for part in _parse(line):
            part = replace(part, redirections=command.redirections, link=command.link)
            yield from _judge_command(part, project, depth, is_part=True)


def _readings(command: Command) -> Iterator[Sequence[str]]:
    """Yield the other commands that a command may be: from a program's name on, and after each value of an option."""
    program = command.program
    named = (command.subcommand or "").split() if program in SUBCOMMAND_PROGRAMS else []
    words = tuple(word for word in command.words if word != "\\;")
    is_open = program in SUBCOMMAND_PROGRAMS and command.words[:1] and command.words[0].startswith("-")
    for n, word in enumerate(words):
        if program in ("npm", "bun") and word == "x":
            yield ("npx", *words[n + 1 :])
        if program == "python" and word[:2] == "-m":
            yield (*filter(None, [word[2:]]), *words[n + 1 :])
        if word.startswith("-"):
            continue
        if program in rules.RUNS_WORDS or (word not in named and _PROGRAM.fullmatch(word)):
            yield words[n:]
            if program in ("xargs", "parallel"):
                yield (*words[n:], "$@")
        if is_open and n and "/" not in word:
            yield (program, *words[n:])


def _judge_leading(words: Sequence[str]) -> Iterator[str]:
    """Judge what runs a command, by its own options: `uv --directory api run --index-url ADDRESS`."""
    if not words:
        return
    text = " ".join(_SPACE.sub("·", word) for word in (words[0].rsplit("/", 1)[-1], *words[1:]))
    yield from (reason for reason, pattern in rules.RULES if pattern.match(text))
    if any(_FORGE.match(word) or (_WEB.search(word) and not _is_local((word,))) for word in words[1:]):
        yield rules.FOREIGN_SOURCE
    package = re.search(r"(?:^|/)(?:npx|\S+ (?:.* )?dlx)\b.* (?:-p|--package)[ =](?P<name>[^\s@]+)", text)
    if package is not None and package["name"] not in rules.KNOWN_TOOLS:
        yield rules.FETCHES_AND_RUNS


def rule_text(command: Command) -> str:
    """Return a command as the rows of the table have it: its name, then its other words, with no space inside."""
    names, words = (command.subcommand or "").split(), []
    for word in command.words:
        if names and word == names[0]:
            names.pop(0)
        else:
            words.append(_SPACE.sub("·", word))
    return " ".join([command.name, *words])


def _judge_text(text: str) -> Iterator[str]:
    text = text[:MAX_TEXT]
    searched = lru_cache(lambda pattern: pattern.search(text) is not None)  # several rules begin with the same one
    yield from (reason for reason, patterns in rules.TEXT_RULES if all(map(searched, patterns)))


def _judge_code(code: str, project: str | None, depth: int) -> Iterator[str]:
    """Judge the strings of code as lines, those of a list as one: an interpreter may run them."""
    texts = (code[:MAX_TEXT], _NEXT_STRING.sub(" ", code[:MAX_TEXT]))
    strings = [match[2] for text in texts for match in _STRING.finditer(text)]
    yield from _judge_lines([text.replace("\\", "") for text in strings if _SPACE.search(text)], project, depth)


def _judge_file_text(text: str, depth: int = 0) -> Iterator[str]:
    """Judge what is written into a file: a script, a Makefile or a package's settings, which runs later."""
    for line in text[:MAX_JUDGED].splitlines():
        if match := rules.REACHES_OUT.search(line) or rules.DECODES_TEXT.search(line):
            parts = [line.lstrip("@+- \t"), line[match.start() :], *re.findall(r"[\"`]([^\"`]*)[\"`]", line)]
            yield from (harm for harm in _judge_lines(parts, None, depth) if harm in rules.GRAVE)


def _judge_edit(arguments: Mapping[str, Any], project: str | None) -> Iterator[str]:
    texts = [text for key, text in arguments.items() if isinstance(text, str) and not key.startswith("old")]
    paths = [str(arguments[key]) for key in PATH_KEYS if arguments.get(key)]
    if any(_is_outside(path, project) for path in (*paths, *_PATCHED.findall("\n".join(texts)))):
        yield rules.WRITES_OUTSIDE
    for text in texts:
        yield from _judge_file_text(text)


def _judge_paths(command: Command, project: str | None) -> Iterator[str]:
    """Judge what is written and removed: nothing outside the project may be, and no folder that is not made again."""
    program, operands = command.program, command.operands
    paths = [target.lstrip("0123456789>|&") for target in command.redirections if ">" in target]
    if program in rules.WRITES_LAST:
        paths += operands[-1:]
        paths += _TARGET.findall(" ".join(command.words))
    elif program in rules.WRITERS and (
        program not in ("sed", "perl") or any("i" in option for option in command.options)
    ):
        paths += operands
    if any(_is_outside(path, project) or rules.INSTRUCTIONS.fullmatch(path) for path in paths):
        yield rules.WRITES_OUTSIDE

    if program not in rules.REMOVERS:
        return
    if command.link in ("|", "|&") and not operands:  # PowerShell's take what they are given
        yield rules.DESTROYS_WORK
    is_recursive = any(re.fullmatch(r"-[a-zA-Z]*[rR][a-zA-Z]*|--recursive|/s", word) for word in command.words)
    for path in operands:
        is_made_again = path.startswith("/tmp/") or any(
            map(rules.REMOVABLE.fullmatch, (path, path.rpartition("/")[0])[: 1 if is_recursive else 2])
        )
        is_anything = path.startswith(("$", "`", "..")) or path.rstrip("/*") in ("", ".", ".git")
        is_whole = (is_recursive or "*" in path) and not is_made_again
        if is_anything or is_whole or _is_outside(path, project):
            yield rules.DESTROYS_WORK


def _is_outside(path: str, project: str | None) -> bool:
    """Tell whether a path is outside the project, or where hooks, agents and shells are told what to do."""
    path = path.strip("'\"")
    if project and "/" in project and (path == project or path.startswith(f"{project.rstrip('/')}/")):
        path = path[len(project.rstrip("/")) :].lstrip("/") or "."
        if ".." not in path.split("/"):
            path = _WORKTREE.sub("", path)
    return rules.OUTSIDE.match(path) is not None


def _judge_addresses(command: Command) -> Iterator[str]:
    """Judge what a command takes from addresses, and what it sends there."""
    program, words = command.program, command.words
    runners = rules.RUNNERS_OF_PACKAGES.intersection(command.wrappers)
    if command.name in ("go run", "cargo run"):  # the others are those of what runs
        words = words[: next((n for n, word in enumerate(words) if word == "--" or word in command.operands[:1]), None)]
    is_foreign = any(_FORGE.match(word) or (_WEB.search(word) and not _is_local((word,))) for word in words)
    if runners and (program not in rules.KNOWN_TOOLS or any("://" in word for word in words)):
        yield rules.FETCHES_AND_RUNS
    if program in rules.INSTALLERS or runners:
        yield from [rules.FOREIGN_SOURCE] * is_foreign
    elif is_foreign and program not in rules.READERS and (program in rules.RUNS_ADDRESSES or _WEB.match(words[0])):
        yield rules.FETCHES_AND_RUNS
    if program not in rules.FETCHERS or _is_local(words):
        return

    takes_input = command.link in ("|", "|&") or any(word.startswith("<") for word in command.redirections)
    if program in ("scp", "rsync"):
        sends = bool(command.operands) and _SCP_ADDRESS.fullmatch(command.operands[-1]) is not None
    elif program in rules.CONNECTORS:
        sends = takes_input and program in rules.SENDS_INPUT
    else:
        sends = any(map(_SENDING.fullmatch, words))
    if sends or any(map(_SECRET.search, words)):
        yield rules.SENDS_OUT


def _is_local(words: Sequence[str]) -> bool:
    """Tell whether all addresses among words are of this machine or its network."""
    hosts = [match[1] for word in words for match in _ADDRESS.finditer(word)]
    if not hosts:
        bare = [word for word in words if not word.startswith("-") and re.search(r"[.:$]", word)]
        hosts = [match[1] for word in bare if (match := _BARE_HOST.fullmatch(word))]
    return all(map(rules.LOCAL_HOST.fullmatch, hosts))


def _judge_source(commands: Sequence[Command], project: str | None, depth: int) -> Iterator[str]:
    """Judge what is run as text: the output of these commands."""
    if any(re.search(r"\\(?:x|0?[0-7]{2})", text) for text in _printed(commands)):
        yield rules.DECODES_AND_RUNS
    yield from _judge_lines(_printed(commands), project, depth)
    for command in commands:
        program = command.program
        if program in rules.FETCHERS and not (program in ("curl", "wget", "http", "xh") and _is_local(command.words)):
            yield rules.FETCHES_AND_RUNS
        if program in rules.DECODERS and program != "tr":
            yield rules.DECODES_AND_RUNS


def _judge_pipes(commands: Sequence[Command], project: str | None, depth: int) -> Iterator[str]:
    """Judge what runs the text that it is given: a shell, or an interpreter after a fetcher or a decoder."""
    before: list[Command] = []
    for command in commands:
        before = before if command.link in ("|", "|&") else []
        is_shell = command.program in SHELLS or command.program.startswith(("$", "`"))
        if before and command.program not in _TAKES_TEXT:
            yield from _judge_text(" ".join(_printed(before)))
        if before and (is_shell or _runs_text(command) or command.program == "xargs"):
            yield from _judge_source(before, project, depth)
            if is_shell and not command.operands and any(each.program not in ("echo", "printf") for each in before):
                yield rules.FETCHES_AND_RUNS
        before = [*before, command]


def _downloads(commands: Sequence[Command]) -> bool:
    return any(each.program in rules.DOWNLOADERS and not _is_local(each.words) for each in commands)


def _judge_downloads(commands: Sequence[Command], line: str) -> Iterator[str]:
    """Judge what a program is given that was downloaded in the same line: in a pipe, as a file, or as its own name."""
    before: list[Command] = []
    for command in commands:
        before = [*before, command] if command.link in ("|", "|&") else [command]
        if command.program not in _TAKES_TEXT and _downloads(before[:-1]):
            yield rules.FETCHES_AND_RUNS
    if not _INNER.search(line):
        return
    takes_files = any(command.program not in _TAKES_TEXT for command in commands)
    files = [match["inner"] or "" for match in _SUBSTITUTION.finditer(line) if match[0].startswith("<")]
    if takes_files and any(_downloads(_parse(file)) for file in files):
        yield rules.FETCHES_AND_RUNS
    for match in _ASSIGNED.finditer(line):
        name = match["name"].lower()  # as the programs are
        names = {f"${name}", f"${{{name}}}"}
        words = [each.words[0].lower() if each.program == "eval" and each.words else each.program for each in commands]
        if names.intersection(words) and _downloads(_parse(match["inner"] or match["ticks"] or "")):
            yield rules.FETCHES_AND_RUNS


def _judge_sequence(commands: Sequence[Command]) -> Iterator[str]:
    """Judge what is fetched by one command and run by a later one."""
    fetched: set[str] = set()
    is_unpacked = False
    for command in commands:
        program = command.program
        may_run = program in _RUN or program in ("chmod", "install", "dpkg") or program in fetched
        if fetched and may_run and fetched & {program, *map(_file_name, command.operands)}:
            yield rules.FETCHES_AND_RUNS
        if is_unpacked and program in SHELLS | rules.INTERPRETERS | rules.INSTALLERS | rules.BUILDERS:
            yield rules.FETCHES_AND_RUNS
        if program in rules.SAVERS and not _is_local(command.words):
            values = (option.partition("=")[2] for option in command.options)
            saved = (*command.words, *values, *command.redirections)
            fetched |= {_file_name(name.lstrip(">").partition("?")[0]) for name in saved} - {""}
        is_unpacked |= bool(fetched) and program in ("tar", "unzip", "7z", "gunzip", "bsdtar")
        is_unpacked |= command.name in ("git clone", "gh repo clone", "git submodule add")
