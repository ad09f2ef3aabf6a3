"""Reads a shell's line without a parser: its commands, their words, and what a shell is given to run.

A hook reads calls with it before they run, so it loads nothing that reading JSON has not loaded. `shell` parses lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ash", "ksh", "fish"})
WINDOWS_SHELLS = frozenset({"pwsh", "powershell", "cmd"})  # whose options are others
# Programs that only run another one, which has to be there: their options that take a value, and how many operands
# come before it.
PLAIN_WRAPPERS: dict[str, tuple[frozenset[str], int]] = {
    "sudo": (frozenset({"-u", "-g", "-h", "-p", "-C", "-D"}), 0),
    "env": (frozenset({"-u", "-C", "--unset", "--chdir"}), 0),
    "time": (frozenset({"-f", "-o"}), 0),
    "timeout": (frozenset({"-s", "-k", "--signal", "--kill-after"}), 1),
    "gtimeout": (frozenset({"-s", "-k"}), 1),
    "nohup": (frozenset(), 0),
    "exec": (frozenset({"-a"}), 0),
    "command": (frozenset(), 0),
    "builtin": (frozenset(), 0),
}
PASSED_ON = ("proxy", "--")  # words of a wrapper before the program that it runs
PATTERN_SIGNS = ("=*", "/(", "/[", " =")  # one of them stands in each word that `is_pattern`
MAX_LINE = 4000  # characters of a line that is looked at for what a shell expands
_KEYWORDS = ("!", "{", "if", "then", "else", "elif", "while", "until", "do", "$")  # before a command
_NO_PATTERNS = ("case", "[[", "[", "noglob")  # commands whose words zsh takes as they are
_ALPHABET = "abcdefghijklmnopqrstuvwxyz"
ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_VERSIONED = re.compile(r"(python|pip|node|ruby|perl|php|gcc|g\+\+|clang)[0-9.]*(?:-[0-9.]+)?")
_SCRIPT_OPTION = re.compile(r"[-/]c(?:om\w*)?|/?/[ck]")  # of PowerShell and cmd, in small letters, as the next two
_OPAQUE_OPTION = re.compile(r"[-/](?:e(?:c|nc\w*)?|f(?:ile)?)")  # of an encoded script, or one in a file
_BY_LINE = re.compile(r"-\w*f[a-z]*|--full")  # of `pkill` and `pgrep`: processes are found by their command lines
_KILL_VALUES = frozenset({"-u", "-U", "-G", "-c", "-d", "-F", "-r"})
_KILL_LIMITS = frozenset({"-x", "-o", "-P", "-g", "-s", "-t", "-l", "-0"})  # with which it may spare the shell
_BESIDE = re.compile(
    r"(?:pkill|pgrep)\b[^;\n]*[^&>|;\s]\s+&(?:\s|$)"
)  # it runs in the background: the line may end first
_SURE_PATTERN = re.compile(r"(?:\\[^\w\s]|\[\w\]|[^\\\[\](){}+*?^$|])*")  # of which each sign matches one
MAX_PATTERN = 200  # characters of a pattern that is looked for
_SWITCH = re.compile(r"[-/](?:no\w*|sta|mta|l(?:ogin)?|i(?:nteractive)?)")


class Word(str):
    """A word of a line; one that is quoted has quotes around it, and equals no other."""

    start = 0  # where it stands in its line


def split_commands(line: str) -> list[list[Word]]:
    """Return the words of each command of a shell line, from its program on.

    What follows a here-document's beginning is left out, and so is all of a line that is not understood.
    """
    commands: list[list[Word]] = [[]]
    word, start, is_quoted, opened, at = "", -1, False, 0, 0  # so many brackets of the word are open
    line = line.partition("<<")[0] + "\n"
    while at < len(line):
        char, after = line[at], line[at + 1 : at + 2]
        begin, at = at, at + 1
        if char == "\\":
            if after != "\n":
                word, is_quoted, start = word + after, True, begin if start < 0 else start
            at += 1
        elif char in "'\"":
            end = at
            while end < len(line) and line[end] != char:
                end += 2 if char == '"' and line[end] == "\\" else 1
            if end >= len(line):
                return []
            word, is_quoted, start, at = word + line[at:end], True, begin if start < 0 else start, end + 1
        elif char == "#" and start < 0:
            at = line.index("\n", at)
        elif char in " \t\n;&|()`" and not _goes_on(word, is_quoted, opened, char, after):
            if char == "(" and word[-1:] == "=":
                return []  # an array
            if start >= 0:
                commands[-1].append(Word(f'"{word}"' if is_quoted else word))
                commands[-1][-1].start = start
            word, start, is_quoted, opened = "", -1, False, 0
            if char not in " \t":
                commands.append([])
        else:
            word, start = word + char, begin if start < 0 else start
            opened += {"(": 1, ")": -1}.get(char, 0)
    return [words for each in commands if (words := _without_prefix(each))]


def _goes_on(word: str, is_quoted: bool, opened: int, char: str, after: str) -> bool:
    """Tell whether a word has a sign that ends others: `2>&1`, or a path that zsh takes for a pattern, `app/(shop)`."""
    if char == "&":
        return word[-1:] in (">", "<") or after == ">"
    return not is_quoted and ((char == "(" and word[-1:] == "/") or (char == ")" and opened > 0))


def _without_prefix(words: list[Word]) -> list[Word]:
    """Return a command from its program on: without assignments, keywords, and programs that run what follows them."""
    while words:
        if words[0] in PLAIN_WRAPPERS and words[:2] not in (["command", "-v"], ["command", "-V"]):
            words = words[-len(skip_options(words[1:], *PLAIN_WRAPPERS[words[0]])) or len(words) :]
        elif words[0] in _KEYWORDS or ASSIGNMENT.match(words[0]):
            words = words[1:]
        else:
            break
    return words


def skip_options(words: Sequence[str], values: frozenset[str], operands: int) -> list[str]:
    """Return words without the options that begin them, the `values` of these, and so many operands."""
    position = 0
    while position < len(words):
        word = words[position]
        if word == "--":
            return [*words[position + 1 :]]
        if word in values:
            position += 2
        elif (word.startswith("-") and len(word) > 1) or ASSIGNMENT.match(word):
            position += 1
        elif operands:
            operands -= 1
            position += 1
        else:
            break
    return [*words[position:]]


def unwrap_shells(commands: Iterable[Sequence[str]]) -> list[Sequence[str]]:
    """Return commands, of a shell that is given a script those of the script: `bash -lc "..."`."""
    unwrapped: list[Sequence[str]] = []
    for words in commands:
        script = shell_script([word[1:-1] if word[0] == '"' else word for word in words])
        unwrapped += [words] if script is None else split_commands(script)
    return unwrapped


def find_patterns(line: str, *others: str) -> list[Word]:
    """Return the words of a line that only zsh takes for patterns, or that are among the others; no quoted ones."""
    if len(line) > MAX_LINE or not any(sign in line for sign in (*PATTERN_SIGNS, *others)):
        return []
    commands = [words for words in split_commands(line) if words[0] not in _NO_PATTERNS]
    return [word for words in commands for word in words if word in others or is_pattern(word)]


def ends_own_shell(line: str) -> bool:
    """Tell whether a line ends the processes whose command line has a text that its own shell's has, too."""
    line = line[:MAX_LINE]
    may_end = ("pkill" in line or "pgrep" in line) and not _BESIDE.search(line)
    commands = unwrap_shells(split_commands(line)) if may_end else []
    for before, words, after in zip([[], *commands], commands, [*commands[1:], []], strict=False):
        is_given = (before[:1] == ["kill"] and before[-1] == "$") or (after[:1] == ["xargs"] and "kill" in after)
        options = {word for word in words[1:] if word[0] == "-"}
        is_by_line = any(map(_BY_LINE.fullmatch, options)) and _KILL_LIMITS.isdisjoint(options)
        if is_by_line and (words[0] == "pkill" or (words[0] == "pgrep" and is_given)):
            patterns = skip_options(words[1:], _KILL_VALUES, 0)[:1]
            if any(_is_found(word[1:-1] if word[0] == '"' else word, line) for word in patterns):
                return True
    return False


