"""Names inside a spike's directory (spec 3). Pure text; the host joins them to a root."""

WORK = "work"
JUDGE = "judge"
VERDICT = "verdict"
AGENT = "agent"

CONTRACT = "contract.toml"
HYPOTHESIS = "hypothesis.txt"
SEALS = "seals.json"
MANIFEST = "baseline.manifest"
STATS = "stat-cache"
POINTER = "pointer.json"
ORACLE = "oracle"
LEDGER = "ledger.jsonl"
HUNK_MAP = "hunk-map.yml"
BLOBS = "blobs"
SECRET_KEY = "approval-key.json"  # noqa: S105  (a file name)

RESULT = "result.json"
DISPUTED = "result.disputed.json"
REPORT_MD = "report.md"
REPORT_HTML = "report.html"
SHIP_PATCH = "ship.patch"


def branch(name: str) -> str:
    """The branch of a spike."""
    return f"spike/{name}"
