"""consolidator token: credentials of other programs, with their scopes."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Annotated

import typer

from consolidator.cli.common import open_configured, parse_span, run_async
from consolidator.cli.output import AsJson, print_json, print_line, print_note, print_table
from consolidator.models.credential import CredentialRow
from consolidator.service.credentials import create_credential, list_credentials, revoke_credential

tokens_app = typer.Typer(no_args_is_help=True)
Name = Annotated[str, typer.Argument(metavar="NAME", help="A credential's name.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(tokens_app, name="token", help="Tokens for other programs: what each may do, and for whom.")


@tokens_app.command("create")
def create_command(
    name: Name,
    scope: Annotated[
        list[str],
        typer.Option(
            help="read: ask memory, read sessions; record: log what its agent did; write: act for people in sessions; "
            "admin: run nights, erase, keep credentials. Repeatable."
        ),
    ],
    agent: Annotated[str | None, typer.Option(help="Only this agent's memory and sessions.")] = None,
    project: Annotated[str | None, typer.Option(help="Only this project's.")] = None,
    peer: Annotated[str | None, typer.Option(help="Only this person's.")] = None,
    expires: Annotated[str | None, typer.Option(help="For how long it is valid, such as 30d. Else for good.")] = None,
    as_json: AsJson = False,
) -> None:
    """Create a credential and print its token, once: only its SHA-256 is kept."""

    expires_in = None if expires is None else parse_span(expires)

    async def work() -> str:
        async with open_configured() as (database, _):
            return await create_credential(
                database, name, scope, agent=agent, project=project, peer=peer, expires_in=expires_in
            )

    token = run_async(work())
    if as_json:
        print_json({"name": name, "token": token})
        return
    print_line(token)
    print_note("it is not shown again; send it as `Authorization: Bearer TOKEN`")


@tokens_app.command("list")
def list_command(as_json: AsJson = False) -> None:
    """List the credentials, also those that are revoked or have expired."""

    async def work() -> tuple[list[CredentialRow], datetime]:
        async with open_configured() as (database, _):
            return await list_credentials(database), database.clock.now()

    rows, now = run_async(work())
    if as_json:
        print_json([{**asdict(row), "status": row.status(now)} for row in rows])
        return
    columns = ("name", "scopes", "agent", "project", "peer", "status", "created", "expires")
    cells = (
        (
            *(row.name, ", ".join(row.scopes), row.agent, row.project, row.peer),
            *(row.status(now), row.created_at, row.expires_at),
        )
        for row in rows
    )
    print_table("tokens", columns, cells)


@tokens_app.command("revoke")
def revoke_command(name: Name) -> None:
    """Revoke a credential: its next request is refused."""

    async def work() -> None:
        async with open_configured() as (database, _):
            await revoke_credential(database, name)

    run_async(work())
    print_line(f"revoked {name}")
