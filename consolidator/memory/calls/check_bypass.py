"""Find how a command line gets round checks: skipped hooks, force, ignored failures, weakened or removed checkers.

Pure. Options count by what their names say, single letters by their program: `-n` skips the hooks of `git commit`, and
numbers the lines of `grep`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from consolidator.memory.calls import shell, tool_kinds
from consolidator.memory.calls.shell import Command
from consolidator.memory.calls.shell_programs import word_set

IGNORED_FAILURE = "ignored failure"
REMOVED_CHECKER = "removed checker"
CHANGED_SETTING = "changed setting"
SUPPRESSED_RULE = "suppressed rule"

_OFF = r"(?:false|0|no|off|none|never|disabled?)"
_CHECK_NOUN = (
    r"(?:verify|verif\w*|(?:re)?checks?|type-?checks?|hooks?|lint\w*|valid\w*|audits?|tests?|strict\w*|gpg\w*|sign\w*"
    r"|secur\w*|ssl\w*|tls\w*|cert\w*|sandbox\w*|eslintrc|config|inline-config|polic\w+|rules?|guards?|integrity"
    r"|protect\w*|requires\w*|errors?|failures?|scripts|pre-?commit)"
)
_LONG_OPTION = re.compile(  # without its value
    rf"--(?:no|skip|disable|bypass|ignore|without)-(?:[\w-]+-)?{_CHECK_NOUN}(?:-\w+)?"
    r"|--(?:nogpgcheck|noverify|nosignature|skiplibcheck|nocheck|yolo|break-system-packages)"
    r"|--(?:exit-zero|soft[-_]fail|never-fail|no-fail|fail-never|(?:[\w]+-)?warn(?:ings)?-only|continue-on-error"
    r"|allow-failures?)"
    r"|--force(?:-(?:yes|remove|delete|push|all|unsafe\S*|overwrite))?"
    r"|--(?:insecure|unsafe|dangerous|untrusted|trust)[\w-]*"
    r"|--allow-(?:unsafe|unrelated|root|dirty|staged|insecure|unauthenticated|untrusted)[\w-]*",
    re.IGNORECASE,
)
_VALUED_OPTION = re.compile(  # with its value after "="
    rf"--[\w.-]*(?:verify|verif\w*|strict|check|secure|ssl|tls|valid\w*|sign|audit|hooks?|fail[\w-]*)[\w.-]*={_OFF}"
    r"|--exit-code=0|--(?:max-warnings|fail-under)=(?:-\d+|\d+)|(?:-c|--[\w-]*config[\w-]*)=/dev/null"
    r"|--cap-lints=(?:allow|warn)"
    r"|--rules?=.*(?:\boff\b|: *0).*|-D[\w.]*(?:skip|failure\.?ignore)[\w.]*(?:=true|=)?",
    re.IGNORECASE,
)
_HARMLESS_VALUE = re.compile(r"--max-warnings=0|--[\w-]+-(?:fast|color|colour)(?:=.*)?", re.IGNORECASE)
_ANYWHERE = re.compile(  # settings that are words, or parts of words, of many programs
    rf"StrictHostKeyChecking[= ](?:no|off)|UserKnownHostsFile[= ]/dev/null"
    rf"|(?:sslverify|strict-ssl|verify[_-]ssl|gpgsign|core\.hooksPath)={_OFF}|core\.hooksPath=(?:/dev/null|\s*$)",
    re.IGNORECASE,
)
# name of the command: the letters of options that get round a check, those of options that take a value
_LETTERS = {
    "git commit": ("n", "mFCctSu"),
    "git am": ("n", "pCS"),
    "git push": ("f", "o"),
    "git add": ("f", ""),
    "git rm": ("f", ""),
    "git mv": ("f", ""),
    "git checkout": ("f", "bB"),
    "git switch": ("f", "cC"),
    "git clean": ("f", "e"),
    "git branch": ("Df", "u"),
    "git tag": ("f", "mFu"),
    "git fetch": ("f", "jo"),
    "git pull": ("f", "josX"),
    "git worktree remove": ("f", ""),
    "npm install": ("f", "w"),
    "npm i": ("f", "w"),
    "npm ci": ("f", "w"),
    "npm publish": ("f", "w"),
    "curl": ("k", "oXdHuAbceFTmwxrCDEKPQUYyzt"),
    "make": ("i", "CfjIoWlO"),
}
_LETTER_MEANINGS = {"n": "--no-verify", "f": "--force", "D": "--force", "k": "--insecure", "i": "--ignore-errors"}
_OPTIONS_BY_PROGRAM = {
    "mvn": word_set("-fn"),
    "gradle": word_set("-x --exclude-task"),
    "gradlew": word_set("-x --exclude-task"),
    "gh": word_set("--admin"),
    "pip": word_set("--trusted-host"),
    "cargo": word_set("-A --allow"),
    "rustc": word_set("-A --allow"),
    "pytest": word_set("--deselect --ignore --ignore-glob"),
}
_CHECKERS = tool_kinds.CHECKING_PROGRAMS - {"pytest", "jest", "vitest", "mocha", "rspec", "tox", "nox"} | word_set(
    """
    pylint stylelint tslint rubocop golangci-lint shellcheck hadolint yamllint ansible-lint markdownlint commitlint
    semgrep bandit checkov trivy tfsec gitleaks detekt ktlint phpstan psalm phpcs oxlint isort pydocstyle vulture
    """
)
_CHECKER_OPTION = re.compile(
    r"--(?:(?:extend-)?ignore[\w-]*|per-file-ignores|disable[\w-]*|exclude[\w-]*|extend-exclude|skip[\w-]*|isolated)|-d"
)
_COMPILERS = word_set("gcc g++ cc c++ clang clang++ javac")
_COMPILER_OPTION = re.compile(r"-Wno-[\w=-]+|-fpermissive|-w|-Xlint:none")
_QUIET_PROGRAMS = word_set("echo printf cat grep egrep fgrep rg ag ack man info which sort head tail less awk jq ls wc")
_SUCCEEDING = frozenset({"true", ":"})

_SETTING_NAME = re.compile(  # of an environment variable
    r"(?:^|_)(?:SKIP|DISABLED?|BYPASS|IGNORE|NO_?VERIFY|NO_?CHECKS?|NO_?HOOKS?|INSECURE|UNSAFE|TRUSTED_HOSTS?"
    r"|ALLOW_NO)(?:_|$)",
    re.IGNORECASE,
)
_CHECK_NAME = re.compile(
    r"(?:^|_)(?:\w*VERIFY|VERIFICATION|REJECT_UNAUTHORIZED|STRICT\w*|\w*CHECKS?|VALIDAT\w+|HUSKY|LEFTHOOK"
    r"|OVERCOMMIT|\w*HOOKS?"
    r"|GOSUMDB)(?:_|$)",
    re.IGNORECASE,
)
_HARMLESS_NAME = re.compile(
    r"TELEMETRY|DOWNLOAD|COLOU?R|ANALYTICS|CACHE|UPDATE|PROMPT|SPINNER|PROGRESS|BROWSER|BANNER|NOTIF|TRACKING|INSTALL"
    r"|HISTORY|ADS?(?:_|$)|FUND",
    re.IGNORECASE,
)
_OFF_VALUE = re.compile(_OFF, re.IGNORECASE)

_CHECKER_NAME = (
    r"(?:[\w-]*lint(?!-?cache)[\w-]*|[\w-]*hooks?|lefthook|husky|overcommit|pre-commit(?:-config)?|mypy|pyright"
    r"|ruff|flake8|rubocop"
    r"|golangci|credo|prettier|semgrep|gitleaks|detekt|phpcs|phpstan|biome)"
)
_CHECKER_PATH = re.compile(  # a directory of hooks and what is in it, or the configuration of a checker
    r"(?:^|/)(?:\.git/hooks|\.husky|\.githooks|\.lefthook)(?:/(?P<hook>[\w.*-]*))?$"
    rf"|(?:^|/)(?:\.{_CHECKER_NAME}(?:rc)?(?:\.(?:json5?|ya?ml|toml|ini|exs?|[cm]?[jt]s))?"
    rf"|{_CHECKER_NAME}(?:\.config\.\w+|\.(?:ya?ml|toml|ini|json5?)))$"
)
_PUT_AWAY = re.compile(r"\.(?:sample|bak|backup|old|orig|off|disabled)$|~$|(?:^|/)_$")
_REMOVING = word_set("rm mv unlink shred trash truncate")
_HOOK_MANAGERS = word_set("pre-commit husky lefthook overcommit")
_UNINSTALLING = word_set("uninstall --uninstall remove rm un erase delete")
_WORLD_WRITABLE = re.compile(r"0?777|a\+rwx")
_NOT_EXECUTABLE = re.compile(r"[ugoa]*-[rwx]+|0?[0246]{3}")
_SUPPRESSION = re.compile(
    r"\b(?:eslint|stylelint|tslint|prettier|rubocop|pylint|shellcheck|credo)[:\s-]*(?:disable|ignore)|# ?noqa\b"
    r"|@ts-(?:ignore|nocheck)"
    r"|# ?type: ?ignore|# ?nosec\b|//\s*nolint|@SuppressWarnings"
)


def bypasses(line: str) -> frozenset[str]:
    """Return the ways in which a command line gets round checks, each by a name that its spellings share."""
    commands = shell.parse_commands(line)
    found = {key for command in commands for key in (*_bypasses(command), *_switches_off(command))}
    if _ignores_failure(commands):
        found.add(IGNORED_FAILURE)
    return frozenset(found)


def leaves_check_off(line: str) -> bool:
    """Whether a command line leaves a check switched off for the calls after it."""
    for command in shell.parse_commands(line):
        if any(_switches_off(command)) or (command.program == "export" and any(_assigned(command))):
            return True
    return False


def _bypasses(command: Command) -> Iterator[str]:
    """Yield how one command gets round a check by itself."""
    yield from _assigned(command)
    for word in (*command.assignments, *_telling_words(command)):
        if match := _ANYWHERE.search(word):
            yield match[0].lower()
    if command.program in _QUIET_PROGRAMS:
        return
    options, values = _options(command)
    by_program = _OPTIONS_BY_PROGRAM.get(command.program, frozenset())
    for word, value in zip(options, values, strict=True):
        name = word.split("=", 1)[0]
        valued = word if "=" in word else f"{word}={value}"
        if _HARMLESS_VALUE.fullmatch(valued) or _HARMLESS_VALUE.fullmatch(word):
            continue
        is_off = "=" in word and _OFF_VALUE.fullmatch(word.split("=", 1)[1]) is not None
        if (_LONG_OPTION.fullmatch(name) and not is_off) or _VALUED_OPTION.fullmatch(valued) or name in by_program:
            yield name.lower() if name.startswith("--") else name
        elif command.program in _CHECKERS and (_CHECKER_OPTION.fullmatch(name)):
            yield name
        elif command.program in _COMPILERS and _COMPILER_OPTION.fullmatch(word):
            yield word
    yield from _letters(command)
    if command.name == "git push" and any(word.startswith("+") for word in command.operands):
        yield "--force"


def _options(command: Command) -> tuple[list[str], list[str]]:
    """Return a command's options, and the word after each; those of git end at "--"."""
    words = _plain_words(command)
    positions = [n for n, word in enumerate(words) if word.startswith("-") and len(word) > 1]
    return [words[n] for n in positions], [words[n + 1] if n + 1 < len(words) else "" for n in positions]


