"""Convert the items of a Codex rollout: messages, reasoning, calls and their outputs.

Pure functions: a payload in, event drafts out. Codex sends its own context in the user's role. It records what was
submitted in events of their own; where a rollout has these, only a text that one of them repeats is a person's.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any

from consolidator.formats.common.content import answers_call, extract_text, has_result, is_media, split_message
from consolidator.formats.common.json_parsing import parse_json
from consolidator.markup import skip_blank
from consolidator.models.payload import EventType

Drafts = Iterator[tuple[EventType, dict[str, Any]]]

# Codex's own texts in the user's role: <environment_context>..., # AGENTS.md instructions ...
_CODEX_CONTEXT = re.compile(
    r"\s*(?:<(?:environments?_context|user_instructions|INSTRUCTIONS|instructions|turn_aborted|skill"
    r"|skills_instructions|permissions instructions|collaboration_mode|subagent_notification|model_switch"
    r"|personality_spec|hook_prompt"
    r"|apps_instructions|plugins_instructions|codex_internal_context|memory_context|image|/image)\b"
    r"|# AGENTS\.md instructions|Warning: apply_patch was requested via|Another language model started to solve)"
)
_ELEMENT_START = re.compile(r"<([A-Za-z][\w.:-]{0,80})[\s>]")
_SHELL_COMMAND = re.compile(r"\s*<user_shell_command>\s*(?:<command>\s*(.*?)\s*</command>)?", re.DOTALL)
_EDITOR_REQUEST = re.compile(r"^## My request for Codex:", re.MULTILINE)  # an editor's open files stand before it
_EDITOR_STARTS = ("# Context from my IDE setup:", "# Files mentioned by the user:")
_OUTPUT_HEADER = re.compile(r"(?:Exit code: |Chunk ID: |Command: |Wall time: |Process exited with code )")
_EXIT_CODE = re.compile(r"^(?:Exit code:|Process exited with code) (-?\d{1,18})(?!\d)", re.MULTILINE)
_REJECTED = re.compile(r"(?:(?:exec command|patch) )?rejected by user\b")
_DENIAL = re.compile(r"(?:exec command|patch) rejected by user\.?\s*")
_ABORTED = re.compile(r"aborted(?: by user.*)?\s*\Z", re.DOTALL)
_TIMED_OUT = re.compile(r"command timed out after ", re.IGNORECASE)
_FAILED = re.compile(
    r"execution error:|failed to parse function arguments|unsupported (?:call|custom tool call)|exec_command failed"
    r"|apply_patch verification failed|failed in sandbox|sandbox denied|tool call error|err: "
)
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
    elif in_subagent or _CODEX_CONTEXT.match(text, start) or _is_one_element(text[start:].rstrip()):
        yield EventType.USER_MESSAGE, {"text": text, "origin": "harness"}
    elif text.startswith(_EDITOR_STARTS, start):
        # What the editor shows stands before the request and may hold the same heading: the last one is the editor's.
        heading = next(reversed(list(_EDITOR_REQUEST.finditer(text))), None)
        request = text[heading.end() :].strip() if heading else ""
        yield (
            EventType.USER_MESSAGE,
            {"text": text[: heading.start()].strip() if heading else text, "origin": "harness"},
        )
        if request:
            yield EventType.USER_MESSAGE, {"text": request, "origin": "user"}
    else:
        yield EventType.USER_MESSAGE, {"text": text, "origin": "user"}


def _is_one_element(text: str) -> bool:
    """Tell whether a text is one element, as all context is that Codex adds, under names that change."""
    name = _ELEMENT_START.match(text)
    return name is not None and text.endswith(f"</{name[1]}>")


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
    arguments = next((payload[key] for key in ("arguments", "input", "action") if payload.get(key) is not None), None)
    if isinstance(arguments, str) and arguments[:1] in ("{", "["):
        with suppress(ValueError):  # a patch or a script is text
            arguments = parse_json(arguments)
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
    return {
        "call_id": str(payload.get("call_id") or ""),
        "tool": tool,
        "status": "error" if failed else "ok",
        "reason": reason,
        "content": body,
        "exit_code": code,
        "header": header.strip() or None,
    }


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
        try:
            envelope = parse_json(text)
        except ValueError:
            return text, None, success
        metadata = envelope.get("metadata") if isinstance(envelope, dict) else None
        if isinstance(metadata, dict) and "output" in envelope:
            code = metadata.get("exit_code")
            return extract_text(envelope["output"]), code if isinstance(code, int) else None, success
    return text, None, success
