"""The buffer of a device: on real files, and on a disk that fails at every step."""
import datetime
import gzip
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from muniment_client import (  # noqa: E402
    BufferBrokenError, BufferFullError, BufferInUseError, Client, DeliveryBuffer, MunimentError,
)
from muniment_client.bufferfile import COMPACT_AT, START, Disk, Journal, crc32c, line_of  # noqa: E402
from test_call import ANSWERS, Server, answered, check_pause, failure, python, success  # noqa: E402

HERE = Path(__file__).parent


def play(n, **more):
    return {"rightId": "rgh_1", "spatialAnchorId": "a", "dwellMs": 10, **more}


class Ledger:
    """A service as a buffer meets it: it knows each row by its rowId, and counts it once. decide may return the error
    of a row, refuse the answer to a whole batch."""

    def __init__(self, decide=lambda row: None, refuse=lambda rows: None):
        self.counted, self.batches, self.decide, self.refuse = {}, [], decide, refuse

    def __call__(self, sent, _):
        rows = [json.loads(line) for line in gzip.decompress(sent["body"]).splitlines()]
        if refusal := self.refuse(rows):
            return refusal
        self.batches.append(len(rows))
        results = []
        for index, row in enumerate(rows):
            known = row["rowId"] in self.counted
            error = None if known else self.decide(row)
            if error:
                results.append({"index": index, "status": "rejected", "error": error})
                continue
            self.counted[row["rowId"]] = row
            results.append({"index": index, "status": "duplicate" if known else "accepted"})
        return success({"results": results})


class Unsynced(Disk):
    """A disk for many plays, where no test is about what is durable."""

    def sync(self, file):
        pass


class Folders(unittest.TestCase):
    def setUp(self):
        self.base = Path(tempfile.mkdtemp(prefix="buffer-"))
        self.addCleanup(shutil.rmtree, self.base)
        self.folders = 0

    def folder(self):
        self.folders += 1
        return self.base / str(self.folders) / "plays"

    def client(self, answer=lambda *_: None):
        server = Server(answer)
        self.addCleanup(server.close)
        client = Client(server.url, "k")
        self.addCleanup(client.close)
        return client

    def opened(self, folder, answer=lambda *_: None, **more):
        self.pauses = []

        def pause(seconds):
            self.pauses.append(seconds)
            time.sleep(0)

        buffer = DeliveryBuffer(folder, self.client(answer), **{"pause": pause, **more})
        self.addCleanup(buffer.close)
        return buffer

    def drained(self, buffer, until=lambda buffer: buffer.stats().waiting == 0):
        """Uploads until nothing waits."""
        failed = []

        def run():
            try:
                buffer.run()
            except BaseException as err:
                failed.append(err)

        running = threading.Thread(target=run)
        running.start()
        while running.is_alive() and not until(buffer):
            time.sleep(0.002)
        buffer.stop()
        running.join()
        if failed:
            raise failed[0]


