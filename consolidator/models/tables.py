"""Every table in one place, for migrations: importing this fills the metadata."""

from sqlmodel import SQLModel

from consolidator.models import blob, digest, event, fact, index, procedure, run, session, source

METADATA = SQLModel.metadata
MODULES = (blob, digest, event, fact, index, procedure, run, session, source)
