"""Procedures and solutions on the page: drawn, with the sessions behind them, and exported as a skill."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import psycopg
from playwright.sync_api import Page, expect

from consolidator.memory.lessons.lesson import Lesson
from consolidator.ui.pages.procedures import place_moments
from tests.acceptance.api.server import ApiServer
from tests.acceptance.ui.conftest import check_looks
from tests.conftest import NOON
from tests.lessons import save_lessons

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


PROCEDURE = """
insert into procedure select (jsonb_populate_record(any_other, jsonb_build_object('id', 'procedure_after_edits',
       'project', '/srv/edited', 'title', 'Make the client', 'body', jsonb_set(body, '{steps}', (
           select jsonb_agg(body -> 'steps' -> 0 || jsonb_build_object('tool', 'Bash', 'command', command, 'arguments',
                  '[]'::jsonb)) from unnest(%s::text[]) as command))))).*
  from procedure as any_other limit 1"""


def test_a_long_procedure_wraps_and_says_after_what_it_is_done(person: Page, served: ApiServer) -> None:
    line = "After a change of `api/*.py` `make client` is run (7 of 8 times)."
    habit = Lesson("follow_up", "make client", line, 9.0, 6, match={"files": "api/*.py"}, agents=("coder",))
    with ThreadPoolExecutor() as threads:  # an event loop runs in this one
        threads.submit(served.run, lambda database: save_lessons(database, "/srv/edited", [habit])).result()
    steps = ["make client", *(f"make {goal}" for goal in "abcdefg")]
    with psycopg.connect(served.dsn) as conn:
        conn.execute(PROCEDURE, [steps])
    person.goto(f"{served.address}/ui/procedures/procedure_after_edits")
    expect(person.locator("main")).to_contain_text("Usually after editing api/*.py.")
    boxes = [step.bounding_box() for step in person.locator(".flowchart li").all()]
    places = [(box["x"], box["y"]) for box in boxes if box is not None]
    assert 1 < len({y for _, y in places}) < len(places) == len(steps)  # in rows, read from left to right
    assert places == sorted(places, key=lambda place: (place[1], place[0]))
    check_looks(person, "long-procedure")
    with psycopg.connect(served.dsn) as conn:
        conn.execute("delete from procedure where project = '/srv/edited'")


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
