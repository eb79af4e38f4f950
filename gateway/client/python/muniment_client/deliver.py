"""Deliveries, one by one and in batches."""
from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from typing import Any, TypedDict

from .call import Caller, packed
from .document import MeteringDecision, Observation, Receipt, Row, RowResult, Signature
from .error import MunimentError

# Bounds of a batch, which the service sets.
MAX_ROWS = 1000
MAX_BODY = 8 << 20  # before it is compressed
MAX_ROW = 64 << 10  # of one row's JSON

STATUSES = ("accepted", "duplicate", "rejected", "unmapped", "held")


class DeliveredPlay(TypedDict):
    """The answer to a delivery: its receipt is durable."""

    receipt: Receipt
    substrate: str
    signature: Signature
    metering: MeteringDecision
    # The one that was sent.
    idempotencyKey: str
    # Whether this is the answer to an earlier call with the key.
    replayed: bool


def deliver(caller: Caller, delivery: Observation, idempotency_key: str | None) -> DeliveredPlay:
    check_dwell(delivery.get("dwellMs"))
    if idempotency_key is not None:
        caller = caller.having(idempotency_key=idempotency_key)
    got = caller.answer("POST", "/v1/delivery", delivery)
    return {**got.data, "idempotencyKey": got.idempotency_key, "replayed": got.headers.get("Idempotent-Replayed") == "true"}


def check_dwell(dwell: Any) -> None:
    if not isinstance(dwell, (int, float)) or not math.isfinite(dwell):
        raise ValueError("dwellMs is not a finite number")


def row_text(row: Row) -> bytes:
    """A row as one line."""
    check_dwell(row.get("dwellMs"))
    text = json.dumps(row, ensure_ascii=False, allow_nan=False).encode()
    if len(text) > MAX_ROW:
        raise ValueError(f"the row is longer than {MAX_ROW} bytes")
    return text


class _Slot:
    """A row of a batch: its line, and what became of it."""

    def __init__(self, row: Row):
        self.line, self.result = b"", None  # type: bytes, RowResult | None
        try:
            self.line = row_text(row)
        except (TypeError, ValueError) as err:  # UnicodeEncodeError among them
            self.result = {"index": 0, "status": "rejected", "error": {"error": "VALIDATION_FAILED", "message": str(err)}}


def deliver_batch(caller: Caller, rows: Iterable[Row]) -> Iterator[RowResult]:
    index = 0
    for batch in _batches(rows):
        _settle(caller, batch)
        for slot in batch:
            assert slot.result is not None
            yield {**slot.result, "index": index}
            index += 1


def _batches(rows: Iterable[Row]) -> Iterator[list[_Slot]]:
    batch: list[_Slot] = []
    size = 0
    for row in rows:
        slot = _Slot(row)
        if len(batch) == MAX_ROWS or size + len(slot.line) + 1 > MAX_BODY:
            yield batch
            batch, size = [], 0
        batch.append(slot)
        size += len(slot.line) + 1
    if batch:
        yield batch


def _settle(caller: Caller, batch: list[_Slot]) -> None:
    """Gives each row of a batch its result. Rows that the service can't judge now are sent again."""
    left = [slot for slot in batch if slot.result is None]
    for n in range(caller.settings.retry.attempts):
        if not left:
            return
        if n > 0:
            caller.pause(n - 1)
        for slot, result in zip(left, ingest(caller, [slot.line for slot in left])):
            slot.result = result
        left = [slot for slot in left if slot.result is not None and passes(slot.result)]


def passes(result: RowResult) -> bool:
    """Whether a row was rejected for a reason that passes."""
    error = result.get("error")
    return bool(error) and error["error"] == "INTERNAL_ERROR"


def ingest(caller: Caller, lines: list[bytes]) -> list[RowResult]:
    """Sends one batch, and returns a result for each line."""
    path = "/v1/delivery/ingest-batch"
    # A batch with other rows needs another Idempotency-Key; the rows are known by their identity.
    own = caller.having(idempotency_key=None)
    data = own.data("POST", path, packed(b"\n".join(lines) + b"\n"), None, Content_Type="application/x-ndjson", Content_Encoding="gzip")
    results = data.get("results") if isinstance(data, dict) else None
    if not isinstance(results, list) or [(r.get("index"), r.get("status") in STATUSES) for r in results] != [(n, True) for n in range(len(lines))]:
        raise MunimentError(f"POST {path}", "foreign", f"{len(lines)} rows were answered with results of others", status=200)
    return results
