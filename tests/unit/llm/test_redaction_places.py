"""Credentials are hidden where what stands around them tells them: elements, headers, options, sentences."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import string
from typing import Any

import pytest

from consolidator.llm.redaction.redact import redact, redact_json
from tests.support import QUICK


def random_text(length: int, letters: str = string.ascii_letters + string.digits) -> str:
    """Return characters as random as a credential, the same in every run."""
    generator = random.Random(length * 104_729 + len(letters))
    return "".join(generator.choice(letters) for _ in range(length))


CHOSEN = "vR7kq#2LmW"  # as a person chooses a password
RANDOM = random_text(32)
SMALL = random_text(28, string.ascii_lowercase + string.digits)
UUID = "3d1f6a52-9c0b-4e7d-8a41-5b2c9e0f7d16"
KEY_LINE = random_text(64)
HASH = random_text(43)
PEM_BEGIN = "-----BEGIN PRIVATE" + " KEY-----"
ENCODED_PEM = base64.b64encode(f"{PEM_BEGIN}\n{KEY_LINE}\n".encode()).decode()
ENCODED = base64.b64encode(f"shop:{CHOSEN}".encode()).decode()

PLACES = {
    "an element": f"<password>{CHOSEN}</password>",
    "an element with a namespace": f"<wsse:Password>{CHOSEN}</wsse:Password>",
    "an element with attributes": f'<secret id="1">{RANDOM}</secret>',
    "an escaped element": f"&lt;passphrase&gt;{CHOSEN}&lt;/passphrase&gt;",
    "an element in JSON": json.dumps(f"<password>{CHOSEN}</password>"),
    "a character section": f"<client_secret><![CDATA[{CHOSEN}]]></client_secret>",
    "an attribute beside a name": f'<property name="db.password" value="{CHOSEN}"/>',
    "a form's hidden field": f'<input name="authenticity_token" value="{RANDOM}">',
    "an Android string": f'<string name="weather_api_key">{SMALL}</string>',
    "a property list": f"<key>ClientSecret</key>\n\t<string>{RANDOM}</string>",
    "a raw authorization": f"Authorization: {RANDOM}",
    "a raw authorization in quotes": f"'authorization': '{SMALL}'",
    "an authorization with an unknown scheme": f"Authorization: Klaviyo-API-Key {SMALL}",
    "a subscription key": f"Ocp-Apim-Subscription-Key: {random_text(32, '0123456789abcdef')}",
    "a key in a query": f"https://maps.example.org/geocode?q=Oslo&key={RANDOM}",
    "the first key in a query": f"https://maps.example.org/v1?key={SMALL}",
    "a key in an escaped query": f"https://maps.example.org/v1?v=2&amp;key={SMALL}",
    "an identifier of an application": f"https://weather.example.org/?appid={random_text(32, '0123456789abcdef')}",
    "a cookie for curl": f"curl -s -b sessionid={SMALL} https://x",
    "a quoted cookie for curl": f"curl --cookie 'lang=en; JSESSIONID={RANDOM}' https://x",
    "cookies in Python": f"get(url, cookies={{'sessionid': '{SMALL}'}})",
    "a session of a framework": f"_forum_session={RANDOM}",
    "SSHPASS": f"SSHPASS={CHOSEN} sshpass -e scp a b:",
    "REDISCLI_AUTH": f"export REDISCLI_AUTH={CHOSEN}",
    "a glued name": f"ftppass={CHOSEN}",
    "a personal access token": f"AZURE_PAT={SMALL}",
    "a short name": f"LDAP_PW={CHOSEN}",
    "any key in capitals": f"OPENROUTER_KEY={RANDOM}",
    "Ansible's passwords": f"ansible_become_pass: {CHOSEN}",
    "Ansible's passwords in an inventory": f"db1 ansible_user=root ansible_ssh_pass={CHOSEN}",
    "PowerShell": f"$s = ConvertTo-SecureString '{CHOSEN}' -AsPlainText -Force",
    "PowerShell with its parameter": f'ConvertTo-SecureString -AsPlainText -Force -String "{CHOSEN}"',
    "a credential of PowerShell": f"[pscredential]::new('ops', '{CHOSEN}'); New-Object PSCredential('ops', '{CHOSEN}')",
    "ldapsearch": f"ldapsearch -x -D cn=admin -w {CHOSEN} -b dc=x",
    "ldapmodify in quotes": f"ldapmodify -D cn=admin -w '{CHOSEN}' -f a.ldif",
    "ldapsearch in a list": json.dumps(["ldapsearch", "-D", "cn=admin", "-w", CHOSEN]),
    "sqlcmd": f"sqlcmd -S db -U sa -P {CHOSEN}",
    "mongosh": f"mongosh --host h -u root -p {CHOSEN} shop",
    "an archive": f"7z a -p{CHOSEN} out.7z dir && unzip -P {CHOSEN} in.zip",
    "a remote desktop": f"xfreerdp /u:ops /p:{CHOSEN} /v:host",
    "Samba": f"smbclient //srv/share -U 'ops%{CHOSEN}'",
    "openssl": f"openssl pkcs12 -in a.p12 -passin pass:{CHOSEN}",
    "keytool": f"keytool -list -storepass {CHOSEN}",
    "SNMP": f"snmpwalk -v3 -u ops -A {CHOSEN} -X {CHOSEN} host",
    "curl over two lines": f"curl -X POST \\\n  -u ops:{CHOSEN} \\\n  https://x",
    "curl without a space": f"curl -uops:{CHOSEN} https://x",
    "httpie": f"http -a ops:{CHOSEN} https://x",
    "RabbitMQ": f"rabbitmqctl add_user ops {CHOSEN}",
    "htpasswd": f"htpasswd -nb ops {CHOSEN}",
    "chpasswd": f"echo 'ops:{CHOSEN}' | sudo chpasswd",
    "Vault": f"vault login {RANDOM}",
    "SQL*Plus": f"sqlplus scott/{CHOSEN}@orcl",
    "a network's password": f"nmcli device wifi connect Home password {CHOSEN}",
    "a line of pgpass": f"db.example.org:5432:shop:shop:{CHOSEN}",
    "a line of pgpass for every database": f"localhost:*:*:postgres:{CHOSEN}",
    "an entry of netrc": f"machine example.org login ann password {CHOSEN}",
    "an entry of shadow": f"ann:$6${random_text(8)}${random_text(86)}:19000:0:99999:7:::",
    "bcrypt": f"$2y$10${random_text(53)}",
    "a registry's login": f'{{"auths":{{"r.example.org":{{"auth":"{ENCODED}"}}}}}}',
    "a wireless network": f'ssid="Home"\npsk="{CHOSEN}"',
    "a PuTTY key": f"PuTTY-User-Key-File-2: ssh-rsa\nPrivate-Lines: 2\n{KEY_LINE}\n{KEY_LINE}\nPrivate-MAC: {HASH}",
    "a JSON web key": json.dumps({"kty": "EC", "crv": "P-256", "x": "AQAB", "d": HASH}),
    "a JSON web key in a string": json.dumps(json.dumps({"d": HASH, "kty": "OKP"})),
    "a symmetric JSON web key": f"{{'kty': 'oct', 'k': '{HASH}'}}",
    "a Secret": f"apiVersion: v1\nkind: Secret\nmetadata:\n  name: shop\ndata:\n  db: {ENCODED}\n",
    "a Secret with its kind last": f"apiVersion: v1\ndata:\n  db: {ENCODED}\nkind: Secret\n",
    "a Secret in plain text": f"kind: Secret\nstringData:\n  dsn: {CHOSEN}\n",
    "a Secret in JSON": json.dumps({"kind": "Secret", "data": {"db": ENCODED}}),
    "base64 of a private key": f"key: {ENCODED_PEM}",
    "a UUID as a token": f'"api_token": "{UUID}"',
    "a UUID as a secret": f"client_secret: {UUID}",
    "a UUID as a variable": f"HEROKU_API_KEY={UUID}",
    "German": f"Das Passwort ist {CHOSEN}",
    "German with another word": f"Das Kennwort für den Server lautet {CHOSEN}.",
    "German with a colon": f"WLAN-Passwort: {CHOSEN}",
    "French": f"le mot de passe est {CHOSEN}",
    "French with a colon": f"Mot de passe : {CHOSEN}",
    "Spanish": f"la contraseña es {CHOSEN}",
    "Portuguese": f"a senha é {CHOSEN}",
    "Dutch": f"het wachtwoord is {CHOSEN}",
    "Polish": f"hasło to {CHOSEN}",
    "Russian": f"пароль: {CHOSEN}",
    "Japanese": f"パスワードは{CHOSEN}です",
    "Chinese": f"密码是 {CHOSEN}",
    "a purpose": f"the password for the build server is {CHOSEN}",
    "a purpose in brackets": f"API key (production): {RANDOM}",
    "a pair": f"credentials for the box: ann / {CHOSEN}",
    "small letters after a plain name": f"secret: {SMALL}",
    "a method": f'.apiKey("{RANDOM}")',
    "a constant": f"define('AUTH_KEY', '{RANDOM}');",
    "Ruby": f":api_key => '{SMALL}'",
}
HARMLESS = [
    "<password></password>",
    "<password>${env.DB_PASSWORD}</password>",
    '<label for="password">New password:</label>',
    "<key>CFBundleName</key><string>Example2</string>",
    "if token > limit1:",
    "Authorization: Bearer $TOKEN",
    "the Authorization header is missing",
    "https://example.org/list?key=name&order=asc",
    "https://example.org/list?session=2024-01-02",
    "curl -b cookies.txt -c cookies.txt https://x",
    f"session_id={UUID}",
    f"sessionId: {UUID}",
    "boarding_pass: K6NIjuO45K",
    "render_pass = Depth16X8",
    "COMPASS=K6NIjuO45K",
    "CACHE_KEY=q7Rk2vXp9LmZ4wTb",
    "author: K6NIjuO45K",
    "ConvertTo-SecureString $plain -AsPlainText",
    "ldapsearch -W -D cn=admin -b dc=x",
    "ssh -w 0:1 host",
    "sqlcmd -S db -U sa -P $SA_PASSWORD",
    "zip -r out.zip dir && cp -p A1b2C3d4 E5",
    "http -a $USER:$PASS https://x",
    "rabbitmqctl list_users",
    "echo ok | sudo tee /etc/motd",
    "docker run -p 8080:80 nginx",
    "10.0.0.1:5432:connection:closed:again",
    "src/app.py:42:10:error:undefined",
    "kind: ConfigMap\ndata:\n  mode: Production1\n",
    "apiVersion: v1\nkind: Secret\nmetadata:\n  name: shop-db-2\ntype: Opaque\n",
    "kind: SecretStore\ndata:\n  mode: Production1\n",
    f"certificate: {base64.b64encode(b'-----BEGIN CERTIFICATE-----' + b'MIIB' * 20).decode()}",
    json.dumps({"kty": "RSA", "n": HASH, "e": "AQAB"}),
    "Das Passwort ist falsch.",
    "Das Passwort ist mindestens 12-stellig.",
    "le mot de passe est obligatoire",
    "la contraseña es incorrecta",
    "пароль неверный",
    "the password for this account is required",
    "token bucket: 100/100",
    "pod/shop-api-7d4b9c6f5d-x2k8q Running",
]
SECRETS = (CHOSEN, RANDOM, SMALL, UUID, KEY_LINE, HASH, ENCODED, ENCODED_PEM[60:])


@pytest.mark.parametrize("text", PLACES.values(), ids=PLACES.keys())
def test_a_credential_in_its_place_is_hidden(text: str) -> None:
    hidden = redact(f"before\n{text}\nafter")
    assert "[redacted:" in hidden
    assert hidden.startswith("before\n")
    assert hidden.endswith("\nafter")
    assert not [secret for secret in SECRETS if secret in hidden]
    assert redact(hidden) == hidden


@pytest.mark.parametrize("text", HARMLESS)
def test_what_stands_in_such_a_place_but_is_no_credential_is_left(text: str) -> None:
    if UUID in text:
        assert UUID in redact(text)
    else:
        assert redact(text) == text


@pytest.mark.parametrize(
    ("value", "hidden"),
    [
        ({"kind": "Secret", "data": {"db": ENCODED}}, {"kind": "Secret", "data": {"db": "[redacted:secret]"}}),
        (
            {"kind": "Secret", "stringData": {"mode": "plain"}},
            {"kind": "Secret", "stringData": {"mode": "[redacted:secret]"}},
        ),
        ({"kind": "ConfigMap", "data": {"mode": "plain"}}, {"kind": "ConfigMap", "data": {"mode": "plain"}}),
        ({"kty": "EC", "x": "AQAB", "d": HASH}, {"kty": "EC", "x": "AQAB", "d": "[redacted:private-key]"}),
        ({"Authorization": RANDOM}, {"Authorization": "[redacted:authorization]"}),
        ({"api_key": "Sup3rS3cret"}, {"api_key": "[redacted:secret]"}),
        ({"API_KEY": "Sup3rS3cret"}, {"API_KEY": "[redacted:secret]"}),
        ({"api_token": UUID, "session_id": UUID}, {"api_token": "[redacted:secret]", "session_id": UUID}),
        (["ldapsearch", "-w", CHOSEN], ["ldapsearch", "-w", "[redacted:password]"]),
        (["htpasswd", "-nb", "ann", CHOSEN], ["htpasswd", "-nb", "ann", "[redacted:password]"]),
        ({"params": {"key": SMALL, "q": "Oslo"}}, {"params": {"key": SMALL, "q": "Oslo"}}),
    ],
)
def test_values_of_json_are_hidden_as_in_a_text(value: Any, hidden: Any) -> None:
    assert redact_json(value) == hidden
    assert redact_json(hidden) == hidden


@pytest.mark.parametrize(
    "piece",
    [
        "<password>",
        'name="token" ',
        "a:1:b:c:",
        "kind: Secret\ndata:\n",
        '{"kty":"EC",',
        "LS0tLS1CRUdJTi",
        "a_api_",
        "ey.ey.",
        "ldapsearch -w ",
        "Authorization: ",
        "?key=a",
        "Passwort ist ",
        "Private-Lines: 1 ",
        "$6$a$",
        "_session=",
        "AAAAAAAAAA",
    ],
)
def test_a_hostile_text_of_such_places_is_taken_in_full(piece: str) -> None:
    hidden = redact(piece * (60_000 // len(piece)))
    assert redact(hidden) == hidden


MIXED = "Hq4tR9xBm2Lw7ZkP"
LOWER = "tz83mw0qkx5v2r"
SPOKEN = "Harbor_Lights-46"
KEY_LINES = [base64.b64encode(hashlib.sha512(str(n).encode()).digest()).decode()[:64] for n in range(6)]

KINDS = {
    "bundled options of curl": [
        f"curl -sSfu ci:{LOWER} https://h/x",
        f"curl -ksu 'ci:{SPOKEN}' https://h",
        f"curl --user=ci:{LOWER} https://h",
        json.dumps(["curl", "-sLu", f"ci:{LOWER}"]),
    ],
    "a name and its value as arguments": [
        f"define('DB_PASSWORD', '{LOWER}');",
        f"putenv('APP_TOKEN', '{LOWER}')",
        f'os.getenv("SERVICE_TOKEN", "{LOWER}")',
        f'password: str = "{LOWER}"',
        f'val password: String = "{LOWER}"',
        f'let token: &\'static str = "{LOWER}";',
        f"const apiKey: string = '{LOWER}';",
        f"env.setdefault('SMTP_PASSWORD', '{SPOKEN}')",
        f'viper.SetDefault("db.password", "{SPOKEN}")',
        f'source.setPassword("{SPOKEN}");',
    ],
    "a default after a getter": [
        f"process.env.API_TOKEN ?? '{LOWER}'",
        f'ENV["SMTP_PASSWORD"] || "{SPOKEN}"',
        f"getenv('DB_PASSWORD') ?: '{LOWER}';",
        f'env::var("DB_PASSWORD").unwrap_or("{LOWER}".into())',
        f'variable "db_password" {{\n  default = "{SPOKEN}"\n}}',
        f'api_token: str = Field(default="{LOWER}")',
    ],
    "ODBC": [f"Driver=x;UID=sa;PWD={LOWER};", f"DSN=x;UID=sa;PWD={{{SPOKEN}}};Encrypt=no"],
    "a disguised name": [
        f"DB_PASSWORD＝{LOWER}",
        f"ｓｅｃｒｅｔ＿ｔｏｋｅｎ＝{MIXED}",
        f"pass\u200bword={LOWER}",
        f"API_TO\u2060KEN: {MIXED}",
        f"password: \x1b[1m{MIXED}",
    ],
    "a short name": [f"pw: {LOWER}", f"host db, pw={LOWER}, user ops", f"pword={LOWER}"],
    "a continued line": [
        f"tool --password \\\n    {MIXED} --host db",
        f"DB_PASSWORD=\\\n{LOWER} run",
        f"curl -u \\\n  ci:{LOWER} https://h",
        json.dumps(f"tool --password \\\n    {MIXED}"),
        f"Connect -Password `\n  {MIXED}",
        f"password: >-\n  {LOWER}\n",
        f'PASSWORD = (\n    "{LOWER}"\n)',
    ],
    "a column": [
        f"| user | password |\n|---|---|\n| ops | {LOWER} |",
        f"| Setting | Value |\n|---|---|\n| DB password | {LOWER} |",
        f"name,url,username,password\nx,https://x.org,me,{LOWER}",
        f"id;login;Passwort\n1;ops;{MIXED}",
        f"Keep this, for later: user,password,host\nops,{LOWER},db1",
        f"Keep this, for later: | user | password |\n|---|---|\n| ops | {LOWER} |",
        f" user | password\n------+---------\n ops | {LOWER}\n(1 row)",
        f"NAME      PASSWORD\nops       {LOWER}\n",
        f"INSERT INTO users (name, password) VALUES ('a', 'b'), ('ops', '{LOWER}');",
        f"COPY users (name, password) FROM stdin;\nops\t{LOWER}\n\\.",
    ],
    "encoded quotes": [
        f"%7B%22password%22%3A+%22{LOWER}%22%7D",
        f"%257B%2522password%2522%253A%2522{LOWER}%2522%257D",
        f"&quot;password&quot;:&quot;{LOWER}&quot;",
        f"\\u0022password\\u0022:\\u0022{LOWER}\\u0022",
        f"x%3D1%26client_secret%3D{MIXED}%26y",
    ],
    "a store of secrets": [
        f"gh secret set DEPLOY --body {LOWER}",
        f"gh secret set DEPLOY -b'{SPOKEN}' -R o/r",
        f"kubectl create secret generic app --from-literal=db={LOWER}",
        f"az keyvault secret set --vault-name v -n db --value {LOWER}",
        f"aws ssm put-parameter --type SecureString --name /db --value {LOWER}",
        f"printf '%s' '{LOWER}' | docker secret create db -",
        f'dotnet user-secrets set "Db:Main" "{MIXED}"',
        f"fly secrets set STRIPE={LOWER}",
    ],
    "lines of a key without its head": [
        "\n".join(KEY_LINES),
        "\n".join([*KEY_LINES, "Ab3=", "-----END RSA PRIVATE" + " KEY-----"]),
        "\\n".join(KEY_LINES[1:]),
        "\n".join(f"    {line}" for line in KEY_LINES),
    ],
    "a space in place of an equals sign": [
        f"ENV SERVICE_TOKEN {LOWER}",
        f"setenv API_TOKEN {LOWER}",
        f"set -gx DB_PASSWORD {SPOKEN}",
        f"npm config set //registry.npmjs.org/:_authToken {LOWER}",
        f"aws configure set aws_session_token {LOWER} --profile x",
        f"pulumi config set --secret dbPassword {SPOKEN}",
        f"requirepass {LOWER}",
        f"ALTER USER app WITH PASSWORD '{LOWER}';",
        f"CREATE USER 'a'@'%' IDENTIFIED BY '{LOWER}';",
    ],
    "the word of a command or a directive": [
        f"net user backup {LOWER} /add",
        f"etcdctl --user root:{LOWER} get x",
        f"poetry config http-basic.shop ci {LOWER}",
        f"composer config http-basic.repo.example.org ci {LOWER}",
        f"mc alias set store https://s3.example.org AK01 {MIXED}",
        f'createUser watcher SHA "{LOWER}" AES',
        f"com2sec readonly 10.0.0.0/8 {LOWER}",
        f"nmcli dev wifi connect home password {LOWER}",
        f"ngrok config add-authtoken {MIXED}",
        f"snyk auth {MIXED}",
        f"masterauth {LOWER}",
        f"mysqladmin -u root password '{LOWER}'",
        f"bindpw {SPOKEN}",
        f"enable secret 0 {SPOKEN}",
        f"username admin privilege 15 password 7 {LOWER}",
    ],
    "a line of a protocol, a log or a file": [
        f"::add-mask::{LOWER}",
        f"##vso[task.setvariable variable=x;issecret=true]{LOWER}",
        f'Content-Disposition: form-data; name="password"\r\n\r\n{LOWER}\r\n--x',
        f"WIFI:S:home;T:WPA;P:{SPOKEN};;",
        f"USER ops\nPASS {SPOKEN}\n",
        f"/msg NickServ IDENTIFY {LOWER}",
        f"[mail.example.org]:587 smtp@example.org:{SPOKEN}",
        f'expect "Password:"\nsend "{LOWER}\\r"',
        f"open('token.txt', 'w').write('{LOWER}')",
        f"fs.writeFileSync('.npm-token', '{LOWER}')",
    ],
    "a literal of another language": [
        f'NSString *apiSecret = @"{MIXED}";',
        f'char *t = getenv("API_TOKEN") ? getenv("API_TOKEN") : "{MIXED}";',
        f'default = "{LOWER}"  # password of the database',
        f'variable "db_password" {{\n  type = string\n  sensitive = true\n  default = "{LOWER}"\n}}',
        "admin_password: |-\n  harborlights46",
        f'const API_KEY: &str = "{MIXED}";',
        f"private readonly authToken: string = '{LOWER}';",
        "**Password:** `harborlights46`",
        "db.example.org:5432:app:ops:harborlights46",
        "password: harborlights46",
    ],
    "a table of elements, or of columns below one another": [
        f"<tr><th>User</th><th>Password</th></tr>\n<tr><td>ops</td><td><code>{LOWER}</code></td></tr>",
        f"user   password        role\n====== ==============  =====\nops    {LOWER}  admin",
        "name     | ops\npassword | harborlights46",
    ],
    "keys of networks": [
        f'psk="{SPOKEN}"',
        'psk="sunny meadow 42"',
        f"wpa_passphrase home {LOWER}",
        f"snmpwalk -v2c -c {LOWER} 10.0.0.1",
        f"snmp-server community {LOWER} RO",
        f"rocommunity {LOWER} default",
    ],
    "a sentence with the value first": [
        f"please use {LOWER} as the token",
        f"`{MIXED}` is our staging password.",
        f"enter {MIXED} when it asks for the password",
        f"log in with admin / {MIXED}",
    ],
    "a word with a number after a password's name": [
        "log in as ops with the password harborlights46 on staging",
        "La contraseña del servidor es harborlights46",
        "пароль от базы: harborlights46",
        "密码：harborlights46",
        "use harborlights46 as the password",
    ],
    "a file that is named for a credential": [
        f"echo {LOWER} > ~/.vault-token",
        f'echo "{SPOKEN}" | sudo tee /run/secrets/db_password',
        f"cat > ~/.vault-token <<EOF\n{LOWER}\nEOF",
        f"Set-Content -Path secret.txt -Value {LOWER}",
    ],
}


@pytest.mark.parametrize("text", [text for texts in KINDS.values() for text in texts])
def test_a_credential_in_an_unusual_place_is_hidden(text: str) -> None:
    hidden = redact(text)
    assert not [
        part for part in (MIXED, LOWER, SPOKEN, "sunny meadow", "harborlights46", *KEY_LINES[1:5]) if part in hidden
    ]
    assert redact(hidden) == hidden


@pytest.mark.parametrize(
    "text",
    [
        "ssh -i ~/.ssh/ci-deploy-key root@10.0.3.17",
        "ssh -i ~/.ssh/ci-deploy-key root@ec2-3-120-44-9.eu-central-1.compute.amazonaws.com",
        "ssh -i deploy-key ubuntu@h4x9q2b7k1",
        "| option | password |\n|---|---|\n| type | string |",
        "token,count\nrun2,14\nword,3",
        "getattr(node, 'token', 'missing')",
        "kubectl create secret generic tls --from-literal=env=production",
        "echo done > token.log",
        "the tokenizer is used in version 3 as the token source",
        "set password to something",
        "snmp-server community public RO",
        "-----BEGIN CERTIFICATE-----\n" + "\n".join(KEY_LINES) + "\n-----END CERTIFICATE-----",
        "https://example.org/a%20b?password%20reset=%22yes%22",
        "from keys import (\n    _ED448_KEY_SIZE,\n    _ED25519_KEY_SIZE,\n    Ed25519PublicKey,\n)",
        "token, value = line\nrest, Ed25519Key = value",
        "h = HMAC(signing_key, hashes.SHA256())",
        "user, password\n        return self.login('CRAM-MD5', self._CRAM_MD5_AUTH)",
        "GET /users?token_type=bearer HTTP/1.1",
        "PASS tests/login2.test.ts",
        "the password uses sha256 and the token utf8",
        "open('names.txt', 'w').write('tz83mw0qkx5v2r')",
    ],
)
def test_what_stands_in_an_unusual_place_but_is_no_credential_is_left(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize(
    "piece",
    ["password,", "| token ", "\\\n", "%22token", "\u200b", "echo x > ", "a,password\nx,y\n", KEY_LINES[0] + "\n"],
)
def test_a_hostile_text_of_unusual_places_is_taken_in_full(piece: str) -> None:
    hidden = redact(piece * ((100_000 if QUICK else 1_000_000) // len(piece)))
    assert redact(hidden) == hidden
