"""A digest after a night: to whom, once, nothing where nothing is; no receiver fails a night or shows in a log."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.errors import UsageError
from consolidator.runtime.session.webhooks import SIGNATURE
from consolidator.service.clients.checks import check_digest
from consolidator.service.nights import night_digest, receivers
from consolidator.service.nights.runs import JobContext, run_job
from consolidator.settings import Settings
from tests.nights import failed_command_events, log_workdays, query_number, query_rows
from tests.support import in_thread, later, log_events, run_here, user_message

SECRET = "hush5ecret"
DAY = timedelta(days=1)
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")  # Apprise imports it


class Webhook(HTTPServer):
    """Takes messages on a free port; refuses them while told to."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.signatures: list[tuple[str, bytes]] = []  # of each message, with its body
        self.status = 200
        self.answer: dict[str, Any] = {}
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def address(self) -> str:
        """Its address as a setting has it."""
        return f"json://127.0.0.1:{self.server_port}/{SECRET}"


class _Handler(BaseHTTPRequestHandler):
    server: Webhook

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.server.status == 200:
            self.server.messages.append(json.loads(body))
            self.server.signatures.append((self.headers.get(SIGNATURE, ""), body))
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(json.dumps(self.server.answer).encode())

    def log_message(self, *_: Any) -> None:
        """Be silent."""


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    with Webhook() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def told(settings: Settings, webhook: Webhook, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings with the webhook as the receiver."""
    monkeypatch.setattr(receivers, "RETRY_SECONDS", 0)
    return settings.model_copy(update={"digest_to": [SecretStr(webhook.address)]})


async def night(database: Database, clock: FrozenClock, settings: Settings) -> None:
    """Pass the next scheduled night."""
    clock.advance(DAY)
    report = await run_job(JobContext(database, settings), "consolidation")
    assert report["status"] == "done"


async def test_a_night_tells_a_webhook_and_a_file_what_is_new(
    database: Database, environment: dict[str, str], webhook: Webhook, tmp_path: Path
) -> None:
    await log_workdays(database, 3)
    file = tmp_path / "digest.md"
    environment |= {
        "CONSOLIDATOR_DIGEST_TO": f"{webhook.address} file:{file}",
        "CONSOLIDATOR_LOG_LEVEL": "DEBUG",
        "CONSOLIDATOR_QUIET_MINUTES": "0",
        "PYTHONWARNINGS": "error,ignore:'imghdr' is deprecated",
    }
    shown = await in_thread(run_here, "run", "consolidation", environment=environment)
    (message,) = webhook.messages
    assert message["title"].startswith("What your agents learned by 2026-03-02: ")
    assert "consolidator rules" in message["message"]
    assert "pytets" in message["message"]
    text = file.read_text()
    assert text.startswith(f"# {message['title']}\n\nSince ")
    assert text.index("consolidator rules") < text.index("**New facts**") < text.index("**New solutions")
    assert file.stat().st_mode & 0o777 == 0o600
    again = await in_thread(run_here, "run", "consolidation", environment=environment)  # by hand: no night of its own
    config = await in_thread(run_here, "config", environment=environment)
    assert (len(webhook.messages), file.read_text()) == (1, text)
    assert SECRET not in "".join(run.stdout + run.stderr for run in (shown, again, config))
    sent = await in_thread(run_here, "learned", "--send", environment=environment)
    assert sent.stdout == f"sent: {webhook.messages[1]['title']}\n"
    preview = await in_thread(run_here, "learned", "--digest", environment=environment)
    assert preview.stdout in file.read_text().replace("# ", "")


async def test_nothing_new_sends_nothing(
    database: Database, clock: FrozenClock, told: Settings, webhook: Webhook
) -> None:
    await night(database, clock, told)
    assert webhook.messages == []
    await log_workdays(database, 3)
    await night(database, clock, told)
    assert len(webhook.messages) == 1
    await log_events(database, "idle", [user_message("Hello.")])
    await night(database, clock, told)
    await night(database, clock, told)
    assert len(webhook.messages) == 1
    await log_events(database, "again", failed_command_events(9), project="shop")
    await night(database, clock, told)
    assert "Failed again, though a fix had worked before" in webhook.messages[1]["message"]
    assert "run 'pytest " in webhook.messages[1]["message"]
    assert "New" not in webhook.messages[1]["message"]


async def test_a_night_does_not_fail_for_its_receiver_and_the_next_tells_what_it_did_not(
    database: Database,
    clock: FrozenClock,
    told: Settings,
    webhook: Webhook,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    webhook.status = 500
    await log_events(database, "one", [user_message("Our package manager is npm.")], project="/src")
    await night(database, clock, told)
    (warning,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert warning.getMessage().endswith("was not sent to receiver 1 (json): it did not take the message")
    with pytest.raises(UsageError, match="receiver 1"):
        await night_digest.send_digest(database, told)
    webhook.status = 200
    await log_events(database, "two", [user_message("Our database is MySQL.")], project="/src")
    await night(database, clock, told)
    (message,) = webhook.messages
    assert "npm" in message["message"]
    assert "MySQL" in message["message"]
    assert SECRET not in caplog.text


async def test_no_crash_or_replica_sends_a_night_twice_and_nothing_is_lost(
    database: Database, clock: FrozenClock, told: Settings, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        """The process ends while it sends."""

    async def die(*_: Any) -> list[str]:
        raise Killed

    await log_events(database, "one", [user_message("Our package manager is npm.")], project="/src")
    with monkeypatch.context() as patch:
        patch.setattr(night_digest, "send_each", die)
        with pytest.raises(Killed):
            await night(database, clock, told)
    ((run,),) = [row.values() for row in await query_rows(database, "select id from run")]
    await night_digest.send_night_digest(database, told, run)  # a retry, or another replica of this night
    assert webhook.messages == []
    clock.set(later(clock.now(), hours=1))
    await log_events(database, "two", [user_message("Our database is MySQL.")], project="/src")
    await night(database, clock, told)
    assert len(webhook.messages) == 1
    assert "npm" in webhook.messages[0]["message"]
    await night_digest.send_night_digest(database, told, run)
    assert len(webhook.messages) == 1
    assert await query_number(database, "select count(*) from setting where name = 'night_digest'") == 1


async def test_an_address_that_cannot_be_used_is_told_without_it(tmp_path: Path) -> None:
    receiver = [f"nosuch://{SECRET}", SECRET, f"file:{tmp_path}/{SECRET}/x", f"file:{tmp_path}/ok"]
    told = await receivers.send_each([SecretStr(address) for address in receiver], "title", "body")
    assert [line.partition(":")[0] for line in told] == [
        "receiver 1 (nosuch)", "receiver 2 (unknown)", "receiver 3 (file)"
    ]  # fmt: skip
    assert SECRET not in "".join(told)
    assert (tmp_path / "ok").read_text() == "# title\n\nbody\n"


def test_a_file_of_digests_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receivers, "MAX_FILE", 100)

    def send(*arguments: Any) -> list[str]:
        return asyncio.run(receivers.send_each(*arguments))

    for number in range(9):
        assert send([SecretStr(f"file:{tmp_path}/f")], f"night {number}", "x" * 30) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f", "f.1"]
    assert "night 8" in (tmp_path / "f").read_text()
    assert all(path.stat().st_size <= 100 for path in tmp_path.iterdir())


def test_what_is_wrong_with_receivers_is_told_without_sending_anything_or_naming_an_address(
    settings: Settings, webhook: Webhook, tmp_path: Path
) -> None:
    addresses = [
        webhook.address, f"file:{tmp_path}/new.md", f"file:{tmp_path}/nowhere/{SECRET}", f"file:{tmp_path}",
        f"quark://{SECRET}",
    ]  # fmt: skip
    (check,) = check_digest(settings.model_copy(update={"digest_to": list(map(SecretStr, addresses))}))
    assert not check.passed
    for wrong in ("3 (file): it cannot", "4 (file): it is a directory", "5 (quark): not an address"):
        assert f"receiver {wrong}" in check.found
    assert "receiver 1" not in check.found
    assert SECRET not in check.found
    (check,) = check_digest(settings.model_copy(update={"digest_to": list(map(SecretStr, addresses[:2]))}))
    assert check.passed
    assert webhook.messages == []
    assert list(tmp_path.iterdir()) == []
