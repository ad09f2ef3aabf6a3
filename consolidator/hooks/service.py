"""The process behind the hooks: holds the database open, answers over a private socket, and ends when it is idle.

Started by the first hook (`program.py`), which hands it the lock that lets one of them run, and on its standard input
the payload of a hook that wants a session imported. What it has to say goes to `service.log` beside the socket.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import os
import signal
import socket
import sys
import time
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path, PurePath

from consolidator.clock import Clock
from consolidator.errors import ConsolidatorError
from consolidator.hooks import asking, program, standby
from consolidator.hooks.background import QUIET_SECONDS, IdleNights, TranscriptImports
from consolidator.llm.redaction.redact import format_redacted_traceback, redact, redact_record
from consolidator.service.clients.registry import CLIENTS
from consolidator.service.database import Database, open_database
from consolidator.service.hooks.payload import HookCall, answer_hook, load_shown, parse_hook
from consolidator.service.hooks.usage import count_injection, exchange_warnings
from consolidator.service.memory.recall import answer_in_words
from consolidator.settings import Settings, config_path, load_settings

ANSWER_SECONDS = 0.22  # a hook waits no longer
READ_SECONDS = 2.0
CONNECTIONS, STATEMENT_SECONDS = 4, 1
MAX_REQUESTS = 16  # at once; a further one gets nothing
MAX_SESSIONS = 256  # of which is kept in mind what they were shown
MAX_HEADER = 200  # bytes
MAX_LOG = 1 << 20  # bytes, after which it begins anew
WATCH_SECONDS = 5.0
RETRY_SECONDS = 60.0  # a service that could not open its database keeps the lock so long: no hook starts another one
log = logging.getLogger("consolidator.hooks")


class HookService:
    """Answers hooks until it has been idle for a while, or is told to stop."""

    def __init__(self, database: Database, requests: Database, settings: Settings) -> None:
        self._database = database
        self._requests = requests
        self._nights = IdleNights(database, settings)
        self.imports = TranscriptImports(database, self._nights.note_session)
        self._settings, self._config = settings, _config_state()
        self._home = settings.home
        self._idle_seconds = settings.hook_idle_minutes * 60
        self._shown: OrderedDict[str, set[str]] = OrderedDict()
        self._exchange: asyncio.Future[None]
        self._active = 0
        self._last_request = time.monotonic()
        self._answered = asyncio.Event()

    async def serve(self, connection: socket.socket, stop: asyncio.Event) -> None:
        """Answer on a listening socket until `stop` is set, the service is idle, or its files have changed."""
        address = os.stat(program.SOCKET).st_ino
        code = os.stat(program.__file__).st_mtime_ns
        server = await asyncio.start_unix_server(self._handle, sock=connection)
        importing = asyncio.create_task(self.imports.run())
        self._exchange = asyncio.create_task(self._exchange_warnings())
        try:
            async with server:
                while not stop.is_set() and not self._may_end() and _is_unchanged(address, code):
                    if self._is_quiet(min(QUIET_SECONDS, self._idle_seconds / 2)):
                        self._nights.start_due()
                    try:
                        await asyncio.wait_for(stop.wait(), min(WATCH_SECONDS, self._idle_seconds / 2))
                    except TimeoutError:
                        continue
        finally:
            await self._nights.close()
            await self.imports.close()
            await importing
            await self._exchange

    def _may_end(self) -> bool:
        """Tell whether nobody needs the service; before that is so, it learns from the sessions that it imported."""
        if not self._is_quiet(self._idle_seconds) or self._nights.is_busy:
            return False
        if not self._nights.wants_to_learn:
            return True
        self._nights.start_learning()
        return False

    def _is_quiet(self, seconds: float) -> bool:
        """Tell whether no hook came for that long, and no session is being imported."""
        silence = time.monotonic() - self._last_request
        return self._active == 0 and not self.imports.is_busy and silence >= seconds

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._last_request = time.monotonic()
        self._active += 1
        try:
            if self._active <= MAX_REQUESTS and standby.is_ours(writer.get_extra_info("socket")):
                await self._answer(reader, writer)
        except (OSError, ValueError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a hook that gave up, or no hook at all
        except ConsolidatorError as error:
            log.warning("%s", redact(str(error)))
        except Exception as error:  # noqa: BLE001 - the edge: the next hook is answered
            log.error("a hook could not be answered: %s", format_redacted_traceback(error))
        finally:
            self._active -= 1
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(READ_SECONDS):
            version, client, event, *lengths = (await reader.readline())[:MAX_HEADER].split()
            directory_length, payload_length = map(int, lengths)
            if (
                version != b"2"
                or not 0 <= directory_length <= 1 << 14
                or not 0 <= payload_length <= program.MAX_PAYLOAD
            ):
                return
            directory = await reader.readexactly(directory_length)
            payload = await reader.readexactly(payload_length)

        if (client.decode(), event.decode()) == (asking.COMMAND, asking.EVENT):
            question = json.loads(payload)
            if question["settings"] == asking.own_settings(os.environ) and self._config == _config_state():
                async with asyncio.timeout(asking.SECONDS):
                    place = PurePath(question["directory"])
                    words = await answer_in_words(self._requests, self._settings, question["query"], place)
                writer.write(words.encode("utf-8", "replace"))
            return

        call = parse_hook(client.decode(), event.decode(), payload, os.fsdecode(directory))
        if call is None:
            return
        if call.moment == "import":
            self.imports.add(call)
            self._start_exchange()
            return
        if call.moment == "session_start":
            self._start_exchange()

        async with asyncio.timeout(ANSWER_SECONDS):
            shown, was_briefed = await self._load_shown(call)
            answer = await answer_hook(self._requests, call, shown, was_briefed=was_briefed)
        if answer is None:
            if was_briefed or call.moment == "prompt":
                self._keep_shown(call, shown)
            return

        output = CLIENTS[call.agent].render(call.event, answer.block.text)
        text = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
        writer.write(text.encode("utf-8", "replace") + b"\n")
        writer.write_eof()

        async with asyncio.timeout(READ_SECONDS):
            was_shown = await reader.read(1) == b"+"
        if was_shown:
            if was_briefed or call.moment == "prompt":
                self._keep_shown(call, shown | set(answer.shown))
            await count_injection(self._database, call, answer)

    def _start_exchange(self) -> None:
        """Leave the hook before calls what it is to say, and count what it has said; no hook waits for that."""
        if self._exchange.done():
            self._exchange = asyncio.create_task(self._exchange_warnings())

    async def _exchange_warnings(self) -> None:
        try:
            await exchange_warnings(self._database, self._home)
        except Exception as error:  # noqa: BLE001 - the edge: the next hook is answered
            log.error("warnings could not be exchanged: %s", format_redacted_traceback(error))

    async def _load_shown(self, call: HookCall) -> tuple[set[str], bool]:
        """Return what a session has been shown, and whether its start was answered; its context may begin anew."""
        if call.moment == "session_start":
            self._shown.pop(call.session_id, None)
            return set(), True
        if call.session_id in self._shown:
            return self._shown[call.session_id], True
        return await load_shown(self._requests, call)

    def _keep_shown(self, call: HookCall, shown: set[str]) -> None:
        self._shown[call.session_id] = shown
        self._shown.move_to_end(call.session_id)
        while len(self._shown) > MAX_SESSIONS:
            self._shown.popitem(last=False)


async def run(home: Path, order: bytes) -> None:
    """Serve the hooks of a home.

    `order` is of a hook whose session is imported first: a line with its client and event, and its payload; or empty.
    """
    settings = load_settings(home=home)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    clock = Clock(settings.clock)
    async with (
        open_database(settings, clock) as database,
        database.reserve(CONNECTIONS, statement_seconds=STATEMENT_SECONDS) as requests,
    ):
        service = HookService(database, requests, settings)
        if order:
            service.imports.add_order(order)
        connection = standby.listen(program.SOCKET)
        log.info("answering the hooks of %s", home)
        try:
            await service.serve(connection, stop)
        finally:
            for name in (program.SOCKET, asking.SOCKET):
                with suppress(FileNotFoundError):
                    os.unlink(name)


def _config_state() -> int | None:
    """Return what tells whether the configuration file was changed; None where there is none."""
    try:
        return config_path().stat().st_mtime_ns
    except OSError:
        return None


def _is_unchanged(address: int, code: int) -> bool:
    """Whether the socket is still ours, and the program still the one that this service was started from."""
    try:
        return os.stat(program.SOCKET).st_ino == address and Path(program.__file__).stat().st_mtime_ns == code
    except OSError:
        return False


def _prepare_directory(home: Path) -> None:
    """Make the directory of the socket ours alone, and the working directory: a socket's path has to be short."""
    directory = home / program.DIRECTORY
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if directory.is_symlink() or directory.stat().st_uid != os.geteuid():
        raise SystemExit(f"{directory} is not a directory of ours")
    directory.chmod(0o700)
    os.chdir(directory)


