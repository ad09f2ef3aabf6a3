"""deploy/compose.yaml: the service reaches the database, and nobody but this machine reaches the service."""

from __future__ import annotations

import yaml

from tests.unit.project.deploy import DEPLOY, VARIABLES


def test_the_services_have_few_rights_and_settings_that_there_are() -> None:
    """K10."""
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    service, database = compose["services"]["consolidator"], compose["services"]["database"]
    assert service["environment"].keys() <= VARIABLES
    assert service["ports"] == ["127.0.0.1:8377:8377"]
    assert "ports" not in database
    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).is_file()
    assert [volume for volume in service["volumes"] if "/logs" in volume and not volume.endswith(":ro")] == []
    assert {volume.partition(":")[0] for volume in [service["volumes"][0], *database["volumes"]]} == set(
        compose["volumes"]
    )
