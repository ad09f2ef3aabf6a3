"""The API does what its OpenAPI document says, whatever is sent to it: it never fails, and answers as documented."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from openapi_spec_validator import OpenAPIV31SpecValidator
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.acceptance.api.server import ApiServer, find_operations
from tests.support import FULL

MAX_QUERY = 32_000  # characters
EXAMPLES = 200 if FULL else 6  # of each operation, for each way to make them up
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]

# What a program does with the client that was generated from the document: a call that succeeds, two that do not.
CLIENTS_PROGRAM = """
import sys
from generated import client, config, schemas
headers = {"authorization": f"Bearer {sys.argv[2]}"}
client.client.configure(config=config.Config(base_url=sys.argv[1], headers=headers))
print(type(client.list_facts(limit=2)).__name__)
missing = client.forget_fact(fact_id="nothing")
print(type(missing).__name__, missing.status, missing.next)
unfit = client.correct_fact(fact_id="nothing", data=schemas.Correction.model_construct(text=5))
print(type(unfit).__name__, unfit.errors[0].where)
"""


@schemathesis.serializer("application/x-ndjson")
def serialize_lines(_context: Any, value: Any) -> bytes:
    """Return a body of lines as it is made up: a text."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")


def test_the_document_is_valid_openapi(api: ApiServer) -> None:
    assert not [error.message for error in OpenAPIV31SpecValidator(api.openapi()).iter_errors()]


def test_a_generated_client_reads_answers_and_problems(api: ApiServer, tmp_path: Path) -> None:
    document = tmp_path / "openapi.json"
    document.write_text(json.dumps(api.openapi()), encoding="utf-8")
    run_python("-m", "clientele.cli", "start-api", "-f", str(document), "-o", str(tmp_path / "generated"))
    lines = run_python("-c", CLIENTS_PROGRAM, api.address, api.owners_token, cwd=tmp_path).splitlines()
    assert lines[0] == "FactList"
    assert lines[1].startswith("Problem 404 List what there is")
    assert lines[2] == "Problem body.text"


def run_python(*arguments: str, cwd: Path | None = None) -> str:
    """Run a program in a process of its own; return what it printed."""
    done = subprocess.run([sys.executable, *arguments], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["fitting", "unfitting"])
def test_whatever_is_sent_is_answered_as_documented(api: ApiServer, mode: GenerationMode) -> None:
    document = api.openapi()
    schema = schemathesis.openapi.from_dict(document)
    authorized = {"authorization": f"Bearer {api.owners_token}"}
    tried: set[str] = set()
    with requests.Session() as session:
        for result in schema.get_all_operations():
            assert isinstance(result, Ok), result
            operation = result.ok()
            for path_parameters in list_path_parameters(api, operation.path, f"{operation.label}{mode}"):
                try:
                    cases = operation.as_strategy(mode, path_parameters=path_parameters)
                except schemathesis.errors.SchemathesisError:  # nothing of this operation can be made not to fit
                    continue

                @settings(
                    max_examples=EXAMPLES,
                    phases=[Phase.generate],
                    suppress_health_check=list(HealthCheck),
                    derandomize=not FULL,
                    database=None,
                    deadline=None,
                )
                @given(case=cases)
                def send(case: Case[Any]) -> None:
                    tried.add(case.operation.label)
                    if len(urlencode(case.query or {}, doseq=True)) > MAX_QUERY:
                        return  # the server itself refuses it, before anything of ours
                    case.call_and_validate(
                        base_url=api.address, session=session, headers=authorized, checks=list(CHECKS), timeout=60
                    )

                send()
    assert api.process.poll() is None
    if mode is GenerationMode.POSITIVE:
        assert len(tried) == len(find_operations(document))


def list_path_parameters(api: ApiServer, path: str, name: str) -> list[dict[str, Any] | None]:
    """Return what to fill a path with: what can be made up, and what is there."""
    if "{session_id}" not in path:
        return [None]
    return [None, {"session_id": api.open_session(f"schema:web:{abs(hash(name))}")}]
