"""The file of a buffer.

The folder has the file buffer, which has the form that the Go client gives it (bufferfile.go): lines that end with a
newline. The first is

    muniment-buffer.v1

and each other one has one of two forms, where CRC is the CRC-32C of what stands behind the space after it, in eight
lower-case hexadecimal digits:

    CRC + SEQ ROW            a play was added: ROW is that of a batch, as JSON
    CRC - SEQ SEQ …          these were answered, and are removed

SEQ counts the plays of the file, upwards, in decimal. A play is acknowledged once its line is on disk; that plays were
answered need not be: one whose second line is lost is sent again, and is a duplicate then.

What is behind the last sound line is the torn end of a write that was not acknowledged, and is cut off. A line before
it that is not sound is moved to the file damaged, for people. The file is replaced by a shorter one, by rename, once
most of it is answered. The file lock is locked by the process that has the buffer open, as the Go client does.
"""
from __future__ import annotations

import contextlib
import dataclasses
import os
import re
from pathlib import Path
from typing import BinaryIO

START = b"muniment-buffer.v1\n"
COMPACT_AT = 256 << 10  # how much has to be answered at least before the file is replaced


class BufferFullError(Exception):
    """Refuses a play: too many wait. It has been kept nowhere."""


class BufferInUseError(Exception):
    """Refuses to open a folder that another process has open, or this one."""


class BufferBrokenError(Exception):
    """The disk has failed in a way that leaves open what is on it: the buffer has to be opened again."""


def _table() -> tuple[int, ...]:
    table = []
    for n in range(256):
        for _ in range(8):
            n = (n >> 1) ^ 0x82F63B78 if n & 1 else n >> 1
        table.append(n)
    return tuple(table)


_TABLE = _table()


def crc32c(text: bytes) -> bytes:
    crc = 0xFFFFFFFF
    for byte in text:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return b"%08x" % (crc ^ 0xFFFFFFFF)


def line_of(text: bytes) -> bytes:
    return crc32c(text) + b" " + text + b"\n"


@dataclasses.dataclass(frozen=True)
class Place:
    """Where the line of a play that waits stands."""

    seq: int
    at: int
    length: int


_ADDED = re.compile(rb"\+ ([0-9]+) (.*)", re.DOTALL)
_ANSWERED = re.compile(rb"- ([0-9]+(?: [0-9]+)*)")


def read_line(line: bytes) -> tuple[int, bytes] | list[int] | None:
    """The seq and the row of a play that was added, or the seqs that were answered; None of a line that is not sound."""
    text = line[9:-1]
    if line[8:9] != b" " or line[-1:] != b"\n" or line[:8] != crc32c(text):
        return None
    if added := _ADDED.fullmatch(text):
        return int(added[1]), added[2]
    if answered := _ANSWERED.fullmatch(text):
        return [int(seq) for seq in answered[1].split()]
    return None


