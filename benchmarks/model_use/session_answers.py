"""A stand-in that answers each session's part of a question as a file says: what a model, or a person, answered before.

A line of the file is what was answered about a session's lines: `question` (their hash, which `key_of` returns), and
`facts`, `observations` and `ended` as a model gives them, but that a known sentence is named by its words. An
observation that a question shows as known is said again; one that an earlier question was answered with, and that is
not shown, is left out, since no model would find the same words.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

from consolidator.testing import ScriptedReply

_SESSION = re.compile(r"^Session (s\d+)\n", re.MULTILINE)
_KNOWN = re.compile(r'^(K\d+) ("(?:[^"\\]|\\.)*")$', re.MULTILINE)
_START = re.compile(r"^(?:Session s1$|Read before|\[\d|[PASFEC]\d+[ :])", re.MULTILINE)
_LISTS = ("facts", "observations", "ended")


def split_question(prompt: str) -> dict[str, str]:
    """Return the lines of each session of a question, by the prefix of their names: "" where it is one session."""
    begin = _START.search(prompt)
    text = prompt[begin.start() :] if begin else ""
    parts = _SESSION.split(text)
    if len(parts) < 3:
        return {"": text.strip()}
    pairs = zip(parts[1::2], parts[2::2], strict=True)
    return {
        prefix: re.sub(rf"^{prefix}(?=[PASFECc]\d)", "", lines, flags=re.MULTILINE).strip() for prefix, lines in pairs
    }


def key_of(lines: str) -> str:
    """Return what an answer to a session's lines is found by."""
    return hashlib.sha256(lines.encode()).hexdigest()[:12]


class SessionAnswers:
    """Answers with what a file has for each session, and nothing for others, which are kept in `unknown`."""

    def __init__(self, path: Path | None = None) -> None:
        rows = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line] if path else []
        self.answers = {row["question"]: row for row in rows}
        self.unknown: dict[str, str] = {}
        self.known: dict[str, list[str]] = {}
        self.answered: dict[str, str] = {}  # sentences of observations -> the lines that they were answered to first

    def __call__(self, request: dict[str, Any]) -> ScriptedReply:
        """Answer a question about sessions; keep both sayings of a comparison."""
        if request["response_format"]["json_schema"]["name"] == "decisions":
            asked = re.findall(r"^(c\d+) \{", request["messages"][1]["content"], re.MULTILINE)
            kept = [{"saying": name, "operation": "add", "target": None, "reason": "Both."} for name in asked]
            return ScriptedReply.json({"operations": kept})
        prompt = str(request["messages"][1]["content"])
        names = {json.loads(text): name for name, text in _KNOWN.findall(prompt)}
        answer: dict[str, list[dict[str, Any]]] = {name: [] for name in (*_LISTS, "again")}
        parts = {prefix: (key_of(lines), lines) for prefix, lines in split_question(prompt).items()}
        keys = {key for key, _ in parts.values()}
        for prefix, (key, lines) in parts.items():
            if key not in self.answers:
                self.unknown[key], self.known[key] = lines, list(names)
                continue
            for name in _LISTS:
                for item in self.answers[key].get(name, ()):
                    sentence = item.get("known", item["sentence"]) if name != "facts" else ""
                    known = next((name for shown, name in names.items() if sentence in shown), None)
                    is_new = name == "observations" and self.answered.setdefault(sentence, key) in keys
                    _add(answer, name, _with_names(item, prefix), known, is_new=is_new)
        return ScriptedReply.json(answer)


def _add(
    answer: dict[str, list[dict[str, Any]]], name: str, item: dict[str, Any], known: str | None, *, is_new: bool
) -> None:
    """Add a part to an answer; of what is `known` by a name, that it is shown again, or over."""
    if name != "facts" and known is not None:
        cited = {"known": known, "line": item["line"], "quote": item["quote"]}
        answer["ended" if name == "ended" else "again"].append(cited)
    elif name == "facts" or is_new:
        answer[name].append(item)


def _with_names(item: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Return a part of an answer with the names that lines have in its question."""
    named = {**item, "line": prefix + item["line"]}
    if "proof" in item:
        named["proof"] = [prefix + line for line in item["proof"]]
    return named
