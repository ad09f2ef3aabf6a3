"""Which project a name means."""

from __future__ import annotations

import pytest

from consolidator.errors import UsageError
from consolidator.store.sessions.projects import match_project

PATHS = ("/srv/shop1", "/srv/shop10", "/srv/op1", "/home/ada/Shop", "/old/api", "/new/api", "C:\\work\\till")
KNOWN = (*PATHS, "label", "a_b", "a%")


@pytest.mark.parametrize(
    ("name", "project"),
    [
        ("op1", "/srv/op1"),
        ("shop1", "/srv/shop1"),
        ("shop10", "/srv/shop10"),
        ("/srv/shop1", "/srv/shop1"),
        ("/srv/shop1/", "/srv/shop1"),
        ("shop1/", "/srv/shop1"),
        ("Shop", "/home/ada/Shop"),
        ("till", "C:\\work\\till"),
        ("label", "label"),
        ("a_b", "a_b"),
        ("a%", "a%"),
        ("/new/api", "/new/api"),
    ],
)
def test_a_path_or_its_last_part_is_meant(name: str, project: str) -> None:
    assert match_project(name, KNOWN) == project


@pytest.mark.parametrize(
    "name", ["shop", "SHOP1", "hop1", "srv", "srv/shop1", "1", "axb", "%", "_", "a_", "shop%", "/", "api2", "/srv", "."]
)
def test_a_part_of_a_name_or_another_spelling_means_no_project(name: str) -> None:
    assert match_project(name, KNOWN) == name


def test_a_name_that_several_projects_have_is_refused_and_lists_them() -> None:
    with pytest.raises(UsageError, match=r"'api' names several projects \(/new/api, /old/api\)"):
        match_project("api", KNOWN)
    with pytest.raises(UsageError, match="several"):
        match_project("/srv/x", ["/srv/x/", "/srv/x//"])
    assert match_project("api", [*KNOWN, "api"]) == "api"  # a whole name goes first
