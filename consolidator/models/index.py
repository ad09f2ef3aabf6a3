"""What recall searches: turns, facts as they were indexed, the words of both, and their vectors."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import REAL, BigInteger, Index, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlmodel import Field, SQLModel

from consolidator.models.columns import count, maybe_words, moment, words


class EpisodeTable(SQLModel, table=True):
    """A turn as it is searched: redacted, bounded, and numbered in a row with its neighbours."""

    __tablename__ = "episode"
    __table_args__ = (Index("episode_turn", "session_id", "seq", unique=True), Index("episode_day", "occurred_at"))

    id: int = count(primary_key=True)
    session_id: str = words()
    seq: int = count()
    scope: int = count()
    role: str = words()  # user | assistant
    speaker: str | None = maybe_words()
    text: str = words()
    occurred_at: datetime = moment()


class IndexedFactTable(SQLModel, table=True):
    """A fact as the index has it, so that what changed since is seen."""

    __tablename__ = "indexed_fact"
    __table_args__ = (Index("indexed_fact_number", "number", unique=True), Index("indexed_fact_agent", "agent"))

    id: str = words(primary_key=True)
    number: int = Field(
        sa_type=BigInteger,
        nullable=False,
        sa_column_kwargs={"server_default": text("nextval('indexed_fact_number_seq')")},
    )
    agent: str = words()
    scope: int = count()
    sentence: str = words()


class PostingTable(SQLModel, table=True):
    """A word in a document, the weightiest documents of a scope first (memory/postings.py)."""

    __tablename__ = "posting"
    word: int = count(primary_key=True)
    scope: int = count(primary_key=True)
    ref: int = count(primary_key=True)


class CorpusTable(SQLModel, table=True):
    """How much a scope has, as rows that are only added, so that nobody waits for anybody; a merge sums them up."""

    __tablename__ = "corpus"
    __table_args__ = (Index("corpus_agent", "agent"),)

    id: int = Field(
        sa_type=BigInteger,
        primary_key=True,
        nullable=False,
        sa_column_kwargs={"server_default": text("nextval('corpus_id_seq')")},
    )
    scope: int = count()
    agent: str = words()
    project: str | None = maybe_words()
    peer: str | None = maybe_words()
    turns: int = count()
    turn_words: int = count()
    facts: int = count()
    fact_words: int = count()


class EmbeddingTable(SQLModel, table=True):
    """What a model makes of a document: plain numbers, so that the table is there with and without pgvector."""

    __tablename__ = "embedding"
    __table_args__ = (Index("embedding_scope", "scope", "model"),)

    kind: str = words(primary_key=True)  # turn | fact
    number: int = count(primary_key=True)
    scope: int = count()
    model: str = words()
    vector: list[float] = Field(sa_type=ARRAY(REAL), nullable=False)
