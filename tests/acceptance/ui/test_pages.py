"""The page as a person uses it, in a real browser on a real service."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from urllib.parse import urlsplit

import httpx2
import psycopg
import pytest
from playwright.sync_api import Browser, Page, expect

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.models.event import NewEvent
from consolidator.models.payload import EventType
from consolidator.ui.app import PAGES as MODULES
from consolidator.ui.view import make_environment
from tests.acceptance.api.server import ApiServer
from tests.acceptance.browser import check_page
from tests.acceptance.ui.conftest import MARKUP, NO_UPSTREAM, check_looks, make_link
from tests.conftest import NOON
from tests.lessons import save_lessons
from tests.support import PATIENCE, QUICK, log_events, user_message

FIND_ADDRESSES = """all => all.map(each => new URL(each.getAttribute('href'), document.baseURI).href.split('#')[0])"""
CARDS = ("You said", "It broke, this fixed it", "How things run here")
PAGES = [module.entry.path for module in MODULES]


def open_fact(person: Page, served: ApiServer, words: str) -> None:
    """Find a fact as a person does."""
    person.goto(f"{served.address}/ui/facts")
    person.get_by_label("Words").fill(words)
    person.get_by_role("button", name="Search").click()
    person.locator(".entries a").first.click()


@pytest.mark.parametrize("path", PAGES[:: 3 if QUICK else 1])
def test_each_page_is_accessible_and_fits_in_each_look(person: Page, served: ApiServer, path: str) -> None:
    person.goto(f"{served.address}/ui{path}")
    if path == "/today":
        person.get_by_role("link", name="the last month").click()
    if path == "/facts":
        check_looks(person, "fact-list")
        person.locator(".entries a").first.click()
    check_looks(person, path.strip("/").replace("/", "-"))


def test_four_links_lead_through_the_sections_in_one_row_of_a_phone(person: Page, served: ApiServer) -> None:
    person.set_viewport_size({"width": 390, "height": 844})
    person.goto(f"{served.address}/ui/today")
    sections, pages = person.get_by_label("Sections"), set()
    for title in ("Today", "Memory", "Sessions", "System"):
        sections.get_by_role("link", name=title).click()
        expect(sections.locator("[aria-current]")).to_have_text(title)
        pages |= set(person.get_by_label("Pages of this section").get_by_role("link").evaluate_all(FIND_ADDRESSES))
    assert pages == {f"{served.address}/ui{path}" for path in PAGES}
    rows = {round(link.bounding_box()["y"]) for link in sections.get_by_role("link").all()}  # type: ignore[index]
    assert (len(rows), sections.get_by_role("link").count()) == (1, 4)
    check_page(person, "four links on a phone")
    person.set_viewport_size({"width": 1280, "height": 900})


def test_words_are_found_as_one_types_wherever_memory_has_them(person: Page, served: ApiServer) -> None:
    person.goto(f"{served.address}/ui/nights")
    person.keyboard.press("/")
    expect(person.get_by_label("Search all of memory")).to_be_focused()
    person.keyboard.type("trunk")
    found = person.get_by_role("region", name="Found")
    expect(found.get_by_role("heading", name="What people said")).to_be_visible()
    person.get_by_label("Search all of memory").fill("branch")
    for kind in ("What people said", "Errors with a fix"):
        expect(found.get_by_role("heading", name=kind)).to_be_visible()
    person.get_by_label("Search all of memory").fill("trunk")
    expect(found.get_by_role("heading", name="Errors with a fix")).to_have_count(0)
    check_page(person, "found while typing")
    person.keyboard.press("ArrowDown")
    expect(found.get_by_role("link").first).to_be_focused()
    person.keyboard.press("Enter")
    expect(person.locator("h1")).to_contain_text("trunk")
    person.get_by_label("Search all of memory").fill("onerror")
    expect(found.locator("img, script")).to_have_count(0)
    person.keyboard.press("Escape")
    expect(found).to_be_hidden()
    person.keyboard.press("Enter")
    expect(person.locator("h1")).to_contain_text("All with “onerror”")
    check_looks(person, "search")
    person.goto(f"{served.address}/ui/search?query=zzzzqqqq")
    expect(person.locator("main")).to_contain_text("Memory has nothing with these words")


def test_dates_are_in_the_readers_zone(person: Page, served: ApiServer) -> None:
    person.goto(f"{served.address}/ui/today?days=30")
    moment = person.locator("time").first
    assert "UTC" not in moment.inner_text()
    assert str(moment.get_attribute("title")).endswith("UTC")


def test_today_leads_to_pages_and_names_no_command(person: Page, served: ApiServer) -> None:
    person.goto(f"{served.address}/ui/today?days=30")
    expect(person.locator("main .entry").first).to_be_visible()
    expect(person.locator("main code", has_text="consolidator")).to_have_count(0)


def test_today_has_a_card_for_words_for_failures_and_for_commands(person: Page, served: ApiServer) -> None:
    with ThreadPoolExecutor() as threads:  # an event loop runs in this one
        threads.submit(served.run, lambda database: save_lessons(database, "/srv/carded")).result()
    person.goto(f"{served.address}/ui/today?days=30")
    said, broke, runs = (person.get_by_role("region", name=name) for name in CARDS)
    expect(said).to_contain_text("The release branch is called trunk.")
    expect(broke.get_by_role("heading", name="carded")).to_be_visible()
    expect(broke).to_contain_text("rtk pnpm")
    expect(runs).to_contain_text("Tests:")
    quote = person.locator(".learned-card blockquote a").first
    expect(quote).not_to_be_empty()
    assert "?at=" in str(quote.get_attribute("href"))
    expect(person.locator(".ledger")).to_contain_text("learned from +")
    check_looks(person, "cards")


def test_a_line_of_today_is_corrected_and_forgotten_where_it_stands(person: Page, served: ApiServer) -> None:
    person.goto(f"{served.address}/ui/today?days=30")
    entry = person.locator(".entry", has_text="The release branch is called")
    entry.get_by_text("Correct").click()
    entry.get_by_label("What is right").fill("The release branch is called stable.")
    entry.get_by_role("button", name="Say so").click()
    expect(person.locator(".notice")).to_contain_text("Corrected")
    expect(person.locator(".entry", has_text="is called stable")).to_have_count(1)
    person.get_by_role("button", name="Undo").click()
    expect(person.locator(".entry", has_text="is called trunk")).to_have_count(1)
    entry.get_by_role("button", name="Forget").click()
    expect(entry).to_have_count(0)
    person.get_by_role("button", name="Undo").click()
    expect(entry).to_have_count(1)
    assert "/ui/today?days=30" in person.url


def test_a_project_has_a_page_with_all_that_is_known_of_it(person: Page, served: ApiServer) -> None:
    person.goto(f"{served.address}/ui/projects")
    person.locator(".tile", has_text="/srv/shop").get_by_role("link").click()
    for heading in (
        "What holds here",
        "What fails, and what then works",
        "How things run here",
        "Nights that taught it",
    ):
        expect(person.get_by_role("heading", name=heading)).to_be_visible()
    expect(person.get_by_role("region", name="What holds here")).to_contain_text("trunk")
    expect(person.locator("main").get_by_role("link", name="helpdesk", exact=True)).to_be_visible()
    expect(person.get_by_role("heading", name="Done again and again")).to_be_visible()
    check_looks(person, "project")
    person.get_by_role("link", name="What its next session will be told").click()
    expect(person.get_by_label("Project")).to_have_value("/srv/shop")


def test_somebody_without_a_name_is_shown_in_words() -> None:
    shown = make_environment().from_string("{{ 'stranger:0123456789abcdef' | person }}").render()
    assert shown.startswith("somebody unnamed, session 0123")


def test_hostile_words_are_shown_as_text(person: Page, served: ApiServer) -> None:
    open_fact(person, served, "onerror")
    expect(person.get_by_text("When somebody says something else")).to_be_visible()
    shown = person.locator("h1").inner_text()
    assert "<script>document.title = 'pwned'</script><img src=x onerror=alert(1)>" in shown
    assert "\u202e" not in person.content()
    assert "pwned" not in person.title().split(" · ")[-1]
    assert person.locator("main img, main script").count() == 0


def test_a_fact_is_corrected_and_put_back(person: Page, served: ApiServer) -> None:
    open_fact(person, served, "trunk")
    address, before = person.url, person.locator("h1").inner_text()
    person.get_by_label("What is right").fill("The release branch is called stable.")
    person.get_by_role("button", name="Correct it").click()
    expect(person.locator("h1")).to_have_text("The release branch is called stable.")
    with served.client() as client:
        asked = {"query": "What is the release branch called?"}
        assert "called stable" in client.get("/recall", params=asked).json()["block"]
        strip = person.locator(".strip li")
        expect(strip).to_have_count(2)
        expect(strip.first).to_contain_text("a person corrected it")
        expect(strip.last).to_contain_text("until now")
        check_looks(person, "fact-chain")
        strip.first.get_by_role("link").click()
        expect(person.locator("h1")).to_have_text(before)
        strip.first.get_by_role("button", name="Restore this").click()
        assert person.url == address
        expect(person.locator("h1")).to_have_text(before)
        assert "called stable" not in client.get("/recall", params=asked).json()["block"]


def test_a_fact_is_forgotten_and_believed_again(person: Page, served: ApiServer) -> None:
    open_fact(person, served, "trunk")
    address, sentence = person.url, person.locator("h1").inner_text()
    person.get_by_role("button", name="Forget it").click()
    with served.client() as client:
        assert client.get("/facts", params={"query": "trunk"}).json()["facts"] == []
        person.get_by_role("button", name="Undo").click()
        assert person.url == address
        expect(person.locator("h1")).to_have_text(sentence)
        expect(person.get_by_role("button", name="Forget it")).to_be_visible()
        assert len(client.get("/facts", params={"query": "trunk"}).json()["facts"]) == 1


def test_facts_are_filtered_by_kind_and_by_whose_word_they_are(person: Page, served: ApiServer) -> None:
    with served.client() as client:
        facts = client.get("/facts", params={"limit": 100}).json()["facts"]
    kind, trust = facts[0]["kind"], facts[0]["trust"]
    for name, value in (("kind", kind), ("trust", trust)):
        person.goto(f"{served.address}/ui/facts?{name}={value}")
        fitting = [fact for fact in facts if fact[name] == value]
        expect(person.locator("main > .entries > li")).to_have_count(min(len(fitting), 50))
    person.goto(f"{served.address}/ui/facts?kind=odd")
    expect(person.locator("h1")).to_have_text("This cannot be done")


def test_a_slider_goes_through_time_by_its_keys(person: Page, served: ApiServer) -> None:
    person.goto(f"{served.address}/ui/facts")
    slider = person.get_by_role("slider", name="What memory believed on")
    expect(slider).to_have_attribute("aria-valuetext", "now")
    slider.press("Home")
    person.wait_for_url("**as_of=2026-03-02*")
    expect(slider).to_be_focused()  # so that the next key goes on from there
    expect(slider).to_have_attribute("aria-valuetext", "2026-03-02")
    expect(person.get_by_label("What memory believed on").first).to_have_value("2026-03-02")


PROCEDURES = """
insert into procedure (id, agent, title, body, support, worth, rank, learned_at, updated_at, audience, cause)
select 'procedure_' || n, 'pager', 'Build ' || n, '{"success": {"alpha": 1, "beta": 1}}', 3, 1, 1, now(), now(), 'all',
       'person' from generate_series(1, 60) as n"""


def test_a_long_list_is_read_page_by_page_with_its_filter(person: Page, served: ApiServer) -> None:
    with psycopg.connect(served.dsn) as conn:
        conn.execute(PROCEDURES)
    person.goto(f"{served.address}/ui/procedures?agent=pager&query=build")
    expect(person.locator("main > .entries > li")).to_have_count(50)
    first = set(person.locator("main > .entries a").all_inner_texts())
    person.get_by_role("link", name="Next page").click()
    expect(person.locator("main > .entries > li")).to_have_count(10)
    assert first.isdisjoint(person.locator("main > .entries a").all_inner_texts())
    expect(person.get_by_role("link", name="Next page")).to_have_count(0)
    person.goto(person.url.replace("query=build", "query=it"))
    expect(person.locator("h1")).to_have_text("This cannot be done")  # a cursor is of the list that gave it
    person.go_back()
    person.get_by_role("link", name="First page").click()
    expect(person.locator("main > .entries > li")).to_have_count(50)
    with psycopg.connect(served.dsn) as conn:
        conn.execute("delete from procedure where agent = 'pager'")


HOSTILE_PROCEDURE = """
insert into procedure (id, agent, title, body, support, worth, rank, learned_at, updated_at, audience, cause)
values ('procedure_hostile', 'hostile', %s, '{"success": {"alpha": 1, "beta": 1}}', 3, 1, 1, now(), now(), 'all',
        'person')"""
HOSTILE_SOLUTION = """
insert into solution (id, agent, tool, fingerprint, headline, body, search, sessions, occurrences, learned_at,
                      updated_at, audience, cause)
