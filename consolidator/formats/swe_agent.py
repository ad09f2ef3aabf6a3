"""Reads SWE-agent trajectories (`.traj`): one JSON object a file, one session each, with the task it was given.

Steps come from "trajectory", and function calls from the messages of "history"; where there are no steps, both come
from "history". A file is read as a whole (it is one JSON text, seldom over some MB), up to MAX_FILE.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from consolidator.formats.base import ForeignEvent, ForeignSession, Item, ItemKeys, Problem, Skipped
from consolidator.formats.common.jsonl import files_below, parse_json
from consolidator.formats.common.origin import origin_of
from consolidator.formats.common.outcome import failed, timed_out
from consolidator.models.payload import EventType

NAME = "swe-agent"
MAX_FILE = 256 * 1024 * 1024  # bytes

# "marshmallow-code__marshmallow-1867": owner, repository and number, as SWE-bench names its tasks.
_INSTANCE = re.compile(r"(?:^|_)([A-Za-z0-9][A-Za-z0-9.-]*)__([A-Za-z0-9.-]+)-(i?\d+)$")
_GITHUB = re.compile(r"github\.com/([\w.-]+)/([\w.-]+?)(?:\.git)?/?$")
_ISSUE = re.compile(r"ISSUE:\s*\n(.*?)(?:\nINSTRUCTIONS:|\Z)", re.DOTALL)
# The prompt that the environment puts under an observation in the history (the steps have it without).
_PROMPT = re.compile(
    r"\n?(?:\(Open file: .*\)\n\(Current directory: .*\)\n)?bash-\$\s*$|\n?\(Open file: .*\)\n.*\$\s*$"
)
_NO_OUTPUT = "Your command ran successfully and did not produce any output."
_NO_MODEL = ("replay", "human", "human_thought", "instant_empty_submit")  # stand-ins for one
_GAVE_UP = re.compile(r"^(?:exit_\w+|early_exit)$")  # what stands for an action when the run was stopped from outside


def default_paths(home: Path) -> list[Path]:
    """Return nothing: trajectories lie where the person who ran the agent wanted them."""
    return []


def files(path: Path) -> Iterator[Path]:
    """Yield the trajectories at or below `path`."""
    yield from files_below(path, ".traj")


def recognises(path: Path, head: bytes) -> bool:
    """Tell by the name: a trajectory may begin with anything, and nothing else is called so."""
    return path.suffix == ".traj" and head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{"


def read(path: Path, root: Path) -> Iterator[Item]:
    """Read one trajectory: a session with its task, each step as an answer, a call and a result."""
    size = path.stat().st_size
    if size > MAX_FILE:
        yield Problem(f"longer than {MAX_FILE} bytes")
        return
    try:
        record = parse_json(path.read_bytes().removeprefix(b"\xef\xbb\xbf"))
    except ValueError as error:
        yield Problem(str(error))
        return
    if not isinstance(record, dict) or not (_objects(record, "history") or _objects(record, "trajectory")):
        yield Problem("no trajectory: neither steps nor a history")
        return
    yield from _Reading.of(record, path, root).items()


@dataclass(slots=True)
class _Reading:
    """One trajectory on its way to events."""

    origin: str
    task_id: str
    project: str | None
    model: str | None
    history: list[dict[str, Any]]
    steps: list[dict[str, Any]]
    info: dict[str, Any]
    ended: bool  # else the run is still going on, or was killed: the file is written after every step
    environment: Any
    keys: ItemKeys
    calls: int = 0
    tools: dict[str, str] = field(default_factory=dict)  # names of the calls that wait for a result, by call id

    @classmethod
    def of(cls, record: Mapping[str, Any], path: Path, root: Path) -> _Reading:
        config = record.get("replay_config")
        if isinstance(config, str):
            try:
                config = parse_json(config)
            except ValueError:
                config = None
        info = record["info"] if isinstance(record.get("info"), dict) else {}
        instance = _INSTANCE.search(path.stem)
        origin = origin_of(path, root)
        model = _text(_at(config, "agent", "model", "name"))
        return cls(
            origin=origin,
            task_id=instance[0].removeprefix("_") if instance else path.stem,
            project=_project(config, instance),
            model=None if model in _NO_MODEL else model,
            history=_objects(record, "history"),
            steps=_objects(record, "trajectory"),
            info=info,
            ended="info" not in record or info.get("exit_status") is not None,
            environment=record.get("environment"),
            keys=ItemKeys(f"{NAME}/{origin}"),
        )

    def items(self) -> Iterator[Item]:
        """Yield the session and all that is in it."""
        details = {"environment": self.environment, "model_stats": self.info.get("model_stats")}
        yield ForeignSession(
            origin=self.origin,
            agent=NAME,
            project=self.project,
            model=self.model,
            ended=self.ended,
            details={name: value for name, value in details.items() if value is not None},
        )
        opening = self._opening()
        yield from self._begin(opening)
        rest = self.history[len(opening) :]
        if self.steps:
            # The history says again what the steps say, and sometimes less: it is trimmed to fit a window.
            yield from (Skipped("demonstration" if turn.get("is_demo") else "repeated") for turn in rest)
            yield from self._from_steps()
        else:
            yield from self._from_history(rest)
        if self.ended:
            yield self._end()

    def _event(self, kind: EventType, data: dict[str, Any], tool: str | None = None) -> ForeignEvent:
        data = {name: value for name, value in data.items() if value is not None}
        return ForeignEvent(self.keys.key(kind, data), kind, data, task_id=self.task_id, tool_name=tool)

    def _opening(self) -> list[dict[str, Any]]:
        """The messages before the model's first turn: the prompt, demonstrations, the task."""
        first = next((n for n, turn in enumerate(self.history) if _is_answer(turn)), len(self.history))
        return self.history[:first]

    def _begin(self, opening: list[dict[str, Any]]) -> Iterator[Item]:
        own = [turn for turn in opening if not turn.get("is_demo")]
        prompts = [_content(turn) for turn in own if turn.get("role") == "system"]
        tasks = [_content(turn) for turn in own if turn.get("role") != "system"]
        start = {"model": self.model, "system_prompt": "\n\n".join(prompts) or None}
        yield self._event(EventType.SESSION_START, start)
        goal = tasks[0] if tasks else None
        issue = _ISSUE.search(goal) if goal else None
        goal = issue[1].strip() if issue else goal
        yield self._event(EventType.TASK_START, {"task_id": self.task_id, "goal": goal})
        for text in tasks:
            # A template around an issue that somebody wrote elsewhere: nobody typed this to the agent.
            yield self._event(EventType.USER_MESSAGE, {"text": text, "origin": "harness"})
        yield from (Skipped("demonstration") for turn in opening if turn.get("is_demo"))

    def _from_steps(self) -> Iterator[Item]:
        answers = [turn for turn in self.history if _is_answer(turn)]
        position = 0
        for step in self.steps:
            action = _text(step.get("action")) or ""
            said = next((n for n in range(position, len(answers)) if _same(answers[n].get("action"), action)), None)
            turn: dict[str, Any] = {}
            if said is not None:
                turn, position = answers[said], said + 1
            yield from self._step(step, action, _objects(turn, "tool_calls"))

    def _step(self, step: dict[str, Any], action: str, asked: list[dict[str, Any]]) -> Iterator[Item]:
        text = _text(step.get("thought")) or _text(step.get("response"))
        if text and text.strip():
            yield self._event(EventType.ASSISTANT_RESPONSE, {"text": text.strip("\n"), "model": self.model})
        observation = step.get("observation")
        if _GAVE_UP.match(action.strip()):
            yield self._stopped(action.strip(), observation)
        elif action.strip() or asked:
            calls = list(self._calls(asked, action))
            yield from calls
            extra = {"execution_time": step.get("execution_time"), "cwd": _working_directory(step.get("state"))}
            yield from (self._result(call.data["call_id"], observation, extra) for call in calls)
        elif _text(observation):
            yield self._event(EventType.USER_MESSAGE, {"text": observation, "origin": "harness"})

    def _from_history(self, rest: list[dict[str, Any]]) -> Iterator[Item]:
        waiting: list[str] = []  # call ids whose results have not come
        for turn in rest:
            if turn.get("is_demo"):
                yield Skipped("demonstration")
            elif _is_answer(turn):
                action = _text(turn.get("action")) or ""
                text = _text(turn.get("thought")) or _content(turn)
                if text.strip():
                    yield self._event(EventType.ASSISTANT_RESPONSE, {"text": text.strip("\n"), "model": self.model})
                calls = list(self._calls(_objects(turn, "tool_calls"), action))
                waiting += [call.data["call_id"] for call in calls]
                yield from calls
            elif waiting and (turn.get("role") == "tool" or turn.get("message_type") in (None, "observation")):
                told = turn.get("tool_call_ids")
                ids = [str(one) for one in told] if isinstance(told, list) and told else waiting[:1]
                waiting = [one for one in waiting if one not in ids]
                yield from (self._result(one, _without_prompt(_content(turn)), {}) for one in ids)
            else:
                yield self._event(EventType.USER_MESSAGE, {"text": _content(turn), "origin": "harness"})

    def _calls(self, asked: list[dict[str, Any]], action: str) -> Iterator[ForeignEvent]:
        """The function calls of a turn, or its action as a call of the shell that it was typed into."""
        found = [(_text(one.get("id")), *_function(one)) for one in asked if isinstance(one.get("function"), dict)]
        if not found and action.strip():
            found = [(None, "bash", {"command": action.rstrip("\n")})]
        for told, tool, arguments in found:
            self.calls += 1
            call_id = told or f"step-{self.calls}"
            self.tools[call_id] = tool
            data = {"call_id": call_id, "tool": tool, "arguments": arguments}
            yield self._event(EventType.TOOL_CALL, data, tool)

    def _result(self, call_id: str, observation: Any, extra: dict[str, Any]) -> ForeignEvent:
        tool = self.tools.get(call_id)
        data = {"call_id": call_id, "tool": tool, "status": "ok", "content": observation, **extra}
        if isinstance(observation, str) and failed(observation):
            data["status"] = "error"
            data["reason"] = "timeout" if timed_out(observation) else None
        return self._event(EventType.TOOL_RESULT, data, tool)

    def _stopped(self, action: str, observation: Any) -> ForeignEvent:
        if "cost" in action:
            return self._event(EventType.POLICY_DECISION, {"decision": "budget_stop", "detail": action})
        return self._event(EventType.ERROR, {"message": _text(observation) or action, "exit": action})

    def _end(self) -> ForeignEvent:
        status = _text(self.info.get("exit_status"))
        told = {"exit_status": status, "submission": self.info.get("submission")}
        return self._event(EventType.TASK_END, {"task_id": self.task_id, "outcome": _outcome(status), **told})


