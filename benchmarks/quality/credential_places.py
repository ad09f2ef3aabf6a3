"""Places where credentials stand, and ordinary lines that hold none, to measure redaction with.

In a place, `«pw»` is a password, `«alnum»` 32 letters and digits, `«lower»` 30 small letters and digits, `«hex»` 40
hexadecimal digits, `«uuid»` a UUID, `«b64»` base64 of a password, `«key»` lines of a private key.
"""

from __future__ import annotations

import base64
import random
import re
import string
import uuid
from collections.abc import Iterator

# A place a line; "\n" and "\t" in it are a line end and a tab.
_PLACES = r"""
<server><id>releases</id><username>ci</username><password>«pw»</password></server>
<property name="connection.password">«pw»</property>
<property name="password" value="«pw»"/>
<add key="ClearTextPassword" value="«pw»" />
<string name="maps_api_key">«alnum»</string>
<entry key="db.password">«pw»</entry>
<key>ApiToken</key>\n  <string>«alnum»</string>
<passphrase>«pw»</passphrase>
<apiKey>«lower»</apiKey>
<ns:clientSecret>«alnum»</ns:clientSecret>
&lt;password&gt;«pw»&lt;/password&gt;
<password><![CDATA[«pw»]]></password>
<input type="hidden" name="csrf_token" value="«alnum»">
Authorization: «alnum»
authorization: «hex»
"Authorization": "«alnum»"
-H 'Authorization: ApiKey «alnum»'
-H "Authorization: SSWS 00«alnum»"
Proxy-Authorization: Basic «b64»
Authorization: Negotiate «alnum»«alnum»
X-Auth-Token: «hex»
PRIVATE-TOKEN: «alnum»
X-Vault-Token: «alnum»
Ocp-Apim-Subscription-Key: «hex»
X-Goog-Api-Key: «lower»
X-Amz-Security-Token: «alnum»«alnum»
X-Shopify-Access-Token: «hex»
headers={'Authorization': '«alnum»'}
GET /v1/geocode?address=x&key=«alnum» HTTP/1.1
https://api.example.org/weather?q=Bergen&appid=«hex»
https://api.example.org/v2/list?key=«lower»
https://example.org/cb?access_token=«alnum»&state=1
https://example.org/export?auth=«alnum»
https://example.org/reset?token=«uuid»
https://files.example.org/a.zip?sig=«alnum»%3D&se=2026
https://example.org/?user=a&password=«pw»
https://maps.example.org/js?v=3&amp;key=«alnum»
curl -b sessionid=«lower» https://x.example.org
curl --cookie "JSESSIONID=«hex»" https://x.example.org
curl -b 'theme=dark; connect.sid=«alnum»' http://x
Cookie: PHPSESSID=«lower»; lang=en
Set-Cookie: _shop_session=«alnum»; path=/; HttpOnly
requests.get(u, cookies={'sessionid': '«alnum»'})
document.cookie = "auth_token=«alnum»"
wget --header="Cookie: laravel_session=«alnum»" http://x
curl -u ops:«pw» https://x
curl --user 'ops:«pw»' https://x
curl --proxy-user ops:«pw» https://x
curl -H "X-Api-Key:«lower»" https://x
http -a ops:«pw» https://x.example.org
wget --http-user=ops --http-password=«pw» http://x
SSHPASS=«pw» sshpass -e ssh root@h
export REDISCLI_AUTH=«pw»
MYSQL_PWD=«pw» mysql -u root
PGPASSWORD='«pw»' psql -h db
DBPASS=«pw»
export GH_PAT=«alnum»
AZURE_DEVOPS_EXT_PAT=«lower»
LDAP_BIND_PW=«pw»
BORG_PASSPHRASE='«pw»'
NPM_AUTH=«b64»
RAILS_MASTER_KEY=«hex»
APP_KEY=base64:«alnum»=
JWT_SIGNING_KEY=«alnum»
DATADOG_KEY=«hex»
SMTP_CREDS=ops:«pw»
ENV SECRET_KEY_BASE «hex»«hex»
ARG NPM_TOKEN=«uuid»
setx API_TOKEN «alnum»
$env:ACCESS_TOKEN = "«alnum»"
set DB_PASSWORD=«pw»
ansible_become_pass: «pw»
ansible_ssh_pass=«pw»
vault_db_pass: "«pw»"
web1 ansible_host=10.0.0.1 ansible_user=root ansible_password=«pw»
ansible all -e "ansible_become_pass=«pw»" -m ping
$p = ConvertTo-SecureString '«pw»' -AsPlainText -Force
ConvertTo-SecureString -String "«pw»" -AsPlainText
ConvertTo-SecureString «pw» -AsPlainText -Force
New-Object PSCredential('ops', '«pw»')
net use Z: \\srv\share «pw» /user:ops
cmdkey /add:srv /user:ops /pass:«pw»
ldapsearch -x -D cn=admin,dc=x -w «pw» -b dc=x
ldapadd -D cn=admin -w '«pw»' -f x.ldif
ldappasswd -D cn=admin -w «pw» -s «pw»
sqlcmd -S db -U sa -P «pw» -Q "select 1"
mongosh -u admin -p «pw» --authenticationDatabase admin
mongodump --username a --password «pw»
mysqldump -uroot -p«pw» shop
redis-cli -h r -a «pw» ping
cypher-shell -u neo4j -p «pw»
mosquitto_pub -u dev -P «pw» -t a -m b
ipmitool -H h -U root -P «pw» power on
xfreerdp /v:h /u:ops /p:«pw»
rdesktop -u ops -p «pw» h
smbclient //h/s -U ops%«pw»
openssl enc -aes-256-cbc -k «pw» -in a
openssl rsa -in k.pem -passin pass:«pw»
gpg --batch --passphrase «pw» -d a.gpg
zip -P «pw» out.zip a
unzip -P «pw» in.zip
7z x -p«pw» a.7z
keytool -list -keystore k.jks -storepass «pw»
twine upload -u __token__ -p «alnum» dist/*
poetry config pypi-token.pypi «alnum»
npm config set //registry.example.org/:_authToken «alnum»
aws configure set aws_secret_access_key «alnum»
vault login «alnum»
doctl auth init -t «hex»
rabbitmqctl add_user ops «pw»
rabbitmqctl change_password ops «pw»
echo 'deploy:«pw»' | chpasswd
htpasswd -b .htpasswd ops «pw»
nmcli dev wifi connect home password «pw»
sqlplus scott/«pw»@db
lftp -u ops,«pw» ftp.example.org
snmpget -v3 -u ops -a SHA -A «pw» -x AES -X «pw» h
docker login -u me -p «pw» r.example.org
echo «pw» | sudo -S true
echo "«pw»" | kinit ops
subprocess.run(["ldapsearch", "-w", "«pw»", "-b", "dc=x"])
db.internal:5432:shop:app:«pw»
*:*:*:postgres:«pw»
machine h login ops password «pw»
ops:$6$«lower»$«alnum»«alnum»:19000:0:99999:7:::
ops:$apr1$abcdefgh$«alnum»
$2b$12$«alnum»«alnum»
{"auths": {"r.example.org": {"auth": "«b64»"}}}
//registry.example.org/:_password=«b64»
[client]\nuser=root\npassword=«pw»
network={\n  ssid="home"\n  psk="«pw»"\n}
PuTTY-User-Key-File-3: ssh-ed25519\nPublic-Lines: 1\nAAAAC3Nz\nPrivate-Lines: 1\n«key»\nPrivate-MAC: «hex»
{"kty": "RSA", "n": "x", "e": "AQAB", "d": "«alnum»«alnum»"}
{"kty":"oct","k":"«alnum»"}
{"crv":"P-256","d":"«alnum»«alnum»","kty":"EC"}
kind: Secret\nmetadata:\n  name: db\ndata:\n  username: b3Bz\n  db: «b64»
kind: Secret\nstringData:\n  config: «pw»
    client-key-data: «pem64»
key = "«pem64»"
-----BEGIN OPENSSH PRIVATE KEY-----\n«key»\n-----END OPENSSH PRIVATE KEY-----
"api_token": "«uuid»"
client_secret='«uuid»'
HEROKU_API_KEY=«uuid»
api-key: "«uuid»"
"secret": "«uuid»"
postgres://app:«pw»@db:5432/shop
amqp://ops:«alnum»@mq/
jdbc:mysql://db/shop?user=app&password=«pw»
https://ops:«alnum»@git.example.org/x.git
Server=db;Database=shop;User Id=sa;Pwd=«pw»;
Endpoint=sb://x.example.org/;SharedAccessKeyName=k;SharedAccessKey=«alnum»=
Das Passwort ist «pw»
Passwort: «pw»
Das Kennwort lautet «pw».
le mot de passe est «pw»
mot de passe : «pw»
la contraseña es «pw»
a senha é «pw»
la password è «pw»
het wachtwoord is «pw»
lösenordet är «pw»
hasło to «pw»
пароль: «pw»
パスワードは«pw»です
密码是 «pw»
my password for the staging box is «pw»
The admin password is «pw», do not tell anyone.
use the token «alnum» for that
log in with user ops and password «pw»
the API key you need: «lower»
password (staging): «pw»
here are the credentials: ops / «pw»
const apiKey = '«alnum»';
secret := "«lower»"
define('AUTH_KEY', '«pw»«pw»');
config.password = "«pw»"
"password" => "«pw»"
:api_key => '«lower»'
conn = connect(host="h", user="u", passwd="«pw»")
client = Client(api_key="«lower»")
Client.builder().secretKey("«alnum»").build()
os.environ["OPENAI_KEY"] = "«alnum»"
-e POSTGRES_PASSWORD=«pw»
      POSTGRES_PASSWORD: «pw»
    - name: DB_PASSWORD\n      value: "«pw»"
--set auth.password=«pw»
--from-literal=password=«pw»
-var 'db_password=«pw»'
-Dsonar.login=«hex»
git config http.extraheader "PRIVATE-TOKEN: «alnum»"
""".strip()

