"""The coding agents that memory can be installed into, each with what it documents of its files, hooks and payloads."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from consolidator.errors import UsageError
from consolidator.formats.agent_folders import agent_folder, log_folders
from consolidator.formats.agents.copilot import split_exit_code
from consolidator.formats.codex.items import build_result
from consolidator.formats.common.content import extract_text
from consolidator.formats.common.drafts import split_output
from consolidator.formats.common.json_parsing import parse_json
from consolidator.memory.recall.query import looks_like_error
from consolidator.models.injection import Moment
from consolidator.service.clients.servers_text import JsonServers, TomlServers

HookMoment = Moment | Literal["import"]  # what a hook is for: an answer at a moment, or having the session imported
Payload = Mapping[str, Any]
FindFile = Callable[
    [Path, Mapping[str, str], Path | None], Path
]  # of a home, its environment, and a project if for one


def _below(client: str, in_folder: str, in_project: str) -> FindFile:
    """Return where a file is: below the client's own folder, or of a project below that."""
    return lambda home, environment, project: (
        agent_folder(client, home, environment) / in_folder if project is None else project / in_project
    )


def read_claude_code_error(payload: Payload) -> str:
    """Return the error of PostToolUseFailure; "" for a call that a person interrupted."""
    error = payload.get("error")
    return error if isinstance(error, str) and not payload.get("is_interrupt") else ""


def read_codex_error(payload: Payload) -> str:
    """Return the output of a call in PostToolUse, which comes after every call, if it failed.

    It is read as the output in a rollout is. Where it does not tell the exit code, an output that looks like an error
    is taken for one: only the fix of exactly this error is shown then.
    """
    result = build_result({"output": payload.get("tool_response")}, str(payload.get("tool_name")))
    content = str(result["content"])
    is_failure = result["status"] == "error" or (result["exit_code"] is None and looks_like_error(content))
    return content if is_failure and result["reason"] not in ("rejected", "aborted") else ""


def read_cursor_error(payload: Payload) -> str:
    """Return the error of postToolUseFailure, or the output of postToolUse whose exit code says that it failed."""
    if payload.get("is_interrupt") or payload.get("failure_type") == "permission_denied":
        return ""
    error = payload.get("error_message")
    if isinstance(error, str) and error:
        return error
    output = payload.get("tool_output")
    if isinstance(output, str):
        with suppress(ValueError):
            output = parse_json(output)
    if not isinstance(output, Mapping) or output.get("exitCode") in (None, 0):
        return ""
    return str(output.get("output") or "")


def read_gemini_error(payload: Payload) -> str:
    """Return the error of a call, or the output of a command whose exit code says that it failed."""
    response = payload.get("tool_response")
    response = response if isinstance(response, Mapping) else {"llmContent": response}
    error = response.get("error")
    text, code = split_output(extract_text(response.get("llmContent") or response.get("output")))
    return extract_text(error.get("message", "") if isinstance(error, Mapping) else error) or (text if code else "")


def read_copilot_error(payload: Payload) -> str:
    """Return the error of PostToolUseFailure, or the output of a command whose exit code says that it failed."""
    error = payload.get("error")
    if isinstance(error, str):
        return error
    result = payload.get("tool_result")
    text = str(result.get("text_result_for_llm") or "") if isinstance(result, Mapping) else ""
    text, code = split_exit_code(text)
    return text if code else ""


def read_working_directory(payload: Payload, _: str) -> str | None:
    """Return the session's working directory."""
    cwd = payload.get("cwd")
    return cwd if isinstance(cwd, str) else None


def read_cursor_directory(payload: Payload, project: str) -> str | None:
    """Return the first root of the workspace, else what the environment or a call says."""
    roots = payload.get("workspace_roots")
    if isinstance(roots, list) and roots and isinstance(roots[0], str):
        return roots[0]
    return project or read_working_directory(payload, project)


def render_specific_output(event: str, text: str) -> dict[str, Any]:
    """Return an answer as Claude Code and Codex read it."""
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}}


