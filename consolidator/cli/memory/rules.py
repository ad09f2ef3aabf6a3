"""consolidator remember, forget and rules: what a person says to memory, and what people say again and again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from consolidator.cli.common import PlaceOption, parse_path, require_at_most_one, run, run_configured
from consolidator.cli.output import (
    AgentOption,
    ProjectOption,
    confirm,
    emit,
    owner_name,
    pluralize,
    print_line,
    print_note,
    shorten,
)
from consolidator.cli.streams import is_json
from consolidator.clock import Clock
from consolidator.errors import UsageError
from consolidator.models.fact import FactRow
from consolidator.models.memory_filter import MemoryScope
from consolidator.service.clients.changes import FileChange
from consolidator.service.clients.rules_file import plan_rules, write_rules
from consolidator.service.database import Database
from consolidator.service.hooks.usage import exchange_warnings
from consolidator.service.memory.moving import find_document_project
from consolidator.service.memory.remember import Remembered, forget, remember
from consolidator.service.memory.rules import (
    AcceptedRow,
    RuleProposal,
    accept_rule,
    dismiss_rule,
    list_accepted_rules,
    list_rules,
)
from consolidator.service.memory.telling.brief_preview import preview_brief
from consolidator.service.scope import find_named_project, find_project
from consolidator.settings import Settings, load_settings


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleActions:
    """What a person says about a proposal, and the file that rules are written into."""

    accept: Annotated[str | None, typer.Option(metavar="ID", help="Believe this proposal as a rule from now on.")] = (
        None
    )
    words: Annotated[str | None, typer.Option(help="With --accept: the rule in better words.")] = None
    me: Annotated[
        bool, typer.Option("--me", help="With --accept: the rule is about you, and holds in every project.")
    ] = False
    dismiss: Annotated[
        str | None, typer.Option(metavar="ID", help="Propose this no more; where it is believed, it is forgotten.")
    ] = None
    write: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            parser=parse_path,
            help="Have the block in this AGENTS.md, CLAUDE.md or MEMORY.md hold the accepted rules.",
        ),
    ] = None
    brief: Annotated[
        bool, typer.Option("--brief", help="With --write: also what a session is told at its start, as it is today.")
    ] = False
    remove: Annotated[bool, typer.Option("--remove", help="With --write: remove the block from the file.")] = False
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before the file is changed.")] = False


def rules_command(*, actions: RuleActions, agent: AgentOption = None, project: ProjectOption = None) -> None:
    """List what people asked for in three sessions or more, with their words: a proposal until you accept it.

    A file is shown as a diff first, with a backup; the rest of it stays as it is.
    """
    require_at_most_one(accept=actions.accept, dismiss=actions.dismiss)
    if actions.accept:
        _accept(actions.accept, actions)
    elif actions.dismiss:
        rule = run(dismiss_rule, actions.dismiss or "")
        emit(rule, f"dismissed: {rule.rule}")
    elif actions.write:
        path = actions.write.absolute()
        place = project or find_document_project(path) or ""
        accepted = [] if actions.remove else [row.rule for row in run(list_accepted_rules, project=place)]
        learned: list[str] = []
        if actions.brief and not actions.remove:
            preview = run(preview_brief, scope=MemoryScope(agent, place))
            learned = [line.words for line in preview.lines if line.words not in accepted]
        _write(plan_rules(path, accepted, learned), is_agreed=actions.yes)
    else:
        proposals = run(list_rules, agent=agent, project=project)
        emit(proposals, _print_proposals)


def _print_proposals(proposals: list[RuleProposal]) -> None:
    for proposal in proposals:
        owner = owner_name(proposal.project, proposal.peer, proposal.agent)
        believed = ", believed already" if proposal.believed else ""
        print_line(f"{proposal.id[:12]}  {proposal.rule}", style="bold")
        print_line(f"    in {pluralize(proposal.sessions, 'session')}, for {owner}{believed}", style="dim")
        for quote in proposal.quotes:
            print_line(f'    "{shorten(quote.quote, 120)}" ({quote.origin or quote.session_id}, event {quote.seq})')
    if proposals:
        print_note("`consolidator rules --accept ID [--write AGENTS.md]`, or `consolidator rules --dismiss ID`")
    else:
        print_line("nothing waits: no demand was made in three sessions that you have not accepted or dismissed")


def _accept(rule_id: str, actions: RuleActions) -> None:
    """Believe a proposal, and put it into a file if one is named."""
    if actions.me and actions.write is not None:
        raise UsageError("--write takes a project's rules, and --me is for every project: give one of them")
    if actions.write is not None:
        plan_rules(actions.write.absolute(), [])  # a wrong file is told before anything is believed

    async def accept(database: Database) -> tuple[FactRow, list[AcceptedRow]]:
        fact = await accept_rule(database, rule_id, words=actions.words, everywhere=actions.me)
        return fact, [] if fact.project is None else await list_accepted_rules(database, project=fact.project)

    fact, accepted = run(accept)
    rule = next((row.rule for row in accepted if row.id == fact.id), fact.sentence)
    emit(fact, f"a rule from now on: {rule} ({fact.id[:12]})")
    if actions.write is not None:
        if fact.project is None:
            raise UsageError("this rule is of no project: `consolidator rules --write` takes the rules of one")
        _write(plan_rules(actions.write.absolute(), [row.rule for row in accepted]), is_agreed=actions.yes)


def _write(change: FileChange, *, is_agreed: bool) -> None:
    settings = load_settings()
    if not change.is_change:
        print_note(f"{change.path} is as it should be")
        return
    for line in change.diff():
        print_note(line)
    if not is_agreed:
        confirm(f"Change {change.path}?", "the file was not changed; what was accepted stays")
    for made in write_rules(change, settings, Clock(settings.clock).now()):
        print_note(f"changed {made.path}" + (f"; the file as it was: {made.backup}" if made.backup else ""))


Agent = Annotated[
    str | None, typer.Option(metavar="NAME", help="For this agent alone; by default for all of the owner's.")
]
Peer = Annotated[str | None, typer.Option(metavar="NAME", help="A person that the agent talks with.")]


def remember_command(
    words: Annotated[list[str], typer.Argument(metavar="STATEMENT", help='What holds, such as "we use tabs".')],
    project: PlaceOption = None,
    agent: Agent = None,
    me: Annotated[bool, typer.Option("--me", help="The statement is about you: it holds in every project.")] = False,
    peer: Peer = None,
) -> None:
    """Remember a statement: it is believed from now on, in this project, or with --me or --agent in every one."""
    if project and (me or peer):
        raise UsageError("--project, --me and --peer are different owners: give one of them")
    is_of_place = not (project or me or agent or peer)

    async def remember_here(database: Database) -> Remembered:
        if is_of_place:
            owner = await find_project(database, Path.cwd())
        else:
            owner = await find_named_project(database, project, Path.cwd()) if project else None
        return await remember(database, " ".join(words), MemoryScope(agent, owner, peer))

    emit(run(remember_here), _print_remembered)


def _print_remembered(remembered: Remembered) -> None:
    owner = owner_name(remembered.project, remembered.peer, remembered.agent)
    print_line(f"{'known already' if remembered.known else 'remembered'}, for {owner}: {remembered.statement}")
    print_line(f"take it back with `consolidator forget {remembered.id[:12]}`", style="dim")


def forget_command(
    words: Annotated[
        list[str],
        typer.Argument(metavar="ID|WORDS", help="A fact's id, its beginning, or words that no other fact has."),
    ],
    project: PlaceOption = None,
    agent: Agent = None,
    peer: Peer = None,
) -> None:
    """Stop believing a fact, and what says the same later. Its history stays (`explain ID`, `facts --all`)."""
    forgotten = forget_at_once(" ".join(words), MemoryScope(agent, project, peer))
    emit(forgotten, f"no longer believed: {forgotten.statement}")
    if not (is_json() or forgotten.id.startswith("l_")):  # a lesson is not learned again
        print_note(f"`consolidator facts --undo {forgotten.id[:12]}` takes it back")


def forget_at_once(words: str, scope: MemoryScope = MemoryScope()) -> Remembered:
    """Forget a fact or a lesson; the hook before calls, which asks nobody, does not say it again either."""

    async def work(database: Database, settings: Settings) -> Remembered:
        forgotten = await forget(database, words, scope)
        await exchange_warnings(database, settings.home)
        return forgotten

    return run_configured(work)