class Disk:
    """What a buffer does with files. Tests replace it by one that fails."""

    def open(self, name: Path) -> BinaryIO:
        """Opens a file for reading and writing, and makes it if there is none."""
        return os.fdopen(os.open(name, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600), "r+b", buffering=0)

    def read(self, file: BinaryIO, at: int, size: int) -> bytes:
        file.seek(at)
        parts = []
        while size > 0 and (part := file.read(min(size, 1 << 20))):
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def write(self, file: BinaryIO, text: bytes, at: int) -> None:
        file.seek(at)
        while text:
            text = text[file.write(text) or 0 :]

    def truncate(self, file: BinaryIO, size: int) -> None:
        file.truncate(size)

    def sync(self, file: BinaryIO) -> None:
        """Makes all that was written durable. After an error it is not known what is."""
        os.fsync(file.fileno())

    def rename(self, old: Path, new: Path) -> None:
        os.replace(old, new)

    def sync_folder(self, folder: Path) -> None:
        """Makes durable which files a folder has."""
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def lock_folder(folder: Path) -> BinaryIO:
    """Locks a folder for this process. Closing the file, or the end of the process, unlocks it."""
    try:
        import fcntl
    except ModuleNotFoundError as err:  # the rest of the client works there
        raise OSError("the buffer needs a system with flock, which Windows does not have") from err

    file = open(folder / "lock", "ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise BufferInUseError(f"the buffer {folder} is open already") from None
    except BaseException:
        file.close()
        raise
    return file


class Journal:
    """The file of an open buffer. It is used by one thread at a time."""

    def __init__(self, folder: Path, disk: Disk):
        self._folder, self._disk = folder, disk
        self._broken: BaseException | None = None  # why nothing can be written any more
        self.waiting: dict[int, Place] = {}  # by seq, the oldest first
        self.live = 0  # bytes of the lines of plays that wait
        self.damaged = 0  # lines that were found damaged
        self.spare = COMPACT_AT  # how much of the file may be answered, or half of it, before it is replaced
        self._last = 0  # the highest seq that the file has
        self._file = disk.open(folder / "buffer")
        try:
            self._load()
        except BaseException:
            self._file.close()
            raise

    def close(self) -> None:
        self._file.close()

    def _load(self) -> None:
        """Reads what the folder holds, and makes it sound."""
        disk = self._disk
        whole = disk.read(self._file, 0, 1 << 62)
        if whole[: len(START)] != START[: len(whole)]:
            raise ValueError(f"{self._folder / 'buffer'} is not the file of a buffer")
        self._size = at = len(START)  # of the file, as far as it is sound
        damaged: list[bytes] = []
        unsound: list[bytes] = []  # lines behind the last sound one
        while end := whole.find(b"\n", at) + 1:
            said = read_line(line := whole[at:end])
            if said is None or isinstance(said, tuple) and said[0] <= self._last:
                unsound.append(line)
            else:
                if isinstance(said, tuple):
                    self._last = said[0]
                    self.waiting[self._last] = Place(self._last, at, len(line))
                else:
                    for seq in said:
                        self.waiting.pop(seq, None)
                damaged += unsound
                unsound, self._size = [], end
            at = end
        self.live = sum(place.length for place in self.waiting.values())
        if len(whole) < len(START):
            disk.write(self._file, START, 0)
        disk.truncate(self._file, self._size)
        disk.sync(self._file)
        disk.sync_folder(self._folder)
        if damaged:
            self.damaged = len(damaged)
            kept = disk.open(self._folder / "damaged")
            try:
                disk.write(kept, b"".join(damaged), len(disk.read(kept, 0, 1 << 62)))
                disk.sync(kept)
            finally:
                kept.close()
            self._replace()

    def add(self, row: bytes, full: int) -> None:
        """Makes a play durable. full is the most that lines of waiting plays may take."""
        self._check()
        seq = self._last + 1
        line = line_of(b"+ %d %b" % (seq, row))
        if self.live + len(line) > full:
            raise BufferFullError(f"the buffer is full: {len(self.waiting)} plays wait, of {self.live} bytes")
        self._disk.write(self._file, line, self._size)  # after an error the next line is written over it
        try:
            self._disk.sync(self._file)
        except OSError as err:
            raise self._breaks(err) from err
        self._last = seq
        self.waiting[seq] = Place(seq, self._size, len(line))
        self._size += len(line)
        self.live += len(line)

    def _check(self) -> None:
        if self._broken is not None:
            raise BufferBrokenError(_BROKEN) from self._broken

    def _breaks(self, err: BaseException) -> BufferBrokenError:
        """Ends all writing."""
        self._broken = err
        return BufferBrokenError(f"{_BROKEN}: {err}")

    def row(self, place: Place) -> bytes:
        """Reads the row of a play that waits."""
        said = read_line(self._disk.read(self._file, place.at, place.length))
        if not isinstance(said, tuple) or said[0] != place.seq:
            raise OSError("the line of a play was changed on disk")
        return said[1]

    def remove(self, answered: set[int]) -> None:
        """Takes plays out that were answered. A write that fails leaves them in the file: they are sent again once it
        was opened again, and are duplicates then. So the only error is that of a broken file."""
        gone = [seq for seq in answered if seq in self.waiting]
        self.live -= sum(self.waiting.pop(seq).length for seq in gone)
        self._check()
        if not gone:
            return
        if not self.waiting:
            try:
                self._disk.truncate(self._file, len(START))
                self._disk.sync(self._file)
            except OSError as err:
                raise self._breaks(err) from err
            self._size = len(START)
            return
        line = line_of(b"- " + b" ".join(b"%d" % seq for seq in sorted(gone)))
        with contextlib.suppress(OSError):  # else the next line is written over it
            self._disk.write(self._file, line, self._size)
            self._size += len(line)
        if self._size - len(START) - self.live > max(self.live, self.spare):
            with contextlib.suppress(OSError):  # or later
                self._replace()
        self._check()

    def _replace(self) -> None:
        """Makes a file of the plays that wait the buffer's. Until it is, the old one is."""
        disk, name = self._disk, self._folder / "buffer.new"
        new = disk.open(name)
        moved: dict[int, Place] = {}
        size = len(START)
        try:
            disk.truncate(new, 0)
            disk.write(new, START, 0)
            for place in self.waiting.values():
                line = line_of(b"+ %d %b" % (place.seq, self.row(place)))
                disk.write(new, line, size)
                moved[place.seq] = Place(place.seq, size, len(line))
                size += len(line)
            disk.sync(new)
        except BaseException:
            new.close()
            raise
        try:
            disk.rename(name, self._folder / "buffer")
        except OSError as err:
            new.close()
            raise self._breaks(err) from err  # it may have been renamed all the same
        old, self._file, self.waiting, self._size = self._file, new, moved, size
        old.close()
        try:
            disk.sync_folder(self._folder)
        except OSError as err:
            raise self._breaks(err) from err


_BROKEN = "the buffer has to be opened again, as it is not known what is on disk"
