"""python -m benchmarks [NAME...] [--scale tiny|small|full] [--json FILE] [--keep DIR]: tables and lines of JSON."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.harness.report import SCALES
from benchmarks.harness.server import open_server

MODULES = {
    "append": "benchmarks.speed.append",
    "bulk": "benchmarks.speed.bulk",
    "consolidation": "benchmarks.speed.consolidation",
    "real-night": "benchmarks.speed.real_night",
    "first-import": "benchmarks.speed.first_import",
    "increment": "benchmarks.speed.increment",
    "scale": "benchmarks.speed.scale",
    "history": "benchmarks.speed.history",
    "retention": "benchmarks.speed.retention",
    "mining": "benchmarks.speed.mining",
    "plans": "benchmarks.speed.plans",
    "recall": "benchmarks.speed.recall",
    "soak": "benchmarks.speed.soak",
    "ui": "benchmarks.speed.ui",
    "start": "benchmarks.speed.start",
    "hooks": "benchmarks.speed.hooks",
    "models": "benchmarks.model_use.models",
    "runtime": "benchmarks.runtime.runtime",
    "turn-floor": "benchmarks.runtime.turn_floor",
    "followers": "benchmarks.runtime.followers",
    "lineage": "benchmarks.runtime.lineage",
    "api": "benchmarks.runtime.api_appends",
    "turns": "benchmarks.runtime.turn_peers",
    "proxy": "benchmarks.runtime.proxy",
    "watch": "benchmarks.speed.watch",
}  # by name of the benchmark; each has `measure(server, scale)`


async def run(names: list[str], scale: str, keep: Path | None = None, logs: Path | None = None) -> list[dict[str, Any]]:
    """Run benchmarks one after another on one server, print each report, and return all of them as JSON."""
    results = []
    async with open_server(keep) as server:
        server.logs = logs
        for name in names:
            started = time.perf_counter()
            report = await importlib.import_module(MODULES[name]).measure(server, scale)
            result = {**report.to_json(), "seconds": round(time.perf_counter() - started, 1)}
            print(report.format_table())
            print(json.dumps(result), end="\n\n", flush=True)
            results.append(result)
    return results


def main() -> None:
    """Parse the command line and run the benchmarks."""
    names = ", ".join(MODULES)
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"benchmarks to run, of {names} (default: all)")
    parser.add_argument("--scale", choices=SCALES, default="small", help="sizes; small takes 1 to 3 minutes each")
    parser.add_argument("--json", type=Path, help="also write all figures to this file")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep there what takes long to make, and use it again")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a target is missed by more than is known")
    options = parser.parse_args()
    logs = next((Path(name) for name in options.names if name not in MODULES and Path(name).is_dir()), None)
    names_of_benchmarks = [name for name in options.names if name != str(logs)]
    unknown = sorted(set(names_of_benchmarks) - set(MODULES))
    if unknown:
        parser.error(f"no benchmark is called {unknown[0]!r}; choose from {names}")
    results = asyncio.run(run(names_of_benchmarks or list(MODULES), options.scale, options.keep, logs))
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    missed = any(not target["holds"] for result in results for target in result["targets"].values())
    sys.exit(1 if missed and options.strict else 0)


if __name__ == "__main__":
    main()
