"""Any JSON in the place of any value, cut and repeated lines: a clear problem at most, and the other lines are read."""

from __future__ import annotations

import json
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consolidator.errors import InvalidEvent
from consolidator.formats.base import ForeignEvent, ForeignSession, Item, Problem
from consolidator.formats.common.jsonl import guard_line
from consolidator.formats.registry import FORMATS, recognise_format
from consolidator.models.event import NewEvent
from consolidator.store.log import events
from tests.unit.formats.format_logs import NO_DEADLINE, select_events
from tests.unit.formats.sample_logs import ODD_VALUES, SAMPLES, encode, places, put

any_number = st.integers() | st.floats() | st.sampled_from([10**400, -(2**63), 1e308])
any_text = st.text(st.characters(), max_size=8) | st.sampled_from(["\0", "\ud800", "user", "type", "s", "x" * 9000])
any_json = st.recursive(
    st.none() | st.booleans() | any_number | any_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3),
    max_leaves=8,
)


def read_log(name: str, content: bytes, folder: Path) -> list[Item]:
    """Read a log's bytes; what comes of it is of the right kind, and an event fits its type or is told not to."""
    path = folder / SAMPLES[name][0]
    path.write_bytes(content)
    recognise_format(path)
    items = list(FORMATS[name].read(path, folder))
    for item in items:
        if isinstance(item, ForeignSession):
            texts = (item.channel, item.peer, item.project, item.model, item.parent_origin, item.key)
            assert all(text is None or isinstance(text, str) for text in texts)
            assert isinstance(item.origin, str)
            assert isinstance(item.agent, str)
        elif isinstance(item, ForeignEvent):
            assert item.task_id is None or isinstance(item.task_id, str)
            assert item.tool_name is None or isinstance(item.tool_name, str)
            with suppress(InvalidEvent):
                events.prepare(NewEvent(item.type, item.data, item.task_id, item.tool_name))
    return items


@pytest.mark.parametrize("name", SAMPLES)
def test_each_odd_value_in_each_place(name: str, tmp_path: Path) -> None:
    _, is_jsonl, lines = SAMPLES[name]
    assert not [item for item in read_log(name, encode(lines, is_jsonl), tmp_path) if isinstance(item, Problem)]
    odd_values = list(ODD_VALUES.values())
    for number, path in enumerate(places(lines)):
        for odd in odd_values[number % 5 :: 5] if path else ():  # each place meets some, each value many places
            items = read_log(name, encode(put(lines, path, odd), is_jsonl), tmp_path)
            assert sum(isinstance(item, Problem) for item in items) <= (len(lines) if path[0] == 0 else 1)


@pytest.mark.parametrize("name", SAMPLES)
@NO_DEADLINE
@given(st.data())
def test_any_value_in_any_places(name: str, data: st.DataObject) -> None:
    _, is_jsonl, lines = SAMPLES[name]
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from([path for path in places(lines) if path]))
        lines = put(lines, path, data.draw(any_json))
    with tempfile.TemporaryDirectory() as folder:
        read_log(name, encode(lines, is_jsonl), Path(folder))


@pytest.mark.parametrize("name", SAMPLES)
@NO_DEADLINE
@given(st.data())
def test_cut_and_repeated_and_mixed_lines(name: str, data: st.DataObject) -> None:
    _, is_jsonl, lines = SAMPLES[name]
    content = encode(data.draw(st.permutations(lines + lines)), is_jsonl)
    start, end = sorted(data.draw(st.tuples(st.integers(0, len(content)), st.integers(0, len(content)))))
    noise = data.draw(st.binary(max_size=6))
    with tempfile.TemporaryDirectory() as folder:
        read_log(name, content[:start] + noise + content[end:], Path(folder))


@pytest.mark.parametrize("name", [name for name, (_, is_jsonl, _) in SAMPLES.items() if is_jsonl])
def test_a_line_that_cannot_be_read_costs_no_other(name: str, tmp_path: Path) -> None:
    _, _, lines = SAMPLES[name]
    odd_lines: list[Any] = [["x"], {"type": ["x"]}, {"type": {}}, {"type": 1.5}, 7, "text", None]
    for broken in odd_lines:
        items = read_log(name, encode([*lines, broken, *lines], True), tmp_path)
        assert len(select_events(items)) >= 2 * len(select_events(read_log(name, encode(lines, True), tmp_path))) - 2
        assert not [item for item in items if isinstance(item, Problem) and item.line not in (None, len(lines) + 1)]


def test_a_failing_reader_costs_its_line_whole_and_tells_no_value() -> None:
    def fail() -> Any:
        yield Problem("half")
        yield {"secret": 1}["sk-live-1234567890"]

    (problem,) = guard_line(fail(), 7)
    assert problem == Problem("a value of this line is of a kind that cannot be read (KeyError)", 7)
    assert "1234567890" not in json.dumps(str(problem))
