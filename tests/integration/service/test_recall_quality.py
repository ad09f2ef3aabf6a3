"""The measure of recall: a small dialogue goes through import, a night and questions, beside plain BM25."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from benchmarks.harness.server import BenchmarkServer
from benchmarks.quality.dialogues import parse_observations, parse_questions, parse_turns
from benchmarks.quality.recall import RANKS, rank_bm25, score_dialogue
from benchmarks.quality.synthetic_dialogues import generate_dialogue

DIALOGUE = {
    "speaker_a": "Ada",
    "speaker_b": "Ben",
    "session_1_date_time": "1:56 pm on 8 May, 2023",
    "session_1": [
        {"speaker": "Ada", "dia_id": "D1:1", "text": "Hi Ben, how was the pottery workshop?"},
        {"speaker": "Ben", "dia_id": "D1:2", "text": "Lovely! I made two blue bowls, one is for you."},
        {"speaker": "Ada", "dia_id": "D1:3", "text": "That is so kind."},
        {"speaker": "Ben", "dia_id": "D1:4", "text": " I moved to Bergen last week, by the way. "},
        {"speaker": "Ada", "dia_id": "D1:5", "text": "Rain all day, then!"},
    ],
    "session_1_observation": {
        "Ben": [["Ben took part in ceramics and made blue bowls.", "D1:2"], ["Ben lives in Bergen.", ["D1:4"]]]
    },
    "qa": [
        {"question": "What did Ben make with ceramics?", "answer": "two bowls", "evidence": ["D1:2"], "category": 1},
        {"question": "Where does Ben live?", "answer": "In Bergen", "evidence": ["D1:4"], "category": 4},
        {"question": "What does Ada fear?", "evidence": ["D1:5"], "category": 5},
        {"question": "Nobody knows?", "evidence": [], "category": 1},
    ],
}


@pytest.fixture
async def server(server_dsn: str) -> AsyncIterator[BenchmarkServer]:
    benchmark_server = BenchmarkServer(server_dsn)
    yield benchmark_server
    await benchmark_server.close()


async def test_observations_are_believed_and_lead_to_the_turns_that_prove_them(
    server: BenchmarkServer, tmp_path: Path
) -> None:
    path = tmp_path / "talk.json"
    path.write_text(json.dumps(DIALOGUE))
    scores = await score_dialogue(server, path, DIALOGUE)
    assert (scores.facts, scores.observations) == (2, 2)
    assert scores.ranked["by words"] == [dict.fromkeys(RANKS, 1.0)] * 2
    assert len(scores.ranked["plain BM25"]) == 2


async def test_gold_words_are_sought_in_the_block_with_a_models_facts_and_without(
    server: BenchmarkServer, tmp_path: Path
) -> None:
    path = tmp_path / "talk.json"
    path.write_text(json.dumps(DIALOGUE))
    fact = {
        "subject": "Ben",
        "predicate": "home",
        "value": "Bergen",
        "sentence": "Ben lives in Bergen, in Norway.",
        "kind": "profile",
        "single_valued": True,
        "valid_from": None,
        "valid_to": None,
        "evidence": [{"dia_id": "D1:4", "quote": "I moved to Bergen last week"}],
    }
    path.with_suffix(".answers.json").write_text(json.dumps({"1": [fact]}))
    record = {**DIALOGUE, "qa": [{"question": "Where is Ben?", "answer": "Norway", "evidence": ["D1:4"]}]}
    scores = await score_dialogue(server, path, record)
    assert scores.gold_words == {"with a model's facts": [1.0], "without a model's facts": [0.0]}


async def test_facts_and_neighbours_find_more_than_the_words_of_turns(server: BenchmarkServer, tmp_path: Path) -> None:
    path, record = tmp_path / "made.json", generate_dialogue(1, sessions=8)
    path.write_text(json.dumps(record))
    scores = await score_dialogue(server, path, record)
    for rank in RANKS:
        ours, plain = (
            sum(shares[rank] for shares in of_questions)
            for of_questions in (scores.ranked["by words"], scores.ranked["plain BM25"])
        )
        assert ours > plain


def test_evidence_is_read_however_it_is_written() -> None:
    assert parse_turns(["D8:6; D9:17", "D02:3"]) == ["D8:6", "D9:17", "D2:3"]
    assert parse_turns("D1:1") == ["D1:1"]
    assert parse_turns(None) == []
    assert [question.text for question in parse_questions(DIALOGUE)] == [
        "What did Ben make with ceramics?",
        "Where does Ben live?",
    ]
    assert parse_observations({"observation": {"session_3_observation": {"Ada": [["x", "D3:1"]]}}}) == [
        ("Ada", "x", ["D3:1"])
    ]


def test_plain_bm25_puts_rare_words_first() -> None:
    texts = ["the cat and the dog", "the heron", "the cat and the other cat"]
    assert rank_bm25(texts, "the heron")[0] == 1
    assert rank_bm25(texts, "cat") == [2, 0, 1]
