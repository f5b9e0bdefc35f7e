"""The bubblewrap command lines, word for word (spec 11): an option that moves is a hole."""

import pytest

from spike_mcp.host.sandbox.argv import command, covering, options, stage_at
from spike_mcp.host.sandbox.model import Box, Host, Limits

HOST = Host(
    bwrap="/usr/bin/bwrap",
    mount="/usr/bin/mount",
    copy="/usr/bin/cp",
    tar="/usr/bin/tar",
    system=(("/usr", ""), ("/bin", "usr/bin")),
    etc=("/etc/hosts",),
    uid=1000,
    gid=1001,
)
LIMITS = Limits(tmp_bytes=1000, tree_bytes=2000)
BOX = Box(
    tree="/s/work",
    mount_at=("/s/work", "/home/u/repo"),
    covers=(("/s/judge/oracle/t.py", "a/b/t.py"),),
    bytecode=("pkg/__pycache__",),
    sockets=("x.sock",),
    environment=(".venv",),
    read_only=("/home/u/repo/.venv", "/home/u/.pyenv/versions/3.11", "/home/u"),
    hide=("/home/u/.spikes", "/nowhere"),
    inside="/pkg/inside",
    limits=LIMITS,
)


def test_the_box_is_an_allow_list_in_a_fixed_order() -> None:
    told = options(HOST, BOX, 5, 6, 7, ((8, 0o444, "/s/work/a/b/t.py"),))
    assert " ".join(told).split(" --") == [
        part.removeprefix("--") if index else part
        for index, part in enumerate(
            [
                "--unshare-user",
                "--unshare-pid",
                "--unshare-ipc",
                "--unshare-uts",
                "--unshare-cgroup-try",
                "--unshare-net",
                "--disable-userns",
                "--uid 1000",
                "--gid 1001",
                "--cap-drop ALL",
                "--die-with-parent",
                "--new-session",
                "--hostname spike",
                "--json-status-fd 5",
                "--block-fd 6",
                "--seccomp 7",
                "--ro-bind /usr /usr",
                "--symlink usr/bin /bin",
                "--ro-bind /etc/hosts /etc/hosts",
                "--proc /proc",
                "--ro-bind /proc/sys /proc/sys",
                "--dev /dev",
                "--size 67108864",
                "--tmpfs /dev/shm",
                "--remount-ro /dev",
                "--perms 1777",
                "--size 1000",
                "--tmpfs /tmp",
                "--size 1048576",
                "--tmpfs /run",
                "--dir /var",
                "--symlink ../tmp /var/tmp",
                "--perms 0700",
                "--size 1000",
                "--tmpfs /home/spike",
                "--ro-bind /home/u /home/u",
                "--ro-bind /home/u/.pyenv/versions/3.11 /home/u/.pyenv/versions/3.11",
                "--perms 0000",
                "--size 4096",
                "--tmpfs /home/u/.spikes",
                "--bind /srv/tree /s/work",
                "--bind /srv/tree /home/u/repo",
                "--bind-try /srv/tree/a /s/work/a",
                "--bind-try /srv/tree/a/b /s/work/a/b",
                "--ro-bind /s/work/.venv /s/work/.venv",
                "--perms 0755",
                "--size 4096",
                "--tmpfs /s/work/pkg/__pycache__",
                "--remount-ro /s/work/pkg/__pycache__",
                "--ro-bind /dev/null /s/work/x.sock",
                "--bind-try /srv/tree/a /home/u/repo/a",
                "--bind-try /srv/tree/a/b /home/u/repo/a/b",
                "--ro-bind /s/work/.venv /home/u/repo/.venv",
                "--perms 0755",
                "--size 4096",
                "--tmpfs /home/u/repo/pkg/__pycache__",
                "--remount-ro /home/u/repo/pkg/__pycache__",
                "--ro-bind /dev/null /home/u/repo/x.sock",
                "--perms 0444",
                "--ro-bind-data 8 /s/work/a/b/t.py",
                "--ro-bind /home/u/repo/.venv /home/u/repo/.venv",
                "--ro-bind /pkg/inside /run/spike/inside",
                "--remount-ro /home/u/.spikes",
                "--chdir /s/work",
                "--remount-ro /run",
                "--remount-ro /",
            ]
        )
    ]


