"""A purpose is what a procedure's goals have in common and others have not; nothing of one person alone is told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from consolidator.memory.procedures.key_counts import hash_text
from consolidator.memory.procedures.patterns import DigestArrays
from consolidator.memory.procedures.purposes import Purpose, PurposeFinder


def session(number: int, goal: str, *, peer: str = "", project: str = "", root: int | None = None) -> DigestArrays:
    empty = np.zeros(0, np.int64)
    words = np.asarray([hash_text(word) for word in goal.split()], np.int64)
    name = f"r{number if root is None else root:03}"
    return DigestArrays(f"s{number:03}", name, empty, empty, project=project, goal=words, peer=peer)


def find(sessions: Sequence[DigestArrays], roots: Iterable[int], min_projects: int = 1) -> Purpose:
    return PurposeFinder(sessions, min_projects).find(np.asarray(list(roots), np.int64))


def cancelling(number: int) -> str:
    return f"cancel trip{number}" if number < 10 else f"book seat{number}"


def test_the_words_that_other_goals_lack_tell_the_purpose() -> None:
    sessions = [session(n, cancelling(n)) for n in range(30)]
    purpose = find(sessions, range(8))
    assert purpose.words == (hash_text("cancel"),)
    assert purpose.bits > 10
    assert not purpose.is_missing


def test_goals_enough_without_a_common_word_are_no_purpose_and_few_goals_say_nothing() -> None:
    sessions = [session(n, cancelling(n)) for n in range(30)]
    assert find(sessions, range(7, 17)).is_missing
    assert find(sessions, range(3)) == Purpose()
    assert find([session(n, "") for n in range(30)], range(8)) == Purpose()


def test_a_request_that_is_repeated_counts_once() -> None:
    sessions = [session(n, "cancel trip") for n in range(10)] + [session(n, f"book seat{n}") for n in range(10, 30)]
    assert find(sessions, range(10)).words == ()


def test_nothing_that_one_person_said_is_told() -> None:
    of_one = [session(n, cancelling(n), peer="mara" if n < 10 else f"p{n}") for n in range(30)]
    of_two = [session(n, cancelling(n), peer="mara" if n % 2 else "noor") for n in range(30)]
    assert find(of_one, range(8)).words == ()
    assert find(of_two, range(8)).words == (hash_text("cancel"),)


def test_what_several_projects_share_is_told_by_words_of_several() -> None:
    of_one = [session(n, cancelling(n), project="a" if n < 10 else "b") for n in range(30)]
    of_two = [session(n, cancelling(n), project="ab"[n % 2]) for n in range(30)]
    assert find(of_one, range(8), min_projects=2).words == ()
    assert find(of_two, range(8), min_projects=2).words == (hash_text("cancel"),)


def test_sessions_of_one_root_have_one_goal() -> None:
    sessions = [session(n, cancelling(n)) for n in range(30)]
    with_forks = [*sessions, *(session(100 + n, cancelling(n), root=n) for n in range(30))]
    assert find(with_forks, range(8)) == find(sessions, range(8))
