"""Backfill: consolidate chosen sessions now, derive again what was learned, or read facts into a draft revision."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from consolidator.database import Database
from consolidator.jobs.consolidation.backfill import Backfill
from consolidator.jobs.consolidation.manual_run import EXTRACTORS as EXTRACTORS
from consolidator.jobs.consolidation.manual_run import SessionFilter as SessionFilter
from consolidator.jobs.consolidation.revisions import Reprocessing
from consolidator.service.sessions.access import find_session_id
from consolidator.settings import Settings


async def run_backfill(
    database: Database,
    settings: Settings,
    session_filter: SessionFilter,
    stop: asyncio.Event,
    *,
    model: str | None = None,
    rehearse: bool = False,
    started: Callable[[int], None] | None = None,
    progress: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Run a backfill and return its report; the filter may name its session by the beginning of its id.

    With `model` the facts are read into a draft revision, which the report compares with what is believed. With
    `rehearse` nothing is written.
    """
    if session_filter.session is not None:
        session_id = await find_session_id(database, session_filter.session)
        session_filter = replace(session_filter, session=session_id)
    if model is not None:
        return await Reprocessing(
            database, settings, session_filter, model, stop, started=started, progress=progress
        ).run()
    backfill = Backfill(database, settings, session_filter, stop, started=started, progress=progress)
    return await (backfill.rehearse() if rehearse else backfill.run())
