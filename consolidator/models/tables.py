"""Every table in one place, for migrations: importing this fills the metadata."""

from sqlmodel import SQLModel

from consolidator.models import (
    answer,
    blob,
    digest,
    event,
    fact,
    generation,
    index,
    memory_generation,
    procedure,
    run,
    session,
    source,
)

METADATA = SQLModel.metadata
MODULES = (answer, blob, digest, event, fact, generation, index, memory_generation, procedure, run, session, source)
