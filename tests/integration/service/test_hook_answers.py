"""What hooks say of what is known: about the prompt and place alone, what is new first, and within their budgets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.memory.recall.block import estimate_tokens
from consolidator.models.event import NewEvent
from consolidator.models.memory_filter import MemoryScope
from consolidator.service.hooks.payload import HookCall, answer_hook, parse_hook
from consolidator.service.memory.remember import remember
from consolidator.service.memory.telling.brief import FAILURE_TOKENS, PROMPT_TOKENS, START_TOKENS
from consolidator.settings import Settings
from tests.support import call_and_result, log_events, run_job, user_message

PROJECT = "/work/shop"
DAY = timedelta(days=1)
PROMPTS_ABOUT_OTHER_THINGS = (
    "what is the weather in Paris?",
    "fix the failing test in the cart",
    "use spaces for indentation in this yaml file",
    "write a poem about a database",
    "we use it for everything",
    "start the api on a free port",
    "use the main thread for drawing",
    "refactor the branch logic in main.py",
    "the use of the api in the shop is wrong, commit a fix",
)
NO_UPSTREAM = (
    "Exit code 128\nfatal: The current branch {0} has no upstream branch.\n"
    "To push the current branch and set the remote as upstream, use\n\n    git push --set-upstream origin {0}\n"
)


def hook(event: str, *, client: str = "claude-code", project: str = PROJECT, **fields: Any) -> HookCall:
    """A hook's call, read from the payload that a client sends."""
    body = {"session_id": "now", "transcript_path": "", "cwd": project, "hook_event_name": event, **fields}
    call = parse_hook(client, event, json.dumps(body).encode(), project)
    assert call is not None
    return call


async def ask(database: Database, call: HookCall) -> str:
    """What a hook shows; "" for nothing."""
    answer = await answer_hook(database, call)
    return "" if answer is None else answer.block.text


async def ask_prompt(database: Database, prompt: str, **fields: Any) -> str:
    """What a prompt is shown with."""
    return await ask(database, hook("UserPromptSubmit", prompt=prompt, **fields))


async def start(database: Database, **fields: Any) -> str:
    """What a session begins with."""
    return await ask(database, hook("SessionStart", source="startup", **fields))


async def log_session(database: Database, name: str, events: Sequence[NewEvent], **columns: Any) -> None:
    """Log a session of Claude Code, as if it had been imported."""
    await log_events(database, name, events, agent="claude-code", **{"project": PROJECT, **columns})


@pytest.mark.parametrize(
    ("statements", "prompt", "found"),
    [
        (["We use pnpm for packages"], "install the packages with pnpm please", "pnpm for packages"),
        (["We use pnpm for packages"], "which package manager do we use?", "pnpm for packages"),
        (
            [
                "We use pnpm for packages",
                "The staging database is called heron",
                "Deploy only from the main branch",
                "We use tabs for indentation",
                "The API listens on port 8080",
                "Never commit to master directly",
            ],
            "reset the staging database",
            "called heron",
        ),
    ],
)
async def test_a_prompt_comes_with_what_somebody_had_remembered_about_it(
    database: Database, settings: Settings, statements: list[str], prompt: str, found: str
) -> None:
    for statement in statements:
        await remember(database, statement, MemoryScope(project=PROJECT, agent="claude-code"))
    for _ in range(2):  # at once, and after a night
        shown = await ask_prompt(database, prompt)
        assert found in shown
        assert shown.count("[fact:") == 1
        assert [other for other in PROMPTS_ABOUT_OTHER_THINGS if await ask_prompt(database, other)] == []
        await run_job(database, settings)


