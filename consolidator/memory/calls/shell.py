"""Parse shell command lines: which programs a line runs, and whose outcome it reports.

Pure and bounded: nothing is executed or looked up. A line that cannot be parsed falls back to its first word.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from consolidator.memory.calls import shell_programs, tool_kinds
from consolidator.memory.calls.shell_words import (
    ASSIGNMENT,
    PASSED_ON,
    SHELLS,
    WINDOWS_SHELLS,
    program_name,
    shell_script,
    skip_options,
)

MAX_COMMAND = 2048  # characters parsed; the parser's error recovery is quadratic
MAX_PIPES = 100  # likewise
MAX_SCANNED = 64 * 1024  # characters scanned for the ends of here-documents
MAX_DEPTH = 60  # of nested groups and shells
_BASH = Language(tree_sitter_bash.language())
_THREAD_LOCAL = threading.local()
_CHECK_OPTIONS = frozenset({"--check", "--check-only", "--dry-run", "--list-different"})
_LOOKING_OPTIONS = {  # of programs whose `-l` only lists, and whose `-n` only reads
    **dict.fromkeys(("gofmt", "goimports", "prettier", "rustfmt"), _CHECK_OPTIONS | {"-l"}),
    **dict.fromkeys(SHELLS, frozenset({"-n"})),
}
_NO_WORDS = frozenset({"variable_assignment", "file_redirect", "herestring_redirect", "heredoc_redirect", "comment"})
_LINK_OPERATORS = frozenset({"&&", "||", "|", "|&", ";", ";;", "&", "\n"})
_WORD = re.compile(r"[a-z][a-z0-9_.:-]*")
_NON_ASCII = re.compile(r"[^\x00-\x7f]")
_NAME = re.compile(r"[\w./-]+")
_ASSIGNED = re.compile(r"\$[\w:]+\s*[-+]?=(?!=)\s*(?P<name>[A-Za-z][\w-]*(?=\s|$))?")  # to a variable of PowerShell
_SCRIPT = re.compile(r"(?i)\.(?:(?:ba|z|k|fi)?sh|py|rb|pl|php|[cm]?[jt]s|[jt]sx|exp|lua|exs|ps1|tcl|r)$")
_ONE_CALLS_OWN = re.compile(r"(?i)[$*?`\s]|(?:^|[/\\])(?:te?mp|var/folders|scratchpad)[/\\]")  # of a script's path
_RUNS_SCRIPTS = tool_kinds.INTERPRETERS.union(SHELLS, WINDOWS_SHELLS, ["expect", "source", ".", "tclsh", "rscript"])
_HEREDOC = re.compile(r"<<-?\s*[\'\"]?(\w+)")
_FENCED_EDIT = re.compile(r"(\w+)\b([^\n]*)\n.*\nend_of_\1\s*", re.DOTALL)  # SWE-agent's `edit 1:3 ... end_of_edit`


@dataclass(frozen=True, slots=True)
class Command:
    """One program of a command line, without wrappers such as sudo, env and `uv run`."""

    program: str  # base name; `python -m pytest` is pytest, `bash -c "..."` is what it runs
    subcommand: str | None = None  # "commit", "run build"; only for programs that have them
    operands: tuple[str, ...] = ()  # words that are neither options nor the subcommand, without quotes
    options: tuple[str, ...] = ()  # as written, values that belong to them joined by "="
    redirections: tuple[str, ...] = ()  # ">out.txt", "2>&1"; "<<" for a here-document
    words: tuple[str, ...] = ()  # all words after the program, in order, without quotes
    assignments: tuple[str, ...] = ()  # of its environment, without quotes: "CI=1"; also what `export` sets
    link: str = ""  # the operator before it: "" (first), "&&", "||", "|", ";" or "&"
    wrappers: tuple[str, ...] = ()  # the programs that run it: "sudo", "env", "npx"
    leading: tuple[str, ...] = ()  # the words up to the program that it needs, as written: ("uv", "run", "./check")

    @property
    def name(self) -> str:
        """Program and subcommand: "git commit"."""
        return f"{self.program} {self.subcommand}" if self.subcommand else self.program

    @property
    def operation(self) -> str:
        """The name with the option by which it only looks: `cargo fmt --check` does nothing of `cargo fmt`."""
        only = _LOOKING_OPTIONS.get(self.program, _CHECK_OPTIONS)
        return " ".join([self.name, *[option for option in self.options if option in only][:1]])

    @property
    def script(self) -> str | None:
        """The file that an interpreter is given to run, as written; None for what was written for the call."""
        only_reads = {"-n"} if self.program in SHELLS else set[str]()
        names = {option.partition("=")[0] for option in self.options}
        is_code = not names.isdisjoint(tool_kinds.INLINE_CODE_OPTIONS | only_reads)
        program = self.program.lower()
        is_task = self.subcommand not in (None, "run")  # as of `bun test a.test.ts`
        operands = self.operands if program in _RUNS_SCRIPTS and not (is_code or is_task) else ()
        path = next(filter(_SCRIPT.search, operands[: None if program in WINDOWS_SHELLS else 1]), None)
        return path if path and not _ONE_CALLS_OWN.search(path) else None

    @property
    def writes(self) -> bool:
        """Whether its output goes to a file, as in `cat > file`."""
        return any(r.startswith((">", "1>", "&>")) and ">/dev/" not in r and ">&" not in r for r in self.redirections)


def parse_commands(command: str) -> list[Command]:
    """Return the programs that a line runs, in order; [] where it runs none (only assignments, comments)."""
    return list(_parse_cached(command if _is_within_limits(command) else _shorten(command))[0])


def is_readable(command: str) -> bool:
    """Whether a whole line parses: of any other some programs may be missing among those of `parse_commands`."""
    return _is_within_limits(command) and _parse_cached(command)[1]


def inner_texts(command: str) -> tuple[list[str], list[str]]:
    """Return the lines of a line's substitutions, and what it assigns, as "NAME=value" without quotes."""
    command = command if _is_within_limits(command) else _shorten(command)
    nodes = [_parse_tree(command)] if re.search(r"[=`(]", command) else []
    substituted: list[str] = []
    assigned: list[str] = []
    while nodes:
        node = nodes.pop()
        if node.type in ("command_substitution", "process_substitution"):
            text = command[node.start_byte : node.end_byte]
            substituted.append(re.sub(r"^(?:`|[$<>]\()|[`)]$", "", text))
        assigned += _assignments(node, command)
        nodes += node.children
    return substituted, assigned


