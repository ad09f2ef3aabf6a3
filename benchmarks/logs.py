"""Folders of foreign logs of any size: samples repeated with fresh ids, so that every event of them is new."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import made
from benchmarks.server import Server
from consolidator.formats import FORMATS
from consolidator.models.event import NewEvent
from consolidator.models.payload import EventType
from consolidator.service.export import export_sessions

# Formats that samples are kept of beside the checkout, and the folders they are in.
KEPT = {name: name for name in ("claude-code", "pi", "swe-agent", "intercode")} | {"openai-messages": "tau-airline"}
_UUID = re.compile(rb"\b([0-9a-f]{8})(-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})")
_TIME = re.compile(rb"(T\d\d:\d\d:\d\d)\.(\d\d\d)Z")
_MADE, _EVENTS = 20, 100  # made-up sessions and their length, where there are no samples


def data_folder() -> Path:
    """Return where samples may be."""
    told = os.environ.get("CONSOLIDATOR_TEST_DATA")
    return Path(told) if told else Path(__file__).parents[2] / "shared" / "data"


@dataclass(slots=True)
class Samples:
    """The text of some logs of each format, by their names in the folder."""

    texts: dict[str, dict[str, bytes]] = field(default_factory=dict)

    @classmethod
    async def gathered(cls, server: Server, folder: Path) -> Samples:
        """Read what is kept, and write made-up sessions in the formats that can be written."""
        found = cls()
        for name, below in KEPT.items():
            root = data_folder() / below
            if root.is_dir():
                texts = {str(path.relative_to(root)): path.read_bytes() for path in FORMATS[name].files(root)}
                found.texts[name] = texts
        found.texts["codex"] = {f"rollout-{n}-{_uuid(n)}.jsonl": _rollout(n) for n in range(_MADE)}
        async with server.database() as database:
            for number in range(_MADE):
                async with database.transaction() as conn:
                    await made.write(conn, number, _EVENTS, now=database.clock.now())
            writable = [name for name, form in FORMATS.items() if hasattr(form, "write") and name not in found.texts]
            for name in writable:
                found.texts[name] = {}
                for number in range(_MADE):
                    lines: list[str] = []
                    identity = f"made-{number:07}"
                    await export_sessions(database, name, lines.append, session_names=[identity])
                    found.texts[name][f"{identity}.jsonl"] = "".join(lines).encode()
        return found

    def has(self, name: str) -> bool:
        """Whether there is anything of this format."""
        return bool(self.texts.get(name))

    def fill(self, folder: Path, name: str, size: int) -> int:
        """Write copies of a format's samples until they have `size` bytes; return how many were written."""
        texts = self.texts.get(name, {})
        written = copy = 0
        while texts and written < size:
            copy += 1
            for path, text in texts.items():
                target = folder / f"{copy:05}" / _renamed(path.encode(), copy).decode()
                target.parent.mkdir(parents=True, exist_ok=True)
                written += target.write_bytes(_renamed(text, copy))
                if written >= size:
                    break
        return written


def _renamed(text: bytes, copy: int) -> bytes:
    """Give every id and time in a text another value, the same for the same one."""
    fresh = _UUID.sub(lambda found: b"%08x%s" % ((int(found[1], 16) ^ copy << 12) & 0xFFFFFFFF, found[2]), text)
    fresh = _TIME.sub(lambda found: b"%s.%03dZ" % (found[1], (int(found[2]) + copy) % 1000), fresh)
    return fresh.replace(b"made-", b"made-%d-" % copy)


def _uuid(number: int) -> str:
    return f"{number:08x}-1111-7222-8333-444455556666"


def _rollout(number: int) -> bytes:
    """Return a made-up session as Codex writes them."""
    lines = [_line("session_meta", {"id": _uuid(number), "cwd": made.project_of(number), "originator": "codex_cli"}, 0)]
    for event in made.session(number, _EVENTS):
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
