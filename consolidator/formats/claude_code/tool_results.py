"""Interpret Claude Code's tool results: rejected, cancelled, timed out, approved, answered by a person, or ended later.

Pure functions. A result's text is the tool's: it tells how a call failed, never what a person said or decided. That is
read from what the harness records beside the result (`toolDenialKind`, `toolUseResult`) and from the tool's name.
The result of a shell command in the background only says that it runs. How it ends is told later, by a notification or
by a tool that asks for its output: a `call_ended`, with no text but the output that such a tool returned.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from consolidator.formats.claude_code.user_text import (
    INTERRUPTION_START,
    EventDraft,
    describe_plan,
    draft_decision,
    draft_message,
)
from consolidator.formats.common import drafts
from consolidator.formats.common.content import extract_text
from consolidator.formats.common.drafts import SIGNALS
from consolidator.models.payload import EventType

_WRAPPER_PREFIX = re.compile(r"^(?:Error: )?(?:<tool_use_error>)?(?:Error: )?")
_USER_DENIALS = (  # by a person
    "The user doesn't want to proceed with this tool use",
    "User rejected tool use",
    "The agent proposed a plan that was rejected by the user",
    "User chose to stay in plan mode",
)
_REJECTION_RECORD = "User rejected tool use"  # what the harness writes beside a rejected call
_REJECTION = "The user doesn't want to proceed with this tool use. The tool use was rejected"
# Tools whose own errors begin with the harness's words in the versions that log which hooks ran before a call: a
# shell's with "Exit code", a file's with what is wrong with the call. Of all others any text may stand there.
_OWN_ERRORS = ("Bash", "PowerShell", "Edit", "MultiEdit", "Write", "NotebookEdit", "Read")
_LOGS_HOOKS = re.compile(r"2\.1\.(?:1[2-9]|[2-9]\d|\d{3})")
_RULE_DENIAL = re.compile(  # by a permission rule, or because nobody could be asked
    r"Permission to use |Permission for this (?:tool use|action) was denied|Claude requested permissions to "
    r"|This command requires approval|This Bash command contains multiple operations\. The following parts? requires? "
    r"|[^\n]+ was blocked\. For security, Claude Code may only |Glob patterns are not allowed in write operations"
)
_ABORTIONS = (
    "The user doesn't want to take this action right now",
    "Interrupted by user",
    "Request interrupted by user",
    "Streaming fallback - tool execution discarded",
    "[Tool use interrupted]",
    "[Tool call skipped",
    INTERRUPTION_START,
)
_CASCADES = ("Sibling tool call errored", "Cancelled: parallel tool call")
# A person's words come directly after these sentences of the harness; elsewhere a command or a plan may say the same.
_DENIAL_REASON = re.compile(
    r"(?:Error: )?(?:<tool_use_error>)?(?:Error: )?"
    rf"{re.escape(_REJECTION)}"
    r"(?: \(eg\. if it was a file edit, the new_string was NOT written to the file\))?\. "
    r"(?:The user provided the following reason for the rejection:|To tell you how to proceed, the user said:)\s*(.+)",
    re.DOTALL,
)
_CLARIFICATION = "The user wants to clarify these questions."  # the harness' own words: the person's come next
_REJECTED_PLAN = re.compile(r"^[ \t]*Rejected plan:", re.MULTILINE)  # the agent's text, to the end
_TRAILING_NOTE = re.compile(
    r"\n\s*Note: The user's next message may contain a correction or preference\..*\Z", re.DOTALL
)
_TIMEOUT = re.compile(r"^(?:Command|Request|Tool|Agent) timed out after ", re.MULTILINE)
_RECOMMENDED = re.compile(r"\(recommended\)", re.IGNORECASE)
ASKING_TOOLS = ("AskUserQuestion", "ExitPlanMode")  # these ask a person in every permission mode


def classify_failure(text: str) -> str | None:
    """Return the reason of a failed result: rejected, aborted, cascade, timeout; None for an ordinary failure."""
    plain = _WRAPPER_PREFIX.sub("", text, count=1)
    if plain.startswith(_USER_DENIALS) or _RULE_DENIAL.match(plain):
        return "rejected"
    if plain.startswith(_CASCADES):
        return "cascade"
    if plain.startswith(_ABORTIONS) or plain.rstrip().endswith(INTERRUPTION_START + " for tool use]"):
        return "aborted"
    if "<error>Command was aborted before completion</error>" in plain:
        return "aborted"
    return "timeout" if _TIMEOUT.search(plain) else None


def is_user_denial(result: EventDraft, line: Mapping[str, Any], *, is_hooked: bool) -> bool:
    """Tell whether the fields of a result's line prove that a person denied the call.

    `toolDenialKind` says so. Older versions write "User rejected tool use" beside the result, which no tool can: an
    error of a tool stands there after "Error: ". So do the words that a person gave with a denial; there they count
    only for tools that cannot begin an error so, and not where a hook (`is_hooked`) ran before, which can.
    """
    if result.data["status"] != "error":
        return False
    kind, recorded = line.get("toolDenialKind"), line.get("toolUseResult")
    if kind is not None:
        return bool(kind == "user-rejected")
    if recorded == _REJECTION_RECORD:
        return True
    text, tool = str(result.data["content"]), result.data["tool"]
    if tool in _OWN_ERRORS and not is_hooked and _LOGS_HOOKS.fullmatch(str(line.get("version"))):
        return text.startswith(_REJECTION) and bool(recorded == f"Error: {text}")
    return (
        tool in ASKING_TOOLS
        and isinstance(recorded, str)
        and recorded.startswith(tuple(f"Error: {sentence}" for sentence in _USER_DENIALS))
        and _WRAPPER_PREFIX.sub("", text, count=1).startswith(_USER_DENIALS)
    )


def extract_denial_reason(text: str) -> str | None:
    """Return the reason that the person gave for the denial; None where the harness's sentences do not lead to it."""
    match = None if _REJECTED_PLAN.search(text) else _DENIAL_REASON.match(text)
    if match and match[1].startswith(_CLARIFICATION):
        return None
    return _TRAILING_NOTE.sub("", match[1]).removesuffix("</tool_use_error>").strip() or None if match else None


