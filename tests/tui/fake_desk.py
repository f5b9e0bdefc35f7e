"""A desk in memory: hunks made from byte strings, decisions that change nothing but the map."""

from __future__ import annotations

from dataclasses import replace

from spike_mcp.core import content, flags, tags
from spike_mcp.core.codes import Problem, Refusal
from spike_mcp.core.hunks import diff, hunks, short_ids, split_lines, view_sha256
from spike_mcp.core.model import Approval
from spike_mcp.edge.desk import Done, Preview, Sealed, Snapshot, TestRun
from spike_mcp.session.status import Status
from spike_mcp.session.view import Flagged, HunkMap, MapHunk, Withdrawn

HYPOTHESIS = (
    "the client surfaces Retry-After of 429 responses to callers within 25 minutes, measured by "
    "python -m pytest tests/test_http_client.py -q"
)
SUBJECT = "the client surfaces Retry-After of 429 responses to callers"
TOKENS = ("client", "surfaces", "retry-after", "429", "responses", "callers")

Files = dict[str, tuple[bytes | None, bytes | None]]


def approval(region, tag, epoch=1_700_000_000.0, view=""):
    row = (region.key, region.path, region.kind.value, region.old_start, region.old_count, "", "")
    return Approval("D1", "", tag, row, 0.0, epoch, view)


def entry(hunk, patch="P1", rationale="", **more):
    found = [Flagged(f.name, f.line, f.text) for f in content.flags(hunk.path, hunk.regions)]
    for region in hunk.regions:
        found += [
            Flagged(s.name, region.new_start + s.line_no, s.excerpt)
            for s in flags.flags(region.path, region.removed, region.added)
        ]
    values = {
        "hunk": hunk,
        "id": hunk.id,
        "short": "",
        "state": "pending",
        "tag": "",
        "region_states": ("pending",) * len(hunk.regions),
        "approvals": (),
        "old_tags": (),
        "why": "",
        "patches": (patch,),
        "rationale": rationale,
        "flags": tuple(found),
        "comments": (),
        "view": view_sha256(hunk),
        "context_changed": False,
        "resubmitted": False,
    }
    return MapHunk(**(values | more))


def approved(each, tag, view=""):
    return replace(
        each,
        state="approved",
        tag=tag,
        region_states=("approved",) * len(each.regions),
        approvals=tuple(approval(r, tag, view=view) for r in each.regions),
    )


def make_map(entries, withdrawn=()):
    names = short_ids([e.id for e in entries])
    named = [replace(e, short=names[e.id]) for e in entries]
    same = {}
    for each in named:
        same.setdefault(each.changed_lines, []).append(each.short)
    return HunkMap(
        tuple(
            replace(e, twins=tuple(t for t in same[e.changed_lines] if t != e.short)) for e in named
        ),
        tuple(withdrawn),
    )


def map_of(files: Files, rationale="surface the header", patches=None):
    found = []
    for number, (path, (base, work)) in enumerate(sorted(files.items()), 1):
        patch = (patches or {}).get(path, f"P{number}")
        found += [
            entry(h, patch, rationale) for h in hunks(path, base, work, diff(path, base, work))
        ]
    return make_map(found)


def status_of(current, **more):
    pending = len(current.pending)
    used = {"setup": 11.3, "reproduce": 19.0, "attempt": 12.4, "verify": 0.0}
    allowed = {"setup": 15.0, "reproduce": 25.0, "attempt": 30.0, "verify": 15.0}
    met = {"setup": True, "reproduce": True, "attempt": None, "verify": None}
    values = {
        "spike": "retry-after",
        "root": "/spikes/retry-after",
        "phase": "attempt",
        "checkpoint": "attempt",
        "elapsed": 51 * 60 + 48.0,
        "remaining": 38 * 60 + 12.0,
        "writes_close_in": 17 * 60 + 36.0,
        "pending": pending,
        "approved": len(current.hunks) - pending,
        "withdrawn": len(current.withdrawn),
        "out_of_band": 0,
        "hypothesis": HYPOTHESIS,
        "tag_tokens": TOKENS,
        "allowed": ("src/",),
        "measurement": ("python", "-m", "pytest"),
        "runs_left": 58,
        "last_run": None,
        "running": "",
        "approval_strength": "none",
        "writer_tier": "configured",
        "checkpoints": {
            name: {
                "used_minutes": used[name],
                "allowed_minutes": allowed[name],
                "over": False,
                "met": met[name],
            }
            for name in used
        },
        "unknowns": (),
        "verdict": "",
        "done": False,
        "total_minutes": 90.0,
    }
    return Status(**(values | more))


