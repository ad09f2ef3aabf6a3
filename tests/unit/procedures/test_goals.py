"""What a session was asked to do: the words that may tell a purpose, and none that names a person or a case."""

from __future__ import annotations

from consolidator.memory.procedures.digest import Digest
from consolidator.memory.procedures.goals import goal_words
from consolidator.models.payload import EventType
from tests.unit.calls.session_log import SALT, SessionLog, fold_events


def words_of(log: SessionLog) -> set[str]:
    digest = fold_events(log.events)
    digest.pack()
    return {digest.counts.texts[word] for word in digest.goal.words}


def test_words_that_may_name_a_person_or_a_case_are_left_out() -> None:
    text = "Cancel the trip of Mia Li (mia_li_3668, SI5UKW) to Boston. Refund it to my card, user@example.org!"
    assert goal_words(text) == ["cancel", "the", "trip", "refund", "card"]


def test_the_goal_of_a_task_counts_and_else_what_was_said_before_the_first_call_ended() -> None:
    said = SessionLog().user("hello there").user("cancel my flight").call("get").user("book another")
    assert words_of(said) == {"hello", "there", "cancel", "flight"}
    task = SessionLog().user("hello").add(EventType.TASK_START, task_id="t", goal="move the booking").user("more")
    assert words_of(task) == {"move", "the", "booking"}


def test_credentials_are_no_words_of_a_goal() -> None:
    digest = Digest(lambda text: text.replace("opensesame", "[redacted:password]"), SALT)
    for event in SessionLog().user("deploy with opensesame now").events:
        digest.feed(event)
    digest.pack()
    assert {digest.counts.texts[word] for word in digest.goal.words} == {"deploy", "with", "now"}
