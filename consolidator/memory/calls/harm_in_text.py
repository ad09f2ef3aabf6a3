"""Finds hostile commands in prose: in its code spans and quotes, and wherever a sentence names a program.

Pure. What a sentence forbids ("never run ...") is no command.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator

from consolidator.llm.patterns import lazy_regex
from consolidator.memory.calls import harm_rules as rules
from consolidator.memory.text.invisible import strip_invisible

MAX_COMMAND = 300  # characters of a command in prose
MAX_COMMANDS = 200  # of a text; what follows them is not judged, and withheld
_VERB = r"(?:run|use|execute|do|type|invoke|launch|call|start)(?:n?ing|s)?"
_MARK = r"(?:\s--?\w|[|>$~*]|\./|\s/[a-z] |\w=|@)"  # of a command
_BEFORE = r"(?m:^)\s*(?:[$*-]|\d+[.)])\s|:\s"  # what stands before a command: a prompt, a list's mark, a colon
_QUOTED = lazy_regex(
    r"```(?:\w*\n)?(.+?)```|`([^`\n]+)`|[“«„\"]([^“”«»\"\n]+)[”»“\"]|(?<!\w)'([^'\n]+)'(?!\w)", re.DOTALL
)
_START = lazy_regex(
    rf"(?<![\w./-])(?:[\w./~-]*/)?(?:{rules.NAMED_IN_PROSE})(?!\S{{0,200}}://)(?=\s+\S)"
    rf"(?!\s+{rules.NOUNS_AFTER_PROGRAMS}\b(?!\s+(?:add|delete|rm|remove|prune|set)\b))"
    rf"|(?<![\w./-])(?:{'|'.join(sorted(rules.CHANGERS))})(?=\s)(?=[^\n]{{0,300}}{_MARK})"
    rf"|(?:\b{_VERB}\s|{_BEFORE})\s*(?!not\b|(?:{rules.WORDS_AFTER_COMMANDS})\b)(?P<tail>(?=[^\n]{{0,300}}{_MARK})[^\s`\"'“])",
    re.IGNORECASE | re.ASCII,
)
_END = lazy_regex(r"\n|[.!?;]\s+(?=[A-Z])|[.!?]?$|(?<!iex)\s\(")
_STOP = lazy_regex(rf",?\s+(?:{rules.WORDS_AFTER_COMMANDS})\b(?!=)|[,:]\s", re.IGNORECASE)
_JOINED = lazy_regex(rf"[\s,]+(?:and|then|and then)\s+(?:{_VERB}\s+)?(?=[a-z./])")
_PIPED = lazy_regex(r"[\s,]+(?:and )?pipe (?:it |that |this |the output )?(?:in)?to\s", re.IGNORECASE)
_FORBIDDEN = lazy_regex(
    r"\b(?:never|don['’]?t|do not|must ?n[o'’]t|must not|should ?n[o'’]t|should not|can ?not|can['’]t|no|not|avoid|stop"
    r"|instead of|rather than|(?:ask|check|confirm|warn)\b[^.\n]{0,60}\bbefore(?: you)?"
    r"|(?:never|don['’]?t|do not)\b[^.;:!?\n]{0,60}\b(?:or|nor))"
    rf"\s+(?:ever\s+)?(?:{_VERB}\s+)?(?:an? |the |any )?[`\"'“(]*$",
    re.IGNORECASE,
)
_OF_COMMAND = lazy_regex(  # what follows code is of its command: an option, a shell's mark, another command
    rf"[|&<>`$]|(?:^|\s)--?\w|^\s?[;,]?\s?(?:and|then|pipe)\s|^\s?;\s?(?:{rules.NAMED_IN_PROSE})\s",
    re.IGNORECASE | re.ASCII,
)
_CLAUSE = lazy_regex(r"[.;:,]\s|[(\[]|$")
_CLAUSE_END = lazy_regex(r"[.!?;]\s|\n|\b(?:but|instead|always|only|use|run|first)\b", re.IGNORECASE)
_FETCHED_AND_RUN = lazy_regex(
    r"\b(?:download|fetch|get|pull|load)\b[^\n]{0,80}?https?://\S+[^\n]{0,40}?\b(?:and|then)\b[^\n]{0,30}?"
    r"\b(?:run|execute|source|eval)\b|\bpipe\b[^\n]{0,80}?https?://\S+[^\n]{0,40}?\b(?:ba|z|da)?sh\b",
    re.IGNORECASE,
)


def text_harm(text: str) -> str | None:
    """Return what makes a text hostile to tell unasked, the worst first; None for a text without hostile commands."""
    harms = [harm for _, _, harm in _find_commands(_plain(text))]
    return next((harm for harm in harms if harm in rules.GRAVE), harms[0] if harms else None)


def mask_commands(text: str) -> str:
    """Return a text in which each hostile command is replaced by why it is left out."""
    plain, end, pieces = _plain(text), 0, []
    commands = sorted(_find_commands(plain))
    for start, stop, harm in commands:
        if start >= end:
            pieces += [plain[end:start], f"(a command that {harm})"]
        end = max(end, stop)
    return "".join([*pieces, plain[end:]]) if commands else text


def _plain(text: str) -> str:
    """Return a text as its reader takes it: without hidden characters, and with plain letters for their look-alikes."""
    return unicodedata.normalize("NFKC", strip_invisible(text))


def _find_commands(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield where the hostile commands of a text stand, and why each is hostile."""
    for match in _FETCHED_AND_RUN.finditer(text):
        yield match.start(), match.end(), rules.FETCHES_AND_RUNS
    allowed_from = 0
    spans = sorted(_find_spans(text))
    if len(spans) > MAX_COMMANDS:
        yield spans[MAX_COMMANDS][0], len(text), rules.UNREADABLE
    for start, end, is_quoted in spans[:MAX_COMMANDS]:
        if start < allowed_from:
            continue
        if _FORBIDDEN.search(text[max(0, start - 120) : start]):
            clause_end = _CLAUSE_END.search(text, end if is_quoted else start)
            allowed_from = clause_end.start() if clause_end else len(text)
            continue
        stop, harm = _judge_span(text[start:end], is_quoted=is_quoted)
        if harm is not None:
            yield start, start + stop, harm
            allowed_from = end if is_quoted else start


