"""What became of a bundle."""

from __future__ import annotations

from consolidator.api.schemas.rows import RowAnswer, of_row
from consolidator.service.sessions import bundles


@of_row(bundles.ImportedBundle)
class ImportedBundle(RowAnswer):
    """An imported bundle."""
