"""consolidator fork: a new session that leaves another one at a message."""

from __future__ import annotations

from typing import Annotated

import typer

from consolidator.cli.agents.child_options import ChildOptions, print_child, takes_child_options
from consolidator.cli.common import SessionName, open_configured, run_async
from consolidator.cli.output import AsJson
from consolidator.models.session import SessionRow
from consolidator.service.log.sessions import find_session_id
from consolidator.service.sessions.forks import fork_session


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("fork")(fork_command)


@takes_child_options
def fork_command(
    session: SessionName,
    *,
    at: Annotated[
        int | None,
        typer.Option(help="The last event (seq) before its own; by default the latest at which nothing is open."),
    ] = None,
    options: ChildOptions,
    as_json: AsJson = False,
) -> None:
    """Create a session that reads another one's log up to an event as its own past. The other one is untouched.

    The tools of files and servers are those of what is to drive it: a --tool that is not among them is refused.
    """
    overrides = options.to_overrides()

    async def work() -> SessionRow:
        driver_tools = await options.list_driver_tools()
        async with open_configured() as (database, settings):
            session_id = await find_session_id(database, session)
            return await fork_session(
                database, settings, session_id, at=at, overrides=overrides, is_current=options.current,
                driver_tools=driver_tools,
            )  # fmt: skip

    print_child(run_async(work()), as_json=as_json)
