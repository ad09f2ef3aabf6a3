"""Finds credentials by where they stand: in options and positions of commands, headers, cookies, manifests, tables.

Only the program tells whether -p means a password, a port or a parent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from consolidator.llm.redaction.forms import CredentialSpan, write_alternation
from consolidator.llm.redaction.names import is_credential, is_credential_name, is_word_or_reference, names_password
from consolidator.llm.redaction.values import (
    is_chosen,
    is_hexadecimal,
    is_placeholder,
    is_tangled,
    is_uuid,
    looks_random,
    mixes_kinds,
)

_MYSQL = ("mysql", "mysqldump", "mysqladmin", "mysqlimport", "mysqlsh", "mariadb", "mariadb-dump")
_LDAP = ("ldapsearch", "ldapadd", "ldapmodify", "ldapdelete", "ldappasswd", "ldapwhoami", "ldapcompare", "ldapmodrdn")
_SNMP = ("snmpget", "snmpwalk", "snmpset", "snmpbulkwalk", "snmpbulkget", "snmptrap", "snmptable")
_REDIS = ("redis-cli", "keydb-cli", "valkey-cli")
_HTTPIE = ("http", "https", "xh")

# -p is the password of these programs' login command.
LOGIN_PROGRAMS = (
    "docker",
    "podman",
    "helm",
    "az",
    "oc",
    "npm",
    "nuget",
    "buildah",
    "skopeo",
    "nerdctl",
    "oras",
    "crane",
)
# The next word is a password.
SPACED_OPTIONS: dict[str, tuple[str, ...]] = {
    "-w": (*_LDAP, "security"),
    "-s": ("ldappasswd",),
    "-P": ("sqlcmd", "bcp", "isql", "mosquitto_pub", "mosquitto_sub", "ipmitool", "zip", "unzip"),
    "-p": (
        *("sshpass", "mongo", "mongosh", "mongodump", "mongorestore", "mongoexport", "mongoimport", "cypher-shell"),
        *("rdesktop", "twine", "crackmapexec", "netexec", "nxc", "psexec", "couchbase-cli", "cqlsh", "beeline"),
    ),
    "-a": _REDIS,
    "--pass": _REDIS,
    "-k": ("openssl",),
    "-K": ("openssl",),
    "-A": _SNMP,
    "-X": _SNMP,
    "-c": _SNMP,
    "-storepass": ("keytool", "jarsigner"),
    "-keypass": ("keytool", "jarsigner"),
    "-t": ("doctl",),
}
# The password follows without a space.
JOINED_OPTIONS: dict[str, tuple[str, ...]] = {
    "-p": (*_MYSQL, "sshpass", "7z", "7za", "7zz", "unrar", "rar"),
    "/p:": ("xfreerdp", "xfreerdp3", "wfreerdp", "mstsc"),
    "/pass:": ("cmdkey",),
    "/rp:": ("schtasks",),
    "pass:": ("openssl",),  # -passin pass:X
}
# The next word is a user and a password, divided by one of these.
PAIR_OPTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "-u": (":,", ("lftp",)),
    "--user": (":", ("curl", "wget")),
    "--proxy-user": (":", ("curl",)),
    "-a": (":", _HTTPIE),
    "--auth": (":", _HTTPIE),
    "-U": ("%", ("smbclient", "rpcclient", "smbmap", "smbget", "winexe")),
}
# A program, a word of its command, and how many further words stand before the password.
POSITIONS: tuple[tuple[str, str, int], ...] = (
    ("rabbitmqctl", "add_user", 1),
    ("rabbitmqctl", "change_password", 1),
    ("rabbitmqctl", "authenticate_user", 1),
    ("htpasswd", "-b", 2),
    ("htpasswd", "-nb", 1),
    ("htpasswd", "-cb", 2),
    ("htpasswd", "-bc", 2),
    ("htpasswd", "-Bb", 2),
    ("htpasswd", "-nbB", 1),
    ("vault", "login", 0),
    ("cargo", "login", 0),
    ("ansible-vault", "encrypt_string", 0),
    ("wpa_passphrase", "wpa_passphrase", 1),
)
# For these programs -p is never a password.
P_IS_NO_PASSWORD = frozenset(
    [
        *("mkdir", "ssh", "scp", "rsync", "cp", "install", "ps", "kill", "lsof", "tar", "unzip", "nc", "nmap", "patch"),
        *("pip", "python", "python3", "node", "pytest", "cargo", "make", "grep", "git", "diff", "perl", "ping", "ls"),
        *("read", "declare", "export", "command", "psql", "pg_dump", "createdb", "nice", "perf", "gdb", "strace"),
    ]
)
PROGRAMS = frozenset(
    [
        *LOGIN_PROGRAMS,
        *(program for programs in SPACED_OPTIONS.values() for program in programs),
        *(program for programs in JOINED_OPTIONS.values() for program in programs),
        *(program for _, programs in PAIR_OPTIONS.values() for program in programs),
        *(program for program, _, _ in POSITIONS),
        *("sqlplus", "net", "lftp"),
    ]
)


_QUOTED_TEXT = r"'[^'\n]{1,128}'|\"[^\"\n]{1,128}\""
# Short options of curl that take no value, before the one that takes a user and a password.
_CURL_USER = re.compile(r"-(?:-(?:proxy-)?user=|[0-9aBfgGiIjJklLMnNOpqRsSvVZ#]{0,12}[uU])")
# Commands that store a secret: a noun with a verb before or after it.
_STORE = (
    r"(?:secrets?|secretsmanager|user-secrets|keyvault|vars?|variables?|env|config|kv|keyring|parameters?)[\s:-]{1,2}"
    r"(?:secret\s|versions\s|generic\s)?(?:set|put|patch|add|create|new|write|update|import|insert|upsert|edit)\b"
    r"|\b(?:set|put|create|add|write|update|store|insert|encrypt)[\s-](?:generic-|internet-)?(?:secret|password|parameter)\b"
)
_STDIN_OPTION = re.compile(
    rf"{_STORE}|--(?:password|passphrase|pass|token)-stdin\b|--with-token\b|\bpasswd\s{{1,3}}--stdin\b|\bkinit\b"
    r"|\bsudo\s{1,3}(?:-\w{1,3}\s{1,3})?-S\b|--passphrase-fd\b|\bcryptsetup\b|\bsmbpasswd\b|\bsecret-tool\b"
    r"|\bpass\s{1,3}insert\b"
)
_ECHO = r"\b(?:echo|printf)\s{1,3}(?:-[neE]{1,3}\s{1,3})?"
_ECHOED = re.compile(
    rf"{_ECHO}(?:\\{{0,4}}[\"']?%s(?:\\{{1,4}}n)?\\{{0,4}}[\"']?\s{{1,3}})?"
    rf"\\{{0,4}}(?P<value>{_QUOTED_TEXT}|[^\s'\"|;&<>\\]{{1,512}}+)\\{{0,4}}[\"']?\s{{0,3}}(?=[|>])"
)
_READER = re.compile(r"[^\n|;&]{0,300}+")
_PIPED_PAIR = re.compile(
    rf"{_ECHO}\\{{0,4}}[\"']?[A-Za-z0-9_.-]{{1,64}}:(?P<pair>[^\s'\"|;&<>\\]{{3,256}}+)\\{{0,4}}[\"']?\s{{0,3}}\|"
    r"[^\n|;&]{0,100}?\bchpasswd\b"
)
# A file whose name tells what is in it, and how a command writes to it.
_CREDENTIAL_FILE = re.compile(
    r"(?i)token|secret|passw|passphrase|cred|api[_-]?key|netrc|pgpass|vault|[._-](?:pw|key)\b"
)
_FILE_AFTER = re.compile(
    r"(?:>{1,2}|\|\s{0,3}(?:sudo\s{1,3})?tee(?:\s{1,3}-a)?\s)\s{0,3}(?P<target>[^\s|;&<>]{1,200}+)"
)
_HERE_DOCUMENT = re.compile(
    r"\b(?:cat|tee)\b(?P<target>[^\n<]{1,160}+)<<-?\s{0,2}[\"']?(?P<tag>\w{1,24})[\"']?(?P<more>[^\n\\]{0,80}+)"
    r"(?:\n|\\{1,4}n)(?P<value>[^\s\\]{6,512}+)(?:\n|\\{1,4}n)(?P=tag)"
)
_ANY_VALUE = rf"(?P<value>{_QUOTED_TEXT}|[^\s'\"|;&<>\\]{{6,512}}+)"
_SET_CONTENT = re.compile(rf"(?:Set|Add)-Content(?P<target>\s[^\n|;]{{1,100}}?)\s-Value\s{{1,3}}{_ANY_VALUE}")
_STORING = re.compile(rf"(?<![\w./-])(?:{_STORE})")
# What stores give a value: an option, or a name before "=" or a space.
_STORED = re.compile(
    rf"(?:(?<=\s)(?:--(?:body|value|secret|secret-string|secret-value|plaintext|text|data|string-value|password)[\s=]|-[bvw]\s?)"
    rf"|(?<=\s)(?:--from-literal[\s=])?[\"']?[A-Za-z_][\w./:-]{{0,64}}=)\s{{0,2}}{_ANY_VALUE}"
)
_STORED_AFTER_NAME = re.compile(
    rf"(?:\s{{1,3}}-{{1,2}}[\w-]{{1,24}}){{0,2}}(?:\s{{1,3}}[\w\"'.:/-]{{1,64}}){{1,2}}?\s{{1,3}}{_ANY_VALUE}"
)
# SNMP: a community is a password, but these two are everybody's.
_COMMUNITY = re.compile(
    r"(?i)(?:snmp-server\s{1,3}community|\br[ow]community6?|\bsnmp[\s_-]{1,2}(?:v2c?\s)?community(?:[\s_-]string)?"
    r"|(?<=snmp:)\s{1,8}community(?=:))"
    r"(?:\s(?:is|name|[07])(?=\s)|\\{0,4}[\"'])?\s{0,2}[:=]?\s{0,2}\\{0,4}[\"'`]?(?!public\b|private\b|string\b)"
    r"(?P<value>[^\s\"'`,;\\]{6,64}+)"
)
_IDENTIFIED = re.compile(
    r"(?i)\bidentified\s{1,3}(?:with\s{1,3}\S{1,40}\s{1,3})?(?:by|as)\s{1,3}(?:password\s{1,3})?\\{0,4}[\"'](?P<value>[^\"'\\\n]{4,128})"
)
_HERE_STRING = re.compile(
    rf"(?P<reader>[^\n|;&<]{{1,300}}+)<<<\s{{0,3}}\\{{0,4}}(?P<value>{_QUOTED_TEXT}|[^\s'\"|;&<>\\]{{1,512}}+)"
)
# ["-p","X"] as text: the program is unknown, so the value itself must look like a password.
_LISTED_PASSWORD = re.compile(
    r"\\{0,4}[\"']-(?:[pPw]|[a-zA-Z]{0,8}u(?=[^,\n]{1,6},[^,\n]{2,70}:))\\{0,4}[\"']\s{0,2},\s{0,4}\\{0,4}[\"']"
    r"(?:[\w.@-]{1,64}:)?(?P<listed>[^\s\"'\\]{8,64})\\{0,4}[\"']"
)
_LISTED_OPTION = re.compile(r"-(?:[pPw]|[a-zA-Z]{0,8}u)\\{0,4}[\"']")
_POWERSHELL_PASSWORD = re.compile(
    r"(?i)ConvertTo-SecureString(?:\s{1,4}-AsPlainText|\s{1,4}-Force){0,2}(?:\s{1,4}-String)?\s{1,4}\\{0,4}[\"']?"
    r"(?P<secure>[^\s\"'$(\\-][^\s\"'\\]{2,256}+)"
    r"|PSCredential\s{0,4}\(?[^,\n]{1,128},\s{0,4}\\{0,4}[\"'](?P<pair>[^\s\"'$\\][^\"'\\\n]{2,256}+)[\"']"
)
# One of these begins what `_find_in_line` reads; most texts have none.
_HINT = re.compile(
    r"[ \t](?:-(?:[pPuUwakKAXst]|[a-zA-Z0-9#]{1,8}[uU]|storepass|keypass|-(?:proxy-)?user=?|-auth|-pass"
    r"|pass(?:in|out)?)"
    r"|/p(?:ass)?:|/rp:|/user:)"
)
_POSITION_WORDS = ("snmp", "cargo login", "encrypt_string", "add_user", "vault login", "net use", "sqlplus")
_PASSWORD_WORDS = ("wpa_passphrase", "change_password", "htpasswd")
_PROGRAM = re.compile(rf"(?<![\w.-]){write_alternation(PROGRAMS)}(?:\.exe)?(?=\s)")
_LINE_WORD = re.compile(r"(?:[^\s'\"|;&<>]|'[^'\n]{0,256}'|\"[^\"\n]{0,256}\"){1,512}")
_LINE_END = re.compile(r"(?<!\\)\n|[|;]|&&")
_LINE_CHARS = 600  # characters of a command that are read after its program's name
_PROGRAM_KEYS = ("command", "cmd", "program", "executable", "entrypoint", "file")


def find_command_passwords(text: str, lowered: str, *, has_names: bool) -> Iterator[CredentialSpan]:
    """Yield passwords in options, in positions, in pipes and files that a command writes, and in lists of arguments.

    `has_names` tells whether words of credentials' names are in the text.
    """
    if "echo" in text or "printf" in text or "<<" in text:
        yield from _find_written(text)
    if "identified" in lowered:
        yield from _take_values(_IDENTIFIED.finditer(text))
    if "community" in lowered:
        yield from _take_values(_COMMUNITY.finditer(text))
    if "-" in text:
        if (has_names and ("secret" in lowered or "password" in lowered)) or "put-parameter" in text:
            yield from _find_stored(text)
        if ("-p" in text or "-P" in text or "-w" in text or "curl" in text) and _LISTED_OPTION.search(text):
            for match in _LISTED_PASSWORD.finditer(text):
                value = match.group("listed")
                if (is_tangled(value) or mixes_kinds(value)) and not is_placeholder(value):
                    yield match.start("listed"), match.end("listed"), "password"
        if "-Content" in text:
            yield from _take_values(
                match for match in _SET_CONTENT.finditer(text) if _CREDENTIAL_FILE.search(match["target"])
            )
        if "securestring" in lowered or "pscredential" in lowered:
            yield from _match_passwords(_POWERSHELL_PASSWORD, text)
    elif has_names and "secret" in lowered:
        yield from _find_stored(text)
    may_begin = " -" in text or " /" in text or "\t" in text
    if (
        (may_begin and _HINT.search(text))
        or any([word in text for word in _POSITION_WORDS])  # noqa: C419 - twice as fast
        or (has_names and any([word in text for word in _PASSWORD_WORDS]))  # noqa: C419
    ):
        yield from _find_in_lines(text)


def _find_written(text: str) -> Iterator[CredentialSpan]:
    """Yield what a command writes to a file that is named for a credential, or to a login's standard input."""
    for match in _HERE_DOCUMENT.finditer(text):
        if _CREDENTIAL_FILE.search(match["target"]) or _CREDENTIAL_FILE.search(match["more"]):
            yield from _take_values([match])
    for match in _ECHOED.finditer(text):
        file = _FILE_AFTER.match(text, match.end())
        if file and _CREDENTIAL_FILE.search(file["target"]):
            yield from _take_values([match])
        elif text[match.end()] == "|":
            reader = _READER.match(text, match.end() + 1)
            if reader and _STDIN_OPTION.search(reader.group()):
                yield from _take_values([match], min_chars=1)
    for match in _HERE_STRING.finditer(text) if "<<<" in text else ():
        if _STDIN_OPTION.search(match["reader"]):
            yield from _take_values([match], min_chars=1)
    if "chpasswd" in text:
        yield from _match_passwords(_PIPED_PAIR, text)


