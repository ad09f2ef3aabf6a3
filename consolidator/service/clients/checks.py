"""Checks that what `install` set up works, and of what runs: the database, the last night, dead letters, `serve`."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import inf
from pathlib import Path

from consolidator.database import Database
from consolidator.errors import UsageError
from consolidator.formats.common.drafts import object_of
from consolidator.jobs.engine import describe_engine
from consolidator.llm.choice import choose_model
from consolidator.service.address import find_service, read_json
from consolidator.service.clients import changes
from consolidator.service.clients.hooks_text import has_hooks, hook_command
from consolidator.service.clients.installation import PROGRAMS, Place
from consolidator.service.clients.registry import CLIENTS, Hook
from consolidator.service.clients.servers_text import INSTALL_MCP, is_mcp_installed
from consolidator.service.nights import receivers
from consolidator.settings import Settings
from consolidator.store.nights import runs

HOOK_SECONDS = 5
_UNIT_DAYS = {"h": 1 / 24, "d": 1, "w": 7, "m": 30}


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that has to be so."""

    name: str
    passed: bool
    found: str
    advice: str = ""
    at: datetime | None = None  # when what was found was so; `found` says it, too


def run_checks(settings: Settings, places: Sequence[Place], *, asks_service: bool) -> list[Check]:
    """Return what is checked of the home and of each client's settings, in order.

    `asks_service` says that the hook service runs: a hook asks it then, and starts none.
    """
    checks = [_check_directory(settings)]
    if not places:
        advice = "run `consolidator install claude-code`, or " + ", ".join(list(CLIENTS)[1:])
        checks.append(Check("coding agents", False, "memory is installed in none", advice))
    for place in places:
        checks += _check_settings(place)
        hooks = {hook.moment == "before_call": hook for hook in reversed(place.client.hooks)}  # one of each program
        checks += [_check_program(place, hook, settings.home if asks_service else None) for hook in hooks.values()]
    return checks


def _check_directory(settings: Settings) -> Check:
    directory = settings.home / "hooks"
    if not directory.exists():
        return Check("the socket's directory", True, "not made yet: the first hook makes it")
    status = directory.stat()
    private = status.st_uid == os.geteuid() and not status.st_mode & 0o077
    return Check("the socket's directory", private, str(directory), f"chmod 700 {shlex.quote(str(directory))}")


def _check_settings(place: Place) -> list[Check]:
    client = place.client
    advice = f"run `consolidator install {client.name}`"
    try:
        hooks, servers = (changes.read_text(path) for path in (place.settings, place.servers))
        has_all_hooks = has_hooks(client, hooks or client.new_hooks_file)
        has_server = servers is not None and client.servers.has(servers, place.project)
        server = Check(f"{client.name}: MCP server", has_server, str(place.servers), advice)
        if not is_mcp_installed():
            server = replace(server, passed=not has_server, advice=INSTALL_MCP)
            server = server if has_server else replace(server, found=f"not registered: it needs {INSTALL_MCP}")
        return [
            *_check_retention(client.name, hooks, changes.read_text(replace(place, project=None).settings)),
            Check(f"{client.name}: hooks", has_all_hooks, str(place.settings), advice),
            server,
        ]
    except UsageError as error:
        return [Check("settings", False, str(error), "put the file right, then run install again")]


def _check_retention(name: str, *texts: str | None) -> list[Check]:
    """Warn of an agent that deletes its logs sooner than a night that was missed is made up for.

    `texts` are its settings, those that count more first.
    """
    kept_for = next(filter(None, (_read_retention(name, text) for text in texts)), None)
    if kept_for is None or kept_for[1] > NIGHT_AGE / timedelta(days=1):
        return []
    reason = f"{kept_for[0]}: logs may be deleted before they are imported"
    return [Check(f"{name}: logs", False, reason, "set it to 7 days or more, or remove it")]


def _read_retention(name: str, text: str | None) -> tuple[str, float] | None:
    """Return what settings say of how long logs are kept, and the days; None where they say nothing."""
    try:
        settings = object_of(json.loads(text or "{}"))
    except ValueError:
        return None
    if name == "claude-code":
        days = settings.get("cleanupPeriodDays")
        return (f"cleanupPeriodDays is {days}", days) if isinstance(days, (int, float)) else None
    retention = object_of(object_of(settings.get("general")).get("sessionRetention")) if name == "gemini" else {}
    age = re.fullmatch(r"(\d{1,6})([hdwm])", str(retention.get("maxAge")))
    if age is None and retention.get("enabled") is not False:
        return None
    days = int(age[1]) * _UNIT_DAYS[age[2]] if age and retention.get("enabled") is not False else inf
    return f"sessionRetention.maxAge is {retention.get('maxAge')}", days


