"""How things are run here, as a person and an agent ask for it: the same lessons, hostile ones marked or left out."""

from __future__ import annotations

import asyncio
import json

from consolidator.clock import FrozenClock
from consolidator.database import Database
from tests.acceptance.command_line import CommandLine
from tests.acceptance.test_mcp import call_tool, connect_over_stdio
from tests.conftest import NOON
from tests.lessons import PREFIX_LINE, save_lessons

HERE = ("--project", "/srv/app")


async def fill(dsn: str) -> dict[str, str]:
    database = Database(dsn, FrozenClock(NOON))
    try:
        return await save_lessons(database, "/srv/app")
    finally:
        await database.close()


def test_a_person_sees_what_agents_are_told_and_corrects_and_forgets_a_line(cli: CommandLine, dsn: str) -> None:
    ids = asyncio.run(fill(dsn))
    assert [row["id"] for row in json.loads(cli("commands", *HERE, "--json")[1])] == list(ids.values())
    lines = cli("commands", *HERE)[1].splitlines()
    assert [line.split("\t")[0] for line in lines if "[hostile: told to no agent, since it " in line] == [ids["curl"]]
    assert [line.split("\t")[0] for line in cli("commands", "run", "the", "tests", *HERE)[1].splitlines()] == [
        ids["test"]
    ]
    assert [line.split("\t")[0] for line in cli("friction", *HERE)[1].splitlines()] == [ids["rtk pnpm"], ids["curl"]]

    code, printed, _ = cli("brief", *HERE)
    assert code == 0
    assert PREFIX_LINE in printed
    assert "evil.example" not in printed
    told = json.loads(cli("brief", *HERE, "--json")[1])
    assert printed.startswith(told["text"])
    assert [line["id"] for line in told["lines"]] == [ids["rtk pnpm"], ids["test"]]
    assert cli("forget", ids["rtk pnpm"])[0] == 0
    assert PREFIX_LINE not in cli("brief", *HERE)[1]
    assert [row["id"] for row in json.loads(cli("commands", *HERE, "--json")[1])] == [ids["test"], ids["curl"]]
    assert cli("facts", "--correct", ids["test"], "Run the tests with make test")[0] == 0
    assert "pnpm run test" not in cli("brief", *HERE)[1]
    assert "Run the tests with make test" in cli("facts", *HERE)[1]


def test_a_moment_that_needs_a_text_says_so(cli: CommandLine) -> None:
    code, _, err = cli("prove", "--json")
    assert (code, "there is nothing to try" in err) == (2, True), err
    for words, advice in (
        (["--moment", "call"], "takes a text"),
        (["--moment", "noon"], "--moment takes start, prompt, call, failure"),
    ):
        code, _, err = cli("brief", *words)
        assert (code, advice in err) == (2, True), err
    assert cli("brief", "make it green", "--moment", "prompt", "--project", "/none")[:2] == (
        0,
        "nothing is told in the project /none; `--project NAME` names another one\n",
    )


async def test_an_agent_asks_how_things_are_run_here(database: Database, environment: dict[str, str]) -> None:
    ids = await save_lessons(database, "/srv/app")
    async with connect_over_stdio(environment) as client:
        about_tests = await call_tool(client, "how", words="test", project="/srv/app")
        assert about_tests.splitlines()[1:] == [f'- "Tests: `pnpm run test` (worked 61 of 64)." [lesson:{ids["test"]}]']
        everything = await call_tool(client, "how", everywhere=True)
        assert ids["rtk pnpm"] in everything
        assert "evil.example" not in everything
        assert "always fails (12 of 12)" in await call_tool(client, "explain", id=f"[lesson:{ids['rtk pnpm']}]")
        assert "no lesson fits" in await call_tool(client, "how", words="zebra", project="/srv/app")
