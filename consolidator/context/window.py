"""Selects the turns of a context: the latest ones that fit into a token budget, and the person's last message.

A turn that must be included is shortened rather than left out; the others are dropped from the oldest end. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from consolidator.context.conversation import RequestedCall, Turn, truncate_middle

MESSAGE_TOKENS, CALL_TOKENS = 8, 24  # overhead of a message and of a call, an upper estimate
_MIN_TEXT_TOKENS = 24  # a shorter text is not shortened further
_CALL_TEXTS = ("result", "arguments")
TokenCounter = Callable[[str], int]
_TextField = tuple[Turn | RequestedCall, str]  # a text in a turn: the object and its attribute


@dataclass(frozen=True, slots=True)
class ContextWindow:
    """The turns of a context, oldest first."""

    turns: list[Turn]
    tokens: int
    truncated: bool  # whether earlier turns did not fit


def count_turn_tokens(turn: Turn, count: TokenCounter) -> int:
    """Return an upper estimate of a turn's tokens."""
    calls = sum(
        CALL_TOKENS + MESSAGE_TOKENS + count(call.tool) + count(call.arguments) + count(call.result or "")
        for call in turn.calls
    )
    return MESSAGE_TOKENS + count(turn.text) + calls


def known_turn_tokens(turn: Turn, count: TokenCounter) -> int:
    """Return a turn's tokens; they are counted once for a turn that stays as it is."""
    if turn.tokens is None:
        turn.tokens = count_turn_tokens(turn, count)
    return turn.tokens


def fit_turns(
    turns: Sequence[Turn], budget: int, count: TokenCounter, *, stride: int = 1, sizes: Sequence[int] | None = None
) -> ContextWindow:
    """Return the latest turns within a budget; `sizes` are their tokens, where they are counted already.

    The person's last message is always included, because it states the task. If turns are left out, the window begins
    at a multiple of `stride` events, so that the next windows begin with the same messages.
    """
    sizes = [known_turn_tokens(turn, count) for turn in turns] if sizes is None else list(sizes)
    if sum(sizes) <= budget:
        return ContextWindow(list(turns), sum(sizes), truncated=False)
    latest = len(turns) - 1
    task = next((index for index in range(latest, -1, -1) if turns[index].from_person), None)
    shrunk: dict[int, Turn] = {}
    first, available = latest + 1, budget

    def shrink(index: int, limit: int) -> None:
        shrunk[index] = shrink_turn(turns[index], limit, count)
        sizes[index] = known_turn_tokens(shrunk[index], count)

    if task is not None:
        # Other turns get at least a quarter of the budget, unless the task is the last turn.
        limit = budget if task == latest else budget * 3 // 4
        if sizes[task] > limit:
            shrink(task, limit)
        available -= sizes[task]
    for index in range(latest, -1, -1):
        if index == task:
            first = index
            continue
        if sizes[index] > available and index == latest and available > 0:
            shrink(index, available)
            first = index if sizes[index] <= available else first
            break
        if sizes[index] > available:
            break
        available -= sizes[index]
        first = index
    selected = [*range(first, latest + 1)] if task is None or task >= first else [task, *range(first, latest + 1)]
    selected = _align_start(selected, turns, sizes, task, stride, budget)
    window = [shrunk.get(index) or turns[index] for index in selected]
    return ContextWindow(window, sum(sizes[index] for index in selected), truncated=True)


def _align_start(
    selected: list[int], turns: Sequence[Turn], sizes: Sequence[int], task: int | None, stride: int, budget: int
) -> list[int]:
    """Drop the oldest turns up to a multiple of `stride`, unless that would leave half of the budget unused."""
    first = next((index for index in selected if index != task), None)
    if first is None or stride <= 1:
        return selected
    start_seq = -(-turns[first].seq // stride) * stride
    aligned = [index for index in selected if index == task or turns[index].seq >= start_seq]
    return aligned if sum(sizes[index] for index in aligned) * 2 >= budget else selected


def shrink_turn(turn: Turn, budget: int, count: TokenCounter) -> Turn:
    """Return a turn whose longest texts are shortened until it fits or cannot be shortened further."""
    shrunk = replace(turn, calls=[replace(call) for call in turn.calls], tokens=None, messages=None)
    for _ in range(64):
        excess = count_turn_tokens(shrunk, count) - budget
        if excess <= 0:
            return shrunk
        fields: list[_TextField] = [(shrunk, "text"), *((call, name) for call in shrunk.calls for name in _CALL_TEXTS)]
        largest = max(fields, key=lambda text_field: count(_read_text(text_field)))
        tokens = count(_read_text(largest))
        if tokens <= _MIN_TEXT_TOKENS:
            return shrunk
        _shorten_text(largest, max(_MIN_TEXT_TOKENS // 2, min(tokens - excess, tokens * 9 // 10)) / tokens)
    return shrunk


def _read_text(text_field: _TextField) -> str:
    return getattr(*text_field) or ""


def _shorten_text(text_field: _TextField, share: float) -> None:
    """Shorten a text to a share of itself; cut it hard if the note about the gap would make it longer."""
    text = _read_text(text_field)
    max_chars = int(len(text) * share)
    if text_field[1] == "arguments":
        short = _truncate_arguments(text, share)
    else:
        short = truncate_middle(text, max_chars)
        short = short if len(short) < len(text) else text[:max_chars]
    setattr(*text_field, short)


def _truncate_arguments(arguments: str, share: float) -> str:
    """Return the beginning of arguments as a JSON object with the number of characters that are missing."""
    value = json.loads(arguments)
    is_truncated = value.keys() == {"left_out", "begins"}
    begins, left_out = (str(value["begins"]), int(value["left_out"])) if is_truncated else (arguments, 0)
    prefix = begins[: int(len(begins) * share)]
    return json.dumps({"left_out": left_out + len(begins) - len(prefix), "begins": prefix}, ensure_ascii=False)
