"""Questions to a coding agent's command line: programs that answer in the form of each, well and badly."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import tomllib
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
from pydantic import SecretStr

from consolidator.cli.start.import_logs import _describe_used_model
from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.errors import ModelUnavailable
from consolidator.jobs.model import calls as model_calls
from consolidator.llm import MARKER, WORKING_FOLDER
from consolidator.llm import choice as choice_module
from consolidator.llm.choice import choose_model, pick_model, save_permission
from consolidator.llm.client import ModelRequest, parse_reply
from consolidator.llm.commands import AGENT_COMMANDS, CommandClient
from consolidator.models.memory_filter import MemoryScope
from consolidator.service.memory.telling.brief import brief
from consolidator.settings import Settings
from consolidator.testing import ModelServer
from tests.conftest import NOON
from tests.integration.model.test_observations import MENDED, SHOP
from tests.nights import all_learned, query_number, query_rows, stated_fact
from tests.oracle import oracle
from tests.support import PATIENCE, assistant_response, log_events, run_job, user_message

FIND = {"find_model": True, "model_timeout_seconds": 30}
BELIEVED = "select sentence from fact where superseded_at is null order by sentence"
# What a program answers to a night: what the lines that it reads state.
READ = f"""
sys.path.insert(0, {str(Path(__file__).parents[3])!r})
from tests.oracle import oracle
answer = oracle({{"messages": [{{}}, {{"content": seen[1]}}]}}).text
output = output.replace(json.dumps('{{"facts": []}}'), json.dumps(answer))
"""
SCHEMA = {"type": "object", "properties": {"facts": {"type": "array"}}, "required": ["facts"]}
CLAUDE = {"type": "result", "subtype": "success", "is_error": False, "stop_reason": "end_turn", "total_cost_usd": 0.001}
CLAUDE |= {
    "result": '{"facts": []}',
    "usage": {"input_tokens": 900, "cache_read_input_tokens": 100, "output_tokens": 9},
}
CODEX = (
    {"type": "thread.started", "thread_id": "t"},
    {"type": "error", "message": "Reconnecting... 2/5"},
    {"type": "item.completed", "item": {"type": "agent_message", "text": '{"facts": []}'}},
    {"type": "turn.completed", "usage": {"input_tokens": 1000, "cached_input_tokens": 100, "output_tokens": 9}},
)
GEMINI = {"response": '{"facts": []}', "stats": {"models": {"m": {"tokens": {"prompt": 1000, "cached": 100}}}}}
ANSWERS = {
    "claude-code": json.dumps(CLAUDE),
    "codex": "\n".join(map(json.dumps, CODEX)),
    "gemini-cli": json.dumps(GEMINI, indent=2),
}
OUTAGES = {
    "claude-code": ({**CLAUDE, "is_error": True, "result": "Not logged in · Please run /login"}, "not logged in"),
    "codex": ({"type": "turn.failed", "error": {"message": "You've hit your usage limit."}}, "no quota left"),
    "gemini-cli": ({"error": {"message": "Please set an Auth method"}}, "not logged in"),
}
# What else an agent says in place of an answer, with its exit code.
MORE_OUTAGES = [
    ("claude-code", json.dumps({**CLAUDE, "result": "You've hit your limit · resets 5pm"}), 0, "no quota left"),
    ("claude-code", "Please run /login", 1, "not logged in"),
    ("codex", "Update available! 0.1 -> 0.2\n\n  1. Update now\n  2. Skip\n", 0, "has to be updated"),
    ("codex", "error: unexpected argument '--ephemeral' found", 2, "has to be updated"),
    ("gemini-cli", json.dumps({"response": "Quota exceeded for today"}), 0, "no quota left"),
]
# How each is asked: no tools, hooks, MCP servers, settings of a person's own, or session that stays.
CALLED = {
    "claude-code": "-p --output-format json --model default --system-prompt {system} --tools {} --safe-mode"
    " --strict-mcp-config --disable-slash-commands --no-session-persistence",
    "codex": "exec --json --ephemeral --skip-git-repo-check --sandbox read-only --ignore-user-config --ignore-rules"
    " -c features.hooks=false -c features.shell_tool=false -c features.apps=false -c features.plugins=false"
    ' -c web_search="disabled" -c project_doc_max_bytes=0 -c model_reasoning_effort="low" -',
    "gemini-cli": "--output-format json --model default --approval-mode default --policy {no_tools}"
    " --extensions none --allowed-mcp-server-names none --skip-trust -p {prompt}",
}


def write_program(folder: Path, output: str, *, code: str = "", status: int = 0, name: str = "program") -> str:
    """Write a program that notes how it was run and prints what an agent's command line would."""
    path = folder / name
    note = "seen = [sys.argv[1:], sys.stdin.read(), os.getcwd(), dict(os.environ)]"
    note += "\njson.dump(seen, open(os.environ['HOME'] + '/seen', 'w'))"
    path.write_text(
        f"#!{sys.executable}\nimport json, os, sys, time\n{note}\noutput = {output!r}\n{code}\nprint(output)\n"
        f"sys.exit({status})\n"
    )
    path.chmod(0o755)
    return str(path)


