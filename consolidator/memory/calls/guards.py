"""Tell whether a call gets round a check: that is no fix to recommend.

Pure. A check is got round by skipped hooks, force, ignored failures, weakened or removed checkers. Options count by
what their names say, single letters by their program: `-n` skips the hooks of `git commit`, and numbers the lines of
`grep`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

from consolidator.memory.calls import shell, tool_kinds
from consolidator.memory.calls.shell import Command
from consolidator.memory.calls.shell_programs import word_set
from consolidator.memory.calls.symbols import shell_command

IGNORED_FAILURE = "ignored failure"
REMOVED_CHECKER = "removed checker"
CHANGED_SETTING = "changed setting"
SUPPRESSED_RULE = "suppressed rule"
_OUT_OF_SANDBOX = (("sandbox_permissions", "require_escalated"), ("dangerouslyDisableSandbox", True))  # arguments

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
# The letter of an option by its meaning: commands, the letters that mean it, and those before it that take a value.
_LETTERS = [
    (meaning, re.compile(rf"(?:{commands}) (?:.* )?-[^-\W\d_{valued}]*?[{letters}]"))
    for meaning, commands, letters, valued in (
        ("--no-verify", "git commit", "n", "mFCctSu"),
        ("--no-verify", "git am", "n", "pCS"),
        ("--force", "git (?:push|add|rm|mv|clean|fetch|pull|worktree remove)", "f", "oejsX"),
        ("--force", "git (?:checkout|switch|branch|tag)", "f", "bBcCmFu"),
        ("--force", "git branch", "D", "u"),
        ("--force", "npm (?:install|i|ci|publish)", "f", "w"),
        ("--insecure", "curl", "k", "oXdHuAbceFTmwxrCDEKPQUYyzt"),
        ("--ignore-errors", "make", "i", "CfjIoWlO"),
    )
]
_OF_PROGRAM = re.compile(  # a program, and one of its options
    r"mvn -fn|gradlew? (?:-x|--exclude-task)|gh --admin|pip --trusted-host|(?:cargo|rustc) (?:-A|--allow)"
    r"|pytest (?:--deselect|--ignore(?:-glob)?)"
    r"|(?:gcc|g\+\+|cc|c\+\+|clang|clang\+\+|javac) (?:-Wno-[\w=-]+|-fpermissive|-w|-Xlint:none)"
)
_CHECKERS = tool_kinds.CHECKING_PROGRAMS - {"pytest", "jest", "vitest", "mocha", "rspec", "tox", "nox"} | word_set(
    """
    pylint stylelint tslint rubocop golangci-lint shellcheck hadolint yamllint ansible-lint markdownlint commitlint
    semgrep bandit checkov trivy tfsec gitleaks detekt ktlint phpstan psalm phpcs oxlint isort pydocstyle vulture
    """
)
_CHECKER_OPTION = re.compile(
    r"--(?:(?:extend-)?ignore[\w-]*|per-file-ignores|disable[\w-]*|exclude[\w-]*|extend-exclude|skip[\w-]*|isolated)|-d"
)
_QUIET_PROGRAMS = word_set("echo printf cat grep egrep fgrep rg ag ack man info which sort head tail less awk jq ls wc")
_TAKES_MESSAGE = re.compile(  # a command and its option; "-m" means something else to some
    r".* --(?:message|title|body)"
    r"|(?!(?:git (?:am|push|add|rm|mv|checkout|switch|clean|branch|fetch|pull|worktree)|npm|make)\b).* -[a-zA-Z]*m"
)
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

_CHANGES = re.compile(  # a command that changes a setting; hooks stay on at a relative path of a telling name
    r"(?:git|npm|pnpm|yarn) (?=(?:.* )?config(?: |$))(?:.*unset.* core\.hookspath(?: |$)|(?:.* )?core\.hookspath"
    r" (?!(?!/|[^ ]*(?:\bno|empty|null|disabled))[^ ]*(?:hook|husky))"
    rf"|(?!.* core\.hookspath(?: |$)).*\b(?:sslverify|strict-ssl|gpgsign)[= ]{_OFF}(?:\s|$))"
    r"|(?:setenforce|ufw|csrutil) (?:.* )?(?:0|disable|permissive)(?: |$)"
    r"|(?:systemctl|service) (?=(?:.* )?(?:stop|disable|mask)(?: |$))(?:.* )?(?:firewalld|apparmor|auditd|ufw)"
)


def adds_bypass(tool: str, failing: Any, later: Any) -> bool:
    """Whether a later shell call skips a check that the failing one did not skip; both as arguments of the tool."""
    line = shell_command(tool, later)
    if line is None:
        return False
    added = bypasses(line)
    return bool(added) and not added <= bypasses(shell_command(tool, failing) or str(failing))


def leaves_sandbox(arguments: Any) -> bool:
    """Whether a call asks to run without the limits that its harness sets."""
    return isinstance(arguments, Mapping) and any(arguments.get(key) == value for key, value in _OUT_OF_SANDBOX)


def switches_off_check(tool: str, arguments: Any) -> bool:
    """Whether a shell call switches a check off for the calls after it."""
    line = shell_command(tool, arguments)
    return line is not None and any(
        any(_switches_off(command)) or (command.program == "export" and any(_assigned(command)))
        for command in shell.parse_commands(line)
    )


@lru_cache(maxsize=64)  # a call may resolve several errors
def bypasses(line: str) -> frozenset[str]:
    """Return the ways in which a command line gets round checks, each by a name that its spellings share."""
    commands = shell.parse_commands(line)
    guard_keys = {key for command in commands for key in (*_bypasses(command), *_switches_off(command))}
    if _ignores_failure(commands):
        guard_keys.add(IGNORED_FAILURE)
    return frozenset(guard_keys)


def _bypasses(command: Command) -> Iterator[str]:
    """Yield how one command gets round a check by itself."""
    yield from _assigned(command)
    for word in (*command.assignments, *_telling_words(command)):
        if match := _ANYWHERE.search(word):
            yield match[0].lower()
    if command.program in _QUIET_PROGRAMS:
        return
    options, values = _options(command)
    for word, value in zip(options, values, strict=True):
        name = word.split("=", 1)[0]
        valued = word if "=" in word else f"{word}={value}"
        if _HARMLESS_VALUE.fullmatch(valued) or _HARMLESS_VALUE.fullmatch(word):
            continue
        is_off = "=" in word and _OFF_VALUE.fullmatch(word.split("=", 1)[1]) is not None
        if (_LONG_OPTION.fullmatch(name) and not is_off) or _VALUED_OPTION.fullmatch(valued):
            yield name.lower() if name.startswith("--") else name
        elif command.program in _CHECKERS and _CHECKER_OPTION.fullmatch(name):
            yield name
        elif match := _OF_PROGRAM.fullmatch(f"{command.program} {name}") or _OF_PROGRAM.fullmatch(
            f"{command.program} {word}"
        ):
            yield match[0].split()[1]
    text = " ".join((command.name, *(word for word in _plain_words(command) if " " not in word)))
    yield from (meaning for meaning, pattern in _LETTERS if pattern.match(text.partition(" -- ")[0]))
    if command.name == "git push" and any(word.startswith("+") for word in command.operands):
        yield "--force"


def _options(command: Command) -> tuple[list[str], list[str]]:
    """Return a command's options, and the word after each; those of git end at "--"."""
    words = _plain_words(command)
    positions = [n for n, word in enumerate(words) if word.startswith("-") and len(word) > 1]
    return [words[n] for n in positions], [words[n + 1] if n + 1 < len(words) else "" for n in positions]


def _plain_words(command: Command) -> list[str]:
    """Return a command's words without the messages that it is given, and for git up to "--"."""
    words = list(command.words)
    if command.program == "git" and "--" in words:
        words = words[: words.index("--")]
    return [word for before, word in pairwise(["", *words]) if not _TAKES_MESSAGE.fullmatch(f"{command.name} {before}")]


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
    if _CHANGES.match(" ".join((command.program, *command.words)).lower()):
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
