"""The formats that benchmarks read: those of the product, and those of published data sets, which only they read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

from benchmarks.harness import intercode, swe_agent
from consolidator.formats import registry
from consolidator.formats.base import Format
from consolidator.formats.common.log_files import find_files

_DATA_SETS: dict[str, Format] = {module.NAME: cast(Format, module) for module in (swe_agent, intercode)}
FORMATS = _DATA_SETS | registry.FORMATS


def get_format(name: str) -> Format:
    """Return the format of that name, a data set's or the product's."""
    return _DATA_SETS[name] if name in _DATA_SETS else registry.get_format(name)


def recognise_format(path: Path) -> Format | None:
    """Return a file's format by its name and beginning, or None."""
    with path.open("rb") as file:
        head = file.read(registry.HEAD_BYTES)
    recognised = (log_format for log_format in _DATA_SETS.values() if log_format.recognises(path, head))
    return next(recognised, None) or registry.recognise_format(path)


def list_files(folder: Path) -> Iterator[tuple[Path, Format | None]]:
    """Yield the logs at or below a path, each with its format."""
    for path in (*registry.find_log_files(folder), *find_files(folder, ".traj")):
        yield path, recognise_format(path)
