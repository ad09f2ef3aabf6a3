"""A home in which Codex has kept rollouts: logs as it writes them, and hooks run as it runs them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.acceptance.claude_home import NO_UPSTREAM, PROJECT, wait_for
from tests.support import PATIENCE

UNIFIED_OUTPUT = "Chunk ID: a1\nWall time: 0.1 seconds\nProcess exited with code {}\nOutput:\n{}"


@dataclass
class CodexSession:
    """One session's rollout."""

    name: str
    project: str = PROJECT
    day: int = 1
    lines: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Write the header."""
        header = {"id": self.name, "timestamp": self._time(), "cwd": self.project, "cli_version": "0.150.0"}
        self._add("session_meta", header)

    def say(self, text: str) -> CodexSession:
        """Add a person's message, and the item that says that it was submitted."""
        self._item({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]})
        item = {"type": "UserMessage", "id": "u", "content": [{"type": "text", "text": text}]}
        return self._add("event_msg", {"type": "item_completed", "item": item})

    def call(self, call_id: str, command: str, code: int = 0, result: str = "done") -> CodexSession:
        """Add a shell call with its output."""
        arguments = json.dumps({"cmd": command})
        self._item({"type": "function_call", "name": "exec_command", "arguments": arguments, "call_id": call_id})
        output = UNIFIED_OUTPUT.format(code, result)
        return self._item({"type": "function_call_output", "call_id": call_id, "output": output})

    def write(self, home: Path) -> Path:
        """Write the rollout where Codex keeps it; return its path."""
        path = home / ".codex" / "sessions" / "2026" / "02" / f"{self.day:02}" / f"rollout-{self.name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(line) + "\n" for line in self.lines))
        return path

    def _item(self, payload: dict[str, Any]) -> CodexSession:
        return self._add("response_item", payload)

    def _add(self, kind: str, payload: dict[str, Any]) -> CodexSession:
        self.lines.append({"timestamp": self._time(), "type": kind, "payload": payload})
        return self

    def _time(self) -> str:
        return f"2026-02-{self.day:02}T08:00:{len(self.lines):02}.000Z"


def codex_push_session(name: str, branch: str, day: int) -> CodexSession:
    """A session in which a push failed, and was mended."""
    session = CodexSession(name, day=day).say("From now on, always use tabs for indentation. Push the branch.")
    session.call(f"{name}-1", "git push", 128, NO_UPSTREAM.format(branch).partition("\n")[2])
    return session.call(f"{name}-2", f"git push --set-upstream origin {branch}", 0, f"branch {branch} set up")


@dataclass
class Codex:
    """Runs the hooks that stand in its hooks.json, as Codex does: by the shell in the session's directory."""

    environment: Mapping[str, str]
    home: Path
    session: str = "now"
    settings: Path | None = None  # the file of the hooks; None: that of the home

    def run(self, event: str, **fields: Any) -> str:
        """Run the hooks of an event once; return the context that they add."""
        payload = {
            "session_id": self.session,
            "transcript_path": str(self.home / f".codex/sessions/2026/02/04/rollout-{self.session}.jsonl"),
            "cwd": PROJECT,
            "hook_event_name": event,
            "model": "m",
            "permission_mode": "default",
            **({} if event in ("SessionStart", "SessionEnd") else {"turn_id": "t1"}),
            **fields,
        }
        settings = json.loads((self.settings or self.home / ".codex" / "hooks.json").read_text())
        shown = []
        for hook in (hook for group in settings["hooks"][event] for hook in group["hooks"]):
            done = subprocess.run(
                ["sh", "-c", hook["command"]],
                input=json.dumps(payload).encode(),
                env=dict(self.environment),
                capture_output=True,
                timeout=PATIENCE,
                check=False,
            )
            assert (done.returncode, done.stderr) == (0, b"")
            shown.append(done.stdout)
        answers = [json.loads(text) for text in shown if text]
        assert all(answer.keys() == {"hookSpecificOutput"} for answer in answers)  # Codex knows no other fields
        outputs = [answer["hookSpecificOutput"] for answer in answers]
        assert all(output["hookEventName"] == event for output in outputs)
        return "\n".join(output["additionalContext"] for output in outputs)

    def run_until_answered(self, event: str, **fields: Any) -> str:
        """Run the hooks of an event until they say something, as they may be too slow on a busy machine."""
        return str(wait_for(lambda: self.run(event, **fields)))
