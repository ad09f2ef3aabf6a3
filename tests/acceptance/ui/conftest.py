"""One service and one browser for all tests of the page: Debian's chromium, which skips them where it is missing.

Each module uses sessions and facts of its own, or leaves those of all as it found them. The scope is the package and
not the session, because a browser that stays open keeps an event loop running, in which other tests could not start
theirs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.models.event import NewEvent
from consolidator.models.memory_filter import MemoryScope
from consolidator.models.payload import EventType
from consolidator.service.memory.remember import remember
from consolidator.settings import Settings
from consolidator.store.nights import runs
from consolidator.testing import ScriptedReply
from tests.acceptance.api.server import ApiServer, answer_models, serve, use_model
from tests.acceptance.browser import check_page, open_browser
from tests.conftest import NOON
from tests.databases import database_copy
from tests.integration.service.test_i16_isolation import log_person, session_name
from tests.support import PATIENCE, QUICK, call_and_result, log_events, run_here, run_job, user_message

SCREENSHOTS = Path(__file__).parent / "screenshots"
LOOKS = {"light": (1280, "light"), "dark": (1280, "dark"), "narrow": (390, "light")}
MARKUP = "Tests run <script>document.title = 'pwned'</script><img src=x onerror=alert(1)> \u202egnp.exe in CI."
NO_UPSTREAM = "fatal: The current branch main has no upstream branch."
TOOLS = '''
import asyncio

from consolidator import tool


@tool(needs_approval=True)
def publish(what: str) -> str:
    """Publish something."""
    return f"published {what}"


@tool
async def transfer(what: str) -> str:
    """Transfer something, which takes long."""
    await asyncio.sleep(120)
    return f"transferred {what}"
'''


def answer(request: dict[str, Any]) -> ScriptedReply:
    """Answer as a model that publishes what it is told to."""
    last = request["messages"][-1]
    if last["role"] == "tool":
        return ScriptedReply(text=f"It says: {last['content']}")
    if "publish" in str(last["content"]):
        return ScriptedReply.calling(("publish", {"what": "<b>the \u202e site</b>"}))
    if "transfer" in str(last["content"]):
        return ScriptedReply.calling(("transfer", {"what": "the money"}))
    if "story" in str(last["content"]):
        return ScriptedReply(text="Once upon a time " + " ".join(f"part{number}" for number in range(400)), pace=0.05)
    if "release branch" in str(last["content"]):
        return ScriptedReply(text="It is called trunk.")
    return ScriptedReply(text="An answer.")


@pytest.fixture(scope="package")
def package_dsn(server_dsn: str, template: str) -> Iterator[str]:
    """A migrated database of the package's own."""
    with database_copy(server_dsn, template) as address:
        yield address


@pytest.fixture(scope="package")
def served(package_dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """The service, on what a night learned and a person said."""
    settings = Settings(home=tmp_path_factory.mktemp("night"), workers=2, health_port=0)

    repository = tmp_path_factory.mktemp("repository")

    async def work(database: Database) -> None:
        for person in ("ada", "bob", "eve"):
            await log_person(database, person, project="/srv/shop")
        for number, text in enumerate(
            ("read src/a.ts in full", "ok, read @docs/b.md in full please", "Read it in full")
        ):
            await log_events(database, f"asked-{number}", [user_message(text)], agent="coder", project=str(repository))
            pushes = call_and_result("1", "Bash", {"command": "git push"}, NO_UPSTREAM, "error")
            pushes += call_and_result("2", "Bash", {"command": "git push -u origin main"})
            events = [user_message(text), *pushes]
            await log_events(database, f"also-{number}", events, agent="coder", project="/srv/other")
        assert isinstance(database.clock, FrozenClock)
        database.clock.set(NOON + timedelta(hours=1))
        await run_job(database, settings)
        async with database.transaction() as conn:
            (night, *_) = await runs.list_runs(conn, job="consolidation")
            failure = {2: "facts: <b>it broke</b>"}
            await runs.add_dead_letters(conn, night.id, session=session_name("ada", 0), failures=failure, now=NOON)
        await log_events(database, "hostile", hostile_events(), agent="<b>coder</b>", origin="test:hostile")
        await remember(database, MARKUP, MemoryScope(agent="coder", project="/srv/shop"))
        await remember(database, "The release branch is called trunk.", MemoryScope(agent="coder", project="/srv/shop"))

    home = tmp_path_factory.mktemp("ui")
    ApiServer("", package_dsn, home, None, home).run(work, FrozenClock(NOON))  # type: ignore[arg-type]
    (home / "mytools.py").write_text(TOOLS)
    now = (NOON + timedelta(hours=2)).isoformat()
    with (
        answer_models(answer) as models,
        serve(
            package_dsn, home, "--tools", str(home / "mytools.py"), CONSOLIDATOR_CLOCK=now, **use_model(models)
        ) as it,
    ):
        yield it


def hostile_events() -> list[NewEvent]:
    """Return what a log may hold to deceive whoever looks at it."""
    words = "<img src=x onerror=alert(1)> \u202egnp.exe\x07 " + "long " * 3000
    return [
        NewEvent(EventType.USER_MESSAGE, {"text": words}),
        NewEvent(EventType.TOOL_CALL, {"call_id": "1", "tool": "Bash", "arguments": {"command": words}}),
        NewEvent(EventType.TOOL_RESULT, {"call_id": "1", "status": "error", "content": words}),
    ]


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """A browser for all tests of the page."""
    with open_browser() as opened:
        yield opened


def service_environment(served: ApiServer) -> dict[str, str]:
    """Return the environment of a command that works beside the running service."""
    return {
        "HOME": str(served.home.parent),
        "CONSOLIDATOR_HOME": str(served.home),
        "CONSOLIDATOR_DATABASE_URL": served.dsn,
        "CONSOLIDATOR_HEALTH_PORT": served.address.rpartition(":")[2],
    }


def make_link(served: ApiServer) -> str:
    """Return a link that `consolidator ui` prints for the running service."""
    printed = run_here("ui", "--no-browser", "--json", environment=service_environment(served)).stdout
    return str(json.loads(printed)["url"])


@pytest.fixture(scope="package")
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


def check_looks(person: Page, name: str) -> None:
    """Check a page light, dark and narrow, and keep a picture of each, as nobody looks at in CI."""
    SCREENSHOTS.mkdir(exist_ok=True)
    for look, (width, scheme) in LOOKS.items():
        person.set_viewport_size({"width": width, "height": 900})
        person.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        if not QUICK:
            person.screenshot(path=SCREENSHOTS / f"{name}-{look}.png", full_page=True)
        check_page(person, f"{name} {look}")
    person.set_viewport_size({"width": 1280, "height": 900})
    person.emulate_media(color_scheme="light")