def _take_values(matches: Iterable[re.Match[str]], *, min_chars: int = 6) -> Iterator[CredentialSpan]:
    """Yield the values of places that only a credential has; a word is one in the standard input of a login alone."""
    for match in matches:
        value = match["value"].strip("'\"")
        if len(value) < min_chars or is_placeholder(value):
            continue
        if min_chars == 1 or not (is_word_or_reference(value) or " " in value or "://" in value):
            start = match.start("value") + len(match["value"]) - len(match["value"].lstrip("'\""))
            yield start, start + len(value), "password"


def _find_stored(text: str) -> Iterator[CredentialSpan]:
    """Yield what a command stores as a secret or a setting: in an option, or after a name."""
    for store in _STORING.finditer(text):
        end = _LINE_END.search(text, store.end(), store.end() + _LINE_CHARS)
        stop = end.start() if end else min(len(text), store.end() + _LINE_CHARS)
        is_secret = "secret" in store.group() or "keyvault" in store.group() or "password" in store.group()
        if not is_secret and not re.search(r"secret|Secure|vault|var", text[max(0, store.start() - 24) : stop]):
            continue
        yield from _take_values(_STORED.finditer(text, store.end(), stop))
        named = _STORED_AFTER_NAME.match(text, store.end(), stop)
        if named and is_chosen(named["value"].strip("'\"")):
            yield from _take_values([named])


