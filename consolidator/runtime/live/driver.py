"""The driver: wakes sessions all the time, a few at once, as soon as something in them is due.

Any number of drivers, on any machines, share the sessions by leases. A driver looks when it is notified of a session,
when one of its own is done, and every few seconds, by the partial index of pending sessions.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal

import psycopg

from consolidator.database.notifications import NotificationListener
from consolidator.errors import ConsolidatorError, SessionBusy, StaleEpoch
from consolidator.llm.redaction.redact import format_redacted_traceback, redact
from consolidator.process import has_ended, machine_prefix
from consolidator.runtime.turn.harness import MODEL_MISSING, TOOLS_MISSING, Harness
from consolidator.runtime.turn.sub_agents import finish_abandoned
from consolidator.runtime.turn.wake import wake_session
from consolidator.store.turns import lease as store
from consolidator.store.turns.lease import PENDING_CHANNEL, DueSession

log = logging.getLogger("consolidator.runtime")
POLL_SECONDS = 2.0  # between two looks without a notification
DRAIN_SECONDS = 8.0  # that steps have to end when the driver stops; then they are cancelled
FIRST_RETRY_SECONDS = 1.0  # after the first failure of a session; each further one doubles it
MAX_RETRY_SECONDS = 600.0
REPORT_SECONDS = 4.0  # between two looks for sessions whose tools are missing
_MAX_REPORTED = 20  # sessions of each kind in a report
_MAX_REMEMBERED = 1_000  # sessions whose missing tools were logged
_PAUSE = POLL_SECONDS  # until a session is looked at again that another harness holds

DUE_OUTCOMES = {"stop": "answered", "approval": "waits for a person", "idle": "nothing was open"}
WakeOutcome = Literal["ended", "failed", "undone"]


def retry_seconds(failures: int) -> float:
    """Return how long a session waits after so many failures in a row: doubling, with a cap, and a random part of it.

    The random part keeps sessions that failed together, as in an outage, from coming back together.
    """
    longest = min(FIRST_RETRY_SECONDS * 2.0 ** min(max(failures - 1, 0), 30), MAX_RETRY_SECONDS)
    return longest * random.uniform(0.5, 1)


@dataclass(slots=True)
class SessionDriver:
    """Drives due sessions until it is told to stop: `await SessionDriver(harness, listener, concurrency=4).run(stop)`.

    Sessions whose tools or model the harness lacks are left to others. Such a session is logged once, and has an error
    that says so until it is driven; a driver that has them takes it at its next look.
    """

    harness: Harness
    listener: NotificationListener | None = None
    concurrency: int = 4  # sessions at once
    poll_seconds: float = POLL_SECONDS
    drain_seconds: float = DRAIN_SECONDS
    _running: dict[str, asyncio.Task[None]] = field(default_factory=dict)  # by session
    _paused: dict[str, float] = field(default_factory=dict)  # session -> time.monotonic() until which another holds it
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _stopping: bool = False
    _failing: bool = False  # whether the last look failed
    _logged_without_tools: set[str] = field(default_factory=set)
    _reported_at: float = -REPORT_SECONDS  # time.monotonic()
    _without_tools: list[store.SessionWithoutTools] = field(default_factory=list)
    _failing_sessions: list[store.FailingSession] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.listener is not None:
            self.listener.subscribe(PENDING_CHANNEL, lambda _: self._changed.set(), self._changed.set)

    async def run(self, stop: asyncio.Event) -> None:
        """Drive sessions until `stop` is set; then finish the current steps, or hand them back."""
        stopping = asyncio.create_task(stop.wait())
        try:
            while not stop.is_set():
                self._changed.clear()  # before looking: what comes meanwhile is looked at next
                await self._look()
                changed = asyncio.create_task(self._changed.wait())
                timeout = self.poll_seconds * random.uniform(0.75, 1)
                await asyncio.wait((stopping, changed), timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
        finally:
            stopping.cancel()
            await self._hand_back()

    def report(self) -> dict[str, Any]:
        """Return the driver's state as JSON can hold it: what it drives, what fails, and whose tools are missing."""
        return {
            "driving": len(self._running),
            "failing": [
                {"session": each.id, "failures": each.failures, "next": each.next_at and each.next_at.isoformat()}
                for each in self._failing_sessions
            ],
            "without_tools": [{"session": each.id, "missing": each.missing} for each in self._without_tools],
        }

    async def _look(self) -> None:
        """Start the sessions that are due, as far as there is room. A database that is away is tried again."""
        try:
            if self.concurrency and time.monotonic() - self._reported_at >= REPORT_SECONDS:
                await finish_abandoned(self.harness.database)  # of sub-agents that a killed process left without an end
            if len(self._running) < self.concurrency:
                for due in await self._list_due():
                    task = asyncio.create_task(self._drive(due))
                    self._running[due.id] = task
            await self._update_report()
            self._failing = False
        except (ConsolidatorError, psycopg.Error) as error:
            if not self._failing:
                log.warning("due sessions cannot be looked for: %s", redact(str(error)))
            self._failing = True
        except Exception as error:  # noqa: BLE001 - the edge: a driver that dies would be missed by nobody
            log.error("due sessions cannot be looked for: %s", format_redacted_traceback(error))

    async def _list_due(self) -> list[DueSession]:
        """Return as many due sessions as there is room for, none that a living process holds."""
        now = time.monotonic()
        self._paused = {session_id: until for session_id, until in self._paused.items() if until > now}
        room = self.concurrency - len(self._running)
        async with self.harness.database.connection() as conn:
            due = await store.list_due(
                conn,
                now=self.harness.database.clock.now(),
                machine=machine_prefix(),
                tools=self.harness.tools.names,
                has_model=self.harness.settings.model is not None,
                excluded=[*self._running, *self._paused],
                limit=room + self.concurrency,
            )
        for each in due:
            if each.owner is not None and not has_ended(each.owner):
                self._pause(each.id)
        return [each for each in due if each.id not in self._paused][:room]

    def _pause(self, session_id: str) -> None:
        """Leave a session alone for a moment: another harness holds it."""
        self._paused[session_id] = time.monotonic() + _PAUSE

    async def _drive(self, due: DueSession) -> None:
        """Wake a session to its end, and note how that went."""
        outcome: WakeOutcome = "undone"  # also if it is cancelled
        database = self.harness.database
        try:
            retry_at = database.clock.now() + timedelta(seconds=retry_seconds(due.failures + 1))
            async with database.connection() as conn:
                await store.begin_wake(conn, due.id, retry_at)
            outcome = await self._wake(due)
        except (ConsolidatorError, psycopg.Error) as error:  # the database is away
            log.warning("session %s could not be woken: %s", due.id, redact(str(error)))
            self._pause(due.id)
        finally:
            try:
                await asyncio.shield(self._note(due, outcome))
            finally:
                self._running.pop(due.id, None)
                self._changed.set()

    async def _wake(self, due: DueSession) -> WakeOutcome:
        """Wake a session. Whatever fails in it is this session's alone."""
        try:
            result = await wake_session(self.harness, due.id, is_stopping=lambda: self._stopping)
        except (SessionBusy, StaleEpoch):
            self._pause(due.id)
            return "undone"
        except ConsolidatorError as error:
            log.warning("session %s could not be woken: %s", due.id, redact(str(error)))
            return "failed"
        except Exception as error:  # noqa: BLE001 - of a hook or of ours: it must not stop the others
            log.error("session %s could not be woken: %s", due.id, format_redacted_traceback(error))
            return "failed"
        log.info("session %s: %s", due.id, DUE_OUTCOMES.get(result.finish_reason, result.finish_reason))
        if self._stopping:
            return "undone"
        return "failed" if result.finish_reason in ("error", "idle") else "ended"

    async def _note(self, due: DueSession, outcome: WakeOutcome) -> None:
        """Note how a wake went, for all drivers. If the database is away, the wake counts as failed."""
        database = self.harness.database
        try:
            async with database.connection() as conn:
                if outcome == "ended":
                    await store.end_wake(conn, due.id)
                elif outcome == "failed":
                    after = database.clock.now() + timedelta(seconds=retry_seconds(due.failures + 1))
                    await store.fail_wake(conn, due.id, after)
                else:
                    await store.undo_wake(conn, due.id)
                    if self._stopping:
                        await store.announce(conn, due.id)
        except (ConsolidatorError, psycopg.Error) as error:
            log.warning("session %s: how its wake went could not be noted: %s", due.id, redact(str(error)))

    async def _update_report(self) -> None:
        """Look which sessions fail and which need other tools, now and then; log the latter once each."""
        if time.monotonic() - self._reported_at < REPORT_SECONDS:
            return
        self._reported_at = time.monotonic()
        async with self.harness.database.connection() as conn:
            self._failing_sessions = await store.list_failing(conn, _MAX_REPORTED)
            names = self.harness.tools.names
            self._without_tools = await store.list_without_tools(
                conn, tools=names, noted=TOOLS_MISSING, limit=_MAX_REPORTED
            )
            for each in self._without_tools:
                error = f"{TOOLS_MISSING}{', '.join(each.missing)}; start the service with them (--tools)"
                if self.concurrency and each.error != error:
                    now = self.harness.database.clock.now()
                    await store.note_missing_tools(conn, each.id, error, now)
            waiting_for_model = []
            if self.concurrency and self.harness.settings.model is None:
                now = self.harness.database.clock.now()
                waiting_for_model = await store.note_missing_model(conn, MODEL_MISSING, now, _MAX_REPORTED)
        for session_id in waiting_for_model:
            log.warning("session %s is left alone: %s", session_id, MODEL_MISSING)
        for each in self._without_tools:
            if each.id not in self._logged_without_tools and len(self._logged_without_tools) < _MAX_REMEMBERED:
                self._logged_without_tools.add(each.id)
                missing = ", ".join(each.missing)
                log.warning("session %s is left alone: it uses tools that are missing here: %s", each.id, missing)

    async def _hand_back(self) -> None:
        """Let the current steps end; cancel what takes longer, which releases its sessions for others."""
        self._stopping = True
        tasks = list(self._running.values())
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=self.drain_seconds)
        for task in late:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
