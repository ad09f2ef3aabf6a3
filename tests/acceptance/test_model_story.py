"""From a log to what a better model makes of it, by the command line: import, night, recall, explain, promote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from consolidator.testing import ModelServer, ScriptedReply
from tests.oracle import oracle
from tests.support import in_thread, run_cli

SAID = ["Tea is my fuel. Please tidy the imports.", "Bern is where my desk stands."]
BETTER = "gpt-4o"
TAKEN = ("input_tokens", "output_tokens")


def conversation(path: Path) -> str:
    turns = [
        turn for text in SAID for turn in ({"role": "user", "content": text}, {"role": "assistant", "content": "Yes."})
    ]
    path.write_text(json.dumps({"messages": turns}), encoding="utf-8")
    return str(path)


def answer(asked: dict[str, Any]) -> Any:
    """Answer as the oracle does; the better model says it in other words."""
    found = oracle(asked)
    if asked["model"] != BETTER or not found.text:
        return found
    return type(found)(text=found.text.replace("The user lives in", "The user's desk is in"))


async def test_a_log_becomes_facts_and_a_better_model_reads_it_again(
    environment: dict[str, str], tmp_path: Path
) -> None:
    async with ModelServer(answer) as server:
        told = {
            **environment,
            "CONSOLIDATOR_MODEL": "gpt-4o-mini", "OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "sk-stand-in",
            "CONSOLIDATOR_CLOCK": "2026-05-01T12:00:00+00:00",
        }  # fmt: skip

        async def run(*words: str) -> Any:
            done = await in_thread(run_cli, *words, "--json", environment=told)
            return json.loads(done.stdout)

        await run("import", "openai-messages", conversation(tmp_path / "talk.json"))
        told["CONSOLIDATOR_CLOCK"] = "2026-05-02T12:00:00+00:00"
        night = await run("run", "consolidation")
        assert night["model"]["calls"] == 1
        shown = (await in_thread(run_cli, "runs", "show", night["run"], environment=told)).stdout
        assert f"model gpt-4o-mini: 1 call, {sum(night['model'][one] for one in TAKEN):,} tokens, 0." in shown
        facts = {one["sentence"]: one["id"] for one in await run("facts")}
        assert set(facts) == {"The user's fuel is Tea.", "The user lives in Bern."}
        recalled = await run("recall", "where does the user live")
        assert recalled["items"][0]["id"] == facts["The user lives in Bern."]
        told_why = await run("explain", facts["The user lives in Bern."])
        assert told_why["evidence"][0]["quote"] == "Bern is where my desk stands"
        assert told_why["extractors"] == ["model:gpt-4o-mini:1"]

        draft = await run("backfill", "--reprocess", "--model", BETTER, "--diff")
        was, now = "The user lives in Bern.", "The user's desk is in Bern."
        assert [[was in one, now in other] for one, other in draft["changed"]] == [[True, True]]
        assert (draft["added"], draft["lost"], draft["deferred"]) == ([], [], 0)
        assert was in {one["sentence"] for one in await run("facts")}  # a draft is no belief
        await run("revisions", "promote", str(draft["revision"]))
        assert now in {one["sentence"] for one in await run("facts")}
        await run("revisions", "restore")
        assert was in {one["sentence"] for one in await run("facts")}
        assert [one["status"] for one in await run("revisions")] == ["draft"]


async def test_a_night_that_cannot_ask_says_why(environment: dict[str, str], tmp_path: Path) -> None:
    async with ModelServer([ScriptedReply.failed(401, told="bad key")]) as server:
        told = {
            **environment,
            "CONSOLIDATOR_MODEL": "gpt-4o-mini", "OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "sk-wrong",
            "CONSOLIDATOR_CLOCK": "2026-05-01T12:00:00+00:00",
        }  # fmt: skip
        await in_thread(run_cli, "import", "openai-messages", conversation(tmp_path / "talk.json"), environment=told)
        told["CONSOLIDATOR_CLOCK"] = "2026-05-02T12:00:00+00:00"
        done = await in_thread(run_cli, "run", "consolidation", environment=told)
    shown = " ".join((done.stdout + done.stderr).split())
    assert "4 deferred" in shown
    assert "stopped: the model's server says 401" in shown
    assert "the key is not accepted" in shown
