"""Who the server runs as: ourselves, or, for root, an unprivileged account that nobody else uses.

PostgreSQL refuses root. `nobody` is shared with other services of the machine, which could then read the cluster, so
a uid without a name is taken unless the operator has made a user `consolidator`. No account is ever created.
"""

from __future__ import annotations

import grp
import os
import pwd
from dataclasses import dataclass
from typing import TypedDict

from consolidator.database.embedded.error_messages import ELSEWHERE
from consolidator.errors import DatabaseUnavailable

NAME = "consolidator"
UNNAMED = range(60706, 61184)  # systemd's table of uids lists these as unused


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
        """Return what `subprocess` needs to run as this account; nothing where it is our own."""
        if self.uid == os.geteuid():
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def __str__(self) -> str:
        try:
            return f"{pwd.getpwuid(self.uid).pw_name} (uid {self.uid})"
        except KeyError:
            return f"uid {self.uid}"


def for_new_cluster() -> Account:
    """Return the account that owns a cluster made now."""
    if os.geteuid() != 0:
        return Account(os.geteuid(), os.getegid())
    try:
        entry = pwd.getpwnam(NAME)
    except KeyError:
        return _unnamed()
    return Account(entry.pw_uid, entry.pw_gid)


def for_initdb(owner: Account) -> Account:
    """Return who runs initdb for `owner`: it wants a uid with a name, if only to look it up."""
    try:
        pwd.getpwuid(owner.uid)
    except KeyError:
        named = [entry for entry in pwd.getpwall() if entry.pw_uid != 0]
        if not named:
            raise DatabaseUnavailable(
                f"/etc/passwd names no user but root, and PostgreSQL refuses root; add one, {ELSEWHERE}"
            ) from None
        # The owner's gid, which nobody else has, is the key to the directory that initdb works in.
        return Account(max(named, key=lambda entry: entry.pw_name == "nobody").pw_uid, owner.gid)
    return owner


def _unnamed() -> Account:
    for number in UNNAMED:
        try:
            pwd.getpwuid(number)
        except KeyError:
            try:
                grp.getgrgid(number)
            except KeyError:
                return Account(number, number)
    raise DatabaseUnavailable(
        f"no uid from {UNNAMED.start} to {UNNAMED.stop} is free; add a user named {NAME!r}, {ELSEWHERE}"
    )
