"""A session's key: whose conversation it is. One parser for the runtime, for clients and for imports."""

from __future__ import annotations

import re
from dataclasses import dataclass

# Controls, separators of lines, and what turns the direction of writing: two keys that look alike must be one.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
_GROUP_KINDS = frozenset({"group", "supergroup", "channel", "room", "thread"})


@dataclass(frozen=True, slots=True)
class SessionKey:
    """The owner of a session: `agent:channel:peer`, or `agent:<id>:<channel>:<kind>:<peer>` and its shorter forms."""

    agent: str
    channel: str | None = None
    peer: str | None = None

    @classmethod
    def parse(cls, key: str) -> SessionKey:
        """Parse a key. A peer that is not a single person keeps its kind, as in "group:ops"."""
        parts = key.split(":")
        if parts[0] == "agent" and len(parts) >= 3 and (len(parts) != 3 or parts[2] == "main"):
            agent, rest = parts[1], parts[2:]
            if rest == ["main"]:  # all direct messages share one session
                return cls(agent)
            if rest[0] == "direct":
                return cls(agent, None, ":".join(rest[1:]))
            if len(rest) == 2:
                return cls(agent, rest[0], rest[1])
            return cls(agent, rest[0], ":".join(rest[2:] if rest[1] in ("direct", "dm") else rest[1:]))
        if len(parts) >= 3:
            return cls(parts[0], parts[1], ":".join(parts[2:]))
        return cls(parts[0], parts[1] if len(parts) == 2 else None)


def has_controls(name: str) -> bool:
    """Tell whether a key, or a name in one, has characters that nobody sees and that change what is around them."""
    return _CONTROLS.search(name) is not None


def is_group(peer: str) -> bool:
    """Tell whether a key's peer is several people, by its kind, as in "group:ops"; one that does not say is one."""
    kind, separator, name = peer.partition(":")
    return kind in _GROUP_KINDS and bool(separator and name)