def _plain_words(command: Command) -> list[str]:
    """Return a command's words without the messages that it is given, and for git up to "--"."""
    kept: list[str] = []
    _, with_value = _letters_of(command) or ("", "m")
    is_message = False
    for word in command.words:
        if is_message:
            is_message = False
            continue
        if word == "--" and command.program == "git":
            break
        kept.append(word)
        cluster = re.fullmatch(r"-[A-Za-z]+", word)
        at = next((n for n, letter in enumerate(word) if letter in with_value), 0) if cluster else 0
        is_message = word in ("--message", "--title", "--body") or (at > 0 and at == len(word) - 1 and word[at] == "m")
    return kept


def _letters_of(command: Command) -> tuple[str, str] | None:
    return _LETTERS.get(command.name) or _LETTERS.get(command.program)


def _letters(command: Command) -> Iterator[str]:
    """Yield the bypasses among single letters, also where several are written as one word: `-anm`."""
    letters = _letters_of(command)
    if letters is None:
        return
    counted, with_value = letters
    for word in _plain_words(command):
        if word == "--":
            return
        if not word.startswith("-") or word.startswith("--"):
            continue
        for letter in word[1:]:
            if letter in counted:
                yield _LETTER_MEANINGS[letter]
            if letter in with_value or not letter.isalpha():
                break


