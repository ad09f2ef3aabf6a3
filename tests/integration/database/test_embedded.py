"""The embedded server, with every crash, race and refusal it promises to survive or to explain forced upon it."""

# ruff: noqa: ASYNC220, ASYNC221, ASYNC240 - nothing else runs in these loops

from __future__ import annotations

import asyncio
import json
import os
import pwd
import secrets
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path

import psutil
import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from consolidator.database.embedded import binaries, cluster, keeper_process
from consolidator.database.embedded.file_locks import FileLock
from consolidator.database.embedded.server import EmbeddedServer
from consolidator.errors import DatabaseUnavailable

pytestmark = pytest.mark.embedded

ROOT = os.geteuid() == 0
root_only = pytest.mark.skipif(not ROOT, reason="needs root")
not_root = pytest.mark.skipif(ROOT, reason="root may do it")
UNNAMED = 12345  # a uid that no user has
linux_only = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs prctl")

USER = """
import asyncio, sys
from pathlib import Path
from consolidator.database.embedded.server import EmbeddedServer

async def main():
    for _ in range(int(sys.argv[2])):
        server = await EmbeddedServer.start(Path(sys.argv[1]))
        print(server.info()["pid"], flush=True)
        if sys.argv[3] == "stay":
            await asyncio.to_thread(sys.stdin.readline)
        await server.stop()

asyncio.run(main())
"""

KILLED_IN_INITDB = """
import asyncio, os, signal, subprocess, sys
from pathlib import Path
from consolidator.database.embedded import cluster
from consolidator.database.embedded.server import EmbeddedServer

def run(command, timeout, capture_output, text, errors, **others):
    data = Path(command[command.index("-D") + 1])
    subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **others)
    while not (data / "PG_VERSION").exists():
        pass
    os.kill(os.getpid(), signal.SIGKILL)

cluster.subprocess.run = run
asyncio.run(EmbeddedServer.start(Path(sys.argv[1])))
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home with a fresh cluster that nobody runs; copying it is faster than initdb."""
    folder = tmp_path_factory.mktemp("model")

    async def make() -> None:
        await (await EmbeddedServer.start(folder / "home")).stop()

    asyncio.run(make())
    yield folder / "home"
    remove_clusters(folder)


@pytest.fixture
def new_home(tmp_path: Path) -> Iterator[Path]:
    """A home that does not exist yet."""
    yield tmp_path / "home"
    remove_clusters(tmp_path)


@pytest.fixture
def home(new_home: Path, model: Path) -> Path:
    """A home with a fresh cluster."""
    shutil.copytree(model, new_home)
    record = new_home / "postgres/cluster.json"
    cluster_record = json.loads(record.read_text())
    if ROOT:
        data = cluster.CLUSTERS / f"test-{secrets.token_hex(8)}" / "data"
        subprocess.run(["cp", "-a", str(Path(cluster_record["data"]).parent), str(data.parent)], check=True)
        note = data.parent / "home.json"
        note.write_text(json.dumps({"home": str(new_home), "identity": cluster_record["identity"]}))
        record.write_text(json.dumps({**cluster_record, "data": str(data)}))
    return new_home


def remove_clusters(folder: Path) -> None:
    """Wait for the servers at or below a place to end, and remove their clusters where they are elsewhere."""
    deadline = time.monotonic() + 60
    while processes("keeper_process.py", folder):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    for note in cluster.CLUSTERS.glob("*/home.json") if ROOT else []:
        if Path(json.loads(note.read_text())["home"]).is_relative_to(folder):
            shutil.rmtree(note.parent)