def _match_passwords(pattern: re.Pattern[str], text: str) -> Iterator[CredentialSpan]:
    for match in pattern.finditer(text):
        group = match.lastgroup
        if group is not None and not is_placeholder(match.group(group).strip("'\"")):
            yield match.start(group), match.end(group), "password"


def _find_in_lines(text: str) -> Iterator[CredentialSpan]:
    reach = 0
    for program in _PROGRAM.finditer(text):
        if program.start() < reach:
            continue  # read as a word of the command before
        line_end = _LINE_END.search(text, program.end(), program.end() + _LINE_CHARS)
        reach = line_end.start() if line_end else min(len(text), program.end() + _LINE_CHARS)
        words = [program, *_LINE_WORD.finditer(text, program.end(), reach)]
        spans = find_argument_passwords("", [word.group() for word in words], is_line=True)
        for index, (start, end) in spans.items():
            word = words[index]
            value = text[word.start() + start : word.start() + end]
            quotes = len(value) - len(value.lstrip("'\"\\"))
            stripped = value.strip("'\"\\")
            if len(stripped) >= 3 and not is_placeholder(stripped):
                first = word.start() + start + quotes
                yield first, first + len(stripped), "password"


def find_program(value: dict[Any, Any]) -> str:
    """Return the program that a JSON object names for its arguments; "" if it names none."""
    for key in _PROGRAM_KEYS:
        program = value.get(key)
        if isinstance(program, str) and program and len(program) < 256:
            return program
    return ""


