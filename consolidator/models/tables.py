"""Every table in one place, for migrations: importing this fills the metadata."""

from sqlmodel import SQLModel

from consolidator.models import (
    answer,
    blob,
    chunk,
    digest,
    error_record,
    event,
    fact,
    index,
    procedure,
    revision,
    run,
    scope,
    session,
    setting,
    solution,
    source,
    spend,
    sums,
)

METADATA = SQLModel.metadata
MODULES = (
    answer, blob, digest, error_record, event, fact, chunk, index, revision, procedure, run, scope, session, setting,
    solution, source, spend, sums,
)  # fmt: skip
