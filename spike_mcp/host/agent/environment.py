"""The agent's whole environment: built, never inherited (spec 14)."""

import os
from collections.abc import Mapping

from spike_mcp.host.agent.model import PROXY_PORT

_TAKEN = ("TERM", "COLORTERM", "LANG", "LC_ALL", "LC_CTYPE", "TZ")
"""Of the human's environment: how to write to the terminal, nothing else."""
_REFUSED = frozenset(
    (
        *("SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "DISPLAY", "WAYLAND_DISPLAY"),
        *("XAUTHORITY", "XDG_RUNTIME_DIR", "DOCKER_HOST", "HOME", "TMPDIR"),
    )
)
_REFUSED_BEGINNINGS = ("DBUS_", "LD_", "SPIKE")
"""Doors to the human's session, and what would work on bubblewrap itself, outside."""
_CA = ("NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_SYSTEM_PATH = ("/usr/local/bin", "/usr/bin", "/bin")


def build(
    *,
    home: str,
    path: tuple[str, ...],
    proxied: bool,
    extra: Mapping[str, str],
    human: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the environment. `extra` is added unless refused; `human` defaults to `os.environ`."""
    human = os.environ if human is None else human
    shell = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"
    fixed = {
        "HOME": home,
        "PATH": ":".join(dict.fromkeys((*path, *_SYSTEM_PATH))),
        "TERM": "dumb",
        "LANG": "C.UTF-8",
        "USER": human.get("USER", "agent"),
        "LOGNAME": human.get("USER", "agent"),
        "SHELL": shell,
        "TMPDIR": "/tmp",  # noqa: S108
    }
    taken = {name: human[name] for name in _TAKEN if name in human}
    allowed = {name: value for name, value in extra.items() if not _is_refused(name)}
    return fixed | taken | allowed | (_proxy() if proxied else {})


def certificates(extra: Mapping[str, str]) -> tuple[str, ...]:
    """Return the certificate files that the environment names, for the sandbox to show."""
    return tuple(sorted({extra[name] for name in _CA if os.path.isfile(extra.get(name, ""))}))


def _is_refused(name: str) -> bool:
    return name in _REFUSED or name.startswith(_REFUSED_BEGINNINGS)


def _proxy() -> dict[str, str]:
    url = f"http://127.0.0.1:{PROXY_PORT}"
    both = {"HTTP_PROXY": url, "HTTPS_PROXY": url, "NO_PROXY": "localhost,127.0.0.1"}
    lower = {name.lower(): value for name, value in both.items()}
    return both | lower | {"NODE_USE_ENV_PROXY": "1"}
