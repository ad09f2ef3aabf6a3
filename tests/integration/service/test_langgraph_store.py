"""ConsolidatorStore answers as LangGraph's own store in memory does, where both are asked the same."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from pydantic import SecretStr

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.errors import Forbidden, UsageError
from consolidator.models.store_item import GetItem, PutItem
from consolidator.models.viewer import Viewer
from consolidator.service.memory.store_items import run_operations
from consolidator.settings import Settings
from tests.databases import database_copy
from tests.nights import query_number
from tests.support import run_job

pytest.importorskip("langgraph.store.base", reason="LangGraph is not installed: pip install 'consolidator[langgraph]'")

from langgraph.store.base import (
    BaseStore,
    GetOp,
    IndexConfig,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore

from consolidator.integrations.langgraph import ConsolidatorStore

SIZE = 4096
WORDS = ("tabs", "spaces", "coffee", "tea", "berlin")


def embed(texts: Sequence[str]) -> list[list[float]]:
    """Embed texts by the letters in them: the same on every machine."""
    vectors = []
    for text in texts:
        vector = [0.0] * SIZE
        for word in text.lower().split():
            vector[int.from_bytes(hashlib.sha256(word.strip('.,{}":').encode()).digest()[:2], "big") % SIZE] += 1.0
        vectors.append(vector)
    return vectors


INDEX: IndexConfig = {"dims": SIZE, "embed": embed, "fields": ["text"]}


@pytest.fixture(scope="module")
def own(server_dsn: str, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Settings that name a database of this module's own."""
    with database_copy(server_dsn, template) as address:
        yield Settings(home=tmp_path_factory.mktemp("home"), database_url=SecretStr(address))


@pytest.fixture
def store(own: Settings) -> Iterator[ConsolidatorStore]:
    """An empty store that opens its database itself."""
    opened = ConsolidatorStore(settings=own)
    for namespace in opened.list_namespaces(limit=10_000):
        for item in opened.search(namespace, limit=10_000):
            opened.delete(item.namespace, item.key)
    yield opened
    opened.close()


def both(store: ConsolidatorStore) -> tuple[BaseStore, BaseStore]:
    """LangGraph's store in memory as the oracle, and ours."""
    return InMemoryStore(), store


def places(found: Any) -> set[tuple[tuple[str, ...], str]]:
    """Return where items are."""
    return {(item.namespace, item.key) for item in found}


ITEMS: list[tuple[tuple[str, ...], str, dict[str, Any]]] = [
    (("users", "mara"), "a", {"kind": "like", "score": 5, "text": "tabs", "tags": ["x", "y"], "deep": {"n": 1}}),
    (("users", "mara"), "b", {"kind": "like", "score": 4.5, "text": "coffee", "tags": [], "deep": {"n": 2}}),
    (("users", "bo"), "a", {"kind": "fact", "score": -1, "text": "tea", "done": True, "none": None}),
    (("users", "bo", "notes"), "a", {"kind": "note", "score": 10, "text": "spaces", "tags": ["x"]}),
    (("usersx",), "a", {"kind": "other", "score": 10, "text": "berlin", "0": "zero"}),
    (("docs", "v1", "x"), "1", {"score": 0, "deep": {"n": {"o": [1, {"p": 2}]}}}),
    (("docs", "v2", "x"), "1", {"score": 1e6, "deep": {}}),
]  # fmt: skip
PREFIXES: list[tuple[str, ...]] = [(), ("users",), ("users", "mara"), ("users", "bo"), ("user",), ("docs",), ("none",)]
FILTERS: list[dict[str, Any]] = [
    {},
    {"kind": "like"},
    {"kind": "like", "score": 5},
    {"score": 5.0},
    {"score": {"$gt": 4.5}},
    {"score": {"$gte": 4.5, "$lt": 10}},
    {"score": {"$lte": 0}},
    {"score": {"$ne": 10}},
    {"kind": {"$eq": "note"}},
    {"kind": {"$ne": "note"}},
    {"tags": ["x", "y"]},
    {"tags": ["x"]},
    {"tags": []},
    {"deep": {"n": 1}},
    {"deep": {"n": {"$gt": 1}}, "kind": "like"},
    {"deep": {}},
    {"deep": {"n": {"o": [1, {"p": 2}]}}},
    {"deep": {"n": {"$eq": {"o": [1, {"p": 2}]}}}},
    {"none": None},
    {"absent": None},
    {"done": True},
    {"tags": {"0": "x"}},
    {"0": "zero"},
    {"kind": ""},
]
NAMESPACES: list[dict[str, Any]] = [
    {},
    {"prefix": ("users",)},
    {"prefix": ("users", "*")},
    {"prefix": ("*", "bo")},
    {"prefix": ("docs", "*", "x")},
    {"prefix": ("none",)},
    {"suffix": ("x",)},
    {"suffix": ("*", "x")},
    {"suffix": ("notes",)},
    {"prefix": ("users",), "suffix": ("notes",)},
    {"max_depth": 1},
    {"max_depth": 2, "prefix": ("docs",)},
    {"limit": 2},
    {"limit": 2, "offset": 2},
    {"offset": 100},
    {"max_depth": 2, "limit": 3, "offset": 1},
]


