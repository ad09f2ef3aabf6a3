"""Tools that a model may call: plain functions with type hints, their JSON schema, and a run that ends in an Outcome.

The model is told what a tool does wrong; nothing is raised. Only the cancellation of the run itself passes through.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

from consolidator.errors import UsageError
from consolidator.formats.common.json_parsing import exceeds_max_depth
from consolidator.process import run_in_thread
from consolidator.runtime.session.outcome import Outcome, to_text, truncate

if TYPE_CHECKING:  # a file of tools must not load the database
    from consolidator.runtime.session.agent_defaults import SpawnRequest, SpawnResult
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Annotated, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic_core import to_jsonable_python

BoundCall = Callable[[], Any]  # the function with its checked arguments, ready to run
_MAX_REPORTED_ERRORS = 5  # of one call


class BadArguments(Exception):
    """The arguments do not fit. The message tells the model which, why, and what would fit."""


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)


def _inspect_parameters(function: Callable[..., Any], name: str) -> tuple[Mapping[str, Any], BindArguments]:
    """Return the schema of a function's parameters, and what calls it with what a model wrote.

    The runtime fills the one annotated CallContext. Raises UsageError for parameters that a model cannot fill.
    """
    try:
        signature = inspect.signature(function)
        annotated = function if inspect.isroutine(function) else type(function).__call__
        hints = get_type_hints(annotated, include_extras=True)
    except (NameError, TypeError, ValueError) as error:
        raise UsageError(f"tool {name!r}: cannot read its type hints: {error}") from error
    fields: dict[str, Any] = {}
    names: dict[str, str] = {}
    call_parameter = None
    for number, parameter in enumerate(signature.parameters.values()):
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise UsageError(f"tool {name!r}: a model cannot fill {parameter}; give each parameter a name")
        hint = hints.get(parameter.name, Any)
        if hint is CallContext:
            call_parameter = parameter.name
            continue
        field = f"p{number}"  # pydantic reserves some names: schema, copy, model_..., _private
        names[field] = parameter.name
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[field] = (Annotated[hint, Field(alias=parameter.name)], default)
    model, schema = _create_model(name, fields)

    def bind(arguments: Mapping[str, Any], call: CallContext) -> BoundCall:
        try:
            checked = model.model_validate(arguments)
        except ValidationError as error:
            raise BadArguments(_describe_errors(error, list(names.values()))) from error
        keywords = {names[field]: getattr(checked, field) for field in checked.model_fields_set}
        return partial(function, **keywords, **({call_parameter: call} if call_parameter is not None else {}))

    return schema, bind


def _create_model(name: str, fields: dict[str, Any]) -> tuple[type[BaseModel], dict[str, Any]]:
    try:
        model = create_model(name, __base__=_Arguments, **fields)
        schema = model.model_json_schema(by_alias=True)
    except PydanticUserError as error:
        raise UsageError(f"tool {name!r}: its parameters have no JSON schema: {error.message}") from error
    schema.setdefault("properties", {})
    return model, _without_titles(schema)


def _without_titles(schema: Any) -> Any:
    """Drop the titles, which only repeat the names. A property named `title` stays, and so does any value."""
    if isinstance(schema, list):
        return [_without_titles(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: child if key in ("default", "enum", "const", "examples") else _without_titles(child)
        for key, child in schema.items()
        if key != "title" or not isinstance(child, str)
    }


def parse_arguments(arguments: str | Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the arguments that a model wrote; an empty text is an empty object. Raises BadArguments for no object."""
    if arguments is None or isinstance(arguments, Mapping):
        return arguments or {}
    if not isinstance(arguments, str):
        raise BadArguments(f"its arguments must be one JSON object, not {type(arguments).__name__}.")
    if not arguments.strip():
        return {}
    try:
        parsed = json.loads(arguments)
    except (ValueError, RecursionError) as error:
        raise BadArguments(f"its arguments are not valid JSON ({error}). Send one JSON object.") from error
    if not isinstance(parsed, dict):
        raise BadArguments("its arguments must be one JSON object, such as {}.")
    return parsed


