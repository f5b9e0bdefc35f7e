"""Hidden vectors: reading the file, and comparing plain values strictly (spec 4)."""

import pytest

from spike_mcp.core.codes import Problem, Usage
from spike_mcp.core.vectors import encode, parse, same, why_not

ONE = '[[vector]]\ncall = "a:f"\n'


def test_a_file_becomes_calls_without_their_answers() -> None:
    found = parse(
        'path = ["src"]\n[[vector]]\ncall = "a.b:C.m"\nargs = [1, { decimal = "2" }]\n'
        'kwargs = { k = { tuple = [true] } }\nexpect = 3\nlet = [{ name = "s", call = "a:S" }]\n'
    )
    (one,) = found.vectors
    assert found.path == ("src",)
    assert one.job == {
        "call": "a.b:C.m",
        "args": [["i", "0x1"], ["D", "2"]],
        "kwargs": [["k", ["t", [["b", True]]]]],
        "lets": [["s", {"call": "a:S", "args": [], "kwargs": []}]],
        "index": 0,
    }
    assert one.expect == ["i", "0x3"]
    assert "0x3" not in str(one.job)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x = [",
        "vector = []",
        "other = 1\n" + ONE + "expect = 1",
        ONE,
        ONE + 'expect = 1\nraises = "E"',
        ONE + "expect = 1\nunknown = 2",
        '[[vector]]\ncall = "f"\nexpect = 1',
        '[[vector]]\ncall = "a:f()"\nexpect = 1',
        "[[vector]]\ncall = \"__import__('os')\"\nexpect = 1",
        ONE + "args = 1\nexpect = 1",
        ONE + 'args = [{ decimal = [] , x = 1 }]\nraises = ""',
        ONE + 'expect = { bytes = "zz" }',
        ONE + "expect = { tuple = 1 }",
        'path = ["../x"]\n' + ONE + "expect = 1",
        'path = ["/x"]\n' + ONE + "expect = 1",
        ONE + 'expect = 1\nlet = [{ call = "a:S" }]',
    ],
)
def test_a_bad_file_is_refused_by_name(text: str) -> None:
    with pytest.raises(Problem) as caught:
        parse(text)
    assert caught.value.code is Usage.INVALID_CONTRACT


def test_a_plain_table_is_a_dict_and_a_known_key_is_a_type() -> None:
    assert encode({"a": 1, "b": 2}) == [
        "d",
        [[["s", "a"], ["i", "0x1"]], [["s", "b"], ["i", "0x2"]]],
    ]
    assert encode({"dict": {"decimal": 1}}) == ["d", [[["s", "decimal"], ["i", "0x1"]]]]
    assert encode({"dict": [[1, 2]]}) == ["d", [[["i", "0x1"], ["i", "0x2"]]]]
    assert encode({"none": True}) == ["n"]


@pytest.mark.parametrize(
    ("want", "got", "agree"),
    [
        (1, ["i", "0x1"], True),
        (1, ["b", True], False),
        (1, ["f", (1.0).hex()], False),
        (True, ["b", True], True),
        (True, ["i", "0x1"], False),
        ("x", ["s", "x"], True),
        ("x", ["o", ["Liar", []]], False),
        ({"decimal": "1.00"}, ["D", "1.00"], True),
        ({"decimal": "1.00"}, ["D", "1.0"], True),
        ({"decimal": "1.00"}, ["D", "1.01"], False),
        ({"decimal": "1.00"}, ["f", (1.0).hex()], False),
        ({"decimal": "1"}, ["D", "sNaN"], False),
        ({"decimal": "1"}, ["D", "nonsense"], False),
        ({"decimal": "NaN"}, ["D", "NaN"], True),
        (0.0, ["f", (-0.0).hex()], True),
        ([1, 2], ["l", [["i", "0x1"], ["i", "0x2"]]], True),
        ([1, 2], ["t", [["i", "0x1"], ["i", "0x2"]]], False),
        ([1], ["l", [["i", "0x1"], ["i", "0x2"]]], False),
        ({"set": [1, 2]}, ["e", [["i", "0x2"], ["i", "0x1"]]], True),
        ({"set": [1, 2]}, ["e", [["i", "0x1"], ["i", "0x1"]]], False),
        ({"a": 1, "b": 2}, ["d", [[["s", "b"], ["i", "0x2"]], [["s", "a"], ["i", "0x1"]]]], True),
        ({"a": 1}, ["d", [[["s", "a"], ["i", "0x2"]]]], False),
        ({"a": 1}, ["d", [[["s", "a"]]]], False),
        (
            {"object": "P", "fields": {"x": 1}},
            ["o", ["P", [["x", ["i", "0x1"]]]]],
            True,
        ),
        (
            {"object": "P", "fields": {"x": 1}},
            ["o", ["P", [["x", ["i", "0x1"]], ["y", ["n"]]]]],
            False,
        ),
        ({"none": True}, ["n"], True),
        (0.5, ["f", "nonsense"], False),
        ({"float": "nan"}, ["f", "nan"], True),
        (1, None, False),
        (1, [], False),
        (1, ["i"], False),
        (1, ["i", 1], False),
        (1, "i", False),
        (1, ["?", "0x1"], False),
    ],
)
def test_values_agree_only_with_their_types(want: object, got: object, agree: bool) -> None:
    assert same(encode(want), got) is agree


def test_floats_may_differ_by_the_tolerance() -> None:
    assert same(encode([0.1]), ["l", [["f", (0.1001).hex()]]], 0.01)
    assert not same(encode([0.1]), ["l", [["f", (0.1001).hex()]]])
    assert not same(encode(0.1), ["f", "inf"], 0.01)


@pytest.mark.parametrize(
    ("answer", "want"),
    [
        (None, "no answer"),
        ({"value": ["n"]}, "did not raise"),
        ({"raised": ["m.E", "builtins.ValueError"], "text": "no way out"}, ""),
        ({"raised": ["builtins.KeyError"], "text": "no way"}, "raised builtins.KeyError"),
        ({"raised": ["builtins.ValueError"], "text": "x"}, "raised with another message"),
        ({"raised": "ValueError"}, "did not raise"),
    ],
)
def test_an_expected_exception(answer: dict[str, object] | None, want: str) -> None:
    (one,) = parse(ONE + 'raises = "ValueError"\nmessage = "no way"').vectors
    assert why_not(one, answer) == want


def test_a_failure_tells_no_expected_value() -> None:
    (one,) = parse(ONE + "expect = 12345").vectors
    assert why_not(one, {"value": ["i", "0x1"]}) == "another value"
    assert why_not(one, {"raised": ["builtins.ValueError"]}) == "raised builtins.ValueError"
