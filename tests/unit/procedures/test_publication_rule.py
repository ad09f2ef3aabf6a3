"""The numbers of the publication rule, and what a project's list leaves out."""

from __future__ import annotations

from consolidator.memory.procedures.publication_rule import ProcedureSelection, PublicationRule, exclude_shared
from consolidator.memory.procedures.publishing import publish_scope
from tests.unit.calls.session_log import SessionLog, mine_logs


def test_two_projects_must_share_a_pattern_only_in_the_shared_scope_of_several() -> None:
    assert PublicationRule.for_scope(4, is_shared=True, project_count=2) == PublicationRule(4, min_projects=2)
    assert PublicationRule.for_scope(4, is_shared=True, project_count=1) == PublicationRule(4)
    assert PublicationRule.for_scope(4, is_shared=False, project_count=2) == PublicationRule(4)


def test_no_more_than_the_limit_are_selected() -> None:
    selection = ProcedureSelection(PublicationRule(max_procedures=1), lambda symbol: True)
    assert not selection.is_full
    assert not selection.accept(["sh:git add"])
    assert selection.accept(["sh:git add", "sh:git commit"])
    assert selection.is_full


def test_a_project_does_not_repeat_what_its_agent_shares() -> None:
    logs = [SessionLog().shell("git add .").shell("git push") for _ in range(3)]
    published = publish_scope(*mine_logs(logs))
    assert [procedure.symbols for procedure in published.procedures] == [("sh:git add", "sh:git push")]
    assert exclude_shared(published.procedures, {("sh:git add", "sh:git push"): False}) == []
