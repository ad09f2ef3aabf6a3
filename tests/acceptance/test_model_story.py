"""From a log to what a better model makes of it, by the command line: import, night, recall, explain, promote."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from consolidator.memory.facts.extraction_prompt import PROMPT_VERSION
from consolidator.testing import ModelServer, ScriptedReply
from tests.acceptance.claude_home import ClaudeCode, ClaudeSession, end_service
from tests.acceptance.terminal import Terminal
from tests.integration.model.test_agent_commands import ANSWERS, READ_BOTH, write_program
from tests.oracle import oracle
from tests.support import in_thread, run_cli

MESSAGES = ["Tea is my fuel. Please tidy the imports.", "Bern is where my desk stands."]
BETTER = "gpt-4o"
TOKEN_KEYS = ("input_tokens", "output_tokens")


def write_conversation(path: Path) -> str:
    turns = [
        turn
        for text in MESSAGES
        for turn in ({"role": "user", "content": text}, {"role": "assistant", "content": "Yes."})
    ]
    path.write_text(json.dumps({"messages": turns}), encoding="utf-8")
    return str(path)


def answer(request: dict[str, Any]) -> Any:
    """Answer as the oracle does; the better model says it in other words."""
    reply = oracle(request)
    if request["model"] != BETTER or not reply.text:
        return reply
    return type(reply)(text=reply.text.replace("The user lives in", "The user's desk is in"))


async def test_a_log_becomes_facts_and_a_better_model_reads_it_again(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """A5."""
    async with ModelServer(answer) as server:
        variables = {
            **environment,
            "CONSOLIDATOR_MODEL": "gpt-4o-mini", "OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "sk-stand-in",
            "CONSOLIDATOR_CLOCK": "2026-05-01T12:00:00+00:00",
        }  # fmt: skip

        async def run(*arguments: str) -> Any:
            completed = await in_thread(run_cli, *arguments, "--json", environment=variables)
            return json.loads(completed.stdout)

        await run("import", "openai-messages", write_conversation(tmp_path / "talk.json"))
        variables["CONSOLIDATOR_CLOCK"] = "2026-05-02T12:00:00+00:00"
        night = await run("run", "consolidation")
        assert night["model"]["calls"] == 1
        output = (await in_thread(run_cli, "runs", night["run"], environment=variables)).stdout
        assert f"model gpt-4o-mini: 1 call, {sum(night['model'][key] for key in TOKEN_KEYS):,} tokens, 0." in output
        facts = {fact["sentence"]: fact["id"] for fact in await run("facts")}
        assert set(facts) == {"The user's fuel is Tea.", "The user lives in Bern."}
        recalled = await run("recall", "where does the user live")
        assert recalled["items"][0]["id"] == facts["The user lives in Bern."]
        explanation = await run("explain", facts["The user lives in Bern."])
        assert explanation["evidence"][0]["quote"] == "Bern is where my desk stands"
        assert explanation["extractors"] == [f"model:gpt-4o-mini:{PROMPT_VERSION}"]

        draft = await run("backfill", "--reprocess", "--model", BETTER)
        old, new = "The user lives in Bern.", "The user's desk is in Bern."
        assert [[old in before, new in after] for before, after in draft["changed"]] == [[True, True]]
        assert (draft["added"], draft["lost"], draft["deferred"]) == ([], [], 0)
        assert old in {fact["sentence"] for fact in await run("facts")}  # a draft is no belief
        await run("revisions", str(draft["revision"]), "--promote")
        assert new in {fact["sentence"] for fact in await run("facts")}
        await run("revisions", "--restore")
        assert old in {fact["sentence"] for fact in await run("facts")}
        assert [revision["status"] for revision in await run("revisions")] == ["draft"]


async def test_a_night_that_cannot_ask_says_why(environment: dict[str, str], tmp_path: Path) -> None:
    async with ModelServer([ScriptedReply.failed(401, message="bad key")]) as server:
        variables = {
            **environment,
            "CONSOLIDATOR_MODEL": "gpt-4o-mini", "OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "sk-wrong",
            "CONSOLIDATOR_CLOCK": "2026-05-01T12:00:00+00:00",
        }  # fmt: skip
        await in_thread(
            run_cli, "import", "openai-messages", write_conversation(tmp_path / "talk.json"), environment=variables
        )
        variables["CONSOLIDATOR_CLOCK"] = "2026-05-02T12:00:00+00:00"
        completed = await in_thread(run_cli, "run", "consolidation", environment=variables, code=8)
    output = " ".join((completed.stdout + completed.stderr).split())
    assert "4 deferred" in output
    assert "stopped: the model's server says 401" in output
    assert "the key is not accepted" in output


SAID, REASON = "The user's fuel is Tea.", "An agent's reason: The table is only there after `make seed`."


@pytest.mark.parametrize("is_typed", [True, False])
def test_the_first_night_after_install_with_a_yes_tells_what_was_said_and_what_was_found_out(
    environment: Mapping[str, str], tmp_path: Path, is_typed: bool
) -> None:
    """By the command, the night and the hook; nobody's words go to a model before the yes."""
    session = ClaudeSession("first").say("Tea is my fuel.").answer("Noted.").say("Make it.")
    session.call("c1", "make report", "error: no such table: orders", failed=True).call("c2", "make seed")
    session.call("c3", "make report").call("c4", "make report")
    session.answer("The table is only there after `make seed`.").write(tmp_path)
    (tmp_path / ".claude" / "settings.json").write_text("{}\n")
    programs = tmp_path / "bin"
    programs.mkdir()
    write_program(programs, ANSWERS["claude-code"], code=READ_BOTH, name="claude")
    environment = {**environment, "PATH": f"{programs}{os.pathsep}{environment['PATH']}"}
    claude = ClaudeCode(environment, tmp_path)
    install = ("install", "claude-code", "--yes")
    try:
        with Terminal(*install, *([] if is_typed else ["--model"]), environment=environment) as terminal:
            if is_typed:
                terminal.wait_for("Let the nights use your Claude Code")
                terminal.type_line("y")
            terminal.wait_for("nights may use Claude Code's model")
            assert terminal.wait_for_exit() == 0
        assert not (tmp_path / "seen").exists()
        assert claude.run("SessionStart", source="startup") == ""  # rules have read the history, and learned nothing

        night = json.loads(run_cli("run", "consolidation", "--json", environment=environment).stdout)
        assert (night["status"], night["model"]["calls"]) == ("done", 1)
        start = claude.run_until_answered("SessionStart", source="compact")
        assert SAID[:-1] in start
        assert REASON in start
    finally:
        end_service(environment)