def _is_within_limits(command: str) -> bool:
    return len(command) <= MAX_COMMAND and command.count("|") <= MAX_PIPES


def _shorten(command: str) -> str:
    """Shorten a command: drop the bodies of here-documents first, then cut the end."""
    kept: list[str] = []
    heredoc_end = None
    for line in command[:MAX_SCANNED].split("\n"):
        if heredoc_end is not None:
            if line.strip() != heredoc_end:
                continue
            heredoc_end = None
        elif match := _HEREDOC.search(line):
            heredoc_end = match[1]
        kept.append(line)
    text = "\n".join(kept)[:MAX_COMMAND]
    return "|".join(text.split("|")[:MAX_PIPES])


def reported_command(commands: Sequence[Command]) -> Command | None:
    """Return the command whose outcome the call reports.

    In a list, the last one that is not minor (cd, echo). In a pipeline, the first that does the work: `git log | head`
    is git log, `echo x | bd import` is bd import. Fallbacks such as `|| true` do not count.
    """
    pipelines: list[list[Command]] = []
    for command in commands:
        if command.link in ("|", "|&") and pipelines:
            pipelines[-1].append(command)
        else:
            pipelines.append([command])
    workers = [_pipeline_worker(pipeline) for pipeline in _without_fallbacks(pipelines)]
    for command in reversed(workers):
        if command.program not in shell_programs.MINOR_PROGRAMS or command.writes:
            return command
    return workers[-1] if workers else None


def _without_fallbacks(pipelines: list[list[Command]]) -> list[list[Command]]:
    kept: list[list[Command]] = []
    for pipeline in pipelines:
        if pipeline[0].link == "||" and kept:
            if (
                kept[-1][0].program not in shell_programs.CONDITION_PROGRAMS
                or pipeline[0].program in shell_programs.MINOR_PROGRAMS
            ):
                continue
            kept.pop()  # `[ -d x ] || git clone`: the test is just the condition
        kept.append(pipeline)
    return kept


def _pipeline_worker(pipeline: list[Command]) -> Command:
    for command in pipeline:
        if command.program not in shell_programs.PIPE_SOURCES and not _is_filter(command):
            return command
    if len(pipeline) > 1 and pipeline[0].program in ("echo", "printf"):
        return pipeline[1]
    return pipeline[0]


def _is_filter(command: Command) -> bool:
    if command.program in ("python", "node", "perl", "ruby"):  # one-liners filter, scripts do the work
        return not command.operands or any(option in ("-c", "-e", "-ne", "-pe") for option in command.options)
    return command.program in shell_programs.PIPE_FILTERS


@lru_cache(maxsize=8192)
def _parse_cached(command: str) -> tuple[tuple[Command, ...], bool]:
    """Return a line's programs, and whether all of it parses."""
    is_whole = not _parse_tree(command).has_error
    return _parse(command), is_whole


