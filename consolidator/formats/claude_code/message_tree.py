"""The lines of a file of Claude Code as a tree: which branches a person went back from, and what is repeated."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from consolidator.formats.base import hash_content
from consolidator.formats.claude_code.user_text import is_from_harness
from consolidator.formats.common.branches import find_branches
from consolidator.formats.common.content import extract_text, split_message
from consolidator.formats.common.jsonl import read_objects


class MessageTree:
    """The lines of a file as a tree by `parentUuid`: which branches a person went back from, and what is repeated.

    A branch begins with a prompt that the last line does not come from. Other lines beside that way, such as results
    of parallel calls, belong to the branch that they hang on.
    """

    def __init__(self, path: Path) -> None:
        self.branches: dict[str, str] = {}  # by uuid of an abandoned line: the prompt that its branch begins with
        self.starts: dict[str, str | None] = {}  # by that prompt: the branch that it left; None for the session's own
        self.repeated: set[str] = set()
        self._parents: dict[str, str | None] = {}
        self._paths: dict[str, bytes] = {}  # by uuid: a digest of what was said up to it, in this order
        if _is_linear(path):
            return

        prompts: set[str] = set()
        roots: set[str] = set()  # that name no line before them
        first_of: dict[tuple[bytes, str | None], str] = {}  # by path and session
        copies: list[tuple[str, str]] = []
        last: str | None = None
        snapshot: tuple[str, Mapping[str, Any]] = ("", {})  # the latest message
        for _, line in read_objects(path):
            uuid = line.get("uuid") if isinstance(line, dict) else None
            if not isinstance(uuid, str) or not isinstance(line, dict) or line.get("isSidechain"):
                continue
            if uuid in self._parents:
                continue

            parents = (line.get("parentUuid"), line.get("logicalParentUuid"))
            logged_parents = (parent for parent in parents if isinstance(parent, str) and parent in self._parents)
            self._parents[uuid] = next(logged_parents, last)
            last = uuid
            if parents[0] is None:
                roots.add(uuid)

            before = self._paths.get(str(parents[0]), b"" if parents[0] is None else str(parents[0]).encode())
            body = line.get("message")
            if not isinstance(body, Mapping) or line.get("type") not in ("user", "assistant"):
                self._paths[uuid] = before
                continue
            content_hash = hash_content([body.get("role"), body.get("content")])
            path_digest = self._paths[uuid] = hashlib.blake2b(before + content_hash.encode(), digest_size=16).digest()

            if _is_prompt(line, body):
                prompts.add(uuid)
            if (message := body.get("id")) and message == snapshot[1].get("id") and _has_grown(snapshot[1], body):
                self.repeated.add(snapshot[0])
            snapshot = (uuid, body)
            session = line.get("sessionId")
            first = first_of.setdefault((path_digest, session if isinstance(session, str) else None), uuid)
            if first != uuid:
                copies.append((first, uuid))

        self.branches, self.starts = find_branches(self._parents, last, prompts.__contains__)
        followed = {self._parents[uuid] for _, uuid in copies if uuid not in roots}
        copies = [(first, uuid) for first, uuid in copies if uuid not in roots or uuid in followed]  # the same twice
        # Said again on another branch it is not a copy: the person went back, and said the same.
        self.repeated.update(uuid for first, uuid in copies if self.branches.get(first) == self.branches.get(uuid))
        self._parents.clear()
        self._paths.clear()


def _is_linear(path: Path) -> bool:
    """Tell whether each line follows the one before it, or names none at all: then nothing need be kept of a file."""
    last: str | None = None
    message_id: object = None
    for _, line in read_objects(path):
        uuid = line.get("uuid") if isinstance(line, dict) else None
        if not isinstance(uuid, str) or not isinstance(line, dict) or line.get("isSidechain"):
            continue
        if last is not None and line.get("parentUuid", last) != last:
            return False
        body = line.get("message")
        last_id, message_id = message_id, body.get("id") if isinstance(body, Mapping) else None
        if message_id is not None and message_id == last_id:
            return False
        last = uuid
    return True


def _has_grown(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Tell whether a message was logged again with the same blocks, of which a text goes on."""
    old, new = before.get("content"), after.get("content")
    if not isinstance(old, list) or not isinstance(new, list) or len(old) > len(new) or old == new[: len(old)]:
        return False
    return all(
        earlier == other
        or (
            isinstance(earlier, Mapping)
            and isinstance(other, Mapping)
            and earlier.get("type") == other.get("type") == "text"
            and extract_text(other).startswith(extract_text(earlier))
        )
        for earlier, other in zip(old, new, strict=False)
    )


def _is_prompt(line: Mapping[str, Any], body: Mapping[str, Any]) -> bool:
    """Tell whether a line is what a person sent, which they may go back from."""
    typed, _ = split_message(body.get("content"))
    text = typed.lstrip()
    return bool(text) and not is_from_harness(line) and not text.startswith(("<", "[Request interrupted"))
