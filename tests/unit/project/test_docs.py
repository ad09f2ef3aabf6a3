"""The pages in docs/: tables equal the code, links lead somewhere, and commands and variables are real."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from annotated_types import Ge, Le
from pydantic.fields import FieldInfo
from typer.core import TyperGroup
from typer.main import get_command

from consolidator import errors
from consolidator.cli.app import app
from consolidator.formats import FORMATS
from consolidator.models.payload import EventType
from consolidator.settings import Settings

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
PAGES = [*sorted(DOCS.glob("*.md")), ROOT / "README.md"]
WITHOUT_DEFAULT = {"home": "the platform's data directory, `~/.local/share/consolidator`", "sources": "`[]`"}
FOR_TESTS = {f"CONSOLIDATOR_TEST_{name}" for name in ("DATABASE_URL", "DATA", "MEM0", "STORES")}


def page(name: str) -> str:
    """Return a page's text."""
    return (DOCS / name).read_text()


def rows_of(text: str, heading: str) -> list[list[str]]:
    """Return the cells of the table whose first column has that heading."""
    table = text[text.index(f"| {heading} |") :].split("\n\n")[0]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in table.splitlines()[2:]]


def default_of(name: str, field: FieldInfo) -> str:
    """Return what stands in the column of defaults."""
    return WITHOUT_DEFAULT.get(name) or ("" if field.default is None else f"`{field.default}`")


def range_of(field: FieldInfo) -> str:
    """Return the bounds of a setting."""
    least = [bound.ge for bound in field.metadata if isinstance(bound, Ge)]
    most = [bound.le for bound in field.metadata if isinstance(bound, Le)]
    if least and most:
        return f"; {least[0]} to {most[0]}"
    return f"; {least[0]} or more" if least else ""


def settings_rows() -> list[str]:
    """Return the rows that docs/settings.md must have."""
    return [
        f"| `CONSOLIDATOR_{name.upper()}` | {default_of(name, field)} | {field.description}{range_of(field)} |"
        for name, field in Settings.model_fields.items()
    ]


def test_every_setting_is_in_the_table_as_the_code_has_it() -> None:
    text = page("settings.md")
    found = [line for line in text.splitlines() if line.startswith("| `CONSOLIDATOR_")]
    assert found == settings_rows(), "the table should be:\n" + "\n".join(settings_rows())


def test_every_exit_code_is_in_the_table() -> None:
    def below(kind: type[errors.ConsolidatorError]) -> set[int]:
        return {kind.exit_code}.union(*(below(one) for one in kind.__subclasses__()))

    told = {int(row[0]) for row in rows_of(page("deploy.md"), "code")}
    assert told == below(errors.ConsolidatorError) | {0}


def test_every_format_is_in_the_table() -> None:
    assert {row[0].strip("`") for row in rows_of(page("import.md"), "format")} == set(FORMATS)


def test_only_event_types_that_exist_are_named() -> None:
    table = "\n".join(row[-1] for row in rows_of(page("import.md"), "format"))
    named = set(re.findall(r"\b(?:[A-Z][a-z]+){2,}\b", table))
    assert named <= {kind.value for kind in EventType}


@pytest.mark.parametrize("path", sorted(DOCS.glob("*.md")), ids=lambda path: path.name)
def test_every_link_leads_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", path.read_text()):
        if "://" not in target:
            assert (path.parent / target).exists(), target


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_variable_is_a_setting(path: Path) -> None:
    known = {f"CONSOLIDATOR_{name.upper()}" for name in Settings.model_fields} | FOR_TESTS
    said = set(re.findall(r"CONSOLIDATOR_[A-Z0-9_]*[A-Z0-9]", path.read_text()))
    assert said <= known


def options_of(command: Any) -> set[str]:
    """Return the options of a command."""
    return {option for one in command.params for option in (*one.opts, *one.secondary_opts)}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_command_and_option_is_real(path: Path) -> None:
    program = get_command(app)
    assert isinstance(program, TyperGroup)
    for said in re.findall(r"(?:^\$ |`)consolidator ([a-z][^`\n|>#]*)", path.read_text(), re.MULTILINE):
        words = said.split()
        assert words[0] in program.commands, said
        command = program.commands[words[0]]
        known = options_of(command) | {"--help"}
        if isinstance(command, TyperGroup) and len(words) > 1 and words[1] in command.commands:
            known |= options_of(command.commands[words[1]])
        assert {word for word in words if word.startswith("-")} <= known, said
