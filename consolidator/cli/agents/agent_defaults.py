"""consolidator agent: the defaults of agents' sessions, and the history of their versions."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from consolidator.cli.common import open_configured, parse_path, parse_span, run_async
from consolidator.cli.output import AsJson, Limit, print_json, print_line, print_table, sanitize, shorten
from consolidator.errors import UsageError
from consolidator.models.agent import AgentRow, AgentVersionRow
from consolidator.service.agents.context import STRATEGIES
from consolidator.service.amounts import parse_amount
from consolidator.service.sessions.agents import (
    FIELDS,
    change_agent,
    delete_agent,
    get_agent,
    list_agent_versions,
    list_agents,
)

agents_app = typer.Typer(no_args_is_help=True)
Name = Annotated[str, typer.Argument(metavar="NAME", help="An agent's name, the first part of its sessions' keys.")]
SessionTtl = Annotated[str | None, typer.Option(help="A session ends so long after a person's last message, as 7d.")]
CheckpointTtl = Annotated[str | None, typer.Option(help="A checkpoint is kept so long, such as 24h.")]
Tools = Annotated[list[str] | None, typer.Option("--tool", metavar="NAME", help="The only tools it may use; repeat.")]
Parameters = Annotated[
    list[str] | None, typer.Option("--parameter", metavar="NAME=VALUE", help="Of the prompt's template; repeat.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(agents_app, name="agent", help="Agents: the defaults of their sessions, with every earlier version.")


@agents_app.command("set")
def set_command(
    name: Name,
    model: Annotated[
        str | None, typer.Option(help="A model's name, or `auto`: a policy chooses, turn by turn.")
    ] = None,
    system: Annotated[str | None, typer.Option(help="The system prompt.")] = None,
    template: Annotated[
        str | None, typer.Option(metavar="FILE", help="A template of the system prompt, with $name for parameters.")
    ] = None,
    parameter: Parameters = None,
    tool: Tools = None,
    max_cost: Annotated[float | None, typer.Option(min=0, help="Cap on the cost of one session, in USD.")] = None,
    max_steps: Annotated[int | None, typer.Option(min=1, help="Answers of the model in one turn.")] = None,
    answer_tokens: Annotated[int | None, typer.Option(min=1, help="Tokens of one answer.")] = None,
    strategy: Annotated[str | None, typer.Option(help=f"Of its contexts: {', '.join(STRATEGIES)}.")] = None,
    budget: Annotated[int | None, typer.Option(min=1, help="Tokens of its contexts.")] = None,
    last: Annotated[int | None, typer.Option(min=1, help="Events of a context by the strategy window.")] = None,
    compaction_threshold: Annotated[
        float | None, typer.Option(help="Share of the budget above which a session is compacted, 0.1 to 1.")
    ] = None,
    session_ttl: SessionTtl = None,
    checkpoint_ttl: CheckpointTtl = None,
    retention_days: Annotated[int | None, typer.Option(min=1, help="How long learned events are kept.")] = None,
    unset: Annotated[list[str] | None, typer.Option(metavar="OPTION", help="Leave it to the settings; repeat.")] = None,
    as_json: AsJson = False,
) -> None:
    """Set defaults of an agent's sessions. New sessions take them; what differs is a new version."""
    values = {
        "model": model,
        "system_prompt": system,
        "template": None if template is None else read_template(template),
        "parameters": parse_parameters(parameter),
        "tools": None if tool is None else tuple(tool),
        "max_cost": None if max_cost is None else parse_amount(max_cost),
        "max_steps": max_steps,
        "answer_tokens": answer_tokens,
        "strategy": strategy,
        "budget": budget,
        "last": last,
        "compaction_threshold": compaction_threshold,
        "session_ttl_seconds": parse_seconds(session_ttl),
        "checkpoint_ttl_seconds": parse_seconds(checkpoint_ttl),
        "retention_days": retention_days,
    }
    changes: dict[str, Any] = {column: value for column, value in values.items() if value is not None}
    changes |= dict.fromkeys(_column_of(option) for option in unset or ())

    async def work() -> AgentRow:
        async with open_configured() as (database, _):
            return await change_agent(database, name, changes)

    agent = run_async(work())
    if as_json:
        print_json(agent)
        return
    print_line(f"agent {agent.name}, version {agent.version}")


