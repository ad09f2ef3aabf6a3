"""python -m benchmarks [NAME...] [--scale tiny|small|full] [--json FILE]: each prints a table and a line of JSON."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import sys
import time
from pathlib import Path

from benchmarks.report import SCALES
from benchmarks.server import open_server

NAMES = ("append", "bulk", "consolidation", "increment", "retention", "mining", "plans")


async def run(names: list[str], scale: str, written: Path | None) -> bool:
    """Run benchmarks one after another on one server; return whether every target was reached."""
    reached = True
    told = []
    async with open_server() as server:
        for name in names:
            started = time.perf_counter()
            report = await importlib.import_module(f"benchmarks.{name}").measure(server, scale)
            found = {**report.as_json(), "seconds": round(time.perf_counter() - started, 1)}
            print(report.table())
            print(json.dumps(found), end="\n\n", flush=True)
            told.append(found)
            reached &= all(figure.reached is not False for figure in report.figures)
    if written is not None:
        written.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    return reached


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which: {', '.join(NAMES)} (all of them)")
    parser.add_argument("--scale", choices=SCALES, default="small", help="how much: small takes under a minute each")
    parser.add_argument("--json", type=Path, help="write all figures to this file, too")
    parser.add_argument("--strict", action="store_true", help="end with 1 where a target is missed")
    options = parser.parse_args()
    unknown = sorted(set(options.names) - set(NAMES))
    if unknown:
        parser.error(f"no benchmark is called {unknown[0]!r}; there are: {', '.join(NAMES)}")
    reached = asyncio.run(run(options.names or list(NAMES), options.scale, options.json))
    sys.exit(0 if reached or not options.strict else 1)


if __name__ == "__main__":
    main()
