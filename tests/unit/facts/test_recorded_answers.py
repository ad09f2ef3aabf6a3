"""Facts as models propose them of real talk, in five languages: what a person said is believed, nothing else is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from consolidator.memory.facts.candidates import FactExtractor, SessionContext
from consolidator.memory.facts.questions.model_extraction import read_facts
from consolidator.memory.facts.questions.session_lines import transcript_lines
from consolidator.memory.facts.questions.transcript import TranscriptChunk
from consolidator.models.event import Event
from consolidator.models.payload import EventType
from tests.oracle import fact_json
from tests.unit.facts.test_gate import NOON

SESSION = SessionContext("s1", "s1", "coder", project="/src/lantern-api")
# An answer a line: the session, of a person (>), an agent (<) or a question and its answer (?); then the fact, and whom
# it is about where that is somebody else than the speaker.
ROWS = [
    row.partition(" | ") for row in Path(__file__).with_name("recorded_answers.txt").read_text("utf-8").splitlines()
]


def read_row(row: str) -> tuple[list[Event], dict[str, Any]]:
    talk, *stated = (cell.strip() for cell in row.split(" | "))
    events: list[Event] = []
    parts = [part.strip() for part in talk.split("¶")]
    if parts[0].startswith("?"):
        data = {"tool": "AskUserQuestion", "question": parts[0][2:], "answer": parts[1]}
        events = [Event("s1", 1, EventType.APPROVAL_GRANTED, data, NOON, principal="user:claude_code")]
    else:
        types = {">": EventType.USER_MESSAGE, "<": EventType.ASSISTANT_RESPONSE}
        events = [Event("s1", seq, types[part[0]], {"text": part[2:]}, NOON) for seq, part in enumerate(parts, 1)]
    line, quote, subject, value, sentence, kind, *about = stated
    more = {"about": about[0]} if about else {}
    return events, fact_json(line, quote, "states", value, sentence, kind, subject=subject, **more)


def refusals(row: str) -> list[str]:
    """Return why the fact of a row is not believed."""
    events, fact = read_row(row)
    chunk = TranscriptChunk(tuple(transcript_lines(events, SESSION, str)))
    proposals = read_facts(chunk, {"facts": [fact]}, FactExtractor(SESSION, "model:m:1"))
    held = [candidate.quarantined for candidate in proposals.candidates if candidate.quarantined]
    return held + [str(rejected.rejected) for rejected in proposals.rejected]


@pytest.mark.parametrize(("outcome", "_", "row"), ROWS)
def test_what_a_person_said_is_believed_in_any_language_and_nothing_else(outcome: str, _: str, row: str) -> None:
    assert len(refusals(row)) == (outcome == "refused")
