"""Answers to requests with a key, by credential and key."""

from __future__ import annotations

from datetime import datetime

from consolidator.models.credential import UNDER_WAY, ApiRequestRow
from consolidator.store.queries import FirstRow, Statement, Value, load

_SQL = load("sessions/api_requests")
find = FirstRow[ApiRequestRow, str, str, datetime](ApiRequestRow, _SQL["find"], "credential key since")
try_lock = Value[bool, str, str](_SQL["lock"], "credential key")
remove_under_way = Statement[str, str, str](_SQL["remove_under_way"], "credential key owner", status=UNDER_WAY)
add = Statement[ApiRequestRow](_SQL["add"], "*")
