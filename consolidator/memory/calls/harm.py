"""Tell what makes a call hostile to repeat: what memory learned of it is shown to a person, and to no agent.

One decision for everything learned from calls: fixes, what is bound to an error, procedures, what usually comes next.
Pure, and rather too strict: of what it holds back only the telling is lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from consolidator.llm.patterns import lazy_regex
from consolidator.memory.calls import harm_rules as rules
from consolidator.memory.calls import shell
from consolidator.memory.calls.shell import Command
from consolidator.memory.calls.shell_programs import COMMAND_KEYS, MINOR_PROGRAMS, PIPE_FILTERS, SHELLS
from consolidator.memory.calls.symbols import display_name, is_shell_symbol, shell_command
from consolidator.memory.calls.tool_kinds import EDITING_TOOLS, INLINE_CODE_OPTIONS, PATH_KEYS, tool_base_name

MAX_JUDGED = 8192  # characters of a line
MAX_TEXT = 4096  # characters of code that are searched
MAX_DEPTH = 4  # of commands within commands
MAX_STARTS = 24  # words of a command at which another one may begin
_RUN = SHELLS | rules.INTERPRETERS | {"source", ".", "eval"}  # programs that run the text or the file they are given
_HOLE = lazy_regex(r"<(?:free|\d+)>|\{\d+\}|⟨[^⟩]*⟩|…")
_SPACE, _INNER = lazy_regex(r"\s"), lazy_regex(r"[(`]")  # what is in each command within a command
_SUBSTITUTION = lazy_regex(r"[$<>=]\((?P<inner>(?:[^()]|\([^()]*\))*)\)|`(?P<ticks>[^`]*)`")
_POWERSHELL = lazy_regex(r"(?<![\w/.-])(?:iex|iwr|irm|(?i:Invoke|Start|New|Remove|Get|Set|Add)-[A-Za-z]{3,})(?![\w:-])")
_RUN_OUTPUT = lazy_regex(rf"(?:^|[;&|]|-\w*c|\b(?:source|eval|exec)|\s\.)\s*[\"']?(?:{_SUBSTITUTION.pattern})")
_ASSIGNED = lazy_regex(rf"(?i:(?P<name>\w+))=[\"']?(?:{_SUBSTITUTION.pattern})")
_TAKES_TEXT = PIPE_FILTERS | MINOR_PROGRAMS | rules.SHOWERS  # what they are given, they do not run
_HEREDOC = lazy_regex(r"<<-?\s*['\"]?(\w+)['\"]?[^\n]*\n(.*?)\n\s*\1\b", re.DOTALL)
_WRITTEN = lazy_regex(r"(?<![<>&\d])\d?>{1,2}\|?\s*([^\s<>&|;()'\"]+)")
_PIECE = lazy_regex(r"&&|\|\||[;\n]")
_ADDRESS = lazy_regex(r"(?:[a-z][a-z0-9+.-]{0,20})://(?:[^/@\s]*@)?(\[[^\]]*\]|[^/:?#\s\"']*)", re.IGNORECASE)
_BARE_HOST = lazy_regex(r"(?!@)(?:[^\s@]*@)?\[?([\w.$:-]*?)\]?(?::\d*)?(?:[/?:]\S*)?")
_SCP_ADDRESS = lazy_regex(r"(?:[\w.-]+@)?[\w.-]+:(?!//|\\|\d+(?:/|$))\S*")
_WEB = lazy_regex(r"(?:https?|ftp|git|ssh|data|file|(?:git|hg|svn)\+\w+)://|git[+@]|(?:github|gitlab|bitbucket|gist):")
_FORGE = lazy_regex(r"(?:github|gitlab|bitbucket|gist|gh):")
_SENDING = lazy_regex(
    r"-(?:\w*[dFT])\S*|--(?:data\S*|form\S*|upload-file|json|post-(?:data|file)\S*|body-(?:data|file)\S*|method=P\w+|url-query)"
    r"|-X(?:P\w+|DELETE)|P(?:OST|UT|ATCH)|-b@\S+"
)
_WORKTREE = lazy_regex(r"\.claude/worktrees/[^/]+/")  # a checkout within the project's folder
_UNUSUAL_NAME = lazy_regex(r"['\"\\A-Z]|[^\x00-\x7f]")  # of a program
_SECRET = lazy_regex(r"\$\{?\w*(?:TOKEN|SECRET|KEY|PASS|CRED|AUTH|HOME|USER)\w*", re.IGNORECASE)


def find_harm(tool: str, arguments: Any, project: str | None = None) -> str | None:
    """Return why a call is told to no agent; None for a harmless one. Paths within `project` are its own."""
    line = shell_command(tool, arguments)
    if line is None and isinstance(arguments, Mapping):
        if EDITING_TOOLS.fullmatch(tool_base_name(tool)):
            return next(_judge_edit(arguments, project), None)
        line = next((value for key in COMMAND_KEYS if isinstance(value := arguments.get(key), str)), None)
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
    if depth > MAX_DEPTH or rules.OPAQUE.search(line):
        yield rules.DECODES_AND_RUNS
        return
    if not shell.is_readable(line):
        pieces = [piece for piece in _PIECE.split(line) if piece.strip() and piece != line]
        yield from _judge_lines(pieces, project, depth)
        yield from _judge_text(line)
    commands = _parse(line)
    for command in commands:
        yield from _judge_command(command, project, depth)
    if _POWERSHELL.search(line):  # whose expressions are no commands
        yield from _judge_text(line)
    yield from _judge_pipes(commands, project, depth)
    yield from _judge_sequence(commands)
    yield from _judge_downloads(commands, line)

    is_run = any(command.program in _RUN for command in commands)
    if is_run and re.search(r"<<<\s*\S", line):
        yield rules.FETCHES_AND_RUNS
    for match in _RUN_OUTPUT.finditer(line) if _INNER.search(line) else ():
        yield from _judge_source(_parse(match["inner"] or match["ticks"] or ""))
    bodies = [match[2] for match in _HEREDOC.finditer(line)] if "<<" in line else []
    for body in bodies:
        yield from _judge_text(body)
    yield from _judge_lines(bodies if is_run else [], project, depth)
    yield from _judge_file_text("\n".join(bodies), depth)
    if any(_is_outside(path, project) for path in _WRITTEN.findall(line)):
        yield rules.WRITES_OUTSIDE


def _parse(line: str) -> list[Command]:
    """Return a line's commands; quotes within a program's name (`c'u'rl`) only hide it."""
    return [
        replace(command, program=re.sub(r"['\"\\]", "", command.program).lower())
        if _UNUSUAL_NAME.search(command.program)
        else command
        for command in shell.parse_commands(line)
    ]


def _judge_command(command: Command, project: str | None, depth: int) -> Iterator[str]:
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
    yield from _judge_addresses(command, text)
    yield from _judge_leading(command.leading[:-1])

    # What it runs: the code in its words and before them, the output of substitutions, the command that its words are.
    parts = [part for part in (*words, *command.assignments) if _INNER.search(part)]
    inner = [match["inner"] or match["ticks"] or "" for part in parts for match in _SUBSTITUTION.finditer(part)]
    yield from _judge_lines(inner, project, depth)
    if program in _RUN or program in ("exec", "iex") or program.startswith("$"):
        yield from (harm for line in inner for harm in _judge_source(_parse(line)))
    if inner and program in rules.FETCHERS and not _is_local(words):
        yield rules.SENDS_OUT
    if program in rules.RUNS_WORDS:
        starts = [n for n, word in enumerate(words) if not word.startswith("-")][:MAX_STARTS]
        yield from _judge_lines([" ".join(words[n:]) for n in starts], project, depth)
    if program in rules.INTERPRETERS or program in rules.DATABASE_CLIENTS:
        yield from _judge_text(" ".join((program, *words)))
    if program in SHELLS and not INLINE_CODE_OPTIONS.isdisjoint(words[:3]) and words[1:] and words[1].startswith("$"):
        yield rules.FETCHES_AND_RUNS
    if command.writes or rules.SEARCHERS.isdisjoint((program, command.subcommand)):
        spaced = [word for word in words if " " in word and not word.startswith("<(")]
        yield from _judge_file_text("\n".join(spaced).replace("\\n", "\n").replace("\\t", " "), depth)


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


def _judge_file_text(text: str, depth: int = 0) -> Iterator[str]:
    """Judge what is written into a file: a script, a Makefile or a package's settings, which runs later."""
    for line in text[:MAX_JUDGED].splitlines():
        if match := rules.REACHES_OUT.search(line) or rules.DECODES_TEXT.search(line):
            parts = [line.lstrip("@+- \t"), line[match.start() :], *re.findall(r"[\"`]([^\"`]*)[\"`]", line)]
            yield from (harm for harm in _judge_lines(parts, None, depth) if harm in rules.GRAVE)


