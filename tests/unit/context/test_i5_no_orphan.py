"""I5, no orphan: no context holds a tool call without its result, or a result without its call, whatever the log."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from consolidator.context.compaction import plan_compaction
from consolidator.context.conversation import (
    ConversationFold,
    RequestedCall,
    Turn,
    build_conversation,
    count_turn_tokens,
    fit_turns,
)
from consolidator.context.messages import MessageFormat, RenderedTurns, render_messages
from consolidator.llm.tokens import estimate_tokens
from consolidator.models.event import Event
from consolidator.models.payload import EventType
from tests.support import count_examples

NOW = datetime(2026, 3, 2, tzinfo=UTC)
CALL_IDS = st.sampled_from(["a", "b", "c", "strange id: \u00e9", "x" * 60])
MESSAGES = st.sampled_from([None, None, "m1", "m2"])
TEXTS = st.sampled_from(["", "short", "long " * 200, "\ud83d half"])
KINDS = st.one_of(
    st.builds(
        lambda text, origin: (EventType.USER_MESSAGE, {"text": text, "origin": origin}),
        TEXTS,
        st.sampled_from(["user", "user", "harness", "memory", "compaction"]),
    ),
    st.builds(
        lambda text, message_id, started_seq: (
            EventType.ASSISTANT_RESPONSE,
            {"text": text, "message_id": message_id, "started_seq": started_seq},
        ),
        TEXTS,
        MESSAGES,
        st.one_of(st.none(), st.integers(1, 40)),
    ),
    st.builds(
        lambda call_id, message_id, arguments: (
            EventType.TOOL_CALL,
            {"call_id": call_id, "tool": "a tool", "message_id": message_id, "arguments": arguments},
        ),
        CALL_IDS,
        MESSAGES,
        st.sampled_from([None, {"a": 1}, "{broken", '{"b": "\\ud83d"}', [1], "[]", ""]),
    ),
    st.builds(
        lambda call_id, status, content: (
            EventType.TOOL_RESULT,
            {"call_id": call_id, "status": status, "content": content},
        ),
        CALL_IDS,
        st.sampled_from(["ok", "error", "uncertain"]),
        st.one_of(TEXTS, st.just({"a": [1]}), st.none()),
    ),
    st.just((EventType.ERROR, {"message": "boom"})),
    st.just((EventType.POLICY_DECISION, {"decision": "call_settled", "call_id": "a", "outcome": "ok"})),
    st.just((EventType.THINKING_START, {"message_id": "m1"})),
)


def create_log(kinds: Sequence[tuple[EventType, dict[str, Any]]]) -> list[Event]:
    """Return events with these types and payloads, numbered from 1."""
    return [Event("one", seq, kind, data, NOW) for seq, (kind, data) in enumerate(kinds, 1)]


LOGS = st.lists(KINDS, max_size=40).map(create_log)


def check_openai(messages: Sequence[dict[str, Any]]) -> None:
    """Assert that an OpenAI server takes the messages."""
    awaited: list[str] = []
    seen: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            assert awaited.pop(0) == message["tool_call_id"]
            continue
        assert not awaited
        awaited = [call["id"] for call in message.get("tool_calls", ())]
        assert not seen & set(awaited)
        seen |= set(awaited)
        assert message["content"] or awaited
    assert not awaited
    assert all(left["role"] != right["role"] or left["role"] == "tool" for left, right in pairwise(messages))
    assert not messages or messages[0]["role"] == "user"
    str(messages).encode()


def check_anthropic(messages: Sequence[dict[str, Any]]) -> None:
    """Assert that Anthropic's server takes the messages."""
    assert all(left["role"] != right["role"] for left, right in pairwise(messages))
    assert not messages or messages[0]["role"] == "user"
    awaited: list[str] = []
    seen: set[str] = set()
    for message in messages:
        assert message["content"]
        results = [block["tool_use_id"] for block in message["content"] if block["type"] == "tool_result"]
        assert results == awaited
        awaited = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
        assert not seen & set(awaited)
        seen |= set(awaited)
        kinds = [block["type"] for block in message["content"]]
        assert kinds == sorted(kinds, key=["tool_result", "text", "tool_use"].index)
    assert not awaited