def find_argument_passwords(
    program: str, arguments: Sequence[Any], *, is_line: bool = False
) -> dict[int, tuple[int, int]]:
    """Return the slice of the password in each argument that holds one, by index; `program` may be empty.

    In a line that was split here, an option that only its value makes a password's is none.
    """
    programs = set(_program_names(program))
    spans: dict[int, tuple[int, int]] = {}
    words: list[str] = []
    for index, argument in enumerate(arguments):
        if not isinstance(argument, str) or len(argument) > 1024:
            words.append("")
            continue
        start = _password_start(programs, words, argument, is_line)
        if start is not None and not is_placeholder(argument[start:].strip("'\"")):
            spans[index] = (start, len(argument))
        elif not argument.startswith("-") and len(programs) < 8:
            programs.update(_program_names(argument))
        words.append(argument)
    return spans


def _program_names(text: str) -> list[str]:
    return [word.rsplit("/", 1)[-1].removesuffix(".exe") for word in text[:256].split()]


def _password_start(programs: set[str], words: list[str], argument: str, is_line: bool) -> int | None:
    """Return where the password in an argument begins; None if it holds none."""
    previous = words[-1] if words else ""
    plain = argument.lstrip("'\"")
    quotes = len(argument) - len(plain)
    if previous == "-p" and "login" in programs and not programs.isdisjoint(LOGIN_PROGRAMS):
        return 0
    if previous in SPACED_OPTIONS and not programs.isdisjoint(SPACED_OPTIONS[previous]):
        return None if argument.startswith("-") else 0
    if previous == "-p" and not is_line and programs.isdisjoint(P_IS_NO_PASSWORD):
        return 0 if is_tangled(argument) or mixes_kinds(argument) else None
    if previous in PAIR_OPTIONS and not programs.isdisjoint(PAIR_OPTIONS[previous][1]):
        divider = next((at for at, char in enumerate(plain) if char in PAIR_OPTIONS[previous][0]), -1)
        return quotes + divider + 1 if 0 < divider < len(plain) - 1 and "$" not in plain[:divider] else None
    if "curl" in programs:
        if _CURL_USER.fullmatch(previous):
            return quotes + plain.find(":") + 1 if 0 < plain.find(":") < len(plain) - 1 else None
        bundle = _CURL_USER.match(plain)
        if bundle and ":" in plain[bundle.end() + 1 :]:
            return quotes + plain.index(":", bundle.end() + 1) + 1
    for option, its_programs in JOINED_OPTIONS.items():
        if plain.startswith(option) and len(plain) > len(option) + 2 and not programs.isdisjoint(its_programs):
            return quotes + len(option)
    return _position_start(programs, words, plain, quotes)


