"""A person's own tools: a Python file in which functions are decorated with `@tool`."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from consolidator.cli.common import path_named
from consolidator.errors import ConsolidatorError, UsageError
from consolidator.runtime.tools.tool import Tool


def tools_in(name: str) -> list[Tool]:
    """Return the tools of a file; raise UsageError where it cannot be run or has none."""
    path = path_named(name).resolve()
    spec = importlib.util.spec_from_file_location(f"tools_of_{path.stem}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise UsageError(f"{path} is no Python file with tools")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # what pydantic reads the type hints of its functions from
    _beside(path)
    try:
        spec.loader.exec_module(module)
    except ConsolidatorError:
        raise
    except Exception as error:
        raise UsageError(f"{path} cannot be run: {type(error).__name__}: {error}") from error
    found = [one for one in vars(module).values() if isinstance(one, Tool)]
    if not found:
        raise UsageError(f"{path} has no tools: decorate functions with @tool (from consolidator import tool)")
    return list({one.name: one for one in found}.values())


def _beside(path: Path) -> None:
    """Let the file import what stands beside it."""
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