def _judge_edit(arguments: Mapping[str, Any], project: str | None) -> Iterator[str]:
    if any(_is_outside(str(arguments[key]), project) for key in PATH_KEYS if arguments.get(key)):
        yield rules.WRITES_OUTSIDE
    for key, value in arguments.items():
        if key not in PATH_KEYS and isinstance(value, str) and not key.startswith("old"):
            yield from _judge_file_text(value)


def _judge_paths(command: Command, project: str | None) -> Iterator[str]:
    """Judge what is written and removed: nothing outside the project may be, and no folder that is not made again."""
    program, operands = command.program, command.operands
    paths = [target.lstrip("0123456789>|&") for target in command.redirections if ">" in target]
    if program in rules.WRITES_LAST:
        paths += operands[-1:]
        paths += [option.partition("=")[2] for option in command.options if option.startswith(("-t", "--target-dir"))]
    elif program in rules.WRITERS and (
        program not in ("sed", "perl") or any("i" in option for option in command.options)
    ):
        paths += operands
    if any(_is_outside(path, project) or rules.INSTRUCTIONS.fullmatch(path) for path in paths):
        yield rules.WRITES_OUTSIDE

    if program not in rules.REMOVERS:
        return
    is_recursive = any(re.fullmatch(r"-[a-zA-Z]*[rR][a-zA-Z]*|--recursive|/s", word) for word in command.words)
    for path in operands:
        is_made_again = path.startswith("/tmp/") or rules.REMOVABLE.fullmatch(path) is not None
        is_anything = path.startswith(("$", "`", "..")) or path.rstrip("/*") in ("", ".", ".git")
        is_whole = (is_recursive or path.startswith("*")) and not is_made_again
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