def _position_start(programs: set[str], words: list[str], plain: str, quotes: int) -> int | None:
    """Return where the password in an argument begins whose position tells it."""
    for program, before, words_before in POSITIONS:
        if program in programs and before in words and not plain.startswith("-"):
            after = [word for word in words[words.index(before) + 1 :] if not word.startswith("-")]
            if len(after) == words_before:
                return quotes
    if "sqlplus" in programs and "/" in plain and "@" in plain:
        return quotes + plain.index("/") + 1 if 0 < plain.index("/") < plain.index("@") - 1 else None
    if "net" in programs and "use" in words and (mixes_kinds(plain) or looks_random(plain)):
        return None if plain.startswith(("/", "\\")) else quotes
    return None


_HEADER = re.compile(r"(?i)\b(bearer|basic|token|digest|apikey|bot)\s{1,2}([A-Za-z0-9._~+/=-]{8,8192}+)")
# After the header's name any scheme may follow, or none.
_AUTHORIZATION = re.compile(
    r"(?i)authorization\\{0,4}[\"']?\]?\s{0,2}[:=,]\s{0,2}\\{0,4}[\"']?"
    r"(?:[A-Za-z][A-Za-z0-9-]{1,24}\s{1,2}|(?![A-Za-z][A-Za-z0-9-]{1,24}\s))(?P<value>[A-Za-z0-9._~+/=:-]{8,8192}+)"
)
_SESSION_NAME = re.compile(r"(?i)sid\b|sess|auth|token|jwt|csrf|xsrf|remember|login")
_COOKIE = re.compile(r"(?i)\b(set-cookie2?|cookie)\\{0,4}[\"']?\s{0,2}[:=,]\s{0,2}\\{0,4}[\"']?([^\r\n\"'\\]{8,8192}+)")
_COOKIE_OPTION = re.compile(
    r"\s(?:-b|--cookie)[\s=]\s{0,3}\\{0,4}(?:[\"'](?P<quoted>[^\r\n\"'\\]{8,8192}+)|(?P<bare>[^\s\"'\\]{8,8192}+))"
)
# Cookies that web frameworks give their sessions, as one sees them outside of headers.
_SESSION_COOKIE = re.compile(
    r"(?:JSESSIONID|PHPSESSID|ASPSESSIONID[A-Z]{0,8}|ASP\.NET_SessionId|connect\.sid|sessionid|csrftoken|_session|remember_token)"
    r"\\{0,4}[\"']?\s{0,2}[=:]\s{0,2}\\{0,4}[\"']?(?P<value>[A-Za-z0-9._~%+/=:-]{16,4096}+)"
)
_SESSION_PARTS = ("sessionid", "sessid", "_session=", "connect.sid", "csrftoken", "remember_token")


