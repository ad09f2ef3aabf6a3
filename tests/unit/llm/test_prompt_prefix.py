"""Questions of a purpose begin alike, so that providers' caches find what they share."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from benchmarks.model_use.stand_in_model import common_start
from consolidator.llm.client import ModelRequest, create_client
from consolidator.llm.protocol import Dialect
from consolidator.llm.tokens import count_tokens
from consolidator.memory.facts.questions import extraction_prompt, merge_question
from consolidator.settings import Settings

MIN_CACHED_TOKENS = 1024  # of a prompt, for OpenAI to keep its beginning


def questions() -> list[ModelRequest]:
    """Return two questions about different sessions, on different days, with different relation names in use."""
    return [
        ModelRequest(
            "extract", "gpt-4o-mini", extraction_prompt.SYSTEM, prompt, "facts", extraction_prompt.SCHEMA,
            extraction_prompt.MAX_TOKENS, hint=hint,
        )
        for prompt, hint in (("Events:\n[2026-03-02]", ""), ("Context, read before", 'names in use: ["a"]'))
    ]  # fmt: skip


def settings_for(url: str | None) -> Settings:
    return Settings(openai_base_url=url)


@pytest.mark.parametrize("mode", ["schema", "object", "prose"])
def test_questions_share_all_that_stands_before_what_varies(mode: str) -> None:
    client = create_client(settings_for(None))
    client.dialect = Dialect(json_mode=mode)
    bodies: list[dict[str, Any]] = [client.build_body(question) for question in questions()]
    first, second = (json.dumps([body.get("response_format"), body["messages"]]) for body in bodies)
    shared = common_start(first, second)
    assert shared.endswith('"role": "user", "content": "')
    assert json.dumps(extraction_prompt.SYSTEM)[1:-1] in shared


def test_what_is_shared_is_long_enough_for_a_cache_and_has_no_date() -> None:
    shared = extraction_prompt.SYSTEM + json.dumps(extraction_prompt.SCHEMA)
    assert count_tokens(shared) >= MIN_CACHED_TOKENS
    assert str(datetime.now(UTC).year) not in extraction_prompt.SYSTEM + merge_question.SYSTEM


@pytest.mark.parametrize(
    ("url", "is_told"),
    [(None, True), ("https://api.openai.com/v1", True), ("http://localhost:11434/v1", False)],
)
def test_the_key_of_the_cache_is_told_to_openai_alone(url: str | None, is_told: bool) -> None:
    client = create_client(settings_for(url))
    keys = {client.build_body(question).get("prompt_cache_key") for question in questions()}
    assert keys == ({questions()[0].cache_key} if is_told else {None})


def test_a_server_that_refuses_the_key_is_asked_without_it() -> None:
    dialect = Dialect(takes_cache_key=True)
    reduced = dialect.without("Unrecognized request argument supplied: prompt_cache_key")
    assert reduced == Dialect()
    assert dialect.intersect(Dialect()) == Dialect()
