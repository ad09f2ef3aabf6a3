"""Tools of ours that an agent may be offered: to say what it works at, and to keep notes. Nobody has to take them.

They have no effect of their own: what they change of their session is logged together with their result.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Literal, get_args

from consolidator.errors import UsageError
from consolidator.runtime.tasks import FinishTask, StartTask, TaskOutcome
from consolidator.runtime.tools.outcome import Outcome
from consolidator.runtime.tools.tool import Tool, tool

BuiltinGroup = Literal["tasks"]
BUILTIN_GROUPS: tuple[BuiltinGroup, ...] = get_args(BuiltinGroup)


@tool(idempotent=True)
async def start_task(title: str) -> Outcome:
    """Begin a task: work with a goal that can succeed or fail. One task at a time; end it with finish_task."""
    return Outcome(change=StartTask(title))


@tool(idempotent=True)
async def finish_task(outcome: TaskOutcome, note: str | None = None) -> Outcome:
    """End the task that is open, once you know how it went; the note says why, in a sentence."""
    return Outcome(change=FinishTask(outcome, note))


_GROUPS: dict[str, tuple[Tool, ...]] = {"tasks": (start_task, finish_task)}


def builtin_tools(groups: Iterable[str]) -> list[Tool]:
    """Return the tools of some groups. Raises UsageError for a group that is none."""
    tools: list[Tool] = []
    for group in dict.fromkeys(groups):
        if group not in _GROUPS:
            raise UsageError(f"{group!r} is no group of built-in tools: {', '.join(_GROUPS)}")
        tools += [replace(member, changes_session=True) for member in _GROUPS[group]]
    return tools
