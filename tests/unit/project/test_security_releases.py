"""PostgreSQL's minor versions with security fixes, which of them a server lacks, and where its programs come from."""

from __future__ import annotations

import importlib
import os
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from consolidator.database.embedded import binaries
from consolidator.database.security_releases import SECURITY_RELEASES, describe_missing_fixes, missing_fixes
from consolidator.errors import DatabaseUnavailable


@pytest.mark.parametrize(
    ("server_version", "missing"),
    [
        (180004, ["18.6", "18.7"]),
        (180005, ["18.6", "18.7"]),
        (180006, ["18.7"]),
        (180007, []),
        (180012, []),  # newer than this table
        (150018, ["15.19", "15.20"]),
        (160013, ["16.14", "16.15", "16.16"]),
        (170000, ["17.8", "17.10", "17.11", "17.12"]),
        (190000, []),  # a major version that was not known
    ],
)
def test_the_fixes_that_a_server_lacks_are_named(server_version: int, missing: list[str]) -> None:
    assert missing_fixes(server_version) == missing


def test_the_advice_is_one_that_the_operator_can_follow() -> None:
    embedded = describe_missing_fixes(180004, embedded=True)
    assert embedded is not None
    assert embedded.startswith("PostgreSQL 18.4 lacks the security fixes of 18.6 and 18.7")
    assert "CONSOLIDATOR_POSTGRES_BIN" in embedded
    own = describe_missing_fixes(160015, embedded=False)
    assert own == "PostgreSQL 16.15 lacks the security fixes of 16.16: upgrade the server to 16.16"
    assert describe_missing_fixes(180007, embedded=True) is None


def test_every_major_version_that_is_supported_is_known() -> None:
    assert set(SECURITY_RELEASES) == set(range(15, int(binaries.MAJOR) + 1))
    assert all(list(minors) == sorted(set(minors)) for minors in SECURITY_RELEASES.values())


def test_the_wheel_brings_a_supported_version_with_programs_to_dump_and_restore() -> None:
    programs = binaries.locate()
    major, minor = binaries.read_version(Path(programs.program("postgres")))
    assert (major, minor) >= binaries.OLDEST
    assert major == int(binaries.MAJOR)
    assert all(os.access(programs.program(name), os.X_OK) for name in binaries.PROGRAMS)


def make_wheel(site: Path, name: str) -> binaries.Wheel:
    """Lay an installed package with a program down in a directory of packages."""
    wheel = binaries.Wheel(name, "pginstall")
    program = site / wheel.install / "bin" / "postgres"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    return wheel


def test_the_second_package_is_used_where_the_first_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    second = make_wheel(tmp_path, "second-server")
    monkeypatch.setattr(binaries, "WHEELS", (binaries.Wheel("first-server", "pginstall"), second))
    assert binaries.find_wheel() == (second, tmp_path)
    first = make_wheel(tmp_path, "first-server")
    importlib.invalidate_caches()
    assert binaries.find_wheel() == (first, tmp_path)


def test_without_any_the_error_says_how_to_name_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries, "WHEELS", (binaries.Wheel("no-such-server", "pginstall"),))
    with pytest.raises(DatabaseUnavailable) as raised:
        binaries.locate()
    for remedy in ("pip install no-such-server", "CONSOLIDATOR_DATABASE_URL", "CONSOLIDATOR_POSTGRES_BIN"):
        assert remedy in str(raised.value)


@pytest.mark.parametrize(
    ("system", "machine", "has_wheel"),
    [
        ("linux", "x86_64", True),
        ("linux", "aarch64", True),
        ("linux", "armv7l", True),
        ("darwin", "arm64", True),
        ("linux", "riscv64", False),
        ("linux", "ppc64le", False),
        ("freebsd14", "amd64", False),
    ],
)
def test_the_package_is_required_only_where_it_has_a_wheel(system: str, machine: str, has_wheel: bool) -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    (server,) = (text for text in project["dependencies"] if text.startswith(binaries.WHEELS[0].distribution))
    marker = Requirement(server).marker
    assert marker is not None
    assert marker.evaluate({"sys_platform": system, "platform_machine": machine}) is has_wheel
