"""Fingerprint errors: the same error has the same fingerprint wherever and whenever it occurs.

A name belongs to the error where it is a part of the environment that all work shares: a module, package, command,
option, error code. It decides the fix. A name of the work at hand is a value of the case, and is masked: a path,
branch, column, user, number. The words of the sentence say which it is: "module X", "X is not a git command".

Pure and bounded: nothing is learned here, so what was read before never changes a fingerprint.
"""

from __future__ import annotations

import re
from functools import lru_cache

from consolidator.llm.patterns import AnyCase, lazy_regex
from consolidator.memory.calls.symbols import SHELL_PREFIX, is_shell_symbol
from consolidator.memory.solutions.error_line import MAX_LINE, headline

VERSION = "v17"
MAX_SIGNATURE = 200
NO_MESSAGE = "<no message>"
MAX_VALUES = 8  # masked values of a headline that are kept
MAX_VALUE = 200  # characters of one
_FAMILY_MEMBER = lazy_regex(r"-{0,2}[@A-Za-z_][\w.+/@-]*")  # "status=404" is no name that another one can replace

_COMMAND_NOT_FOUND = (
    lazy_regex(r"command not found: (?P<name>[\w.+-]+)\s*$"),
    lazy_regex(r"(?:^|[\s:])(?P<name>[\w.+/-]+): (?:command )?not found\s*$"),
    lazy_regex(r"'(?P<name>[\w.+-]+)' is not recognized as"),
    lazy_regex(r"\b[Cc]ommand ['\"`](?P<name>[\w.+-]+)['\"`] (?:could not be|was not|not) (?:found|located)"),
    lazy_regex(r"[Uu]nknown command: (?P<name>[\w.+-]+)\s*$"),
    lazy_regex(r"\b[Ff]ailed to spawn: [`'\"](?P<name>[\w./+-]+)[`'\"]\s*$"),
)
_SPEAKER = lazy_regex(
    r"^\s*(?:\d+ )?\[main\] ([\w.+-]+) \(?\d|^(?:Error: )?Command failed: ([\w.+-]+) "
    r"|^-?((?:ba|z|da)?sh): (?:\S+ \d+: )?fork"
)

