"""`rules` as a person uses it: a proposal is accepted on a terminal, its file written only after a yes."""

from __future__ import annotations

from pathlib import Path

from consolidator.database import Database
from consolidator.memory.facts.rule_block import LEARNED_TITLE
from tests.acceptance.terminal import Terminal
from tests.support import in_thread, log_events, run_here, user_message


async def test_a_file_is_written_after_a_yes_and_not_after_a_no(
    database: Database, environment: dict[str, str], tmp_path: Path
) -> None:
    environment |= {"CONSOLIDATOR_QUIET_MINUTES": "0"}
    project = tmp_path / "shop"
    project.mkdir()
    for number in range(3):
        words = [user_message("read src/a.ts in full"), user_message("Never commit generated files.")]
        await log_events(database, f"s{number}", words, agent="coder", project=str(project))
    await in_thread(run_here, "run", "consolidation", environment=environment)
    listed = (await in_thread(run_here, "rules", environment=environment, cwd=project)).stdout
    (first,) = [line.split()[0] for line in listed.splitlines() if line.endswith("  Read files in full.")]
    file = project / "AGENTS.md"

    def accept(answer: str, *arguments: str) -> str:
        with Terminal("rules", *arguments, environment=environment, cwd=project) as terminal:
            terminal.wait_for("[y/N]: ")
            terminal.type_line(answer)
            terminal.process.wait(60)
            return terminal.output

    shown = await in_thread(accept, "n", "--accept", first, "--write", "AGENTS.md")
    assert "+- Read files in full." in shown
    assert not file.exists()
    assert first not in (await in_thread(run_here, "rules", environment=environment)).stdout  # accepted all the same
    await in_thread(accept, "y", "--write", "AGENTS.md")
    assert "- Read files in full." in file.read_text()
    await in_thread(run_here, "remember", "we deploy on Tuesdays", environment=environment, cwd=project)
    await in_thread(run_here, "rules", "--write", "AGENTS.md", "--brief", "--yes", environment=environment, cwd=project)
    assert file.read_text().count("- Read files in full.") == 1
    rules, learned = file.read_text().split(LEARNED_TITLE)
    assert "- Read files in full." in rules
    assert "- We deploy on Tuesdays." in learned
    await in_thread(run_here, "rules", "--write", "AGENTS.md", "--yes", environment=environment, cwd=project)
    assert "Tuesdays" not in file.read_text()

    notes = tmp_path / ".claude" / "projects" / "-shop" / "memory" / "MEMORY.md"  # HOME is tmp_path
    notes.parent.mkdir(parents=True)
    notes.write_text("# Notes\n- The shop opens at nine.\n")
    (notes.parents[1] / "log.jsonl").write_text(f'{{"type": "user", "cwd": "{project}"}}\n')
    await in_thread(run_here, "rules", "--write", str(notes), "--yes", environment=environment)
    assert "nine" in (written := notes.read_text())
    assert "- Read files in full." in written
    await in_thread(run_here, "rules", "--write", str(notes), "--remove", "--yes", environment=environment)
    assert notes.read_text().strip() == "# Notes\n- The shop opens at nine."
