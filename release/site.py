"""What the site of the documentation has beside docs/: pages of the top level, the decisions, links to code as text."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
TOP = ("SECURITY.md", "CONTRIBUTING.md")
_OUTSIDE = re.compile(r"\[([^\]]+)\]\((\.\./(?!SECURITY|CONTRIBUTING)[^)#]+|formats\.json|AGENTS\.md)(?:#[^)]*)?\)")


def on_config(config: Any) -> Any:
    """Name the decisions in the navigation."""
    decisions = sorted(path.name for path in (ROOT / "docs" / "decisions").glob("*.md"))
    config["nav"].append({"Decisions": [f"decisions/{name}" for name in decisions]})
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages of the top level, whose links begin at docs/ there."""
    make_file = import_module("mkdocs.structure.files").File.generated  # of the extra `docs`
    for name in TOP:
        text = (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(make_file(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Have links lead to pages of the site; what is no page stands as its path."""
    first = next(file.src_uri for file in files.documentation_pages() if file.src_uri.startswith("decisions/"))
    if "/" not in page.file.src_uri:
        markdown = _OUTSIDE.sub(lambda link: f"{link[1]} (`{link[2].removeprefix('../')}`)", markdown)
        for name in TOP:
            markdown = markdown.replace(f"](../{name}", f"]({name}")
        markdown = markdown.replace("](decisions)", f"]({first})")
    return markdown