def _is_found(pattern: str, line: str) -> bool:
    """Tell whether an extended regular expression surely matches in a line: one of few signs, which takes no time."""
    for alternative in re.split(r"(?<!\\)\|", pattern) if len(pattern) <= MAX_PATTERN else ():
        position = 0
        for part in alternative.replace(".+", "..*").split(".*"):
            match = re.compile(part, re.DOTALL).search(line, position) if _SURE_PATTERN.fullmatch(part) else None
            if match is None:
                break
            position = match.end()
        else:
            return True
    return False


def is_pattern(word: str) -> bool:
    """Tell whether zsh alone takes a word for a pattern: an option's value, a path with a name in brackets, `===`."""
    if not all(char.isalnum() or char in "_./@+-()[]:~," for char in word):
        return (word[0] == "-" and "=*" in word) or word.startswith("===")  # the place of `==`
    name = word.partition("/[")[2].partition("]")[0].strip("[.").replace("_", "").lower()
    is_name = len(name) > 1 and name.isalpha() and name not in _ALPHABET  # `[abc]` means one of these letters
    return (is_name and ("]/" in word or "]." in word)) or ("/(" in word and ")" in word)


def command_line(value: object) -> str | None:
    """Return the line that a shell's argument is: of a vector its words, or the script that it gives to a shell."""
    if isinstance(value, str) or not isinstance(value, list):
        return value if isinstance(value, str) else None
    if not value or not all(isinstance(word, str) for word in value):
        return None
    import shlex  # only here, since it takes time

    return shell_script(value) or shlex.join(value)


