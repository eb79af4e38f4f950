"""Runs statements in DuckDB, in the current folder.

Reads {"setup", "statements"} and writes a list of their results, each as lines: the names of the columns, then the rows.
"""

import json
import sys

import duckdb

task = json.load(sys.stdin)
db = duckdb.connect()
db.execute(task["setup"])
results = []
for statement in task["statements"]:
    result = db.execute(statement)
    rows = [[column[0] for column in result.description], *result.fetchall()]
    results.append("".join(" ".join(map(str, row)) + "\n" for row in rows))
json.dump(results, sys.stdout)
