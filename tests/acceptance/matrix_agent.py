"""The agent of the kill matrix. A fork server starts one child process for each run; the child dies at a boundary.

Its tools write their effects to one file and its channel what it received to another: the world outside the database.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import ssl
import subprocess
import sys
import traceback
import warnings
from collections.abc import Coroutine, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from contextvars import ContextVar
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal
from unittest import mock
from weakref import WeakSet

import psycopg
from psycopg.pq import TransactionStatus

from consolidator import Consolidator, Session, tool
from consolidator.clock import Clock
from consolidator.database import Database
from consolidator.errors import SessionBusy, SessionClosed, StaleEpoch, UsageError
from consolidator.memory.procedures.compiled_procedure import Binding, CompiledProcedure, CompiledStep, Parameter
from consolidator.runtime.session import boundaries as runtime_points
from consolidator.runtime.session import lease
from consolidator.runtime.session.agent_defaults import SpawnRequest
from consolidator.runtime.tools.tool import CallContext, Tool, Toolbox
from consolidator.runtime.turn import generation, sessions
from consolidator.runtime.turn.harness import Delta, StepResult
from consolidator.runtime.turn.sub_agents import create_sub_agent, finish_abandoned, list_unfinished
from consolidator.settings import Settings
from consolidator.store.sessions import lineage, tasks
from consolidator.store.sessions import sessions as rows
from consolidator.testing import kill_points
from tests.killing import is_write
from tests.support import PATIENCE

HERE = Path(__file__).parents[2]


def create_tools(world: Path, database: Database) -> list[Tool]:
    """Return tools whose effects are lines in a file."""

    def effect(name: str, call: CallContext) -> str:
        with (world / "effects").open("a", encoding="utf-8") as file:
            file.write(json.dumps([name, call.call_id]) + "\n")
        return f"{name}-done"

    @tool(idempotent=True)
    async def look(what: str, call: CallContext) -> str:
        """Look at something."""
        return effect("look", call)

    @tool
    async def send_mail(to: str, call: CallContext) -> str:
        """Send a mail."""
        return effect("send_mail", call)

    @tool(needs_approval=True)
    async def deploy(where: str, call: CallContext) -> str:
        """Deploy."""
        return effect("deploy", call)

    @tool(idempotent=True)
    async def slow_tool(call: CallContext) -> str:
        """Take long, until a person steers."""
        effect("slow_tool", call)
        if not call.is_retry:
            await asyncio.sleep(30)
        return "done at last"

    @tool(idempotent=True)
    async def linger(call: CallContext) -> str:
        """Wait until the lease is renewed."""
        effect("linger", call)
        async with asyncio.timeout(PATIENCE):
            before = await lease_of(call.session_id)
            while before == await lease_of(call.session_id):  # noqa: ASYNC110 - the heartbeat has no event for it
                await asyncio.sleep(0.05)
        return "done at last"

    async def lease_of(session: str) -> Any:
        async with database.connection() as conn:
            return (await rows.get(conn, session)).lease_until

    return [look, send_mail, deploy, slow_tool, linger]


def compiled_procedures(run: dict[str, Any]) -> list[CompiledProcedure]:
    """Return the procedures that a run is offered: one that looks, sends a mail, deploys, and looks again."""
    if run["do"][0] != ["say", "follow"]:
        return []
    steps = (
        CompiledStep("look", {"what": {"slot": "what"}}),
        CompiledStep("send_mail", {"to": "ines"}, ("done",)),
        CompiledStep("deploy", {"where": {"slot": "place"}}),
        CompiledStep("look", {"what": {"slot": "what"}}),
    )
    parameters, bound = (Parameter("what", "word"),), {"place": Binding(0, "")}
    agent, _, person = run["key"].split(":")
    return [CompiledProcedure("p_1", "release", "release", steps, parameters, bound, agent, None, person)]


async def run_script(run: dict[str, Any]) -> dict[str, Any]:
    """Do what a run asks for, and return a report."""
    world = Path(run["world"])
    generation.BATCH_PIECES, generation.BATCH_SECONDS = 3, 30  # so that each run passes the same boundaries
    lease.RENEWALS = run.get("renewals", 3)

    async def channel(delta: Delta) -> None:
        with (world / "channel").open("a", encoding="utf-8") as file:
            file.write(json.dumps([delta.message_id, delta.seq, delta.text, delta.kind]) + "\n")

    settings = Settings(
        home=world, openai_base_url=run["url"], model="gpt-4o-mini", prefill=run.get("prefill", "none"),
        session_lease_seconds=run.get("lease", 30),
    )  # fmt: skip
    database = Database(run["dsn"], Clock(), pool_size=6)
    report: dict[str, Any] = {}
    try:
        async with Consolidator(
            create_tools(world, database),
            settings=settings,
            database=database,
            channels={"test": channel},
            builtin=run.get("builtin", ()),
        ) as agent:
            agent.harness.sleep = _skip_sleep
            agent.harness.procedures = compiled_procedures(run)
            with _create_kill_point(run, world) as passed, record_unmarked_writes() as bare:
                report["finish"] = await _run_commands(agent, run)
            report["points"], report["bare"] = passed, bare
    except StaleEpoch:
        report["finish"] = "stale"
    except SessionBusy:
        report["finish"] = "busy"
    finally:
        await database.close()
    return report


def _create_kill_point(run: dict[str, Any], world: Path) -> AbstractContextManager[list[str] | None]:
    if run.get("kill"):
        return kill_points.kill_at(*run["kill"])
    if run.get("stop"):
        return kill_points.interrupt_at(run["stop"], partial(_suspend, world))
    return kill_points.record_boundaries()


def _suspend(world: Path, _: str) -> None:
    """Suspend this process, as closing the lid of a laptop does."""
    (world / "asleep").write_text(str(os.getpid()))
    os.kill(os.getpid(), signal.SIGSTOP)


async def _run_commands(agent: Consolidator, run: dict[str, Any]) -> str:
    if run["do"] == [["serve"]]:
        return await _wake_until_stopped(agent, Path(run["world"]) / "stop", run.get("alarm", 0))
    session = await _open_session(agent, run)
    result = StepResult(0, "idle")
    for words in run["do"]:
        match words:
            case ["say", text]:
                await _say_once(agent, session, text, "message")
                result = await agent.wake(session.id)
            case ["task", text]:
                result = await _work_once(agent, session, text)
            case ["say without tools", text]:
                await _say_once(agent, session, text, "message")
                await _wake_without_tools(agent, session)
                result = await agent.wake(session.id)
            case ["wake elsewhere"]:
                result = await _wake_without_channel(agent, session)
            case ["steer", text, other]:
                await _say_once(agent, session, text, "message")
                waking = asyncio.create_task(agent.wake(session.id))
                await _wait_for_output(Path(run["world"]))
                await _say_once(agent, session, other, "steer")
                await waking
                result = await agent.wake(session.id)
            case ["allow" | "deny" as word]:
                for call, request in (await session.info()).attention.items():
                    if request["kind"] == "approval":
                        await sessions.decide_approval(agent.database, call, allow=word == "allow")
                result = await agent.wake(session.id)
            case ["checkpoint"]:
                await _acknowledge(Path(run["world"]) / "checkpoint", _set_checkpoint(session))
            case ["spawn", text]:
                result = await _spawn_once(agent, session, text)
            case ["start", text]:
                await _start_sub_agent(agent, session, text)
            case ["drive"]:
                await _drive_sub_agents(agent, session)
            case ["end sub-agents"]:
                for child in await list_unfinished(agent.database, session.id):
                    await sessions.end_session(agent.database, child.id, reason="not needed")
            case ["propose", text]:
                await session.propose_steer(text, name=f"preview {session.id}")
            case ["commit"]:
                await _commit_steer(agent, session)
                result = await agent.wake(session.id)
            case ["fork" | "restore" as word, text]:
                result = await _drive_child(agent, session, word, text, Path(run["world"]))
            case ["aside" | "resume" | "end" as word]:
                await _change_session(agent, session, word)
            case _:
                result = await agent.wake(session.id)
    return result.finish_reason


async def _wake_until_stopped(agent: Consolidator, stop: Path, alarm: float) -> str:
    """Wake all pending sessions repeatedly, until the stop file exists or the alarm kills this process."""
    signal.setitimer(signal.ITIMER_REAL, alarm)
    while not os.path.exists(stop):  # noqa: ASYNC240 - another process makes it
        await agent.wake_all()
        await asyncio.sleep(0.05)
    signal.setitimer(signal.ITIMER_REAL, 0)
    return "stopped"


async def _open_session(agent: Consolidator, run: dict[str, Any]) -> Session:
    """Open the session; in a recovery the same one again, even if its key names another by now."""
    id_file = Path(run["world"]) / "session"
    if os.path.exists(id_file):  # noqa: ASYNC240 - a moment's work
        return await agent.session(id_file.read_text())
    session = await agent.open(run["key"], **run.get("config", {}))
    id_file.write_text(session.id)
    return session


async def _wake_without_tools(agent: Consolidator, session: Session) -> None:
    """Wake a session in a process without its tools, which must skip it."""
    tools, agent.harness.tools = agent.harness.tools, Toolbox()
    try:
        await agent.wake(session.id)
    except UsageError:
        return
    finally:
        agent.harness.tools = tools
    raise AssertionError("it did not need its tools")


async def _wake_without_channel(agent: Consolidator, session: Session) -> StepResult:
    """Wake a session in a process that cannot reach its channel: deliveries stay due."""
    senders, agent.harness.senders = agent.harness.senders, {}
    try:
        return await agent.wake(session.id)
    finally:
        agent.harness.senders = senders


async def _acknowledge(file: Path, work: Coroutine[Any, Any, str]) -> str:
    """Return the id that some work made: what was acknowledged, which the file says, is not asked for again."""
    if os.path.exists(file):  # noqa: ASYNC240 - a moment's work
        work.close()
    else:
        file.write_text(await work)  # noqa: ASYNC240
    return file.read_text()  # noqa: ASYNC240


async def _set_checkpoint(session: Session) -> str:
    return (await session.checkpoint("before")).id


async def _drive_child(agent: Consolidator, session: Session, word: str, text: str, world: Path) -> StepResult:
    """Fork the session, or restore its checkpoint, unless that was done; then say something to the child once."""

    async def create() -> str:
        child = await (session.fork() if word == "fork" else agent.restore((world / "checkpoint").read_text()))
        return child.id

    child = await agent.session(await _acknowledge(world / word, create()))
    base_seq = (await child.info()).base_seq
    if not any(message.seq > base_seq for message in await child.history()):
        await sessions.send_message(agent.database, child.id, text)
    return await agent.wake(child.id)


async def _spawn_once(agent: Consolidator, session: Session, text: str) -> StepResult:
    """Give a sub-agent a task; if it has it already, a wake of the parent is all that is needed."""
    async with agent.database.connection() as conn:
        called = await lineage.find_called(conn, session.id, f"spawn_{session.id}")
    if called is None:
        await session.spawn(text, call_id=f"spawn_{session.id}")
    return await agent.wake(session.id)


async def _start_sub_agent(agent: Consolidator, session: Session, text: str) -> None:
    """Give a sub-agent a task that others drive, as the API does; a call's id has one sub-agent."""
    if (await session.info()).status == "open":
        request = SpawnRequest(task=text)
        await create_sub_agent(agent.harness, session.id, request, call_id=f"{text}_{session.id}", by="program")


