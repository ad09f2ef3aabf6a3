"""The pages in docs/: tables agree with the code, link targets exist, and so do commands, options and variables."""

from __future__ import annotations

import json
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from annotated_types import Ge, Le
from pydantic.fields import FieldInfo
from typer.core import TyperGroup
from typer.main import get_command

from consolidator import errors
from consolidator.cli.app import LazyGroup, app
from consolidator.formats.agent_folders import VARIABLES, log_folders
from consolidator.formats.registry import FORMATS
from consolidator.models.payload import EventType
from consolidator.models.principal import Role
from consolidator.settings import Settings
from release.terminal_picture import CHARACTER, LINE, MARGIN, THEMES, draw
from tests.unit.formats.agent_logs import LOGS

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
PAGES = [*sorted(DOCS.glob("*.md")), ROOT / "README.md", ROOT / "SECURITY.md"]
WITHOUT_DEFAULT = {"home": "the platform's data directory, `~/.local/share/consolidator`"}
FOR_TESTS = {f"CONSOLIDATOR_TEST_{name}" for name in ("DATABASE_URL", "DATA", "MEM0", "NODE_MODULES", "STORES")} | {
    "CONSOLIDATOR_CONFIG"
}


def read_page(name: str) -> str:
    """Return a page's text."""
    return (DOCS / name).read_text()


def table_rows(text: str, heading: str) -> list[list[str]]:
    """Return the cells of the table whose first column has that heading."""
    table = text[text.index(f"| {heading} |") :].split("\n\n")[0]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in table.splitlines()[2:]]


def default_cell(name: str, field: FieldInfo) -> str:
    """Return the cell of the column of defaults."""
    if field.default_factory in (list, dict):
        return f"`{field.get_default(call_default_factory=True)}`"
    return WITHOUT_DEFAULT.get(name) or ("" if field.default is None else f"`{field.default}`")


def bounds_text(field: FieldInfo) -> str:
    """Return the bounds of a setting."""
    least = [bound.ge for bound in field.metadata if isinstance(bound, Ge)]
    most = [bound.le for bound in field.metadata if isinstance(bound, Le)]
    if least and most:
        return f"; {least[0]} to {most[0]}"
    return f"; {least[0]} or more" if least else ""


def expected_settings_rows() -> list[str]:
    """Return the rows that docs/settings.md must have."""
    return [
        f"| `CONSOLIDATOR_{name.upper()}` | {default_cell(name, field)} | {field.description}{bounds_text(field)} |"
        for name, field in Settings.model_fields.items()
    ]


def test_every_setting_is_in_the_table_as_the_code_has_it() -> None:
    text = read_page("settings.md")
    rows = [line for line in text.splitlines() if line.startswith("| `CONSOLIDATOR_")]
    assert rows == expected_settings_rows(), "the table should be:\n" + "\n".join(expected_settings_rows())


def test_every_exit_code_is_in_the_table() -> None:
    def exit_codes(error_type: type[errors.ConsolidatorError]) -> set[int]:
        return {error_type.exit_code}.union(*(exit_codes(subclass) for subclass in error_type.__subclasses__()))

    documented = {int(row[0]) for row in table_rows(read_page("deploy.md"), "code")}
    assert documented == exit_codes(errors.ConsolidatorError) | {0}


def test_every_format_is_in_the_table() -> None:
    assert {row[0].strip("`") for row in table_rows(read_page("formats.md"), "format")} == set(FORMATS)


def test_the_index_of_agents_logs_is_as_the_page_and_the_code_have_it() -> None:
    index = json.loads((DOCS / "formats.json").read_text())
    page = read_page("formats.md")
    agents = {name for name in FORMATS if log_folders(name, Path("~"), {})}
    assert set(index) == agents == {row[1].strip("`") for row in table_rows(page, "agent")}
    for name, entry in index.items():
        places = [str(path) for path in log_folders(name, Path("~"), {})]
        assert set(entry["places"]) == {place for place in places if "globalStorage" not in place}
        for text in (*entry["places"], *entry["variables"]):
            assert f"`{text}`" in page
        assert set(entry["variables"]) <= set(VARIABLES)
    assert all(entry["seen"] for entry in index.values())
    with_results = {row[0].strip("`"): "results" not in row[2] for row in table_rows(page, "format")}
    assert {name: entry["has_results"] for name, entry in index.items()} == {name: with_results[name] for name in index}
    assert all(log.has_results == index[log.name]["has_results"] for log in LOGS.values())
    assert {name for entry in index.values() for name in entry["variables"]} == set(VARIABLES) - {"OPENCODE_CONFIG_DIR"}


def test_the_folders_that_people_look_for_lead_into_the_package() -> None:
    """K7, K8."""
    for name in ("models", "jobs", "migrations"):
        assert (DOCS.parent / name).resolve() == DOCS.parent / "consolidator" / name
    assert (DOCS.parent / "tests" / "conftest.py").is_file()


def test_a_session_is_exported_and_run_again_by_make() -> None:
    """P22."""
    words = ["SESSION_ID=s", "BUNDLE=b.json", "SESSION=b.json", "MODEL=gpt-4o", "FROM_MESSAGE=4"]
    told = subprocess.run(
        ["make", "-n", "export-session", "replay", *words], cwd=DOCS.parent, capture_output=True, text=True, check=True
    ).stdout
    assert "consolidator export --bundle 's' --output 'b.json'" in told
    assert "consolidator session rerun 'b.json' --model 'gpt-4o' --from '4'" in told


