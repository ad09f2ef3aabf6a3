"""Tables for `harm`: what makes a command one that memory repeats to no agent, however often it worked.

A rule is a pattern of one command, written as its program, its subcommand and then its other words. A space inside a
word is written as "·", so that no rule finds its options in a message.
"""

from __future__ import annotations

import re

from consolidator.memory.calls.shell_programs import word_set

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
    curl wget fetch aria2c http https xh httpie lynx links w3m lwp-request GET axel iwr irm invoke-webrequest
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
    "python pypy node nodejs deno bun ruby perl php lua osascript pwsh powershell iex tclsh Rscript cmd awk gawk"
)
READERS = word_set(  # of addresses: they show or save what is there
    """
    curl wget fetch aria2c http https xh httpie lynx links w3m axel git gh glab hub open xdg-open start browse ping
    echo printf grep egrep rg sed test [ [[ ab wrk hey k6 siege lighthouse yt-dlp youtube-dl host dig nslookup
    """
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
    start-stop-daemon systemd-run chroot nsenter unshare firejail proot cmd pwsh powershell eval
    """
)
PRIVILEGED = word_set("sudo doas pkexec su runuser runas gosu setpriv sudoedit visudo gsudo")
SYSTEM_INSTALLERS = word_set("apt apt-get aptitude dpkg apk dnf yum zypper pacman rpm brew snap flatpak choco winget")
INSTALLERS = word_set(
    """
    pip pipx uv poetry pdm hatch rye conda mamba micromamba pipenv easy_install npm pnpm yarn bun deno npx bunx pnpx
    uvx gem bundle cargo rustup go composer mix cabal stack opam luarocks cpan cpanm apt apt-get aptitude dpkg apk dnf
    yum zypper pacman brew port snap flatpak nix nix-env choco scoop winget rpm helm asdf mise volta corepack
    """
)
RUNNERS_OF_PACKAGES = frozenset({"npx", "bunx", "pnpx", "uvx", "npm exec", "pnpm dlx", "yarn dlx"})  # they fetch, too
KNOWN_TOOLS = word_set(  # packages that such a runner may be asked for
    """
    tsc tsgo tsx ts-node eslint prettier jest vitest mocha playwright cypress vite next nuxt astro svelte-kit ng nx
    turbo lerna webpack rollup esbuild swc babel prisma drizzle-kit sequelize knex typeorm tailwindcss postcss
    stylelint biome oxlint commitlint husky lint-staged storybook expo react-native http-server serve nodemon
    concurrently rimraf npm-check-updates ncu depcheck license-checker vue-tsc tsup tsd c8 nyc ava tap stryker
    markdownlint markdownlint-cli2 cspell openapi-typescript graphql-codegen wrangler vercel netlify firebase
    serverless cdk sst ruff black mypy pyright pytest flake8 isort pylint tox nox pre-commit uvicorn gunicorn jupyter
    poetry build twine pip-audit bandit coverage sphinx-build mkdocs djlint sqlfluff yamllint ansible-lint alembic
    cookiecutter create-react-app create-next-app create-vite remotion changeset semantic-release
    """
)
LOCAL_HOST = re.compile(
    r"localhost|[\w-]*\.localhost|127(?:\.\d+){3}|0\.0\.0\.0|\[?::1?\]?|host\.docker\.internal|10(?:\.\d+){3}"
    r"|192\.168(?:\.\d+){2}|172\.(?:1[6-9]|2\d|3[01])(?:\.\d+){2}|[\w-]+(?:\.local|\.test)?|",
    re.IGNORECASE,
)
KNOWN_GO_HOSTS = re.compile(r"(?:golang|google\.golang|gopkg|go\.uber|k8s|sigs\.k8s|gotest|honnef|mvdan|github)\.\w+")
KNOWN_CHANNELS = word_set("conda-forge defaults bioconda pytorch nvidia anaconda main")
KNOWN_IMAGE_HOSTS = word_set("docker.io index.docker.io mcr.microsoft.com registry.k8s.io public.ecr.aws")
REMOVABLE = re.compile(  # what is made again, or is nobody's work
    r"(?:.*/)?(?:node_modules|dist|build|builds|target|out|output|bin|obj|\.?venv|\.?env|__pycache__|coverage|htmlcov"
    r"|logs?|\.?te?mp|.*cache.*|\.(?:next|nuxt|turbo|tox|nox|parcel|gradle|terraform|eggs|svelte-kit|output|vite"
    r"|hypothesis|direnv|bundle|angular)|.*\.egg-info|\{\}|\+|.*\.?(?:lock|pid|sock|orig|rej|log)"
    r"|[\w-]*[._-]?(?:old|bak|backup|test|copy|tmp))/?\*?"
)
OPAQUE = re.compile(r"\$\{?IFS\b|\$\{[!#@]|(?:\\x[0-9a-f]{2}){4}|(?:\\[0-7]{3}){4}|/dev/(?:tcp|udp)/", re.IGNORECASE)

_GIT_DESTROYS = (
    r"git reset (?:.* )?--(?:hard|merge|keep)\b",
    r"git checkout (?:.* )?(?:--|-f|--force|--ours|--theirs|-p|\.|:/|\S*\*\S*)(?: |$)",
    r"git checkout (?:[^ ]+ )*(?:\S*/)?[\w-]*\.[A-Za-z]\w{0,5}(?: |$)",  # a file, by its ending
    r"git checkout (?!-)\S+ (?!-)\S",
    r"git checkout (?:\S+/|Makefile|Dockerfile|README|LICENSE|src|lib|tests?|docs?|app)(?: |$)",
    r"git switch (?:.* )?(?:-f|--force|--discard-changes|(?-i:-C))(?: |$)",
    r"git restore (?!(?:--staged|-S)(?: (?!.*(?:--worktree|-W))|$))",
    r"git clean (?!.*(?:-\w*n|--dry-run))",
    r"git push (?:.* )?(?:--force\S*|-\w*f\w*|--delete|-d|--mirror|--prune|[+:]\S+)(?: |$)",
    r"git stash (?:.* )?(?:drop|clear)",
    r"git branch (?:.* )?(?:(?-i:-D|-M)|-f|--force|--delete --force)(?: |$)",
    r"git (?:filter-branch|filter-repo|update-ref|replace|symbolic-ref)\b",
    r"git (?:reflog (?:expire|delete)|gc (?:.* )?--prune)",
    r"git (?:worktree remove|submodule deinit|tag|rm) (?:.* )?(?:-f|--force|-\w*f\w*)(?: |$)",
    r"git (?:read-tree|checkout-index) ",
)
_DATA_DESTROYS = (
    r"dropdb|dropuser|mkfs|wipefs|shred|srm|fdisk|parted|sgdisk|blkdiscard|cryptsetup|hdparm",
    r"dd (?:.* )?of=",
    r"(?:shutdown|reboot|halt|poweroff)\b",
    r"(?:\S+ )*(?:db:(?:drop|reset|purge|wipe|truncate\S*|migrate:(?:fresh|reset))|migrate:(?:fresh|reset))\b",
    r"(?:artisan|php) (?:.* )?(?:migrate:(?:fresh|reset|refresh)|db:wipe)",
    r"prisma (?:.* )?(?:reset|--force-reset|--accept-data-loss)|(?:sequelize|knex|typeorm|supabase"
    r"|drizzle-kit) (?:.* )?"
    r"(?:db:drop|schema:drop|db reset|rollback --all|drop)",
    r"(?:manage\.py|django-admin) (?:flush|reset_db|sqlflush|reset_schema)|alembic downgrade (?:.* )?base",
    r"flask (?:.* )?downgrade base|redis-cli (?:.* )?flush(?:all|db)\b",
    r"(?:docker|podman)(?:-compose)? (?:.* )?(?:prune|volume rm|rmi?|(?:down|rm) (?:.* )?(?:-v|--volumes"
    r"|--rmi))(?: |$)",
    r"(?:docker|podman) (?:rm|rmi|kill|stop) (?:.* )?[$`]",
    r"kubectl (?:.* )?(?:delete|drain|replace --force)\b|helm (?:.* )?(?:uninstall|delete)\b|kind delete"
    r"|minikube delete",
    r"(?:terraform|tofu|pulumi|cdk|sls|serverless|vagrant) (?:.* )?(?:destroy|remove|state rm"
    r"|apply (?:.* )?-destroy)\b",
    r"aws (?:.* )?(?:rm|rb|delete-\S+|terminate-\S+|remove-\S+|delete-stack)\b|s3cmd (?:del|rb)|mc (?:rm|rb)",
    r"(?:gcloud|az|gsutil|doctl|heroku|fly|flyctl|firebase|vercel|netlify|wrangler|railway|rclone) (?:.* )?"
    r"(?:delete|destroy|apps:destroy|rm|remove|purge|pg:reset|firestore:delete|deletefile)\b",
    r"gh (?:.* )?(?:delete|archive)\b|(?:restic|borg) (?:.* )?(?:forget|prune|delete)|zfs destroy|lvremove|vgremove",
    r"etcdctl del|consul kv delete|vault (?:.* )?(?:delete|destroy)|dynamodb .*delete|kafka-topics\S* .*--delete",
    r"(?:find|fd) (?!.*-name (?:\*\.pyc|\*\.pyo|\*\.o|\*\.tmp|__pycache__|node_modules|\.DS_Store)(?: |$))"
    r"(?:.* )?(?:-delete|-exec(?:dir)? (?:rm|shred|unlink|truncate)|-x rm|-X rm)\b",
    r"rsync (?:.* )?--(?:del|delete\S*|remove-source-files)(?: |$)|truncate (?:.* )?(?:-s ?0|--size[= ]?0)",
    r"mv (?:.* )?/dev/null|kill (?:.* )?-1$|killall5|pkill (?:.* )?-u|history -c|crontab (?:.* )?-r",
    r"(?:vssadmin|wbadmin|cipher|format|diskpart|del|rd|rmdir) (?:.* )?(?:/s|/q|delete|/w|[a-z]:)(?: |$)",
    r"(?:hg|svn|jj|sl) (?:.* )?(?:revert|purge|strip|abandon|update -C|up -C|cleanup --remove\S*)",
    r"p4 revert|bzr revert|fossil revert|dvc (?:gc|remove)|conda (?:.* )?remove --all|bd delete|npm unpublish",
)
_RAISES = (
    r"docker(?:-compose)? (?:.* )?(?:--privileged|--cap-add\S*|--security-opt\S*|--(?:pid|ipc|userns|net|network|uts)"
    r"[= ]host|--device\S*)",
    r"(?:docker|podman) (?:.* )?(?:-v|--volume|--mount)[= ]?(?:\S*(?:source|src)=)?"
    r"(?:/|~|\$\{?HOME\}?|/(?:etc|root|home|var|usr|home/\w+|Users/\w+|var/run/docker\.sock))(?:/\.\S*|/)?(?::|,|$)",
    r"(?:docker|podman) (?:.* )?\S*docker\.sock",
    r"chmod (?:.* )?(?:[ugoa]*[+=]\w*s\w*|[2467]\d{3}|-R 0?777|0?777|[oa]\+\w*w\w*|a=rwx)(?: |$)",
    r"setcap |chown (?:.* )?(?:root|0)\b|chown -R|chattr |setfacl |mount |umount |insmod |modprobe "
    r"|sysctl -w|sysctl \S+=",
    r"(?:useradd|usermod|adduser|addgroup|groupadd|gpasswd|passwd|chpasswd|chsh|chfn|newgrp|dscl|vipw) ?",
    r"setenforce |(?:ufw|firewall-cmd|iptables|nft|pfctl|netsh) |csrutil |spctl |aa-(?:disable|complain|teardown)",
    r"set-executionpolicy |systemctl (?:.* )?(?:stop|disable|mask) (?:apparmor|auditd|firewalld|ufw"
    r"|falcon\S*|clamav\S*)",
    r"kubectl (?:.* )?(?:clusterrolebinding|rolebinding|cluster-admin|certificate approve)|kubectl auth reconcile",
    r"aws iam |gcloud (?:.* )?add-iam-policy-binding|az role assignment|gh auth refresh|vault policy write"
    r"|oc adm policy",
    r"psql (?:.* )?.*\b(?:superuser|pg_read_server_files|copy·.*·program)\b|mysql (?:.* )?.*grant·all",
    r"(?:nsenter|unshare|capsh|setuidgid|chroot) |xhost \+|cmdkey |net (?:user|localgroup) |icacls |takeown ",
)
_WRITES = (
    r"crontab (?!-l(?: |$)|-u \S+ -l(?: |$))|crontab$|(?:at|batch)(?: |$)|atq? now",
    r"git config (?:.* )?(?:--global|--system|--file[= ]~|-f ~)",
    r"git (?:.* )?(?:config (?:.* )?|-c )(?:core\.(?:hookspath|sshcommand|fsmonitor|pager|editor|askpass|gitproxy"
    r"|worktree|attributesfile|excludesfile|alternaterefscommand)|alias\.|credential\.|url\.|include(?:if)?\.|http\."
    r"|https\.|remote\.|filter\.|diff\.|merge\.|gpg\.|sequence\.|protocol\.|uploadpack\.|receivepack\."
    r"|submodule\.|ssh\.)",
    r"(?:npm|pnpm|yarn|pip|poetry|conda|mamba|composer|bundle|gem|uv|cargo|go|bun) (?:.* )?(?:config|env|sources)"
    r" (?:.* )?(?:set|add|--add|-w|edit|--global|-a|--append|--prepend)(?: |$)",
    r"(?:systemctl|launchctl|schtasks|sc|service|update-rc\.d|chkconfig|rc-update|loginctl) (?:.* )?"
    r"(?:enable|link|edit|load|bootstrap|submit|/create|create|defaults|add|enable-linger"
    r"|daemon-reload)",
    r"(?:ssh-copy-id|ssh-add|update-alternatives|alternatives|ldconfig|defaults write|gsettings set|dconf write"
    r"|setx|reg add|regedit|xcode-select|kextload|update-ca-certificates|update-ca-trust|trust anchor|certutil"
    r"|security add-trusted-cert|mkcert -install|gpg (?:.* )?--(?:import|recv-keys?|keyserver)|apt-key)\b",
    r"(?:code|cursor|codium|windsurf) (?:.* )?--install-extension|(?:claude|codex|gemini) (?:mcp add|config|plugin)",
    r"gh (?:extension install|alias set|auth|ssh-key add|gpg-key add|config set)|gh api (?:.* )?keys"
    r"|glab ssh-key add",
    r"resolvectl|networksetup|hostnamectl set|scutil|chcp|route (?:add|del)|ip (?:route|addr|link) (?:add|del|set)",
    r"az login|gcloud auth|aws configure|docker login|npm (?:adduser|login)|vault login"
    r"|huggingface-cli login|heroku login",
)
_FOREIGN = (
    r"(?:npm|pnpm|yarn|bun|deno|composer) (?:.* )?--(?:registry|repository(?:-url)?|userconfig|globalconfig)\b",
    r"(?:\S+ )*(?:--(?:extra-)?index(?:-url|-strategy)?|--default-index|--trusted-host|--find-links"
    r"|--pypi-url|--source-url"
    r"|--no-index|--proxy|--mirror)(?:=| |$)",
    r"(?:pip|uv pip|easy_install) (?:.* )?-[ifc](?:[= ]|\S*://)",
    r"(?:gem|poetry|cpanm|luarocks|choco|nuget|winget|conda|dotnet) (?:.* )?(?:--(?:source|clear-sources|from|server"
    r"|mirror|override-channels)|-s|sources)\b",
    r"poetry source|pdm config|composer (?:.* )?config (?:.* )?repo|helm repo add|brew tap"
    r"|flatpak remote-add|snap .*--dangerous",
    r"snap (?:.* )?--(?:devmode|classic)|(?:cargo|mix|gem|bundle|npm) (?:.* )?--(?:git|github|index|registry)\b",
    r"(?:add-apt-repository|apt-add-repository|dnf config-manager|yum-config-manager|zypper ar"
    r"|zypper addrepo|pkg_add|"
    r"pacman-key|rpmkeys|asdf plugin add|mise plugins? (?:add|install)|vagrant box add"
    r"|terraform init -from-module\S*)",
    r"(?:apt|apt-get|aptitude|dnf|yum|zypper|apk|rpm|pacman|dpkg) (?:.* )?(?:--(?:allow-\S*|force-yes|nogpgcheck"
    r"|no-gpg-checks|repository|repofrompath|nosignature|force-all|enablerepo)\b|-X|-U \S*:|-i |-o )",
    r"(?:register-psrepository|install-(?:module|script|package)|import-module)\b",
    r"brew (?:.* )?install (?:.* )?[\w.@-]+/[\w.@-]+/",
    r"pre-commit try-repo|ansible-galaxy (?:.* )?git\+|(?:dotnet|nuget) (?:.* )?add source"
    r"|mvn (?:.* )?-D(?:repo|remoteRepositories)|git pull (?:.* )?\w+://",
)
_SENDS = (
    r"(?:ngrok|cloudflared|localtunnel|lt|bore|frpc|chisel|serveo|zrok|tailscale (?:funnel|serve)|telebit"
    r"|pagekite)\b",
    r"(?:nc|ncat|netcat) (?:.* )?(?:-\w*[ec]\w*|--exec|--sh-exec)(?: |$)|socat (?:.* )?\S*exec:",
    r"ssh (?:.* )?(?:(?-i:-\w*[RDL]\w*)|-o·?\S*(?:proxycommand|localcommand|permitlocalcommand)\S*)",
    r"(?:mail|mailx|mutt|sendmail|msmtp|swaks|s-nail|telegram-send|ntfy|notify|croc|magic-wormhole|wormhole|transfer|"
    r"pastebinit|termbin|sprunge|ix)(?: |$)",
    r"gh (?:gist create|release upload|secret set|variable set)|git (?:remote (?:add|set-url|rename)"
    r"|send-email|bundle)",
    r"git push (?:.* )?(?:\w+://|\S+@\S+:|--repo|--receive-pack|--exec)|git push (?:.* )?-o",
    r"(?:aws s3(?:api)?|gsutil|rclone|s3cmd|mc|az storage blob|gcloud storage) (?:.* )?"
    r"(?:cp|sync|mv|put\S*|upload\S*|copy\S*|move\S*) (?:.* )?(?:-|\.{1,2}/?|\S*/\.\.\S*|[~/$]\S*"
    r"|(?:\S*/)?\.(?:env|git|ssh|aws)\S*"
    r"|\S*(?:id_rsa|id_ed25519|secret|credential|passw)\S*)(?: |$)",
    r"(?:kubectl cp|docker cp|adb push|tftp|ftp|lftp|ncftpput|curlftpfs|sshfs|davfs)\b",
    r"(?:tcpdump|tshark|dsniff|ettercap|mitmproxy|keylogger|xinput|script) (?:.* )?(?:-w|-i|test)",
)
_RUNS = (
    r"(?:npm|pnpm|yarn|bun) (?:.* )?(?:dlx|create|init) (?!-)\S|pipx (?:run|install)|uv tool (?:run"
    r"|install)|deno (?:run|install) "
    r"(?:.* )?(?:-A|--allow-all)",
    r"(?:nix|nix-shell|guix) (?:.* )?(?:run|shell|develop|build|-p) (?:.* )?(?:github:|gitlab:|git\+|\w+://)",
    r"gradlew? (?:.* )?(?:(?-i:-I)|--init-script)(?:[= ]|$)",
    r"kubectl (?:run|create|set) (?:.* )?\S+=\w[\w.-]*\.[a-z]{2,}(?::\d+)?/",
    r"go run \S+\.\w+/\S+@|(?:mshta|regsvr32|rundll32|bitsadmin|wscript|cscript|installutil|msbuild) ",
    r"(?:docker|podman) (?:.* )?(?:run|pull|create) (?:.* )?\w[\w.-]*\.[a-z]{2,}(?::\d+)?/",
    r"(?:vim|nvim|vi|ed|ex|less|man) (?:.* )?(?:-c|\+)·?:?!|gdb (?:.* )?-ex·?\S*(?:shell|call)"
    r"|tar (?:.* )?--(?:checkpoint-action"
    r"|to-command|use-compress-program)|zip (?:.* )?-TT|git (?:.* )?ext::|rsync (?:.* )?-e·?\S*sh",
)
RULES = tuple(
    (reason, re.compile("|".join(rf"(?:{pattern})" for pattern in patterns), re.IGNORECASE))
    for reason, patterns in (
        (DESTROYS_WORK, (*_GIT_DESTROYS, *_DATA_DESTROYS)),
        (RAISES_PRIVILEGES, _RAISES),
        (WRITES_OUTSIDE, _WRITES),
        (FOREIGN_SOURCE, _FOREIGN),
        (SENDS_OUT, _SENDS),
        (FETCHES_AND_RUNS, _RUNS),
    )
)
_REACHES_OUT = (
    r"(?:urlopen|urlretrieve|requests\.|httpx\.|aiohttp|fetch\(|https?\.(?:get|request)|require\(['\"]https?['\"]\)|axios|LWP|Net::HTTP|open-uri"
    r"|file_get_contents\(['\"]http|socket\b|downloadstring|downloadfile|webclient|invoke-webrequest"
    r"|invoke-restmethod"
    r"|\biwr\b|\birm\b|\bcurl\b|\bwget\b)"
)
_RUNS_TEXT = (
    r"(?:\bexec\b|\beval\b|os\.system|os\.popen|subprocess|child_process|spawn|\bsystem\(|popen|pty\."
    r"|shell_exec|passthru"
    r"|\biex\b|invoke-expression|start-process|importlib|__import__|marshal|function\()"
)
_DECODES_TEXT = (
    r"(?:b(?:ase)?64|atob|fromhex|unhexlify|frombase64|-enc(?:odedcommand)?\b|zlib|rot_?13|chr\(|fromcharcode|pack\()"
)
TEXT_RULES = tuple(  # of code in a word, or of a whole text: SQL, PowerShell, Python in `-c`
    (reason, re.compile(pattern, re.IGNORECASE | re.DOTALL))
    for reason, pattern in (
        (FETCHES_AND_RUNS, rf"{_REACHES_OUT}.*{_RUNS_TEXT}|{_RUNS_TEXT}.*{_REACHES_OUT}"),
        (
            DECODES_AND_RUNS,
            rf"{_DECODES_TEXT}.*{_RUNS_TEXT}|{_RUNS_TEXT}.*{_DECODES_TEXT}|powershell.* -e(?:c|nc\w*)? ",
        ),
        (
            SENDS_OUT,
            rf"{_REACHES_OUT}.*(?:\bpost\b|\bput\b|data=|files=|json=|environ|\.ssh|\.env\b|\.aws"
            rf"|uploadfile|-infile|send\()"
            rf"|(?:environ|\.ssh|\.aws|process\.env).*{_REACHES_OUT}",
        ),
        (
            DESTROYS_WORK,
            r"\b(?:drop|truncate)·?\s*\s(?:database|schema|table|user|role|collection|index|view)?\b.*|"
            r"\bdelete\s+from\s+[\w.\"`]+\s*(?:;|$)|dropdatabase|\.drop\(\)|deletemany\(\{\}\)|flushall|flushdb"
            r"|shutil\.rmtree|rmsync|rm_rf|remove-item.*-recurse|fs\.rm\b|unlinksync|os\.remove",
        ),
    )
)
PRELOADED = re.compile(
    r"(?:LD_(?:PRELOAD|AUDIT)|DYLD_\w+|BASH_ENV|ENV|PROMPT_COMMAND|PYTHONSTARTUP|PYTHONHOME|PERL5(?:OPT|LIB"
    r"|DB)|RUBYOPT"
    r"|RUBYLIB|JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|JDK_JAVA_OPTIONS|GIT_(?:SSH\w*|EXTERNAL_DIFF|PROXY_COMMAND"
    r"|ASKPASS|EDITOR"
    r"|EXEC_PATH|TEMPLATE_DIR|CONFIG\w*)|SSH_ASKPASS|GCONV_PATH|ZDOTDIR|SHELLOPTS|PS4|GLIBC_TUNABLES|RUSTC_WRAPPER"
    r"|CARGO_BUILD_RUSTC_WRAPPER|MAKEFLAGS)\+?=.",
)
PRELOADED_OPTION = re.compile(r"NODE_OPTIONS\+?=.*(?:--require|-r |--import|--loader|--experimental-loader)")
SEARCHED_PATH = re.compile(  # a search path that begins elsewhere
    r"(?:PATH|PYTHONPATH|NODE_PATH|LD_LIBRARY_PATH|GOPATH|CLASSPATH|MANPATH|CDPATH)\+?=(?:.*:)?"
    r"(?:/tmp|/var/tmp|/dev/shm|~/?(?:Downloads|\.cache)|\$HOME/(?:Downloads|\.cache))\b"
)
FOREIGN_SETTING = re.compile(
    r"(?:(?:PIP|UV|NPM_CONFIG|POETRY|CONDA|BUNDLE|GEM|YARN|CARGO|RUSTUP|HOMEBREW|PDM|COREPACK|NODEJS_ORG|NVM)_?\w*"
    r"(?:INDEX|REGISTR|SOURCE|MIRROR|FIND_LINKS|TRUSTED_HOST|CHANNEL|HOST|DOMAIN|REMOTE|SERVER|DIST_ROOT)\w*"
    r"|GOPROXY|GONOSUM\w*|GOSUMDB|GOINSECURE|GOFLAGS|GOPRIVATE|GIT_SSL_NO_VERIFY|(?:HTTPS?|ALL|FTP)_PROXY"
    r"|NODE_EXTRA_CA_CERTS|SSL_CERT_FILE|CURL_CA_BUNDLE|REQUESTS_CA_BUNDLE)=.",
    re.IGNORECASE,
)
INSTRUCTIONS = re.compile(
    r"(?:.*/)?(?:CLAUDE|AGENTS|GEMINI)(?:\.local)?\.md|(?:.*/)?\.(?:cursorrules|windsurfrules)"
)  # of agents
OUTSIDE = re.compile(  # paths of the machine, of the account, or of the agent and the hooks of the project
    r"~|\$\{?HOME\b|/(?:etc|usr(?!/src/)|bin|sbin|lib\w*|boot|sys|proc|Library|System|Applications)(?:/|$)"
    r"|/root(?:/\.|/?$)"
    r"|/var/(?!tmp/|folders/)|/dev/(?!null$|std|fd/|tty$|shm/|full$|u?random$|zero$)|/(?:home|Users)/[^/]+/\.[^/]"
    r"|/(?:home|Users)(?:/[^/]*)?/?$|/$|[A-Za-z]:[\\/](?:Windows|Program)"
    r"|(?:.*/)?\.git/(?:hooks|config|info)\b|(?:.*/)?\.husky(?:/|$)|(?:.*/)?\.githooks(?:/|$)"
    r"|(?:.*/)?\.(?:npmrc|pypirc|yarnrc"
    r"(?:\.yml)?|netrc|ssh(?:/.*)?|aws(?:/.*)?|gitconfig|gemrc|condarc|pip(?:/.*)?|bash\w*|zsh\w*|profile|envrc"
    r"|claude(?:/.*)?|codex(?:/.*)?|cursor(?:/.*)?|gemini(?:/.*)?|mcp\.json|vscode/(?:tasks|settings)\.json|direnv.*"
    r"|github/workflows/.*|kube(?:/.*)?|docker(?:/.*)?|gnupg(?:/.*)?)$|(?:.*/)?(?:authorized_keys"
    r"|known_hosts|sudoers|crontab"
    r")$|(?:.*/)?(?:pip\.conf|sitecustomize\.py|usercustomize\.py|\w+\.pth|cron\.d/.*)$"
    r"|(?:\.\./){2,}",
)
