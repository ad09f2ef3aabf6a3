"""consolidator compile: tools that are made of procedures."""

from __future__ import annotations

from typing import Annotated

import typer

from consolidator.cli.common import parse_pairs, run
from consolidator.cli.output import OUT, confirm, emit, owner_name, print_line, print_note, short_id, shorten, table
from consolidator.cli.streams import is_json
from consolidator.service.memory.compiling import (
    CompiledProcedure,
    compile_by_id,
    list_calls,
    list_compiled,
    save_compiled,
)

_NOTHING = "no procedure is compiled: `consolidator compile ID` makes a tool of one"
_COMPILED = table(
    "compiled procedures",
    "tool=name, steps=title, >sessions, drift, of",
    nothing=_NOTHING,
    sessions=lambda tool: len(tool.sessions),
    drift=lambda tool: "; ".join(tool.drift) or "-",
    of=lambda tool: owner_name(tool.project, tool.agent),
)


def compile_command(
    procedure: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Of `procedures`; else list the tools.")
    ] = None,
    *,
    dry_run: Annotated[
        list[str] | None,
        typer.Option("--dry-run", metavar="NAME=VALUE", help="Only show the calls with this parameter; repeat."),
    ] = None,
    peer: Annotated[str | None, typer.Option(help="From this person's sessions, for them; by default yours.")] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the tool; the procedure stays.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Show a procedure that sessions did alike as a tool with parameters and checks, and ask whether to make it one.

    Sessions of the same person and project that we drive are offered it from the next start; each step is a call of
    its own, with the approvals of its tool. Another agent asks our MCP tool `follow_procedure`, and makes each call.
    """
    if procedure is None:
        tools = run(list_compiled)
        emit(tools, _COMPILED, encode=lambda tools: [tool.to_json() for tool in tools])
        if not tools and not OUT.is_terminal and not is_json():
            print_note(_NOTHING)  # a table of no rows is empty there
        return
    if remove:
        row = run(save_compiled, procedure, None)
        was = "is no longer a tool" if row.compiled is not None else "was not a tool"
        emit({"removed": row.id}, f"{row.title} {was}")
        return
    compiled = run(compile_by_id, procedure, person=peer or "")
    if dry_run is not None:
        calls = list_calls(compiled, parse_pairs(dry_run, "parameter") or {})
        emit(calls, "\n".join(["none of these calls was made:", *calls]))
        return
    if not is_json():
        _show_compiled(compiled)
    if not yes:
        confirm(f"Make the tool {compiled.name} of it?", "nothing was changed")
    run(save_compiled, compiled.id, compiled)
    emit(compiled.to_json(), f"{compiled.name} is a tool from the next start of a harness on")


def _show_compiled(compiled: CompiledProcedure) -> None:
    """Print a compiled procedure: calls, parameters, checks and evidence."""
    print_line(f"{compiled.name}: {compiled.title}", style="bold")
    if compiled.by_agent:
        print_line(f"  {compiled.by_agent}")
    for call, step in zip(list_calls(compiled), compiled.steps, strict=True):
        print_line(f"  {call}")
        expected = f", with {', '.join(step.expects)}" if step.expects else ""
        print_line(f"     check: it succeeds{expected}", style="dim")
        evidence = ", ".join(f"{short_id(session_id)} event {seq}" for session_id, seq in step.evidence)
        print_line(f"     seen: {evidence}", style="dim")
    for each in compiled.parameters:
        kind = f"a list, each a {each.kind}" if each.is_list else f"a {each.kind}"
        print_line(f"  {each.name}: {kind}, such as {shorten('; '.join(each.examples), 120)}")
