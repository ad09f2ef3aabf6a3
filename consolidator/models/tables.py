"""Every table in one place, for migrations: importing this fills the metadata."""

from sqlmodel import SQLModel

from consolidator.models import (
    answer,
    blob,
    chunk,
    digest,
    event,
    fact,
    index,
    procedure,
    revision,
    run,
    session,
    source,
)

METADATA = SQLModel.metadata
MODULES = (answer, blob, digest, event, fact, chunk, index, revision, procedure, run, session, source)
