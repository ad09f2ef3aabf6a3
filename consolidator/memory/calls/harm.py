"""Tell what makes a call hostile to repeat: what memory learned of it is shown to a person, and to no agent.

One decision for everything learned from calls: fixes, what is bound to an error, procedures, what usually comes next.
Pure, and rather too strict: of what it holds back only the telling is lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

from consolidator.memory.calls import harm_rules as rules
from consolidator.memory.calls import shell
from consolidator.memory.calls.shell import Command
from consolidator.memory.calls.shell_programs import COMMAND_KEYS, MINOR_PROGRAMS, PIPE_FILTERS, SHELLS
from consolidator.memory.calls.symbols import display_name, is_shell_symbol, shell_command
from consolidator.memory.calls.tool_kinds import EDITING_TOOLS, INLINE_CODE_OPTIONS, PATH_KEYS, tool_base_name

MAX_JUDGED = 8192  # characters of a line
MAX_TEXT = 4096  # characters of code that are searched
MAX_DEPTH = 4  # of commands within commands
_HOLE = re.compile(r"<(?:free|\d+)>|\{\d+\}|⟨[^⟩]*⟩|…")
_SUBSTITUTION = re.compile(r"[$<>]\((?P<inner>(?:[^()]|\([^()]*\))*)\)|`(?P<ticks>[^`]*)`")
_RUN_OUTPUT = re.compile(rf"(?:^|[;&|]|-\w*c)\s*[\"']?(?:{_SUBSTITUTION.pattern})")
_HEREDOC = re.compile(r"<<-?\s*['\"]?(\w+)['\"]?[^\n]*\n(.*?)\n\s*\1\b", re.DOTALL)
_ASSIGNED = re.compile(rf"(?P<name>\w+)=[\"']?(?:{_SUBSTITUTION.pattern})")
_TAKES_TEXT = PIPE_FILTERS | MINOR_PROGRAMS | rules.SHOWERS  # what they are given, they do not run
_PIECE = re.compile(r"&&|\|\||[;\n]")
_ADDRESS = re.compile(r"(?:[a-z][a-z0-9+.-]*)://(?:[^/@\s]*@)?(\[[^\]]*\]|[^/:?#\s\"']*)", re.IGNORECASE)
_SCP_ADDRESS = re.compile(r"(?:[\w.-]+@)?[\w.-]+:(?!//|\\|\d+(?:/|$))\S*")
_WEB = re.compile(
    r"(?:https?|ftp|git|git\+\w+|hg\+\w+|svn\+\w+|ssh|data|file)://|git\+|git@|(?:github|gitlab|bitbucket|gist):"
)
_FORGE = re.compile(r"(?:github|gitlab|bitbucket|gist|gh):|git@|git\+")
_GITHUB_SHORTHAND = re.compile(r"(?!@|\.)[\w.-]+/[\w.-]+(?:#.*)?")
_ARCHIVE = re.compile(r"(?!\./|\.\./)\S+\.(?:whl|tgz|tar\.gz|zip|deb|rpm|apk|gem|nupkg|vsix|pkg|msi|exe)")
_SENDING = re.compile(
    r"-(?:\w*[dFT])\S*|--(?:data\S*|form\S*|upload-file|json|post-(?:data|file)\S*|body-(?:data|file)\S*|method=P\w+|url-query)"
    r"|-X(?:P\w+|DELETE)|P(?:OST|UT|ATCH)|-b@\S+"
)
_SECRET = re.compile(r"\$\{?\w*(?:TOKEN|SECRET|KEY|PASS|CRED|AUTH|HOME|USER)\w*", re.IGNORECASE)
_REMOVERS = frozenset({"rm", "rmdir", "unlink", "trash", "del", "remove-item"})
_WRITERS = frozenset(
    {"cp", "mv", "ln", "install", "rsync", "tar", "unzip", "touch", "tee", "mkdir", "chmod", "sed", "perl"}
)
_OF_LAST = frozenset({"cp", "mv", "ln", "install", "rsync"})  # programs that write their last operand
_CD = re.compile(r"cd\s+(\S+)")


def find_harm(tool: str, arguments: Any, project: str | None = None) -> str | None:
    """Return why a call is told to no agent; None for a harmless one. Paths within `project` are its own."""
    line = shell_command(tool, arguments)
    if line is None and isinstance(arguments, Mapping):
        if EDITING_TOOLS.fullmatch(tool_base_name(tool)):
            paths = [str(arguments[key]) for key in PATH_KEYS if arguments.get(key)]
            return rules.WRITES_OUTSIDE if any(_is_outside(path, project) for path in paths) else None
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
    return next(_harms(line, project, depth), None)


def _harms(line: str, project: str | None, depth: int) -> Iterator[str]:
    """Yield what is hostile in a line: in its commands, between them, and in what they run."""
    if rules.OPAQUE.search(line):
        yield rules.DECODES_AND_RUNS
    if depth > MAX_DEPTH:
        yield rules.DECODES_AND_RUNS
        return
    if not shell.is_readable(line):
        pieces = [piece for piece in _PIECE.split(line) if piece.strip() and piece != line]
        yield from (harm for piece in pieces if (harm := _judge_line(piece, project, depth + 1)))
        yield from _judge_text(line)
    commands = shell.parse_commands(line)
    for command in commands:
        yield from _judge_command(command, project, depth)
    yield from _judge_pipes(commands, line, project, depth)
    yield from _judge_sequence(commands)
    for match in _RUN_OUTPUT.finditer(line):
        yield from _judge_source(shell.parse_commands(match["inner"] or match["ticks"] or ""))
    yield from _judge_downloads(commands, line)
    runs_text = any(command.program in SHELLS | rules.INTERPRETERS for command in commands)
    for match in _HEREDOC.finditer(line):
        if runs_text and (harm := _judge_line(match[2], project, depth + 1)):
            yield harm
        yield from _judge_text(match[2])
    if any(_is_outside(path, project) for path in re.findall(r"(?<![<>&\d])\d?>{1,2}\|?\s*([^\s<>&|;()'\"]+)", line)):
        yield rules.WRITES_OUTSIDE


def _judge_command(command: Command, project: str | None, depth: int) -> Iterator[str]:
    program, words = command.program.lower(), command.words
    text = " ".join([command.name, *_words_after_name(command)])
    yield from (reason for reason, pattern in rules.RULES if pattern.match(text))
    if program in rules.PRIVILEGED or not rules.PRIVILEGED.isdisjoint(command.wrappers):
        yield rules.RAISES_PRIVILEGES
    yield from _judge_assignments(
        (*command.assignments, *(words if program in ("export", "env", "set", "setx") else ()))
    )
    yield from _judge_written_paths(command, project)
    yield from _judge_removal(command, project)
    yield from _judge_addresses(command, text)
    runner = next((name for name in command.wrappers if name in rules.RUNNERS_OF_PACKAGES), None)
    if runner is not None and (program not in rules.KNOWN_TOOLS or "://" in text):
        yield rules.FETCHES_AND_RUNS

    inner = [match["inner"] or match["ticks"] or "" for word in words for match in _SUBSTITUTION.finditer(word)]
    is_run = program in SHELLS | rules.INTERPRETERS | {"eval", "source", ".", "exec", "iex"} or program.startswith("$")
    for line in inner:
        if harm := _judge_line(line, project, depth + 1):
            yield harm
        if is_run:
            yield from _judge_source(shell.parse_commands(line))
    if inner and program in rules.FETCHERS and not _is_local(words):
        yield rules.SENDS_OUT
    if program == "eval" and (harm := _judge_line(" ".join(words), project, depth + 1)):
        yield harm
    if program in rules.RUNS_WORDS:
        rests = (" ".join(words[n:]) for n in range(len(words)) if not words[n].startswith("-"))
        yield from (harm for rest in rests if (harm := _judge_line(rest, project, depth + 1)))
    if program in rules.INTERPRETERS | {"psql", "mysql", "mariadb", "sqlite3", "duckdb", "mongosh", "mongo", "sqlcmd"}:
        yield from _judge_text(" ".join((program, *words)))
    if (
        any(option in INLINE_CODE_OPTIONS for option in words[:3])
        and program in SHELLS
        and "$" in "".join(words[1:2])[:1]
    ):
        yield rules.FETCHES_AND_RUNS


def _words_after_name(command: Command) -> Iterator[str]:
    """Yield a command's words but those of its subcommand, with no space inside."""
    names = (command.subcommand or "").split()
    for word in command.words:
        if names and word == names[0]:
            names.pop(0)
        else:
            yield re.sub(r"\s", "·", word)


