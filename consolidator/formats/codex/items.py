"""Convert the items of a Codex rollout: messages, reasoning, calls and their outputs.

Pure functions: a payload in, event drafts out. Codex sends its own context in the user's role. It records what was
submitted in events of their own; where a rollout has these, only a text that one of them repeats is a person's.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import unquote, urlsplit

from consolidator.formats.common import drafts
from consolidator.formats.common.content import answers_call, extract_text, has_result, is_media, split_message
from consolidator.formats.common.drafts import Drafts, object_of
from consolidator.formats.common.json_parsing import parse_arguments, parse_container, parse_prefix
from consolidator.formats.common.wrappers import is_one_element
from consolidator.markup import skip_blank
from consolidator.models.payload import EventType

# Codex's own texts in the user's role: <environment_context>..., # AGENTS.md instructions ...
_CODEX_CONTEXT = re.compile(
    r"\s*(?:<(?:environments?_context|user_instructions|INSTRUCTIONS|instructions|turn_aborted|skill"
    r"|skills_instructions|permissions instructions|collaboration_mode|subagent_notification|model_switch"
    r"|personality_spec|hook_prompt"
    r"|apps_instructions|plugins_instructions|codex_internal_context|memory_context|image|/image)\b"
    r"|# AGENTS\.md instructions|Warning: apply_patch was requested via|Another language model started to solve)"
)
_SHELL_COMMAND = re.compile(r"\s*<user_shell_command>\s*(?:<command>\s*(.*?)\s*</command>)?", re.DOTALL)
_EDITOR_REQUEST = re.compile(r"^## My request for Codex:", re.MULTILINE)  # an editor's open files stand before it
_EDITOR_STARTS = ("# Context from my IDE setup:", "# Files mentioned by the user:")
_OUTPUT_HEADER = re.compile(r"(?:Exit code: |Chunk ID: |Command: |Wall time: |Process (?:exited|running) with )")
_RUNNING = re.compile(r"^Process running with session ID (\d+)", re.MULTILINE)
_EXIT_CODE = re.compile(r"^(?:Exit code:|Process exited with code) (-?\d{1,18})(?!\d)", re.MULTILINE)
_REJECTED = re.compile(r"(?:(?:exec command|patch) )?rejected by user\b")
_DENIAL = re.compile(r"(?:exec command|patch) rejected by user\.?\s*")
_ABORTED = re.compile(r"aborted(?: by user.*)?\s*\Z", re.DOTALL)
_TIMED_OUT = re.compile(r"command timed out after ", re.IGNORECASE)
_FAILED = re.compile(
    r"execution error:|failed to parse function arguments|unsupported (?:call|custom tool call)|exec_command failed"
    r"|apply_patch verification failed|failed in sandbox|sandbox denied|tool call error|err: |Mcp error: "
)
_SCRIPT_HEADER = re.compile(
    r"Script (completed|failed|running|terminated)\b(?: with cell ID (\w+))?[^\n]*\n(?:.*?\n)??Output:\n?\s*", re.DOTALL
)
_SCRIPT_CALL = re.compile(r"\btools\.([A-Za-z]\w*)\(\s*")
_SCRIPT_PART = re.compile(  # of an object in JavaScript: what JSON writes otherwise; one without an end is the rest
    r""""(?:[^"\\]|\\.)*(?:"|\\?\Z)|'(?:[^'\\]|\\.)*(?:'|\\?\Z)|`(?:[^`\\]|\\.)*(?:`|\\?\Z)"""
    r"""|(?<![\w$])(?P<key>[A-Za-z_$][\w$]*+)(?=\s*:)|,(?=\s*[}\]])""",
    re.DOTALL,
)
_ONLY_CALL = re.compile(r"\s*\)")  # after its one argument
# Outside of strings: what makes a script run something else than it says.
_HIDES_CALLS = re.compile(r"\btools\s*[^.\s\w]|=\s*tools\b|//|/\*")
_SCRIPT_ESCAPE = re.compile(r'\\x[0-9a-fA-F]{2}|\\.|"', re.DOTALL)
FAILED_SCRIPT = ("failed", "terminated")
POLL = "write_stdin"  # asks for more of the output of a call that goes on
_FAILED_STATES = ("failed", "declined", "incomplete")
_APPROVED_TOOLS: tuple[str, ...] = (
    "shell",
    "exec_command",
    "shell_command",
    "local_shell",
    "container.exec",
    "unified_exec",
)
_APPROVED_TOOLS += ("write_stdin", "apply_patch")
CALL_TYPES = ("function_call", "custom_tool_call", "local_shell_call", "tool_search_call")
# Items of the harness's own record that are calls; in code mode nothing else tells what a script called.
ITEM_CALLS = ("CommandExecution", "FileChange", "McpToolCall", "DynamicToolCall", "CollabAgentToolCall", "WebSearch")
OUTPUT_TYPES = ("function_call_output", "custom_tool_call_output", "tool_search_output")
TYPED_KIND = "user.text"  # of a part that a person typed
PROVIDER_CALL_TYPES = ("web_search_call", "image_generation_call")  # calls that the provider executes itself


