"""A person's conversation with an agent in a terminal: lines in, answers streamed out, and commands between them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

from consolidator.cli.agents import chat_children as children
from consolidator.cli.agents.show import print_state
from consolidator.cli.output import format_usd, print_line, print_note, print_table, print_warning, sanitize, shorten
from consolidator.cli.stdin import StdinLines
from consolidator.cli.streams import write_now
from consolidator.errors import ConsolidatorError, UsageError
from consolidator.models.session import SessionFilter, SessionRow
from consolidator.runtime.agent import VOID_NOTICE, Consolidator, Message, Session
from consolidator.runtime.session.scratchpad import ScratchpadEdit
from consolidator.runtime.session.tasks import OUTCOMES
from consolidator.runtime.tools.arguments import BoundCall
from consolidator.runtime.tools.tool import CallContext, Tool
from consolidator.runtime.turn import sessions
from consolidator.runtime.turn.harness import Delta
from consolidator.runtime.turn.sessions import load_pending_calls
from consolidator.service.sessions.access import find_session_id, stop_turn
from consolidator.service.sessions.listing import list_sessions
from consolidator.service.sessions.state import read_state
from consolidator.service.sessions.work import change_scratchpad, finish_task, start_task

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
    strategy: str | None = None
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
            await self.enter_session(await self._open_session(key))
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

    @property
    def agent(self) -> Consolidator:
        """The agent that answers."""
        return self._agent

    @property
    def session(self) -> Session:
        """The session that the person is in."""
        return self._session

    async def show_answer(self) -> None:
        """Print what is answered to what is open in the session, and ask about the calls that wait."""
        await self._show_answer(self._session.stream())
        await self._decide_calls()

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
        return await self._agent.open(
            key, self.model, system=self.system, strategy=self.strategy, max_cost_usd=self.max_cost
        )

    async def enter_session(self, session: Session) -> None:
        """Switch to a session: print where it stands, and finish what the last process was interrupted in."""
        self._session = session
        row = await session.info()
        messages = await session.history(_DEFAULT_TURNS)
        if not messages:
            print_line(f"session {session.id}, {session.key or 'without a key'}; /help lists the commands", "dim")
            return
        print_line(f"restored: {row.turns} earlier turns of {session.key or session.id}", "dim")
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
            self._warn_uncertain([call.call_id for call in calls if call.kind == "uncertain"])
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
                self._agent.database, call.call_id, allow=allow, reason=reason, surface=self._agent.surface
            )
            calls = await load_pending_calls(self._agent.database, self._session.id)
            if not any(call.kind == "approval" for call in calls):
                await self._show_answer(self._session.stream())

    def _warn_uncertain(self, call_ids: list[str]) -> None:
        for call_id in call_ids:
            if call_id not in self._warned_calls:
                self._warned_calls.add(call_id)
                print_warning(
                    f"nobody knows whether call {call_id} ran; settle it: "
                    f"consolidator call resolve {call_id} ok (or failed)"
                )

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
        await self.enter_session(await self._open_session(key))

    async def _list(self, _: str) -> None:
        agent = (await self._session.info()).agent
        page = await list_sessions(self._agent.database, SessionFilter(agent=agent), limit=_MAX_SESSIONS)
        cells = [
            ("*" if row.id == self._session.id else "", row.id, row.key, row.turns, _status(row), row.last_event_at)
            for row in page.sessions
        ]
        print_table("Sessions", ("", "id", "key", "turns", "status", "last"), cells, right=("turns",))

    async def _switch(self, name: str) -> None:
        if not name:
            raise UsageError("/switch KEY, or the beginning of a session's id; /sessions lists them")
        if ":" in name:
            await self.enter_session(await self._open_session(name))
            return
        session_id = await find_session_id(self._agent.database, name)
        row = await sessions.resume_session(self._agent.database, session_id)
        await self.enter_session(await self._agent.session(row.id))

    async def _history(self, count: str) -> None:
        limit = max(int(count), 1) if count.isdecimal() and len(count) < 5 else _DEFAULT_TURNS
        for message in _last_turns(await self._session.history(limit * _MESSAGES_PER_TURN), limit):
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
        await self.enter_session(await self._open_session(key))

    async def _cost(self, _: str) -> None:
        row = await self._session.info()
        cap = "" if row.max_cost is None else f" of at most {format_usd(row.max_cost)}"
        cost = f"{format_usd(row.cost)}{cap}" if row.cost or cap else "no price is known"
        print_line(
            f"{cost}; {row.input_tokens:,} tokens in ({row.cached_tokens:,} cached), "
            f"{row.output_tokens:,} out, {row.turns} turns"
        )

    async def _task(self, words: str) -> None:
        """Show the open task, start one, or end it."""
        first, _, rest = words.partition(" ")
        session_id, surface = self._session.id, self._agent.surface
        if first in OUTCOMES:
            note = rest.strip() or None
            row = await finish_task(self._agent.database, session_id, first, note=note, surface=surface)
            print_line(f"the task has ended: {row.outcome}", "dim")
        elif first == "start" and rest.strip():
            row = await start_task(self._agent.database, session_id, rest, surface=surface)
            print_line(f"task {row.id} is open", "dim")
        elif words:
            raise UsageError(f"/task, /task start TITLE, or /task {'|'.join(OUTCOMES)} NOTE")
        else:
            open_task = await self._session.open_task()
            print_line(f"working at: {open_task.title}" if open_task else "no task is open", "dim")

    async def _scratchpad(self, words: str) -> None:
        """Show the scratchpad, or change it."""
        mode, _, text = words.partition(" ")
        database = self._agent.database
        session_id, surface = self._session.id, self._agent.surface
        if not words:
            print_line((await self._session.scratchpad()).text or "the scratchpad is empty")
            return
        if mode not in ("replace", "append"):
            raise UsageError("/scratchpad, /scratchpad append TEXT, or /scratchpad replace TEXT")
        edit = ScratchpadEdit("replace" if mode == "replace" else "append", text)
        changed = await change_scratchpad(database, session_id, edit, surface=surface)
        print_line(f"the scratchpad has {len(changed.text):,} of {changed.limit:,} characters", "dim")

    async def _state(self, _: str) -> None:
        print_state(await read_state(self._agent.database, self._session.id))

    async def _stop(self, _: str) -> None:
        if await stop_turn(self._agent.database, self._session.id) is None:
            print_line("nothing is under way", "dim")

    async def _quit(self, _: str) -> None:
        raise UserLeft

    async def _help(self, _word: str) -> None:
        for name, (_, description) in COMMANDS.items():
            print_line(f"/{name:<11} {description}")


def _status(session: SessionRow) -> str:
    if session.attention:
        return "waits for you"
    return "unfinished" if session.pending else session.status


def _last_turns(messages: list[Message], limit: int) -> list[Message]:
    """Return the last `limit` messages of the person, with the answers to them."""
    starts = [index for index, message in enumerate(messages) if message.role == "user"]
    return messages[starts[-limit] :] if len(starts) > limit else messages


COMMANDS: dict[str, tuple[Callable[[TerminalChat, str], Awaitable[None]], str]] = {
    "new": (TerminalChat._new, "start a new session; this one is kept"),
    "sessions": (TerminalChat._list, "list this agent's sessions, the latest first"),
    "switch": (TerminalChat._switch, "KEY or ID: go to another session, also to an older one of the same key"),
    "stop": (TerminalChat._stop, "end the answer that is under way; what was written stays"),
    "history": (TerminalChat._history, "N: show the last turns"),
    "delete": (TerminalChat._delete, "end this session and hide it; only `consolidator erase` removes it"),
    "cost": (TerminalChat._cost, "tokens and money of this session"),
    "fork": (children.fork, "SEQ: go on in a new session from here, or from an earlier event"),
    "checkpoint": (children.checkpoint, "LABEL: set a checkpoint here"),
    "checkpoints": (children.checkpoints, "list this session's checkpoints"),
    "restore": (children.restore, "ID or LABEL: go back to a checkpoint, by default the latest, in a new session"),
    "branch": (
        children.branch,
        "TEXT: try what comes of it beside this session; dream TEXT: without its state; pre_steer TEXT: as a steer",
    ),
    "branches": (children.branches, "list this session's branches"),
    "compare": (children.compare, "ID: a branch, by default the latest, beside this session"),
    "commit": (children.commit, "ID: send the steer of a pre_steer branch, by default of the latest one"),
    "discard": (children.discard, "ID: end a branch, by default the latest"),
    "diff": (children.diff, "ID: how this session differs from another one, by default from what it came from"),
    "export": (children.export, "FILE: write this session to a new file, without credentials"),
    "spawn": (children.spawn_agent, "TASK: give it to a sub-agent, which sees nothing else"),
    "tasks": (children.tasks, "list this session's tasks"),
    "task": (TerminalChat._task, "the open task; start TITLE: open one; success, failure or cancelled NOTE: end it"),
    "scratchpad": (TerminalChat._scratchpad, "the notes that it always sees; append TEXT or replace TEXT: change them"),
    "state": (TerminalChat._state, "what its tools have set in this session"),
    "quit": (TerminalChat._quit, "leave, as Ctrl-D and Ctrl-C do; what is in flight continues at the next start"),
    "help": (TerminalChat._help, "this list"),
}