def _describe_errors(error: ValidationError, names: list[str]) -> str:
    """Describe what does not fit, in words that the model can act on."""
    descriptions = []
    for details in error.errors(include_url=False, include_context=False)[:_MAX_REPORTED_ERRORS]:
        path = ".".join(str(part) for part in details["loc"])
        described = {"missing": f"{path} is missing", "extra_forbidden": f"it takes no {path}"}
        descriptions.append(described.get(details["type"], f"{path}: {details['msg']}"))
    more = error.error_count() - len(descriptions)
    descriptions += [f"and {more} more"] if more > 0 else []
    return f"{'; '.join(descriptions)}. It takes: {', '.join(names) or 'nothing'}."


MAX_ITEMS = 10_000  # of an iterator that a tool returns
GRACE = 1.0  # seconds that a cancelled function has to clean up


@dataclass(frozen=True, slots=True)
class FunctionResult:
    """How a function ended: with a value that JSON can hold, an error, or a timeout."""

    value: Any = None
    error: BaseException | None = None
    timed_out: bool = False


async def run_function(function: Callable[[], Any], seconds: float | None) -> FunctionResult:
    """Run a function for at most `seconds`, in a thread where it is not async.

    Raises only CancelledError, when the caller itself is cancelled, and only after the function has ended.
    """
    task = asyncio.create_task(_call(function))
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        await _cancel(task)
        raise
    if not done:
        await _cancel(task)
        return FunctionResult(timed_out=True)
    return FunctionResult(error=asyncio.CancelledError()) if task.cancelled() else task.result()


async def _cancel(task: asyncio.Task[FunctionResult]) -> None:
    task.cancel()
    await asyncio.wait({task}, timeout=GRACE)


async def _call(function: Callable[[], Any]) -> FunctionResult:
    """Call a function and catch whatever it raises: the log records it."""
    try:
        value = function() if _is_async(function) else await run_in_thread(function)
        if inspect.isawaitable(value):
            value = await value
        return FunctionResult(_to_json(value))
    except (asyncio.CancelledError, KeyboardInterrupt):  # ours, or the person's at the terminal
        raise
    except BaseException as error:  # noqa: BLE001 - a tool may raise anything; the outcome records it
        return FunctionResult(error=error)


def _is_async(function: Callable[[], Any]) -> bool:
    inner = getattr(function, "func", function)  # of a partial
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(getattr(inner, "__call__", None))  # noqa: B004


def _to_json(value: Any) -> Any:
    """Return a value as JSON can hold it: models and dataclasses as objects, anything else as its `str`."""
    if isinstance(value, Outcome):
        content = _to_json(value.content)
        patch = None if value.patch is None else _to_json(dict(value.patch))
        return replace(value, content=content, patch=patch)
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, Iterator):  # it may have no end
        items = list(islice(value, MAX_ITEMS + 1))
        value = [*items[:MAX_ITEMS], "[... more left out ...]"] if len(items) > MAX_ITEMS else items
    return to_jsonable_python(value, bytes_mode="base64", fallback=str)


MAX_DEPTH = 100  # levels of a call's arguments, and of a tool's result
DEFAULT_TIMEOUT = 60.0  # seconds
DEFAULT_RESULT_BYTES = 32 * 1024  # of a result, shown to the model
MAX_LOGGED_BYTES = 16 * 1024 * 1024  # of a result, kept in the log
MAX_PATCH_BYTES = 1024 * 1024  # of a change of the session's state
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MAX_ERROR_BYTES = 4_000  # of an exception's text

BindArguments = Callable[[Mapping[str, Any], "CallContext"], BoundCall]


