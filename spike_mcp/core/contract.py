"""The contract: what `spike init` writes, seals and freezes (spec 4).

Every value is parsed once, here; what is read back from contract.toml passes the same checks, and
an unknown key is an error. TOML keys are the field names.
"""

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from spike_mcp.core import budgets as budget_rules
from spike_mcp.core import contract_values as values
from spike_mcp.core.budgets import Budgets
from spike_mcp.core.codes import Isolation
from spike_mcp.core.contract_values import check_name
from spike_mcp.core.hypothesis import Hypothesis
from spike_mcp.core.paths import PathPolicy, ProtectedPattern
from spike_mcp.core.runners import Runner, detect
from spike_mcp.core.unsafe import quoted

__all__ = [
    "Budgets",
    "Contract",
    "Hypothesis",
    "Measurement",
    "check_name",
    "contract_schema",
    "parse_defaults",
]

Schema = dict[str, object]

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_DIGEST_OR_NONE = re.compile(f"(?:{values.DIGEST.pattern})?")
_HEX = re.compile(r"[0-9a-f]*")


@dataclass(frozen=True, slots=True)
class Measurement:
    """The pinned argv and the adapter (`core.runners.Runner`) that reads its evidence."""

    argv: tuple[str, ...]
    runner: Runner

    @classmethod
    def of(cls, argv: Sequence[str]) -> "Measurement":
        """Measurement of an argv, its runner detected."""
        return cls(tuple(argv), detect(argv))


# -- the fields ---------------------------------------------------------------------------------

_STRING: Schema = {"type": "string"}
_LIST: Schema = {"type": "array", "items": {"type": "string"}}
_SOME: Schema = {**_LIST, "minItems": 1}
_TABLE: Schema = {"type": "object", "additionalProperties": {"type": "string"}}
_BOOL: Schema = {"type": "boolean"}


def _described(schema: Schema, description: str) -> Schema:
    return {**schema, "description": description}


@dataclass(frozen=True, slots=True)
class _Field:
    """How one plain key is checked and described; `given` keys may stand in `--from FILE`."""

    check: Callable[[str, object], object]
    schema: Schema
    given: bool = True


_FIELDS: dict[str, _Field] = {
    "spike_id": _Field(values.filled, _described(_STRING, "unique id of the spike"), given=False),
    "name": _Field(values.name, _described(_STRING, "name of the spike and of its branch")),
    "allowed": _Field(
        values.some_patterns, _described(_SOME, "exact path, dir/ or glob the agent may write")
    ),
    "oracle": _Field(values.some_paths, _described(_SOME, "files that define success")),
    "unprotected": _Field(
        values.patterns, _described(_LIST, "exceptions from the protected paths")
    ),
    "included": _Field(
        values.paths, _described(_LIST, "uncommitted files taken into the baseline")
    ),
    "baseline": _Field(
        values.matching(_COMMIT, "a commit id in hex"),
        _described(_STRING, "baseline commit"),
        False,
    ),
    "repository": _Field(
        values.filled, _described(_STRING, "path of the main checkout"), given=False
    ),
    "git_dir": _Field(values.filled, _described(_STRING, "git's common directory"), given=False),
    "isolation": _Field(
        values.isolation,
        {"enum": [str(level) for level in Isolation], "description": "sandbox level"},
    ),
    "setup": _Field(
        values.argv, _described(_LIST, "argv run by the host before the agent has a tool")
    ),
    "environment": _Field(values.directories, _described(_LIST, "paths that setup creates")),
    "vectors": _Field(
        values.matching(_DIGEST_OR_NONE, "a sha256 in hex or empty"),
        _described(_STRING, "sha256 of the hidden vectors, or empty"),
        given=False,
    ),
    "hidden": _Field(values.digests, _described(_TABLE, "path = sha256 of its hidden form"), False),
    "negative_controls": _Field(
        values.digests, _described(_TABLE, "path = sha256 of the form that must fail"), False
    ),
    "accept_collection_error": _Field(
        values.flag, _described(_BOOL, "red may be a collection error")
    ),
    "allow_control": _Field(values.flag, _described(_BOOL, "control characters may be written")),
    "approval_key": _Field(
        values.matching(_HEX, "hex or empty"),
        _described(_STRING, "Ed25519 public key, or empty"),
        False,
    ),
    "created_at": _Field(values.filled, _described(_STRING, "RFC 3339 time of init"), given=False),
}
_STRUCTURED = ("hypothesis", "measurement", "budgets")


