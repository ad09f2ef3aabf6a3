"""Server-sent events, as bytes come: cut anywhere, with any line ends."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
import pytest

from consolidator.llm.event_stream import read_events

STREAM = (
    b': hello\r\n\r\nevent: x\r\ndata: {"a":\r\ndata: 1}\r\n\r\ndata:{"b": "\xc3\xa9"}\n\ndata: [DONE]\n\ndata: no\n\n'
)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
async def test_events_are_whole_however_their_bytes_are_cut(size: int) -> None:
    class Cut(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            for start in range(0, len(STREAM), size):
                yield STREAM[start : start + size]

    response = httpx2.Response(200, stream=Cut(), request=httpx2.Request("POST", "http://localhost/"))
    assert [event async for event in read_events(response)] == [{"a": 1}, {"b": "é"}]
