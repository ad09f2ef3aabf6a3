"""Every benchmark runs at a tiny scale and reports its figures; speed itself is not tested."""

from __future__ import annotations

import importlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from benchmarks.__main__ import MODULES
from benchmarks.harness import synthetic_sessions
from benchmarks.harness.missed_targets import MissedTarget, load_missed_targets
from benchmarks.harness.report import Figure, Report, median_ratio, run_interleaved
from benchmarks.harness.server import BenchmarkServer
from benchmarks.quality import borne_out, error_pairs, next_call
from consolidator.formats.registry import get_format
from consolidator.models.payload import EventType
from tests.acceptance.claude_home import ClaudeSession

RATIOS = {
    "append": {"append / INSERT"},
    "bulk": {
        "load_bulk / COPY of 100 rows",
        "peak of the large / the small folder",
        "import codex",
        "import consolidator",
    },
    "consolidation": {"night / stamping as a night does", "night / stamping in one statement"},
    "real-night": set(),
    "first-import": set(),
    "increment": {"night with 1% new / full backfill"},
    "scale": {
        "three by claims / one",
        "three by dbos / by claims",
        "claims: one killed / none",
        "dbos: one killed / none",
    },
    "history": {"one project: long / short", "4 projects, news in 4: long / short", "peak of memory"},
    "retention": {"dropping the day / DELETE", "the whole job / DELETE"},
    "mining": {"time", "peak of memory", "other orders that came out the same"},
    "soak": {"last night, processor time an event", "recall after the last night, p95", "log, a kept event"},
    "ui": {"Facts, p95", "Compare long sessions, p95", "the largest page"},
    "recall": {
        "1,000 facts: by text, p95",
        "1,000 facts: 8 clients at once, p95",
        "1,000 facts in one scope: by text, p95",
        "vectors: 1,000, one scope, p95",
    },
    "models": {"all: ours, calls", "all: ours, tokens"},
    "runtime": {"append / INSERT", "context: 400 / 100 events", "waking: 400 / 100 events", "steps, one session"},
    "turn-floor": {"round trips", "a turn / its model calls and 7 INSERTs", "turn 6 / the first ones"},
    "followers": {"from before the commit to a follower, p95", "their ratio"},
    "start": {"--help / import typer", "a mistyped command / import typer"},
    "hooks": {"SessionStart / python -I -c pass, p95", "UserPromptSubmit / python -I -c pass, p95"},
    "lineage": {"events copied by all of that"},
    "api": {"1 event a request, 1 client: HTTP / in-process", "100 events a request, 8 clients: HTTP"},
    "proxy": {"time to the first token / without the proxy", "pieces a second / without the proxy"},
    "watch": {"the lesson is in another agent's brief after"},
    "turns": {"one session: consolidator", "8 sessions at once: consolidator", "a turn after 6 / the first, time"},
    "plans": {"append", "stamp", "claim", "prunable", "solutions by fingerprint", "facts by text"},
}


@pytest.fixture
async def server(server_dsn: str) -> AsyncIterator[BenchmarkServer]:
    """The test server, on which benchmarks create databases of their own."""
    benchmark_server = BenchmarkServer(server_dsn)
    yield benchmark_server
    await benchmark_server.close()


def figures_of(report: Report) -> dict[str, float]:
    return {figure.name: figure.value for figure in report.figures}


def test_every_benchmark_has_its_ratios_named_here() -> None:
    assert set(RATIOS) == set(MODULES)


