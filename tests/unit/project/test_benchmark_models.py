"""The benchmark of models: the stand-in finds the same facts for both sides, and mem0 gets one turn at a time."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from benchmarks.model_use.models import split_turns
from benchmarks.model_use.stand_in_model import ModelUsage, find_facts
from consolidator.memory.facts.questions.extraction_prompt import SCHEMA, SYSTEM
from consolidator.models.event import Event
from consolidator.models.payload import EventType

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
TEXT = "Hello there! I moved to Bergen last week. Did I tell you? My sister plays the violin."
FACTS = ["I moved to Bergen last week.", "My sister plays the violin."]


def request_with(*messages: str, schema: str | None = None) -> dict[str, Any]:
    """Return a chat request with these messages, and the schema of the answer if it is named."""
    body: dict[str, Any] = {"messages": [{"role": "user", "content": text} for text in messages]}
    if schema:
        body["response_format"] = {"type": "json_schema", "json_schema": {"name": schema, "schema": SCHEMA}}
    return body


def answer_of(model: ModelUsage, body: dict[str, Any]) -> Any:
    return json.loads(model(body).text or "")


def test_a_sentence_in_the_first_person_is_a_fact_and_a_question_is_none() -> None:
    assert find_facts(TEXT) == FACTS


def test_both_sides_get_the_same_facts_in_their_own_formats() -> None:
    ours, theirs = ModelUsage(), ModelUsage()
    line = f'[2026-01-05 Mon 12:00 UTC]\nP1: {json.dumps(TEXT)}\nA1: "I agree with all of it."'
    facts = answer_of(ours, request_with(SYSTEM, line, schema="facts"))["facts"]
    assert [fact["value"] for fact in facts] == FACTS
    assert [fact["predicate"] for fact in facts] == ["moved_to", "sister_plays"]
    assert all((fact["line"], fact["quote"]) == ("P1", fact["value"]) for fact in facts)
    transcript = f"user: {TEXT}\nassistant: I agree with all of it.\n"
    prompt = f"## Existing Memories\n[]\n\n## New Messages\n{transcript}\n## Current Date\n"
    assert [memory["text"] for memory in answer_of(theirs, request_with("system", prompt))["memory"]] == FACTS
    assert (ours.facts, theirs.facts) == (2, 2)


def test_a_candidate_that_resembles_a_fact_is_added_as_mem0_adds_it() -> None:
    prompt = (
        'Facts:\nf1 {"says": "I moved to Bergen."}\nSayings, oldest first:\nc1 {"says": "I moved to Bergen last week."}'
    )
    (decision,) = answer_of(ModelUsage(), request_with("system", prompt, schema="decisions"))["operations"]
    assert (decision["saying"], decision["operation"], decision["target"]) == ("c1", "add", None)


def test_an_older_mem0_is_answered_in_two_steps() -> None:
    model = ModelUsage()
    assert answer_of(model, request_with("system", f"Input:\nuser: {TEXT}\n")) == {"facts": FACTS}
    prompt = f"The new retrieved facts are mentioned in the triple backticks. \n\n```\n{FACTS}\n```\n"
    memories = answer_of(model, request_with(prompt))["memory"]
    assert [(memory["text"], memory["event"]) for memory in memories] == [(fact, "ADD") for fact in FACTS]
    assert model.purposes == {"find": 1, "update": 1}
    assert (model + model).calls == 4


def test_the_schema_of_an_answer_counts_as_part_of_the_prompt() -> None:
    plain, strict = ModelUsage(), ModelUsage()
    plain(request_with("system", "Events:\n"))
    strict(request_with("system", "Events:\n", schema="facts"))
    assert strict.prompt_tokens > plain.prompt_tokens + 100


def event(seq: int, kind: EventType, **data: Any) -> Event:
    return Event("s", seq, kind, data, NOON)


def test_a_turn_is_a_users_message_with_its_answers() -> None:
    log = [
        event(1, EventType.USER_MESSAGE, text="Deploy it."),
        event(2, EventType.ASSISTANT_RESPONSE, text="I will look."),
        event(3, EventType.TOOL_RESULT, content="ok"),
        event(4, EventType.ASSISTANT_RESPONSE, text="Done."),
        event(5, EventType.USER_MESSAGE, text="(a reminder)", origin="harness"),
        event(6, EventType.USER_MESSAGE, text="Thanks."),
    ]
    assert [[message["content"] for message in turn] for turn in split_turns(log)] == [
        ["Deploy it.", "I will look.", "Done."],
        ["Thanks."],
    ]


def test_a_turn_of_two_people_has_a_message_of_each() -> None:
    spoken = [("Ada", "Hi Ben."), ("Ben", "Hi Ada."), ("Ada", "Bye.")]
    log = [event(n, EventType.USER_MESSAGE, text=text, speaker=who) for n, (who, text) in enumerate(spoken, 1)]
    assert split_turns(log) == [
        [{"role": "user", "content": "Ada: Hi Ben."}, {"role": "assistant", "content": "Ben: Hi Ada."}],
        [{"role": "user", "content": "Ada: Bye."}],
    ]
