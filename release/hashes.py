"""python -m release.hashes: write the SHA-256 of each file that pip may install, for all platforms, from the registry.

requirements-hashed.txt has what the image needs to run (the product with MCP) and to be built, at the versions of
constraints.txt, with markers for the platforms. pip refuses any other file with `--require-hashes`. Needs uv.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
CONSTRAINTS, HASHED = "constraints.txt", "requirements-hashed.txt"
OPTIONS = [
    "--generate-hashes",
    "--universal",
    "--no-header",
    "--no-annotate",
    "--no-emit-index-url",
    "--no-emit-find-links",
]
OPTIONS += ["--no-emit-build-options", "--no-config", "--quiet", "--python-version", "3.11"]
HEADING = "# What runs and builds the product, as pinned in constraints.txt, with hashes; `make hashes` writes it."


def main() -> None:
    """Write the file, as uv resolves it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needed = [*project["project"]["dependencies"], *project["project"]["optional-dependencies"]["mcp"]]
    needed += project["build-system"]["requires"]
    command = [sys.executable, "-m", "uv", "pip", "compile", *OPTIONS, "-", "--constraint", CONSTRAINTS]
    done = subprocess.run(command, cwd=ROOT, input="\n".join(needed), capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr or f"uv failed with exit code {done.returncode}")
    (ROOT / HASHED).write_text(f"{HEADING}\n{done.stdout}", encoding="utf-8")
    print(f"{HASHED}: {done.stdout.count('==')} packages, {done.stdout.count('--hash=')} hashes")


if __name__ == "__main__":
    main()
