"""The shapes of the Kubernetes objects that `deploy/` uses, and a strict check of a manifest against them.

Fields, types and required fields are those of the API reference, 1.29 and newer. Unused fields are left out, so that a
typo is an unknown field.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

# "!" is required, "[]" a list of, "{}" a map to, "a|b" one of these words.
SHAPES: dict[str, dict[str, str]] = {
    "ConfigMap": {"apiVersion!": "v1|", "kind!": "ConfigMap|", "metadata!": "ObjectMeta", "data!": "string{}"},
    "CronJob": {"apiVersion!": "batch/v1|", "kind!": "CronJob|", "metadata!": "ObjectMeta", "spec!": "CronJobSpec"},
    "Deployment": {
        "apiVersion!": "apps/v1|",
        "kind!": "Deployment|",
        "metadata!": "ObjectMeta",
        "spec!": "DeploymentSpec",
    },
    "Service": {"apiVersion!": "v1|", "kind!": "Service|", "metadata!": "ObjectMeta", "spec!": "ServiceSpec"},
    "ServiceSpec": {"selector!": "string{}", "ports!": "ServicePort[]"},
    "ServicePort": {"name": "string", "port!": "integer", "targetPort": "string"},
    "ObjectMeta": {"name": "string", "labels": "string{}", "annotations": "string{}"},
    "CronJobSpec": {
        "schedule!": "string",
        "timeZone": "string",
        "concurrencyPolicy": "Allow|Forbid|Replace",
        "startingDeadlineSeconds": "integer",
        "suspend": "boolean",
        "successfulJobsHistoryLimit": "integer",
        "failedJobsHistoryLimit": "integer",
        "jobTemplate!": "JobTemplateSpec",
    },
    "JobTemplateSpec": {"metadata": "ObjectMeta", "spec": "JobSpec"},
    "JobSpec": {
        "backoffLimit": "integer",
        "activeDeadlineSeconds": "integer",
        "ttlSecondsAfterFinished": "integer",
        "podFailurePolicy": "PodFailurePolicy",
        "template!": "PodTemplateSpec",
    },
    "PodFailurePolicy": {"rules!": "PodFailurePolicyRule[]"},
    "PodFailurePolicyRule": {
        "action!": "Count|FailIndex|FailJob|Ignore",
        "onExitCodes": "OnExitCodes",
        "onPodConditions": "OnPodCondition[]",
    },
    "OnExitCodes": {"containerName": "string", "operator!": "In|NotIn", "values!": "integer[]"},
    # `status` has a default in newer versions; older servers require it.
    "OnPodCondition": {"type!": "string", "status!": "True|False|Unknown"},
    "DeploymentSpec": {"replicas": "integer", "selector!": "LabelSelector", "template!": "PodTemplateSpec"},
    "LabelSelector": {"matchLabels": "string{}"},
    "PodTemplateSpec": {"metadata": "ObjectMeta", "spec": "PodSpec"},
    "PodSpec": {
        "restartPolicy": "Always|Never|OnFailure",
        "securityContext": "PodSecurityContext",
        "automountServiceAccountToken": "boolean",
        "enableServiceLinks": "boolean",
        "terminationGracePeriodSeconds": "integer",
        "containers!": "Container[]",
        "volumes": "Volume[]",
    },
    "PodSecurityContext": {
        "runAsNonRoot": "boolean",
        "runAsUser": "integer",
        "runAsGroup": "integer",
        "fsGroup": "integer",
        "seccompProfile": "SeccompProfile",
    },
    "SeccompProfile": {"type!": "Localhost|RuntimeDefault|Unconfined", "localhostProfile": "string"},
    "Container": {
        "name!": "string",
        "image": "string",
        "imagePullPolicy": "Always|IfNotPresent|Never",
        "ports": "ContainerPort[]",
        "args": "string[]",
        "command": "string[]",
        "env": "EnvVar[]",
        "envFrom": "EnvFromSource[]",
        "livenessProbe": "Probe",
        "readinessProbe": "Probe",
        "startupProbe": "Probe",
        "resources": "ResourceRequirements",
        "securityContext": "SecurityContext",
        "volumeMounts": "VolumeMount[]",
    },
    "EnvVar": {"name!": "string", "value": "string", "valueFrom": "EnvVarSource"},
    "EnvVarSource": {"secretKeyRef": "SecretKeySelector"},
    "SecretKeySelector": {"name": "string", "key!": "string", "optional": "boolean"},
    "EnvFromSource": {"configMapRef": "ConfigMapEnvSource", "prefix": "string"},
    "ConfigMapEnvSource": {"name": "string", "optional": "boolean"},
    "Probe": {
        "exec": "ExecAction",
        "httpGet": "HTTPGetAction",
        "initialDelaySeconds": "integer",
        "periodSeconds": "integer",
        "timeoutSeconds": "integer",
        "failureThreshold": "integer",
        "successThreshold": "integer",
    },
    "ContainerPort": {"name": "string", "containerPort!": "integer"},
    "HTTPGetAction": {"path": "string", "port!": "string"},
    "ExecAction": {"command": "string[]"},
    "ResourceRequirements": {"requests": "quantity{}", "limits": "quantity{}"},
    "SecurityContext": {
        "allowPrivilegeEscalation": "boolean",
        "readOnlyRootFilesystem": "boolean",
        "capabilities": "Capabilities",
    },
    "Capabilities": {"add": "string[]", "drop": "string[]"},
    "VolumeMount": {"name!": "string", "mountPath!": "string", "readOnly": "boolean", "subPath": "string"},
    "Volume": {"name!": "string", "emptyDir": "EmptyDir", "persistentVolumeClaim": "ClaimSource"},
    "EmptyDir": {"medium": "string", "sizeLimit": "quantity"},
    "ClaimSource": {"claimName!": "string", "readOnly": "boolean"},
}
_SCALARS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "quantity": (str, int, float),
}


def schema_errors(value: Any, shape: str, where: str = "") -> Iterator[str]:
    """Yield what does not fit the shape, each with its path."""
    if shape.endswith("[]"):
        if not isinstance(value, list):
            yield f"{where}: not a list"
            return
        for number, item in enumerate(value):
            yield from schema_errors(item, shape[:-2], f"{where}[{number}]")
    elif shape.endswith("{}"):
        if not isinstance(value, dict):
            yield f"{where}: not a map"
            return
        for name, item in value.items():
            yield from schema_errors(item, shape[:-2], f"{where}.{name}")
    elif "|" in shape:
        if value not in shape.rstrip("|").split("|"):
            yield f"{where}: {value!r} is none of {shape}"
    elif shape in _SCALARS:
        if not isinstance(value, _SCALARS[shape]) or (isinstance(value, bool) and shape != "boolean"):
            yield f"{where}: {value!r} is no {shape}"
    else:
        yield from _object_errors(value, shape, where)


def _object_errors(value: Any, shape: str, where: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{where}: not a {shape}"
        return
    fields = {name.rstrip("!"): kind for name, kind in SHAPES[shape].items()}
    for name in sorted(set(fields) & {n[:-1] for n in SHAPES[shape] if n.endswith("!")} - set(value)):
        yield f"{where}: {shape} without {name}"
    for name, field in value.items():
        if name in fields:
            yield from schema_errors(field, fields[name], f"{where}.{name}")
        else:
            yield f"{where}: {shape} has no field {name!r}"
