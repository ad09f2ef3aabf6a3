"""One cluster for each home: where its data is, whose it is, its password, and how it is made.

A home keeps its cluster in `postgres/data`. Root's clusters are in /var/lib/consolidator/clusters, since the account
that runs them cannot enter root's homes; `postgres/cluster.json` in the home says which is whose.
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
from consolidator.database.embedded.binaries import MAJOR, ROOT_BASE, Binaries, own_directory
from consolidator.database.embedded.error_messages import MOVE_HOME, NOT_AS_ROOT, from_os_error, from_output
from consolidator.errors import DatabaseUnavailable

USER = "consolidator"
CLUSTERS = ROOT_BASE / "clusters"
INITDB_SECONDS = 600

# Written to postgresql.conf once, for people to tune; what must hold stands on the command line of every start.
TUNABLE = {
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
    def keep(self) -> Path:
        """The directory of the home that holds locks, password and log."""
        return keep_of(self.home)

    @property
    def log(self) -> Path:
        """What the server has to say."""
        return self.keep / "server.log"


def _is_root() -> bool:
    return os.geteuid() == 0


def _instead() -> str:
    """Return what to advise where the cluster cannot be: another home does not help root."""
    return NOT_AS_ROOT if _is_root() else MOVE_HOME


def keep_of(home: Path) -> Path:
    """Return the directory of a home that is ours."""
    return home / "postgres"


def prepare(home: Path) -> Path:
    """Make the home, mode 0700, and our directory in it where they are missing; return the home with links resolved.

    The mode of a home that exists is left alone.
    """
    if "\n" in str(home):
        raise DatabaseUnavailable(f"PostgreSQL cannot live in a path with a line break: {str(home)!r}; choose another")
    try:
        home = home.expanduser().absolute()
        home.parent.mkdir(parents=True, exist_ok=True)
        home.mkdir(mode=0o700, exist_ok=True)
        home = home.resolve()
        keep_of(home).mkdir(mode=0o700, exist_ok=True)
        _check_owner(keep_of(home))
    except OSError as error:
        raise from_os_error("keep the database", home, error) from error
    return home


def prepare_cluster(home: Path, binaries: Binaries) -> Cluster:
    """Return the cluster of a prepared home, made first if it has none; the caller holds the `starting` lock.

    Raises DatabaseUnavailable where a cluster that was there is gone, is a copy's, or is of another version.
    """
    try:
        record = _read(home)
        data = Path(record["data"]) if record["data"] else keep_of(home) / "data"
        if _is_root():
            _settle_root(home, data, record)
        _sweep(keep_of(home))
        _sweep(data.parent)
        if not data.exists():
            if record["made"]:
                raise DatabaseUnavailable(
                    f"the database of {home} was in {data}, which is gone; bring it back from its volume or a backup, "
                    f"or remove {keep_of(home)} to begin with an empty one"
                )
            _make(data, record, home, binaries)
        cluster = Cluster(home, record["identity"], record["password"], data, _owner(data))
        if not record["made"]:
            _write(home, {**record, "made": True})
    except OSError as error:
        raise from_os_error("keep the database", CLUSTERS if _is_root() else home, error, _instead()) from error
    _check_version(data)
    return cluster


def orphans() -> list[Path]:
    """Return root's clusters whose home no longer knows them; they are kept until a person removes them."""
    found = []
    for path in sorted(CLUSTERS.glob("*")) if _is_root() else []:
        try:
            told = json.loads((path / "home.json").read_text())
            record = json.loads((keep_of(Path(told["home"])) / "cluster.json").read_text())
            known = record["identity"] == told["identity"]
        except (OSError, ValueError, KeyError):
            known = False
        if not known:
            found.append(path)
    return found


def discard(cluster: Cluster) -> None:
    """Delete a stopped cluster and everything in it; the caller holds the `starting` lock, which goes last."""
    shutil.rmtree(cluster.data if cluster.data.parent == cluster.keep else cluster.data.parent)
    shutil.rmtree(cluster.keep)


def _read(home: Path) -> dict[str, Any]:
    """Return what the home says of its cluster; a home that says nothing gets an identity and a password."""
    path = keep_of(home) / "cluster.json"
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        identity = secrets.token_hex(16)
        data = None
        if _is_root():
            name = hashlib.sha256(os.fsencode(home)).hexdigest()[:16]
            data = str(CLUSTERS / f"{name}-{identity[:8]}" / "data")
        record = {"identity": identity, "password": secrets.token_urlsafe(32), "data": data, "made": False}
        _write(home, record)
        return record
    with open(fd, encoding="utf-8") as file:
        _check_owner(path, os.fstat(file.fileno()))
        try:
            found = json.load(file)
            return {name: found[name] for name in ("identity", "password", "data", "made")}
        except (ValueError, KeyError, TypeError) as error:
            raise DatabaseUnavailable(
                f"{path} is damaged ({error}); it holds the password of the database: restore it from a backup"
            ) from error


def _write(home: Path, record: dict[str, Any]) -> None:
    _replace(keep_of(home) / "cluster.json", record)


def _replace(path: Path, content: dict[str, Any]) -> None:
    """Write a file of mode 0600 that is either there in full or not at all."""
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
    _sync(path.parent)


