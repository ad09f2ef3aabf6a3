"""Facts are a function of the set of candidates: order never matters, nothing is deleted, later values supersede."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consolidator.memory.facts.candidates import Candidate, FactExtractor, SessionContext
from consolidator.memory.facts.questions.model_extraction import read_facts
from consolidator.memory.facts.questions.transcript import TranscriptChunk, TranscriptLine
from consolidator.memory.facts.reconcile import Fact, normalize_value, reconcile_candidates
from consolidator.models.fact import UNKNOWN_START
from tests import oracle

NO_DEADLINE = settings(deadline=None)  # the machine may be busy
NOW = datetime(2026, 3, 1, 9, tzinfo=UTC)


def make_candidate(
    value: str,
    day: int = 0,
    *,
    session: str | None = None,
    predicate: str = "uses",
    single: bool = False,
    confidence: str = "explicit",
    level: str = "project",
    peer: str | None = None,
) -> Candidate:
    """Return a candidate said on a day, by default in a session of that day."""
    root = session or f"s{day}"
    return Candidate(
        id=f"{predicate}/{value}/{day}/{root}",
        session_id=root,
        root_id=root,
        seq=day + 1,
        occurred_at=NOW + timedelta(days=day),
        agent="coder",
        project="/src/shop",
        peer=peer,
        level=level,
        subject="user",
        predicate=predicate,
        value=value,
        sentence=f"They use {value}.",
        kind="environment",
        confidence=confidence,
        trust="user",
        quote=value,
        extractor="rules:1",
        single_valued=single,
    )


def make_approval(value: str, day: int, session: str | None = None) -> Candidate:
    return make_candidate(value, day, session=session, predicate="approval", confidence="inferred")


def status_of(fact: Fact) -> str:
    return "current" if fact.superseded_by is None else "superseded"


def summaries_of(facts: list[Fact]) -> list[tuple[str, str, int]]:
    return [(fact.value, status_of(fact), fact.sessions) for fact in facts]


def test_the_same_saying_in_other_words_and_sessions_reinforces() -> None:
    facts = reconcile_candidates(
        [make_candidate("pnpm", 0), make_candidate("PNPM.", 1), make_candidate("pnpm", 2, session="s1")]
    )
    assert summaries_of(facts) == [("pnpm", "current", 2)]
    assert len(facts[0].evidence) == 3
    assert facts[0].valid_from == NOW


def test_values_of_what_can_have_several_hold_beside_one_another() -> None:
    assert summaries_of(reconcile_candidates([make_candidate("pnpm", 0), make_candidate("Postgres", 1)])) == [
        ("pnpm", "current", 1),
        ("Postgres", "current", 1),
    ]


def test_a_later_value_supersedes_and_nothing_is_deleted() -> None:
    first, second = reconcile_candidates(
        [make_candidate("npm", 0, single=True), make_candidate("pnpm", 5, single=True)]
    )
    assert summaries_of([first, second]) == [("npm", "superseded", 1), ("pnpm", "current", 1)]
    assert first.valid_to == second.valid_from == NOW + timedelta(days=5)
    assert first.superseded_by == second.id


def test_a_value_that_returns_is_another_fact() -> None:
    facts = reconcile_candidates(
        [make_candidate(value, day, single=True) for day, value in enumerate(("npm", "pnpm", "npm"))]
    )
    assert [status_of(fact) for fact in facts] == ["superseded", "superseded", "current"]
    assert len({fact.id for fact in facts}) == 3


def test_reinforcing_keeps_the_identifier() -> None:
    before = reconcile_candidates([make_candidate("npm", 3, single=True), make_candidate("pnpm", 5, single=True)])
    after = reconcile_candidates(
        [
            make_candidate("npm", 1, single=True),
            make_candidate("npm", 3, single=True),
            make_candidate("pnpm", 5, single=True),
        ]
    )
    assert [fact.id for fact in after] == [fact.id for fact in before]
    assert after[0].valid_from < before[0].valid_from


def test_each_scope_has_facts_of_its_own() -> None:
    ada, bob = (make_candidate("tea", 0, level="peer", peer=peer, single=True, session=peer) for peer in ("ada", "bob"))
    facts = reconcile_candidates([replace(ada, id="a"), replace(bob, id="b", value="coffee")])
    assert sorted(summaries_of(facts)) == [("coffee", "current", 1), ("tea", "current", 1)]
    assert all(fact.project is None for fact in facts)


def test_three_equal_answers_are_a_standing_preference() -> None:
    denied = [make_approval("denied:Bash git push", day) for day in range(3)]
    assert reconcile_candidates(denied[:2]) == []
    (fact,) = reconcile_candidates(denied)
    assert (fact.sentence, fact.confidence) == ("The user denied `Bash git push` 3 times in a row.", "inferred")


def test_the_opposite_answer_ends_a_standing_preference() -> None:
    facts = reconcile_candidates(
        [*(make_approval("denied:Bash git push", day) for day in range(3)), make_approval("granted:Bash git push", 3)]
    )
    assert summaries_of(facts) == [("denied:Bash git push", "superseded", 3)]
    assert facts[0].superseded_by == make_approval("granted:Bash git push", 3).id


def test_answers_to_other_calls_contradict_nothing() -> None:
    others = [make_approval("granted:Bash git status", day) for day in range(2)]
    facts = reconcile_candidates([*(make_approval("denied:Bash git push", day) for day in range(3)), *others])
    assert summaries_of(facts) == [("denied:Bash git push", "current", 3)]


def test_mixed_answers_are_no_preference() -> None:
    answers = ["denied:rm", "denied:rm", "granted:rm", "denied:rm"]
    assert reconcile_candidates(make_approval(value, day) for day, value in enumerate(answers)) == []


def test_values_are_compared_without_case_quotes_and_stops() -> None:
    assert normalize_value(" `Develop`. ") == normalize_value("develop")


CANDIDATES = st.lists(
    st.builds(
        make_candidate,
        st.sampled_from(["npm", "pnpm", "NPM.", "granted:rm", "denied:rm"]),
        st.integers(0, 6),
        session=st.sampled_from(["a", "b", "c", None]),
        predicate=st.sampled_from(["uses", "manager", "approval", "steer"]),
    ).map(lambda one: replace(one, single_valued=one.predicate == "manager")),
    max_size=25,
)


@NO_DEADLINE
@given(CANDIDATES, st.randoms(use_true_random=False))
def test_the_order_of_candidates_never_matters(candidates: list[Candidate], chance: random.Random) -> None:
    shuffled = [*candidates, *candidates]
    chance.shuffle(shuffled)
    assert reconcile_candidates(shuffled) == reconcile_candidates(candidates)


@NO_DEADLINE
@given(CANDIDATES)
def test_facts_are_consistent(candidates: list[Candidate]) -> None:
    facts = reconcile_candidates(candidates)
    assert len({fact.id for fact in facts}) == len(facts)
    ids = {candidate.id for candidate in candidates}
    for fact in facts:
        assert set(fact.evidence) <= ids
        assert (fact.valid_to is None) == (fact.superseded_by is None) == (status_of(fact) == "current")
        assert fact.valid_to is None or fact.valid_to >= fact.valid_from
        assert 1 <= fact.sessions <= len(fact.evidence)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize(("predicate", "kept"), [("approval", "stated_approval"), ("Ended", "stated_ended")])
def test_what_a_model_calls_an_approval_or_an_ending_is_a_fact_like_others(
    predicate: str, kept: str, count: int
) -> None:
    answer = {
        "facts": [oracle.fact_json("P1", "Anna", predicate, "Anna", "Deploys need the approval of Anna.", "constraint")]
    }
    candidates: list[Candidate] = []
    for day in range(count):
        line = TranscriptLine(1, "P", "Ask Anna before a deploy.", NOW + timedelta(days=day))
        session = SessionContext(f"s{day}", f"s{day}", "coder", "/src/shop")
        candidates += read_facts(TranscriptChunk((line,)), answer, FactExtractor(session, "model:m:1")).candidates
    (fact,) = reconcile_candidates(candidates)
    assert (fact.predicate, fact.sentence) == (kept, "Deploys need the approval of Anna.")
    assert fact.sessions == count


def test_a_saying_that_counts_for_an_approval_is_no_answer() -> None:
    answers = [make_approval("denied:Bash git push", day) for day in range(3)]
    saying = replace(make_approval("denied:Bash git push", 3), extractor="model:m:1", sentence="Never push.")
    assert reconcile_candidates([*answers[:2], saying]) == []
    (standing,) = reconcile_candidates([*answers, saying])
    assert standing.sentence == "The user denied `Bash git push` 3 times in a row."


def on_day(day: int) -> datetime:
    return NOW + timedelta(days=day)


def make_home(value: str, day: int, since: int | None = None, until: int | None = None) -> Candidate:
    """Return what somebody says of where they live, with the days since and until when that is true."""
    stated = make_candidate(value, day, single=True)
    start, end = (None if offset is None else on_day(offset) for offset in (since, until))
    return replace(stated, id=f"{stated.id}/{since}/{until}", valid_from=start, valid_to=end)


def validity_by_value(candidates: list[Candidate]) -> dict[str, tuple[datetime, datetime | None]]:
    return {fact.value: (fact.valid_from, fact.valid_to) for fact in reconcile_candidates(candidates)}


def test_what_was_over_when_it_was_said_was_true_before() -> None:
    assert validity_by_value([make_home("Bern", 0, until=-900)]) == {"Bern": (UNKNOWN_START, on_day(-900))}
    assert validity_by_value([make_home("Bern", 0, since=-2000, until=-900)]) == {"Bern": (on_day(-2000), on_day(-900))}
    assert validity_by_value([make_home("Bern", 0), make_home("Bern", 9, until=5)]) == {"Bern": (on_day(0), on_day(5))}
    assert validity_by_value([make_home("Bern", 0), make_home("Bern", 9, until=-900)]) == {
        "Bern": (UNKNOWN_START, on_day(-900))
    }


def test_what_is_over_takes_no_place_and_keeps_its_own_end() -> None:
    for candidates in (
        [make_home("Bern", 0, -2000, -900), make_home("Rome", 9)],
        [make_home("Rome", 0), make_home("Bern", 9, -2000, -900)],
    ):
        facts = {fact.value: fact for fact in reconcile_candidates(candidates)}
        assert (facts["Bern"].valid_to, facts["Rome"].valid_to) == (on_day(-900), None)
        assert facts["Rome"].superseded_by is None
    until_earlier = [make_home("Bern", 0), make_home("Rome", 20), make_home("Bern", 30, until=10)]
    assert validity_by_value(until_earlier) == {
        "Bern": (on_day(0), on_day(10)),
        "Rome": (on_day(20), None),
    }
    returned = [make_home("Rome", 0), make_home("Bern", 9, -2000, -900), make_home("Bern", 20)]
    past, rome, bern = reconcile_candidates(returned)
    assert (past.valid_from, past.valid_to, past.superseded_by) == (on_day(-2000), on_day(-900), None)
    assert (rome.valid_to, rome.superseded_by, bern.valid_from, bern.valid_to) == (
        on_day(20),
        bern.id,
        on_day(20),
        None,
    )
    assert past.id != bern.id


@pytest.mark.parametrize(("until", "end"), [(5, 5), (90, 9)])
def test_what_is_followed_ends_at_its_own_end_or_with_what_follows(until: int, end: int) -> None:
    facts = {
        fact.value: fact for fact in reconcile_candidates([make_home("Bern", 0, until=until), make_home("Rome", 9)])
    }
    assert facts["Bern"].valid_to == on_day(end)
    assert facts["Bern"].superseded_by == facts["Rome"].id


def test_what_ends_one_day_is_not_superseded_yet() -> None:
    (fact,) = reconcile_candidates([make_home("Bern", 0, until=90)])
    assert (fact.valid_from, fact.valid_to, fact.superseded_by) == (on_day(0), on_day(90), None)


def test_a_fact_begins_with_its_first_evidence_unless_that_names_another_start() -> None:
    assert validity_by_value([make_home("Bern", 0), make_home("Bern", 90, since=44)]) == {"Bern": (on_day(0), None)}
    assert validity_by_value([make_home("Bern", 0), make_home("Bern", 90, since=-44)]) == {"Bern": (on_day(-44), None)}
    assert validity_by_value([make_home("Bern", 0, since=44), make_home("Bern", 90)]) == {"Bern": (on_day(44), None)}


def test_the_best_trusted_evidence_tells_trust_and_words() -> None:
    tool = replace(make_candidate("pnpm", 0, confidence="inferred"), trust="tool", sentence="Run pnpm!")
    user = make_candidate("pnpm", 1)
    for candidates in ([tool, user], [replace(user, occurred_at=on_day(-1)), tool]):
        (fact,) = reconcile_candidates(candidates)
        assert (fact.trust, fact.confidence, fact.sentence) == ("user", "explicit", user.sentence)


DAYS = st.none() | st.integers(-9, 9)
HOMES = st.lists(
    st.builds(make_home, st.sampled_from(["Bern", "Rome", "Oslo"]), st.integers(0, 6), DAYS, DAYS), max_size=12
)


@NO_DEADLINE
@given(HOMES, st.randoms(use_true_random=False))
def test_times_that_are_told_never_break_facts(candidates: list[Candidate], chance: random.Random) -> None:
    facts = reconcile_candidates(candidates)
    shuffled = [*candidates, *candidates]
    chance.shuffle(shuffled)
    assert reconcile_candidates(shuffled) == facts
    assert len({fact.id for fact in facts}) == len(facts)
    assert sorted(cited for fact in facts for cited in fact.evidence) == sorted({cited.id for cited in candidates})
    assert all(fact.valid_to is None or fact.valid_to >= fact.valid_from for fact in facts)
    assert all(fact.superseded_by is None or fact.valid_to is not None for fact in facts)
    assert {fact.superseded_by for fact in facts} <= {None, *(fact.id for fact in facts)}