def _judge_text(text: str) -> Iterator[str]:
    yield from (reason for reason, pattern in rules.TEXT_RULES if pattern.search(text[:MAX_TEXT]))


def _judge_assignments(assignments: Sequence[str]) -> Iterator[str]:
    for assignment in assignments:
        if any(rule.match(assignment) for rule in (rules.PRELOADED, rules.PRELOADED_OPTION, rules.SEARCHED_PATH)):
            yield rules.PRELOADS
        if rules.FOREIGN_SETTING.match(assignment):
            yield rules.FOREIGN_SOURCE


def _judge_written_paths(command: Command, project: str | None) -> Iterator[str]:
    program, operands = command.program, command.operands
    paths: list[str] = [target.lstrip("0123456789>|&") for target in command.redirections if ">" in target]
    if program in _OF_LAST:
        paths += operands[-1:]
        paths += [option.partition("=")[2] for option in command.options if option.startswith(("-t", "--target-dir"))]
    elif program in _WRITERS and (program not in ("sed", "perl") or any("i" in option for option in command.options)):
        paths += operands
    if any(_is_outside(path, project) or rules.INSTRUCTIONS.fullmatch(path) for path in paths):
        yield rules.WRITES_OUTSIDE


def _judge_removal(command: Command, project: str | None) -> Iterator[str]:
    """Judge what is removed: nothing outside the project may be, and no folder that is not made again."""
    if command.program.lower() not in _REMOVERS:
        return
    is_recursive = any(re.fullmatch(r"-[a-zA-Z]*[rR][a-zA-Z]*|--recursive|/s", word) for word in command.words)
    for path in command.operands:
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
    return rules.OUTSIDE.match(path) is not None


