"""A home in which Claude Code has kept sessions: logs as it writes them, and hooks run as it runs them."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from consolidator.hooks.client import is_running, stop_service
from tests.support import PATIENCE

PROJECT = "/work/shop"
NO_UPSTREAM = (
    "Exit code 128\nfatal: The current branch {0} has no upstream branch.\n"
    "To push the current branch and set the remote as upstream, use\n\n    git push --set-upstream origin {0}\n"
)


@dataclass
class ClaudeSession:
    """One session's log."""

    name: str
    project: str = PROJECT
    day: int = 1
    lines: list[dict[str, Any]] = field(default_factory=list)

    def say(self, text: str) -> ClaudeSession:
        """Add a person's message."""
        return self._add("user", text)

    def answer(self, text: str) -> ClaudeSession:
        """Add the agent's words."""
        return self._add("assistant", [{"type": "text", "text": text}])

    def call(self, call_id: str, command: str, result: str = "done", *, failed: bool = False) -> ClaudeSession:
        """Add a shell call with its result."""
        use = {"type": "tool_use", "id": call_id, "name": "Bash", "input": {"command": command, "description": "x"}}
        self._add("assistant", [use])
        return self._add(
            "user", [{"type": "tool_result", "tool_use_id": call_id, "content": result, "is_error": failed}]
        )

    def write(self, home: Path) -> Path:
        """Write the log where Claude Code keeps it; return its path."""
        path = home / ".claude" / "projects" / re.sub(r"[^A-Za-z0-9]", "-", self.project) / f"{self.name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(line) + "\n" for line in self.lines))
        return path

    def _add(self, kind: str, content: Any) -> ClaudeSession:
        number = len(self.lines)
        message = {"role": kind, "content": content, **({"model": "m"} if kind == "assistant" else {})}
        self.lines.append(
            {
                "type": kind,
                "uuid": f"{self.name}-{number}",
                "sessionId": self.name,
                "cwd": self.project,
                "timestamp": f"2026-02-{self.day:02}T08:00:{number:02}.000Z",
                "message": message,
            }
        )
        return self


def push_session(name: str, branch: str, day: int) -> ClaudeSession:
    """A session in which a push failed, and was mended."""
    session = ClaudeSession(name, day=day).say("From now on, always use tabs for indentation. Push the branch.")
    session.call(f"{name}-1", "git push", NO_UPSTREAM.format(branch), failed=True)
    return session.call(f"{name}-2", f"git push --set-upstream origin {branch}", f"branch {branch} set up")


@dataclass
class ClaudeCode:
    """Runs the hooks that stand in its settings, as Claude Code does: by the shell, with a payload."""

    environment: Mapping[str, str]
    home: Path
    session: str = "now"
    project: str = PROJECT
    settings: Path | None = None  # the file of the hooks; None: that of the home
    answer: dict[str, Any] = field(default_factory=dict)  # of the last hook that said something, in Claude Code's form

    def run(self, event: str, **fields: Any) -> str:
        """Run the hooks of an event once; return the context that they add."""
        payload = {
            "session_id": self.session,
            "transcript_path": str(self.home / ".claude/projects/-work-shop" / f"{self.session}.jsonl"),
            "cwd": self.project,
            "permission_mode": "default",
            "hook_event_name": event,
            **fields,
        }
        settings = json.loads((self.settings or self.home / ".claude" / "settings.json").read_text())
        shown = []
        for group in settings["hooks"][event]:
            for hook in group["hooks"]:
                done = subprocess.run(
                    ["sh", "-c", hook["command"]],
                    input=json.dumps(payload).encode(),
                    env={**self.environment, "CLAUDE_PROJECT_DIR": self.project},
                    capture_output=True,
                    timeout=PATIENCE,
                    check=False,
                )
                assert (done.returncode, done.stderr) == (0, b"")
                shown.append(done.stdout)
        answers = [json.loads(text)["hookSpecificOutput"] for text in shown if text]
        assert all(answer["hookEventName"] == event for answer in answers)
        self.answer = answers[-1] if answers else self.answer
        return "\n".join(answer["additionalContext"] for answer in answers)

    def run_until_answered(self, event: str, **fields: Any) -> str:
        """Run the hooks of an event until they say something, as they may be too slow on a busy machine."""
        return str(wait_for(lambda: self.run(event, **fields)))


def end_service(environment: Mapping[str, str]) -> None:
    """End a home's hook service, one that is starting, too."""
    home = Path(environment["CONSOLIDATOR_HOME"])
    wait_for(lambda: not stop_service(home) and not is_running(home))


def wait_for(ask: Any) -> Any:
    """Ask until the answer is true; return it."""
    deadline = time.monotonic() + PATIENCE
    while not (answer := ask()):
        assert time.monotonic() < deadline, "no answer came"
        time.sleep(0.1)
    return answer
