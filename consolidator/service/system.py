"""The whole installation as its owner sees it: health, database, sources, credentials and settings, without secrets."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from consolidator.database import Database
from consolidator.formats.registry import find_local_logs
from consolidator.llm.choice import choose_model
from consolidator.models.credential import CredentialRow
from consolidator.models.viewer import OWNER, Viewer
from consolidator.service.clients.checks import Check, check_database
from consolidator.service.credentials import list_credentials
from consolidator.service.database import describe_database
from consolidator.settings import SettingOrigin, Settings, config_path, list_settings
from consolidator.store import checks
from consolidator.store.checks import DrivingQueue, LastRun, WaitingWork

JOBS = ("import", "consolidation", "retention", "backfill", "retry")
MAX_COUNTED = 10_000  # of anything: a count that reaches it means so many or more


@dataclass(frozen=True, slots=True)
class ServiceState:
    """What is watched from outside, as of now."""

    runs: list[LastRun]
    queue: DrivingQueue
    queue_age_seconds: float  # of the session in the queue that was quiet for longest; 0 where it is empty
    waiting: WaitingWork


async def load_service_state(database: Database, *, viewer: Viewer = OWNER) -> ServiceState:
    """Return the state of the service. Raises Forbidden for a viewer who may not read, or not everything."""
    viewer.check_reads_all()
    now = database.clock.now()
    async with database.connection() as conn:
        queue = await checks.load_queue(conn, now=now, limit=MAX_COUNTED)
        return ServiceState(
            runs=await checks.load_last_runs(conn, JOBS),
            queue=queue,
            queue_age_seconds=0.0 if queue.since is None else max(0.0, (now - queue.since).total_seconds()),
            waiting=await checks.load_waiting(conn, limit=MAX_COUNTED),
        )


_HIDDEN = "**********"
_PASSWORD = re.compile(r"(://[^/@\s]*:)[^/@\s]+@")  # of an address


@dataclass(frozen=True, slots=True)
class LogSource:
    """Where sessions are imported from."""

    format: str
    path: str


@dataclass(frozen=True, slots=True)
class SystemState:
    """What there is to see of an installation; no secret is in it."""

    checks: list[Check]
    state: ServiceState
    database: Mapping[str, str]
    sources: list[LogSource]
    are_sources_set: bool  # by a setting; else these are the logs found on this machine
    credentials: list[CredentialRow]
    settings: list[SettingOrigin]  # their values shown as `hide_secrets` does
    settings_file: Path
    has_settings_file: bool


async def load_system(database: Database, settings: Settings, *, viewer: Viewer = OWNER) -> SystemState:
    """Return the state of an installation. Raises Forbidden for anybody but whoever may do everything."""
    viewer.check_may("admin")
    described = await describe_database(database, settings)
    return SystemState(
        checks=await check_database(database, settings),
        state=await load_service_state(database, viewer=viewer),
        database={name: str(hide_secrets(value)) for name, value in described.items()},
        sources=await _list_sources(settings),
        are_sources_set=bool(settings.sources),
        credentials=await list_credentials(database),
        settings=[
            SettingOrigin(row.name, hide_secrets(row.value), row.source, row.place)
            for row in await asyncio.to_thread(list_settings)
        ],
        settings_file=config_path(),
        has_settings_file=config_path().exists(),
    )


async def _list_sources(settings: Settings) -> list[LogSource]:
    if settings.sources:
        named = [source.partition(":") for source in settings.sources]
        return [LogSource(log_format, path) for log_format, _, path in named]
    logs = await asyncio.to_thread(lambda: list(find_local_logs(Path.home(), os.environ)))
    return [LogSource(log_format.NAME, str(path)) for log_format, path in logs]


def describe_model(settings: Settings) -> str:
    """Return which model nights ask, and why this one."""
    return choose_model(settings).description


def hide_secrets(value: Any) -> Any:
    """Return a setting's value without its secrets."""
    if isinstance(value, SecretStr):
        return _HIDDEN
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [hide_secrets(item) for item in value]
    return value if value is None or isinstance(value, int | float) else _PASSWORD.sub(rf"\1{_HIDDEN}@", str(value))
