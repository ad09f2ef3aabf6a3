"""python -m release.hashes: write the SHA-256 of each file that pip may install, for all platforms, from the registry.

constraints-hashed.txt has every package of constraints.txt; requirements-hashed.txt only what the product needs to run
and to be built, with markers for the platforms. pip refuses any other file with `--require-hashes`. Needs uv.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
CONSTRAINTS, HASHED, RUNTIME = "constraints.txt", "constraints-hashed.txt", "requirements-hashed.txt"
OPTIONS = [
    "--generate-hashes",
    "--universal",
    "--no-header",
    "--no-annotate",
    "--no-emit-index-url",
    "--no-emit-find-links",
]
OPTIONS += ["--no-emit-build-options", "--no-config", "--quiet", "--python-version", "3.11"]
HEADINGS = {
    HASHED: "# constraints.txt with the SHA-256 of every file of each release; `make hashes` writes it.",
    RUNTIME: "# What runs and builds the product, as pinned in constraints.txt, with hashes; `make hashes` writes it.",
}


def compile_hashes(name: str, arguments: list[str], stdin: str | None = None) -> None:
    """Write one of the files, as uv resolves it."""
    command = [sys.executable, "-m", "uv", "pip", "compile", *OPTIONS, *arguments]
    done = subprocess.run(command, cwd=ROOT, input=stdin, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr or f"uv failed with exit code {done.returncode}")
    (ROOT / name).write_text(f"{HEADINGS[name]}\n{done.stdout}", encoding="utf-8")
    print(f"{name}: {done.stdout.count('==')} packages, {done.stdout.count('--hash=')} hashes")


def main() -> None:
    """Write both files."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needed = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    compile_hashes(HASHED, [CONSTRAINTS, "--no-deps"])
    compile_hashes(RUNTIME, ["-", "--constraint", CONSTRAINTS], stdin="\n".join(needed))


if __name__ == "__main__":
    main()