@dataclass(frozen=True, slots=True)
class CallContext:
    """The call that a tool serves; passed to the tool's parameter that is annotated with this class."""

    call_id: str
    session_id: str
    dry_run: bool = False
    is_retry: bool = False  # a process died in this call: it may have run before
    load_logged_result: Callable[[], Awaitable[Outcome | None]] | None = None
    spawn: Callable[[SpawnRequest], Awaitable[SpawnResult]] | None = None  # gives a task to this call's sub-agent

    async def previous_result(self) -> Outcome | None:
        """Return the result that the log has of this call by now: another process may have overtaken this one."""
        return None if self.load_logged_result is None else await self.load_logged_result()


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool: what the model is told of it, and how its calls are treated after a crash, by a person and by a clock."""

    name: str
    description: str
    schema: Mapping[str, Any]  # JSON schema of its arguments
    function: Callable[..., Any]
    bind: BindArguments  # checks arguments, raises BadArguments, and returns what runs it
    idempotent: bool = False  # may run again with the same call_id
    side_effect: bool = True  # does not run in a dry run
    needs_approval: bool = False
    timeout: float | None = DEFAULT_TIMEOUT  # seconds
    max_result_bytes: int = DEFAULT_RESULT_BYTES
    polls: bool = False  # is called again and again, until its result changes
    changes_session: bool = False  # runs alone: its change of the session is logged with its result
    begins_procedure: bool = False  # runs alone: the first step is logged with its result

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Call the function itself, as in a test of it."""
        return self.function(*arguments, **keywords)

    @property
    def skipped_in_dry_run(self) -> bool:
        """Whether a dry run answers calls of it without running it."""
        return self.side_effect and not self.changes_session

    @property
    def definition(self) -> dict[str, Any]:
        """The tool's definition in the OpenAI protocol."""
        function = {"name": self.name, "description": self.description, "parameters": dict(self.schema)}
        return {"type": "function", "function": function}


class ToolOptions(TypedDict, total=False):
    """How the calls of a tool are treated, as `Tool` says."""

    idempotent: bool
    side_effect: bool
    needs_approval: bool
    timeout: float | None
    max_result_bytes: int
    polls: bool


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...


