"""Every table in one place, for migrations: importing this fills the metadata."""

from sqlmodel import SQLModel

from consolidator.models import (
    api_request,
    blob,
    chunk,
    credential,
    digest,
    error_record,
    event,
    fact,
    index,
    model_call,
    procedure,
    pruning,
    revision,
    run,
    scope,
    seal,
    session,
    setting,
    solution,
    source,
    spend,
    sums,
)

METADATA = SQLModel.metadata
MODULES = (
    api_request,
    blob,
    credential,
    digest,
    error_record,
    event,
    fact,
    chunk,
    index,
    model_call,
    revision,
    procedure,
    pruning,
    run,
    scope,
    seal,
    session,
    setting,
    solution,
    source,
    spend,
    sums,
)
