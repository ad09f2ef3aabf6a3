"""Credentials of every usual kind are hidden, what only looks like one is left, and no text is too hostile."""

from __future__ import annotations

import base64
import json
import random
import string
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consolidator.llm.redaction.redact import redact, redact_json

UNHURRIED = settings(deadline=None)  # the machine may be busy
_LETTERS = string.ascii_letters + string.digits


def random_text(length: int, letters: str = _LETTERS) -> str:
    """Return characters as random as a credential, the same in every run."""
    generator = random.Random(length * 7919 + len(letters))
    return "".join(generator.choice(letters) for _ in range(length))


def random_hex(length: int) -> str:
    return random_text(length, "0123456789abcdef")


def encode_jwt_part(value: dict[str, str]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


TOKEN = random_text(32)
JWT = f"{encode_jwt_part({'alg': 'HS256'})}.{encode_jwt_part({'sub': 'somebody'})}.{random_text(43)}"
BEGIN, END = "-----BEGIN RSA PRIVATE" + " KEY-----", "-----END RSA PRIVATE" + " KEY-----"
BODY = "\n".join(random_text(64 - n) + random_text(n) for n in range(1, 6))
PEM = f"{BEGIN}\n{BODY}\n{END}"

CREDENTIALS = {
    "an AWS key": "AKIA" + random_text(16, string.ascii_uppercase + string.digits),
    "an AWS secret": f"aws_secret_access_key = {random_text(40)}",
    "an AWS session token": f"AWS_SESSION_TOKEN={random_text(300)}",
    "a Google key": "AIza" + random_text(35),
    "an Azure connection string": f"AccountName=x;AccountKey={random_text(86)}==;EndpointSuffix=core.windows.net",
    "an Azure secret": f"AZURE_CLIENT_SECRET=abc8Q~{random_text(34)}",
    "an Azure signature": f"https://x.blob.core.windows.net/c?sv=1&sig={random_text(43)}%3D",
    "a GitHub token": "ghp_" + random_text(36),
    "a fine-grained GitHub token": f"github_pat_{random_text(22)}_{random_text(59)}",
    "a GitLab token": "glpat-" + random_text(20),
    "a Slack token": f"xoxb-{random_text(12, string.digits)}-{random_text(12, string.digits)}-{random_text(24)}",
    "a Stripe key": "sk_live_" + random_text(24),
    "a Stripe test key": "sk_test_" + random_text(24),
    "an old OpenAI key": "sk-" + random_text(48),
    "an OpenAI project key": "sk-proj-" + random_text(80),
    "an Anthropic key": f"sk-ant-api03-{random_text(93)}AA",
    "an npm token": "npm_" + random_text(36),
    "an npm configuration": f"//registry.example.org/:_authToken={random_hex(8)}-1234-4abc-8def-{random_hex(12)}",
    "a PyPI token": "pypi-AgEIcHlwaS5vcmc" + random_text(120),
    "a Hugging Face token": "hf_" + random_text(34),
    "a Telegram token": f"123456789:AA{random_text(33)}",
    "a SendGrid key": f"SG.{random_text(22)}.{random_text(43)}",
    "a Twilio key": "SK" + random_hex(32),
    "a web token": JWT,
    "a bearer header": f"Authorization: Bearer {random_text(40)}",
    "a basic header": 'curl -H "Authorization: Basic dXNlcjpwYXNzd29yZDEyMw==" https://x',
    "a token header": f"-H 'Authorization: token {random_hex(40)}'",
    "an API key header": f"X-Api-Key: {TOKEN}",
    "a cookie": f"Cookie: session={TOKEN}; theme=dark",
    "a set cookie": f"Set-Cookie: sid={random_hex(32)}; Path=/; HttpOnly",
    "a private key": PEM,
    "an escaped private key": json.dumps({"private_key": PEM}),
    "a private key without its end": PEM[:200],
    "a private key without its beginning": PEM[120:],
    "a numbered private key": "\n".join(f"{n:6}→{line}" for n, line in enumerate(PEM.splitlines(), 1)),
    "a database address": "postgres://app:s3cretPw@db.internal:5432/app",
    "a short database address": "redis://:p4ssw0rdX@localhost:6379/0",
    "a token in an address": f"https://{random_text(40)}@github.com/x/y.git",
    "an ADO connection string": "Server=x;User Id=sa;Password=Str0ng!Pass;",
    "a password in a file": "password=hunter2x9",
    "a password in YAML": 'password: "hunter2!"',
    "a password in JSON": '{"password": "hunter2!"}',
    "a password with spaces around": "DB_PASSWORD = 'Tr0ub4dor&3'",
    "a password option": "app --password Sup3rS3cret",
    "a token option": f"app --token {TOKEN}",
    "options as a list": json.dumps(["--token", TOKEN]),
    "a key in JSON": json.dumps({"api_key": TOKEN}),
    "a key in JSON in JSON": json.dumps(json.dumps({"api_key": TOKEN})),
    "an exported token": f"export SECRET_TOKEN={random_text(24)}",
    "a Kubernetes variable": f"- name: API_TOKEN\n  value: {TOKEN}",
    "a Kubernetes variable in JSON": json.dumps({"name": "API_TOKEN", "value": TOKEN}),
    "a MySQL password": "mysql -u root -pS3cretPw db",
    "an SSH password": "sshpass -p hunter2 ssh somebody@somewhere",
    "a curl password": "curl -u admin:hunter2 https://x",
    "a PostgreSQL password": "PGPASSWORD=hunter2 psql",
    "a password of words": "DB_PASSWORD='hunter2x9 plum river'",
    "a password with escaped quotes": 'password: "the \\"hunter2x9\\" door"',
    "a spoken password": "my password is hunter2x",
    "a spoken key": f"the api key is {TOKEN}",
    "a netrc line": f"machine github.com login me password {random_text(20)}",
    "a password behind an escape": "A=1\\npassword=hunter2x9",
    "a Kubernetes variable behind an escape": f"- name: API_TOKEN\\n  value: {TOKEN}",
    "a key behind an escape": "env:\\nAKIA" + random_text(16, string.ascii_uppercase + string.digits),
}

HARMLESS = [
    "commit 3f2a9c1b7d8e4f5a6b7c8d9e0f1a2b3c4d5e6f7a",
    "id: 550e8400-e29b-41d4-a716-446655440000",
    f'"integrity": "sha512-{random_text(86)}=="',
    f'"resolved": "https://registry.example.org/x/-/x-1.0.0.tgz#{random_hex(40)}"',
    f"data:image/png;base64,{random_text(400)}",
    "password=****",
    "password=${DB_PASSWORD}",
    "api_key=<your-key>",
    'api_key=os.environ["KEY"]',
    "token = get_token(user)",
    "password: string",
    "token: str | None = None",
    "max_tokens=4096",
    '"total_tokens": 12345',
    f"next_page_token: {random_text(30)}",
    "the password is required",
    "const token = process.env.TOKEN",
    "secret_name: my-secret-1",
    "--token $TOKEN",
    "--password-file /run/secrets/pw",
    '"tool_use_id": "toolu_019tYDrbzifrra2KYzmYqWvk"',
    "user_id: mia_li_3668",
    "sk-learn-task-management-utils",
    "http://localhost:8080/@vite/client",
    "git@github.com:foo/bar.git",
    "def test_password_reset(self): assert 1",
    "cache_key = 'ab12cd34ef56ab12'",
    "foreign_key=user_id",
    "bearer of bad news",
    "Token expired at 2024-01-01T10:00:00Z",
    'secret_key_base: System.fetch_env!("SECRET_KEY_BASE")',
    "Cookie: theme=dark",
    'MovedAttribute("HTTPPasswordMgr", "urllib2", "urllib.request")',
    f"grep -r '{BEGIN}' .",
]


@pytest.mark.parametrize("text", CREDENTIALS.values(), ids=CREDENTIALS.keys())
def test_a_credential_is_hidden(text: str) -> None:
    hidden = redact(f"before {text}\nafter")
    assert "[redacted:" in hidden
    assert hidden.startswith("before ")
    assert hidden.endswith("\nafter")
    for secret in (TOKEN, JWT, "hunter2", "s3cretPw", "S3cretPw", "Sup3rS3cret", BODY.splitlines()[2]):
        assert secret not in hidden


@pytest.mark.parametrize("text", CREDENTIALS.values(), ids=CREDENTIALS.keys())
def test_redacting_twice_is_redacting_once(text: str) -> None:
    assert redact(redact(text)) == redact(text)


@pytest.mark.parametrize("text", HARMLESS)
def test_what_only_looks_like_a_credential_is_left(text: str) -> None:
    assert redact(text) == text


def test_of_an_address_only_the_password_is_hidden() -> None:
    assert redact("postgres://app:s3cretPw@db:5432/x") == "postgres://app:[redacted:password]@db:5432/x"


def test_nothing_of_a_private_key_remains() -> None:
    assert redact(f"a\n{PEM}\nb") == "a\n[redacted:private-key]\nb"


def test_the_kind_is_named() -> None:
    assert redact(f"use {CREDENTIALS['a GitHub token']} now") == "use [redacted:github-token] now"


@UNHURRIED
@given(st.lists(st.one_of(st.sampled_from(sorted(CREDENTIALS.values())), st.text(max_size=20)), max_size=6))
def test_any_mixture_is_settled_after_one_pass(parts: list[str]) -> None:
    once = redact(" ".join(parts))
    assert redact(once) == once


@UNHURRIED
@given(st.text())
def test_any_text_is_taken(text: str) -> None:
    hidden = redact(text)
    assert redact(hidden) == hidden


@pytest.mark.parametrize(
    "piece",
    [
        "eyJ",
        "eyJaaaaaaaa.",
        "password=",
        "://a:",
        f"{BEGIN}\n",
        f"{END}\n",
        "curl ",
        "mysql -u ",
        "token",
        'token="\\"',
        "sk-",
    ],
)
def test_a_hostile_text_is_taken_in_full(piece: str) -> None:
    hidden = redact(piece * (60_000 // len(piece)))
    assert redact(hidden) == hidden


def test_letters_that_grow_when_lower_cased_move_nothing() -> None:
    assert redact("İİİ password=hunter2x9 İ") == "İİİ password=[redacted:password] İ"


@pytest.mark.parametrize(
    ("value", "hidden"),
    [
        ({"password": "hunter2!"}, {"password": "[redacted:secret]"}),
        ({"headers": {"X-Api-Key": TOKEN}}, {"headers": {"X-Api-Key": "[redacted:secret]"}}),
        ({"name": "API_TOKEN", "value": TOKEN}, {"name": "API_TOKEN", "value": "[redacted:secret]"}),
        (["--token", TOKEN, "-v"], ["--token", "[redacted:secret]", "-v"]),
        ({"password": 73910482, "pass": 7}, {"password": "[redacted:secret]", "pass": 7}),
        ({"token_store.ex": {"backup": "61bb6d45df19a673@v2"}}, {"token_store.ex": {"backup": "61bb6d45df19a673@v2"}}),
        ({"passphrase": "correct horse battery staple"}, {"passphrase": "[redacted:secret]"}),
        ({"tokens": 7, "token": None, "api_key": "<your-key>"}, {"tokens": 7, "token": None, "api_key": "<your-key>"}),
        ([f"x {CREDENTIALS['a GitHub token']}"], ["x [redacted:github-token]"]),
    ],
)
def test_values_beside_telling_keys_are_hidden(value: Any, hidden: Any) -> None:
    assert redact_json(value) == hidden


def test_a_value_nested_too_deep_is_not_read() -> None:
    value: Any = "x"
    for _ in range(100_000):
        value = [value]
    assert "too deep" in json.dumps(redact_json(value))