@overload
def tool(*, name: str | None = ..., **options: Unpack[ToolOptions]) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(
    function: Callable[..., Any] | None = None, /, *, name: str | None = None, **options: Unpack[ToolOptions]
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a function, sync or async: schema from its type hints, description from its docstring.

    A call that a crash interrupted runs again under its `call_id` where the tool is `idempotent` or has no side effect;
    otherwise it becomes uncertain, and a person decides. `timeout` is in seconds; None waits forever. A tool
    that `polls` may give the same result as often as a turn has steps. Raises UsageError for a function that no model
    could call.
    """

    def create(function: Callable[..., Any]) -> Tool:
        tool_name = str(name or getattr(function, "__name__", type(function).__name__))
        if not _NAME.fullmatch(tool_name):
            raise UsageError(f"{tool_name!r} is not a valid tool name: use at most 64 letters, digits, _ and -")
        description = " ".join((inspect.getdoc(function) or "").split("\n\n")[0].split())
        schema, bind = _inspect_parameters(function, tool_name)
        made = Tool(tool_name, description, schema, function, bind, **options)
        if (made.timeout is not None and made.timeout <= 0) or made.max_result_bytes < 1:
            raise UsageError(f"tool {tool_name!r}: timeout and max_result_bytes must be greater than zero")
        return replace(made, idempotent=made.idempotent or not made.side_effect)

    return create if function is None else create(function)


class Toolbox:
    """The tools of a session, by name."""

    def __init__(self, tools: Iterable[Tool | Callable[..., Any]] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        for item in tools:
            self.add(item if isinstance(item, Tool) else tool(item))

    def __len__(self) -> int:
        return len(self._tools)

    @property
    def names(self) -> Sequence[str]:
        """The tools' names, in the order in which they were added."""
        return tuple(self._tools)

    @property
    def polled_names(self) -> frozenset[str]:
        """The names of the tools that poll."""
        return frozenset(name for name, tool in self._tools.items() if tool.polls)

    def result_limits(self) -> dict[str, int]:
        """Return the maximum bytes of each tool's results."""
        return {name: tool.max_result_bytes for name, tool in self._tools.items()}

    def add(self, tool: Tool) -> None:
        """Add a tool. Raises UsageError where another tool has its name."""
        if tool.name in self._tools:
            raise UsageError(f"two tools are named {tool.name!r}")
        self._tools[tool.name] = tool

    def limited(self, names: Iterable[str] | None) -> Toolbox:
        """Return the toolbox with those tools alone; with None, itself."""
        if names is None:
            return self
        allowed = set(names)
        return Toolbox(tool for name, tool in self._tools.items() if name in allowed)

    def extended(self, tools: Iterable[Tool]) -> Toolbox:
        """Return a toolbox with more tools; one whose name is taken is left out."""
        return Toolbox({tool.name: tool for tool in [*tools, *self._tools.values()]}.values())

    def in_dry_run(self) -> Toolbox:
        """Return the tools as a dry run has them: what does not run needs no approval, and leaves nothing uncertain."""
        return Toolbox(
            replace(tool, needs_approval=False, idempotent=True) if tool.skipped_in_dry_run else tool
            for tool in self._tools.values()
        )

    def get(self, name: str) -> Tool | None:
        """Return the tool of that name."""
        return self._tools.get(name)

    def definitions(self) -> list[dict[str, Any]]:
        """Return the tools' definitions in the OpenAI protocol."""
        return [tool.definition for tool in self._tools.values()]

    async def run(self, name: str, arguments: str | Mapping[str, Any] | None, call: CallContext) -> Outcome:
        """Run a call to its outcome; `arguments` is JSON as the model wrote it, or already parsed."""
        tool = self.get(name)
        if tool is None:
            names = ", ".join(self._tools) or "none"
            return Outcome.failed(f"There is no tool named {name!r}. There are: {names}.")
        try:
            bound_call = tool.bind(parse_arguments(arguments), call)
        except BadArguments as error:
            return Outcome.failed(f"{tool.name} was not run: {error}")
        if call.dry_run and tool.skipped_in_dry_run:
            parsed = json.dumps(parse_arguments(arguments), ensure_ascii=False)
            return Outcome(f"Dry run: {tool.name} was not run. It would have been called with {parsed}.")
        return _to_outcome(tool, await run_function(bound_call, tool.timeout))


def _to_outcome(tool: Tool, result: FunctionResult) -> Outcome:
    if result.timed_out:
        message = f"{tool.name} did not end within {tool.timeout:g} s and was stopped."
        return Outcome.failed(message + (" It may have taken effect." if tool.side_effect else ""), "timeout")
    if result.error is not None:
        if isinstance(result.error, asyncio.CancelledError):
            return Outcome.failed(f"{tool.name} was cancelled from within.", "aborted")
        return Outcome.failed(truncate(_describe_error(result.error), _MAX_ERROR_BYTES))
    outcome = result.value if isinstance(result.value, Outcome) else Outcome(result.value)
    try:
        content = _limit_content(outcome.content)
        patch_bytes = 0 if outcome.patch is None else len(to_text(dict(outcome.patch)).encode())
    except (ValueError, TypeError, RecursionError) as error:
        return Outcome.failed(f"The result of {tool.name} cannot be written down: {type(error).__name__}.")
    if patch_bytes > MAX_PATCH_BYTES:
        message = (
            f"The change of the session's state by {tool.name} has {patch_bytes:,} bytes, over {MAX_PATCH_BYTES:,}."
        )
        return Outcome.failed(message)
    return replace(outcome, content=content)


def _limit_content(content: Any) -> Any:
    """Return a result as the log keeps it; raise ValueError for one that is nested too deep."""
    if exceeds_max_depth(content, MAX_DEPTH):
        raise ValueError("nested too deep")
    if isinstance(content, str) and len(content) > MAX_LOGGED_BYTES:  # before it is encoded, which copies it
        half = MAX_LOGGED_BYTES // 2
        return f"{content[:half]}\n[... {len(content) - 2 * half} characters left out ...]\n{content[-half:]}"
    if len(to_text(content).encode()) > MAX_LOGGED_BYTES:
        return truncate(content, MAX_LOGGED_BYTES)
    return content


def _describe_error(error: BaseException) -> str:
    """Return an exception as text; its own text may fail, too."""
    try:
        return f"{type(error).__name__}: {str(error)[:_MAX_ERROR_BYTES]}"
    except Exception:  # noqa: BLE001 - an author's __str__
        return type(error).__name__
