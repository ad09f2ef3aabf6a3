"""Random logs and random nights for property tests."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from consolidator.models.event import NewEvent
from consolidator.models.payload import EventType
from tests.nights import approval_granted, booking_events, failed_command_events
from tests.support import assistant_response, call_and_result, tool_call, tool_result, user_message

BEGIN = datetime.fromisoformat("2026-02-01T08:00:00+00:00")
USER_TEXTS = (
    "My name is Ada.",
    "My name is Grace.",
    "We use pnpm.",
    "From now on, always use tabs for indentation.",
    "Remember that the staging server is called heron.",
    "I prefer short answers.",
    "Which of them should we use?",
)
SECRET = "ghp_" + "Zk3" * 12
UNREAD_ERROR = "File has not been read yet. Read it first before writing to it."


def premature_edit_events(number: int) -> list[NewEvent]:
    """Edit a file before reading it, which fails; read it, edit it."""
    path = f"src/part_{number}.py"
    edit = {"file_path": path, "old_string": "a", "new_string": "b"}
    return [
        *call_and_result("e", "Edit", edit, UNREAD_ERROR, "error"),
        *call_and_result("f", "Read", {"file_path": path}, "a = 1"),
        *call_and_result("e", "Edit", edit, "edited"),
    ]


def git_push_events(number: int) -> list[NewEvent]:
    """Commit and push, with a compound command and a secret on the way."""
    return [
        *call_and_result(
            "g", "Bash", {"command": f"cd app && git add . && git commit -m 'part {number}'"}, "1 file changed"
        ),
        *call_and_result("h", "Bash", {"command": f"GH_TOKEN={SECRET} git push origin main | tail -1"}, "done"),
        approval_granted(),
    ]


def crossed_call_events(number: int) -> list[NewEvent]:
    """Two calls under one id, answered one after the other, and a third that nobody answers."""
    return [
        tool_call("x", "get_user", {"user_id": f"user_{number}"}),
        tool_call("x", "get_booking", {"booking_id": f"BK{number:04d}"}),
        tool_result("x", {"user_id": f"user_{number}", "bookings": [f"BK{number:04d}"]}),
        tool_result("x", {"booking_id": f"BK{number:04d}", "cabin": "economy"}),
        tool_call("y", "move_booking", {"booking_id": f"BK{number:04d}"}),
    ]


def late_result_events(number: int) -> list[NewEvent]:
    """A late result for a call that `crossed_call_events` left open, if it did."""
    return [tool_result("y", "moved"), assistant_response(f"late {number}")]


def task_events(number: int) -> list[NewEvent]:
    """A task with its outcome."""
    name, outcome = f"task {number}", "success" if number % 2 else "failure"
    return [
        NewEvent(EventType.TASK_START, {"task_id": name, "goal": name}, task_id=name),
        *booking_events(number)[1:5],
        NewEvent(EventType.TASK_END, {"task_id": name, "outcome": outcome}, task_id=name),
    ]


EVENT_MAKERS = (
    booking_events,
    failed_command_events,
    premature_edit_events,
    git_push_events,
    crossed_call_events,
    late_result_events,
    task_events,
)


@dataclass(frozen=True)
class ScriptedSession:
    """A whole session."""

    name: str
    columns: dict[str, Any]
    events: list[NewEvent]


@dataclass(frozen=True)
class NightPlan:
    """How much of each session is logged before a night, and how the night runs."""

    share: list[int]  # of each session's events, in percent; it never goes back
    pause: timedelta  # before the night
    workers: int
    replicas: int = 1
    window: int = 2000
    prune: timedelta | None = None


@dataclass(frozen=True)
class Story:
    """A log and the nights it is cut into."""

    sessions: list[ScriptedSession]
    nights: list[NightPlan] = field(default_factory=list)

    def events_until(self, session: int, night: int) -> int:
        """Return how many events of a session are logged before a night."""
        share = max((e.share[session] for e in self.nights[: night + 1]), default=0)
        return len(self.sessions[session].events) * share // 100


def _dated(events: list[NewEvent], begin: datetime) -> list[NewEvent]:
    """Give each event its own time, so that the ingest time does not matter."""
    return [
        replace(event, data={**event.data, "occurred_at": (begin + timedelta(seconds=20 * n)).isoformat()})
        for n, event in enumerate(events)
    ]


def make_session(rng: random.Random, number: int, earlier: list[ScriptedSession]) -> ScriptedSession:
    """Make a session: a root, or a child of an earlier one."""
    events: list[NewEvent] = []
    for _ in range(rng.randint(1, 5)):
        events += rng.choice(EVENT_MAKERS)(rng.randint(0, 3))
        if rng.random() < 0.5:
            events.append(user_message(rng.choice(USER_TEXTS)))
    columns: dict[str, Any] = {
        "agent": rng.choice(("coder", "coder", "clerk")),
        "project": rng.choice(("shop", "shop", "bank", None)),
        "peer": rng.choice((None, "ada")),
    }
    if earlier and rng.random() < 0.25:
        parent = rng.choice(earlier)
        root = parent.columns.get("root_id", parent.name)
        kind = rng.choice(("fork", "resume", "sub-agent"))
        columns |= {"parent_id": parent.name, "root_id": root, "kind": kind, "agent": parent.columns["agent"]}
        columns["origin"] = f"test:s{number}"  # imported: no event of ours says whose child it is
    elif rng.random() < 0.1:
        columns["simulated"] = True
    return ScriptedSession(f"s{number}", columns, _dated(events, BEGIN + timedelta(hours=rng.randint(0, 200))))


def make_night(rng: random.Random, sessions: int) -> NightPlan:
    """Make a night."""
    return NightPlan(
        share=[rng.choice((0, 0, 100, rng.randint(1, 99))) for _ in range(sessions)],
        pause=timedelta(minutes=rng.choice((5, 20, 60, 30 * 60, 9 * 24 * 60))),
        workers=rng.randint(1, 4),
        replicas=rng.randint(1, 2),
        window=rng.choice((3, 7, 2000)),
        prune=rng.choice((None, timedelta(hours=1), timedelta(days=1))),
    )


def make_story(seed: int) -> Story:
    """Make a log of several sessions and the nights that read it; the last night reads what is left."""
    rng = random.Random(seed)
    sessions: list[ScriptedSession] = []
    for number in range(rng.randint(5, 10)):
        sessions.append(make_session(rng, number, sessions))
    evenings = [make_night(rng, len(sessions)) for _ in range(rng.randint(1, 5))]
    return Story(sessions, [*evenings, NightPlan([100] * len(sessions), timedelta(days=3), rng.randint(1, 4))])


def steer_tasks(story: Story) -> Story:
    """Return a story in which a person steers in every task, and each session has one more: steered at its beginning.

    The task begins with the first event and ends with the last one, so that the nights between cut it.
    """
    sessions = []
    for session in story.sessions:
        steered: list[NewEvent] = []
        for event in session.events:
            steered.append(event)
            if event.type is EventType.TASK_START:
                steered.append(_steer(event.task_id, event.data["occurred_at"]))
        first, last = session.events[0].data["occurred_at"], session.events[-1].data["occurred_at"]
        outcome = "success" if len(session.events) % 2 else "failure"
        around = {"task_id": "whole"}
        begin = NewEvent(EventType.TASK_START, {**around, "occurred_at": first}, task_id="whole")
        end = NewEvent(EventType.TASK_END, {**around, "outcome": outcome, "occurred_at": last}, task_id="whole")
        sessions.append(replace(session, events=[begin, _steer("whole", first), *steered, end]))
    return replace(story, sessions=sessions)


def _steer(task_id: str | None, occurred_at: str) -> NewEvent:
    text = "Always run the linter before you commit."
    return NewEvent(
        EventType.USER_MESSAGE, {"text": text, "mode": "steer", "occurred_at": occurred_at}, task_id=task_id
    )
