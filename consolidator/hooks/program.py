"""What a coding agent runs at its hooks: asks the hook service, prints its answer, and is never in the way.

Run as a file of its own: `python -I -S program.py HOME EVENT CLIENT`, with the hook's payload on standard input. It
needs the standard library only, writes nothing but an answer, ends with 0 whatever happens, and gives up after 250 ms.
Copilot alone reads an answer to a failure only beside the exit code 2.
Where no service runs it starts one and says nothing this time.
"""

from __future__ import annotations

import os
import signal
import socket
import sys

DEADLINE_SECONDS = 0.25  # of all the work here; the interpreter's start comes on top
MAX_PAYLOAD = 4 << 20  # bytes; nothing is known about a larger one
MAX_ANSWER = 64 << 10  # bytes
MAX_HANDED_OVER = 60_000  # bytes that a pipe holds without a reader
MARKER = "CONSOLIDATOR_MODEL_CALL"  # in the environment of an agent that answers a night's question
DIRECTORY, SOCKET, LOCK = "hooks", "socket", "lock"
# What a service that is started does first.
IMPORTING_EVENTS = ("SessionEnd", "sessionEnd", "PreCompact", "PreCompress")
# What the service is given of an environment that may hold the agent's credentials.
_VARIABLES: tuple[str, ...] = ("HOME", "PATH", "LANG", "USER", "LOGNAME", "TMPDIR", "TZ")
_VARIABLES += (  # where agents leave their logs
    *("CLAUDE_CONFIG_DIR", "CODEX_HOME", "CURSOR_CONFIG_DIR", "PI_CODING_AGENT_DIR", "OPENCLAW_STATE_DIR"),
    *("GEMINI_CLI_HOME", "QWEN_HOME", "QWEN_RUNTIME_DIR", "OPENCODE_CONFIG_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME"),
    *("CLINE_DATA_DIR", "CLINE_DIR", "APPDATA", "COPILOT_HOME", "GOOSE_PATH_ROOT", "KIMI_CODE_HOME"),
    *("OPENHANDS_PERSISTENCE_DIR", "OPENHANDS_CONVERSATIONS_DIR", "AIDER_CHAT_HISTORY_FILE"),
)
_PREFIXES = ("CONSOLIDATOR_", "XDG_", "LC_")


def main(arguments: list[str]) -> int:
    """Answer one hook: `arguments` are the consolidator's home, the name of the event, and the agent's."""
    if MARKER in os.environ:
        return 0
    signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
    signal.setitimer(signal.ITIMER_REAL, DEADLINE_SECONDS)

    home, event, client = arguments
    payload = read(0, MAX_PAYLOAD + 1)
    if len(payload) > MAX_PAYLOAD or not os.path.isdir(home):
        return 0

    directory = os.path.join(home, DIRECTORY)
    service = connect(directory)
    if service is None:
        _start_service(
            home,
            directory,
            b"%s %s\n%s" % (client.encode(), event.encode(), payload) if event in IMPORTING_EVENTS else b"",
        )
        return 0

    project = os.environ.get("CLAUDE_PROJECT_DIR", "").encode("utf-8", "surrogateescape")
    head = b"2 %s %s %d %d\n" % (client.encode(), event.encode(), len(project), len(payload))
    service.sendall(head + project + payload)

    answer = read(service.fileno(), MAX_ANSWER)
    if not answer:
        return 0
    os.write(1, answer)
    service.send(b"+")  # it was shown, and counts as such
    return 2 if (client, event) == ("copilot", "PostToolUseFailure") else 0


def read(source: int, limit: int) -> bytes:
    """Return what a file holds, up to a limit in bytes."""
    parts = []
    while limit > 0 and (part := os.read(source, min(limit, 1 << 16))):
        parts.append(part)
        limit -= len(part)
    return b"".join(parts)


def connect(directory: str, name: str = SOCKET) -> socket.socket | None:
    """Return a connection to the service; None where there is none. Its directory must be ours alone."""
    try:
        os.chdir(directory)  # a socket's path may have 104 characters, and a home more
        status = os.stat(".")
        if status.st_uid != os.geteuid() or status.st_mode & 0o077:
            return None
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(name)
    except OSError:
        return None
    return connection


def _start_service(home: str, directory: str, payload: bytes) -> None:
    """Start the service, detached, and hand it what it has to import; nothing where one is running or starting.

    Its lock is taken here and goes on to it, so that hooks at the same time start one service, not several.
    """
    import fcntl  # only here, since it takes time

    os.makedirs(directory, mode=0o700, exist_ok=True)
    lock = os.open(os.path.join(directory, LOCK), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(lock, 0)  # of who held it before: that number may be another process's by now
    except OSError:
        return
    order, give = os.pipe()
    os.write(give, payload[:MAX_HANDED_OVER])
    os.close(give)
    if os.fork():
        return
    os.setsid()
    if os.fork():
        return
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard, target in enumerate((order, nothing, nothing)):
        os.dup2(target, standard)
    os.set_inheritable(lock, True)
    os.chdir("/")
    variables = {name: os.environ[name] for name in os.environ if name in _VARIABLES or name.startswith(_PREFIXES)}
    command = [sys.executable, "-I", "-m", "consolidator.hooks.service", home, str(lock)]
    os.execve(sys.executable, command, {**variables, "CONSOLIDATOR_HOME": home})


if __name__ == "__main__":
    code = 0
    try:
        code = main(sys.argv[1:])
    finally:
        os._exit(code)  # also after an error: whatever went wrong here is nothing to the agent
