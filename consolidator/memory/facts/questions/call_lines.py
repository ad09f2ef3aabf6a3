"""Tells in a few lines what a session's calls showed: what failed and then worked, what was edited, which commands ran.

Whether a call worked is known by its trace, so that `lint | tail` proves nothing. What was done between a failure and
the success is the lesson.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import PurePosixPath

from consolidator.memory.calls.call_pairing import CallPairer, CompletedCall
from consolidator.memory.calls.installation import installed_packages
from consolidator.memory.facts.candidates import is_quote_in
from consolidator.memory.facts.questions.transcript import TranscriptLine
from consolidator.memory.lessons.headlines import line_hash
from consolidator.memory.lessons.history import failed_segment
from consolidator.memory.lessons.segments import Segment, resolves
from consolidator.memory.lessons.trace import Trace, TracedCall, TraceFold
from consolidator.memory.solutions.error_line import truncate_middle
from consolidator.memory.text.invisible import strip_invisible
from consolidator.models.event import Event

MAX_FAILURES_CHARS = 3000
MAX_COMMANDS, MAX_FILES, MAX_STEPS = 14, 8, 4
_WITHIN = 60  # calls after a failure in which it may be mended
_MAX_CALL_CHARS, _MAX_OUTPUT = 120, 20_000
_SAYS_RUN = re.compile(r"^.{0,80}\b(?:please |to fix this,? |then )?run[: ]+[`'\"]?[a-z][\w-]+ .{1,100}$", re.I | re.M)
_WRITES = re.compile(r"\bsed -i|\bpython3? |>|\btee\b|\bpatch\b|\bperl -")


def call_lines(
    events: Sequence[Event], redact: Callable[[str], str], project: str | None = None
) -> list[TranscriptLine]:
    """Return the lines F, E and C of a session's calls; paths in them begin at the project's folder."""
    pairer = CallPairer()
    fold = TraceFold(redact, pairer=pairer)
    completed: dict[int, CompletedCall] = {}
    for event in events:
        fold.feed(event)
        if (done := pairer.feed(event)) is not None:
            completed[done.seq] = done
    calls = [call for call in Trace.unpack("", "", "", fold.pack()).calls if call.seq in completed]
    root = re.escape(project.rstrip("/")) if project and project.rstrip("/").startswith("/") else r"\0"
    for call in calls:
        call.path = re.sub(rf"^{root}/", "", call.path or "") or None
    times = {event.seq: event.occurred_at for event in events}
    lines: list[TranscriptLine] = []
    room = MAX_FAILURES_CHARS
    for failure in _failures(calls, completed, times, redact):
        texts = [re.sub(rf"{root}/", "", redact(part or "")) for part in (failure.detail, failure.outcome)]
        detail, outcome = (re.sub(rf"{root}(?![\w.-])", ".", text) for text in texts)
        line = replace(failure, detail=detail, outcome=outcome)
        room -= len(line.render())
        if room >= 0:
            lines.append(line)
    edits = [call for call in calls if call.kind == "edit" and call.ok and call.path]
    if edits:
        counts = Counter(_short(call.path) for call in edits).most_common(MAX_FILES)
        names = redact(", ".join(f"{name} {number}" for name, number in counts))
        lines.append(TranscriptLine(edits[-1].seq, "E", names, times[edits[-1].seq]))
    return lines + _commands(calls, completed, times, redact)


def _failures(
    calls: Sequence[TracedCall],
    completed: dict[int, CompletedCall],
    times: dict[int, datetime],
    redact: Callable[[str], str],
) -> list[TranscriptLine]:
    """Return a line for each failure that says why, those first that were mended by something done in between."""
    printed = {line for call in calls for line in call.printed}
    lines: dict[tuple[str, str], tuple[int, TranscriptLine]] = {}
    for position, call in enumerate(calls):
        if call.ok is not False or call.kind not in ("shell", "edit", "tool"):
            continue
        done = completed[call.seq]
        text = redact(strip_invisible(truncate_middle(done.result_text, _MAX_OUTPUT)))
        reasons = [headline.text for headline in call.headlines if line_hash(headline.text) not in printed]
        reasons = [reason.rstrip(" ━─═=-") for reason in reasons if is_quote_in(reason, text)][:1]
        pieces = tuple(dict.fromkeys([*reasons, *(match[0].strip() for match in _SAYS_RUN.finditer(text))]))[:2]
        name = _name(call)
        if not pieces or (name, pieces[0]) in lines:
            continue
        steps, is_mended = _mending(calls, position)
        outcome = f"then {', '.join([*steps, 'worked'])}" if is_mended else "not seen to work later"
        seq = done.result_seq
        line = TranscriptLine(seq, "F", " / ".join(pieces), times[seq], name, outcome, bool(steps), pieces=pieces)
        lines[name, pieces[0]] = (-2 * bool(steps) - is_mended, line)
    return [line for _, line in sorted(lines.values(), key=lambda item: (item[0], item[1].seq))]


def _mending(calls: Sequence[TracedCall], position: int) -> tuple[list[str], bool]:
    """Return what was done after a failed call, and whether a related call then worked.

    Nothing is told of a mending by what is hostile or installs something: the error may have been made to ask for it.
    """
    failed = calls[position]
    segment = failed_segment(failed)
    steps: dict[str, None] = {}
    is_plain = True
    for later in calls[position + 1 : position + 1 + _WITHIN]:
        if _is_success(later, failed, segment):
            if later.kind == "edit" or later.line != failed.line:
                steps[_name(later)] = None
            return (list(steps)[-MAX_STEPS:] if is_plain else []), True
        is_plain = is_plain and not any(segment.is_hostile for segment in later.segments)
        is_plain = is_plain and not any(installed_packages("bash", {"command": later.line}))
        is_acting = later.kind in ("edit", "tool") or any(not part.is_trivial for part in later.segments)
        if later.ok and is_acting:
            steps[_name(later)] = None
    return [], False


def _is_success(later: TracedCall, failed: TracedCall, segment: Segment | None) -> bool:
    if not later.ok:
        return False
    if segment is not None:
        return any(part.ok and not part.piped and resolves(part, segment) for part in later.segments)
    if failed.kind == "edit" and failed.path:
        name = PurePosixPath(failed.path).name
        is_script = later.kind == "shell" and name in later.line and _WRITES.search(later.line) is not None
        return is_script or (later.kind == "edit" and later.path == failed.path)
    return failed.kind == later.kind == "tool" and failed.name == later.name


def _commands(
    calls: Sequence[TracedCall],
    completed: dict[int, CompletedCall],
    times: dict[int, datetime],
    redact: Callable[[str], str],
) -> list[TranscriptLine]:
    """Return a line for each of the commands that ran most often, with an example that stands in a call."""
    groups: dict[str, list[tuple[TracedCall, Segment]]] = {}
    for call in calls:
        for segment in call.segments:
            if segment.ok is not None and not segment.is_trivial and not segment.is_hostile:
                groups.setdefault(segment.operation, []).append((call, segment))
    lines = []
    for operation, members in sorted(groups.items(), key=lambda item: -len(item[1]))[:MAX_COMMANDS]:
        ordered = sorted(members, key=lambda member: (member[1].ok is True, not member[1].piped, member[0].seq))
        call, segment = ordered[-1]
        written = redact(str(completed[call.seq].arguments))
        example = segment.shown if segment.shown and is_quote_in(segment.shown, written) else operation
        worked = sum(part.ok is True and not part.piped for _, part in members)
        hidden = sum(part.ok is True and part.piped for _, part in members)
        detail = f"{operation}: {worked} of {len(members) - hidden} worked"
        detail += f", {hidden} behind a pipe" if hidden else ""
        text = example[:_MAX_CALL_CHARS]
        lines.append(TranscriptLine(call.seq, "C", text, times[call.seq], detail, is_proof=worked > 1))
    return lines


def _name(call: TracedCall) -> str:
    segment = failed_segment(call) or next((part for part in call.segments if not part.is_trivial), None)
    if segment is not None:  # a wrapper may be what fails
        return " ".join([*segment.wrappers, segment.shown or segment.operation])[:_MAX_CALL_CHARS]
    return f"{call.name} {_short(call.path)}".strip() if call.path or not call.line else call.line[:_MAX_CALL_CHARS]


def _short(path: str | None) -> str:
    return "/".join(PurePosixPath(path or "").parts[-4:]).lstrip("/")
