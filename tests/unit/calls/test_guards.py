"""Ways round a check are known by what a command line does."""

from __future__ import annotations

import pytest

from consolidator.memory.calls.guards import adds_bypass, switches_off_check

BYPASSES = [
    # hooks are skipped
    ("git commit -m x", "git commit --no-verify -m x"),
    ("git commit -m x", "git commit -n -m x"),
    ("git commit -m x", "git commit -nm x"),
    ("git commit -am x", "git commit -anm x"),
    ("git commit -m x", "git -c core.hooksPath=/dev/null commit -m x"),
    ("git commit -m x", "cd app && bash -c 'git commit -nm x'"),
    # force
    ("git push", "git push -f"),
    ("git push -u origin x", "git push -fu origin x"),
    ("git push origin main", "git push origin +main"),
    ("git branch -d x", "git branch -D x"),
    ("git worktree remove x", "git worktree remove -f x"),
    ("npm install", "npm install --force"),
    ("cargo fix", "cargo fix --allow-dirty"),
    ("gh pr merge 3", "gh pr merge 3 --admin"),
    # the exit code is ignored
    ("npm test", "npm test || true"),
    ("npm test", "npm test 2>&1 | tail -5 || :"),
    ("npm test", "npm test; true"),
    ("npm test", "npm test || exit 0"),
    ("ruff check", "ruff check --exit-zero"),
    ("tfsec .", "tfsec . --soft-fail"),
    ("make all", "make -i all"),
    ("mvn verify", "mvn verify -Dmaven.test.failure.ignore=true"),
    # verification is weakened
    ("curl -s https://a", "curl -sk https://a"),
    ("ssh a ls", "ssh -o StrictHostKeyChecking=no a ls"),
    ("git pull", 'GIT_SSH_COMMAND="ssh -o StrictHostKeyChecking=no" git pull'),
    ("rsync a b:", "rsync -e 'ssh -o StrictHostKeyChecking=no' a b:"),
    ("wget https://a", "wget --no-check-certificate https://a"),
    ("helm install a", "helm install a --insecure-skip-tls-verify"),
    ("podman pull a", "podman pull --tls-verify=false a"),
    ("kubectl apply -f a.yml", "kubectl apply --validate=false -f a.yml"),
    ("pip install a", "pip install --trusted-host pypi.org a"),
    ("git pull", "git -c http.sslVerify=false pull"),
    # a rule or configuration is disabled
    ("eslint .", "eslint --no-eslintrc ."),
    ("npx eslint .", "npx eslint --rule 'no-alert: off' ."),
    ("eslint --max-warnings 0 .", "eslint --max-warnings 100 ."),
    ("flake8", "flake8 --extend-ignore E501"),
    ("pylint a", "pylint --disable=C0114 a"),
    ("gcc -Wall a.c", "gcc -Wall -Wno-error a.c"),
    ("cargo clippy", "cargo clippy -- -A clippy::all"),
    ("mvn install", "mvn install -DskipTests"),
    ("./gradlew build", "./gradlew build -x test"),
    ("pytest", "pytest --deselect tests/test_a.py::test_b"),
    # the checker goes away in the same line
    ("git commit -m x", "mv .git/hooks/pre-commit /tmp/ && git commit -m x"),
    ("git commit -m x", "rm -rf .husky; git commit -m x"),
    # variables
    ("git commit -m x", "HUSKY=0 git commit -m x"),
    ("git commit -m x", "HUSKY_SKIP_HOOKS=1 git commit -m x"),
    ("git commit -m x", "SKIP=eslint,mypy git commit -m x"),
    ("git commit -m x", "env LEFTHOOK=false git commit -m x"),
    ("git commit -m x", "export OVERCOMMIT_DISABLE=1; git commit -m x"),
    ("git pull", "GIT_SSL_NO_VERIFY=true git pull"),
    ("node a.js", "NODE_TLS_REJECT_UNAUTHORIZED=0 node a.js"),
]


@pytest.mark.parametrize(("failing", "later"), BYPASSES)
def test_a_call_that_gets_round_a_check_is_known(failing: str, later: str) -> None:
    assert adds_bypass("Bash", failing, {"command": later})
    assert not adds_bypass("Bash", later, {"command": later})


