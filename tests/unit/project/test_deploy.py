"""The crontab and the Dockerfile in deploy/, and what all files there have in common."""

from __future__ import annotations

import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml

from consolidator.jobs import cron
from consolidator.jobs.nightly import JOBS
from tests.unit.project.deploy import (
    DEPLOY,
    NEW_YEAR,
    ROOT,
    VARIABLES,
    container,
    default_cron,
    dockerfile_instructions,
    last_instruction,
    next_run,
    pod_specs,
)

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def all_deploy_files() -> list[Path]:
    """Return every file in deploy/."""
    return sorted(path for path in DEPLOY.rglob("*") if path.is_file())


def test_there_is_something_to_deploy() -> None:
    assert len(all_deploy_files()) > 15


@pytest.mark.parametrize("path", all_deploy_files(), ids=lambda path: str(path.relative_to(DEPLOY)))
def test_every_variable_that_is_set_is_a_setting(path: Path) -> None:
    variables = {word.rstrip("_") for word in re.findall(r"CONSOLIDATOR_[A-Z_]+", path.read_text())}
    assert variables <= VARIABLES


def crontab() -> dict[str, str]:
    """Return the jobs of the crontab with their expressions."""
    expressions = {}
    for line in (DEPLOY / "cron" / "crontab").read_text().splitlines():
        fields = line.split(None, 5)
        if line and line[0].isdigit():
            job = re.search(r'consolidator" run (\w+)', fields[5])
            assert job is not None
            expressions[job[1]] = " ".join(fields[:5])
    return expressions


def test_the_crontab_says_what_the_settings_say() -> None:
    """K10."""
    assert crontab() == {job: default_cron(job) for job in JOBS}
    for job, expression in crontab().items():
        assert cron.next_due(expression, "UTC", NEW_YEAR) == next_run(job)


def test_cron_has_nothing_to_mail_of_a_night_that_did_well() -> None:
    text = (DEPLOY / "cron" / "crontab").read_text()
    assert "\nCONSOLIDATOR_LOG_LEVEL=WARNING\n" in text
    assert text.count(">/dev/null\n") == len(JOBS)


def test_the_crontab_and_the_ledger_count_by_the_same_zone() -> None:
    text = (DEPLOY / "cron" / "crontab").read_text()
    assert re.findall(r"^(?:CRON_TZ|CONSOLIDATOR_TIMEZONE)=(.*)$", text, re.MULTILINE) == ["UTC", "UTC"]


def sent_to_the_builder(source: str) -> bool:
    """Tell whether the ignore file keeps a path of the project."""
    rules = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    kept = True
    for rule in (rule for rule in rules if rule and not rule.startswith("#")):
        if fnmatch(source, rule.removeprefix("!")):
            kept = rule.startswith("!")
    return kept


def test_the_image_is_made_of_what_is_there() -> None:
    copied = [
        rest.split()[:-1]
        for name, rest in dockerfile_instructions()
        if name == "COPY" and not rest.startswith("--from=")
    ]
    sources = [source for paths in copied for source in paths]
    assert {"pyproject.toml", "requirements-hashed.txt", "consolidator"} <= set(sources)
    for source in sources:
        assert (ROOT / source).exists(), source
        assert sent_to_the_builder(source), source
    assert not sent_to_the_builder("tests")


def test_the_image_has_everything_that_pyproject_names() -> None:
    sources = " ".join(rest for name, rest in dockerfile_instructions() if name == "COPY").split()
    assert PROJECT["readme"] in sources


def test_the_image_installs_only_files_whose_hash_is_written_down() -> None:
    commands = [rest for name, rest in dockerfile_instructions() if name == "RUN"]
    installs = [part for rest in commands for part in rest.split("&&") if "pip install" in part]
    assert installs
    for install in installs:
        hashed = "--require-hashes" in install and "-r requirements-hashed.txt" in install
        own_sources = {"--no-deps", "--no-build-isolation", "--no-index"} <= set(install.split())
        assert hashed or own_sources, install


def test_the_base_image_is_named_by_its_digest() -> None:
    bases = [rest.split()[0] for name, rest in dockerfile_instructions() if name == "FROM"]
    assert bases
    arguments = dict(rest.split("=", 1) for name, rest in dockerfile_instructions() if name == "ARG")
    for base in bases:
        image = arguments[base.strip("${}")] if base.startswith("$") else base
        assert re.fullmatch(r"python:3\.\d+\.\d+-slim-[a-z]+@sha256:[0-9a-f]{64}", image), image


def test_the_image_runs_as_a_user_with_a_name_and_not_as_root() -> None:
    uid, gid = last_instruction("USER").split(":")
    assert uid == gid != "0"
    assert f"useradd --uid {uid} --user-group" in last_instruction("RUN")
    for _, pod in pod_specs():
        assert (str(pod["securityContext"]["runAsUser"]), str(pod["securityContext"]["runAsGroup"])) == (uid, gid)
    order = [name for name, _ in dockerfile_instructions()]
    assert order.index("USER") > max(number for number, name in enumerate(order) if name in ("RUN", "COPY"))


def test_the_image_serves_and_keeps_its_database_in_a_volume() -> None:
    assert yaml.safe_load(last_instruction("ENTRYPOINT")) + yaml.safe_load(last_instruction("CMD")) == [
        "consolidator",
        "serve",
    ]
    (volume,) = yaml.safe_load(last_instruction("VOLUME"))
    assert f"CONSOLIDATOR_HOME={volume}" in last_instruction("ENV")


def test_the_image_is_named_by_the_version() -> None:
    assert f"consolidator:{PROJECT['version']} " in (DEPLOY / "Dockerfile").read_text()
    assert {container(pod)["image"] for _, pod in pod_specs()} == {f"consolidator:{PROJECT['version']}"}
