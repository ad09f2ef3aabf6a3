"""Tokens of the forms that providers document are hidden wherever they stand, and what only resembles them is left."""

from __future__ import annotations

import random
import string

import pytest

from consolidator.llm.redaction.redact import redact

_HEX = "0123456789abcdef"
_LETTERS = string.ascii_letters + string.digits
_SMALL = string.ascii_lowercase + string.digits
_CAPITALS = string.ascii_uppercase + string.digits


def random_text(length: int, letters: str = _LETTERS) -> str:
    """Return characters as random as a credential, the same in every run."""
    generator = random.Random(length * 15_485_863 + len(letters))
    return "".join(generator.choice(letters) for _ in range(length))


TOKENS = {
    "a hash of Argon2": f"$argon2id$v=19$m=65536,t=3,p=4${random_text(22)}${random_text(43)}",
    "a hash of LDAP": f"{{SSHA}}{random_text(40)}",
    "a hash of Django": f"pbkdf2_sha256$600000${random_text(22)}${random_text(43)}=",
    "Google's access": f"ya29.{random_text(60)}",
    "Terraform, of a team": f"TFRC{random_text(40)}",
    "NuGet": f"oy2{random_text(43, _SMALL)}",
    "1Password's secret key": f"A3-{random_text(6, _CAPITALS)}-{random_text(11, _CAPITALS)}-7KXQ2-M3VTR-9WZ4P",
    "a service account of 1Password": f"ops_eyJ{random_text(260)}",
    "Adobe": f"p8e-{random_text(32, _SMALL)}",
    "Airtable": f"pat{random_text(14)}.{random_text(64, _HEX)}",
    "Alibaba": f"LTAI{random_text(20)}",
    "Artifactory": f"AKCp{random_text(69)}",
    "Asana": f"1/{random_text(16, string.digits)}:{random_text(32, _HEX)}",
    "Bedrock": f"ABSK{random_text(120)}",
    "a client secret of Azure": f"k3v8Q~{random_text(34)}",
    "CircleCI": f"CCIPAT_{random_text(22)}_{random_text(40, _HEX)}",
    "Discord": f"M{random_text(25)}.{random_text(6)}.{random_text(38)}",
    "Doppler": f"dp.st.dev.{random_text(43)}",
    "Dynatrace": f"dt0c01.{random_text(24, _CAPITALS)}.{random_text(64, _CAPITALS)}",
    "EasyPost": f"EZAK{random_text(54)}",
    "Facebook's pages": f"EAAC{random_text(120)}",
    "Facebook's apps": f"{random_text(15, string.digits)}|{random_text(27)}",
    "Fly": f"fm2_{random_text(120)}",
    "a feature flag of GitLab": f"glffct-{random_text(20)}",
    "a routable token of GitLab": f"glpat-{random_text(32)}.01.0x1y2z3w4",
    "Grafana": f"glc_{random_text(80)}",
    "Harness": f"pat.{random_text(22)}.{random_text(24)}.{random_text(20)}",
    "Heroku": f"HRKU-AA{random_text(58)}",
    "Hugging Face": f"hf_{random_text(34, string.ascii_lowercase)}",
    "Infracost": f"ico-{random_text(32)}",
    "Linear": f"lin_oauth_{random_text(64, _HEX)}",
    "Mailchimp": f"{random_text(32, _HEX)}-us12",
    "Mapbox": f"sk.{random_text(70)}.{random_text(22)}",
    "MaxMind": f"{random_text(6)}_{random_text(29)}_mmk",
    "New Relic": f"NRII-{random_text(32)}",
    "Octopus": f"API-{random_text(26, _CAPITALS)}",
    "OpenShift": f"sha256~{random_text(43)}",
    "Prefect": f"pnu_{random_text(36)}",
    "Pulumi": f"pul-{random_text(40, _HEX)}",
    "ReadMe": f"rdme_{random_text(70, _SMALL)}",
    "Scalingo": f"tk-us-{random_text(48)}",
    "Brevo": f"xkeysib-{random_text(64, _HEX)}-{random_text(16)}",
    "Sonar": f"sqp_{random_text(40, _HEX)}",
    "Sourcegraph": f"sgp_{random_text(16, _HEX)}_{random_text(40, _HEX)}",
    "Square": f"sq0atp-{random_text(22)}",
    "Stripe in production": f"rk_prod_{random_text(24)}",
    "Teams": f"https://a.webhook.office.com/webhookb2/{random_text(36, _HEX)}/IncomingWebhook/{random_text(32, _HEX)}",
    "Terraform": f"{random_text(14)}.atlasv1.{random_text(67)}",
    "Typeform": f"tfp_{random_text(59)}",
    "an old token of Vault": f"s.{random_text(24)}",
    "Yandex": f"AQVN{random_text(36)}",
    "a provider of payments": f"acme_live_{random_text(24)}",
    "a personal token of an unlisted service": f"acme_pat_{random_text(20)}",
    "an unlisted service's token": f"acme_{random_text(40)}",
    "an unlisted service's access token": "access-production-3d1f6a52-9c0b-4e7d-8a41-5b2c9e0f7d16",
}
HARMLESS = [
    f"toolu_{random_text(24)}",
    f"chatcmpl-{random_text(29)}",
    f"sha512-{random_text(86)}==",
    f"commit_{random_text(40, _HEX)}",
    f"user_{random_text(27)}",
    "test_api_returns_a_token_for_the_user",
    "shop-api-7d4b9c6f5d-x2k8q",
    "my-token-service-deployment-2024",
    "hf_transfer_enabled_by_default",
    "patch.example.org/2024/01/02/release",
    "sl.something_with_underscores",
    "API-REFERENCE-OF-VERSION-2",
    "s.completeWithEventualReply(2)",
    "eyebrow.eyelashes.eyeshadow",
    "a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p",
]


@pytest.mark.parametrize("token", TOKENS.values(), ids=TOKENS.keys())
@pytest.mark.parametrize("around", ["it printed {} and went on", "a\n{}\nb", '{{"x": "{}"}}', "x={}", "A\\n{}\\nB"])
def test_a_token_is_hidden_whatever_stands_around_it(token: str, around: str) -> None:
    hidden = redact(around.format(token))
    assert "[redacted:" in hidden
    assert token[-16:] not in hidden
    assert token[len(token) // 2 - 8 :][:16] not in hidden
    assert redact(hidden) == hidden


@pytest.mark.parametrize("text", HARMLESS)
def test_what_resembles_a_token_is_left(text: str) -> None:
    assert redact(f"it printed {text} and went on") == f"it printed {text} and went on"


def test_a_token_that_repeats_itself_is_one_all_the_same() -> None:
    assert redact("KeyError: 'ghp_" + "Zk3" * 12 + "'") == "KeyError: '[redacted:github-token]'"
    assert redact("ghp_" + "x" * 36) == "ghp_" + "x" * 36  # a placeholder
