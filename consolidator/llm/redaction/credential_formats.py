"""Finds credentials by their own form: provider tokens, private keys, passwords in URLs.

Patterns come from detect-secrets where it maintains good ones; the others are ours. The name of a value does not matter
here: `assignments` reads names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from detect_secrets.plugins.aws import AWSKeyDetector
from detect_secrets.plugins.azure_storage_key import AzureStorageKeyDetector
from detect_secrets.plugins.github_token import GitHubTokenDetector
from detect_secrets.plugins.gitlab_token import GitLabTokenDetector
from detect_secrets.plugins.jwt import JwtTokenDetector
from detect_secrets.plugins.pypi_token import PypiTokenDetector
from detect_secrets.plugins.sendgrid import SendGridDetector
from detect_secrets.plugins.slack import SlackDetector
from detect_secrets.plugins.square_oauth import SquareOAuthDetector
from detect_secrets.plugins.stripe import StripeDetector

from consolidator.llm.redaction.value_shapes import is_placeholder, looks_random

CredentialSpan = tuple[int, int, str]  # start, end, kind
_KEY_LIMIT = 65_536  # characters of a private key block

# An extra condition on a match whose form alone is not enough.
MatchCondition = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class _TokenRule:
    kind: str
    anchors: tuple[str, ...]  # each match begins with one of these; only they are searched for in clean text
    patterns: tuple[re.Pattern[str], ...]  # group 1, if there is one, is the part to hide
    condition: MatchCondition | None = None


def _rule(kind: str, anchors: str, *patterns: str, condition: MatchCondition | None = None) -> _TokenRule:
    compiled = tuple(re.compile(pattern) for pattern in patterns)
    return _TokenRule(kind, tuple(anchors.split()), compiled, condition)


def _detector_rule(kind: str, anchors: str, detector: type, *, condition: MatchCondition | None = None) -> _TokenRule:
    """Make a rule from the patterns of a detect-secrets detector."""
    return _TokenRule(kind, tuple(anchors.split()), tuple(detector.denylist), condition)  # type: ignore[attr-defined]


def _is_jwt(token: str) -> bool:
    return bool(JwtTokenDetector.is_formally_valid(token)) or token.count(".") == 2


def _has_random_tail(token: str) -> bool:
    return looks_random(re.split(r"[-_.]", token, maxsplit=1)[-1])


# All quantifiers are possessive and bounded: a hostile text costs no more than a clean one of its length.
_TOKEN_CHAR = r"[A-Za-z0-9_-]"
_RULES: tuple[_TokenRule, ...] = (
    _detector_rule("aws-key", "AKIA ASIA ABIA ACCA", AWSKeyDetector),
    _detector_rule("azure-key", "AccountKey=", AzureStorageKeyDetector),
    _detector_rule("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", GitHubTokenDetector),
    _detector_rule(
        "gitlab-token",
        "glpat- gldt- glft- glsoat- glrt- GR1348941 glcbt- glimt- glptt- glagent- gloas-",
        GitLabTokenDetector,
    ),
    _detector_rule("slack-token", "xoxa- xoxb- xoxp- xoxo- xoxs- xoxr- https://hooks.slack.com/", SlackDetector),
    _detector_rule("stripe-key", "sk_live_ rk_live_", StripeDetector),
    _detector_rule("sendgrid-key", "SG.", SendGridDetector),
    _detector_rule("pypi-token", "pypi-", PypiTokenDetector),
    _detector_rule("square-token", "sq0csp-", SquareOAuthDetector),
    # detect-secrets 1.5 lacks the following or matches only older forms: PyPI (its pattern requires one host and the
    # full length), OpenAI (its pattern takes quadratic time), Slack's app and rotating tokens, GitHub's fine-grained
    # tokens, Stripe's test keys, and tokens truncated by a tool's output.
    _rule("pypi-token", "pypi-", rf"pypi-AgEIcHlwaS5vcmc{_TOKEN_CHAR}{{4,512}}+"),
    _rule("pypi-token", "pypi-", rf"(?<!-)pypi-{_TOKEN_CHAR}{{16,512}}+", condition=_has_random_tail),
    _rule("anthropic-key", "sk-ant-", rf"sk-ant-{_TOKEN_CHAR}{{16,512}}+"),
    _rule(
        "openai-key",
        "sk-",
        rf"sk-(?:proj|svcacct|admin|None)-{_TOKEN_CHAR}{{20,512}}+",
        rf"sk-or-v1-{_TOKEN_CHAR}{{20,128}}+",
        r"sk-[A-Za-z0-9]{20,128}+",
        rf"sk-lf-{_TOKEN_CHAR}{{20,64}}+",
        condition=_has_random_tail,
    ),
    _rule(
        "github-token",
        "github_pat_ ghp_ gho_ ghu_ ghs_ ghr_",
        r"github_pat_[A-Za-z0-9_]{22,255}+",
        r"gh[pousr]_[A-Za-z0-9]{30,255}+",
    ),
    _rule(
        "slack-token",
        "xapp- xoxe xoxb- xoxp- xwfp-",
        r"xapp-\d-[A-Za-z0-9-]{20,255}+",
        r"xoxe(?:\.xox[bp])?-\d-[A-Za-z0-9-]{20,512}+",
        r"xox[bp]-[A-Za-z0-9-]{20,255}+",
        r"xwfp-[A-Za-z0-9-]{20,255}+",
        condition=_has_random_tail,
    ),
    _rule(
        "discord-webhook",
        "https://discord.com/api/webhooks/ https://discordapp.com/api/webhooks/",
        r"https://discord(?:app)?\.com/api/webhooks/\d{5,32}/([A-Za-z0-9_-]{40,128}+)",
    ),
    _rule(
        "stripe-key",
        "sk_live_ sk_test_ rk_live_ rk_test_ whsec_",
        r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,255}+",
        r"whsec_[A-Za-z0-9+/=]{24,128}+",
        condition=_has_random_tail,
    ),
    _rule(
        "google-key",
        "AIza ya29. GOCSPX- 1//0",
        r"AIza[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])",
        r"ya29\.[A-Za-z0-9_.-]{20,1024}+",
        r"GOCSPX-[A-Za-z0-9_-]{20,64}+",
        r"1//0[A-Za-z0-9_-]{30,256}+",
    ),
    _rule("npm-token", "npm_", r"npm_[A-Za-z0-9]{36}(?![A-Za-z0-9])", condition=_has_random_tail),
    _rule(
        "hugging-face-token",
        "hf_ api_org_",
        r"hf_[A-Za-z0-9]{30,64}+",
        r"api_org_[A-Za-z0-9]{30,64}+",
        condition=_has_random_tail,
    ),
    _rule("twilio-key", "SK", r"SK[0-9a-f]{32}(?![A-Za-z0-9])"),
    _rule("mailgun-key", "key-", r"key-[0-9a-f]{32}(?![A-Za-z0-9])"),
    _rule("databricks-token", "dapi", r"dapi[0-9a-f]{32}(?:-\d)?(?![A-Za-z0-9])"),
    _rule("vault-token", "hvs. hvb.", r"hv[sb]\.[A-Za-z0-9_-]{24,512}+"),
    _rule("digitalocean-token", "dop_v1_ doo_v1_ dor_v1_", r"do[opr]_v1_[0-9a-f]{64}"),
    _rule("shopify-token", "shpat_ shpss_ shpca_ shppa_", r"shp(?:at|ss|ca|pa)_[0-9a-fA-F]{32}"),
    _rule("docker-token", "dckr_pat_ dckr_oat_", r"dckr_[po]at_[A-Za-z0-9_-]{20,64}+"),
    _rule("atlassian-token", "ATATT3 ATCTT3", r"AT[AC]TT3[A-Za-z0-9_=-]{40,512}+"),
    _rule("age-key", "AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[0-9A-Z]{58}"),
    _rule(
        "service-token",
        "lin_api_ ntn_ sbp_ figd_ gsk_ xai- r8_ pplx- glsa_ NRAK- pscale_ PMAK- nfp_ tskey- rubygems_ sntrys_ sntryu_ "
        "dp.pt. fo1_ fm2_ shippo_live_ rnd_ phx_ ddp_ pat-na1- pat-eu1- secret_ cio tvly- fc- jina_ AQ.Ab8",
        r"lin_api_[A-Za-z0-9]{32,64}+",
        r"ntn_[A-Za-z0-9]{40,64}+",
        r"sbp_[0-9a-f]{40}",
        r"figd_[A-Za-z0-9_-]{36,64}+",
        r"gsk_[A-Za-z0-9]{40,64}+",
        r"xai-[A-Za-z0-9]{60,128}+",
        r"r8_[A-Za-z0-9]{35,48}+",
        r"pplx-[A-Za-z0-9]{40,64}+",
        r"glsa_[A-Za-z0-9]{32}_[0-9a-f]{8}",
        r"NRAK-[A-Z0-9]{27}",
        r"pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.-]{30,64}+",
        r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}",
        r"nfp_[A-Za-z0-9]{36}",
        r"tskey-[a-z]{2,10}-[A-Za-z0-9-]{20,64}+",
        r"rubygems_[0-9a-f]{48}",
        r"sntry[su]_[A-Za-z0-9+/=_]{40,512}+",
        r"dp\.pt\.[A-Za-z0-9]{40,44}",
        r"fo1_[A-Za-z0-9_-]{40,128}+",
        r"fm2_[A-Za-z0-9+/=,_]{40,4096}+",
        r"shippo_live_[0-9a-f]{40}",
        r"rnd_[A-Za-z0-9]{28,40}+",
        r"phx_[A-Za-z0-9]{40,48}+",
        r"ddp_[A-Za-z0-9]{36}",
        r"pat-(?:na|eu)1-[0-9a-f-]{36}",
        r"secret_[A-Za-z0-9]{43}(?![A-Za-z0-9])",
        r"cio[A-Za-z0-9]{32}(?![A-Za-z0-9])",
        r"tvly-[A-Za-z0-9-]{32,64}+",
        r"fc-[0-9a-f]{32}(?![A-Za-z0-9])",
        r"jina_[A-Za-z0-9_-]{50,80}+",
        r"AQ\.Ab8[A-Za-z0-9_-]{40,128}+",
        condition=_has_random_tail,
    ),
    _rule(
        "jwt",
        "eyJ",
        r"eyJ[A-Za-z0-9_-]{8,8192}+\.[A-Za-z0-9_-]{8,16384}+(?:\.[A-Za-z0-9_-]{0,4096}+)?+",
        condition=_is_jwt,
    ),
    _rule(
        "signature",
        "X-Amz-Signature= X-Goog-Signature= X-Amz-Security-Token= sig=",
        r"[XA-Za-z-]{3,24}=([A-Za-z0-9%/+_=-]{32,4096}+)",
        condition=looks_random,
    ),
)
# Telegram's bot tokens begin with the bot's number, Azure's client secrets with three arbitrary letters: both are found
# by a fixed part inside them.
_INNER_ANCHOR = re.compile(":AA|8Q~")
_INNER_RULES = {
    ":AA": (_rule("telegram-token", ":AA", r":(AA[A-Za-z0-9_-]{33})(?![A-Za-z0-9_-])", condition=looks_random),),
    "8Q~": (_rule("azure-key", "8Q~", r"8Q~[A-Za-z0-9_.~-]{31,37}+"),),
}
# In a URL only the password is hidden, or a token in place of the user name.
_URL_CREDENTIALS = re.compile(
    r"://(?P<user>[^\s:/@\"'`<>\\]{0,512}+)(?::(?P<password>[^\s/@\"'`<>\\]{1,512}+))?+@[A-Za-z0-9_.\[$%{-]"
)
_KEY_MARKER = re.compile(r"-----(BEGIN|END) [A-Z0-9 ]{0,48}PRIVATE KEY(?: BLOCK)?-----")
_KEY_LINE = re.compile(r"[A-Za-z0-9+/=]{24,}")
# Between two lines of a key there may be escapes (\n, \\n), a viewer's line numbers (12→), headers of old formats.
_KEY_GAP = 24  # characters
# The groups in detect-secrets' patterns for these are not the credential: the whole match is.
_WHOLE_MATCH_KINDS = frozenset({"github-token", "gitlab-token", "aws-key"})
_MIN_CREDENTIAL_CHARS = 19  # characters of the shortest credential with a known form


@cache
def _compile_search() -> tuple[re.Pattern[str], dict[str, tuple[_TokenRule, ...]]]:
    by_anchor: dict[str, list[_TokenRule]] = {}
    for rule in _RULES:
        for anchor in rule.anchors:
            by_anchor.setdefault(anchor, []).append(rule)
    # The search returns only the longest anchor at a position: its rules include those of the shorter ones.
    for anchor, rules in by_anchor.items():
        for shorter in by_anchor:
            if shorter != anchor and anchor.startswith(shorter):
                rules.extend(rule for rule in by_anchor[shorter] if rule not in rules)
    longest_first = sorted(by_anchor, key=len, reverse=True)
    # A token begins where a word does, or after an escape such as the "\\n" in "\\nAKIA...".
    pattern = re.compile(r"(?:(?<![A-Za-z0-9_])|(?<=\\[ntr]))(?:" + "|".join(map(re.escape, longest_first)) + ")")
    return pattern, {anchor: tuple(rules) for anchor, rules in by_anchor.items()}


def find_tokens(text: str) -> Iterator[CredentialSpan]:
    """Yield the credentials with a known form; spans may overlap."""
    words = [word for word in text.split() if len(word) >= _MIN_CREDENTIAL_CHARS]  # most texts need no further search
    pattern, rules = _compile_search()
    if words and pattern.search("\n".join(words)):
        position = 0
        for word in words:
            position = text.find(word, position)
            for match in pattern.finditer(text, position, position + len(word)):
                yield from _apply_rules(rules[match.group()], text, match.start())
            position += len(word)
    for match in _INNER_ANCHOR.finditer(text):
        yield from _apply_rules(_INNER_RULES[match.group()], text, match.start())
    yield from _find_url_passwords(text)


def _apply_rules(rules: tuple[_TokenRule, ...], text: str, start: int) -> Iterator[CredentialSpan]:
    for rule in rules:
        span = _match_rule(rule, text, start)
        if span is not None:
            yield span
            return


def _match_rule(rule: _TokenRule, text: str, start: int) -> CredentialSpan | None:
    for pattern in rule.patterns:
        match = pattern.match(text, start)
        if match is None:
            continue
        group = 1 if pattern.groups and match.group(1) is not None and rule.kind not in _WHOLE_MATCH_KINDS else 0
        if rule.condition is None or rule.condition(match.group(group)):
            return match.start(group), match.end(group), rule.kind
    return None


def _find_url_passwords(text: str) -> Iterator[CredentialSpan]:
    """Yield the passwords in URLs (postgres://user:password@host), or a token in place of the user name."""
    for match in _URL_CREDENTIALS.finditer(text):
        user, password = match.group("user"), match.group("password")
        if password is not None and not is_placeholder(password.strip("[]()")):
            yield match.start("password"), match.end("password"), "password"
        elif password is None and looks_random(user):
            yield match.start("user"), match.end("user"), "token"


def find_private_keys(text: str) -> Iterator[CredentialSpan]:
    """Yield private key blocks: complete, with escaped line ends, or truncated at either end."""
    if "PRIVATE KEY" not in text:
        return
    markers = list(_KEY_MARKER.finditer(text))
    consumed = 0
    for number, marker in enumerate(markers):
        if marker.group(1) == "END":
            if marker.start() >= consumed:  # its beginning was truncated
                lines = _find_key_lines(text, max(consumed, marker.start() - _KEY_LIMIT // 8), marker.start())
                if lines and marker.start() - lines[-1].end() <= _KEY_GAP:
                    yield _take_adjacent(list(reversed(lines)))[-1].start(), marker.end(), "private-key"
            consumed = marker.end()
            continue
        following = markers[number + 1] if number + 1 < len(markers) else None
        stop = min(following.start() if following else len(text), marker.end() + _KEY_LIMIT)
        lines = _find_key_lines(text, marker.end(), stop)
        if lines and lines[0].start() - marker.end() <= 16 * _KEY_GAP:
            last = _take_adjacent(lines)[-1].end()
            is_complete = following is not None and following.group(1) == "END" and stop - last <= 4 * _KEY_GAP
            consumed = following.end() if is_complete and following else last
            yield marker.start(), consumed, "private-key"


def _find_key_lines(text: str, start: int, end: int) -> list[re.Match[str]]:
    return list(_KEY_LINE.finditer(text, start, end))


def _take_adjacent(lines: list[re.Match[str]]) -> list[re.Match[str]]:
    """Return the first lines that are close to one another, in text order or reversed."""
    for index, (line, other) in enumerate(pairwise(lines)):
        if max(other.start() - line.end(), line.start() - other.end()) > _KEY_GAP:
            return lines[: index + 1]
    return lines
