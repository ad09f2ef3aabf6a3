"""consolidator db: upgrade, info, verify, reindex."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from consolidator.cli.common import open_configured, run_async, stop_on_signals
from consolidator.cli.output import AsJson, print_json, print_line, print_table, progress_bar, progress_callbacks
from consolidator.errors import DatabaseError, RunFailed
from consolidator.service.database import (
    create_roles,
    describe_database,
    list_seals,
    load_schema_revision,
    read_seals,
    reindex,
    upgrade_engine,
    verify_database,
)

db = typer.Typer(
    help="The database: upgrade it, see where it is, verify its invariants, rebuild its index.", no_args_is_help=True
)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(db, name="db")


@db.command("upgrade")
def upgrade_command() -> None:
    """Upgrade the schema to this version. Every other command does so too by itself."""

    async def work() -> str:
        async with open_configured() as (database, settings):
            await upgrade_engine(database, settings)
            return await load_schema_revision(database)

    print_line(f"the database is at revision {run_async(work())}, the newest")


@db.command("roles")
def roles_command() -> None:
    """Create the roles consolidator_writer and consolidator_reader, as the owner, and grant them what they need."""

    async def work() -> None:
        async with open_configured() as (database, _):
            await create_roles(database)

    run_async(work())
    print_line("consolidator_writer and consolidator_reader are there; make your logins members of them")


@db.command("info")
def info_command(as_json: AsJson = False) -> None:
    """Show where the database is, its version, its size."""

    async def work() -> dict[str, str]:
        async with open_configured() as (database, settings):
            return await describe_database(database, settings)

    description = run_async(work())
    if as_json:
        print_json(description)
    else:
        print_table("database", ("what", "value"), description.items())


@db.command("verify")
def verify_command(
    seals: Annotated[
        Path | None,
        typer.Option("--seals", help="A copy of the seals that you kept elsewhere: each must be in this database."),
    ] = None,
    after: Annotated[
        str, typer.Option(metavar="ID", help="Compare only the sessions after this one with their logs.")
    ] = "",
    sessions: Annotated[
        int | None, typer.Option(min=1, help="Compare at most so many; it says where the next run goes on.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check the invariants on the real rows: seq dense, hash chains unbroken, blobs whole, the ledger balanced."""
    exported = None if seals is None else read_seals(seals)

    async def work() -> dict[str, list[str]]:
        async with open_configured() as (database, _):
            return await verify_database(database, exported_seals=exported, after=after, limit=sessions)

    violations = run_async(work())
    if as_json:
        print_json(violations)
    else:
        print_table(
            "invariants",
            ("invariant", "holds"),
            ((invariant, "; ".join(cases[:5]) or "yes") for invariant, cases in violations.items()),
        )
    broken = [invariant for invariant, cases in violations.items() if cases]
    if broken:
        raise DatabaseError(f"broken: {', '.join(broken)}")


@db.command("seals")
def seals_command(as_json: AsJson = False) -> None:
    """List the seals that the nights put on the log. A copy kept elsewhere (--json) shows later if the log changed."""

    async def work() -> list[dict[str, Any]]:
        async with open_configured() as (database, _):
            return await list_seals(database)

    seals = run_async(work())
    if as_json:
        print_json(seals)
    else:
        rows = ((seal["number"], seal["sealed_at"], seal["run_id"], seal["sessions"], seal["root"]) for seal in seals)
        print_table("seals", ("number", "sealed at", "run", "sessions", "root"), rows)


@db.command("reindex")
def reindex_command(
    vectors: Annotated[
        bool, typer.Option("--vectors", help="Also recompute all vectors with the embedding model.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Rebuild recall's index from the turns and facts that are kept. If interrupted, the same command resumes it."""

    async def work() -> dict[str, Any]:
        stop = stop_on_signals()
        async with open_configured() as (database, settings):
            with progress_bar("indexing") as bar:
                return await reindex(database, settings, stop, vectors=vectors, **progress_callbacks(bar))

    report = run_async(work())
    if as_json:
        print_json(report)
    else:
        print_line(f"indexed: {report['turns']:,} turns and {report['facts']:,} facts", style="bold")
        if "vectors" in report:
            print_line(f"vectors: {report['vectors']}")
    if report["status"] == "failed":
        raise RunFailed(f"run {report['run']} gave up some units: `consolidator runs show {report['run']}`")
