"""Renders the page's templates: everything that a log holds is text, cut and with marks for what nobody sees."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from consolidator.models.audience import describe_peer
from consolidator.models.fact import UNKNOWN_START
from consolidator.service.encoding import mark_invisible

_CODE = re.compile(r"`([^`\n]+)`")
MAX_SHOWN, MIN_SHOWN = 4000, 200  # characters of one text; a line of a log may have millions


class _Shown(str):
    """A text that was looked at, and is not cut again; it is escaped as any other."""

    __slots__ = ()


def show_text(value: object, most: int = MAX_SHOWN) -> str:
    """Return a text of at most so many characters, each one that nobody sees marked."""
    if isinstance(value, _Shown):
        return value
    text = str(value)
    shown = mark_invisible(text[:most].replace("\r\n", "\n"))
    return _Shown(shown if len(text) <= most else f"{shown}… ({len(text):,} characters in all)")


def preview_text(value: object, most: int = 100) -> str:
    """Return the beginning of a text, which stands elsewhere in full, on one line."""
    text = str(value)
    return _Shown(show_text(" ".join(text[: most * 2].split()), most * 2)[:most] + ("…" if len(text) > most else ""))


def show_line(value: object, most: int = 600) -> Markup:
    """Return a sentence of memory, in which what stands between backticks is a command or a name."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(show_text(value, most)))))


def show_project(path: str | None) -> str:
    """Return how a project is called: the last part of its path."""
    return "everywhere" if not path else path.rstrip("/").rpartition("/")[2] or path


def fit_texts(texts: Iterable[str], kilobytes: int) -> int:
    """Return how many characters of each text can be shown so that all of them take no more than this as markup."""
    shown, most = list(texts), MAX_SHOWN
    while most > MIN_SHOWN and sum(len(escape(show_text(text, most)).encode()) for text in shown) > kilobytes * 1000:
        most = most * 2 // 3
    return max(most, MIN_SHOWN)


def show_time(moment: datetime | str | None) -> Markup:
    """Return a moment as an element that a script shows in the reader's zone; UTC without scripts."""
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError:
            return Markup("{}").format(show_text(moment, 100))
    if moment is None or moment == UNKNOWN_START:
        return Markup("")
    moment = moment.astimezone(UTC)
    return Markup('<time datetime="{}">{} UTC</time>').format(
        moment.isoformat(timespec="seconds"), moment.strftime("%Y-%m-%d %H:%M")
    )


def count_of(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun: "1 session", "2 sessions"."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def _finalize(value: object) -> object:
    """Return what an expression of a template prints: never a text that was not looked at."""
    if value is None:
        return ""
    return show_text(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def make_environment() -> Environment:
    """Return the templates, which escape all that they print."""
    environment = Environment(
        loader=PackageLoader("consolidator.ui"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"when": show_time, "cut": show_text, "preview": preview_text}
    environment.filters |= {"line": show_line, "project": show_project}
    environment.filters |= {"count_of": count_of, "person": describe_peer}
    return environment
