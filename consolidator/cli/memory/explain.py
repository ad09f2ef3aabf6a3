"""consolidator explain: what anything learned rests on."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from consolidator.cli.common import run
from consolidator.cli.output import OUT, emit, print_entry, print_line, sanitize, shorten, table
from consolidator.service.memory.explain import explain

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

    emit(run(lambda database, _: explain(database, identity, peer=peer)), _print_explanation)


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
