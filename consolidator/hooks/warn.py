"""What a coding agent runs before a call: says that such a call never worked in this project, and what works instead.

Run as a file of its own: `python -I -S warn.py HOME EVENT CLIENT`, with the hook's payload on standard input. It runs
at every call of the shell, so it asks nobody and starts nothing: the nights leave it a small file of the project's
warnings, `hooks/warnings`. Only where all words of one stand in the payload the payload is read, and the call decided
upon: its program has to stand where a command begins, not in quotes, a here-document or after `echo`. It never blocks a
call, ends with 0 whatever happens, and leaves a line in `hooks/warned` of what it said, which the service counts. Where
a person said yes to a warning, the call is shown to the person without what never works, to be run so or not.
"""

from __future__ import annotations

import os
import signal
import sys

DEADLINE_SECONDS = 0.25
MAX_PAYLOAD = 4 << 20  # bytes
MAX_FILE = 64 << 10  # bytes of the warnings, and of what was said
MARKER = "CONSOLIDATOR_MODEL_CALL"  # in the environment of an agent that answers a night's question
DIRECTORY, WARNINGS, WARNED = "hooks", "warnings", "warned"
HEADER = b"consolidator warnings 1"
_NO_PATTERNS = ("case", "[[", "[", "noglob")  # commands whose words zsh takes as they are
_SHELL_TOOLS = ("Bash", "shell", "PowerShell")  # also a server's: `mcp__acp__Bash`
_SHELLS = ("bash", "sh", "zsh", "pwsh", "powershell")
_BEFORE_COMMANDS: tuple[str, ...] = ("!", "{", "if", "then", "else", "elif", "while", "until", "do")
_BEFORE_COMMANDS += ("time", "sudo", "nohup", "command", "exec", "env")
CORRECTED_CLIENTS = ("claude-code",)  # that let a hook change a call's input and ask the person


def main(arguments: list[str]) -> None:
    """Warn of one call: `arguments` are the consolidator's home, the name of the event, and the agent's."""
    if MARKER in os.environ:
        return
    signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
    signal.setitimer(signal.ITIMER_REAL, DEADLINE_SECONDS)
    home, event, client = arguments
    payload = _read(0, MAX_PAYLOAD + 1)
    directory = os.path.join(home, DIRECTORY)
    warnings = b"" if len(payload) > MAX_PAYLOAD else _load(directory)
    repository = _find_repository(payload) if warnings else ""
    candidates = _find_candidates(warnings, payload + os.fsencode(repository))
    if not candidates:
        return
    import json  # only here, since it takes time
    import time

    body = json.loads(payload)
    programs = frozenset(warnings.split(b"\n", 2)[1][1:].decode().split())  # in the second line
    for project, line in candidates:
        warning = json.loads(line)
        called = {**body, "cwd": repository or body.get("cwd")}
        if not concerns(warning["match"], json.loads(b'"%s"' % project), called, programs):
            continue
        answer: dict[str, object] = {"hookEventName": event, "additionalContext": warning["block"]}
        command = body["tool_input"].get("command") if client in CORRECTED_CLIENTS else None
        corrected = correct(warning["match"], command, programs)
        note = {name: body.get(name) for name in ("session_id", "tool_use_id", "cwd")}
        note["correction"] = None if corrected is None else "made" if warning.get("corrects") else "possible"
        if note["correction"] == "made":  # "ask": what the person has to allow is asked as ever, of the corrected call
            reason = f"corrected by what earlier sessions showed [{warning['id']}]"
            answer |= {"permissionDecision": "ask", "permissionDecisionReason": reason}
            answer["updatedInput"] = {**body["tool_input"], "command": corrected}
        os.write(1, json.dumps({"hookSpecificOutput": answer}).encode() + b"\n")
        note |= {name: warning[name] for name in ("id", "tokens", "project")}
        record = json.dumps({**note, "client": client, "at": time.time()}).encode() + b"\n"
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        target = os.open(os.path.join(directory, WARNED), flags, 0o600)
        if os.fstat(target).st_size + len(record) <= MAX_FILE:
            os.write(target, record)
        return


