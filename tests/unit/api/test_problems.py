"""Every error becomes one kind of problem, and a problem tells nothing that it should not."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from consolidator import errors
from consolidator.api import problems
from consolidator.api.problems import BY_ERROR, KINDS, describe, find_kind, problem_response
from consolidator.errors import ConsolidatorError

SECRET = "ghp_" + "Zk3" * 12


def all_errors(base: type[ConsolidatorError] = ConsolidatorError) -> Iterator[type[ConsolidatorError]]:
    yield base
    for child in base.__subclasses__():
        yield from all_errors(child)


PUBLIC = {error for error in all_errors() if error.__module__ == errors.__name__}  # the others never leave a job


@pytest.mark.parametrize("error", sorted(PUBLIC, key=str))
def test_every_error_is_mapped_by_itself_or_by_what_it_is_a_kind_of(error: type[ConsolidatorError]) -> None:
    kind = find_kind(error("the disk of host db-7 is on fire"))
    assert kind in KINDS
    own = [base for base in error.__mro__ if base in BY_ERROR and base is not ConsolidatorError]
    assert own or error is ConsolidatorError
    told = describe(error("the disk of host db-7 is on fire"))
    assert ("db-7" in told) == (kind.status < 500)


def test_kinds_have_names_of_their_own_and_say_what_to_do() -> None:
    assert len({kind.slug for kind in KINDS}) == len(KINDS)
    assert all(400 <= kind.status <= 599 and kind.title and kind.next_step.endswith(".") for kind in KINDS)


def test_a_problem_is_a_document_without_secrets_of_bounded_size() -> None:
    path = "/v1/sessions/\ud800"
    response = problem_response(problems.INVALID, f"{SECRET} " + "x" * 10_000, path, errors=[])
    document = json.loads(bytes(response.body))
    assert response.headers["content-type"] == "application/problem+json"
    assert set(document) == {"type", "title", "status", "detail", "instance", "next", "errors"}
    assert SECRET not in document["detail"]
    assert len(document["detail"]) <= 2000


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.Forbidden, 403),
        (errors.NotFound, 404),
        (errors.HeadConflict, 409),
        (errors.SessionClosed, 409),
        (errors.SessionBusy, 409),
        (errors.UsageError, 422),
        (errors.KeyReused, 422),
        (errors.InvalidCursor, 400),
        (errors.DatabaseUnavailable, 503),
        (errors.DiskFull, 507),
        (errors.ModelRefused, 502),
    ],
)
def test_what_went_wrong_decides_the_status(error: type[ConsolidatorError], status: int) -> None:
    assert find_kind(error("x")).status == status
