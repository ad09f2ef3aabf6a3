"""How far a model has read each session: a watermark of its own, beside that of consolidation."""

from __future__ import annotations

from collections.abc import Sequence

from consolidator.store.queries import AttemptEach, Column, Pairs, Statement, load

_SQL = load("nights/extraction")
list_unread_sessions = Column[str](_SQL["unread_sessions"])
finish_waiting = Statement[str](_SQL["finish_waiting"])
list_waiting = Column[str](_SQL["list_waiting"])
stop_waiting = Statement[str](_SQL["stop_waiting"])
list_shareable = Pairs[str, list[str], Sequence[str]](_SQL["shareable"], "ids")
# Moves the watermarks of sessions, each (id, from, to); False where another process has moved one.
advance_watermarks = AttemptEach(_SQL["advance"], "id after upto", order="id")