async def _drive_sub_agents(agent: Consolidator, session: Session) -> None:
    """Do what a driver does: wake the sub-agents that are pending, and finish those that a kill left without an end."""
    await finish_abandoned(agent.database)
    for child in await list_unfinished(agent.database, session.id):
        with suppress(SessionClosed):
            await agent.wake(child.id)


async def _commit_steer(agent: Consolidator, session: Session) -> None:
    """Send the steer of the session's branch, once."""
    async with agent.database.connection() as conn:
        branch_id = await lineage.find_named_branch(conn, session.id, f"preview {session.id}")
    assert branch_id is not None
    await session.commit_steer(branch_id)


async def _change_session(agent: Consolidator, session: Session, word: str) -> None:
    """Release a session's key, make it current again or end it, unless it has ended."""
    if (await session.info()).status != "open":
        return
    match word:
        case "aside":
            await sessions.release_key(agent.database, session.id)
        case "resume":
            await sessions.resume_session(agent.database, session.id)
        case _:
            await session.end()


async def _say_once(agent: Consolidator, session: Session, text: str, mode: Literal["message", "steer"]) -> None:
    """Send a message unless it is in the history: a person repeats only what was not acknowledged."""
    if not any(message.text == text and message.role == "user" for message in await session.history()):
        await sessions.send_message(agent.database, session.id, text, mode=mode)


