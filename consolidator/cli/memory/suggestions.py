"""consolidator next: what usually follows where a session is now."""

from __future__ import annotations

import json

from consolidator.cli.common import SessionName, run
from consolidator.cli.output import AsJson, Limit, Table, emit, shorten
from consolidator.service.memory.suggestions import suggest_next_calls

_TABLE = Table(
    "what usually follows",
    {
        "call": "symbol",
        "arguments": lambda call: shorten(json.dumps(call["arguments"], ensure_ascii=False), 120),
        "likely": lambda call: f"{call['likelihood']:.0%}",
        "sure": lambda call: f"{call['confidence']:.0%}",
        "why": lambda call: shorten(call["why"], 100),
    },
    right=("likely", "sure"),
)


def next_command(session: SessionName, limit: Limit = 5, as_json: AsJson = False) -> None:
    """Show what usually follows in a session: the next call, its arguments filled in, with confidence."""
    suggestions = run(lambda database, _: suggest_next_calls(database, session, limit=limit))
    show = _TABLE if suggestions else "no prediction: too few sessions contain this sequence"
    emit(suggestions, show, as_json=as_json)