@pytest.mark.parametrize("name", MODULES)
async def test_a_benchmark_runs_and_reports_its_ratios(
    server: BenchmarkServer, name: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if name in ("recall", "models"):
        request.getfixturevalue("pgvector")
    monkeypatch.setenv("CONSOLIDATOR_TEST_DATA", "/nowhere")
    for variable in ("CONSOLIDATOR_TEST_MEM0", "CONSOLIDATOR_TEST_STORES"):
        monkeypatch.delenv(variable, raising=False)
    report = await importlib.import_module(MODULES[name]).measure(server, "tiny")
    figures = figures_of(report)
    assert RATIOS[name] <= set(figures)
    assert all(
        value > 0 for title, value in figures.items() if not title.endswith(("copied by all of that", "the idlest"))
    )
    assert name != "mining" or figures["other orders that came out the same"] == 2
    assert json.loads(json.dumps(report.to_json()))["benchmark"] == name
    assert all(figure.name in report.format_table() for figure in report.figures)


def test_a_report_says_whether_a_target_is_reached_or_missed() -> None:
    report = Report("one", "something")
    report.add("fast", 0.7, at_least=0.65)
    report.add("slow", 3, at_most=2)
    report.add("plain", 5)
    assert [figure.reached for figure in report.figures] == [True, False, None]
    assert [line.split() for line in report.format_table().splitlines()[2:]] == [
        ["fast", "0.70", ">=", "0.65", "reached"],
        ["slow", "3", "<=", "2", "MISSED"],
        ["plain", "5"],
    ]
    assert report.to_json()["targets"]["slow"] == {"at_most": 2, "reached": False, "holds": False}


def test_a_target_that_is_known_to_be_missed_holds_up_to_what_is_known() -> None:
    known = MissedTarget("one", "slow *", 3, "the disk's flushes", ("a pipeline", "one statement"))
    worse, missed, better = (Figure("slow day", value, at_most=2, known=known) for value in (3.5, 2.5, 1.5))
    assert [(figure.reached, figure.holds) for figure in (worse, missed, better)] == [
        (False, False),
        (False, True),
        (True, True),
    ]
    assert [figure.verdict for figure in (worse, missed, better)] == [
        "<= 2 MISSED BY MORE",
        "<= 2 missed, as known (3)",
        "<= 2 reached",
    ]
    report = Report("one", "something", figures=[missed])
    assert report.format_table().splitlines()[-1].strip() == "slow day: the disk's flushes"


def test_each_target_known_to_be_missed_says_what_its_floor_is_and_two_ways_that_were_tried() -> None:
    for missed in load_missed_targets():
        assert missed.benchmark in MODULES, missed
        assert missed.floor, missed
        assert len(missed.tried) >= 2, missed


async def test_actions_run_interleaved_and_the_order_alternates() -> None:
    order = []

    async def first() -> float:
        order.append("A")
        return 2.0

    async def second() -> float:
        order.append("B")
        return 1.0

    seconds = await run_interleaved(4, first, second)
    assert order == ["A", "B", "B", "A", "A", "B", "B", "A"]
    assert median_ratio(*seconds) == 2.0


def test_a_synthetic_session_is_the_same_each_time_and_pairs_its_calls() -> None:
    session = synthetic_sessions.generate_session(7, 200)
    assert session == synthetic_sessions.generate_session(7, 200)
    assert session != synthetic_sessions.generate_session(8, 200)
    kinds = [event.type for event in session]
    assert len(session) == 200
    assert 0 <= kinds.count(EventType.TOOL_CALL) - kinds.count(EventType.TOOL_RESULT) <= 1


def write_order_conversations(folder: Path, count: int) -> Path:
    """Write conversations in which a customer's orders are looked up one by one."""
    folder.mkdir()
    for number in range(count):
        name, order_ids = f"ada_lee_{1000 + number}", [f"W{number}{n}77" for n in range(3)]
        messages: list[dict[str, object]] = [{"role": "user", "content": f"Hello, I am {name}."}]
        calls: list[tuple[str, dict[str, str], object]] = [("get_user", {"user_id": name}, {"orders": order_ids})]
        calls += [("get_order", {"order_id": order}, {"id": order}) for order in order_ids]
        for position, (tool, arguments, result) in enumerate(calls):
            call = {"id": f"c{position}", "type": "function"}
            function = {"name": tool, "arguments": json.dumps(arguments)}
            messages.append({"role": "assistant", "content": None, "tool_calls": [{**call, "function": function}]})
            messages.append({"role": "tool", "tool_call_id": f"c{position}", "content": json.dumps(result)})
        record = {"task_id": number, "messages": messages}
        (folder / f"{number:03}.json").write_text(json.dumps(record), encoding="utf-8")
    return folder


async def test_next_calls_are_predicted_from_what_a_night_stored(server: BenchmarkServer, tmp_path: Path) -> None:
    figures = await next_call.measure_folder(server, write_order_conversations(tmp_path / "orders", 12), split=0.6)
    assert figures["calls"] == 4 * figures["held_out"] > 0
    assert figures["held_out"] < figures["sessions"] == 12
    assert figures["learned"] >= 0.9 > 0.1 > figures["last_value"]
    assert figures["filled_right"] == 1.0


async def test_of_few_tasks_each_of_five_parts_is_held_out_once(server: BenchmarkServer, tmp_path: Path) -> None:
    folder = write_order_conversations(tmp_path / "orders", 6)
    figures = await next_call.measure_folder(server, folder, get_format("openai-messages"))
    assert figures["held_out"] == 6
    assert figures["calls"] == 24
    report = next_call.build_report(figures, folder)
    assert "learned - better baseline" in figures_of(report)


def test_later_sessions_bear_out_what_a_start_tells_or_contradict_it(tmp_path: Path) -> None:
    for number in range(9):
        is_later = number >= 6
        session = ClaudeSession(f"s{number}", day=number + 1).say("Mend the cart")
        session.call("test", "pnpm run test", "12 passed")
        session.call("lint", "npx oxlint src" if is_later else "pnpm run lint", "0 warnings")
        session.call("commit", f"git commit -m '{'fix' if number != 7 else 'Cart'}: round the sum'")
        if not is_later:
            session.call("query", "jqx . cart.json", "zsh: command not found: jqx", failed=True)
        session.write(tmp_path)

    folder = next((tmp_path / ".claude" / "projects").iterdir())
    lines = borne_out.measure_folder(borne_out.TRAIN_SHARE, folder)
    verdicts = {f"{line.kind} {line.detail}".strip(): (line.verdict, line.held, line.met) for line in lines}
    assert verdicts["command test"] == ("borne out", 3, 3)
    assert verdicts["command lint"] == ("contradicted", 0, 3)
    assert verdicts["commits' form"] == ("borne out", 2, 3)
    assert verdicts["always fails program"] == ("not met", 0, 0)
    report = borne_out.build_report(lines, 1)
    assert "command" not in figures_of(report)  # the line of what is run before a commit says as much
    assert figures_of(report)["before a commit"] == report.details["kinds"]["before a commit"]["contradicted"] == 1


def write_failing_rollout(folder: Path) -> Path:
    """Write a rollout with two failed calls, of which the first is resolved, and labels for both."""
    folder.mkdir()
    lines = [{"type": "session_meta", "payload": {"id": "5973b6c0-94b8-487b-a530-2aeb6098ae0e", "cwd": "/w"}}]
    runs = [("pytest tests/test_a.py --oops", 4), ("pytest tests/test_a.py", 0), ("cargo build --release", 101)]
    for position, (command, code) in enumerate(runs):
        call = {"type": "function_call", "name": "shell", "call_id": f"c{position}"}
        arguments = json.dumps({"command": ["bash", "-lc", command]})
        output = {"output": "ERROR: it failed\n" if code else "ok\n", "metadata": {"exit_code": code}}
        answer = {"type": "function_call_output", "call_id": f"c{position}", "output": json.dumps(output)}
        lines.append({"type": "response_item", "payload": {**call, "arguments": arguments}})
        lines.append({"type": "response_item", "payload": answer})
    text = "".join(json.dumps({"timestamp": "2026-01-05T08:00:00.000Z", **line}) + "\n" for line in lines)
    name = "rollout-2026-01-05T08-00-00-5973b6c0-94b8-487b-a530-2aeb6098ae0e.jsonl"
    (folder / name).write_text(text, encoding="utf-8")
    labels = [(0, "resolved", [1]), (2, "resolved", [9])]
    labels_json = [
        {"session": name, "call_index": call, "tool": "shell", "label": label, "resolving_call_index": resolving}
        for call, label, resolving in labels
    ]
    (folder / "labels").write_text("".join(json.dumps(entry) + "\n" for entry in labels_json), encoding="utf-8")
    return folder


async def test_error_pairs_are_read_from_what_a_night_stored_and_misses_have_reasons(
    server: BenchmarkServer, tmp_path: Path
) -> None:
    folder = write_failing_rollout(tmp_path / "logs")
    figures = await error_pairs.measure_folder(server, folder, error_pairs.read_labels(folder / "labels"))
    assert (figures["predicted"], figures["right"], figures["resolved"]) == (1, 1, 2)
    assert (figures["precision"], figures["recall"]) == (1.0, 0.5)
    [miss] = figures["wrong"]
    assert miss["call"] == 2
    assert "no resolver found" in miss["reason"]
    assert "MISSED" in error_pairs.build_report(figures).format_table()
