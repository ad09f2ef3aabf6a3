"""Agents that leave growing logs on disk: Claude Code, chats with tools, claw0 and pi, as each of them writes.

Every line has its moment, and a file holds what its agent had written until then. Nothing here is random.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

Line = dict[str, Any]
_SPACE = uuid.UUID("9d7a1f02-1c1e-4b7a-8a55-60da6560da65")
_REJECTED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the "
    "new_string was NOT written to the file). To tell you how to proceed, the user said:\n"
)


def stable_uuid(*words: object) -> str:
    """Return the uuid of something, the same on every run."""
    return str(uuid.uuid5(_SPACE, "/".join(map(str, words))))


@dataclass(slots=True)
class LogFile:
    """A file of an agent: what was said in it, and when; `chat` is the record around messages, none for JSONL."""

    path: str
    lines: list[tuple[datetime, Line]] = field(default_factory=list)
    chat: Line | None = None
    rewarded: float | None = None
    written: int = 0

    def text(self, until: datetime) -> str:
        """Return the file as it is at a moment."""
        lines = [line for when, line in self.lines if when <= until]
        if self.chat is None or not lines:
            return "".join(json.dumps(line) + "\n" for line in lines)
        ended = self.rewarded is not None and len(lines) == len(self.lines)
        return json.dumps([{**self.chat, "messages": lines} | ({"reward": self.rewarded} if ended else {})])


@dataclass(slots=True)
class LogFolder:
    """A folder in which agents work."""

    folder: Path
    files: list[LogFile] = field(default_factory=list)
    _turn: int = 0

    def write(self, until: datetime) -> int:
        """Let the files grow to what they are at a moment; return how many did."""
        grown = 0
        for file in self.files:
            lines = sum(when <= until for when, _ in file.lines)
            if lines == file.written:
                continue
            path = self.folder / file.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(file.text(until), encoding="utf-8")
            file.written = lines
            grown += 1
        return grown

    def touch(self, most: int | None = None) -> None:
        """Make files that are as they were look new, a few at a time, so that an import reads them again."""
        there = [self.folder / file.path for file in self.files if file.written]
        chosen = there if most is None else [there[(self._turn + n) % len(there)] for n in range(min(most, len(there)))]
        self._turn += len(chosen)
        for path in chosen:
            status = path.stat()
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1_000_000))

    def remove(self, paths: Iterable[str]) -> None:
        """Delete files, as their owner would."""
        for path in paths:
            (self.folder / path).unlink()


class ClaudeCodeLog:
    """A session of Claude Code, and its file."""

    def __init__(
        self,
        name: str,
        at: datetime,
        project: str,
        *,
        branch: str = "main",
        of: ClaudeCodeLog | None = None,
        pace: int = 20,
    ) -> None:
        self.now = at
        self.session: str = of.session if of else stable_uuid(name)
        agent = stable_uuid(name)[:8]
        where = f"claude/{project.replace('/', '-')}/"
        path = f"{where}{self.session}/subagents/agent-{agent}.jsonl" if of else f"{where}{self.session}.jsonl"
        self.file = LogFile(path)
        self.agent = agent
        self._name, self._pace = name, timedelta(seconds=pace)
        self._before: str | None = of._before if of else None
        self._common: Line = {
            "isSidechain": of is not None, "userType": "external", "cwd": project, "sessionId": self.session,
            "version": "2.1.39", "gitBranch": branch, **({"agentId": agent} if of else {}),
        }  # fmt: skip

    def wait(self, **span: float) -> ClaudeCodeLog:
        """Let time pass."""
        self.now += timedelta(**span)
        return self

    def add_user_message(self, text: str) -> ClaudeCodeLog:
        """Write down what a person says."""
        return self._write("user", {"role": "user", "content": text})

    def add_answer(self, text: str) -> ClaudeCodeLog:
        """Write down an answer."""
        return self._answer({"type": "text", "text": text})

    def add_command(self, command: str, output: str = "", *, fails: bool = False) -> ClaudeCodeLog:
        """Write down a shell command with its output."""
        return self.add_call("Bash", {"command": command}, ("Exit code 1\n" if fails else "") + output, fails=fails)

    def add_call(
        self, tool: str, arguments: Line, output: str, *, fails: bool = False, after: float = 0
    ) -> ClaudeCodeLog:
        """Write down a call with its result, which comes `after` hours."""
        call = self.start_call(tool, arguments)
        return self.wait(hours=after).finish_call(call, output, fails=fails)

    def start_call(self, tool: str, arguments: Line) -> str:
        """Write down a call, and return its id."""
        call = f"toolu_{stable_uuid(self._name, 'call', len(self.file.lines))[:20]}"
        self._answer({"type": "tool_use", "id": call, "name": tool, "input": arguments})
        return call

    def finish_call(self, call: str, output: str, *, fails: bool = False, **more: Any) -> ClaudeCodeLog:
        """Write down a call's result."""
        block: Line = {"tool_use_id": call, "type": "tool_result", "content": output}
        if fails:
            block["is_error"] = True
        result = more or (f"Error: {output}" if fails else {"stdout": output, "stderr": "", "interrupted": False})
        return self._write("user", {"role": "user", "content": [block]}, toolUseResult=result)

    def add_denied_command(self, command: str, words: str) -> ClaudeCodeLog:
        """Write down a command that a person refuses."""
        self.finish_call(self.start_call("Bash", {"command": command}), _REJECTED + words, fails=True)
        self.file.lines[-1][1]["toolDenialKind"] = "user-rejected"
        return self

    def copy_lines(self, other: ClaudeCodeLog) -> ClaudeCodeLog:
        """Begin with the lines of a session that is resumed here, as they are."""
        self.file.lines = [(self.now, line) for _, line in other.file.lines]
        self._before = other._before
        return self

    def _answer(self, block: Line) -> ClaudeCodeLog:
        body = {
            "model": "claude-opus-4-6",
            "id": f"msg_{stable_uuid(self._name, 'message', len(self.file.lines))[:20]}",
        }
        return self._write("assistant", body | {"type": "message", "role": "assistant", "content": [block]})

    def _write(self, kind: str, message: Line, **more: Any) -> ClaudeCodeLog:
        own = stable_uuid(self._name, len(self.file.lines))
        line = {"type": kind, "uuid": own, "parentUuid": self._before, "message": message, **self._common, **more}
        self.now += self._pace
        self.file.lines.append((self.now, line | {"timestamp": self.now.strftime("%Y-%m-%dT%H:%M:%S.000Z")}))
        self._before = own
        return self


