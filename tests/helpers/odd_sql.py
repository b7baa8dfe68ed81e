"""SQL expressions of every type that DuckDB has, their odd values among them."""

from __future__ import annotations

import random

__all__ = ["LEAVES", "expression"]

LEAVES = (
    *("true", "null", "7", "-9007199254740993", "9223372036854775807", "3::utinyint"),
    *("18446744073709551615::ubigint", "(-1)::tinyint", "1.5::float", "'nan'::double"),
    *("'-inf'::float", "-0.0::double", "1e308", "1.25::decimal(5,2)", "1.5::decimal(38,10)"),
    "(-170141183460469231731687303715884105727)::hugeint",
    "340282366920938463463374607431768211455::uhugeint",
    *("123456789012345678901234567890123456789012::bignum", "'101'::bit", "'\\xff\\x00'::blob"),
    *("'a'", "''", "'é😀'", "chr(0)", "chr(27)", "'\u202e<b>'", "repeat('ab', 3000)"),
    *("date '290000-01-01'", "date '290000-01-01 (BC)'", "'infinity'::date", "'-infinity'::date"),
    *("date '1970-01-01'", "timestamp '290000-01-01 00:00:00'", "'infinity'::timestamp"),
    *("timestamp_ns '1677-09-22 00:00:00'", "'294247-01-10'::timestamp_ms", "now()"),
    *("timestamptz '290000-01-01 00:00:00+00'", "'-infinity'::timestamptz", "current_date"),
    *("'2020-02-30 10:00'::varchar", "time '24:00:00'", "time '10:00:00.000001'"),
    *("timetz '10:00:00+05'", "time_ns '10:00:00'", "interval '3 months 2 days 00:00:01'"),
    *("interval '-100 years'", "uuid()", "'small'::enum('small', 'big')", "'[1, 2]'::json"),
    *("1::variant", "'x'::variant", "row(1, 'a')", "[]", "'POINT(1 2)'::geometry"),
)


def expression(choose: random.Random, depth: int = 3) -> str:
    """One of them, or a list, struct, map, array or union of some."""
    kind = choose.choice(["leaf", "leaf", "list", "struct", "map", "array", "union", "tuple"])
    if depth == 0 or kind == "leaf":
        return choose.choice(LEAVES)
    inside = expression(choose, depth - 1)
    return {
        "list": f"[{inside}, {inside}]",
        "struct": f"{{'a': {inside}, 'b c': {expression(choose, depth - 1)}}}",
        "map": f"map{{{choose.choice(LEAVES)}: {inside}}}",
        "array": f"array_value({inside}, {inside})",
        "union": f"union_value(k := {inside})",
        "tuple": f"row({inside}, {expression(choose, depth - 1)})",
    }[kind]
