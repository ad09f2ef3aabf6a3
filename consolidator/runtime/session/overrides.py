"""Overrides: what a child does differently from its parent. Pure; what is not named is inherited."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from consolidator.errors import UsageError
from consolidator.models.agent import NamedTemplate
from consolidator.runtime.session.agent_defaults import ModelOptions, check_prompt, check_values, render_template

_SIZES = ("budget", "last", "answer_tokens", "max_steps")
_PATCHES = ("prepend", "append", "replace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides(ModelOptions):
    """What a child does differently from its parent; None is inherited.

    `template` is rendered with `parameters` into the system prompt. `prompt_patch` changes the inherited system prompt:
    {"prepend": text}, {"append": text} and {"replace": {old: new}}. `tools` names the only tools that the child's model
    is given. `compaction_threshold` is the share of the budget above which the session is compacted.
    """

    system: str | None = None
    pinned: NamedTemplate | None = None  # which agent's the template is, where it was named
    prompt_patch: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        check_values(self)
        check_prompt(self.system or "")
        prompts = [name for name in ("system", "template", "prompt_patch") if getattr(self, name) is not None]
        if len(prompts) > 1:
            raise UsageError(f"a child gets one of {', '.join(prompts)}: each is a whole prompt")
        if self.parameters and self.template is None:
            raise UsageError("parameters are those of a template: name one")

    def named(self) -> dict[str, Any]:
        """Return what is overridden, as JSON can hold it."""
        values = {name: getattr(self, name) for name in OVERRIDABLE}
        plain: dict[str, Any] = {name: value for name, value in values.items() if value is not None}
        if self.max_cost is not None:
            plain["max_cost"] = str(self.max_cost)
        if self.tools is not None:
            plain["tools"] = list(self.tools)
        if self.pinned is not None:
            plain["pinned"] = asdict(self.pinned)
        return plain

    def check_tools(self, names: Collection[str]) -> None:
        """Raise UsageError for tools that are not among those of who is to drive the child: nobody would."""
        missing = [name for name in self.tools or () if name not in names]
        if missing:
            names_missing = ", ".join(missing)
            raise UsageError(
                f"what drives sessions here has no tools {names_missing}: name others, or start it with them (--tools)"
            )

    def apply_to_config(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return a parent's configuration with what is overridden."""
        changed = dict(config)
        for name in ("strategy", *_SIZES, "compaction_threshold"):
            value = getattr(self, name)
            if value is not None:
                changed[name] = value
        if self.system is not None:
            changed["system"] = self.system
        if isinstance(self.template, NamedTemplate):
            raise UsageError(f"the template of {self.template.name!r} was named, and not looked up")
        if self.template is not None:
            changed["system"] = render_template(self.template, dict(self.parameters or {}))
        if self.prompt_patch is not None:
            changed["system"] = patch_prompt(config.get("system"), self.prompt_patch)
        if self.tools is not None:
            changed["tools"] = changed["allowed_tools"] = list(dict.fromkeys(self.tools))
        return changed


OVERRIDABLE = tuple(option.name for option in fields(Overrides))
NO_OVERRIDES = Overrides()


def patch_prompt(prompt: str | None, patch: Mapping[str, Any]) -> str:
    """Return a system prompt with a patch. Raises UsageError for an unknown change and a text that is not in it."""
    unknown = [name for name in patch if name not in _PATCHES]
    if unknown:
        raise UsageError(f"a patch to a prompt has {', '.join(_PATCHES)}, not {', '.join(map(repr, unknown))}")
    text = prompt or ""
    replaced = patch.get("replace") or {}
    if not isinstance(replaced, Mapping):
        raise UsageError("replace takes an object: the old text and the new one")
    for old, new in replaced.items():
        if not old or old not in text:
            raise UsageError(f"the prompt does not contain {old[:80]!r}: nothing was replaced")
        text = text.replace(old, str(new))
    parts = (patch.get("prepend"), text, patch.get("append"))
    return "\n\n".join(str(part) for part in parts if part)
