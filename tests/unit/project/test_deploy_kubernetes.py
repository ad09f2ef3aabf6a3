"""The manifests and the chart in deploy: they fit the API, have minimal rights, and agree with the schedules."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
import yaml

from consolidator.jobs.nightly import JOBS
from tests.unit.project.deploy import (
    DEFAULTS,
    VARIABLES,
    container,
    default_cron,
    healthcheck_command,
    load_manifests,
    manifests_of_kind,
    pod_specs,
)
from tests.unit.project.helm import CHART, render_chart
from tests.unit.project.kubernetes import schema_errors


def test_every_manifest_fits_the_api() -> None:
    assert sorted(manifest["kind"] for manifest in load_manifests()) == [
        "ConfigMap",
        "CronJob",
        "CronJob",
        "CronJob",
        "Deployment",
    ]
    assert [
        error
        for manifest in load_manifests()
        for error in schema_errors(manifest, manifest["kind"], manifest["metadata"]["name"])
    ] == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schedul": "0 3 * * *"}, "has no field"),
        ({"concurrencyPolicy": "Never"}, "is none of"),
        ({"startingDeadlineSeconds": "60"}, "is no integer"),
        ({"jobTemplate": {"spec": {}}}, "JobSpec without template"),
    ],
)
def test_a_slip_of_the_pen_does_not_fit_the_api(change: dict[str, Any], message: str) -> None:
    spec = {**manifests_of_kind("CronJob")[0]["spec"], **change}
    assert any(message in error for error in schema_errors(spec, "CronJobSpec"))


def test_the_cron_jobs_run_when_the_settings_say() -> None:
    """K10."""
    names = {container(pod)["args"][1]: name for name, pod in pod_specs() if container(pod)["args"][0] == "run"}
    assert list(names) == list(JOBS)
    for job, manifest in zip(JOBS, manifests_of_kind("CronJob"), strict=True):
        assert manifest["metadata"]["name"] == names[job]
        assert manifest["spec"]["schedule"] == default_cron(job)
        assert manifest["spec"]["timeZone"] == "Etc/UTC"
        assert manifest["spec"]["concurrencyPolicy"] == "Forbid"


def test_the_settings_of_the_cluster_can_be_read() -> None:
    data = manifests_of_kind("ConfigMap")[0]["data"]
    assert set(data) <= VARIABLES
    for job in JOBS:
        assert data[f"CONSOLIDATOR_{job.upper()}_CRON"] == default_cron(job)


def test_a_job_that_a_second_try_does_not_mend_is_not_tried_again() -> None:
    for manifest in manifests_of_kind("CronJob"):
        rules = manifest["spec"]["jobTemplate"]["spec"]["podFailurePolicy"]["rules"]
        assert {"containerName": "consolidator", "operator": "In", "values": [1, 2, 3, 7]} in [
            rule.get("onExitCodes") for rule in rules
        ]
        assert manifest["spec"]["jobTemplate"]["spec"]["template"]["spec"]["restartPolicy"] == "Never"


@pytest.mark.parametrize(("name", "pod"), pod_specs())
def test_a_pod_may_not_do_more_than_it_must(name: str, pod: dict[str, Any]) -> None:
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False
    spec = container(pod)
    assert spec["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {"cpu", "memory"} <= set(spec["resources"]["requests"])
    assert "memory" in spec["resources"]["limits"]


@pytest.mark.parametrize(("name", "pod"), pod_specs())
def test_a_pod_has_its_database_from_a_secret_and_its_volumes_at_hand(name: str, pod: dict[str, Any]) -> None:
    spec = container(pod)
    (variable,) = spec["env"]
    assert variable["name"] == "CONSOLIDATOR_DATABASE_URL"
    assert "secretKeyRef" in variable["valueFrom"]
    assert {mount["name"] for mount in spec["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}


def test_only_what_imports_sees_the_agents_logs_and_may_not_write_them() -> None:
    for name, pod in pod_specs():
        mounts = {mount["mountPath"]: mount for mount in container(pod)["volumeMounts"]}
        assert ("/logs" in mounts) == (name in ("consolidator", "consolidator-import"))
        assert mounts.get("/logs", {"readOnly": True})["readOnly"] is True


@contextmanager
def serve_status(status: int) -> Iterator[int]:
    """Serve /readyz with a status, and /healthz; yield the port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response({"/readyz": status, "/healthz": 200}.get(self.path, 404))
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Log nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def run_probe(command: list[str], port: int) -> bool:
    """Run a probe's command against a port."""
    assert command[:2] == ["python", "-c"]
    assert str(DEFAULTS["health_port"]) in command[2]
    code = command[2].replace(str(DEFAULTS["health_port"]), str(port))
    return subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize(("status", "ready"), [(200, True), (503, False)])