def find_headers(text: str, lowered: str) -> Iterator[CredentialSpan]:
    """Yield the credentials of authorization headers and cookies."""
    has_authorization = "authorization" in lowered
    if has_authorization or "bearer" in lowered or "apikey" in lowered:
        for match in _HEADER.finditer(text):
            scheme, value = match.group(1).lower(), match.group(2)
            if scheme != "bearer" and "authorization" not in lowered[max(0, match.start() - 32) : match.start()]:
                continue
            if not is_placeholder(value) and not is_word_or_reference(value):
                yield match.start(2), match.end(2), "basic-auth" if scheme == "basic" else "bearer-auth"
    if has_authorization:
        for match in _AUTHORIZATION.finditer(text):
            value = match["value"]
            if _is_raw_credential(value) and not is_word_or_reference(value):
                yield match.start("value"), match.end("value"), "authorization"
    if "cookie" in lowered:
        for match in _COOKIE.finditer(text):
            if _has_session_cookie(match.group(2)):
                yield match.start(2), match.end(2), "cookie"
    if " -b" in text or " --cookie" in text:
        for match in _COOKIE_OPTION.finditer(text):
            group = match.lastgroup or "bare"
            if _has_session_cookie(match[group]):
                yield match.start(group), match.end(group), "cookie"
    if any([part in lowered for part in _SESSION_PARTS]):  # noqa: C419 - twice as fast
        for match in _SESSION_COOKIE.finditer(text):
            if _is_raw_credential(match["value"]):
                yield match.start("value"), match.end("value"), "cookie"


def _is_raw_credential(value: str) -> bool:
    return looks_random(value) or is_hexadecimal(value) or is_tangled(value) or mixes_kinds(value)


def _has_session_cookie(cookies: str) -> bool:
    for pair in cookies.split(";"):
        name, equals, value = pair.partition("=")
        if equals and _is_session_cookie(name.strip(), value.strip()):
            return True
    return False


def _is_session_cookie(name: str, value: str) -> bool:
    """Tell whether a cookie authenticates a session: by its value alone, or by its name and a value that is no word."""
    if looks_random(value) or is_hexadecimal(value):
        return True
    if _SESSION_NAME.search(name) is None or is_placeholder(value):
        return False
    return is_tangled(value) or mixes_kinds(value) or is_uuid(value)


