"""Scopes whose digests have changed, agents with something to merge, and what merges keep for the next ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from consolidator.models.digest import ScopeRow, ScopeStateRow
from consolidator.store.queries import Column, FirstRow, Pairs, Rows, Statement, StatementEach, Value, load

_SQL = load("calls/scopes")


@dataclass(frozen=True, slots=True)
class ScopeKey:
    """One person's part of a scope."""

    agent: str
    project: str  # "" if there is none
    peer: str  # of the lineage root; "" for the owner of the machine


list_of_sessions = Rows[ScopeKey, Sequence[str]](ScopeKey, _SQL["of_sessions"])
list_changed = Rows[ScopeRow, str](ScopeRow, _SQL["changed"])
list_of_agent = Rows[ScopeRow, str](ScopeRow, _SQL["of_agent"])
list_projects_of_person = Column[str, str, str](_SQL["projects_of_person"], "agent peer")
save_form = Statement[str, str](_SQL["save_form"], "agent form")
get_form = Value[str | None, str](_SQL["form"])
list_agents_with_news = Column[str](_SQL["agents_with_news"], include_undecided=False, fingerprint_version="")
save_state = Statement[ScopeStateRow](_SQL["save_state"], "*")
list_selected = Pairs[str, bytes, str, str](_SQL["selected"], "agent audience")
touch = StatementEach(_SQL["touch"])  # has scopes merged again: their digests have changed
mark_merged = StatementEach(_SQL["mark_merged"])  # up to their versions
# What the last merge of a scope left; "" is all projects.
get_state = FirstRow[ScopeStateRow, str, str, str](ScopeStateRow, _SQL["state"], "agent project audience", binary=True)
forget_states = Statement[str](_SQL["forget"], "agent", audience=None)  # those of an agent, or of one audience
# Keeps other merges of agents out until the transaction ends; name all that the transaction will need.
lock_agents = StatementEach(_SQL["lock"], "agent", order="agent")
# The same, but others that take this shared lock go on. Take it before a session is locked: a rehearsal holds its
# agents for long, and appends to a session must not wait.
lock_agents_shared = StatementEach(_SQL["lock_shared"], "agent", order="agent")
