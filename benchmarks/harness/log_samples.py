"""Folders of foreign logs of any size: samples are repeated with fresh ids, so that every event is new."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.harness import synthetic_sessions
from benchmarks.harness.data_sets import FORMATS
from benchmarks.harness.server import BenchmarkServer
from consolidator.models.event import NewEvent
from consolidator.models.payload import EventType
from consolidator.service.log.export import export_sessions

# Formats with samples beside the checkout, and their folders.
SAMPLE_FOLDERS = {name: name for name in ("claude-code", "pi", "swe-agent", "intercode")} | {
    "openai-messages": "tau-airline"
}
_UUID = re.compile(rb"\b([0-9a-f]{8})(-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})")
_TIME = re.compile(rb"(T\d\d:\d\d:\d\d)\.(\d\d\d)Z")
_SYNTHETIC_SESSIONS, _SESSION_LENGTH = 20, 100  # their number and length, for formats without samples


def sample_root() -> Path:
    """Return the folder of the samples, which may not exist."""
    folder = os.environ.get("CONSOLIDATOR_TEST_DATA")
    return Path(folder) if folder else Path(__file__).parents[3] / "shared" / "data"


@dataclass(slots=True)
class LogSamples:
    """Sample logs of each format: texts by their paths below the format's folder."""

    texts: dict[str, dict[str, bytes]] = field(default_factory=dict)

    @classmethod
    async def collect(cls, server: BenchmarkServer, folder: Path) -> LogSamples:
        """Read the samples, and export synthetic sessions to the other formats that can be written."""
        samples = cls()
        for name, subfolder in SAMPLE_FOLDERS.items():
            root = sample_root() / subfolder
            if root.is_dir():
                texts = {str(path.relative_to(root)): path.read_bytes() for path in FORMATS[name].files(root)}
                samples.texts[name] = texts
        samples.texts["codex"] = {f"rollout-{n}-{_uuid(n)}.jsonl": _rollout(n) for n in range(_SYNTHETIC_SESSIONS)}
        async with server.open_database() as database:
            for number in range(_SYNTHETIC_SESSIONS):
                async with database.transaction() as conn:
                    await synthetic_sessions.write_session(conn, number, _SESSION_LENGTH, now=database.clock.now())
            writable = [name for name, form in FORMATS.items() if hasattr(form, "write") and name not in samples.texts]
            for name in writable:
                samples.texts[name] = {}
                for number in range(_SYNTHETIC_SESSIONS):
                    lines: list[str] = []
                    session_id = f"made-{number:07}"
                    await export_sessions(database, name, lines.append, session_names=[session_id])
                    samples.texts[name][f"{session_id}.jsonl"] = "".join(lines).encode()
        return samples

    def has_format(self, name: str) -> bool:
        """Whether there are samples of this format."""
        return bool(self.texts.get(name))

    def write_copies(self, folder: Path, name: str, size: int) -> int:
        """Write copies of a format's samples until they have `size` bytes; return the bytes written."""
        texts = self.texts.get(name, {})
        written = copy = 0
        while texts and written < size:
            copy += 1
            for path, text in texts.items():
                target = folder / f"{copy:05}" / _with_fresh_ids(path.encode(), copy).decode()
                target.parent.mkdir(parents=True, exist_ok=True)
                written += target.write_bytes(_with_fresh_ids(text, copy))
                if written >= size:
                    break
        return written


def _with_fresh_ids(text: bytes, copy: int) -> bytes:
    """Replace every id and time in a text; equal ones stay equal."""
    fresh = _UUID.sub(lambda match: b"%08x%s" % ((int(match[1], 16) ^ copy << 12) & 0xFFFFFFFF, match[2]), text)
    fresh = _TIME.sub(lambda match: b"%s.%03dZ" % (match[1], (int(match[2]) + copy) % 1000), fresh)
    return fresh.replace(b"made-", b"made-%d-" % copy)


def _uuid(number: int) -> str:
    return f"{number:08x}-1111-7222-8333-444455556666"


def _rollout(number: int) -> bytes:
    """Return a synthetic session in the format of Codex."""
    lines = [
        _line(
            "session_meta",
            {"id": _uuid(number), "cwd": synthetic_sessions.project_of(number), "originator": "codex_cli"},
            0,
        )
    ]
    for event in synthetic_sessions.generate_session(number, _SESSION_LENGTH):
        lines.append(_line("response_item", _item(event), len(lines)))
    return b"".join(lines)


def _line(kind: str, payload: dict[str, Any], number: int) -> bytes:
    when = f"2026-01-05T{8 + number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}.000Z"
    return json.dumps({"timestamp": when, "type": kind, "payload": payload}).encode() + b"\n"


def _item(event: NewEvent) -> dict[str, Any]:
    data = event.data
    if event.type is EventType.TOOL_CALL:
        arguments = json.dumps(data["arguments"])
        return {"type": "function_call", "name": data["tool"], "call_id": data["call_id"], "arguments": arguments}
    if event.type is EventType.TOOL_RESULT:
        return {"type": "function_call_output", "call_id": data["call_id"], "output": data["content"]}
    role = "user" if event.type is EventType.USER_MESSAGE else "assistant"
    kind = "input_text" if role == "user" else "output_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": data["text"]}]}
