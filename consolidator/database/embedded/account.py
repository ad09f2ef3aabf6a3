"""The account that runs the server: this user or, for root, an unprivileged one that nothing else uses.

PostgreSQL refuses root. Other services of the machine share `nobody` and could read the cluster, so an unassigned uid
is used unless the operator has created a user `consolidator`. No account is ever created.
"""

from __future__ import annotations

import grp
import os
import pwd
from dataclasses import dataclass
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
    """Return the account that runs initdb for `owner`: initdb needs a uid that has a name."""
    try:
        pwd.getpwuid(owner.uid)
    except KeyError:
        named_users = [entry for entry in pwd.getpwall() if entry.pw_uid != 0]
        if not named_users:
            raise DatabaseUnavailable(
                f"/etc/passwd names no user but root, and PostgreSQL refuses root; add one, {ELSEWHERE}"
            ) from None
        # The owner's gid, which nobody else has, gives access to the directory that initdb works in.
        return Account(max(named_users, key=lambda entry: entry.pw_name == "nobody").pw_uid, owner.gid)
    return owner


def _find_free_uid() -> Account:
    for number in UNASSIGNED_UIDS:
        try:
            pwd.getpwuid(number)
        except KeyError:
            try:
                grp.getgrgid(number)
            except KeyError:
                return Account(number, number)
    raise DatabaseUnavailable(
        f"no uid from {UNASSIGNED_UIDS.start} to {UNASSIGNED_UIDS.stop} is free; "
        f"add a user named {ACCOUNT_NAME!r}, {ELSEWHERE}"
    )
