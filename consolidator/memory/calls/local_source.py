"""Tells by a call's structure whether its result comes from the machine and the project that a session works on.

Only what is known to read files of the project, settings of the machine, or what a program was configured with counts.
Everything else may hold the words of strangers: mails, pages, tickets, other hosts, downloaded code, commit messages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from consolidator.memory.calls import tool_kinds
from consolidator.memory.calls.directory import call_directory
from consolidator.memory.calls.operation import scalar_leaves
from consolidator.memory.calls.shell import MAX_COMMAND, Command, parse_commands
from consolidator.memory.calls.shell_programs import word_set
from consolidator.memory.calls.symbols import shell_command

_LOCAL_SERVERS = word_set("file files fs filesystem local workspace shell terminal bash")  # of MCP
_ANY_SERVERS = word_set("mcp server tool tools")  # words in names of servers that say nothing of where they read
_SEARCHING_TOOLS = word_set("grep glob ls list_dir list_directory grep_search codebase_search")
_FILTERS = word_set("sort uniq cut wc jq yq column sed tac cd true")
_MACHINE_PROGRAMS = word_set(  # print what the machine or the shell is set to
    """
    env printenv uname lsb_release hostname hostnamectl arch nproc free uptime locale timedatectl sw_vers lscpu lsblk
    systeminfo getconf ulimit test [ export
    """
)
_NETWORK = re.compile(
    r"(?<![\w./-])(?:curl|wget|ssh|scp|sftp|ftp|nc|ncat|netcat|telnet|lynx|links|w3m|http|https|xh|aria2c|mail|mailx|mutt|"
    r"mu|notmuch|neomutt|himalaya|gh|glab|hub|dig|nslookup|whois|rsync|socat|openssl)(?![\w.=-])"
)
_HIDES_COMMANDS = re.compile(r"`|\$\(|[<>]\(|<<|\beval\b|/dev/(?:tcp|udp)")
# Of any program but those that reach out: prints how it is configured.
_CONFIGURATION = word_set("config remote env version settings context showconfig")
_GROUPS = {"compose": "config", "repo": "list"}  # subcommands of which only one prints what is configured
_VERSION_OPTIONS = frozenset({"--version", "-V", "-version"})
_GIT_READS = word_set("remote config branch status rev-parse ls-files describe grep")
_WRITES = word_set("set add edit unset push use-context set-url rm remove delete")
_REMOTE_URL = re.compile(r"\w[\w+.-]*://|^[\w.-]+@[\w.-]+:|^\\\\")
_FOREIGN_FOLDERS = word_set(
    """
    node_modules vendor third_party site-packages dist-packages venv .venv downloads tmp temp mail mails maildir
    inbox attachments cache .cache .git
    """
)
_FOREIGN_SUFFIX = re.compile(r"\.(?:eml|mbox|msg|html?|pdf|warc|har|docx?|diff|patch)$", re.IGNORECASE)
_HOME = re.compile(r"(?:~|\$HOME|\$\{HOME\}|/root|/(?:home|Users)/[^/]+|[A-Za-z]:/Users/[^/]+)/")
_SYSTEM_FOLDERS = ("/etc/", "/usr/local/etc/", "/proc/", "/sys/")
_LINES = re.compile(r"[\d,;$p ]+")  # what `sed -n` prints
_RUNS_OTHERS = word_set("-exec -execdir -ok -okdir -fprint --null-input --arg --argjson --args --pre")
_PROGRAM = re.compile(r"[a-z][a-z0-9_-]*")
_VARIABLE = re.compile(r"\$\{?\w+\}?")


def is_local_source(tool: str, arguments: Any, project: str | None) -> bool:
    """Tell whether a call reads only what belongs to the machine and the project; False where that is not known."""
    *servers, name = tool.lower().split("__")
    server_words = set(re.split(r"[\W_]+", servers[-1])) - _ANY_SERVERS - {""} if servers else set()
    if servers and not (server_words and server_words <= _LOCAL_SERVERS):  # "local_mail" reads mails
        return False
    if any(_REMOTE_URL.search(str(value)) for _, value in scalar_leaves(arguments)):
        return False
    line = shell_command(tool, arguments)
    if line is not None:
        directory = call_directory(tool, arguments)
        return (directory is None or _is_own_path(directory, project)) and _runs_locally(line, project)
    reads = tool_kinds.READING_TOOLS.fullmatch(name) is not None
    if not isinstance(arguments, Mapping) or not (reads or name in _SEARCHING_TOOLS):
        return False
    paths = [str(arguments[key]) for key in tool_kinds.PATH_KEYS if arguments.get(key)]
    return bool(paths or not reads) and all(_is_own_path(path, project) for path in paths)


def _runs_locally(line: str, project: str | None) -> bool:
    """Tell whether all programs of a command line read locally; what may hide others does not."""
    line = line.strip()
    if len(line) > MAX_COMMAND or _HIDES_COMMANDS.search(line) or _NETWORK.search(line):
        return False
    # Each line by itself: of one that does not parse, the parser reads the beginning only.
    commands = [parse_commands(part) for part in line.splitlines() if part.strip()]
    return bool(commands) and all(part and all(_reads_locally(each, project) for each in part) for part in commands)


def _reads_locally(command: Command, project: str | None) -> bool:
    program, words = command.program, command.words
    if command.writes or any(redirection.startswith("<") for redirection in command.redirections):
        return False
    if program in ("echo", "printf"):  # an agent's own words, but for separators and variables
        return all(_VARIABLE.fullmatch(word) or not any(char.isalpha() for char in word) for word in words)
    if program in ("jq", "yq") and "-n" in words:
        return False
    if program == "sed" and any(not word.startswith("-") and not _LINES.fullmatch(word) for word in words[:2]):
        return False
    if program in tool_kinds.INSPECTING_PROGRAMS | _FILTERS | _MACHINE_PROGRAMS:
        return _RUNS_OTHERS.isdisjoint(words) and all(_is_own_path(word, project) for word in words)
    return _prints_configuration(program, words, project)


def _prints_configuration(program: str, words: tuple[str, ...], project: str | None) -> bool:
    """Tell whether a program only prints how it is set up, or its version."""
    if len(words) == 1 and words[0] in _VERSION_OPTIONS:
        return True
    first, second = [*(word for word in words if not word.startswith("-")), "", ""][:2]
    if program in tool_kinds.INTERPRETERS or not _PROGRAM.fullmatch(program) or not _WRITES.isdisjoint(words):
        return False
    if not all(_is_own_path(word.rpartition("=")[2], project) for word in words):
        return False
    if program == "git":
        names_commit = first == "grep" and sum(not word.startswith("-") for word in words) > 2
        return first in _GIT_READS and not names_commit and not any(word.startswith("--blob") for word in words)
    return first in _CONFIGURATION or (first in _GROUPS and _GROUPS[first] == second)


def _is_own_path(path: str, project: str | None) -> bool:
    """Tell whether a path is one of the project, or of the machine's settings; words that are no path are."""
    path = path.strip("'\"").replace("\\", "/")
    root = (project or "").replace("\\", "/").rstrip("/")
    if "://" in path or ".." in path.split("/") or _FOREIGN_SUFFIX.search(path):
        return False
    is_absolute = path.startswith(("/", "~", "$")) or re.match(r"[A-Za-z]:/", path) is not None
    if not is_absolute:
        return _FOREIGN_FOLDERS.isdisjoint(path.lower().split("/"))
    if "/" in root and (path == root or path.startswith(f"{root}/")):
        return _FOREIGN_FOLDERS.isdisjoint(path[len(root) :].lower().split("/"))
    parts = path.lower().split("/")
    if not _FOREIGN_FOLDERS.isdisjoint(parts):
        return False
    if root and "/" not in root and root.lower() in parts:
        return True
    home = _HOME.match(path)
    return path.startswith(_SYSTEM_FOLDERS) or (home is not None and path[home.end() :].startswith("."))