def draft_message(payload: Mapping[str, Any], in_subagent: bool, submitted: Collection[str] | None) -> Drafts:
    """Yield the events of a message; a sub-agent's prompts come from its parent, not from a person.

    `submitted` are the texts that Codex recorded as submitted, stripped; None where the rollout has no such records.
    Where the message says what kind its parts are, that decides.
    """
    role, content = payload.get("role"), payload.get("content")
    if role == "assistant":
        if extract_text(content).strip():
            yield EventType.ASSISTANT_RESPONSE, {"text": extract_text(content), "message_id": payload.get("id")}
    elif role == "user":
        parts = content if isinstance(content, list) else [content]
        texts = [split_message(part) for part in parts]
        in_subagent = in_subagent or has_result(parts) or answers_call(payload)
        is_whole = submitted is not None and "".join(typed for typed, _ in texts).strip() in submitted
        kinds = content_kinds(payload)
        for number, (part, (typed, other)) in enumerate(zip(parts, texts, strict=True)):
            is_submitted = is_whole or submitted is None or typed.strip() in submitted or is_media(part)
            if kinds is not None and not is_media(part):
                is_submitted = set(kinds if len(kinds) != len(parts) else kinds[number : number + 1]) == {TYPED_KIND}
            yield from draft_user_text(typed, in_subagent or not is_submitted)
            yield from draft_user_text(other, True)
    elif extract_text(content).strip():
        yield EventType.POLICY_DECISION, {"decision": "instructions_added", "text": extract_text(content), "role": role}


def content_kinds(payload: Mapping[str, Any]) -> list[str] | None:
    """Return the kinds of a message's parts in their order, as Codex names them; None where it does not."""
    metadata = payload.get("internal_chat_message_metadata_passthrough")
    kinds = metadata.get("content_item_kinds") if isinstance(metadata, Mapping) else None
    return [str(kind) for kind in kinds] if isinstance(kinds, list) else None


def draft_user_text(text: str, in_subagent: bool) -> Drafts:
    """Yield the events of a text in the user's role; `in_subagent`: nobody typed it, as no record says that."""
    start = skip_blank(text, 0)
    if start == len(text):
        return
    if shell_command := _SHELL_COMMAND.match(text):
        yield EventType.POLICY_DECISION, {"decision": "command_run", "command": shell_command[1], "output": text}
    elif in_subagent or _CODEX_CONTEXT.match(text, start) or is_one_element(text):
        yield from drafts.harness(text)
    elif text.startswith(_EDITOR_STARTS, start):
        # What the editor shows stands before the request and may hold the same heading: the last one is the editor's.
        heading = next(reversed(list(_EDITOR_REQUEST.finditer(text))), None)
        request = text[heading.end() :].strip() if heading else ""
        yield from drafts.harness(text[: heading.start()].strip() if heading else text)
        if request:
            yield EventType.USER_MESSAGE, {"text": request, "origin": "user"}
    else:
        yield EventType.USER_MESSAGE, {"text": text, "origin": "user"}


def is_denial(payload: Mapping[str, Any], tool: object) -> bool:
    """Tell whether an output is Codex's own word that a person denied the call.

    What a command or a server printed stands in an envelope or below a header; only Codex answers a call of its own
    tools with a bare sentence.
    """
    output = payload.get("output")
    return tool in _APPROVED_TOOLS and isinstance(output, str) and _DENIAL.fullmatch(output) is not None


def draft_reasoning(payload: Mapping[str, Any]) -> Drafts:
    """Yield the readable thinking; encrypted thinking is recorded without a text."""
    texts = [extract_text(payload.get(key)) for key in ("summary", "content") if payload.get(key)]
    yield EventType.THINKING_START, {"text": "\n".join(texts) or None}


