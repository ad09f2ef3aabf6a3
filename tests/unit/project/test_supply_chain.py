"""What is installed: every package pinned with the hashes of its files, and the bill of materials that names it."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from psycopg import pq

from consolidator.database.embedded import binaries
from release.bill_of_materials import (
    ROOT,
    build_bill,
    find_runtime_packages,
    read_constraints,
    read_shipped_versions,
)

HASHED = ROOT / "requirements-hashed.txt"


def read_hashed() -> dict[str, tuple[Requirement, list[str]]]:
    """Return the requirements of the file and their hashes, by normalized name of the package."""
    text = HASHED.read_text().replace("\\\n", " ")
    found: dict[str, tuple[Requirement, list[str]]] = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        words = line.split(" --hash=")
        requirement = Requirement(words[0].strip())
        found[canonicalize_name(requirement.name)] = (requirement, [word.strip() for word in words[1:]])
    return found


def pinned_version(requirement: Requirement) -> str:
    """Return the only version that a requirement allows."""
    (specifier,) = requirement.specifier
    assert specifier.operator == "=="
    return specifier.version


def test_every_package_has_hashes_and_no_address() -> None:
    for requirement, hashes in read_hashed().values():
        assert hashes, requirement
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", each) for each in hashes), requirement
        assert requirement.url is None
    text = HASHED.read_text()
    assert "://" not in text
    assert not re.search(r"^\s*-", re.sub(r"\\\n\s+--hash", "", text), re.MULTILINE)  # no option, such as an index


def test_what_runs_the_product_is_hashed_with_the_constraints_versions() -> None:
    hashed = read_hashed()
    constraints = read_constraints()
    needed = {
        name for name, (requirement, _) in hashed.items() if requirement.marker is None or requirement.marker.evaluate()
    }
    assert find_runtime_packages() | {"setuptools"} == needed, "the dependencies were changed: run `make hashes`"
    for name in needed:
        assert pinned_version(hashed[name][0]) == constraints[name]
    assert "pytest" not in hashed


@pytest.fixture(scope="module")
def bill_text() -> str:
    """The bill of materials as it is written."""
    return JsonV1Dot6(
        build_bill(read_constraints(), find_runtime_packages(), read_shipped_versions())
    ).output_as_string()


@pytest.fixture(scope="module")
def bill(bill_text: str) -> dict[str, Any]:
    """The bill of materials, parsed."""
    parsed: dict[str, Any] = json.loads(bill_text)
    return parsed


def test_the_bill_of_materials_is_valid_cyclonedx(bill_text: str) -> None:
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(bill_text) is None
    assert '"specVersion": "1.6"' in bill_text


def test_it_names_every_pinned_package(bill: dict[str, Any]) -> None:
    named = {each["purl"]: each["version"] for each in bill["components"]}
    for name, version in read_constraints().items():
        assert named[f"pkg:pypi/{name}@{version}"] == version


def test_it_names_the_database_and_what_else_the_wheels_bring(bill: dict[str, Any]) -> None:
    components = {each["name"]: each for each in bill["components"]}
    version = binaries.read_version(Path(binaries.locate().program("postgres")))
    assert components["postgresql"]["version"] == ".".join(map(str, version))
    controls = list(Path(binaries.locate().install).rglob("vector.control"))
    assert f"default_version = '{components['pgvector']['version']}'" in controls[0].read_text()
    major, minor = map(int, components["libpq"]["version"].split("."))
    assert major * 10_000 + minor == pq.version()
    depends = {each["ref"]: each.get("dependsOn", []) for each in bill["dependencies"]}
    (wheel,) = (ref for ref in depends if ref.startswith(f"{binaries.WHEELS[0].distribution}=="))
    assert {components["postgresql"]["bom-ref"], components["pgvector"]["bom-ref"]} <= set(depends[wheel])


def test_what_only_developers_need_is_told_apart(bill: dict[str, Any]) -> None:
    scopes = {each["name"]: each["scope"] for each in bill["components"]}
    for name in ("psycopg-binary", "openai", "postgresql", "pgvector", "tzdata"):
        assert scopes[name] == "required", name
    for name in ("pytest", "mypy", "cyclonedx-python-lib", "setuptools"):
        assert scopes[name] == "excluded", name


def test_it_says_nothing_of_the_machine_it_was_made_on(bill_text: str) -> None:
    addresses = set(re.findall(r"\w+://[^\s\"]+", bill_text)) - {"http://cyclonedx.org/schema/bom-1.6.schema.json"}
    assert addresses == set()
    assert str(Path.home()) not in bill_text
    assert str(ROOT) not in bill_text


def test_a_release_is_attested_and_published_only_by_a_person() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())
    assert workflow["permissions"] == {"contents": "read"}
    build, publish = workflow["jobs"]["build"], workflow["jobs"]["publish"]
    steps = [step.get("uses", "").partition("@")[0] for step in build["steps"]]
    assert {"actions/attest-build-provenance", "actions/attest-sbom"} <= {*steps}
    assert "id-token" in build["permissions"]
    assert "secrets." not in str(workflow)  # the registry trusts the workflow by its identity
    assert "workflow_dispatch" in publish["if"]
    assert "inputs.publish" in publish["if"]
    assert workflow[True]["workflow_dispatch"]["inputs"]["publish"]["default"] is False  # YAML reads `on` as true
    assert publish["environment"] == "registry"
    assert [name for name, job in workflow["jobs"].items() if "pypi-publish" in str(job)] == ["publish"]


def test_the_formula_installs_this_version_and_only_what_was_hashed() -> None:
    formula = (ROOT / "deploy/homebrew/consolidator.rb").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f"/v{project['version']}.tar.gz" in formula
    assert f'license "{project["license"]}"' in formula
    assert '"--require-hashes", "--only-binary", ":all:", "-r", "requirements-hashed.txt"' in formula
    words = re.findall(r"^\s*(class|def|service do|test do|end)\b", formula, re.MULTILINE)
    assert words.count("end") == len(words) - words.count("end")  # each block is closed
    assert "consolidator" in project["scripts"]  # `uvx consolidator` and `pipx run consolidator` run this one
