"""Who asks: what a credential may do, and the agent, project and peer that it is narrowed to.

Every front end that answers for somebody else than the owner of the machine passes its viewer to the service.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from consolidator.errors import Forbidden, UsageError
from consolidator.models.principal import Role, name_principal

Scope = Literal["read", "record", "write", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
OWNER_NAME = "owner"
_IMPLIED: dict[Scope, Scope] = {"record": "write"}  # who may speak for people may record, too


@dataclass(frozen=True, slots=True)
class Viewer:
    """A credential's rights, and its narrowing: exact names, or None where the credential does not narrow.

    `read`: ask memory, read sessions; `record`: append to own sessions what happened elsewhere; `write`: act for people
    in sessions, which implies `record`; `admin`: nights, erasures, credentials and agents.
    """

    name: str = OWNER_NAME
    scopes: frozenset[Scope] = frozenset(SCOPES)
    agent: str | None = None
    project: str | None = None
    peer: str | None = None
    may_abbreviate: bool = field(default=True, compare=False)  # a session's id, as a person does, unlike a program
    surface: str | None = field(default=None, compare=False)  # where the person types, if the log is to name that

    @property
    def user(self) -> str:
        """Who says something, as the log names it."""
        return name_principal(Role.USER, self.surface or self.name)

    @property
    def operator(self) -> str:
        """Who configures, as the log names it: the machine's owner, or a credential by its name."""
        return name_principal(Role.OPERATOR, None if self.name == OWNER_NAME else self.name)

    def may(self, scope: Scope) -> bool:
        """Tell whether the credential has a scope, or one that implies it."""
        return scope in self.scopes or _IMPLIED.get(scope) in self.scopes

    def check_may(self, scope: Scope) -> None:
        """Raise Forbidden where the credential lacks a scope; `admin` is for one that reaches everything."""
        if not self.may(scope):
            raise Forbidden(f"this credential lacks the scope {scope}: it has {', '.join(sorted(self.scopes))}")
        if scope == "admin":
            self.check_unnarrowed()

    def may_speak_as(self, speaker: str | None) -> bool:
        """Tell whether a speaker may be named: who speaks for one person names nobody else; a group has many."""
        from consolidator.models.session import is_group  # which few questions need

        return speaker is None or self.peer is None or is_group(self.peer) or speaker == self.peer

    def check_speaker(self, speaker: str | None) -> None:
        """Raise Forbidden for a speaker that may not be named."""
        if not self.may_speak_as(speaker):
            raise Forbidden("this credential is for one peer, who is the speaker: leave speaker out")

    def check_unnarrowed(self) -> None:
        """Raise Forbidden where there is anything that the credential does not reach."""
        if self.is_narrowed:
            raise Forbidden("this needs a credential that is for no single agent, project or peer")

    def check_reads_all(self) -> None:
        """Raise Forbidden for a credential that may not read, or does not reach everything."""
        self.check_may("read")
        self.check_unnarrowed()

    @property
    def is_narrowed(self) -> bool:
        """Whether there is anything that the credential does not reach."""
        return any(value is not None for value in (self.agent, self.project, self.peer))

    @property
    def is_of_project(self) -> bool:
        """Whether nothing may be shown that rests on another project's sessions, or on sessions without one."""
        return self.project is not None

    def narrow(self, *, agent: str | None = None, project: str | None = None, peer: str | None = None) -> Viewer:
        """Return the viewer narrowed by what a caller asks for: an absent value becomes the credential's own.

        Raises UsageError for another value than the credential's; the error names nothing of the other's.
        """
        return replace(
            self,
            agent=_narrow("agent", self.agent, agent),
            project=_narrow("project", self.project, project),
            peer=_narrow("peer", self.peer, peer),
        )

    def reaches(self, *, agent: str | None, project: str | None, peer: str | None) -> bool:
        """Tell whether something of this agent, project and peer is within the credential's reach."""
        return self.agent in (None, agent) and self.project in (None, project or "") and self.peer in (None, peer or "")


OWNER = Viewer()


def _narrow(what: str, fixed: str | None, named: str | None) -> str | None:
    if fixed is not None and named not in (None, fixed):
        raise UsageError(f"this credential is for one {what}: leave {what} out")
    return named if fixed is None else fixed
