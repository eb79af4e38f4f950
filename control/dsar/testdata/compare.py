"""Reads the four bundles of one export by readers that are not ours, and compares them row by row.

compare.py NDJSON.zip JSON.zip CSV.zip PARQUET.zip prints the sections and how many rows each has, and which columns
are moments and decimals.
"""

import csv
import datetime
import decimal
import io
import json
import re
import sys
import tempfile
import zipfile

import duckdb

MOMENT = "TIMESTAMP WITH TIME ZONE"


def sections(name):
    """The sections of a bundle by their names, in order."""
    with zipfile.ZipFile(name) as bundle:
        return {n.rsplit(".", 1)[0]: bundle.read(n) for n in bundle.namelist() if n not in ("manifest.json", "README.txt")}


def parquet(text):
    """The types of the columns by their names, and the rows."""
    with tempfile.NamedTemporaryFile(suffix=".parquet") as file:
        file.write(text)
        file.flush()
        found = duckdb.read_parquet(file.name)
        kinds = dict(zip(found.columns, map(str, found.types)))
        # Python has no moments without a package more.
        columns = (f'epoch_ms("{name}")' if kind == MOMENT else f'"{name}"' for name, kind in kinds.items())
        return kinds, [dict(zip(kinds, row)) for row in found.project(", ".join(columns)).fetchall()]


def same(one, other):
    """Whether two values are equal and of one type: to Python, 1, 1.0 and True are equal."""
    if isinstance(one, (dict, list)):
        return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    return type(one) is type(other) and one == other


def of_text(kind, text):
    """A moment or a decimal, as formats that are texts have it."""
    if kind == MOMENT:
        assert text.endswith("Z"), f"{text!r} is not in UTC"
        return datetime.datetime.fromisoformat(text)
    return decimal.Decimal(text)


def typed(kind):
    return kind == MOMENT or kind.startswith("DECIMAL(")


def of_json(kind, value):
    """What a column of a type has for a member of a JSON row."""
    if value is not None and typed(kind):
        return of_text(kind, value)
    return float(value) if kind == "DOUBLE" and value is not None else value


def of_parquet(kind, cell):
    if kind == MOMENT and cell is not None:
        return datetime.datetime.fromtimestamp(0, datetime.timezone.utc) + datetime.timedelta(milliseconds=cell)
    return json.loads(cell) if kind == "JSON" and cell is not None else cell


def of_csv(kind, cell):
    """An empty cell is an empty text or none; an apostrophe keeps a text, or what follows a separator in it, from being a
    formula, and what a terminal would obey is an escape."""
    if kind == "VARCHAR":
        assert not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n")), f"{cell!r} is a formula"
        cell = re.sub(r"(^|[;\t\r\n])'", r"\1", cell)
        return re.sub(r"\\u([0-9a-fA-F]{4})", lambda escape: chr(int(escape[1], 16)), cell)
    if cell == "":
        return None
    if typed(kind):
        return of_text(kind, cell)
    return {"BIGINT": int, "DOUBLE": float, "BOOLEAN": {"true": True, "false": False}.get, "JSON": json.loads}[kind](cell)


def compare(section, lines, listed, sheet, stored):
    rows = [json.loads(line) for line in lines.decode().split("\n")[:-1]]
    assert same(rows, json.loads(listed)), "JSON has other rows"
    kinds, columnar = parquet(stored)
    header, *cells = csv.reader(io.StringIO(sheet.decode(), newline=""), strict=True)
    assert sorted(header) == sorted(kinds), f"CSV has the columns {header}, PARQUET {list(kinds)}"
    assert len(rows) == len(cells) == len(columnar), f"{len(rows)} rows, {len(cells)} in CSV, {len(columnar)} in PARQUET"
    for n, (row, line, columns) in enumerate(zip(rows, cells, columnar)):
        assert len(line) == len(header), f"row {n} of CSV has {len(line)} cells"
        assert row.keys() <= kinds.keys(), f"row {n} has more than {list(kinds)}: {list(row)}"
        for name, cell in zip(header, line):
            kind = kinds[name]
            want, read, found = of_json(kind, row.get(name)), of_csv(kind, cell), of_parquet(kind, columns[name])
            assert same(want, found), f"row {n}, {name}: {want!r}, in PARQUET {found!r}"
            assert same(want, read) or (want, read) == (None, ""), f"row {n}, {name}: {want!r}, in CSV {read!r}"
    print(section, len(rows))
    print(section, *(f"{name}:{kind.replace(MOMENT, 'moment').lower()}" for name, kind in sorted(kinds.items()) if typed(kind)))


ndjson, *others = map(sections, sys.argv[1:])
for other in others:
    assert list(ndjson) == list(other), f"{list(ndjson)} are not {list(other)}"
for section in ndjson:
    try:
        compare(section, ndjson[section], *(other[section] for other in others))
    except AssertionError as e:
        sys.exit(f"{section}: {e}")
