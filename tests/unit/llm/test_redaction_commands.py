"""Passwords known only by their position are hidden: after "pass", in pipes, in lists of arguments, in headers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from consolidator.llm.redaction.redact import redact, redact_json

SECRET = "K6NIjuO45K"
SESSION = "sid=" + "q7Rk2ZpX9vBn4Lw8"

TEXTS = [
    f"export DB_PASS={SECRET}",
    f"SMTP_PASS={SECRET}",
    f"pass: {SECRET}",
    "pass: tkiqFRusceIW",
    f"password: {SECRET}",
    f"smtpPass: '{SECRET}'",
    f"app --pass {SECRET}",
    f'{{"db_pass": "{SECRET}"}}',
    "pypi-" + "AgEIcHlwaS5vcmcCJDk4",
    "pypi-" + "x8Kq2ZpX9vBn4Lw8Rt6Y",
    f"echo {SECRET} | docker login -u me --password-stdin",
    f'echo -n "{SECRET}" | docker login ghcr.io --password-stdin',
    f"printf '%s' '{SECRET}' | gh auth login --with-token",
    f"docker login --password-stdin <<< {SECRET}",
    f"echo {SECRET} | sudo -S apt update",
    json.dumps(["-p", SECRET]),
    json.dumps(json.dumps(["-p", SECRET])),
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_password_in_a_line_is_hidden(text: str) -> None:
    hidden = redact(text)
    assert "[redacted:" in hidden
    for secret in (SECRET, "tkiqFRusceIW", "Ag" + "EIcHlw", "x8Kq2ZpX"):
        assert secret not in hidden
    assert redact(hidden) == hidden


@pytest.mark.parametrize(
    "text",
    [
        "PASS: TestParseURL2",
        "--- PASS: TestHTTP2Server (0.01s)",
        "PASS: tests/unit/a1b2.sh",
        "pass: 12 of 12",
        "render_pass = 'Depth16X8'",
        "bypass: K6NIjuO45K",
        "FIRST_PASS=K6NIjuO45K",
        "pass_through=K6NIjuO45K",
        "openssl rsa -pass env:KEY_PHRASE",
        "pypi-publish-and-attestations",
        "echo $TOKEN | docker login --password-stdin",
        "echo hello | tee login.txt",
        "mkdir -p dir2/a1B2c3D4",
        json.dumps(["docker", "run", "-p", "80:80"]),
        "password: HTMLInputElement",
    ],
)
def test_what_only_sounds_like_a_password_is_left(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize(
    ("value", "hidden"),
    [
        ({"pass": SECRET}, {"pass": "[redacted:secret]"}),
        ({"DB_PASS": SECRET}, {"DB_PASS": "[redacted:secret]"}),
        ({"Cookie": SESSION}, {"Cookie": "[redacted:cookie]"}),
        ({"Cookie": f"sid={SECRET}"}, {"Cookie": "[redacted:cookie]"}),
        ({"Set-Cookie": [f"{SESSION}; Path=/"]}, {"Set-Cookie": ["[redacted:cookie]"]}),
        ({"cookies": {"sid": SECRET, "theme": "dark"}}, {"cookies": {"sid": "[redacted:cookie]", "theme": "dark"}}),
        ({"name": "Cookie", "value": SESSION}, {"name": "Cookie", "value": "[redacted:cookie]"}),
        ([["Cookie", SESSION]], [["Cookie", "[redacted:cookie]"]]),
        ({"Authorization": "Basic YWRtaW46aHVudGVyMg=="}, {"Authorization": "Basic [redacted:basic-auth]"}),
        (["-p", "S3cretPass99"], ["-p", "[redacted:password]"]),
        (["sshpass", "-p", "hunter2", "ssh", "-p", "22"], ["sshpass", "-p", "[redacted:password]", "ssh", "-p", "22"]),
        (["/usr/bin/mysql", "-uroot", "-phunter2"], ["/usr/bin/mysql", "-uroot", "-p[redacted:password]"]),
        (["docker", "login", "-p", "hunter2"], ["docker", "login", "-p", "[redacted:password]"]),
        (["curl", "-u", "admin:hunter2"], ["curl", "-u", "admin:[redacted:password]"]),
        (["redis-cli", "-a", "hunter2"], ["redis-cli", "-a", "[redacted:password]"]),
        (["app", "--password", "hunter2"], ["app", "--password", "[redacted:secret]"]),
        (
            {"command": "sshpass", "args": ["-p", "hunter2"]},
            {"command": "sshpass", "args": ["-p", "[redacted:password]"]},
        ),
        (["node", "--token", SECRET], ["node", "--token", "[redacted:secret]"]),
    ],
)
def test_a_password_in_json_is_hidden_as_it_is_in_a_line(value: Any, hidden: Any) -> None:
    assert redact_json(value) == hidden
    assert redact_json(hidden) == hidden


@pytest.mark.parametrize(
    "value",
    [
        ["mkdir", "-p", "dir"],
        ["mkdir", "-p", "A1b2C3d4E5"],
        ["ssh", "-p", "22", "host"],
        ["docker", "run", "-p", "80:80"],
        {"command": "ssh", "args": ["-p", "2222"]},
        ["-p", "tests/unit"],
        ["mysql", "-p", "shop"],
        ["docker", "exec", "-u", "me:staff", "box"],
        {"Cookie": "theme=dark"},
        {"pass": "3/5"},
        {"pass": True},
        {"passed": SECRET},
        {"cookies": {"theme": "dark", "lang": "en-GB"}},
    ],
)
def test_arguments_and_headers_that_hold_no_password_are_left(value: Any) -> None:
    assert redact_json(value) == value


@pytest.mark.parametrize("piece", ["echo a", "echo a | ", '"-p", ', "pass:", "DB_PASS=", "--password-stdin <", "pypi-"])
def test_a_hostile_line_is_taken_in_full(piece: str) -> None:
    hidden = redact(piece * (60_000 // len(piece)))
    assert redact(hidden) == hidden