def test_sealed_files_are_named_nowhere() -> None:
    told = options(HOST, BOX, 5, 6, 7, ((8, 0o444, "/s/work/a/b/t.py"),))
    whole = command(HOST, BOX, 9, "/proc/self/fd/5", ("python", "-m", "pytest"))
    assert not [word for word in (*told, *whole) if "judge" in word]


def test_the_stage_mounts_and_the_gate_waits() -> None:
    whole = command(HOST, BOX, 9, "/proc/self/fd/5", ("python", "-m", "pytest"))
    assert whole[:11] == (
        *("/usr/bin/bwrap", "--die-with-parent", "--unshare-user", "--uid", "0", "--gid", "0"),
        *("--cap-add", "ALL", "--dev-bind", "/"),
    )
    at = whole.index("/srv")
    assert whole[at : at + 9] == (
        *("/srv", "2000", "/usr/bin/mount", "/usr/bin/cp", "/proc/self/fd/5"),
        *("overlay", "/s/work", "/usr/bin/tar", ""),
    )
    assert whole[at + 9 :][:4] == ("/usr/bin/bwrap", "--args", "9", "--")
    assert whole[-4:] == ("sh", "python", "-m", "pytest")


def test_without_proc_nothing_of_it_is_shown() -> None:
    box = Box(tree="/s/work", mount_at=("/s/work",), proc=False)
    assert not [word for word in options(HOST, box, 5, 6, 7) if word.startswith("/proc")]


@pytest.mark.parametrize(
    ("paths", "stage"),
    [
        (("/home/u/work",), "/srv"),
        (("/srv/repo/work", "/opt/python"), "/mnt"),
        (("/srv", "/mnt/c/x", "/media/disk"), "/boot"),
    ],
)
def test_the_stage_hides_no_path_of_the_run(paths: tuple[str, ...], stage: str) -> None:
    assert stage_at(paths) == stage


def test_a_hidden_directory_around_the_tree_is_emptied_before_the_tree_is_shown() -> None:
    box = Box(
        tree="/s/x/work", mount_at=("/s/x/work",), read_only=("/s", "/s/x/py"), hide=("/s/x",)
    )
    told = " ".join(options(HOST, box, 5, 6, 7))
    parts = [
        "--ro-bind /s /s",
        "--perms 0711 --size 4096 --tmpfs /s/x",
        "--ro-bind /s/x/py /s/x/py",
        "--bind /srv/tree /s/x/work",
        "--remount-ro /s/x ",
    ]
    places = [told.index(part) for part in parts]
    assert places == sorted(places)


def test_what_covers_a_tree_as_a_file_for_mount() -> None:
    box = Box(
        tree="/s/work",
        mount_at=("/s/work",),
        covers=(("/j/1", "a b/c/t.py"), ("/j/2", "x\\y")),
        bytecode=("a b/__pycache__",),
        sockets=("s",),
    )
    assert covering(box).decode().splitlines() == [
        r"/srv/tree/a\040b /srv/tree/a\040b none bind 0 0",
        r"/srv/tree/a\040b/c /srv/tree/a\040b/c none bind 0 0",
        r"spike /srv/tree/a\040b/__pycache__ tmpfs size=4k,mode=0755,ro 0 0",
        r"/dev/null /srv/tree/s none bind,ro 0 0",
        r"/srv/o/f/0 /srv/tree/a\040b/c/t.py none bind,ro 0 0",
        r"/srv/o/f/1 /srv/tree/x\134y none bind,ro 0 0",
    ]