_KIND = re.compile(r"\bkind\\{0,4}[\"']?:\s{0,4}\\{0,4}[\"']?(?:Sealed)?Secret\b(?!\w)")
_DATA = re.compile(r"\b(?:stringData|data)\\{0,4}[\"']?:[ ]{0,4}(?P<brace>\{)?")
# One entry of YAML or JSON, also with escaped line ends; a block's text stands in the lines below its key.
_ENTRY = re.compile(
    r"(?P<indent>(?:^|\n|\\n)[ ]{1,16}|[{,]\s{0,40})\\{0,4}[\"']?[A-Za-z0-9._-]{1,128}\\{0,4}[\"']?:[ ]{0,4}"
    r"(?:[|>][+-]?(?:\n|\\n)\s{1,32})?\\{0,4}[\"']?(?P<value>[^\s\"'{}\[\],\\][^\s\"'{},\\]{2,8192}+)"
)
_REACH = 16_384  # characters of a manifest on each side of its kind
_DIVIDER = re.compile(r"(?:\n|\\n)---|(?:\n|\\n)[a-zA-Z]")


def find_secret_members(value: Mapping[Any, Any]) -> dict[str, str]:
    """Return the members of a JSON object that its type makes credentials, with their kind: of Secrets, of web keys."""
    if value.get("kind") == "Secret":
        return {"data": "secret", "stringData": "secret"}
    if isinstance(value.get("kty"), str):
        return dict.fromkeys(("d", "p", "q", "dp", "dq", "qi", "k"), "private-key")
    return {}


def find_manifest_secrets(text: str) -> Iterator[CredentialSpan]:
    """Yield the values in the data of Secrets."""
    reach = 0  # what was read for an earlier kind or data is not read again
    for kind in _KIND.finditer(text):
        if kind.start() < reach:
            continue
        start = max(text.rfind("\n---", reach, kind.start()), kind.start() - _REACH, reach)
        end = text.find("\n---", kind.end(), kind.end() + _REACH)
        reach = min(len(text), kind.end() + _REACH) if end < 0 else end
        yield from _find_data(text, start, reach)


def _find_data(text: str, start: int, end: int) -> Iterator[CredentialSpan]:
    """Yield the values of the data between two positions."""
    stop = start
    for data in _DATA.finditer(text, start, end):
        if data.start() < stop:
            continue
        if data["brace"]:
            close = text.find("}", data.end(), end)
            stop = close if close >= 0 else end
            begin = data.end() - 1
        else:
            divider = _DIVIDER.search(text, data.end(), end)
            stop = divider.start() if divider else end
            begin = data.end()
        for entry in _ENTRY.finditer(text, begin, stop):
            if not is_placeholder(entry["value"]):
                yield entry.start("value"), entry.end("value"), "secret"


# A table's header: short cells, of which one is a credential's name. Cells are parted by one of these.
_DELIMITERS = ("|", "\t", ";", ",", "  ")
_HEADER_CELL = re.compile(r"\s{0,40}[\w .#()/*`\"'-]{0,60}\Z")
_CELL_MARKS = " \t\"'`*\\"
_AFTER_COLUMN = re.compile(
    r"[\w.-]{0,16}[\"'`*\\)]{0,6}(?:[ ]{0,40}[|,;\t\r\n]"
    r"|\s{0,4}[vV](?i:alues)|\s{1,4}(?i:from)\s|\\{1,4}[nt]|[ ]{2}|[ ]{0,4}\Z)"
)
_LINE_BREAK = re.compile(r"\r?\n|\\{1,4}n")
_RULE = re.compile(r"[\s|:+=-]{3,}\Z")
_MAX_LINE = 2000  # characters of a line of a table
_MAX_ROWS = 1000
_INSERT = re.compile(r"(?i)(?:insert\s{1,4}(?:ignore\s{1,4})?into|copy)\s{1,4}[^\s()]{1,80}\s{0,4}\Z")
_VALUES = re.compile(r"(?i)\s{0,8}values\s{0,8}|\s{1,4}from\s{1,4}stdin[^\n]{0,80}\n")
_ROW_END = re.compile(r"\)\s{0,4},?\s{0,8}(?=\()|\)|\n\n")


