"""Commands of the chat for what comes of a session: forks, checkpoints, branches, sub-agents, tasks, its bundle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ulid import ULID

from consolidator.cli.agents.branch import BRANCHES, print_compared
from consolidator.cli.agents.checkpoint import CHECKPOINTS
from consolidator.cli.agents.rerun import print_comparison
from consolidator.cli.agents.work import TASKS
from consolidator.cli.output import format_usd, print_line, replace_file
from consolidator.errors import NotFound, UsageError
from consolidator.runtime.lineage.children import ChildRequest
from consolidator.runtime.rerun.branches import BRANCH_KINDS, BranchRequest
from consolidator.runtime.session.agent_defaults import SpawnRequest
from consolidator.service.sessions.branches import (
    commit_steer,
    compare_branch,
    discard_branch,
    list_branches,
    run_branch,
)
from consolidator.service.sessions.bundles import stream_bundle
from consolidator.service.sessions.children import (
    create_checkpoint,
    fork_session,
    list_checkpoints,
    restore_checkpoint,
    spawn,
)
from consolidator.service.sessions.reruns import compare_pair
from consolidator.service.sessions.work import list_tasks

if TYPE_CHECKING:
    from consolidator.cli.agents.terminal_chat import TerminalChat

_LISTED = 20


async def fork(chat: TerminalChat, words: str) -> None:
    """Go on from an event in a new session, which the key names from now on."""
    if words and not (words.removeprefix("-").isdecimal() and len(words) < 19):
        raise UsageError("/fork, or /fork SEQ: the last event before the new session's own ones")
    agent, before = chat.agent, chat.session.id
    at = int(words) if words else None
    row = await fork_session(
        agent.database,
        agent.harness.settings,
        before,
        ChildRequest(kind="fork", at=at, is_current=True, same_conversation=True),
    )
    print_line(f"a fork after event {row.parent_seq}; the session so far is kept: /switch {before}", "dim")
    await chat.enter_session(await agent.session(row.id))


async def checkpoint(chat: TerminalChat, label: str) -> None:
    """Set a checkpoint where the session stands."""
    row = await create_checkpoint(chat.agent.database, chat.session.id, label=label or None)
    print_line(f"checkpoint {row.id} after event {row.seq}; /restore goes back to it", "dim")


async def checkpoints(chat: TerminalChat, _: str) -> None:
    """List the session's checkpoints."""
    rows = await list_checkpoints(chat.agent.database, chat.session.id, limit=_LISTED)
    CHECKPOINTS.print(rows)


async def restore(chat: TerminalChat, name: str) -> None:
    """Go back to a checkpoint in a new session, which the key names from now on."""
    agent, before = chat.agent, chat.session.id
    rows = await list_checkpoints(agent.database, before)
    matching = [row for row in rows if not name or row.label == name or row.id.startswith(name)]
    if not matching:
        raise NotFound("this session has no such checkpoint: /checkpoint sets one, /checkpoints lists them")
    if name and len(matching) > 1:
        raise UsageError(f"{name!r} names {len(matching)} checkpoints: /checkpoints lists them with their ids")
    row = await restore_checkpoint(agent.database, agent.harness.settings, matching[0].id, is_current=True)
    print_line(f"back after event {row.parent_seq}; the session so far is kept: /switch {before}", "dim")
    await chat.enter_session(await agent.session(row.id))


async def branch(chat: TerminalChat, words: str) -> None:
    """Say something in a branch, and show how it compares; the session does not change."""
    first, _, rest = words.partition(" ")
    kind = next((each for each in BRANCH_KINDS if each == first), None)
    text = words if kind is None else rest.strip()
    if not text:
        raise UsageError(f"/branch TEXT, or /branch {'|'.join(BRANCH_KINDS)} TEXT")
    request = BranchRequest(kind=kind or "sim", message=text)
    compared = await run_branch(chat.agent.harness, chat.session.id, request, surface=chat.agent.surface)
    print_compared(compared, "/commit")


async def branches(chat: TerminalChat, _: str) -> None:
    """List the session's branches."""
    BRANCHES.print(await list_branches(chat.agent.database, chat.session.id, limit=_LISTED))


async def compare(chat: TerminalChat, name: str) -> None:
    """Show how a branch compares with its session now."""
    print_compared(await compare_branch(chat.agent.database, await _find_branch(chat, name)), "/commit")


async def commit(chat: TerminalChat, name: str) -> None:
    """Send the steer of a pre_steer branch, and show what is answered."""
    surface = chat.agent.surface
    row, _ = await commit_steer(chat.agent.database, await _find_branch(chat, name), surface=surface)
    if row.parent_id == chat.session.id:
        await chat.show_answer()


async def discard(chat: TerminalChat, name: str) -> None:
    """End a branch."""
    row = await discard_branch(chat.agent.database, await _find_branch(chat, name))
    print_line(f"branch {row.id} has ended", "dim")


def _new_file(name: str) -> Path:
    """Return the path of a file that is not there yet."""
    path = Path(name).expanduser()
    if not name:
        raise UsageError("/export FILE: a new file")
    if path.exists():
        raise UsageError(f"{path} exists: /export takes a new file")
    return path


async def _find_branch(chat: TerminalChat, name: str) -> str:
    """Return the name of a branch; without one, the session's latest."""
    if name:
        return name
    latest = await list_branches(chat.agent.database, chat.session.id, limit=1)
    if not latest:
        raise NotFound("this session has no branches: /branch TEXT makes one")
    return latest[0].id


async def diff(chat: TerminalChat, name: str) -> None:
    """Show how this session differs from another one, by default from the one that it came from."""
    pair = await compare_pair(chat.agent.database, chat.session.id, name)
    print_comparison(pair.comparison, (pair.left.id, pair.right.id))
    if pair.next is not None:
        print_line(
            f"this is the first part: `consolidator session diff {pair.left.id} {pair.right.id}` compares all", "dim"
        )


async def export(chat: TerminalChat, name: str) -> None:
    """Write this session's bundle to a new file, without credentials."""
    path = _new_file(name)
    with replace_file(path) as file:
        async for line in stream_bundle(chat.agent.database, chat.session.id):
            file.write(line)
    print_line(f"session {chat.session.id} is in {path}, without credentials: `consolidator import {path}`", "dim")


async def spawn_agent(chat: TerminalChat, task: str) -> None:
    """Give a task to a sub-agent, and print its answer."""
    if not task:
        raise UsageError("/spawn TASK: what a sub-agent is to do; it sees nothing else of this session")
    result = await spawn(chat.agent.harness, chat.session.id, SpawnRequest(task=task), call_id=f"spawn_{ULID()}")
    print_line(result.text or str(result.reason))
    print_line(f"{result.status}: session {result.session_id}, {format_usd(result.cost)}", "dim")


async def tasks(chat: TerminalChat, _: str) -> None:
    """List the session's tasks."""
    rows = await list_tasks(chat.agent.database, chat.session.id, limit=_LISTED)
    TASKS.print(rows)
