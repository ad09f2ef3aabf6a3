"""consolidator erase: remove sessions for good, with what was derived from them."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer

from consolidator.cli.common import open_configured, run_async
from consolidator.cli.output import AsJson, Limit, pluralize, print_json, print_line, print_note, print_table, shorten
from consolidator.errors import Interrupted, UsageError
from consolidator.hooks.client import stop_service
from consolidator.service.clients.rules_file import list_rule_files
from consolidator.service.clients.user_service import plan_removal
from consolidator.service.log.erasure import ErasurePlan, ErasureRow, erase_sessions, list_erasures, plan_erasure
from consolidator.service.log.everything import Everything, describe_everything, erase_everything
from consolidator.settings import load_settings


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("erase")(erase_command)


def erase_command(
    session: Annotated[str | None, typer.Option(help="Erase this session and its descendants.")] = None,
    peer: Annotated[str | None, typer.Option(help="Erase every session with this peer.")] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Delete the whole embedded database and what else is kept here.")
    ] = False,
    reason: Annotated[str, typer.Option(help="Why, for the record.")] = "asked to",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    log: Annotated[bool, typer.Option("--log", help="Erase nothing: list what was erased, when and why.")] = False,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """Erase sessions for good, with what was derived from them. It is logged; importing does not bring them back."""
    if everything:
        if log or session is not None or peer is not None:
            raise UsageError("--all stands alone")
        _erase_everything(is_agreed=yes)
        return
    if log and (session is not None or peer is not None):
        raise UsageError("--log lists what was erased; it cannot be combined with --session or --peer")
    if log:
        _list_erasures(limit, as_json=as_json)
        return
    if (session is None) == (peer is None) or "" in (session, peer):
        raise UsageError("name either --session or --peer")

    async def prepare() -> ErasurePlan:
        async with open_configured() as (database, _):
            return await plan_erasure(database, session=session, peer=peer)

    async def erase() -> dict[str, Any]:
        async with open_configured() as (database, settings):
            return await erase_sessions(database, settings, plan, reason=reason)

    plan = run_async(prepare())
    if not yes:
        _confirm(plan)  # outside of an event loop, which would not end before the question is answered
    report = run_async(erase())
    if as_json:
        print_json(report)
    else:
        print_line(f"erased {report['events']} events of {report['sessions']} sessions, and what was derived from them")
        if report["store_items"]:
            print_line(f"and {report['store_items']} items that programs kept under this name")


def _erase_everything(*, is_agreed: bool) -> None:
    """Show what goes, ask, and delete it."""
    stop_service(load_settings().home)

    async def prepare() -> Everything:
        async with open_configured() as (database, settings):
            return await describe_everything(database, settings)

    async def erase() -> list[Path]:
        async with open_configured() as (database, settings):
            return await erase_everything(database, settings)

    found = run_async(prepare())
    size = f"{pluralize(found.sessions, 'session')} with {pluralize(found.events, 'event')}"
    print_note(f"{size}, and all that was learned from them")
    print_note(f"the database in {found.data}, and the rest of {found.home}: token, hook service, backups of files")
    if found.config is not None:
        print_note(f"the settings in {found.config}")
    for path in list_rule_files(load_settings()):
        print_note(f"(the rules in {path} stay: `consolidator rules write {path} --remove` takes them out, now)")
    service = plan_removal()
    if service.is_change:  # it would start again with an empty database
        print_note(
            f"(the service in {service.path} stays: `consolidator uninstall --service` takes it back, also later)"
        )
    if not is_agreed:
        _ask("Delete all of this, for good?")
    left = run_async(erase())
    print_line(f"deleted; nothing of consolidator is left in {found.home}")
    if left:
        print_note(f"what is no part of consolidator stays there: {', '.join(path.name for path in left)}")
    print_note("agents' settings are not part of it: `consolidator uninstall` takes our part out of them")


def _list_erasures(limit: int, *, as_json: bool) -> None:
    async def work() -> list[ErasureRow]:
        async with open_configured() as (database, _):
            return await list_erasures(database, limit=limit)

    erasures = run_async(work())
    if as_json:
        print_json(erasures)
        return
    print_table(
        "erasures",
        ("erased", "session", "events", "derived", "reason"),
        ((row.erased_at, row.session_id, row.events, row.derived, row.reason) for row in erasures),
        right=("events", "derived"),
    )


def _confirm(plan: ErasurePlan) -> None:
    """Show sessions and ask whether to erase them; raise Interrupted if the answer is no or there is none."""
    for session in plan.sessions[:20]:
        print_note(f"{session.id}  {session.kind:<9} {session.events:>7} events  {shorten(session.origin, 80)}")
    _ask(f"Erase {pluralize(len(plan.sessions), 'session')} with {pluralize(plan.events, 'event')}, for good?")


def _ask(question: str) -> None:
    """Ask on stderr; raise Interrupted if the answer is no or there is none."""
    if not sys.stdin.isatty():
        raise UsageError("a person has to confirm this: run it on a terminal, or say --yes")
    try:
        with redirect_stdout(sys.stderr):  # typer's `err` prints the last character to stdout
            confirmed = typer.confirm(question)
    except typer.Abort:
        print_note("")  # ends the question's line
        confirmed = False
    if not confirmed:
        raise Interrupted("nothing was erased")
