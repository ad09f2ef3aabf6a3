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
from consolidator.memory.calls.shell_programs import COMMAND_KEYS, word_set
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
# Programs that only print how they are set up, by a subcommand: "npm config". Of others, nobody knows whose words they
# print: a service may keep its settings elsewhere.
_CONFIGURED = {
    **dict.fromkeys(
        ("npm", "pnpm", "yarn", "pip", "pip3", "poetry", "composer", "bundle", "flutter", "brew"), "config"
    ),
    **dict.fromkeys(("conda", "mamba", "podman", "kubectl", "gcloud", "pdm", "hatch", "spack", "conan"), "config"),
    **dict.fromkeys(("go", "deno"), "env"),
}
_NETWORK = re.compile(
    r"(?<![\w./-])(?:curl|wget|ssh|scp|sftp|ftp|nc|ncat|netcat|telnet|lynx|links|w3m|http|https|xh|aria2c|mail|mailx|mutt|"
    r"mu|notmuch|neomutt|himalaya|gh|glab|hub|dig|nslookup|whois|rsync|socat|openssl)(?![\w.=-])"
)
_HIDES_COMMANDS = re.compile(r"`|\$\(|[<>]\(|<<|\beval\b|/dev/(?:tcp|udp)")
_CONFIGURED_PAIRS = frozenset({("docker", "compose", "config"), ("helm", "repo", "list"), ("docker", "context", "ls")})
_KUBECTL_READS = word_set("view current-context get-contexts get-clusters")
_VERSION_OPTIONS = frozenset({"--version", "-V", "-version"})
_GIT_READS = word_set("config status rev-parse ls-files describe grep")
_BRANCH_OPTIONS = word_set("--list -l --show-current --no-color --no-column --sort=-committerdate")
_REMOTE_OPTIONS = word_set("-v --verbose --all --push")
_WRITES = word_set("set add edit unset push use-context set-url rm remove delete")
_REMOTE_URL = re.compile(r"\w[\w+.-]*://|^[\w.-]+@[\w.-]+:|^\\\\")
_FOREIGN_FOLDERS = word_set(
    """
    node_modules vendor third_party site-packages dist-packages venv .venv downloads tmp temp mail mails maildir
    inbox attachments cache .cache .git _cacache .thunderbird .mozilla .trash
    """
)
_FOREIGN_IN_HOME = word_set("registry extensions plugins marketplaces trash")  # downloaded into folders of settings
_FOREIGN_SUFFIX = re.compile(r"\.(?:eml|mbox|msg|html?|pdf|warc|har|docx?|diff|patch)$", re.IGNORECASE)
_HOME = re.compile(r"(?:~|\$HOME|\$\{HOME\}|/root|/(?:home|Users)/[^/]+|[A-Za-z]:/Users/[^/]+)/")
_SYSTEM_FOLDERS = ("/etc/", "/usr/local/etc/", "/proc/", "/sys/")
_LINES = re.compile(r"[\d,;$p ]+")  # what `sed -n` prints
_RUNS_OTHERS = word_set("-exec -execdir -ok -okdir -fprint --null-input --arg --argjson --args --pre")
# Options by which a program prints words of its command line instead of what it reads, and for which programs.
_PRINTS_OWN_WORDS = re.compile(
    r"-printf|-fprintf|--(?:printf|format|replace|time-style|label|output-delimiter)(?:=.*)?"
)
_SHORT_PRINTS_OWN_WORDS = {"stat": "c", "rg": "r", "column": "NHn", "nl": "s", "paste": "d", "date": "d"}
_QUIET_SED = word_set("-n -E -r -u -nE -nr --quiet --silent")
_JQ_KEY = re.compile(r"\[\"[^\"]*\"\]|\.\"[^\"]*\"")
_OTHERS_PROCESSES = word_set("ps top")  # their command lines are of every user
_HARMLESS_ASSIGNMENT = re.compile(r"(?:LANG|LC_\w+|TZ|PAGER|GIT_PAGER|TERM|NO_COLOR|CI|COLUMNS)=[\w.,-]*")
# Sets what a later `echo $NAME` prints: the agent's own words.
_ASSIGNS = re.compile(
    r"(?:^|[;&|({\n]|\bdo\b|\bthen\b)\s*[A-Za-z_]\w*\+?=\S*\s*(?:$|[;&|)}\n])|\bfor\s+\w+\s+in\b|\bread\s+\w"
)
_AS_ANOTHER = re.compile(
    r"(?<![\w./-])(?:su|runuser|chroot|nsenter|machinectl)\s|(?:sudo|doas)\s+(?:\S+\s+)*?-\w*[ugih]|--user\b"
)
# Arguments that say what of a file is shown, or how a command is run; any other may say where it is read.
_HARMLESS_ARGUMENT = re.compile(
    r"offset|limit|pattern|query|regex|glob|include|exclude|type|output_mode|head_limit|multiline|context|recursive|"
    r"ignore|encoding|description|explanation|justification|timeout\w*|(?:start|end)_?line(?:_one_indexed|_number)?|"
    r"startLine|endLine|view_range|line_(?:start|end|numbers?)|max_\w+|yield_time_ms|run_in_background|is_background|"
    r"blocking|login|case_sensitive|case_insensitive|include_pattern|exclude_pattern|is_regexp|should_read_entire_file|"
    r"dangerouslyDisableSandbox|with_escalated_permissions|-[A-Za-z]"
)
_DIRECTORY_ARGUMENTS = word_set("workdir cwd working_directory working_dir workingDirectory directory")
_PATH_PATTERNS = word_set("glob include exclude include_pattern exclude_pattern")
_GLOB_TOOLS = word_set("glob ls list_dir list_directory")
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
    if isinstance(arguments, Mapping) and not all(
        _is_harmless(name, key, arguments, line, project) for key in arguments
    ):
        return False
    if line is not None:
        directory = call_directory(tool, arguments)
        return (directory is None or _is_own_path(directory, project)) and _runs_locally(line, project)
    reads = tool_kinds.READING_TOOLS.fullmatch(name) is not None
    if not isinstance(arguments, Mapping) or not (reads or name in _SEARCHING_TOOLS):
        return False
    paths = [str(arguments[key]) for key in tool_kinds.PATH_KEYS if arguments.get(key)]
    return bool(paths or not reads) and all(_is_own_path(path, project) for path in paths)


