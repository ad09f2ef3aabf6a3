"""consolidator db: upgrade, info, verify, reindex."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from consolidator.cli.common import opened, run, stop_on_signals
from consolidator.cli.output import AsJson, emit, progress, say, short, table
from consolidator.database import partitions, upgrade
from consolidator.errors import DatabaseError, RunFailed
from consolidator.jobs.indexing.reindex import Reindexing
from consolidator.store import checks

db = typer.Typer(
    help="The database: upgrade it, see where it is, verify its invariants, index anew.", no_args_is_help=True
)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(db, name="db")


@db.command("upgrade")
def upgrade_command() -> None:
    """Bring the schema to this version. Every other command does so too by itself."""

    async def work() -> str:
        async with opened() as (database, _):
            return str(await upgrade.revision(database.dsn))

    say(f"the database is at revision {run(work())}, the newest")


@db.command()
def info(as_json: AsJson = False) -> None:
    """Show where the database is, its version, its size."""

    async def work() -> dict[str, str]:
        async with opened() as (database, settings):
            found = {"kind": "embedded" if database.server else "given by CONSOLIDATOR_DATABASE_URL"}
            if database.server:
                found |= {"home": str(settings.home), **database.server.info()}
            async with database.connection() as conn:
                found["schema revision"] = str(await upgrade.revision(database.dsn))
                found["partitions"] = str(len(await partitions.listing(conn)))
                return found | await checks.sizes(conn)

    found = run(work())
    if as_json:
        emit(found)
    else:
        table("database", ("what", "value"), found.items())


@db.command()
def verify(as_json: AsJson = False) -> None:
    """Check the invariants on the real rows: seq dense, blobs whole, the ledger balanced, the schema without drift."""

    async def work() -> dict[str, list[str]]:
        async with opened() as (database, _):
            async with database.connection() as conn:
                found = await checks.verify(conn)
            return found | {"schema matches this version": await upgrade.drift(database.dsn)}

    found = run(work())
    if as_json:
        emit(found)
    else:
        table("invariants", ("invariant", "holds"), ((k, "; ".join(v[:5]) if v else "yes") for k, v in found.items()))
    broken = [name for name, cases in found.items() if cases]
    if broken:
        raise DatabaseError(f"broken: {', '.join(broken)}")


@db.command()
def reindex(
    vectors: Annotated[bool, typer.Option("--vectors", help="Make all vectors anew, too; asks their model.")] = False,
    as_json: AsJson = False,
) -> None:
    """Build recall's index anew from the turns and facts kept. Interrupted, the same command goes on where it was."""

    async def work() -> dict[str, Any]:
        stop = stop_on_signals()
        async with opened() as (database, settings):
            with progress("indexing") as bar:
                task = bar.task_ids[0]
                job = Reindexing(
                    database, settings, vectors, stop,
                    started=lambda count: bar.update(task, total=count),
                    progress=lambda name: bar.update(task, advance=1, description=short(name, 30)),
                )  # fmt: skip
                return await job.run()

    done = run(work())
    if as_json:
        emit(done)
    else:
        say(f"indexed: {done['turns']:,} turns and {done['facts']:,} facts", style="bold")
        if "vectors" in done:
            say(f"vectors: {done['vectors']}")
    if done["status"] == "failed":
        raise RunFailed(f"run {done['run']} gave up some units: `consolidator runs show {done['run']}`")
