"""What the tests of deploy/ share: where the files are, and what the settings say that they must say too."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from consolidator.jobs import cron
from consolidator.settings import Settings

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
DEFAULTS = {name: field.default for name, field in Settings.model_fields.items()}
VARIABLES = {f"CONSOLIDATOR_{name.upper()}" for name in DEFAULTS}
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


def cron_of(job: str) -> str:
    """Return the settings' default of a job."""
    return str(DEFAULTS[f"{job}_cron"])


def next_of(job: str) -> datetime:
    """Return when the settings run a job after new year."""
    found = cron.next_due(cron_of(job), str(DEFAULTS["timezone"]), NEW_YEAR)
    assert found is not None
    return found


def manifests() -> list[dict[str, Any]]:
    """Return every object of the manifests."""
    texts = [path.read_text() for path in sorted((DEPLOY / "kubernetes").glob("*.yaml"))]
    return [one for text in texts for one in yaml.safe_load_all(text)]


def of_kind(kind: str) -> list[dict[str, Any]]:
    """Return the objects of a kind."""
    return [one for one in manifests() if one["kind"] == kind]


def pods() -> list[tuple[str, dict[str, Any]]]:
    """Return the pods' specifications with the names of their owners."""
    found = [(one["metadata"]["name"], one["spec"]["jobTemplate"]["spec"]) for one in of_kind("CronJob")]
    found += [(one["metadata"]["name"], one["spec"]) for one in of_kind("Deployment")]
    return [(name, spec["template"]["spec"]) for name, spec in found]


def container(pod: dict[str, Any]) -> dict[str, Any]:
    """Return a pod's only container."""
    (found,) = pod["containers"]
    assert isinstance(found, dict)
    return found


def instructions() -> list[tuple[str, str]]:
    """Return the Dockerfile's instructions with their arguments, continued lines joined."""
    text = re.sub(r"^\s*#.*\n", "", (DEPLOY / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    found = [line.split(None, 1) for line in text.splitlines() if line.strip()]
    return [(name, " ".join(rest.split())) for name, rest in found]


def last(name: str) -> str:
    """Return the arguments of the last instruction of that name."""
    return [rest for found, rest in instructions() if found == name][-1]


def healthcheck() -> list[str]:
    """Return the command that tells whether the container is well."""
    command: list[str] = yaml.safe_load(last("HEALTHCHECK").split("CMD ", 1)[1])
    return command
