"""Passwords of several words, those that a text's end cuts, and words in commands are hidden; labels are left."""

from __future__ import annotations

import base64
import json
import logging
import random
import shlex
import string
from typing import Any

import pytest

from consolidator.llm.redaction.redact import redact, redact_json, redact_record
from tests.support import QUICK

PHRASE = "plum river coat"
CHOSEN = "velvet7"
WORD = "orchid"
TOKEN = "".join(random.Random(2).choices(string.ascii_letters + string.digits, k=20))
ACCOUNT = base64.b64encode(json.dumps({"type": "service_account", "private_key": TOKEN * 4}).encode()).decode()

PHRASES = [
    f"DB_PASSWORD='{PHRASE}'",
    f'export SMTP_PASS="{PHRASE}"',
    'PGPASSWORD="a b" psql -h db',
    f"app --password '{PHRASE}' --now",
    f'app --password="{PHRASE}"',
    f"Connect -Password '{PHRASE}'",
    f'password: "{PHRASE}"',
    f"database:\n  password: '{PHRASE}'\n",
    f"$env:DB_PASSWORD = '{PHRASE}'",
    f"docker run -e 'MYSQL_ROOT_PASSWORD={PHRASE}' mysql",
    f'set "DB_PASSWORD={PHRASE}"',
    f'echo "DB_PASSWORD={PHRASE}" >> .env',
    f'kubectl set env deploy/shop "DB_PASSWORD={PHRASE}"',
    f'declare -x DB_PASSWORD="{PHRASE}"',
    'DB_PASSWORD="plum \\"river\\" coat"',
    "DB_PASSWORD='it'\\''s plum river coat'",
    shlex.quote(f"DB_PASSWORD='{PHRASE}'"),
    repr({"text": 'password: "plum \\"river\\" coat"'}),
    json.dumps({"password": PHRASE}),
    json.dumps(json.dumps({"password": PHRASE})),
    json.dumps(json.dumps({"password": 'plum "river" coat'})),
    json.dumps(json.dumps(json.dumps({"password": PHRASE}))),
    f"'password' => '{PHRASE}',",
    f"password = '''{PHRASE}'''",
    f"<password>{PHRASE}</password>",
    f"the password is '{PHRASE}'",
    f"mysql -u ada -p'{PHRASE}' shop",
    f"sshpass -p '{PHRASE}' ssh host",
    f"curl -u 'ada:{PHRASE}' https://x",
    f"ALTER ROLE app WITH LOGIN PASSWORD '{PHRASE}';",
]
LABELS = [
    'password: "Enter your password"',
    '"password": "Neues Passwort"',
    "forgotPassword: 'Forgot it?',",
    "the password: 'must be long'",
    '"password": "must have at least 8 characters"',
    'token: "not a valid thing"',
    "const password = isNew ? 'choose one' : 'the old one'",
    'print("password=" + value + " of " + name)',
    'log.info("password:", name, "and more")',
    "Pass: `pytest -q tests/unit`",
    '"pass": "all of the tests"',
    "getattr(node, 'password', 'none of these')",
    "password=\"'.$value.' and '\"",
    '"refreshToken": "abc123..."',
    "\x1b[32mthe shop runs on http://localhost:3000\x1b[39m",
    "docker pull docker://shop:alpine3.18",
    "http://localhost:5173）でOCR",
    "population…3331 tokens truncated…AW4G,aAAa",
    '"test": "JWT_SECRET=dev jest --runInBand"',
    'log("OPENAI_API_KEY=missing; set it before you start")',
    "print('PASSWORD=%s is wrong' % given)",
    '"pwd": "/home/ada/my shop/src"',
    "pwd = 'C:/Users/Ada B/shop'",
    '<label for="password">The shared word</label>',
    '"password": "Mot de passe"',
    '"password": "Minimum 8 letters"',
]
CUT = [
    f"DB_PASSWORD='{PHRASE}",
    f'{{"password": "{PHRASE}',
    f"postgres://ada:{CHOSEN}",
    f"clone https://ada:{TOKEN}…",
    json.dumps({"url": f"https://ada:{CHOSEN}"}),
    f"ghp_{TOKEN[:15]}",
    f"GITHUB_TOKEN=glpat-{TOKEN[:14]}…",
    f"API_TOKEN={TOKEN[:16]}… (cut)",
    f"password='{CHOSEN}x9 …[80 more]… {TOKEN}'",
]
PLACES = [
    f"alter role app password '{CHOSEN}';",
    f"CREATE LOGIN app WITH PASSWORD = N'{CHOSEN}'",
    f"SET PASSWORD FOR 'a'@'h' = PASSWORD('{CHOSEN}')",
    f"ALTER USER app IDENTIFIED BY {CHOSEN};",
    f"update users set password_hash = crypt('{CHOSEN}', gen_salt('bf'))",
    f"url=jdbc:oracle:thin:ada/{CHOSEN}@//h:1521/shop",
    f"machine example.org login ada password {CHOSEN}",
    f"machine example.org\n  login ada\n  password {CHOSEN}\n",
    f"users:\n- user:\n    password: {CHOSEN}\n",
    f"os.Setenv('DB_PASSWORD', '{CHOSEN}')",
    f"ENV DB_PASSWORD {CHOSEN}",
    f"postgres://ada:p@{CHOSEN}/x!@db:5432/shop",
    f"https://ada:p@{CHOSEN}@example.org/shop",
    f"postgres://ada:pa$${CHOSEN}@db/shop",
    f"GOOGLE={ACCOUNT}",
    f"-Dsonar.login={TOKEN}{TOKEN}",
]
COMMANDS = [
    f"PGPASSWORD={WORD} psql -h db",
    f"mysql -u ada -p{WORD} shop",
    f"mysql -p{WORD}",
    f"docker login -u ada -p {WORD} registry.example.org",
    f"docker login --username ada --password {WORD}",
    f"redis-cli AUTH {WORD}",
    f"htpasswd -bnBC 10 ada {WORD}",
    f"openssl passwd -6 {WORD}",
    f"zip -rP {WORD} a.zip f",
    f"sqlcmd -S h -U sa -P{WORD}",
    f"security unlock-keychain -p {WORD} login.keychain",
    f"ssh-keygen -t ed25519 -N {WORD} -f key",
    f"useradd -p {WORD} ada",
    f"rclone config create r sftp pass {WORD}",
    f"qpdf --encrypt {WORD} {WORD} 256 -- a.pdf b.pdf",
    f"rman target sys/{WORD}",
    f"gpg --batch --passphrase {WORD} -d f",
    f"ansible-playbook site.yml -e 'db_password={WORD} user=ada'",
    f'ansible-playbook site.yml --extra-vars \'{{"db_password": "{WORD}"}}\'',
    f"curl -d 'user=ada&password={WORD}' https://x",
    f"terraform apply -var db_password={WORD}",
    f"sudo passwd ada <<< {WORD}".replace(" ada", ""),
]
ORDINARY_COMMANDS = [
    "PGPASSWORD=postgres psql -h localhost",
    'test -f a.txt && echo "TEST 1 PASS: Created a.txt"',
    "docker login --password-stdin registry.example.org",
    "cd src && PWD=folder make",
    "gh secret set DB_PASSWORD --body-file words",
    "ffmpeg -i a.mp4 -pass 1 -f null out",
    "kubectl get secret shop --namespace production",
    "pytest tests/unit/test_password.py -k password",
    "git commit -m 'Hash the password of a user'",
    "zip -r out.zip dir && ssh-keygen -lf key.pub && useradd -m ada",
    'bash -lc "POSTGRES_PASSWORD=postgres pytest tests/unit -x"',
    "ssh box 'SKIP_AUTH=1 make migrate'",
    'PWD="/Users/ada/my shop" make',
    "git commit -m 'Say where the password is missing'",
    "git commit -m 'The first pass is already folded'",
    """git commit -m "pass 'session' instead of 'user'" """,
]


