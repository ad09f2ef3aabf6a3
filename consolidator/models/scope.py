"""A scope: one agent in one project, and what a merge keeps of it for the next one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ScopeRow:
    """One person's part of a scope; its procedures are merged again when its `version` is above `merged`."""

    agent: str
    project: str
    peer: str
    version: int


@dataclass(frozen=True, slots=True)
class ScopeStateRow:
    """What the last merge of a scope leaves for the next one: a cache, which can be made again from the digests."""

    agent: str
    project: str
    audience: str
    keys: bytes
    groups: bytes
    texts: bytes
    selected: bytes