def test_it_answers_as_the_store_in_memory(store: ConsolidatorStore) -> None:
    oracle, ours = both(store)
    for namespace, key, value in ITEMS:
        oracle.put(namespace, key, value)
        ours.put(namespace, key, value)
    for namespace, key, value in ITEMS:
        item, expected = ours.get(namespace, key), oracle.get(namespace, key)
        assert item is not None
        assert expected is not None
        assert (item.namespace, item.key, item.value) == (expected.namespace, expected.key, value)
    assert ours.get(("users",), "a") is None
    for prefix in PREFIXES:
        for wanted in FILTERS:
            if prefix in ((), ("docs",), ("users",)) or "$" not in str(wanted):  # the oracle compares no absent value
                try:
                    expected_places = places(oracle.search(prefix, filter=wanted, limit=100))
                except TypeError:
                    continue
                assert places(ours.search(prefix, filter=wanted, limit=100)) == expected_places, (prefix, wanted)
    for arguments in NAMESPACES:
        assert ours.list_namespaces(**arguments) == oracle.list_namespaces(**arguments), arguments


def test_pages_hold_each_item_once(store: ConsolidatorStore) -> None:
    for number in range(25):
        store.put(("pages",), str(number), {"number": number})
    pages = [store.search(("pages",), limit=10, offset=offset) for offset in (0, 10, 20, 30)]
    assert [len(page) for page in pages] == [10, 10, 5, 0]
    assert len({item.key for page in pages for item in page}) == 25
    assert len(store.search(("pages",))) == 10
    assert store.search(("pages",), limit=0) == []


def test_a_later_put_replaces_and_a_delete_removes(store: ConsolidatorStore) -> None:
    store.put(("a",), "k", {"v": 1})
    first = store.get(("a",), "k")
    store.put(("a",), "k", {"w": 2})
    second = store.get(("a",), "k")
    assert first is not None
    assert second is not None
    assert second.value == {"w": 2}
    assert second.created_at == first.created_at
    assert second.updated_at > first.updated_at
    store.delete(("a",), "k")
    store.delete(("a",), "k")
    assert store.get(("a",), "k") is None
    assert store.list_namespaces() == []


def test_reads_of_a_batch_see_what_was_before_and_its_last_write_counts(store: ConsolidatorStore) -> None:
    ops: list[Op] = [
        PutOp(("a",), "k", {"v": 1}),
        GetOp(("a",), "k"),
        PutOp(("a",), "k", {"v": 2}),
        SearchOp(("a",)),
        PutOp(("b",), "k", {"v": 3}),
        PutOp(("b",), "k", None),
        ListNamespacesOp(match_conditions=(MatchCondition("prefix", ("a",)),)),
    ]
    oracle, ours = both(store)
    assert ours.batch(ops) == [None, None, None, [], None, None, []]
    assert ours.batch(ops[:4])[3] != []
    assert oracle.batch(ops)[:4] == [None, None, None, []]
    item = ours.get(("a",), "k")
    assert item is not None
    assert item.value == {"v": 2}
    assert ours.get(("b",), "k") is None
    assert ours.batch([]) == []
    with pytest.raises(UsageError, match="no JSON"):
        ours.batch([PutOp(("c",), "good", {"v": 1}), PutOp(("c",), "bad", {"v": object()})])
    assert ours.get(("c",), "good") is None  # all or none


@pytest.mark.parametrize("namespace", [(), ("a.b",), ("",), ("langgraph", "x")], ids=str)
def test_a_namespace_that_langgraph_refuses_is_refused(store: ConsolidatorStore, namespace: tuple[str, ...]) -> None:
    with pytest.raises(InvalidNamespaceError):
        store.put(namespace, "k", {"v": 1})


def test_odd_values_come_back_as_they_were(store: ConsolidatorStore) -> None:
    odd = {
        "nul\x00": "a\x00b",
        "half": "\ud800",
        "mark": "\ue000",
        "big": 10**30,
        "tiny": 1e-300,
        "": {"é": ["ß", None]},
    }
    store.put(("odd", "\ud800"), "k\x00", odd)
    item = store.get(("odd", "\ud800"), "k\x00")
    assert item is not None
    assert (item.value, item.namespace, item.key) == (odd, ("odd", "\ud800"), "k\x00")
    assert places(store.search(("odd",), filter={"half": "\ud800"})) == {(("odd", "\ud800"), "k\x00")}
    with pytest.raises(UsageError, match="at most"):
        store.put(("a" * 3000,), "k", {})
    with pytest.raises(UsageError, match=r"\$near"):
        store.search(("odd",), filter={"half": {"$near": 1}})


