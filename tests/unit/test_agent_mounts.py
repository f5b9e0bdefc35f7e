"""The bubblewrap options of an agent, word for word, and what they must never say."""

import os

import pytest

from spike_mcp.host.agent import environment, mounts

SYSTEM = mounts.System(
    (("/bin", "usr/bin"), ("/lib", "usr/lib"), ("/opt-lib", "")),
    ("/etc/passwd", "/etc/ssl"),
    ("/etc/ssl/private",),
)
MOUNTS = mounts.Mounts(
    system=SYSTEM,
    shown=("/opt/client", "/opt/node"),
    links=(("/opt/bin/client", "/opt/client/cli.js"),),
    home_source="/s/agent/private/run-1/home",
    home="/home/agent",
    home_files=(("/s/agent/private/run-1/fixed/0", "/home/agent/.client/settings.json"),),
    work="/s/work",
    git_dir="/repo/.git",
    agent_dir="/s/agent",
    private="/s/agent/private",
    wire="/s/agent/private/run-1/wire",
    own_network=True,
    new_session=True,
)
GOLDEN = """
--unshare-user --unshare-pid --unshare-ipc --unshare-uts --unshare-cgroup-try --unshare-net
--disable-userns --cap-drop ALL --die-with-parent --new-session --hostname spike --json-status-fd 9
--seccomp 8
--ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib --ro-bind /opt-lib /opt-lib
--ro-bind-try /etc/passwd /etc/passwd --ro-bind-try /etc/ssl /etc/ssl
--perms 0000 --tmpfs /etc/ssl/private --remount-ro /etc/ssl/private
--proc /proc --ro-bind /proc/sys /proc/sys --ro-bind-try /proc/acpi /proc/acpi
--ro-bind-try /proc/driver /proc/driver --ro-bind-try /proc/fs /proc/fs
--ro-bind-try /proc/mtrr /proc/mtrr --ro-bind-try /proc/pressure /proc/pressure
--ro-bind-try /proc/scsi /proc/scsi --dev /dev --size 268435456 --tmpfs /dev/shm
--remount-ro /dev --perms 1777 --size 2147483648 --tmpfs /tmp --size 1048576 --tmpfs /run
--dir /var --symlink ../tmp /var/tmp
--ro-bind /opt/client /opt/client --ro-bind /opt/node /opt/node
--symlink /opt/client/cli.js /opt/bin/client
--bind /s/agent/private/run-1/home /home/agent
--ro-bind /s/agent/private/run-1/fixed/0 /home/agent/.client/settings.json
--ro-bind /s/work /s/work --ro-bind /repo/.git /repo/.git --ro-bind /s/agent /s/agent
--perms 0000 --tmpfs /s/agent/private --remount-ro /s/agent/private
--ro-bind /s/agent/private/run-1/wire /run/spike --chdir /s/work --remount-ro /run --remount-ro /
""".split()  # noqa: SIM905


def test_the_options_word_for_word():
    assert list(mounts.options(MOUNTS, 9, 8)) == GOLDEN


def test_without_git_with_the_hosts_network_and_with_a_terminal():
    from dataclasses import replace

    other = replace(MOUNTS, git_dir=None, own_network=False, new_session=False)
    dropped = {"--unshare-net", "--new-session", "/repo/.git", "--seccomp", "8"}
    expected = [item for item in GOLDEN if item not in dropped]
    expected.remove("--ro-bind")
    assert sorted(mounts.options(other, 9, None)) == sorted(expected)


@pytest.mark.security
def test_proc_sys_is_covered_after_every_proc_and_nothing_outside_home_is_writable():
    options = list(mounts.options(MOUNTS, 9, 8))
    assert options.count("--proc") == 1
    after = options[options.index("--proc") + 2 :]
    assert after[:3] == ["--ro-bind", "/proc/sys", "/proc/sys"]
    assert [options[i + 2] for i, item in enumerate(options) if item == "--bind"] == ["/home/agent"]
    assert options[-4:] == ["--remount-ro", "/run", "--remount-ro", "/"]


@pytest.mark.security
def test_nothing_names_the_judge_or_the_verdict():
    assert not [
        item for item in mounts.options(MOUNTS, 9, 8) if "judge" in item or "verdict" in item
    ]


def test_what_would_show_a_secret_is_found_through_links(tmp_path):
    secret = tmp_path / "s" / "judge"
    secret.mkdir(parents=True)
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "s")
    other = tmp_path / "other"
    other.mkdir()
    assert mounts.covers([str(other)], str(secret)) is None
    assert mounts.covers([str(other), str(link)], str(secret)) == str(link)
    assert mounts.covers([str(secret / "blobs")], str(secret)) == str(secret / "blobs")
    assert mounts.covers(["/"], str(secret)) == "/"


def test_this_machines_part_holds_no_home():
    system = mounts.read_system()
    assert all(path.startswith("/etc/") for path in system.etc)
    assert not any(path in ("/", "/home", "/root", "/var") for path, _ in system.top)


HUMAN = {
    "TERM": "xterm-256color",
    "LANG": "de_DE.UTF-8",
    "USER": "eve",
    "SSH_AUTH_SOCK": "/tmp/agent.sock",
    "AWS_SECRET_ACCESS_KEY": "secret",
}


@pytest.mark.security
def test_the_environment_is_built_not_inherited():
    extra = {
        "API_KEY": "k",
        "SSH_AUTH_SOCK": "x",
        "DBUS_SESSION_BUS_ADDRESS": "x",
        "LD_PRELOAD": "x",
        "SPIKE": "x",
        "HOME": "/root",
        "DISPLAY": ":0",
    }
    env = environment.build(
        home="/home/agent", path=("/opt/bin",), proxied=True, extra=extra, human=HUMAN
    )
    assert env.pop("SHELL") in ("/bin/bash", "/bin/sh")
    url = "http://127.0.0.1:3128"
    assert env == {
        "HOME": "/home/agent",
        "PATH": "/opt/bin:/usr/local/bin:/usr/bin:/bin",
        "TERM": "xterm-256color",
        "LANG": "de_DE.UTF-8",
        "USER": "eve",
        "LOGNAME": "eve",
        "TMPDIR": "/tmp",
        "API_KEY": "k",
        "HTTP_PROXY": url,
        "HTTPS_PROXY": url,
        "http_proxy": url,
        "https_proxy": url,
        "NO_PROXY": "localhost,127.0.0.1",
        "no_proxy": "localhost,127.0.0.1",
        "NODE_USE_ENV_PROXY": "1",
    }


def test_certificates_are_shown_where_they_are(tmp_path):
    file = tmp_path / "ca.pem"
    file.touch()
    extra = {"SSL_CERT_FILE": str(file), "NODE_EXTRA_CA_CERTS": "/no/such", "X": str(file)}
    assert environment.certificates(extra) == (str(file),)
    assert os.path.isabs(environment.certificates(extra)[0])
