"""consolidator rules: what people say again and again, to accept as a rule or to dismiss."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from consolidator.cli.common import parse_path, run
from consolidator.cli.output import (
    AgentOption,
    Limit,
    ProjectOption,
    confirm,
    emit,
    owner_name,
    pluralize,
    print_line,
    print_note,
    shorten,
)
from consolidator.clock import Clock
from consolidator.errors import UsageError
from consolidator.formats.common.project import derive_project
from consolidator.models.fact import FactRow
from consolidator.service.clients.rules_file import plan_rules, write_rules
from consolidator.service.database import Database
from consolidator.service.memory.rules import (
    AcceptedRow,
    RuleProposal,
    accept_rule,
    dismiss_rule,
    list_accepted_rules,
    list_rules,
)
from consolidator.settings import Settings, load_settings

rules_app = typer.Typer(invoke_without_command=True)
RuleId = Annotated[str, typer.Argument(metavar="ID", help="The id of a proposal, or its beginning.")]
File = Annotated[
    Path | None, typer.Option("--write", metavar="FILE", help="Also put the rule into this AGENTS.md or CLAUDE.md.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before the file is changed.")]


@rules_app.callback()
def rules_command(
    context: typer.Context,
    agent: AgentOption = None,
    project: ProjectOption = None,
    limit: Limit = 50,
) -> None:
    """List what people asked for in three sessions or more, with their words: a proposal until you accept it."""
    if context.invoked_subcommand:
        return

    proposals = run(lambda database, _: list_rules(database, agent=agent, project=project, limit=limit))
    emit(
        proposals, _print_proposals,
        encode=lambda proposals: [proposal.as_json() for proposal in proposals],
    )  # fmt: skip


def _print_proposals(proposals: list[RuleProposal]) -> None:
    for proposal in proposals:
        owner = owner_name(proposal.project, proposal.peer, proposal.agent)
        believed = ", believed already" if proposal.believed else ""
        print_line(f"{proposal.id[:12]}  {proposal.rule}", style="bold")
        print_line(f"    in {pluralize(proposal.sessions, 'session')}, for {owner}{believed}", style="dim")
        for quote in proposal.quotes:
            print_line(f'    "{shorten(quote.quote, 120)}" ({quote.origin or quote.session_id}, event {quote.seq})')
    if proposals:
        print_note("`consolidator rules accept ID [--write AGENTS.md]`, or `consolidator rules dismiss ID`")
    else:
        print_line("nothing waits: no demand was made in three sessions that you have not accepted or dismissed")


@rules_app.command("accept")
def accept_command(
    rule_id: RuleId,
    words: Annotated[str | None, typer.Option(help="The rule in better words.")] = None,
    me: Annotated[bool, typer.Option("--me", help="The rule is about you: it holds in every project.")] = False,
    write: File = None,
    yes: Yes = False,
) -> None:
    """Believe a proposal as a rule. With --write it also goes into a file: shown as a diff first, with a backup."""
    if me and write is not None:
        raise UsageError("--write takes a project's rules, and --me is for every project: give one of them")
    if write is not None:
        plan_rules(parse_path(str(write)).absolute(), [])  # a wrong file is told before anything is believed

    async def accept(database: Database, _: Settings) -> tuple[FactRow, list[AcceptedRow]]:
        fact = await accept_rule(database, rule_id, words=words, everywhere=me)
        return fact, [] if fact.project is None else await list_accepted_rules(database, project=fact.project)

    fact, accepted = run(accept)
    rule = next((row.rule for row in accepted if row.id == fact.id), fact.sentence)
    emit(fact, f"a rule from now on: {rule} ({fact.id[:12]})")
    if write is not None:
        if fact.project is None:
            raise UsageError("this rule is of no project: `consolidator rules write` takes the rules of one")
        _write(write, [row.rule for row in accepted], is_agreed=yes)


@rules_app.command("dismiss")
def dismiss_command(rule_id: RuleId) -> None:
    """Propose this no more; where it is believed already, it is forgotten."""

    rule = run(lambda database, _: dismiss_rule(database, rule_id))
    emit(rule, f"dismissed: {rule.rule}")


@rules_app.command("write")
def write_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="AGENTS.md or CLAUDE.md.")],
    project: ProjectOption = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the block from the file.")] = False,
    yes: Yes = False,
) -> None:
    """Make a file's block hold the accepted rules of its project, no more and no less; the rest stays as it is."""
    path = parse_path(str(file)).absolute()

    place = project or derive_project(str(path.parent)) or ""
    accepted = run(lambda database, _: list_accepted_rules(database, project=place))
    _write(path, [] if remove else [row.rule for row in accepted], is_agreed=yes)


def _write(path: Path, sentences: list[str], *, is_agreed: bool) -> None:
    settings = load_settings()
    change = plan_rules(path.absolute(), sentences)
    if not change.is_change:
        print_note(f"{path} is as it should be")
        return
    for line in change.diff():
        print_note(line)
    if not is_agreed:
        confirm(f"Change {path}?", "the file was not changed; what was accepted stays")
    for made in write_rules(change, settings, Clock(settings.clock).now()):
        print_note(f"changed {made.path}" + (f"; the file as it was: {made.backup}" if made.backup else ""))
