"""Asks a model through a coding agent's own command line: a question is one process, given on standard input.

The process gets no tools, no MCP servers, an empty working directory and a scrubbed environment, and keeps no session.
`MARKER` silences our hooks in it, and no log of `WORKING_FOLDER` is ever imported, so a night never learns from itself.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from consolidator.errors import ModelTruncated, ModelUnavailable
from consolidator.llm import MARKER, WORKING_FOLDER
from consolidator.llm.client import ModelReply, ModelRequest, send_traced
from consolidator.llm.protocol import MAX_ANSWER_BYTES
from consolidator.llm.redaction.redact import redact
from consolidator.llm.tokens import count_tokens, read_count, settled_tokens

_NAMES = ("HOME", "PATH", "LANG", "USER", "LOGNAME", "TMPDIR", "TZ", "SHELL", "NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE")
_PREFIXES = ("LC_", "XDG_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
_LOGIN = re.compile(r"log(ged)? ?in\b|/login|auth\b|authenticat|api.?key|unauthori[sz]ed|\b401\b|credential", re.I)
_QUOTA = re.compile(r"(usage|rate|session|weekly|your|5-hour).{0,20}limit|limit reached|quota|credit|\b429\b", re.I)
_UPDATE = re.compile(
    r"(please|must|need to|has to be) (be )?(updated?|upgraded?)|update (is )?required|newer version"
    r"|\bupdate now\b|no longer supported|(unknown|unrecognized) (option|argument)|unexpected argument",
    re.I,
)
_SETTINGS = "GEMINI_CLI_SYSTEM_SETTINGS_PATH"  # turns a person's hooks and GEMINI.md off
_TOO_LONG = re.compile(r"(prompt|input|context).{0,30}(too long|exceed)|context.?(window|length)", re.I)


@dataclass(slots=True)
class CommandOutput:
    """What a command line reported: an answer or an error, and what it used; None: it did not say."""

    text: str | None = None
    error: str | None = None
    finish_reason: str | None = None
    input_tokens: int | None = None
    cached_tokens: int = 0
    output_tokens: int | None = None
    cost: Decimal | None = None  # USD


@dataclass(frozen=True, slots=True)
class AgentCommand:
    """A coding agent's command line; in its arguments stand `{model}`, `{system}` and `{no_tools}`."""

    title: str
    program: str
    model: str  # a small one; "default" where it has none that every account may use
    arguments: tuple[str, ...]
    login: str  # what logs a person in
    variables: tuple[str, ...]  # prefixes of the variables that hold its login and its folder
    read: Callable[[str], CommandOutput]
    overhead: str = ""  # what it sends beside a question, where that cannot be replaced
    files: tuple[tuple[str, str], ...] = ()  # variables that name a file of ours
    organisation: tuple[str, ...] = ()  # folders whose rules our settings may not replace


def _read_claude(text: str) -> CommandOutput:
    body = _last_object(text, "result")
    if body is None:
        return CommandOutput()
    usage = _mapping(body.get("usage"))
    cached, output = read_count(usage.get("cache_read_input_tokens")) or 0, read_count(usage.get("output_tokens"))
    read = [read_count(usage.get(name)) for name in ("input_tokens", "cache_creation_input_tokens")]
    answer = body.get("result")
    is_error = bool(body.get("is_error")) or body.get("subtype", "success") != "success"
    cost = None
    with suppress(InvalidOperation):
        cost = Decimal(str(body.get("total_cost_usd")))
    return CommandOutput(
        text=answer if isinstance(answer, str) and not is_error else None,
        error=str(answer or body.get("subtype") or "no reason given") if is_error else None,
        finish_reason={"max_tokens": "length", "refusal": "content_filter"}.get(str(body.get("stop_reason")), "stop"),
        input_tokens=sum(count or 0 for count in read) + cached if usage else None,
        cached_tokens=cached,
        output_tokens=output,
        cost=cost if cost is not None and cost.is_finite() and cost >= 0 else None,
    )


def _read_codex(text: str) -> CommandOutput:
    output = CommandOutput(finish_reason="stop")
    is_complete = False
    for event in _objects(text):
        kind, item = event.get("type"), _mapping(event.get("item"))
        if kind == "item.completed" and item.get("type") == "agent_message":
            output.text = str(item.get("text") or "")
        elif kind == "turn.completed":
            usage, is_complete = _mapping(event.get("usage")), True
            output.input_tokens = read_count(usage.get("input_tokens"))
            output.output_tokens = read_count(usage.get("output_tokens"))
            output.cached_tokens = read_count(usage.get("cached_input_tokens")) or 0
        elif kind in ("turn.failed", "error"):
            output.error = str(_mapping(event.get("error")).get("message") or event.get("message") or "no reason given")
    if is_complete:
        output.error = None  # it reconnected
    return output


