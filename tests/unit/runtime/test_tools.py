"""Tools: type hints are the schema, and whatever a model or a tool does wrong is an outcome that can be read."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from consolidator.errors import UsageError
from consolidator.models.payload import EventType, check_payload
from consolidator.runtime.session.outcome import Outcome, truncate
from consolidator.runtime.tools import tool as tools
from consolidator.runtime.tools.tool import CallContext, Tool, Toolbox, tool

CALL = CallContext("call-1", "session-1")


class Place(BaseModel):
    title: str
    floor: int = 0


@dataclass
class Found:
    place: Place
    score: float


@tool(idempotent=True)
async def find(
    query: Annotated[str, Field(description="what to look for")],
    call: CallContext,
    *,
    limit: int = 3,
    kind: Literal["room", "desk"] = "room",
    near: Place | None = None,
) -> list[Found]:
    """Find places
    in the house.

    What comes after the first paragraph is for people.
    """
    return [Found(near or Place(title=query), limit / 2)]


def outcome(tool_or_function: Tool | Any, arguments: Any, call: CallContext = CALL) -> Outcome:
    """Run the only tool of a box."""
    box = Toolbox([tool_or_function])
    return asyncio.run(box.run(box.names[0], arguments, call))


def test_the_schema_is_what_the_signature_says() -> None:
    definition = find.definition
    assert definition["type"] == "function"
    assert definition["function"]["name"] == "find"
    assert definition["function"]["description"] == "Find places in the house."
    schema = definition["function"]["parameters"]
    assert schema["required"] == ["query"]
    assert schema["additionalProperties"] is False
    assert set(schema["properties"]) == {"query", "limit", "kind", "near"}
    assert schema["properties"]["query"] == {"type": "string", "description": "what to look for"}
    assert schema["properties"]["kind"] == {"enum": ["room", "desk"], "type": "string", "default": "room"}
    assert schema["$defs"]["Place"]["properties"]["title"] == {"type": "string"}


def test_a_tool_can_still_be_called_as_the_function_it_is() -> None:
    @tool
    def double(number: int) -> int:
        return number * 2

    assert double(4) == 8
    assert (double.idempotent, double.side_effect, double.needs_approval) == (False, True, False)


def test_a_tool_without_a_side_effect_may_always_run_again() -> None:
    @tool(side_effect=False)
    def look() -> str:
        return "seen"

    assert look.idempotent


@pytest.mark.parametrize("name", ["schema", "copy", "model_config", "_private", "self_", "json"])
def test_parameters_may_have_any_name(name: str) -> None:
    namespace: dict[str, Any] = {}
    exec(f"def odd({name}: int, other: str = 'x') -> str:\n    return f'{{{name}}} {{other}}'", namespace)
    assert outcome(namespace["odd"], {name: 7}) == Outcome("7 x")


def test_arguments_become_what_the_hints_say() -> None:
    result = outcome(find, '{"query": "lamp", "limit": "5", "near": {"title": "hall"}}')
    assert result == Outcome([{"place": {"title": "hall", "floor": 0}, "score": 2.5}])


def test_the_call_is_handed_to_who_asks_for_it_and_never_to_the_model() -> None:
    @tool
    async def pay(amount: int, call: CallContext) -> dict[str, Any]:
        before = await call.previous_result()
        return {"id": call.call_id, "again": call.is_retry, "before": None if before is None else before.content}

    assert "call" not in pay.schema["properties"]
    assert outcome(pay, {"amount": 1}).content == {"id": "call-1", "again": False, "before": None}

    async def paid() -> Outcome:
        return Outcome("paid")

    again = CallContext("call-1", "session-1", is_retry=True, load_logged_result=paid)
    assert outcome(pay, {"amount": 1}, again).content == {"id": "call-1", "again": True, "before": "paid"}
    assert "takes no call" in outcome(pay, {"amount": 1, "call": {}}).content


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("{", "not valid JSON"),
        ('{"query": "x"', "not valid JSON"),
        ("[1]", "one JSON object"),
        ("null", "one JSON object"),
        ("[" * 200_000, "not valid JSON"),
        (["x"], "one JSON object"),
        ("", "query is missing"),
        (None, "query is missing"),
        ('{"query": 3}', "query: Input should be a valid string"),
        ('{"query": "x", "limit": "many", "place": 1}', "it takes no place. It takes: query, limit, kind, near."),
        ('{"query": "x", "near": {"floor": 1}}', "near.title is missing"),
    ],
)
def test_arguments_that_do_not_fit_are_told_and_nothing_runs(arguments: Any, message: str) -> None:
    result = outcome(find, arguments)
    assert result.status == "error"
    assert result.reason is None
    assert "find was not run" in result.content
    assert message in result.content


def test_nothing_at_all_is_no_arguments() -> None:
    @tool
    def now() -> str:
        return "noon"

    nothing: list[Any] = ["", "  ", None, "{}", {}]
    assert [outcome(now, arguments).content for arguments in nothing] == ["noon"] * 5


def test_an_unknown_tool_is_told_which_there_are() -> None:
    result = asyncio.run(Toolbox([find]).run("search", "{}", CALL))
    assert result == Outcome.failed("There is no tool named 'search'. There are: find.")
    assert "There are: none." in asyncio.run(Toolbox().run("search", "{}", CALL)).content


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no such place"),
        SystemExit(3),
        RecursionError("deep"),
        StopIteration("s"),
        TimeoutError("its own"),
        GeneratorExit("over"),
        BaseExceptionGroup("several", [SystemExit(1)]),
        pytest.fail.Exception("not so"),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("threaded", [True, False])
def test_whatever_a_tool_raises_is_an_outcome(error: BaseException, threaded: bool) -> None:
    def sync() -> None:
        raise error

    async def asynchronous() -> None:
        raise error

    result = outcome(sync if threaded else asynchronous, None)
    assert result.status == "error"
    assert result.reason is None
    assert str(error) in result.content


def test_a_long_complaint_is_cut() -> None:
    def loud() -> None:
        raise ValueError("x" * 100_000)

    assert len(outcome(loud, None).content) < 5_000


async def test_a_tool_that_takes_too_long_is_stopped_and_may_have_had_its_effect() -> None:
    cleaned = asyncio.Event()

    @tool(timeout=0.01)
    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()

    result = await Toolbox([wait]).run("wait", None, CALL)
    assert (result.status, result.reason) == ("error", "timeout")
    assert "within 0.01 s" in result.content
    assert "may have taken effect" in result.content
    assert cleaned.is_set()


async def test_a_tool_that_refuses_to_stop_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "GRACE", 0.01)
    release = asyncio.Event()

    @tool(timeout=0.01, side_effect=False)
    async def stubborn() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    result = await Toolbox([stubborn]).run("stubborn", None, CALL)
    assert result.reason == "timeout"
    assert "effect" not in result.content
    release.set()


async def test_a_thread_that_hangs_holds_nobody_up() -> None:
    release = threading.Event()

    @tool(timeout=0.01)
    def hang() -> None:
        release.wait(30)

    assert (await Toolbox([hang]).run("hang", None, CALL)).reason == "timeout"
    assert next(thread for thread in threading.enumerate() if thread.name == "function").daemon
    release.set()


async def test_our_own_cancellation_stops_the_tool_and_passes_through() -> None:
    begun, cleaned = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()

    running = asyncio.create_task(Toolbox([wait]).run("wait", None, CALL))
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert cleaned.is_set()


async def test_a_cancellation_of_the_tools_own_making_is_an_outcome() -> None:
    @tool
    async def cancelled() -> None:
        raise asyncio.CancelledError

    result = await Toolbox([cancelled]).run("cancelled", None, CALL)
    assert (result.status, result.reason) == ("error", "aborted")


def test_a_sync_tool_runs_beside_the_event_loop() -> None:
    def where() -> str:
        return threading.current_thread().name

    assert outcome(where, None).content == "function"


def test_in_a_dry_run_side_effects_say_what_they_would_have_done() -> None:
    done = []

    @tool
    def delete(path: str) -> None:
        done.append(path)

    @tool(side_effect=False)
    def look(path: str, call: CallContext) -> str:
        return f"{path} {call.dry_run}"

    dry = CallContext("c", "s", dry_run=True)
    assert outcome(delete, '{"path": "/tmp/ä"}', dry).content == (
        'Dry run: delete was not run. It would have been called with {"path": "/tmp/ä"}.'
    )
    assert not done
    assert outcome(delete, "{}", dry).status == "error"
    assert outcome(look, '{"path": "x"}', dry).content == "x True"


def test_a_tool_may_change_the_sessions_state_and_fail_in_its_own_words() -> None:
    def book() -> Outcome:
        return Outcome({"room": Place(title="hall")}, patch={"room": Place(title="hall")})

    def refuse() -> Outcome:
        return Outcome.failed("full")

    booked = {"room": {"title": "hall", "floor": 0}}
    assert outcome(book, None) == Outcome(booked, patch=booked)
    assert outcome(refuse, None) == Outcome("full", "error")


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        "half \ud800 of an emoji",
        float("nan"),
        b"\xff\x00",
        {1, 2},
        {("a", 1): object()},
        [iter("ab")],
        10**30,
    ],
    ids=lambda value: type(value).__name__,
)
def test_whatever_a_tool_returns_fits_the_log_and_the_model(value: Any) -> None:
    result = _returned(value)
    assert result.status == "ok"
    check_payload(EventType.TOOL_RESULT, {"call_id": "c", "content": result.content, "status": result.status})
    truncate(result.content, 10_000).encode()


def _returned(value: Any) -> Outcome:
    def give() -> Any:
        return value

    return outcome(give, None)


def test_what_contains_itself_cannot_be_returned() -> None:
    ring: list[Any] = []
    ring.append(ring)
    assert _returned(ring).status == "error"


def test_a_long_result_is_whole_in_the_log_and_cut_for_the_model() -> None:
    whole = "a" * 50_000 + "ü" * 50_000
    result = _returned(whole)
    assert result.content == whole
    shown = truncate(result.content, 1000)
    assert shown.startswith("aaa")
    assert shown.endswith("üüü")
    assert "149000 of 150000 bytes left out" in shown
    assert len(shown.encode()) < 1100


@pytest.mark.parametrize("limit", range(1, 12))
def test_a_cut_never_breaks_a_character(limit: int) -> None:
    assert "\ufffd" not in truncate("🦉" * 10, limit)


def test_a_result_the_log_could_not_hold_is_cut_there_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("consolidator.runtime.tools.tool.MAX_LOGGED_BYTES", 1000)
    assert len(_returned("x" * 5000).content) < 1100


def test_functions_that_no_model_could_call_are_refused() -> None:
    def many(*words: str) -> None: ...

    def named(**words: str) -> None: ...

    def first(word: str, /) -> None: ...

    def unknown(word: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    def opaque(lock: threading.Event) -> None: ...

    for function in (many, named, first, unknown, opaque):
        with pytest.raises(UsageError, match=function.__name__):
            tool(function)
    with pytest.raises(UsageError, match="not a valid tool name"):
        tool(name="with space")(many)
    with pytest.raises(UsageError, match="greater than zero"):
        tool(timeout=0, name="instant")(lambda: None)


def test_two_tools_cannot_have_one_name() -> None:
    with pytest.raises(UsageError, match="two tools are named 'find'"):
        Toolbox([find, find])


def test_methods_and_callable_objects_are_tools_too() -> None:
    class Shop:
        def buy(self, item: str) -> str:
            """Buy."""
            return f"bought {item}"

        async def __call__(self, item: str) -> str:
            return f"called {item}"

    assert outcome(Shop().buy, {"item": "lamp"}).content == "bought lamp"
    assert outcome(Shop(), {"item": "lamp"}).content == "called lamp"
