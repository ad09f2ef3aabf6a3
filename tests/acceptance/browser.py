"""A real browser for tests, Debian's chromium, without which they are skipped; and what holds of every page."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Open a browser. Where CONSOLIDATOR_TEST_BROWSER is set there must be one."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        if os.environ.get("CONSOLIDATOR_TEST_BROWSER"):
            pytest.fail("no chromium: `apt-get install chromium`")
        pytest.skip("no chromium on this machine: `apt-get install chromium`")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


def check_page(page: Page, name: str) -> None:
    """Check that a page fits its window, and that axe-core finds nothing serious in it."""
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), f"{name} is too wide"
    found = Axe().run(page).response["violations"]
    serious = [each for each in found if each["impact"] in ("serious", "critical")]
    assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in serious] == [], name
