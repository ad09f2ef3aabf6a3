"""One question about several sessions: each gets its own part of the answer, and nothing of another."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from consolidator.memory.facts.candidates import SessionContext
from consolidator.memory.facts.model_extraction import FactExtractor, model_extractor, read_facts
from consolidator.memory.facts.shared_question import SharedQuestion
from consolidator.memory.facts.transcript import TranscriptChunk, transcript_lines
from consolidator.models.event import Event
from consolidator.models.payload import EventType
from tests.oracle import fact_json

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


def context_of(session: str) -> SessionContext:
    return SessionContext(session, session, "coder", "/work/shop", "mara")


def chunk_of(session: str, *texts: str, context: int = 0) -> TranscriptChunk:
    """Return a chunk of what a person said, the first messages of which were read before."""
    events = [Event(session, seq, EventType.USER_MESSAGE, {"text": text}, NOON) for seq, text in enumerate(texts, 1)]
    lines = tuple(transcript_lines(events, context_of(session), str))
    return TranscriptChunk(lines[context:], lines[:context])


FIRST = chunk_of("a", "Hello.", "I moved to Bern.", context=1)
SECOND = chunk_of("b", "We use pnpm here.", "Deploy with Fly on port 8443.")
QUESTION = SharedQuestion((FIRST, SECOND))


def bern(event: str = "s1e2", quote: str = "I moved to Bern", **more: Any) -> dict[str, Any]:
    return fact_json(event, quote, "lives_in", "Bern", "The user lives in Bern.", "profile", **more)


def pnpm(event: str = "s2e1") -> dict[str, Any]:
    return fact_json(event, "use pnpm", "package_manager", "pnpm", "The user uses pnpm.", "preference")


def test_every_event_has_a_name_of_its_own() -> None:
    assert QUESTION.render() == (
        "Session s1\nContext, read before; cite nothing of it:\n[2026-03-02 Mon 12:00 UTC]\n"
        's1c1 user: "Hello."\n\nEvents:\n[2026-03-02 Mon 12:00 UTC]\ns1e2 user: "I moved to Bern."\n\n'
        "Session s2\nEvents:\n[2026-03-02 Mon 12:00 UTC]\n"
        's2e1 user: "We use pnpm here."\ns2e2 user: "Deploy with Fly on port 8443."'
    )


def test_a_part_is_an_answer_to_the_question_about_its_session_alone() -> None:
    first, second = QUESTION.split({"facts": [bern(), pnpm()]})
    assert first == {"facts": [bern("e2")]}
    assert second == {"facts": [pnpm("e1")]}
    for chunk, part, name in ((FIRST, first, "a"), (SECOND, second, "b")):
        proposals = read_facts(chunk, part, FactExtractor(context_of(name), model_extractor("m")))
        assert [candidate.session_id for candidate in proposals.candidates] == [name]
        assert not proposals.rejected
    assert QUESTION.split({"facts": []}) == [{"facts": []}, {"facts": []}]


def test_a_fact_of_two_sessions_is_rejected_and_counted_without_its_words() -> None:
    both = bern()
    both["evidence"].append({"event": "s2e1", "quote": "use pnpm"})
    first, second = QUESTION.split({"facts": [both, pnpm()]})
    assert second == {"facts": [pnpm("e1")]}
    assert first is not None
    assert "pnpm" not in str(first)
    assert "Bern" not in str(first)
    proposals = read_facts(FIRST, first, FactExtractor(context_of("a"), model_extractor("m")))
    assert not proposals.candidates
    assert [rejected.reason for rejected in proposals.rejected] == ["cites an event that was not shown"]


@pytest.mark.parametrize("event", ["e2", "s3e1", "s0e1", "s1", "", "s1e2 ", "e2s1"])
def test_an_answer_that_does_not_say_whose_a_fact_is_has_no_parts(event: str) -> None:
    assert QUESTION.split({"facts": [bern(event), pnpm()]}) == [None, None]
    assert QUESTION.split({"facts": [{**bern(), "evidence": []}]}) == [None, None]


@pytest.mark.parametrize(
    "changed",
    [
        {"value": "Bern, with pnpm"},
        {"sentence": "The user lives in Bern and deploys with Fly."},
        {"sentence": "The user lives in Bern at 8443."},
        {"subject": "pnpm"},
    ],
)
def test_a_session_is_asked_about_alone_where_its_part_says_what_another_says(changed: dict[str, Any]) -> None:
    first, second = QUESTION.split({"facts": [{**bern(), **changed}, bern(), pnpm()]})
    assert first is None
    assert second == {"facts": [pnpm("e1")]}


def test_words_that_no_session_says_are_judged_as_ever() -> None:
    first, _ = QUESTION.split({"facts": [{**bern(), "sentence": "Mara lives in Bern, Switzerland."}]})
    assert first == {"facts": [{**bern("e2"), "sentence": "Mara lives in Bern, Switzerland."}]}
    named, _ = QUESTION.split({"facts": [bern("s1c1", "Hello")]})
    assert named is not None
    proposals = read_facts(FIRST, named, FactExtractor(context_of("a"), model_extractor("m")))
    assert [rejected.reason for rejected in proposals.rejected] == ["cites an event that was not shown"]
