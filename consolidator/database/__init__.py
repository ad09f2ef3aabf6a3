"""The database: an embedded server or a DSN becomes one engine, upgraded on start."""

from consolidator.database.engine import Database, open_database
from consolidator.database.partitions import Connection

__all__ = ["Connection", "Database", "open_database"]
