"""Says which lessons are told to no agent, and how much of an error's line is told: what it says is wrong (I18).

Names, paths and errors are made by whoever wrote a package, a page or a branch. A lesson tells them as data in code
marks or quotes, and not at all where they hold a hostile command, lead out of the project, or speak to their reader.
"""

from __future__ import annotations

import re

from consolidator.memory.calls.harm import line_harm
from consolidator.memory.calls.harm_in_text import text_harm
from consolidator.memory.calls.shell_programs import SUBCOMMAND_PROGRAMS
from consolidator.memory.facts.orders import commands_memory, fold_for_rules, is_order, overrides_instructions
from consolidator.memory.solutions.line_kinds import ERROR_WORD, NOT_THERE, NOT_UNDERSTOOD
from consolidator.memory.text.words import STOP_WORDS

SPEAKS = "speaks to its reader"
LEADS_OUT = "leads out of the project"
MAX_NAME = 160  # characters of a call, path or name in a lesson
MAX_WORD = 80
MAX_WORDS_OF_NAME = 4  # words without a mark of a call, such as an option, in a name; more are a sentence
_SPAN = re.compile(r"`([^`]*)`")
_SPEAKS = re.compile(
    r"\b(?:users?|owners?|humans?|persons?|people|maintainers?|admins?|administrators?|operators?|developers?|boss|team)"
    r" (?:ha(?:s|ve) |already )*"
    r"(?:said|says?|wants?|wanted|asks?|asked|approved?|allow(?:s|ed)|agree[ds]|confirmed|granted|requested|told|decided"
    r"|authori[sz]ed|permitted|prefers?|preferred|needs?|expects?|insists?)\b"
    r"|\b(?:said|approved|allowed|granted|requested|confirmed|permitted) by (?:the|your|an?) "
    r"|\byou (?:must|should|may|can|shall|have|need|are|will|ought|do not|don'?t)\b"
    r"|\bwithout (?:\w+ )?(?:asking|reviews?|approval|permission|confirmation)\b"
    r"|\bplease\b|\b(?:approve|merge|accept|skip) (?:all|any|every|no|the)\b"
    r"|\b(?:fine|okay?|safe|free|allowed|good) to\b"
    r"|\b(?:paste|enter|send|give|tell|show) (?:\w+ )?(?:your|me|us)\b"
)
_GOVERNS = re.compile(r"\bapprov(?:e|es|ed|als?)\b|\bpolic(?:y|ies)\b|\binstruct\w*|\bpull requests?\b", re.IGNORECASE)
_DIGITS_AS_LETTERS = str.maketrans("013457", "oieast")
_LETTERS = re.compile(r"[^\W\d_]+")
_LATIN, _LOOK_ALIKE = re.compile("[a-z]", re.IGNORECASE), re.compile("[\u0370-\u03ff\u0400-\u052f\u0530-\u058f]")
_SEPARATORS = re.compile(r"[-_./\\:=,'\"]+")
_PARTED = re.compile(r"[-_.]+")
_MARKUP = re.compile(r"</?[A-Za-z][\w:-]*(?:\s[^<>]*)?/?>|\w:/+\w+\.|[\w-]+://|```|(?:^|['\"])\s*#{1,6} |\]\(")
_OUT = re.compile(
    r"(?:^|[\s='\":,(@])(?:~|\$\{?HOME\b|(?:\.\./){2}|\.\.$|(?:[A-Za-z]:)?[\\/]+(?:home|Users|root|etc|var|mnt|media|Volumes"
    r"|tmp|private|proc|sys|boot|Library|Windows)(?:[\\/]|$))"
)
_PATH_OUT = re.compile(rf"{_OUT.pattern}[^\s:'\",)]*")
_LOCAL = re.compile(r"\w+://(?:localhost|127\.0\.0\.1|0\.0\.0\.0)(?=[:/]|$)", re.IGNORECASE)
_HOST = re.compile(
    r"[\w.+-]+@[a-z][\w-]*(?:\.[a-z][\w-]*)+|(?<![\w./-])[\w-]+(?:\.[\w-]+)*\.[a-z]{2,24}:\d{2,5}\b", re.IGNORECASE
)
_ADDRESS = re.compile(r"\S+@\S+\.\w+|\+\d[\d -]{7,}|(?<![\w./-])(?:[a-z0-9-]+\.)+[a-z]{2,24}/\S*")
_LABELS = re.compile(r"(?:[\w./-]+: )*")
_OPTION = re.compile(r"(?<!\S)--?\w\S*")
_CLAUSE = re.compile(r"[.;,!?] |: (?=\S+ \S)| -*[-–—] | [(#\[{]|`| and | or | see ")


