"""Attacks on the answers to SQL: a value of any type is shown, or refused in words."""

from __future__ import annotations

import json

import pyarrow as pa
from helpers.odd_sql import LEAVES, expression
from helpers.soak import attacks

from regard.cli.common import BadInput
from regard.cli.see import _ask as ask
from regard.cli.see_json import document
from regard.run import Run
from regard.view.table import render_table


def show(table: pa.Table) -> None:
    """All that `regard see --sql` does with an answer."""
    assert render_table(table, 60)
    found = json.loads(document(Run(), "none", 0.0, table=table, ablated=[]))["sql"]
    assert len(found) == table.num_rows
    assert len(found[0]) == table.num_columns


def test_every_type_of_sql_is_shown() -> None:
    show(ask(Run(), f"select {', '.join(f'{leaf} as x, [{leaf}] as l' for leaf in LEAVES)}"))


def test_values_in_values_are_shown() -> None:
    for choose in attacks(30):
        columns = (f"{expression(choose)} as {choose.choice('ab')}" for _ in range(3))
        try:
            table = ask(Run(), f"select {', '.join(columns)}")
        except BadInput:  # in words: it would be another error otherwise
            continue
        show(table)