class ChatLog:
    """A customer's conversation with an agent that has tools, as OpenAI's messages in a record with its task."""

    def __init__(self, name: str, at: datetime, *, task: str, reward: float) -> None:
        self.now = at
        record = {"session_id": name, "agent": "support", "model": "gpt-5-mini", "task_id": task}
        self.file = LogFile(f"support/{name}.json", chat=record, rewarded=reward)
        self._name = name
        self._write({"role": "system", "content": "You answer the customers of a shop."})

    def wait(self, **span: float) -> ChatLog:
        """Let time pass."""
        self.now += timedelta(**span)
        return self

    def add_user_message(self, text: str) -> ChatLog:
        """Write down what the customer says."""
        return self._write({"role": "user", "content": text})

    def add_answer(self, text: str) -> ChatLog:
        """Write down the agent's answer."""
        return self._write({"role": "assistant", "content": text})

    def add_call(self, tool: str, arguments: Line, output: Line | str) -> ChatLog:
        """Write down a call with its result."""
        identity = f"call_{len(self.file.lines)}"
        call = {"id": identity, "type": "function", "function": {"name": tool, "arguments": json.dumps(arguments)}}
        self._write({"role": "assistant", "content": None, "tool_calls": [call]})
        content = output if isinstance(output, str) else json.dumps(output)
        return self._write({"role": "tool", "tool_call_id": identity, "content": content})

    def _write(self, message: Line) -> ChatLog:
        self.now += timedelta(seconds=20)
        self.file.lines.append((self.now, message | {"timestamp": self.now.isoformat()}))
        return self


class Claw0Log:
    """A conversation with a peer in a claw0 transcript."""

    def __init__(self, name: str, at: datetime, peer: str) -> None:
        self.now = at
        self.file = LogFile(f"claw0/{name}.jsonl")
        self._write({"type": "session", "id": name, "key": f"butler:telegram:{peer}"})

    def wait(self, **span: float) -> Claw0Log:
        """Let time pass."""
        self.now += timedelta(**span)
        return self

    def add_user_message(self, text: str) -> Claw0Log:
        """Write down what the peer says."""
        return self._write({"type": "user", "content": text})

    def add_answer(self, text: str) -> Claw0Log:
        """Write down the agent's answer."""
        return self._write({"type": "assistant", "content": text})

    def add_call(self, tool: str, arguments: Line, output: str, *, fails: bool = False) -> Claw0Log:
        """Write down a call with its result."""
        identity = f"tu_{len(self.file.lines)}"
        self._write({"type": "tool_use", "tool_use_id": identity, "name": tool, "input": arguments})
        return self._write({"type": "tool_result", "tool_use_id": identity, "output": output, "is_error": fails})

    def _write(self, line: Line) -> Claw0Log:
        self.now += timedelta(seconds=20)
        self.file.lines.append((self.now, line | {"ts": self.now.isoformat()}))
        return self


class PiLog:
    """A session of pi: a tree whose last entry says which branch is the active one."""

    def __init__(self, name: str, at: datetime, project: str) -> None:
        self.now = at
        self.session = stable_uuid(name)
        self.file = LogFile(f"pi/{at:%Y-%m-%d}_{self.session}.jsonl")
        self._head: str | None = None
        header = {"type": "session", "version": 3, "id": self.session, "cwd": project}
        self.file.lines.append((at, header | {"timestamp": at.isoformat()}))

    def wait(self, **span: float) -> PiLog:
        """Let time pass."""
        self.now += timedelta(**span)
        return self

    def go_back(self, entries: int) -> PiLog:
        """Go back some entries: what is written next begins another branch there."""
        for _ in range(entries):
            self._head = next(line["parentId"] for _, line in self.file.lines if line["id"] == self._head)
        return self

    def add_user_message(self, text: str) -> PiLog:
        """Write down what a person says."""
        return self._write({"role": "user", "content": text})

    def add_command(self, command: str, output: str, *, fails: bool = False) -> PiLog:
        """Write down a shell command with its output."""
        call = stable_uuid(self.session, "call", len(self.file.lines))[:12]
        block = {"type": "toolCall", "id": call, "name": "bash", "arguments": {"command": command}}
        self._write({"role": "assistant", "content": [block], "model": "gpt-5"})
        content = [{"type": "text", "text": output}]
        return self._write(
            {"role": "toolResult", "toolCallId": call, "toolName": "bash", "isError": fails, "content": content}
        )

    def _write(self, message: Line) -> PiLog:
        self.now += timedelta(seconds=20)
        own = stable_uuid(self.session, len(self.file.lines))[:8]
        line = {"type": "message", "id": own, "parentId": self._head, "timestamp": self.now.isoformat()}
        self.file.lines.append((self.now, line | {"message": message}))
        self._head = own
        return self
