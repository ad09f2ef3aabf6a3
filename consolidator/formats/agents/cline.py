"""Read the tasks of Cline and Roo Code, which keep results, files and their own words in the user's role.

A person's word is what stands in the element that Cline puts it into (<task>, <user_input>, <feedback>, <answer>,
<user_message>), where that begins a text of a message without results, or is the whole result of a tool that asks the
person. A text without an element is a person's in the newer sessions alone, where none has one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from consolidator.formats.base import Item, Problem, Skipped
from consolidator.formats.common import drafts
from consolidator.formats.common.content import extract_text
from consolidator.formats.common.json_members import read_elements, read_json, read_note
from consolidator.formats.common.log_files import file_finder
from consolidator.formats.common.records import Conversation, RecordForm, Records, Statements

NAME = "cline"
_TASK, _MESSAGES = "api_conversation_history.json", ".messages.json"
_FORM = RecordForm(NAME, kind=("role",), id=("id", "ts"), time=("ts",), silent=frozenset({"system"}))
_ASKING = ("ask_followup_question", "attempt_completion", "plan_mode_respond", "ask_question", "submit_and_exit")
_FIXED = (  # what Cline puts before a person's words
    r"(?:The user has provided feedback on the results\.[^<]{0,400}"
    r"|You seem to be having trouble proceeding\.[^<]{0,200}"
    r"|New (?:instructions|message)[^<]{0,200}|<mode_notice>[^<]{0,200}</mode_notice>\s*)?"
)
_WORDS = re.compile(rf'\s*{_FIXED}<(task|feedback|answer|user_message|user_input)(?: mode="[a-z]+")?>', re.DOTALL)
_WORDS_END = re.compile(r"</(?:task|feedback|answer|user_message|user_input)>")
_FILES = ("<file_content", "<folder_content", "<url_content", "<workspace_diagnostics", "<terminal_output", "<git_")
_RESULT = re.compile(r"\A\[([\w.-]{1,200})(?: for (?:[^\n]*|.*?))?\] Result:\s*", re.DOTALL)
_RESUMED = "[TASK RESUMPTION]"
_NOTES = ("<environment_details>", "# TODO LIST UPDATE REQUIRED", "# task_progress ")  # Cline's, behind a result
_BLOCKS = (*drafts.BLOCKS, "explicit_instructions")
_STATUS = re.compile(
    r"\ACommand (?:executed|execution)[^\n]*?(?:exit code:? (-?\d{1,10})\.?)?\s*\n(?:Output:\s*\n)?", re.IGNORECASE
)
_DENIED = "The user denied this operation."
_FAILURES = (
    "The tool execution failed with the following error:",
    "Missing value for required parameter",
    "Error executing",
)
_XML_CALL = re.compile(r"<([a-z]+(?:_[a-z]+)+)>\n?(.*?)\n?</\1>", re.DOTALL)  # the names of its tools have a _
_XML_ARGUMENT = re.compile(r"<([a-z_]{1,40})>\n?(.*?)\n?</\1>", re.DOTALL)
_DIRECTORY = re.compile(r"^# Current (?:Workspace|Working) Directory \(([^)\n]+)\)", re.MULTILINE)
files = file_finder(_TASK, _MESSAGES)


def recognises(path: Path, head: bytes) -> bool:
    """Check for the names that Cline and Roo Code give their files, or for what Cline alone puts into a message."""
    is_array = head.lstrip()[:1] == b"["
    own = b"<environment_details>" in head and (b"<task>" in head or b"] Result:" in head)
    return path.name.endswith((_TASK, _MESSAGES)) or (path.suffix == ".json" and is_array and own and b'"role"' in head)


def read(path: Path, root: Path) -> Iterator[Item]:
    """Read one task; its messages are read one at a time."""
    task = _Task(path)
    yield from _FORM.read(task.records(), task.draft)


class _Task:
    """Drafts the messages of one task; keeps the calls that were not answered."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._is_new = path.name.endswith(_MESSAGES)
        self._is_lead = True
        self._has_elements = True
        self._session: Conversation | None = None
        self._tools: dict[str, str] = {}  # by id of a call
        self._open: list[tuple[str, str]] = []  # ids and tools of the calls of the last answer
        self._number = 0

    def records(self) -> Records:
        """Yield the messages."""
        if not self._is_new:
            yield from read_elements(self._path)
            return
        value = read_json(self._path, 256 * 1024 * 1024)
        messages = value.get("messages") if isinstance(value, dict) else None
        if not isinstance(messages, list):
            yield 1, value if isinstance(value, Problem) else Problem("a session without messages")
            return
        self._is_lead = value.get("agent") in (None, "lead")
        self._has_elements = any("<user_input" in str(m.get("content")) for m in messages if isinstance(m, dict))
        yield from enumerate(messages, start=1)

    def draft(self, message: dict[str, Any]) -> Statements:
        """Yield what a message says."""
        role, content = message.get("role"), message.get("content")
        if role not in ("user", "assistant"):
            return
        self._number += 1
        blocks = drafts.objects_of(content if isinstance(content, list) else [{"type": "text", "text": content}])
        if self._session is None:
            self._session = self._find_session(
                message, "\n".join(drafts.text_of(block.get("text")) for block in blocks)
            )
        yield Skipped(str(role))
        yield self._session
        if role == "assistant":
            for block in blocks:
                yield from self._draft_answer(block, message)
        else:
            yield from self._draft_user(blocks, message)

    def _draft_answer(self, block: dict[str, Any], message: dict[str, Any]) -> drafts.Drafts:
        kind, model = block.get("type"), drafts.object_of(message.get("modelInfo")).get("modelId")
        if kind == "tool_use":
            self._tools[drafts.text_of(block.get("id"))] = drafts.text_of(block.get("name"))
            self._open.append((drafts.text_of(block.get("id")), drafts.text_of(block.get("name"))))
            yield drafts.call(block.get("id"), block.get("name"), block.get("input"))
        elif kind in ("thinking", "reasoning"):
            yield from drafts.thought(block.get("thinking") or block.get("text"), model)
        elif kind == "text":
            text = drafts.text_of(block.get("text"))
            call = next(
                (c for c in _XML_CALL.finditer(text) if c[1] not in ("environment_details", "task_progress")), None
            )
            yield from drafts.answer(text[: call.start()] if call else text, model)
            if call:
                call_id = f"{self._number}/{len(self._open)}"
                self._open.append((call_id, call[1]))
                yield drafts.call(call_id, call[1], dict(_XML_ARGUMENT.findall(call[2])))

    def _draft_user(self, blocks: list[dict[str, Any]], message: dict[str, Any]) -> drafts.Drafts:
        results = [block for block in blocks if block.get("type") in ("tool_result", "tool-result")]
        texts = [drafts.text_of(block.get("text")) for block in blocks if block.get("type") == "text"]
        for block in results:
            call_id = drafts.text_of(block.get("tool_use_id") or block.get("toolUseId"))
            is_error = block.get("is_error") if isinstance(block.get("is_error"), bool) else None
            yield from self._draft_result(
                call_id, self._tools.get(call_id), extract_text(block.get("content")), is_error
            )
        if results:
            self._open.clear()
            yield from drafts.harness("\n".join(texts))
        elif texts and (header := _RESULT.match(texts[0])):
            # All that follows is the result: a file's text may hold whatever Cline writes, too.
            own = [text for text in texts[1:] if not text.lstrip().startswith(_NOTES)]
            content = drafts.join(texts[0][header.end() :], *own)
            call_id = self._open[0][0] if self._open else f"{self._number}/result"
            self._open.clear()
            yield from self._draft_result(call_id, header[1], content, None)
        else:
            self._open.clear()
            # What follows a text of Cline's own may be a result of a form that is not known.
            place = 1 if texts and texts[0].startswith(_RESUMED) else 0
            for number, text in enumerate(texts):
                yield from self._draft_words(text, message) if number == place else drafts.harness(text)

    def _draft_words(self, text: str, message: dict[str, Any]) -> drafts.Drafts:
        """Yield a person's words, where a text of a message without results begins with the element for them."""
        words = _find_words(text) if self._is_lead and not message.get("metadata") else None
        if words is None and self._is_new and self._is_lead and not self._has_elements and not message.get("metadata"):
            words = (text, "") if not text.startswith(("[", "<", "The user ")) else None
        if words is None:
            yield from drafts.harness(text)
            return
        yield from drafts.words(words[0].strip(), words[1], names=_BLOCKS)

    def _draft_result(self, call_id: str, tool: str | None, content: str, is_error: bool | None) -> drafts.Drafts:
        words = _find_words(content) if tool in _ASKING and self._is_lead else None
        status = _STATUS.match(content)
        output, code = drafts.split_output(content[status.end() :] if status else content)
        code = int(status[1]) if status and status[1] else code
        is_denied = _DENIED in content[:200]
        failed = True if is_denied or content.lstrip().startswith(_FAILURES) else is_error
        yield drafts.result(
            call_id, tool, output, failed=failed, reason="rejected" if is_denied else None, exit_code=code
        )
        # An element that closes twice: what the agent asked stands before the answer, and may imitate one.
        if words is not None and not words[1].strip() and not _WORDS_END.search(words[0]):
            yield from drafts.words(words[0].strip(), names=_BLOCKS)

    def _find_session(self, message: dict[str, Any], text: str) -> Conversation:
        """Return the session, named by its folder; its directory is told beside it, or in its first message."""
        folder = self._path.parent
        name = self._path.name.removesuffix(_MESSAGES) if self._is_new else folder.name or self._path.stem
        beside = [read_note(folder / "history_item.json"), read_note(folder / f"{name}.json")]
        history = read_note(folder.parent.parent / "state" / "taskHistory.json").get("items", [])
        beside += [item for item in drafts.objects_of(history) if item.get("id") == name]
        note = next((item for item in beside if item), {})
        directory = _DIRECTORY.search(text)
        cwd = next((note[key] for key in ("cwd", "workspace", "cwdOnTaskInitialization") if note.get(key)), None)
        is_roo = any("roo" in part for part in self._path.parts[-5:-1]) or "workspace" in note
        return Conversation(
            name,
            cwd=cwd or (directory[1] if directory else None),
            time=message.get("ts") or note.get("created_at") or note.get("started_at") or note.get("ts"),
            model=note.get("modelId") or note.get("model"),
            agent="roo" if is_roo else NAME,
            kind="root" if self._is_lead else "sub-agent",
        )


def _find_words(text: str) -> tuple[str, str] | None:
    """Return the words in the element that begins a text, and what Cline appended; None where there is none."""
    opening = _WORDS.match(text)
    if opening is None:
        return None
    closing = f"</{opening[1]}>"
    # Files that the words name are appended; they may hold the tag. Else the last one counts, which a person may type.
    has_files = any(mark in text for mark in _FILES)
    end = text.find(closing, opening.end()) if has_files else text.rfind(closing, opening.end())
    return (text[opening.end() : end], text[end + len(closing) :]) if end >= 0 else None
