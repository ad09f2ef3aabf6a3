"""Tell what a shell call installs, and whether a package provides a missing command or module.

Pure. Packages are compared with what is missing by their names alone.
"""

from __future__ import annotations

import re
from typing import Any

from consolidator.memory.calls import shell
from consolidator.memory.calls.shell import Command
from consolidator.memory.calls.shell_programs import word_set
from consolidator.memory.calls.symbols import shell_command

_PACKAGE_MANAGERS = word_set(
    """
    apt apt-get aptitude dpkg apk dnf yum microdnf zypper pacman brew port snap flatpak nix nix-env choco scoop winget
    pip pipx uv poetry pdm hatch rye conda mamba micromamba pipenv easy_install npm pnpm yarn bun deno corepack volta
    asdf mise gem bundle cargo rustup go composer dotnet mix opam cabal stack luarocks cpan cpanm tlmgr ensurepip
    """
)
_INSTALLING = word_set("install add i get require enable ensurepip use sync reinstall -S -i")
_VERBS = _INSTALLING | word_set("pip tool global mod apk apt-get")
_VERSION = re.compile(r"(?:[=<>~!^]=?|@(?=[\d^~<>lvn])|\[).*$")
_SEPARATOR = re.compile(r"[-_./@+]|(?<=[a-z])(?=\d)")
_MIN_PART = 3  # characters of a part of a name that is compared with another name


def installed_packages(tool: str, arguments: Any) -> tuple[str, ...]:
    """Return the packages that a shell call names for a package manager to install, in lower case."""
    line = shell_command(tool, arguments)
    if line is None:
        return ()
    return tuple(dict.fromkeys(name for command in shell.parse_commands(line) for name in _packages(command)))


def _packages(command: Command) -> tuple[str, ...]:
    if command.program == "ensurepip":
        return ("pip",)
    if command.program not in _PACKAGE_MANAGERS:
        return ()
    verbs = (command.subcommand or "").split()
    if not {*verbs, *command.options, *command.operands[:1]} & _INSTALLING:
        return ()
    names = (_VERSION.sub("", word.strip("'\"")).lower() for word in (*verbs, *command.operands))
    return tuple(name for name in names if name and name not in _VERBS and not name.startswith((".", "/", "$")))


def provides(package: str, name: str) -> bool:
    """Whether a package's name says that it provides a command or module: "python3-pip" provides "pip"."""
    package, name = package.lower(), name.lower().split(".")[0]
    if package == name or name in _SEPARATOR.split(package):
        return True
    if len(name) >= _MIN_PART and name in package:
        return True
    return any(len(part) >= _MIN_PART and name.endswith(part) for part in _SEPARATOR.split(package))
