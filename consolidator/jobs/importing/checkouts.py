"""Learns from the owner's logs which repository a session's directory is a checkout of, and which worktrees it made."""

from __future__ import annotations

from dataclasses import dataclass, field

from consolidator.formats.base import ForeignEvent, ForeignSession
from consolidator.formats.common.content import extract_text
from consolidator.formats.common.project import derive_project
from consolidator.formats.common.remotes import asks_remote, find_repository, find_worktree, read_printed
from consolidator.memory.calls.symbols import shell_command
from consolidator.models.payload import EventType


@dataclass(slots=True)
class CheckoutWatch:
    """The repositories of directories, as far as sessions say them or git printed them there."""

    repositories: dict[str, str] = field(default_factory=dict)  # by directory
    _asked: set[tuple[str, str]] = field(default_factory=set)  # the calls, by session, that print a remote's address
    _adding: dict[tuple[str, str], str] = field(default_factory=dict)  # the worktrees that calls make
    _worktrees: dict[str, str] = field(default_factory=dict)  # of projects whose repository is not known yet

    def feed(self, session: ForeignSession, item: ForeignEvent | None = None) -> None:
        """Take a session, or its next event."""
        project = session.project
        if project is None:
            return
        if item is not None:
            self._note_worktree(session.origin, project, item)
        if project not in self.repositories:
            self._feed_unknown(session, project, item)
        for place in [place for place, of in self._worktrees.items() if of == project and of in self.repositories]:
            self.repositories.setdefault(place, self.repositories[self._worktrees.pop(place)])

    def _note_worktree(self, origin: str, project: str, item: ForeignEvent) -> None:
        """Note the folder in which a call of git made a worktree of the project."""
        call = origin, str(item.data.get("call_id"))
        if item.type is EventType.TOOL_CALL:
            line = shell_command(item.tool_name or "", item.data.get("arguments")) or ""
            place = find_worktree(line, str(item.data.get("cwd") or project)) if "worktree add" in line else None
            if place is not None and derive_project(place) == place:
                self._adding[call] = place
        elif item.type is EventType.TOOL_RESULT and item.data["status"] == "ok" and call in self._adding:
            self._worktrees[self._adding.pop(call)] = project

    def _feed_unknown(self, session: ForeignSession, project: str, item: ForeignEvent | None) -> None:
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
