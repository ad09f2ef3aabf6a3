"""consolidator db and token: the database, and credentials of other programs."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from consolidator.cli.common import OwnerOptions, parse_path, parse_span, run, run_configured
from consolidator.cli.output import emit, print_note, print_table, progress_bar, table
from consolidator.cli.streams import is_json
from consolidator.errors import DatabaseError
from consolidator.service.credentials import create_credential, list_credentials, revoke_credential
from consolidator.service.database import (
    Database,
    back_up_database,
    create_roles,
    describe_database,
    list_seals,
    load_schema_revision,
    read_seals,
    restore_database,
    upgrade_engine,
    verify_database,
)
from consolidator.settings import Settings

_BackupFile = Annotated[Path, typer.Argument(metavar="FILE", parser=parse_path, help="The backup.")]
_SEALS = table("seals", "number, sealed at, run=run_id, sessions, root")


def upgrade_command(
    roles: Annotated[
        bool,
        typer.Option(
            "--roles",
            help="As the owner, create the roles consolidator_writer and consolidator_reader and grant them what they "
            "need.",
        ),
    ] = False,
) -> None:
    """Upgrade the schema to this version. Every other command does so too by itself."""

    async def upgrade(database: Database, settings: Settings) -> str:
        await upgrade_engine(database, settings)
        return await load_schema_revision(database)

    if roles:
        run(create_roles)
        names = ["consolidator_writer", "consolidator_reader"]
        emit({"roles": names}, f"{' and '.join(names)} are there; make your logins members of them")
    else:
        revision = run_configured(upgrade)
        emit({"revision": revision}, f"the database is at revision {revision}, the newest")


def info_command(
    seals: Annotated[
        bool,
        typer.Option(
            "--seals",
            help="List the seals that the nights put on the log. A copy kept elsewhere (--json) shows later if the log "
            "changed.",
        ),
    ] = False,
) -> None:
    """Show where the database is, its version, its size."""
    if seals:
        emit(run(list_seals), _SEALS)
        return
    emit(run_configured(describe_database), lambda shown: print_table("database", ("what", "value"), shown.items()))


def verify_command(
    seals: Annotated[
        Path | None,
        typer.Option("--seals", help="A copy of the seals that you kept elsewhere: each must be in this database."),
    ] = None,
    after: Annotated[
        str, typer.Option(metavar="ID", help="Compare only the sessions after this one with their logs.")
    ] = "",
    sessions: Annotated[
        int | None,
        typer.Option(min=1, help="Compare at most this many sessions; the output says where the next run goes on."),
    ] = None,
) -> None:
    """Check the invariants on the real rows: seq dense, hash chains unbroken, blobs whole, the ledger balanced."""
    exported = None if seals is None else read_seals(seals)
    violations = run(verify_database, exported_seals=exported, after=after, limit=sessions)
    rows = [(invariant, "; ".join(cases[:5]) or "yes") for invariant, cases in violations.items()]
    emit(violations, lambda _: print_table("invariants", ("invariant", "holds"), rows))
    broken = [invariant for invariant, cases in violations.items() if cases]
    if broken:
        raise DatabaseError(f"broken: {', '.join(broken)}")


def backup_command(file: _BackupFile) -> None:
    """Write the log, memory and ledger as of now into FILE, while everything goes on. FILE must not exist yet.

    The file holds the log's texts unredacted: keep it as safe as the database. Its format is pg_dump's custom one.
    """

    async def back_up(database: Database) -> int:
        with progress_bar("backup"):
            return await back_up_database(database, file)

    size = run(back_up)
    emit({"bytes": size}, f"wrote {size:,} bytes to {file}; `consolidator db restore` reads it")


def restore_command(file: _BackupFile) -> None:
    """Restore a backup into a database that holds nothing yet, all or nothing, and upgrade it to this version."""

    async def restore(database: Database) -> dict[str, str]:
        with progress_bar("restore"):
            return await restore_database(database, file)

    sizes = run(restore)
    emit(
        sizes,
        f"restored {sizes['events']} events of {sizes['sessions']} sessions; `consolidator db verify` checks them",
    )


Name = Annotated[str, typer.Argument(metavar="NAME", help="A credential's name.")]
_TABLE = table(
    "tokens",
    "name, scopes, agent, project, peer, status, created=created_at, expires=expires_at",
    scopes=lambda row: ", ".join(row["scopes"]),
)


def create_command(
    name: Name,
    *,
    scope: Annotated[
        list[str],
        typer.Option(
            help="read: ask memory, read sessions; record: log what its agent did; write: act for people in sessions; "
            "admin: run nights, erase, keep credentials. Repeatable."
        ),
    ],
    owner: OwnerOptions,
    expires: Annotated[str | None, typer.Option(help="For how long it is valid, such as 30d. Else for good.")] = None,
) -> None:
    """Create a credential and print its token, once: only its SHA-256 is kept."""
    expires_in = None if expires is None else parse_span(expires)
    token = run(create_credential, name, scope, expires_in=expires_in, **owner.values())
    emit({"name": name, "token": token}, token)
    if not is_json():
        print_note("it is not shown again; send it as `Authorization: Bearer TOKEN`")


def list_command() -> None:
    """List the credentials, also those that are revoked or have expired."""

    async def load(database: Database) -> list[dict[str, Any]]:
        now: datetime = database.clock.now()
        return [{**asdict(row), "status": row.status(now)} for row in await list_credentials(database)]

    emit(run(load), _TABLE)


def revoke_command(name: Name) -> None:
    """Revoke a credential: its next request is refused."""
    run(revoke_credential, name)
    emit({"revoked": name}, f"revoked {name}")