async def _work_once(agent: Consolidator, session: Session, text: str) -> StepResult:
    """Send a message as a task, or go on with that task, unless it has ended."""
    async with agent.database.connection() as conn:
        ended = [task for task in await tasks.list_tasks(conn, session.id) if task.outcome is not None]
    if ended:
        return await agent.wake(session.id)
    async with session.task("Matter", resume=True):
        await session.set_scratchpad("It matters.")
        await _say_once(agent, session, text, "message")
        return await agent.wake(session.id)


@contextmanager
def record_unmarked_writes() -> Iterator[list[str]]:
    """Yield a list that fills with the stacks of database writes outside of every boundary."""
    bare: list[str] = []
    changed: WeakSet[psycopg.AsyncConnection[Any]] = WeakSet()  # in a transaction that is open
    inside: ContextVar[bool] = ContextVar("inside", default=False)

    @contextmanager
    def boundary(name: runtime_points.Boundary) -> Iterator[None]:
        token = inside.set(True)
        try:
            with runtime_points.boundary(name):
                yield
        finally:
            inside.reset(token)

    leave, execute = psycopg.AsyncTransaction.__aexit__, psycopg.AsyncCursor.execute

    async def leaving(self: psycopg.AsyncTransaction, kind: Any, error: Any, trace: Any) -> bool:
        if not self.savepoint_name and self.connection in changed:
            changed.discard(self.connection)
            if kind is None and not inside.get():
                bare.append(_describe_stack())
        return await leave(self, kind, error, trace)

    async def executing(self: psycopg.AsyncCursor[Any], query: Any, *values: Any, **more: Any) -> Any:
        if is_write(query):
            if self.connection.info.transaction_status != TransactionStatus.IDLE:
                changed.add(self.connection)
            elif not inside.get():
                bare.append(_describe_stack())
        return await execute(self, query, *values, **more)

    with ExitStack() as stack:
        for name, module in list(sys.modules.items()):
            if (
                name.startswith("consolidator.runtime.")
                and hasattr(module, "boundary")
                and module is not runtime_points
            ):
                stack.enter_context(mock.patch.object(module, "boundary", boundary))
        stack.enter_context(mock.patch.object(psycopg.AsyncTransaction, "__aexit__", leaving))
        stack.enter_context(mock.patch.object(psycopg.AsyncCursor, "execute", executing))
        yield bare


