"""A digest is a left fold: however a log is cut into nights, it is the same."""

from __future__ import annotations

import json
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consolidator.llm.redaction.redact import redact
from consolidator.memory.procedures import key_counts
from consolidator.memory.procedures.bindings import BindingFold
from consolidator.memory.procedures.digest import Digest
from consolidator.memory.procedures.key_counts import KeyCounts, hash_text
from consolidator.models.payload import EventType
from tests.unit.calls.session_log import SALT, SessionLog, fold_events, redact_nothing

IDENTS = st.sampled_from(["u_1", "u_2", "ORD77", "a b", 7, None, True])
JSON = st.recursive(IDENTS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner))
TOOLS = st.sampled_from(["get", "find", "update", "Read", "Edit"])
COMMANDS = st.sampled_from(["git add a", "git commit -m x", "mix test t/a.exs | tail", "ls", "bd show app-1", "cd x"])


@st.composite
def session_logs(draw: st.DrawFn) -> SessionLog:
    """Draw a session of calls, messages and outcomes; results may come late, twice, or never."""
    log = SessionLog()
    for number in range(draw(st.integers(0, 14))):
        kind = draw(st.sampled_from(["call", "call", "sh", "user", "open", "result", "end"]))
        status = draw(st.sampled_from(["ok", "ok", "error"]))
        if kind == "call":
            arguments = draw(st.dictionaries(st.sampled_from(["id", "path", "items"]), JSON))
            log.call(draw(TOOLS), arguments, draw(JSON), status)
        elif kind == "sh":
            log.shell(draw(COMMANDS), "out", status)
        elif kind == "user":
            log.user(draw(st.sampled_from(["I am u_1", "order ORD77 please", "go on"])))
        elif kind == "open":
            log.add(EventType.TOOL_CALL, call_id=f"o{number % 2}", tool="find", arguments={"id": "u_2"})
        elif kind == "result":
            log.add(EventType.TOOL_RESULT, call_id=f"o{number % 2}", status=status, content={"a": ["u_1"]})
        else:
            log.add(EventType.TASK_END, task_id="t", outcome=draw(st.sampled_from(["success", "failure"])))
    return log


@pytest.mark.parametrize("max_keys", [key_counts.MAX_KEYS, 25])
@given(session_logs(), st.data())
def test_cuts_into_nights_change_nothing(max_keys: int, log: SessionLog, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(log.events)), max_size=4)))
    packed = None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_counts, "MAX_KEYS", max_keys)  # of a session with more keys than fit, the first are counted
        for start, end in zip([0, *cuts], [*cuts, len(log.events)], strict=True):
            packed = fold_events(log.events[start:end], packed).pack()
        assert packed == fold_events(log.events).pack()


def test_failed_calls_are_dropped_and_runs_are_one_element() -> None:
    log = SessionLog().call("Build").call("Build").call("Edit", status="error").call("Build").call("Edit").call("Build")
    digest = fold_events(log.events)
    assert digest.sequence == [hash_text("Build"), hash_text("Edit"), hash_text("Build")]
    assert digest.seqs == [1, 9, 11]  # the first call of each run


def test_a_run_that_goes_on_after_a_cut_is_still_one_element() -> None:
    log = SessionLog().call("Build").call("Build").call("Build")
    packed = fold_events(log.events[:2]).pack()
    assert fold_events(log.events[2:], packed).sequence == [hash_text("Build")]


def test_a_shell_call_is_named_by_what_it_reports() -> None:
    digest = fold_events(SessionLog().shell("cd x && git add . && git commit -m y | tail -1").events)
    digest.pack()
    assert digest.counts.texts[digest.sequence[0]] == "sh:git commit"


def test_results_are_kept_as_salted_hashes_only() -> None:
    secret = "card-4421-8890"
    log = SessionLog().call("get", {"id": "u_1"}, {"card": secret, "name": ["Ada Lovelace"]})
    packed = fold_events(log.events).pack()
    stored = zlib.decompress(packed.state) + zlib.decompress(packed.terms)
    assert secret.encode() not in stored
    assert b"Lovelace" not in stored
    with_other_salt = Digest(redact_nothing, b"another salt")
    for event in log.events:
        with_other_salt.feed(event)
    assert with_other_salt.pack().state != packed.state


def test_a_value_is_hashed_the_same_whatever_was_hashed_before_it() -> None:
    alone, after = (BindingFold(KeyCounts(), SALT, redact_nothing) for _ in range(2))
    after.hash_values([0.0])
    assert alone.hash_values([-0.0]) == after.hash_values([-0.0])


def test_what_redaction_would_change_is_never_named() -> None:
    digest = Digest(lambda text: text.replace("hunter2", "***"), SALT)
    for event in SessionLog().call("login", {"password": "hunter2", "user": "ada"}).events:
        digest.feed(event)
    terms = json.loads(zlib.decompress(digest.pack().terms))
    assert not any("hunter2" in text or "***" in text for text in terms.values())
    assert any('"ada"' in text for text in terms.values())


def test_a_quote_ends_in_no_half_of_a_credential() -> None:
    key = f"-----BEGIN PRIVATE KEY----- {'MIIEvQ' * 145} -----END PRIVATE KEY-----"  # hidden, it leaves room for more
    for padding in range(30, 60, 5):
        digest = Digest(redact, SALT)
        for event in (
            SessionLog().shell(f"deploy {key} {'x' * padding} postgres://u:SuperSecretPw99@db.example/shop").events
        ):
            digest.feed(event)
        assert "Super" not in digest.quotes[0]


def test_long_literals_are_not_kept() -> None:
    digest = fold_events(SessionLog().call("say", {"text": "long words " * 30}).events)
    assert not any("long words" in text for text in json.loads(zlib.decompress(digest.pack().terms)).values())


def test_the_state_does_not_grow_with_the_session() -> None:
    def states(calls: int) -> int:
        log = SessionLog()
        for number in range(calls):
            log.call(f"tool{number % 10}", {"id": f"u_{number}"}, {"next": [f"u_{n}" for n in range(100)]})
        return len(zlib.decompress(fold_events(log.events).pack().state))

    assert states(2000) < 1.1 * states(800)


def test_a_listener_is_given_every_completed_call_and_what_the_person_said() -> None:
    class Listener:
        def __init__(self) -> None:
            self.heard: list[Any] = []

        def feed(self, call: Any) -> None:
            self.heard.append((call.index, call.ok))

        def feed_user_message(self, text: str) -> None:
            self.heard.append(text)

    listener = Listener()
    digest = Digest(redact_nothing, SALT, call_listener=listener)
    for event in SessionLog().call("a").user("go on").call("b", status="error").events:
        digest.feed(event)
    assert listener.heard == [(0, True), "go on", (1, False)]


def test_deep_and_huge_arguments_are_folded_without_an_error() -> None:
    deep: Any = "end"
    for _ in range(50_000):
        deep = [deep]
    log = (
        SessionLog()
        .call("a", {"deep": deep})
        .call("a", {"text": "x" * 1_000_000, "odd": "\ud800\x00"}, "y" * 1_000_000)
    )
    assert fold_events(log.events).completed_calls == 2