_ORDINARY_LINES = r"""
fatal: not a git repository (or any of the parent directories): .git
On branch feature/token-refresh, ahead of 'origin/main' by 2 commits.
commit 9fceb02d0ae598e95dc970b74767f19372d61af8
Author: Ann Example <ann@example.org>
index 83db48f..bf269f4 100644
def reset_password(user: User, token: str) -> None:
    password = getpass.getpass("Password: ")
    token = request.headers.get("X-Auth-Token")
    api_key = os.environ.get("API_KEY", "")
    password: str = Field(min_length=8)
    "max_tokens": 4096, "temperature": 0.7
    {"prompt_tokens": 1532, "completion_tokens": 210, "total_tokens": 1742}
    assert response.json()["token"] is not None
ERROR 1045 (28000): Access denied for user 'root'@'localhost' (using password: YES)
psql: error: FATAL:  password authentication failed for user "app"
Permission denied (publickey,password).
Enter passphrase for key '/home/ann/.ssh/id_ed25519':
sudo: a password is required
The token is invalid or has expired.
Please set your API key in the environment variable EXAMPLE_API_KEY.
Passwort vergessen? Klicken Sie hier.
Das Passwort ist falsch.
le mot de passe est incorrect
la contraseña es obligatoria
The password is case-sensitive and must have 12 characters.
The secret is in the vault under kv/data/shop.
The key is to keep the functions short.
My password manager is 1Password.
npm ERR! code E401 Incorrect or missing password.
Cookie: theme=dark; lang=en-GB
Set-Cookie: consent=yes; Max-Age=31536000; Path=/
Authorization: Bearer <token>
Authorization: Bearer $TOKEN
WWW-Authenticate: Basic realm="restricted"
curl -u "$USER:$PASS" https://api.example.org
curl -H "Authorization: Bearer ${TOKEN}" https://api.example.org
curl -b cookies.txt -c cookies.txt https://example.org
mysql -u root -p shop < dump.sql
mysqldump -p --all-databases
docker run -p 8080:80 -e POSTGRES_PASSWORD_FILE=/run/secrets/pw postgres:18
ssh -p 2222 -i ~/.ssh/id_rsa deploy@10.0.0.5
mkdir -p build/Release2/x86_64
ldapsearch -x -H ldap://localhost -b dc=example,dc=org '(uid=ann)'
ldapsearch -W -D cn=admin,dc=example,dc=org
openssl req -x509 -newkey rsa:4096 -keyout key.pem -out cert.pem -nodes
openssl x509 -in cert.pem -noout -fingerprint -sha256
ConvertTo-SecureString $plain -AsPlainText -Force
<password>${env.MAVEN_PASSWORD}</password>
<password></password>
<input type="password" name="password" id="password" placeholder="Password">
<label for="password">Password:</label>
<key>CFBundleIdentifier</key><string>org.example.App2</string>
https://example.org/search?key=name&order=asc
https://example.org/list?page_token=&limit=50
https://example.org/docs/authentication#api-keys
https://cdn.example.org/app.4f3c2b1a9d8e7f60.js?v=20240102
apiVersion: v1\nkind: ConfigMap\ndata:\n  mode: production
apiVersion: v1\nkind: Secret\nmetadata:\n  name: db-credentials
image: registry.example.org/shop@sha256:4a1c4b21597c1b4415bdbecb28a3296c6b5e23ca4f9feeb599860a1dac6a0108
"integrity": "sha512-9Y0q0T0Jm3C6zTFKDfVYI7aCi8F3vVYJm4wHx7m0kY0bY0n3U1b1K4c6K2jQm0v1kV9Lr0U0b6l8oQ5JkqzVxg=="
"resolved": "https://registry.example.org/left-pad/-/left-pad-1.3.0.tgz#5b8a3a7765dfe001261dde915589e782f8c94d1e"
    --hash=sha256:0b1a3e5f7c9d2b4a6e8f0a1c3d5e7f9b1c3d5e7f9a1b3c5d7e9f1a3b5c7d9e1f
ETag: "33a64df551425fcc55e4d42a148795d9f25f89d4"
X-Request-Id: 7b3bf470-9456-11ee-b9d1-0242ac120002
sessionId: 3f2504e0-4f89-41d3-9a0c-0305e82c3301
"tool_use_id": "toolu_01A09q90qw90lq917835lq9"
"id": "chatcmpl-9a8b7c6d5e4f3a2b1c0d9e8f7a6b5c4d"
"thread_id": "thread_abc123DEF456ghi789JKL012"
pod/shop-api-7d4b9c6f5d-x2k8q   1/1   Running   0   12m
arn:aws:iam::123456789012:role/deploy
s3://example-bucket-4f2a/2024/01/02/part-00000-6f1d.parquet
ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl ann@example.org
-----BEGIN CERTIFICATE-----
-----BEGIN PUBLIC KEY-----
data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk
E   AssertionError: assert 'a1b2c3' == 'a1b2c4'
  File "/usr/lib/python3.11/site-packages/requests/auth.py", line 57, in __init__
tests/test_auth.py::test_password_is_hashed PASSED [ 42%]
PASS: test_token_expiry
primary_key=True, foreign_key="user.id"
sort(key=lambda item: item.created_at)
for key, value in sorted(settings.items()):
cache_key = f"{user_id}:{version}"
const [password, setPassword] = useState('');
if (!token) throw new Error('missing token');
export const AUTH_HEADER = 'x-auth-token';
SECRET_KEY = config("SECRET_KEY")
key: ${{ runner.os }}-pip-${{ hashFiles('requirements.txt') }}
password: ${{ secrets.REGISTRY_PASSWORD }}
  password: {{ vault_db_password }}
boarding_pass: A12
two_pass = Encode2Pass
11:45:02.331 [main] INFO token bucket refilled: 100/100
192.168.0.10:5432:connection refused
localhost:8080:shop:api:started
db.internal:5432:shop:app:*
user:x:1000:1000:Ann:/home/ann:/bin/bash
Transaction 0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060 mined
GPG key ID 0x4AEE18F83AFDEB23
MD5 (a.iso) = 9e107d9d372bb6826bd81d3542a419d6
PYTHONHASHSEED=1234567890
ISBN 978-3-16-148410-0, DE89 3704 0044 0532 0130 00
""".strip()

