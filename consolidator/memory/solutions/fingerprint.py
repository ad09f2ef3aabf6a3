"""Fingerprint errors: the same error has the same fingerprint wherever and whenever it occurs.

Pure and bounded: nothing is learned here, so what was read before never changes a fingerprint.
"""

from __future__ import annotations

import re

from consolidator.memory.solutions.error_line import MAX_LINE, headline

VERSION = "v1"
MAX_SIGNATURE = 200
NO_MESSAGE = "<no message>"
MAX_VALUES = 8  # masked values of a headline that are kept
MAX_VALUE = 200  # characters of one

_COMMAND_NOT_FOUND = (
    re.compile(r"command not found: (?P<name>[\w.+-]+)\s*$"),
    re.compile(r"(?:^|[\s:])(?P<name>[\w.+/-]+): (?:command )?not found\s*$"),
    re.compile(r"'(?P<name>[\w.+-]+)' is not recognized as"),
    re.compile(r"[Uu]nknown command: (?P<name>[\w.+-]+)\s*$"),
)

_MASKS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\b[a-zA-Z][\w+.-]{1,20}://[^\s'\"<>)\]}]+|\b[\w.-]+@[\w.-]+\.\w+(?::[\w./-]+)?"), "<url>"),
    (re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"), "<id>"),
    (
        re.compile(
            r"\b\d{4}[-/]\d\d[-/]\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?)?(?:Z|\s?[+-]\d\d:?\d\d)?\b"
            r"|\b\d{1,2}:\d\d:\d\d(?:[.,]\d+)?\b"
            r"|\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)?,?\s?(?:\d{1,2} )?(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
            r"[a-z]* \d{1,4}(?:,? \d{4})?\b"
        ),
        "<date>",
    ),
)
_QUOTED = re.compile(
    r"(?<![\w'])'([^'\n]{0,200})'(?!\w)|\"([^\"\n]{0,200})\"|`([^`'\n]{0,200})[`']|[‘“«]([^’”»\n]{0,200})[’”»]"
)
_PARSER_TOKEN = re.compile(r"\b(near|token) ['\"`].*")  # the token a parser rejected may hold quotes, or have no end
_SHELL_PREFIX = re.compile(r"^.*?: (?:-c: )?line \d+: (?=\S)|^(?:/bin/)?(?:ba|z|da)?sh: (?:\d+: )?|^\(eval\):\d+: ?")
_ARITY = re.compile(r"(?<![\w/.<])&?[\w.]+[?!]?/\d+\b")
_PATH = re.compile(
    r"(?<![\w<])(?:[A-Za-z]:\\[^\s:*?\"<>|]+|(?:~|\.{1,2})?/(?=[^\s/])[^\s:,;()'\"\]<>|]+"
    r"|[\w@.+-]+(?:/[\w@.+-]+)+/?"
    r"|[\w-]+(?:\.[\w-]+)*\.(?:py|pyi|js|jsx|ts|tsx|mjs|cjs|json|ya?ml|toml|lock|md|txt|rs|go|rb|exs?|heex|java|kt|c|h|cc|cpp"
    r"|hpp|cs|php|sh|sql|html?|css|scss|xml|csv|log|env|ini|cfg|conf|ipynb|swift|vue|svelte|proto|tf|gradle|zip|gz|png))"
    r"(?![\w<])(?:[:(]\d+(?:[:,]\d+)*\)?)?"
)
_WORD = re.compile(r"(?<![\w<-])[A-Za-z_$][\w$]*(?:(?:\.|::|-)[\w$]+)*")
_NUMBER = re.compile(
    r"(?<![\w<])(?<![A-Z]-)[+-]?(?:0x[0-9a-fA-F]+|\d[\d,]*(?:\.\d+)*)(?:[eE][+-]?\d+)?(?:%|[a-zA-Zµ]{1,3}\b)?|(?<![\w<])[0-9a-f]{7,64}\b"
)
_KEPT_WORD = re.compile(r"(?:\w+[.:])*\w*(?:Error|Exception|Interrupt|Failure|Fault|Exit)|[A-Z][A-Z_]+|E2BIG|\w+n't")
_ERROR_CODE = re.compile(
    r"[A-Z]{1,8}-?\d{1,6}|[A-Z][A-Z0-9_]+"
)  # TS2339; `_is_error_code` excludes names such as HAT290
_BEFORE_CODE = re.compile(
    r"(?:^\W*|[:(\[]\s*|\b(?:errors?|err!|code|errno|status|sqlstate|rule|warning|fatal)\s)$", re.I
)
_AFTER_CODE = re.compile(r"\s*[:)\]]")
_COMPOUND_WORD = re.compile(
    r"(?:pre|non|re|un|post|up|read|write|built|out|over|self|auto|fast|no|so|multi|sub|co|cross)-[a-z-]+", re.I
)
_MASK_WITH_POSITION = re.compile(r"(<path>|<id>)(?:[:(]<n>(?:[:,]\s*<n>)*\)?)+")
_REPEATED_MASK = re.compile(r"(<(?:id|path|n|quoted|url|date)>)(?:(?:,| and| or|\|)?\s*\1)+")
_MASK = re.compile(r"<(id|path|n|quoted|url|date)>")
_STOP_WORD = re.compile(r"the|and|for|with|this|that|from|not|has|have|was|were|are|but|you|your|its|into|than|then")


