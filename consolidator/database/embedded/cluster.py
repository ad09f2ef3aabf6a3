"""The database cluster of a home: its data directory, owner and password, and how it is created.

A home keeps its cluster in `postgres/data`. Root's clusters are in /var/lib/consolidator/clusters, since the account
that runs them cannot read root's homes; `postgres/cluster.json` in the home says where its cluster is.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import stat
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from consolidator.database.embedded import account, sockets
from consolidator.database.embedded.account import Account
from consolidator.database.embedded.binaries import MAJOR, ROOT_BASE, Binaries, ensure_owned_directory
from consolidator.database.embedded.unavailable import MOVE_HOME, NOT_AS_ROOT, from_os_error, from_output
from consolidator.errors import DatabaseUnavailable

USER = "consolidator"
CLUSTERS = ROOT_BASE / "clusters"
INITDB_SECONDS = 600
TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm")

# Written to postgresql.conf once, for people to tune; `startup.ENFORCED_SETTINGS` go on the command line.
DEFAULT_SETTINGS = {
    "shared_buffers": "128MB",
    "max_connections": "50",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_logical_replication_workers": "0",
    "io_method": "sync",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
}


@dataclass(frozen=True, slots=True)
class Cluster:
    """A home's cluster."""

    home: Path  # absolute, links resolved
    identity: str
    password: str = field(repr=False)
    data: Path
    owner: Account

    @property
    def state_dir(self) -> Path:
        """The directory of the home that holds locks, password and log."""
        return state_dir_of(self.home)

    @property
    def log_path(self) -> Path:
        """The server's log file."""
        return self.state_dir / "server.log"


def _is_root() -> bool:
    return os.geteuid() == 0


def _advice() -> str:
    """Return the advice for a directory that cannot hold the cluster: another home does not help root."""
    return NOT_AS_ROOT if _is_root() else MOVE_HOME


def state_dir_of(home: Path) -> Path:
    """Return the directory of a home that holds the server's state."""
    return home / "postgres"


def prepare_home(home: Path) -> Path:
    """Create the home (mode 0700) and its state directory if they are missing; return the home with links resolved.

    The mode of an existing home is not changed.
    """
    if "\n" in str(home):
        raise DatabaseUnavailable(f"PostgreSQL cannot live in a path with a line break: {str(home)!r}; choose another")
    try:
        home = home.expanduser().absolute()
        home.parent.mkdir(parents=True, exist_ok=True)
        home.mkdir(mode=0o700, exist_ok=True)
        home = home.resolve()
        state_dir_of(home).mkdir(mode=0o700, exist_ok=True)
        _check_owner(state_dir_of(home))
    except OSError as error:
        raise from_os_error("keep the database", home, error) from error
    return home


def prepare_cluster(home: Path, binaries: Binaries) -> Cluster:
    """Return the cluster of a prepared home, creating it if it has none; the caller holds the `starting` lock.

    Raises DatabaseUnavailable if its cluster is gone, belongs to the home that this is a copy of, or is of another
    PostgreSQL version.
    """
    try:
        record = _read_record(home)
        data = Path(record["data"]) if record["data"] else state_dir_of(home) / "data"
        if _is_root():
            _prepare_root_directory(home, data, record)
        _remove_leftovers(state_dir_of(home))
        _remove_leftovers(data.parent)
        if not data.exists():
            if record["made"]:
                raise DatabaseUnavailable(
                    f"the database of {home} was in {data}, which is gone; bring it back from its volume or a backup, "
                    f"or remove {state_dir_of(home)} to begin with an empty one"
                )
            _create_cluster(data, record, home, binaries)
        cluster = Cluster(home, record["identity"], record["password"], data, _data_owner(data))
        if not record["made"]:
            _write_record(home, {**record, "made": True})
    except OSError as error:
        raise from_os_error("keep the database", CLUSTERS if _is_root() else home, error, _advice()) from error
    _check_version(data)
    return cluster


def role_passwords(cluster: Cluster) -> dict[str, str]:
    """Return the passwords of the roles that are not the owner; empty where there are none yet."""
    try:
        return dict(json.loads(_read_own(cluster.state_dir / "roles.json") or "{}"))
    except (ValueError, TypeError):
        return {}  # damaged: they get new ones


def save_role_passwords(cluster: Cluster, passwords: dict[str, str]) -> None:
    """Store the passwords of the roles, in a file of mode 0600."""
    _write_json(cluster.state_dir / "roles.json", passwords)