@pytest.mark.parametrize(
    ("failing", "later"),
    [
        ("git push --force", "git push --force origin x"),
        ("git push -f", "git push --force"),
        ("git push", "git push --force-with-lease"),
        ("git push", "git push -u origin x"),
        ("git push", "git push -n"),
        ("git commit", "git commit -m 'note: -n and --no-verify'"),
        ("git commit", "git commit -mn"),
        ("git commit", "git commit -am 'skip || true'"),
        ("git commit", "git commit -m 'x' -- -n"),
        ("git commit", "git commit --amend --no-edit"),
        ("git log", "git log -n 5"),
        ("grep x a", "grep -nk x a"),
        ("grep x a", "grep -rn -- --no-verify ."),
        ("echo a", "echo '--force' > notes.txt"),
        ("sort a", "sort -n a"),
        ("rm -r x", "rm -rf x"),
        ("rm -rf a", "rm -rf node_modules .mypy_cache .eslintcache src/hooks/useCart.ts"),
        ("mkdir x", "mkdir -p x"),
        ("curl https://a", "curl -fsSL -o k https://a"),
        ("make", "make -j4 -k"),
        ("tail a", "tail -f a"),
        ("docker compose up", "docker compose -f a.yml up --force-recreate"),
        ("npm test", "npm test && true"),
        ("npm test", "npm test || exit 1"),
        ("npm test", "rm -f x || true; npm test"),
        ("npm test", "npm test; echo done"),
        ("npm install", "PUPPETEER_SKIP_DOWNLOAD=1 npm install --no-fund"),
        ("next build", "NEXT_TELEMETRY_DISABLED=1 CI=1 next build"),
        ("git commit -m x", "SKIP= HUSKY=1 git commit -m x"),
        ("cargo test", "cargo test --no-fail-fast"),
        ("eslint .", "eslint --max-warnings=0 ."),
        ("pytest", "pytest -x -k total"),
        ("git commit -m x", "chmod +x .husky/pre-commit && git commit -m x"),
        ("git commit -m x", "git config core.hooksPath .githooks && git commit -m x"),
        ("Edit", "pre-commit install && git commit -m x"),
    ],
)
def test_harmless_uses_get_round_nothing(failing: str, later: str) -> None:
    assert not adds_bypass("Bash", failing, {"command": later})


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf .husky",
        "rm .git/hooks/pre-commit",
        "mv .git/hooks/pre-commit .git/hooks/pre-commit.bak",
        "git rm .pre-commit-config.yaml",
        "rm app/.eslintrc.json",
        "mv eslint.config.js /tmp/",
        "chmod -x .husky/pre-commit",
        "ln -sf /dev/null .git/hooks/pre-push",
        "echo 'exit 0' > .husky/pre-commit",
        "pre-commit uninstall",
        "npm uninstall husky",
        "git config core.hooksPath /dev/null",
        "git config --global http.sslVerify false",
        "npm config set strict-ssl false",
        "export HUSKY=0",
        "sed -i '1i /* eslint-disable */' src/a.js",
        "sudo setenforce 0",
        "chmod 777 deploy.sh",
    ],
)
def test_a_check_that_is_left_switched_off_is_known(command: str) -> None:
    assert switches_off_check("Bash", {"command": command})
    assert not switches_off_check("Read", {"command": command})


@pytest.mark.parametrize(
    "command",
    [
        "HUSKY=0 git commit -m x",  # for this call only
        "rm -rf node_modules dist .eslintcache",
        "mv .git/hooks/pre-commit.sample .git/hooks/pre-commit",
        "mv lint.bak .eslintrc.json",
        "chmod +x .git/hooks/pre-commit",
        "cat .husky/pre-commit",
        "git config core.hooksPath",
        "git config core.hooksPath .husky",
        "grep -rn eslint-disable src",
        "npx husky install",
        "npm install --save-dev husky",
        "export NODE_ENV=test PATH=/a:$PATH",
        "chmod 755 deploy.sh",
    ],
)
def test_other_steps_leave_checks_as_they_are(command: str) -> None:
    assert not switches_off_check("Bash", {"command": command})
