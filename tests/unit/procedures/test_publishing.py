"""What is published: closed patterns that say what they are for, bound, named, stable, and no two alike."""

from __future__ import annotations

import json
from collections.abc import Iterable

from consolidator.memory.procedures.publication_rule import MAX_TOLD
from consolidator.memory.procedures.publishing import Procedure, PublishedScope, publish_scope
from consolidator.models.payload import EventType
from tests.unit.calls.session_log import SessionLog, mine_logs
from tests.unit.procedures.test_tool_profiles import customer_session


def publish_logs(logs: Iterable[SessionLog], agent: str = "a", project: str = "p") -> PublishedScope:
    return publish_scope(*mine_logs(logs), agent=agent, project=project)


def published_titles(logs: Iterable[SessionLog]) -> list[str]:
    return [procedure.title for procedure in publish_logs(logs).procedures]


def release_session(number: int) -> SessionLog:
    """A coding session that ends with a push."""
    log = SessionLog().shell(f"bd show app-{number}").shell(f"bd update app-{number} --status in_progress")
    log.call("Read", {"file_path": f"lib/{number}.ex"}).call("Edit", {"file_path": f"lib/{number}.ex"})
    log.shell("mix test 2>&1 | tail -5").shell("git add .").shell(f"git commit -m 'change {number}'").shell("git push")
    return log.call(f"end{number}")


def only_procedure(published: PublishedScope) -> Procedure:
    (procedure,) = published.procedures
    return procedure


def test_a_procedure_tells_its_steps_and_where_their_arguments_come_from() -> None:
    procedure = only_procedure(publish_logs(release_session(number) for number in range(3)))
    assert procedure.title == "bd show → bd update → Edit → mix test → git add → git commit → git push"
    commands = {step.symbol: step.command for step in procedure.steps}
    assert commands["sh:mix test"] == "mix test 2>&1 | tail -5"
    assert commands["sh:git commit"] == "git commit -m <free>"
    assert commands["sh:bd update"] == "bd update <free> --status in_progress"
    assert procedure.support == 3
    assert procedure.rank == 18.0
    assert procedure.evidence[0] == ("session-000", 1)


def test_results_of_earlier_steps_are_bound_to_the_step() -> None:
    procedures = publish_logs(customer_session(number) for number in range(4)).procedures
    best = procedures[0]
    assert best.title == "get_user → get_order+ → cancel"
    bound = {(step.symbol, argument.path): argument for step in best.steps for argument in step.arguments}
    order = bound["get_order", "order_id"]
    assert (order.kind, order.step, order.source_path) == ("result", 0, "orders[]")
    assert bound["cancel", "card"].step == 0
    assert bound["cancel", "reason"].value == "no longer needed"


def test_the_id_is_made_of_scope_and_steps_alone() -> None:
    today = only_procedure(publish_logs(release_session(number) for number in range(3)))
    tomorrow = only_procedure(publish_logs(release_session(number) for number in range(5)))
    elsewhere = only_procedure(publish_logs((release_session(number) for number in range(3)), project="other"))
    assert today.id == tomorrow.id != elsewhere.id
    assert (today.support, tomorrow.support) == (3, 5)


def test_file_tools_alone_are_no_procedure() -> None:
    logs = [SessionLog().call("Read", {"p": n}).call("Edit", {"p": -n}).call("Grep", {"q": str(n)}) for n in range(4)]
    assert published_titles(logs) == []


def test_one_telling_step_among_looks_is_no_procedure() -> None:
    logs = [SessionLog().call("Read", {"p": n}).shell("mix test").call("Grep", {"q": str(n)}) for n in range(4)]
    assert published_titles(logs) == []


def test_near_copies_of_a_better_procedure_are_left_out() -> None:
    logs = [
        SessionLog().shell("git add .").shell("git commit -m x").shell("git push").shell("bd sync") for _ in range(4)
    ]
    logs += [
        SessionLog().shell("git commit -m x").shell("git add .").shell("git push").shell("bd sync") for _ in range(3)
    ]
    assert published_titles(logs) == ["git add → git commit → git push → bd sync"]


def test_success_is_told_by_tasks_where_there_are_any_and_else_by_calls() -> None:
    def session_with_outcome(number: int, with_task: bool) -> SessionLog:
        log = customer_session(number)
        if with_task:
            log.add(EventType.TASK_END, task_id="t", outcome="failure" if number == 0 else "success")
        return log

    tasks = publish_logs(session_with_outcome(number, True) for number in range(4)).procedures[0].success
    calls = publish_logs(session_with_outcome(number, False) for number in range(4)).procedures[0].success
    assert (tasks.alpha, tasks.beta, tasks.basis, round(tasks.mean, 3)) == (4.0, 2.0, "tasks", 0.667)
    assert (calls.alpha, calls.beta, calls.basis) == (21.0, 1.0, "calls")