@contextmanager
def user(home: Path, times: int = 1, then: str = "stay") -> Iterator[subprocess.Popen[str]]:
    """Another process that uses the server of a home."""
    command = [sys.executable, "-c", USER, str(home), str(times), then]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def pid_of_its_server(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    assert process.stderr is not None
    line = process.stdout.readline()
    assert line, process.stderr.read()
    return int(line)


async def eventually(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


def has_ended(pid: int) -> bool:
    try:
        return not keeper_process.is_alive(psutil.Process(pid))
    except psutil.NoSuchProcess:
        return True


def pid_of(server: EmbeddedServer) -> int:
    return int(server.info()["pid"])


def processes(program: str, folder: Path) -> list[psutil.Process]:
    """Return the processes of a program that were told of anything at or below a place."""
    pids = []
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
        except psutil.Error:
            continue
        if any(word.endswith(f"/{program}") for word in words[:3]) and any(str(folder) in word for word in words):
            pids.append(process)
    return pids


def no_process(program: str, folder: Path) -> bool:
    return processes(program, folder) == []


def keepers(home: Path) -> list[psutil.Process]:
    return processes("keeper_process.py", home)


@asynccontextmanager
async def serving(home: Path) -> AsyncIterator[EmbeddedServer]:
    server = await EmbeddedServer.start(home)
    try:
        yield server
    finally:
        await server.stop()


async def execute(server: EmbeddedServer, statement: str) -> list[tuple[object, ...]]:
    async with await psycopg.AsyncConnection.connect(server.dsn, autocommit=True) as conn:
        cursor = await conn.execute(statement.encode())
        return await cursor.fetchall() if cursor.description else []


async def remember(server: EmbeddedServer, word: str) -> None:
    await execute(server, "create table if not exists word (word text)")
    await execute(server, f"insert into word values ('{word}')")


async def remembered(server: EmbeddedServer) -> list[object]:
    return [row[0] for row in await execute(server, "select word from word order by 1")]


# --- what it is


async def test_a_first_start_gives_an_empty_durable_utc_database_with_pgvector(new_home: Path) -> None:
    async with serving(new_home) as server:
        queries = "current_database(), current_setting('server_version_num')::int / 10000, current_setting('timezone')"
        rows = await execute(server, f"select {queries}, current_setting('fsync'), current_setting('listen_addresses')")
        assert rows == [("consolidator", int(binaries.MAJOR), "UTC", "on", "")]
        await execute(server, "create extension vector")
        assert await execute(server, "select lower('ÄÖ')") == [("äö",)]


async def test_what_was_committed_is_there_after_stop_and_start(home: Path) -> None:
    async with serving(home) as server:
        await remember(server, "once")
    async with serving(home) as server:
        assert await remembered(server) == ["once"]


async def test_the_last_user_takes_the_server_and_all_its_helpers_along(home: Path) -> None:
    first = await EmbeddedServer.start(home)
    second = await EmbeddedServer.start(home)
    assert pid_of(first) == pid_of(second)
    await first.stop()
    assert await execute(second, "select 1") == [(1,)]
    await second.stop()
    await second.stop()
    assert has_ended(pid_of(first))
    assert keepers(home) == []
    assert not Path(first.info()["socket directory"]).exists()


async def test_several_starts_at_once_in_one_process_share_a_server(home: Path) -> None:
    servers = await asyncio.gather(*(EmbeddedServer.start(home) for _ in range(4)))
    assert len({pid_of(server) for server in servers}) == 1
    await asyncio.gather(*(server.stop() for server in servers))
    assert has_ended(pid_of(servers[0]))


async def test_info_names_everything_an_operator_looks_for(home: Path) -> None:
    async with serving(home) as server:
        info = server.info()
    assert info["home"] == str(home)
    assert info["version"].startswith(binaries.MAJOR)
    for name in ("data directory", "binaries", "log"):
        assert Path(info[name]).exists()
    secret = json.loads((home / "postgres/cluster.json").read_text())["password"]
    assert secret not in repr(info)
    assert secret not in repr(server._cluster)


# --- where it lives


@pytest.mark.parametrize("name", ["with spaces and 'quotes' \"too\"", "ünïcödé, comma", "a/" * 100 + "deep"])
async def test_any_path_will_do(new_home: Path, name: str) -> None:
    async with serving(new_home / name) as server:
        assert await execute(server, "select 1") == [(1,)]


async def test_a_path_longer_than_postgresql_can_bear_will_do(new_home: Path) -> None:
    path = new_home.joinpath(*["l" * 200] * 8)
    for _ in range(2):
        async with serving(path) as server:
            assert await execute(server, "select 1") == [(1,)]
    assert has_ended(pid_of(server))
    assert not Path(server.info()["socket directory"]).exists()


async def test_a_home_of_ours_is_private_and_one_that_exists_keeps_its_mode(new_home: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    theirs.chmod(0o755)
    before = stat.S_IMODE(tmp_path.stat().st_mode)
    async with serving(new_home), serving(theirs):
        assert stat.S_IMODE(new_home.stat().st_mode) == 0o700
        assert stat.S_IMODE(theirs.stat().st_mode) == 0o755
        assert stat.S_IMODE(tmp_path.stat().st_mode) == before


async def test_data_socket_password_and_log_are_closed_to_others(home: Path) -> None:
    async with serving(home) as server:
        info = server.info()
        for name in (info["data directory"], info["socket directory"], home / "postgres"):
            assert stat.S_IMODE(Path(name).stat().st_mode) == 0o700
        for name in (info["password in"], info["passwords of the writer and reader in"], info["log"]):
            assert stat.S_IMODE(Path(name).stat().st_mode) == 0o600
        assert Path(info["data directory"]).stat().st_uid != 0
        assert psutil.Process(pid_of(server)).uids().effective == Path(info["data directory"]).stat().st_uid


async def test_a_home_made_anew_gets_a_database_of_its_own(home: Path) -> None:
    async with serving(home) as server:
        await remember(server, "old")
        old = Path(server.info()["data directory"])
    shutil.rmtree(home)
    async with serving(home) as server:
        assert await execute(server, "select to_regclass('word')") == [(None,)]
        assert not old.exists()  # root's went as the new one was made: the home was a temporary one


@root_only
async def test_a_cluster_whose_home_is_gone_stays_unless_the_home_was_temporary(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(home) as server:
        await remember(server, "kept")
        data = Path(server.info()["data directory"])
    home.rename(tmp_path / "unmounted")
    with monkeypatch.context() as patch:
        patch.setattr(cluster, "TEMPORARY", ())
        patch.setattr(tempfile, "tempdir", "/var/empty")
        async with serving(tmp_path / "other") as other:
            assert str(data.parent) in other.info()["orphaned clusters"]
    (tmp_path / "unmounted").rename(home)
    async with serving(home) as server:
        assert await remembered(server) == ["kept"]


async def test_a_home_removed_under_a_running_server_disturbs_nobody_after(home: Path) -> None:
    old = await EmbeddedServer.start(home)
    shutil.rmtree(home)
    async with serving(home) as new:
        assert pid_of(new) != pid_of(old)
        with pytest.raises(DatabaseUnavailable, match="was removed"):
            await old.restart()
        await old.stop()
        await eventually(lambda: has_ended(pid_of(old)))
        assert await execute(new, "select 1") == [(1,)]


async def test_a_home_that_was_moved_keeps_its_database(home: Path, tmp_path: Path) -> None:
    async with serving(home) as server:
        await remember(server, "moved")
    home.rename(tmp_path / "elsewhere")
    async with serving(tmp_path / "elsewhere") as server:
        assert await remembered(server) == ["moved"]


@root_only
async def test_a_copy_of_roots_home_is_told_whose_it_is(home: Path, tmp_path: Path) -> None:
    async with serving(home):
        shutil.copytree(home, tmp_path / "copy")
        with pytest.raises(DatabaseUnavailable, match="is a copy of"):
            await EmbeddedServer.start(tmp_path / "copy")


@not_root
async def test_a_copy_of_a_home_gets_a_server_of_its_own(home: Path, tmp_path: Path) -> None:
    async with serving(home) as server:
        await remember(server, "original")
        shutil.copytree(home, tmp_path / "copy", ignore=lambda *_: ["server.log"])
        async with serving(tmp_path / "copy") as copy:
            assert pid_of(copy) != pid_of(server)


async def test_discard_leaves_nothing(home: Path) -> None:
    server = await EmbeddedServer.start(home)
    other = await EmbeddedServer.start(home)
    data = Path(server.info()["data directory"])
    assert not await server.delete()
    assert await execute(other, "select 1") == [(1,)]
    assert await other.delete()
    assert list(home.iterdir()) == []
    assert not data.exists()
    assert not data.parent.exists()


# --- races


async def test_processes_that_start_at_once_from_nothing_share_one_cluster(new_home: Path) -> None:
    with ExitStack() as stack:
        users = [stack.enter_context(user(new_home)) for _ in range(3)]
        pids = {pid_of_its_server(process) for process in users}
        assert len(pids) == 1
        places = cluster.CLUSTERS.glob("*/home.json") if ROOT else []
        assert sum(json.loads(folder.read_text())["home"] == str(new_home) for folder in places) == int(ROOT)


async def test_newcomers_and_leavers_never_trip_over_each_other(home: Path) -> None:
    with ExitStack() as stack:
        users = [stack.enter_context(user(home, times=8, then="go")) for _ in range(3)]
        for process in users:
            _, complaint = await asyncio.to_thread(process.communicate)
            assert (process.returncode, complaint) == (0, "")
    assert keepers(home) == []


async def test_a_newcomer_is_not_cut_off_by_the_end_of_a_killed_user(home: Path) -> None:
    for _ in range(5):
        with user(home) as last:
            pid_of_its_server(last)
            last.kill()
            async with serving(home) as server:
                assert await execute(server, "select 1") == [(1,)]
                await asyncio.to_thread(last.wait)
                assert await execute(server, "select 1") == [(1,)]


async def test_a_cancelled_start_holds_nothing(new_home: Path) -> None:
    starting = asyncio.create_task(EmbeddedServer.start(new_home))
    await eventually((new_home / "postgres/starting.lock").exists)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    await eventually(lambda: keepers(new_home) == [])
    lock = FileLock(new_home / "postgres/users.lock")
    await eventually(lock.try_exclusive)  # what a thread was just doing ends first
    lock.close()


# --- crashes


async def test_the_server_ends_after_its_last_user_was_killed(home: Path) -> None:
    with user(home) as owner:
        pid = pid_of_its_server(owner)
        owner.kill()
        await eventually(lambda: has_ended(pid) and keepers(home) == [])


async def test_the_killed_owner_of_a_server_takes_it_from_nobody_else(home: Path) -> None:
    with user(home) as owner:
        pid = pid_of_its_server(owner)
        async with serving(home) as server:
            await remember(server, "kept")
            owner.kill()
            owner.wait()
            assert await remembered(server) == ["kept"]
            assert pid_of(server) == pid
    assert has_ended(pid)


async def test_a_start_after_kill_finds_what_was_committed(home: Path) -> None:
    async with serving(home) as server:
        with user(home) as owner:
            pid_of_its_server(owner)
            await remember(server, "before")
        os.kill(pid_of(server), signal.SIGKILL)
    async with serving(home) as server:
        assert await remembered(server) == ["before"]


async def test_a_killed_server_comes_back_with_connections_still_open(home: Path) -> None:
    async with serving(home) as server:
        await remember(server, "before")
        conn = await psycopg.AsyncConnection.connect(server.dsn)
        await conn.execute("select 1")
        killed = pid_of(server)
        os.kill(killed, signal.SIGKILL)
        assert await server.restart() is server
        await conn.close()
        assert pid_of(server) != killed
        assert await remembered(server) == ["before"]
        pid_after = await server.restart()
        assert pid_of(pid_after) == pid_of(server)


async def test_a_server_that_somebody_stopped_comes_back(home: Path) -> None:
    async with serving(home) as server:
        os.kill(pid_of(server), signal.SIGTERM)
        await server.restart()
        assert await execute(server, "select 1") == [(1,)]


async def test_concurrent_restarts_bring_one_server_back(home: Path) -> None:
    async with serving(home) as server, serving(home) as other:
        os.kill(pid_of(server), signal.SIGKILL)
        await asyncio.gather(server.restart(), other.restart(), server.restart())
        assert pid_of(server) == pid_of(other)


@linux_only
async def test_a_server_ends_with_its_killed_keeper_and_comes_back(home: Path) -> None:
    async with serving(home) as server:
        killed = pid_of(server)
        [keeper] = keepers(home)
        keeper.kill()
        await eventually(lambda: has_ended(killed))
        await server.restart()
        assert await execute(server, "select 1") == [(1,)]
    assert keepers(home) == []


async def test_a_server_without_a_keeper_is_given_one(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    untied = Path(keeper_process.__file__).read_text().replace("preexec_fn=_parent_death_hook()", "preexec_fn=None")
    assert "preexec_fn=None" in untied
    script = home.parent / "keeper_process.py"
    script.write_text(untied)
    monkeypatch.setattr(keeper_process, "__file__", str(script))
    async with serving(home) as server:
        [keeper] = keepers(home)
        keeper.kill()
        keeper.wait()
        with user(home) as other:
            assert pid_of_its_server(other) == pid_of(server)
        monkeypatch.undo()
        assert len(keepers(home)) == 1
    assert has_ended(pid_of(server))
    assert keepers(home) == []


@pytest.mark.skipif(not ROOT or shutil.which("setpriv") is None, reason="only root becomes another user, by setpriv")
@pytest.mark.parametrize("has_home", [True, False])
def test_a_uid_without_a_name_has_a_database(has_home: bool) -> None:
    """As in `docker run --user` and OpenShift. The capability is for a Python that only root may read."""
    assert all(entry.pw_uid != UNNAMED for entry in pwd.getpwall())
    with tempfile.TemporaryDirectory(prefix="unnamed-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o777)
        reading = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
        unnamed = ["setpriv", f"--reuid={UNNAMED}", "--regid=0", "--clear-groups", *reading]
        environment = {"PATH": os.environ["PATH"], "CONSOLIDATOR_HOME": f"{folder}/data"}
        environment |= {"HOME": folder} if has_home else {}
        done = [
            subprocess.run(
                [*unnamed, sys.executable, *arguments],
                env=environment,
                capture_output=True,
                text=True,
                check=False,
                cwd=folder,
            )
            for arguments in (
                ["-m", "consolidator", "db", "info"],
                ["-m", "consolidator", "remember", "We use tabs.", "--agent", "coder"],
                ["-c", "from consolidator.cli.agents.chat import user_name; print(user_name())"],
            )
        ]
        assert [each.returncode for each in done] == [0, 0, 0], done
        assert "embedded" in done[0].stdout
        assert (Path(folder) / "data/postgres/data").stat().st_uid == UNNAMED
        assert done[2].stdout.strip() == (Path(folder).name if has_home else "user")
        remove_clusters(Path(folder))


async def test_an_interrupted_initdb_is_repeated(new_home: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED_IN_INITDB, str(new_home)], check=False)
    assert killed.returncode == -signal.SIGKILL
    for _ in range(2):
        async with serving(new_home) as server:
            assert await execute(server, "select 1") == [(1,)]
        folder = Path(server.info()["data directory"]).parent
        await eventually(partial(no_process, "initdb", folder))
    assert not any(folder.glob("initdb-*"))


async def test_a_recycled_pid_is_not_taken_for_the_server(home: Path) -> None:
    async with serving(home) as server:
        data = Path(server.info()["data directory"])
        lines = (data / "postmaster.pid").read_text().splitlines()
        owner = server._cluster.owner
    with subprocess.Popen(["sleep", "600"], cwd="/", **owner.credentials()) as stranger:
        try:
            (data / "postmaster.pid").write_text("\n".join([str(stranger.pid), *lines[1:]]) + "\n")
            async with serving(home) as server:
                assert await execute(server, "select 1") == [(1,)]
            assert stranger.poll() is None
        finally:
            stranger.kill()


async def test_a_socket_directory_that_was_swept_away_comes_back(home: Path) -> None:
    async with serving(home) as server:
        shutil.rmtree(server.info()["socket directory"])
        await server.restart()
        assert await execute(server, "select 1") == [(1,)]


@root_only
async def test_a_half_made_copy_of_the_binaries_is_made_again(
    new_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binaries, "ROOT_BASE", tmp_path / "base")
    half = tmp_path / "base/binaries" / f"{binaries._build_key(binaries.find_wheel()[0])}.partial"
    half.mkdir(parents=True)
    (half / "rubbish").touch()
    copies = binaries.locate()
    assert os.access(copies.program("postgres"), os.X_OK)
    assert not half.exists()
    assert binaries.locate() == copies


# --- other people


async def test_a_wrong_password_is_refused(home: Path) -> None:
    async with serving(home) as server:
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            await psycopg.AsyncConnection.connect(make_conninfo(server.dsn, password="guess"))


@root_only
@pytest.mark.parametrize("uid", [12345, 65534])
async def test_another_user_of_the_machine_can_neither_connect_nor_read(home: Path, uid: int) -> None:
    async with serving(home) as server:
        info = server.info()
        socket = Path(info["socket directory"]) / ".s.PGSQL.5432"
        tries = [
            f"import socket; socket.socket(socket.AF_UNIX).connect({str(socket)!r})",
            f"open({info['data directory'] + '/pg_hba.conf'!r})",
            f"open({info['password in']!r})",
            f"open({info['passwords of the writer and reader in']!r})",
        ]
        for code in tries:
            completed = subprocess.run(
                ["/usr/bin/python3", "-c", code], cwd="/", user=uid, group=uid, extra_groups=[],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            assert "PermissionError" in completed.stderr


@root_only
async def test_a_home_of_another_user_is_refused_and_left_alone(new_home: Path) -> None:
    (new_home / "postgres").mkdir(parents=True)
    os.chown(new_home / "postgres", 12345, 12345)
    with pytest.raises(DatabaseUnavailable, match="belongs to uid 12345"):
        await EmbeddedServer.start(new_home)
    assert list((new_home / "postgres").iterdir()) == []


async def test_a_squatted_socket_directory_is_not_trusted(home: Path, tmp_path: Path) -> None:
    async with serving(home) as server:
        usual = Path(server.info()["socket directory"])
    (tmp_path / "trap").mkdir()
    usual.symlink_to(tmp_path / "trap")
    try:
        async with serving(home) as server:
            assert Path(server.info()["socket directory"]) != usual
            assert await execute(server, "select 1") == [(1,)]
        assert list((tmp_path / "trap").iterdir()) == []
    finally:
        usual.unlink()


def test_a_long_log_is_moved_aside_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper_process, "LOG_LIMIT", 3)
    log = tmp_path / "server.log"
    for text, current, before in (("abc", "abc", None), ("abcd", "", "abcd"), ("efgh", "", "efgh")):
        log.write_text(text)
        keeper_process.rotate_log(log)
        old = tmp_path / "server.log.1"
        assert (log.read_text(), old.read_text() if old.exists() else None) == (current, before)


# --- what it says when it cannot


async def test_a_home_that_is_a_file_is_named(new_home: Path) -> None:
    new_home.touch()
    with pytest.raises(DatabaseUnavailable, match=r"home: something else is in the way.*CONSOLIDATOR_HOME"):
        await EmbeddedServer.start(new_home)


@not_root
async def test_a_home_that_is_not_writable_is_named(new_home: Path) -> None:
    new_home.mkdir(mode=0o500)
    with pytest.raises(DatabaseUnavailable, match=r"home: it is not writable .*CONSOLIDATOR_HOME"):
        await EmbeddedServer.start(new_home)


async def test_a_vanished_cluster_is_not_silently_replaced_by_an_empty_one(home: Path) -> None:
    async with serving(home) as server:
        data = Path(server.info()["data directory"])
    shutil.rmtree(data)
    with pytest.raises(DatabaseUnavailable, match=r"which is gone; bring it back"):
        await EmbeddedServer.start(home)


async def test_a_cluster_of_another_version_is_refused(home: Path) -> None:
    async with serving(home) as server:
        data = Path(server.info()["data directory"])
    (data / "PG_VERSION").write_text("9\n")
    with pytest.raises(DatabaseUnavailable, match=r"was made by PostgreSQL 9"):
        await EmbeddedServer.start(home)


async def test_a_server_that_cannot_start_says_why(home: Path) -> None:
    async with serving(home) as server:
        data = Path(server.info()["data directory"])
    with (data / "postgresql.conf").open("a") as file:
        file.write("shared_buffers = 'many'\n")
    with pytest.raises(DatabaseUnavailable, match=r"invalid value for parameter \"shared_buffers\""):
        await EmbeddedServer.start(home)
    assert keepers(home) == []


async def test_a_damaged_password_file_is_named(home: Path) -> None:
    async with serving(home):
        pass
    (home / "postgres/cluster.json").write_text("{")
    with pytest.raises(DatabaseUnavailable, match=r"cluster.json is damaged"):
        await EmbeddedServer.start(home)


@pytest.fixture
def small_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], Path]]:
    """Mount a disk of so many megabytes for root's clusters."""
    mounted = []

    def mount(megabytes: int) -> Path:
        folder = Path(f"/tmp/consolidator-test-{os.getpid()}")
        folder.mkdir(mode=0o755)
        completed = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=755", "tmpfs", str(folder)],
            check=False, capture_output=True,
        )  # fmt: skip
        if completed.returncode != 0:
            folder.rmdir()
            pytest.skip("may not mount a small disk here")
        mounted.append(folder)
        monkeypatch.setattr(cluster, "CLUSTERS", folder / "clusters")
        return folder

    yield mount
    for folder in mounted:
        subprocess.run(["umount", str(folder)], check=True)
        folder.rmdir()


def fill(file: Path) -> None:
    with file.open("wb", buffering=0) as raw:
        while True:
            raw.write(b"x" * 4096)


@root_only
async def test_a_full_disk_is_named_when_the_cluster_is_made(new_home: Path, small_disk: Callable[[int], Path]) -> None:
    folder = small_disk(12)
    with pytest.raises(DatabaseUnavailable, match="the disk is full; free at least"):
        await EmbeddedServer.start(new_home)
    assert list(folder.glob("clusters/*/initdb-*")) == []


@root_only
async def test_a_full_disk_is_named_at_a_start_and_room_made_on_it_is_enough(
    new_home: Path, small_disk: Callable[[int], Path]
) -> None:
    folder = small_disk(80)
    async with serving(new_home) as server:
        await remember(server, "kept")
    filler = folder / "filler"
    with pytest.raises(OSError, match="No space left"):
        fill(filler)
    with pytest.raises(DatabaseUnavailable, match="the disk is full; free at least"):
        await EmbeddedServer.start(new_home)
    filler.unlink()
    async with serving(new_home) as server:
        assert await remembered(server) == ["kept"]
