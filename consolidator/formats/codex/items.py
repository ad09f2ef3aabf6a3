"""What one item of a Codex rollout says: messages, reasoning, calls and their outputs. Pure: a payload in, drafts out.

Codex puts its own context into the user's role, so a text counts as a person's only where nothing marks it as Codex's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from consolidator.formats.common.content import text_of
from consolidator.formats.common.jsonl import parse_json
from consolidator.models.payload import EventType

Drafts = Iterator[tuple[EventType, dict[str, Any]]]

_CONTEXT = re.compile(  # what Codex says in the user's role: <environment_context>..., # AGENTS.md instructions ...
    r"\s*(?:<(?:environments?_context|user_instructions|INSTRUCTIONS|instructions|turn_aborted|skill|skills_instructions"
    r"|permissions instructions|collaboration_mode|subagent_notification|model_switch|personality_spec|hook_prompt"
    r"|apps_instructions|plugins_instructions|codex_internal_context|memory_context|image|/image)\b"
    r"|# AGENTS\.md instructions|Warning: apply_patch was requested via|Another language model started to solve)"
)
_SHELL = re.compile(r"\s*<user_shell_command>\s*(?:<command>\s*(.*?)\s*</command>)?", re.DOTALL)
_REQUEST = "## My request for Codex:"  # an editor puts what is open before a person's words
_EDITOR = ("# Context from my IDE setup:", "# Files mentioned by the user:")
_FRAMED = re.compile(r"(?:Exit code: |Chunk ID: |Command: |Wall time: |Process exited with code )")
_EXIT = re.compile(r"^(?:Exit code:|Process exited with code) (-?\d{1,18})(?!\d)", re.MULTILINE)
_REJECTED = re.compile(r"(?:(?:exec command|patch) )?rejected by user\b")
_ABORTED = re.compile(r"aborted(?: by user.*)?\s*\Z", re.DOTALL)
_TIMED_OUT = re.compile(r"command timed out after ", re.IGNORECASE)
_FAILED = re.compile(
    r"execution error:|failed to parse function arguments|unsupported (?:call|custom tool call)|exec_command failed"
    r"|apply_patch verification failed|failed in sandbox|sandbox denied|tool call error|err: "
)
CALLS = ("function_call", "custom_tool_call", "local_shell_call", "tool_search_call")
OUTPUTS = ("function_call_output", "custom_tool_call_output", "tool_search_output")
ALONE = ("web_search_call", "image_generation_call")  # calls that the provider answers itself


def message(payload: Mapping[str, Any], delegated: bool) -> Drafts:
    """Yield what a message says; in a sub-agent, whose prompts are `delegated`, no person speaks."""
    role, content = payload.get("role"), payload.get("content")
    if role == "assistant":
        if text_of(content).strip():
            yield EventType.ASSISTANT_RESPONSE, {"text": text_of(content), "message_id": payload.get("id")}
    elif role == "user":
        for part in content if isinstance(content, list) else [content]:
            yield from user_text(text_of(part), delegated)
    elif text_of(content).strip():
        yield EventType.POLICY_DECISION, {"decision": "instructions_added", "text": text_of(content), "role": role}


def user_text(text: str, delegated: bool) -> Drafts:
    """Yield what a text in the user's role says."""
    if not text.strip():
        return
    if found := _SHELL.match(text):
        yield EventType.POLICY_DECISION, {"decision": "command_run", "command": found[1], "output": text}
    elif delegated or _CONTEXT.match(text):
        yield EventType.USER_MESSAGE, {"text": text, "origin": "harness"}
    elif text.lstrip().startswith(_EDITOR) and _REQUEST in text:
        context, _, words = text.partition(_REQUEST)
        yield EventType.USER_MESSAGE, {"text": context.strip(), "origin": "harness"}
        yield EventType.USER_MESSAGE, {"text": words.strip(), "origin": "user"}
    else:
        yield EventType.USER_MESSAGE, {"text": text, "origin": "user"}


def reasoning(payload: Mapping[str, Any]) -> Drafts:
    """Yield the thinking that can be read; what is encrypted is still a call of the model."""
    texts = [text_of(payload.get(key)) for key in ("summary", "content") if payload.get(key)]
    yield EventType.THINKING_START, {"text": "\n".join(texts) or None}


def call(payload: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a call of the tool `name`; arguments that are a JSON text are read."""
    given = next((payload[key] for key in ("arguments", "input", "action") if payload.get(key) is not None), None)
    if isinstance(given, str) and given[:1] in ("{", "["):
        with suppress(ValueError):  # a patch or a script is text
            given = parse_json(given)
    return {"call_id": str(payload.get("call_id") or payload.get("id") or ""), "tool": name, "arguments": given}


def tool_of(payload: Mapping[str, Any]) -> str:
    """Return the name of the tool that an item calls."""
    if payload.get("type") in ("function_call", "custom_tool_call"):
        return str(payload.get("name") or "")
    return str(payload.get("type")).removesuffix("_call")


def output(payload: Mapping[str, Any], tool: str | None) -> dict[str, Any]:
    """Return a call's result, with its exit code where one is told."""
    content, code, success = _unwrapped(payload.get("output", payload.get("tools")))
    header, _, body = content.partition("Output:\n") if _FRAMED.match(content) else ("", "", content)
    told = _EXIT.search(header)
    code = int(told[1]) if told else code
    reason = _reason(body, code)
    failed = reason is not None or success is False or (code is not None and code != 0)
    failed = failed or (code is None and success is None and bool(_FAILED.match(body)))
    return {
        "call_id": str(payload.get("call_id") or ""),
        "tool": tool,
        "status": "error" if failed else "ok",
        "reason": reason,
        "content": body,
        "exit_code": code,
        "header": header.strip() or None,
    }


def _reason(body: str, code: int | None) -> str | None:
    if _REJECTED.match(body):
        return "rejected"
    if _ABORTED.match(body) and code is None:
        return "aborted"
    return "timeout" if code == 124 or (code != 0 and _TIMED_OUT.match(body)) else None


def _unwrapped(told: Any) -> tuple[str, int | None, bool | None]:
    """Return the text of an output, its exit code and success, from any of the wrappings Codex has had."""
    success: bool | None = None
    if isinstance(told, Mapping) and ("content" in told or "body" in told):
        success = told["success"] if isinstance(told.get("success"), bool) else None
        told = told.get("content", told.get("body"))
    text = text_of(told)
    if text.startswith("{"):
        try:
            inner = parse_json(text)
        except ValueError:
            return text, None, success
        meta = inner.get("metadata") if isinstance(inner, dict) else None
        if isinstance(meta, dict) and "output" in inner:
            code = meta.get("exit_code")
            return text_of(inner["output"]), code if isinstance(code, int) else None, success
    return text, None, success
