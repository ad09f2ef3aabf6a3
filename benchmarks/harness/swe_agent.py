"""Read SWE-agent trajectories (`.traj`): one JSON object per file, which is one session with one task.

Steps come from "trajectory" and function calls from the messages of "history"; without steps, both come from
"history". A file is loaded as a whole (it is one JSON text, rarely more than a few MB), up to MAX_FILE_BYTES.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from consolidator.formats.base import ForeignEvent, ForeignSession, Item, ItemKeys, Problem, Skipped
from consolidator.formats.common import drafts
from consolidator.formats.common.fields import derive_origin
from consolidator.formats.common.json_members import read_json
from consolidator.formats.common.json_parsing import parse_container, parse_json
from consolidator.formats.common.log_files import file_finder
from consolidator.models.payload import EventType

NAME = "swe-agent"
MAX_FILE_BYTES = 256 * 1024 * 1024

# "marshmallow-code__marshmallow-1867": owner, repository and number, as SWE-bench names its tasks.
_INSTANCE = re.compile(r"(?:^|_)([A-Za-z0-9][A-Za-z0-9.-]*)__([A-Za-z0-9.-]+)-(i?\d+)$")
_GITHUB = re.compile(r"github\.com/([\w.-]+)/([\w.-]+?)(?:\.git)?/?$")
_ISSUE = re.compile(r"ISSUE:\s*\n(.*?)(?:\nINSTRUCTIONS:|\Z)", re.DOTALL)
# The prompt that the environment appends to an observation in the history (not in the steps).
_PROMPT = re.compile(
    r"\n?(?:\(Open file: .*\)\n\(Current directory: .*\)\n)?bash-\$\s*$|\n?\(Open file: .*\)\n.*\$\s*$"
)
_NO_OUTPUT = "Your command ran successfully and did not produce any output."
_NON_MODELS = ("replay", "human", "human_thought", "instant_empty_submit")  # names that stand for no model
_EXIT_ACTION = re.compile(
    r"^(?:exit_\w+|early_exit)$"
)  # the action of a step at which the run was stopped from outside


# How the tools of the environment report errors, at the very start of an observation.
_TOOL_FAILURE = re.compile(
    r"Your (?:proposed edit has introduced new syntax error|edit was not applied|changes have NOT been applied)"
    r"|Wrong flag!\s*\Z"
)
_PROCESS_DONE = re.compile(r"///PROCESS-DONE:(\d+):PROCESS-DONE///\s*\Z")


files = file_finder(".traj")


def recognises(path: Path, head: bytes) -> bool:
    """Check the suffix, which no other format has: a trajectory may begin with any key."""
    return path.suffix == ".traj" and head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{"


def read(path: Path, root: Path) -> Iterator[Item]:
    """Read one trajectory: a session with its task; each step is an answer, a call and a result."""
    record = read_json(path, MAX_FILE_BYTES)
    if isinstance(record, Problem):
        yield record
        return
    if not isinstance(record, dict) or not (
        drafts.objects_of(record.get("history")) or drafts.objects_of(record.get("trajectory"))
    ):
        yield Problem("not a trajectory: it has no steps and no history")
        return
    yield from _TrajectoryReader.from_record(record, path, root).read_items()


@dataclass(slots=True)
class _TrajectoryReader:
    """Converts one trajectory to events."""

    origin: str
    task_id: str
    project: str | None
    model: str | None
    history: list[dict[str, Any]]
    steps: list[dict[str, Any]]
    info: dict[str, Any]
    ended: bool  # False: still running or killed; the file is written after every step
    environment: Any
    keys: ItemKeys
    call_count: int = 0
    open_calls: dict[str, str] = field(default_factory=dict)  # call id -> tool

    @classmethod
    def from_record(cls, record: Mapping[str, Any], path: Path, root: Path) -> _TrajectoryReader:
        config = record.get("replay_config")
        config = parse_container(config) if isinstance(config, str) else config
        info = drafts.object_of(record.get("info"))
        instance = _INSTANCE.search(path.stem)
        origin = derive_origin(path, root)
        model = _text(_get_nested(config, "agent", "model", "name"))
        return cls(
            origin=origin,
            task_id=instance[0].removeprefix("_") if instance else path.stem,
            project=_find_project(config, instance),
            model=None if model in _NON_MODELS else model,
            history=drafts.objects_of(record.get("history")),
            steps=drafts.objects_of(record.get("trajectory")),
            info=info,
            ended="info" not in record or info.get("exit_status") is not None,
            environment=record.get("environment"),
            keys=ItemKeys(f"{NAME}/{origin}"),
        )

    def read_items(self) -> Iterator[Item]:
        """Yield the session and its events."""
        details = {"environment": self.environment, "model_stats": self.info.get("model_stats")}
        yield ForeignSession(
            origin=self.origin,
            agent=NAME,
            project=self.project,
            model=self.model,
            ended=self.ended,
            details={name: value for name, value in details.items() if value is not None},
        )
        opening = self._opening_turns()
        yield from self._read_opening(opening)
        rest = self.history[len(opening) :]
        if self.steps:
            # The history repeats the steps, sometimes incompletely: it is trimmed to fit a context window.
            yield from (Skipped("demonstration" if turn.get("is_demo") else "repeated") for turn in rest)
            yield from self._read_steps()
        else:
            yield from self._read_history(rest)
        if self.ended:
            yield self._end_event()

    def _make_event(self, event_type: EventType, data: dict[str, Any], tool: str | None = None) -> ForeignEvent:
        data = {name: value for name, value in data.items() if value is not None}
        return ForeignEvent(
            self.keys.next_key(event_type, data), event_type, data, task_id=self.task_id, tool_name=tool
        )

    def _opening_turns(self) -> list[dict[str, Any]]:
        """Return the messages before the model's first turn: prompt, demonstrations, task."""
        first = next((index for index, turn in enumerate(self.history) if _is_answer(turn)), len(self.history))
        return self.history[:first]

    def _read_opening(self, opening: list[dict[str, Any]]) -> Iterator[Item]:
        own = [turn for turn in opening if not turn.get("is_demo")]
        prompts = [_extract_content(turn) for turn in own if turn.get("role") == "system"]
        tasks = [_extract_content(turn) for turn in own if turn.get("role") != "system"]
        start = {"model": self.model, "system_prompt": "\n\n".join(prompts) or None}
        yield self._make_event(EventType.SESSION_START, start)
        goal = tasks[0] if tasks else None
        issue = _ISSUE.search(goal) if goal else None
        goal = issue[1].strip() if issue else goal
        yield self._make_event(EventType.TASK_START, {"task_id": self.task_id, "goal": goal})
        for text in tasks:
            # A template around an issue from elsewhere, not typed to the agent by a person.
            yield self._make_event(EventType.USER_MESSAGE, {"text": text, "origin": "harness"})
        yield from (Skipped("demonstration") for turn in opening if turn.get("is_demo"))

    def _read_steps(self) -> Iterator[Item]:
        answers = [turn for turn in self.history if _is_answer(turn)]
        position = 0
        for step in self.steps:
            action = _text(step.get("action")) or ""
            answer_index = next(
                (
                    index
                    for index in range(position, len(answers))
                    if _is_same_action(answers[index].get("action"), action)
                ),
                None,
            )
            turn: dict[str, Any] = {}
            if answer_index is not None:
                turn, position = answers[answer_index], answer_index + 1
            yield from self._read_step(step, action, drafts.objects_of(turn.get("tool_calls")))

    def _read_step(self, step: dict[str, Any], action: str, tool_calls: list[dict[str, Any]]) -> Iterator[Item]:
        text = _text(step.get("thought")) or _text(step.get("response"))
        if text and text.strip():
            yield self._make_event(EventType.ASSISTANT_RESPONSE, {"text": text.strip("\n"), "model": self.model})
        observation = step.get("observation")
        if _EXIT_ACTION.match(action.strip()):
            yield self._exit_event(action.strip(), observation)
        elif action.strip() or tool_calls:
            calls = list(self._call_events(tool_calls, action))
            yield from calls
            extra = {"execution_time": step.get("execution_time"), "cwd": _find_working_directory(step.get("state"))}
            yield from (self._result_event(call.data["call_id"], observation, extra) for call in calls)
        elif _text(observation):
            yield self._make_event(EventType.USER_MESSAGE, {"text": observation, "origin": "harness"})

    def _read_history(self, rest: list[dict[str, Any]]) -> Iterator[Item]:
        waiting: list[str] = []  # ids of the calls without a result
        for turn in rest:
            if turn.get("is_demo"):
                yield Skipped("demonstration")
            elif _is_answer(turn):
                action = _text(turn.get("action")) or ""
                text = _text(turn.get("thought")) or _extract_content(turn)
                if text.strip():
                    yield self._make_event(
                        EventType.ASSISTANT_RESPONSE, {"text": text.strip("\n"), "model": self.model}
                    )
                calls = list(self._call_events(drafts.objects_of(turn.get("tool_calls")), action))
                waiting += [call.data["call_id"] for call in calls]
                yield from calls
            elif waiting and (turn.get("role") == "tool" or turn.get("message_type") in (None, "observation")):
                logged_ids = turn.get("tool_call_ids")
                call_ids = waiting[:1]
                if isinstance(logged_ids, list) and logged_ids:
                    call_ids = [str(call_id) for call_id in logged_ids]
                waiting = [call_id for call_id in waiting if call_id not in call_ids]
                observation = _strip_prompt(_extract_content(turn))
                yield from (self._result_event(call_id, observation, {}) for call_id in call_ids)
            else:
                yield self._make_event(EventType.USER_MESSAGE, {"text": _extract_content(turn), "origin": "harness"})

    def _call_events(self, tool_calls: list[dict[str, Any]], action: str) -> Iterator[ForeignEvent]:
        """Yield the function calls of a turn, or its action as a call of the shell."""
        calls = [
            (_text(tool_call.get("id")), *_parse_function(tool_call))
            for tool_call in tool_calls
            if isinstance(tool_call.get("function"), dict)
        ]
        if not calls and action.strip():
            calls = [(None, "bash", {"command": action.rstrip("\n")})]
        for logged_id, tool, arguments in calls:
            self.call_count += 1
            call_id = logged_id or f"step-{self.call_count}"
            self.open_calls[call_id] = tool
            yield self._make_event(*drafts.call(call_id, tool, arguments), tool)

    def _result_event(self, call_id: str, observation: Any, extra: dict[str, Any]) -> ForeignEvent:
        tool = self.open_calls.get(call_id)
        event_type, data = drafts.result(call_id, tool, observation, failed=_is_failure(observation))
        return self._make_event(event_type, {**data, "content": observation, **extra}, tool)

    def _exit_event(self, action: str, observation: Any) -> ForeignEvent:
        if "cost" in action:
            return self._make_event(EventType.POLICY_DECISION, {"decision": "budget_stop", "detail": action})
        return self._make_event(EventType.ERROR, {"message": _text(observation) or action, "exit": action})

    def _end_event(self) -> ForeignEvent:
        status = _text(self.info.get("exit_status"))
        result = {"exit_status": status, "submission": self.info.get("submission")}
        return self._make_event(
            EventType.TASK_END, {"task_id": self.task_id, "outcome": _task_outcome(status), **result}
        )


