"""Groups of options that several commands share: a dataclass each, spread into the parameters of a command.

A command names a group as one keyword parameter, `owner: OwnerOptions`; `spread` gives it the group's options instead.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, asdict, dataclass, fields, is_dataclass
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer

from consolidator.cli.commands import SEARCH
from consolidator.errors import UsageError

PlaceOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="A project: its path or its last part; by default the project of the working directory."
    ),
]
QueryWords = Annotated[
    list[str] | None,
    typer.Argument(metavar="[QUERY]", help="What to look for: words; `search` before them is left out."),
]
SURFACE = "cli"  # where the words of these commands come from, in the log


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command whose parameters are its own and, in place of each group, the options of that group."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    if not groups:
        return command
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name in groups:
            parameters += _list_options(groups[name])
        else:
            parameters.append(parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY))

    @wraps(command)
    def expanded(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{option.name: values.pop(option.name) for option in fields(group)})
        command(**values)

    expanded.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    vars(expanded)["__signature__"] = inspect.Signature(parameters)
    return expanded


def _list_options(group: Any) -> Iterator[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    for option in fields(group):
        default = option.default if option.default_factory is MISSING else option.default_factory()
        yield inspect.Parameter(
            option.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hints[option.name]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerOptions:
    """Whose memory a command reads."""

    agent: Annotated[str | None, typer.Option(help="Only this agent, such as claude-code.")] = None
    project: Annotated[str | None, typer.Option(help="Only this project: its path, or the last part of it.")] = None
    peer: Annotated[str | None, typer.Option(help="Only what this person may see.")] = None

    def values(self) -> dict[str, Any]:
        """Return the options as the keyword arguments of a service function."""
        return asdict(self)


def join_query(words: list[str] | None) -> str | None:
    """Return the words of a query, without the word `search` before them; None where there are none."""
    words = words or []
    return " ".join(words[1:] if words[:1] == [SEARCH] else words) or None


def require_at_most_one(**flags: object) -> None:
    """Raise UsageError if more than one of these options is given."""
    given = [f"--{name.rstrip('_').replace('_', '-')}" for name, value in flags.items() if value]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} are different things to do: give one of them")