def _is_harmless(tool: str, key: Any, arguments: Mapping[str, Any], line: str | None, project: str | None) -> bool:
    """Tell whether an argument of a call does not have it read elsewhere; paths are looked at by themselves."""
    name = str(key)
    if name in _DIRECTORY_ARGUMENTS or (name in COMMAND_KEYS if line is not None else name in tool_kinds.PATH_KEYS):
        return True
    if name == "command" and arguments[key] == "view":  # of an editing tool
        return True
    if name in _PATH_PATTERNS or (name == "pattern" and tool in _GLOB_TOOLS):
        return _is_own_path(str(arguments[key]), project)
    return _HARMLESS_ARGUMENT.fullmatch(name) is not None


def _runs_locally(line: str, project: str | None) -> bool:
    """Tell whether all programs of a command line read locally; what may hide others does not."""
    line = line.strip()
    if len(line) > MAX_COMMAND or any(
        hides.search(line) for hides in (_HIDES_COMMANDS, _NETWORK, _AS_ANOTHER, _ASSIGNS)
    ):
        return False
    # Each line by itself: of one that does not parse, the parser reads the beginning only.
    commands = [parse_commands(part) for part in line.splitlines() if part.strip()]
    return bool(commands) and all(part and all(_reads_locally(each, project) for each in part) for part in commands)


def _reads_locally(command: Command, project: str | None) -> bool:
    program, words = command.program, command.words
    if not all(map(_HARMLESS_ASSIGNMENT.fullmatch, command.assignments)):  # "HOME=/tmp/x npm config"
        return False
    if command.writes or any(redirection.startswith("<") for redirection in command.redirections):
        return False
    if program in ("echo", "printf"):  # an agent's own words, but for separators and variables
        return all(_VARIABLE.fullmatch(word) or not any(char.isalpha() for char in word) for word in words)
    if program in _OTHERS_PROCESSES or _prints_own_words(program, words):
        return False
    if program in tool_kinds.INSPECTING_PROGRAMS | _FILTERS | _MACHINE_PROGRAMS:
        return _RUNS_OTHERS.isdisjoint(words) and all(_is_own_path(word, project) for word in words)
    return _prints_configuration(program, words, project)


def _prints_own_words(program: str, words: tuple[str, ...]) -> bool:
    """Tell whether a program may print words of its command line, which are the agent's, as if it had read them."""
    if program in ("jq", "yq"):
        return "-n" in words or any('"' in _JQ_KEY.sub("", word) for word in words)
    if program == "sed":
        options = [word for word in words if word.startswith("-")]
        scripts = [word for word in words if not word.startswith("-")][:1]
        return not (_QUIET_SED.issuperset(options) and all(_LINES.fullmatch(word) for word in scripts))
    short = _SHORT_PRINTS_OWN_WORDS.get(program, "")
    return any(
        _PRINTS_OWN_WORDS.fullmatch(word) or (short and re.match(rf"-(?!-)\w*[{short}]", word) is not None)
        for word in words
    )


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
        return _git_reads_locally(first, words)
    if (program, first, second) in _CONFIGURED_PAIRS:
        return True
    return _CONFIGURED.get(program) == first and (program != "kubectl" or second in _KUBECTL_READS)


def _git_reads_locally(subcommand: str, words: tuple[str, ...]) -> bool:
    """Tell whether git shows what is here: no names of branches, messages or files that others gave."""
    rest = words[words.index(subcommand) + 1 :] if subcommand else ()
    if subcommand == "branch":
        return _BRANCH_OPTIONS.issuperset(rest)
    if subcommand == "remote":
        named = [word for word in rest if word not in _REMOTE_OPTIONS]
        return not named or (named[0] == "get-url" and len(named) == 2)
    names_commit = subcommand == "grep" and sum(not word.startswith("-") for word in words) > 2
    return subcommand in _GIT_READS and not names_commit and not any(word.startswith("--blob") for word in words)


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
    if not (_FOREIGN_FOLDERS | _FOREIGN_IN_HOME).isdisjoint(parts):
        return False
    if root and "/" not in root and root.lower() in parts:
        return True
    home = _HOME.match(path)
    return path.startswith(_SYSTEM_FOLDERS) or (
        home is not None and path[home.end() :].startswith(".") and _is_own_home(home[0], root)
    )


def _is_own_home(home: str, project: str) -> bool:
    """Tell whether a home is that of the session's account: where its project is; else only the account's may be."""
    if home.startswith(("~", "$")):
        return True
    own = _HOME.match(f"{project}/")
    return home == (own[0] if own is not None else "/root/")
