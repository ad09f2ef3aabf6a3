"""Tells which program of a shell line failed, by what the line printed.

Pure. An error that names a program, or a word that it was given, decides. Else, of programs joined by `&&`, the last
one that was reached: what printed something of its own was, and what prints only its failures, in its own name, passed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from consolidator.memory.calls import shell, shell_programs, tool_kinds
from consolidator.memory.calls.shell import Command
from consolidator.memory.solutions.line_kinds import NOTHING_ADDED

MAX_READ, MAX_ECHOES_READ = 4000, 20_000  # characters of the output
TRIVIAL_PROGRAMS = (
    tool_kinds.INSPECTING_PROGRAMS | shell_programs.MINOR_PROGRAMS | shell_programs.PIPE_FILTERS | {"mkdir", "curl"}
) - {"python", "node", "perl", "ruby"}  # that only look at something, or prepare it
TRIVIAL_OPERATIONS = ("git status", "git log", "git diff", "git show")
_LOOKS = re.compile(  # what is no program's name, as an expression of PowerShell; its cmdlets that show or filter
    r":|.*[^\w.@+\\/:-]|\.[A-Z]|\d+\.\.|(?:Select|ForEach|Where|Sort|Group|Measure|Out|Write|Get|Test|Format)-\w+$"
    r"|(?:Convert\w*|Join|Split)-\w+$|(?:if|for|foreach|while|switch|try|catch|param|function|return|throw)$"
    r"|Start-Sleep$|Tee-Object$"
)
TASK_RUNNERS = frozenset({"npm", "pnpm", "yarn", "bun", "deno", "mise", "uv", "make", "just", "task", "nox", "tox"})
_SILENT = {
    *shell_programs.word_set("rm cp mv ln chmod chown touch tee sed gofmt tar unzip"),
    "git add",
}  # name themselves
_NOT_FOUND = re.compile(
    r"(?:command not found: |: line \d+: |sh: (?:\d+: )?|^)([\w./+-]+)(?:: (?:command )?not found$|$)"
    r"|\bcommand ['\"`]([\w./+-]+)['\"`] (?:could not be|was not|not) found|Failed to spawn: `([\w./+-]+)`$"
    r"|^\S*python[\d.]*: No module named ([\w-]+)",
    re.M,
)
SAYS_NOT_FOUND = re.compile(r"not (?:be )?found|Failed to spawn|: No module named")
_NOT_UNDERSTOOD = re.compile(
    r"(?:^|[\s:])([\w./+-]+): (?:illegal|invalid|unrecogni[sz]ed|unknown) (?:option|command|argument|flag)"
)
_COMPLAINT = re.compile(
    r"^(?:\S*sh: (?:line )?\d+: |\(eval\):\d+: ?)?([\w+-][\w.+-]*)(?: \w+)?: \S|^  File \"<(?:string|stdin)>\"", re.M
)
_NAMES_WORD = re.compile(
    r"^(?:error|fatal|unknown|invalid|unrecogni[sz]ed)\b.*$"
    r"|(?:no matches found|no such file or directory|permission denied): \S+$",
    re.MULTILINE | re.IGNORECASE,
)
_WORD = re.compile(r"['\"`‘“]([^'\"`’”\s]{3,})['\"`’”]|: ([^\s'\"]{3,})$")
_MERGED = re.compile(r"CONFLICT|could not apply|Rebasing \(|overwritten by merge|^Auto-merging ", re.M)
_OWN_OUTPUT = {  # by operation: what it prints and nothing else does
    **dict.fromkeys(("git rebase", "git merge", "git pull", "git cherry-pick", "git stash pop"), _MERGED),
    "git push": re.compile(r"^To \S+$|failed to push", re.M),
    "go test": re.compile(r"^(?:ok|FAIL)\t|^(?:---|===) |\.test\]$", re.M),
}
_ECHOED = re.compile(r"^(?:\[(\S+)\] )?(?:\$|>) (\S.*)$", re.M)
_NOTHING_SAID = re.compile(r"(?:Exit code \d+)?")


def find_blamed(commands: Sequence[Command], text: str, *, is_masked: bool = False) -> int | None:
    """Return which of a line's commands failed; None where it has none.

    `is_masked` tells that the line's exit status is that of another command.
    """
    if not commands:
        return None
    named = find_named(commands, text)
    if named is None:
        named = _find_complaint(commands, text[:MAX_READ])
    if named is not None:
        return named
    chain = _decisive(commands, is_masked)
    if commands[-1].program in tool_kinds.SEARCHING_PROGRAMS and _NOTHING_SAID.fullmatch(text.strip()):
        return len(commands) - 1
    reached = 0 if is_masked else _find_reached(commands, chain, text)
    for scope in (chain, range(len(commands))):
        acting = [n for n in scope if n >= reached and is_acting(commands[n])]
        speaking = [n for n in acting if not _SILENT & {commands[n].program, commands[n].name}]
        if speaking:
            return speaking[0]
    acting = [n for n in chain if is_acting(commands[n])]
    reported = shell.reported_command(commands)
    return acting[-1] if acting else next(n for n, command in enumerate(commands) if command is reported)


def find_named(commands: Sequence[Command], text: str) -> int | None:
    """Return which command an output names as not found or not understood; None where it names none."""
    whole, text = text[:MAX_ECHOES_READ], text[:MAX_READ]
    says_so = SAYS_NOT_FOUND.search(whole) is not None
    missing = {match[match.lastindex or 0] for match in _NOT_FOUND.finditer(whole)} if says_so else set()
    blamed = {match[1] for match in _NOT_UNDERSTOOD.finditer(text)}
    added = "git add" if NOTHING_ADDED.search(text) else None
    for n, command in enumerate(commands):
        if command.name == added or _names_of(command) & blamed or {*_names_of(command), *command.wrappers} & missing:
            return n
    return None


def is_acting(command: Command) -> bool:
    """Whether a command does more than look at something."""
    return not only_looks(command.program, command.name)


def only_looks(program: str, operation: str) -> bool:
    """Whether an operation of a program only looks at something, or prepares it."""
    return program in TRIVIAL_PROGRAMS or operation in TRIVIAL_OPERATIONS or _LOOKS.match(program) is not None


def _names_of(command: Command) -> set[str]:
    """Return how a program is called: `python3` may be there where `python` is not."""
    return {command.program, *(word.rpartition("/")[2] for word in command.leading[-1:])}


def _decisive(commands: Sequence[Command], is_masked: bool) -> list[int]:
    """Return the commands of which one decided the exit status: after the last `;`; of a masked failure the hidden."""
    numbers = range(len(commands))
    if is_masked:
        return [n for n in numbers[:-1] if commands[n + 1].link in ("|", "|&", "||", ";", "&")]
    if any(command.program == "set" and "-e" in command.options[:1] for command in commands):
        return [*numbers]
    return [*numbers][max(n for n in numbers if n == 0 or commands[n].link in (";", "&")) :]


def _find_complaint(commands: Sequence[Command], text: str) -> int | None:
    """Return the command of the first complaint: of those that act, else of the others."""
    complaints = [(not is_acting(commands[n]), position, n) for position, n in _complaints(commands, text)]
    return min(complaints)[-1] if complaints else None


def _complaints(commands: Sequence[Command], text: str) -> Iterator[tuple[int, int]]:
    """Yield where in an output a program, or a word that it was given, is named, and the number of its command."""
    for match in _COMPLAINT.finditer(text):
        for n, command in enumerate(commands):
            is_code = command.program == "python" and ("-c" in command.options or "<<" in command.redirections)
            if match[1] in _names_of(command) if match[1] else is_code:
                yield match.start(), n
                break
    for match in _NAMES_WORD.finditer(text):
        words = named_words(match[0])
        for n, command in enumerate(commands):
            if command.program not in _SILENT and not words.isdisjoint(_words_of(command)):
                yield match.start(), n
                break


def named_words(line: str) -> set[str]:
    """Return the words that an error names: in quotes, or at its end."""
    return {group for pair in _WORD.findall(line) for group in pair if group}


def _words_of(command: Command) -> Iterator[str]:
    """Yield the words that a command was given, and what is joined in one: `--json a,b`."""
    for word in (*command.leading[-1:], *command.words):
        if len(word) <= MAX_READ // 10:
            yield word
            yield from re.split(r"[,=]", word.lstrip("-"))


def _find_reached(commands: Sequence[Command], chain: Iterable[int], text: str) -> int:
    """Return the number of the last command that an output shows to have been reached."""
    reached = 0
    runners = [n for n in chain if commands[n].program in TASK_RUNNERS]
    echoes = _ECHOED.findall(text[:MAX_ECHOES_READ])
    tasks = {name for task, _ in echoes for name in (task, task.partition(":")[0])} - {""}
    if tasks:
        runners = [n for n in runners if tasks.intersection(commands[n].words)]
    if runners and 0 < len(runners if tasks else echoes) <= len(runners):
        reached = runners[len(runners if tasks else echoes) - 1]
    for n in chain:
        command = commands[n]
        printed = _OWN_OUTPUT.get(command.name)
        if command.program == "echo" and command.operands and f"{' '.join(command.operands)}\n" in text:
            reached = max(reached, n + 1)
        elif printed is not None and printed.search(text):
            reached = max(reached, n)
    return reached