def _find_spans(text: str) -> Iterator[tuple[int, int, bool]]:
    """Yield where commands may stand: quoted ones with their ends, others to the end of their sentence."""
    spans: list[tuple[int, int]] = []  # of code that prose follows
    for match in _QUOTED.finditer(text):
        if match.lastindex in (1, 2) or re.search(_MARK, match[0]):
            yield (*match.span(match.lastindex or 0), True)
        if match.lastindex == 2 and _is_prose(text, match.end()):
            spans.append(match.span(2))
    for match in _START.finditer(text):
        start = match.start() if match["tail"] is None else match.start("tail")
        end = _END.search(text, start, start + MAX_COMMAND)
        stop = end.start() if end else min(len(text), start + MAX_COMMAND)
        before = bisect_right(spans, (start, len(text))) - 1
        is_within = before >= 0 and start < spans[before][1]
        yield start, min(stop, spans[before][1]) if is_within else stop, False


def _is_prose(text: str, start: int) -> bool:
    """Whether what follows code, to the end of its sentence, is no part of a command; paths are of its first clause."""
    end = _END.search(text, start, start + MAX_COMMAND)
    rest = text[start : end.start() if end else start + MAX_COMMAND]
    clause = _CLAUSE.split(rest, maxsplit=1)[0]
    other_code = re.sub(r"(?<=\w )`[^`]*`", "code", rest[len(clause) :])
    return _OF_COMMAND.search(" ".join(f"{clause}{other_code}".split())) is None and not {"/", "~"} & set(clause)


def _judge_span(span: str, *, is_quoted: bool) -> tuple[int, str | None]:
    """Return how long a command is and why it is hostile: its words end where the sentence's go on."""
    from consolidator.memory.calls.harm import line_harm  # loads what parses command lines: few texts have one

    if is_quoted:
        return len(span), line_harm(span) if re.search(r"\S\s+\S", span) else None
    words = _bare(re.sub(r"[^\x00-\x7f]+", " ", _JOINED.sub(" && ", _PIPED.sub(" | ", span))))
    stop = _STOP.search(words)
    first = _bare(words[: stop.start()]) if stop else words
    harm = line_harm(first)
    if stop and harm not in rules.GRAVE and re.search(r"[|;&`$(]|<\(", words[stop.start() :]):
        whole = line_harm(words)
        harm = whole if whole in rules.GRAVE else harm
    end = _STOP.search(span) if harm and stop and line_harm(first) == harm else None
    return end.start() if end else len(_bare(span)), harm


def _bare(command: str) -> str:
    """Return a command without the marks of the sentence after it; a bracket of its own stays."""
    bare = command.rstrip("`\"').,;:!? ")
    return f"{bare})" if bare.count("(") > bare.count(")") and command[len(bare) : len(bare) + 1] == ")" else bare
