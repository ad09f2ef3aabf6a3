"""consolidator: session logs of AI agents become memory, every night, each fact with its evidence."""

from __future__ import annotations

TYPE_CHECKING = False  # as in `typing`, which the hook before calls does not wait for
if TYPE_CHECKING:
    from typing import Any

    from consolidator.clock import Clock, FrozenClock
    from consolidator.database import Database, open_database
    from consolidator.errors import ConsolidatorError
    from consolidator.library.memory import BlockingMemory, Memory
    from consolidator.models.event import Event, NewEvent
    from consolidator.models.payload import EventType
    from consolidator.models.session import Seed
    from consolidator.models.viewer import Viewer
    from consolidator.runtime.agent import Consolidator, Session, step, wake
    from consolidator.runtime.session.outcome import Outcome
    from consolidator.runtime.session.routing import RouteDecision, RouteRequest
    from consolidator.runtime.tools.tool import CallContext, Tool, tool
    from consolidator.runtime.turn.harness import Delta, StepResult
    from consolidator.settings import Settings, load_settings

__all__ = [
    "BlockingMemory",
    "CallContext",
    "Clock",
    "Consolidator",
    "ConsolidatorError",
    "Database",
    "Delta",
    "Event",
    "EventType",
    "FrozenClock",
    "Memory",
    "NewEvent",
    "Outcome",
    "RouteDecision",
    "RouteRequest",
    "Seed",
    "Session",
    "Settings",
    "StepResult",
    "Tool",
    "Viewer",
    "load_settings",
    "open_database",
    "step",
    "tool",
    "wake",
]
__version__ = "0.1.0"
_NAMES_OF = {  # by the module below this package that has them
    "clock": "Clock FrozenClock",
    "database": "Database open_database",
    "errors": "ConsolidatorError",
    "library.memory": "BlockingMemory Memory",
    "models.event": "Event NewEvent",
    "models.payload": "EventType",
    "models.session": "Seed",
    "models.viewer": "Viewer",
    "runtime.agent": "Consolidator Session step wake",
    "runtime.session.outcome": "Outcome",
    "runtime.session.routing": "RouteDecision RouteRequest",
    "runtime.tools.tool": "CallContext Tool tool",
    "runtime.turn.harness": "Delta StepResult",
    "settings": "Settings load_settings",
}
_MODULE_OF = {name: module for module, names in _NAMES_OF.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: a file of tools must not load the database."""
    from importlib import import_module

    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"consolidator.{_MODULE_OF[name]}"), name)
