"""Tools of ours that an agent may be offered: to say what it works at, and to keep notes. Nobody has to take them.

They have no effect of their own: what they change of their session is logged together with their result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Annotated, Literal, get_args

from pydantic import Field

from consolidator.errors import ConsolidatorError, UsageError
from consolidator.runtime.session.agent_defaults import SPAWN_TOOL, ResultMode, SpawnRequest
from consolidator.runtime.session.outcome import Outcome
from consolidator.runtime.session.scratchpad import MAX_CHARS, ChangeScratchpad, EditMode, ScratchpadEdit
from consolidator.runtime.session.tasks import FinishTask, StartTask, TaskOutcome
from consolidator.runtime.tools.tool import CallContext, Tool, tool

BuiltinGroup = Literal["tasks", "scratchpad", "sub_agents"]
BUILTIN_GROUPS: tuple[BuiltinGroup, ...] = get_args(BuiltinGroup)


@tool(idempotent=True)
async def start_task(title: str) -> Outcome:
    """Begin a task: work with a goal that can succeed or fail. One task at a time; end it with finish_task."""
    return Outcome(change=StartTask(title))


@tool(idempotent=True)
async def finish_task(outcome: TaskOutcome, note: str | None = None) -> Outcome:
    """End the task that is open, once you know how it went; the note says why, in a sentence."""
    return Outcome(change=FinishTask(outcome, note))


async def update_scratchpad(
    mode: EditMode,
    text: str,
    old: Annotated[str | None, Field(description="to edit: what the one place reads now")] = None,
) -> Outcome:
    """Change the scratchpad."""
    return Outcome(change=ChangeScratchpad(ScratchpadEdit(mode, text, old)))


_UPDATE_SCRATCHPAD = replace(
    tool(idempotent=True)(update_scratchpad),
    description="Keep notes for yourself, in Markdown, which you see at the end of every request: replace them, "
    f"append to them, or edit one place. At most {MAX_CHARS:,} characters.",
)


@tool(name=SPAWN_TOOL, idempotent=True, timeout=None)
async def spawn_agent(
    call: CallContext,
    task: Annotated[str, Field(description="what to do, and what to answer with; it sees nothing else of yours")],
    context: Annotated[str | None, Field(description="texts that it needs to know")] = None,
    tools: Annotated[list[str] | None, Field(description="some of your tools; by default all it may have")] = None,
    mode: Annotated[ResultMode, Field(description="summary: its last answer; full: all that it did")] = "summary",
) -> Outcome:
    """Give a task to a sub-agent, and wait for its answer. Several calls at once run side by side."""
    if call.spawn is None:
        return Outcome.failed("There are no sub-agents here.")
    try:
        result = await call.spawn(SpawnRequest(task=task, context=context, tools=tools, mode=mode))
    except ConsolidatorError as error:
        return Outcome.failed(f"The sub-agent was not started: {error}")
    if result.status == "ok":
        return Outcome(result.text)
    log = f"\n\nWhat it did:\n{result.text}" if result.text else ""
    return Outcome.failed(f"The sub-agent failed: {result.reason}{log}")


_GROUPS: Mapping[str, tuple[Tool, ...]] = {
    "tasks": (start_task, finish_task),
    "scratchpad": (_UPDATE_SCRATCHPAD,),
    "sub_agents": (spawn_agent,),
}


def builtin_tools(groups: Iterable[str]) -> list[Tool]:
    """Return the tools of some groups. Raises UsageError for a group that is none."""
    tools: list[Tool] = []
    for group in dict.fromkeys(groups):
        if group not in _GROUPS:
            raise UsageError(f"{group!r} is no group of built-in tools: {', '.join(_GROUPS)}")
        tools += [replace(member, changes_session=group != "sub_agents") for member in _GROUPS[group]]
    return tools
