"""What a lesson is worth: how often its situation came, told and untold, how that went, and what follows from it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from consolidator.memory.plain import Plain
from consolidator.models.audience import pluralize

MIN_HARM_CHANCES, HARM_LEVEL = 3, 0.95  # a lesson harms if most told sessions fail, and more than untold ones
RARE_HARM_LEVEL = 0.999  # where fewer of them fail: it is looked at after every chance, and there are many lessons
MIN_CHANCES, MIN_UNTOLD_FAILURES = 20, 8  # chances after which it has to pay: as many as bring so many failures
MAX_WRONG = 20  # one wrong in so many warnings ends them
PAYS_SHARE = 0.6  # of the failures at most come back if it pays
Z = 1.959964  # of an interval that holds the share 95 times in 100
PRIOR_CHANCES = 5  # that a score trusts no figure: a few chances move it little


@dataclass(slots=True)
class Chances:
    """The sessions in which a lesson's situation came, and what the failures in them cost."""

    sessions: int = 0
    failed: int = 0  # in which the failure came back
    misled: int = 0  # in which the call that the lesson advises could not run
    wrong: int = 0  # in which either happened
    calls: int = 0  # until the next success
    seconds: float = 0.0  # pauses left out
    tokens: int = 0  # that these calls took of the context, about

    @property
    def share(self) -> float:
        """The expected share of sessions in which it goes wrong, from a uniform prior."""
        return (self.wrong + 1) / (self.sessions + 2)


@dataclass(slots=True)
class Worth(Plain):
    """What came of a lesson, told and untold."""

    sessions: int = 0  # that were told it, whether or not its situation came
    told: Chances = field(default_factory=Chances)
    untold: Chances = field(default_factory=Chances)
    prevented: int = 0  # sessions with calls that failed after a warning, or ran once they were corrected
    wrong: int = 0  # sessions with calls that worked in spite of a warning, or could not run once they were corrected
    corrected: int = 0  # of both
    is_command: bool = False  # a call fails that could not run: what a check finds is no failure of its lesson
    is_habit: bool = False  # no call fails where it is not followed: it may not pay, but it does no harm
    # By Monday: chances that were told, those of them in which the failure came back, and the same untold.
    weeks: dict[str, tuple[int, int, int, int]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON, with what follows from it."""
        interval = [round(bound, 4) for bound in wilson_interval(self.told.failed, self.told.sessions)]
        return {**super(Worth, self).to_json(), "interval": interval, "withheld": self.withheld}

    @property
    def withheld(self) -> str | None:
        """Why the lesson is told no more; None while it pays, or nobody can know yet."""
        told, untold = self.told, self.untold
        if told.sessions >= MIN_HARM_CHANCES and not self.is_habit:
            misleads = told.misled >= MIN_HARM_CHANCES and 2 * told.misled > told.sessions
            level = HARM_LEVEL if 2 * told.wrong > told.sessions else RARE_HARM_LEVEL
            if misleads or probability_less(untold, told) >= level:
                return "it does harm"
        needed = max(MIN_CHANCES, math.ceil(MIN_UNTOLD_FAILURES / untold.share))
        if untold.wrong and told.sessions >= needed and told.share > PAYS_SHARE * untold.share:
            return "it does not pay"
        return None

    @property
    def is_stopped(self) -> bool:
        """Whether warning before calls, and correcting them, has ended: one in twenty was wrong."""
        return self.wrong > 0 and MAX_WRONG * self.wrong >= self.prevented + self.wrong

    @property
    def factor(self) -> float:
        """What the lesson's rank is multiplied by: 1 where nothing is known, less where it does not help."""
        trust = self.told.sessions / (self.told.sessions + PRIOR_CHANCES)
        return 1 + trust * (self.untold.share - self.told.share)

    def describe(self) -> str:
        """Return the figure in words; "" where there is none."""
        told, untold = self.told, self.untold
        failure, failed = ("it was left out", "was left out") if self.is_habit else ("the failure came back", "failed")
        failed = "could not run" if self.is_command else failed
        parts = [f"told in {pluralize(self.sessions, 'session')}"] if self.sessions else []
        if told.sessions:
            low, high = wilson_interval(told.failed, told.sessions)
            parts.append(f"{failure} in {told.failed} of {told.sessions} ({low:.0%} to {high:.0%})")
        if told.misled:
            parts.append(f"what it advises could not run in {told.misled}")
        if untold.sessions:
            parts.append(f"untold it {failed} in {untold.failed} of {untold.sessions}")
        if untold.calls:
            calls, minutes = untold.calls / untold.failed, untold.seconds / untold.failed / 60
            parts.append(f"at {calls:.1f} calls, {minutes:.1f} min and {untold.tokens / untold.failed:.0f} tokens each")
        if warned := self.prevented + self.wrong:
            parts.append(f"of {pluralize(warned, 'warning')}, counted once a session, {self.prevented} right")
        return ", ".join([*parts, *["warns no more"] * self.is_stopped])


def wilson_interval(count: int, total: int) -> tuple[float, float]:
    """Return the 95 % interval of a share (E. B. Wilson, 1927, JASA 22: 209-212)."""
    if not total:
        return 0.0, 1.0
    share, weight = count / total, Z * Z / total
    half = Z * math.sqrt(share * (1 - share) / total + weight / (4 * total))
    return max(0.0, (share + weight / 2 - half) / (1 + weight)), min(1.0, (share + weight / 2 + half) / (1 + weight))


def probability_less(one: Chances, other: Chances) -> float:
    """Return how sure it is that things go wrong less often in one than in the other.

    Of two Beta posteriors with a uniform prior; the closed form is Evan Miller's, "Formulas for Bayesian A/B testing".
    """
    a, b = one.wrong + 1, one.sessions - one.wrong + 1
    c, d = other.wrong + 1, other.sessions - other.wrong + 1
    return sum(
        math.exp(_log_beta(a + i, b + d) - math.log(d + i) - _log_beta(1 + i, d) - _log_beta(a, b)) for i in range(c)
    )


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