def _judge_addresses(command: Command, text: str) -> Iterator[str]:
    """Judge what a command takes from addresses, and what it sends there."""
    program, words = command.program.lower(), command.words
    is_foreign = any(_FORGE.match(word) or (_WEB.search(word) and not _is_local((word,))) for word in words)
    if program in rules.INSTALLERS or not rules.RUNNERS_OF_PACKAGES.isdisjoint(command.wrappers):
        if is_foreign or any(_is_foreign_package(program, command, word) for word in command.operands):
            yield rules.FOREIGN_SOURCE
    elif (
        is_foreign
        and (program in rules.RUNS_ADDRESSES or any(map(_WEB.match, words[:1])))
        and (program not in rules.READERS | rules.FETCHERS)
    ):
        yield rules.FETCHES_AND_RUNS
    if program not in rules.FETCHERS or _is_local(words):
        return
    sends = program not in ("nc", "ncat", "netcat", "ssh", "dig", "host", "nslookup", "telnet") and any(
        _SENDING.fullmatch(word) for word in words
    )
    if program in ("scp", "sftp", "rsync"):
        sends = bool(command.operands) and _SCP_ADDRESS.fullmatch(command.operands[-1]) is not None
    takes_input = program in ("nc", "ncat", "netcat", "socat", "telnet", "openssl", "ssh") and (
        command.link in ("|", "|&") or any(redirection.startswith("<") for redirection in command.redirections)
    )
    if sends or takes_input or any(_SECRET.search(word) for word in words):
        yield rules.SENDS_OUT


def _is_foreign_package(program: str, command: Command, word: str) -> bool:
    """Tell whether a package to install is one of no registry: a file, somebody's repository, an unknown channel."""
    if _ARCHIVE.fullmatch(word.removeprefix("./") if program in rules.SYSTEM_INSTALLERS else word):
        return True
    if program == "go":
        host = word.split("/", 1)[0]
        return "." in host and "/" in word and not word.startswith(".") and not rules.KNOWN_GO_HOSTS.fullmatch(host)
    if program in ("conda", "mamba", "micromamba"):
        channels = [b for a, b in pairwise(command.words) if a in ("-c", "--channel")]
        return not rules.KNOWN_CHANNELS.issuperset(channels)
    return program in ("npm", "pnpm", "yarn", "bun", "npx") and (
        _GITHUB_SHORTHAND.fullmatch(word) is not None and command.subcommand in ("install", "i", "add", "ci", None)
    )


def _is_local(words: Sequence[str]) -> bool:
    """Tell whether all addresses among words are of this machine or its network."""
    hosts = [match[1] for word in words for match in _ADDRESS.finditer(word)]
    if not hosts:
        bare = [word for word in words if not word.startswith("-") and ("." in word or ":" in word or "$" in word)]
        hosts = [re.split(r"[/:?]", word.rpartition("@")[2].lstrip(":"))[0] for word in bare]
    return all(rules.LOCAL_HOST.fullmatch(host) for host in hosts)