def _is_failure(observation: Any) -> bool | None:
    """Tell whether a call failed; None if only the general rules for outputs can tell."""
    text = observation.strip() if isinstance(observation, str) else ""
    done = _PROCESS_DONE.search(text)
    return int(done[1]) != 0 if done else True if _TOOL_FAILURE.match(text) else None


def _task_outcome(status: str | None) -> str:
    """Return the outcome: unknown with a submission, which may be wrong; failure without one."""
    if status is None or status.startswith("submitted") or status in ("skipped", "early_exit"):
        return "unknown"
    return "failure"


def _find_project(config: Any, instance: re.Match[str] | None) -> str | None:
    url = _text(_get_nested(config, "env", "repo", "github_url")) or ""
    match = _GITHUB.search(url) or instance
    return f"{match[1]}/{match[2]}".lower() if match else None


def _parse_function(call: dict[str, Any]) -> tuple[str, Any]:
    function = call["function"]
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        with suppress(ValueError):  # keep the text if it is not JSON
            arguments = parse_json(arguments) if arguments.strip() else {}
    return str(function.get("name") or "unknown"), arguments


def _find_working_directory(state: Any) -> str | None:
    return _text(_get_nested(parse_container(state) if isinstance(state, str) else state, "working_dir"))


def _strip_prompt(text: str) -> str:
    body = _PROMPT.sub("", text, count=1)
    return "" if body.strip() == _NO_OUTPUT else body


def _is_answer(turn: Mapping[str, Any]) -> bool:
    return turn.get("role") == "assistant" and not turn.get("is_demo")


def _is_same_action(logged_action: Any, action: str) -> bool:
    return isinstance(logged_action, str) and logged_action.strip() == action.strip()


def _extract_content(turn: Mapping[str, Any]) -> str:
    content = turn.get("content")
    if isinstance(content, list):  # newer versions write parts
        return "".join(_text(part.get("text")) or "" for part in content if isinstance(part, dict))
    return _text(content) or ""


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _get_nested(value: Any, *path: str) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value
