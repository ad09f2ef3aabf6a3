"""What recall searches: episodes, facts as they are indexed, the words of both, and their vectors."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import REAL, BigInteger, Index, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlmodel import Field, SQLModel

from consolidator.models.columns import bigint_column, nullable_text_column, text_column, timestamp_column


@dataclass(frozen=True, slots=True)
class EpisodeRow:
    """A row of `episode`: the text of one turn as it is searched, redacted and bounded."""

    id: int  # neighbouring turns of a session have consecutive numbers
    session_id: str
    seq: int
    scope: int
    role: str  # user | assistant
    speaker: str | None
    text: str
    occurred_at: datetime


@dataclass(frozen=True, slots=True)
class IndexedFactRow:
    """A fact as the index has it, without its agent; compared with the fact, it shows what changed since."""

    id: str
    number: int
    scope: int
    text: str


class EpisodeTable(SQLModel, table=True):
    """Episodes."""

    __tablename__ = "episode"
    __table_args__ = (Index("episode_turn", "session_id", "seq", unique=True), Index("episode_day", "occurred_at"))

    id: int = bigint_column(primary_key=True)
    session_id: str = text_column()
    seq: int = bigint_column()
    scope: int = bigint_column()
    role: str = text_column()
    speaker: str | None = nullable_text_column()
    text: str = text_column()
    occurred_at: datetime = timestamp_column()


class IndexedFactTable(SQLModel, table=True):
    """Facts as they are indexed."""

    __tablename__ = "indexed_fact"
    __table_args__ = (Index("indexed_fact_number", "number", unique=True), Index("indexed_fact_agent", "agent"))

    id: str = text_column(primary_key=True)
    number: int = Field(
        sa_type=BigInteger,
        nullable=False,
        sa_column_kwargs={"server_default": text("nextval('indexed_fact_number_seq')")},
    )
    agent: str = text_column()
    scope: int = bigint_column()
    text: str = text_column()


class PostingTable(SQLModel, table=True):
    """Words in documents; `ref` packs weight and document, the heaviest first (memory/recall/postings.py)."""

    __tablename__ = "posting"
    __table_args__ = (Index("posting_sample", "word", "scope", postgresql_where=text("ref % 31 = 0")),)

    word: int = bigint_column(primary_key=True)
    scope: int = bigint_column(primary_key=True)
    ref: int = bigint_column(primary_key=True)


class CorpusTable(SQLModel, table=True):
    """The size of each scope, as deltas: writers only add rows, so that none waits for another; a merge sums them."""

    __tablename__ = "corpus"
    __table_args__ = (Index("corpus_agent", "agent"),)

    id: int = Field(
        sa_type=BigInteger,
        primary_key=True,
        nullable=False,
        sa_column_kwargs={"server_default": text("nextval('corpus_id_seq')")},
    )
    scope: int = bigint_column()
    agent: str = text_column()
    project: str | None = nullable_text_column()
    peer: str | None = nullable_text_column()
    turns: int = bigint_column()
    turn_words: int = bigint_column()
    facts: int = bigint_column()
    fact_words: int = bigint_column()


class EmbeddingTable(SQLModel, table=True):
    """Vectors of documents, as plain arrays, so that the table exists with and without pgvector."""

    __tablename__ = "embedding"
    __table_args__ = (Index("embedding_scope", "scope", "model"),)

    kind: str = text_column(primary_key=True)  # turn | fact
    number: int = bigint_column(primary_key=True)
    scope: int = bigint_column()
    model: str = text_column()
    vector: list[float] = Field(sa_type=ARRAY(REAL), nullable=False)