def _describe_stack() -> str:
    """Return the package's frames of the current stack, as text."""
    stack = traceback.extract_stack()
    return " > ".join(f"{frame.name}:{frame.lineno}" for frame in stack if f"{HERE}/consolidator/" in frame.filename)


async def _wait_for_output(world: Path) -> None:
    """Wait until a tool has begun or a chunk has been delivered."""
    while not any(os.path.exists(world / name) for name in ("effects", "channel")):  # noqa: ASYNC110, ASYNC240
        await asyncio.sleep(0.01)  # another process makes it


async def _skip_sleep(_: float) -> None:
    return None


class ForkServer:
    """A process that forks a child for each run, and the pipe to it."""

    def __init__(self, environment: dict[str, str]) -> None:
        quiet = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.acceptance.matrix_agent"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, env={**environment, **quiet}, cwd=HERE,
        )  # fmt: skip

    def run(self, run: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Run a child until it ends or dies; return its exit code and its report."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(run) + "\n")
        self._process.stdin.flush()
        code, output = json.loads(self._process.stdout.readline())
        return code, json.loads(output.splitlines()[-1]) if code == 0 else {"printed": output}

    def close(self) -> None:
        """Stop the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(PATIENCE)
        if self._process.stdout is not None:
            self._process.stdout.close()


def _preload() -> None:
    """Load what every child would load again: client libraries load lazily, at first use."""
    from consolidator.llm.client import ModelClient
    from consolidator.llm.prices import calculate_cost
    from consolidator.llm.tokens import count_tokens

    mock.patch.object(ssl, "create_default_context", lru_cache(ssl.create_default_context)).start()  # slow
    assert ModelClient("http://127.0.0.1:1/v1", None, 1).get_client().chat.completions
    count_tokens("warm")
    calculate_cost("gpt-4o-mini", input_tokens=1, output_tokens=1)


def _serve() -> None:
    _preload()
    for line in sys.stdin:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            os.dup2(writer, 1)
            os.dup2(writer, 2)
            warnings.simplefilter("error")
            signal.alarm(PATIENCE)  # a child that hangs fails visibly
            sys.stdout.write(json.dumps(asyncio.run(run_script(json.loads(line)))))
            sys.stdout.flush()
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader, encoding="utf-8", errors="replace") as printed:
            output = printed.read()
        _, status = os.waitpid(child, 0)
        sys.stdout.write(json.dumps([os.waitstatus_to_exitcode(status), output]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve()
