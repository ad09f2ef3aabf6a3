"""A fact, and the candidates it was made of: who said what, where, in which words."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, Text, text
from sqlmodel import Column, Field, SQLModel

from consolidator.models.columns import (
    count,
    flag,
    listing,
    maybe_moment,
    maybe_small,
    maybe_words,
    moment,
    names,
    small,
    words,
)


class Claimed(SQLModel):
    """What a candidate and a fact both say."""

    agent: str = words()
    project: str | None = maybe_words()
    peer: str | None = maybe_words()
    level: str = words()  # peer | project | agent: whom it belongs to
    subject: str = words()
    predicate: str = words()
    value: str = words()
    sentence: str = words()
    kind: str = words()  # preference, profile, environment, project, decision, constraint, relation
    confidence: str = words()  # explicit | inferred
    trust: str = words()  # person | user | agent | tool


class CandidateTable(Claimed, table=True):
    """One saying, with its verified quote; it outlives the event."""

    __tablename__ = "candidate"
    __table_args__ = (
        Index(
            "candidate_group",
            "agent",
            text("coalesce(as_subject, subject)"),
            text("coalesce(as_predicate, predicate)"),
            "owner",
        ),
        Index("candidate_new", "agent", postgresql_where=text("not reconciled")),
        Index(
            "candidate_undecided",
            "agent",
            postgresql_where=text("generation > 0 and operation is null and rejected is null and quarantined is null"),
        ),
        Index("candidate_generation", "generation", postgresql_where=text("generation > 1")),
        Index("candidate_retired", "retired_by", postgresql_where=text("retired_by is not null")),
        Index("candidate_target", "target", postgresql_where=text("target is not null")),
        Index("candidate_session", "session_id"),
        Index("candidate_quarantined", "agent", postgresql_where=text("quarantined is not null")),
    )

    id: str = words(primary_key=True)
    session_id: str = words()
    seq: int = count()
    occurred_at: datetime = moment()
    quote: str = words()
    extractor: str = words()
    single_valued: bool = flag()
    evidence: list[Any] = listing()  # [seq, quote] of each further event that proves it
    generation: int = small()  # of the model that read it; 0: of all, as what rules find and what a person says
    quarantined: str | None = maybe_words()  # why a person has to look at it first
    valid_from: datetime | None = maybe_moment()  # since when it is true, where the words say so
    valid_to: datetime | None = maybe_moment()
    rejected: str | None = maybe_words()  # why it may not become a fact
    active: bool = flag(default=True)  # false: of a generation that is a draft, or that another one took the place of
    retired_by: int | None = maybe_small()  # the generation that took its place
    operation: str | None = maybe_words()  # add | reinforce | refine | supersede | noop: what was decided of it
    target: str | None = maybe_words()  # the fact that this was about
    decided_by: str | None = maybe_words()  # code, or the model
    why: str | None = maybe_words()
    flagged: str | None = maybe_words()  # why it was kept beside what it resembles
    as_subject: str | None = maybe_words()  # what it counts for, where that is not what it says by itself
    as_predicate: str | None = maybe_words()
    as_value: str | None = maybe_words()
    owner: str = words(default="")  # the project or peer that its level names; of an agent's own none
    reconciled: bool = flag()
    run_id: str = words()


class TombstoneTable(SQLModel, table=True):
    """A value that a person does not want believed, as it is compared: it stays when its fact goes."""

    __tablename__ = "tombstone"
    __table_args__ = (Index("tombstone_agent", "agent"),)

    fact_id: str = words(primary_key=True)
    agent: str = words()
    level: str = words()
    project: str | None = maybe_words()
    peer: str | None = maybe_words()
    subject: str = words()
    predicate: str = words()
    value: str = words()
    created_at: datetime = moment()


class FactTable(Claimed, table=True):
    """What is believed, since when, and what it rests on."""

    __tablename__ = "fact"
    __table_args__ = (
        Index("fact_group", "agent", "subject", "predicate", text("coalesce(project, peer, '')")),
        Index("fact_stated", "agent", postgresql_where=text("trust = 'person'")),
        Index("fact_search", text("to_tsvector('simple', sentence)"), postgresql_using="gin"),
    )

    id: str = words(primary_key=True)
    valid_from: datetime = moment()  # when it became true
    valid_to: datetime | None = maybe_moment()
    recorded_at: datetime = moment()  # when we began to believe it
    superseded_at: datetime | None = maybe_moment()  # when we stopped
    superseded_by: str | None = maybe_words()
    sessions: int = count()  # distinct lineage roots that say so
    evidence: list[str] = names()  # ids of candidates
    flagged: str | None = maybe_words()  # why somebody may want to look at it
    run_id: str = words()
    recalled: int = count()  # how often recall showed it
    last_recalled_at: datetime | None = maybe_moment()


class FactVersionTable(SQLModel, table=True):
    """What was believed of a fact until a moment, where the fact says otherwise now."""

    __tablename__ = "fact_version"

    fact_id: str = Field(sa_column=Column(Text, ForeignKey("fact.id", ondelete="CASCADE"), primary_key=True))
    until: datetime = moment(primary_key=True)
    value: str = words()
    sentence: str = words()
    valid_from: datetime = moment()
    valid_to: datetime | None = maybe_moment()
    superseded_at: datetime | None = maybe_moment()
    superseded_by: str | None = maybe_words()
