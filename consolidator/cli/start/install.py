"""consolidator install, uninstall, status and doctor: memory in a coding agent's hooks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from consolidator.cli.common import open_configured, run, run_async, stop_on_signals
from consolidator.cli.output import (
    ask,
    byte_progress,
    confirm,
    pluralize,
    print_json,
    print_line,
    print_note,
    print_warning,
    progress_bar,
    progress_callbacks,
)
from consolidator.cli.streams import is_json
from consolidator.clock import Clock
from consolidator.errors import ConsolidatorError, UsageError
from consolidator.hooks.client import is_running, start_service, stop_service
from consolidator.service.clients import changes
from consolidator.service.clients.changes import FileChange
from consolidator.service.clients.checks import (
    Check,
    check_database,
    check_digest,
    check_engine,
    check_model,
    check_serve,
    run_checks,
)
from consolidator.service.clients.installation import (
    BACKUPS,
    Place,
    apply_changes,
    describe_install,
    describe_model_question,
    find_installed_places,
    find_place,
    has_installed_hooks,
    import_history,
    learn_history,
    plan_install,
    plan_uninstall,
    record_model_answer,
)
from consolidator.service.clients.registry import CLIENTS, Client, get_client
from consolidator.service.clients.rules_file import list_rule_files
from consolidator.service.clients.servers_text import INSTALL_MCP, is_mcp_installed
from consolidator.service.clients.user_service import (
    plan_removal,
    plan_service,
    run_commands,
    start_commands,
    stop_commands,
)
from consolidator.service.database import Database
from consolidator.service.hooks.usage import summarize_injections
from consolidator.settings import Settings, load_settings

_CLIENT = typer.Argument(metavar="CLIENT", help=f"The coding agent: {', '.join(CLIENTS)}.")
_PROJECT = typer.Option("--project", help="Only for the project of the working directory, in its unshared settings.")
_YES = typer.Option("--yes", "-y", help="Do not ask.")
_MOMENTS = {
    "session_start": "sessions began with",
    "prompt": "prompts came with",
    "before_call": "calls were warned of by",
    "failure": "failed calls got",
}


def install_command(
    client: Annotated[str | None, _CLIENT] = None,
    project: Annotated[bool, _PROJECT] = False,
    yes: Annotated[bool, _YES] = False,
    history: Annotated[bool, typer.Option(help="Import earlier sessions and learn from them, by rules.")] = True,
    model: Annotated[
        bool | None, typer.Option(help="Let nights use this agent's own model; unset: a terminal is asked once.")
    ] = None,
    service: Annotated[
        bool, typer.Option("--service", help="Run `consolidator serve --watch` in your session, by systemd or launchd.")
    ] = False,
) -> None:
    """Put memory into a coding agent: its hooks, its MCP server, and its history. Shows the change and asks first."""
    if client is None and not service:
        raise UsageError(f"name a coding agent ({', '.join(CLIENTS)}), or say --service")
    settings = load_settings()
    if client is not None:
        place = find_place(client, Path.cwd() if project else None)
        _install_client(place, settings, yes=yes, history=history)
        _ask_for_model(place.client, settings, model)
    if service:
        change = plan_service(settings)
        if _confirm([change], "Write this service and start it?", is_agreed=yes):
            changes.apply([change], settings.home / BACKUPS, f"{Clock(settings.clock).now():%Y%m%d-%H%M%S}")
        _run_or_tell(start_commands(change.path))
        print_line(f"the service is in {change.path}; `consolidator uninstall --service` takes it back")


def _install_client(place: Place, settings: Settings, *, yes: bool, history: bool) -> None:
    name = place.client.name
    if place.project is not None and describe_install(replace(place, project=None)).hooks:
        raise UsageError(f"{name} has the hooks for every project already: they would be run twice in this one")
    planned = plan_install(place, settings)
    if _confirm(planned, "Make these changes?", is_agreed=yes):
        _apply(place, planned, settings)
    else:
        print_line("the settings hold all of it already")
    if history:
        run_async(_learn_history(place))
        if place.client.hooks and place.logs:
            start_service(settings.home)  # so that the next session is told already
    if place.client.advice:
        print_line(place.client.advice)
    if not is_mcp_installed():
        print_line(f"no MCP server was registered: it needs {INSTALL_MCP}, and `consolidator install {name}` again")
    print_line(f"installed; `consolidator status` shows what it did, `consolidator uninstall {name}` takes it back")


def _ask_for_model(client: Client, settings: Settings, answer: bool | None) -> None:
    """Record whether nights may use a client's model: what an option says, else a person's answer; `--yes` is none."""
    question = describe_model_question(client, settings)
    if answer is None and question is not None:
        answer = ask(question)
    if answer is not None:
        record_model_answer(client, settings, is_agreed=answer, now=Clock(settings.clock).now())
        print_line(f"nights may{'' if answer else ' not'} use {client.title}'s model; `consolidator doctor` shows it")


def uninstall_command(
    client: Annotated[str | None, _CLIENT] = None,
    project: Annotated[bool, _PROJECT] = False,
    yes: Annotated[bool, _YES] = False,
    service: Annotated[bool, typer.Option("--service", help="Only the service of your session.")] = False,
) -> None:
    """Take memory out of a coding agent's settings, or, without one, out of all: exactly what install added.

    What was learned stays: `consolidator erase --all` deletes it.
    """
    settings = load_settings()
    places = [find_place(client, Path.cwd() if project else None)] if client is not None else []
    if client is None and not service:
        places = find_installed_places(settings)
    planned = [change for place in places for change in plan_uninstall(place, settings)]
    removal = [plan_removal()] if client is None else []
    if not _confirm([*planned, *removal], "Make these changes?", is_agreed=yes):
        print_line("the settings hold nothing of ours")
    else:
        for place in places:
            _apply(place, plan_uninstall(place, settings), settings)  # several places may share a file
        for change in removal:
            if change.is_change:
                _run_or_tell(stop_commands(change.path))
                change.path.unlink()
    if not project and not service:
        for each_client in CLIENTS.values() if client is None else [get_client(client)]:
            record_model_answer(each_client, settings, is_agreed=None, now=Clock(settings.clock).now())
    if client is None and not service:
        for path in list_rule_files(settings):
            print_note(f"rules that you accepted stay in {path}: `consolidator rules --write {path} --remove`")
    if not project and not service:
        stop_service(settings.home)
        if client is None and settings.home.exists():
            print_note(f"what was learned stays in {settings.home}: `consolidator erase --all` deletes it")


def status_command() -> None:
    """Show where memory is installed, and what hooks gave to agents in the last 30 days and whether it was of use."""
    settings = load_settings()
    states = {client: describe_install(find_place(client, None)) for client in CLIENTS}
    here = {client: describe_install(find_place(client, Path.cwd())) for client in CLIENTS}
    shown, model = run(_load_status, settings)
    running = is_running(settings.home)

    if is_json():
        installed = {name: {"everywhere": asdict(states[name]), "here": asdict(here[name])} for name in CLIENTS}
        print_json(
            {"installed": installed, "service": running, "night_engine": settings.night_engine, "injections": shown}
            | {"model": model.found}
        )
        return

    others = []
    for name in CLIENTS:
        where = "for every project" if states[name].hooks else "for this project" if here[name].hooks else None
        has_server = states[name].server or here[name].server
        if not (where or has_server):
            others.append(name)
            continue
        print_line(f"{name}: hooks installed {where}" if where else f"{name}: no hooks installed")
        if not has_server:
            print_line(f"{name}: no MCP server registered")
    if others:
        print_line(f"not installed in {', '.join(others)}")

    print_line(f"the hook service is {_describe_service(settings, is_running=running)}")
    print_line(f"model: {model.found}")
    if settings.night_engine != "claims":
        print_line(f"nights are shared by {check_engine(settings).found}")

    for moment, words in _MOMENTS.items():
        if sums := shown.get(moment):
            tokens = sums["tokens"] // max(sums["times"], 1)
            times = f"{pluralize(sums['times'], 'time')} in {pluralize(sums['sessions'], 'session')}"
            print_line(f"{words} memory: {times}, {pluralize(tokens, 'token')} each")
    if fixes := shown.get("failure"):
        tried = fixes["worked"] + fixes["failed"]
        print_line(f"of these fixes {tried} {'was' if tried == 1 else 'were'} tried, {fixes['worked']} of them worked")

    if not shown:
        print_line("no agent was shown anything yet")


async def _load_status(database: Database, settings: Settings) -> tuple[dict[str, Any], Check]:
    return await summarize_injections(database), await check_model(database, settings)


def doctor_command() -> None:
    """Check that what install set up works, and what it needs to be of use. Exits with 2 if something fails."""
    settings = load_settings()
    running = is_running(settings.home)
    places = [place for name in CLIENTS if _is_touched(place := find_place(name, None))]
    checks = run_checks(settings, places, asks_service=running)
    checks += [
        Check("hook service", True, _describe_service(settings, is_running=running)),
        check_serve(settings),
        check_engine(settings),
        *check_digest(settings),
    ]
    try:
        checks += run(check_database, settings)
    except ConsolidatorError as error:
        checks.append(Check("database", False, str(error), "put that right, then run doctor again"))
    if is_json():
        print_json([asdict(check) for check in checks])
    else:
        for check in checks:
            print_line(f"{'ok  ' if check.passed else 'FAIL'} {check.name}: {check.found}")
            if not check.passed:
                print_line(f"     {check.advice}")
    if not all(check.passed for check in checks):
        raise typer.Exit(2)


def _describe_service(settings: Settings, *, is_running: bool) -> str:
    """Say whether the hook service runs, and what would start it."""
    if is_running:
        return "running"
    if has_installed_hooks(settings):
        return "not running: the next hook starts it"
    return "not running, and no hook starts it: no client is installed (`consolidator install claude-code`)"


def _is_touched(place: Place) -> bool:
    """Tell whether a client's settings hold something of ours, or cannot be read."""
    try:
        state = describe_install(place)
    except UsageError:
        return True
    return state.hooks or state.server


