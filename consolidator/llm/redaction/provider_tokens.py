"""The forms of credentials that providers document: a prefix that tells them, and what follows it.

A prefix alone is an ordinary word now and then, so what follows must look random unless its form is narrow enough.
Lengths are lower bounds where a provider has used several: a token that a tool's output truncated is one, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from consolidator.llm.redaction.value_shapes import is_placeholder, is_varied, looks_random

# An extra condition on a match whose form alone is not enough.
MatchCondition = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class TokenRule:
    """One form of credential."""

    kind: str
    anchors: tuple[str, ...]  # each match begins with one of these; only they are searched for in clean text
    pattern: re.Pattern[str]  # group 1, if there is one, is the part to hide
    condition: MatchCondition | None = None


def has_random_tail(token: str) -> bool:
    """Tell whether what follows a token's prefix looks random, or is too long without a break to be anything else."""
    tail = re.split(r"[-_.~]", token, maxsplit=1)[-1]
    if looks_random(tail):
        return True
    return not is_placeholder(token) and ((is_varied(token) and has_solid_run(token)) or has_long_run(tail))


def has_solid_run(token: str) -> bool:
    """Tell whether 16 letters and digits follow one another, as in no name that is made of short words."""
    return re.search(r"[A-Za-z0-9]{16}", token) is not None


def has_long_run(text: str) -> bool:
    """Tell whether 30 letters and digits follow one another, with a digit among them, however they repeat."""
    return any(any(map(str.isdigit, run)) for run in re.findall(r"[A-Za-z0-9]{30,}", text))


def rule(kind: str, anchors: str, pattern: str, *, condition: MatchCondition | None = None) -> TokenRule:
    """Make a rule; `anchors` are separated by spaces, and the pattern begins with one of them."""
    return TokenRule(kind, tuple(anchors.split()), re.compile(pattern), condition)


def _prefixed(kind: str, prefixes: str, tail: str) -> TokenRule:
    """Make the rule of tokens that are a prefix and a random tail."""
    alternatives = "|".join(map(re.escape, prefixes.split()))
    return rule(kind, prefixes, f"(?:{alternatives}){tail}", condition=has_random_tail)


# All quantifiers are possessive and bounded: a hostile text costs no more than a clean one of its length.
_TAIL_16 = "[A-Za-z0-9_-]{16,1024}+"
_TAIL_20 = "[A-Za-z0-9_=-]{20,1024}+"
_TAIL_30 = "[A-Za-z0-9_=.-]{30,1024}+"
_BASE64 = "[A-Za-z0-9+/_=-]{30,4096}+"
_HEX_32 = r"[0-9a-fA-F]{32,64}+(?:-\w{1,4}|(?!-\w))"

