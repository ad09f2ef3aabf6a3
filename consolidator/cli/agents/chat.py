"""consolidator chat: a conversation in the terminal that survives its process. Lines in, answers streamed out."""

from __future__ import annotations

import asyncio
import getpass
import json
import logging
import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from consolidator.cli.agents.options import ToolOptions
from consolidator.cli.agents.session import describe_totals
from consolidator.cli.common import open_configured, run_async
from consolidator.cli.output import (
    print_line,
    print_note,
    print_table,
    print_warning,
    progress_bar,
    sanitize,
    shorten,
)
from consolidator.cli.streams import write_now
from consolidator.errors import ConsolidatorError, UsageError
from consolidator.models.session import SessionFilter
from consolidator.runtime.agent import VOID_NOTICE, Consolidator, Session
from consolidator.runtime.session.access import find_session_id
from consolidator.runtime.tools.tool import BoundCall, CallContext, Tool
from consolidator.runtime.turn import sessions
from consolidator.runtime.turn.harness import Delta
from consolidator.runtime.turn.sessions import load_pending_calls, stop_turn
from consolidator.service.memory.recall import recall_for_message
from consolidator.service.memory.telling.guarding import guard_call
from consolidator.service.sessions.listing import list_sessions, session_status
from consolidator.settings import load_settings

PASTE_PAUSE = 0.03  # seconds; lines with a shorter pause between them were pasted, and are one message


