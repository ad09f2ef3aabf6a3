"""consolidator prove: what a model does in recorded situations, without a lesson and with it."""

from __future__ import annotations

from typing import Annotated

import typer

from consolidator.cli.agents.options import Model
from consolidator.cli.common import OwnerOptions, run_configured
from consolidator.cli.output import emit, pluralize, print_note, shorten, table
from consolidator.models.memory_filter import LessonFilter
from consolidator.service.database import Database
from consolidator.service.memory.proving import Attempt, Trial, prove_lessons
from consolidator.settings import Settings

_TABLE = table(
    "trials",
    "lesson=lesson_id, failed, untold, told, session=session_id, >seq",
    failed=lambda trial: shorten(trial.call, 60),
    untold=lambda trial: _describe(trial.untold),
    told=lambda trial: _describe(trial.told),
)


def prove_command(
    lesson: Annotated[str | None, typer.Argument(metavar="[LESSON]", help="Its id; else all that are told.")] = None,
    *,
    owner: OwnerOptions,
    model: Model = None,
    budget: Annotated[int, typer.Option(min=4, help="Calls of the model at most.")] = 20,
) -> None:
    """Try lessons on recorded sessions: a model is asked anew where a call failed, without the lesson and with it.

    No tool runs: calls that the recording has are answered from it. Nothing of it is evidence. A situation takes four
    calls of the model at most, each with the session up to there.
    """

    async def load(database: Database, settings: Settings) -> list[Trial]:
        trials = []
        filters = LessonFilter(**owner.values())
        async for trial in prove_lessons(database, settings, lesson, filters=filters, model=model, budget=budget):
            trials.append(trial)
            tried = f"event {trial.seq} of session {trial.session_id}"
            print_note(f"{tried}: {_describe(trial.untold)}; told: {_describe(trial.told)}")
        return trials

    trials = run_configured(load)
    emit(trials, _TABLE)
    print_note(
        f"in {pluralize(len(trials), 'situation')} the failed call came back "
        f"{pluralize(sum(trial.untold.repeats for trial in trials), 'time')} without its lesson and "
        f"{sum(trial.told.repeats for trial in trials)} with it: "
        f"{pluralize(sum(trial.model_calls for trial in trials), 'call')} of the model, "
        f"{sum(trial.untold.tokens + trial.told.tokens for trial in trials):,} tokens"
    )


def _describe(attempt: Attempt) -> str:
    """Return what a model did in a few words."""
    what = "the failed call" if attempt.repeats else "what the lesson names" if attempt.advised else "something else"
    return f"{what}: {shorten(attempt.calls[-1], 60)}" if attempt.calls else "no call"
