"""Sessions on the page: read as a conversation, replayed event by event, and steered while somebody watches."""

from __future__ import annotations

import re

from playwright.sync_api import Browser, Page, expect

from tests.acceptance.api.server import ApiServer, wait_for
from tests.acceptance.ui.conftest import check_looks, make_link


def test_a_session_is_read_and_replayed_to_what_the_model_was_shown(person: Page, served: ApiServer) -> None:
    """P25."""
    session_id = served.open_session("coder:web:ada", system="You are brief.")
    with served.client() as client:
        client.post(f"/sessions/{session_id}/messages", json={"text": "What is the release branch?"}).raise_for_status()
        wait_for(client, f"/sessions/{session_id}/events", lambda page: "called trunk" in str(page))
        client.post(f"/sessions/{session_id}/checkpoint", json={"label": "asked"}).raise_for_status()
        client.post(f"/sessions/{session_id}/fork", json={}).raise_for_status()
        runs = [client.post("/sessions", json={"key": "coder:web:ada", "new": True}).json()["id"] for _ in range(2)]
    person.goto(f"{served.address}/ui/sessions")
    person.locator(f"a[href$='{session_id}']").click()
    expect(person.get_by_text("It is called trunk.")).to_be_visible()
    expect(person.locator(".said.agent .mark", has_text="$0.00")).to_be_visible()  # what the answer cost
    expect(person.locator("svg .lane")).to_have_count(2)
    expect(person.locator("svg .checkpoint")).to_have_count(1)
    listed = person.locator("section", has=person.get_by_role("heading", name="Other runs")).locator(".entry a")
    hrefs = [run.get_attribute("href") for run in listed.all()]
    assert hrefs == [f"/ui/sessions/{run}" for run in reversed(runs)]  # neither itself nor the fork
    check_looks(person, "session")
    person.get_by_role("link", name="All its runs").click()
    expect(person.locator(".entry a")).to_have_count(3)
    person.go_back()
    person.get_by_role("link", name="Replay it event by event").click()
    person.get_by_role("link", name="Last").click()
    shown = person.locator("section", has=person.get_by_role("heading", name="What the model was shown"))
    expect(shown).to_contain_text("You are brief.")
    expect(shown.locator(".shown")).to_contain_text("What is the release branch?")
    expect(shown.locator(".shown")).not_to_contain_text("It is called trunk.")  # that is what it answered
    check_looks(person, "replay")
    person.get_by_role("link", name="Back").click()
    assert re.search(r"at=\d+$", person.url)
    person.get_by_role("slider").press("Home")  # the scrubber goes there by itself
    person.wait_for_url("**?at=1")
    expect(person.get_by_role("slider")).to_be_focused()


def test_a_session_is_watched_and_steered(person: Page, served: ApiServer) -> None:
    session_id = served.open_session("coder:web:bob")
    person.goto(f"{served.address}/ui/sessions/{session_id}")
    person.get_by_label("Message").fill("Tell me a story.")
    person.get_by_role("button", name="Send").click()
    expect(person.locator(".said.agent").first).to_contain_text("part3")  # as it is written
    person.get_by_label("Message").fill("Stop. What is the release branch?")
    person.get_by_role("button", name="Steer").click()
    expect(person.get_by_text("It is called trunk.")).to_be_visible()
    with served.client() as client:
        assert "part399" not in client.get(f"/sessions/{session_id}/events").text
    person.get_by_label("Message").fill("Tell me another story.")
    person.get_by_role("button", name="Send").click()
    expect(person.locator(".said.agent").last).to_contain_text("part3")
    person.get_by_role("button", name="Stop", exact=True).click()
    expect(person.get_by_text("turn stopped")).to_be_visible()
    with served.client() as client:
        wait_for(client, f"/sessions/{session_id}", lambda found: found["activity"] == "idle")
    person.get_by_role("button", name="End the session").click()
    expect(person.locator("#status")).to_have_text("ended")
    expect(person.get_by_label("Message")).to_have_count(0)


