"""PostgreSQL's minor versions with security fixes: which of them a server lacks."""

from __future__ import annotations

import subprocess

import pytest

from consolidator.database.embedded import binaries
from consolidator.database.security_releases import SECURITY_RELEASES, describe_missing_fixes, missing_fixes


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


def test_the_shipped_version_is_the_one_in_the_wheel() -> None:
    postgres = binaries.locate().program("postgres")
    said = subprocess.run([postgres, "--version"], capture_output=True, text=True, check=True).stdout
    assert said.split()[-1] == ".".join(map(str, binaries.SHIPPED))