def lesson_harm(text: str, call: str | None, project: str | None) -> str | None:
    """Return why a text, or the call that it advises, is not to be told to an agent; None where nothing is wrong."""
    harm = text_harm(text) or (line_harm(call, project) if call else None)
    if harm is None and overrides_instructions(text):
        harm = SPEAKS
    return harm or next((harm for span in _SPAN.findall(text) if (harm := name_harm(span, project))), None)


def name_harm(name: str, project: str | None = None) -> str | None:
    """Return why a call, a path or another name is told to no agent; None where nothing is wrong."""
    if project:
        name = re.sub(rf"{re.escape(project.rstrip('/'))}(?=/|$)", ".", name)
    name = _LOCAL.sub("", name)
    if _OUT.search(name) or _HOST.search(name) or ".git/" in name:
        return LEADS_OUT
    words = name.split()
    if words[1:] and (harm := line_harm(name.rstrip("/"), project)) is not None:
        return harm
    is_prose = sum(word not in SUBCOMMAND_PROGRAMS for word in words) > MAX_WORDS_OF_NAME
    is_prose = is_prose and all(word.strip(".,;:!?'\"").isalnum() for word in words)
    is_long = len(name) > MAX_NAME or any(len(word) >= MAX_WORD for word in words)
    is_prose = is_prose or any(map(_is_phrase, words))
    is_none = is_long or not name.isprintable() or _MARKUP.search(name) is not None
    return SPEAKS if is_prose or is_none or speaks_to_reader(name) else None


def _is_phrase(word: str) -> bool:
    """Whether a word is a sentence whose words are parted as those of a name are: `run-the-script-of-this-page`."""
    parts = _PARTED.split(word.rpartition("/")[2].lower())
    is_long = len(parts) > MAX_WORDS_OF_NAME and all(map(str.isalpha, parts))
    return is_long and len(STOP_WORDS.intersection(parts)) > 1


def quote_reason(line: str, limit: int) -> str:
    """Return what an error's line says is wrong: one clause, without marks; "" where it says something else, too."""
    line = line.removeprefix("error: ").removeprefix("Error: ").replace('"', "'")
    line = _ADDRESS.sub("…", _PATH_OUT.sub(" …", line))
    label = _LABELS.match(line)
    begin = label.end() if label else 0
    word = next((mark for each in (NOT_UNDERSTOOD, NOT_THERE, ERROR_WORD) if (mark := each.search(line, begin))), None)
    at = word.end() if word else begin
    starts = [match.end() for match in re.finditer(r"[.;,!?] ", line[: word.start() if word else 0])]
    end = _CLAUSE.search(line, at)
    clause = line[starts[-1] if starts else 0 : end.start() if end else len(line)].strip().rstrip(".:")
    if _MARKUP.search(clause) or not clause.isprintable() or is_order(_OPTION.sub(" ", clause)):
        return ""
    if commands_memory(clause) or _GOVERNS.search(clause):
        return ""
    if speaks_to_reader(clause):
        return ""
    return clause if len(clause) <= limit else clause[: limit - 1] + "…"


def speaks_to_reader(text: str) -> bool:
    """Tell whether a text addresses its reader, says what a person wants, or hides words in letters that look alike.

    Words may be parted as those of a name are: "the-user-approved".
    """
    return _speaks(text) or _speaks(_SEPARATORS.sub(" ", text))


def _speaks(text: str) -> bool:
    if any(_LATIN.search(word) and _LOOK_ALIKE.search(word) for word in _LETTERS.findall(text)):
        return True
    if overrides_instructions(text) or overrides_instructions(text.translate(_DIGITS_AS_LETTERS)):
        return True
    return _SPEAKS.search(" ".join(fold_for_rules(text).split())) is not None
