"""consolidator explain: what anything learned rests on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from consolidator.cli.common import open_configured, run_async
from consolidator.cli.output import OUT, AsJson, print_entry, print_json, print_line, print_table, sanitize, shorten
from consolidator.service.memory.explain import explain

_LOG_STATES = {"there": "in the log", "pruned": "pruned since", "erased": "erased since"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("explain")(explain_command)


def explain_command(
    identity: Annotated[
        str, typer.Argument(metavar="ID", help="Of a fact, a procedure or a solution, or its beginning.")
    ],
    peer: Annotated[str | None, typer.Option(help="Only what this peer may see.")] = None,
    as_json: AsJson = False,
) -> None:
    """Explain anything that was learned: the words, sessions and run it rests on. Works after the events are pruned."""

    async def work() -> dict[str, Any]:
        async with open_configured() as (database, _):
            return await explain(database, identity, peer=peer)

    explanation = run_async(work())
    if as_json:
        print_json(explanation)
        return
    print_line(explanation["title"], style="bold")
    for line in explanation["lines"]:
        print_line(f"  {line}")
    _print_evidence(explanation["evidence"])
    if "extractors" in explanation:
        print_line(f"extracted by {', '.join(explanation['extractors'])}", style="dim")
    print_line(f"learned {sanitize(explanation['learned_at'])} {explanation['by']}", style="dim")


def _tell_steer(proof: Mapping[str, Any]) -> str | None:
    """Return what became of the task in which a person steered with these words; None where no steer said them."""
    return f"steer: {proof['steer']}" if "steer" in proof else None


def _print_evidence(evidence: list[dict[str, Any]]) -> None:
    if evidence and OUT.is_terminal:
        print_line("evidence", style="bold")
        for proof in evidence:
            session, state = proof["origin"] or proof["session_id"], _LOG_STATES[proof["log"]]
            print_entry(proof["quote"], session, f"event {proof['seq']}", proof["when"], _tell_steer(proof), state)
    elif evidence:
        print_table(
            "evidence",
            ("session", "seq", "when", "quote", "log"),
            (
                (
                    proof["origin"] or proof["session_id"],
                    proof["seq"],
                    proof["when"],
                    shorten(proof["quote"], 200),
                    proof["log"],
                )
                for proof in evidence
            ),
            right=("seq",),
        )
