"""Your own queries of memory, with SQLModel: what people stated last, and how many facts there are of each kind."""

import os

import psycopg
from sqlmodel import Session, col, create_engine, func, select

from consolidator.models.tables import Fact

address = os.environ["CONSOLIDATOR_DATABASE_URL"]
engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(address))

with Session(engine.execution_options(postgresql_readonly=True)) as session:
    stated = select(Fact).where(col(Fact.trust).in_(["person", "user"]), col(Fact.superseded_at).is_(None))
    for fact in session.exec(stated.order_by(col(Fact.recorded_at).desc()).limit(5)):
        print(fact.project or "everywhere", fact.sentence, sep=": ")
    for kind, count in session.exec(select(Fact.kind, func.count()).group_by(Fact.kind).order_by(Fact.kind)):
        print(kind, count, sep=": ")
