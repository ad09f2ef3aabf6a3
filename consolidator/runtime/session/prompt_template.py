"""Templates of system prompts: $name stands for a parameter, $$ for a dollar sign. Pure.

Rendering is strict: a missing parameter is an error, and so is one that the template does not have. A value is put in
as it is and never read as a template itself, so that no text of a person can name a parameter.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from string import Template
from typing import Any

from consolidator.errors import UsageError

MAX_PROMPT_CHARACTERS = 400_000  # of a template, and of what it is rendered to


def template_parameters(template: str) -> Sequence[str]:
    """Return the names of a template's parameters in their order. Raises UsageError for a malformed template."""
    parsed = Template(template)
    if not parsed.is_valid():
        raise UsageError(
            "the template has a $ that begins no name: write $name or ${name} for a parameter, and $$ for a dollar sign"
        )
    return parsed.get_identifiers()


def render_template(template: str, parameters: Mapping[str, Any]) -> str:
    """Return a template with its parameters filled in; values that are no text are written as JSON.

    Raises UsageError that names every parameter that is missing, or that the template does not have.
    """
    names = template_parameters(template)
    missing = [name for name in names if name not in parameters]
    if missing:
        raise UsageError(f"the template needs {', '.join(missing)}: give each as a parameter")
    unknown = sorted(set(parameters) - set(names))
    if unknown:
        has = ", ".join(names) or "none"
        raise UsageError(f"the template has no parameter {', '.join(unknown)}; it has: {has}")
    rendered = Template(template).substitute({name: _as_text(value) for name, value in parameters.items()})
    return check_prompt(rendered)


def check_prompt(prompt: str) -> str:
    """Return a system prompt or template. Raises UsageError for one that is too long."""
    if len(prompt) > MAX_PROMPT_CHARACTERS:
        raise UsageError(f"the system prompt has {len(prompt):,} characters, over {MAX_PROMPT_CHARACTERS:,}")
    return prompt


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