class FakeDesk:
    """Behaves like a `SpikeDesk`; `log` has what was asked of it."""

    def __init__(self, files: Files | None = None, current: HunkMap | None = None, **more):
        self.sealed = Sealed(HYPOTHESIS, SUBJECT, TOKENS, 40, False)
        self.files = files or {}
        self.map = current or map_of(self.files)
        self.rejected = 0
        self.outside = ()
        self.more = more
        self.log = []
        self.recut = ()
        self.older = False
        self.history = []
        self.output = "1 passed"
        self.green = True

    def look(self):
        return Snapshot(self.map, status_of(self.map, **self.more), self.rejected, self.outside)

    def look_outside(self):
        return self.look()

    def file_lines(self, path):
        base, work = self.files[path]
        return split_lines(base or b""), split_lines(work or b"")

    def _current(self, each: MapHunk) -> MapHunk:
        for now in self.map.hunks:
            if now.id == each.id and now.view == each.view:
                return now
        raise Problem(
            Refusal.HUNK_CHANGED, f"{each.short} is not in the diff any more", "look again"
        )

    def _replace(self, old, new=None):
        self.history.append(self.map)
        kept = [new if e.id == old.id else e for e in self.map.hunks]
        self.map = make_map([e for e in kept if e is not None], self.map.withdrawn)

    def approve(self, each, tag, acks, seconds):
        now = self._current(each)
        checked = tags.check_tag(tag, TOKENS, each.rationale)
        if isinstance(checked, Problem):
            raise checked
        missing = {f.name for f in each.flags} - set(acks)
        if missing:
            raise Problem(Refusal.FLAG_UNACKNOWLEDGED, f"{each.short} is flagged")
        self.log.append(("approve", each.short, tag, tuple(acks)))
        self._replace(now, approved(now, checked.text))
        return Done(f"approved {each.short}", checked.warnings)

    def accept_withdrawal(self, gone: Withdrawn):
        self.log.append(("accept", gone.short))
        left = [w for w in self.map.withdrawn if w.id != gone.id]
        self.map = make_map(self.map.hunks, left)
        return Done(f"accepted that {gone.short} left the diff")

    def preview_reject(self, names, *, to_baseline):
        revived = int(self.older and not to_baseline)
        return Preview("", self.recut, revived, self.older)

    def reject(self, names, reason, *, to_baseline):
        self.log.append(("reject", len(names), reason, to_baseline))
        for name in names:
            for each in self.map.hunks:
                if each.id == name:
                    self._replace(each)
                    self.rejected += 1
        shorts = [name[:8] for name in names]
        return Done(f"rejected h{', h'.join(shorts)}: reverted in work/, the agent will be told")

    def comment(self, each, text):
        self.log.append(("comment", each.short, text))
        now = self._current(each)
        self._replace(now, replace(now, comments=(*now.comments, text)))
        return Done(f"noted on {each.short}")

    def undo(self):
        if not self.history:
            raise Problem(Refusal.NO_CHANGES, "there is no decision to undo")
        self.map = self.history.pop()
        self.log.append(("undo",))
        return Done("took back D1")

    def restore(self, paths):
        self.log.append(("restore", tuple(paths)))
        self.outside = tuple(p for p in self.outside if p not in paths)
        return Done("restored 1 file")

    def run_test(self, *, tree, on_progress):
        self.log.append(("test", tree))
        on_progress("collecting")
        return TestRun("R3", self.green, "passed" if self.green else "failed", 1.25, self.output)


def sample() -> Files:
    """Twenty hunks in five files; three of them change the same lines."""
    step = (
        "def step_{n}(resp, retries=3):\n"
        '    """Step {n}."""\n'
        "    status = resp.status\n"
        "    if status == {code}:\n"
        '        log.warning("server error %s", status)\n'
        "        return None\n"
        "    payload = {{'status': status, 'body': resp.body}}\n"
        "    for attempt in range(retries):\n"
        "        payload['attempt'] = attempt\n"
        "        payload['again'] = bool(attempt)\n"
        "    return payload\n"
        "\n"
        "\n"
    )
    files: Files = {}
    counts = {"src/backoff.py": 3, "src/cache.py": 4, "src/http_client.py": 6, "src/parser.py": 4}
    counts["src/retry/deep/logutil.py"] = 3
    for number, (path, count) in enumerate(counts.items()):
        base = work = "import logging\n\nlog = logging.getLogger(__name__)\n\n\n"
        for n in range(count):
            code = "500" if path == "src/backoff.py" else f"5{number}{n}"
            text = step.format(n=n, code=code)
            base += text
            work += text.replace(f"status == {code}", f"status in (429, {code})")
        files[path] = (base.encode(), work.encode())
    return files