@agents_app.command("list")
def list_command(limit: Limit = 100, as_json: AsJson = False) -> None:
    """List the agents that have defaults."""

    async def work() -> list[AgentRow]:
        async with open_configured() as (database, _):
            return await list_agents(database, limit=limit)

    agents = run_async(work())
    if as_json:
        print_json(agents)
        return
    columns = ("agent", "version", "model", "prompt", "retention days", "changed")
    cells = (
        (
            agent.name,
            agent.version,
            agent.model,
            shorten(agent.template or agent.system_prompt, 40),
            agent.retention_days,
            agent.updated_at,
        )
        for agent in agents
    )
    print_table("agents", columns, cells, right=("version", "retention days"))


@agents_app.command("show")
def show_command(
    name: Name,
    history: Annotated[bool, typer.Option("--history", help="List its versions instead.")] = False,
    limit: Limit = 20,
    as_json: AsJson = False,
) -> None:
    """Show an agent's defaults, or all versions that they had."""
    if history:
        _show_history(name, limit, as_json=as_json)
        return

    async def work() -> AgentRow:
        async with open_configured() as (database, _):
            return await get_agent(database, name)

    agent = run_async(work())
    if as_json:
        print_json(agent)
        return
    print_line(f"agent {agent.name}, version {agent.version} of {sanitize(agent.updated_at)}", style="bold")
    for column, value in asdict(agent).items():
        if column in FIELDS and value not in (None, {}, []):
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
            print_line(f"{column}: {text}")


def _show_history(name: str, limit: int, *, as_json: bool) -> None:
    async def work() -> list[AgentVersionRow]:
        async with open_configured() as (database, _):
            return await list_agent_versions(database, name, limit=limit)

    versions = run_async(work())
    if as_json:
        print_json(versions)
        return
    print_table(
        f"versions of {name}",
        ("version", "at", "by", "template", "defaults"),
        (
            (
                version.version,
                version.created_at,
                version.changed_by,
                version.definition.get("template_version"),
                shorten(_describe(version.definition), 80),
            )
            for version in versions
        ),
        right=("version", "template"),
    )


@agents_app.command("delete")
def delete_command(name: Name) -> None:
    """Delete an agent's defaults. Its sessions stay, and so does the history of its versions."""

    async def work() -> None:
        async with open_configured() as (database, _):
            await delete_agent(database, name)

    run_async(work())
    print_line(f"deleted the defaults of {name}; its sessions and their log stay")


def read_template(name: str) -> str:
    """Return a template's text. Raises UsageError for a file that cannot be read."""
    path: Path = parse_path(name)
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise UsageError(f"cannot read the template {path}: {reason}") from error


def parse_parameters(texts: list[str] | None) -> dict[str, str] | None:
    """Parse parameters such as "name=Ada"; None where there are none. Raises UsageError for anything else."""
    if texts is None:
        return None
    parameters: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"{text!r} is no parameter: NAME=VALUE")
        parameters[name] = value
    return parameters


def parse_seconds(span: str | None) -> int | None:
    """Parse a time to live such as "7d" into seconds."""
    return None if span is None else int(parse_span(span).total_seconds())


def _column_of(option: str) -> str:
    """Return the column that an option sets, such as `session-ttl`. Raises UsageError for an unknown one."""
    name = option.strip("-").replace("-", "_")
    columns = {
        "system": "system_prompt",
        "tool": "tools",
        "parameter": "parameters",
        "session_ttl": "session_ttl_seconds",
    }
    columns["checkpoint_ttl"] = "checkpoint_ttl_seconds"
    column = columns.get(name, name)
    if column not in FIELDS:
        raise UsageError(f"`agent set` has no option --{option.strip('-')} that could be unset")
    return column


def _describe(definition: dict[str, Any]) -> str:
    if not definition:
        return "deleted"
    named = {name: value for name, value in definition.items() if value not in (None, {}, 0)}
    return ", ".join(f"{name}={value}" for name, value in named.items() if name != "template_version")
