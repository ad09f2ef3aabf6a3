"""Reads InterCode results: one JSON object of records, one session each, with a reward for the task.

Records are read one at a time; nothing here holds the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

from consolidator.formats.base import ForeignEvent, ForeignSession, Item, ItemKeys, Problem
from consolidator.formats.common.json_members import read_members
from consolidator.formats.common.jsonl import files_below, number_of
from consolidator.formats.common.origin import origin_of
from consolidator.formats.common.outcome import failed, timed_out
from consolidator.models.payload import EventType

NAME = "intercode"
# The tool that an environment's actions go to, and the argument that they are.
_TOOLS = {"ic_sql": ("sql", "query"), "ic_bash": ("bash", "command")}
_PSEUDO = ("submit", "skip")  # words to the environment itself, not to what runs in it


def default_paths(home: Path) -> list[Path]:
    """Return nothing: results lie where the person who ran the benchmark wanted them."""
    return []


def files(path: Path) -> Iterator[Path]:
    """Yield the result files at or below `path`."""
    yield from files_below(path, ".json")


def recognises(path: Path, head: bytes) -> bool:
    """Tell by the history of turns and the environment that the first record has."""
    return path.suffix == ".json" and b'"turn_history"' in head and b'"environment"' in head


def read(path: Path, root: Path) -> Iterator[Item]:
    """Read a result file: each record as a session of one task."""
    stem = origin_of(path, root)
    for line, key, record in read_members(path):
        if isinstance(record, Problem):
            yield record
        elif isinstance(record, dict) and isinstance(record.get("turn_history"), dict):
            yield from _session(f"{stem}#{key}", record, line)
        else:
            yield Problem(f"record {key!r} has no history of turns", line)


def _session(origin: str, record: dict[str, Any], line: int) -> Iterator[Item]:
    environment = str(record.get("environment") or NAME)
    task_id = f"{environment}:{record.get('task_id', origin.rpartition('#')[2])}"
    keys = ItemKeys(f"{NAME}/{origin}")

    def event(kind: EventType, data: dict[str, Any], tool: str | None = None) -> ForeignEvent:
        data = {name: value for name, value in data.items() if value is not None}
        return ForeignEvent(keys.key(kind, data), kind, data, task_id=task_id, tool_name=tool, line=line)

    details: dict[str, Any] = {name: record[name] for name in ("environment", "dataset", "hardness") if name in record}
    yield ForeignSession(origin=origin, agent=NAME, ended=True, details=details)
    query = record.get("query")
    goal = query if isinstance(query, str) else None
    yield event(EventType.TASK_START, {"task_id": task_id, "goal": goal})
    if goal is not None:
        yield event(EventType.USER_MESSAGE, {"text": goal})
    for turn in _turns(record["turn_history"], environment):
        yield from (event(*one) for one in turn)
    yield event(EventType.TASK_END, {"task_id": task_id, **_outcome(record)})


def _turns(history: dict[str, Any], environment: str) -> Iterator[list[tuple[EventType, dict[str, Any], str | None]]]:
    """What each turn says: a thought, the action, the observation."""
    columns = ("actions", "observations", "valid_action", "rewards", "thoughts")
    lists = [history[name] if isinstance(history.get(name), list) else [] for name in columns]
    for number, (action, observation, valid, reward, thought) in enumerate(zip_longest(*lists), start=1):
        said: list[tuple[EventType, dict[str, Any], str | None]] = []
        if isinstance(thought, str) and thought.strip():
            said.append((EventType.ASSISTANT_RESPONSE, {"text": thought}, None))
        if action is not None:
            call_id = f"turn-{number}"
            tool, arguments = _call(action, environment)
            call = {"call_id": call_id, "tool": tool, "arguments": arguments}
            said.append((EventType.TOOL_CALL, call, tool))
            result = {"call_id": call_id, "tool": tool, "content": observation, "reward": _number(reward)}
            said.append((EventType.TOOL_RESULT, result | _status(observation, valid), tool))
        yield said


def _call(action: Any, environment: str) -> tuple[str, dict[str, Any]]:
    if isinstance(action, str) and action.strip().lower() in _PSEUDO:
        return action.strip().lower(), {}
    tool, argument = _TOOLS.get(environment, (environment, "action"))
    return tool, {argument: action}


def _status(observation: Any, valid: Any) -> dict[str, Any]:
    """An action is valid where its command ended with 0; in a pipe that is the last program's word alone."""
    text = observation if isinstance(observation, str) else ""
    if valid is not False and not failed(text):
        return {"status": "ok"}
    return {"status": "error", "reason": "timeout" if timed_out(text) else None}


def _outcome(record: dict[str, Any]) -> dict[str, Any]:
    summary = record.get("summary")
    reward = _number(summary.get("max_reward")) if isinstance(summary, dict) else None
    if reward is None:
        return {"outcome": "unknown"}
    return {"outcome": "success" if reward == 1 else "failure", "reward": reward}


def _number(value: Any) -> float | None:
    return None if isinstance(value, bool) else number_of(value)
