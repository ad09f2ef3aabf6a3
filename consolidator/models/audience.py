"""To whom something may be shown that was learned from calls: the *audience* of a procedure, tool profile or solution.

A person is the peer of a session's lineage root; sessions without a peer are of one person, the owner of the machine.

| audience    | learned from the sessions of | shown to |
|-------------|------------------------------|----------|
| `all`       | several people               | the owner, who names no peer |
| `all:ada`   | ada alone                    | the owner and ada |
| `own:ada`   | ada alone, where `all` has more | ada |
| `shared`    | as many people as it takes sessions to publish, without anything of a single one | every peer |
"""

from __future__ import annotations

ALL = "all"
SHARED = "shared"
OWNER = ""  # the person of sessions without a peer
_STRANGER = "stranger:"  # and the root of their session: who speaks with neither a name nor a project
_SHOWN_ID = 8  # characters


def audience_of_only(person: str) -> str:
    """Return the audience of what only one person's sessions taught."""
    return f"{ALL}:{person}"


def own_audience(person: str) -> str:
    """Return the audience of one person's part of what several taught."""
    return f"own:{person}"


def audiences_for(peer: str | None) -> list[str] | None:
    """Return the audiences that a peer belongs to; None for the owner, who sees what all sessions taught."""
    if peer is None:
        return None
    return [audience_of_only(peer), own_audience(peer), SHARED]


def peer_of_stranger(root_id: str) -> str:
    """Return the peer of somebody who has no name, from the root of their session."""
    return f"{_STRANGER}{root_id}"


def describe_peer(peer: str) -> str:
    """Return a peer in words."""
    if not peer.startswith(_STRANGER):
        return peer
    return f"somebody unnamed, session {peer.removeprefix(_STRANGER)[:_SHOWN_ID]}"


def pluralize(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is one."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