def list_orphans() -> list[Path]:
    """Return root's clusters that no home refers to any more; a person removes them, but for those `list_abandoned`."""
    clusters = sorted(CLUSTERS.glob("*")) if _is_root() else []
    notes = {path: _read_note(path / "home.json") for path in clusters}
    return [
        path
        for path, note in notes.items()
        if "home" not in note or not _has_identity(Path(note["home"]), note.get("identity"))
    ]


def list_abandoned() -> list[Cluster]:
    """Return the orphans whose home was in a directory for temporary files, as of a test: nothing brings it back."""
    abandoned = []
    for path in list_orphans():
        note, data = _read_note(path / "home.json"), path / "data"
        home = Path(note.get("home", "/"))
        if "identity" in note and any(home.is_relative_to(folder) for folder in TEMPORARY):
            owner = _data_owner(data) if data.exists() else Account(os.geteuid(), os.getegid())
            abandoned.append(Cluster(home, note["identity"], "", data, owner))
    return abandoned


def delete_cluster(cluster: Cluster) -> None:
    """Delete a stopped cluster with all its data; the caller holds the `starting` lock, whose file goes last."""
    shutil.rmtree(cluster.data if cluster.data.parent == cluster.state_dir else cluster.data.parent)
    shutil.rmtree(cluster.state_dir)


def _read_record(home: Path) -> dict[str, Any]:
    """Return the home's record of its cluster; a home without one gets a new identity and password."""
    path = state_dir_of(home) / "cluster.json"
    content = _read_own(path)
    if content is None:
        identity = secrets.token_hex(16)
        data = None
        if _is_root():
            name = hashlib.sha256(os.fsencode(home)).hexdigest()[:16]
            data = str(CLUSTERS / f"{name}-{identity[:8]}" / "data")
        record = {"identity": identity, "password": secrets.token_urlsafe(32), "data": data, "made": False}
        _write_record(home, record)
        return record
    try:
        loaded = json.loads(content)
        return {name: loaded[name] for name in ("identity", "password", "data", "made")}
    except (ValueError, KeyError, TypeError) as error:
        raise DatabaseUnavailable(
            f"{path} is damaged ({error}); it holds the password of the database: restore it from a backup"
        ) from error


def _read_own(path: Path) -> str | None:
    """Return the contents of a file of this user; None if there is none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    with open(fd, encoding="utf-8") as file:
        _check_owner(path, os.fstat(file.fileno()))
        return file.read()


def _write_record(home: Path, record: dict[str, Any]) -> None:
    _write_json(state_dir_of(home) / "cluster.json", record)


def _write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a file of mode 0600 atomically."""
    fd, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(fd, "w", encoding="utf-8") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    _fsync_directory(path.parent)


def _check_owner(path: Path, status: os.stat_result | None = None) -> None:
    uid = (status or path.stat(follow_symlinks=False)).st_uid
    if uid != os.geteuid():
        raise DatabaseUnavailable(
            f"{path} belongs to uid {uid}, and this process runs as uid {os.geteuid()}: run it as that user, "
            f"or set CONSOLIDATOR_HOME to a directory of your own"
        )


def _prepare_root_directory(home: Path, data: Path, record: dict[str, Any]) -> None:
    """Create root's directory for the cluster; raise DatabaseUnavailable if it belongs to another home."""
    directory = data.parent
    if record["made"] and not directory.exists():
        return  # the caller reports that it is gone
    ensure_owned_directory(ROOT_BASE, 0o755)
    ensure_owned_directory(CLUSTERS, 0o711)
    directory.mkdir(mode=0o700, exist_ok=True)
    note = directory / "home.json"
    named = _read_note(note).get("home")
    last_home = Path(named) if isinstance(named, str) else None
    if (
        last_home is not None
        and last_home != home
        and _has_identity(last_home, record["identity"])
        and not last_home.samefile(home)
    ):
        raise DatabaseUnavailable(
            f"{home} is a copy of {last_home}, whose database is in {data}: remove {state_dir_of(home)} to begin with "
            f"an empty one there, or set CONSOLIDATOR_HOME to {last_home}"
        )
    if last_home != home:
        _write_json(note, {"home": str(home), "identity": record["identity"]})


def _read_note(path: Path) -> dict[str, Any]:
    """Return the JSON object that a file holds; an empty one for any other file."""
    try:
        note = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}