def test_everything_published_is_json_and_the_same_every_time() -> None:
    first = publish_logs(customer_session(number) for number in range(4))
    second = publish_logs(customer_session(number) for number in reversed(range(4)))
    assert json.dumps([p.to_json() for p in first.procedures]) != ""
    assert [p.to_json()["id"] for p in first.procedures] == [p.to_json()["id"] for p in second.procedures]
    assert first.profiles == second.profiles


def test_a_pair_is_not_worth_telling_and_steps_that_are_always_the_same_are() -> None:
    (pair,) = publish_logs(SessionLog().shell("git commit -m x").shell("git push") for _ in range(4)).procedures
    assert pair.worth == 0
    (regular,) = publish_logs(release_session(number) for number in range(3)).procedures
    assert regular.worth == 3 * (6 - 1)  # its support times the steps that say what it is for, but one


def test_chains_that_chance_makes_are_not_worth_telling() -> None:
    orders = ["abcd", "bdac", "cabd", "dcba", "adbc", "abdc", "cadb", "bcad"]
    logs = [SessionLog() for _ in orders]
    for log, order in zip(logs, orders, strict=True):
        for letter in order * 2:
            log.shell(f"make {letter}")
    assert not any(procedure.worth for procedure in publish_logs(logs).procedures)


def test_bookkeeping_and_looking_are_no_steps() -> None:
    logs = []
    for number in range(4):
        log = SessionLog().call("TodoWrite", {"todos": number}).shell("mise run fmt").call("TaskUpdate", {"id": number})
        log.call("Read", {"file_path": f"{number}.py"}).shell("mise run lint").call("AskUserQuestion", {"q": number})
        logs.append(log.shell("git status").shell("mise run test").call("ExitPlanMode", {"plan": str(number)}))
    assert published_titles(logs) == ["mise run fmt → mise run lint → mise run test"]


def test_only_the_best_procedures_of_a_scope_are_told() -> None:
    logs = []
    for number in range(MAX_TOLD + 3):
        for _ in range(3):
            log = SessionLog()
            for step in ("build", "check", "ship"):
                log.shell(f"make {step}-{chr(97 + number)}")
            logs.append(log)
    procedures = publish_logs(logs).procedures
    assert len(procedures) == MAX_TOLD + 3
    assert sum(procedure.worth > 0 for procedure in procedures) == MAX_TOLD


def test_a_step_never_shows_the_usage_of_another_step() -> None:
    def release(number: int) -> SessionLog:
        log = SessionLog().shell(f"gh pr create --title t{number} --draft").call("Edit", {"file_path": f"{number}.md"})
        return log.shell(f"gh pr create --web --reviewer r{number}").call("post", {"to": "ops"})

    def note(number: int) -> SessionLog:
        return SessionLog().shell(f"jo -r .name x{number}.json").call("review", {"n": number}).shell("make notes")

    logs = [*map(release, range(4)), *map(note, range(4))]
    logs += [SessionLog().shell(f"jo --slurp . y{number}.json").call("sum", {"n": number}) for number in range(3)]
    steps = [step for procedure in publish_logs(logs).procedures for step in procedure.steps]
    assert {step.command for step in steps if step.symbol == "sh:gh pr create"} == {"gh pr create <free>"}
    assert {step.command for step in steps if step.symbol == "sh:jo"} == {"jo <free>"}


def test_a_session_that_loops_does_not_rotate_the_procedure() -> None:
    def backup(rounds: int) -> SessionLog:
        log = SessionLog()
        for _ in range(rounds):
            log.shell("pg_dump shop").shell("gzip shop.sql").shell("rsync x y").shell("ssh y touch done").call(
                "post", {"to": "ops"}
            )
        return log

    plain = [procedure.title for procedure in publish_logs(backup(1) for _ in range(6)).procedures]
    assert plain == ["pg_dump → gzip → rsync → ssh → post"]
    for rounds in (2, 3, 7):
        looping = publish_logs([*(backup(1) for _ in range(3)), *(backup(rounds) for _ in range(3))]).procedures
        assert [procedure.title for procedure in looping] == plain
        assert [procedure.title for procedure in publish_logs(backup(rounds) for _ in range(6)).procedures] == plain


def test_two_steps_that_alternate_are_one_habit() -> None:
    logs = [SessionLog().call("calculate").call("think").call("calculate").call("book", {"n": n}) for n in range(4)]
    logs += [SessionLog().call("find").call("think").call("transfer") for _ in range(4)]
    logs += [SessionLog().call("calculate").call("think").call("calculate").call("update") for _ in range(4)]
    procedures = publish_logs(logs).procedures
    assert all(len({step.symbol for step in p.steps}) > 2 for p in procedures if p.worth)
