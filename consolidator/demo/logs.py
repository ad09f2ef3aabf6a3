"""The sample sessions as their agents would have logged them by a moment: Claude Code's files, chats, our own exports.

The logs beside this module hold four weeks from `FIRST_DAY` on. A copy of them begins on another day, and ends at a
moment; day by day it grows, and never changes what it said. `release/demo_logs` makes them from scripts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path

FIRST_DAY = datetime(2026, 1, 5, tzinfo=UTC)
_FORMATS = {"claude": "claude-code", "support": "openai-messages", "ops": "consolidator"}  # folder -> format
_TIME = re.compile(r'(?<=")2026-[0-9-]{5}T[0-9:]{8}\.000Z(?=")')


def list_sources(folder: Path) -> list[str]:
    """Return the sources in a folder, each as "format:path" for CONSOLIDATOR_SOURCES."""
    return [f"{name}:{folder / part}" for part, name in _FORMATS.items()]


def write_logs(folder: Path, start: datetime, until: timedelta) -> None:
    """Write what the agents had logged `until` then, counted from `start`; an unchanged file is not touched."""
    for part in _FORMATS:
        (folder / part).mkdir(parents=True, exist_ok=True)
    for path, lines in _read_logs():
        read = _cut_chat if path.parts[0] == "support" else _cut_line
        kept = [line for line in (read(line, FIRST_DAY + until) for line in lines) if line is not None]
        if any(_TIME.search(line) for line in kept):
            text = _TIME.sub(_shifter(start - FIRST_DAY), "\n".join(kept) + "\n")
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists() or target.read_text(encoding="utf-8") != text:
                target.write_text(text, encoding="utf-8")


def list_session_names() -> list[str]:
    """Return the ids that the agents themselves gave the sessions, the one with the latest event last."""
    last: dict[str, str] = {}
    for _, lines in _read_logs():
        records = [json.loads(line) for line in lines]
        for line, record in zip(lines, records, strict=True):
            name = record.get("session_id") or record.get("sessionId") or records[0]["session"]["id"]
            last[name] = max([last.get(name, ""), *_TIME.findall(line)])
    return sorted(last, key=last.__getitem__)


def _read_logs() -> Iterator[tuple[Path, list[str]]]:
    """Yield each log's path in its folder, and its lines."""
    root = Path(str(files("consolidator.demo") / "logs"))
    for path in sorted(root.rglob("*.jsonl")):
        yield path.relative_to(root), path.read_text(encoding="utf-8").splitlines()


def _cut_line(line: str, end: datetime) -> str | None:
    """Return a line that was written before a moment, or a header; None for a later one."""
    time = _TIME.search(line)
    return line if time is None or datetime.fromisoformat(time[0]) < end else None


def _cut_chat(line: str, end: datetime) -> str | None:
    """Return a chat with the messages from before a moment, and with its reward if these are all."""
    chat = json.loads(line)
    messages = [message for message in chat["messages"] if _cut_line(json.dumps(message), end)]
    if not any("timestamp" in message for message in messages):
        return None
    reward = {"reward": chat["reward"]} if "reward" in chat and len(messages) == len(chat["messages"]) else {}
    chat.pop("reward", None)
    return json.dumps(chat | {"messages": messages} | reward, ensure_ascii=False)


def _shifter(span: timedelta) -> Callable[[re.Match[str]], str]:
    return lambda time: (datetime.fromisoformat(time[0]) + span).strftime("%Y-%m-%dT%H:%M:%S.000Z")
