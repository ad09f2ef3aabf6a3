"""The gate: whole next calls on real trajectories, split by task, against the two baselines."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks.harness.data_sets import get_format
from benchmarks.quality.next_call import TaskSession, evaluate, task_fold
from consolidator.formats.base import ForeignEvent, ForeignSession
from consolidator.models.event import Event
from tests.unit.calls.session_log import NOW
from tests.unit.procedures.test_tool_profiles import customer_session

DATA = Path(os.environ.get("CONSOLIDATOR_TEST_DATA", Path(__file__).parents[3].parent / "shared" / "data"))


def read_sessions(name: str, folder: str) -> list[TaskSession]:
    reader = get_format(name)
    events_by_origin: dict[str, list[Event]] = {}
    task_by_origin: dict[str, str] = {}
    for path in reader.files(DATA / folder):
        origin = ""
        for item in reader.read(path, DATA / folder):
            if isinstance(item, ForeignSession):
                origin = item.origin
            elif isinstance(item, ForeignEvent):
                events = events_by_origin.setdefault(origin, [])
                events.append(Event(origin, len(events) + 1, item.type, item.data, NOW))
                task_by_origin[origin] = str(
                    item.data.get("task_id") or item.task_id or task_by_origin.get(origin) or origin
                )
    return [(task_by_origin[origin], events) for origin, events in events_by_origin.items()]


def test_synthetic_sessions_are_predicted_whole() -> None:
    figures = evaluate([(f"t{number}", customer_session(number).events) for number in range(12)])
    assert figures["calls"] == 60
    assert figures["learned"] >= 0.9
    assert figures["last_value"] < 0.1


def test_all_sessions_of_a_task_fall_into_the_same_part() -> None:
    assert {task_fold("task 7", 2) for _ in range(5)} == {task_fold("task 7", 2)}


@pytest.mark.skipif(not (DATA / "tau-airline").is_dir(), reason="no trajectories here")
def test_the_airline_gate() -> None:
    figures = evaluate(read_sessions("openai-messages", "tau-airline"))
    assert figures["learned"] >= 0.40
    assert figures["learned"] > max(figures["last_value"], figures["constant"])


@pytest.mark.skipif(not (DATA / "swe-agent").is_dir(), reason="no trajectories here")
@pytest.mark.parametrize(("name", "folder"), [("swe-agent", "swe-agent"), ("claude-code", "claude-code")])
def test_elsewhere_it_is_never_far_below_the_better_baseline(name: str, folder: str) -> None:
    figures = evaluate(read_sessions(name, folder))
    assert figures["learned"] >= max(figures["last_value"], figures["constant"]) - 0.03


@pytest.mark.skipif(not (DATA / "intercode").is_dir(), reason="no trajectories here")
def test_a_shell_whose_programs_seldom_recur_is_predicted_as_well_as_by_last_values() -> None:
    sessions = [(task, log) for task, log in read_sessions("intercode", "intercode") if task.startswith("ic_bash")]
    figures = evaluate(sessions)
    assert figures["learned"] >= max(figures["last_value"], figures["constant"])