def find_column_secrets(text: str, lowered: str, words: Sequence[re.Match[str]]) -> Iterator[CredentialSpan]:
    """Yield the values of columns named for credentials: of Markdown and terminal tables, CSV and INSERT statements.

    `lowered` is the text in lower case; `words` are the telling words in it.
    """
    reach = 0
    for word in words:
        if word.start() < reach or text[word.start() - 1] in ".$@:=<" or not _AFTER_COLUMN.match(text, word.end()):
            continue
        first = max(reach, word.start() - _MAX_LINE)
        escaped = text.rfind("\\n", first, word.start())
        start = max(first, text.rfind("\n", first, word.start()) + 1, escaped + 2 if escaped >= 0 else 0)
        end, following = _find_line_end(text, word.end())
        reach = end
        if end - start > _MAX_LINE:
            continue
        opening = text.rfind("(", start, word.start())
        if opening >= 0 and _INSERT.search(text, start, opening):
            yield from _find_inserted(text, opening)
            continue
        delimiter = next((mark for mark in _DELIMITERS if mark in text[start:end].strip()), "")
        header = _split_cells(text, start, end, delimiter) if delimiter else []
        # A sentence may lead to a table, in its first line: the first cells are not looked at.
        own = next((index for index, cell in enumerate(header) if word.start() < cell[1]), 0)
        is_header = len(header) > 1 and all(_HEADER_CELL.match(text, *cell) for cell in header[max(own, 1) :])
        if not is_header and delimiter != "|" and len(header) != 2:
            continue
        names = {index: text[slice(*cell)].strip(_CELL_MARKS) for index, cell in enumerate(header)}
        names = {index: name for index, name in names.items() if len(name) < 40 and is_credential_name(name)}
        if names and (delimiter == "|" or len(header) == 2):
            yield from _judge_cells(text, header, {index + 1: name for index, name in names.items()}, is_sure=False)
        if names and is_header:
            for _ in range(_MAX_ROWS):
                start, (end, following) = following, _find_line_end(text, following)
                if start >= len(text) or end - start > _MAX_LINE:
                    break
                if _RULE.match(text, start, end):
                    continue
                cells = _split_cells(text, start, end, delimiter)
                before = len(header) - len(cells)  # cells of the sentence
                if before < 0 or (before and delimiter != ",") or len(cells) < 2:
                    break
                yield from _judge_cells(
                    text, cells, {index - before: name for index, name in names.items() if index >= before}
                )
                reach = end


def _find_line_end(text: str, start: int) -> tuple[int, int]:
    """Return where a line ends, and where the next one begins."""
    line_break = _LINE_BREAK.search(text, start, start + _MAX_LINE + 1)
    return line_break.span() if line_break else (min(len(text), start + _MAX_LINE + 1), len(text))


def _split_cells(text: str, start: int, end: int, delimiter: str) -> list[tuple[int, int]]:
    """Return where the cells of a line are; a delimiter within quotes parts nothing."""
    cells: list[tuple[int, int]] = []
    position = start
    while position <= end:
        quote = text[position : position + 1]
        close = text.find(quote, position + 1, end) if quote in ("'", '"') and delimiter != "|" else -1
        stop = text.find(delimiter, max(position, close), end)
        stop = end if stop < 0 else stop
        cells.append((position, stop))
        position = stop + len(delimiter)
        while delimiter in ("  ", ",") and text[position : position + 1] == " " and position < end:
            position += 1
    return cells


def _judge_cells(
    text: str, cells: list[tuple[int, int]], names: dict[int, str], *, is_sure: bool = True
) -> Iterator[CredentialSpan]:
    for index, name in names.items():
        if index >= len(cells):
            continue
        raw = text[slice(*cells[index])]
        value = raw.strip(_CELL_MARKS)
        is_value = is_credential(name, value) and any(map(str.isdigit, value)) if is_sure else is_chosen(value)
        if is_value and len(value) >= 6 and not is_word_or_reference(value) and " " not in value:
            start = cells[index][0] + raw.index(value)
            yield start, start + len(value), "password" if names_password(name) else "secret"


def _find_inserted(text: str, opening: int) -> Iterator[CredentialSpan]:
    """Yield the credentials of an INSERT statement, whose columns' names stand in the parenthesis at `opening`."""
    close = text.find(")", opening, opening + _MAX_LINE)
    values = _VALUES.match(text, close + 1) if close >= 0 else None
    if values is None:
        return
    header = _split_cells(text, opening + 1, close, ",")
    names = {index: text[slice(*cell)].strip(_CELL_MARKS) for index, cell in enumerate(header)}
    names = {index: name for index, name in names.items() if is_credential_name(name)}
    position = values.end()
    for _ in range(_MAX_ROWS):
        if text[position - 1] == "\n" and "stdin" in values.group().lower():
            end, following = _find_line_end(text, position)
            yield from _judge_cells(text, _split_cells(text, position, end, "\t"), names)
            position = following
            if end >= len(text) or text.startswith("\\.", position):
                break
            continue
        if text[position : position + 1] != "(":
            break
        row_end = _ROW_END.search(text, position, position + _MAX_LINE)
        if row_end is None:
            break
        yield from _judge_cells(text, _split_cells(text, position + 1, row_end.start(), ","), names)
        position = row_end.end()
