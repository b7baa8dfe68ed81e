"""`Table`: a table of Arrow that prints as one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    Base = pa.Table
else:
    Base = object

_WIDTH = 80
_MOST = 20  # rows that are printed all; of more, the first and the last ten


def _same(name: str) -> Any:
    """A method of pyarrow's that Python looks for in the class alone."""

    def call(self: Table, *arguments: Any, **options: Any) -> Any:
        return self.__getattr__(name)(*arguments, **options)

    return call


class Table(Base):
    """A `pyarrow.Table` that prints as a short table: it has all of its attributes, is compared and
    indexed like it, and every library that takes Arrow reads it.

    pyarrow's own functions in C (`parquet.write_table`, `concat_tables`) take nothing but their own
    type: `table.to_arrow()` is that, and costs nothing.

    >>> import pyarrow as pa
    >>> table = Table(pa.table({"token": ["it", "animal"], "weight": [0.25, 0.5]}))
    >>> table.sort_by([("weight", "descending")])
    token   weight
    animal     0.5
    it        0.25
    2 rows
    >>> isinstance(table, pa.Table), pa.table(table) == table.to_arrow() == table
    (True, True)
    """

    _table: pa.Table

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def to_arrow(self) -> pa.Table:
        """The table as pyarrow has it."""
        return self._table

    @property
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """What `isinstance` asks for."""
        return type(self._table)

    def __getattr__(self, name: str) -> Any:
        if name == "_table":  # while it is being copied
            raise AttributeError(name)
        found = getattr(self._table, name)
        if not callable(found):
            return found

        def call(*arguments: Any, **options: Any) -> Any:
            given = {key: _plain(value) for key, value in options.items()}
            made = found(*map(_plain, arguments), **given)
            return Table(made) if type(made) is type(self._table) else made

        return call

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._table)})

    def __reduce__(self) -> Any:
        return Table, (self._table,)

    __len__, __getitem__, __eq__ = map(_same, ("__len__", "__getitem__", "__eq__"))
    __array__, __arrow_c_stream__ = map(_same, ("__array__", "__arrow_c_stream__"))
    __hash__ = None

    def __repr__(self) -> str:
        import pyarrow as pa

        from regard.view.labels import visible
        from regard.view.table import render_table

        rows, part = len(self), self._table
        if rows > _MOST:
            part = pa.concat_tables([part.slice(0, _MOST // 2), part.slice(rows - _MOST // 2)])
        try:
            part.to_pylist()
        except (ValueError, OverflowError, NotImplementedError):  # Python has no such day
            return "\n".join(map(visible, repr(self._table).splitlines()))
        lines = [line.plain.rstrip() for line in render_table(part, _WIDTH)]
        if rows > _MOST:
            lines[1 + _MOST // 2 : 1 + _MOST // 2] = ["…"]
            lines[-1] = f"{rows:,} rows"
        return "\n".join(lines)


def _plain(value: Any) -> Any:
    return value._table if type(value) is Table else value
