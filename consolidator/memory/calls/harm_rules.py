"""Tables for `harm`: what makes a command one that memory repeats to no agent, however often it worked."""

from __future__ import annotations

import re

from consolidator.llm.patterns import AnyCase, lazy_regex
from consolidator.memory.calls.shell_programs import PACKAGE_MANAGERS, word_set

FETCHES_AND_RUNS = "fetches and runs code"
FOREIGN_SOURCE = "installs from an address or a registry of its own"
WRITES_OUTSIDE = "writes outside the project"
SENDS_OUT = "sends data out"
RAISES_PRIVILEGES = "raises privileges"
PRELOADS = "loads code into other programs"
DECODES_AND_RUNS = "decodes and runs code"
DESTROYS_WORK = "destroys work"
UNREADABLE = "is too long to be judged"

FETCHERS = word_set(
    """
    curl wget fetch aria2c http https xh httpie lynx links w3m lwp-request axel iwr irm invoke-webrequest
    invoke-restmethod nc ncat netcat socat telnet ftp tftp scp sftp rsync dig nslookup host ssh
    """
)
DOWNLOADERS = word_set("curl wget aria2c fetch axel http https xh iwr irm invoke-webrequest invoke-restmethod")
SHOWERS = word_set(  # of what they are given: they show, compare, pack or save it
    """
    curl wget http xh tee diff cmp comm file bat hexdump od md5sum sha256sum shasum cksum xmllint pandoc pbcopy xclip
    tar gzip gunzip zcat bzip2 xz zstd unzip jsonlint tidy glow strings gpg split iconv
    """
)
DECODERS = word_set("base64 base32 basenc uudecode xxd openssl gunzip zcat gzip bzip2 xz rev tr hex gpg uncompress")
INTERPRETERS = word_set(
    "python pypy node nodejs deno bun ruby perl php lua osascript pwsh powershell iex tclsh rscript julia cmd awk gawk"
)
READERS = (
    FETCHERS
    | SHOWERS
    | word_set(  # of addresses: they show or save what is there
        """
    git gh glab hub open xdg-open start browse ping echo printf grep egrep rg sed test [ [[ ab wrk hey k6 siege
    lighthouse yt-dlp youtube-dl
    """
    )
)
RUNS_ADDRESSES = word_set(  # programs that run or apply what is at an address, wherever it is named
    """
    kubectl oc helm terraform tofu pulumi ansible-pull ansible-playbook nix nix-shell guix docker podman docker-compose
    code cursor claude codex gemini java msiexec mshta wine certutil bitsadmin start-process vim nvim
    """
)
RUNS_WORDS = word_set(  # programs whose words hold another command
    """
    xargs parallel watch ssh su runuser find fd entr script flock docker podman kubectl tmux screen at batch
    start-stop-daemon systemd-run chroot nsenter unshare firejail proot cmd pwsh powershell start-process eval busybox
    """
)
PRIVILEGED = word_set("sudo doas pkexec su runuser runas gosu setpriv sudoedit visudo gsudo")
INSTALLERS = PACKAGE_MANAGERS | word_set("npx bunx pnpx uvx rpm helm")
RUNNERS_OF_PACKAGES = frozenset({"npx", "bunx", "pnpx", "uvx", "npm exec", "pnpm dlx", "yarn dlx"})  # they fetch, too
KNOWN_TOOLS = word_set(  # packages that such a runner may be asked for
    """
    tsgo tsc tsx ts-node eslint prettier jest vitest mocha playwright cypress vite next nuxt astro ng nx turbo lerna
    webpack rollup esbuild swc babel prisma drizzle-kit sequelize knex typeorm tailwindcss postcss stylelint biome
    oxlint commitlint husky lint-staged storybook expo react-native http-server serve nodemon concurrently rimraf
    vue-tsc npm-check-updates depcheck tsup c8 nyc ava markdownlint markdownlint-cli markdownlint-cli2
    openapi-typescript graphql-codegen wrangler vercel netlify firebase
    serverless cdk sst ruff black mypy pyright pytest flake8 isort pylint tox nox pre-commit uvicorn
    gunicorn jupyter poetry build twine pip-audit bandit coverage sphinx-build mkdocs sqlfluff yamllint ansible-lint
    ty oxfmt alembic cookiecutter create-react-app create-next-app create-vite changeset semantic-release
    """
)
BUILDERS = word_set("make cmake ninja install.sh setup.sh configure")
DATABASE_CLIENTS = word_set("psql mysql mariadb sqlite3 duckdb mongosh mongo sqlcmd")
SAVERS = word_set("curl wget aria2c fetch axel http xh scp invoke-webrequest iwr")  # of a file that is fetched
SENDS_INPUT = word_set("nc ncat netcat socat telnet sftp ssh")
CONNECTORS = SENDS_INPUT | word_set("dig host nslookup")
SEARCHERS = word_set("grep egrep rg ag ack echo printf") | {  # their words are only texts
    f"{program} {subcommand}"
    for program in ("git", "hg", "jj", "sl", "svn")
    for subcommand in ("commit", "grep", "log")
}
SHOWS_NAMES = word_set(
    "which whereis type man command hash whatis apropos tldr ls cat head tail wc stat file"
)  # likewise
REMOVERS = word_set("rm rmdir unlink trash del remove-item ri rd erase")
WRITES_LAST = word_set(  # the last operand
    "cp mv ln install rsync copy move xcopy robocopy copy-item move-item"
)
WRITERS = word_set(  # every operand
    """
    tar unzip touch tee mkdir chmod sed perl mklink set-content add-content out-file tee-object new-item
    expand-archive
    """
)
CHANGERS = (  # beside those of `NAMED_IN_PROSE`
    REMOVERS | WRITES_LAST | WRITERS | DATABASE_CLIENTS | PACKAGE_MANAGERS | word_set("make systemctl shred truncate")
) - {"install", "copy", "move", "erase"}
LOCAL_HOST = lazy_regex(
    r"localhost|[\w-]*\.localhost|127(?:\.\d+){3}|0\.0\.0\.0|\[?::1?\]?|host\.docker\.internal|10(?:\.\d+){3}"
    r"|192\.168(?:\.\d+){2}|172\.(?:1[6-9]|2\d|3[01])(?:\.\d+){2}|[\w-]+(?:\.local|\.test)?|",
    re.IGNORECASE,
)
REMOVABLE = lazy_regex(  # what is made again, or is nobody's work
    r"(?:.*/)?(?:node_modules|dist|build|builds|target|out|output|bin|obj|\.?venv|\.?env|__pycache__|coverage|htmlcov"
    r"|logs?|\.?te?mp|.*cache.*|\.(?:next|nuxt|turbo|tox|nox|parcel|gradle|terraform|eggs|svelte-kit|output|vite"
    r"|hypothesis|direnv|bundle|angular)|.*\.egg-info|\{\}|\+|.*\.?(?:lock|pid|sock|orig|rej|log|bak)"
    r"|[\w-]*[._-]?(?:old|bak|backup|test|copy|tmp))/?\*?"
)
OPAQUE = lazy_regex(r"\$\{?IFS\b|\$\{[!#@]|(?:\\x[0-9a-f]{2}){4}|(?:\\[0-7]{3}){4}|/dev/(?:tcp|udp)/", re.IGNORECASE)

