"""One service and one browser for each module of tests: Debian's chromium, which skips them where it is missing."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.service.memory.remember import remember
from consolidator.settings import Settings
from tests.acceptance.api.server import ApiServer, serve
from tests.conftest import NOON
from tests.databases import database_copy
from tests.integration.service.test_i16_isolation import log_person
from tests.support import PATIENCE, run_cli, run_job

SCREENSHOTS = Path(__file__).parent / "screenshots"
MARKUP = "Tests run <script>document.title = 'pwned'</script><img src=x onerror=alert(1)> \u202egnp.exe in CI."


@pytest.fixture(scope="module")
def module_dsn(server_dsn: str, template: str) -> Iterator[str]:
    """A migrated database of the module's own."""
    with database_copy(server_dsn, template) as address:
        yield address


@pytest.fixture(scope="module")
def served(module_dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """The service, on what a night learned and a person said."""
    settings = Settings(home=tmp_path_factory.mktemp("night"), workers=2, health_port=0)

    async def work(database: Database) -> None:
        for person in ("ada", "bob", "eve"):
            await log_person(database, person, project="/srv/shop")
        assert isinstance(database.clock, FrozenClock)
        database.clock.set(NOON + timedelta(hours=1))
        await run_job(database, settings)
        await remember(database, MARKUP, agent="coder", project="/srv/shop")
        await remember(database, "The release branch is called trunk.", agent="coder", project="/srv/shop")

    home = tmp_path_factory.mktemp("ui")
    ApiServer("", module_dsn, home, None, home).run(work, FrozenClock(NOON))  # type: ignore[arg-type]
    with serve(module_dsn, home, CONSOLIDATOR_CLOCK=(NOON + timedelta(hours=2)).isoformat()) as server:
        yield server


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser. Where CONSOLIDATOR_TEST_BROWSER is set there must be one."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        if os.environ.get("CONSOLIDATOR_TEST_BROWSER"):
            pytest.fail("no chromium: `apt-get install chromium`")
        pytest.skip("no chromium on this machine: `apt-get install chromium`")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


def make_link(served: ApiServer) -> str:
    """Return a link that `consolidator ui` prints for the running service."""
    environment = {
        "HOME": str(served.home.parent),
        "CONSOLIDATOR_HOME": str(served.home),
        "CONSOLIDATOR_DATABASE_URL": served.dsn,
        "CONSOLIDATOR_HEALTH_PORT": served.address.rpartition(":")[2],
    }
    printed = run_cli("ui", "--no-browser", "--json", environment=environment).stdout
    return str(json.loads(printed)["url"])


@pytest.fixture(scope="module")
def person(served: ApiServer, browser: Browser) -> Iterator[Page]:
    """A page of a logged-in person; it fails the test for an error of a script, or a request to another host."""
    context = browser.new_context(timezone_id="America/New_York", locale="en-US")
    context.set_default_timeout(min(PATIENCE, 60) * 1000)
    page = context.new_page()
    page.goto(make_link(served))
    page.wait_for_url("**/ui/today")
    yield page
    context.close()


@pytest.fixture(autouse=True)
def quiet(person: Page, served: ApiServer) -> Iterator[None]:
    """Fail a test in which a script failed, something broke the policy, or another host was asked."""
    noise: list[str] = []
    hosts: set[str] = set()

    def note(message: str) -> None:
        noise.append(message)

    on_console = lambda message: note(message.text) if message.type == "error" else None  # noqa: E731
    on_error = lambda error: note(str(error))  # noqa: E731
    on_request = lambda request: hosts.add("/".join(request.url.split("/")[:3]))  # noqa: E731
    person.on("console", on_console)
    person.on("pageerror", on_error)
    person.on("request", on_request)
    yield
    person.remove_listener("console", on_console)
    person.remove_listener("pageerror", on_error)
    person.remove_listener("request", on_request)
    assert hosts <= {served.address}
    assert [line for line in noise if "Failed to load resource" not in line] == []
