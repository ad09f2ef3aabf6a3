"""The body of a request is the JSON of what it is made of, also where its messages were sent before."""

import json
from typing import Any

import pytest

from consolidator.llm.protocol import Message, encode_body


def test_a_body_is_the_same_json_each_time_and_beside_new_messages() -> None:
    sent = Message({"role": "user", "content": 'Grüße, "quoted"\n'})
    body: dict[str, Any] = {"model": "m", "messages": [sent], "max_tokens": 1}
    assert json.loads(encode_body(body)) == body

    longer = {**body, "messages": [sent, {"role": "assistant", "content": None}], "tools": [{"type": "function"}]}
    assert json.loads(encode_body(longer)) == longer
    assert json.loads(encode_body({"messages": [], "stream": True})) == {"messages": [], "stream": True}


def test_what_is_no_json_is_not_sent() -> None:
    for value in (float("nan"), "\ud800"):
        with pytest.raises(ValueError):
            encode_body({"messages": [Message({"role": "user", "content": value})], "model": "m"})