# A row is a pattern of one command, written as its program, its subcommand and then its other words; a space inside a
# word is written as "·", so that no row finds its options in a message. In a row "…" stands for any words, and "¶" for
# the end of a word.
_ROWS = {
    DESTROYS_WORK: r"""
        git reset …--(?:ha\w*|me\w*|k\w*)¶
        git checkout …(?:--|-f|--force|--ours|--theirs|-p|\.|:/|\S*\*\S*)¶
        git checkout (?:[^ ]+ )*(?:\S*/)?[\w-]*\.[A-Za-z]\w{0,5}¶
        git checkout (?!-)\S+ (?!-)\S
        git checkout (?:\S+/|Makefile|Dockerfile|README|LICENSE|src|lib|tests?|docs?|app)¶
        git switch …(?:-f|--force|--discard-changes|(?-i:-C))¶
        git restore (?!(?:--staged|-S)(?: (?!.*(?:--worktree|-W))|$))
        git clean (?!…(?:-[a-z]*n[a-z]*|--dry-run)¶)
        git push …(?:--for?c?e?|--force(?!-with-lease)\S*|-\w*f\w*|--de\w*|-d|--mi\w*|--pru\w*|[+:]\S+)¶
        git (?:stash …(?:drop|clear)|reflog (?:expire|delete)|gc …--prune)
        git branch …(?:(?-i:-D|-M)|-f|--force|--delete --force)¶
        git (?:filter-branch|filter-repo|update-ref|replace|symbolic-ref|read-tree|checkout-index)\b
        git (?:worktree remove|submodule deinit|tag|rm) …(?:-f|--force|-\w*f\w*)¶
        (?:hg|svn|jj|sl|p4|bzr|fossil) …(?:revert|purge|strip|abandon|update -C|up -C|cleanup --remove\S*)
        (?:dropdb|dropuser|mysqladmin …drop|format-volume|clear-(?:disk|content)|mkfs|wipefs|shred|srm|fdisk|parted
            |sgdisk|blkdiscard|cryptsetup|hdparm)
        (?:shutdown|reboot|halt|poweroff|killall5)\b|dd …of=|history -c|kill …-1$|pkill …-u
        (?:\S+ )*(?:db:(?:drop|reset|purge|wipe|truncate\S*|migrate:(?:fresh|reset))|migrate:(?:fresh|reset|refresh))\b
        (?:prisma|sequelize|knex|typeorm|supabase|drizzle-kit) …(?:\S*:?drop|(?:db )?reset|rollback --all)¶
        prisma …(?:--force-reset|--accept-data-loss)|(?:alembic|flask) …downgrade …base
        (?:manage\.py|django-admin) (?:flush|reset_db|sqlflush|reset_schema)|redis-cli …flush(?:all|db)\b
        (?:docker|podman)(?:-compose)? …(?:prune|volume rm|rmi?|(?:down|rm) …(?:-v|--volumes|--rmi))¶
        (?:docker|podman) (?:rm|rmi|kill|stop) …[$`]
        kubectl …(?:delete|drain|replace --force)\b|(?:helm|kind|minikube) …(?:uninstall|delete)\b
        (?:terraform|tofu|pulumi|cdk|sls|serverless|vagrant) …(?:destroy|remove|(?:state|workspace) (?:rm|delete)
            |apply …-destroy)\b
        (?:aws|s3cmd|mc) …(?:rm|rb|del|(?:delete|terminate|remove)-\S+)\b
        (?:gcloud|bq|az|gsutil|doctl|heroku|flyctl|fly|firebase) …(?:\S+:)?(?:delete|destroy|rm|remove|purge|reset)\b
        (?:gh|vercel|netlify|wrangler|railway|rclone|vault|consul|etcdctl|bd) …(?:del\w*|destroy|rm|remove|purge
            |archive)\b
        (?:restic|borg|zfs|dvc|npm) …(?:forget|prune|delete|destroy|gc|unpublish)\b|lvremove|vgremove
        (?:find|fd) (?!.*-name (?:\*\.(?:py[co]|o|tmp)|__pycache__|node_modules|\.DS_Store)¶)…(?:-delete
            |-(?:exec|ok)(?:dir)? (?:rm|shred|unlink|truncate)|-[xX] rm)\b
        rsync …--(?:del|delete\S*|remove-source-files)¶|truncate …(?:-s ?0|--size[= ]?0)|mv …/dev/null
        (?:vssadmin|wbadmin|cipher|format|diskpart|del|rd|rmdir) …(?:/s|/q|delete|/w|[a-z]:)¶
    """,
    RAISES_PRIVILEGES: r"""
        (?:docker|podman)(?:-compose)? …--(?:privileged|cap-add|security-opt|device|(?:pid|ipc|userns|net|network
            |uts)[= ]host)
        (?:docker|podman) …(?:-v|--volume|--mount)[= ]?(?:\S*(?:source|src)=)?(?:/|~|\$\{?HOME\}?|/(?:etc|root|home
            |var|usr|home/\w+|Users/\w+))(?:/\.\S*|/)?(?::|,|$)
        (?:docker|podman) …\S*docker\.sock
        chmod …(?:[ugoa]*[+=]\w*s\w*|[2467]\d{3}|-R 0?777|0?777|[oa]\+\w*w\w*|a=rwx)¶
        chown …(?:root|0|-R)\b|chown -R|(?:setcap|chattr|setfacl|mount|umount|insmod|modprobe|icacls|takeown|cmdkey)¶
        (?:useradd|usermod|adduser|addgroup|groupadd|gpasswd|passwd|chpasswd|chsh|chfn|newgrp|dscl|vipw)¶
        (?:setenforce|ufw|firewall-cmd|iptables|nft|pfctl|netsh|csrutil|spctl|set-executionpolicy)¶|sysctl (?:-w|\S+=)
        systemctl …(?:stop|disable|mask) (?:apparmor|auditd|firewalld|ufw|falcon\S*|clamav\S*)|aa-(?:disable|complain)
        kubectl …(?:(?:cluster)?rolebinding|cluster-admin|certificate approve|auth reconcile)|oc adm policy
        aws iam¶|gcloud …add-iam-policy-binding|az role assignment|vault policy write|gh auth refresh
        psql ….*\b(?:superuser|pg_read_server_files|copy·.*·program)\b|mysql ….*grant·all
        (?:nsenter|unshare|capsh|setuidgid|chroot)¶|xhost \+|net (?:user|localgroup)¶
    """,
    WRITES_OUTSIDE: r"""
        crontab (?!-l¶|-u \S+ -l¶)|crontab$|(?:at|batch)¶
        git config …(?:--global|--system|--file[= ]~|-f ~)
        git …(?:config …|-c )core\.(?:hookspath|sshcommand|fsmonitor|pager|editor|askpass|gitproxy|worktree|\w*file
            |\w*refscommand)
        git …(?:config …|-c )(?:alias|credential|url|include(?:if)?|https?|remote|filter|diff|merge|gpg|sequence
            |protocol|\w+pack|submodule|ssh)\.
        (?:npm|pnpm|yarn|pip|poetry|conda|mamba|composer|bundle|gem|uv|cargo|go|bun) …(?:config|env|sources) …(?:set
            |-?-?add|-w|edit|--global|-a|--append|--prepend)¶
        (?:systemctl|launchctl|schtasks|sc|service|update-rc\.d|chkconfig|rc-update|loginctl) …/?(?:enable|link|edit
            |load|bootstrap|submit|create|defaults|add|daemon-reload)
        (?:ssh-copy-id|ssh-add(?! -[lL]$)|(?:update-)?alternatives|ldconfig|setx|regedit|xcode-select|kextload|certutil
            |apt-key)\b
        (?:update-ca-certificates|update-ca-trust|trust anchor|security add-trusted-cert|mkcert -install)\b
        (?:defaults write|gsettings set|dconf write|reg add)\b|gpg …--(?:import|recv-keys?|keyserver)
        (?:code|cursor|codium|windsurf) …--install-extension|(?:claude|codex|gemini) (?:mcp add|config|plugin)
        gh (?:extension install|alias set|auth (?!status|login¶)|ssh-key add|gpg-key add|config set|api …keys)
        (?:resolvectl|networksetup|hostnamectl set|scutil|chcp|route (?:add|del)|ip (?:route|addr|link) (?:add|del|set))
        (?:docker|npm|vault|helm registry) (?:login|adduser) …(?:\S*[.:]\S|--?(?:u|p|registry)\w*)
        gcloud auth act|aws configure (?!list|sso)|glab ssh-key add
        (?:make|ninja|cmake|meson|npm|pnpm|pip|gem) …(?:--(?:prefix|target|destdir|root)[= ]|(?:DESTDIR|PREFIX)=)/(?:
            (?:usr|opt|etc|s?bin|lib)\b|¶)
    """,
    PRELOADS: r"""
        make …(?:--eval\b|SHELL=(?!(?:/(?:usr/)?bin/(?:env·)?)?\w+¶))|cargo …\S*rustc-(?:workspace-)?wrapper
        (?:npm|pnpm|yarn|bun) …--script-shell[= ](?!/(?:usr/)?bin/)
    """,
    FOREIGN_SOURCE: r"""
        (?:npm|pnpm|yarn|bun|deno|composer) …--(?:registry|repository(?:-url)?|userconfig|globalconfig)\b
        (?:\S+ )*--(?:(?:extra-|default-)?index(?:-url|-strategy)?|trusted-host|find-links|(?:pypi|source)-url
            |no-index|proxy|mirror)(?:=|¶)
        (?:pip|uv pip|easy_install) …-[ifc](?:[= ]|\S*://)
        (?:gem|poetry|cpanm|luarocks|choco|nuget|winget|conda|dotnet) …(?:--(?:source|clear-sources|from|server|mirror
            |override-channels)|-s|sources?)\b
        pdm config|composer …config …repo|helm repo add|brew tap|flatpak remote-add|pre-commit try-repo|mvn …-D\w*repo
        snap …--(?:dangerous|devmode|classic)|(?:cargo|mix|gem|bundle|npm) …--(?:git|github|index|registry)\b
        (?:apt-)?add-(?:apt-)?repository|(?:dnf config|yum-config)-manager|zypper (?:ar|addrepo)|pacman-key|rpmkeys
        asdf plugin add|mise plugins? (?:add|install)|vagrant box add|terraform init -from-module|pkg_add
        (?:apt|apt-get|aptitude|dnf|yum|zypper|apk|rpm|pacman|dpkg) …--(?:allow-\S*|force-\w+|nogpgcheck|no-gpg-checks
            |repo\w*|nosignature|enablerepo)\b
        (?:apt|apt-get|aptitude|dnf|yum|zypper|apk|rpm|pacman|dpkg) …(?:-X|-U \S*:|-i |-o )
        (?:register-psrepository|install-(?:module|script|package)|import-module)\b|ansible-galaxy …git\+
        brew …install …[\w.@-]+/[\w.@-]+/|git submodule add|git pull …\w+://
        (?:npm|pnpm|yarn|bun|npx) (?:(?:install|i|add|ci) )?(?:-\S+ (?:[\w-]+ )?)*(?!@|\.)[\w.-]+/[\w.-]+(?:#\S*)?¶
        (?:conda|mamba|micromamba) …(?:-c|--channel)[ =](?!conda-forge|defaults|bioconda|pytorch|nvidia|anaconda|main)
        go (?:get|install) (?:-\S+ (?:[\w-]+ )?)*(?!(?:(?:google\.)?golang|gopkg|go\.uber|(?:sigs\.)?k8s|gotest|honnef
            |github)\.)\w[\w-]*\.[\w.-]+/
        (?:pip|uv|conda|npm|pnpm|yarn|bun|npx|gem|cargo|dotnet) …(?!\.\.?/)\S+(?:\.(?:whl|tgz|tar\.gz|zip
            |gem|nupkg)|@npm:\S+)¶
        (?:apt|apt-get|dpkg|apk|dnf|yum|zypper|pacman|rpm|brew|snap|choco) …\S+\.(?:deb|rpm|apk|pkg|msi|exe|tar\.\w+)¶
    """,
    SENDS_OUT: r"""
        (?:ngrok|cloudflared|localtunnel|lt|bore|frpc|chisel|serveo|zrok|tailscale (?:funnel|serve)|telebit|pagekite)\b
        (?:nc|ncat|netcat) …(?:-\w*[ec]\w*|--exec|--sh-exec)¶|socat …\S*exec:
        ssh …(?:(?-i:-\w*[RDL]\w*)|-o·?\S*(?:proxycommand|localcommand)\S*)
        (?:mailx?(?!-)|mutt|sendmail|msmtp|swaks|s-nail|telegram-send|ntfy|croc|(?:magic-)?wormhole|pastebinit|termbin
            |sprunge|ix)\b
        gh (?:gist create|release upload|secret set|variable set)
        git (?:remote (?:add|set-url|rename)|send-email|bundle)
        git push …(?:\w+://|\S+@\S+:|--repo|--receive-pack|--exec|-o)
        (?:aws s3(?:api)?|gsutil|rclone|s3cmd|mc|az storage blob|gcloud storage) …(?:cp|sync|mv|put\S*|upload\S*
            |copy\S*|move\S*) …(?:-|\.{1,2}/?|\S*/\.\.\S*|[~/$]\S*|(?:\S*/)?\.(?:env|git|ssh|aws)\S*|\S*(?:id_rsa
            |id_ed25519|secret|credential|passw)\S*)¶
        (?:kubectl|docker) cp …\S*(?:\.(?:env|ssh|aws)|id_rsa|secret|credential)
        (?:adb push|tftp|ftp|lftp|ncftpput|curlftpfs|sshfs|davfs)\b
        (?:tcpdump|tshark|dsniff|ettercap|mitmproxy|keylogger|xinput|script) …(?:-w|-i|test)
    """,
    FETCHES_AND_RUNS: r"""
        (?:npm|pnpm|yarn|bun) …(?:dlx|create|init) (?!-)\S|(?:pipx|uv tool) (?:run|install)
        gradlew? …(?:(?-i:-I)|--init-script)(?:=|¶)|kubectl (?:run|create|set) …\S+=\w[\w.-]*\.[a-z]{2,}(?::\d+)?/
        deno (?:run|install) …(?:-A|--allow-all)|go run \S+\.\w+/\S+@
        (?:nix|nix-shell|guix) …(?:run|shell|develop|build|-p) …(?:github:|gitlab:|git\+|\w+://)
        (?:mshta|regsvr32|rundll32|bitsadmin|wscript|cscript|installutil|msbuild)¶
        (?:docker|podman) …(?:run|pull|create) …\w[\w.-]*\.[a-z]{2,}(?::\d+)?/
        (?:vim|nvim|vi|ed|ex|less|man) …(?:-c|--cmd|\+)[ =]?:?!|gdb …-ex·?\S*(?:shell|call)
        tar …--(?:checkpoint-action|to-command|use-compress-program)|zip …-TT|rsync …-e·?\S*sh
        git …(?:ext::|archive …--remote)
    """,
}


