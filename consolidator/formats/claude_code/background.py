"""Follow Claude Code's shell commands that run in the background: which calls do, and how each ends.

Their results only say that they run. How they end is told later, by a notification or by a tool that asks for their
output: a `call_ended`. It holds no text but the output that such a tool returned.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from consolidator.formats.claude_code.user_text import EventDraft, draft_decision
from consolidator.formats.common.outcome import SIGNALS

NOTIFICATION = "<task-notification>"
_ASKING_TOOLS = ("TaskOutput", "BashOutput", "AgentOutputTool")
_STOPPING_TOOLS = ("TaskStop", "KillShell", "KillBash")
_ACKNOWLEDGED = re.compile(  # older logs and sub-agents' have no record beside the result
    r"^Command (?:running in|was manually|was moved|moved to|exceeded|timed out|did not)\b[^\n]{0,160}?"
    r"\bbackground(?:ed by user)?(?: with)? \(?ID: ([\w-]+)",
    re.MULTILINE,
)
_SUMMARY_CODE = re.compile(r"exit code:? (-?\d+)\)?\s*\Z")


def find_task(tool: str | None, text: str, tool_use_result: Any) -> str | None:
    """Return the id of the task as which a successful call of the shell goes on; None for one that has ended."""
    if isinstance(tool_use_result, Mapping) and isinstance(tool_use_result.get("backgroundTaskId"), str):
        return str(tool_use_result["backgroundTaskId"]) or None
    match = _ACKNOWLEDGED.search(text[-1000:]) if tool == "Bash" else None
    return match[1] if match else None


def draft_notified_end(part: str, text: str, calls: dict[str, str]) -> Iterator[EventDraft]:
    """Yield the end of the command that a notification reports; `calls` are those that run, by task id."""
    if not text.lstrip().startswith(NOTIFICATION):
        return
    head = text.partition("<result>")[0]  # after it stand an agent's words
    code = _SUMMARY_CODE.search(_element(head, "summary"))
    task, status = _element(head, "task-id"), _element(head, "status")
    yield from _draft_end(part, task, status, code[1] if code else None, calls)


def draft_asked_end(
    part: str, tool: str | None, arguments: Any, result: EventDraft, calls: dict[str, str]
) -> Iterator[EventDraft]:
    """Yield the end of a command whose output was asked for, or that was stopped."""
    if tool not in _ASKING_TOOLS + _STOPPING_TOOLS or result.data["status"] != "ok":
        return
    text, values = str(result.data["content"]), arguments if isinstance(arguments, Mapping) else {}
    task = next((str(values[key]) for key in ("task_id", "bash_id", "shell_id", "agentId") if key in values), "")
    if tool in _STOPPING_TOOLS:
        yield from _draft_end(part, task, "killed", None, calls)
        return
    head, _, output = text.partition("<output>")
    if not output:
        head, _, output = text.partition("<stdout>")
    code = _element(head, "exit_code")
    yield from _draft_end(part, task, _element(head, "status"), code or None, calls, output.strip())


def _draft_end(
    part: str, task: str, status: str, code: str | None, calls: dict[str, str], output: str = ""
) -> Iterator[EventDraft]:
    if status not in ("completed", "failed", "killed") or task not in calls:
        return
    number = int(code) if code and re.fullmatch(r"-?\d{1,10}", code) else None
    is_stopped = status == "killed" or number in SIGNALS
    is_ok = status == "completed" and not number
    yield draft_decision(
        f"{part}/ended",
        "call_ended",
        call_id=calls.pop(task),
        status="ok" if is_ok else "error",
        reason="aborted" if is_stopped else None,
        exit_code=number,
        content=output,
    )


def _element(text: str, name: str) -> str:
    return text.partition(f"<{name}>")[2].partition(f"</{name}>")[0].strip()
