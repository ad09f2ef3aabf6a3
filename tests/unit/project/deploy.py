"""What the tests of deploy/ share: its parsed files, and the defaults of the settings that they must repeat."""

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


def default_cron(job: str) -> str:
    """Return the default cron expression of a job."""
    return str(DEFAULTS[f"{job}_cron"])


def next_run(job: str) -> datetime:
    """Return when a job is first due after New Year by default."""
    due = cron.next_due(default_cron(job), str(DEFAULTS["timezone"]), NEW_YEAR)
    assert due is not None
    return due


def load_manifests() -> list[dict[str, Any]]:
    """Return every object of the manifests."""
    texts = [path.read_text() for path in sorted((DEPLOY / "kubernetes").glob("*.yaml"))]
    return [manifest for text in texts for manifest in yaml.safe_load_all(text)]


def manifests_of_kind(kind: str) -> list[dict[str, Any]]:
    """Return the objects of a kind."""
    return [manifest for manifest in load_manifests() if manifest["kind"] == kind]


def pod_specs() -> list[tuple[str, dict[str, Any]]]:
    """Return the pods' specifications with the names of their owners."""
    specs = [
        (manifest["metadata"]["name"], manifest["spec"]["jobTemplate"]["spec"])
        for manifest in manifests_of_kind("CronJob")
    ]
    specs += [(manifest["metadata"]["name"], manifest["spec"]) for manifest in manifests_of_kind("Deployment")]
    return [(name, spec["template"]["spec"]) for name, spec in specs]


def container(pod: dict[str, Any]) -> dict[str, Any]:
    """Return a pod's only container."""
    (only_container,) = pod["containers"]
    assert isinstance(only_container, dict)
    return only_container


def dockerfile_instructions() -> list[tuple[str, str]]:
    """Return the Dockerfile's instructions with their arguments, continued lines joined."""
    text = re.sub(r"^\s*#.*\n", "", (DEPLOY / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    instructions = [line.split(None, 1) for line in text.splitlines() if line.strip()]
    return [(name, " ".join(arguments.split())) for name, arguments in instructions]


def last_instruction(name: str) -> str:
    """Return the arguments of the last instruction of that name."""
    return [arguments for instruction, arguments in dockerfile_instructions() if instruction == name][-1]


def healthcheck_command() -> list[str]:
    """Return the command of the container's health check."""
    command: list[str] = yaml.safe_load(last_instruction("HEALTHCHECK").split("CMD ", 1)[1])
    return command
