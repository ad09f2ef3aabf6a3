"""One service for each module of tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.acceptance.api.server import ApiServer, serve
from tests.databases import database_copy


@pytest.fixture(scope="module")
def module_dsn(server_dsn: str, template: str) -> Iterator[str]:
    """A migrated database of the module's own."""
    with database_copy(server_dsn, template) as address:
        yield address


@pytest.fixture(scope="module")
def api(module_dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """The service of a module."""
    with serve(module_dsn, tmp_path_factory.mktemp("api")) as server:
        yield server