def _parse(command: str, depth: int = 0) -> tuple[Command, ...]:
    fenced = _FENCED_EDIT.fullmatch(command.strip())
    if fenced:
        return (_build_command([fenced[1], *fenced[2].split()], (), ""),)
    root = _parse_tree(command)
    if root.has_error:
        first_line = command.strip().split("\n", 1)[0]
        if first_line != command:
            return _parse(first_line, depth)
    commands = tuple(_walk_commands(root, command, depth))
    is_cut = root.has_error and not _ASSIGNED.match(command)
    if is_cut and (not commands or commands[0].program not in command.split(None, 1)[0]):
        first_name = _NAME.search(command)
        return (_build_command([first_name[0]], (), ""),) if first_name else ()
    if len(commands) > 1 and any(c.program != "cd" for c in commands):
        commands = tuple(c for c in commands if c.program != "cd")
        commands = (replace(commands[0], link=""), *commands[1:])
    return commands


def _parse_tree(command: str) -> Node:
    """Return the tree of a line; of the one that this thread parsed last, the same.

    The grammar's scanner can crash the process on non-ASCII characters, so it gets a letter for each. Positions stay
    the same, and words are read from the command itself.
    """
    last: tuple[str, Node] | None = getattr(_THREAD_LOCAL, "last", None)
    if last is None or last[0] != command:
        last = command, _thread_parser().parse(_NON_ASCII.sub("x", command).encode()).root_node
        _THREAD_LOCAL.last = last
    return last[1]


def _thread_parser() -> Parser:
    parser: Parser | None = getattr(_THREAD_LOCAL, "parser", None)
    if parser is None:
        parser = _THREAD_LOCAL.parser = Parser(_BASH)
    return parser


def _walk_commands(root: Node, source: str, depth: int) -> Iterator[Command]:
    """Walk the tree in order. The link of two commands comes from the operator between them, not from the nesting."""
    link = ""
    stack: list[tuple[Node, tuple[str, ...], int]] = [(root, (), depth)]
    while stack:
        node, redirections, level = stack.pop()
        kind = node.type
        if kind in _LINK_OPERATORS:
            link = ";" if kind in (";;", "\n") else kind
        elif kind in ("then", "do"):
            link = "&&"
        elif kind == "command" and (assigned := _ASSIGNED.match(text := source[node.start_byte : node.end_byte])):
            if assigned["name"]:  # of a cmdlet or program, whose output it takes; any other value is no call
                for command in _parse(text[assigned.start("name") :], level + 10) if level < MAX_DEPTH else ():
                    yield replace(command, link=link)
                    link = ";"
        elif kind == "command":
            assignments = _assignments(node, source)
            words = [_unquote(child, source) for child in node.named_children if child.type not in _NO_WORDS]
            for command in _unwrap_command(words, redirections, link, level):
                yield replace(command, assignments=(*assignments, *command.assignments)) if assignments else command
                link = ";"
        elif kind in ("test_command", "declaration_command", "unset_command"):
            program = "test" if kind == "test_command" else "export"
            yield Command(program, assignments=_assignments(node, source), link=link)
            link = ";"
        elif level < MAX_DEPTH:
            if kind in ("else_clause", "elif_clause"):
                link = "||"
            if kind == "redirected_statement":
                redirections = tuple(_redirection(child, source) for child in node.children_by_field_name("redirect"))
            stack.extend((child, redirections, level + 1) for child in reversed(_children_to_walk(node)))


def _children_to_walk(node: Node) -> list[Node]:
    skipped = ("file_redirect", "herestring_redirect", "comment", "word", "raw_string", "heredoc_start", "heredoc_body")
    if node.type == "heredoc_redirect":  # a pipeline may continue after `<<EOF`
        return [child for child in node.children if child.type not in (*skipped, "heredoc_end")]
    return [child for child in node.children if child.type not in skipped]


def _redirection(node: Node, source: str) -> str:
    if node.type == "heredoc_redirect":
        inner = "".join(_redirection(child, source) for child in node.children if child.type == "file_redirect")
        return inner or "<<"
    if node.type == "herestring_redirect":
        return "<<<"
    return re.sub(r"\s+", "", source[node.start_byte : node.end_byte])


def _assignments(node: Node, source: str) -> tuple[str, ...]:
    """Return the assignments before a command or in a declaration, without quotes."""
    assignments = (child for child in node.children if child.type == "variable_assignment")
    return tuple("".join(_unquote(part, source) for part in child.children) for child in assignments)


def _unquote(node: Node, source: str) -> str:
    text = source[node.start_byte : node.end_byte]
    if node.type in ("command_name", "concatenation"):
        return "".join(_unquote(child, source) for child in node.children) or text
    if node.type == "raw_string" or (node.type == "string" and len(text) > 1):
        return text[1:-1]
    return text


