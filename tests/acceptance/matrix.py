"""The kill matrix: scenarios, processes that die in them, and what must hold after another process woke the session."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from consolidator.database import Database
from consolidator.models.event import Event
from consolidator.models.payload import EventType
from consolidator.models.session import SessionRow
from consolidator.store.log import events
from consolidator.store.sessions import sessions
from consolidator.testing import ScriptedReply
from tests.acceptance.matrix_agent import ForkServer
from tests.databases import Row, fetch_dicts

KILLED = -9
Shown = tuple[str, int, str, str]  # message, piece, text, kind
Effect = tuple[str, str]  # tool and call
SHORT = "Yes, quite so."
SUMMARY = {"summary": "They nodded at each other.", "next_steps": []}
FINAL = "All of it is done, and everything went as well as it ever could."
LONG = "One two three four five six seven eight nine ten eleven twelve thirteen."
_AFTER_THE_TURN = (  # what needs no harness
    EventType.SESSION_END, EventType.TASK_START, EventType.TASK_END, EventType.SUBAGENT_SPAWN,
    EventType.SUBAGENT_COMPLETE,
)  # fmt: skip
_BUILTIN = ("start_task", "finish_task", "update_scratchpad", "spawn_agent", "release")  # their effect is in the log
_RECOVERY = ("generation_replaced", "generation_resumed", "call_started", "configuration_changed")


@dataclass(frozen=True)
class Scenario:
    """What a run does; `same` if the log after recovery must equal the log of an undisturbed run."""

    do: Sequence[Sequence[str]]
    config: Mapping[str, Any] = field(default_factory=dict)
    prefill: str = "none"
    renewals: int = 3  # of a lease, which is so long that only who asks for many ever renews it
    builtin: Sequence[str] = ()  # groups of built-in tools
    same: bool = True


SCENARIOS = {
    "talk": Scenario([["say", "talk"]]),
    "elsewhere": Scenario(
        [["wake elsewhere"], ["say", "talk"]]
    ),  # the recovery runs where the channel cannot be reached
    "resume": Scenario([["say", "talk"]], prefill="last_message"),
    "tools": Scenario([["say", "use tools"]]),
    "approval": Scenario([["say", "deploy"], ["allow"]]),
    # An uncertain step ends the procedure, so that a killed run has other steps than an undisturbed one.
    "procedure": Scenario([["say", "follow"], ["allow"]], same=False),
    "denial": Scenario([["say", "deploy"], ["deny"]]),
    "steer": Scenario([["steer", "slow_tool", "talk"]], same=False),
    "interruption": Scenario([["steer", "ramble", "talk"]], same=False),
    "cap": Scenario([["say", "talk"]], config={"max_cost_usd": "0.00000001"}),
    "cut": Scenario([["say", "be cut off"]], prefill="last_message"),
    "compaction": Scenario(
        [["say", f"{n} " + "and so on, and so forth, " * 40 + "\n\nnod"] for n in range(4)],
        config={"strategy": "compacted", "budget": 900, "answer_tokens": 50},
    ),
    "ending": Scenario([["say", "nod"], ["aside"], ["resume"], ["end"]]),
    "lineage": Scenario([["say", "nod"], ["checkpoint"], ["fork", "nod"], ["restore", "talk"]]),
    "sub-agents": Scenario([["say", "delegate"], ["spawn", "glance"]], builtin=["sub_agents"]),
    "abandoned": Scenario(
        [["start", "glance"], ["drive"], ["start", "nod"], ["end sub-agents"], ["start", "talk"], ["end"]]
    ),  # only a driver, which nobody tells of them, finishes them after a kill
    "branch": Scenario([["say", "nod"], ["propose", "talk"], ["commit"]]),
    "auto": Scenario([["say", "use tools"]], config={"model": "auto"}),
    "lacking": Scenario([["say without tools", "nod"]]),
    "task": Scenario([["task", "nod"], ["say", "work"]], builtin=["tasks", "scratchpad"]),
    "renewal": Scenario([["say", "linger"]], renewals=300),
}


def create_reply(request: dict[str, Any]) -> ScriptedReply:
    """Answer as the user's last message asks; the number of tool results after it tells how far the turn is."""
    messages = request["messages"]
    if not request.get("stream"):
        return ScriptedReply.json(SUMMARY)
    last = max(
        n for n, message in enumerate(messages) if message["role"] == "user" and _is_user_text(message["content"])
    )
    results = sum(message["role"] == "tool" for message in messages[last:])
    wish = messages[last]["content"].rsplit("\n\n", 1)[-1]
    if wish == "talk" or messages[-1]["role"] == "assistant":
        return ScriptedReply(text=LONG)
    if wish == "nod":
        return ScriptedReply(text=SHORT)
    if wish == "ramble":
        return ScriptedReply(text=LONG, stall_after=4)
    if wish == "be cut off":
        return ScriptedReply.disconnecting(LONG, 5)
    if results == 0 and wish == "use tools":
        calls = (("look", {"what": "left"}), ("look", {"what": "right"}), ("send_mail", {"to": "ines"}))
        return ScriptedReply.calling(*calls, text="I look at both, and then I send a mail.")
    if results == 0 and wish == "follow":
        return ScriptedReply.calling(("release", {"what": "left"}), ("send_mail", {"to": "mara"}))
    if results == 0 and wish == "delegate":
        return ScriptedReply.calling(("spawn_agent", {"task": "glance"}))
    if results == 0 and wish == "glance":
        return ScriptedReply.calling(("look", {"what": "up"}))
    if results == 0 and wish == "deploy":
        return ScriptedReply.calling(("deploy", {"where": "north"}), ("send_mail", {"to": "ines"}))
    if results < 4 and wish == "work":
        steps = (
            ("start_task", {"title": "Look"}),
            ("update_scratchpad", {"mode": "append", "text": "Left is seen."}),
            ("look", {"what": "left"}),
            ("finish_task", {"outcome": "success"}),
        )
        return ScriptedReply.calling(steps[results])
    if results == 0 and wish in ("slow_tool", "linger"):
        return ScriptedReply.calling((wish, {}))
    return ScriptedReply(text=FINAL)