_SYMBOLS = "!#%*+?_"


def render_places() -> Iterator[tuple[str, str, list[str]]]:
    """Yield each place, its text, and the credentials in it, the same in every run."""
    generator = random.Random(20260101)
    for place in _PLACES.splitlines():
        text, credentials = "", []
        for number, piece in enumerate(re.split(r"«(\w+)»", place.replace("\\n", "\n").replace("\\t", "\t"))):
            if number % 2:
                credential = _make_credential(piece, generator)
                credentials.append(credential)
                text += credential
            else:
                text += piece
        yield place, text, credentials


def list_ordinary_lines() -> list[str]:
    """Return lines that hold no credential."""
    return [line.replace("\\n", "\n") for line in _ORDINARY_LINES.splitlines()]


def _make_credential(kind: str, generator: random.Random) -> str:
    if kind == "pw":
        parts = (string.ascii_uppercase, string.ascii_lowercase * 3, string.digits, _SYMBOLS, string.ascii_letters * 2)
        return "".join(generator.choice(characters) for characters in parts for _ in range(2))
    if kind == "b64":
        return base64.b64encode(f"ops:{_make_credential('pw', generator)}".encode()).decode()
    if kind == "pem64":
        key = f"-----BEGIN EC PRIVATE KEY-----\n{_make_credential('key', generator)}\n"
        return base64.b64encode(key.encode()).decode()
    if kind == "uuid":
        return str(uuid.UUID(int=generator.getrandbits(128), version=4))
    alphabet, length = {
        "alnum": (string.ascii_letters + string.digits, 32),
        "lower": (string.ascii_lowercase + string.digits, 30),
        "hex": ("0123456789abcdef", 40),
        "key": (string.ascii_letters + string.digits + "+/", 64),
    }[kind]
    return "".join(generator.choice(alphabet) for _ in range(length))