class Buffers(Folders):
    def test_plays_are_uploaded_in_order_each_once(self):
        folder, ledger, delivered = self.folder(), Ledger(), []
        with self.opened(folder, disk=Unsynced()) as buffer:
            for n in range(2500):
                buffer.add(play(n), "2026-05-01T12:00:00Z", f"play-{n}")
            self.assertEqual(buffer.stats().waiting, 2500)
        with self.opened(folder, ledger, delivered=lambda row, result: delivered.append((row["rowId"], result["status"]))) as buffer:
            self.drained(buffer)
        ids = [f"play-{n}" for n in range(2500)]
        self.assertEqual(list(ledger.counted), ids)
        self.assertEqual(delivered, [(id, "accepted") for id in ids])
        self.assertEqual(ledger.batches, [1000, 1000, 500])
        self.assertEqual((folder / "buffer").read_bytes(), START)
        self.assertEqual(ledger.counted["play-0"], {"rowId": "play-0", "playedAt": "2026-05-01T12:00:00Z", **play(0)})

    def test_what_is_added_meanwhile_is_uploaded(self):
        ledger = Ledger()
        buffer = self.opened(self.folder(), ledger, now=lambda: 1777636800.25)
        running = threading.Thread(target=buffer.run)
        running.start()
        for n in range(3):
            buffer.add(play(n))
            while buffer.stats().waiting:
                time.sleep(0.002)
        with self.assertRaisesRegex(RuntimeError, "being uploaded already"):
            buffer.run()
        buffer.stop()
        running.join()
        self.assertEqual(ledger.batches, [1, 1, 1])
        self.assertEqual({row["playedAt"] for row in ledger.counted.values()}, {"2026-05-01T12:00:00.250000+00:00"})

    def test_a_full_buffer_refuses_and_takes_more_once_some_are_answered(self):
        folder, ledger = self.folder(), Ledger()
        buffer = self.opened(folder, ledger, max_bytes=10_000)
        kept = 0
        with self.assertRaises(BufferFullError):
            while True:
                buffer.add(play(kept))
                kept += 1
        self.assertGreater(kept, 30)
        self.assertEqual(buffer.stats().waiting, kept)
        self.assertLessEqual(buffer.stats().bytes, 10_000)
        self.drained(buffer)
        buffer.add(play(kept))
        buffer.close()
        with self.assertRaisesRegex(ValueError, "closed"):
            buffer.add(play(0))
        with self.assertRaisesRegex(ValueError, "closed"):
            buffer.run()
        self.assertEqual(self.opened(folder).stats().waiting, 1)

    def test_one_at_a_time_has_a_folder_open(self):
        folder = self.folder()
        with self.opened(folder), self.assertRaises(BufferInUseError):
            self.opened(folder)
        self.opened(folder).close()

    def test_answers(self):
        """What a buffer does about each, by the table that the other clients have too."""
        for answer in ANSWERS:
            with self.subTest(answer["name"]):
                ledger, refused = Ledger(), []
                buffer = self.opened(
                    self.folder(), lambda sent, n, ledger=ledger, answer=answer: answered(answer) if n == 1 else ledger(sent, n), refused=lambda *_, refused=refused: refused.append(1)
                )
                buffer.add(play(0))
                kind = "drained"
                try:
                    self.drained(buffer)
                except MunimentError as err:
                    kind = err.kind
                stops = answer["buffer"] == "stops"
                self.assertEqual((kind, buffer.stats().waiting), (python(answer["kind"]), 1) if stops else ("drained", 0))
                self.assertEqual((len(refused), len(ledger.counted)), (answer["buffer"] == "refuses", answer["buffer"] == "waits"))
                if answer["buffer"] == "waits":
                    check_pause(self, self.pauses[0], min(answer["retryAfter"], 3600))

    def test_it_goes_on_whatever_passes(self):
        ledger = Ledger()
        answers = [
            None,  # no answer
            (200, {}, b"<html>log in to the hotel's network"),
            failure(503, "INTERNAL_ERROR", {"reason": "DRAINING"}, Retry_After="45"),
            failure(503, "INTERNAL_ERROR", {"reason": "DRAINING"}, Retry_After="100000"),
        ]

        def answer(sent, n):
            if n <= len(answers):
                return answers[n - 1]
            got = ledger(sent, n)
            return None if n == len(answers) + 1 else got  # the answer is lost

        trouble = []
        buffer = self.opened(self.folder(), answer, trouble=trouble.append)
        for n in range(3):
            buffer.add(play(n), None, f"play-{n}")
        self.drained(buffer)
        self.assertEqual([err.kind for err in trouble], ["unavailable", "foreign", "unavailable", "unavailable"])
        self.assertEqual((ledger.batches, len(ledger.counted)), ([3, 3], 3), "it was sent again, and counted once")
        self.assertTrue(45 <= self.pauses[2] <= 57 and 3600 <= self.pauses[3] <= 3616, self.pauses)

    def test_a_refused_play_is_reported_and_removed_and_others_pass(self):
        busy = [1, 1, 1]

        def decide(row):
            if row["rowId"] == "play-1":
                return {"error": "PRECONDITION_FAILED", "message": "no", "violations": [{"code": "c"}]}
            if row["rowId"] == "play-2" and busy:
                busy.pop()
                return {"error": "INTERNAL_ERROR", "message": "busy", "reason": "RIGHTS_STALE"}
            return None

        refused, trouble, ledger = [], [], Ledger(decide)
        buffer = self.opened(
            self.folder(), ledger, trouble=lambda err: trouble.append(err.reason), refused=lambda row, why: refused.append((row["rowId"], why.kind, len(why.violations)))
        )
        for n in range(4):
            buffer.add(play(n), None, f"play-{n}")
        self.drained(buffer)
        self.assertEqual(refused, [("play-1", "precondition", 1)])
        self.assertEqual(trouble, ["RIGHTS_STALE"] * 3)
        self.assertEqual(sorted(ledger.counted), ["play-0", "play-2", "play-3"])

    def test_a_row_that_makes_its_batch_invalid_is_found(self):
        refused = []
        ledger = Ledger(refuse=lambda rows: failure(400, "BAD_REQUEST", {"field": "rows"}) if any(r["rowId"] == "play-77" for r in rows) else None)
        buffer = self.opened(self.folder(), ledger, refused=lambda row, why: refused.append((row["rowId"], why.kind)))
        for n in range(200):
            buffer.add(play(n), None, f"play-{n}")
        self.drained(buffer)
        self.assertEqual((refused, len(ledger.counted)), ([("play-77", "invalid")], 199))

    def test_what_can_be_no_row_is_refused_at_once(self):
        buffer = self.opened(self.folder())
        for delivery, at, key in (
            ({**play(0), "rightId": ""}, None, None), ({**play(0), "dwellMs": float("nan")}, None, None), ({**play(0), "dwellMs": -1}, None, None),
            (play(0), datetime.datetime(2026, 5, 1), None), (play(0), None, "a b"), (play(0), None, ""), (play(0, correlationId="x" * (64 << 10)), None, None),
            (play(0, correlationId="\ud800"), None, None),
        ):
            with self.subTest(delivery=str(delivery)[:80]), self.assertRaises(ValueError):
                buffer.add(delivery, at, key)
        self.assertEqual(buffer.stats().waiting, 0)

    def test_the_file_stays_short_while_some_rows_wait_for_good(self):
        folder = self.folder()
        stuck = {"error": "INTERNAL_ERROR", "message": "busy", "reason": "RIGHTS_STALE"}
        ledger = Ledger(lambda row: stuck if row["rowId"].startswith("stuck") else None)
        for round in range(10):
            with self.opened(folder, ledger, disk=Unsynced()) as buffer:
                self.assertEqual(buffer.stats().waiting, round)
                buffer.add(play(0), None, f"stuck-{round}")
                for n in range(300):
                    buffer.add(play(n, correlationId="x" * 100), None, f"play-{round}-{n}")
                self.drained(buffer, lambda buffer, n=round + 1: buffer.stats().waiting == n)
            self.assertLess((folder / "buffer").stat().st_size, COMPACT_AT + 150_000)
        ledger.decide = lambda row: None
        with self.opened(folder, ledger) as buffer:
            self.drained(buffer)
        self.assertEqual((len(ledger.counted), (folder / "buffer").read_bytes()), (3010, START))

    def test_a_full_disk_refuses_a_play_and_goes_on_when_there_is_room(self):
        """With a bound on the size of files, as a disk without room has it."""
        import resource
        import signal

        folder = self.folder()
        handler, bound = signal.signal(signal.SIGXFSZ, signal.SIG_IGN), resource.getrlimit(resource.RLIMIT_FSIZE)
        ledger = Ledger()
        buffer = self.opened(folder, ledger)
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (4000, bound[1]))
            kept = 0
            with self.assertRaises(OSError):
                while True:
                    buffer.add(play(kept), None, f"play-{kept}")
                    kept += 1
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, bound)
            signal.signal(signal.SIGXFSZ, handler)
        self.assertEqual((folder / "buffer").stat().st_size, 4000, "a part of a line was written")
        buffer.add(play(0), None, "more")
        buffer.close()
        with self.opened(folder, ledger) as buffer:
            self.drained(buffer)
        self.assertEqual(list(ledger.counted), [f"play-{n}" for n in range(kept)] + ["more"])

    def test_a_device_may_change_from_another_client_and_back(self):
        if not (folder := os.environ.get("GO_BUFFER")):
            self.skipTest("GO_BUFFER is not set")
        with self.opened(folder) as buffer:
            self.assertEqual(buffer.stats().waiting, 1)
            buffer.add(play(1))  # which the Go client finds then

    def test_a_device_killed_at_any_moment_loses_and_doubles_nothing(self):
        folder, acknowledged = self.folder(), 0
        for lines in (1, 7, 40, 3, random.randint(1, 60)):
            acknowledged += len(device(folder, {"FIRST": str(acknowledged), "COUNT": "1000", "URL": ""}, lines))
            copy = self.folder()
            shutil.copytree(folder, copy)
            ledger = Ledger()
            with self.opened(copy, ledger) as buffer:
                self.drained(buffer)
            for n in range(acknowledged):
                self.assertIn(f"py-play-{n}", ledger.counted)
            acknowledged = len(ledger.counted)  # those that were being added may be there as well