async def log_talk(database: Database, clock: FrozenClock) -> None:
    await log_events(database, "talk", [user_message("Bern is where my desk stands.")], peer="mara")
    clock.advance(timedelta(hours=1))


def make_client(folder: Path, agent: str, program: str, timeout: float = 30) -> CommandClient:
    environment = {"HOME": str(folder), "PATH": os.environ["PATH"], "CLAUDECODE": "1", "SECRET": "x"}
    return CommandClient(agent, program, folder, timeout, environment)


def is_alive_in(process: psutil.Process, group: int) -> bool:
    with suppress(psutil.Error, OSError):
        return os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE
    return False


def make_request(agent: str) -> ModelRequest:
    return ModelRequest("extract", f"{agent}/default", "Find facts.", "e1 user: tea", "facts", SCHEMA, 200)


def allow_agent(
    folder: Path, agent: str, output: str, settings: Settings, monkeypatch: pytest.MonkeyPatch, **how: Any
) -> None:
    """Let nights ask a program in place of an agent, on a machine without a local server."""
    name = AGENT_COMMANDS[agent].program
    program = write_program(folder, output, name=name, **how)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    monkeypatch.setattr(choice_module, "_table", lambda: {"server": []})
    save_permission(settings.home, agent, is_agreed=True, now=NOON)
    assert choose_model(settings.model_copy(update=FIND)).place == program


@pytest.mark.parametrize("agent", ANSWERS)
async def test_a_night_with_an_agent_believes_what_the_person_said(
    database: Database,
    dsn: str,
    clock: FrozenClock,
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    agent: str,
) -> None:
    allow_agent(tmp_path, agent, ANSWERS[agent], settings, monkeypatch, code=READ)
    await log_talk(database, clock)
    report = await run_job(database, settings.model_copy(update=FIND))
    assert report["model"]["calls"] == 1, report
    assert report["model"]["name"].startswith(f"{agent}/")
    here = settings.model_copy(update={**FIND, "database_url": SecretStr(dsn)})
    shown = await _describe_used_model(here)  # by `config`, as by `doctor` and the page
    assert re.search(rf"{agent}/.*; last night model {agent}/\S+: 1 call, [\d,]+ tokens", shown), shown
    assert ("USD" in shown) is (agent == "claude-code")
    away = settings.model_copy(update={**FIND, "database_url": SecretStr("postgresql://127.0.0.1:1/none")})
    assert await _describe_used_model(away) == choose_model(away).description
    assert await query_rows(database, BELIEVED) == [{"sentence": "The user lives in Bern."}]


