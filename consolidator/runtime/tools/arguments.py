"""Arguments of a tool call: the JSON schema from a function's type hints, and the check of what the model wrote."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticUserError

from consolidator.errors import UsageError

BoundCall = Callable[[], Any]  # the function with its checked arguments, ready to run
_MAX_REPORTED_ERRORS = 5  # of one call


class BadArguments(Exception):
    """The arguments do not fit. The message tells the model which, why, and what would fit."""


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of one function: their schema, and how to call it with what a model wrote."""

    function: Callable[..., Any]
    names: Mapping[str, str]  # field of `model` -> parameter of the function
    model: type[BaseModel]
    call_parameter: str | None  # the parameter that takes the CallContext
    schema: Mapping[str, Any]

    def bind(self, arguments: Mapping[str, Any], call: Any) -> BoundCall:
        """Return the call with checked arguments. Raises BadArguments where they do not fit."""
        try:
            checked = self.model.model_validate(arguments)
        except ValidationError as error:
            raise BadArguments(_describe_errors(error, list(self.names.values()))) from error
        keywords = {self.names[field]: getattr(checked, field) for field in checked.model_fields_set}
        if self.call_parameter is not None:
            keywords[self.call_parameter] = call
        return partial(self.function, **keywords)


def inspect_parameters(function: Callable[..., Any], name: str, call_type: type) -> Parameters:
    """Return a function's parameters. The runtime fills the one annotated `call_type`.

    Raises UsageError for parameters that a model cannot fill.
    """
    try:
        signature = inspect.signature(function)
        annotated = function if inspect.isroutine(function) else type(function).__call__
        hints = get_type_hints(annotated, include_extras=True)
    except (NameError, TypeError, ValueError) as error:
        raise UsageError(f"tool {name!r}: cannot read its type hints: {error}") from error
    fields: dict[str, Any] = {}
    names: dict[str, str] = {}
    call_parameter = None
    for number, parameter in enumerate(signature.parameters.values()):
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise UsageError(f"tool {name!r}: a model cannot fill {parameter}; give each parameter a name")
        hint = hints.get(parameter.name, Any)
        if hint is call_type:
            call_parameter = parameter.name
            continue
        field = f"p{number}"  # pydantic reserves some names: schema, copy, model_..., _private
        names[field] = parameter.name
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[field] = (Annotated[hint, Field(alias=parameter.name)], default)
    model, schema = _create_model(name, fields)
    return Parameters(function, names, model, call_parameter, schema)


def _create_model(name: str, fields: dict[str, Any]) -> tuple[type[BaseModel], dict[str, Any]]:
    try:
        model = create_model(name, __base__=_Arguments, **fields)
        schema = model.model_json_schema(by_alias=True)
    except PydanticUserError as error:
        raise UsageError(f"tool {name!r}: its parameters have no JSON schema: {error.message}") from error
    schema.setdefault("properties", {})
    return model, _without_titles(schema)


def _without_titles(schema: dict[str, Any]) -> dict[str, Any]:
    """Drop the titles, which only repeat the names. A property named `title` stays."""
    kept = {key: value for key, value in schema.items() if key != "title" or not isinstance(value, str)}
    for key in ("properties", "$defs"):
        if isinstance(kept.get(key), dict):
            kept[key] = {
                name: _without_titles(child) if isinstance(child, dict) else child for name, child in kept[key].items()
            }
    for key in ("items", "additionalProperties"):
        if isinstance(kept.get(key), dict):
            kept[key] = _without_titles(kept[key])
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        if isinstance(kept.get(key), list):
            kept[key] = [_without_titles(child) if isinstance(child, dict) else child for child in kept[key]]
    return kept


def parse_arguments(arguments: str | Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the arguments that a model wrote; an empty text is an empty object. Raises BadArguments for no object."""
    if arguments is None or isinstance(arguments, Mapping):
        return arguments or {}
    if not isinstance(arguments, str):
        raise BadArguments(f"its arguments must be one JSON object, not {type(arguments).__name__}.")
    if not arguments.strip():
        return {}
    try:
        parsed = json.loads(arguments)
    except (ValueError, RecursionError) as error:
        raise BadArguments(f"its arguments are not valid JSON ({error}). Send one JSON object.") from error
    if not isinstance(parsed, dict):
        raise BadArguments("its arguments must be one JSON object, such as {}.")
    return parsed


def _describe_errors(error: ValidationError, names: list[str]) -> str:
    """Describe what does not fit, in words that the model can act on."""
    descriptions = []
    for details in error.errors(include_url=False, include_context=False)[:_MAX_REPORTED_ERRORS]:
        path = ".".join(str(part) for part in details["loc"])
        described = {"missing": f"{path} is missing", "extra_forbidden": f"it takes no {path}"}
        descriptions.append(described.get(details["type"], f"{path}: {details['msg']}"))
    more = error.error_count() - len(descriptions)
    descriptions += [f"and {more} more"] if more > 0 else []
    return f"{'; '.join(descriptions)}. It takes: {', '.join(names) or 'nothing'}."
