"""python -m benchmarks [NAME...] [--scale tiny|small|full] [--json FILE]: each prints a table and a line of JSON."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.report import SCALES
from benchmarks.server import open_server

NAMES = ("append", "bulk", "consolidation", "increment", "retention", "mining", "plans", "recall", "models", "runtime")


async def run(names: list[str], scale: str) -> list[dict[str, Any]]:
    """Run benchmarks one after another on one server, print each, and return their figures."""
    told = []
    async with open_server() as server:
        for name in names:
            started = time.perf_counter()
            report = await importlib.import_module(f"benchmarks.{name}").measure(server, scale)
            found = {**report.as_json(), "seconds": round(time.perf_counter() - started, 1)}
            print(report.table())
            print(json.dumps(found), end="\n\n", flush=True)
            told.append(found)
    return told


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which: {', '.join(NAMES)} (all of them)")
    parser.add_argument("--scale", choices=SCALES, default="small", help="how much: small takes a minute or three each")
    parser.add_argument("--json", type=Path, help="write all figures to this file, too")
    parser.add_argument("--strict", action="store_true", help="end with 1 where a target is missed")
    options = parser.parse_args()
    unknown = sorted(set(options.names) - set(NAMES))
    if unknown:
        parser.error(f"no benchmark is called {unknown[0]!r}; there are: {', '.join(NAMES)}")
    told = asyncio.run(run(options.names or list(NAMES), options.scale))
    if options.json is not None:
        options.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    missed = any(not target["reached"] for one in told for target in one["targets"].values())
    sys.exit(1 if missed and options.strict else 0)


if __name__ == "__main__":
    main()