values ('solution_hostile', 'hostile', 'f', 'f|x', %s, jsonb_build_object('fixes', jsonb_build_array(jsonb_build_object(
        'description', %s::text, 'worked', 1))), 'x', 1, 1, now(), now(), 'all', 'person')"""


def test_hostile_memory_and_a_line_of_ten_megabytes_are_cut_text_on_every_page(person: Page, served: ApiServer) -> None:
    huge = MARKUP + "\x07 " + "<i>long</i> " * 900_000

    async def work(database: Database) -> None:
        call = {"call_id": "1", "tool": huge[:500], "arguments": {"command": huge}}
        await log_events(database, "huge", [user_message(huge), NewEvent(EventType.TOOL_CALL, call)], agent="hostile")

    with ThreadPoolExecutor() as threads:  # an event loop runs in this one
        threads.submit(served.run, work, FrozenClock(NOON + timedelta(hours=1))).result()
    with psycopg.connect(served.dsn) as conn:
        conn.execute(HOSTILE_PROCEDURE, [MARKUP * 50])
        conn.execute(HOSTILE_SOLUTION, [MARKUP * 50, MARKUP * 50])
    paths = ("procedures?agent=hostile", "solutions?agent=hostile", "sessions?agent=hostile", "sessions/huge")
    for path in (*paths, "sessions/huge?at=2", "compare?left=hostile&right=huge"):
        answer = person.goto(f"{served.address}/ui/{path}")
        assert answer is not None
        assert answer.status == 200, path
        assert len(answer.body()) < 200_000, path
        assert "onerror" in person.locator("main").inner_text(), path
        assert person.locator("main img, main script, main i").count() == 0, path
        assert not set(person.content()) & {"\u202e", "\x07"}, path
    with psycopg.connect(served.dsn) as conn:
        conn.execute("delete from procedure where agent = 'hostile'")
        conn.execute("delete from solution where agent = 'hostile'")


def test_a_quote_leads_to_where_it_was_said(person: Page, served: ApiServer) -> None:
    person.goto(f"{served.address}/ui/facts?trust=user")
    person.locator("main > .entries a").first.click()
    person.locator("figcaption a").first.click()
    expect(person.get_by_role("heading", name="What the model was shown")).to_be_visible()


def test_a_search_that_finds_nothing_says_what_to_do(person: Page, served: ApiServer) -> None:
    person.goto(f"{served.address}/ui/facts?query=zzzzqqqq")
    expect(person.get_by_role("link", name="show all facts")).to_be_visible()
    person.goto(f"{served.address}/ui/facts?as_of=soon")
    expect(person.locator("h1")).to_have_text("This cannot be done")
    person.goto(f"{served.address}/ui/memory/none")
    expect(person.locator("h1")).to_have_text("There is nothing here")


def test_every_link_of_every_page_leads_somewhere(person: Page, served: ApiServer) -> None:
    seen: set[str] = set()
    waiting = [f"{served.address}/ui{path}" for path in PAGES] + [f"{served.address}/ui/today?days=30"]
    while waiting and len(seen) < 60:
        address = waiting.pop(0)
        if address in seen:
            continue
        seen.add(address)
        answer = person.goto(address)
        assert answer is not None
        assert answer.status == 200, address
        assert len(answer.body()) < 200_000
        links = person.locator("a[href]").evaluate_all(FIND_ADDRESSES)
        assert all(link.startswith(f"{served.address}/ui/") for link in links)
        waiting += [link for link in links if link not in seen]
    assert len(seen) > len(PAGES)


def test_a_link_works_once_and_the_cookie_is_strict(served: ApiServer, browser: Browser) -> None:
    link, context = make_link(served), browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(link)
    page.wait_for_url("**/ui/today")  # without scripts, too
    (cookie,) = context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/ui")
    expect(page.locator("time").first).to_contain_text("UTC")
    answer = page.goto(link)
    assert answer is not None
    assert answer.status == 401
    page.goto(f"{served.address}/ui/facts")
    page.get_by_role("button", name="Log out").click()
    answer = page.goto(f"{served.address}/ui/facts")
    assert answer is not None
    assert (answer.status, context.cookies()) == (401, [])
    context.close()


def test_the_keyboard_reaches_everything(person: Page, served: ApiServer) -> None:
    person.goto(f"{served.address}/ui/facts")
    person.keyboard.press("Tab")
    assert person.evaluate("document.activeElement.textContent") == "Skip to the content"
    person.keyboard.press("Enter")
    person.keyboard.press("Tab")
    assert person.evaluate("document.activeElement.name") == "query"
    assert person.evaluate("getComputedStyle(document.activeElement).outlineWidth") == "3px"


def test_forged_requests_change_nothing(served: ApiServer) -> None:
    host = urlsplit(served.address).netloc
    with httpx2.Client(base_url=served.address, timeout=PATIENCE) as client, served.client() as owner:
        assert client.get("/ui/facts").status_code == 401
        assert client.get(make_link(served).removeprefix(served.address)).status_code == 200
        assert client.get("/ui/facts").status_code == 200
        assert client.get("/ui/facts", headers={"host": "evil.example"}).status_code == 421
        (fact, *_) = owner.get("/facts", params={"limit": 1}).json()["facts"]
        forget = f"/ui/memory/{fact['id']}/forget"
        assert client.post(forget).status_code == 415
        assert client.post(forget, data={"form_token": "guessed"}).status_code == 403
        assert client.post(forget, data={}, headers={"origin": "http://evil.example"}).status_code == 403
        assert client.get(forget).status_code == 405
        too_long = {"form_token": "x", "text": "x" * 100_000}
        assert client.post(forget, data=too_long, headers={"origin": f"http://{host}"}).status_code == 413
        policy = client.get("/ui/facts").headers["content-security-policy"]
        assert "unsafe" not in policy
        assert "default-src 'none'" in policy
        assert owner.get(f"/explain/{fact['id']}").json()["row"]["superseded_at"] is None


def test_a_line_of_the_next_brief_is_corrected(person: Page, served: ApiServer) -> None:
    with ThreadPoolExecutor() as threads:  # an event loop runs in this one
        threads.submit(served.run, lambda database: save_lessons(database, "/srv/briefed")).result()
    person.goto(f"{served.address}/ui/brief?project=/srv/briefed")
    entry = person.locator(".entry", has_text="rtk pnpm")
    expect(entry).to_contain_text("tokens")
    expect(person.locator("main")).not_to_contain_text("evil.example")
    check_looks(person, "brief-lines")
    person.get_by_label("Moment").select_option("before a command")
    person.get_by_role("button", name="Show").click()
    person.get_by_label("The command about to run").fill("rtk pnpm test")
    person.get_by_role("button", name="Show").click()
    expect(person.locator(".told li")).to_have_count(1)
    expect(person.locator(".told li")).to_contain_text("rtk pnpm")
    person.get_by_label("Moment").select_option("with a prompt")
    person.get_by_label("Agent").select_option("coder")
    person.get_by_role("button", name="Show").click()
    person.get_by_label("The prompt").fill("Run the tests with pnpm.")
    person.get_by_role("button", name="Show").click()
    expect(person.locator(".ledger")).to_contain_text("as coder reads them")
    expect(person.locator(".told li").first).to_contain_text("pnpm")
    person.goto(f"{served.address}/ui/brief?project=/srv/other&moment=failure")
    person.get_by_label("What the command printed").fill(NO_UPSTREAM)
    person.get_by_label("The command that failed").fill("git push")
    person.get_by_role("button", name="Show").click()
    expect(person.locator(".told li")).to_contain_text("git push")
    person.goto(f"{served.address}/ui/brief?project=/srv/briefed")
    entry.get_by_role("link", name="what it rests on").click()
    expect(person.locator("h1")).to_contain_text("rtk pnpm")
    check_looks(person, "lesson")
    person.get_by_label("What is right").fill("Run pnpm without rtk.")
    person.get_by_role("button", name="Correct it").click()
    expect(person.locator("h1")).to_have_text("Run pnpm without rtk.")
    person.goto(f"{served.address}/ui/brief?project=/srv/briefed")
    expect(person.locator(".entry", has_text="rtk pnpm")).to_have_count(0)
    expect(person.locator(".entry", has_text="Run pnpm without rtk.")).to_have_count(1)
    expect(person.locator(".entry", has_text="Tests:")).to_have_count(1)
    person.locator(".entry", has_text="Tests:").get_by_role("button", name="Forget").click()
    expect(person.locator(".entry", has_text="Tests:")).to_have_count(0)
