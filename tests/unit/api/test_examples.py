"""Each request body of the OpenAPI document has an example that the route takes."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic import TypeAdapter

from consolidator.api import app as api
from consolidator.api.app import describe


def list_bodies() -> list[tuple[str, str, Any]]:
    """Return method, path and type of each request body of JSON."""
    routes = [route for router in api._ROUTERS for route in router.routes if isinstance(route, APIRoute)]
    return [
        (method.lower(), route.path, route.body_field.field_info.annotation)
        for route in routes
        if route.body_field is not None
        for method in route.methods or ()
    ]


@cache
def openapi_document() -> dict[str, Any]:
    """Return the OpenAPI document of all routes."""
    app = FastAPI(title="API", version="1")
    for router in api._ROUTERS:
        app.include_router(router, prefix=api.PREFIX)
    return describe(app)


@pytest.mark.parametrize(("method", "path", "body"), list_bodies())
def test_a_body_has_an_example_that_is_valid(method: str, path: str, body: Any) -> None:
    described = openapi_document()["paths"][api.PREFIX + path][method]
    example = described["requestBody"]["content"]["application/json"]["example"]
    TypeAdapter(body).validate_python(example)