def _patterns(rows: str) -> list[str]:
    """Return the rows of a table as patterns; a line that stands deeper goes on with its row."""
    for sign, pattern in (("\n            ", ""), ("…", "(?:.* )?"), ("¶", "(?: |$)")):
        rows = rows.replace(sign, pattern)
    return [row.strip() for row in rows.strip().splitlines()]


RULES = [(reason, lazy_regex(row, re.IGNORECASE)) for reason, rows in _ROWS.items() for row in _patterns(rows)]
# What no rule matches, as nearly all commands, this does not match either; it takes a fourth of the time.
ANY_RULE = AnyCase("|".join(f"(?:{rule.pattern})" for _, rule in RULES).replace("(?-i:", "(?:"))
REACHES_OUT, RUNS_TEXT, DECODES_TEXT, SENDS_TEXT, DESTROYS_TEXT, POWERSHELL, ENCODED = (
    AnyCase(pattern, stems=stems)
    for pattern, stems in zip(
        (
            r"urlopen|urlretrieve|requests\.|httpx\.|aiohttp|fetch\(|https?\.(?:get|request)|require\(['\"]https?['\"]\)|axios"
            r"|LWP|Net::HTTP|open-uri|file_get_contents\(['\"]http|socket\b|download(?:string|file)|webclient|invoke-webrequest"
            r"|invoke-restmethod|\b(?:iwr|irm|curl|wget)\b|\b(?:source|include|download)\(['\"]http",
            r"\bexec\b|\beval\b|os\.(?:system|popen|execute)|subprocess|child_process|spawn|\bsystem\(|popen|pty\.|shell_exec"
            r"|passthru|\biex\b|scriptblock\]|invoke-expression|start-process|importlib|__import__|marshal|function\(|\b(?:source|include)\(",
            r"b(?:ase)?64|atob|fromhex|unhexlify|-enc(?:odedcommand)?\b|zlib|rot_?13|chr\(|fromcharcode|pack\(",
            r"\bpost\b|\bput\b|data=|files=|json=|environ|\.ssh|\.env\b|\.aws|uploadfile|-infile|send\(",
            r"\bdrop(?:\s|/\*.*?\*/)+(?:database|schema|table|user|role|collection|index|view|owned)\b|\balter\s+table\b[^;]*\bdrop\b|\btruncate\s+(?:table\s+)?\w"
            r"|\bdelete\s+from\s+[\w.\"`]+\s*(?:;|$|where\s+(?:true|1\b))|dropdatabase|\.drop\(\)|deletemany\(\{\}\)|flushall|flushdb"
            r"|shutil\.rmtree|rmsync|rm_rf|remove-item\b[^\n]*-recurse|fs\.rm\b|unlinksync|os\.remove",
            r"powershell|pwsh",
            r" [-/]e(?:c|nc\w*)? ",
        ),
        (
            "urlopen|urlretrieve|requests.|http|fetch(|axios|lwp|open-uri|socket|download|webclient|invoke-|iwr|irm|curl|wget",
            "exec|eval|os.|subprocess|child_process|spawn|system(|popen|pty.|passthru|iex|scriptblock|invoke-|start-process|importlib"
            "|__import__|marshal|function(|source(|include(",
            "b64|base64|atob|fromhex|unhexlify|-enc|zlib|rot13|rot_13|chr(|fromcharcode|pack(",
            "post|put|data=|files=|json=|environ|.ssh|.env|.aws|uploadfile|-infile|send(",
            "drop|truncate|delete|flush|rmtree|rmsync|rm_rf|remove-item|fs.rm|unlinksync|os.remove",
            "powershell|pwsh",
            " -e| /e",
        ),
        strict=True,
    )
)
TEXT_RULES = (  # of code in a word, or of a whole text (SQL, PowerShell, Python in `-c`): all of these stand in it
    (FETCHES_AND_RUNS, (REACHES_OUT, RUNS_TEXT)),
    (DECODES_AND_RUNS, (DECODES_TEXT, RUNS_TEXT)),
    (DECODES_AND_RUNS, (POWERSHELL, ENCODED)),
    (SENDS_OUT, (REACHES_OUT, SENDS_TEXT)),
    (DESTROYS_WORK, (DESTROYS_TEXT,)),
)
# What is hostile also where it is only written into a file, or where a person states it outright.
GRAVE = frozenset({FETCHES_AND_RUNS, DECODES_AND_RUNS, SENDS_OUT})

