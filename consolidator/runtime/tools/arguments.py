"""Arguments of a tool call: the schema a function's type hints make, and what a model wrote checked against it."""

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

Bound = Callable[[], Any]  # a call that only needs to be run
_MISTAKES = 5  # of a call, how many are told at once


class BadArguments(Exception):
    """The arguments do not fit; the message tells the model which, why, and what would."""


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of one function: their schema, and the way to call it with what a model wrote."""

    function: Callable[..., Any]
    names: Mapping[str, str]  # of the model's fields, the parameters
    model: type[BaseModel]
    call_parameter: str | None
    schema: Mapping[str, Any]

    def bind(self, arguments: Mapping[str, Any], call: Any) -> Bound:
        """Return the call; raise BadArguments where the arguments do not fit."""
        try:
            checked = self.model.model_validate(arguments)
        except ValidationError as error:
            raise BadArguments(_mistakes(error, list(self.names.values()))) from error
        given = {self.names[name]: getattr(checked, name) for name in checked.model_fields_set}
        if self.call_parameter is not None:
            given[self.call_parameter] = call
        return partial(self.function, **given)


def parameters_of(function: Callable[..., Any], name: str, call_type: type) -> Parameters:
    """Return a function's parameters; the one annotated `call_type` is ours to fill. Raise UsageError for odd ones."""
    try:
        signature = inspect.signature(function)
        hinted = function if inspect.isroutine(function) else type(function).__call__
        hints = get_type_hints(hinted, include_extras=True)
    except (NameError, TypeError, ValueError) as error:
        raise UsageError(f"tool {name!r}: its type hints cannot be read: {error}") from error
    fields: dict[str, Any] = {}
    names: dict[str, str] = {}
    call_parameter = None
    for number, one in enumerate(signature.parameters.values()):
        if one.kind not in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY):
            raise UsageError(f"tool {name!r}: a model cannot fill {one}; give each parameter a name")
        hint = hints.get(one.name, Any)
        if hint is call_type:
            call_parameter = one.name
            continue
        field = f"p{number}"  # pydantic keeps some names to itself: schema, copy, model_..., _private
        names[field] = one.name
        default = ... if one.default is one.empty else one.default
        fields[field] = (Annotated[hint, Field(alias=one.name)], default)
    model, schema = _modelled(name, fields)
    return Parameters(function, names, model, call_parameter, schema)


def _modelled(name: str, fields: dict[str, Any]) -> tuple[type[BaseModel], dict[str, Any]]:
    try:
        model = create_model(name, __base__=_Arguments, **fields)
        schema = model.model_json_schema(by_alias=True)
    except PydanticUserError as error:
        raise UsageError(f"tool {name!r}: a model cannot be told of its parameters: {error.message}") from error
    schema.setdefault("properties", {})
    return model, _untitled(schema)


def _untitled(schema: dict[str, Any]) -> dict[str, Any]:
    """Leave out the titles that only repeat names; a property that is called title stays."""
    kept = {key: value for key, value in schema.items() if key != "title" or not isinstance(value, str)}
    for key in ("properties", "$defs"):
        if isinstance(kept.get(key), dict):
            kept[key] = {name: _untitled(one) if isinstance(one, dict) else one for name, one in kept[key].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(kept.get(key), dict):
            kept[key] = _untitled(kept[key])
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        if isinstance(kept.get(key), list):
            kept[key] = [_untitled(one) if isinstance(one, dict) else one for one in kept[key]]
    return kept


def parsed(arguments: str | Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the arguments a model wrote; raise BadArguments where they are no JSON object. Nothing is an empty one."""
    if arguments is None or isinstance(arguments, Mapping):
        return arguments or {}
    if not isinstance(arguments, str):
        raise BadArguments(f"its arguments must be one JSON object, not {type(arguments).__name__}.")
    if not arguments.strip():
        return {}
    try:
        found = json.loads(arguments)
    except (ValueError, RecursionError) as error:
        raise BadArguments(f"its arguments are not valid JSON ({error}). Send one JSON object.") from error
    if not isinstance(found, dict):
        raise BadArguments("its arguments must be one JSON object, such as {}.")
    return found


def _mistakes(error: ValidationError, names: list[str]) -> str:
    """Say what does not fit, in the words a model can act on."""
    told = []
    for one in error.errors(include_url=False, include_context=False)[:_MISTAKES]:
        where = ".".join(str(part) for part in one["loc"])
        match one["type"]:
            case "missing":
                told.append(f"{where} is missing")
            case "extra_forbidden":
                told.append(f"it takes no {where}")
            case _:
                told.append(f"{where}: {one['msg']}")
    more = error.error_count() - len(told)
    told += [f"and {more} more"] if more > 0 else []
    return f"{'; '.join(told)}. It takes: {', '.join(names) or 'nothing'}."