def device(folder, env, kill_after=0):
    """Runs a device in a process of its own, and kills it once it has said a number of lines."""
    said = []
    with subprocess.Popen([sys.executable, str(HERE / "device.py"), str(folder)], env={**os.environ, **env}, stdout=subprocess.PIPE, text=True) as child:
        for line in child.stdout:
            said.append(line.strip())
            if len(said) == kill_after:
                child.kill()
    return said


class FaultDisk:
    """A disk in memory, which fails at one step, and stays away from then on or does not."""

    def __init__(self, fault_at=0, form="failed", once=False):
        self.names, self.durable = {}, {}  # what a folder has, and has durably
        self.steps, self.fault_at, self.form, self.once = 0, fault_at, form, once

    class File:
        def __init__(self, text=b""):
            self.written, self.durable = text, text

        def close(self):
            pass

    def step(self, do, half=None):
        self.steps += 1
        if self.fault_at == 0 or self.steps < self.fault_at or self.once and self.steps > self.fault_at:
            return do()
        if self.steps == self.fault_at and self.form == "persisted":
            do()
        elif self.steps == self.fault_at and self.form == "torn" and half:
            half()
        raise OSError("the disk is gone")

    def open(self, name):
        return self.step(lambda: self.names.setdefault(str(name), self.File()))

    def read(self, file, at, size):
        return file.written[at : at + size]

    def write(self, file, text, at):
        def put(text):
            file.written = file.written[:at].ljust(at, b"\0") + text + file.written[at + len(text) :]

        self.step(lambda: put(text), lambda: put(text[: len(text) // 2]))

    def truncate(self, file, size):
        def cut():
            file.written = file.written[:size]

        self.step(cut)

    def sync(self, file):
        def keep():
            file.durable = file.written

        self.step(keep)

    def rename(self, old, new):
        def move():
            self.names[str(new)] = self.names.pop(str(old))

        self.step(move)

    def sync_folder(self, _):
        def keep():
            self.durable = dict(self.names)

        self.step(keep)

    def restart(self, power_cut):
        """The disk after a power cut, which takes what was not synced, or after a kill, which takes nothing."""
        after = FaultDisk()
        names = self.durable if power_cut else self.names
        after.names = {name: self.File(file.durable if power_cut else file.written) for name, file in names.items()}
        after.durable = dict(after.names)
        return after


DIR = Path("dir")


def row_ids(journal):
    return [json.loads(journal.row(place))["rowId"] for place in journal.waiting.values()]


def live(disk):
    """Plays are added, and answered but for every fourth, until the file is replaced and is empty at last. Returns what
    has to be there, and what may be."""
    waiting, others = set(), set()
    try:
        journal = Journal(DIR, disk)
    except OSError:
        return waiting, others
    journal.spare = 1000
    for n in range(22):
        id = f"play-{n}"
        hit = disk.once and disk.steps >= disk.fault_at
        try:
            journal.add(json.dumps({"rowId": id, "correlationId": "x" * 100}).encode(), 1 << 30)
        except (OSError, BufferBrokenError):
            others.add(id)  # it may be there
            continue
        waiting.add(id)
        if hit:
            return waiting, others  # ended at the first play that is acknowledged after the fault
        gone = set()
        if n % 4 != 3:
            gone.add(max(journal.waiting))
            waiting.discard(id)
            others.add(id)  # its removal need not be durable
        if n == 15:
            gone |= set(journal.waiting)
            others |= waiting
            waiting.clear()
        try:
            journal.remove(gone)
        except BufferBrokenError:
            pass
    return waiting, others


class Faults(Folders):
    def test_at_every_fault(self):
        """The disk fails at every step, in every form. What was acknowledged and not answered is there when the buffer is
        opened again, once; and nothing else but what the fault interrupted."""
        whole = FaultDisk()
        live(whole)
        self.assertGreater(whole.steps, 40)
        replaced = 0
        for at in range(1, whole.steps + 1):
            for form in ("failed", "persisted", "torn"):
                for power_cut in (False, True):
                    for once in (False, True):
                        name = f"step {at} {form}, power cut {power_cut}, once {once}"
                        disk = FaultDisk(at, form, once)
                        waiting, others = live(disk)
                        after = disk.restart(power_cut)
                        replaced += str(DIR / "buffer.new") in after.names
                        journal = Journal(DIR, after)
                        ids = row_ids(journal)
                        self.assertEqual(journal.damaged, 0, name)
                        self.assertEqual(list(journal.waiting), sorted(journal.waiting), name)
                        self.assertEqual(len(set(ids)), len(ids), name)
                        self.assertLessEqual(waiting, set(ids), name)
                        self.assertLessEqual(set(ids), waiting | others, name)
                        journal.add(b'{"rowId":"next"}', 1 << 30)
                        self.assertEqual(row_ids(journal), [*ids, "next"], name)
        self.assertGreater(replaced, 0, "no fault met the file that replaces another")

    def text(self):
        """A file with every kind of line, where its lines end, and what it holds as of each."""
        text, ends = START, [len(START)]
        for line in (b'+ 1 {"rowId":"a"}', b'+ 2 {"rowId":"b"}', b"- 1", b'+ 3 {"rowId":"c"}', b'+ 4 {"rowId":"d"}', b"- 2 4", b'+ 7 {"rowId":"e"}'):
            text += line_of(line)
            ends.append(len(text))
        return text, ends

    def holding(self, text):
        disk = FaultDisk()
        disk.names[str(DIR / "buffer")] = FaultDisk.File(text)
        return disk

    def test_torn_at_every_byte(self):
        """A file that is cut off anywhere holds what its whole lines say, and goes on from there."""
        text, ends = self.text()
        holds = ["", "a", "a b", "b", "b c", "b c d", "c", "c e"]
        for cut in range(len(text) + 1):
            for garbage in (b"", b"\0\0", b"x\n\n", b"0badc0de + 9 {}\n"):
                lines = sum(end <= cut for end in ends)
                disk = self.holding(text[:cut] + garbage)
                if lines == 0 and garbage:
                    with self.assertRaisesRegex(ValueError, "not the file of a buffer"):
                        Journal(DIR, disk)
                    continue
                journal = Journal(DIR, disk)
                want = holds[max(lines, 1) - 1].split()
                self.assertEqual((row_ids(journal), journal.damaged), (want, 0), f"cut at {cut}, then {garbage}")
                journal.add(b'{"rowId":"next"}', 1 << 20)
                again = Journal(DIR, disk)
                self.assertEqual((row_ids(again), again.damaged), ([*want, "next"], 0))

    def test_damaged(self):
        """A bit that flips costs the line that it is in, which is kept for people, and no other play."""
        text, ends = self.text()
        for at in range(len(START), ends[-2] - 1):  # later it looks like a torn end
            flipped = bytearray(text)
            flipped[at] ^= 0x10
            disk = self.holding(bytes(flipped))
            journal = Journal(DIR, disk)
            self.assertGreater(journal.damaged, 0, at)
            ids = row_ids(journal)
            self.assertEqual(ids[-1], "e", at)
            self.assertTrue(disk.names[str(DIR / "damaged")].durable)
            again = Journal(DIR, disk)
            self.assertEqual((again.damaged, row_ids(again)), (0, ids), "it is reported once")

    def test_a_real_disk_that_fails(self):
        """What was not acknowledged may be there; what was is, once the buffer is opened again."""

        class Failing(Disk):
            fails = False

            def sync(self, file):
                if self.fails:
                    raise OSError("EIO")
                super().sync(file)

        folder, disk = self.folder(), Failing()
        with self.opened(folder, disk=disk) as buffer:
            buffer.add(play(0))
            disk.fails = True
            with self.assertRaisesRegex(BufferBrokenError, "opened again"):
                buffer.add(play(1))
            disk.fails = False
            with self.assertRaisesRegex(BufferBrokenError, "opened again"):
                buffer.add(play(2))
        self.assertGreaterEqual(self.opened(folder).stats().waiting, 1)

    def test_crc32c(self):
        self.assertEqual(crc32c(b"123456789"), b"e3069283")


if __name__ == "__main__":
    unittest.main()