def _outcome(status: str | None) -> str:
    """A submission was made, which says nothing about whether it is right; any other exit made none."""
    if status is None or status.startswith("submitted") or status in ("skipped", "early_exit"):
        return "unknown"
    return "failure"


def _project(config: Any, instance: re.Match[str] | None) -> str | None:
    url = _text(_at(config, "env", "repo", "github_url")) or ""
    found = _GITHUB.search(url) or instance
    return f"{found[1]}/{found[2]}".lower() if found else None


def _function(call: dict[str, Any]) -> tuple[str, Any]:
    function = call["function"]
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        with suppress(ValueError):  # then what the model wrote is kept as it wrote it
            arguments = parse_json(arguments) if arguments.strip() else {}
    return str(function.get("name") or "unknown"), arguments


def _working_directory(state: Any) -> str | None:
    if isinstance(state, str):
        try:
            state = parse_json(state)
        except ValueError:
            return None
    return _text(_at(state, "working_dir"))


def _without_prompt(text: str) -> str:
    body = _PROMPT.sub("", text, count=1)
    return "" if body.strip() == _NO_OUTPUT else body


def _is_answer(turn: Mapping[str, Any]) -> bool:
    return turn.get("role") == "assistant" and not turn.get("is_demo")


def _same(said: Any, action: str) -> bool:
    return isinstance(said, str) and said.strip() == action.strip()


def _content(turn: Mapping[str, Any]) -> str:
    content = turn.get("content")
    if isinstance(content, list):  # parts, as newer versions write them
        return "".join(_text(part.get("text")) or "" for part in content if isinstance(part, dict))
    return _text(content) or ""


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _at(value: Any, *path: str) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _objects(record: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    found = record.get(name)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