async def test_a_prompt_comes_with_what_was_learned_from_what_people_said(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    for number in range(3):
        said = user_message("From now on, always use pnpm for the packages. Show me the cart.")
        await log_session(database, f"earlier-{number}", [said, *call_and_result("a", "Read", {"path": "cart.js"})])
        clock.advance(DAY)
    await run_job(database, settings)
    assert "pnpm" in await ask_prompt(database, "install the packages with pnpm please")
    assert [other for other in PROMPTS_ABOUT_OTHER_THINGS if await ask_prompt(database, other)] == []


async def test_a_session_begins_with_the_persons_wishes_under_a_heading_that_says_so(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    for number, said in enumerate(("always use tabs for indentation", "never deploy to the vault on Fridays")):
        await log_session(database, f"earlier-{number}", [user_message(f"From now on, {said}.")])
        clock.advance(DAY)
    await run_job(database, settings)
    title, *wishes = (await start(database)).splitlines()[2:-1]
    assert title == "The person's standing wishes:"
    assert len(wishes) == 2
    assert {"tabs", "Fridays"} <= set(" ".join(wishes).replace(".", " ").split())


async def test_however_much_is_known_a_hook_keeps_to_its_budget(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    for number in range(24):
        about = "heron service keeps its ledger in the vault" if number % 2 else "museum shows its paintings upstairs"
        statement = f"The {about} of hall {number}, " + f"behind door {number}-{number} and " * 10 + "nowhere else"
        await remember(database, statement, MemoryScope(project=PROJECT, agent="claude-code"))
    for number in range(3):
        branch = "feature-" + f"{number}-of-a-long-name-" * 4
        fix = f"git push --set-upstream origin {branch}"
        calls = [
            *call_and_result("a", "Bash", {"command": "git push"}, NO_UPSTREAM.format(branch), "error"),
            *call_and_result("b", "Bash", {"command": fix}, "set up"),
        ]
        await log_session(database, f"earlier-{number}", [user_message("Push the branch."), *calls])
        clock.advance(DAY)
    await run_job(database, settings)

    brief = await start(database)
    assert START_TOKENS / 2 < estimate_tokens(brief) <= START_TOKENS == 600
    about_prompt = await ask_prompt(database, "where does the heron service keep its ledger, in the vault?")
    assert PROMPT_TOKENS / 2 < estimate_tokens(about_prompt) <= PROMPT_TOKENS == 400
    failed: dict[str, Any] = {"tool_name": "Bash", "tool_input": {"command": "git push"}, "tool_use_id": "toolu_1"}
    error = NO_UPSTREAM.format("new-logo")
    known_fix = await ask(database, hook("PostToolUseFailure", error=error, **failed))
    assert "git push --set-upstream origin new-logo" in known_fix
    assert estimate_tokens(known_fix) <= FAILURE_TOKENS == 150
    unending = NO_UPSTREAM.format("new-" + "logo-" * 200)
    assert estimate_tokens(await ask(database, hook("PostToolUseFailure", error=unending, **failed))) <= FAILURE_TOKENS


@pytest.mark.parametrize(
    "owner",
    [
        {"agent": "codex", "peer": "ann", "project": PROJECT},
        {"agent": "codex"},
        {"agent": "claude-code", "peer": "ann"},
        {"agent": "claude-code", "peer": "ann", "project": PROJECT},
        {"agent": "claude-code", "project": "/work/bank"},
    ],
)
async def test_nothing_of_another_agent_person_or_project_arrives(
    database: Database, clock: FrozenClock, settings: Settings, owner: dict[str, Any]
) -> None:
    said = "From now on, always use pnpm for the packages."
    for number in range(3):
        calls = [
            *call_and_result("a", "Bash", {"command": "git push"}, NO_UPSTREAM.format(f"b{number}"), "error"),
            *call_and_result("b", "Bash", {"command": f"git push --set-upstream origin b{number}"}, "set up"),
        ]
        await log_events(database, f"theirs-{number}", [user_message(said), *calls], **owner)
        clock.advance(DAY)
    remembered = owner if "peer" not in owner else {name: owner[name] for name in ("agent", "peer")}
    await remember(database, "We use pnpm for packages", MemoryScope(**remembered))
    await run_job(database, settings)
    prompt = "install the packages with pnpm please"
    assert await start(database) == ""
    assert await ask_prompt(database, prompt) == ""
    failed = hook(
        "PostToolUseFailure", error=NO_UPSTREAM.format("x"), tool_name="Bash", tool_input={"command": "git push"}
    )
    assert await ask(database, failed) == ""

    await remember(
        database, "We use pnpm for packages", MemoryScope(project=PROJECT, agent="claude-code")
    )  # this would arrive
    assert "pnpm" in await start(database)
    assert "pnpm" in await ask_prompt(database, prompt)


async def test_a_wrapper_that_never_worked_is_answered_with_the_call_without_it(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    refused = "Exit code 2\nerror: unrecognized subcommand 'bun'\n\nUsage: wrap [OPTIONS] <COMMAND>"
    for number, command in enumerate(("bun run test", "bun run test", "bun run lint", "bun run build")):
        calls = [
            user_message(f"add feature {number}"),
            *call_and_result("a", "Bash", {"command": f"wrap {command} 2>&1"}, refused, "error"),
            *call_and_result("b", "Bash", {"command": f"{command} 2>&1"}, "done"),
        ]
        await log_events(database, f"s{number}", calls, agent="claude-code", project=PROJECT)
    clock.advance(DAY)
    await run_job(database, settings)
    failed = hook("PostToolUseFailure", error=refused, tool_name="Bash", tool_input={"command": "wrap bun run check"})
    assert "`wrap bun …` always fails (4 of 4): run `bun run check`." in await ask(database, failed)
