"""A coding agent that memory can be installed into: its files, its hooks, its payloads, and the form of answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from consolidator.models.injection import Moment

HookMoment = Moment | Literal["import"]  # what a hook is for: an answer at a moment, or having the session imported
Payload = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Hook:
    """An event of a client for which a hook is installed."""

    event: str  # as the client calls it
    moment: HookMoment
    matcher: str | None = None  # the tools whose calls it is for; None: all, or an event that is no call


class Files(Protocol):
    """Where a client keeps what we change and read: of a person's home, or of one project."""

    def __call__(self, home: Path, environment: Mapping[str, str], project: Path | None) -> Path:
        """Return the path."""


class ServersForm(Protocol):
    """How a client's file says which MCP servers there are: texts in, texts out."""

    def add(self, text: str, server: Mapping[str, Any], project: Path | None) -> str:
        """Return the file with our server; one of its name that a person registered otherwise stays."""

    def remove(self, text: str, project: Path | None) -> str:
        """Return the file without our server."""

    def has(self, text: str, project: Path | None) -> bool:
        """Tell whether a server of our name is registered."""


@dataclass(frozen=True, slots=True)
class Client:
    """A coding agent; its name is that of its sessions' agent and of its logs' format, too."""

    name: str
    title: str
    hooks: tuple[Hook, ...]
    hooks_form: Literal["groups", "list", "tables"]  # JSON: in groups with a matcher, each for itself; TOML tables
    hooks_file: Files
    servers_file: Files
    servers: ServersForm
    new_hooks_file: str  # what a file of hooks holds before it has any
    read_error: Callable[[Payload], str]  # of a call's payload: the error, or "" for none
    read_directory: Callable[[Payload, str], str | None]  # of a payload and the environment's project: where it happens
    render: Callable[[str, str], Mapping[str, Any] | str]  # an event, the text to add to the context -> what is printed
    session_fields: tuple[str, ...] = ("session_id",)
    timeout: int = 2  # after which it ends a hook, in its unit; ours ends itself long before
    guidance_file: Files | None = None  # that its agent reads: where a client has no hook for a session's start
    advice: str = ""  # what is left for a person to do after an installation

    def hook(self, event: str) -> Hook | None:
        """Return the hook of an event; None for one that is not of ours."""
        return next((hook for hook in self.hooks if hook.event == event), None)