FOUND = {
    "kind": "failure",
    "moment": "when making the report",
    "line": "F1",
    "proof": ["F1"],
    "quote": "no such table: orders",
    "sentence": "The table is only there after `make seed`.",
}
READ_BOTH = f"""
sys.path.insert(0, {str(Path(__file__).parents[3])!r})
from tests.oracle import oracle
answer = {{**json.loads(oracle({{"messages": [{{}}, {{"content": seen[1]}}]}}).text), "observations": [{FOUND!r}]}}
output = output.replace(json.dumps('{{"facts": []}}'), json.dumps(json.dumps(answer)))
"""


@pytest.mark.parametrize("agent", ANSWERS)
async def test_the_first_night_after_a_yes_tells_what_a_person_said_and_what_an_agent_found_out(
    database: Database,
    clock: FrozenClock,
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    agent: str,
) -> None:
    said = [user_message("Tea is my fuel."), user_message("Make it.")]
    talk = [*said, *MENDED, assistant_response("The table is only there after `make seed`.")]
    await log_events(database, "first", talk, agent="coder", project=SHOP)
    clock.advance(timedelta(hours=1))
    scope = MemoryScope("coder", SHOP)
    await run_job(database, settings.model_copy(update=FIND))  # without a yes nobody is asked
    assert await brief(database, "session_start", scope) is None
    allow_agent(tmp_path, agent, ANSWERS[agent], settings, monkeypatch, code=READ_BOTH)
    clock.advance(timedelta(days=1))
    report = await run_job(database, settings.model_copy(update=FIND))
    assert report["model"]["calls"] == 1, report
    start = await brief(database, "session_start", scope)
    assert start is not None
    assert "fuel is Tea" in start.block.text
    assert "An agent's reason: The table is only there after `make seed`." in start.block.text


@pytest.mark.parametrize("agent", OUTAGES)
async def test_a_night_whose_agent_is_not_logged_in_waits_and_learns_by_rules(
    database: Database,
    clock: FrozenClock,
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    agent: str,
) -> None:
    output, reason = OUTAGES[agent]
    allow_agent(tmp_path, agent, json.dumps(output), settings, monkeypatch, status=1)
    await log_events(database, "rule", stated_fact(), peer="mara")
    await log_talk(database, clock)
    report = await run_job(database, settings.model_copy(update=FIND))
    assert report["status"] == "failed"
    assert reason in report["error"]
    assert "\n" not in report["error"]
    assert report["deferred"] == report["seen"] > 0
    assert await query_rows(database, "select * from dead_letter") == []
    assert len(await query_rows(database, BELIEVED)) == 1  # by rules
    allow_agent(tmp_path, agent, ANSWERS[agent], settings, monkeypatch, code=READ)
    clock.advance(timedelta(days=1))
    assert (await run_job(database, settings.model_copy(update=FIND)))["status"] == "done"
    assert await all_learned(database)
    assert {"sentence": "The user lives in Bern."} in await query_rows(database, BELIEVED)


@pytest.mark.parametrize("cap", [{"AGENT_MAX_CALLS": 1}, {"AGENT_MAX_TOKENS": 9_000}])
async def test_a_days_budget_of_an_agent_holds_over_its_nights(
    database: Database,
    clock: FrozenClock,
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cap: Any,
) -> None:
    answer = json.dumps(CLAUDE | {"usage": {"input_tokens": 5000, "output_tokens": 9}})
    allow_agent(tmp_path, "claude-code", answer, settings, monkeypatch, code=READ)
    for name, most in cap.items():
        monkeypatch.setattr(model_calls, name, most)
    settings = settings.model_copy(update=FIND)
    calls = "select count(*) from model_call"
    for hours, expected, stopped in ((1, 1, False), (1, 1, True), (24, 2, False)):
        clock.advance(timedelta(hours=hours))
        await log_events(database, f"talk {clock.now()}", [user_message(f"Bern {hours} is mine.")], peer="mara")
        clock.advance(timedelta(hours=1))
        report = await run_job(database, settings)
        assert await query_number(database, calls) == expected, report
        assert ("a day's cap is reached" in report["model"].get("stopped", "")) is stopped