@dataclass(frozen=True, slots=True)
class Hook:
    """An event of a client for which a hook is installed."""

    event: str  # as the client calls it
    moment: HookMoment
    matcher: str | None = None  # the tools whose calls it is for; None: all, or an event that is no call


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A coding agent; its name is that of its sessions' agent and of its logs' format, too."""

    name: str
    title: str
    hooks: tuple[Hook, ...] = ()
    hooks_form: Literal["groups", "list", "tables", "program"] = (
        "groups"  # JSON: in groups, each for itself; TOML; ours
    )
    hooks_file: FindFile
    servers_file: FindFile
    servers: JsonServers | TomlServers = field(default_factory=JsonServers)
    new_hooks_file: str = "{}\n"  # what a file of hooks holds before it has any
    read_error: Callable[[Payload], str] = lambda _: ""  # of a call's payload: the error, or "" for none
    read_directory: Callable[[Payload, str], str | None] = read_working_directory
    render: Callable[[str, str], Mapping[str, Any] | str] = (
        render_specific_output  # an event, the text -> what to print
    )
    session_fields: tuple[str, ...] = ("session_id",)
    log: str | None = None  # a session's log in the client's folders; "": one has all; None: only a hook says it
    timeout: int = 2  # after which it ends a hook, in its unit; ours ends itself long before
    guidance_file: FindFile | None = None  # that its agent reads: where a client has no hook for a session's start
    advice: str = ""  # what is left for a person to do after an installation

    def find_log(self, payload: Payload, session: str, home: Path, environment: Mapping[str, str]) -> str | None:
        """Return the path of a session's log, by what a hook says or by where the client keeps it."""
        path = payload.get("transcript_path")
        path = path if isinstance(path, str) else None
        if self.log is None:
            return path
        if not re.fullmatch(r"[\w-]{1,100}", session):
            return None
        folders = log_folders(self.name, home, environment)
        if path and any(Path(path).is_relative_to(folder) for folder in folders) and ".." not in Path(path).parts:
            return path
        if not self.log:
            return next((str(folder) for folder in folders if folder.exists()), None)
        return next((str(path) for folder in folders for path in folder.glob(self.log.format(session=session))), None)

    def hook(self, event: str) -> Hook | None:
        """Return the hook of an event; None for one that is not of ours."""
        return next((hook for hook in self.hooks if hook.event == event), None)


_IMPORTS = (Hook("PreCompact", "import"), Hook("SessionEnd", "import"))
CLAUDE_CODE = Client(
    name="claude-code",
    title="Claude Code",
    hooks=(
        Hook("SessionStart", "session_start"),
        Hook("UserPromptSubmit", "prompt"),
        Hook("PreToolUse", "before_call", matcher="^(Skill|Read|Bash|PowerShell|mcp__.+)$"),
        Hook("PostToolUseFailure", "failure"),
        *_IMPORTS,
    ),
    hooks_file=_below("claude-code", "settings.json", ".claude/settings.local.json"),
    servers_file=lambda home, environment, _: Path(environment.get("CLAUDE_CONFIG_DIR") or home, ".claude.json"),
    servers=JsonServers(by_project=True, more=(("type", "stdio"),)),
    read_error=read_claude_code_error,
    # Its hooks are told the directory in their environment. Cursor runs the hooks in its settings, too.
    read_directory=lambda payload, project: (
        None if "cursor_version" in payload else project or read_working_directory(payload, project)
    ),
)
CODEX = Client(
    name="codex",
    title="Codex",
    hooks=(
        Hook("SessionStart", "session_start"),
        Hook("UserPromptSubmit", "prompt"),
        Hook("PreToolUse", "before_call", matcher="^Bash$"),
        Hook("PostToolUse", "failure", matcher="^Bash$"),
        *_IMPORTS,
    ),
    hooks_file=_below("codex", "hooks.json", ".codex/hooks.json"),
    servers_file=_below("codex", "config.toml", ".codex/config.toml"),
    servers=TomlServers(),
    read_error=read_codex_error,
    advice="Codex runs new hooks only once you have trusted them: it asks as it starts, and `/hooks` lists them.",
)
CURSOR = Client(
    name="cursor",
    title="Cursor",
    hooks=(
        Hook("sessionStart", "session_start"),
        Hook("postToolUseFailure", "failure"),
        Hook("postToolUse", "failure", matcher="Shell"),
        Hook("sessionEnd", "import"),
    ),
    hooks_form="list",
    hooks_file=lambda home, _, project: (project or home) / ".cursor" / "hooks.json",
    servers_file=lambda home, _, project: (project or home) / ".cursor" / "mcp.json",
    new_hooks_file='{\n  "version": 1\n}\n',
    read_error=read_cursor_error,
    read_directory=read_cursor_directory,
    render=lambda _, text: {"additional_context": text},
    session_fields=("session_id", "conversation_id"),
    log="*/agent-transcripts/**/{session}.jsonl",  # its editor names it, its command line does not
)