def test_a_replica_is_alive_when_it_answers_and_ready_when_it_is_well(status: int, ready: bool) -> None:
    spec = container(manifests_of_kind("Deployment")[0]["spec"]["template"]["spec"])
    with serve_status(status) as port:
        assert run_probe(spec["livenessProbe"]["exec"]["command"], port)
        assert run_probe(spec["readinessProbe"]["exec"]["command"], port) is ready
        assert run_probe(healthcheck_command(), port) is ready


def test_a_replica_that_does_not_answer_is_not_alive() -> None:
    with serve_status(200) as port:
        pass
    spec = container(manifests_of_kind("Deployment")[0]["spec"]["template"]["spec"])
    assert not run_probe(spec["livenessProbe"]["exec"]["command"], port)


CHARTS = {
    "serve": {},
    "serve with claims": {"logs__claim": "agent-logs", "home__claim": "token", "runAsUser": 1_000_620_000},
    "cronjobs": {"mode": "cronjobs", "logs__claim": "agent-logs"},
}


@pytest.mark.parametrize("values", CHARTS.values(), ids=CHARTS)
def test_the_chart_fits_the_api_and_its_pods_may_not_do_more_than_they_must(values: dict[str, Any]) -> None:
    objects = render_chart(**values)
    kinds = sorted(each["kind"] for each in objects)
    nights = values.get("mode") == "cronjobs"
    assert kinds == (
        ["ConfigMap", "CronJob", "CronJob", "CronJob"] if nights else ["ConfigMap", "Deployment", "Service"]
    )
    assert [error for each in objects for error in schema_errors(each, each["kind"], each["metadata"]["name"])] == []
    (config,) = (each["data"] for each in objects if each["kind"] == "ConfigMap")
    assert set(config) <= VARIABLES
    assert ("CONSOLIDATOR_SOURCES" in config) == ("logs__claim" in values)
    for each in objects:
        spec = each["spec"].get("jobTemplate", each)["spec"] if each["kind"] in ("CronJob", "Deployment") else None
        if spec is None:
            continue
        pod = spec["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"].get("runAsUser") == values.get("runAsUser")
        assert pod["automountServiceAccountToken"] is False
        assert pod["enableServiceLinks"] is False
        assert container(pod)["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        mounts = {mount["name"]: mount for mount in container(pod)["volumeMounts"]}
        assert set(mounts) == {volume["name"] for volume in pod["volumes"]}
        assert {mount["mountPath"] for mount in mounts.values()} >= {"/tmp", "/data"}
        assert mounts.get("agent-logs", {"readOnly": True})["readOnly"] is True
        assert ("agent-logs" in mounts) == ("logs__claim" in values)


def test_the_charts_service_reaches_its_pods_and_its_probes_ask_what_they_should() -> None:
    config, deployment, service = sorted(render_chart(service__port=9000), key=lambda each: str(each["kind"]))
    pod = deployment["spec"]["template"]
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert service["spec"]["selector"] == deployment["spec"]["selector"]["matchLabels"]
    spec = container(pod["spec"])
    assert (spec["args"], spec["ports"]) == (["serve"], [{"name": "http", "containerPort": 9000}])
    assert service["spec"]["ports"] == [{"name": "http", "port": 9000, "targetPort": "http"}]
    assert config["data"]["CONSOLIDATOR_HEALTH_PORT"] == "9000"
    assert config["data"]["CONSOLIDATOR_HTTP_HOST"] == "0.0.0.0"
    assert isinstance(json.loads(config["data"]["CONSOLIDATOR_HTTP_ALLOWED_HOSTS"]), list)
    assert spec["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "http"}
    assert spec["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "http"}


def test_the_charts_cron_jobs_run_when_the_settings_say() -> None:
    config, *cron_jobs = render_chart(mode="cronjobs", timezone="Europe/Rome")[::-1]
    assert {container(each["spec"]["jobTemplate"]["spec"]["template"]["spec"])["args"][1] for each in cron_jobs} == {
        *JOBS
    }
    for each in cron_jobs:
        job = each["metadata"]["name"].removeprefix("memory-")
        assert each["spec"]["schedule"] == config["data"][f"CONSOLIDATOR_{job.upper()}_CRON"] == default_cron(job)
        assert each["spec"]["timeZone"] == config["data"]["CONSOLIDATOR_TIMEZONE"] == "Europe/Rome"


def test_the_chart_is_of_this_version() -> None:
    version = tomllib.loads((CHART.parents[2] / "pyproject.toml").read_text())["project"]["version"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["apiVersion"], chart["version"], chart["appVersion"]) == ("v2", version, version)
    assert render_chart()[0]["spec"]["template"]["spec"]["containers"][0]["image"] == f"consolidator:{version}"
