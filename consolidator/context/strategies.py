"""Context strategies: which events of a session a model is shown. One row each in STRATEGIES."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from consolidator.context.history import SessionHistory
from consolidator.context.reader import ContextReader
from consolidator.errors import UsageError
from consolidator.models.event import Event

DEFAULT_BUDGET = 32_000  # tokens of a context


@dataclass(frozen=True, slots=True)
class ContextStrategy:
    """Decides which events of a session a context holds: the latest ones that fit into a budget of tokens."""

    name: str  # as it is configured, logged and booked
    compacts: bool = False  # a summary replaces the older part, and a session is compacted when its budget runs out
    stride: int = (
        32  # a truncated context begins at a multiple of so many events, so that providers can cache the prefix
    )
    counts_events: bool = False  # a fixed number of the last events, within the budget
    fills_window: bool = False  # the budget is the model's whole window, if that is known

    def default_budget(self, max_budget: int | None) -> int:
        """Return the budget in tokens if none is configured; `max_budget` is the model's limit, if known."""
        return (max_budget if self.fills_window else None) or DEFAULT_BUDGET

    def kept_from(self, history: SessionHistory) -> int:
        """Return the seq of the first event that may be shown as it is; 0 if any may."""
        return history.kept_from if self.compacts else 0

    async def read_events(self, reader: ContextReader, after: int, *, budget: int, last: int) -> list[Event]:
        """Return the latest events after a seq: enough for `budget` tokens, or the last `last` ones."""
        if self.counts_events:
            return await reader.read_last(last, after)
        return await reader.read_to_budget(budget, after)


COMPACTED = ContextStrategy("compacted", compacts=True)
_ALL = (
    ContextStrategy("window", stride=1, counts_events=True),
    ContextStrategy("budget"),
    COMPACTED,
    ContextStrategy("full", fills_window=True),
)
STRATEGIES: Mapping[str, ContextStrategy] = {strategy.name: strategy for strategy in _ALL}
DEFAULT_STRATEGY = "budget"


def find_strategy(name: str) -> ContextStrategy:
    """Return a strategy by its name. Raises UsageError for an unknown name."""
    strategy = STRATEGIES.get(name)
    if strategy is None:
        raise UsageError(f"unknown context strategy {name!r}; choose one of: {', '.join(STRATEGIES)}")
    return strategy
