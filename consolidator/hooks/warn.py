"""What a coding agent runs before a call: says that such a call never worked in this project, and what works instead.

Run as a file of its own: `python -I -S warn.py HOME EVENT CLIENT`, with the hook's payload on standard input. It runs
at every call of the shell, so it asks nobody and starts nothing: the nights leave it a small file of the project's
warnings, `hooks/warnings`. Only where all words of one stand in the payload the payload is read, and `before_call` of
the lessons decides: a program has to stand where a command begins, not in quotes or after `echo`. It never blocks a
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

    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    from consolidator.memory.lessons.before_call import concerns, correct

    body = json.loads(payload)
    for project, line in candidates:
        warning = json.loads(line)
        called = {**body, "cwd": repository or body.get("cwd")}
        if client not in warning.get("agents", (client,)):
            continue
        if not concerns(warning["match"], json.loads(b'"%s"' % project), called):
            continue
        answer: dict[str, object] = {"hookEventName": event, "additionalContext": warning["block"]}
        command = body["tool_input"].get("command") if client in CORRECTED_CLIENTS else None
        corrected = correct(warning["match"], command)
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
