"""consolidator memory export, import and sync: what is believed here, moved to another installation."""

from __future__ import annotations

import secrets
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from consolidator.cli.common import parse_path, read_text, run
from consolidator.cli.output import ProjectOption, confirm, emit, pluralize, print_line, print_note, replace_file
from consolidator.cli.streams import write_text
from consolidator.errors import NotFound, UsageError
from consolidator.service.credentials import load_token
from consolidator.service.memory.moving import (
    MemoryBundle,
    Received,
    export_memory,
    import_memory,
    read_bundle,
    read_documents,
)
from consolidator.settings import load_settings

_SSH_SECONDS = 600
Into = Annotated[
    str | None, typer.Option("--project", metavar="PATH", help="Where what was learned in a project belongs here.")
]


def export_memory_command(
    project: ProjectOption = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", parser=parse_path, help="Write to this file, whole or not at all.")
    ] = None,
    key_from_stdin: Annotated[
        bool, typer.Option("--key-from-stdin", help="Sign with the key on standard input, as `sync` does.")
    ] = False,
) -> None:
    """Export what is believed here as one signed file, each line with the words that it rests on.

    Credentials, hostile commands, what other people said and what other installations sent are left out.
    """
    key = sys.stdin.readline().strip() if key_from_stdin else load_token(load_settings().home)
    if len(key) < 32:
        raise UsageError("no key came on standard input")
    text = "".join(run(export_memory, key, project=project))
    if output is None:
        write_text(text)
        return
    with replace_file(output) as file:
        file.write(text)
    count = text.count("\n") - 2  # without the first and the last line
    emit({"statements": count, "file": str(output)}, f"wrote {pluralize(count, 'statement')} to {output}")


def import_memory_command(
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="What `memory export` wrote (- is standard input), Markdown, or a folder."),
    ],
    project: Into = None,
    propose: Annotated[
        bool, typer.Option("--propose", help="Take a file that this installation's key did not sign, as proposals.")
    ] = False,
) -> None:
    """Import what another installation believes. Importing it again adds nothing.

    What your own key signed is believed by the usual rules; anything else waits for your word on each statement
    (`consolidator facts --review`): also the points of a CLAUDE.md or AGENTS.md, or of an agent's memory folder.
    """
    path = Path(file)
    if path.suffix == ".md" or path.is_dir():
        bundle = read_documents(path, project)
    else:
        bundle = read_bundle(read_text(file), load_token(load_settings().home))
    _import(bundle, project, is_agreed=propose)


def _import(bundle: MemoryBundle, project: str | None, *, is_agreed: bool = False) -> None:
    if not bundle.is_signed and not is_agreed:
        print_note(f"this installation's key did not sign it: it comes from {bundle.installation}, as far as is known")
        confirm(
            f"Take {pluralize(len(bundle.rows), 'statement')} as proposals, which no agent is told?",
            "nothing was imported",
        )
    emit(run(import_memory, bundle, project=project), _print_received)


def sync_memory_command(
    host: Annotated[str, typer.Argument(metavar="HOST", help="A host or user@host, as for ssh.")], project: Into = None
) -> None:
    """Fetch over ssh what the consolidator of another machine of yours believes, and import it here.

    The other machine signs with a key that is made for this once. Run it there for the other direction.
    """
    if host.startswith("-"):
        raise UsageError(f"{host!r} is no host")
    key = secrets.token_hex(32)
    command = shlex.join(["consolidator", "memory", "export", "--key-from-stdin"])
    try:
        answer = subprocess.run(
            ["ssh", "-T", "--", host, command],
            input=f"{key}\n", stdout=subprocess.PIPE, text=True, encoding="utf-8", timeout=_SSH_SECONDS, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotFound(f"ssh to {host} failed: {error}") from error
    if answer.returncode != 0:
        raise NotFound(f"`ssh {host} {command}` ended with exit code {answer.returncode}")
    _import(read_bundle(answer.stdout, key), project)


def _print_received(received: Received) -> None:
    line = f"{pluralize(received.new, 'new statement')} from {received.installation}, {received.known} known already"
    print_line(line + (f", {received.erased} erased here before" if received.erased else ""))
    if received.held:
        print_note(f"{received.held} wait for your word: `consolidator facts --review`")
    for session in received.sessions:
        print_note(f"`consolidator erase --session {session}` takes them back")
