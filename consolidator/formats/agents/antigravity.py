"""Read Antigravity's transcripts: brain/<conversation>/.system_generated/logs/transcript_full.jsonl, a step a line.

A person's word is the <USER_REQUEST> that begins a USER_INPUT from USER_EXPLICIT; what stands behind it, the editor
added. A conversation that another one's INVOKE_SUBAGENT names is a sub-agent's, and its requests are the agent's.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from consolidator.formats.base import Item, Skipped
from consolidator.formats.common import drafts
from consolidator.formats.common.json_parsing import parse_container
from consolidator.formats.common.jsonl import parse_head, read_objects
from consolidator.formats.common.log_files import file_finder, open_log
from consolidator.formats.common.records import Conversation, RecordForm, Statements, silent_kinds
from consolidator.models.payload import EventType

NAME = "antigravity"
_FULL, _SHORT = "transcript_full.jsonl", "transcript.jsonl"  # the second is the same with long texts cut
_FORM = RecordForm(NAME, id=("step_index",), time=("created_at",), silent=silent_kinds(NAME))
_REQUEST = re.compile(r"<USER_REQUEST>\n?(.*?)\n?</USER_REQUEST>", re.DOTALL)
_HEAD = re.compile(r"\ACreated At: [^\n]*\n(?:Completed At: [^\n]*\n)?")
_COMMAND = re.compile(
    r"\A\s*The command (?:completed successfully|(?:exited with code|failed with exit code:) (\d{1,10}))\.?\s*?\n"
    r"(?:\s*(?:Output|Stdout):\n[ \t]*)?"
)
_FINISHED = re.compile(
    r"<SYSTEM_MESSAGE>\n\[Message\] timestamp=\S+ sender=\S+/task-(\d{1,12}) priority=\w+ content=Task id \"[^\"\n]*\" "
    r"(finished|was canceled) with result:\n(.*?)(?:\n\nLog: [^\n]*)?\n</SYSTEM_MESSAGE>",
    re.DOTALL,
)
_CWD = re.compile(rb'"Cwd"\s*:\s*("(?:[^"\\\n]|\\[^\n])*")')
_CHILD = re.compile(rb'conversationId\\*"\s*:\s*\\*"([\w-]{8,64})')

files = file_finder(_FULL, _SHORT)


def recognises(path: Path, head: bytes) -> bool:
    """Check the first lines for a step with its number and source."""
    return any({"step_index", "source", "type", "status"} <= line.keys() for line in parse_head(head))


def read(path: Path, root: Path) -> Iterator[Item]:
    """Read one conversation as a stream, after a search for the project; a short one only where it has no full one."""
    if path.name == _SHORT and path.with_name(_FULL).exists():
        yield Skipped("short transcript")
        return
    yield from _FORM.read(read_objects(path), _Transcript(path).draft)


class _Transcript:
    """Drafts the steps of one conversation: the calls of a step are answered by those with the numbers after it."""

    def __init__(self, path: Path) -> None:
        folder = path.parents[2] if path.parent.name == "logs" else path
        files = sorted(folder.parent.glob("*/.system_generated/logs/*.jsonl")) if folder.parent.name == "brain" else []
        transcripts = tuple((file, file.lstat().st_mtime_ns) for file in files)
        self._parent = _find_parents(transcripts).get(folder.name)
        self._session = Conversation(
            folder.name if folder != path else path.stem, cwd=_find_directory(path), parent=self._parent
        )
        self._tools: dict[str, str] = {}  # by number of the step that will answer: calls without a result

    def draft(self, step: dict[str, Any]) -> Statements:
        """Yield what a step says."""
        kind, source = drafts.text_of(step.get("type")), step.get("source")
        yield self._session
        if kind == "USER_INPUT":
            yield Skipped(kind)
            yield from self._draft_request(drafts.text_of(step.get("content")), is_typed=source == "USER_EXPLICIT")
        elif kind == "PLANNER_RESPONSE":
            yield Skipped(kind)
            yield from drafts.thought(step.get("thinking"))
            yield from drafts.answer(step.get("content"))
            for place, call in enumerate(drafts.objects_of(step.get("tool_calls")), start=1):
                call_id = str(step["step_index"] + place)
                self._tools[call_id] = drafts.text_of(call.get("name"))
                arguments = {name: _read_value(value) for name, value in drafts.object_of(call.get("args")).items()}
                yield drafts.call(call_id, call.get("name"), arguments)
        elif source == "MODEL" and step.get("status") == "RUNNING":
            yield Skipped("running")  # a message tells its result
        elif source == "MODEL":
            text = _HEAD.sub("", drafts.text_of(step.get("content")))
            yield from self._draft_result(drafts.text_of(step.get("step_index")), text, step.get("exit_code"))
        elif kind == "SYSTEM_MESSAGE":
            yield Skipped(kind)
            if finished := _FINISHED.search(drafts.text_of(step.get("content"))):
                yield from self._draft_result(finished[1], finished[3], None, aborted=finished[2] != "finished")
        elif kind == "ERROR_MESSAGE":
            yield EventType.ERROR, {"message": drafts.text_of(step.get("content"))}
        elif kind == "CHECKPOINT":
            yield EventType.POLICY_DECISION, {"decision": "compaction"}

    def _draft_request(self, text: str, *, is_typed: bool) -> drafts.Drafts:
        request = _REQUEST.match(text)
        if request is None or not is_typed or self._parent:
            yield from drafts.harness(text)
        else:
            yield from drafts.words(request[1], text[request.end() :])

    def _draft_result(self, call_id: str, text: str, code: Any, *, aborted: bool = False) -> Statements:
        tool = self._tools.pop(call_id, None)
        if tool is None:
            yield Skipped("result")  # of no call that the transcript has
            return
        command = _COMMAND.match(text)
        code = int(command[1] or 0) if command and code is None else code
        output = text[command.end() :] if command else text
        yield drafts.result(
            call_id, tool, output, failed=aborted, reason="aborted" if aborted else None, exit_code=code
        )


def _read_value(value: Any) -> Any:
    """Return an argument of a call: it is a text of JSON, or one that only looks so."""
    is_text = isinstance(value, str) and value[:1] == value[-1:] == '"' and len(value) > 1
    return (parse_container(f"[{value}]") or [value])[0] if is_text else value


def _find_directory(path: Path) -> str | None:
    """Return the folder in which most commands ran, of those that are not Antigravity's own."""
    folders: Counter[str] = Counter()
    with open_log(path) as file:
        for line in file:
            folders.update(str(_read_value(json.loads(text))) for text in _CWD.findall(line))
    named = (name for name, _ in folders.most_common() if len(name) > 3)
    return next((name for name in named if "/.gemini/" not in name.replace("\\", "/") + "/"), None)


@lru_cache(maxsize=4)
def _find_parents(transcripts: tuple[tuple[Path, int], ...]) -> dict[str, str]:
    """Return the parent of each conversation that a sub-agent had; of transcripts, with when each changed."""
    parents: dict[str, str] = {}
    for path, _ in transcripts:
        with suppress(OSError), open_log(path) as file:
            for line in file:
                if b'"INVOKE_SUBAGENT"' in line:
                    parents |= {child.decode(): path.parents[2].name for child in _CHILD.findall(line)}
    return parents
