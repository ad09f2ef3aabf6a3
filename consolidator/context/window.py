"""Which turns of a session a context holds: the latest that fit into a budget of tokens, and what was asked for.

What must be there is shortened rather than left out; everything else goes from its oldest end. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from consolidator.context.messages import RequestedCall, Turn, truncate_middle

MESSAGE_TOKENS, CALL_TOKENS = 8, 24  # tokens of a message's and a call's frame, rather more than fewer
_LEAST = 24  # tokens below which a text says nothing any more
_OF_A_CALL = ("result", "arguments")
TokenCounter = Callable[[str], int]
_Place = tuple[Turn | RequestedCall, str]  # a text in a turn: what has it, and by which name


@dataclass(frozen=True, slots=True)
class ContextWindow:
    """The turns that a context holds, oldest first; `cut` where earlier ones did not fit."""

    turns: list[Turn]
    tokens: int
    truncated: bool


def count_turn_tokens(turn: Turn, count: TokenCounter) -> int:
    """Return a turn's tokens, rather more than fewer."""
    calls = sum(CALL_TOKENS + MESSAGE_TOKENS + count(c.tool) + count(c.arguments) + count(c.result or "") for c in turn.calls)
    return MESSAGE_TOKENS + count(turn.text) + calls


def fit_turns(turns: Sequence[Turn], budget: int, count: TokenCounter, *, stride: int = 1) -> ContextWindow:
    """Return the latest turns within a budget.

    The person's last message is among them however old it is, since it says what all of them are for. Where turns are
    left out, a window begins at a multiple of `stride` events, so that the next ones begin with the same messages.
    """
    sizes = [count_turn_tokens(turn, count) for turn in turns]
    if sum(sizes) <= budget:
        return ContextWindow(list(turns), sum(sizes), truncated=False)
    asked = max((n for n, turn in enumerate(turns) if turn.from_person), default=None)
    kept: dict[int, Turn] = {}
    left = budget
    if asked is not None:
        # What was asked may take all but a quarter, where it is not the last word itself.
        most = budget if asked == len(turns) - 1 else budget * 3 // 4
        kept[asked] = turns[asked] if sizes[asked] <= most else shrink_turn(turns[asked], most, count)
        left -= count_turn_tokens(kept[asked], count)
    for number in range(len(turns) - 1, -1, -1):
        if number in kept:
            continue
        if sizes[number] > left:
            if number == len(turns) - 1 and left > 0:
                _squeeze_in(kept, number, turns[number], left, count)
            break
        kept[number] = turns[number]
        left -= sizes[number]
    _align(kept, asked, stride, budget, count)
    found = [kept[number] for number in sorted(kept)]
    return ContextWindow(found, sum(count_turn_tokens(turn, count) for turn in found), truncated=True)


def _align(kept: dict[int, Turn], asked: int | None, stride: int, budget: int, count: TokenCounter) -> None:
    """Drop the oldest turns up to a multiple of `stride`, unless half of the budget would stay empty."""
    free = sorted(number for number in kept if number != asked)
    if not free or stride <= 1:
        return
    begin = -(-kept[free[0]].seq // stride) * stride
    dropped = [number for number in free if kept[number].seq < begin]
    rest = sum(count_turn_tokens(turn, count) for number, turn in kept.items() if number not in dropped)
    if rest * 2 >= budget:
        for number in dropped:
            del kept[number]


def _squeeze_in(kept: dict[int, Turn], number: int, turn: Turn, left: int, count: TokenCounter) -> None:
    small = shrink_turn(turn, left, count)
    if count_turn_tokens(small, count) <= left:
        kept[number] = small


def shrink_turn(turn: Turn, budget: int, count: TokenCounter) -> Turn:
    """Return a turn with its longest texts, results and arguments shortened until it fits, or can be no smaller."""
    small = replace(turn, calls=[replace(call) for call in turn.calls])
    for _ in range(64):
        over = count_turn_tokens(small, count) - budget
        if over <= 0:
            return small
        places: list[_Place] = [(small, "text"), *((call, name) for call in small.calls for name in _OF_A_CALL)]
        place = max(places, key=lambda one: count(_at(one)))
        longest = count(_at(place))
        if longest <= _LEAST:
            return small
        _shorten(place, max(_LEAST // 2, min(longest - over, longest * 9 // 10)) / longest)
    return small


def _at(place: _Place) -> str:
    return getattr(*place) or ""


def _shorten(place: _Place, share: float) -> None:
    """Shorten a text to a share of itself; the note on the gap is no gain."""
    text = _at(place)
    most = int(len(text) * share)
    if place[1] == "arguments":
        short = _begun(text, share)
    else:
        short = truncate_middle(text, most)
        short = short if len(short) < len(text) else text[:most]
    setattr(*place, short)


def _begun(arguments: str, share: float) -> str:
    """Return the beginning of arguments as a JSON object, which says how many characters are missing."""
    told = json.loads(arguments)
    known = told.keys() == {"left_out", "begins"}  # shortened before
    begins, left_out = (str(told["begins"]), int(told["left_out"])) if known else (arguments, 0)
    kept = begins[: int(len(begins) * share)]
    return json.dumps({"left_out": left_out + len(begins) - len(kept), "begins": kept}, ensure_ascii=False)