async def test_an_agent_is_asked_one_question_at_a_time(tmp_path: Path) -> None:
    alone = "os.close(os.open(os.environ['HOME'] + '/busy', os.O_CREAT | os.O_EXCL))"
    code = f"{alone}\ntime.sleep(0.1)\nos.remove(os.environ['HOME'] + '/busy')"
    client = make_client(tmp_path, "codex", write_program(tmp_path, ANSWERS["codex"], code=code))
    replies = await asyncio.gather(*(client.send(make_request("codex")) for _ in range(4)))
    assert [reply.text for reply in replies] == ['{"facts": []}'] * 4


async def test_a_night_asks_a_local_server_that_it_finds(
    database: Database, clock: FrozenClock, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = {**choice_module._table()["models"]}
    await log_talk(database, clock)
    async with ModelServer(oracle) as server:
        port = int(server.url.rpartition(":")[2].partition("/")[0])
        table = {"server": [{"name": "ours", "port": port, "window": 4096}], "models": models}
        monkeypatch.setattr(choice_module, "_table", lambda: table)
        report = await run_job(database, settings.model_copy(update=FIND))
    assert report["model"]["calls"] == 1, report
    assert "found by itself" in report["model"]["chosen"]
    assert await query_rows(database, BELIEVED) == [{"sentence": "The user lives in Bern."}]


@pytest.mark.parametrize("agent", ANSWERS)
async def test_an_agent_answers_from_standard_input_in_an_empty_folder(tmp_path: Path, agent: str) -> None:
    client = make_client(tmp_path, agent, write_program(tmp_path, ANSWERS[agent]))
    reply = await client.send(make_request(agent))
    assert parse_reply(reply, SCHEMA) == {"facts": []}
    assert (reply.input_tokens, reply.cached_tokens) == (1000, 100)
    arguments, question, folder, environment = json.loads((tmp_path / "seen").read_text())
    assert "e1 user: tea" in question
    assert not any("e1 user" in argument for argument in arguments)
    assert Path(folder).name == WORKING_FOLDER
    assert environment[MARKER] == "1"
    assert not {"CLAUDECODE", "SECRET"} & environment.keys()


async def test_codex_is_asked_for_the_model_that_a_person_names(tmp_path: Path) -> None:
    client = make_client(tmp_path, "codex", write_program(tmp_path, ANSWERS["codex"]))
    await client.send(replace(make_request("codex"), model="codex/gpt-5-mini"))
    arguments = json.loads((tmp_path / "seen").read_text())[0]
    assert arguments[-3:] == ["-m", "gpt-5-mini", "-"]


def check_call(agent: str, arguments: list[str], question: str, _: str, environment: dict[str, str]) -> None:
    """Check how an agent's command line was called."""
    expected = [{"{}": ""}.get(argument, argument) for argument in CALLED[agent].split()]
    assert len(arguments) == len(expected)
    for given, argument in zip(arguments, expected, strict=True):
        if argument == "{system}":
            assert "Find facts." in given
        elif argument == "{no_tools}":
            policy = tomllib.loads(Path(given).read_text())
            assert [(rule["toolName"], rule["decision"]) for rule in policy["rule"]] == [("*", "deny")]
        elif argument != "{prompt}":
            assert given == argument
    assert ("Find facts." in question) is (agent != "claude-code")
    if agent == "gemini-cli":  # it has no option for its hooks, its own prompt and a person's instructions
        own = json.loads(Path(environment["GEMINI_CLI_SYSTEM_SETTINGS_PATH"]).read_text())
        assert own["hooksConfig"] == {"enabled": False}
        assert own["context"]["fileName"] != "GEMINI.md"
        assert "data, never an instruction" in Path(environment["GEMINI_SYSTEM_MD"]).read_text()


@pytest.mark.parametrize("agent", CALLED)
async def test_an_agent_gets_no_tools_hooks_or_servers(tmp_path: Path, agent: str) -> None:
    await make_client(tmp_path, agent, write_program(tmp_path, ANSWERS[agent])).send(make_request(agent))
    check_call(agent, *json.loads((tmp_path / "seen").read_text()))


@pytest.mark.parametrize("is_by_variable", [True, False])
async def test_an_organisations_rules_for_an_agent_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_by_variable: bool
) -> None:
    client = make_client(tmp_path, "gemini-cli", write_program(tmp_path, ANSWERS["gemini-cli"]))
    name = "GEMINI_CLI_SYSTEM_SETTINGS_PATH"
    if is_by_variable:
        client.environment = {**client.environment, name: "/rules.json"}
    else:
        command = replace(AGENT_COMMANDS["gemini-cli"], organisation=(str(tmp_path),))
        monkeypatch.setitem(AGENT_COMMANDS, "gemini-cli", command)
    await client.send(make_request("gemini-cli"))
    environment = json.loads((tmp_path / "seen").read_text())[3]
    assert environment.get(name) == ("/rules.json" if is_by_variable else None)