@pytest.mark.parametrize("text", [*PHRASES, *CUT, *PLACES])
def test_it_is_hidden_in_a_text(text: str) -> None:
    hidden = redact(text)
    assert "[redacted:" in hidden
    assert not [part for part in (*PHRASE.split(), "a b", CHOSEN, TOKEN[:12], ACCOUNT[80:99]) if part in hidden]
    assert redact(hidden) == hidden


@pytest.mark.parametrize("text", LABELS)
def test_what_is_said_of_a_password_is_left(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize("line", COMMANDS)
@pytest.mark.parametrize("words", [lambda line: line, lambda line: ["bash", "-lc", line]])
def test_a_word_is_a_password_in_a_command(line: str, words: Any) -> None:
    hidden = redact_json({"command": words(line)})
    assert WORD not in json.dumps(hidden)
    assert redact_json(hidden) == hidden


@pytest.mark.parametrize("line", ORDINARY_COMMANDS)
def test_a_command_without_a_password_is_left(line: str) -> None:
    assert redact_json({"command": line}) == {"command": line}


def test_an_argument_after_an_option_is_a_password_in_a_list_of_words() -> None:
    words = ["app", "--password", WORD, "--now"]
    assert redact_json({"command": words}) == {"command": ["app", "--password", "[redacted:secret]", "--now"]}


def test_a_line_of_a_log_is_redacted_with_its_arguments_and_its_error(caplog: pytest.LogCaptureFixture) -> None:
    caplog.handler.addFilter(redact_record)
    try:
        raise ValueError(f"app --token {TOKEN}")
    except ValueError:
        logging.getLogger("elsewhere").exception("failed with %s", f"DB_PASSWORD='{PHRASE}'")
    assert TOKEN not in caplog.text
    assert PHRASE not in caplog.text
    assert "ValueError" in caplog.text


def test_who_logs_what_cannot_be_formatted_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    caplog.handler.addFilter(redact_record)
    logging.getLogger("elsewhere").warning("%d of %s", TOKEN)
    assert "%d of %s" in caplog.text


@pytest.mark.parametrize(
    "piece",
    [
        "password='a ",
        'password="\\',
        "password='\\''",
        "https://a:b1",
        "https://a:b@",
        "alter role ",
        "machine a login ",
    ],
)
def test_a_hostile_text_of_phrases_is_taken_in_full(piece: str) -> None:
    hidden = redact(piece * ((100_000 if QUICK else 1_000_000) // len(piece)))
    assert redact(hidden) == hidden