TOKEN_RULES: tuple[TokenRule, ...] = (
    # Clouds
    rule("aws-key", "AKIA ASIA ABIA ACCA A3T", r"(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _prefixed("aws-key", "ABSK bedrock-api-key-", _BASE64),
    rule("azure-key", "AccountKey=", r"AccountKey=([A-Za-z0-9+/=]{40,128}+)"),
    _prefixed("alibaba-key", "LTAI", "[A-Za-z0-9]{12,32}+"),
    _prefixed("tencent-key", "AKID", "[A-Za-z0-9]{32}"),
    _prefixed("digitalocean-token", "dop_v1_ doo_v1_ dor_v1_", "[0-9a-f]{40,64}+"),
    _prefixed("cloudflare-key", "v1.0-", r"[0-9a-f]{24}-[0-9a-f]{40,256}+"),
    _prefixed("yandex-key", "AQVN YCA YCP y0_", "[A-Za-z0-9_-]{35,64}+"),
    rule("yandex-key", "t1.", r"t1\.[A-Za-z0-9_-]{4,512}+={0,2}\.[A-Za-z0-9_-]{60,128}+={0,2}"),
    rule("google-key", "AIza", r"AIza[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])"),
    rule("google-key", "ya29.", r"ya29\.[A-Za-z0-9_.-]{20,1024}+"),
    _prefixed("google-key", "GOCSPX- 1//0 AQ.Ab8", _TAIL_20),
    _prefixed("fly-token", "fo1_ fm1_ fm1a_ fm1r_ fm2_", "[A-Za-z0-9+/=,_-]{40,4096}+"),
    # Code, packages, builds
    _prefixed("github-token", "github_pat_ ghp_ gho_ ghu_ ghs_ ghr_", "[A-Za-z0-9_]{22,255}+"),
    _prefixed(
        "gitlab-token",
        "glpat- gldt- glft- glffct- glsoat- glrt- glrtr- GR1348941 glcbt- glimt- glptt- glagent- gloas- glwt-",
        r"[A-Za-z0-9_.-]{16,512}+",
    ),
    rule("gitlab-token", "_gitlab_session=", r"_gitlab_session=[0-9a-z]{24,64}+"),
    _prefixed("npm-token", "npm_", "[A-Za-z0-9]{36}(?![A-Za-z0-9])"),
    rule("pypi-token", "pypi-AgEIcHlwaS5vcmc", r"pypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{4,512}+"),
    rule("pypi-token", "pypi-", r"(?<!-)pypi-[A-Za-z0-9_-]{16,512}+", condition=has_random_tail),
    _prefixed("docker-token", "dckr_pat_ dckr_oat_", _TAIL_20),
    _prefixed("rubygems-token", "rubygems_", "[0-9a-f]{40,64}+"),
    _prefixed("nuget-key", "oy2", "[a-z0-9]{43}(?![A-Za-z0-9])"),
    _prefixed("clojars-token", "CLOJARS_ clojars_", "[A-Za-z0-9]{40,64}+"),
    _prefixed("artifactory-token", "AKCp cmVmd", "[A-Za-z0-9]{50,80}+"),
    _prefixed("atlassian-token", "ATATT3 ATCTT3 ATSTT3 ATBB", "[A-Za-z0-9_=-]{20,512}+"),
    _prefixed("sonar-token", "squ_ sqp_ sqa_", "[A-Za-z0-9_=-]{36,64}+"),
    _prefixed("sourcegraph-token", "sgp_ sgd_", "(?:[0-9a-fA-F]{16}_|local_)?[0-9a-fA-F]{32,64}+"),
    _prefixed("build-token", "CCIPAT_ CCIPRJ_ bkua_ bkpi_ bkaj_ pul- pnu_ pnb_ ico- API- tk-us- tk-eu- rnd_", _TAIL_20),
    rule("harness-key", "pat. sat.", r"[ps]at\.[A-Za-z0-9_-]{20,24}\.[A-Za-z0-9]{20,28}\.[A-Za-z0-9]{16,24}"),
    _prefixed("terraform-token", "TFRC", _TAIL_20),
    # Models
    _prefixed("anthropic-key", "sk-ant-", _TAIL_16),
    _prefixed(
        "openai-key", "sk-proj- sk-svcacct- sk-admin- sk-None- sk-or-v1- sk-lf- pk-lf- csk- fw_ nvapi-", _TAIL_20
    ),
    rule("openai-key", "sk-", r"sk-[A-Za-z0-9]{20,128}+", condition=has_random_tail),
    _prefixed("hugging-face-token", "hf_ api_org_", "[A-Za-z0-9]{30,64}+"),
    _prefixed("model-token", "gsk_ xai- r8_ pplx- tgp_v1_ jina_ tvly- pcsk_ lsv2_pt_ lsv2_sk_ wandb_v1_", _TAIL_30),
    # Messages
    _prefixed(
        "slack-token", "xoxa- xoxb- xoxp- xoxo- xoxr- xoxs- xoxc- xoxd- xoxe- xapp- xwfp-", "[A-Za-z0-9%-]{8,512}+"
    ),
    rule("slack-token", "xoxe.", r"xoxe\.xox[bp]-\d-[A-Za-z0-9-]{20,512}+"),
    rule(
        "slack-token",
        "hooks.slack.com/",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9+/_]{20,128}+",
    ),
    rule(
        "discord-webhook",
        "https://discord.com/api/webhooks/ https://discordapp.com/api/webhooks/",
        r"https://discord(?:app)?\.com/api/webhooks/\d{5,32}/([A-Za-z0-9_-]{40,128}+)",
    ),
    _prefixed("sendgrid-key", "SG.", r"[A-Za-z0-9_=.-]{40,100}+"),
    rule("twilio-key", "SK", r"SK[0-9a-fA-F]{32}(?![A-Za-z0-9])"),
    rule("mailgun-key", "key- pubkey-", r"(?:pub)?key-[0-9a-f]{32}(?![A-Za-z0-9])"),
    _prefixed("mail-key", "xkeysib- xsmtpsib- mlsn. re_", r"[A-Za-z0-9_-]{24,256}+"),
    _prefixed("line-token", "EAAM EAAC EAAB EAAG EAAJ", "[A-Za-z0-9]{60,512}+"),  # Meta's pages and apps
    _prefixed("twitter-token", "AAAAAAAAAAAAAAAAAAAAAA", "[A-Za-z0-9%]{60,128}+"),
    _prefixed("dropbox-token", "sl.", r"(?:u\.)?[A-Za-z0-9_=-]{60,2048}+"),
    # Money
    _prefixed("stripe-key", "sk_live_ sk_test_ sk_prod_ rk_live_ rk_test_ rk_prod_", "[A-Za-z0-9]{10,255}+"),
    _prefixed("stripe-key", "whsec_", "[A-Za-z0-9+/=]{24,128}+"),
    _prefixed("square-token", "sq0csp- sq0atp- EAAA", "[A-Za-z0-9_-]{22,80}+"),
    _prefixed("shopify-token", "shpat_ shpss_ shpca_ shppa_ shpua_", "[0-9a-fA-F]{24,64}+"),
    _prefixed("payment-key", "EZAK EZTK", "[A-Za-z0-9]{54}"),
    _prefixed(
        "payment-key", "FLWSECK- FLWSECK_TEST- FLWPUBK- FLWPUBK_TEST- rzp_live_ rzp_test_", "[A-Za-z0-9-]{12,64}+"
    ),
    rule("payment-key", "live_ test_", r"(?:live|test)_(?:pub_)?[0-9a-f]{31,40}(?![A-Za-z0-9])"),
    _prefixed("payment-key", "access_token$production$ access_token$sandbox$", r"[0-9a-z$]{30,64}+"),
    # Stores of data and secrets
    _prefixed("databricks-token", "dapi dkea", _HEX_32),
    rule("vault-token", "hvs. hvb. hvr.", r"hv[sbr]\.[A-Za-z0-9_-]{24,512}+"),
    rule("vault-token", "s. b. r.", r"[sbr]\.[A-Za-z0-9]{24}(?![A-Za-z0-9_.(\[])", condition=has_random_tail),
    _prefixed(
        "database-token", "pscale_tkn_ pscale_pw_ pscale_oauth_ sbp_ sb_secret_ napi_ mdb_sa_sk_ CCDB1_", _TAIL_30
    ),
    _prefixed("database-token", "4b1d", "[A-Za-z0-9]{38}(?![A-Za-z0-9])"),
    _prefixed("doppler-token", "dp.pt. dp.ct. dp.st. dp.sa. dp.scim. dp.audit.", r"[A-Za-z0-9_.-]{36,64}+"),
    rule("onepassword-key", "A3-", r"A3-[A-Z0-9]{6}-[A-Z0-9]{6,11}(?:-[A-Z0-9]{5,6}){3,4}(?![A-Za-z0-9])"),
    _prefixed("onepassword-key", "ops_eyJ", _BASE64),
    rule("age-key", "AGE-SECRET-KEY-", r"AGE-SECRET-KEY-(?:PQ-)?1[0-9A-Z]{20,128}+"),
    # Watching and measuring
    rule("dynatrace-token", "dt0", r"dt0[a-z]\d\d\.[A-Za-z0-9]{24}(?:\.[A-Za-z0-9]{20,128}+)?"),
    _prefixed("grafana-token", "glsa_ glc_ eyJrIjoi", _BASE64),
    _prefixed("new-relic-key", "NRAK- NRII- NRJS- NRRA- NRIQ-", "[A-Za-z0-9-]{19,64}+"),
    _prefixed("sentry-token", "sntrys_ sntryu_ sntrya_ sntryi_", _BASE64),
    _prefixed("monitoring-key", "hcaik_ hcxik_ phx_ phs_ ddp_ ddapp_", "[A-Za-z0-9]{32,80}+"),
    # Work
    _prefixed("linear-token", "lin_api_ lin_oauth_ lin_wh_", "[A-Za-z0-9]{30,80}+"),
    _prefixed(
        "service-token", "ntn_ secret_ figd_ figo_ tfp_ PMAK- PMAT- nfp_ nfc_ tskey- rdme_ CFPAT- HRKU-", _TAIL_30
    ),
    _prefixed("service-token", "p8e- s-s4t2ud- s-s4t2af- dnkey- fio-u- pat-na1- pat-eu1- frm_", _TAIL_30),
    _prefixed("service-token", "sk_ live_ sandbox_", _TAIL_20),
    _prefixed("service-token", "access-production- access-development- access-sandbox-", _TAIL_30),
    _prefixed("service-token", "fc-", "[0-9a-f]{32}(?![A-Za-z0-9])"),
    _prefixed("service-token", "cio", "[A-Za-z0-9]{32}(?![A-Za-z0-9])"),
    rule("airtable-token", "pat", r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}"),
    rule("mapbox-token", "pk. sk. tk.", r"[pst]k\.[A-Za-z0-9]{56,256}+\.[A-Za-z0-9_-]{20,64}+"),
    rule("asana-token", "0/ 1/ 2/", r"[012]/\d{10,20}(?:/\d{10,20})?:[0-9a-f]{32}(?![A-Za-z0-9])"),
    rule("openshift-token", "sha256~", r"sha256~[A-Za-z0-9_-]{43}(?![A-Za-z0-9_-])"),
    rule(
        "authress-key",
        "sc_ ext_ scauth_ authress_",
        r"(?:sc|ext|scauth|authress)_[a-z0-9]{5,30}\.[a-z0-9]{4,6}\.acc[_-][a-z0-9-]{10,32}\.[A-Za-z0-9+/_=-]{30,120}+",
    ),
    # Forms that no provider owns
    rule(
        "jwt",
        "ey",
        r"ey[A-Za-z0-9_-]{8,8192}+\.ey[A-Za-z0-9_/\\-]{8,16384}+(?:\.[A-Za-z0-9_/\\-]{0,4096}+={0,2})?"
        r"|eyJ[A-Za-z0-9_-]{8,8192}+\.[A-Za-z0-9_-]{8,16384}+\.[A-Za-z0-9_.-]{0,4096}+",
    ),
    rule("jwt", "ZXlK", r"ZXlK[A-Za-z0-9+/_-]{40,16384}+={0,2}"),  # base64 of one
    rule(
        "signature",
        "X-Amz-Signature= X-Goog-Signature= X-Amz-Security-Token= sig= signature= Signature=",
        r"[XA-Za-z-]{3,24}=([A-Za-z0-9%/+_=-]{32,4096}+)",
        condition=looks_random,
    ),
    # Hashes of passwords: crypt(3) with its successors, LDAP, Django.
    rule(
        "password-hash",
        "$1$ $5$ $6$ $7$ $y$ $apr1$",
        r"\$(?:[1567y]|apr1)\$[^\s:$]{1,64}\$(?:[^\s:$]{1,32}\$)?[A-Za-z0-9./]{20,128}+",
    ),
    rule("password-hash", "$2a$ $2b$ $2y$", r"\$2[aby]\$\d\d\$[A-Za-z0-9./]{22,64}+"),
    rule("password-hash", "$argon2 $scrypt", r"\$(?:argon2(?:id?|d)|scrypt)\$[A-Za-z0-9+/=,$]{30,256}+"),
    rule(
        "password-hash", "{SSHA {SHA {PBKDF2", r"\{(?:S?SHA\d{0,3}|PBKDF2[A-Z0-9-]{0,10})\}[A-Za-z0-9+/=$./]{20,256}+"
    ),
    rule("password-hash", "pbkdf2_sha", r"pbkdf2_sha\d{1,3}\$\d{1,8}\$[A-Za-z0-9]{1,64}\$[A-Za-z0-9+/=]{20,128}+"),
)