def test_every_event_type_stands_in_its_group() -> None:
    """A1."""
    text = (DOCS / "log.md").read_text(encoding="utf-8")
    fields = re.findall(r"^\| `(\w+)` \| [^|]+ \|$", text, re.MULTILINE)
    assert fields == ["id", "session_id", "event_type", "data", "created_at", "consolidated_at", "task_id", "tool_name"]
    rows = re.findall(r"^\| ([a-z-]+) \| ((?:`\w+` ?)+)\|$", text, re.MULTILINE)
    assert len(rows) == 8
    assert {name for _, names in rows for name in re.findall(r"`(\w+)`", names)} == set(EventType)


def test_only_event_types_that_exist_are_named() -> None:
    table = "\n".join(row[-1] for row in table_rows(read_page("formats.md"), "format"))
    named_types = set(re.findall(r"\b(?:[A-Z][a-z]+){2,}\b", table))
    assert named_types <= {kind.value for kind in EventType}


def heading_anchors(text: str) -> set[str]:
    """Return the names by which GitHub links to the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", [*PAGES, *sorted(DOCS.glob("decisions/*.md"))], ids=lambda path: path.name)
def test_every_link_leads_somewhere(path: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)]*))?\)", path.read_text()):
        if "://" not in target:
            page = path.parent / target if target else path
            assert page.exists(), target
            assert not anchor or anchor in heading_anchors(page.read_text()), f"{target}#{anchor}"


def test_every_page_is_in_the_index_and_in_the_navigation_of_the_site() -> None:
    pages = {page.name for page in DOCS.glob("*.md")}
    assert pages - {"README.md"} <= set(re.findall(r"\]\((\S+\.md)\)", read_page("README.md")))
    named = re.findall(r"^ *- .+: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(named) == sorted(pages | {"SECURITY.md", "CONTRIBUTING.md"})


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_variable_is_a_setting(path: Path) -> None:
    settings = {f"CONSOLIDATOR_{name.upper()}" for name in Settings.model_fields} | FOR_TESTS
    variables = set(re.findall(r"CONSOLIDATOR_[A-Z0-9_]*[A-Z0-9]", path.read_text()))
    assert variables <= settings


@cache
def load_program() -> TyperGroup:
    """Return the command line, which keeps the commands that it has loaded."""
    program = get_command(app)
    assert isinstance(program, TyperGroup)
    return program


def command_options(command: Any) -> set[str]:
    """Return the options of a command."""
    return {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_command_and_option_is_real(path: Path) -> None:
    program = load_program()
    for example in re.findall(r"(?:^\$ |`)consolidator ([a-z][^`\n|>#]*)", path.read_text(), re.MULTILINE):
        words = example.split()
        command = program.get_command(None, words[0])  # type: ignore[arg-type]
        assert command is not None, example
        options = command_options(command) | {"--help", "--json"}
        if isinstance(command, TyperGroup) and len(words) > 1:
            subcommand = command.get_command(None, words[1])  # type: ignore[arg-type]
            assert subcommand is not None or not isinstance(command, LazyGroup), example
            options |= set() if subcommand is None else command_options(subcommand)
        assert {word for word in words if word.startswith("-")} <= options, example


def test_every_path_of_the_architecture_page_exists() -> None:
    paths = re.findall(r"`((?:consolidator|tests|docs|benchmarks)/[^`]*)`", read_page("architecture.md"))
    assert len(paths) > 40
    assert [path for path in paths if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("path", [ROOT / "SECURITY.md", DOCS / "security.md"], ids=lambda path: path.name)
def test_every_test_that_a_claim_rests_on_exists(path: Path) -> None:
    tests = {file.name for file in (ROOT / "tests").rglob("test_*.py")}
    named = {Path(name).name for name in re.findall(r"`([\w/]*test_\w+\.py)`", path.read_text())}
    assert len(named) > 5
    assert named <= tests
    assert all((ROOT / name).exists() for name in re.findall(r"`(tests/[\w/]+\.py)`", path.read_text()))


def test_every_principal_is_in_the_threat_model() -> None:
    principals = " ".join(row[0] for row in table_rows((ROOT / "SECURITY.md").read_text(), "who"))
    for role in Role:
        assert {"harness": "operator"}.get(role, role.replace("user", "person")) in principals, role


def read_picture(path: Path, theme: tuple[str, ...]) -> tuple[list[tuple[str, str]], tuple[str, ...]]:
    """Return the lines that a picture was drawn from, and its theme."""
    shown = [element for element in ElementTree.parse(path).iter() if element.tag.endswith("text")]
    kinds = dict(zip(theme[2:], ("text", "typed", "quiet", "good"), strict=True))
    lines = {
        (int(text.attrib["y"]) - 15 - MARGIN) // LINE: (
            kinds[text.attrib["fill"]],
            " " * int((int(text.attrib["x"]) - MARGIN) / CHARACTER) + str(text.text),
        )
        for text in shown
    }
    return [lines.get(number, ("text", "")) for number in range(max(lines) + 1)], theme


def test_the_readmes_picture_is_one_text_in_two_themes_and_asks_nothing_of_elsewhere() -> None:
    names = re.findall(r'(?:src|srcset)="(\S+\.svg)"', (ROOT / "README.md").read_text())
    assert len(names) == 2
    pictures = [ElementTree.fromstring((ROOT / name).read_text()) for name in names]
    texts = [[element.text for element in picture.iter() if element.text] for picture in pictures]
    assert texts[0] == texts[1]
    assert any("git push -u origin" in str(text) for text in texts[0])
    for name, theme in zip(names, ("dark", "light"), strict=True):
        assert theme in name
        assert draw(*read_picture(ROOT / name, THEMES[theme])) == (ROOT / name).read_text()
        text = (ROOT / name).read_text().replace('xmlns="http://www.w3.org/2000/svg"', "")
        assert not re.search(r"://|href|url\(|<script|@import", text)