def _unwrap_command(words: list[str], redirections: tuple[str, ...], link: str, depth: int) -> Iterator[Command]:
    """Yield the command without its wrappers; for a shell with a script, the script's commands."""
    assignments: list[str] = []  # the operands of `env`
    leading: list[str] = []
    wrappers: tuple[str, ...] = ()
    for _ in range(8):
        if not words:
            return
        program = program_name(words[0])
        rest = words[1:]
        script = shell_script(words) if depth < MAX_DEPTH else None
        if script is not None:
            inner = _parse(script, depth + 10)
            for n, command in enumerate(inner):
                environment = (*assignments, *command.assignments)
                yield replace(
                    command,
                    assignments=environment,
                    link=command.link if n else link,
                    wrappers=(*wrappers, *command.wrappers),
                )
            return
        inner_words = _wrapped_words(program, rest)
        if inner_words is None:
            break
        assignments.extend(word for word in rest[: len(rest) - len(inner_words)] if ASSIGNMENT.match(word))
        is_runner = program in shell_programs.RUNNERS
        if is_runner or program in shell_programs.PROVIDERS:
            leading += words[: len(words) - len(inner_words)]
        words = inner_words
        task = _task_words(program, rest)[0] if is_runner else ""
        wrappers = (*wrappers, f"{program} {task}".strip())
    yield replace(
        _build_command(words, redirections, link),
        assignments=tuple(assignments),
        wrappers=wrappers,
        leading=(*leading, words[0]),
    )


def _wrapped_words(program: str, rest: list[str]) -> list[str] | None:
    """Return the words of the program that a wrapper runs, or None where it is no wrapper."""
    if program in ("python", "pypy") and rest[:1] == ["-m"] and len(rest) > 1:
        return rest[1:]
    if program == "python" and rest and rest[0].rsplit("/", 1)[-1] == "manage.py":
        return rest
    if program in shell_programs.WRAPPERS:
        values, operands = shell_programs.WRAPPERS[program]
        inner = skip_options(rest, values, operands)
        if program == "command" and rest[:1] in (["-v"], ["-V"]):
            return None
        return inner or None
    if is_unknown_wrapper(program, rest):
        return rest[1:] if rest[0] in PASSED_ON else rest
    task = _task_words(program, rest)
    runs = shell_programs.RUNNERS.get(program, {})
    return skip_options(task[1:], runs[task[0]], 0) or None if task and task[0] in runs else None


def _task_words(program: str, rest: list[str]) -> list[str]:
    """Return the words of a program from its subcommand on."""
    return skip_options(rest, shell_programs.OPTIONS_WITH_VALUE.get(program, frozenset()), 0)


def is_unknown_wrapper(program: str, rest: Sequence[str]) -> bool:
    """Whether a program that no table knows is given a known one to run: `rtk git status`."""
    inner = rest[1:2] if rest and rest[0] in PASSED_ON else rest[:1]
    if not inner or program.lower() in shell_programs.KNOWN_PROGRAMS or "." in program:
        return False
    name = program_name(inner[0])
    return name in shell_programs.WRAPPED_PROGRAMS and name not in shell_programs.SUBCOMMAND_VERBS


def _build_command(words: list[str], redirections: tuple[str, ...], link: str) -> Command:
    program = program_name(words[0])
    values = shell_programs.OPTIONS_WITH_VALUE.get(program, frozenset())
    operands: list[str] = []
    options: list[str] = []
    name: list[str] = []
    is_value = False  # of the option before
    for position, word in enumerate(words[1:], 1):
        if is_value:
            options[-1] += "=" + word
            is_value = False
        elif word.startswith("-") and len(word) > 1:
            options.append(word)
            is_value = word in values and position + 1 < len(words)
        elif not operands and _is_subcommand(program, name, word):
            name.append(word)
        else:
            operands.append(word)
    return Command(
        program, " ".join(name) or None, tuple(operands), tuple(options), redirections, tuple(words[1:]), link=link
    )


def _is_subcommand(program: str, name: list[str], word: str) -> bool:
    """Whether a bare word is the next part of the subcommand, after the parts in `name`."""
    if not _WORD.fullmatch(word) or len(word) > 40:
        return False
    if not name:
        if program in shell_programs.SUBCOMMAND_PROGRAMS:
            return True
        verb = word if "." in word else word.partition("-")[0]  # of `validate-todo`
        return program not in shell_programs.PLAIN_PROGRAMS and verb in shell_programs.SUBCOMMAND_VERBS
    nested = {f"{program}/{part}" for part in (*name, "*")}
    return len(name) == 1 and not nested.isdisjoint(shell_programs.NESTED_SUBCOMMANDS)
