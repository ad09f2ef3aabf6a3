"""Procedures and solutions on the page: drawn, with the sessions behind them, and exported as a skill."""

from __future__ import annotations

from datetime import timedelta

from playwright.sync_api import Page, expect

from consolidator.ui.pages.procedures import place_moments
from tests.acceptance.api.server import ApiServer
from tests.acceptance.ui.conftest import check_looks
from tests.conftest import NOON

DRAWINGS = {"procedures": ".flowchart li", "solutions": "svg circle"}


def test_a_procedure_is_drawn_and_exported(person: Page, served: ApiServer) -> None:
    person.goto(f"{served.address}/ui/procedures?include_unworthy=1")
    person.locator(".entries a").first.click()
    expect(person.locator(".flowchart li").first).to_be_visible()
    expect(person.get_by_text("with 90% certainty")).to_be_hidden()  # figures are for who asks
    check_looks(person, "procedure")
    with person.expect_download() as download:
        person.get_by_role("link", name="Export as a skill").click()
    assert download.value.path().read_text().startswith("---\nname: ")
    person.get_by_role("link", name="event").first.click()
    expect(person.get_by_role("heading", name="What the model was shown")).to_be_visible()


def test_every_page_leads_to_the_one_with_the_drawing(person: Page, served: ApiServer) -> None:
    with served.client() as client:
        lists = {
            name: client.get(f"/{name}", params={"include_unworthy": True, "include_unsolved": True}).json()[name]
            for name in DRAWINGS
        }
    for name, drawing in DRAWINGS.items():
        person.goto(f"{served.address}/ui/memory/{lists[name][0]['id']}")  # as Today, a night, recall and replays do
        assert f"/ui/{name}/" in person.url
        expect(person.locator(drawing).first).to_be_visible()
    person.goto(f"{served.address}/ui/today?days=30")
    person.get_by_role("region", name="How things run here").locator(".entry a").first.click()
    expect(person.get_by_role("link", name="Export as a skill")).to_be_visible()


def test_a_solution_has_a_line_in_time(person: Page, served: ApiServer) -> None:
    person.goto(f"{served.address}/ui/solutions?include_unsolved=1")
    person.locator(".entries a").first.click()
    expect(person.locator("svg circle").first).to_be_visible()
    check_looks(person, "solution")


def test_the_times_of_an_error_are_listed_in_order() -> None:
    evidence = [{"when": NOON + timedelta(days=days)} for days in (3, 1, 2)]
    moments, known_at = place_moments(evidence, NOON + timedelta(days=2))
    assert [(proof["when"] - NOON).days for _, proof, _ in moments] == [1, 2, 3]
    assert [was_known for _, _, was_known in moments] == [False, False, True]
    assert moments[1][0] == known_at


def test_the_calendar_fits(person: Page, served: ApiServer) -> None:
    person.goto(f"{served.address}/ui/nights")
    check_looks(person, "nights")