def is_read_by_shell(value: object) -> bool:
    """Tell whether a shell reads an argument: what stands in a vector is run as it is, but for a shell's script."""
    return not isinstance(value, list) or (command_line(value) is not None and shell_script(value) is not None)


def shell_script(words: Sequence[str]) -> str | None:
    """Return the script that a shell is given to run: `bash -lc S`, `pwsh -NoLogo -Command S`, `cmd /c S`; else None.

    The shells of Windows join all their words from there on.
    """
    program, arguments = program_name(words[0]).lower(), words[1:]
    if program in WINDOWS_SHELLS:
        return _windows_script(program, arguments)
    for position, word in enumerate(arguments[:4] if program in SHELLS else ()):
        if not word.startswith("-"):
            return None
        if not word.startswith("--") and "c" in word:
            return arguments[position + 1] if position + 1 < len(arguments) else None
    return None


def _windows_script(program: str, words: Sequence[str]) -> str | None:
    """Return the script among the words of PowerShell or cmd; None for a file, and for what is encoded."""
    position = 0
    while position < len(words):
        word = words[position].lower()
        position += 1
        if _SCRIPT_OPTION.fullmatch(word):
            return " ".join(words[position:]) or None
        if not word.startswith(("-", "/")):
            return " ".join(words[position - 1 :]) if program == "powershell" else None
        if program != "cmd":
            if _OPAQUE_OPTION.fullmatch(word):
                return None
            position += _SWITCH.fullmatch(word) is None  # all others take a value
    return None


def program_name(word: str) -> str:
    """Return the name of a program without its folder and its version."""
    name = word.rstrip("/").rsplit("/", 1)[-1] or word
    if name[-4:].lower() == ".exe":
        name = name[:-4].rsplit("\\", 1)[-1] or name
    if name.lower() == "set-location":  # PowerShell's own name of it
        return "cd"
    versioned = _VERSIONED.fullmatch(name)
    return versioned[1] if versioned else name[:80]
