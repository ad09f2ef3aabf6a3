"""consolidator agent: the defaults of agents' sessions, and the history of their versions."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Any, get_type_hints

import typer
from pydantic import TypeAdapter, ValidationError

from consolidator.cli.common import parse_span, read_text, run
from consolidator.cli.output import emit, print_line, sanitize, shorten, table
from consolidator.errors import UsageError
from consolidator.models.agent import AgentRow
from consolidator.runtime.session.agent_defaults import FIELDS, AgentDefaults
from consolidator.service.sessions.agents import change_agent, delete_agent, get_agent, list_agent_versions, list_agents

_PARAMETER = "parameter."  # before the name of a template's parameter
_SPANS = {"session_ttl": "session_ttl_seconds", "checkpoint_ttl": "checkpoint_ttl_seconds"}
_NAMES = sorted({f"{_PARAMETER}NAME", *_SPANS, *FIELDS} - {*_SPANS.values(), "parameters"})
Name = Annotated[str, typer.Argument(metavar="NAME", help="An agent's name, the first part of its sessions' keys.")]
_AGENTS = table(
    "agents",
    "agent=name, >version, model, prompt, >retention days, changed=updated_at",
    prompt=lambda agent: shorten(agent.template or agent.system_prompt, 40),
)


def set_command(
    name: Name,
    defaults: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[DEFAULT=VALUE]...",
            help=f"{', '.join(_NAMES)}. A template is a file, tools are names with commas between them, a time to live "
            "is a span such as 7d. Without a value the settings decide again.",
        ),
    ] = None,
    delete: Annotated[bool, typer.Option("--delete", help="Delete them all; its sessions and versions stay.")] = False,
) -> None:
    """Set defaults of an agent's sessions, such as `model=auto max_cost=2`. What differs is a new version.

    New sessions take them. `tier` is an agent whose defaults stand where this one has none.
    """
    if delete:
        run(delete_agent, name)
        emit({"deleted": name}, f"deleted the defaults of {name}; its sessions and their log stay")
        return
    agent = run(change_agent, name, read_defaults(defaults or []))
    emit(agent, f"agent {agent.name}, version {agent.version}")


def read_defaults(texts: list[str]) -> dict[str, Any]:
    """Return defaults by column, from texts such as `max_cost=2`; None unsets one. Raises UsageError."""
    kinds = get_type_hints(AgentDefaults)
    changes: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        column = _SPANS.get(name, name)
        if equals and name.startswith(_PARAMETER):
            changes.setdefault("parameters", {})[name.removeprefix(_PARAMETER)] = value
        elif not equals or column not in FIELDS:
            raise UsageError(f"{text!r} sets no default: DEFAULT=VALUE; `consolidator agent set --help` lists them")
        elif not value:
            changes[column] = None
        elif name in _SPANS:
            changes[column] = int(parse_span(value).total_seconds())
        elif name == "template":
            changes[column] = read_text(value)
        elif name == "tools":
            changes[column] = tuple(value.split(","))
        else:
            try:
                changes[column] = TypeAdapter(kinds[column]).validate_strings(value)
            except ValidationError as error:
                raise UsageError(f"{value!r} is no {name}: {error.errors()[0]['msg']}") from None
    return changes


def show_command(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="An agent's name; else all of them.")] = None,
    history: Annotated[bool, typer.Option("--history", help="List the versions of the defaults instead.")] = False,
) -> None:
    """Show an agent's defaults, or all versions that they had; without a name, list the agents that have defaults."""
    if name is None:
        emit(run(list_agents), _AGENTS)
    elif history:
        versions = table(
            f"versions of {name}",
            ">version, at=created_at, by=changed_by, >template, defaults",
            template=lambda row: row.definition.get("template_version"),
            defaults=lambda row: shorten(_describe(row.definition), 80),
        )
        emit(run(list_agent_versions, name, limit=100), versions)
    else:
        emit(run(get_agent, name), _print_agent)


def _print_agent(agent: AgentRow) -> None:
    print_line(f"agent {agent.name}, version {agent.version} of {sanitize(agent.updated_at)}", style="bold")
    for column, value in asdict(agent).items():
        if column in FIELDS and value not in (None, {}, []):
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
            print_line(f"{column}: {text}")


def _describe(definition: dict[str, Any]) -> str:
    if not definition:
        return "deleted"
    named = {name: value for name, value in definition.items() if value not in (None, {}, 0)}
    return ", ".join(f"{name}={value}" for name, value in named.items() if name != "template_version")