def _telling_words(command: Command) -> Sequence[str]:
    """Return the words that a command acts by: those of a search or of a printed text say nothing."""
    if command.program in _QUIET_PROGRAMS and not command.writes:
        return ()
    words = _plain_words(command)
    pairs = [f"{first}={second}" for first, second in pairwise(words)]
    return (*words, *pairs)


def _assigned(command: Command) -> Iterator[str]:
    """Yield the variables that switch a check off for a command, or that `export` sets."""
    for assignment in command.assignments:
        name, _, value = assignment.partition("=")
        name, value = name.rstrip("+"), value.strip("'\"")
        is_off = not value or _OFF_VALUE.fullmatch(value) is not None
        if _HARMLESS_NAME.search(name):
            continue
        if (_SETTING_NAME.search(name) and not is_off) or (_CHECK_NAME.search(name) and value and is_off):
            yield name


def _ignores_failure(commands: Sequence[Command]) -> bool:
    """Whether the failure of the command that a line reports is ignored: `npm test || true`, `npm test; true`."""
    reported = shell.reported_command(commands)
    position = next((n for n, command in enumerate(commands) if command is reported), len(commands))
    for n, command in enumerate(commands[position + 1 :], position + 1):
        if command.link == "||":
            return _succeeds(command)
        if command.link == ";" and n == len(commands) - 1:
            return _succeeds(command)
        if command.link not in ("&&", "|", "|&"):
            return False
    return False


