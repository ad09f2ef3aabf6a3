"""consolidator export, mirror and erase: sessions written to files, or removed for good."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from consolidator.cli.common import open_configured, parse_path, run, run_async, run_configured
from consolidator.cli.output import (
    confirm,
    emit,
    pluralize,
    print_line,
    print_note,
    print_warning,
    replace_file,
    shorten,
    table,
)
from consolidator.cli.streams import write_text
from consolidator.errors import DatabaseError, UsageError
from consolidator.hooks.client import stop_service
from consolidator.service.clients.rules_file import list_rule_files
from consolidator.service.clients.user_service import plan_removal
from consolidator.service.database import Database
from consolidator.service.log.erasure import (
    describe_everything,
    erase_everything,
    erase_sessions,
    list_erasures,
    plan_erasure,
)
from consolidator.service.log.export import export_sessions, find_writer
from consolidator.service.log.mirror import Mirror
from consolidator.service.sessions.bundles import stream_bundle
from consolidator.settings import load_settings

_MAX_LINES = 20  # of lost values that are named


def export_command(
    format_name: Annotated[
        str, typer.Argument(metavar="FORMAT|SESSION", help="consolidator, claw0 or harness; with --bundle a session.")
    ] = "consolidator",
    session: Annotated[list[str] | None, typer.Option(help="Only these sessions (id or its beginning).")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", parser=parse_path, help="Write to this file, whole or not at all.")
    ] = None,
    as_bundle: Annotated[
        bool, typer.Option("--bundle", help="One session with all that belongs to it, under one checksum.")
    ] = False,
    exact: Annotated[bool, typer.Option("--exact", help="Byte for byte, credentials not hidden.")] = False,
) -> None:
    """Export sessions. Importing the export and exporting again gives the same bytes."""

    if as_bundle:
        names = [*(session or []), *([] if format_name == "consolidator" else [format_name])]
        if len(names) != 1:
            raise UsageError("a bundle is of one session: consolidator export SESSION --bundle")
    else:
        find_writer(format_name)  # an unknown format must not touch the output file

    async def work(write: Callable[[str], Any]) -> list[str]:
        async with open_configured() as (database, _):
            if as_bundle:
                lost: list[str] = []
                async for line in stream_bundle(database, names[0], exact=exact, lost=lost):
                    write(line)
                return lost
            return await export_sessions(database, format_name, write, session_names=session or [], redacted=not exact)

    if output is None:
        lost = run_async(work(write_text))
    else:
        with replace_file(output) as file:
            lost = run_async(work(file.write))
    for problem in lost[1:_MAX_LINES]:
        print_warning(problem)
    if lost:
        raise DatabaseError(
            f"{pluralize(len(lost), 'event')} was exported with a note in place of what is lost, the rest as it is: "
            f"{lost[0]}; restore it from a backup, `consolidator db verify` lists all such events"
        )


def mirror_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", parser=parse_path, help="Where the files are kept.")],
    once: Annotated[bool, typer.Option("--once", help="Write what is new, and end.")] = False,
) -> None:
    """Keep a file of each session in DIR, in claw0's layout: `tail -f` follows one. The log stays the truth."""

    async def keep(database: Database) -> None:
        with Mirror(database, folder).open() as mirror:
            await mirror.update()
            if not once:
                print_note(f"{folder} is kept up to date; Ctrl-C ends this")
                await mirror.follow(1.0)

    run(keep)


_REFUSAL = "nothing was erased"
_TABLE = table("erasures", "erased=erased_at, session=session_id, >events, >derived, reason")


def erase_command(
    *,
    session: Annotated[str | None, typer.Option(help="Erase this session and its descendants.")] = None,
    peer: Annotated[str | None, typer.Option(help="Erase every session with this peer.")] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Delete the embedded database and all other files of consolidator.")
    ] = False,
    reason: Annotated[str, typer.Option(help="Why, for the record.")] = "asked to",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    log: Annotated[bool, typer.Option("--log", help="Erase nothing: list what was erased, when and why.")] = False,
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
        emit(run(list_erasures), _TABLE)
        return
    if (session is None) == (peer is None) or "" in (session, peer):
        raise UsageError("name either --session or --peer")

    plan = run(plan_erasure, session=session, peer=peer)
    if not yes:  # asked outside of an event loop, which would not end before the question is answered
        for each in plan.sessions[:20]:
            print_note(f"{each.id}  {each.kind:<9} {each.events:>7} events  {shorten(each.origin, 80)}")
        count = f"{pluralize(len(plan.sessions), 'session')} with {pluralize(plan.events, 'event')}"
        confirm(f"Erase {count}, for good?", _REFUSAL)
    report = run_configured(erase_sessions, plan, reason=reason)
    emit(report, _print_report)


def _print_report(report: dict[str, Any]) -> None:
    erased = f"{pluralize(report['events'], 'event')} of {pluralize(report['sessions'], 'session')}"
    print_line(f"erased {erased}, and what was derived from them")
    if report["store_items"]:
        print_line(f"and {pluralize(report['store_items'], 'item')} that programs kept under this name")


def _erase_everything(*, is_agreed: bool) -> None:
    """Show what goes, ask, and delete it."""
    stop_service(load_settings().home)
    everything = run_configured(describe_everything)
    size = f"{pluralize(everything.sessions, 'session')} with {pluralize(everything.events, 'event')}"
    print_note(f"{size}, and all that was learned from them")
    print_note(
        f"the database in {everything.data}, and the rest of {everything.home}: token, hook service, backups of files"
    )
    if everything.config is not None:
        print_note(f"the settings in {everything.config}")
    for path in list_rule_files(load_settings()):
        print_note(f"(the rules in {path} stay: `consolidator rules --write {path} --remove` takes them out, now)")
    service = plan_removal()
    if service.is_change:  # it would start again with an empty database
        print_note(
            f"(the service in {service.path} stays: `consolidator uninstall --service` takes it back, also later)"
        )
    if not is_agreed:
        confirm("Delete all of this, for good?", _REFUSAL)
    left = run_configured(erase_everything)
    print_line(f"deleted; nothing of consolidator is left in {everything.home}")
    if left:
        print_note(f"what is no part of consolidator stays there: {', '.join(path.name for path in left)}")
    print_note("agents' settings are not part of it: `consolidator uninstall` takes our part out of them")