def _check_program(place: Place, hook: Hook, home: Path | None) -> Check:
    """Run the hook as the agent would, with a payload that nothing is to be said about and that counts for nothing.

    Without the home of a service that runs it gets a path that is none, so that a check starts nothing.
    """
    payload = {
        "session_id": "doctor",
        "transcript_path": "",
        "cwd": str(Path(place.home) / "consolidator-doctor"),
        "hook_event_name": "doctor",  # of no hook: the service reads it, and is silent
        "source": "startup",
    }
    data_home = os.devnull if home is None else str(home.absolute())  # which is no directory
    command = hook_command(hook, sys.executable, PROGRAMS, data_home, place.client.name)
    name = "hook before calls" if hook.moment == "before_call" else "hook program"
    try:
        done = subprocess.run(
            command,
            input=json.dumps(payload).encode(),
            capture_output=True,
            timeout=HOOK_SECONDS,
            check=False,
            env={**os.environ, "CLAUDE_PROJECT_DIR": payload["cwd"]},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Check(name, False, str(error), "reinstall consolidator, then run install again")
    passed = done.returncode == 0 and not done.stdout and not done.stderr
    quiet = "ends with 0 and is silent" + (", run by itself: no service was asked" if home is None else "")
    return Check(name, passed, quiet if passed else "it says something", "see the log")


NIGHT_AGE = timedelta(hours=36)  # of the last consolidation, after which something is wrong


async def check_model(database: Database, settings: Settings) -> Check:
    """Say which model nights ask, why this one, and what the last night asked of it and paid."""
    choice = await asyncio.to_thread(choose_model, settings)
    async with database.connection() as conn:
        last = await runs.find_last_ended(conn, "consolidation")
    report = {} if last is None else last.report
    used = None
    if report.get("model") and not isinstance(report["model"], str):
        from consolidator.jobs.nightly import model_line  # it loads all that nights do

        used = model_line(report)
    description = choice.description if used is None else f"{choice.description}; last night {used}"
    is_there = not choice.is_agent or shutil.which(choice.place) is not None
    return Check("model", is_there, description, f"{choice.place} is no program: run `consolidator install` again")


async def check_database(database: Database, settings: Settings) -> list[Check]:
    """Return what is checked of a database: that it answers, its last night and model, and what was set aside."""
    async with database.connection() as conn:
        version = conn.info.server_version
        last = await runs.find_last_ended(conn, "consolidation")
        letters = await runs.list_dead_letters(conn)
    checks = [Check("database", True, f"PostgreSQL {version // 10000}.{version % 10000}")]
    if database.embedded is not None and (orphans := database.embedded.info().get("orphaned clusters")):
        state = f"{orphans}: their homes are gone; remove them unless a volume brings one back"
        checks.append(Check("orphaned clusters", True, state))
    advice = "run `consolidator run consolidation`; `consolidator install --service` runs nights by itself"
    if last is None or last.finished_at is None:
        checks.append(Check("last night", False, "none yet", advice))
    else:
        is_recent = database.clock.now() - last.finished_at < NIGHT_AGE
        state = f"{last.status} at {last.finished_at:%Y-%m-%d %H:%M} UTC"
        failed = "`consolidator runs` says why it failed"
        passed, todo = last.status == "done" and is_recent, failed if is_recent else advice
        checks.append(Check("last night", passed, state, todo, last.finished_at))
    checks.append(await check_model(database, settings))
    state = f"{len(letters)} dead letters" if letters else "nothing was set aside"
    checks.append(Check("dead letters", not letters, state, "`consolidator runs` shows them, `--retry` learns again"))
    return checks


def check_engine(settings: Settings) -> Check:
    """Say what shares nights between processes, and whether it is installed."""
    try:
        return Check("night engine", True, describe_engine(settings))
    except UsageError as error:
        return Check("night engine", False, "DBOS is not installed", str(error))


def check_digest(settings: Settings) -> list[Check]:
    """Check the receivers of the digest without sending anything; nothing where there are none."""
    if not settings.digest_to:
        return []
    wrong = receivers.check_each(settings.digest_to)
    state = "; ".join(wrong) if wrong else f"{len(settings.digest_to)} receivers look right; nothing was sent"
    advice = "put CONSOLIDATOR_DIGEST_TO right; `consolidator learned --send` sends one now"
    return [Check("digest", not wrong, state, advice)]


def check_serve(settings: Settings) -> Check:
    """Ask this home's `serve` for its health; that it does not run is no failure: the hook service does the nights."""
    address = find_service(settings)
    if address is None:
        return Check("serve", True, "not running for this home: the hook service does the nights")
    try:
        state = read_json(f"{address}/healthz")
    except (OSError, ValueError, http.client.HTTPException):
        return Check("serve", True, "not running: the page is served alone, and the hook service does the nights")
    is_ok = isinstance(state, dict) and state.get("status") == "ok"
    why = state.get("failure") or state.get("database") if isinstance(state, dict) else "it answers without a state"
    return Check("serve", is_ok, "running and well" if is_ok else str(why), f"look at {address}/healthz")