def test_a_query_ranks_by_nearness(own: Settings, store: ConsolidatorStore) -> None:
    oracle: BaseStore = InMemoryStore(index=INDEX)
    ours = ConsolidatorStore(settings=own, index=INDEX)
    for each in (oracle, ours):
        for number, word in enumerate(WORDS):
            each.put(("n", word), "k", {"text": f"{word} {WORDS[number - 1]}", "other": "tabs"})
        each.put(("n", "hidden"), "k", {"text": "tabs"}, index=False)
        each.put(("n", "other"), "k", {"text": "tea", "chapters": [{"t": "tabs"}, {"t": "spaces"}]}, ["chapters[*].t"])
    for query in ("tabs", "tea please", "berlin spaces"):
        for limit, offset, wanted in ((10, 0, {}), (3, 0, {}), (10, 0, {"other": "tabs"}), (2, 1, {})):
            expected, found = (
                each.search(("n",), query=query, limit=limit, offset=offset, filter=wanted) for each in (oracle, ours)
            )
            assert [item.score for item in found] == pytest.approx([item.score for item in expected])
    [first, *_] = ours.search(("n",), query="tabs", limit=1)
    assert first.namespace == ("n", "other")
    assert first.score == pytest.approx(1.0)
    assert ours.search(("n",), query="tabs")[-1].score is None  # what has no vector comes last
    assert [item.score for item in store.search(("n",), query="tabs")] == [None] * 7  # a store without an index
    ours.close()


async def test_the_asynchronous_methods_do_the_same(own: Settings, store: ConsolidatorStore) -> None:
    async def embed_later(texts: Any) -> list[list[float]]:
        await asyncio.sleep(0)
        return embed(list(texts))

    ours = ConsolidatorStore(settings=own, index={"dims": SIZE, "embed": embed_later, "fields": ["text"]})
    await asyncio.gather(*[ours.aput(("many",), str(number), {"text": f"tabs {number}"}) for number in range(20)])
    item = await ours.aget(("many",), "7")
    assert item is not None
    assert item.value == {"text": "tabs 7"}
    assert (await ours.asearch(("many",), query="tabs 7", limit=1))[0].key == "7"
    assert await ours.alist_namespaces(prefix=("many",)) == [("many",)]
    await ours.adelete(("many",), "7")
    assert await ours.aget(("many",), "7") is None
    await ours.aclose()


def test_writers_of_the_same_items_never_wait_for_each_other(own: Settings, store: ConsolidatorStore) -> None:
    ops = [PutOp(("race",), str(number), {"v": number}) for number in range(30)]

    def write(number: int) -> None:
        for _ in range(5):
            store.batch(ops[::-1] if number % 2 else ops)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    assert len(store.search(("race",), limit=100)) == 30


async def test_items_expire_unless_they_are_read(database: Database, clock: FrozenClock) -> None:
    store = ConsolidatorStore(database=database, ttl={"default_ttl": 10, "refresh_on_read": True})
    assert store.supports_ttl
    await store.aput(("t",), "default", {"v": 1})
    await store.aput(("t",), "short", {"v": 2}, ttl=1)
    await store.aput(("t",), "kept", {"v": 3}, ttl=None)
    clock.advance(timedelta(minutes=5))
    assert {item.key for item in await store.asearch(("t",))} == {"default", "kept"}  # which prolongs them
    assert await store.aget(("t",), "short") is None
    clock.advance(timedelta(minutes=8))
    assert await store.aget(("t",), "default", refresh_ttl=False) is not None
    clock.advance(timedelta(minutes=3))
    assert await store.aget(("t",), "default") is None
    assert await query_number(database, "select count(*) from store_item") == 3
    await store.aput(("t",), "another", {"v": 4})  # a write deletes what is over
    assert await query_number(database, "select count(*) from store_item") == 2
    clock.advance(timedelta(minutes=11))
    assert await store.alist_namespaces() == [("t",)]
    await store.adelete(("t",), "kept")
    assert await store.alist_namespaces() == []


async def test_retention_deletes_what_expired(database: Database, clock: FrozenClock, settings: Settings) -> None:
    store = ConsolidatorStore(database=database)
    await store.aput(("t",), "short", {"v": 1}, ttl=1)
    await store.aput(("t",), "kept", {"v": 2})
    clock.advance(timedelta(minutes=2))
    await run_job(database, settings, "retention")
    assert await query_number(database, "select count(*) from store_item") == 1


async def test_a_narrowed_viewer_reaches_no_items(database: Database) -> None:
    with pytest.raises(Forbidden):
        await run_operations(database, [GetItem(("a",), "k")], viewer=Viewer(peer="mara"))
    with pytest.raises(Forbidden):
        await run_operations(database, [PutItem(("a",), "k", {})], viewer=Viewer(scopes=frozenset({"read"})))
