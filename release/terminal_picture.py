"""python -m release.terminal_picture: draw the README's terminal, line by line as it happens, from real commands.

The demo is played in a temporary home under a fixed clock; then `brief` shows what the next session is told.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import textwrap
from html import escape
from itertools import accumulate
from pathlib import Path

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs/images"
COLUMNS, MARGIN, LINE, CHARACTER = 100, 20, 21, 8.0
ERROR = "fatal: The current branch feat/loyalty-points has no upstream branch."
SECONDS = {"typed": 1.2, "quiet": 0.9, "good": 0.9}  # before a line of a kind is shown; others follow at once
MOTION = (
    "<style>@media (prefers-reduced-motion: no-preference) { text { animation: shown .3s both } } "
    "@keyframes shown { from { opacity: 0 } }</style>\n"
)
SHOWN = ("always open a pull request", "Tests:", "no upstream branch", "alembic upgrade", "tailscale")
# Of each theme: the page, its frame, text, what a person types, what is quiet, and what stands out.
THEMES = {
    "light": ("#ffffff", "#d0d7de", "#1f2328", "#0550ae", "#59636e", "#1a7f37"),
    "dark": ("#0d1117", "#3d444d", "#e6edf3", "#79c0ff", "#9198a1", "#7ee787"),
}


def main() -> None:
    """Play the demo, and write both pictures."""
    with tempfile.TemporaryDirectory() as home:
        run(home, "demo")
        brief = run(f"{home}/demo", "brief", "--project", "fernleaf").splitlines()
        words = ["brief", "--project", "fernleaf", "--moment", "failure", "--command", "git push", ERROR]
        fix = run(f"{home}/demo", *words).splitlines()
    told = [line for line in brief if line.startswith("- ")]
    shown = [line for line in told if any(word in line for word in SHOWN)]
    lines = [
        ("typed", "$ claude"),
        ("quiet", f"consolidator, as the session starts ({len(shown)} of {len(told)} lines):"),
    ]
    lines += [("text", part) for line in shown for part in wrap_line(line)]
    lines += [("text", ""), ("typed", "$ git push"), ("text", ERROR), ("quiet", "consolidator, after the failed call:")]
    (known,) = (line for line in fix if "→" in line)
    lines.append(("good", "- " + known.partition("→ ")[2].partition('"')[0]))
    for name, theme in THEMES.items():
        (IMAGES / f"terminal-{name}.svg").write_text(draw(lines, theme), encoding="utf-8")


def run(home: str, *words: str) -> str:
    """Return what a command prints in a home of its own."""
    environment = {"PATH": os.environ["PATH"], "HOME": home, "CONSOLIDATOR_HOME": home}
    environment["CONSOLIDATOR_CLOCK"] = "2026-11-27T12:00:00Z"
    command = [sys.executable, "-m", "consolidator", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def wrap_line(line: str) -> list[str]:
    """Return a line without its citation, wrapped to the columns."""
    return textwrap.wrap(line.rpartition(" [")[0], COLUMNS, subsequent_indent="  ", break_long_words=False)


def draw(lines: list[tuple[str, str]], theme: tuple[str, ...]) -> str:
    """Return the picture of a terminal; it names no font or file from elsewhere. Without motion all of it is there."""
    page, frame, text, typed, quiet, good = theme
    colors = {"text": text, "typed": typed, "quiet": quiet, "good": good}
    width, height = 2 * MARGIN + COLUMNS * CHARACTER, 2 * MARGIN + LINE * len(lines)
    delays = accumulate(SECONDS.get(kind, 0.25) for kind, _ in lines)
    indents = [CHARACTER * (len(line) - len(line.lstrip())) for _, line in lines]
    rows = "\n".join(
        f'<text x="{MARGIN + indents[number]:.0f}" y="{MARGIN + LINE * number + 15}" fill="{colors[kind]}" '
        f'style="animation-delay: {delay - SECONDS["typed"]:.2f}s">{escape(line.lstrip())}</text>'
        for number, ((kind, line), delay) in enumerate(zip(lines, delays, strict=True))
        if line
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" role="img" '
        'style="white-space: pre" font-size="13" '
        'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace">\n'
        "<title>A terminal: what a session is told as it starts, and after a failed git push</title>\n"
        f'<rect x="0.5" y="0.5" width="{width - 1:.0f}" height="{height - 1}" rx="8" fill="{page}" stroke="{frame}"/>\n'
        f"{MOTION}{rows}\n</svg>\n"
    )


if __name__ == "__main__":
    main()
