"""consolidator agent: the defaults of agents' sessions, and the history of their versions."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer

from consolidator.cli.agents.options import SessionOptions
from consolidator.cli.common import run
from consolidator.cli.output import Limit, emit, print_line, sanitize, shorten, table
from consolidator.errors import UsageError
from consolidator.models.agent import AgentRow
from consolidator.runtime.session.agent_defaults import FIELDS
from consolidator.service.sessions.agents import change_agent, delete_agent, get_agent, list_agent_versions, list_agents

Name = Annotated[str, typer.Argument(metavar="NAME", help="An agent's name, the first part of its sessions' keys.")]
_COLUMNS = {
    "system": "system_prompt",
    "tool": "tools",
    "parameter": "parameters",
    "session_ttl": "session_ttl_seconds",
    "checkpoint_ttl": "checkpoint_ttl_seconds",
}  # of the options that are called otherwise
_AGENTS = table(
    "agents",
    "agent=name, >version, model, prompt, >retention days, changed=updated_at",
    prompt=lambda agent: shorten(agent.template or agent.system_prompt, 40),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions(SessionOptions):
    """What an agent's sessions are run with."""

    answer_tokens: Annotated[int | None, typer.Option(min=1, help="Tokens of one answer.")] = None
    last: Annotated[int | None, typer.Option(min=1, help="Events of a context by the strategy window.")] = None
    compaction_threshold: Annotated[
        float | None, typer.Option(help="Share of the budget above which a session is compacted, 0.1 to 1.")
    ] = None
    checkpoint_ttl: Annotated[str | None, typer.Option(help="A checkpoint is kept so long, such as 24h.")] = None
    retention_days: Annotated[int | None, typer.Option(min=1, help="How long learned events are kept.")] = None
    tier: Annotated[str | None, typer.Option(help="An agent whose defaults stand where this one has none.")] = None

    def values(self) -> dict[str, Any]:
        """Return the options by the columns that they set. Raises UsageError for what no session could run with."""
        values = SessionOptions.values(self)
        return values | {"system_prompt": values.pop("system")}


def set_command(
    name: Name,
    *,
    options: AgentOptions,
    unset: Annotated[
        list[str] | None,
        typer.Option(metavar="OPTION", help="Remove this default, so that the settings decide; repeat."),
    ] = None,
    delete: Annotated[bool, typer.Option("--delete", help="Delete them all; its sessions and versions stay.")] = False,
) -> None:
    """Set defaults of an agent's sessions. New sessions take them; what differs is a new version."""
    if delete:
        run(delete_agent, name)
        emit({"deleted": name}, f"deleted the defaults of {name}; its sessions and their log stay")
        return
    changes: dict[str, Any] = {column: value for column, value in options.values().items() if value is not None}
    changes |= dict.fromkeys(_column_of(option) for option in unset or ())
    agent = run(change_agent, name, changes)
    emit(agent, f"agent {agent.name}, version {agent.version}")


def show_command(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="An agent's name; else all of them.")] = None,
    history: Annotated[bool, typer.Option("--history", help="List the versions of the defaults instead.")] = False,
    limit: Limit = 100,
) -> None:
    """Show an agent's defaults, or all versions that they had; without a name, list the agents that have defaults."""
    if name is None:
        emit(run(list_agents, limit=limit), _AGENTS)
    elif history:
        versions = table(
            f"versions of {name}",
            ">version, at=created_at, by=changed_by, >template, defaults",
            template=lambda row: row.definition.get("template_version"),
            defaults=lambda row: shorten(_describe(row.definition), 80),
        )
        emit(run(list_agent_versions, name, limit=limit), versions)
    else:
        emit(run(get_agent, name), _print_agent)


def _print_agent(agent: AgentRow) -> None:
    print_line(f"agent {agent.name}, version {agent.version} of {sanitize(agent.updated_at)}", style="bold")
    for column, value in asdict(agent).items():
        if column in FIELDS and value not in (None, {}, []):
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
            print_line(f"{column}: {text}")


def _column_of(option: str) -> str:
    """Return the column that an option sets, such as `session-ttl`. Raises UsageError for an unknown one."""
    name = option.strip("-").replace("-", "_")
    column = _COLUMNS.get(name, name)
    if column not in FIELDS:
        raise UsageError(f"`agent set` has no option --{option.strip('-')} that could be unset")
    return column


def _describe(definition: dict[str, Any]) -> str:
    if not definition:
        return "deleted"
    named = {name: value for name, value in definition.items() if value not in (None, {}, 0)}
    return ", ".join(f"{name}={value}" for name, value in named.items() if name != "template_version")
