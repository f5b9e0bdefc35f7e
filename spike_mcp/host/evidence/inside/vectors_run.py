"""Makes the calls of hidden vectors and sends what came out, as plain encoded values. Inside.

What is expected never comes here: values are compared outside, so code that answers only what it
is asked for can't know what to answer. Nothing is pickled.
"""
# mypy: ignore-errors
# (untyped: it must run on whatever Python the measured project has)

import datetime
import decimal
import fractions
import importlib
import json
import os
import pathlib
import sys

_DEEP = 40
_LONG = 100_000


def _helpers():
    """Load the neighbour without leaving a module, a path entry or bytecode behind."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "channel.py")
    names = {"__name__": "spike_channel", "__file__": path}
    with open(path, encoding="utf-8") as file:
        exec(compile(file.read(), path, "exec"), names)  # noqa: S102
    return names


def _job():
    fd = int(os.environ.pop("SPIKE_JOB"))
    with os.fdopen(fd, encoding="ascii") as file:
        return json.load(file)


class Encoder:
    """Value -> [tag, ...]. By exact type: a subclass that lies about itself is no plain value."""

    def __init__(self):
        self.left = _LONG

    def encode(self, value, depth=0):
        self.left -= 1
        if depth > _DEEP or self.left < 0:
            return ["?", "too deep or too long"]
        plain = _PLAIN.get(type(value))
        if plain is not None:
            return plain(value)
        more = _MANY.get(type(value))
        if more is not None:
            return [more, [self.encode(item, depth + 1) for item in value]]
        if type(value) is dict:
            rows = [
                [self.encode(key, depth + 1), self.encode(item, depth + 1)]
                for key, item in value.items()
            ]
            return ["d", rows]
        if isinstance(value, pathlib.PurePath):
            return ["p", os.fspath(value)]
        return self._object(value, depth)

    def _object(self, value, depth):
        kind = type(value)
        names = getattr(kind, "__dataclass_fields__", None) or getattr(kind, "_fields", None)
        if names is None:
            names = sorted(getattr(value, "__dict__", {})) or _slots(kind)
        rows = []
        for name in names:
            try:
                rows.append([str(name), self.encode(getattr(value, str(name)), depth + 1)])
            except AttributeError:
                continue
        return ["o", [kind.__qualname__, rows]]


def _slots(kind):
    slots = getattr(kind, "__slots__", ())
    return [slots] if isinstance(slots, str) else [name for name in slots if name[:2] != "__"]


_PLAIN = {
    type(None): lambda _: ["n"],
    bool: lambda value: ["b", value],
    int: lambda value: ["i", hex(value)],
    float: lambda value: ["f", value.hex()],
    complex: lambda value: ["c", [value.real.hex(), value.imag.hex()]],
    str: lambda value: ["s", value],
    bytes: lambda value: ["y", value.hex()],
    bytearray: lambda value: ["ya", bytes(value).hex()],
    decimal.Decimal: lambda value: ["D", str(value)],
    fractions.Fraction: lambda value: ["F", str(value)],
    datetime.datetime: lambda value: ["dt", value.isoformat()],
    datetime.date: lambda value: ["da", value.isoformat()],
    datetime.time: lambda value: ["ti", value.isoformat()],
    datetime.timedelta: lambda value: ["td", [value.days, value.seconds, value.microseconds]],
}
_MANY = {list: "l", tuple: "t", set: "e", frozenset: "fe"}


class Caller:
    """Decodes arguments and makes calls; values of earlier `let`s are known by name."""

    def __init__(self):
        self.names = {}

    def decode(self, item):
        tag = item[0]
        if tag in _BACK:
            return _BACK[tag](item[1] if len(item) > 1 else None)
        if tag in _MAKE:
            return _MAKE[tag](self.decode(part) for part in item[1])
        if tag == "d":
            return {self.decode(key): self.decode(value) for key, value in item[1]}
        if tag == "r":
            return self.names[item[1]]
        return self.call(item[1])

    def call(self, row):
        target = self.target(row["call"])
        args = [self.decode(item) for item in row["args"]]
        return target(*args, **{name: self.decode(item) for name, item in row["kwargs"]})

    def target(self, text):
        head, _, tail = text.partition(":")
        if head.startswith("$"):
            head, _, tail = head[1:].partition(".")
            found = self.names[head]
        else:
            found = importlib.import_module(head)
        for name in tail.split(".") if tail else ():
            found = getattr(found, name)
        return found


_BACK = {
    "n": lambda _: None,
    "b": bool,
    "i": lambda raw: int(raw, 16),
    "f": float.fromhex,
    "c": lambda raw: complex(float.fromhex(raw[0]), float.fromhex(raw[1])),
    "s": str,
    "y": bytes.fromhex,
    "ya": bytearray.fromhex,
    "D": decimal.Decimal,
    "F": fractions.Fraction,
    "dt": datetime.datetime.fromisoformat,
    "da": datetime.date.fromisoformat,
    "ti": datetime.time.fromisoformat,
    "td": lambda raw: datetime.timedelta(*raw),
    "p": pathlib.Path,
}
_MAKE = {"l": list, "t": tuple, "e": set, "fe": frozenset}


def _answer(row):
    """{"value": ...} or {"raised": ...} of one vector."""
    caller = Caller()
    try:
        for name, let in row["lets"]:
            caller.names[name] = caller.call(let)
        return {"value": Encoder().encode(caller.call(row))}
    except BaseException as error:  # noqa: BLE001  (SystemExit is an answer too)
        kinds = [f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__]
        return {"raised": kinds, "text": str(error)[:1000]}


def main():
    helpers = _helpers()
    channel = helpers["Channel"]()
    job = _job()
    helpers["first_path"](os.getcwd())
    sys.path[:0] = [os.path.join(os.getcwd(), path) for path in job["path"]]
    loaded = helpers["Loaded"]()
    channel.send("start")
    for row in job["vectors"]:
        channel.send("result", index=row["index"], **_answer(row))
    loaded.report(channel)
    channel.send("finish", status=0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