# Parts inside a token that tell it; the rule's pattern is searched from `reach` characters before the part.
INNER_RULES: tuple[tuple[str, int, TokenRule], ...] = (
    (":AA", 16, rule("telegram-token", "", r"\d{5,16}:(A[A-Za-z0-9_-]{34})(?![A-Za-z0-9_-])", condition=looks_random)),
    ("Q~", 4, rule("azure-key", "", r"[A-Za-z0-9_~.]{3}\dQ~[A-Za-z0-9_.~-]{31,37}+")),
    ("_mmk", 36, rule("maxmind-key", "", r"[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk")),
    (".atlasv1.", 14, rule("terraform-token", "", r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{30,80}+")),
    ("-us", 32, rule("mailchimp-key", "", r"[0-9a-f]{31,32}-us\d{1,2}(?![A-Za-z0-9])")),
    ("AZDO", 76, rule("azure-key", "", r"[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}(?![A-Za-z0-9])")),
    ("JQQJ99", 52, rule("azure-key", "", r"[A-Za-z0-9]{52}JQQJ99[A-Za-z0-9]{20,40}+")),
    (
        "webhook.office.com/",
        0,
        rule("teams-webhook", "", r"webhook\.office\.com/webhookb2/([0-9a-zA-Z@/-]{40,256}+)"),
    ),
    (
        "AAAAAAAAAA",
        11,
        rule(
            "dropbox-token",
            "",
            r"(?<![A-Za-z0-9+/=_-])[A-Za-z0-9]{11}A{10}[A-Za-z0-9_=-]{43}(?![A-Za-z0-9+/=_-])",
            condition=looks_random,
        ),
    ),
)
