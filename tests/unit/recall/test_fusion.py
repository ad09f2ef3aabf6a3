"""How the channels of a search are made comparable."""

from __future__ import annotations

from consolidator.memory.recall.fusion import scale_to_range


def test_the_best_of_a_kind_has_all_of_its_weight_and_the_worst_hardly_any() -> None:
    assert scale_to_range([(1, 0.5), (2, 0.3), (3, 0.1)]) == {1: 1.0, 2: 0.5, 3: 0.01}


def test_an_only_fact_is_as_near_as_the_turns_beside_it_say() -> None:
    turns = [(7, 0.46), (8, 0.3)]
    assert scale_to_range([(1, 0.01)], turns) == {1: 0.01}
    assert scale_to_range([(1, 0.6)], turns) == {1: 1.0}