def _find_repository(payload: bytes) -> str:
    """Return the repository of a call's directory that is a worktree, where both say so; else ""."""
    cwd = payload.partition(b'"cwd"')[2].lstrip(b" :").partition(b'"')[2].partition(b'"')[0].decode(errors="replace")
    try:
        with open(os.path.join(cwd, ".git")) as file:
            repository, _, name = file.read(MAX_FILE).strip().removeprefix("gitdir: ").rpartition("/.git/worktrees/")
        repository = os.path.normpath(os.path.join(cwd, repository))
        with open(os.path.join(repository, ".git", "worktrees", name, "gitdir")) as file:
            return repository if cwd and file.read(MAX_FILE).strip() == os.path.join(cwd, ".git") else ""
    except (OSError, ValueError):  # no file, or none of text
        return ""


def _find_candidates(warnings: bytes, payload: bytes) -> list[tuple[bytes, bytes]]:
    """Return the project and the JSON of each warning of which all words stand in a payload."""
    candidates, project = [], b""
    for line in warnings.split(b"\n"):
        if line[:1] == b"P":
            project = line[1:] if line[1:] in payload else b""
        elif project and line[:1] == b"W":
            words, _, warning = line[1:].partition(b"\t\t")
            if all(any(part in payload for part in word.split(b" or ")) for word in words.split(b"\t")):
                candidates.append((project, warning))
    return candidates


def concerns(
    match: dict[str, str], project: str, body: dict[str, object], programs: frozenset[str] = frozenset()
) -> bool:
    """Tell whether a call never worked or is refused. `match` is that of the lesson; what is not sure is not.

    A program that one of the known `programs` follows only runs that one: it is not what fails.
    """
    cwd, tool_input = body.get("cwd"), body.get("tool_input")
    if not isinstance(cwd, str) or not isinstance(tool_input, dict):
        return False
    if not (cwd + "/").startswith((project + "/", project + "-worktrees/", project + ".worktrees/")):
        return False
    if match.get("kind") == "skill":
        named = tool_input.get("skill", tool_input.get("command"))
        return body.get("tool_name") == "Skill" and named == match.get("skill")
    line = tool_input.get("command")
    if isinstance(line, list) and line and match.get("kind") != "pattern":
        line = line[-1]  # ["bash", "-lc", ...]
    if str(body.get("tool_name")).rpartition("__")[2] not in _SHELL_TOOLS or not isinstance(line, str):
        return False
    commands = split_commands(line)
    if match.get("kind") != "pattern":  # a script in quotes is read by another shell than the one that was learned of
        commands = _unwrap(commands)
    if match.get("kind") == "lone" and (len(commands) != 1 or ">" in line):
        return False
    return any(_is_match(match, words, programs) for words in commands)


def correct(match: dict[str, str], line: object, programs: frozenset[str] = frozenset()) -> str | None:
    """Return a call's line without a wrapper that cannot run its program; None where that is not sure.

    The wrapper goes only from where it begins a command: each other word stays, and so does a document.
    """
    import re  # only here, since it takes time

    if match.get("kind") != "wrapper" or not isinstance(line, str):
        return None
    wrapper, program = match["wrapper"].split(), re.escape(match["program"])
    head, begin, document = line.partition("<<")
    if "$'" in head or re.search(r'"[^"]*(?:\$\(|`|\$\{[^}"]*")', head):
        return None  # quotes that `split_commands` does not read as a shell does
    words = r"\s+".join(map(re.escape, wrapper))
    corrected = re.sub(rf"\b{words}\s+(?:(?:proxy|--)\s+)?(?={program}(?:[\s;&|)]|$))", "", head)
    before = split_commands(line)
    begun = [_is_match(match, command, programs) for command in before]
    after = [c[c.index(match["program"]) :] if is_begun else c for c, is_begun in zip(before, begun, strict=True)]
    return corrected + begin + document if any(begun) and split_commands(corrected) == after else None


def _is_match(match: dict[str, str], words: list[str], programs: frozenset[str]) -> bool:
    kind, program = match.get("kind"), match.get("program")
    operation = str(match.get("operation")).split()
    if kind == "wrapper":
        wrapper = str(match.get("wrapper")).split()
        return words[: len(wrapper)] == wrapper and _find_run(words[len(wrapper) :]) == program
    if kind == "program":
        return words[0] == program and words[1:2] != ["-m"] and _find_run(words[1:]) not in programs
    if kind == "pattern":
        return words[0] not in _NO_PATTERNS and any(map(_is_pattern, words[1:]))
    if kind == "pkill":
        return words[0] == kind and "-f" in words and not any("[" in word for word in words)
    if kind == "lone":
        return words[0] == program and any("." in word or "/" in word for word in words[1:])
    begin = [word.rpartition("/")[2] for word in words[: len(operation)]]  # a script is named without its folder
    if kind == "operation":
        return begin == operation
    if kind == "flag":
        options = words[1 : words.index("--") if "--" in words else None]
        named = [word.partition("=")[0] for word in options]
        return begin == operation and match.get("option") in named
    return False


