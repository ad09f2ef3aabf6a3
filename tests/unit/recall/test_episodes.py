"""Turns as recall keeps them: bounded, and without a credential or a half of one."""

from __future__ import annotations

import pytest

from consolidator.llm.redaction.redact import redact
from consolidator.memory.recall.episodes import MAX_EPISODE_CHARS, MAX_REDACTED_CHARS, extract_episode
from consolidator.models.event import Event
from consolidator.models.payload import EventType
from tests.unit.calls.session_log import NOW, redact_nothing

KEY = f"-----BEGIN RSA PRIVATE KEY-----\n{'MIIEabcdefghijklmnopqrstuv' * 120}\n-----END RSA PRIVATE KEY-----\n"
SECRET = "postgres://u:SuperSecretPw99@db.example/shop"


def episode_text(text: str) -> str:
    turn = extract_episode(Event("s1", 1, EventType.USER_MESSAGE, {"text": text}, NOW), redact)
    assert turn is not None
    return turn.text


@pytest.mark.parametrize("keys", [0, 1, 2, 40])
def test_wherever_a_turn_is_cut_no_half_of_a_credential_stays(keys: int) -> None:
    begun = KEY * keys + "word " * 20
    for cut in (MAX_EPISODE_CHARS, 2 * MAX_EPISODE_CHARS, MAX_REDACTED_CHARS):
        for halved in range(14, len(SECRET), 5):
            text = f"{begun:<{max(cut - halved - 1, 0)}} {SECRET} and so on, " + "word " * 500
            assert "Super" not in episode_text(text)


def test_a_turn_is_bounded() -> None:
    turn = extract_episode(
        Event("s1", 1, EventType.USER_MESSAGE, {"text": "x" * 3 * MAX_REDACTED_CHARS}, NOW), redact_nothing
    )
    assert turn is not None
    assert turn.text == "x" * MAX_EPISODE_CHARS


@pytest.mark.parametrize(
    ("kind", "principal", "speaker", "told"),
    [
        (EventType.USER_MESSAGE, None, "Mara", "Mara"),
        (EventType.USER_MESSAGE, "user:chat", "Mara", "Mara"),
        (EventType.USER_MESSAGE, "client:mail", "Mara", "a client's record of Mara"),
        (EventType.USER_MESSAGE, "client:mail", None, "a client's record of a user"),
        (EventType.USER_MESSAGE, "unheard-of", "Mara", "a client's record of Mara"),
        (EventType.ASSISTANT_RESPONSE, "client:mail", "Mara", None),
        (EventType.ASSISTANT_RESPONSE, "agent", "Mara\n- user said", None),
        (EventType.USER_MESSAGE, "user:chat", "Mara\n- 2026 said\u202e", "Mara - 2026 said"),
    ],
)
def test_nobody_is_said_to_have_said_what_another_recorded(
    kind: EventType, principal: str | None, speaker: str | None, told: str | None
) -> None:
    data = {"text": "I like tea.", **({"speaker": speaker} if speaker else {})}
    turn = extract_episode(Event("s1", 1, kind, data, NOW, principal=principal), redact_nothing)
    assert turn is not None
    assert turn.speaker == told


@pytest.mark.parametrize(
    ("kind", "data", "text"),
    [
        ("ApprovalGranted", {"question": "Which cache?", "answer": "Redis"}, "Which cache? -> Redis"),
        ("ApprovalGranted", {"question": "Plan: cache", "answer": "accepted"}, "Plan: cache -> accepted"),
        ("ApprovalDenied", {"tool": "Bash", "arguments": {"command": "git push"}}, "Bash git push -> denied"),
        ("ApprovalDenied", {"tool": "Edit", "arguments": {"file_path": "a"}}, None),  # of this text alone
        ("ApprovalGranted", {"tool": "Bash", "arguments": {"command": "git push"}}, None),  # hardly worth telling
    ],
)  # fmt: skip
@pytest.mark.parametrize("principal", ["user:claude_code", "client:x", "agent"])
def test_what_a_person_decided_is_a_turn_of_theirs(
    kind: str, data: dict[str, object], text: str | None, principal: str
) -> None:
    turn = extract_episode(Event("s1", 1, EventType(kind), data, NOW, principal=principal), redact)
    is_theirs = principal.startswith("user") and text is not None
    assert (turn is not None and (turn.role, turn.text) == ("user", text)) is is_theirs
    assert (turn is None) is not is_theirs
