"""Tell what a shell call installs, and whether an error names the package.

Pure. Packages are compared with what is missing by their names alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from consolidator.memory.calls import shell
from consolidator.memory.calls.shell import Command
from consolidator.memory.calls.shell_programs import PACKAGE_MANAGERS, word_set
from consolidator.memory.calls.symbols import shell_command

_INSTALLING = word_set("install add i get require enable ensurepip use sync reinstall -S -i")
_VERBS = _INSTALLING | word_set("pip tool global mod apk apt-get")
_VERSION = re.compile(r"(?:[=<>~!^]=?|@(?=[\d^~<>lvn])|\[).*$")
_USUAL_WORDS = word_set(
    "python python3 python2 py py3 lib dev devel node js golang go ruby cli tools utils bin core types 3 2"
)
KNOWN_NAMES = dict(  # modules and commands whose package is called otherwise
    pair.split("=")
    for pair in word_set(
        """
        cv2=opencv-python pil=pillow sklearn=scikit-learn yaml=pyyaml bs4=beautifulsoup4 dotenv=python-dotenv
        jwt=pyjwt dateutil=python-dateutil git=gitpython crypto=pycryptodome serial=pyserial usb=pyusb
        magic=python-magic docx=python-docx pptx=python-pptx mysqldb=mysqlclient psycopg2=psycopg2-binary
        skimage=scikit-image openssl=pyopenssl rg=ripgrep fd=fd-find ag=silversearcher-ag pg_config=libpq-dev
        psql=postgresql-client gcc=build-essential g++=build-essential make=build-essential cc=build-essential
        dig=dnsutils nslookup=dnsutils ifconfig=net-tools netstat=net-tools ip=iproute2 ping=iputils-ping ps=procps
        nc=netcat-openbsd convert=imagemagick 7z=p7zip-full node=nodejs npm=nodejs xxd=vim-common
        pdftotext=poppler-utils add-apt-repository=software-properties-common pkg_resources=setuptools attr=attrs
        google=protobuf
        """
    )
)
KNOWN_PACKAGES = word_set(
    """
    build-essential ca-certificates gnupg pkg-config libpq-dev libssl-dev libffi-dev zlib1g-dev libxml2-dev libxslt1-dev
    python3-dev python3-venv python3-pip pip setuptools wheel gcc g++ make cmake git curl wget jq ripgrep tree unzip zip
    xz-utils libgl1 libglib2.0-0 libgl1-mesa-glx postgresql-client default-libmysqlclient-dev libjpeg-dev libsqlite3-dev
    libreadline-dev libbz2-dev nodejs typescript ts-node tsx eslint prettier jest vitest pytest pytest-asyncio
    pytest-cov pytest-xdist pytest-django pytest-mock mypy ruff black flake8 psycopg2-binary pydantic numpy pandas scipy
    matplotlib requests httpx flask django fastapi uvicorn sqlalchemy greenlet cryptography python-multipart
    email-validator aiosqlite asyncpg setuptools-scm cython
    """
)
_NAME = re.compile(r"@?\w[\w.@/+-]*\w|\w")


def installed_packages(tool: str, arguments: Any) -> tuple[str, ...]:
    """Return the packages that a shell call names for a package manager to install, in lower case."""
    line = shell_command(tool, arguments)
    if line is None:
        return ()
    return tuple(dict.fromkeys(name for command in shell.parse_commands(line) for name in _packages(command)))


def _packages(command: Command) -> tuple[str, ...]:
    if command.program == "ensurepip":
        return ("pip",)
    if command.program not in PACKAGE_MANAGERS:
        return ()
    verbs = (command.subcommand or "").split()
    if not {*verbs, *command.options, *command.operands[:1]} & _INSTALLING:
        return ()
    names = (_VERSION.sub("", word.strip("'\"")).lower() for word in (*verbs, *command.operands))
    return tuple(name for name in names if name and name not in _VERBS and not name.startswith((".", "/", "$")))


def installs_unnamed(line: str, text: str) -> bool:
    """Whether a shell line installs a package that a text, such as an error and the call that failed, does not name."""
    named = frozenset(_NAME.findall(text))
    return any(not is_package_of(package, named) for package in installed_packages("bash", {"command": line}))


def is_package_of(package: str, names: Iterable[str]) -> bool:
    """Whether a package is one that an error names: as it is, under a known name, or with a usual word beside it.

    A name that only looks alike, or has another word beside it, is another package: `evil-requests` is not `requests`.
    """
    if package in KNOWN_PACKAGES or package.startswith("@types/"):
        return True
    own = _parts(package)
    for name in names:
        named = _parts(KNOWN_NAMES.get(name.lower(), name))
        if own == named or (named and named <= own and own - named <= _USUAL_WORDS):
            return True
    return False


def _parts(name: str) -> frozenset[str]:
    return frozenset(filter(None, re.split(r"[-_./@+]", name.lower())))
