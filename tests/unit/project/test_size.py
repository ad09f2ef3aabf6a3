"""How large the package is: each figure may fall, and rises only where somebody changes the number here on purpose."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from consolidator.cli.app import load_command
from consolidator.cli.commands import list_targets
from consolidator.settings import Settings

PACKAGE = Path(__file__).parents[3] / "consolidator"
FILES = sorted(PACKAGE.rglob("*.py"))
MAX_LINES = 92_187  # of Python; 72,000 is what it is to come down to. 200 are blank lines that part long functions
COMMANDS = 67  # of the command line; 60 is what it is to come down to, where no command reads worse for it
PARAMETERS = 319  # of all commands; 280 likewise
SETTINGS = 43  # 38 is what it is to come down to: what no deployment sets is a constant
MAX_ENTRIES = 22  # of a folder: what a reader takes in at once
ROOT_ENTRIES = 29  # of the package itself: the rooms of the map, and modules that programs import by these names
MAX_PARAMETERS = 8  # of a function; more are a value with a name
LONG_FUNCTIONS = 4  # that take more parameters: what programs call by keywords, and the doors of the log
LONG_BODY, MANY_STEPS = 25, 10  # lines and statements of a function from which on blank lines part its steps
UNPARTED = 24  # such functions without a blank line: of memory, prompts and turns, where each waits for its next change
IMPORTS = {  # modules of ours that are loaded with one: what a change of any of them may break
    "consolidator.service.memory.recall": 80,
    "consolidator.jobs.consolidation.pipeline": 181,
}


def test_the_package_does_not_grow() -> None:
    assert sum(len(path.read_text(encoding="utf-8").splitlines()) for path in FILES) <= MAX_LINES


def test_a_folder_can_be_taken_in() -> None:
    folders = {path.parent for path in PACKAGE.rglob("*") if "__pycache__" not in path.parts}
    entries = {folder: [path for path in folder.iterdir() if path.name != "__pycache__"] for folder in folders}
    limits = {PACKAGE: ROOT_ENTRIES}
    assert {
        str(folder): len(paths) for folder, paths in entries.items() if len(paths) > limits.get(folder, MAX_ENTRIES)
    } == {}


def test_the_command_line_has_few_commands_and_few_parameters() -> None:
    targets = list_targets()
    parameters = {words: len(load_command(words[-1], entry).params) for words, entry in targets.items()}
    assert len(targets) <= COMMANDS
    assert sum(parameters.values()) <= PARAMETERS, parameters


def test_few_things_are_set() -> None:
    assert len(Settings.model_fields) <= SETTINGS


def functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef, list[str]]]:
    """Yield each function with its name and the lines of its file."""
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield f"{path.relative_to(PACKAGE)}:{node.name}", node, text.splitlines()


def test_functions_take_few_parameters() -> None:
    counts = (
        (name, len([*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs])) for name, node, _ in functions()
    )
    long = [name for name, count in counts if count > MAX_PARAMETERS]
    assert len(long) <= LONG_FUNCTIONS, long


def test_blank_lines_part_the_steps_of_a_long_function() -> None:
    unparted = []
    for name, node, lines in functions():
        body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
        if len(body) >= MANY_STEPS:
            body_lines = lines[body[0].lineno - 1 : node.end_lineno]
            if len(body_lines) > LONG_BODY and all(line.strip() for line in body_lines):
                unparted.append(name)
    assert len(unparted) <= UNPARTED, unparted


@pytest.mark.parametrize("module", IMPORTS)
def test_a_module_loads_few_others(module: str) -> None:
    code = f"import sys, {module}; print(sum(name.startswith('consolidator') for name in sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert int(loaded) <= IMPORTS[module]
