"""consolidator: session logs of AI agents become memory, every night, each fact with its evidence."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
_MODULE_OF = {
    "BlockingMemory": "library.memory",
    "CallContext": "runtime.tools.tool",
    "Clock": "clock",
    "Consolidator": "runtime.agent",
    "ConsolidatorError": "errors",
    "Database": "database",
    "Delta": "runtime.turn.harness",
    "Event": "models.event",
    "EventType": "models.payload",
    "FrozenClock": "clock",
    "Memory": "library.memory",
    "NewEvent": "models.event",
    "Outcome": "runtime.session.outcome",
    "RouteDecision": "runtime.session.routing",
    "RouteRequest": "runtime.session.routing",
    "Seed": "models.seed",
    "Session": "runtime.agent",
    "Settings": "settings",
    "StepResult": "runtime.turn.harness",
    "Tool": "runtime.tools.tool",
    "Viewer": "models.viewer",
    "load_settings": "settings",
    "open_database": "database",
    "step": "runtime.agent",
    "tool": "runtime.tools.tool",
    "wake": "runtime.agent",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: a file of tools must not load the database."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"consolidator.{_MODULE_OF[name]}"), name)