def _check_owner(path: Path, found: os.stat_result | None = None) -> None:
    uid = (found or path.stat(follow_symlinks=False)).st_uid
    if uid != os.geteuid():
        raise DatabaseUnavailable(
            f"{path} belongs to uid {uid} and we are uid {os.geteuid()}: run this as that user, "
            f"or set CONSOLIDATOR_HOME to a directory of your own"
        )


def _settle_root(home: Path, data: Path, record: dict[str, Any]) -> None:
    """Have root's directory for the cluster, and see that this home is the one that it belongs to."""
    place = data.parent
    if record["made"] and not place.exists():
        return  # the caller says that it is gone
    own_directory(ROOT_BASE, 0o755)
    own_directory(CLUSTERS, 0o711)
    place.mkdir(mode=0o700, exist_ok=True)
    note = place / "home.json"
    told = _told(note)
    if told is not None and told != home and _same_identity(told, record["identity"]) and not told.samefile(home):
        raise DatabaseUnavailable(
            f"{home} is a copy of {told}, whose database is in {data}: remove {keep_of(home)} to begin with an empty "
            f"one there, or set CONSOLIDATOR_HOME to {told}"
        )
    if told != home:
        _replace(note, {"home": str(home), "identity": record["identity"]})


def _told(note: Path) -> Path | None:
    """Return the home that a cluster was last used from."""
    try:
        return Path(json.loads(note.read_text())["home"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _same_identity(home: Path, identity: str) -> bool:
    try:
        found = json.loads((keep_of(home) / "cluster.json").read_text())
        return bool(found["identity"] == identity)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _owner(data: Path) -> Account:
    """Return who runs the cluster: whoever owns its data."""
    found = data.stat(follow_symlinks=False)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid == 0 or os.geteuid() not in (0, found.st_uid):
        raise DatabaseUnavailable(
            f"{data} must be a directory of an unprivileged user, and of ours if we are one; it belongs to uid "
            f"{found.st_uid}: give it back with chown -R"
        )
    return Account(found.st_uid, found.st_gid)


def _check_version(data: Path) -> None:
    try:
        found = (data / "PG_VERSION").read_text().strip()
    except OSError as error:
        raise DatabaseUnavailable(
            f"{data} is not a cluster of PostgreSQL ({error}); restore it from a backup"
        ) from error
    if found != MAJOR:
        raise DatabaseUnavailable(
            f"{data} was made by PostgreSQL {found}, and the programs installed are {MAJOR}; "
            f"install the consolidator that made it, export there and import here"
        )


def _sweep(directory: Path) -> None:
    """Remove what an interrupted initdb or write left; what an initdb is still writing goes the next time."""
    for pattern in ("initdb-*", ".*.json.*"):
        for path in directory.glob(pattern):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def _make(data: Path, record: dict[str, Any], home: Path, binaries: Binaries) -> None:
    """Make a cluster beside `data` and rename it, so that one which was interrupted is never taken for complete."""
    owner = account.for_new_cluster()
    worker = account.for_initdb(owner)
    if _is_root():  # the owner's group may pass through, and nobody else
        os.chown(data.parent, 0, owner.gid)
        data.parent.chmod(0o710)
    workshop = Path(tempfile.mkdtemp(prefix="initdb-", dir=data.parent))
    try:
        secret = workshop / "password"
        secret.touch(mode=0o600)
        secret.write_text(record["password"])
        if _is_root():
            os.chown(secret, worker.uid, worker.gid)
            os.chown(workshop, worker.uid, worker.gid)
        if len(os.fsencode(workshop)) > sockets.LONGEST_PATH:
            socket = sockets.directory(record["identity"], home, owner)
            _initdb(sockets.shortened(workshop, socket, "initdb"), worker, binaries)
        else:
            _initdb(workshop, worker, binaries)
        if worker != owner:
            _give(workshop / "data", owner)
        (workshop / "data").rename(data)
        _sync(data.parent)
    finally:
        shutil.rmtree(workshop, ignore_errors=True)


def _initdb(workshop: Path, worker: Account, binaries: Binaries) -> None:
    """Run initdb in a directory that holds the password, out of reach of a terminal's Ctrl-C: that is for us."""
    command = [binaries.program("initdb"), "-D", str(workshop / "data"), "-U", USER]
    command += [f"--pwfile={workshop / 'password'}", "--auth-local=scram-sha-256", "--auth-host=scram-sha-256"]
    command += ["--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    command += [word for name, value in TUNABLE.items() for word in ("--set", f"{name}={value}")]
    doing = "make a database cluster"
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=INITDB_SECONDS, cwd="/",
            stdin=subprocess.DEVNULL, env=environment(), umask=0o077, start_new_session=True, **worker.credentials(),
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        raise from_output(doing, workshop.parent, f"{command[0]}: {error}", _instead()) from error
    if done.returncode != 0:
        raise from_output(doing, workshop.parent, done.stderr or done.stdout, _instead())


def environment() -> dict[str, str]:
    """Return the environment of PostgreSQL's programs: nothing of ours may reconfigure them."""
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    return {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC", **kept}


def _give(tree: Path, owner: Account) -> None:
    """Give a tree to its owner, following no link."""
    for _, directories, files, fd in os.fwalk(tree):
        for name in directories + files:
            os.chown(name, owner.uid, owner.gid, dir_fd=fd, follow_symlinks=False)
    os.chown(tree, owner.uid, owner.gid, follow_symlinks=False)


def _sync(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
