"""Learns from the owner's logs which repository a session's directory is a checkout of."""

from __future__ import annotations

from dataclasses import dataclass, field

from consolidator.formats.base import ForeignEvent, ForeignSession
from consolidator.formats.common.content import extract_text
from consolidator.formats.common.project import derive_project
from consolidator.formats.common.remotes import asks_remote, find_repository, read_printed
from consolidator.memory.calls.symbols import shell_command
from consolidator.models.payload import EventType


@dataclass(slots=True)
class CheckoutWatch:
    """The repositories of directories, as far as sessions say them or git printed them there."""

    repositories: dict[str, str] = field(default_factory=dict)  # by directory
    _asked: set[tuple[str, str]] = field(default_factory=set)  # the calls, by session, that print a remote's address

    def feed(self, session: ForeignSession, item: ForeignEvent | None = None) -> None:
        """Take a session, or its next event."""
        project = session.project
        if project is None or project in self.repositories:
            return
        if session.repository is not None:
            self.repositories[project] = session.repository
        elif item is not None and item.type is EventType.TOOL_CALL:
            line = shell_command(item.tool_name or "", item.data.get("arguments")) or ""
            place = item.data.get("cwd") or project
            if "git " in line and asks_remote(line, str(place)) and derive_project(place) == project:
                self._asked.add((session.origin, str(item.data["call_id"])))
        elif item is not None and item.type is EventType.TOOL_RESULT:
            if (session.origin, str(item.data["call_id"])) not in self._asked:
                return
            repository = find_repository(project, read_printed(extract_text(item.data.get("content"))))
            if repository is not None:
                self.repositories[project] = repository
