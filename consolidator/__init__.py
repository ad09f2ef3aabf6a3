"""consolidator: session logs of AI agents become memory, every night, each fact with its evidence."""

from consolidator.clock import Clock, FrozenClock
from consolidator.database import Database, open_database
from consolidator.errors import ConsolidatorError
from consolidator.models.event import Event, NewEvent
from consolidator.models.payload import EventType
from consolidator.settings import Settings, load_settings

__all__ = [
    "Clock",
    "ConsolidatorError",
    "Database",
    "Event",
    "EventType",
    "FrozenClock",
    "NewEvent",
    "Settings",
    "load_settings",
    "open_database",
]
__version__ = "0.1.0"
