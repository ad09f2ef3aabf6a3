"""Credentials that betray themselves by their own form: provider tokens, private keys, passwords in addresses.

Patterns that detect-secrets maintains are taken from its detectors; ours stand beside them where it has none, or where
its own stops at a tool's default form. Nothing here looks at what a value is called: that is `assignments`.
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

Span = tuple[int, int, str]  # start, end, kind
_KEY_LIMIT = 65_536  # characters a private key block may span

# A gate is what a match must also be, where its form alone is not enough.
Gate = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class _Rule:
    kind: str
    anchors: tuple[str, ...]  # each match begins with one of these: they are all that clean text is searched for
    patterns: tuple[re.Pattern[str], ...]  # group 1, where there is one, is the part to hide
    gate: Gate | None = None


def _rule(kind: str, anchors: str, *patterns: str, gate: Gate | None = None) -> _Rule:
    compiled = tuple(re.compile(pattern) for pattern in patterns)
    return _Rule(kind, tuple(anchors.split()), compiled, gate)


def _kept(kind: str, anchors: str, detector: type, *, gate: Gate | None = None) -> _Rule:
    """Make a rule of those patterns of a detect-secrets detector that begin with an anchor of ours."""
    return _Rule(kind, tuple(anchors.split()), tuple(detector.denylist), gate)  # type: ignore[attr-defined]


def _valid_jwt(token: str) -> bool:
    return bool(JwtTokenDetector.is_formally_valid(token)) or token.count(".") == 2


def _tail_is_random(token: str) -> bool:
    return looks_random(re.split(r"[-_.]", token, maxsplit=1)[-1])


# Possessive and bounded quantifiers throughout: a hostile text costs no more than a clean one of its length.
_T = r"[A-Za-z0-9_-]"
_RULES: tuple[_Rule, ...] = (
    _kept("aws-key", "AKIA ASIA ABIA ACCA", AWSKeyDetector),
    _kept("azure-key", "AccountKey=", AzureStorageKeyDetector),
    _kept("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", GitHubTokenDetector),
    _kept(
        "gitlab-token",
        "glpat- gldt- glft- glsoat- glrt- GR1348941 glcbt- glimt- glptt- glagent- gloas-",
        GitLabTokenDetector,
    ),
    _kept("slack-token", "xoxa- xoxb- xoxp- xoxo- xoxs- xoxr- https://hooks.slack.com/", SlackDetector),
    _kept("stripe-key", "sk_live_ rk_live_", StripeDetector),
    _kept("sendgrid-key", "SG.", SendGridDetector),
    _kept("pypi-token", "pypi-", PypiTokenDetector),
    _kept("square-token", "sq0csp-", SquareOAuthDetector),
    # detect-secrets 1.5 has none of what follows, or only an older form of it: PyPI's (its pattern wants one host's
    # tokens at their full length), OpenAI's keys (its pattern takes quadratic time), Slack's app and rotating tokens,
    # GitHub's fine-grained ones, Stripe's test keys, and tokens that a tool's output cut short.
    _rule("pypi-token", "pypi-", rf"pypi-AgEIcHlwaS5vcmc{_T}{{4,512}}+"),
    _rule("pypi-token", "pypi-", rf"(?<!-)pypi-{_T}{{16,512}}+", gate=_tail_is_random),
    _rule("anthropic-key", "sk-ant-", rf"sk-ant-{_T}{{16,512}}+"),
    _rule(
        "openai-key",
        "sk-",
        rf"sk-(?:proj|svcacct|admin|None)-{_T}{{20,512}}+",
        rf"sk-or-v1-{_T}{{20,128}}+",
        r"sk-[A-Za-z0-9]{20,128}+",
        rf"sk-lf-{_T}{{20,64}}+",
        gate=_tail_is_random,
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
        gate=_tail_is_random,
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
        gate=_tail_is_random,
    ),
    _rule(
        "google-key",
        "AIza ya29. GOCSPX- 1//0",
        r"AIza[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])",
        r"ya29\.[A-Za-z0-9_.-]{20,1024}+",
        r"GOCSPX-[A-Za-z0-9_-]{20,64}+",
        r"1//0[A-Za-z0-9_-]{30,256}+",
    ),
    _rule("npm-token", "npm_", r"npm_[A-Za-z0-9]{36}(?![A-Za-z0-9])", gate=_tail_is_random),
    _rule(
        "hugging-face-token",
        "hf_ api_org_",
        r"hf_[A-Za-z0-9]{30,64}+",
        r"api_org_[A-Za-z0-9]{30,64}+",
        gate=_tail_is_random,
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
        gate=_tail_is_random,
    ),
    _rule(
        "jwt",
        "eyJ",
        r"eyJ[A-Za-z0-9_-]{8,8192}+\.[A-Za-z0-9_-]{8,16384}+(?:\.[A-Za-z0-9_-]{0,4096}+)?+",
        gate=_valid_jwt,
    ),
    _rule(
        "signature",
        "X-Amz-Signature= X-Goog-Signature= X-Amz-Security-Token= sig=",
        r"[XA-Za-z-]{3,24}=([A-Za-z0-9%/+_=-]{32,4096}+)",
        gate=looks_random,
    ),
)
# Telegram's bot tokens begin with the bot's number, Azure's client secrets with three letters of no meaning: so they
# are found by what stands inside them.
_WITHIN = re.compile(":AA|8Q~")
_WITHIN_RULES = {
    ":AA": (_rule("telegram-token", ":AA", r":(AA[A-Za-z0-9_-]{33})(?![A-Za-z0-9_-])", gate=looks_random),),
    "8Q~": (_rule("azure-key", "8Q~", r"8Q~[A-Za-z0-9_.~-]{31,37}+"),),
}
# Of an address only the password is hidden, or the token that stands where a user's name would.
_ADDRESS = re.compile(
    r"://(?P<user>[^\s:/@\"'`<>\\]{0,512}+)(?::(?P<password>[^\s/@\"'`<>\\]{1,512}+))?+@[A-Za-z0-9_.\[$%{-]"
)
_MARKER = re.compile(r"-----(BEGIN|END) [A-Z0-9 ]{0,48}PRIVATE KEY(?: BLOCK)?-----")
_KEY_LINE = re.compile(r"[A-Za-z0-9+/=]{24,}")
# What else stands in a key's body: escapes (\n, \\n), a viewer's line numbers (12→), the headers of old formats.
_KEY_GAP = 24  # characters between two lines of a body
# detect-secrets groups parts of these for other reasons; the whole match is the credential.
_WHOLE = frozenset({"github-token", "gitlab-token", "aws-key"})
_SHORTEST = 19  # characters of the shortest credential that is known by its form


@cache
def _search() -> tuple[re.Pattern[str], dict[str, tuple[_Rule, ...]]]:
    by_anchor: dict[str, list[_Rule]] = {}
    for rule in _RULES:
        for anchor in rule.anchors:
            by_anchor.setdefault(anchor, []).append(rule)
    # A shorter anchor that begins a longer one answers for both, since the search stops at the first that fits.
    for anchor, rules in by_anchor.items():
        for shorter in by_anchor:
            if shorter != anchor and anchor.startswith(shorter):
                rules.extend(rule for rule in by_anchor[shorter] if rule not in rules)
    longest_first = sorted(by_anchor, key=len, reverse=True)
    # A token begins where a word does, or behind an escape such as the "\\n" in "\\nAKIA...".
    pattern = re.compile(r"(?:(?<![A-Za-z0-9_])|(?<=\\[ntr]))(?:" + "|".join(map(re.escape, longest_first)) + ")")
    return pattern, {anchor: tuple(rules) for anchor, rules in by_anchor.items()}


def find_tokens(text: str) -> Iterator[Span]:
    """Yield the credentials that are known by their form; spans may overlap."""
    words = [word for word in text.split() if len(word) >= _SHORTEST]  # most of a text is never looked at twice
    pattern, rules = _search()
    if words and pattern.search("\n".join(words)):
        position = 0
        for word in words:
            position = text.find(word, position)
            for hit in pattern.finditer(text, position, position + len(word)):
                yield from _known(rules[hit.group()], text, hit.start())
            position += len(word)
    for hit in _WITHIN.finditer(text):
        yield from _known(_WITHIN_RULES[hit.group()], text, hit.start())
    yield from _address_passwords(text)


def _known(rules: tuple[_Rule, ...], text: str, start: int) -> Iterator[Span]:
    for rule in rules:
        span = _match(rule, text, start)
        if span is not None:
            yield span
            return


def _match(rule: _Rule, text: str, start: int) -> Span | None:
    for pattern in rule.patterns:
        found = pattern.match(text, start)
        if found is None:
            continue
        group = 1 if pattern.groups and found.group(1) is not None and rule.kind not in _WHOLE else 0
        if rule.gate is None or rule.gate(found.group(group)):
            return found.start(group), found.end(group), rule.kind
    return None


def _address_passwords(text: str) -> Iterator[Span]:
    """Yield the passwords of addresses (postgres://user:password@host), and a token in their place; the rest stays."""
    for found in _ADDRESS.finditer(text):
        user, password = found.group("user"), found.group("password")
        if password is not None and not is_placeholder(password.strip("[]()")):
            yield found.start("password"), found.end("password"), "password"
        elif password is None and looks_random(user):
            yield found.start("user"), found.end("user"), "token"


def find_private_keys(text: str) -> Iterator[Span]:
    """Yield private key blocks: whole, with escaped line ends, or cut off at either end."""
    if "PRIVATE KEY" not in text:
        return
    markers = list(_MARKER.finditer(text))
    done = 0
    for number, marker in enumerate(markers):
        if marker.group(1) == "END":
            if marker.start() >= done:  # its beginning was cut off
                lines = _lines(text, max(done, marker.start() - _KEY_LIMIT // 8), marker.start())
                if lines and marker.start() - lines[-1].end() <= _KEY_GAP:
                    yield _run(list(reversed(lines)))[-1].start(), marker.end(), "private-key"
            done = marker.end()
            continue
        following = markers[number + 1] if number + 1 < len(markers) else None
        stop = min(following.start() if following else len(text), marker.end() + _KEY_LIMIT)
        lines = _lines(text, marker.end(), stop)
        if lines and lines[0].start() - marker.end() <= 16 * _KEY_GAP:
            last = _run(lines)[-1].end()
            whole = following is not None and following.group(1) == "END" and stop - last <= 4 * _KEY_GAP
            done = following.end() if whole and following else last
            yield marker.start(), done, "private-key"


def _lines(text: str, start: int, end: int) -> list[re.Match[str]]:
    return list(_KEY_LINE.finditer(text, start, end))


def _run(lines: list[re.Match[str]]) -> list[re.Match[str]]:
    """Return the first lines that follow one another closely, in whichever direction they are given."""
    for index, (line, other) in enumerate(pairwise(lines)):
        if max(other.start() - line.end(), line.start() - other.end()) > _KEY_GAP:
            return lines[: index + 1]
    return lines
