"""judge/ledger.jsonl: read with proof, appended whole or not at all (spec 10).

Who changes a spike holds its lock (`host.locks`), calls `refresh`, decides, appends. Who only
looks calls `read`, with or without the lock. A `Ledger` remembers what it has verified, so a
later read pays for new rows only, and a file that no longer begins with the remembered bytes is
damage.

Rows on disk: a row is one write and one fdatasync. A crash can leave a part of the last write; a
line without its newline is a torn tail, never a row, whatever it holds. What was never
acknowledged may so be lost, but nothing is ever glued to it. The last row has no successor that
would vouch for it: that it was not cut off or rewritten is known to processes that saw it, to
signatures, and to result.json.
"""

import contextlib
import errno
import hashlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from spike_mcp.core.clock import Reading
from spike_mcp.core.codes import Actor, Problem, Refusal, Usage
from spike_mcp.core.rows import GENESIS, BadRow, Row, decode, dump, encode, fits, load
from spike_mcp.host.files import sync_directory, write_atomic

__all__ = ["Blobs", "Chain", "Disk", "Ledger", "Row", "verify_chain"]

NAME = "ledger.jsonl"
TAILS = "tails"

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW
_Seen = tuple[int, int, int, int, int]


class Blobs(Protocol):
    """Where fields too long for a row go."""

    def put(self, data: bytes) -> str:
        """Keep `data` durably; its SHA-256."""

    def get(self, sha256: str) -> bytes:
        """What was kept; fails unless the bytes still have that digest."""


class Disk:
    """The calls that can fail half-way; a test hands in one that does."""

    def write(self, descriptor: int, data: bytes) -> int:
        """Append once; bytes written."""
        return os.write(descriptor, data)

    def overwrite(self, descriptor: int, data: bytes, offset: int) -> int:
        """Write once at `offset`; bytes written."""
        return os.pwrite(descriptor, data, offset)

    def truncate(self, descriptor: int, size: int) -> None:
        """Cut the file to `size` bytes."""
        os.ftruncate(descriptor, size)

    def sync(self, descriptor: int) -> None:
        """Data and size are on the disk when this returns, as far as the platform promises."""
        getattr(os, "fdatasync", os.fsync)(descriptor)


@dataclass(frozen=True, slots=True)
class Chain:
    """What a whole ledger amounts to: rows, hash of the last one, bytes of a torn tail."""

    rows: int
    head: str
    torn: int