def _is_user_text(text: str) -> bool:
    return not text.startswith("[harness:")


@dataclass
class Matrix:
    """Runs scenarios in child processes that die, wakes the sessions they left, and inspects these."""

    forker: ForkServer
    database: Database
    url: str
    home: Path
    number: int = 0

    def new_run(self, name: str) -> dict[str, Any]:
        """Return the request for a new run of a scenario, with its own session and its own directory."""
        self.number += 1
        scenario = SCENARIOS[name]
        return {
            "dsn": self.database.dsn, "url": self.url, "key": f"matrix-{name}-{self.number}:test:ines",
            "world": tempfile.mkdtemp(dir=self.home), "do": scenario.do, "config": dict(scenario.config),
            "prefill": scenario.prefill, "lease": 300, "renewals": scenario.renewals,
            "builtin": list(scenario.builtin),
        }  # fmt: skip

    def run_child(self, run: Mapping[str, Any], *, kill: tuple[int, str | None] | None = None) -> dict[str, Any] | None:
        """Run a child and return its report; None if it died where `kill` says (a number, and a name or any)."""
        code, report = self.forker.run({**run, "kill": kill})
        if kill and code == KILLED:
            return None
        assert code == 0, report
        return report


@dataclass(frozen=True)
class SessionOutcome:
    """A session's row, and all that can be seen of the session from outside."""

    log: list[Event]
    row: SessionRow
    chunks: dict[tuple[str, int], str]
    shown: list[Shown]  # what the channel received, in order
    effects: list[Effect]
    spends: list[Row]

    def describe(self) -> str:
        """Return the log as text, for the message of a failed assertion."""
        return "\n".join(f"{event.seq} {event.type} {event.data}" for event in self.log)

    def comparable_log(self) -> list[tuple[str, ...]]:
        """Return the log without the events of a recovery, to be compared."""
        return [comparable for event in self.log if (comparable := _comparable_event(event)) is not None]


async def inspect_run(database: Database, run: Mapping[str, Any]) -> SessionOutcome | None:
    """Return the outcome of a run; None if it did not even open its session."""
    async with database.connection() as conn:
        session_ids = await fetch_dicts(
            conn, "select id from session where key = %(key)s and kind = 'root'", {"key": run["key"]}
        )
    if not session_ids:
        return None
    return await inspect_session(database, session_ids[0]["id"], *read_world(Path(run["world"])))


