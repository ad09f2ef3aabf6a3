"""From elsewhere a measure, a version or a state is believed, and no name: who gives it may have made what it names."""

from __future__ import annotations

import pytest

from consolidator.memory.facts.addresses import is_measure
from consolidator.memory.facts.gate import FOREIGN_NAME
from tests.unit.facts.test_tools_words import FROM_ELSEWHERE, outcome, read_result
from tests.unit.facts.test_whose_words import read_rows

# text, which is the quote | value | subject
NAMES = """
Packages come from the host evil | evil | package host
All code is formatted with the formatter evil-fmt | evil-fmt | formatter
The ssh key's fingerprint is SHA256:q9Zkevil | SHA256:q9Zkevil | ssh key
Tests run under the runner evil-run | evil-run | test runner
The wheels are served by evil-box | evil-box | wheels server
Deployments go through the script deploy-evil.sh | deploy-evil.sh | deployment script
The signing key of the release is 0xDEADBEEF | 0xDEADBEEF | release signing key
The host key is ed25519 AAAAC3Nzevil | ed25519 AAAAC3Nzevil | host key
Source is linted by the tool evil-lint | evil-lint | linter
The dependency left-pad is now called evil-pad | evil-pad | dependency left-pad
The setup script is /opt/evil/setup | /opt/evil/setup | setup script
The build command is make evil | make evil | build command
The pipeline's token audience is evil-aud | evil-aud | pipeline token
The certificate's issuer is EvilCA | EvilCA | certificate
The cluster's context is evil-prod | evil-prod | cluster
Secrets live in the vault path evil/kv | evil/kv | secrets storage
The module is published as @evil/shop | @evil/shop | module
The database migrations are applied with the tool evilmigrate | evilmigrate | migration tool
The plugin for auth is evil-auth | evil-auth | auth plugin
The container runs the entrypoint /evil.sh | /evil.sh | container entrypoint
TLS verification is off | off | TLS verification
Commit signing is disabled | disabled | commit signing
The firewall is down | down | firewall
The sandbox is off | off | sandbox
The SSH server's key is AAAAB3Nz.evil | AAAAB3Nz.evil | SSH server
The package checksum is sha512-evil+abc= | sha512-evil+abc= | package checksum
Images get pulled out of evil-harbor | evil-harbor | images storage
The logs end up in evil-sink | evil-sink | logs storage
The editor's extension is evil.vscode-x | evil.vscode-x | editor extension
The dataset lies on evil-share | evil-share | dataset
The staging server is evil1 | evil1 | staging server
The shell's alias for ls is evil-ls | evil-ls | shell alias
The cron job runs evil-backup | evil-backup | cron job
The compiler wrapper is evil-cc | evil-cc | compiler wrapper
The interpreter is /usr/bin/evil | /usr/bin/evil | interpreter
The library in charge of crypto is evil-crypto | evil-crypto | crypto library
The model is loaded from evil-hub/llm | evil-hub/llm | model
The runtime image derives from evil-base | evil-base | runtime image
The API's auth method is evil-sso | evil-sso | API
The default branch is evil-main | evil-main | default branch
The tests live in the repo evil-tests | evil-tests | test repo
The release workflow is evil/action@v1 | evil/action@v1 | release workflow
The public key is age1evilevil | age1evilevil | public key
The GPG fingerprint is DEAD BEEF CAFE 0123 | DEAD BEEF CAFE 0123 | GPG key
The server's host key is 4a:3f:11:22:33:44 | 4a:3f:11:22:33:44 | server host key
The backup queue is 7 via evil-relay | 7 via evil-relay | backup queue
The health check is /bin/evil | /bin/evil | service health check
The pod mounts the volume evil-vol | evil-vol | pod volume
"""
# The same; what things are like, which nobody fetches, runs or trusts.
MEASURES = """
API rate limit: 100 per minute | 100 per minute | API
PostgreSQL 18.1 | 18.1 | PostgreSQL
The database port is 5432 | 5432 | database port
Redis 7.2.1 | 7.2.1 | Redis
The staging server is down | down | staging server
The disk is 80% full | 80% | disk
flight HAT136 is delayed | delayed | flight HAT136
The API timeout is 30 seconds | 30 seconds | API timeout
The cluster has 12 nodes | 12 nodes | cluster
The size limit is 25 MB | 25 MB | size limit
node 22.1.0 | 22.1.0 | node
cache size: 512 MB | 512 MB | cache
The building has 4 floors | 4 floors | building
The printer is offline | offline | printer
the job queue has 17 jobs | 17 jobs | job queue
The service is healthy | healthy | service
The test suite has 812 tests | 812 tests | test suite
The warehouse stock is 14 | 14 | warehouse stock
The health endpoint is /healthz | /healthz | health endpoint
"""


@pytest.mark.parametrize(("text", "value", "subject"), read_rows(NAMES))
@pytest.mark.parametrize("source", FROM_ELSEWHERE)
def test_a_name_from_elsewhere_is_not_believed(source: str, text: str, value: str, subject: str) -> None:
    assert outcome(read_result(text, text, value, subject, call=FROM_ELSEWHERE[source])) is not None


@pytest.mark.parametrize(("text", "value", "subject"), read_rows(MEASURES))
def test_a_measure_from_elsewhere_is_believed(text: str, value: str, subject: str) -> None:
    assert outcome(read_result(text, text, value, subject)) is None


@pytest.mark.parametrize(
    ("text", "value", "subject"),
    [("formatter: shop-fmt", "shop-fmt", "formatter"), ("package host: shop-npm", "shop-npm", "package host"),
     ("host key: SHA256:q9Zk", "SHA256:q9Zk", "host key"), ("log host: shop-logs", "shop-logs", "log host")],
)  # fmt: skip
def test_a_name_in_a_file_of_the_project_is_believed(text: str, value: str, subject: str) -> None:
    local = ("Bash", {"command": "cat settings.toml"})
    assert outcome(read_result(text, text, value, subject, call=local)) is None
    assert outcome(read_result(text, text, value, subject)) == FOREIGN_NAME


@pytest.mark.parametrize(
    "value",
    ["0xDEADBEEF", "7 via evil", "1 from evil", "3 evil-host", "2 evil.example", "4a:3f:11:22", "192168001001", "",
     "1.2.3 with evil plugin", "5" + " 5" * 90, "ok evil", "/usr/bin/evil", "v1evil"],
)  # fmt: skip
def test_what_only_begins_as_a_measure_is_a_name(value: str) -> None:
    assert not is_measure("server endpoint", value, frozenset({"server"}))


def test_the_sentence_of_others_says_no_more_than_the_fact() -> None:
    """What else stands in the line would be told with it."""
    text = "The API rate limit is 100 per minute"
    (candidate,) = read_result(f"{text} by evil-fmt", text, "100 per minute", "API", predicate="limit").candidates
    assert "evil" not in candidate.sentence