_URL = lazy_regex(r"\b[a-zA-Z][\w+.-]{1,20}://[^\s'\"<>)\]}]+|\b[\w.-]+@[\w.-]+\.\w+(?::[\w./-]+)?")
_DIGIT = lazy_regex(r"\d")
_NUMBER_MASKS: tuple[tuple[re.Pattern[str], str], ...] = (
    (lazy_regex(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"), "<id>"),
    (
        lazy_regex(
            r"\b\d{4}[-/]\d\d[-/]\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?)?(?:Z|\s?[+-]\d\d:?\d\d)?\b"
            r"|\b\d{1,2}:\d\d:\d\d(?:[.,]\d+)?\b"
            r"|\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)?,?\s?(?:\d{1,2} )?(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
            r"[a-z]* \d{1,4}(?:,? \d{4})?\b"
        ),
        "<date>",
    ),
)
_QUOTED = lazy_regex(
    r"(?<![\w'])'([^'\n]{0,200})'(?!\w)|\"([^\"\n]{0,200})\"|`([^`'\n]{0,200})[`']|[‘“«]([^’”»\n]{0,200})[’”»]"
)
_PARSER_TOKEN = lazy_regex(r"\b(near|token) ['\"`].*")  # the token a parser rejected may hold quotes, or have no end
_SHELL_PREFIX = lazy_regex(r"^.*?: (?:-c: )?line \d+: (?=\S)|^(?:/bin/)?(?:ba|z|da)?sh: (?:\d+: )?|^\(eval\):\d+: ?")
_ENVIRONMENT_NOUN = (
    r"(?:modules?|packages?|(?:sub-?)?commands?|programs?|executables?|binar(?:y|ies)|librar(?:y|ies)|dependenc(?:y|ies)"
    r"|plugins?|extensions?|options?|flags?|switch(?:es)?|arguments?:|requirements?|gems?|crates?|distributions?|formulae?"
    r"|drivers?|interpreters?|tools?|scripts?|tasks?|recipes?)"
)
_NAME = r"(?:@[\w.-]+/)?[A-Za-z_][\w.+-]*"  # "@scope/name" is a package, any other slash makes a path
_OPEN, _CLOSE = "['\"`‘“«]", "['\"`’”»]"
_NAMES_ENVIRONMENT = AnyCase(
    _ENVIRONMENT_NOUN,
    stems="module|package|command|program|executable|binar|librar|dependenc|plugin|extension|option|flag|switch|argument"
    "|requirement|gem|crate|distribution|formula|driver|interpreter|tool|script|task|recipe",
)
_NOUN_NAMES = (  # beside such a noun; group 1 is the name
    lazy_regex(
        rf"\b{_ENVIRONMENT_NOUN}(?:,? (?:named|called|not found|missing|such|for))?\s*[:=]?\s*{_OPEN}({_NAME}){_CLOSE}",
        re.I,
    ),
    lazy_regex(
        r"\b(?:no|unknown|missing|such|locate|find|unrecogni[sz]ed|unexpected|invalid|unsupported|satisfies the)"
        rf"(?: such)? {_ENVIRONMENT_NOUN}(?: (?:named|called))?:?\s+"
        rf"(?!named\b|called\b)({_NAME})(?=[\s,;:.<>=!~\[(]|$)",
        re.I,
    ),
    lazy_regex(
        rf"\b{_ENVIRONMENT_NOUN} ({_NAME})(?: \([^)]*\))? (?:(?:is|was|could|can)? ?not|does not|cannot) \w", re.I
    ),
    lazy_regex(  # not a part of one: "'x' not found in module 'y'"
        rf"{_OPEN}({_NAME}){_CLOSE}(?: (?!(?:in|from|of) (?:module|package|library)\b)[\w-]+){{0,4}} "
        rf"{_ENVIRONMENT_NOUN}\b",
        re.I,
    ),
    lazy_regex(  # what a module lacks; its own name is kept by now
        rf"\b(?:module|package|library|extension) {_OPEN}[\ue000-\ue007]{_CLOSE} has no \w+ {_OPEN}({_NAME}){_CLOSE}",
        re.I,
    ),
)
_OTHER_NAMES = (
    lazy_regex(rf"{_OPEN}(--?[A-Za-z][\w-]*)(?:[ =][^'\"`\n]*)?{_CLOSE}"),  # an option belongs to its program
    lazy_regex(r"\b((?:HTTP/[\d.]+ |(?:code|status)[:= ]+\(?)\d{1,5})\b|^curl: (\(\d+\))", re.I),
)
_FILE_NAME = lazy_regex(
    r"\.(?:js|mjs|cjs|ts|tsx|jsx|py|rb|ex|exs|go|rs|json|css|vue|svelte|so|dll|sh|ya?ml|md|txt)$", re.I
)
_FIRST_NAME_MARK = 0xE000  # names are kept behind characters of the private use area while the rest is masked
MAX_NAMES = 8
_NAME_MARK = lazy_regex("[\ue000-\ue007]")
_BRANCH = lazy_regex(
    r"\b(branch|tag|remote|revision|ref) (?!(?:is|has|was|not|does|to|in|of|for|with|and|or|named|name)\b)([\w./-]+)"
)
_CASE_MASK = lazy_regex(r"<(?:id|path|quoted)>")
_QUOTE_MARK = lazy_regex(r"(?<!\w)['\"`‘’“”«»]|['\"`‘’“”«»](?!\w)")
_PATH = lazy_regex(
    r"(?<![\w<])(?:[A-Za-z]:\\[^\s:*?\"<>|]+|(?:~|\.{1,2})?/(?=[^\s/])[^\s:,;()'\"\]<>|]+"
    r"|[\w@.+-]+(?:/[\w@.+-]+)+/?"
    r"|[\w-]+(?:\.[\w-]+)*\.(?:py|pyi|js|jsx|ts|tsx|mjs|cjs|json|ya?ml|toml|lock|md|txt|rs|go|rb|exs?|heex|java|kt|c|h|cc|cpp"
    r"|hpp|cs|php|sh|sql|html?|css|scss|xml|csv|log|env|ini|cfg|conf|ipynb|swift|vue|svelte|proto|tf|gradle|zip|gz|png))"
    r"(?![\w<])(?:[:(]\d+(?:[:,]\d+)*\)?)?"
)
_WORD = lazy_regex(r"(?<![\w<-])[A-Za-z_$][\w$]*(?:(?:\.|::|-)[\w$]+)*")
_NUMBER = lazy_regex(
    r"(?<![\w<])(?<![A-Z]-)[+-]?(?:0x[0-9a-fA-F]+|\d[\d,]*(?:\.\d+)*)(?:[eE][+-]?\d+)?(?:%|[a-zA-Zµ]{1,3}\b)?|(?<![\w<])[0-9a-f]{7,64}\b"
)
_KEPT_WORD = lazy_regex(r"(?:\w+[.:])*\w*(?:Error|Exception|Interrupt|Failure|Fault|Exit)|[A-Z][A-Z_]+|E2BIG|\w+n't")
_ERROR_CODE = lazy_regex(
    r"[A-Z]{1,8}-?\d{1,6}|[A-Z][A-Z0-9_]+"
)  # TS2339; `_is_error_code` excludes names such as HAT290
_BEFORE_CODE = lazy_regex(
    r"(?:^\W*|[:(\[]\s*|\b(?:errors?|err!|code|errno|status|sqlstate|rule|warning|fatal)\s)$", re.I
)
_AFTER_CODE = lazy_regex(r"\s*[:)\]]")
_COMPOUND_WORD = lazy_regex(
    r"(?:pre|non|re|un|post|up|read|write|built|out|over|self|auto|fast|no|so|multi|sub|co|cross)-[a-z-]+", re.I
)
_MASK_WITH_POSITION = lazy_regex(r"(<path>|<id>)(?:[:(]<n>(?:[:,]\s*<n>)*\)?)+")
_REPEATED_MASK = lazy_regex(r"(<(?:id|path|n|quoted|url|date|value)>)(?:(?:,| and| or|\|)?\s*\1)+")
_QUOTES = " '\"`‘’“”«»"
_MASK = lazy_regex(r"<(id|path|n|quoted|url|date)>")


def fingerprint(tool: str, text: str) -> str:
    """Return "v14:TOOL|SIGNATURE": the same for other paths, ids, numbers and names of the work at hand.

    `tool` is the tool's name or its symbol. Of a shell symbol ("sh:git push") the program alone counts ("sh:git"):
    `git push` and `git pull` fail alike.
    """
    return fingerprint_headline(tool, headline(text))


def fingerprint_headline(tool: str, line: str) -> str:
    """Return the fingerprint of an error whose headline is known."""
    program, line = tool, line[:MAX_LINE]
    if is_shell_symbol(tool):  # the program that a line says was missing or failed by itself, not the last of its call
        speaker = _SPEAKER.search(line)
        named = missing_command(line) or (next(filter(None, speaker.groups())) if speaker else None)
        program = f"{SHELL_PREFIX}{named}" if named else tool
    return f"{VERSION}:{_program(program)}|{mask_line(line) if line else NO_MESSAGE}"


def _program(tool: str) -> str:
    return tool.split(" ", 1)[0].replace("|", "/")[:80]


def error_names(line: str) -> tuple[str, ...]:
    """Return the names in a headline that decide the fix, in their order: modules, packages, commands, options."""
    missing = missing_command(line[:MAX_LINE])
    if missing:
        return (missing,)
    return tuple(name for name in _mask_by_kind(line)[1] if _FAMILY_MEMBER.fullmatch(name))


def signature(text: str) -> str:
    """Return the masked headline: the part of a fingerprint that does not depend on the tool."""
    line = headline(text)
    return mask_line(line) if line else NO_MESSAGE


def mask_line(line: str) -> str:
    """Mask in a line everything that differs between two cases of one error."""
    missing = missing_command(line[:MAX_LINE])
    if missing:
        return f"command not found: {missing}"[:MAX_SIGNATURE]
    masked = _QUOTE_MARK.sub("", _CASE_MASK.sub("<value>", _mask_by_kind(line)[0]))
    masked = _REPEATED_MASK.sub(r"\1", masked).lstrip("> .:;,*-×✗").rstrip(" .:;,*-")
    return masked[:MAX_SIGNATURE] or NO_MESSAGE


def masked_values(line: str) -> list[tuple[str, str]]:
    """Return the names and values of a line, without quotes: (kind, text).

    First the names that its fingerprint keeps ("name"), then what it masks, in order, by the kind of mask. The masked
    line's constant parts are looked up in the line one after the other; what stands between is masked.
    """
    missing = missing_command(line[:MAX_LINE])
    if missing:
        return [("name", missing[:MAX_VALUE])]
    masked, names = _mask_by_kind(line)
    values = [("name", name[:MAX_VALUE]) for name in names if re.match(r"[-@A-Za-z_](?!.* \d)", name)]
    plain = " ".join(_without_frame(_SHELL_PREFIX.sub("", line[:MAX_LINE])).split())
    parts = _MASK.split(masked)  # constant, kind, constant, kind ... constant
    position = max(plain.find(parts[0]), 0) + len(parts[0])
    for kind, constant in zip(parts[1::2], parts[2::2], strict=True):
        end = plain.find(constant, position + 1) if constant else -1
        value = plain[position : end if end >= 0 else len(plain)]
        position += len(value) + len(constant)
        if value := value.lstrip(_QUOTES).rstrip(_QUOTES + ".,;:"):
            values.append((kind, value[:MAX_VALUE]))
    return values[:MAX_VALUES]


def missing_command(line: str) -> str | None:
    """Return the command that a shell did not find."""
    match = next((match for pattern in _COMMAND_NOT_FOUND if (match := pattern.search(line))), None)
    return match["name"].rsplit("/", 1)[-1] if match else None


@lru_cache(maxsize=64)  # a failure's line has several readers
def _mask_by_kind(line: str) -> tuple[str, tuple[str, ...]]:
    """Return a line with its values masked by kind, quotes kept; and its names, which stay."""
    names: list[str] = []

    def keep(match: re.Match[str]) -> str:
        name = next((group for group in match.groups() if group), "")
        if len(names) == MAX_NAMES or _NAME_MARK.search(name) or _FILE_NAME.search(name):
            return match[0]
        names.append(name)
        return match[0].replace(name, chr(_FIRST_NAME_MARK + len(names) - 1), 1)

    line = _NAME_MARK.sub(" ", _SHELL_PREFIX.sub("", line[:MAX_LINE]))
    if "://" in line or "@" in line:
        line = _URL.sub("<url>", line)
    for pattern, mask in _NUMBER_MASKS if _DIGIT.search(line) else ():
        line = pattern.sub(mask, line)
    for pattern in (*_NOUN_NAMES, *_OTHER_NAMES) if _NAMES_ENVIRONMENT.search(line) else _OTHER_NAMES:
        line = pattern.sub(keep, line)
    line = _BRANCH.sub(r"\1 <id>", line)
    line = _QUOTED.sub(_mask_quoted, _PARSER_TOKEN.sub(r"\1 <quoted>", line))
    line = _PATH.sub("<path>", line)
    line = _NUMBER.sub("<n>", _WORD.sub(_mask_word, line))
    line = _REPEATED_MASK.sub(r"\1", _MASK_WITH_POSITION.sub(r"\1", line))
    line = _NAME_MARK.sub(lambda mark: names[ord(mark[0]) - _FIRST_NAME_MARK], line)
    return " ".join(_without_frame(line).split()), tuple(names)


def _without_frame(line: str) -> str:
    return line if line.isascii() else re.sub(r"[│┃━─═╌]+", " ", line)


def _mask_quoted(match: re.Match[str]) -> str:
    quoted = next((group for group in match.groups() if group is not None), "")
    is_kept = len(quoted.split()) >= 5 or _NAME_MARK.fullmatch(quoted)  # a quoted sentence is the message itself
    return match[0] if is_kept else "<quoted>"


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


_WRONG_PLACE = lazy_regex(
    r"not exist|no such|not found|cannot find|could not find|couldn't find|enoent|not a git repository|missing script"
    r"|no rule to make|no \S+ (?:file )?found|outside (?:of )?|not in a|unable to find|cannot open|can't open"
    r"|did not match any|matched no |does not contain (?:main|package)|no required module"
    r"|no [\w ]*(?:files|packages|tests) (?:to|in|for)\b",
    re.IGNORECASE,
)


def is_wrong_place(headline: str) -> bool:
    """Whether an error may come from the directory in which the call was made."""
    return _WRONG_PLACE.search(headline) is not None
