"""Plays that wait on a device."""
from __future__ import annotations

import dataclasses
import datetime
import json
import os
import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .bufferfile import Disk, Journal, Place, lock_folder
from .call import is_visible
from .client import Client
from .deliver import MAX_BODY, MAX_ROWS, ingest, passes, row_text
from .document import Observation, Row, RowResult
from .error import MunimentError, error_of_row


@dataclasses.dataclass(frozen=True)
class BufferStats:
    """What a buffer holds."""

    #: How many plays wait.
    waiting: int
    #: What they take of max_bytes.
    bytes: int
    #: How many lines of the file were found damaged when it was opened, and moved to the file damaged: plays that
    #: the disk has lost.
    damaged: int


class DeliveryBuffer:
    """Keeps plays on disk until the service has answered them, for devices that are offline at times. Each play counts
    exactly once at the service, whenever the process is killed or the power fails: it is on disk before add returns,
    it is removed after it was answered, and what is sent twice the service knows by its row id.

    When it is full, add raises a BufferFullError. When the disk fails in a way that leaves open what is on it, add and
    run raise a BufferBrokenError until the buffer is opened again. A buffer is safe for concurrent use by threads; one
    process at a time has a folder open, of this client or of the Go client; the TypeScript client does not see that
    lock. The file has the form that these clients give it.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        client: Client,
        *,
        max_bytes: int = 32 << 20,
        refused: Callable[[Row, MunimentError], object] | None = None,
        delivered: Callable[[Row, RowResult], object] | None = None,
        trouble: Callable[[MunimentError], object] | None = None,
        now: Callable[[], float] = time.time,
        pause: Callable[[float], object] | None = None,
        disk: Disk | None = None,
    ):
        """Opens the buffer of a folder, which it makes if there is none. Close it.

        client uploads the plays. Of its RetryPolicy only the delays apply: a buffer goes on for good.
        max_bytes bounds what the plays take that wait, some 300 bytes each. With what was answered and is not cleaned
        up, and while that is done, the folder takes up to three times as much.
        refused is called for each play that the service refuses for good, with the reason: the constraint gate's
        violations, a right that is revoked, a play of more than 30 days ago. The play is removed once it has returned;
        one may be reported again after a crash. It must not call the buffer, but for stop. Without it they are dropped.
        delivered is called for each play that was accepted or is a duplicate, like refused.
        trouble is called with what keeps the buffer from uploading, for logs, before each pause.
        now is the clock of plays without a time, in seconds since 1970. now, pause and disk are for tests.
        """
        if not max_bytes > 0:
            raise ValueError("max_bytes has to be above 0")
        caller = client._c
        self._retry = caller.settings.retry
        self._caller = caller.having(retry=dataclasses.replace(self._retry, attempts=1), idempotency_key=None)
        self._max_bytes, self._refused, self._delivered, self._trouble, self._now = max_bytes, refused, delivered, trouble, now
        self._stopped, self._closed, self._running = False, False, threading.Lock()
        self._changed = threading.Condition()  # its lock is that of the journal; plays were added, or run has to end
        self._pause = pause or self._wait
        path = Path(folder)
        disk = disk or Disk()
        if not path.is_dir():
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            disk.sync_folder(path.absolute().parent)
        self._lock = lock_folder(path)
        try:
            self._journal = Journal(path, disk)
        except BaseException:
            self._lock.close()
            raise

    def close(self) -> None:
        """Releases the folder. Plays that wait stay in it. End run first."""
        with self._changed:
            if not self._closed:
                self._closed = True
                self._changed.notify_all()
                self._journal.close()
                self._lock.close()

    def __enter__(self) -> DeliveryBuffer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def stats(self) -> BufferStats:
        with self._changed:
            return BufferStats(len(self._journal.waiting), self._journal.live, self._journal.damaged)

    def add(self, delivery: Observation, played_at: datetime.datetime | str | None = None, idempotency_key: str | None = None) -> None:
        """Returns once the play is on disk; then it will be uploaded, as of played_at, or of now without one. An error
        promises nothing: after one of the disk the play may be there all the same. A caller that adds it again gives
        it an idempotency_key, so that it counts once: 1 to 255 visible ASCII characters.

        It takes no account of whether the service would accept the play; but rightId and spatialAnchorId have to be
        given, and a datetime has to have its zone.
        """
        text = row_text(self._row_of(delivery, played_at, idempotency_key))
        with self._changed:
            self._check_open()
            self._journal.add(text, self._max_bytes)
            self._changed.notify_all()

    def _row_of(self, delivery: Observation, played_at: datetime.datetime | str | None, idempotency_key: str | None) -> Row:
        if not delivery.get("rightId") or not delivery.get("spatialAnchorId"):
            raise ValueError("rightId or spatialAnchorId is missing")
        dwell = delivery.get("dwellMs")
        if isinstance(dwell, (int, float)) and dwell < 0:
            raise ValueError("dwellMs is negative")
        key = secrets.token_hex(16) if idempotency_key is None else idempotency_key
        if not is_visible(key, 255):
            raise ValueError("idempotency_key must be 1 to 255 visible ASCII characters")
        if played_at is None:
            played_at = datetime.datetime.fromtimestamp(self._now(), datetime.timezone.utc)
        if isinstance(played_at, datetime.datetime):
            if played_at.utcoffset() is None:
                raise ValueError("played_at has no zone")
            played_at = played_at.isoformat()
        row: dict[str, Any] = {"rowId": key, "playedAt": played_at}
        row |= {name: value for name, value in delivery.items() if value is not None and value != ""}
        return row  # type: ignore[return-value]

    def stop(self) -> None:
        """Ends run: at once if it waits, else once the request that it is making was answered. Any thread may call it,
        and refused and delivered. It holds until the buffer is opened again."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def run(self) -> None:
        """Uploads plays, the oldest first, until stop is called. While the service can't be reached, or can't take
        them, it goes on trying, with pauses as the client's RetryPolicy has them.

        It raises an error if going on is of no use: the service does not accept the key (auth), is not at the address
        (not_found), or the disk fails. No play is lost by that; call it again when it is mended. One run at a time.
        """
        if not self._running.acquire(blocking=False):
            raise RuntimeError("the buffer is being uploaded already")
        try:
            self._upload()
        finally:
            self._running.release()

    def _upload(self) -> None:
        most, failed = MAX_ROWS, 0  # of the next batch: fewer while one is refused as a whole
        while batch := self._take(most):
            try:
                trouble = self._send(batch)
                if trouble is None:
                    most, failed = min(2 * most, MAX_ROWS), 0
                    continue
            except MunimentError as err:
                trouble = err
                if _of_body(err):
                    if len(batch) > 1:
                        most = len(batch) // 2  # to find the row that is to blame
                    else:
                        place, row = batch[0]
                        self._refuse(row, err)
                        self._remove({place.seq})
                    continue
                if not err.passes and err.kind != "foreign":
                    raise
            if self._trouble:
                self._trouble(trouble)
            self._pause(self._retry.delay(failed, min(trouble.retry_after, 3600)))
            failed += 1

    def _wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or time.monotonic() >= end, seconds)

    def _take(self, most: int) -> list[tuple[Place, bytes]]:
        """Waits for plays, and reads the oldest, as many as a batch takes, and most at most. Empty once run has to end."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or self._closed or self._journal.waiting)
            self._check_open()
            batch: list[tuple[Place, bytes]] = []
            size = 0
            for place in self._journal.waiting.values():
                size += place.length
                if self._stopped or len(batch) == most or size > MAX_BODY:
                    break
                batch.append((place, self._journal.row(place)))
            return batch

    def _send(self, batch: list[tuple[Place, bytes]]) -> MunimentError | None:
        """Sends plays, and removes those that were answered. Returns why some were not, which the service can't decide now."""
        answered: set[int] = set()
        busy = None
        for (place, row), result in zip(batch, ingest(self._caller, [row for _, row in batch])):
            why = error_of_row(result)
            if passes(result) or why is not None and why.code == "RATE_LIMITED":
                busy = why
                continue
            if result["status"] == "rejected":
                self._refuse(row, why or MunimentError("row", "invalid", "no reason was given"))
            elif self._delivered:
                self._delivered(json.loads(row), result)
            answered.add(place.seq)
        self._remove(answered)
        return busy

    def _refuse(self, row: bytes, why: MunimentError) -> None:
        if self._refused:
            self._refused(json.loads(row), why)

    def _remove(self, answered: set[int]) -> None:
        with self._changed:
            self._check_open()
            self._journal.remove(answered)

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError("the buffer is closed")


def _of_body(err: MunimentError) -> bool:
    """Whether the service refuses what is in the body: it names a field, or the body is too large. Other refusals, as by
    a port that speaks TLS, are the same for any body."""
    return err.code != "" and err.kind == "invalid" and (err.field != "" or err.status == 413)
