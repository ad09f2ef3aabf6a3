"""A credential's values can be narrowed, never left."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from consolidator.errors import Forbidden, UsageError
from consolidator.models.viewer import OWNER, SCOPES, Scope, Viewer

ONE = Viewer("shop", agent="main", project="/src/shop1", peer="mara")


@pytest.mark.parametrize(
    "wanted",
    [
        {"agent": "other"},
        {"agent": "MAIN"},
        {"agent": ""},
        {"agent": "mai"},
        {"agent": "main "},
        {"project": "/src/shop10"},
        {"project": "shop1"},
        {"project": "/src/shop1/"},
        {"project": "%"},
        {"peer": "maria"},
        {"peer": ""},
        {"peer": "mara\0"},
        {"peer": "*"},
    ],
)
def test_anothers_value_is_refused_and_not_named(wanted: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as refused:
        ONE.narrow(**wanted)
    for secret in ("main", "shop1", "mara", "maria", "other"):
        assert secret not in str(refused.value)


def test_what_is_left_out_is_the_credentials() -> None:
    assert ONE.narrow() == ONE == ONE.narrow(agent="main", project="/src/shop1", peer="mara")
    assert Viewer(agent="main").narrow(peer="mara") == Viewer(agent="main", peer="mara")
    assert OWNER.narrow(project="p") == Viewer(project="p")


@pytest.mark.parametrize("change", [{"agent": "b"}, {"project": "/src/shop10"}, {"peer": "bob"}, {"peer": None}])
def test_what_lies_outside_is_not_reached(change: dict[str, Any]) -> None:
    found: dict[str, Any] = {"agent": "main", "project": "/src/shop1", "peer": "mara"}
    assert ONE.reaches(**found)
    assert OWNER.reaches(**found | change)
    assert not ONE.reaches(**found | change)


@pytest.mark.parametrize(
    ("scopes", "may"),
    [
        ((), ()),
        (("read",), ("read",)),
        (("record",), ("record",)),
        (("write",), ("record", "write")),
        (("admin",), ("admin",)),
    ],
)
def test_a_scope_gives_itself_and_writing_implies_recording(scopes: tuple[Scope, ...], may: tuple[Scope, ...]) -> None:
    viewer = Viewer("shop", frozenset(scopes))
    assert tuple(scope for scope in SCOPES if viewer.may(scope)) == may
    for scope in SCOPES:
        with nullcontext() if scope in may else pytest.raises(Forbidden, match=scope):
            viewer.check_may(scope)


def test_nobody_administers_a_part_of_everything() -> None:
    with pytest.raises(Forbidden, match="no single"):
        Viewer("shop", peer="mara").check_may("admin")


def test_only_an_owner_reaches_everything() -> None:
    assert (OWNER.is_narrowed, ONE.is_narrowed, Viewer(peer="").is_narrowed) == (False, True, True)
