"""What a review screen remembers: entries, order, cursor, marks, filter, time, what was seen.

No drawing and no session in here; everything can be tried with plain values.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from spike_mcp.edge.desk import Snapshot
from spike_mcp.edge.present import patch_of, title_of
from spike_mcp.edge.text import safe_line
from spike_mcp.session.view import MapHunk, Withdrawn

GROUPINGS = ("patch", "file", "state")


@dataclass(frozen=True, slots=True)
class Entry:
    """One row to decide on: a hunk, a withdrawn entry, or a path changed from outside.

    `key` is stable over snapshots: the full id, or `outside:PATH`.
    """

    key: str
    path: str
    state: str
    short: str
    title: str
    hunk: MapHunk | None = None
    withdrawn: Withdrawn | None = None

    @property
    def undecided(self) -> bool:
        """Whether a human still has to do something about it."""
        return self.state != "approved"


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the list: a heading, or the entry at `index`."""

    heading: str
    index: int = -1


def entries_of(snapshot: Snapshot) -> list[Entry]:
    """All entries in map order; what is out of band comes first: it blocks approving."""
    found = [
        Entry(f"outside:{path}", path, "out of band", "", safe_line(path, 200))
        for path in snapshot.outside
    ]
    found += [
        Entry(each.id, each.path, each.state, each.short, title_of(each), hunk=each)
        for each in snapshot.map.hunks
    ]
    found += [
        Entry(each.id, each.path, "withdrawn", each.short, safe_line(each.tag, 200), withdrawn=each)
        for each in snapshot.map.withdrawn
    ]
    return found


