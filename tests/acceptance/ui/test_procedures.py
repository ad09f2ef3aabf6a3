"""Procedures and solutions on the page: drawn, with the sessions behind them, and exported as a skill."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.acceptance.api.server import ApiServer
from tests.acceptance.ui.conftest import check_looks


def test_a_procedure_is_drawn_and_exported(person: Page, served: ApiServer) -> None:
    person.goto(f"{served.address}/ui/procedures?everything=1")
    person.locator(".entries a").first.click()
    expect(person.locator("svg rect.step").first).to_be_visible()
    check_looks(person, "procedure")
    with person.expect_download() as download:
        person.get_by_role("link", name="Export as a skill").click()
    assert download.value.path().read_text().startswith("---\nname: ")
    person.get_by_role("link", name="event").first.click()
    expect(person.get_by_role("heading", name="What the model was shown")).to_be_visible()


def test_a_solution_has_a_line_in_time(person: Page, served: ApiServer) -> None:
    person.goto(f"{served.address}/ui/solutions?unsolved=1")
    person.locator(".entries a").first.click()
    expect(person.locator("svg circle").first).to_be_visible()
    check_looks(person, "solution")


def test_the_calendar_fits(person: Page, served: ApiServer) -> None:
    person.goto(f"{served.address}/ui/nights")
    check_looks(person, "nights")
