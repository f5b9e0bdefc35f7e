"""A documentation test keeps its id when the lines above it grow."""

import pytest

from spike_mcp.host.evidence import adapter_for

SECTION = """
running 3 tests
test src/price.rs - price::shown (line {first}) ... ok
test src/price.rs - price::shown (line {second}) - compile ... ok
test src/lib.rs - (line {first}) ... ok

test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out
"""


@pytest.mark.parametrize(("first", "second"), [(3, 9), (40, 41)])
def test_the_line_is_no_part_of_the_id(first: int, second: int) -> None:
    reader = adapter_for("cargo").reader(dry=False)
    for line in SECTION.format(first=first, second=second).splitlines():
        reader.text(line.encode())
    assert reader.evidence().collected == (
        "src/price.rs - price::shown",
        "src/price.rs - price::shown - compile",
        "src/lib.rs - ",
    )
