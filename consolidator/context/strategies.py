"""Context strategies: which events of a session a model is shown. One class each, registered in STRATEGIES."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Protocol

from consolidator.context.history import SessionHistory
from consolidator.context.reader import ContextReader
from consolidator.errors import UsageError
from consolidator.models.event import Event

DEFAULT_BUDGET = 32_000  # tokens of a context
_STRIDE = 32  # events


class ContextStrategy(Protocol):
    """Decides which events of a session a context holds.

    To add a strategy, write a class with this interface and add an instance to _ALL.
    """

    name: ClassVar[str]  # as it is configured, logged and booked
    compacts: ClassVar[
        bool
    ]  # a summary replaces the older part, and the runtime compacts the session when its budget runs out
    stride: ClassVar[int]  # a truncated context begins at a multiple of it, so that providers can cache the prefix

    def default_budget(self, max_budget: int | None) -> int:
        """Return the budget in tokens if none is configured; `max_budget` is the model's limit, if known."""
        ...

    def kept_from(self, history: SessionHistory) -> int:
        """Return the seq of the first event that may be shown as it is; 0 if any may."""
        ...

    async def read_events(self, reader: ContextReader, after: int, *, budget: int, last: int) -> list[Event]:
        """Return the latest events after a seq: enough for `budget` tokens, or the last `last` ones."""
        ...


class BudgetStrategy:
    """The latest events that fit into a budget of tokens."""

    name: ClassVar[str] = "budget"
    compacts: ClassVar[bool] = False
    stride: ClassVar[int] = _STRIDE

    def default_budget(self, max_budget: int | None) -> int:
        """Return the default budget."""
        return DEFAULT_BUDGET

    def kept_from(self, history: SessionHistory) -> int:
        """Return 0: any event may be shown."""
        return 0

    async def read_events(self, reader: ContextReader, after: int, *, budget: int, last: int) -> list[Event]:
        """Return enough events to fill the budget."""
        return await reader.read_to_budget(budget, after)


class WindowStrategy(BudgetStrategy):
    """A fixed number of the last events, within the budget."""

    name: ClassVar[str] = "window"
    stride: ClassVar[int] = 1

    async def read_events(self, reader: ContextReader, after: int, *, budget: int, last: int) -> list[Event]:
        """Return the last events."""
        return await reader.read_last(last, after)


class CompactedStrategy(BudgetStrategy):
    """The events after the latest compaction, and that compaction's summary of the older ones."""

    name: ClassVar[str] = "compacted"
    compacts: ClassVar[bool] = True

    def kept_from(self, history: SessionHistory) -> int:
        """Return the first event that the latest compaction left as it is."""
        return history.kept_from


class FullStrategy(BudgetStrategy):
    """As much of the session as fits into the model's context window."""

    name: ClassVar[str] = "full"

    def default_budget(self, max_budget: int | None) -> int:
        """Return the model's limit; the default budget if that is unknown."""
        return max_budget or DEFAULT_BUDGET


_ALL: tuple[ContextStrategy, ...] = (WindowStrategy(), BudgetStrategy(), CompactedStrategy(), FullStrategy())
STRATEGIES: Mapping[str, ContextStrategy] = {strategy.name: strategy for strategy in _ALL}
DEFAULT_STRATEGY = BudgetStrategy.name


def find_strategy(name: str) -> ContextStrategy:
    """Return a strategy by its name. Raises UsageError for an unknown name."""
    strategy = STRATEGIES.get(name)
    if strategy is None:
        raise UsageError(f"unknown context strategy {name!r}; choose one of: {', '.join(STRATEGIES)}")
    return strategy