_ASSIGNMENTS = {
    PRELOADS: r"""
        (?:LD_(?:PRELOAD|AUDIT)|DYLD_\w+|BASH_ENV|ENV|PROMPT_COMMAND|PYTHONSTARTUP|PYTHONHOME|PERL5(?:OPT|LIB|DB)
            |RUBYOPT|RUBYLIB)\+?=.
        (?:JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|JDK_JAVA_OPTIONS|RUSTC_WRAPPER|CARGO_BUILD_RUSTC_WRAPPER|MAKEFLAGS
            |GLIBC_TUNABLES)\+?=.
        (?:GIT_(?:SSH\w*|EXTERNAL_DIFF|PROXY_COMMAND|ASKPASS|EDITOR|EXEC_PATH|TEMPLATE_DIR|CONFIG\w*)|SSH_ASKPASS)\+?=.
        (?:GCONV_PATH|ZDOTDIR|SHELLOPTS|PS4|(?i:npm_config_(?:script_shell|node_options)))\+?=.
        (?:(?:GIT_|MAN)?PAGER|EDITOR|VISUAL|BROWSER)\+?=(?!(?:cat|less|more|true|none|n?vim?|nano|code)\b|:?$)
        NODE_OPTIONS\+?=.*(?:--require|-r[ ./]|--import|--loader|--experimental-loader)
        (?:PATH|PYTHONPATH|NODE_PATH|LD_LIBRARY_PATH|GOPATH|CLASSPATH|MANPATH|CDPATH)\+?=(?:.*:)?(?:/tmp|/var/tmp
            |/dev/shm|(?:~|\$HOME)/?(?:Downloads|\.cache))\b
    """,
    FOREIGN_SOURCE: r"""
        (?i:(?:PIP|UV|NPM_CONFIG|POETRY|CONDA|BUNDLE|GEM|YARN|CARGO|RUSTUP|HOMEBREW|PDM|COREPACK|NODEJS_ORG
            |NVM)_?\w*(?:INDEX|REGISTR|SOURCE|MIRROR|FIND_LINKS|TRUSTED_HOST|CHANNEL|HOST|DOMAIN|REMOTE|SERVER
            |DIST_ROOT)\w*=.)
        (?i:(?:GOPROXY|GONOSUM\w*|GOSUMDB|GOINSECURE|GOFLAGS|GOPRIVATE|GIT_SSL_NO_VERIFY|(?:HTTPS?|ALL|FTP)_PROXY)=.)
        (?:NODE_EXTRA_CA_CERTS|SSL_CERT_FILE|CURL_CA_BUNDLE|REQUESTS_CA_BUNDLE)=.
    """,
}
ASSIGNMENT_RULES = [(reason, lazy_regex(row)) for reason, rows in _ASSIGNMENTS.items() for row in _patterns(rows)]
INSTRUCTIONS = lazy_regex(
    r"(?:.*/)?(?:(?:CLAUDE|AGENTS|GEMINI)(?:\.local)?\.md|\.(?:cursor|windsurf)rules)"
)  # of agents
OUTSIDE = lazy_regex(  # paths of the machine, of the account, or of the agent and the hooks of the project
    r"~|\$\{?HOME\b|/(?:etc|usr(?!/src/)|bin|sbin|lib\w*|boot|sys|proc|Library|System|Applications)(?:/|$)|/root(?:/\.|/?$)"
    r"|/var/(?!tmp/|folders/)|/dev/(?!null$|std|fd/|tty$|shm/|full$|u?random$|zero$)|/(?:home|Users)/[^/]+/\.[^/]"
    r"|/(?:home|Users)(?:/[^/]*)?/?$|/$|[A-Za-z]:[\\/](?:Windows|Program)|(?:\.\./){2,}"
    r"|(?:.*/)?(?:\.git/(?:hooks|config|info)\b|\.(?:husky|githooks)(?:/|$))"
    r"|(?:.*/)?\.(?:npmrc|pypirc|yarnrc(?:\.yml)?|netrc|gitconfig|gemrc|condarc|bash\w*|zsh\w*|profile|envrc|mcp\.json"
    r"|(?:ssh|aws|pip|claude|codex|cursor|gemini|kube|docker|gnupg)(?:/.*)?|vscode/(?:tasks|settings)\.json|direnv.*"
    r"|github/workflows/.*)$"
    r"|(?:.*/)?(?:authorized_keys|known_hosts|sudoers|crontab|pip\.conf|(?:site|user)customize\.py|\w+\.pth|cron\.d/.*)$"
)
NAMED_IN_PROSE = (  # programs whose names are no words of prose
    "curl|wget|git|npm|npx|pnpm|yarn|pip3?|pipx|uvx?|poetry|conda|cargo|docker(?:-compose)?|podman|kubectl|helm|terraform|tofu|aws|gcloud"
    "|gsutil|gh|psql|mysql|redis-cli|mongosh|dropdb|bash|z?sh|sudo|doas|rm|chmod|chown|dd|ssh|scp|rsync|nc|ncat|netcat|socat"
    "|eval|powershell|pwsh|iwr|iex|irm|python3?|perl|ruby|node|deno|bun|crontab|base64|echo|printf|xargs|mkfs(?:\\.\\w+)?|brew|apt(?:-get)?"
    "|yum|dnf|openssl|systemctl|sqlite3|shred|remove-item|alembic|prisma|export|env|cat|find|tee|[A-Z_]{4,}=\\S+"
)
NOUNS_AFTER_PROGRAMS = (  # "the docker registry" is no command
    "(?:registr\\w+|images?|charts?|repo\\w*|servers?|clusters?|versions?|projects?|containers?|modules?|packages?|scripts?"
    "|is|was|are|for|as|and|or|in|on|of|with|from|to|at|code|files?|commands?|keys?|hosts?|users?|access)"
)
WORDS_AFTER_COMMANDS = (
    "before|after|to|when|first|every|each|if|so|because|for|at|until|unless|instead|rather|whenever|while|since|as|is|are|was"
    "|on|in|with|by|which|that|this|it|will|would|should|must|fails?|works?"
)