def _succeeds(command: Command) -> bool:
    return command.program in _SUCCEEDING or (command.program == "exit" and command.operands == ("0",))


def _switches_off(command: Command) -> Iterator[str]:
    """Yield how one command leaves a check switched off for the calls after it."""
    if _removes_checker(command):
        yield REMOVED_CHECKER
    if _changes_setting(command):
        yield CHANGED_SETTING
    writes_text = command.writes or (command.program in ("sed", "perl") and any("i" in o for o in command.options))
    text_written = any(_SUPPRESSION.search(word) for word in command.words) and writes_text
    if text_written or (command.program == "tee" and any(_is_checker(word) for word in command.operands)):
        yield SUPPRESSED_RULE


def _is_checker(path: str) -> bool:
    return _CHECKER_PATH.search(path.rstrip("/")) is not None and not _PUT_AWAY.search(path.rstrip("/"))


def _removes_checker(command: Command) -> bool:
    """Whether a command removes, replaces or disarms a hook or the configuration of a checker."""
    paths = [word for word in command.operands if _is_checker(word)]
    program = command.subcommand if command.program == "git" else command.program
    if program in _REMOVING:
        return any(path != command.operands[-1] for path in paths) if program == "mv" else bool(paths)
    if program in ("cp", "ln"):
        return bool(paths) and "/dev/null" in command.operands
    if program == "chmod":
        modes = [word for word in command.words if _NOT_EXECUTABLE.fullmatch(word)]
        return bool(paths and modes) or any(_WORLD_WRITABLE.fullmatch(word) for word in command.words)
    if program in ("echo", "printf", "true", ":") and any(
        _is_checker(target.lstrip("1&>|")) for target in command.redirections if ">>" not in target
    ):
        return True
    if not _UNINSTALLING.intersection(command.words[:3]):
        return False
    return program in _HOOK_MANAGERS or any(re.fullmatch(_CHECKER_NAME, word) for word in command.operands)


def _changes_setting(command: Command) -> bool:
    """Whether a command changes a setting that later calls are checked by."""
    words = [word.lower() for word in command.words]
    if command.program in ("git", "npm", "pnpm", "yarn") and "config" in words:
        text = " ".join(words)
        if "core.hookspath" in words:
            value = words[words.index("core.hookspath") + 1 :]
            return "unset" in text or (bool(value) and not _enables_hooks(value[0]))
        return re.search(rf"\b(?:sslverify|strict-ssl|gpgsign)[= ]{_OFF}(?:\s|$)", text) is not None
    if command.program in ("setenforce", "ufw", "csrutil"):
        return bool({"0", "disable", "permissive"}.intersection(words))
    is_service = command.program in ("systemctl", "service") and {"stop", "disable", "mask"}.intersection(words)
    return bool(is_service) and any(re.match(r"firewalld|apparmor|auditd|ufw", word) for word in words)


def _enables_hooks(path: str) -> bool:
    """Whether a path of hooks is the project's: relative, and of a telling name."""
    return "hook" in path or "husky" in path if not re.search(r"^/|\bno|empty|null|disabled", path) else False