def _read_gemini(text: str) -> CommandOutput:
    body = _last_object(text, "response", "error")
    if body is None:
        return CommandOutput()
    if body.get("error"):
        return CommandOutput(error=str(_mapping(body["error"]).get("message") or body["error"]))
    models = _mapping(_mapping(body.get("stats")).get("models"))
    tokens = [_mapping(_mapping(model).get("tokens")) for model in models.values()]
    names = ("prompt", "cached", "candidates", "thoughts")
    sums = {name: sum(read_count(counts.get(name)) or 0 for counts in tokens) for name in names}
    answer = body.get("response")
    return CommandOutput(
        text=answer if isinstance(answer, str) else None,
        finish_reason="stop",
        input_tokens=sums["prompt"] if tokens else None,
        cached_tokens=sums["cached"],
        output_tokens=sums["candidates"] + sums["thoughts"] if tokens else None,
    )


AGENT_COMMANDS = {
    "claude-code": AgentCommand(
        title="Claude Code",
        program="claude",
        model="haiku",
        arguments=(
            *("-p", "--output-format", "json", "--model", "{model}", "--system-prompt", "{system}", "--tools", ""),
            *("--safe-mode", "--strict-mcp-config", "--disable-slash-commands", "--no-session-persistence"),
        ),
        login="run `claude` and log in",
        variables=("ANTHROPIC_", "CLAUDE_CONFIG_DIR", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_USE_", "AWS_", "GOOGLE_"),
        read=_read_claude,
    ),
    "codex": AgentCommand(
        title="Codex",
        program="codex",
        model="default",
        arguments=(
            *("exec", "--json", "--ephemeral", "--skip-git-repo-check", "--sandbox", "read-only"),
            *("--ignore-user-config", "--ignore-rules", "-c", "features.hooks=false"),
            *("-c", "features.shell_tool=false"),
            *("-c", "features.apps=false", "-c", "features.plugins=false", "-c", 'web_search="disabled"'),
            *("-c", "project_doc_max_bytes=0", "-c", 'model_reasoning_effort="low"', "-m", "{model}", "-"),
        ),
        login="run `codex login`",
        variables=("CODEX_", "OPENAI_API_KEY"),
        read=_read_codex,
        overhead="and some 10,000 a question of Codex's own and your ~/.codex/AGENTS.md",
    ),
    "gemini-cli": AgentCommand(
        title="Gemini CLI",
        program="gemini",
        model="gemini-2.5-flash",
        arguments=(
            *("--output-format", "json", "--model", "{model}", "--approval-mode", "default", "--policy", "{no_tools}"),
            *("--extensions", "none", "--allowed-mcp-server-names", "none", "--skip-trust"),
            *("-p", "Answer what is asked above, without tools: with one JSON object."),
        ),
        login="run `gemini` and log in",
        variables=("GEMINI_", "GOOGLE_"),
        read=_read_gemini,
        overhead="and what Gemini CLI says of its tools",
        files=(("GEMINI_SYSTEM_MD", "agent_prompt.md"), (_SETTINGS, "gemini_settings.json")),
        organisation=("/etc/gemini-cli", "/Library/Application Support/GeminiCli"),
    ),
}


def split_agent_model(name: str | None) -> tuple[str, str] | None:
    """Return the agent and the model of a name such as "claude-code/haiku"; None for a server's model."""
    agent, slash, model = (name or "").partition("/")
    return (agent, model or AGENT_COMMANDS[agent].model) if agent in AGENT_COMMANDS and (slash or not model) else None


@dataclass(slots=True)
class CommandClient:
    """A client of one agent's command line; it asks one question at a time."""

    agent: str
    program: str
    home: Path
    timeout: float
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def send(self, request: ModelRequest) -> ModelReply:
        """Send one question and return the reply; raise ModelUnavailable or ModelTruncated."""
        attributes = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": self.agent}
        async with self._lock:
            return await send_traced(request, {**attributes, "gen_ai.request.model": request.model}, self._send)

    async def close(self) -> None:
        """Nothing stays open between questions."""

    async def _send(self, request: ModelRequest) -> ModelReply:
        command = AGENT_COMMANDS[self.agent]
        _, model = split_agent_model(request.model) or ("", command.model)
        (_, system), *turns = ((message["role"], message["content"]) for message in request.messages)
        system += f"\n\nAnswer with one JSON object of this schema and nothing else:\n{request.schema_text}"
        values = {"{model}": model, "{system}": system, "{no_tools}": _own_file("no_tools.toml")}
        unnamed = ("-m", "{model}") if model == command.model == "default" else ()
        arguments = [values.get(argument, argument) for argument in command.arguments if argument not in unnamed]
        parts = [] if "{system}" in command.arguments else [system]
        parts += [text if role == "user" else f"You answered:\n{text}" for role, text in turns]
        status, stdout, stderr = await self._run(arguments, "\n\n".join(parts))
        output = command.read(stdout)
        if output.text is None and output.error is None:
            output = command.read(stderr)  # where Gemini CLI puts its error
        self._check(command, output, status, stdout, stderr)
        return ModelReply(
            text=output.text,
            refusal=None,
            finish_reason=output.finish_reason,
            model=request.model,
            input_tokens=settled_tokens(output.input_tokens, sum(map(count_tokens, request.texts))),
            cached_tokens=output.cached_tokens,
            output_tokens=settled_tokens(output.output_tokens, count_tokens(output.text or "")),
            cost=output.cost,
        )

    def _check(self, command: AgentCommand, output: CommandOutput, status: int, stdout: str, stderr: str) -> None:
        """Raise what went wrong, in one line: some command lines report a used-up quota as if it were an answer."""
        text = output.text
        is_answer = text is not None and output.error is None and (status == 0 or "{" in text)
        if is_answer and ("{" in (text or "") or not (_QUOTA.search(text or "") or _LOGIN.search(text or ""))):
            return
        reason = output.error or text or stderr.strip() or stdout.strip() or f"it ended with {status} and said nothing"
        short_reason = redact(" ".join(reason.split()))[:200]
        if _TOO_LONG.search(reason):
            raise ModelTruncated(f"the question is too long for {command.title}: {short_reason}")
        for pattern, meaning in (
            (_QUOTA, "has no quota left"),
            (_UPDATE, f"has to be updated (or `{command.program}` is another program)"),
            (_LOGIN, f"is not logged in: {command.login}"),
        ):
            if pattern.search(reason):
                raise ModelUnavailable(f"{command.title} {meaning} ({short_reason})", is_permanent=True)
        raise ModelUnavailable(f"{command.title} gave no answer: {short_reason}")

    async def _run(self, arguments: list[str], text: str) -> tuple[int, str, str]:
        """Run the program in an empty directory; return its exit code and output. Its process group ends with it."""
        command = AGENT_COMMANDS[self.agent]
        prefixes = (*_PREFIXES, *command.variables)  # of what it needs to run and to log in
        env = {name: value for name, value in self.environment.items() if name in _NAMES or name.startswith(prefixes)}
        has_rules = _SETTINGS in env or any(map(os.path.isdir, command.organisation))
        env |= {name: _own_file(file) for name, file in command.files if not (name == _SETTINGS and has_rules)}
        try:
            folder = self.home.absolute() / WORKING_FOLDER
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if any(folder.iterdir()):
                raise ModelUnavailable(f"{folder} is not empty: {command.title} would read it", is_permanent=True)
            process = await asyncio.create_subprocess_exec(
                self.program,
                *arguments,
                cwd=folder,
                env={**env, MARKER: "1", "NO_COLOR": "1", "DISABLE_AUTOUPDATER": "1"},
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            reason = f"`{self.program}` cannot be run: {error.strerror or error}"
            raise ModelUnavailable(reason, is_permanent=True) from error
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            async with asyncio.timeout(self.timeout):
                _, stdout, stderr = await asyncio.gather(
                    _write(process.stdin, text), _read(process.stdout), _read(process.stderr)
                )
                return await process.wait(), stdout, stderr
        except TimeoutError as error:
            reason = f"{command.title} gave no answer within {self.timeout:g} s"
            raise ModelUnavailable(reason, may_be_charged=True) from error
        finally:
            with suppress(ProcessLookupError, PermissionError):  # its children may outlive it
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


def _own_file(name: str) -> str:
    return str(Path(__file__).with_name(name))


async def _write(stream: asyncio.StreamWriter, text: str) -> None:
    with suppress(BrokenPipeError, ConnectionResetError):  # a program that ends early says why
        stream.write(text.encode("utf-8", "replace"))
        await stream.drain()
    stream.close()


async def _read(stream: asyncio.StreamReader) -> str:
    """Return what a program says; raise ModelUnavailable for more than an answer may have."""
    data = bytearray()
    while part := await stream.read(1 << 16):
        data += part
        if len(data) > MAX_ANSWER_BYTES:
            reason = f"the agent's command line sent more than {MAX_ANSWER_BYTES:,} bytes"
            raise ModelUnavailable(reason, may_be_charged=True)
    return data.decode("utf-8", "replace")


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects that begin a line; whatever else a program prints is passed over."""
    position = 0
    for start in re.finditer(r"^\s*(?=\{)", text, re.M):
        if start.end() >= position:
            with suppress(ValueError, RecursionError):
                body, position = json.JSONDecoder().raw_decode(text, start.end())
                yield body


def _last_object(text: str, *names: str) -> dict[str, Any] | None:
    """Return the last JSON object with one of these keys."""
    return next((body for body in reversed(list(_objects(text))) if any(name in body for name in names)), None)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