def build_call(payload: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a call of the tool `name`; arguments in JSON are parsed."""
    arguments = parse_arguments(payload, ("arguments", "input", "action"))
    return {"call_id": str(payload.get("call_id") or payload.get("id") or ""), "tool": name, "arguments": arguments}


def get_tool_name(payload: Mapping[str, Any]) -> str:
    """Return the name of the tool that an item calls."""
    if payload.get("type") in ("function_call", "custom_tool_call"):
        return str(payload.get("name") or "")
    return str(payload.get("type")).removesuffix("_call")


def build_result(payload: Mapping[str, Any], tool: str | None) -> dict[str, Any]:
    """Return a call's result, with its exit code if the output has one."""
    content, code, success = _unwrap_output(payload.get("output", payload.get("tools")))
    header, _, body = content.partition("Output:\n") if _OUTPUT_HEADER.match(content) else ("", "", content)
    exit_match = _EXIT_CODE.search(header)
    code = int(exit_match[1]) if exit_match else code
    reason = _classify_failure(body, code)
    failed = reason is not None or success is False or (code is not None and code != 0)
    failed = failed or (code is None and success is None and bool(_FAILED.match(body)))
    _, values = drafts.result(payload.get("call_id"), tool, body, failed=failed, reason=reason, exit_code=code)
    running = {"background": session[1]} if (session := _RUNNING.search(header)) and tool != POLL else {}
    return {**values, "header": header.strip() or None, **running}


def polled_session(call: Mapping[str, Any]) -> str:
    """Return the session whose output a call asks for; "" for another call."""
    return str(object_of(call.get("arguments")).get("session_id") or "") if call.get("tool") == POLL else ""


def is_script(payload: Mapping[str, Any]) -> bool:
    """Tell whether a call only runs a script of code mode, or waits for one: what it calls are items of their own."""
    if payload.get("type") == "custom_tool_call":
        return payload.get("name") == "exec"
    return payload.get("name") == "wait" and '"cell_id"' in str(payload.get("arguments"))


def draft_script(call: Mapping[str, Any], payload: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the call and result of a script without a call on record: as of the one tool that it names, if it does."""
    script = call["arguments"] if isinstance(call["arguments"], str) else ""
    match = next(iter(starts), None) if len(starts := list(_SCRIPT_CALL.finditer(script))) == 1 else None
    tool, arguments = (match[1] if match else call["tool"]), call["arguments"]
    if script:
        arguments = {"javascript": script}  # no line of a shell
    if match:
        with suppress(ValueError):
            rest = _SCRIPT_PART.sub(_as_json, script[match.end() :])
            value, end = parse_prefix(rest, 0)
            if _ONLY_CALL.match(rest, end) and not _HIDES_CALLS.search(_SCRIPT_PART.sub(_without_text, script)):
                arguments = value
    output = extract_text(payload.get("output"))
    if header := _SCRIPT_HEADER.match(output):
        payload = {**payload, "output": output[header.end() :].removeprefix("Script error:\n")}
    result = build_result({**payload, "call_id": call["call_id"]}, tool)
    if header and header[1] in FAILED_SCRIPT:
        result["status"] = "error"
    is_running = "background" in result
    if tool in _APPROVED_TOOLS and result["status"] == "ok" and result["exit_code"] is None and not is_running:
        result["unseen"] = True  # a script mostly prints what a command wrote, not how it ended
    return {**call, "tool": tool, "arguments": arguments}, result


def _without_text(match: re.Match[str]) -> str:
    return '""' if match[0][0] in "\"'`" else match[0]


def _as_json(match: re.Match[str]) -> str:
    """Return a part of a script's literal as JSON has it: a bare key, a string in other quotes, a last comma."""
    text = match[0]
    if match["key"]:
        return f'"{text}"'
    if text == ",":
        return ""
    if text[-1] != text[0] or len(text) == 1 or (text[0] == "`" and "${" in text):
        return text
    return f'"{_SCRIPT_ESCAPE.sub(_escape_as_json, text[1:-1])}"'


def _escape_as_json(match: re.Match[str]) -> str:
    escape = match[0]
    if escape == '"':
        return '\\"'
    if len(escape) == 4:
        return f"\\u00{escape[2:]}"
    if escape[1] == "\n":
        return ""  # the line goes on
    if escape[1] in "0123456789xv":
        raise ValueError("an escape that JSON does not have")
    return escape if escape[1] in '"\\/bfnrtu' else escape[1]


def script_state(payload: Mapping[str, Any]) -> tuple[str, str]:
    """Return how a script stands, by the header that Codex puts before its output, and as which cell; "" without."""
    header = _SCRIPT_HEADER.match(extract_text(payload.get("output")))
    return ("", "") if header is None else (header[1], header[2] or "")


def draft_item_call(item: Mapping[str, Any]) -> Drafts:
    """Yield a completed item's call and result, as they would stand in the log had the model called the tool itself."""
    call_id, state = str(item.get("id") or ""), item.get("status")
    if item.get("source") == "user_shell":  # a person ran it, not the agent
        command = _read_command(item.get("command"))
        fields = {"command": command, "output": _item_output(item), "exit_code": item.get("exit_code")}
        yield EventType.POLICY_DECISION, {"decision": "command_run", **fields}
        return
    tool, arguments = _read_item(item)
    code = item.get("exit_code")
    code = code if isinstance(code, int) and not isinstance(code, bool) else None
    content = _item_output(item)
    answer = object_of(item.get("result"))
    failed = state in _FAILED_STATES or code not in (None, 0) or item.get("success") is False or bool(item.get("error"))
    failed = failed or any(answer.get(key) for key in ("isError", "is_error", "Err"))
    reason = "rejected" if state == "declined" else _classify_failure(content, code) if failed else None
    yield drafts.call(call_id, tool, arguments)
    yield drafts.result(call_id, tool, content, failed=failed, reason=reason, exit_code=code)
    if state == "declined" and _DENIAL.fullmatch(content):
        yield EventType.APPROVAL_DENIED, {"call_id": call_id, "tool": tool, "arguments": arguments}
    if tool == "spawn_agent" and not failed:
        threads = item.get("receiver_thread_ids")
        child = threads[0] if isinstance(threads, list) and threads else item.get("receiver_thread_id")
        if isinstance(child, str):
            yield EventType.SUBAGENT_SPAWN, {"child": child, "call_id": call_id}


def _read_item(item: Mapping[str, Any]) -> tuple[str, Any]:
    """Return the tool and the arguments of a completed item."""
    kind, name = item.get("type"), str(item.get("tool") or "")
    if kind == "CommandExecution":
        cwd = urlsplit(str(item.get("cwd") or ""))
        place = unquote(cwd.path) if cwd.scheme == "file" else item.get("cwd")
        tool = "write_stdin" if item.get("source") == "unified_exec_interaction" else "exec_command"
        return tool, {"cmd": _read_command(item.get("command")), "workdir": place}
    if kind == "FileChange":
        return "apply_patch", _write_patch(item.get("changes"))
    if kind == "McpToolCall":
        return f"mcp__{item.get('server')}__{name}", item.get("arguments")
    if kind == "WebSearch":
        return "web_search", item.get("action") or {"query": item.get("query")}
    if kind == "CollabAgentToolCall":
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
        return name, {"message": item.get("prompt")}
    return name, item.get("arguments")


def _read_command(command: Any) -> str:
    """Return a command as the model gave it: without the shell that it is handed to."""
    if not isinstance(command, list):
        return extract_text(command)
    words = [str(word) for word in command]
    return words[2] if len(words) == 3 and words[1] in ("-lc", "-c", "-Command") else shlex.join(words)


def _write_patch(changes: Any) -> str:
    """Return changed files as the patch that a model writes for them."""
    lines = ["*** Begin Patch"]
    for path, change in changes.items() if isinstance(changes, Mapping) else ():
        kind = change.get("type") if isinstance(change, Mapping) else None
        title = {"add": "Add", "delete": "Delete"}.get(str(kind), "Update")
        lines.append(f"*** {title} File: {path}")
        if kind == "add":
            lines += [f"+{line}" for line in extract_text(change.get("content")).splitlines()]
        elif kind == "update":
            moved = change.get("move_path")
            lines += [f"*** Move to: {moved}"] if moved else []
            lines += extract_text(change.get("unified_diff")).splitlines()
    return "\n".join([*lines, "*** End Patch"])


def _item_output(item: Mapping[str, Any]) -> str:
    """Return what a completed item's call gave."""
    error = item.get("error")
    if error:
        return extract_text(error.get("message") if isinstance(error, Mapping) else error)
    result = item.get("result")
    result = result.get("Ok", result.get("Err", result)) if isinstance(result, Mapping) else result
    for value in (item.get("aggregated_output"), result, item.get("content_items")):
        if value not in (None, ""):
            return extract_text(value.get("content", value) if isinstance(value, Mapping) else value)
    return "\n".join(text for key in ("stdout", "stderr") if (text := extract_text(item.get(key))))


def _classify_failure(body: str, code: int | None) -> str | None:
    if _REJECTED.match(body):
        return "rejected"
    if _ABORTED.match(body) and code is None:
        return "aborted"
    return "timeout" if code == 124 or (code != 0 and _TIMED_OUT.match(body)) else None


def _unwrap_output(output: Any) -> tuple[str, int | None, bool | None]:
    """Return an output's text, exit code and success, from any of the envelopes that Codex has used."""
    success: bool | None = None
    if isinstance(output, Mapping) and ("content" in output or "body" in output):
        success = output["success"] if isinstance(output.get("success"), bool) else None
        output = output.get("content", output.get("body"))
    text = extract_text(output)
    if text.startswith("{"):
        envelope = object_of(parse_container(text))
        metadata = envelope.get("metadata")
        if isinstance(metadata, dict) and "output" in envelope:
            code = metadata.get("exit_code")
            return extract_text(envelope["output"]), code if isinstance(code, int) else None, success
        if "chunk_id" in envelope and "output" in envelope:  # as a script prints what its one call returned
            code, session = envelope.get("exit_code"), envelope.get("session_id")
            state = f"running with session ID {session}" if code is None else f"exited with code {code}"
            return f"Process {state}\nOutput:\n{extract_text(envelope['output'])}", None, success
    return text, None, success
