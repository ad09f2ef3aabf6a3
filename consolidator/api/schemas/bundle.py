"""What became of a bundle."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class ImportedBundle(BaseModel):
    """An imported bundle."""

    model_config = ConfigDict(title="ImportedBundle")

    session_id: str
    """Its session, here."""
    origin: str
    """The session's id where it was exported."""
    is_new: bool
    """Whether the session was not here before."""
    redacted: bool
    erased: bool
    """Whether it was erased here before: nothing was written."""
    events: int
    """New in the log."""
