"""consolidator: session logs of AI agents become memory, every night, each fact with its evidence."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from consolidator.clock import Clock, FrozenClock
from consolidator.database import Database, open_database
from consolidator.errors import ConsolidatorError
from consolidator.models.event import Event, NewEvent
from consolidator.models.payload import EventType
from consolidator.settings import Settings, load_settings

if TYPE_CHECKING:
    from consolidator.runtime.agent import Consolidator, Session, step, wake
    from consolidator.runtime.harness import Delta, StepResult
    from consolidator.runtime.outcome import Outcome
    from consolidator.runtime.tools import Call, Tool, tool

__all__ = [
    "Call",
    "Clock",
    "Consolidator",
    "ConsolidatorError",
    "Database",
    "Delta",
    "Event",
    "EventType",
    "FrozenClock",
    "NewEvent",
    "Outcome",
    "Session",
    "Settings",
    "StepResult",
    "Tool",
    "load_settings",
    "open_database",
    "step",
    "tool",
    "wake",
]
__version__ = "0.1.0"
_RUNTIME = {
    "Call": "tools",
    "Consolidator": "agent",
    "Delta": "harness",
    "Outcome": "outcome",
    "Session": "agent",
    "StepResult": "harness",
    "Tool": "tools",
    "step": "agent",
    "tool": "tools",
    "wake": "agent",
}


def __getattr__(name: str) -> Any:
    """Import the runtime when it is first asked for: it brings clients that nobody else needs at the start."""
    if name not in _RUNTIME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"consolidator.runtime.{_RUNTIME[name]}"), name)