def _is_pattern(word: str) -> bool:
    """Tell whether zsh alone takes a word for a pattern: an option's value, or a path with a name in brackets."""
    if not all(char.isalnum() or char in "_./@+-()[]" for char in word):
        return word[0] == "-" and "=*" in word
    name = word.partition("/[")[2].partition("]")[0].strip(".")
    is_name = len(name) > 1 and name.isalpha() and ("]/" in word or "]." in word)
    return is_name or ("/(" in word and ")" in word)


def _find_run(words: list[str]) -> str | None:
    """Return what a wrapper runs, of the words after it."""
    return next((word for word in words if word not in ("proxy", "--")), None)


def split_commands(line: str) -> list[list[str]]:
    """Return the words of each command of a shell line, from its program on; a quoted word is no word to compare.

    What follows a here-document's beginning is left out, and so is all of a line that is not understood.
    """
    commands: list[list[str]] = [[]]
    word, has_word, is_quoted, opened, at = "", False, False, 0, 0  # so many brackets of the word are open
    line = line.partition("<<")[0] + "\n"
    while at < len(line):
        char = line[at]
        after = line[at + 1 : at + 2]
        at += 1
        if char == "\\":
            if after != "\n":
                word, has_word, is_quoted = word + after, True, True
            at += 1
        elif char in "'\"":
            end = at
            while end < len(line) and line[end] != char:
                end += 2 if char == '"' and line[end] == "\\" else 1
            if end >= len(line):
                return []
            word, has_word, is_quoted, at = word + line[at:end], True, True, end + 1
        elif char == "#" and not has_word:
            at = line.index("\n", at)
        elif char == "&" and (word[-1:] in (">", "<") or after == ">"):
            word, has_word = word + char, True
        elif not is_quoted and (word[-1:] == "/" if char == "(" else char == ")" and opened):
            word, has_word = word + char, True  # a path that zsh takes for a pattern
            opened += 1 if char == "(" else -1
        elif char in " \t\n;&|()`":
            if char == "(" and word[-1:] == "=":
                return []  # an array
            if has_word:
                commands[-1].append(f'"{word}"' if is_quoted else word)
            word, has_word, is_quoted, opened = "", False, False, 0
            if char not in " \t":
                commands.append([])
        else:
            word, has_word = word + char, True
    return [words for each in commands if (words := _without_prefix(each))]


def _unwrap(commands: list[list[str]]) -> list[list[str]]:
    """Return what a shell runs that is given a script in quotes: `bash -lc "..."`, `pwsh -NoLogo -Command '...'`."""
    words = commands[0] if len(commands) == 1 else [""]
    is_shell = words[0].rpartition("/")[2].removesuffix(".exe") in _SHELLS
    is_script = is_shell and words[-1][0] == '"' and words[-2].lower() in ("-c", "-lc", "-command")
    return split_commands(words[-1][1:-1]) if is_script else commands


def _without_prefix(words: list[str]) -> list[str]:
    """Return a command from its program on: without assignments, keywords, and programs that run what follows them."""
    while words:
        name, sign, _ = words[0].partition("=")
        if words[0] in _BEFORE_COMMANDS or (sign and name.isidentifier()) or words[0] == "$":
            words = words[1:]
        elif words[0] == "timeout" and len(words) > 1 and words[1][:1].isdigit():
            words = words[2:]
        else:
            break
    return words


def _load(directory: str) -> bytes:
    """Return the warnings; nothing where there are none, or where the file or its directory is not ours alone."""
    try:
        source = os.open(os.path.join(directory, WARNINGS), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        for status in (os.stat(directory), os.fstat(source)):
            if status.st_uid != os.geteuid() or status.st_mode & 0o077:
                return b""
    except OSError:
        return b""
    warnings = _read(source, MAX_FILE + 1)
    return warnings if warnings.startswith(HEADER) and len(warnings) <= MAX_FILE else b""


def _read(source: int, limit: int) -> bytes:
    """Return what a file holds, up to a limit in bytes."""
    parts = []
    while limit > 0 and (part := os.read(source, min(limit, 1 << 16))):
        parts.append(part)
        limit -= len(part)
    return b"".join(parts)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    finally:
        os._exit(0)  # also after an error: whatever went wrong here is nothing to the agent