def _googles(name: str, title: str, prompt: str, call: str, compaction: str) -> Client:
    """Return Gemini CLI or a fork of it: hooks as Claude Code's, with milliseconds, beside the servers in one file."""
    find_file = _below(name, "settings.json", f".{name}/settings.json")
    imports = (Hook(compaction, "import"), Hook("SessionEnd", "import"))
    failure = Hook(call, "failure", matcher="run_shell_command")
    return Client(
        name=name,
        title=title,
        hooks=(Hook("SessionStart", "session_start"), Hook(prompt, "prompt"), failure, *imports),
        hooks_file=find_file,
        servers_file=find_file,
        read_error=read_gemini_error,
        timeout=2000,
    )


def _find_opencode(home: Path, environment: Mapping[str, str], project: Path | None) -> Path:
    folder = project or agent_folder("opencode", home, environment)
    with_comments = folder / "opencode.jsonc"
    return with_comments if with_comments.is_file() else folder / "opencode.json"


COPILOT = Client(  # event names with a capital: then its payloads have Claude Code's fields
    name="copilot",
    title="Copilot CLI",
    hooks=(
        Hook("SessionStart", "session_start"),
        Hook("PostToolUse", "failure", matcher="bash|powershell"),
        Hook("PostToolUseFailure", "failure"),
        Hook("SessionEnd", "import"),
    ),
    hooks_form="list",
    hooks_file=_below("copilot", "hooks/consolidator.json", ".github/copilot/settings.local.json"),
    servers_file=_below("copilot", "mcp-config.json", ".mcp.json"),
    servers=JsonServers(more=(("type", "local"), ("tools", ["*"]))),
    new_hooks_file='{\n  "version": 1\n}\n',
    read_error=read_copilot_error,
    render=lambda event, text: text if event == "PostToolUseFailure" else {"additionalContext": text},  # shown as it is
    log="{session}/events.jsonl",
)
KIMI = Client(  # it shows its agent what a hook prints at a prompt, and at no other moment
    name="kimi",
    title="Kimi Code",
    hooks=(Hook("UserPromptSubmit", "prompt"), Hook("SessionEnd", "import")),
    hooks_form="tables",
    hooks_file=_below("kimi", "config.toml", ".kimi-code/config.toml"),
    servers_file=_below("kimi", "mcp.json", ".kimi-code/mcp.json"),
    new_hooks_file="",
    render=lambda _, text: text,
    log="*/{session}",
)
OPENCODE = Client(  # its hooks are a program of its own, which runs ours; after a failure its agent asks the MCP server
    name="opencode",
    title="OpenCode",
    hooks=(Hook("SessionStart", "session_start"), Hook("SessionEnd", "import")),
    hooks_form="program",
    hooks_file=_below("opencode", "plugins/consolidator.js", ".opencode/plugins/consolidator.js"),
    new_hooks_file="",
    render=lambda _, text: text,
    log="",
    servers_file=_find_opencode,
    servers=JsonServers(below="mcp", more=(("type", "local"), ("enabled", True)), in_one=True),
    guidance_file=_below("opencode", "AGENTS.md", "AGENTS.md"),
)
GEMINI = _googles("gemini", "Gemini CLI", "BeforeAgent", "AfterTool", "PreCompress")
QWEN = _googles("qwen", "Qwen Code", "UserPromptSubmit", "PostToolUse", "PreCompact")
CLIENTS: dict[str, Client] = {
    client.name: client for client in (CLAUDE_CODE, CODEX, CURSOR, GEMINI, QWEN, COPILOT, KIMI, OPENCODE)
}


def get_client(name: str) -> Client:
    """Return the client of a name; raise UsageError for one that we do not know."""
    if name not in CLIENTS:
        raise UsageError(f"{name!r} cannot be installed into; known: {', '.join(CLIENTS)}")
    return CLIENTS[name]
