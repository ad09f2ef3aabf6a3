"""Tables of common shell programs: which have subcommands, which only wrap or filter others.

A program that is not listed is read by the general rule in `shell`.
"""

from __future__ import annotations

from consolidator.memory.calls.shell_words import PLAIN_WRAPPERS


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text: long tables read better as text."""
    return frozenset(text.split())


# Programs whose first bare word is a subcommand.
SUBCOMMAND_PROGRAMS = word_set(
    """
    git hg svn jj gh glab hub docker podman docker-compose podman-compose kubectl helm k9s minikube kind oc
    terraform tofu pulumi ansible-galaxy vagrant packer aws gcloud az gsutil heroku fly flyctl vercel netlify
    wrangler firebase supabase railway doctl npm pnpm yarn bun deno nx turbo lerna ng expo cargo rustup go mix hex
    rebar3 pip pipx uv poetry pdm hatch rye conda mamba pipenv nox invoke gem bundle rails rake bin/rails composer
    artisan dotnet swift flutter dart gradle gradlew mvn mvnw sbt lein make just task ninja bazel buck meson apt
    apt-get apk dnf yum pacman brew port snap flatpak nix systemctl service launchctl loginctl supervisorctl pm2
    tmux crontab bd br beads claude codex ruff pre-commit alembic manage.py django-admin flask celery airflow dbt
    dvc mlflow sam cdk serverless hugo jekyll gatsby next nuxt vite astro prisma drizzle-kit sequelize knex
    hardhat forge cast anchor solana op vault consul nomad etcdctl redis-cli-cluster rclone restic borg openssl ip
    nmcli adb fastlane xcrun pod carthage stack cabal opam dune zig spin ollama modal wandb huggingface-cli sqlx
    diesel sea-orm-cli trunk wasm-pack buf tofu mise
    """
)

# Programs without subcommands, though their operands may look like one.
PLAIN_PROGRAMS = word_set(
    """
    unlink trash del remove-item rd erase copy move xcopy robocopy mklink copy-item move-item set-content add-content
    out-file tee-object new-item expand-archive
    ls cat grep egrep fgrep rg ag ack find fd sed awk gawk head tail wc sort uniq cut tr tee less more diff cmp
    comm cp mv rm mkdir rmdir touch ln chmod chown stat file du df tree pwd cd echo printf which whereis whatis
    type man kill pkill killall ps top sleep date true false test env export set unset source alias read xargs
    curl wget ssh scp rsync tar zip unzip gzip gunzip xz bzip2 md5sum sha256sum base64 xxd hexdump od strings nc
    telnet ping dig nslookup host python node ruby perl php java javac gcc g++ clang clang++ cc ld nasm gdb
    objdump readelf nm pytest mypy pyright flake8 pylint black isort eslint prettier tsc jest vitest mocha rspec
    phpunit tox coverage jq yq vim vi nano open goto create edit insert append scroll_up scroll_down search_dir
    search_file find_file submit exit_cost exit exit_context exit_format connect_start connect_sendline
    connect_exec connect_stop psql mysql sqlite3 mongo redis-cli wait bash sh zsh cd basename dirname realpath
    readlink seq yes column paste split history id whoami uname hostname uptime free lsof netstat ss tshark
    tcpdump lscpu nproc watch script expect bc expr time
    """
)

WRAPPED_PROGRAMS = SUBCOMMAND_PROGRAMS | word_set(  # that show, as the first operand of an unknown program, a wrapper
    """
    cat grep rg sed awk head tail wc diff tree curl python node ruby pytest mypy pyright tsc jest vitest eslint
    prettier psql
    """
)

# Verbs: where the first operand of an unknown program is one of these, it is a subcommand.
SUBCOMMAND_VERBS = word_set(
    """
    add apply archive auth build bump bundle cancel check clean clippy clone close codegen commit compare config
    configure connect copy create delete deploy describe destroy diff disable doctor down drop edit enable eval exec
    export fetch find fix fmt format generate get help import info init inspect install lint list load lock log login
    logout logs ls merge migrate new open outdated pack plan prune publish pull push query ready rebuild release
    reload remove rename reset restart restore resume rm rollback run save scan search seed send serve set setup show
    start stat status stop submit switch sync tag test typecheck uninstall unlock up update upgrade upload validate
    verify version view watch whoami
    """
)

# Subcommands whose next bare word belongs to them, with their program; "*" is any subcommand.
NESTED_SUBCOMMANDS = word_set(
    """
    mise/run mise/r deno/task cargo/xtask turbo/run composer/run rush/run hatch/run nx/run pixi/run task/run poe/run
    gh/* glab/* aws/* gcloud/* az/* npm/run pnpm/run yarn/run bun/run npm/run-script docker/compose docker/image
    docker/container docker/volume docker/network podman/compose git/stash git/remote git/worktree git/submodule
    git/bisect git/lfs go/mod go/tool uv/pip uv/tool uv/python cargo/nextest kubectl/rollout kubectl/config
    kubectl/create terraform/state terraform/workspace nix/flake helm/repo bd/dep bd/label bd/comments claude/mcp
    poetry/env fly/secrets heroku/config conda/env rustup/target rustup/component
    """
)

# Programs that run another one: their options that take a value, and how many operands come before it.
WRAPPERS = PLAIN_WRAPPERS | {
    "doas": (frozenset({"-u", "-C"}), 0),
    "nice": (frozenset({"-n"}), 0),
    "ionice": (frozenset({"-c", "-n"}), 0),
    "stdbuf": (frozenset({"-i", "-o", "-e"}), 0),
    "setsid": (frozenset(), 0),
    "unbuffer": (frozenset(), 0),
    "xvfb-run": (frozenset({"-n", "-s", "-e"}), 0),
    "strace": (frozenset({"-e", "-o", "-p", "-s"}), 0),
    "caffeinate": (frozenset({"-t"}), 0),
    "npx": (frozenset({"-p", "--package", "-c"}), 0),
    "bunx": (frozenset(), 0),
    "pnpx": (frozenset(), 0),
    "uvx": (frozenset({"--from", "--with", "-p", "--python"}), 0),
}
PROVIDERS = word_set("npx bunx pnpx uvx corepack python pypy")  # wrappers without which the program is not there
_RUN_VALUES = word_set("--with --python -p --extra --group --package --directory --project --env")
# program -> subcommand -> its options that take a value: "uv run X" runs X
RUNNERS: dict[str, dict[str, frozenset[str]]] = {
    "uv": {"run": _RUN_VALUES | {"--env-file", "--with-requirements", "--index"}},
    "poetry": {"run": frozenset({"-C", "--directory"})},
    "pipenv": {"run": frozenset()},
    "pdm": {"run": frozenset({"-p"})},
    "hatch": {"run": frozenset()},
    "rye": {"run": frozenset()},
    "conda": {"run": frozenset({"-n", "-p", "--name", "--prefix"})},
    "bundle": {"exec": frozenset()},
    "pnpm": {"exec": frozenset(), "dlx": frozenset()},
    "npm": {"exec": frozenset()},
    "yarn": {"exec": frozenset(), "dlx": frozenset()},
    "mise": {"exec": frozenset(), "x": frozenset()},
    "asdf": {"exec": frozenset()},
    "fnm": {"exec": frozenset({"--using"})},
    "op": {"run": frozenset({"--env-file"})},
    "dotenv": {"run": frozenset({"-f"})},
}

# Options that take the next word as their value: it is neither an operand nor a subcommand.
OPTIONS_WITH_VALUE: dict[str, frozenset[str]] = {
    "git": frozenset({"-C", "-c", "-m", "--message", "-F", "--author", "--date", "--git-dir", "--work-tree", "-n"}),
    "gh": frozenset({"-R", "--repo", "--title", "-t", "--body", "-b", "--json", "--jq", "-q", "--limit", "-L"}),
    "docker": frozenset({"--context", "-H", "--host", "-f", "--name", "-e", "-v", "-p", "-w", "--network", "-t"}),
    "docker-compose": frozenset({"-f", "-p", "--project-directory", "--profile"}),
    "kubectl": frozenset({"-n", "--namespace", "--context", "--kubeconfig", "-o", "-l", "-f"}),
    "helm": frozenset({"-n", "--namespace", "--kube-context", "-f"}),
    "npm": frozenset({"--prefix", "-w", "--workspace"}),
    "pnpm": frozenset({"--filter", "-F", "-C", "--dir"}),
    "yarn": frozenset({"--cwd"}),
    "make": frozenset({"-C", "-f", "-j"}),
    "just": frozenset({"-f", "--justfile", "-d"}),
    "cargo": frozenset({"--manifest-path", "-p", "--package", "--features", "--bin", "--test"}),
    "go": frozenset({"-C", "-run", "-o", "-timeout"}),
    "uv": frozenset({"--directory", "--project", "-p"}),
    "terraform": frozenset({"-chdir"}),
    "aws": frozenset({"--profile", "--region", "--output"}),
    "tmux": frozenset({"-L", "-S", "-f", "-t"}),
    "systemctl": frozenset({"-n", "-t", "-H"}),
    "mvn": frozenset({"-f", "-pl", "-P"}),
    "bd": frozenset({"--db"}),
    "ssh": frozenset({"-i", "-p", "-o", "-l"}),
    "head": frozenset({"-n", "-c"}),
    "tail": frozenset({"-n", "-c"}),
    "grep": frozenset({"-A", "-B", "-C", "-m"}),
    "rg": frozenset({"-A", "-B", "-C", "-m", "-g", "-t"}),
    "curl": frozenset({"-H", "-X", "-o", "-w", "-u", "-m", "--max-time"}),
    "pytest": frozenset({"-k", "-m", "-n", "-p", "-c", "--maxfail", "--tb"}),
}

PIPE_FILTERS = word_set(
    """
    head tail grep egrep fgrep rg sed awk gawk wc sort uniq cut tr tee less more jq yq column cat xargs fold nl
    tac rev paste fmt pr strings base64 xxd python node perl ruby
    """
)
PACKAGE_MANAGERS = word_set(
    """
    apt apt-get aptitude dpkg apk dnf yum microdnf zypper pacman brew port snap flatpak nix nix-env choco scoop winget
    pip pipx uv poetry pdm hatch rye conda mamba micromamba pipenv easy_install npm pnpm yarn bun deno corepack volta
    asdf mise gem bundle cargo rustup go composer dotnet mix opam cabal stack luarocks cpan cpanm tlmgr ensurepip
    """
)
PIPE_SOURCES = frozenset({"echo", "printf", "cat", "yes", "true"})  # feed a pipeline; the next program does the work
MINOR_PROGRAMS = word_set(
    """
    cd pushd popd echo printf true false : exit sleep export set unset source . alias pwd wait clear return trap
    shopt umask ulimit local declare readonly shift break continue date test [ [[ command-v hash
    """
)
CONDITION_PROGRAMS = word_set("test [ [[ which command type hash grep pgrep")  # `TEST || do this`

# What a program of none of these is given to run is what it runs: `rtk git status`.
KNOWN_PROGRAMS = (SUBCOMMAND_PROGRAMS | PLAIN_PROGRAMS | PIPE_FILTERS | MINOR_PROGRAMS | CONDITION_PROGRAMS) | word_set(
    "pidof whence unalias apropos info tldr cheat dpkg rpm"
)

SHELL_TOOLS = word_set(
    """
    bash shell sh zsh terminal execute_bash run_bash bash_tool run_terminal_cmd run_terminal_command
    run_in_terminal execute_command run_command run_shell_command shell_command local_shell local_shell_call
    container.exec exec exec_command unified_exec container_exec cmd console powershell run_shell execute_shell
    command
    """
)
COMMAND_KEYS = ("command", "cmd", "script", "commands", "code", "input")
