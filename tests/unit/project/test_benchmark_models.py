"""The benchmark of models: what stands in for one finds the same for both sides, and turns are what mem0 is given."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from benchmarks.models import turns
from benchmarks.standin import Asked, facts_in
from consolidator.memory.facts.extraction_prompt import SCHEMA, SYSTEM
from consolidator.models.event import Event
from consolidator.models.payload import EventType

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
SAID = "Hello there! I moved to Bergen last week. Did I tell you? My sister plays the violin."
FACTS = ["I moved to Bergen last week.", "My sister plays the violin."]


def asked(*messages: str, schema: str | None = None) -> dict[str, Any]:
    """Return a request of messages, the first the system's where there are two."""
    body: dict[str, Any] = {"messages": [{"role": "user", "content": text} for text in messages]}
    if schema:
        body["response_format"] = {"type": "json_schema", "json_schema": {"name": schema, "schema": SCHEMA}}
    return body


def answered(tally: Asked, body: dict[str, Any]) -> Any:
    return json.loads(tally(body).text or "")


def test_a_sentence_of_the_one_who_speaks_is_a_fact_and_a_question_none() -> None:
    assert facts_in(SAID) == FACTS


def test_both_sides_are_told_the_same_facts_in_their_own_formats() -> None:
    ours, theirs = Asked(), Asked()
    line = f'Events:\ne1 [2026-01-05 Mon 12:00 UTC] user: {json.dumps(SAID)}\ne2 [x] agent: "I agree with all of it."'
    found = answered(ours, asked(SYSTEM, line, schema="facts"))["facts"]
    assert [one["value"] for one in found] == FACTS
    assert [one["predicate"] for one in found] == ["moved_to", "sister_plays"]
    assert all(one["evidence"] == [{"event": "e1", "quote": one["value"]}] for one in found)
    told = f"user: {SAID}\nassistant: I agree with all of it.\n"
    new = f"## Existing Memories\n[]\n\n## New Messages\n{told}\n## Current Date\n"
    assert [one["text"] for one in answered(theirs, asked("system", new))["memory"]] == FACTS
    assert (ours.facts, theirs.facts) == (2, 2)


def test_what_resembles_a_fact_is_added_as_mem0_adds_it() -> None:
    told = (
        'Facts:\nf1 {"says": "I moved to Bergen."}\nSayings, oldest first:\nc1 {"says": "I moved to Bergen last week."}'
    )
    (found,) = answered(Asked(), asked("system", told, schema="decisions"))["operations"]
    assert (found["saying"], found["operation"], found["target"]) == ("c1", "add", None)


def test_an_older_mem0_is_answered_in_two_steps() -> None:
    tally = Asked()
    assert answered(tally, asked("system", f"Input:\nuser: {SAID}\n")) == {"facts": FACTS}
    told = f"The new retrieved facts are mentioned in the triple backticks. \n\n```\n{FACTS}\n```\n"
    found = answered(tally, asked(told))["memory"]
    assert [(one["text"], one["event"]) for one in found] == [(fact, "ADD") for fact in FACTS]
    assert tally.purposes == {"find": 1, "update": 1}
    assert (tally + tally).calls == 4


def test_the_schema_of_an_answer_counts_as_part_of_the_question() -> None:
    plain, strict = Asked(), Asked()
    plain(asked("system", "Events:\n"))
    strict(asked("system", "Events:\n", schema="facts"))
    assert strict.prompt_tokens > plain.prompt_tokens + 100


def event(seq: int, kind: EventType, **data: Any) -> Event:
    return Event("s", seq, kind, data, NOON)


def test_a_turn_is_a_users_message_with_what_is_answered_to_it() -> None:
    found = [
        event(1, EventType.USER_MESSAGE, text="Deploy it."),
        event(2, EventType.ASSISTANT_RESPONSE, text="I will look."),
        event(3, EventType.TOOL_RESULT, content="ok"),
        event(4, EventType.ASSISTANT_RESPONSE, text="Done."),
        event(5, EventType.USER_MESSAGE, text="(a reminder)", origin="harness"),
        event(6, EventType.USER_MESSAGE, text="Thanks."),
    ]
    assert [[one["content"] for one in added] for added in turns(found)] == [
        ["Deploy it.", "I will look.", "Done."],
        ["Thanks."],
    ]


def test_of_two_people_a_turn_has_a_message_of_each() -> None:
    said = [("Ada", "Hi Ben."), ("Ben", "Hi Ada."), ("Ada", "Bye.")]
    found = [event(n, EventType.USER_MESSAGE, text=text, speaker=who) for n, (who, text) in enumerate(said, 1)]
    assert turns(found) == [
        [{"role": "user", "content": "Ada: Hi Ben."}, {"role": "assistant", "content": "Ben: Hi Ada."}],
        [{"role": "user", "content": "Ada: Bye."}],
    ]
