"""What people mark as private is in the log and nowhere in memory."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from consolidator.memory.facts.candidates import SessionContext
from consolidator.memory.facts.questions.session_lines import transcript_lines
from consolidator.memory.facts.rule_extraction import propose_candidates
from consolidator.memory.procedures.digest import Digest
from consolidator.memory.recall.episodes import extract_episode
from consolidator.memory.text.markers import strip_private
from consolidator.models.event import Event
from consolidator.models.payload import EventType

SESSION = SessionContext("s1", "s1", "coder", project="/home/ann/shop")


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("a <private>b</private> c", "a   c"),
        ("a <private>b", "a "),
        ("a <PRIVATE>b</Private> c", "a   c"),
        ("a < private >b< / private > c", "a   c"),
        ("a <private>b <private>c</private> d</private> e", "a   e"),
        ("a <private>b <private>c</private> d", "a "),
        ("a <pri\u200bvate>b</pri\u200bvate> c", "a   c"),
        ("a \uff1cprivate>b</private> c", "a   c"),
        ("a &lt;private&gt;b&lt;/private&gt; c", "a   c"),
        ('a <private reason="x > y">b</private> c', "a   c"),
        ("a <private\nwhy>b</private> c", "a   c"),
        ("<private>b</private>", " "),
        ("<private></private><private>b</private>c", "  c"),
        ("a </private> b", "a </private> b"),
        ("a <privately> b", "a <privately> b"),
        ("a private b", "a private b"),
        ("", ""),
        ('a <private x="</private>">s</private> c', "a   c"),
        ("a <private x='</private>'>s", "a "),
        ("a &lt;private x='&lt;/private&gt;'&gt;s", "a "),
        ("a <private>b</private> s </private> c", "a   c"),
        ("a <private>b</private> s <private>d</private> s </private> c", "a   c"),
        ("a <private>b `</private>` s</private> c", "a   c"),
        ("a <private>b `</private>` s", "a "),
        ("`<private>` is a tag; I live in Bergen", "`<private>` is a tag; I live in Bergen"),
        ("`<private>` hides <private>s</private> and", "`<private>` hides   and"),
        ("`<private>`s</private> c", "`  c"),
        ("`<private>`s`</private>` c", "` ` c"),
        ("a <private/> c", "a <private/> c"),
        ("a <private /> c", "a <private /> c"),
        ("a <private/>s</private> c", "a   c"),
        ("a <private>b</private> c `</private>` d", "a   c `</private>` d"),
    ],
)
def test_private_passages_are_taken_out(text: str, kept: str) -> None:
    assert strip_private(text) == kept


def event(event_type: EventType, **data: Any) -> Event:
    return Event("s1", 1, event_type, data, datetime(2026, 3, 2, tzinfo=UTC))


@pytest.mark.parametrize("principal", [None, "user:cli", "user:claude_code", "client:laptop"])
def test_no_reader_of_memory_sees_private_words(principal: str | None) -> None:
    text = "<private>My name is Zebulon. My PIN is in the drawer.</private> I prefer tabs over spaces."
    said = Event("s1", 1, EventType.USER_MESSAGE, {"text": text}, datetime(2026, 3, 2, tzinfo=UTC), principal=principal)
    lines = transcript_lines([said], SESSION, str)
    episode = extract_episode(said, str)
    proposals = propose_candidates([said], SESSION, str)
    digest = Digest(str, b"salt")
    digest.feed(said)
    seen = repr([lines, episode, proposals, digest.counts.texts])
    assert "Zebulon" not in seen
    assert "drawer" not in seen
    assert "tabs" in repr([lines, episode])


def test_the_private_words_of_a_denial_stay_private() -> None:
    denial = event(
        EventType.APPROVAL_DENIED, call_id="a", tool="deploy", arguments={}, reason="no <private>Zebulon</private>"
    )
    seen = repr([transcript_lines([denial], SESSION, str), propose_candidates([denial], SESSION, str)])
    assert "no" in seen
    assert "Zebulon" not in seen
