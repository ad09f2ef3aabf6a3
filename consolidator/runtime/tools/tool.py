"""Tools a model may call: plain functions with type hints, their JSON schema, and a run that always has an outcome.

What a tool does wrong is told to the model, never raised: only a cancellation of the run itself passes through.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

from consolidator.errors import UsageError
from consolidator.runtime.tools import call_runner
from consolidator.runtime.tools.arguments import BadArguments, Bound, parameters_of, parsed
from consolidator.runtime.tools.outcome import Outcome, cut, text_of

TIMEOUT = 60.0
RESULT_BYTES = 32 * 1024  # of a result, what the model is shown
LOGGED_BYTES = 16 * 1024 * 1024  # of a result, what the log keeps
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_TOLD_BYTES = 4_000  # of what an exception says

Bind = Callable[[Mapping[str, Any], "CallContext"], Bound]


@dataclass(frozen=True, slots=True)
class CallContext:
    """What a tool that asks for it (a parameter annotated `Call`) is told of the call it serves."""

    call_id: str
    session_id: str
    dry_run: bool = False
    again: bool = False  # a process died in this call: it may have run before
    look: Callable[[], Awaitable[Outcome | None]] | None = None

    async def previous_result(self) -> Outcome | None:
        """Return what the log holds by now as this call's result: another process may have overtaken this one."""
        return None if self.look is None else await self.look()


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool: what the model is told of it, and how a crash, a person and a clock may treat its calls."""

    name: str
    description: str
    schema: Mapping[str, Any]  # JSON schema of its arguments
    function: Callable[..., Any]
    bind: Bind  # checks arguments, raises BadArguments, and returns what runs it
    idempotent: bool = False  # may be run again under the same call_id
    side_effect: bool = True  # does nothing in a dry run
    needs_approval: bool = False
    timeout: float | None = TIMEOUT
    max_result_bytes: int = RESULT_BYTES

    def __call__(self, *words: Any, **named: Any) -> Any:
        """Call the function itself, as a test of it would."""
        return self.function(*words, **named)

    @property
    def definition(self) -> dict[str, Any]:
        """The tool as the OpenAI protocol names it."""
        told = {"name": self.name, "description": self.description, "parameters": dict(self.schema)}
        return {"type": "function", "function": told}


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...


@overload
def tool(
    *,
    name: str | None = ...,
    idempotent: bool = ...,
    side_effect: bool = ...,
    needs_approval: bool = ...,
    timeout: float | None = ...,
    max_result_bytes: int = ...,
) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    idempotent: bool = False,
    side_effect: bool = True,
    needs_approval: bool = False,
    timeout: float | None = TIMEOUT,
    max_result_bytes: int = RESULT_BYTES,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a function, sync or async: schema from its type hints, description from its docstring.

    `idempotent` lets a call that a crash interrupted run again under its `call_id`; a tool without a side effect always
    may. Without it such a call becomes uncertain, and a person decides. `timeout` is in seconds; None waits for ever.
    Raises UsageError for a function that no model could call.
    """

    def made(function: Callable[..., Any]) -> Tool:
        known = str(name or getattr(function, "__name__", type(function).__name__))
        if not _NAME.fullmatch(known):
            raise UsageError(f"{known!r} cannot name a tool: at most 64 letters, digits, _ and -")
        if (timeout is not None and timeout <= 0) or max_result_bytes < 1:
            raise UsageError(f"tool {known!r}: timeout and max_result_bytes must be more than nothing")
        parameters = parameters_of(function, known, CallContext)
        return Tool(
            known, _first_paragraph(function), parameters.schema, function, parameters.bind,
            idempotent or not side_effect, side_effect, needs_approval, timeout, max_result_bytes,
        )  # fmt: skip

    return made if function is None else made(function)


class Toolbox:
    """The tools of a session, by name."""

    def __init__(self, tools: Iterable[Tool | Callable[..., Any]] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        for one in tools:
            self.add(one if isinstance(one, Tool) else tool(one))

    def __len__(self) -> int:
        return len(self._tools)

    @property
    def names(self) -> Sequence[str]:
        """The tools' names, in the order they were given."""
        return tuple(self._tools)

    def add(self, one: Tool) -> None:
        """Add a tool; raise UsageError where its name is taken."""
        if one.name in self._tools:
            raise UsageError(f"two tools are named {one.name!r}")
        self._tools[one.name] = one

    def get(self, name: str) -> Tool | None:
        """Return the tool of that name."""
        return self._tools.get(name)

    def definitions(self) -> list[dict[str, Any]]:
        """Return the tools as the OpenAI protocol names them."""
        return [one.definition for one in self._tools.values()]

    async def run(self, name: str, arguments: str | Mapping[str, Any] | None, call: CallContext) -> Outcome:
        """Run a call to its outcome; `arguments` is JSON as the model wrote it, or what it says."""
        found = self.get(name)
        if found is None:
            known = ", ".join(self._tools) or "none"
            return Outcome.failed(f"There is no tool named {name!r}. There are: {known}.")
        try:
            run = found.bind(parsed(arguments), call)
        except BadArguments as error:
            return Outcome.failed(f"{found.name} was not run: {error}")
        if call.dry_run and found.side_effect:
            told = json.dumps(parsed(arguments), ensure_ascii=False)
            return Outcome(f"Dry run: {found.name} was not run. It would have been called with {told}.")
        return _outcome(found, await call_runner.run(run, found.timeout))


def _outcome(found: Tool, ended: call_runner.Ended) -> Outcome:
    if ended.late:
        told = f"{found.name} did not end within {found.timeout:g} s and was stopped."
        return Outcome.failed(told + (" It may have taken effect." if found.side_effect else ""), "timeout")
    if ended.error is not None:
        if isinstance(ended.error, asyncio.CancelledError):
            return Outcome.failed(f"{found.name} was cancelled from within.", "aborted")
        return Outcome.failed(cut(f"{type(ended.error).__name__}: {ended.error}", _TOLD_BYTES))
    given = ended.value if isinstance(ended.value, Outcome) else Outcome(ended.value)
    content = given.content
    if len(text_of(content).encode()) > LOGGED_BYTES:
        content = cut(content, LOGGED_BYTES)
    return Outcome(content, given.status, given.reason, given.patch)


def _first_paragraph(function: Callable[..., Any]) -> str:
    told = inspect.getdoc(function) or ""
    return " ".join(told.split("\n\n")[0].split())