def draft_result(part: str, block: Mapping[str, Any], tool: str | None, tool_use_result: Any) -> EventDraft:
    """Return the event of a tool_result block; `tool_use_result` is the harness's own record of the same result."""
    text = extract_text(block.get("content"))
    interrupted = isinstance(tool_use_result, Mapping) and tool_use_result.get("interrupted") is True
    failed = block.get("is_error") is True or interrupted
    reason = (classify_failure(text) if failed else None) or ("aborted" if interrupted else None)
    call_id = block.get("tool_use_id") or block.get("id")
    return EventDraft(part, *drafts.result(call_id, tool, text, failed=failed, reason=reason))


def draft_denial(part: str, result: EventDraft, arguments: Any, permission_mode: str | None) -> Iterator[EventDraft]:
    """Yield the denial that a rejected result reports, and the person's reason as a message.

    `interrupted` marks a call that ran without asking for approval: the person pressed Escape.
    """
    text, tool = str(result.data["content"]), result.data["tool"]
    reason = extract_denial_reason(text)
    data = {"call_id": result.data["call_id"], "tool": tool, "arguments": arguments, "reason": reason}
    if permission_mode == "bypassPermissions" and tool not in ASKING_TOOLS and reason is None:
        data["interrupted"] = True
    yield EventDraft(part + "/denied", EventType.APPROVAL_DENIED, data)
    if reason:
        yield draft_message(part + "/words", reason, mode="steer")


def draft_answers(part: str, result: EventDraft, tool_use_result: Any) -> Iterator[EventDraft]:
    """Yield an approved plan, what a person chose, and the answers that they typed instead of picking an option."""
    if result.data["status"] != "ok" or not isinstance(tool_use_result, Mapping):
        return
    call = {"call_id": result.data["call_id"], "tool": result.data["tool"]}
    is_plan = result.data["tool"] == "ExitPlanMode" and "plan" in tool_use_result
    # A sub-agent's plan is approved by the agent that leads it.
    if is_plan and not tool_use_result.get("isAgent") and str(result.data["content"]).startswith("User has approved"):
        data = call | describe_plan(tool_use_result["plan"])
        yield EventDraft(part + "/granted", EventType.APPROVAL_GRANTED, data)
    if result.data["tool"] != "AskUserQuestion" or not isinstance(tool_use_result.get("answers"), Mapping):
        return  # a tool of somebody else may return any object
    labels_by_question = _option_labels(tool_use_result.get("questions"))
    for question, answer in tool_use_result["answers"].items():
        if isinstance(answer, list):
            answer = ", ".join(map(str, answer))
        if not isinstance(answer, str) or not answer.strip():
            continue
        data = call | {"question": question, "answer": answer}
        yield EventDraft(f"{part}/choice/{question}", EventType.APPROVAL_GRANTED, data)
        # Without the options it cannot be told what a person typed from what the agent offered.
        labels = labels_by_question.get(question)
        if labels and (typed := remove_labels(answer, labels)):
            yield draft_message(f"{part}/answer/{question}", typed, in_reply_to=question)


def _option_labels(questions: Any) -> dict[str, set[str]]:
    """Return what each question's options say; they are the agent's words."""
    labels: dict[str, set[str]] = {}
    for question in _as_list(questions):
        if isinstance(question, Mapping):
            options = [option for option in _as_list(question.get("options")) if isinstance(option, Mapping)]
            texts = {text for option in options for text in option.values() if isinstance(text, str) and text.strip()}
            labels.setdefault(str(question.get("question")), set()).update(texts)
    return labels


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def remove_labels(answer: str, labels: Collection[str]) -> str:
    """Return an answer without the options that were picked: the whole labels between its commas that leave the least.

    Labels may hold commas themselves. Capitals and white space make no difference, nor does a "(Recommended)".
    """
    pieces = answer.split(",")
    folded = [_fold_label(piece) for piece in pieces]
    options = {tuple(_fold_label(piece) for piece in label.split(",")) for label in labels}
    left = [0] * (len(pieces) + 1)  # how many pieces stay from each position on, at the least
    steps = [0] * len(pieces)  # the pieces of the option that is picked there; 0 where the piece stays
    for position in reversed(range(len(pieces))):
        left[position] = left[position + 1] + 1
        for option in options:
            end = position + len(option)
            if end <= len(pieces) and left[end] < left[position] and tuple(folded[position:end]) == option:
                left[position], steps[position] = left[end], len(option)
    answers: list[str] = []
    position = 0
    while position < len(pieces):
        if not steps[position]:
            answers.append(pieces[position])
        position += steps[position] or 1
    return ",".join(answers).strip()


def _fold_label(text: str) -> str:
    return " ".join(_RECOMMENDED.sub("", text).casefold().split())


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
