"""What memory reads of calls: nothing that nobody sees, and nothing that somebody marked as private."""

from __future__ import annotations

import json
import zlib
from datetime import UTC, datetime
from typing import Any

import pytest

from consolidator.jobs.consolidation.learning import FoldStates, learn_window
from consolidator.memory.calls.tool_values import MAX_DEPTH, read_tool_value
from consolidator.memory.facts.candidates import SessionContext
from consolidator.models.event import Event
from consolidator.models.payload import EventType
from tests.unit.llm.test_redaction_phrases import COMMANDS, WORD

SESSION = SessionContext("s1", "s1", "coder", project="/home/ann/shop")
HIDDEN = "Zebulon"


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("a <private>b</private> c", "a   c"),
        ("a <private>b", "a "),
        ("b</private> c", "  c"),
        ("a b</PRI\u200bVATE> c <private>d", "  c "),
        ("`</private>` is a tag", "`</private>` is a tag"),
        ("a <ｐrivate>b</private> c", "a   c"),
        ("a &lt;private&gt;b&lt;/private&gt; c", "a   c"),
        ("pri\u200bvate \x1b[31mred\x1b[0m \u202ex", "private red x"),
        ('{"a": "x <private>y</private>"}', {"a": "x  "}),
        ('{"a": "\\u003cprivate\\u003eb"}', {"a": ""}),
        ('\u200b{"a": 1}', {"a": 1}),
        ('{"a": "<private>x", "b": "y"}', '{"a": "'),
        ({"a": "<private>x", "b": ["y", 1, None, True, 2.5]}, {"a": "", "b": ["y", 1, None, True, 2.5]}),
        ({"<private>k</private>": "v\u200b"}, {" ": "v"}),
        (["a", "b <private>", "c", "</private> d"], ["a", "b "]),
        ([{"type": "text", "text": "<private>a"}, {"type": "text", "text": "b"}], [{"type": "text", "text": ""}]),
        (None, None),
        (3, 3),
    ],
)
def test_values_are_read_without_what_is_hidden(value: Any, read: Any) -> None:
    assert read_tool_value(value) == read
    assert read_tool_value(read_tool_value(value)) == read


def test_values_that_are_nested_very_deep_are_cut() -> None:
    value: Any = HIDDEN
    for _ in range(5 * MAX_DEPTH):
        value = {"a": [value]}
    assert HIDDEN not in json.dumps(read_tool_value(value))
    read_tool_value("[" * 100_000 + "]" * 100_000)


def event(seq: int, event_type: EventType, **data: Any) -> Event:
    return Event("s1", seq, event_type, data, datetime(2026, 3, 2, tzinfo=UTC))


def call_events(tool: str, arguments: Any, content: Any, *, ok: bool = True, first: int = 1) -> list[Event]:
    call_id = f"c{first}"
    return [
        event(first, EventType.TOOL_CALL, call_id=call_id, tool=tool, arguments=arguments),
        event(first + 1, EventType.TOOL_RESULT, call_id=call_id, status="ok" if ok else "error", content=content),
    ]


def learned_text(events: list[Event]) -> str:
    """Return all that a window leaves behind, unpacked."""
    result = learn_window(SESSION, FoldStates(), events, b"salt")
    packed = result.folds.digest
    assert packed is not None
    unpacked = [zlib.decompress(part).decode() for part in (packed.terms, packed.quotes, packed.state)]
    unpacked.append(zlib.decompress(result.folds.trace).decode())
    return repr([*unpacked, result.errors, result.folds.errors, result.folds.summary, result.candidates])


MARKED = {
    "an argument": ("Bash", {"command": f"notify --to '<private>{HIDDEN}</private>' --now"}, "done", True),
    "arguments as text": ("pay", json.dumps({"payee": f"<private>{HIDDEN}"}), "done", True),
    "a key": ("pay", {f"<private>{HIDDEN}</private>": "4711"}, "done", True),
    "a result": ("lookup", {"id": "4711"}, {"name": f"<private>{HIDDEN}</private>", "order": "ord-88"}, True),
    "blocks": ("lookup", {"id": "1"}, [{"type": "text", "text": "<private>"}, {"type": "text", "text": HIDDEN}], True),
    "an error": ("Bash", {"command": "pay"}, f"Error: no account for <private>{HIDDEN}</private>", False),
    "an unclosed one": ("Bash", {"command": "pay"}, f"Error: no account\n<private>\n{HIDDEN}: not found", False),
    "a cut one": ("Bash", {"command": "pay"}, f"Error: {HIDDEN}\n</private>\nError: no account", False),
    "an odd one": ("Bash", {"command": "pay"}, f"Error: <PRI\u200bVATE why='>'>{HIDDEN}", False),
}


@pytest.mark.parametrize("what", MARKED)
def test_private_passages_of_calls_reach_nothing_that_is_kept(what: str) -> None:
    tool, arguments, content, ok = MARKED[what]
    events = call_events(tool, arguments, content, ok=ok)
    events += call_events(tool, arguments, "done", first=3)  # it resolves an error: the fix keeps arguments, too
    events += events[:1]  # and one waits for its result
    assert HIDDEN not in learned_text(events)
    assert tool in learned_text(events)


def test_a_credential_that_hides_behind_unseen_characters_is_redacted() -> None:
    token = "ghp_" + "a1B2c3D4" * 4 + "e5F6"
    hidden = "\u200b".join([token[:7], token[7:20], token[20:]])
    events = call_events("Bash", {"command": f"push --token {hidden}"}, f"Error: {hidden} refused", ok=False)
    assert token not in learned_text(
        [*events, event(3, EventType.TOOL_CALL, call_id="x", tool="Bash", arguments=hidden)]
    )


@pytest.mark.parametrize("line", COMMANDS)
def test_a_word_that_a_command_gives_as_a_password_is_in_nothing_that_is_kept(line: str) -> None:
    events = call_events("Bash", {"command": f"cd src && {line}"}, "Error: no such host", ok=False)
    events += call_events("Bash", {"command": f"{line} --now"}, "done", first=3)
    events += call_events("Bash", line, "done", first=5)
    assert WORD not in learned_text([*events, event(7, EventType.TOOL_CALL, call_id="x", tool="Bash", arguments=line)])
