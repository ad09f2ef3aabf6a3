"""Says why an observation is none, or why a person has to review it first: guesses, orders, excuses, unknown names."""

from __future__ import annotations

import re
from collections.abc import Sequence

from consolidator.llm.redaction.redact import redact
from consolidator.memory.calls.installation import KNOWN_NAMES, KNOWN_PACKAGES
from consolidator.memory.calls.shell import parse_commands
from consolidator.memory.calls.shell_programs import PACKAGE_MANAGERS, PLAIN_PROGRAMS, SUBCOMMAND_PROGRAMS
from consolidator.memory.calls.shell_words import SHELLS
from consolidator.memory.facts.candidates import REDACTED_MARK
from consolidator.memory.facts.orders import INSTRUCTION, commands_memory, is_norm, is_order, overrides_instructions
from consolidator.memory.facts.questions.transcript import TranscriptLine
from consolidator.memory.lessons.harm import lesson_harm
from consolidator.memory.text.phrasing import word_set
from consolidator.memory.text.sentences import sentence_around

MAX_SENTENCE = 200
HEDGED, NO_NAME, TOLD = "only a guess", "names no file, command or symbol", "told to the agent by others, not found"
EXCUSE, LOOSENING, PASSING = "excuses a failure", "loosens a check", "about the work in hand"
ELSEWHERE, NO_MOMENT = "about another place than the project", "names no moment at which it is of use"
SECRET, NOT_IN_QUOTE = "contains a secret", "names what its quote does not"
NEVER_RUN = "names a project's call that nothing here ran or shows"
UNKNOWN = "names a package or program that neither the project nor a person knows"
_PACKAGE = re.compile(r"(?:@[a-z][\w.-]*/)?[a-z][a-z0-9]*(?:-[a-z0-9]+)*(?:@[\w.^~-]+)?")
_CALLED_A_PACKAGE = re.compile(
    r"\b(?:package|library|linter|formatter|bundler|runner|tool|program|plugin|preset|dependency|extension|image)s?\b"
    r"(?: [\w']+){0,4}? ((?:@[\w.-]+/)?[a-z][a-z0-9]*(?:-[a-z0-9]+)+)(?![\w/-]|\.\w)",
    re.IGNORECASE,
)
_WELL_KNOWN = SUBCOMMAND_PROGRAMS | PLAIN_PROGRAMS | SHELLS | PACKAGE_MANAGERS | KNOWN_PACKAGES | KNOWN_NAMES.keys()
_WELL_KNOWN |= word_set(
    """
    commit-msg pre-commit pre-push pre-rebase post-merge post-checkout post-commit prepare-commit-msg
    true false null none undefined nan
    """
)
_NAME = re.compile(
    r"`([^`\n]{2,80})`|(?<![\w@])([\w@-]*[./_@:]\w[\w@./:+-]*|\w*[a-z][A-Z]\w*|[a-z]+\d\w*|--?\w[\w-]*|[a-z]+(?:-[a-z]+)+)"
)
_HEDGE = re.compile(
    r"\b(?:may|might|maybe|perhaps|likely|probably|possibly|seems?|appears? to|suspect|guess|assum\w+|presumably"
    r"|could be|i think|wohl|vermutlich|vielleicht|scheint|peut-etre|semble)\b|かもしれ|らしい|ようです|可能|也许|似乎",
    re.IGNORECASE,
)
_POSSIBLE = re.compile(r"\bmay\b")  # no guess in a sentence whose quote is none: "`items[i]` may be `undefined`"
_PASSING = re.compile(r"\b(?:now|currently|would|planned|will|todo|bug|for the moment|temporarily)\b", re.IGNORECASE)
_CHECKS = r"(?:fail\w*|errors?|warn\w*|tests?|lint\w*|(?:type)?checks?|hooks?|builds?|ci|make|run)"
_EXCUSE = re.compile(
    r"\b(?:expected|harmless|flak\w+|on purpose|intentional\w*|(?<!git )ignor(?!ed by)\w+|broken|by design|known issue"
    r"|spurious|benign|cosmetic|false positive|same as|equivalent|not needed|optional|absichtlich|harmlos|attendu)\b"
    r"|無視|想定|忽略|预期",
    re.IGNORECASE,
)
# Files may be unrelated to a task, and a section may cover something: of a check both are excuses.
_EXCUSE_OF_CHECK = re.compile(rf"(?=.*\b(?:unrelated|covers?)\b).*\b{_CHECKS}\b", re.IGNORECASE | re.DOTALL)
_LOOSENING = re.compile(
    r"\b(?:(?:is|are|be|turn\w*|switch\w*) off|disabl\w+|skip\w*|bypass\w*"
    r"|certificat\w+|tls|ssl|verif\w+|tokens?|secrets?|keys?|passwords?|credentials?"
    r"|prod(?:uction)?|sudo|root|chmod|force|trust\w*|registry|mirror|proxy|install\w*|downloads?|upload\w*|push\w*"
    r"|deploy\w*|unsafe|insecure|--no-\w+)\b|(?<!\S)-n\b|--(?:no-|force|insecure|skip)|\w://",
    re.IGNORECASE,
)
CODE, _HYPHEN = re.compile(r"`[^`\n]+`"), re.compile(r"(?<=\w)-(?=\w)")
# What code does, how it is declared and what a value is are no rules for anybody.
_DESCRIBES = re.compile(
    r"`x`(?: \w+)? (?:forbids \w+ing(?=[.!]?$)|(?:is|are) (?:required|optional)(?= (?:on|in) (?:the )?(?:type\b|`x`))"
    r"|(?:is|are) (?:always|never) (?:populated|filled|set|present|defined|undefined|null|empty)\b)"
)
_DOES_INSTEAD = re.compile(  # "`load` reads the original instead of evaluating the copy": what code does
    r"(?<=`x`) (?:with `x` )?((?!always\b)(?:re-)?[a-z]+s [\w ]{3,40}) (?:instead of|rather than)"
    r" (?:evaluat|read|writ|load|pars|return|comput|cop|clon|compar|render|updat|throw)\w*ing\b"
)
_JOINT = re.compile(r"(?<=[a-z])(?=[A-Z])|_")
_SYSTEM = re.compile(r"/(?:usr|bin|sbin|lib\w*|opt|dev|tmp|api|v\d+)(?:/|$)")  # and routes, which are no paths
_PATH = re.compile(r"(?<!GET )(?<!POST )(?<!PUT )(?<!PATCH )(?<!DELETE )(?<![\w.~@:/-])(?:~|/[\w.@-]+)(?:/[\w.@-]+)+")


