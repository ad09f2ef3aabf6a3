"""A newcomer after the demo: the page it names answers four questions by clicks from Today, without scripts."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Page, expect

from consolidator.database.embedded.server import EmbeddedServer
from consolidator.ui.app import PAGES
from release.terminal_picture import wrap_line
from tests.acceptance.browser import check_page, open_browser
from tests.forks import Fork
from tests.nights import start_cli
from tests.support import PATIENCE, free_port, run_cli

pytestmark = pytest.mark.embedded
NOW = "2026-03-02T12:00:00+00:00"
SCREENSHOTS = Path(__file__).parent / "ui" / "screenshots"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment in which the demo's last line opens the page."""
    home = tmp_path_factory.mktemp("newcomer")
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "VIRTUAL_ENV") if name in os.environ}
    environment = {**kept, "HOME": str(home), "CONSOLIDATOR_HOME": str(home / "data"), "CONSOLIDATOR_CLOCK": NOW}
    shown = run_cli("demo", environment=environment).stdout.splitlines()
    assignment, *command = shlex.split(shown[-1].partition(": ")[2])
    name, _, value = assignment.partition("=")
    assert (name, command[-1]) == ("CONSOLIDATOR_HOME", "ui")
    yield {**environment, name: value}
    asyncio.run(_delete_cluster(Path(value)))
    shutil.rmtree(home)


async def _delete_cluster(home: Path) -> None:
    assert await (await EmbeddedServer.start(home)).delete()


def read_link(command: Fork) -> str:
    """Return the link that `consolidator ui --json` prints."""
    assert command.stdout is not None
    lines = ""
    while not lines.rstrip().endswith("}"):
        lines += command.stdout.readline()
    return str(json.loads(lines)["url"])


def test_the_readmes_picture_is_what_the_demo_shows(demo: dict[str, str]) -> None:
    picture = ElementTree.parse(Path(__file__).parents[2] / "docs/images/terminal-light.svg")
    drawn = " ".join(str(text.text) for text in picture.iter() if text.tag.endswith("text"))
    told = run_cli("brief", "--project", "fernleaf", environment=demo).stdout.splitlines()
    lines = [" ".join(map(str.strip, wrap_line(line))) for line in told if line.startswith("- ")]
    lines = [line.partition(" (since ")[0] for line in lines]  # whose day is another one by this clock
    shown = [line for line in lines if line in drawn]
    assert f"({len(shown)} of {len(lines)} lines)" in drawn, "draw it again: python -m release.terminal_picture"


def test_four_questions_are_answered_from_today(demo: dict[str, str]) -> None:
    with free_port() as port, open_browser() as browser:
        environment = {**demo, "CONSOLIDATOR_HEALTH_PORT": str(port)}
        with start_cli("ui", "--no-browser", "--json", environment=environment) as command:
            link = read_link(command)
            without_scripts = browser.new_context(java_script_enabled=False)
            without_scripts.set_default_timeout(PATIENCE * 1000)
            page = without_scripts.new_page()
            page.goto(link)
            page.wait_for_url("**/ui/today")
            (cookie,) = without_scripts.cookies()
            assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/ui")
            stranger = browser.new_context(java_script_enabled=False)
            again = stranger.new_page().goto(link)
            assert again is not None
            assert (again.status, stranger.cookies()) == (401, [])  # it works once
            today = page.url
            find_why_a_fact_is_believed(page)
            page.goto(today)
            find_what_the_last_night_did(page)
            page.goto(today)
            find_what_was_shown_before_a_call(page)
            page.goto(today)
            correct_a_fact_and_take_it_back(page)
            # The same login in a browser with scripts, as wide as a screen is.
            wide = browser.new_context(
                storage_state=without_scripts.storage_state(), viewport={"width": 3840, "height": 2160}
            )
            look_at_each_page(wide.new_page(), today)


def find_why_a_fact_is_believed(page: Page) -> None:
    page.get_by_role("region", name="You said").locator(".entry a").first.click()
    expect(page.get_by_role("heading", name="Why this is believed")).to_be_visible()
    expect(page.locator("blockquote").first).not_to_be_empty()
    assert page.locator("figcaption").count() > 0


def find_what_the_last_night_did(page: Page) -> None:
    page.get_by_role("link", name="The last night").click()
    expect(page.get_by_role("heading", name="What it saw")).to_be_visible()
    expect(page.locator("main")).to_contain_text("learned from +")


def find_what_was_shown_before_a_call(page: Page) -> None:
    page.locator("section", has=page.locator("#sessions")).locator(".entry a").first.click()
    call = page.locator(".said.call").first
    tool = call.locator(".who").inner_text()
    call.get_by_role("link", name="what the model was shown").click()
    shown = page.locator("section", has=page.get_by_role("heading", name="What the model was shown"))
    expect(shown.locator(".shown li").first).to_be_visible()
    expect(page.locator(".said.current .who")).to_have_text(tool)
    assert f"→ {tool}" not in shown.inner_text()  # before the call, not after


def correct_a_fact_and_take_it_back(page: Page) -> None:
    page.get_by_role("region", name="You said").locator(".entry a").first.click()
    before = page.locator("h1").inner_text()
    page.get_by_role("link", name="Is it wrong?").click()
    page.get_by_label("What is right").fill("Somebody else denied it.")
    page.get_by_role("button", name="Correct it").click()
    expect(page.locator("h1")).to_have_text("Somebody else denied it.")
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("h1")).to_have_text(before)


def look_at_each_page(page: Page, today: str) -> None:
    """Check every page of the navigation, and one of each kind that it leads to, on the widest screen."""
    SCREENSHOTS.mkdir(exist_ok=True)
    prefix = today.removesuffix("/today")
    for path in (*(page.entry.path for page in PAGES), "/recall?query=Which+package+manager+do+we+use"):
        page.goto(prefix + path)
        look(page, path)
        if path in ("/facts", "/procedures", "/solutions", "/sessions", "/nights"):
            page.locator(".calendar a, main > .entries a").first.click()
            page.wait_for_load_state()
            look(page, f"{path}-one")


def look(page: Page, name: str) -> None:
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        check_page(page, f"{name} {scheme}")
    page.screenshot(path=SCREENSHOTS / f"wide{name.partition('?')[0].replace('/', '-')}.png")
    if page.locator(".flow").count():
        used = page.evaluate("document.querySelector('.flow').getBoundingClientRect().width / window.innerWidth")
        assert used > 0.7, name