def fingerprint(tool: str, text: str) -> str:
    """Return "v1:TOOL|SIGNATURE": the same for other paths, ids, numbers and names.

    `tool` is the tool's name or its symbol. Of a shell symbol ("sh:git push") the program alone counts ("sh:git"):
    `git push` and `git pull` fail alike.
    """
    return fingerprint_headline(tool, headline(text))


def fingerprint_headline(tool: str, line: str) -> str:
    """Return the fingerprint of an error whose headline is known."""
    return f"{VERSION}:{tool.split(' ', 1)[0].replace('|', '/')[:80]}|{mask_line(line) if line else NO_MESSAGE}"


def signature(text: str) -> str:
    """Return the masked headline: the part of a fingerprint that does not depend on the tool."""
    line = headline(text)
    return mask_line(line) if line else NO_MESSAGE


def search_tokens(text: str) -> list[str]:
    """Return the words by which an error can be searched: lower case, sorted, without names and numbers."""
    words = re.findall(r"[a-z][a-z']{2,}", re.sub(r"<\w+>", " ", mask_line(headline(text))).lower())
    return sorted({word for word in words if not _STOP_WORD.fullmatch(word)})


def mask_line(line: str) -> str:
    """Mask in a line everything that differs between two cases of one error."""
    line = line[:MAX_LINE]
    for pattern in _COMMAND_NOT_FOUND:
        match = pattern.search(line)
        if match:
            return f"command not found: {match['name'].rsplit('/', 1)[-1]}"[:MAX_SIGNATURE]
    line = _SHELL_PREFIX.sub("", line)
    for pattern, mask in _MASKS:
        line = pattern.sub(mask, line)
    line = _QUOTED.sub(_mask_quoted, _PARSER_TOKEN.sub(r"\1 <quoted>", line))
    line = _PATH.sub("<path>", _ARITY.sub("<id>", line))
    line = _NUMBER.sub("<n>", _WORD.sub(_mask_word, line))
    line = _REPEATED_MASK.sub(r"\1", _MASK_WITH_POSITION.sub(r"\1", line))
    line = re.sub(r"[\s│┃━─═╌]+", " ", line).lstrip("> .:;,*-×✗").rstrip(" .:;,*-")
    return line[:MAX_SIGNATURE] or NO_MESSAGE


def masked_values(line: str) -> list[tuple[str, str]]:
    """Return what `mask_line` masks in a line, in order: the kind of mask, and the text without quotes.

    The masked line's constant parts are looked up in the line one after the other; what stands between is masked.
    """
    plain = re.sub(r"[\s│┃━─═╌]+", " ", line[:MAX_LINE])
    parts = _MASK.split(mask_line(line))  # constant, kind, constant, kind ... constant
    values: list[tuple[str, str]] = []
    position = max(plain.find(parts[0]), 0) + len(parts[0])
    for kind, constant in zip(parts[1::2], parts[2::2], strict=True):
        end = plain.find(constant, position + 1) if constant else -1
        value = plain[position : end if end >= 0 else len(plain)]
        position += len(value) + len(constant)
        if value := value.strip(" '\"`‘’“”«»").rstrip(".,;:"):
            values.append((kind, value[:MAX_VALUE]))
    return values[:MAX_VALUES]


def _mask_quoted(match: re.Match[str]) -> str:
    quoted = next((group for group in match.groups() if group is not None), "")
    return quoted if len(quoted.split()) >= 5 else "<quoted>"  # a quoted sentence is the message itself


def _is_error_code(match: re.Match[str]) -> bool:
    """Whether a word stands where an error code does: at the start, after "error", or before a colon."""
    before = match.string[max(0, match.start() - 16) : match.start()]
    is_near_start = match.start() <= 16
    precedes = _BEFORE_CODE.search(before if is_near_start else f"x{before}")
    return bool(precedes or _AFTER_CODE.match(match.string, match.end()))


def _mask_word(match: re.Match[str]) -> str:
    word = match[0]
    if (
        _KEPT_WORD.fullmatch(word)
        or _COMPOUND_WORD.fullmatch(word)
        or (_ERROR_CODE.fullmatch(word) and _is_error_code(match))
    ):
        return word
    is_name = any(mark in word for mark in "._-:$") or any(c.isdigit() for c in word)
    return "<id>" if is_name or re.match(r"[a-z]+[A-Z]", word) else word
