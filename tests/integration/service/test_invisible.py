"""What nobody sees in a log reaches no table of memory and no answer; the log itself keeps it."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.memory.text.invisible import strip_invisible
from consolidator.models.event import NewEvent
from consolidator.models.memory_filter import FactFilter, MemoryScope, ProcedureFilter, SolutionFilter
from consolidator.models.payload import EventType
from consolidator.service.encoding import to_visible_json
from consolidator.service.log.events import read_events
from consolidator.service.memory.facts import list_facts
from consolidator.service.memory.procedures import list_procedures
from consolidator.service.memory.recall import recall
from consolidator.service.memory.skills import export_skills
from consolidator.service.memory.solutions import list_solutions
from consolidator.settings import Settings
from consolidator.testing import ModelServer, ScriptedReply
from tests.databases import fetch_dicts
from tests.nights import cancelled_booking_events, workday_events
from tests.oracle import fact_json, parse_lines, schema_name, with_model
from tests.support import assistant_response, log_events, run_job, user_message

HIDDEN = ("\x1b[31m", "\u200b", "\U000e0068\U000e0069", "\u202e", "\u00ad", "\u3164", "\ufff9", "\x9b2J", "\ufe03")
MEMORY = ("fact", "candidate", "episode", "procedure", "solution", "indexed_fact")


def taint(value: Any, number: int) -> Any:
    """Return a value with something hidden in each of its texts that has white space."""
    if isinstance(value, str):
        return value.replace(" ", f" {HIDDEN[number % len(HIDDEN)]}", 1) if " " in value else value
    if isinstance(value, dict):
        return {key: taint(member, number + position) for position, (key, member) in enumerate(value.items())}
    return value


def tainted(event: NewEvent, number: int) -> NewEvent:
    data = {**event.data}
    for key in ("text", "content", "arguments"):
        if key in data:
            data[key] = taint(data[key], number)
    return NewEvent(event.type, data)


def find_hidden(text: str) -> set[str]:
    return set(text) - set(strip_invisible(text)) | ({"\x1b"} & set(text))


async def test_nothing_that_nobody_sees_is_remembered_or_told(
    database: Database, clock: FrozenClock, settings: Settings, tmp_path: Path
) -> None:
    def reader(request: dict[str, Any]) -> ScriptedReply:
        if schema_name(request) == "decisions":
            return ScriptedReply.json({"operations": []})
        return ScriptedReply.json(
            {
                "facts": [
                    fact_json(
                        name, words, "drinks\u200b", "tea\x1b[1m", f"The user drinks tea.{HIDDEN[2]}", "preference"
                    )
                    for name, _, words in parse_lines(request)
                    if "tea" in words
                ]
            }
        )

    for number in range(8):
        talk = [
            *workday_events(number),
            user_message("I drink tea with \U000e0041\u200bmilk.", speaker="Ma\u200bra\x1b[0m"),
            assistant_response("It is \x1b]0;owned\x07good."),
        ]
        await log_events(database, f"s{number}", [tainted(event, number + n) for n, event in enumerate(talk)],
                         peer="mara", project="shop")  # fmt: skip
        await log_events(database, f"c{number}", cancelled_booking_events(number), peer="mara", project="shop")
    clock.advance(timedelta(hours=1))
    async with ModelServer(reader) as server:
        await run_job(database, with_model(settings, server))
        assert not find_hidden("".join(json.loads(body)["messages"][1]["content"] for body in server.raw_bodies))
    async with database.connection() as conn:
        for table in MEMORY:
            rows = await fetch_dicts(conn, f"select to_jsonb(t) as row from {table} t")
            assert rows, table
            for row in rows:
                row["row"].pop("fingerprint", None)  # a key, told without them as all answers are
                text = json.dumps(row["row"], ensure_ascii=False)
                assert not find_hidden(text), (table, text)
                assert "\\u001b" not in text
                assert "\\u009b" not in text
    answers = [
        (await recall(database, "tea and tests", MemoryScope("coder", "shop", "mara"))).as_json(),
        await list_facts(database),
        await list_procedures(database, ProcedureFilter(include_unworthy=True)),
        await list_solutions(database, SolutionFilter(include_unsolved=True)),
    ]
    assert all(answers)
    told = json.dumps(to_visible_json(answers), ensure_ascii=False)
    assert not find_hidden(told)
    assert "\\u001b" not in told
    export = await export_skills(
        database, tmp_path, ProcedureFilter(agent="coder", project="shop", include_unworthy=True, limit=5)
    )
    for file in export.files:
        assert not find_hidden(file.read_text(encoding="utf-8"))
    logged = [event async for event in read_events(database, "s0")]
    assert any("\x1b" in str(event.data.get("text")) for event in logged if event.type is EventType.ASSISTANT_RESPONSE)
    assert {fact.sentence for fact in await list_facts(database, FactFilter(query="tea"))} >= {"The user drinks tea."}


async def test_what_was_stored_before_is_told_without_it(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_events(database, "s1", [user_message("From now on, always use tabs.")], peer="mara", project="shop")
    clock.advance(timedelta(hours=1))
    await run_job(database, settings)
    async with database.transaction() as conn:
        await conn.execute("update fact set sentence = sentence || E'\\x1b[2J\\u200b'")
    answer = await recall(database, "tabs", MemoryScope("coder", "shop", "mara"))
    assert "tabs" in answer.block
    assert not find_hidden(answer.block)
    assert not find_hidden(json.dumps(answer.as_json(), ensure_ascii=False))
    assert "\\u001b" not in json.dumps(answer.as_json())
