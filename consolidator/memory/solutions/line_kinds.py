"""Tell what a line of an output is: a reason, an announcement of one, or progress, a notice, an echo, code.

Pure. Recognises forms that programs share, by the grammar of the line; no rule knows one program's sentence.
"""

from __future__ import annotations

import re
from functools import lru_cache

from consolidator.llm.patterns import AnyCase, lazy_regex

STATUS = lazy_regex(
    r"\s*(?:\(no output\)|\(?(?:the )?(?:command|process|shell|script|program)?\s*"
    r"(?:failed with |exited with |finished with |returned )?(?:non-zero )?(?:exit )?(?:code|status)\s*:?\s*-?\d+\)?\.?"
    r"|wall time: .*|chunk id: .*|original token count: .*|output:)\s*",
    re.IGNORECASE,
)
EXCEPTION = lazy_regex(
    r"\s*(?:[-*•] )?(?:[A-Z]+\d+ )?\[?(?:(?:E\s+|Uncaught |Unhandled |\[[\w ]+\]:? |Exception in thread \S+ )*"
    r"(?:[\w$]+(?:\.|::|/))*(?:[A-Z]\w*)?(?:Error|Exception|Interrupt|Failure|Fault|Panic)"
    r"(?: \[\w+\]| \(\w+\))?(?::\s*\S|\s*$)"
    r"|\*\* \([\w.]+\)|panic: |thread '.*' panicked at|Fatal error: |PHP Fatal error|Segmentation fault)"
)
ERROR_FORM = AnyCase(
    r"[^\w\s]*\s*(?:[\w./\\@+-]+(?:\(\d[\d,]*\)|(?::\d+)*)?:?\s+(?:-\s+)?)?[\[(]?"
    r"(?:fatal|error|errors|failed|failure|abort(?:ed)?|denied|err!)[\])]?(?:\[\w+\])?(?:\s+[A-Z]+\d+)?\s*[:!]\s*\S"
    r"|.*(?:command not found|: not found$|No such file or directory|[Pp]ermission denied|is not recognized as)"
    r"|npm (?:ERR!|error) (?!code|A complete log|errno|path|command)"
    r"|Error (?:executing|while|in|running|calling|reading|parsing|during)\b|.*: error [A-Z]*\d*:"
    r"|\s*\d+:\d+\s+error\s+\S",
)
ERROR_WORD = AnyCase(
    r"\b(?:errors?|\w+(?:error|exception)(?=:)|fail(?:s|ed|ure|ures|ing)?"
    r"|fatal|cannot|can't|could not|couldn't|did not|didn't|unable|not found|no such|denied"
    r"|invalid|unknown|undefined|unexpected|unrecogni[sz]ed|missing|refused|timed? ?out|exceed(?:s|ed)|exist|expected"
    r"|not allowed|conflicts?|forbidden|unauthori[sz]ed|abort(?:ed|ing)?|reject(?:ed)?|unsupported|unresolved|already"
    r"|ignored by|has no|have no|not contain|is not|are not|was not|has not|must|required|too (?:large|many|long)"
    r"|illegal|crash\w*|mismatch|violat\w+|exhausted|blocked|out of (?:sync|memory|date|range)|nothing to)\b|[✗✖×❌]",
    stems="error|exception|fail|fatal|cannot|can't|could|didn't|unable|not|no such|denied|invalid|unknown|undefined"
    "|expected|unrecogni|missing|refused|time|exceed|exist|conflict|forbidden|unauthori|abort|reject|unsupported|unresolved|already"
    "|ignored by|s no|ve no|must|required|too |illegal|crash|match|violat|exhausted|blocked|out of",
)
_NOTICE = AnyCase(  # says something beside the error; a program's name may come first
    r"^\s*(?:[\w./@-]+(?:\(\d+\)|:\d+)*:?\s+)?[\[(]?(?:(?:warn(?:ing)?s?|notice)\b|(?:deprecated|debug)[\]):])"
    r"|^\s*(?:hint|note|help|info|tip|usage|see also)\b\s*:|^\s*(?:\[\w+\] )?\[?info\]?\s"
    r"|^\s*(?:please report|for more (?:information|details|help)|learn more|see https?:|more info|requirement already)"
    r"|^\W*(?:total )?errors?: \d+,",
)
_NOTICE_WITHIN = AnyCase(  # the same, anywhere in the line
    r"\b(?:0|no) (?:errors?|failures?|failed|warnings?)\b|\bwarning:"
    r"|(?:Deprecation|Experimental|Future|User|Runtime|Syntax|Resource|Import)Warning\b"
    r"|\berrors?[\s_-]?(?:handling|handler)\b|\ba complete log of this run can\b",
    stems="0 error|no error|0 fail|no fail|0 warning|no warning|warning:|nwarning|lwarning|ewarning|rwarning|xwarning"
    "|twarning|handl|complete log",
)
_ECHO = lazy_regex(  # a command, a line of code or of a stack
    r"^\s*at \S+|^\s*File \"|^\s*[>$] |^\+ |^\s*#|^\s*(?:>?\s*\d+\s*){0,2}[│┃|](?:\s|$)|^\s*\d+ (?:passed|tests?,)"
    r"|^\s*[\^~]+\s*$|^\s*(?:PASS(?:ED)?\b|[✓✔] )"
)
FRAME = lazy_regex(  # code with its number, beside a frame or not; a line of a diff
    r"^\s*(?:>?\s*\d+\s*){1,2}[│┃|:](?:\s|$)|^\s*[│┃|](?:\s|$)|^\s*\d+\s{2,}\S"
    r"|^\s*(?:@@ |[-+]{3} \S|[-+](?:\s{2,}|\t)\S)"
)
_PROGRESS = AnyCase(
    r"^\s*(?:\[\d+/\d+\]|\d+(?:\.\d+)?%|\[[=#>. -]{3,}\]|==+>?|--+|──+|━━+|\*\*\*+)(?=\s|$)"
    r"|^[\W_]*$|^\s*(?:done|finished|completed) in \S|^\s*> Task |^\s*```|^\W*[A-Z][a-z]+ing\b.*(?:\.\.\.|…)\W*$",
)
VAGUE = AnyCase(
    r"errors? (?:have been|has been|were|was) (?:logged|emitted)|aborting due to|could not compile|command failed"
    r"|elifecycle|lifecycle script|make(?:\[\d+\])?: \*\*\*|build failed|compilation failed"
    r"|subprocess-exited-with-error|process completed|(?:^|\s)found \d+ errors?|some errors|exited with"
    r"|exit (?:code|status)|calledprocesserror|task failed|script failed|\bdiagnostics\b"
    r"|^\W*\d+ (?:pass|fail|error|warning|problem|test)\w*\W*$"
    r"|^\W*(?:error|failed|failure|errors)\W*$"
    r"|^\W*fail(?:ed|ing)?:?\s+\S+(?:\s+\([\d.]+ ?m?s\)|\s+\[(?:setup|build) failed\])?\s*$",
)
BARE_LABEL = lazy_regex(
    r"^\W*(?:errors?|failed|failures?|fatal|fatal error|exception|problems?)\s*(?::|[─━═]{3}\W*)\s*$", re.I
)
QUOTES_FILE = lazy_regex(r"\b(?:lines|text|string|context) (?:in|of) \S+:$")  # what follows is a file's, and no reason
ANNOUNCEMENT = lazy_regex(r":\s*$")
PLACED_MESSAGE = lazy_regex(  # path, line and column, or the code of a rule, and a message
    r"^[\W_]*(?:(?:[A-Za-z]:)?[\w@./\\+-]*[\w@+-]\.[A-Za-z]\w{0,7}[:(]\d+(?:[:,]\d+)*\)?:?\s+(?:-\s+)?"
    r"|[A-Z]{1,5}\d{2,5}\b:?\s+)(?=(?:\S+\s+){2}\S)"
)
_DECISIVE = (  # of a program, its options and names: two such failures say as much as three others
    r"unrecogni[sz]ed subcommand",
    r"(?:unknown|illegal|invalid) (?:option|flag|command|skill)",
    r"no such (?:sub-?)?command",
    r"(?:script|command) not found|missing script|no task \S+ found|failed to spawn: (?=[`'\"])",
    r"(?:command|program) ['\"`]?[\w.+-]+['\"`]? (?:(?:could|can|was|is) ?not|not) (?:be )?(?:found|located|available)",
    r"(?:<value>|…|\bpython[\d.]*): no module named",
    r"is not recogni[sz]ed as|does not exist|is not a (?:tty|terminal)\b",
)
_MISSING = (
    r"unrecogni[sz]ed|unknown|unexpected argument|not understood|is not recogni[sz]ed",
    r"has no attribute|no such|no matches found|(?:not|n't) (?:be )?(?:found|located)",
    r"(?:cannot|can't|unable to) (?:find|locate)",
    r"(?:not|isn't) (?:installed|available)|not an? \w+",
)
NOT_UNDERSTOOD = AnyCase("|".join(_DECISIVE))
NOT_THERE = AnyCase("|".join((*_DECISIVE, *_MISSING)))  # it is not there, or not understood
NOT_FORMATTED = AnyCase(  # what a check of the format prints: a diff, or which files it would change
    r"\A\s*(?:Exit code \d+\s+)?(?:Diff in \S|--- \S[^\n]*\n\+\+\+ \S)|^would reformat \S|\bwould be reformatted\b"
    r"|^\[warn\] Code style issues",
    re.MULTILINE,
    stems="would |[warn] code|diff in |+++ ",
)
NO_MATCH = lazy_regex(  # zsh, of a pattern, which it does not always name
    r"^(?:\(eval\)|zsh)(?::\d+)?: (?:(?:no matches found|bad pattern): (.+)|(?:missing delimiter for '.' glob qualifier"
    r"|unknown (?:file attribute|user|group|sort specifier)|number expected|end of string)\b.*|(=\S*) not found)$",
    re.MULTILINE,
)
NOT_SH = lazy_regex(  # PowerShell, of what sh alone reads: `<<EOF`, `ls -la`, and `&&` in its old versions
    r"^(?:ParserError:|At line:\d+ char:\d).{0,2000}?"
    r"(?:Missing file specification after redirection operator|'(?:&&|\|\|)' is not a valid statement separator)"
    r"|^\S+ ?: A parameter cannot be found that matches parameter name '[a-z]{1,3}'",
    re.MULTILINE | re.DOTALL,
)
OF_SHELL = lazy_regex(  # of a line, not a program
    r"^shell: no matches found$|^shell: powershell$|(?:^|: )=\S* not found$|: read-only variable: "
)
NO_FILE = lazy_regex(
    r"no such file|(?:file|path|directory)(?: ['\"`][^'\"`]*['\"`])? does not exist|\bENOENT\b", re.IGNORECASE
)
NOTHING_ADDED = lazy_regex(r"^fatal: pathspec .* did not match any files$|^The following paths are ignored by", re.M)
NO_FOLDER = lazy_regex(  # a `cd` failed, so nothing after it ran
    r"^(?:\(eval\):|\S*sh: ?(?:(?:line )?\d+: )?)?cd(?::\d+)?: \S", re.MULTILINE
)
_PROGRAM_PREFIX = lazy_regex(r"(?:\S*(?:ba|z|da|k)?sh: (?:-c: )?(?:line )?(?:\d+: )?)?([a-z][\w.+-]*): \S")
_SHELL_COMPLAINT = lazy_regex(r"\S*(?:ba|z|da|k)?sh: (?:-c: )?(?:line )?\d+: \S")
_BOX_TITLE = lazy_regex(r"\s*[─━═]{3,}[╮┐]\s*$")
_BOX = lazy_regex(
    r"^[\s│┃|╷╵╭╰─━]*(?:(?:[×✖✗⨯*]|\[\w+:[\w.-]+\])\s+)?"
)  # also a bullet, and the task that a line is of


