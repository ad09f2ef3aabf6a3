"""consolidator token: credentials of other programs, with their scopes."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any

import typer

from consolidator.cli.common import parse_span, run
from consolidator.cli.options import OwnerOptions
from consolidator.cli.output import emit, print_note, table
from consolidator.cli.streams import is_json
from consolidator.service.credentials import create_credential, list_credentials, revoke_credential
from consolidator.service.database import Database
from consolidator.settings import Settings

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
    token = run(lambda database, _: create_credential(database, name, scope, expires_in=expires_in, **owner.values()))
    emit({"name": name, "token": token}, token)
    if not is_json():
        print_note("it is not shown again; send it as `Authorization: Bearer TOKEN`")


def list_command() -> None:
    """List the credentials, also those that are revoked or have expired."""

    async def load(database: Database, _: Settings) -> list[dict[str, Any]]:
        now: datetime = database.clock.now()
        return [{**asdict(row), "status": row.status(now)} for row in await list_credentials(database)]

    emit(run(load), _TABLE)


def revoke_command(name: Name) -> None:
    """Revoke a credential: its next request is refused."""
    run(lambda database, _: revoke_credential(database, name))
    emit({"revoked": name}, f"revoked {name}")
