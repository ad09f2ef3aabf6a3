"""Judge what an agent was told of a call by what its session then did, and answer failures as a baseline would.

Pure. What was told is right if the call that it names is among those that worked next. That an agent went on otherwise
shows that it was wrong only where that mended the failure. The judge reads operations by rules of its own, so that it
does not share the mistakes of what it judges.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Literal

from benchmarks.quality.replayed_sessions import READS, Call, ReplayedSession, Segment, is_path, parse_segments
from consolidator.memory.calls.shell_programs import word_set

Verdict = Literal["right", "another error", "wrong", "too late", "not tried", "names no call"]
VERDICTS: tuple[Verdict, ...] = ("right", "too late", "another error", "wrong", "not tried", "names no call")
BY_HAND = "by hand"  # what is told in place of a call
LATER_CALLS = 12  # after a failure, among which is what worked
MIN_SESSIONS = 2  # in which the baseline met an error
MIN_SHARED = 0.5  # of a failed call's words that its resolver has, for the baseline
_SPAN = re.compile(r"`([^`\n]+)`")
_QUOTED = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"|\\.")
_ELLIPSIS = re.compile(r"…|(?<!/)\.\.\.")  # but for the packages `./...` of Go
_WORDS = re.compile(r"[\s;&|()]+")
_PATTERN = re.compile(r"[*?\[{~]")
_PLACE = re.compile(r"`([^`]+)` (?:in|from) (?:`([\w./-]+?)/?`|the project(?: root|'s folder))")
_CUT = re.compile(r" \S*…\S*")
_NOT_TAKEN = re.compile(r"^(?:\(eval\)|zsh):(?:\d+:)? (?:no matches found: (\S+)|=?(=\S*) not found)", re.MULTILINE)
EDITS = word_set("Edit Write MultiEdit NotebookEdit apply_patch")
_EXPORTED = re.compile(r"\bexport PATH=\"?(/[^:\"$\s]+):")
_PLACEHOLDER = re.compile(r"^(?:\.\.\.|…|<.*>|\{.*\}|[A-Z][A-Z_]+)$")
_MASKS = (
    (re.compile(r"\x1b\[[0-9;]*m"), ""),
    (re.compile(r"https?://\S+"), "URL"),
    (re.compile(r"(?:[\w@.~-]*/)+[\w@.-]+"), "PATH"),
    (re.compile(r"\b[\w-]+\.(?:tsx?|jsx?|py|json|md|css|sql|sh|go|rs|toml|ya?ml)\b"), "FILE"),
    (re.compile(r"\b[0-9a-f]{7,40}\b"), "HASH"),
    (re.compile(r"\d+"), "0"),
)
_NO_ERROR = re.compile(r"^(?:Exit code \d+|\$ .*|Usage: .*|For more information.*|)$")
_READS_AS_ERROR = re.compile(
    r"error|fail|not found|cannot|can't|unable|invalid|illegal|no such|denied|unrecognized", re.I
)


def masked_line(text: str) -> str:
    """Return the first line of an error that reads like one, without what differs each time; "" for none."""
    lines = [line.strip() for line in text.splitlines() if not _NO_ERROR.match(line.strip())]
    line = next((line for line in lines if _READS_AS_ERROR.search(line)), lines[0] if lines else "")
    for pattern, mask in _MASKS:
        line = pattern.sub(mask, line)
    return line[:200]


def named_calls(text: str, failed: Call) -> list[str]:
    """Return the commands and paths that a text names in backticks, but for the failed call itself.

    The folder that a call is to be run in is none; and a call that is cut in the text is named by its other words.
    """
    spans = [span.strip() for span in _SPAN.findall(text)]
    placed = _PLACE.search(text)
    folder = placed[2] if placed else None
    named = [span for span in dict.fromkeys(spans) if span and not _is_failed_call(span, failed)]
    calls = [span for span in named if span.removesuffix("/") != folder]
    return calls or ([_CUT.sub("", placed[1])] if placed and folder and "…" in placed[1] else [])


def named_directory(text: str, project: str) -> str | None:
    """Return where a text says that a call runs: "in `web/`", "in the project root"; None for nowhere."""
    match = _PLACE.search(text)
    return None if match is None else match[2] or project


def _is_failed_call(span: str, failed: Call) -> bool:
    """Whether a span is what failed: the same program behind the same wrapper, with the same flags."""
    if failed.command is None:
        return span in str(failed.arguments) or span == describe_arguments(failed.arguments)
    if _ELLIPSIS.search(span):
        return True  # `wrapper program …`: a kind of call, none to make
    if _newly_quoted(span, failed) or any(folder not in failed.command for folder in _EXPORTED.findall(span)):
        return False
    segments = parse_segments(span, failed.directory)
    for segment in [segment for segment in segments if segment.operation not in READS] or segments:
        for other in failed.segments:
            if span in (other.operation.split()[0], *other.wrappers):
                return True  # the name of a program or a wrapper alone
            if _describe(segment) == _describe(other) and segment.paths <= other.paths:
                return True
    return False


def _newly_quoted(span: str, failed: Call) -> set[str]:
    """Return the patterns that a span has in quotes and the failed call had not: the shell expands them no more."""
    words = {word for segment in parse_segments(span, "") for word in segment.words if _PATTERN.search(word)}
    return {word for word in words if _is_bare(word, failed.command or "") and not _is_bare(word, span)}


def _is_bare(word: str, line: str) -> bool:
    return word in _WORDS.split(_QUOTED.sub("_", line))


def _describe(segment: Segment) -> tuple[object, ...]:
    return segment.operation, segment.wrappers, segment.flags, segment.directory


def judge_failure(told: Sequence[str], session: ReplayedSession, position: int) -> Verdict:
    """Judge the calls that were told after a failure: right if one of them is what then worked.

    One that was made next and led to another error is counted apart, and so are those of a session that neither made
    them nor mended the failure. To make the failed call again is right if it then worked with nothing edited.
    """
    if not told:
        return "names no call"
    failed = session.calls[position]
    later = session.calls[position + 1 : position + 1 + LATER_CALLS]
    works = next((n for n, call in enumerate(later) if _works_again(call, failed)), None)
    if told == [BY_HAND] or all(_words(span) == _words(failed.command) for span in told):
        is_edited = works is not None and any(call.tool in EDITS for call in later[:works])
        return "not tried" if works is None else "right" if is_edited is (told == [BY_HAND]) else "wrong"
    if any(_only_quotes(span, failed) for span in told):
        return "too late" if _was_mended(told, session, position) else "right"
    worked = [_words(call.command) for call in later if call.outcome == "ok" and _words(call.command)]
    told = [
        span
        for span in told
        if not _is_failed_call(span, failed) or (_words(span) in worked and _words(span) != _words(failed.command))
    ]
    made = [n for n, call in enumerate(later) if any(_is_told(span, call, failed) for span in told)]
    is_mended = works is not None and any(
        n < works and not any(call.tool in EDITS for call in later[n:works]) for n in made
    )
    if is_mended or any(later[n].outcome == "ok" for n in made):
        return "too late" if _was_mended(told, session, position) else "right"
    error = masked_line(failed.text)
    if any(later[n].failed and masked_line(later[n].text) != error for n in made):
        return "another error"
    return "not tried" if works is None and not made else "wrong"


def _works_again(call: Call, failed: Call) -> bool:
    """Whether a call that worked is the operation that had failed, or the same tool on a file of the same name."""
    if call.outcome != "ok" or call.tool != failed.tool:
        return False
    if failed.command is None:
        names = _file_names(failed)
        return not names or not names.isdisjoint(_file_names(call))
    return any(
        each.operation == other.operation
        and (each.operation not in READS or ({*each.words} - each.flags) & {*other.words})
        for each in failed.segments
        for other in call.segments
    )


def _file_names(call: Call) -> set[str]:
    values = call.arguments.values() if isinstance(call.arguments, dict) else ()
    return {value.rpartition("/")[2] for value in values if isinstance(value, str) and is_path(value)}


def _only_quotes(span: str, failed: Call) -> bool:
    """Whether a call is the failed one with what zsh did not take in quotes: that is right as zsh reads it."""
    line = failed.command or ""
    refused = {match[1] or f"={match[2]}" for match in _NOT_TAKEN.finditer(failed.text)}
    quoted = {word for word in _WORDS.split(line) if word not in _WORDS.split(span)}
    return _unquote(span) == _unquote(line) and any(word in refused or word[1:] in refused for word in quoted)


def _unquote(line: str) -> list[str]:
    return re.sub(r"['\"\\\\]", "", line).split()


def _words(line: str | None) -> list[str]:
    return (line or "").split()


def judge_warning(told: Sequence[str], session: ReplayedSession, position: int) -> Verdict | None:
    """Judge a warning before a call: wrong if the call worked; None if nobody knows, as it was not run."""
    call = session.calls[position]
    if call.outcome == "ignored":
        return None
    if not call.failed:
        return "wrong"
    return "too late" if _was_mended(told, session, position) else "right"


def _was_mended(told: Sequence[str], session: ReplayedSession, position: int) -> bool:
    """Whether the session had met this failure before, and then done what is told now."""
    failed = session.calls[position]
    error = masked_line(failed.text)
    for index, call in enumerate(session.calls[:position]):
        if call.failed and call.tool == failed.tool and masked_line(call.text) == error:
            after = session.calls[index + 1 : position]
            if any(other.outcome == "ok" and _is_told(span, other, call) for span in told for other in after):
                return True
    return False


def _is_told(span: str, call: Call, failed: Call) -> bool:
    """Whether a call is the one that was told: its operation, and the directory, path or flag that it names."""
    if is_path(span) and " " not in span:
        return _has_path(span, call)
    if call.command is None:
        is_value = isinstance(call.arguments, dict) and span in call.arguments.values()
        return is_value or span in (call.tool, describe_arguments(call.arguments))
    segments = [segment for segment in parse_segments(span, "") if segment.operation != "export"]
    if any(folder not in call.command for folder in _EXPORTED.findall(span)):
        return False  # however the call names the folder that is told for its program
    made = {word for segment in call.segments for word in segment.words}
    if any(word not in made or _is_bare(word, call.command or "") for word in _newly_quoted(span, failed)):
        return False
    return bool(segments) and all(
        any(_is_same(segment, other, failed) for other in call.segments) for segment in segments
    )


def describe_arguments(arguments: object) -> str:
    """Return what a tool other than a shell is given, as one text."""
    return json.dumps(arguments, sort_keys=True)


def _has_path(path: str, call: Call) -> bool:
    texts = list(call.arguments.values()) if isinstance(call.arguments, dict) else [call.arguments]
    end = path.strip("/").removeprefix("./")
    return any(
        isinstance(text, str) and re.search(rf"(?:^|[\s/'\"=]){re.escape(end)}(?:$|[\s/'\":])", text) for text in texts
    )


def _is_same(told: Segment, made: Segment, failed: Call) -> bool:
    if told.operation.split()[-1] == made.operation.split()[-1] and told.operation.endswith((" format", " fmt")):
        return True  # by another runner, or of fewer files
    if told.operation != made.operation or not _is_below(made.directory, told.directory):
        return False
    made_text = " ".join(made.words)
    paths = [path for path in told.paths if not _PLACEHOLDER.match(path)]
    if not all(path.strip("/").removeprefix("./") in made_text for path in paths):
        return False
    for other in failed.segments:  # what is told of the operation that failed is its difference
        if other.operation == told.operation:
            before, after, used = ({*_parts(each.flags), *each.wrappers} for each in (other, told, made))
            used |= _parts(made.words)
            dropped, added = before - after, after - before
            if not added <= used or (not added and dropped and dropped <= used):
                return False
    return True


def _parts(words: Iterable[str]) -> set[str]:
    """Return words, options apart from a value that is joined to them."""
    return {part for word in words for part in (word.split("=", 1) if word.startswith("-") else [word])}


def _is_below(made: str | None, told: str | None) -> bool:
    """Whether a call ran in the directory that was told; one that names none may run anywhere."""
    if not told:
        return True
    return f"/{(made or '').strip('/')}".endswith(f"/{told.strip('/')}")


class Baseline:
    """What thirty lines without a night answer: the same masked error line in two sessions, and what worked next."""

    def __init__(self, sessions: Iterable[ReplayedSession]) -> None:
        """Learn from sessions."""
        self._met: dict[str, set[str]] = defaultdict(set)
        self._mended: dict[str, Counter[str]] = defaultdict(Counter)
        for session in sessions:
            for position, call in enumerate(session.calls):
                if call.failed and (line := masked_line(call.text)):
                    self._met[line].add(session.origin)
                    resolver = find_resolver(session.calls, position)
                    if resolver is not None:
                        self._mended[line][resolver] += 1

    def answer(self, call: Call) -> str | None:
        """Return the call that mostly worked after such an error; None for an error that is not known."""
        line = masked_line(call.text)
        if len(self._met.get(line, ())) < MIN_SESSIONS or not self._mended[line]:
            return None
        return self._mended[line].most_common(1)[0][0]


def find_resolver(calls: Sequence[Call], position: int) -> str | None:
    """Return the next successful call of the same tool that shares half of a failed call's words."""
    words = _call_words(calls[position])
    for call in calls[position + 1 :]:
        shared = len(words & _call_words(call))
        if call.outcome == "ok" and call.tool == calls[position].tool and 0 < MIN_SHARED * len(words) <= shared:
            return call.command if call.command is not None else str(call.arguments)
    return None


def _call_words(call: Call) -> set[str]:
    return set(re.findall(r"[\w./:-]+", call.command if call.command is not None else str(call.arguments)))
