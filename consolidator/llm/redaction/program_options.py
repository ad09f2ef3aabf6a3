"""Where programs take a password: after an option, within it, after a user's name, or at a position."""

from __future__ import annotations

_MYSQL = ("mysql", "mysqldump", "mysqladmin", "mysqlimport", "mysqlsh", "mariadb", "mariadb-dump")
_LDAP = ("ldapsearch", "ldapadd", "ldapmodify", "ldapdelete", "ldappasswd", "ldapwhoami", "ldapcompare", "ldapmodrdn")
_SNMP = ("snmpget", "snmpwalk", "snmpset", "snmpbulkwalk", "snmpbulkget", "snmptrap", "snmptable")
_REDIS = ("redis-cli", "keydb-cli", "valkey-cli")
_HTTPIE = ("http", "https", "xh")

# -p is the password of these programs' login command.
LOGIN_PROGRAMS = (
    "docker",
    "podman",
    "helm",
    "az",
    "oc",
    "npm",
    "nuget",
    "buildah",
    "skopeo",
    "nerdctl",
    "oras",
    "crane",
)
# The next word is a password.
SPACED_OPTIONS: dict[str, tuple[str, ...]] = {
    "-w": _LDAP,
    "-s": ("ldappasswd",),
    "-P": ("sqlcmd", "bcp", "isql", "mosquitto_pub", "mosquitto_sub", "ipmitool", "zip", "unzip"),
    "-p": (
        *("sshpass", "mongo", "mongosh", "mongodump", "mongorestore", "mongoexport", "mongoimport", "cypher-shell"),
        *("rdesktop", "twine", "crackmapexec", "netexec", "nxc", "psexec", "couchbase-cli", "cqlsh", "beeline"),
    ),
    "-a": _REDIS,
    "--pass": _REDIS,
    "-k": ("openssl",),
    "-K": ("openssl",),
    "-A": _SNMP,
    "-X": _SNMP,
    "-storepass": ("keytool", "jarsigner"),
    "-keypass": ("keytool", "jarsigner"),
    "-t": ("doctl",),
}
# The password follows without a space.
JOINED_OPTIONS: dict[str, tuple[str, ...]] = {
    "-p": (*_MYSQL, "sshpass", "7z", "7za", "7zz", "unrar", "rar"),
    "/p:": ("xfreerdp", "xfreerdp3", "wfreerdp", "mstsc"),
    "/pass:": ("cmdkey",),
    "/rp:": ("schtasks",),
    "pass:": ("openssl",),  # -passin pass:X
}
# The next word is a user and a password, divided by one of these.
PAIR_OPTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "-u": (":,", ("curl", "lftp")),
    "--user": (":", ("curl", "wget")),
    "--proxy-user": (":", ("curl",)),
    "-a": (":", _HTTPIE),
    "--auth": (":", _HTTPIE),
    "-U": ("%", ("smbclient", "rpcclient", "smbmap", "smbget", "winexe")),
}
# A program, a word of its command, and how many further words stand before the password.
POSITIONS: tuple[tuple[str, str, int], ...] = (
    ("rabbitmqctl", "add_user", 1),
    ("rabbitmqctl", "change_password", 1),
    ("rabbitmqctl", "authenticate_user", 1),
    ("htpasswd", "-b", 2),
    ("htpasswd", "-nb", 1),
    ("htpasswd", "-cb", 2),
    ("htpasswd", "-bc", 2),
    ("htpasswd", "-Bb", 2),
    ("htpasswd", "-nbB", 1),
    ("vault", "login", 0),
)
# For these programs -p is never a password.
P_IS_NO_PASSWORD = frozenset(
    [
        *("mkdir", "ssh", "scp", "rsync", "cp", "install", "ps", "kill", "lsof", "tar", "unzip", "nc", "nmap", "patch"),
        *("pip", "python", "python3", "node", "pytest", "cargo", "make", "grep", "git", "diff", "perl", "ping", "ls"),
        *("read", "declare", "export", "command", "psql", "pg_dump", "createdb", "nice", "perf", "gdb", "strace"),
    ]
)
PROGRAMS = frozenset(
    [
        *LOGIN_PROGRAMS,
        *(program for programs in SPACED_OPTIONS.values() for program in programs),
        *(program for programs in JOINED_OPTIONS.values() for program in programs),
        *(program for _, programs in PAIR_OPTIONS.values() for program in programs),
        *(program for program, _, _ in POSITIONS),
        *("sqlplus", "net", "lftp"),
    ]
)
