"""Which files a shell call writes and what it installs is read from its line."""

from __future__ import annotations

import pytest

from consolidator.memory.calls.installation import installed_packages
from consolidator.memory.calls.operation import written_paths


@pytest.mark.parametrize(
    ("command", "paths"),
    [
        ("cat > /a/b.py <<'EOF'\nx\nEOF", ("/a/b.py",)),
        ("cd /r && sed -i 's/a/b/' src/x.py", ("/r/src/x.py",)),
        ("echo x | tee -a y.txt", ("y.txt",)),
        ("cp /tmp/a src/b.py", ("src/b.py",)),
        ("python3 -c \"open('x.py', 'w').write('a')\"", ("x.py",)),
        ("python3 <<'E'\nfrom pathlib import Path\np = Path('/a/q.ts')\np.write_text('x')\nE", ("/a/q.ts",)),
        ("node -e \"fs.writeFileSync('a.json', '{}')\"", ("a.json",)),
        ("perl -pi -e 's/a/b/' z.c", ("z.c",)),
        ("ls 2>/dev/null", ()),
        ("make 2>&1 | head", ()),
        ("cat > $FILE", ()),
        ("python3 -c \"print(open('x.py').read())\"", ()),
        ("sed 's/a/b/' x.py", ()),
    ],
)
def test_written_paths(command: str, paths: tuple[str, ...]) -> None:
    assert written_paths("Bash", {"command": command}) == paths
    assert written_paths("Read", {"command": command}) == ()


@pytest.mark.parametrize(
    ("command", "packages"),
    [
        ("sudo apt-get install -y python3-pip", ("python3-pip",)),
        ("pip install requests==2.0 'foo[bar]>1'", ("requests", "foo")),
        ("npm i -g typescript", ("typescript",)),
        ("npm install --save-dev @types/node", ("@types/node",)),
        ("uv pip install numpy", ("numpy",)),
        ("pacman -S jq", ("jq",)),
        ("python3 -m ensurepip --upgrade", ("pip",)),
        ("pip uninstall requests", ()),
        ("git add x", ()),
    ],
)
def test_installed_packages(command: str, packages: tuple[str, ...]) -> None:
    assert installed_packages("Bash", {"command": command}) == packages