class StdinLines:
    """The lines of standard input. On a terminal they may come at any time, also while an answer is streamed."""

    def __init__(self, descriptor: int = 0, *, is_terminal: bool | None = None) -> None:
        self._descriptor = descriptor
        self.is_terminal = os.isatty(descriptor) if is_terminal is None else is_terminal
        self._queue: asyncio.Queue[str | None] = asyncio.Queue()
        self._returned: deque[str] = deque()
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._read, name="typed", daemon=True).start()

    async def next(self) -> str | None:
        """Return the next line, or a pasted block as a whole; None at the end of the input, and from then on."""
        if self._returned:
            return self._returned.popleft()
        line = await self._queue.get()
        if line is None:
            self._queue.put_nowait(None)
            return None
        return await self._join_pasted(line) if self.is_terminal and not line.startswith("/") else line

    def put_back(self, line: str) -> None:
        """Return this line again at the next call."""
        self._returned.append(line)

    async def _join_pasted(self, block: str) -> str:
        try:
            while True:
                async with asyncio.timeout(PASTE_PAUSE):
                    line = await self._queue.get()
                if line is None or line.startswith("/"):
                    self._returned.extend([] if line is None else [line])
                    self._queue.put_nowait(None) if line is None else None
                    return block
                block += "\n" + line
        except TimeoutError:
            return block
        except asyncio.CancelledError:
            self._returned.append(block)
            raise

    def _read(self) -> None:
        """Read until the end, without Python's own buffer: its lock would block the exit of the process."""
        rest = b""
        with suppress(RuntimeError):  # the loop is closed
            while data := self._read_bytes():
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self._put_line(line)
            if rest:
                self._put_line(rest)
            self._loop.call_soon_threadsafe(self._queue.put_nowait, None)

    def _read_bytes(self) -> bytes:
        try:
            return os.read(self._descriptor, 65_536)
        except OSError:  # the terminal is gone
            return b""

    def _put_line(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").rstrip("\r")
        self._loop.call_soon_threadsafe(self._queue.put_nowait, text)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions:
    """What the chat's session is run with."""

    model: Annotated[str | None, typer.Option(help="The model, for this session from now on.")] = None
    system: Annotated[str | None, typer.Option(help="The system prompt.")] = None
    max_cost: Annotated[
        float | None, typer.Option("--max-cost", min=0, help="Cap on the cost of the session, in USD.")
    ] = None


def chat_command(
    *,
    key: Annotated[
        str | None, typer.Option("--key", help="Key of the session: agent:channel:peer; else main:cli:YOU.")
    ] = None,
    options: ChatOptions,
    driver: ToolOptions,
    memory: Annotated[bool, typer.Option(help="Show the model what memory has about each message.")] = True,
) -> None:
    """Talk with an agent. Stop it in any way, even with kill -9: the next start resumes it.

    What you type while it works steers it. /help lists what else you can do: /new, /sessions, /switch, /history ...
    """
    if not (options.model or load_settings().model):
        raise UsageError(
            "no model: set CONSOLIDATOR_MODEL or use --model; docs/sessions.md shows how to try it without one"
        )

    async def talk() -> None:
        lines = StdinLines()
        async with AsyncExitStack() as stack:
            with progress_bar("starting the database"):  # the first start creates it, which takes some seconds
                database, settings = await stack.enter_async_context(open_configured())
            if "log_level" not in settings.model_fields_set:  # log lines would disturb the conversation
                logging.getLogger("consolidator").setLevel(logging.WARNING)
            chat = TerminalChat(lines, **asdict(options))
            toolbox = await stack.enter_async_context(driver.open())
            recall = partial(recall_for_message, database, settings) if memory else None
            agent = Consolidator(
                map(chat.announce_calls, toolbox),
                settings=settings,
                database=database,
                recall=recall,
                guard=partial(guard_call, database) if memory else None,
                surface="chat",
            )
            await stack.enter_async_context(agent)
            await chat.run(agent, f"main:cli:{user_name()}" if key is None else key)

    run_async(talk())


def user_name() -> str:
    """Return the name of the person at the terminal."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # the machine does not know its user
        return Path(os.environ.get("HOME", "")).name or "user"


_MAX_SESSIONS = 20
_DEFAULT_TURNS = 10  # that /history shows
_MESSAGES_PER_TURN = 50  # at most
_HINTS = {
    "budget": "to go on, start again with a larger --max-cost",
    "error": "it is tried again with your next message, or at the next start",
}


class UserLeft(Exception):
    """The person left the chat; what is in flight continues at the next start."""


@dataclass
class TerminalChat:
    """A conversation in the terminal, in one session at a time."""

    lines: StdinLines
    model: str | None = None
    system: str | None = None
    max_cost: float | None = None
    _agent: Consolidator = field(init=False)
    _session: Session = field(init=False)
    _line_open: bool = False  # the cursor is behind a text, not at the start of a line
    _last_message_id: str | None = None  # the message that was printed last
    _warned_calls: set[str] = field(default_factory=set)

    async def run(self, agent: Consolidator, key: str) -> None:
        """Open the session of a key and talk until the person leaves."""
        self._agent = agent
        try:
            await self._enter_session(await self._open_session(key))
            while (line := await self._read_line("> ")) is not None:
                try:
                    await self._handle_line(line.strip())
                except ConsolidatorError as error:
                    self._close_line()
                    print_note(str(error))
        except UserLeft:
            pass
        finally:
            self._close_line()

    async def _read_line(self, prompt: str) -> str | None:
        self._close_line()
        if self.lines.is_terminal:
            write_now(prompt)
            self._line_open = True
        line = await self.lines.next()
        self._line_open = self.lines.is_terminal and line is None  # what was typed ended the line
        return line

    async def _handle_line(self, line: str) -> None:
        if line.startswith("/"):
            name, _, rest = line[1:].partition(" ")
            if name not in COMMANDS:
                raise UsageError(f"no command /{name}; there are: {', '.join(f'/{command}' for command in COMMANDS)}")
            await COMMANDS[name][0](self, rest.strip())
        elif line:
            await self._show_answer(self._session.stream(line))
            await self._decide_calls()

    async def _open_session(self, key: str) -> Session:
        return await self._agent.open(key, self.model, system=self.system, max_cost_usd=self.max_cost)

    async def _enter_session(self, session: Session) -> None:
        """Switch to a session: print where it stands, and finish what the last process was interrupted in."""
        self._session = session
        row = await session.info()
        messages = await session.history(_DEFAULT_TURNS)
        if not messages:
            print_line(f"session {session.id}, {session.key or 'without a key'}; /help lists the commands", "dim")
            return
        print_line(f"Restored: {row.turns} previous turns of {session.key or session.id}", "dim")
        last = next((message for message in reversed(messages) if message.role == "user"), None)
        if last is not None:
            print_line(f"you said: {shorten(last.text, 200)}", "dim")
        answered = messages[-1].seq if messages[-1].role == "assistant" else 0
        if row.pending or row.delivered_to < answered:  # for example by `wake`, without a listener
            await self._show_answer(session.stream())
        elif answered:
            print_line(f"it said: {shorten(messages[-1].text, 200)}", "dim")
        await self._decide_calls()

    async def _show_answer(self, answer: AsyncIterator[Delta]) -> None:
        """Print an answer while it is streamed; a line that is typed meanwhile steers it."""
        async with aclosing(answer) as deltas:  # type: ignore[type-var]
            printing = asyncio.create_task(self._print_deltas(deltas))
            try:
                if self.lines.is_terminal:
                    await self._steer_while(printing)
                await printing
            finally:
                printing.cancel()
                await asyncio.gather(printing, return_exceptions=True)
        self._close_line()
        result = self._session.result
        if result is not None and result.finish_reason in _HINTS:
            print_line(_HINTS[result.finish_reason], "dim")

    async def _print_deltas(self, deltas: AsyncIterator[Delta]) -> None:
        async for delta in deltas:
            if delta.kind == "void":
                self._close_line()
                print_line(
                    VOID_NOTICE.strip()
                    if delta.message_id == self._last_message_id
                    else "[the answer was cut off, and begins again]",
                    "dim",
                )
                continue
            if delta.message_id != self._last_message_id:
                self._close_line()
                self._last_message_id = delta.message_id
            write_now(sanitize(delta.text))
            self._line_open = not delta.text.endswith("\n")

    async def _steer_while(self, printing: asyncio.Task[None]) -> None:
        """Handle what is typed while an answer is streamed: text steers, /stop ends it, /quit leaves, others wait."""
        later: list[str] = []
        while not printing.done():
            line = asyncio.create_task(self.lines.next())
            await asyncio.wait({line, printing}, return_when=asyncio.FIRST_COMPLETED)
            if not line.done():
                line.cancel()
                await asyncio.gather(line, return_exceptions=True)
                break
            text = line.result()
            if text is None or text.strip() == "/quit":
                raise UserLeft
            if text.strip() == "/stop":
                await stop_turn(self._agent.database, self._session.id)
            elif text.startswith("/"):
                later.append(text)
            elif text.strip() and not printing.done():
                await self._session.steer(text)
            elif text.strip():
                later.append(text)
        for text in later:
            self.lines.put_back(text)

    async def _decide_calls(self) -> None:
        """Ask the person to approve or deny each call that waits for it, then let the session go on."""
        while True:
            calls = await load_pending_calls(self._agent.database, self._session.id)
            for call_id in (call.call_id for call in calls if call.kind == "uncertain"):
                if call_id not in self._warned_calls:
                    self._warned_calls.add(call_id)
                    print_warning(
                        f"nobody knows whether call {call_id} ran; settle it: "
                        f"consolidator call resolve {call_id} ok (or failed)"
                    )
            call = next((call for call in calls if call.kind == "approval"), None)
            if call is None:
                return
            print_line(f"{call.tool} {shorten(json.dumps(call.arguments, ensure_ascii=False), 500)}", "bold")
            line = await self._read_line("allow it? [y/N, or why not] ")
            if line is None:
                print_line(f"it waits: consolidator call approve {call.call_id}, or deny", "dim")
                raise UserLeft
            if line.startswith("/"):
                self.lines.put_back(line)
                return
            reply = line.strip()
            allow = reply.casefold() in ("y", "yes")
            reason = None if allow or reply.casefold() in ("", "n", "no") else reply
            await sessions.decide_approval(
                self._agent.database, call.call_id, allow=allow, reason=reason, viewer=self._agent.viewer
            )
            calls = await load_pending_calls(self._agent.database, self._session.id)
            if not any(call.kind == "approval" for call in calls):
                await self._show_answer(self._session.stream())

    def announce_calls(self, tool: Tool) -> Tool:
        """Return a tool whose calls are printed when they start."""

        def bind(arguments: Any, call: CallContext) -> BoundCall:
            bound = tool.bind(arguments, call)
            self._close_line()
            print_line(f"· {tool.name} {shorten(json.dumps(arguments, ensure_ascii=False, default=str), 200)}", "dim")
            return bound

        return replace(tool, bind=bind)

    def _close_line(self) -> None:
        if self._line_open:
            write_now("\n")
            self._line_open = False

    async def _new(self, _: str) -> None:
        previous, key = self._session, self._session.key
        if key is None:
            raise UsageError("this session has no key, so it cannot have a successor; /switch KEY names one")
        await sessions.release_key(self._agent.database, previous.id)
        print_line(f"the session so far is kept: /switch {previous.id}", "dim")
        await self._enter_session(await self._open_session(key))

    async def _list(self, _: str) -> None:
        agent, now = (await self._session.info()).agent, self._agent.database.clock.now()
        page = await list_sessions(self._agent.database, SessionFilter(agent=agent), limit=_MAX_SESSIONS)
        cells = [
            (
                "*" if row.id == self._session.id else "",
                row.id,
                row.key,
                row.turns,
                session_status(row, now),
                row.last_event_at,
            )
            for row in page.sessions
        ]
        print_table("Sessions", ("", "id", "key", "turns", "status", "last"), cells, right=("turns",))

    async def _switch(self, name: str) -> None:
        if not name:
            raise UsageError("/switch KEY, or the beginning of a session's id; /sessions lists them")
        if ":" in name:
            await self._enter_session(await self._open_session(name))
            return
        session_id = await find_session_id(self._agent.database, name)
        row = await sessions.resume_session(self._agent.database, session_id)
        await self._enter_session(await self._agent.session(row.id))

    async def _history(self, count: str) -> None:
        limit = max(int(count), 1) if count.isdecimal() and len(count) < 5 else _DEFAULT_TURNS
        messages = await self._session.history(limit * _MESSAGES_PER_TURN)
        starts = [index for index, message in enumerate(messages) if message.role == "user"]
        for message in messages[starts[-limit] if len(starts) > limit else 0 :]:
            print_line(
                f"{'you' if message.role == 'user' else 'agent'}: {message.text}",
                "bold" if message.role == "user" else None,
            )

    async def _delete(self, _: str) -> None:
        key, deleted_id = self._session.key, self._session.id
        await self._session.end("deleted by the user", hide=True)
        print_line(
            f"session {deleted_id} is ended and hidden; `consolidator erase --session {deleted_id}` would remove it",
            "dim",
        )
        if key is None:
            raise UserLeft
        await self._enter_session(await self._open_session(key))

    async def _cost(self, _: str) -> None:
        print_line(describe_totals(await self._session.info()))

    async def _stop(self, _: str) -> None:
        if await stop_turn(self._agent.database, self._session.id) is None:
            print_line("nothing is under way", "dim")

    async def _quit(self, _: str) -> None:
        raise UserLeft

    async def _help(self, _word: str) -> None:
        for name, (_, description) in COMMANDS.items():
            print_line(f"/{name:<11} {description}")
        print_line(f"from another terminal: `consolidator session fork {self._session.id}`, branch, notes, ...", "dim")


COMMANDS: dict[str, tuple[Callable[[TerminalChat, str], Awaitable[None]], str]] = {
    "new": (TerminalChat._new, "start a new session; this one is kept"),
    "sessions": (TerminalChat._list, "list this agent's sessions, the latest first"),
    "switch": (TerminalChat._switch, "KEY or ID: go to another session, also to an older one of the same key"),
    "stop": (TerminalChat._stop, "end the answer that is under way; what was written stays"),
    "history": (TerminalChat._history, "N: show the last turns"),
    "delete": (TerminalChat._delete, "end this session and hide it; only `consolidator erase` removes it"),
    "cost": (TerminalChat._cost, "tokens and money of this session"),
    "quit": (TerminalChat._quit, "leave, as Ctrl-D and Ctrl-C do; what is in flight continues at the next start"),
    "help": (TerminalChat._help, "this list"),
}