def test_who_watches_is_told_that_nobody_can_answer(person: Page, served: ApiServer) -> None:
    session_id = served.open_session("coder:web:toolless", tools=["no_such_tool"])
    person.goto(f"{served.address}/ui/sessions/{session_id}")
    expect(person.get_by_text("Nobody can answer")).to_be_hidden()
    with served.client() as client:
        client.post(f"/sessions/{session_id}/messages", json={"text": "Is anybody there?"}).raise_for_status()
        expect(person.get_by_text("Nobody can answer")).to_be_visible()  # it is told while somebody watches
        expect(person.locator("#why")).to_contain_text("no_such_tool")
        expect(person.locator("#status")).to_have_text("nobody answers")
    person.reload()
    expect(person.locator("#why")).to_contain_text("no_such_tool")


def test_what_a_log_holds_is_text(person: Page, served: ApiServer) -> None:
    for address in ("/ui/sessions", "/ui/sessions/hostile", "/ui/sessions/hostile?at=3"):
        answer = person.goto(served.address + address)
        assert answer is not None
        assert (answer.status, len(answer.body()) < 200_000) == (200, True), address
        assert person.locator("main img, main script, main b").count() == 0
        assert "\u202e" not in person.content()
        assert "\x07" not in person.content()
    check_looks(person, "hostile")
    expect(person.get_by_text("characters in all").first).to_be_attached()


def test_a_search_leads_to_where_it_was_said(person: Page, served: ApiServer) -> None:
    person.goto(f"{served.address}/ui/sessions")
    person.get_by_label("Words that were said").fill("where does she live")
    person.get_by_role("button", name="Search").click()
    person.goto(f"{served.address}/ui/sessions?query=zzzzqqqq")
    expect(person.get_by_role("link", name="list all sessions")).to_be_visible()
    for wrong in ("/sessions?status=odd", "/sessions?cursor=odd", "/sessions/none", "/sessions/hostile?at=soon"):
        answer = person.goto(f"{served.address}/ui{wrong}")
        assert answer is not None
        assert answer.status in (400, 404), wrong


def test_a_search_counts_nothing_as_recalled(person: Page, served: ApiServer) -> None:
    with served.client() as client:
        before = [fact["recalled"] for fact in client.get("/facts", params={"query": "trunk"}).json()["facts"]]
        person.goto(f"{served.address}/ui/sessions?query=What+is+the+release+branch+called")
        after = [fact["recalled"] for fact in client.get("/facts", params={"query": "trunk"}).json()["facts"]]
    assert before
    assert after == before


def test_the_replay_works_without_scripts(served: ApiServer, browser: Browser) -> None:
    session_id = served.open_session("coder:web:eve")
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(make_link(served))
    page.wait_for_url("**/ui/today")
    page.goto(f"{served.address}/ui/sessions/{session_id}?at=1")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("heading", name="What the model was shown")).to_be_visible()
    context.close()


def test_a_session_is_drawn_in_time_with_what_it_taught(person: Page, served: ApiServer) -> None:
    person.goto(f"{served.address}/ui/facts?trust=user")
    person.locator("main > .entries a").first.click()
    sentence = person.locator("h1").inner_text()
    person.locator("figcaption a").first.click()
    person.locator("h1 a").click()
    person.get_by_role("link", name="See it as a picture").click()
    expect(person.locator(".waterfall a").first).to_be_visible()
    expect(person.get_by_role("region", name="What it taught")).to_contain_text(sentence)
    check_looks(person, "picture")
    person.locator(".waterfall a").first.click()
    expect(person.get_by_role("heading", name="What the model was shown")).to_be_visible()


def test_a_hostile_session_is_drawn_as_text(person: Page, served: ApiServer) -> None:
    person.goto(f"{served.address}/ui/sessions?agent=<b>coder</b>")
    person.locator(".entries a").first.click()
    person.get_by_role("link", name="See it as a picture").click()
    expect(person.locator(".waterfall")).to_contain_text("<img src=x")
    expect(person.locator(".waterfall rect.bad")).to_have_count(1)
    assert person.locator("main img, main b").count() == 0
    assert not set(person.content()) & {"\u202e", "\x07"}
