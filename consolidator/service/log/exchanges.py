"""Records the exchanges that a proxy passes on as sessions, holds their cap, and says what memory adds to a request."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from itertools import chain

from ulid import ULID

from consolidator.database import Database
from consolidator.database.partitions import Connection
from consolidator.errors import OverBudget
from consolidator.formats.base import ForeignEvent
from consolidator.formats.exchange import Message, Usage, draft_events, hash_messages, last_answer
from consolidator.formats.openai.responses import continued
from consolidator.llm.prices import calculate_cost
from consolidator.models.audience import OWNER
from consolidator.models.event import NewEvent
from consolidator.models.memory_filter import MemoryScope
from consolidator.models.payload import EventType
from consolidator.models.principal import Role, name_principal
from consolidator.service.memory.telling.brief import brief
from consolidator.store.log import events
from consolidator.store.nights import model_calls
from consolidator.store.nights.model_calls import CallReserve, CallUsage
from consolidator.store.sessions import sessions

RECORDED_BY = "proxy"
_MAX_ANSWERS_LOOKED_AT = 200  # of a conversation, the first ones: each may be where its session began
_ASKS_AGAIN_WITHIN = timedelta(hours=1)  # a client that lacks an answer; later the same words begin another session
_FAILED = CallUsage(0, 0, 0, Decimal(0), "failed: no answer")


@dataclass(frozen=True, slots=True)
class ExchangeLog:
    """Where exchanges are recorded: sessions of an agent in a project, whose owner runs the proxy."""

    database: Database
    agent: str
    project: str | None
    max_cost: Decimal | None = None  # US dollars a day, of all proxies on the database

    async def begin(self, messages: Sequence[Message]) -> tuple[str | None, bool]:
        """Return the session that answered the messages before, with the new ones in it; None for a new conversation.

        A conversation that begins is recorded with its first answer, which is what tells it from another. Until that
        answer was sent whole the session goes by its request, so that asking again repeats nothing, for an hour: who
        hung up may never ask again. The second value tells whether `mark_sent` has to follow.
        """
        hashes, answered = hash_messages(messages), last_answer(messages)
        starts = [at for at, message in enumerate(messages) if message.get("role") == "assistant"]
        keys = [self._keys(hashes, at) for at in starts[:_MAX_ANSWERS_LOOKED_AT]]
        again, since = self._key(hashes[-1], unsent=True), self.database.clock.now() - _ASKS_AGAIN_WITHIN
        async with self.database.connection() as conn:
            by_key = await sessions.find_recorded(conn, [*chain(*keys), again], RECORDED_BY, lately=again, since=since)
        unsent, sent = next((pair for pair in reversed(keys) if not by_key.keys().isdisjoint(pair)), ("", ""))
        session_id = by_key.get(sent) or by_key.get(unsent)
        if again in by_key or session_id is None:
            return by_key.get(again), True
        async with self.database.transaction() as conn:
            drafts = draft_events(messages, len(messages) - answered)
            await self._append(conn, session_id, drafts, f"in:{hashes[-1]}")
            if sent not in by_key:  # the client has that answer, as its next request shows
                await sessions.rename_key(conn, old=unsent, key=sent, recorded_by=RECORDED_BY)
        return session_id, False

    async def mark_sent(self, messages: Sequence[Message], reply: Message) -> None:
        """Have a session go by its first answer, now that its client has that whole."""
        old, key = self._keys(hash_messages([*messages, reply]), len(messages))
        async with self.database.transaction() as conn:
            await sessions.rename_key(conn, old=old, key=key, recorded_by=RECORDED_BY)

    async def mark_response(self, session_id: str, response_id: str, *, is_conversation: bool) -> None:
        """Have a session go by the response, or the conversation, too that its client's next request may continue.

        What stands for a conversation stays the same, so after a whole answer the same words are another turn of it.
        """
        key = self._key(hash_messages([continued(response_id)])[0])
        async with self.database.transaction() as conn:
            await sessions.set_response(conn, session_id, key)
            if is_conversation:
                await sessions.forget_keys(conn, session_id)

    async def finish(self, session_id: str | None, messages: Sequence[Message], reply: Message, model: str) -> str:
        """Record a whole reply; with the messages before it, where it is the first of its session. Return its id."""
        full = [*messages, reply]
        hashes = hash_messages(full)
        new = 1 if session_id is not None else len(full) - last_answer(messages)
        async with self.database.transaction() as conn:
            if session_id is None:
                unsent, sent = self._keys(hashes, len(messages))
                by_key = await sessions.find_recorded(conn, [unsent, sent], RECORDED_BY)
                values = {
                    "key": sent if by_key else unsent,  # the same answer once more, or another client's at this moment
                    "agent": self.agent,
                    "channel": RECORDED_BY,
                    "project": self.project,
                    "recorded_by": RECORDED_BY,
                }
                session_id = await sessions.open_current(conn, values, now=self.database.clock.now())
            await self._append(conn, session_id, draft_events(full, new), f"out:{hashes[-1]}", model)
        return session_id

    async def reserve(self, model: str, input_tokens: int, output_tokens: int) -> str | None:
        """Reserve a call before it is made and return its id; None without a cap. Raises OverBudget beyond it."""
        if self.max_cost is None:
            return None
        cost = calculate_cost(model, input_tokens=input_tokens, output_tokens=output_tokens)
        if cost is None:
            raise OverBudget(f"the price of {model[:80]!r} is unknown, so a cap in money cannot be held")
        now = self.database.clock.now()
        run_id, call_id = f"proxy:{now:%Y-%m-%d}", str(ULID())
        async with self.database.transaction() as conn:
            spent = (await model_calls.load_spending(conn, run_id)).cost
            if spent + cost > self.max_cost:
                used = f"{spent:.4f} USD spent or reserved, and this call may cost {cost:.4f}"
                raise OverBudget(f"the day's cap of {self.max_cost} USD is reached: {used}")
            tokens = input_tokens + output_tokens
            reserve = CallReserve(call_id, run_id, None, RECORDED_BY, model, call_id, tokens, cost, now)
            await model_calls.reserve_call(conn, reserve)
        return call_id

    async def settle(self, call_id: str | None, model: str, usage: Usage | None) -> None:
        """Settle a reserved call by what its server counted; None: it refused the call, which costs nothing.

        A call whose server counted nothing has cost its reserve.
        """
        if call_id is None or (usage is not None and not usage.input_tokens):
            return
        used = _FAILED
        if usage is not None:
            cost = calculate_cost(
                model, input_tokens=usage.input_tokens, cached_tokens=usage.cached_tokens,
                output_tokens=usage.output_tokens,
            )  # fmt: skip
            used = CallUsage(usage.input_tokens, usage.cached_tokens, usage.output_tokens, cost, "answered")
        async with self.database.transaction() as conn:
            await model_calls.settle_call(conn, call_id, used, now=self.database.clock.now())

    async def start_brief(self) -> str:
        """Return what a session of this agent and project is told at its start; "" for nothing."""
        lines = await brief(self.database, "session_start", MemoryScope(self.agent, self.project, OWNER))
        return lines.block.text if lines is not None else ""

    async def _append(
        self, conn: Connection, session_id: str, drafts: Sequence[ForeignEvent], key: str, model: str = ""
    ) -> None:
        if not drafts:
            return
        principal = name_principal(Role.CLIENT, RECORDED_BY)
        new = []
        for draft in drafts:
            answer = {"model": model} if draft.type is EventType.ASSISTANT_RESPONSE and model else {}
            new.append(NewEvent(draft.type, {**draft.data, **answer}, tool_name=draft.tool_name, principal=principal))
        await events.append(conn, session_id, new, now=self.database.clock.now(), key=key)

    def _keys(self, hashes: Sequence[str], at: int) -> tuple[str, str]:
        """Return the keys of a session that began with an answer: until that was sent, and from then on."""
        return self._key(hashes[at - 1] if at else "", unsent=True), self._key(hashes[at])

    def _key(self, conversation: str, *, unsent: bool = False) -> str:
        place = f"{self.project or ''}\0{conversation}".encode("utf-8", "surrogatepass")
        return f"{self.agent}:{RECORDED_BY}:{'unsent-' * unsent}{hashlib.sha256(place).hexdigest()[:32]}"
