"""The account that runs the server: this user or, for root, an unprivileged one that nothing else uses.

PostgreSQL refuses root. Other services of the machine share `nobody` and could read the cluster, so an unassigned uid
is used unless the operator has created a user `consolidator`. No account is ever created.
"""

from __future__ import annotations

import grp
import os
import pwd
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from consolidator.database.embedded.unavailable import ELSEWHERE
from consolidator.errors import DatabaseUnavailable

ACCOUNT_NAME = "consolidator"
UNASSIGNED_UIDS = range(60706, 61184)  # unused, according to systemd's table of uids


class Credentials(TypedDict, total=False):
    """Arguments of `subprocess` that make the child run as an account."""

    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True, slots=True)
class Account:
    """A uid and its gid."""

    uid: int
    gid: int

    def credentials(self) -> Credentials:
        """Return the arguments with which `subprocess` runs as this account; none if it is the current one."""
        if self.uid == os.geteuid():
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def __str__(self) -> str:
        try:
            return f"{pwd.getpwuid(self.uid).pw_name} (uid {self.uid})"
        except KeyError:
            return f"uid {self.uid}"


def choose_cluster_owner() -> Account:
    """Return the account that will own a new cluster."""
    if os.geteuid() != 0:
        return Account(os.geteuid(), os.getegid())
    try:
        entry = pwd.getpwnam(ACCOUNT_NAME)
    except KeyError:
        return _find_free_uid()
    return Account(entry.pw_uid, entry.pw_gid)


def choose_initdb_account(owner: Account) -> Account:
    """Return the account that runs initdb for `owner`: root lends it to a uid that has a name, which initdb needs."""
    if os.geteuid() != 0 or _has_name(owner.uid):
        return owner
    # The owner's gid, which nobody else has, gives access to the directory that initdb works in.
    return Account(_find_named_uid(), owner.gid)


def lend_name(account: Account, directory: Path) -> tuple[list[str], dict[str, str]]:
    """Return the beginning of a command, and variables, by which initdb finds a name of an account that has none.

    libnss_wrapper reads it from files that are written to the directory; where it is not installed, a user namespace
    shows initdb another uid, where the kernel allows one. Raises DatabaseUnavailable where neither is so.
    """
    if _has_name(account.uid):
        return [], {}
    users, groups = directory / "passwd", directory / "group"
    users.write_text(f"{ACCOUNT_NAME}:x:{account.uid}:{account.gid}::/:/bin/false\n")
    groups.write_text(f"{ACCOUNT_NAME}:x:{account.gid}:\n")
    wrapper = {"LD_PRELOAD": "libnss_wrapper.so", "NSS_WRAPPER_PASSWD": str(users), "NSS_WRAPPER_GROUP": str(groups)}
    if _succeeds(["getent", "passwd", str(account.uid)], wrapper):
        return [], wrapper
    namespace = ["unshare", "--user", f"--map-user={_find_named_uid()}", "--"]
    if _succeeds([*namespace, "true"], {}):
        return namespace, {}
    raise DatabaseUnavailable(
        f"PostgreSQL needs a name for uid {account.uid}, and /etc/passwd has none: run this as a user that has one, "
        f"install libnss-wrapper, {ELSEWHERE}"
    )


def _succeeds(command: list[str], variables: dict[str, str]) -> bool:
    try:
        done = subprocess.run(command, env={"PATH": "/usr/bin:/bin", **variables}, capture_output=True, check=False)
    except OSError:
        return False
    return done.returncode == 0


def _has_name(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def _find_named_uid() -> int:
    """Return the uid of a user that has a name and is not root: nobody's, if there is one."""
    named_users = [entry for entry in pwd.getpwall() if entry.pw_uid != 0]
    if not named_users:
        raise DatabaseUnavailable(
            f"/etc/passwd names no user but root, and PostgreSQL refuses root; add one, {ELSEWHERE}"
        )
    return max(named_users, key=lambda entry: entry.pw_name == "nobody").pw_uid


def _find_free_uid() -> Account:
    for number in UNASSIGNED_UIDS:
        if not _has_name(number):
            try:
                grp.getgrgid(number)
            except KeyError:
                return Account(number, number)
    raise DatabaseUnavailable(
        f"no uid from {UNASSIGNED_UIDS.start} to {UNASSIGNED_UIDS.stop} is free; "
        f"add a user named {ACCOUNT_NAME!r}, {ELSEWHERE}"
    )
