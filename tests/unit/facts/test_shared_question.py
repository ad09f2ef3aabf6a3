"""One question about several sessions: each gets its own part of the answer, and nothing of another."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from benchmarks.model_use.session_answers import SessionAnswers, key_of
from consolidator.memory.facts.candidates import FactExtractor, SessionContext
from consolidator.memory.facts.questions.model_extraction import model_extractor, read_facts
from consolidator.memory.facts.questions.session_lines import transcript_lines
from consolidator.memory.facts.questions.shared_question import SharedQuestion
from consolidator.memory.facts.questions.transcript import TranscriptChunk, TranscriptLine
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


def bern(line: str = "s1P1", quote: str = "I moved to Bern", **more: Any) -> dict[str, Any]:
    return fact_json(line, quote, "lives_in", "Bern", "The user lives in Bern.", "profile", **more)


def pnpm(line: str = "s2P1") -> dict[str, Any]:
    return fact_json(line, "use pnpm", "package_manager", "pnpm", "The user uses pnpm.", "preference")


def test_every_line_has_a_name_of_its_own() -> None:
    assert QUESTION.render() == (
        "Session s1\nRead before; cite nothing of it:\n[2026-03-02 Mon 12:00 UTC]\n"
        's1c1: "Hello."\n\n[2026-03-02 Mon 12:00 UTC]\ns1P1: "I moved to Bern."\n\n'
        "Session s2\n[2026-03-02 Mon 12:00 UTC]\n"
        's2P1: "We use pnpm here."\ns2P2: "Deploy with Fly on port 8443."'
    )


def test_a_part_is_an_answer_to_the_question_about_its_session_alone() -> None:
    first, second = QUESTION.split({"facts": [bern(), pnpm()]})
    assert first == {"facts": [bern("P1")]}
    assert second == {"facts": [pnpm("P1")]}
    for chunk, part, name in ((FIRST, first, "a"), (SECOND, second, "b")):
        proposals = read_facts(chunk, part, FactExtractor(context_of(name), model_extractor("m")))
        assert [candidate.session_id for candidate in proposals.candidates] == [name]
        assert not proposals.rejected
    assert QUESTION.split({"facts": []}) == [{"facts": []}, {"facts": []}]


@pytest.mark.parametrize("line", ["P1", "s3P1", "s0P1", "s1", "", "s1P1 ", "P1s1"])
def test_an_answer_that_does_not_say_whose_a_fact_is_has_no_parts(line: str) -> None:
    assert QUESTION.split({"facts": [bern(line), pnpm()]}) == [None, None]


def test_a_proof_of_another_session_is_none() -> None:
    stated = {
        "kind": "command",
        "moment": "x",
        "line": "s1A1",
        "quote": "x",
        "proof": ["s1F1", "s2F1"],
        "sentence": "x",
    }
    first, second = QUESTION.split({"facts": [], "observations": [stated]})
    assert first == {"facts": [], "observations": [{**stated, "line": "A1", "proof": ["F1"]}]}
    assert second == {"facts": []}


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
    assert second == {"facts": [pnpm("P1")]}


def test_words_that_no_session_says_are_judged_as_ever() -> None:
    first, _ = QUESTION.split({"facts": [{**bern(), "sentence": "Mara lives in Bern, Switzerland."}]})
    assert first == {"facts": [{**bern("P1"), "sentence": "Mara lives in Bern, Switzerland."}]}
    named, _ = QUESTION.split({"facts": [bern("s1c1", "Hello")]})
    assert named is not None
    proposals = read_facts(FIRST, named, FactExtractor(context_of("a"), model_extractor("m")))
    assert [rejected.rejected for rejected in proposals.rejected] == ["cites a line that was not shown"]


def test_recorded_answers_are_found_by_a_sessions_lines_alone_or_beside_others(tmp_path: Path) -> None:
    chunks = [TranscriptChunk((TranscriptLine(1, "P", text, NOON),)) for text in ("Tea, please.", "Milk.", "Salt.")]
    said = {"line": "P1", "quote": "Tea"}
    rows = {
        key_of(chunks[0].render()): [{**said, "sentence": "kettle is"}, {**said, "sentence": "Tea is here."}],
        key_of(chunks[2].render()): [{"line": "P1", "quote": "Salt", "sentence": "Tea is here."}],
    }
    file = tmp_path / "answers.jsonl"
    file.write_text("\n".join(json.dumps({"question": key, "observations": said}) for key, said in rows.items()))
    answers = SessionAnswers(file)

    def ask(prompt: str) -> Any:
        messages = [{"content": ""}, {"content": f'K7 "The kettle is here."\n\n{prompt}'}]
        request = {"response_format": {"json_schema": {"name": "facts"}}, "messages": messages}
        answer = json.loads(answers(request).text or "")
        return answer["again"], [item["line"] for item in answer["observations"]]

    assert ask(chunks[0].render()) == ([{**said, "known": "K7"}], ["P1"])
    assert ask(chunks[2].render()) == ([], [])  # what another session was answered with
    shared = SharedQuestion((chunks[1], chunks[0], chunks[2]))
    assert ask(shared.render()) == ([{**said, "line": "s2P1", "known": "K7"}], ["s2P1", "s3P1"])
    assert set(answers.unknown) == {key_of(chunks[1].render())}
