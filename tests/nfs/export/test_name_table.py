"""The table of names: order, ranges, and the kept part of too many."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rpcrdma.nfs.export.name_table import NameTable, Row

ROWS = st.lists(
    st.builds(Row, st.integers(0, 9) | st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.binary(max_size=5)),
    max_size=30,
)


def table_of(rows: list[Row]) -> NameTable:
    table = NameTable()
    for row in rows:
        table.add(*row)
    table.sort()
    return table


@given(rows=ROWS, key=st.integers(0, 10) | st.integers(0, 2**64))
def test_rows_from_a_key_on_come_in_order(rows: list[Row], key: int) -> None:
    found = list(table_of(rows).rows(key))
    assert [row.key for row in found] == sorted(row.key for row in rows if row.key >= key)
    assert sorted(found) == sorted(row for row in rows if row.key >= key)


@given(rows=ROWS, octets=st.integers(0, 800), key=st.integers(0, 4))
def test_the_least_are_kept_with_all_that_share_their_keys(rows: list[Row], octets: int, key: int) -> None:
    whole = list(table_of(rows).rows(key))
    kept = table_of(rows).least(octets, key)
    found = list(kept.rows())
    assert bool(found) == bool(whole)
    assert found == whole[: len(found)]
    assert kept.octets == sum(24 + len(row.name) for row in found)
    missing = whole[len(found) :]
    if found:
        assert kept.last_key() == found[-1].key
    if missing:
        assert missing[0].key > found[-1].key
        following = [row for row in missing if row.key == missing[0].key]
        assert kept.octets + sum(24 + len(row.name) for row in following) > octets
    assert kept.octets <= octets or len({row.key for row in found}) == 1