@dataclass
class Review:
    """The screen's memory. `rows` is what the list shows, `cursor` a key or ""."""

    entries: list[Entry] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    cursor: str = ""
    marks: dict[str, None] = field(default_factory=dict)
    filter: str = ""
    grouping: str = "patch"
    approved_only: bool = False
    seen: set[str] = field(default_factory=set)
    """Digests of views whose last row was on the screen."""
    spent: dict[str, float] = field(default_factory=dict)
    """Seconds that a hunk was on the screen, by id."""
    _by_key: dict[str, Entry] = field(default_factory=dict)
    _places: dict[str, int] = field(default_factory=dict)

    # --- what there is --------------------------------------------------------------------------

    def take(self, snapshot: Snapshot) -> None:
        """Show another moment; the cursor stays on its entry, or goes to what took its place."""
        before = self.current
        old_position = self.position
        self.entries = entries_of(snapshot)
        self._by_key = {entry.key: entry for entry in self.entries}
        self.marks = {key: None for key in self.marks if key in self._by_key}
        self._lay_out()
        if self.cursor in self._places:
            return
        self.cursor = self._heir(before, old_position)

    def _heir(self, before: Entry | None, position: int) -> str:
        """The entry that stands where `before` stood: same file first, then the same row."""
        shown = self.shown
        if not shown:
            return ""
        if before is not None:
            same = [entry for entry in shown if entry.path == before.path]
            if same:
                return min(same, key=lambda entry: _distance(entry, before)).key
        return shown[min(max(position, 0), len(shown) - 1)].key

    def _lay_out(self) -> None:
        order = [index for index, entry in enumerate(self.entries) if self._passes(entry)]
        order.sort(key=lambda i: (*_group_key(self.entries[i], self.grouping), i))
        self.rows = []
        self._places = {}
        heading = None
        for index in order:
            entry = self.entries[index]
            title = _heading(entry, self.grouping)
            if title != heading:
                self.rows.append(Row(title))
                heading = title
            self._places[entry.key] = len(self.rows)
            self.rows.append(Row("", index))

    def _passes(self, entry: Entry) -> bool:
        if self.approved_only and entry.state != "approved":
            return False
        wanted = self.filter.casefold().split()
        text = f"{entry.path} {entry.short} {entry.state} {entry.title}".casefold()
        return all(word in text for word in wanted)

    @property
    def shown(self) -> list[Entry]:
        """Entries of the list in its order."""
        return [self.entries[row.index] for row in self.rows if row.index >= 0]

    @property
    def current(self) -> Entry | None:
        """The entry under the cursor."""
        return self._by_key.get(self.cursor)

    @property
    def position(self) -> int:
        """Its place among the shown entries, from 0; -1 if it is not shown."""
        for number, entry in enumerate(self.shown):
            if entry.key == self.cursor:
                return number
        return -1

    @property
    def cursor_row(self) -> int:
        """The list row under the cursor, -1 for none."""
        return self._places.get(self.cursor, -1)

    def entry(self, key: str) -> Entry | None:
        """The entry with this key."""
        return self._by_key.get(key)

    def start(self) -> None:
        """Put the cursor on the first entry that waits for a decision, else on the first."""
        shown = self.shown
        first = next((entry for entry in shown if entry.undecided), shown[0] if shown else None)
        self.cursor = first.key if first is not None else ""

    # --- moving ---------------------------------------------------------------------------------

    def step(self, by: int) -> bool:
        """Move by entries; False at the end of the list."""
        shown = self.shown
        target = self.position + by
        if not 0 <= target < len(shown):
            return False
        self.cursor = shown[target].key
        return True

    def step_file(self, by: int) -> bool:
        """Move to the first entry of the next or previous file."""
        shown = self.shown
        at = self.position
        if at < 0:
            return False
        here = shown[at].path
        rest = range(at + 1, len(shown)) if by > 0 else range(at - 1, -1, -1)
        target = next((i for i in rest if shown[i].path != here), None)
        if target is None:
            return False
        while by < 0 and target > 0 and shown[target - 1].path == shown[target].path:
            target -= 1
        self.cursor = shown[target].key
        return True

    def step_pending(self, by: int = 1) -> bool:
        """Move to the next (previous) undecided entry, around the end; False if there is none."""
        shown = self.shown
        at = max(self.position, 0)
        around = [(at + by * offset) % len(shown) for offset in range(1, len(shown) + 1)]
        for index in around:
            if shown[index].undecided:
                self.cursor = shown[index].key
                return True
        return False

    def go_to(self, key: str) -> None:
        """Put the cursor on a shown entry."""
        if key in self._places:
            self.cursor = key

    # --- choosing -------------------------------------------------------------------------------

    def toggle_mark(self) -> bool:
        """Mark or unmark the current hunk; False where there is no hunk."""
        entry = self.current
        if entry is None or entry.hunk is None:
            return False
        if entry.key in self.marks:
            del self.marks[entry.key]
        else:
            self.marks[entry.key] = None
        return True

    def mark_same(self) -> int:
        """Mark the current hunk and all undecided ones with identical changed lines: how many."""
        entry = self.current
        if entry is None or entry.hunk is None:
            return 0
        wanted = entry.hunk.changed_lines
        same = [
            other.key
            for other in self.entries
            if other.hunk is not None
            and (other.undecided or other.key == entry.key)
            and other.hunk.changed_lines == wanted
        ]
        self.marks = dict.fromkeys([entry.key, *same])
        return len(self.marks)

    @property
    def chosen(self) -> list[Entry]:
        """What a decision is about: the marked entries, else the current one."""
        if self.marks:
            return [entry for entry in self.entries if entry.key in self.marks]
        return [self.current] if self.current is not None else []

    def set_filter(self, text: str) -> None:
        """Show only entries that hold every word of `text`; the cursor goes to the first."""
        self.filter = text
        self._relaid()

    def cycle_grouping(self) -> str:
        """Group by the next of patch, file, state."""
        self.grouping = GROUPINGS[(GROUPINGS.index(self.grouping) + 1) % len(GROUPINGS)]
        self._relaid()
        return self.grouping

    def toggle_approved_only(self) -> bool:
        """Show what would ship, or everything again."""
        self.approved_only = not self.approved_only
        self._relaid()
        return self.approved_only

    def _relaid(self) -> None:
        self._lay_out()
        if self.cursor not in self._places:
            shown = self.shown
            self.cursor = shown[0].key if shown else ""

    # --- what was seen --------------------------------------------------------------------------

    def unseen(self, hunks: Iterable[MapHunk]) -> list[MapHunk]:
        """Those whose end was never on the screen."""
        return [each for each in hunks if each.view not in self.seen]

    def spend(self, hunks: Sequence[MapHunk], seconds: float) -> None:
        """Book time on the hunks on the screen."""
        for each in hunks:
            self.spent[each.id] = self.spent.get(each.id, 0.0) + seconds / len(hunks)


def _distance(entry: Entry, before: Entry) -> int:
    if entry.hunk is None or before.hunk is None:
        return 1 << 30
    return abs(entry.hunk.hunk.old_start - before.hunk.hunk.old_start)


def _number(patch: str) -> int:
    digits = patch[1:]
    return int(digits) if digits.isdigit() else 0


def _group_key(entry: Entry, grouping: str) -> tuple[int | str, ...]:
    """What the list is sorted by: whatever came from outside stays on top."""
    rank = {"out of band": 0, "withdrawn": 1, "pending": 2, "approved": 3}[entry.state]
    first = min(rank, 2)
    if grouping == "state":
        return (rank, entry.path)
    if grouping == "file" or entry.hunk is None:
        return (first, 0, entry.path)
    return (first, _number(patch_of(entry.hunk)), entry.path)


def _heading(entry: Entry, grouping: str) -> str:
    if entry.state == "out of band":
        return "changed outside the tools"
    if entry.state == "withdrawn":
        return "approved, then taken out by the agent"
    path = safe_line(entry.path, 200)
    if grouping == "patch" and entry.hunk is not None:
        return f"{patch_of(entry.hunk) or '?'} {path}"
    return f"{entry.state} {path}" if grouping == "state" else path