async def inspect_children(database: Database, run: Mapping[str, Any]) -> list[SessionOutcome]:
    """Return the outcomes of the forks and restores of a run's session, also of those that nobody was told of."""
    async with database.connection() as conn:
        children = await fetch_dicts(
            conn,
            "select c.id from session c join session s on c.parent_id = s.id where s.key = %(key)s and s.kind = 'root'",
            {"key": run["key"]},
        )
    world = read_world(Path(run["world"]))
    return [await inspect_session(database, child["id"], *world) for child in children]


def read_world(world: Path) -> tuple[list[Shown], list[Effect]]:
    """Return what the channel received and which effects the tools had, from their files."""
    shown: list[Any] = [tuple(record) for record in _lines(world / "channel")]
    effects: list[Any] = [tuple(record) for record in _lines(world / "effects")]
    return shown, effects


async def inspect_session(
    database: Database, session_id: str, shown: Iterable[Shown], effects: Iterable[Effect]
) -> SessionOutcome:
    """Return the outcome of a session; of what was shown and done, its own part."""
    async with database.connection() as conn:
        log = await events.read(conn, session_id)
        row = await sessions.get(conn, session_id)
        chunks = await fetch_dicts(
            conn, "select message_id, seq, delta from generation_chunk where session_id = %(id)s", {"id": session_id}
        )
        spends = await fetch_dicts(
            conn,
            "select p.* from spend p join session s on s.id = p.session_id"
            " where s.id = %(id)s or (s.parent_id = %(id)s and s.kind in ('sub-agent', 'branch'))",
            {"id": session_id},
        )
    messages = {chunk["message_id"] for chunk in chunks}
    calls = {str(event.data["call_id"]) for event in log if event.type == EventType.TOOL_CALL}
    return SessionOutcome(
        log,
        row,
        {(chunk["message_id"], chunk["seq"]): chunk["delta"] for chunk in chunks},
        [shown_chunk for shown_chunk in shown if shown_chunk[0] in messages],
        [effect for effect in effects if effect[1] in calls],
        spends,
    )