def _judge_addresses(command: Command, text: str) -> Iterator[str]:
    """Judge what a command takes from addresses, and what it sends there."""
    program, words = command.program, command.words
    runners = rules.RUNNERS_OF_PACKAGES.intersection(command.wrappers)
    is_foreign = any(_FORGE.match(word) or (_WEB.search(word) and not _is_local((word,))) for word in words)
    if runners and (program not in rules.KNOWN_TOOLS or "://" in text):
        yield rules.FETCHES_AND_RUNS
    if program in rules.INSTALLERS or runners:
        yield from [rules.FOREIGN_SOURCE] * is_foreign
    elif is_foreign and program not in rules.READERS and (program in rules.RUNS_ADDRESSES or _WEB.match(words[0])):
        yield rules.FETCHES_AND_RUNS
    if program not in rules.FETCHERS or _is_local(words):
        return

    takes_input = command.link in ("|", "|&") or any(word.startswith("<") for word in command.redirections)
    if program in ("scp", "sftp", "rsync"):
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


def _judge_source(commands: Sequence[Command]) -> Iterator[str]:
    """Judge what is run as text: the output of these commands."""
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
        if before and (is_shell or command.program in _RUN or command.program == "xargs"):
            sources = list(_judge_source(before))
            yield from sources
            if is_shell and not command.operands and not sources:
                texts = [" ".join(each.words) for each in before if each.program in ("echo", "printf")]
                if len(texts) != len(before):
                    yield rules.FETCHES_AND_RUNS
                yield from _judge_lines(texts, project, depth)
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
        if fetched and may_run and fetched & {program, *(word.rsplit("/", 1)[-1] for word in command.operands)}:
            yield rules.FETCHES_AND_RUNS
        if is_unpacked and program in SHELLS | rules.INTERPRETERS | rules.INSTALLERS | rules.BUILDERS:
            yield rules.FETCHES_AND_RUNS
        if program in rules.SAVERS and not _is_local(command.words):
            values = (option.partition("=")[2] for option in command.options)
            saved = (*command.words, *values, *command.redirections)
            fetched |= {re.split("[/:]", name)[-1].lstrip(">").partition("?")[0] for name in saved} - {""}
        is_unpacked |= bool(fetched) and program in ("tar", "unzip", "7z", "gunzip", "bsdtar")
        is_unpacked |= command.name in ("git clone", "gh repo clone", "git submodule add")
