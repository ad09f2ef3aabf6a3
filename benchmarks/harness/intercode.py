"""Read InterCode results: one JSON object of records; each record is a session with a task and its reward."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

from consolidator.formats.base import ForeignEvent, ForeignSession, Item, ItemKeys, Problem
from consolidator.formats.common import drafts
from consolidator.formats.common.fields import derive_origin
from consolidator.formats.common.json_members import read_json
from consolidator.formats.common.json_parsing import to_float
from consolidator.formats.common.jsonl import guard_line
from consolidator.formats.common.log_files import file_finder
from consolidator.models.payload import EventType

NAME = "intercode"
# environment -> the tool that runs its actions, and the name of the argument that holds the action
_TOOLS = {"ic_sql": ("sql", "query"), "ic_bash": ("bash", "command")}
_MAX_FILE = 256 * 1024 * 1024  # bytes
_ENVIRONMENT_COMMANDS = ("submit", "skip")  # addressed to the environment, not to the tool in it
_TOOL_FAILURE = re.compile(r"\s*(?:Error executing query\b|Malformed command\s*\Z)")


files = file_finder(".json")


def recognises(path: Path, head: bytes) -> bool:
    """Check for the keys of a first record."""
    return path.suffix == ".json" and b'"turn_history"' in head and b'"environment"' in head


def read(path: Path, root: Path) -> Iterator[Item]:
    """Read a result file: each record is a session with one task."""
    stem = derive_origin(path, root)
    records = read_json(path, _MAX_FILE)
    if not isinstance(records, dict):
        yield records if isinstance(records, Problem) else Problem("not an object of records")
        return
    for line, (key, record) in enumerate(records.items(), start=1):
        if isinstance(record, dict) and isinstance(record.get("turn_history"), dict):
            yield from guard_line(_read_record(f"{stem}#{key}", record, line), line)
        else:
            yield Problem(f"record {key!r} has no turn_history", line)


def _read_record(origin: str, record: dict[str, Any], line: int) -> Iterator[Item]:
    environment = str(record.get("environment") or NAME)
    task_id = f"{environment}:{record.get('task_id', origin.rpartition('#')[2])}"
    keys = ItemKeys(f"{NAME}/{origin}")

    def make_event(event_type: EventType, data: dict[str, Any], tool: str | None = None) -> ForeignEvent:
        data = {name: value for name, value in data.items() if value is not None}
        return ForeignEvent(
            keys.next_key(event_type, data), event_type, data, task_id=task_id, tool_name=tool, line=line
        )

    details: dict[str, Any] = {name: record[name] for name in ("environment", "dataset", "hardness") if name in record}
    yield ForeignSession(origin=origin, agent=NAME, ended=True, details=details)
    query = record.get("query")
    goal = query if isinstance(query, str) else None
    yield make_event(EventType.TASK_START, {"task_id": task_id, "goal": goal})
    if goal is not None:
        yield make_event(EventType.USER_MESSAGE, {"text": goal})
    for turn in _read_turns(record["turn_history"], environment):
        yield from (make_event(*draft) for draft in turn)
    yield make_event(EventType.TASK_END, {"task_id": task_id, **_task_outcome(record)})


def _read_turns(
    history: dict[str, Any], environment: str
) -> Iterator[list[tuple[EventType, dict[str, Any], str | None]]]:
    """Yield the event drafts of each turn: thought, action, observation."""
    columns = ("actions", "observations", "valid_action", "rewards", "thoughts")
    lists = [history[name] if isinstance(history.get(name), list) else [] for name in columns]
    for number, (action, observation, valid, reward, thought) in enumerate(zip_longest(*lists), start=1):
        turn: list[tuple[EventType, dict[str, Any], str | None]] = []
        if isinstance(thought, str) and thought.strip():
            turn.append((EventType.ASSISTANT_RESPONSE, {"text": thought}, None))
        if action is not None:
            call_id = f"turn-{number}"
            tool, arguments = _parse_call(action, environment)
            turn.append((*drafts.call(call_id, tool, arguments), tool))
            # `valid` is only the last exit code of a pipe, so the output counts as well.
            failed = valid is False or (isinstance(observation, str) and _TOOL_FAILURE.match(observation) is not None)
            kind, result = drafts.result(call_id, tool, observation, failed=True if failed else None)
            turn.append((kind, {**result, "content": observation, "reward": _to_reward(reward)}, tool))
        yield turn


def _parse_call(action: Any, environment: str) -> tuple[str, dict[str, Any]]:
    if isinstance(action, str) and action.strip().lower() in _ENVIRONMENT_COMMANDS:
        return action.strip().lower(), {}
    tool, argument = _TOOLS.get(environment, (environment, "action"))
    return tool, {argument: action}


def _task_outcome(record: dict[str, Any]) -> dict[str, Any]:
    summary = record.get("summary")
    reward = _to_reward(summary.get("max_reward")) if isinstance(summary, dict) else None
    if reward is None:
        return {"outcome": "unknown"}
    return {"outcome": "success" if reward == 1 else "failure", "reward": reward}


def _to_reward(value: Any) -> float | None:
    return None if isinstance(value, bool) else to_float(value)
