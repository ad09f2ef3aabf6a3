"""Finds the branches of a log that is a tree: what a person went back from."""

from __future__ import annotations

from collections.abc import Callable, Mapping


def find_branches(
    parents: Mapping[str, str | None], last: str | None, may_begin: Callable[[str], bool] = lambda _: True
) -> tuple[dict[str, str], dict[str, str | None]]:
    """Return by abandoned entry the one that its branch begins with, and by that one the branch which it left.

    `parents` has each entry after its parent. Abandoned is what the last entry does not come from; a branch left the
    session itself where it left None.
    """
    active: set[str] = set()
    while last is not None and last not in active:
        active.add(last)
        last = parents.get(last)
    branches: dict[str, str] = {}
    left: dict[str, str | None] = {}
    continued: set[str] = set()  # abandoned entries that have one after them on their branch
    for entry, parent in parents.items():
        if entry in active:
            continue
        branch = None if parent is None else branches.get(parent)
        if may_begin(entry) and (branch is None or parent in continued):
            branches[entry], left[entry] = entry, branch
        elif branch is not None:
            branches[entry] = branch
        if branch is not None and parent is not None:
            continued.add(parent)
    return branches, left
