"""A LangGraph store over this database: `graph.compile(store=ConsolidatorStore())`.

Items are a program's own values, written, replaced and deleted as it likes. Nights learn nothing from them, and recall
does not show them: for that there is `Memory`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from consolidator.errors import UsageError
from consolidator.library.shared_database import DatabaseUse
from consolidator.models.store_item import (
    Condition,
    ConditionKind,
    GetItem,
    ListNamespaces,
    NamespacePattern,
    Operation,
    PutItem,
    ScoredItem,
    SearchItems,
    StoreItemRow,
)
from consolidator.service.database import Database
from consolidator.service.memory.store_items import Answer, run_operations
from consolidator.settings import Settings

try:
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        IndexConfig,
        Item,
        ListNamespacesOp,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
        TTLConfig,
        ensure_embeddings,
        get_text_at_path,
        tokenize_path,
    )
    from langgraph.store.base import validate_op_namespace as check_labels
except ImportError as error:
    raise UsageError("this needs LangGraph: pip install 'consolidator[langgraph]'") from error

COMPARISONS = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte")


class ConsolidatorStore(BaseStore):
    """LangGraph's store, in the database that the process shares; any thread and event loop may use one.

    `index` has an embedding function and the fields that it reads: then `search(query=...)` ranks by nearness.
    `ttl` has the time to live of items that name none. A `database` of your own is used on the event loop that opened
    it, by the asynchronous methods alone.
    """

    supports_ttl = True

    def __init__(
        self,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        database: Database | None = None,
        settings: Settings | None = None,
    ) -> None:
        super().__init__()
        self.ttl_config = ttl
        self.index_config = index
        self.embeddings = None if index is None else ensure_embeddings(index["embed"])
        self._fields = ["$"] if index is None else index.get("fields") or ["$"]
        self._use = DatabaseUse(database, settings)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Do operations, all or none, and wait for them."""
        return self._use.run_blocking(lambda: self.abatch(ops))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Do operations, all or none."""
        checked, texts, queries = self._collect(ops)
        vectors: dict[str, list[float]] = {}
        of_queries: dict[str, list[float]] = {}
        if self.embeddings is not None:
            if texts:
                vectors = dict(zip(texts, await self.embeddings.aembed_documents(texts), strict=True))
            embedded = await asyncio.gather(*[self.embeddings.aembed_query(query) for query in queries])
            of_queries = dict(zip(queries, embedded, strict=True))
        operations = [self._translate(op, vectors, of_queries) for op in checked]
        return [_read_answer(answer) for answer in await self._run(operations)]

    def close(self) -> None:
        """Close it; the last one of a process that uses the shared database closes that, too."""
        self._use.close()

    async def aclose(self) -> None:
        """Close it without holding the event loop up."""
        await asyncio.to_thread(self.close)

    def __enter__(self) -> ConsolidatorStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> ConsolidatorStore:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _run(self, operations: Sequence[Operation]) -> list[Answer]:
        return await self._use.run(lambda database: run_operations(database, operations))

    def _collect(self, ops: Iterable[Op]) -> tuple[list[Op], list[str], list[str]]:
        """Return operations whose labels are valid, and the distinct texts and queries that vectors are made of."""
        checked = list(ops)
        for op in checked:
            check_labels(op)
        texts = dict.fromkeys(text for op in checked if isinstance(op, PutOp) for text in self._read_texts(op))
        queries = dict.fromkeys(op.query for op in checked if isinstance(op, SearchOp) and op.query)
        return checked, list(texts), list(queries)

    def _read_texts(self, put: PutOp) -> list[str]:
        """Return the texts of an item that vectors are made of."""
        if self.embeddings is None or put.value is None or put.index is False:
            return []
        fields = self._fields if put.index is None else put.index
        paths = [field if field == "$" else tokenize_path(field) for field in fields]
        return [text for path in paths for text in get_text_at_path(put.value, path)]

    def _translate(
        self, op: Op, vectors: Mapping[str, list[float]], of_queries: Mapping[str, list[float]]
    ) -> Operation:
        """Return what the service is asked to do; vectors are by text."""
        if isinstance(op, GetOp):
            return GetItem(op.namespace, op.key, op.refresh_ttl)
        if isinstance(op, SearchOp):
            return SearchItems(
                prefix=op.namespace_prefix,
                conditions=list_conditions(op.filter or {}),
                limit=op.limit,
                offset=op.offset,
                vector=of_queries.get(op.query) if op.query else None,
                refresh=op.refresh_ttl,
            )
        if isinstance(op, ListNamespacesOp):
            patterns = [
                NamespacePattern(condition.path, at_end=condition.match_type == "suffix")
                for condition in op.match_conditions or ()
            ]
            return ListNamespaces(patterns, op.max_depth, op.limit, op.offset)
        if isinstance(op, PutOp):
            value = None if op.value is None else dict(op.value)
            of_item = [vectors[text] for text in self._read_texts(op)]
            return PutItem(op.namespace, op.key, value, op.ttl, of_item)
        raise UsageError(f"this store does not know the operation {type(op).__name__}")


def list_conditions(filters: Mapping[str, Any], path: tuple[str, ...] = ()) -> list[Condition]:
    """Return what a filter asks for: equality, nested objects and arrays by their members, comparisons by `$gt` etc.

    Raises UsageError for an operator that is none.
    """
    return [condition for key, value in filters.items() for condition in _list_conditions_of(value, (*path, str(key)))]


def _list_conditions_of(value: Any, path: tuple[str, ...]) -> list[Condition]:
    if isinstance(value, Mapping) and any(str(key).startswith("$") for key in value):
        if unknown := [str(key) for key in value if key not in COMPARISONS]:
            raise UsageError(f"a filter knows no operator {unknown[0]!r}: it knows {', '.join(COMPARISONS)}")
        return [Condition(path, cast(ConditionKind, operator), operand) for operator, operand in value.items()]
    if isinstance(value, Mapping):
        return [Condition(path, "object"), *list_conditions(value, path)]
    if isinstance(value, list | tuple):
        members = [_list_conditions_of(member, (*path, str(place))) for place, member in enumerate(value)]
        return [Condition(path, "length", len(value)), *(condition for each in members for condition in each)]
    return [Condition(path, "$eq", value)]


def _read_answer(answer: Answer) -> Result:
    if answer is None:
        return None
    if isinstance(answer, StoreItemRow):
        return Item(
            value=answer.value,
            key=answer.key,
            namespace=tuple(answer.namespace),
            created_at=answer.created_at,
            updated_at=answer.updated_at,
        )
    return [  # type: ignore[return-value]
        SearchItem(
            *(tuple(scored.item.namespace), scored.item.key, scored.item.value),
            *(scored.item.created_at, scored.item.updated_at, scored.score),
        )
        if isinstance(scored, ScoredItem)
        else tuple(scored)
        for scored in answer
    ]
