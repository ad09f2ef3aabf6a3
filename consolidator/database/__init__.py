"""The database: settings become one upgraded engine, over an embedded server or one that a person runs.

`open_database` starts or finds the server, upgrades the schema and yields a `Database`, whose
connections go to `store`. Here are connections, partitions, JSON encoding and schema upgrades; no query of the product.
"""

from consolidator.database.connections import Database, open_database
from consolidator.database.partitions import Connection

__all__ = ["Connection", "Database", "open_database"]