def _open_log() -> None:
    path = Path("service.log")
    is_long = path.exists() and path.stat().st_size > MAX_LOG
    handler = logging.FileHandler(path, mode="w" if is_long else "a", encoding="utf-8")
    handler.addFilter(redact_record)
    logging.basicConfig(level=logging.INFO, handlers=[handler], format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("alembic").setLevel(logging.WARNING)


def main(arguments: list[str]) -> None:
    """Serve until idle: `arguments` are the home and, from a hook, the descriptor of the lock that it has taken."""
    home = Path(arguments[0])
    os.umask(0o077)
    _prepare_directory(home)

    if len(arguments) > 1:
        lock = int(arguments[1])
        order = sys.stdin.buffer.read(program.MAX_HANDED_OVER)
    else:
        lock, order = os.open(program.LOCK, os.O_RDWR | os.O_CREAT, 0o600), b""
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return  # another one runs

    os.set_inheritable(lock, False)  # children, such as the database's, must not keep it
    os.ftruncate(lock, 0)
    os.write(lock, str(os.getpid()).encode())
    standby.start(lock)
    _open_log()

    try:
        asyncio.run(run(home, order))
    except ConsolidatorError as error:
        log.error("cannot answer hooks: %s", redact(str(error)))
        time.sleep(RETRY_SECONDS)
    except Exception as error:  # noqa: BLE001 - the edge
        log.error("cannot answer hooks: %s", format_redacted_traceback(error))
        time.sleep(RETRY_SECONDS)
    finally:
        os.close(lock)


if __name__ == "__main__":
    main(sys.argv[1:])