def _confirm(planned: Sequence[FileChange], question: str, *, is_agreed: bool) -> bool:
    """Show changes and ask; False where there are none. Raises Interrupted if the answer is no or there is none."""
    changing = [change for change in planned if change.is_change]
    if not changing:
        return False
    for change in changing:
        for line in change.diff():
            style = "green" if line.startswith("+") else "red" if line.startswith("-") else None
            print_line(line, style=style)
    if not is_agreed:
        confirm(question, "nothing was changed")
    return True


def _apply(place: Place, planned: list[FileChange], settings: Settings) -> None:
    for backup in apply_changes(place.client, planned, settings, Clock(settings.clock).now()):
        print_note(f"the file as it was: {backup}")


def _run_or_tell(commands: list[list[str]]) -> None:
    """Run what starts or stops the service; say what could not be run here."""
    for command in run_commands(commands):
        print_note(f"to be run by hand: {command}")


async def _learn_history(place: Place) -> None:
    """Import what the agent has kept and learn from it, with progress on stderr."""
    from consolidator.service.nights.imports import ImportWatch  # `status` loads nothing of these
    from consolidator.service.nights.runs import JobContext

    stop = stop_on_signals()
    async with open_configured() as (database, settings):
        with progress_bar("importing") as bar:

            async def learn_latest() -> None:
                bar.update(bar.task_ids[0], description="learning from the latest week")
                await learn_history(JobContext(database, settings, stop))
                print_note("learned from the latest week: `consolidator learned` shows it; older sessions follow")

            watch = ImportWatch(byte_progress(bar, "importing "), learn_latest)
            report = await import_history(database, place, stop, watch)
        if report is None:
            print_line(f"no earlier sessions at {', '.join(map(str, place.logs))}")
            return
        print_line(f"imported {pluralize(report.events, 'event')} in {pluralize(len(report.sessions), 'session')}")
        if database.access == "reader":
            print_warning("this role may not write: nothing was learned")
            return
        with progress_bar("learning") as bar:
            night = await learn_history(JobContext(database, settings, stop, *progress_callbacks(bar)))
        nothing = f"; {night['nothing']} hold nothing to learn" if night.get("nothing") else ""
        print_line(f"learned from {night.get('learned', 0)} events by rules, with no model{nothing}")