def _table(key: str, value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise values.invalid(f"{key} must be a table")
    return value


def _check_keys(what: str, given: Mapping[str, object], known: Sequence[str]) -> None:
    unknown = [key for key in given if key not in known]
    if unknown:
        listed = ", ".join(quoted(str(key), 40) for key in unknown)
        raise values.invalid(f"unknown key in {what}: {listed}", f"known keys: {', '.join(known)}")


def _measurement(value: object) -> Measurement:
    if not isinstance(value, Mapping):
        return Measurement.of(values.command("measurement", value))
    _check_keys("measurement", value, ("argv", "runner"))
    argv = values.command("measurement.argv", value.get("argv", ()))
    runner = value.get("runner", detect(argv))
    if runner not in tuple(Runner):
        raise values.invalid(f"measurement.runner must be one of {', '.join(Runner)}")
    return Measurement(argv, Runner(str(runner)))


def _budgets(value: object) -> Budgets:
    return Budgets.of(_table("budgets", value))  # type: ignore[arg-type]  # values are checked


@dataclass(frozen=True)
class Contract:
    """Everything that decides a spike, frozen. Digests are sha256 in hex, paths repository paths.

    `hidden` and `negative_controls` map the repository path a file takes the place of to the
    digest of its content (kept in judge/blobs); `vectors` and `approval_key` may be empty.
    """

    spike_id: str
    name: str
    hypothesis: Hypothesis
    allowed: tuple[str, ...]
    oracle: tuple[str, ...]
    unprotected: tuple[str, ...]
    included: tuple[str, ...]
    measurement: Measurement
    budgets: Budgets
    baseline: str
    repository: str
    git_dir: str
    isolation: Isolation
    setup: tuple[str, ...]
    environment: tuple[str, ...]
    vectors: str
    hidden: Mapping[str, str]
    negative_controls: Mapping[str, str]
    accept_collection_error: bool
    allow_control: bool
    approval_key: str
    created_at: str

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> "Contract":
        """Contract from TOML's tables; `Problem` names the key that is missing, unknown or wrong.

        A hypothesis in full form must agree with the measurement.
        """
        names = (*_STRUCTURED, *_FIELDS)
        _check_keys("the contract", data, names)
        missing = [name for name in names if name not in data]
        if missing:
            raise values.invalid(f"the contract lacks {', '.join(missing)}")
        budgets = _budgets(data["budgets"])
        measurement = _measurement(data["measurement"])
        text = values.text("hypothesis", data["hypothesis"])
        checked = {name: field.check(name, data[name]) for name, field in _FIELDS.items()}
        return cls(
            hypothesis=Hypothesis.parse(text, budgets.total, measurement.argv),
            measurement=measurement,
            budgets=budgets,
            **checked,  # type: ignore[arg-type]  # checked by _FIELDS
        )

    def to_dict(self) -> dict[str, object]:
        """Plain values that `from_dict` reads back to an equal contract, in a fixed order."""
        plain: dict[str, object] = {"hypothesis": self.hypothesis.text}
        for name in _FIELDS:
            value = getattr(self, name)
            plain[name] = list(value) if isinstance(value, tuple) else value
        plain["isolation"] = self.isolation.value
        for name in ("hidden", "negative_controls"):
            plain[name] = dict(sorted(getattr(self, name).items()))
        plain["measurement"] = {
            "argv": list(self.measurement.argv),
            "runner": self.measurement.runner.value,
        }
        names = budget_rules.FIELD_NAMES
        plain["budgets"] = {name: getattr(self.budgets, name) for name in names}
        return plain

    @classmethod
    def from_toml(cls, data: bytes) -> "Contract":
        """Contract from the bytes of contract.toml; `Problem(INVALID_CONTRACT)` if it is none."""
        return cls.from_dict(_read_toml(data))

    def to_toml(self) -> bytes:
        """The bytes of contract.toml."""
        import tomli_w  # only `init` writes; reading a spike must not pay for it

        return tomli_w.dumps(self.to_dict()).encode()

    def policy(
        self, exists: Callable[[str], bool], extra: tuple[ProtectedPattern, ...] = ()
    ) -> PathPolicy:
        """Who may write where; `exists` and `extra` as in `PathPolicy.of`."""
        return PathPolicy.of(
            allowed=self.allowed,
            oracle=self.oracle,
            unprotected=self.unprotected,
            runner=self.measurement.runner,
            argv=self.measurement.argv,
            exists=exists,
            extra=(*_environment(self.environment), *extra),
        )


def _environment(paths: Iterable[str]) -> Iterator[ProtectedPattern]:
    """What setup made is sealed and outside the diff: a file written there would be in no map."""
    for path in paths:
        bare = path.rstrip("/")
        for pattern in (bare, f"{bare}/**"):
            yield ProtectedPattern(pattern, "part of the sealed environment")


def _read_toml(data: bytes) -> dict[str, object]:
    try:
        return tomllib.loads(data.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise values.invalid(f"not readable as TOML: {quoted(str(error))}") from error


def parse_defaults(data: bytes) -> dict[str, object]:
    """The keys of a `--from` file, each checked, none required (spec 13).

    `hypothesis` stays text, `measurement` becomes an argv tuple, `budgets` a mapping of the
    values given; keys that only `init` can know (baseline, digests, ids) are refused.
    """
    table = _read_toml(data)
    given = (*_STRUCTURED, *(name for name, field in _FIELDS.items() if field.given))
    _check_keys("the file", table, given)
    out: dict[str, object] = {}
    for key, value in table.items():
        if key == "hypothesis":
            out[key] = value if isinstance(value, str) else values.text(key, value)
        elif key == "measurement":
            out[key] = _measurement(value).argv
        elif key == "budgets":
            _budgets(value)
            out[key] = dict(_table(key, value))
        else:
            out[key] = _FIELDS[key].check(key, value)
    return out


def _budget_schema() -> Schema:
    kinds = {
        name: {"type": "integer" if budget_rules.is_count(name) else "number"}
        for name in budget_rules.FIELD_NAMES
    }
    properties = {name: {**kind, "exclusiveMinimum": 0} for name, kind in kinds.items()}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def contract_schema() -> Schema:
    """JSON Schema of contract.toml's tables (`spike schema contract`)."""
    measurement = {
        "type": "object",
        "properties": {"argv": _SOME, "runner": {"enum": [str(runner) for runner in Runner]}},
        "required": ["argv", "runner"],
        "additionalProperties": False,
    }
    properties: Schema = {
        "hypothesis": _described(_STRING, "one sentence"),
        "measurement": measurement,
        "budgets": _budget_schema(),
        **{name: field.schema for name, field in _FIELDS.items()},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "contract of a spike",
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
