"""Solutions: an error, the fixes that resolved it over all sessions, and the evidence."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from consolidator.memory.solutions.error_records import FixStep
from consolidator.models.audience import ALL, pluralize

_STATUSES = ("confirmed", "unconfirmed", "unsolved")  # best first


@dataclass(frozen=True, slots=True)
class Evidence:
    """One occurrence of an error, to be looked up in its session."""

    session_id: str
    seq: int  # of the failed call
    resolver_seq: int | None
    quote: str
    occurred_at: str


@dataclass(frozen=True, slots=True)
class Fix:
    """One way in which an error was resolved."""

    description: str  # for people and agents
    rule: str  # same-operation | substitution | superseded
    steps: tuple[FixStep, ...]  # of the latest example
    failing: str  # of the latest example
    resolving: str  # of the latest example
    headline: str  # of the latest example
    worked: int  # times
    tried: int  # times: it worked, failed alike, or led only to another error
    sessions: int  # lineage roots in which it worked
    confirmed: bool
    evidence: tuple[Evidence, ...]  # the latest ones
    form: dict[str, Any] | None = None  # a `FixForm` as JSON; None: what was done says nothing for another case
    values: tuple[tuple[str, ...], ...] = ()  # of each slot of the form, what it had in the cases
    last_time: str = ""  # the latest example in words
    people: int = 1  # whose sessions these are
    harm: str | None = None  # why it is told to no agent

    @property
    def rate(self) -> str:
        """How often it worked, for people."""
        unconfirmed = "" if self.confirmed else ", unconfirmed"
        return f"worked in {self.worked} of {self.tried}, in {count_support(self.sessions, self.people)}{unconfirmed}"


@dataclass(frozen=True, slots=True)
class Solution:
    """An error and what is known about resolving it."""

    id: str  # stable: made of agent, project and fingerprint
    agent: str
    project: str | None
    fingerprint: str
    tool: str
    failed: str  # "git push"
    headline: str
    occurrences: int
    resolved: int
    sessions: int  # lineage roots in which it occurred
    status: str  # confirmed | unconfirmed | unsolved
    fixes: tuple[Fix, ...]  # best first
    tried: tuple[str, ...]  # attempts that failed with the same error
    evidence: tuple[Evidence, ...]  # the latest occurrences
    last_at: str
    people: int = 1  # whose sessions met it
    audience: str = ALL  # to whom it may be shown; where it is shared, `sessions` counts people
    withheld: tuple[str, ...] = ()  # fixes that are told to no agent, in words for people

    @property
    def confirmed(self) -> bool:
        """Whether a fix worked in several sessions, and most times that it was tried."""
        return self.status == "confirmed"

    @property
    def line(self) -> str:
        """The solution in one line, for people."""
        error = f"{self.failed} failed: “{self.headline}”" if self.headline else f"{self.failed} failed without a word"
        if not self.fixes:
            times = "once" if self.occurrences == 1 else f"{self.occurrences} times"
            fix_seen = "no fix to tell" if self.withheld else "no fix seen yet"
            return f"{error} → {fix_seen} (met {times}, in {count_support(self.sessions, self.people)})"
        fix = self.fixes[0]
        wording = fix.description if fix.confirmed else f"last time: {fix.last_time}"
        return f"{error} → {wording} ({fix.rate})"

    def to_json(self) -> dict[str, Any]:
        """Return the solution as JSON, with its line."""
        values = {**asdict(self), "line": self.line}
        del values["audience"]  # it has a column of its own
        return values


def split_withheld(fixes: Iterable[Fix], project: str | None) -> tuple[list[Fix], tuple[str, ...]]:
    """Return the fixes to tell, and the others in words for people; of those none leaves its project."""
    to_tell, withheld = [], []
    for fix in fixes:
        if fix.harm is None:
            to_tell.append(fix)
        elif project is not None:
            withheld.append(f"told to no agent, since it {fix.harm}: {fix.last_time} ({fix.rate})")
    return to_tell, tuple(withheld)


def count_support(sessions: int, people: int = 1) -> str:
    """Return in how many sessions something was seen, and of how many people where there are several."""
    if people > 1 and people == sessions:
        return f"{people} people"
    counted = pluralize(sessions, "session")
    return counted if people <= 1 else f"{counted} of {people} people"


def solution_id(agent: str, project: str | None, fingerprint: str, audience: str = ALL) -> str:
    """Return the stable id of a solution, so that the next night updates it."""
    view = [] if audience.startswith(ALL) else [audience]
    parts = "\x00".join([agent, project or "", fingerprint, *view])
    return "sol_" + hashlib.blake2b(parts.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def solution_sort_key(solution: Solution) -> tuple[int, int, int, str, str, str, str]:
    """Order solutions: confirmed first, then by sessions, then by occurrences."""
    identity = (solution.fingerprint, solution.agent, solution.project or "", solution.audience)
    return (_STATUSES.index(solution.status), -solution.sessions, -solution.occurrences, *identity)
