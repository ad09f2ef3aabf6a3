"""consolidator explain and blame: what anything learned rests on, and which memory stood behind a call."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from consolidator.cli.agents.options import Model
from consolidator.cli.common import PlaceOption, run, run_configured
from consolidator.cli.memory.rules import forget_at_once
from consolidator.cli.output import OUT, confirm, emit, print_entry, print_line, print_note, sanitize, shorten, table
from consolidator.errors import UsageError
from consolidator.service.database import Database
from consolidator.service.memory.blame import blame_call, blame_path
from consolidator.service.memory.explain import explain
from consolidator.service.memory.proving import replay_blamed
from consolidator.service.scope import find_place
from consolidator.settings import Settings

_LOG_STATES = {"there": "in the log", "pruned": "pruned since", "erased": "erased since"}
_EVIDENCE = table(
    "evidence",
    "session, >seq, when, quote, log",
    session=lambda proof: proof["origin"] or proof["session_id"],
    quote=lambda proof: shorten(proof["quote"], 200),
)


def explain_command(
    identity: Annotated[
        str, typer.Argument(metavar="ID", help="The id of a fact, a procedure or a solution, or its beginning.")
    ],
    peer: Annotated[str | None, typer.Option(help="Only what this person may see.")] = None,
) -> None:
    """Explain anything that was learned: the words, sessions and run it rests on. Works after the events are pruned."""

    emit(run(explain, identity, peer=peer), _print_explanation)


def _print_explanation(explanation: dict[str, Any]) -> None:
    print_line(explanation["title"], style="bold")
    for line in explanation["lines"]:
        print_line(f"  {line}")
    _print_evidence(explanation["evidence"])
    if "extractors" in explanation:
        print_line(f"extracted by {', '.join(explanation['extractors'])}", style="dim")
    print_line(f"learned {sanitize(explanation['learned_at'])} {explanation['by']}", style="dim")


def _print_evidence(evidence: list[dict[str, Any]]) -> None:
    if evidence and OUT.is_terminal:
        print_line("evidence", style="bold")
        for proof in evidence:
            steer = f"steer: {proof['steer']}" if "steer" in proof else None  # what became of that task
            session, state = proof["origin"] or proof["session_id"], _LOG_STATES[proof["log"]]
            print_entry(proof["quote"], session, proof["agent"], f"event {proof['seq']}", proof["when"], steer, state)
    elif evidence:
        _EVIDENCE.print(evidence)


def blame_command(
    target: Annotated[str, typer.Argument(metavar="SESSION|PATH", help="A session, with SEQ; or a file.")],
    seq: Annotated[int | None, typer.Argument(min=1, help="The call, as `session events` numbers it.")] = None,
    project: PlaceOption = None,
    forget_id: Annotated[
        str | None, typer.Option("--forget", metavar="ID", help="Drop this line of memory, after a question.")
    ] = None,
    replay: Annotated[
        bool, typer.Option("--replay", help="First ask a model what it does with all lines, and without that one.")
    ] = False,
    model: Model = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Show which lines of memory a session was told before a call, with their words in it; or what is known of a file.

    A file: the sessions that changed it, what people said of it, and what failed there.
    """

    async def load(database: Database, settings: Settings) -> dict[str, Any]:
        if seq is None:
            place = await find_place(database, project, Path.cwd())
            return await blame_path(database, target, place or str(Path.cwd()))
        blamed = await blame_call(database, target, seq)
        if replay and forget_id is not None:
            line = _choose_line(blamed, forget_id)
            told, untold = await replay_blamed(database, settings, blamed, line, model=model)
            blamed["replay"] = {"told": told, "without": untold}
        return blamed

    if (forget_id is None and replay) or (forget_id is not None and seq is None):
        raise UsageError("--replay and --forget ID are for a call: name a session, SEQ and the line's id")
    blamed = run_configured(load)
    emit(blamed, _show_call if seq is not None else _show_path)
    if forget_id is not None:
        line = _choose_line(blamed, forget_id)
        if not yes:
            confirm(f"Forget {line}?", "nothing was changed")
        print_note(f"no longer believed: {forget_at_once(line).statement}")


def _choose_line(blamed: dict[str, Any], beginning: str) -> str:
    """Return the id of the one line, told before the call, whose id begins so. Raises UsageError."""
    ids = [str(line["id"]) for line in blamed["lines"] if str(line["id"]).startswith(beginning)]
    if len(ids) == 1:
        return ids[0]
    raise UsageError(f"{len(ids)} of the lines that were told before this call have ids that begin with {beginning!r}")


def _show_call(blamed: dict[str, Any]) -> None:
    print_line(f"{blamed['tool']}: {shorten(blamed['call'], 200)}", style="bold")
    for line in blamed["lines"]:
        shared = f"shares {', '.join(line['words'])}" if line["words"] else "shares no word"
        print_line(f"{line['id']}  told at {line['moment']}, {shared}: {line['text'] or '(no longer known)'}")
        if line["text"]:
            print_line(
                f"    learned {line['learned_at']:%Y-%m-%d} {line['by']}, {line['agent']}: {line['quote']}", "dim"
            )
    for side, calls in blamed.get("replay", {}).items():
        print_line(f"replayed, {side}: {' → '.join(shorten(call, 100) for call in calls) or 'no call'}")
    if not blamed["lines"]:
        print_line("memory told this session nothing before the call")


def _show_path(known: dict[str, Any]) -> None:
    print_line(known["path"], style="bold")
    for row in known["sessions"]:
        print_line(f"changed {row['changes']}x  {row['session_id']}  {row['agent']}  {shorten(row['title'] or '', 80)}")
    for fact in known["decisions"]:
        print_line(f"said  {fact['id']}  {fact['text']}")
    for failure in known["failures"]:
        place = f"{failure['session_id']} {failure['seq']}"
        print_line(f"failed  {place}  {shorten(failure['call'], 80)}: {shorten(failure['reason'], 100)}")
    if not (known["sessions"] or known["decisions"] or known["failures"]):
        print_line("nothing is known of this file; a call of a session is `consolidator blame SESSION SEQ`")