class Ledger:
    """One process's view of one ledger. Not for use by two threads at a time."""

    def __init__(self, judge: Path, blobs: Blobs, disk: Disk | None = None) -> None:
        self._path = judge / NAME
        self._tails = judge / TAILS
        self._blobs = blobs
        self._disk = disk or Disk()
        self._rows = 0
        self._head = GENESIS
        self._offset = 0
        self._prefix = hashlib.sha256()
        self._torn = b""
        self._seen: _Seen | None = None
        self._unread: list[Row] = []
        self._failed = ""

    def create(self) -> None:
        """Make the empty ledger (mode 0600). `Problem(SPIKE_EXISTS)` if there is one."""
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, 0o600)
        except FileExistsError:
            raise Problem(Usage.SPIKE_EXISTS, "the spike has a ledger already") from None
        os.close(descriptor)
        sync_directory(self._path.parent)

    @property
    def head(self) -> tuple[str, int]:
        """(SHA-256 of the last verified row's line, number of rows); 64 zeros and 0 when empty."""
        return self._head, self._rows

    @property
    def torn(self) -> bool:
        """Whether the last read saw a torn tail."""
        return bool(self._torn)

    @property
    def failed(self) -> str:
        """Why this object takes no more rows; "" while it does."""
        return self._failed

    def read(self) -> list[Row]:
        """Rows that this object has neither returned nor appended before, verified.

        A torn tail is left alone (a writer may be at it). Raises `Problem(LEDGER_DAMAGED)`.
        """
        self._catch_up()
        rows, self._unread = self._unread, []
        return rows

    def refresh(self, reading: Reading) -> list[Row]:
        """`read` for the holder of the lock: moves a torn tail aside, its row comes last.

        Raises `Problem(LEDGER_DAMAGED)`, or `Problem(STORAGE_FULL)` if the tail can't be kept.
        """
        self._catch_up()
        if self._torn:
            self._unread.append(self._discard_tail(reading))
        return self.read()

    def append(self, event: str, fields: Mapping[str, Any], actor: Actor, reading: Reading) -> Row:
        """Add one row; see `append_many`."""
        return self.append_many([(event, fields)], actor, reading)[0]

    def append_many(
        self,
        events: Sequence[tuple[str, Mapping[str, Any]]],
        actor: Actor,
        reading: Reading,
    ) -> list[Row]:
        """Add rows in one write, durable on return. The caller holds the lock and has refreshed.

        A crash may leave the first few of them. `Problem(STORAGE_FULL)`: none was added; unless
        that is certain, and after any failure but a full disk, this object takes no more rows.
        `Problem(LEDGER_DAMAGED)`: the file changed under us. `ValueError`: fields JSON can't hold.
        """
        self._check_ready()
        if not events:
            return []
        lines: list[bytes] = []
        rows: list[Row] = []
        head = self._head
        for number, (event, fields) in enumerate(events, self._rows + 1):
            line = self._line(number, event, fields, actor, reading, head)
            rows.append(self._restored(*decode(line, number, head)))
            lines.append(line)
            head = rows[-1].raw_sha256
        self._write(b"\n".join(lines) + b"\n")
        self._rows += len(rows)
        self._head = head
        return rows

    # --- reading --------------------------------------------------------------------------------

    def _catch_up(self) -> None:
        with contextlib.suppress(OSError):
            if self._seen == _look(self._path):
                return
        with _opened(self._path, os.O_RDONLY) as descriptor:
            seen = _look(descriptor)
            if _digest_of_first(descriptor, self._offset) != self._prefix.digest():
                raise damaged("rows that were there before are gone or changed")
            data = _read_all(descriptor, max(0, seen[2] - self._offset))
        found, end = _parse(data, self._offset, self._rows, self._head)
        rows = [self._restored(row, spill) for row, spill in found]
        self._prefix.update(memoryview(data)[:end])
        self._offset += end
        self._rows += len(rows)
        self._head = rows[-1].raw_sha256 if rows else self._head
        self._torn = data[end:]
        self._seen = seen
        self._unread += rows

    def _restored(self, row: Row, spill: Mapping[str, str]) -> Row:
        for name, digest in spill.items():
            try:
                data = self._blobs.get(digest)
                if hashlib.sha256(data).hexdigest() != digest:
                    raise BadRow("other bytes")
                row.fields[name] = load(data)
            except (OSError, ValueError, Problem) as error:
                raise damaged(
                    f"row {row.seq}: {name!r} is kept in blob {digest[:12]}, which is missing "
                    f"or damaged ({error})"
                ) from None
        return row

    # --- writing --------------------------------------------------------------------------------

    def _check_ready(self) -> None:
        self._check_alive()
        self._catch_up()
        if self._unread or self._torn:
            raise RuntimeError("refresh the ledger under the lock before appending to it")

    def _check_alive(self) -> None:
        if self._failed:
            raise Problem(
                Refusal.STORAGE_FULL,
                f"an earlier write of the ledger failed ({self._failed})",
                "look at the disk, then start the command or the server again",
            )

    def _line(
        self,
        seq: int,
        event: str,
        fields: Mapping[str, Any],
        actor: Actor,
        reading: Reading,
        prev: str,
    ) -> bytes:
        """The row's line; the longest fields move to blobs until it is short enough."""
        at = _rfc3339(reading.epoch)
        line = encode(seq, event, at, reading, actor, prev, fields)
        if fits(line):
            return line
        kept, spilled = dict(fields), {}
        for name in sorted(kept, key=lambda key: len(dump(fields[key])), reverse=True):
            spilled[name] = self._blobs.put(dump(kept.pop(name)))
            line = encode(seq, event, at, reading, actor, prev, kept, spilled)
            if fits(line):
                return line
        raise ValueError(f"{event!r} has too many fields for one row")

    def _write(self, data: bytes) -> None:
        with _opened(self._path, os.O_WRONLY | os.O_APPEND) as descriptor:
            try:
                if self._disk.write(descriptor, data) != len(data):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                self._disk.sync(descriptor)
            except OSError as error:
                self._undo(descriptor, error)
                raise storage_failed(error) from error
            seen = _look(descriptor)
        self._prefix.update(data)
        self._offset += len(data)
        # A size that is not ours: somebody writes without the lock. The next read will tell.
        self._seen = seen if seen[2] == self._offset else None

    def _undo(self, descriptor: int, error: OSError) -> None:
        """Cut away what a failed write may have left; give up for good if that is not certain.

        After a failed sync the kernel may have dropped the bytes and call them clean, so only a
        full disk, undone and synced, is a failure to go on from.
        """
        self._seen = None
        try:
            self._disk.truncate(descriptor, self._offset)
            self._disk.sync(descriptor)
        except OSError as second:
            self._failed = f"{error.strerror}; undoing it: {second.strerror}"
            return
        if error.errno not in _FULL:
            self._failed = error.strerror or str(error)

    def _discard_tail(self, reading: Reading) -> Row:
        """Keep the torn bytes under judge/tails/ and write the row that says so over them.

        Over, not after a cut: whenever this stops half-way, what is left is a torn tail again.
        """
        self._check_alive()
        tail = self._torn
        digest = hashlib.sha256(tail).hexdigest()
        fields = {"length": len(tail), "sha256": digest}
        seq = self._rows + 1
        line = self._line(seq, "tail_discarded", fields, Actor.HOST, reading, self._head)
        row, _ = decode(line, seq, self._head)
        data = line + b"\n"
        self._tails.mkdir(mode=0o700, exist_ok=True)
        write_atomic(self._tails / f"{self._offset}-{digest[:16]}", tail, 0o600)
        with _opened(self._path, os.O_WRONLY) as descriptor:
            self._seen = None
            try:
                if self._disk.overwrite(descriptor, data, self._offset) != len(data):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                self._disk.truncate(descriptor, self._offset + len(data))
                self._disk.sync(descriptor)
            except OSError as error:
                if error.errno not in _FULL:
                    self._failed = error.strerror or str(error)
                raise storage_failed(error) from error
            self._seen = _look(descriptor)
        self._torn = b""
        self._prefix.update(data)
        self._offset += len(data)
        self._rows, self._head = seq, row.raw_sha256
        return row