def _judge_source(commands: Sequence[Command]) -> Iterator[str]:
    """Judge what is run as text: the output of these commands."""
    for command in commands:
        program = command.program.lower()
        if program in rules.FETCHERS and not (program in ("curl", "wget", "http", "xh") and _is_local(command.words)):
            yield rules.FETCHES_AND_RUNS
        if program in rules.DECODERS and program != "tr":
            yield rules.DECODES_AND_RUNS


def _downloads(commands: Sequence[Command]) -> bool:
    return any(each.program.lower() in rules.DOWNLOADERS and not _is_local(each.words) for each in commands)


def _judge_downloads(commands: Sequence[Command], line: str) -> Iterator[str]:
    """Judge what a program is given that was downloaded in the same line: in a pipe, as a file, or as its own name."""
    before: list[Command] = []
    for command in commands:
        before = [*before, command] if command.link in ("|", "|&") else [command]
        if command.program.lower() not in _TAKES_TEXT and _downloads(before[:-1]):
            yield rules.FETCHES_AND_RUNS
    takes_files = any(command.program.lower() not in _TAKES_TEXT for command in commands)
    files = [match["inner"] or "" for match in _SUBSTITUTION.finditer(line) if match[0].startswith("<")]
    if takes_files and any(_downloads(shell.parse_commands(file)) for file in files):
        yield rules.FETCHES_AND_RUNS
    for match in _ASSIGNED.finditer(line):
        names = {f"${match['name']}", f"${{{match['name']}}}"}
        runs = any(
            command.program in names or (command.program == "eval" and names.intersection(command.words[:1]))
            for command in commands
        )
        if runs and _downloads(shell.parse_commands(match["inner"] or match["ticks"] or "")):
            yield rules.FETCHES_AND_RUNS


def _judge_pipes(commands: Sequence[Command], line: str, project: str | None, depth: int) -> Iterator[str]:
    """Judge what runs the text that it is given: a shell, or an interpreter after a fetcher or a decoder."""
    before: list[Command] = []
    for command in commands:
        if command.link not in ("|", "|&"):
            before = []
        program = command.program.lower()
        if before and program in SHELLS | rules.INTERPRETERS | {"source", ".", "eval", "xargs", "tee"}:
            sources = list(_judge_source(before)) if program != "tee" else []
            yield from sources
            if program in SHELLS and not command.operands and not sources:
                texts = [" ".join(each.words) for each in before if each.program in ("echo", "printf")]
                if len(texts) != len(before):
                    yield rules.FETCHES_AND_RUNS
                yield from (harm for text in texts if (harm := _judge_line(text, project, depth + 1)))
        before.append(command)
    is_run = SHELLS | rules.INTERPRETERS | {"source", ".", "eval"}
    if re.search(r"<<<\s*\S", line) and any(command.program in is_run for command in commands):
        yield rules.FETCHES_AND_RUNS


def _judge_sequence(commands: Sequence[Command]) -> Iterator[str]:
    """Judge what is fetched by one command and run by a later one."""
    fetched: set[str] = set()
    is_cloned = False
    for command in commands:
        program = command.program.lower()
        run = (
            {program, *(word.rsplit("/", 1)[-1] for word in command.operands)}
            if (
                program in SHELLS | rules.INTERPRETERS | {"source", ".", "chmod", "install", "dpkg"}
                or program in fetched
            )
            else set()
        )
        if run & fetched:
            yield rules.FETCHES_AND_RUNS
        if is_cloned and program in SHELLS | rules.INTERPRETERS | rules.INSTALLERS | {
            "make",
            "cmake",
            "ninja",
            "install.sh",
            "setup.sh",
            "configure",
            "bash",
        }:
            yield rules.FETCHES_AND_RUNS
        if program in rules.DOWNLOADERS | {"scp"} and not _is_local(command.words):
            names = [*command.words, *(option.partition("=")[2] for option in command.options), *command.redirections]
            fetched |= {re.split("[/:]", name)[-1].lstrip(">").partition("?")[0] for name in names if name} - {""}
        is_unpacked = bool(fetched) and program in ("tar", "unzip", "7z", "gunzip", "bsdtar")
        is_cloned = is_cloned or is_unpacked or command.name in ("git clone", "gh repo clone", "git submodule add")
