"""One person's conversation with an agent's sessions: lines in, answers out as they come, and commands between them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

from consolidator.cli.output import note, piece, plain, say, short, table, usd, warn
from consolidator.cli.stdin import Typed
from consolidator.errors import ConsolidatorError, UsageError
from consolidator.runtime import sessions
from consolidator.runtime.agent import VOID, Consolidator, Message, Session
from consolidator.runtime.attention import waiting
from consolidator.runtime.harness import Delta
from consolidator.runtime.tools.arguments import Bound
from consolidator.runtime.tools.tool import CallContext, Tool
from consolidator.store.log import sessions as stored
from consolidator.store.queries import Row

_LISTED = 20
_TOLD = 10  # turns of a history
_READ = 50  # messages a turn, at most
_NEXT = {
    "budget": "a larger cap goes on: start again with a larger --max-cost",
    "error": "it is tried again at your next message, or at the next start",
}


class Left(Exception):
    """The person has left; what is under way goes on at the next start."""


@dataclass
class TerminalChat:
    """A conversation: the session it is in, and what was typed."""

    typed: Typed
    model: str | None = None
    system: str | None = None
    strategy: str | None = None
    max_cost: float | None = None
    _agent: Consolidator = field(init=False)
    _session: Session = field(init=False)
    _line_open: bool = False
    _shown: str | None = None  # the message whose pieces were shown last
    _warned: set[str] = field(default_factory=set)

    async def begin(self, agent: Consolidator, key: str) -> None:
        """Open the session of a key and talk until the person leaves."""
        self._agent = agent
        try:
            await self._enter(await self._opened(key))
            while (line := await self._asked("> ")) is not None:
                try:
                    await self._take(line.strip())
                except ConsolidatorError as error:
                    self._close_line()
                    note(str(error))
        except Left:
            pass
        finally:
            self._close_line()

    async def _asked(self, prompt: str) -> str | None:
        self._close_line()
        if self.typed.live:
            piece(prompt)
            self._line_open = True
        line = await self.typed.next()
        self._line_open = self.typed.live and line is None  # else it ends as what was typed does
        return line

    async def _take(self, line: str) -> None:
        if line.startswith("/"):
            name, _, rest = line[1:].partition(" ")
            if name not in COMMANDS:
                raise UsageError(f"no command /{name}; there are: {', '.join(f'/{one}' for one in COMMANDS)}")
            await COMMANDS[name][0](self, rest.strip())
        elif line:
            await self._tell(self._session.stream(line))
            await self._answer_for_calls()

    async def _opened(self, key: str) -> Session:
        return await self._agent.open(
            key, self.model, system=self.system, strategy=self.strategy, max_cost_usd=self.max_cost
        )

    async def _enter(self, session: Session) -> None:
        """Go into a session: say where it stands, and go on with what the last process was stopped in."""
        self._session = session
        found = await session.info()
        told = await session.history(_TOLD)
        if not told:
            say(f"session {session.id}, {session.key or 'without a key'}; /help lists the commands", "dim")
            return
        say(f"restored: {found['turns']} earlier turns of {session.key or session.id}", "dim")
        last = next((one for one in reversed(told) if one.role == "user"), None)
        if last is not None:
            say(f"you said: {short(last.text, 200)}", "dim")
        answered = told[-1].seq if told[-1].role == "assistant" else 0
        if found["pending"] or found["delivered_to"] < answered:  # by `wake`, say, where nobody listened
            await self._tell(session.stream())
        elif answered:
            say(f"it said: {short(told[-1].text, 200)}", "dim")
        await self._answer_for_calls()

    async def _tell(self, answer: AsyncIterator[Delta]) -> None:
        """Show an answer as it comes; a line that is typed meanwhile steers it."""
        async with aclosing(answer) as pieces:  # type: ignore[type-var]
            showing = asyncio.create_task(self._show(pieces))
            try:
                if self.typed.live:
                    await self._steered(showing)
                await showing
            finally:
                showing.cancel()
                await asyncio.gather(showing, return_exceptions=True)
        self._close_line()
        ended = self._session.result
        if ended is not None and ended.finish_reason in _NEXT:
            say(_NEXT[ended.finish_reason], "dim")

    async def _show(self, pieces: AsyncIterator[Delta]) -> None:
        async for delta in pieces:
            if delta.kind == "void":
                self._close_line()
                say(VOID.strip() if delta.message_id == self._shown else "[it was cut off, and begins again]", "dim")
                continue
            if delta.message_id != self._shown:
                self._close_line()
                self._shown = delta.message_id
            piece(plain(delta.text))
            self._line_open = not delta.text.endswith("\n")

    async def _steered(self, showing: asyncio.Task[None]) -> None:
        """Take what is typed while an answer comes: words steer it, /quit leaves, other commands wait for its end."""
        later: list[str] = []
        while not showing.done():
            line = asyncio.create_task(self.typed.next())
            await asyncio.wait({line, showing}, return_when=asyncio.FIRST_COMPLETED)
            if not line.done():
                line.cancel()
                await asyncio.gather(line, return_exceptions=True)
                break
            text = line.result()
            if text is None or text.strip() == "/quit":
                raise Left
            if text.startswith("/"):
                later.append(text)
            elif text.strip() and not showing.done():
                await self._session.steer(text)
            elif text.strip():
                later.append(text)
        for one in later:
            self.typed.keep(one)

    async def _answer_for_calls(self) -> None:
        """Ask the person about calls that wait for a word, and go on once all have one."""
        while True:
            found = await waiting(self._agent.database, self._session.id)
            self._mention([one.call_id for one in found if one.kind == "uncertain"])
            asked = next((one for one in found if one.kind == "approval"), None)
            if asked is None:
                return
            say(f"{asked.tool} {short(json.dumps(asked.arguments, ensure_ascii=False), 500)}", "bold")
            line = await self._asked("allow it? [y/N, or why not] ")
            if line is None:
                say(f"it waits: consolidator approve {asked.call_id}, or deny", "dim")
                raise Left
            if line.startswith("/"):
                self.typed.keep(line)
                return
            word = line.strip()
            allow = word.casefold() in ("y", "yes")
            reason = None if allow or word.casefold() in ("", "n", "no") else word
            await sessions.decide(self._agent.database, asked.call_id, allow=allow, reason=reason)
            if not any(one.kind == "approval" for one in await waiting(self._agent.database, self._session.id)):
                await self._tell(self._session.stream())

    def _mention(self, calls: list[str]) -> None:
        for name in calls:
            if name not in self._warned:
                self._warned.add(name)
                warn(f"nobody knows whether call {name} ran; settle it: consolidator resolve {name} ok (or failed)")

    def announced(self, tool: Tool) -> Tool:
        """Return a tool whose calls are shown to the person."""

        def bind(arguments: Any, call: CallContext) -> Bound:
            bound = tool.bind(arguments, call)
            self._close_line()
            say(f"· {tool.name} {short(json.dumps(arguments, ensure_ascii=False, default=str), 200)}", "dim")
            return bound

        return replace(tool, bind=bind)

    def _close_line(self) -> None:
        if self._line_open:
            piece("\n")
            self._line_open = False

    async def _new(self, _: str) -> None:
        before, key = self._session, self._session.key
        if key is None:
            raise UsageError("this session has no key, so that there can be no other of it; /switch KEY names one")
        await sessions.release_key(self._agent.database, before.id)
        say(f"the session so far is kept: /switch {before.id}", "dim")
        await self._enter(await self._opened(key))

    async def _list(self, _: str) -> None:
        async with self._agent.database.connection() as conn:
            agent = (await stored.get(conn, self._session.id))["agent"]
            found = await stored.listing(conn, agent=agent, limit=_LISTED)
        lines = [
            ("*" if one["id"] == self._session.id else "", one["id"], one["key"], one["turns"], _status(one),
             one["last_event_at"])
            for one in found
        ]  # fmt: skip
        table("Sessions", ("", "id", "key", "turns", "status", "last"), lines, right=("turns",))

    async def _switch(self, word: str) -> None:
        if not word:
            raise UsageError("/switch KEY, or the beginning of a session's id; /sessions lists them")
        if ":" in word:
            await self._enter(await self._opened(word))
            return
        async with self._agent.database.connection() as conn:
            name = await stored.find(conn, word)
        found = await sessions.resume(self._agent.database, name)
        await self._enter(await self._agent.session(found["id"]))

    async def _history(self, word: str) -> None:
        limit = max(int(word), 1) if word.isdecimal() and len(word) < 5 else _TOLD
        for one in _turns(await self._session.history(limit * _READ), limit):
            say(f"{'you' if one.role == 'user' else 'agent'}: {one.text}", "bold" if one.role == "user" else None)

    async def _delete(self, _: str) -> None:
        key, gone = self._session.key, self._session.id
        await self._session.end("deleted by the user", hide=True)
        say(f"session {gone} is ended and hidden; `consolidator erase {gone}` would remove it", "dim")
        if key is None:
            raise Left
        await self._enter(await self._opened(key))

    async def _cost(self, _: str) -> None:
        found = await self._session.info()
        cap = "" if found["max_cost"] is None else f" of at most {usd(found['max_cost'])}"
        cost = f"{usd(found['cost'])}{cap}" if found["cost"] or cap else "no price is known"
        say(
            f"{cost}; {found['input_tokens']:,} tokens in ({found['cached_tokens']:,} cached), "
            f"{found['output_tokens']:,} out, {found['turns']} turns"
        )

    async def _quit(self, _: str) -> None:
        raise Left

    async def _help(self, _word: str) -> None:
        for name, (_, told) in COMMANDS.items():
            say(f"/{name:<9} {told}")


def _status(found: Row) -> str:
    if found["attention"]:
        return "waits for you"
    return "unfinished" if found["pending"] else str(found["status"])


def _turns(told: list[Message], limit: int) -> list[Message]:
    """Return the last so many messages of the person, with what was answered to them."""
    asked = [number for number, one in enumerate(told) if one.role == "user"]
    return told[asked[-limit] :] if len(asked) > limit else told


COMMANDS: dict[str, tuple[Callable[[TerminalChat, str], Awaitable[None]], str]] = {
    "new": (TerminalChat._new, "begin a new session; this one is kept"),
    "sessions": (TerminalChat._list, "list this agent's sessions, the latest first"),
    "switch": (TerminalChat._switch, "KEY or ID: go to another session, also to an older one of the same key"),
    "history": (TerminalChat._history, "N: show the last turns"),
    "delete": (TerminalChat._delete, "end this session and hide it; only `consolidator erase` removes it"),
    "cost": (TerminalChat._cost, "tokens and money of this session"),
    "quit": (TerminalChat._quit, "leave; so do Ctrl-D and Ctrl-C, and what is under way goes on at the next start"),
    "help": (TerminalChat._help, "this list"),
}