def _has_identity(home: Path, identity: str | None) -> bool:
    return identity is not None and _read_note(state_dir_of(home) / "cluster.json").get("identity") == identity


def _data_owner(data: Path) -> Account:
    """Return the account that runs the cluster: the owner of its data."""
    status = data.stat(follow_symlinks=False)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid == 0 or os.geteuid() not in (0, status.st_uid):
        raise DatabaseUnavailable(
            f"{data} must be a directory of an unprivileged user, and of this user if it is one; it belongs to uid "
            f"{status.st_uid}: give it back with chown -R"
        )
    return Account(status.st_uid, status.st_gid)


def _check_version(data: Path) -> None:
    try:
        major = (data / "PG_VERSION").read_text().strip()
    except OSError as error:
        raise DatabaseUnavailable(
            f"{data} is not a cluster of PostgreSQL ({error}); restore it from a backup"
        ) from error
    if major != MAJOR:
        raise DatabaseUnavailable(
            f"{data} was made by PostgreSQL {major}, and the programs installed are {MAJOR}; "
            f"install the consolidator that made it, export there and import here"
        )


def _remove_leftovers(directory: Path) -> None:
    """Remove what an interrupted initdb or write left; what an initdb is still writing goes the next time."""
    for pattern in ("initdb-*", ".*.json.*"):
        for path in directory.glob(pattern):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def _create_cluster(data: Path, record: dict[str, Any], home: Path, binaries: Binaries) -> None:
    """Create a cluster beside `data` and rename it, so that an interrupted one is never taken for complete."""
    owner = account.choose_cluster_owner()
    worker = account.choose_initdb_account(owner)
    if _is_root():  # only the owner's group may pass through
        os.chown(data.parent, 0, owner.gid)
        data.parent.chmod(0o710)
    work_dir = Path(tempfile.mkdtemp(prefix="initdb-", dir=data.parent))
    try:
        password_file = work_dir / "password"
        password_file.touch(mode=0o600)
        password_file.write_text(record["password"])
        if _is_root():
            os.chown(password_file, worker.uid, worker.gid)
            os.chown(work_dir, worker.uid, worker.gid)
        if len(os.fsencode(work_dir)) > sockets.MAX_PATH:
            socket = sockets.ensure_directory(record["identity"], home, owner)
            _run_initdb(sockets.shorten_path(work_dir, socket, "initdb"), worker, binaries)
        else:
            _run_initdb(work_dir, worker, binaries)
        if worker != owner:
            _change_owner(work_dir / "data", owner)
        (work_dir / "data").rename(data)
        _fsync_directory(data.parent)
    finally:
        shutil.rmtree(work_dir, ignore_errors=True)


def _run_initdb(work_dir: Path, worker: Account, binaries: Binaries) -> None:
    """Run initdb in a directory that holds the password, in a session that a terminal's Ctrl-C does not reach."""
    beginning, variables = account.lend_name(worker, work_dir)
    command = [*beginning, binaries.program("initdb"), "-D", str(work_dir / "data"), "-U", USER]
    command += [f"--pwfile={work_dir / 'password'}", "--auth-local=scram-sha-256", "--auth-host=scram-sha-256"]
    command += ["--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    command += [word for name, value in DEFAULT_SETTINGS.items() for word in ("--set", f"{name}={value}")]
    action = "make a database cluster"
    try:
        completed = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=INITDB_SECONDS,
            cwd="/",
            stdin=subprocess.DEVNULL,
            env=environment() | variables,
            umask=0o077,
            start_new_session=True,
            **worker.credentials(),
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise from_output(action, work_dir.parent, f"{command[0]}: {error}", _advice()) from error
    if completed.returncode != 0:
        raise from_output(action, work_dir.parent, completed.stderr or completed.stdout, _advice())


def environment() -> dict[str, str]:
    """Return the environment of PostgreSQL's programs: this process's variables must not reconfigure them."""
    inherited = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    return {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC", **inherited}


def _change_owner(tree: Path, owner: Account) -> None:
    """Change the owner of a directory tree without following links."""
    for _, directories, files, fd in os.fwalk(tree):
        for name in directories + files:
            os.chown(name, owner.uid, owner.gid, dir_fd=fd, follow_symlinks=False)
    os.chown(tree, owner.uid, owner.gid, follow_symlinks=False)


def _fsync_directory(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