def verify_chain(path: Path) -> Chain:
    """Check a ledger file from its first byte, without blobs. `Problem(LEDGER_DAMAGED)`."""
    with _opened(path, os.O_RDONLY) as descriptor:
        data = _read_all(descriptor, _look(descriptor)[2])
    found, end = _parse(data, 0, 0, GENESIS)
    head = found[-1][0].raw_sha256 if found else GENESIS
    return Chain(len(found), head, len(data) - end)


def damaged(where: str) -> Problem:
    """The refusal for a ledger that can't be trusted."""
    return Problem(
        Refusal.LEDGER_DAMAGED,
        f"the ledger is damaged: {where}",
        "nothing can repair it; `spike verdict` writes KILL, `spike log` shows what is readable",
    )


def storage_failed(error: OSError) -> Problem:
    """The refusal for a row that could not be written."""
    if error.errno in _FULL:
        hint = "free some space and repeat the command; nothing was changed"
    else:
        hint = "look at the disk, then start the command or the server again"
    return Problem(Refusal.STORAGE_FULL, f"the ledger can't be written: {error.strerror}", hint)


def _parse(
    data: bytes, offset: int, rows: int, head: str
) -> tuple[list[tuple[Row, dict[str, str]]], int]:
    """Rows of `data`, which stands at `offset` in the file; where in it the last line ends."""
    found = []
    end = data.rfind(b"\n") + 1
    if end:
        for line in data[: end - 1].split(b"\n"):
            try:
                row, spill = decode(line, rows + 1, head)
            except BadRow as why:
                raise damaged(f"row {rows + 1}, byte {offset}: {why}") from None
            found.append((row, spill))
            rows, head = row.seq, row.raw_sha256
            offset += len(line) + 1
    return found, end


@contextlib.contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    try:
        descriptor = os.open(path, flags | _FLAGS)
    except FileNotFoundError:
        raise damaged("the file is missing") from None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise damaged("the file is a symlink") from None
        if flags == os.O_RDONLY:
            raise
        raise storage_failed(error) from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _look(file: int | Path) -> _Seen:
    stat = os.stat(file) if isinstance(file, int) else os.lstat(file)
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


def _digest_of_first(descriptor: int, size: int) -> bytes:
    """SHA-256 of the first `size` bytes, read in pieces: they are not kept, and may be many."""
    digest = hashlib.sha256()
    while size > 0 and (piece := os.read(descriptor, min(size, 1 << 18))):
        digest.update(piece)
        size -= len(piece)
    return digest.digest()


def _read_all(descriptor: int, size: int) -> bytes:
    """The rest of a file in one piece if it has the size it had just now (it may be growing)."""
    pieces = []
    while piece := os.read(descriptor, max(size + 1, 4096)):
        pieces.append(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _rfc3339(epoch: float) -> str:
    whole, milliseconds = divmod(round(epoch * 1000), 1000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(whole))}.{milliseconds:03d}Z"