def _lines(path: Path) -> list[list[Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def _comparable_event(event: Event) -> tuple[str, ...] | None:
    data = event.data
    match event.type:
        case EventType.THINKING_START:
            return None
        case EventType.POLICY_DECISION if data["decision"] in _RECOVERY:
            return None
        case EventType.POLICY_DECISION:
            return event.type, data["decision"]
        case (
            EventType.TOOL_CALL | EventType.APPROVAL_REQUESTED | EventType.APPROVAL_GRANTED | EventType.APPROVAL_DENIED
        ):
            return event.type, str(data.get("tool")), json.dumps(data.get("arguments"), sort_keys=True)
        case EventType.TOOL_RESULT:
            return event.type, str(data.get("tool")), data["status"], str(data.get("content"))
        case EventType.TASK_END:
            return event.type, data["outcome"]
        case _:
            return event.type, str(data.get("text") or data.get("message") or "")


def assert_consistent(outcome: SessionOutcome, *, kills: int) -> None:
    """Assert what must hold for any session that was woken until nothing was open."""
    _assert_settled(outcome)
    _assert_delivered_whole(outcome)
    _assert_logged_before_sent(outcome, kills)
    _assert_one_effect(outcome)
    _assert_one_sub_agent(outcome)


def assert_equivalent(outcome: SessionOutcome, uninterrupted: SessionOutcome) -> None:
    """Assert that two logs are equal except for recovery (I6); a call that may have run may be uncertain."""
    log, expected_log = outcome.comparable_log(), uninterrupted.comparable_log()
    assert len(log) == len(expected_log), f"{log}\n{expected_log}"
    for entry, expected_entry in zip(log, expected_log, strict=True):
        uncertain = (
            entry[0] == EventType.TOOL_RESULT and entry[2] == "uncertain" and entry[1] == expected_entry[1] != "look"
        )
        assert entry == expected_entry or uncertain, f"{log}\n{expected_log}"


def _assert_settled(outcome: SessionOutcome) -> None:
    row = outcome.row
    assert not row.pending
    assert row.lease_owner is None
    assert row.head == row.base_seq + len(outcome.log)
    was_stopped = row.kind == "sub-agent" and row.error is not None
    assert was_stopped or all(event.type in _AFTER_THE_TURN for event in outcome.log if event.seq > row.settled_to)
    assert row.open_task is None
    assert row.delivered_to == row.head or outcome.log[-1].type != EventType.ASSISTANT_RESPONSE
    assert row.reserved == 0
    assert all(call["settled_at"] for call in outcome.spends)
    assert sum((call["cost"] for call in outcome.spends), start=0 * row.cost) == row.cost


def _assert_delivered_whole(outcome: SessionOutcome) -> None:
    """The channel has every answer, complete and in order, and was told that any other chunk is void."""
    if outcome.row.kind in ("sub-agent", "branch"):
        assert outcome.shown == [], "only its parent hears of it"
        return
    void = {delta[0] for delta in outcome.shown if delta[3] == "void"}
    texts: dict[str, dict[int, str]] = {}
    for message, seq, text, kind in outcome.shown:
        if kind == "text" and message not in void:
            assert seq <= len(texts.setdefault(message, {})) + 1, "a piece was left out"
            texts[message][seq] = text
    logged = {}
    for event in outcome.log:
        if event.type == EventType.ASSISTANT_RESPONSE and event.data["text"]:
            logged[event.data["message_id"]] = event.data["text"]
        elif event.data.get("notice_id"):
            logged[event.data["notice_id"]] = event.data["message"]
    assert {name: "".join(pieces.values()) for name, pieces in texts.items()} == logged


def _assert_logged_before_sent(outcome: SessionOutcome, kills: int) -> None:
    """Only committed chunks were sent (I3), and an acknowledged one was not sent again."""
    sent = Counter((message, seq) for message, seq, _, kind in outcome.shown if kind == "text")
    for message, seq, text, kind in outcome.shown:
        assert kind == "void" or outcome.chunks[message, seq] == text
    assert sum(count - 1 for count in sent.values()) <= kills


def _assert_one_sub_agent(outcome: SessionOutcome) -> None:
    """Every call has one sub-agent at most, whose end was logged once, and which has ended."""
    spawned = [event.data["call_id"] for event in outcome.log if event.type == EventType.SUBAGENT_SPAWN]
    completed = [event.data["call_id"] for event in outcome.log if event.type == EventType.SUBAGENT_COMPLETE]
    assert len(spawned) == len(set(spawned))
    assert sorted(spawned) == sorted(completed)
    assert outcome.row.kind != "sub-agent" or outcome.row.status == "ended"


def _assert_one_effect(outcome: SessionOutcome) -> None:
    """Every effect has a call that was logged before; one that must not be repeated happened at most once (I4)."""
    calls = {event.data["call_id"]: event.data["tool"] for event in outcome.log if event.type == EventType.TOOL_CALL}
    results = {event.data["call_id"]: event for event in outcome.log if event.type == EventType.TOOL_RESULT}
    assert calls.keys() == results.keys()
    effects = Counter(call for _, call in outcome.effects)
    assert effects.keys() <= calls.keys()
    for call, tool in calls.items():
        status = results[call].data["status"]
        if tool in _BUILTIN:
            assert status == "ok"
        elif tool in ("look", "slow_tool", "linger"):
            assert effects[call] >= 1 or status == "error"
        else:
            assert effects[call] <= 1
            assert status != "ok" or effects[call] == 1
            assert (status == "uncertain") == (call in outcome.row.attention)


def find_unpaired_messages(requests: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return the messages of requests that are calls without results, or results without calls (I5)."""
    unpaired: list[Any] = []
    for request in requests:
        open_calls: set[str] = set()
        for message in request["messages"]:
            if message["role"] == "tool":
                if message["tool_call_id"] not in open_calls:
                    unpaired.append(message)
                open_calls.discard(message["tool_call_id"])
            elif open_calls:
                unpaired.append((sorted(open_calls), message))
            if message.get("tool_calls"):
                open_calls = {call["id"] for call in message["tool_calls"]}
        if open_calls:
            unpaired.append(sorted(open_calls))
    return unpaired