def show_contexts(log: Sequence[Event], begin: int, budget: int) -> Iterator[list[Any]]:
    """Yield the turns that each strategy would show."""
    conversation = build_conversation(log)
    yield conversation.turns
    yield build_conversation([event for event in log if event.seq > begin]).turns
    window = fit_turns(conversation.turns, budget, estimate_tokens)
    yield window.turns
    yield fit_turns(conversation.turns, budget, estimate_tokens, stride=8).turns
    plan = plan_compaction(log, conversation, {}, keep=budget // 3, count=estimate_tokens)
    if plan is not None:
        yield build_conversation([event for event in log if event.seq >= plan.kept_from]).turns


@given(LOGS, st.integers(0, 40), st.integers(20, 3000), st.sampled_from(["", "before"]), st.sampled_from(["", "after"]))
def test_no_strategy_leaves_an_orphan(log: list[Event], begin: int, budget: int, before: str, after: str) -> None:
    for turns in show_contexts(log, begin, budget):
        check_openai(render_messages(turns, "openai", before=before, after=after))
        check_anthropic(render_messages(turns, "anthropic", before=before, after=after))


@given(LOGS, st.sampled_from(["openai", "anthropic"]), st.integers(1, 4), st.sampled_from(["", "before"]))
def test_a_continued_context_is_the_one_that_is_built_anew(
    log: list[Event], message_format: MessageFormat, part: int, before: str
) -> None:
    fold, rendered = ConversationFold({}), RenderedTurns()
    for count, event in enumerate(log, 1):
        fold.feed(event)
        continued, anew = fold.conversation(), build_conversation(log[:count])
        assert continued == anew
        skipped = len(anew.turns) // 5 // part
        assert render_messages(
            continued.turns[skipped:], message_format, before=before, rendered=rendered
        ) == render_messages(anew.turns[skipped:], message_format, before=before)


@given(LOGS, st.integers(20, 3000))
def test_every_call_with_a_result_is_in_the_whole_context_once(log: list[Event], budget: int) -> None:
    conversation = build_conversation(log)
    calls = [call for turn in conversation.turns for call in turn.calls]
    call_seqs = [event.seq for event in log if event.type is EventType.TOOL_CALL]
    assert sorted(call.seq for call in [*calls, *conversation.open_calls]) == call_seqs
    result_seqs = [call.result_seq for call in calls]
    assert len(set(result_seqs)) == len(result_seqs)
    assert all(call.result_seq > call.seq for call in calls)


@given(LOGS, st.integers(200, 3000))
def test_a_window_keeps_to_its_budget_and_holds_what_was_asked(log: list[Event], budget: int) -> None:
    turns = build_conversation(log).turns
    window = fit_turns(turns, budget, estimate_tokens)
    assert window.tokens == sum(count_turn_tokens(turn, estimate_tokens) for turn in window.turns) <= budget
    requests = [turn.seq for turn in turns if turn.from_person]
    assert not requests or requests[-1] in [turn.seq for turn in window.turns]
    assert window.truncated == (sum(count_turn_tokens(turn, estimate_tokens) for turn in turns) > budget)


@given(st.integers(100, 6000), st.text(min_size=50, max_size=50).map(lambda text: text * 400) | st.just('"\\' * 20_000))
def test_a_call_too_large_for_the_window_is_shown_shortened(budget: int, content: str) -> None:
    """A model that did not see its own last call would make it again."""
    arguments = json.dumps({"path": "a.py", "content": content}, ensure_ascii=False)
    turns = [
        Turn(1, "user", "Write the file.", from_person=True),
        Turn(2, "assistant", "I will.", calls=[RequestedCall(2, "c1", "Write", arguments, "ok", True, 3)]),
    ]
    window = fit_turns(turns, budget, estimate_tokens)
    assert [turn.role for turn in window.turns] == ["user", "assistant"]
    assert window.tokens <= budget
    shown = json.loads(window.turns[1].calls[0].arguments)
    assert arguments.startswith(shown["begins"])
    assert shown["left_out"] + len(shown["begins"]) == len(arguments)


def list_call_pairs(turns: Sequence[Turn]) -> list[tuple[int, int]]:
    """Return the calls of turns, each with its result."""
    return sorted((call.seq, call.result_seq) for turn in turns for call in turn.calls)


@hypothesis_settings(max_examples=count_examples(50))
@given(LOGS, st.integers(20, 2000))
def test_compacting_parts_no_call_from_its_result(log: list[Event], keep: int) -> None:
    conversation = build_conversation(log)
    plan = plan_compaction(log, conversation, {}, keep=keep, count=estimate_tokens)
    if plan is None:
        return
    later = build_conversation([event for event in log if event.seq >= plan.kept_from])
    assert {turn.seq for turn in plan.turns} | {turn.seq for turn in later.turns} == {
        turn.seq for turn in conversation.turns
    }
    assert list_call_pairs([*plan.turns, *later.turns]) == list_call_pairs(conversation.turns)


def test_a_reused_id_is_made_unique_in_every_format() -> None:
    log = create_log(
        [
            (EventType.USER_MESSAGE, {"text": "go"}),
            (EventType.TOOL_CALL, {"call_id": "a", "tool": "t", "arguments": {}}),
            (EventType.TOOL_RESULT, {"call_id": "a", "content": "first"}),
            (EventType.TOOL_CALL, {"call_id": "a", "tool": "t", "arguments": {}}),
            (EventType.TOOL_RESULT, {"call_id": "a", "content": "second"}),
        ]
    )
    turns = build_conversation(log).turns
    formats: tuple[MessageFormat, ...] = ("openai", "anthropic")
    for message_format in formats:
        assert str(render_messages(turns, message_format)).count("'call_4'") == 2


def test_an_abandoned_call_keeps_nothing_from_being_compacted() -> None:
    talk = [(EventType.USER_MESSAGE, {"text": f"long {n} " * 100}) for n in range(20)]
    lost = (EventType.TOOL_CALL, {"call_id": "a", "tool": "t", "arguments": {}})
    for log, first in ((create_log([lost, *talk]), 20), (create_log([*talk, lost, talk[0]]), 21)):
        plan = plan_compaction(log, build_conversation(log), {}, keep=400, count=estimate_tokens)
        assert plan is not None
        assert first <= plan.kept_from <= 21