def program_prefix(line: str) -> str | None:
    """Return the program that an error line begins with, after that of the shell: "awk" of `awk: syntax error`.

    Where a shell itself complains it is "sh".
    """
    match = _PROGRAM_PREFIX.match(line)
    if match:
        return match[1]
    return "sh" if _SHELL_COMPLAINT.match(line) else None


@lru_cache(maxsize=4096)  # an output repeats its lines, and several readers ask for them
def is_harmless(line: str) -> bool:
    """Whether a line is a notice, an echo, or progress: no reason, whatever its words."""
    return bool(_NOTICE.match(line) or _ECHO.match(line) or _NOTICE_WITHIN.search(line)) or is_progress(line)


@lru_cache(maxsize=4096)
def has_error_word(line: str) -> bool:
    """Whether a line has a word that reasons have."""
    return ERROR_WORD.search(line) is not None


def is_progress(line: str) -> bool:
    """Whether a line only says how far a program is, or separates others."""
    return _PROGRESS.match(line) is not None


def strip_box(line: str) -> str:
    """Return a line without the frame that is drawn beside it, and without its bullet; a box's title as one."""
    line = _BOX_TITLE.sub(":", line) if line.rstrip().endswith(("╮", "┐")) else line
    return _BOX.sub("", line).rstrip(" \t│┃").strip()