def names_in(sentence: str) -> list[str]:
    return [match[1] or match[2] for match in _NAME.finditer(sentence)]


def name_parts(text: str) -> str:
    """Return the words of names, however they are joined: "cloudMode" is said as "cloud mode", too."""
    return " ".join(re.findall(r"\w+", _JOINT.sub(" ", text).casefold()))


def file_name(name: str) -> str:
    """Return the last part of a file's path, by which people call it; another name as it is."""
    last = name.rpartition("/")[2]
    return last if "." in last.strip(".") else name


def rejection(
    sentence: str, reason: str | None, quotes: Sequence[str], line: TranscriptLine | None, *, is_end: bool
) -> str | None:
    """Return why an observation is none; of a known one, without a `reason` of its own, only the quote is judged."""
    if line is None or not quotes:
        return "quote not in event"
    if line.is_persons and not (is_end and line.is_own(quotes[0])):  # a person's word may end one
        return "not the agent's own words"
    if line.kind in ("A", "S") and _HEDGE.search(sentence_around(line.text, quotes[0])):
        return HEDGED
    if is_end:
        return None
    if REDACTED_MARK in redact(f"{sentence} {quotes[0]}"):
        return SECRET
    if any(map(overrides_instructions, (sentence, quotes[0]))) or commands_memory(reason or ""):
        return INSTRUCTION
    if reason is None:
        return None
    if _HEDGE.search(_POSSIBLE.sub("", reason)):
        return HEDGED
    if not reason or len(reason) > MAX_SENTENCE:
        return "empty or too long"
    if not names_in(sentence):
        return NO_NAME
    # Neither "pre-commit" nor a command's name is an order.
    plain = _DOES_INSTEAD.sub(r" \1 and not", _DESCRIBES.sub("`x` is", CODE.sub("`x`", reason)))
    if is_order(_HYPHEN.sub("_", plain)) or is_norm(plain):
        return "says what to do"
    return lesson_harm(sentence, None, None)


def objection(said: str, quote: str, line: TranscriptLine, project: str) -> str | None:
    """Return why a person has to review an observation first, whoever told it."""
    paths = [path for path in _PATH.findall(f"{said} {quote}") if not _SYSTEM.match(path)]
    if any(path != project and not path.startswith(f"{project.rstrip('/')}/") for path in paths):
        return ELSEWHERE
    is_printed = line.kind in ("F", "C")  # of what a program prints, "would" says nothing of the work in hand
    for pattern, reason in (
        (_EXCUSE, EXCUSE),
        (_EXCUSE_OF_CHECK, EXCUSE),
        (_LOOSENING, LOOSENING),
        (_PASSING, PASSING),
    ):
        if pattern.search(said if is_printed and pattern is _PASSING else f"{said} {quote}"):
            return reason
    return None


def unknown_program(said: str, vouched: frozenset[str]) -> str | None:
    """Return the first package or program that a sentence names and nothing vouches for."""
    names = [match[1].lower() for match in _CALLED_A_PACKAGE.finditer(CODE.sub("x", said))]
    for span in CODE.findall(said):
        words = span.strip("` ").split()
        commands = parse_commands(" ".join(words)) if len(words) > 1 else []
        names += [command.program for command in commands] or words[:1]
    packages = (name for name in names if _PACKAGE.fullmatch(name))
    return next((name for name in packages if name.partition("@")[0] not in vouched | _WELL_KNOWN), None)