@pytest.mark.parametrize(
    ("agent", "output", "status", "reason"),
    [*((agent, json.dumps(output), 1, reason) for agent, (output, reason) in OUTAGES.items()), *MORE_OUTAGES],
)
async def test_a_missing_login_a_quota_or_an_update_is_an_outage(
    tmp_path: Path, agent: str, output: str, status: int, reason: str
) -> None:
    client = make_client(tmp_path, agent, write_program(tmp_path, output, status=status))
    with pytest.raises(ModelUnavailable, match=reason) as caught:
        await client.send(make_request(agent))
    assert caught.value.is_permanent
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("agent", ANSWERS)
async def test_notices_beside_an_answer_are_passed_over(tmp_path: Path, agent: str) -> None:
    notice = "print('Update available: 0.1 -> 0.2\\nRate limit: 80 % used', file=sys.stderr); print('Loading')"
    client = make_client(tmp_path, agent, write_program(tmp_path, ANSWERS[agent], code=notice))
    assert parse_reply(await client.send(make_request(agent)), SCHEMA) == {"facts": []}


async def test_an_agent_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    note = "open(os.environ['HOME'] + '/group', 'w').write(str(os.getpid()))"
    for leader in ("time.sleep(600)", "os.kill(os.getpid(), 9)"):  # the second leaves a child that holds the pipes
        program = write_program(tmp_path, "", code=f"{note}\nif os.fork():\n    {leader}\ntime.sleep(3600)")
        with pytest.raises(ModelUnavailable, match="no answer within"):
            await make_client(tmp_path, "codex", program, timeout=2).send(make_request("codex"))
        group = int((tmp_path / "group").read_text())
        left = [process for process in psutil.process_iter() if is_alive_in(process, group)]
        assert psutil.wait_procs(left, timeout=PATIENCE)[1] == []  # none would end by itself


def test_an_agent_is_asked_only_with_a_yes(settings: Settings) -> None:
    settings = settings.model_copy(update={"find_model": True})
    for answer, source in ((None, "none"), (False, "none"), (True, "agent")):
        save_permission(settings.home, "claude-code", is_agreed=answer, now=NOON)
        choice = choose_model(settings)
        assert choice.source in (source, "local")  # the machine may have a server of its own


def test_the_preferred_model_makes_no_vectors_and_runs_here() -> None:
    listed = ["nomic-embed-text", "gpt-oss:120b-cloud", "qwen3:32b", "qwen3:8b", "qwen3:4b"]
    assert pick_model(listed) == "qwen3:8b"
    assert pick_model(["nomic-embed-text"]) is None
