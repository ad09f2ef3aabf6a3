"""A night's question, and the one that repairs its answer, are never longer than what they may be."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from consolidator.errors import ModelMalformed
from consolidator.jobs.model.calls import ModelCalls
from consolidator.jobs.model.extraction import (
    QUESTION_TOKENS,
    SHARED_TOKENS,
    FactReader,
    fit_question,
)
from consolidator.jobs.model.prior import Prior
from consolidator.llm.client import ModelRequest
from consolidator.llm.tokens import count_tokens
from consolidator.memory.facts.questions.extraction_prompt import MAX_TOKENS, relations_hint
from consolidator.memory.facts.questions.transcript import TranscriptChunk, TranscriptLine, cut_chunks
from consolidator.memory.observations.observation import KnownObservation, ProjectWords
from consolidator.settings import Settings
from tests.conftest import NOON

WORDS = {
    "English": "The cache of the parser is stale after a rebase, since its key has no version in it. ",
    "Japanese": "キャッシュ parser は再構築の後に古くなる。そのキーには版の番号がないからです。",
}
REFUSED = "Here is what I think: " + "古いキャッシュ " * 500


class AnsweringBadly:
    """Model calls that are answered badly at first, and remember what was asked."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.stop_reason, self.asked = settings, None, list[ModelRequest]()

    async def ask(self, request: ModelRequest, *, session: str) -> dict[str, Any]:
        self.asked.append(request)
        if not request.turns:
            raise ModelMalformed("the answer is no JSON", REFUSED)
        quoted = {"subject": "x", "predicate": "is", "value": "y", "line": "P1", "quote": "不" * 200, "kind": "fact"}
        return {"facts": [quoted] * 12}


def make_prior(words: str) -> Prior:
    known = [KnownObservation(f"part {n}", "observed_structure", "v", f"{n} {words * 9}"[:200]) for n in range(40)]
    names = relations_hint([f"relation_{n}" for n in range(12)])
    return Prior(names, tuple(known), ProjectWords((frozenset(),) * 9))


def cut_lines(words: str, budget: int) -> list[TranscriptChunk]:
    lines = [TranscriptLine(seq, "P", words * 12, NOON) for seq in range(1, 60)]
    return cut_chunks(lines, [], budget=budget, count=count_tokens)


@pytest.mark.parametrize("language", WORDS)
def test_a_question_is_never_longer_than_3000_tokens(language: str) -> None:
    prior = make_prior(WORDS[language])
    chunks = cut_lines(WORDS[language], QUESTION_TOKENS)
    assert len(chunks) > 1
    for chunk in chunks:
        hint = prior.hint([chunk], QUESTION_TOKENS)
        assert "Known here" in hint
        assert count_tokens(hint) + count_tokens(chunk.render()) <= 3000
    assert count_tokens(prior.hint(chunks[:3], SHARED_TOKENS)) <= 1500


@pytest.mark.parametrize("language", WORDS)
@pytest.mark.parametrize("window", [2048, 3072, 4096])
async def test_a_question_and_its_repair_fit_a_small_window(settings: Settings, window: int, language: str) -> None:
    settings = settings.model_copy(update={"model_window": window})
    budget, calls = fit_question(settings, "small"), AnsweringBadly(settings)
    reader = FactReader(cast("ModelCalls", calls), "small", 1, budget)
    for chunk in cut_lines(WORDS[language], budget):
        request = reader.build_request(chunk, make_prior(WORDS[language]).hint([chunk], budget))
        answer = await reader._ask(request, "s")
        source = cast("Any", SimpleNamespace(session=SimpleNamespace(session_id="s")))
        await reader._repair_quotes(chunk, answer, source)
        reader.bad_answers_in_a_row = 0
    assert len(calls.asked) >= 2
    room = window - min(MAX_TOKENS, window // 4)
    assert max(request.tokens for request in calls.asked) <= room
