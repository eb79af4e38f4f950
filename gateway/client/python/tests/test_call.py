"""Attempts, errors, batches and lists, with a server that answers as the tests say."""
import contextlib
import gzip
import http.server
import json
import re
import sys
import threading
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from muniment_client import Client, MunimentError, RetryPolicy, error_of_row  # noqa: E402
from muniment_client.version import VERSION  # noqa: E402

PLAY = {"rightId": "rgh_1", "spatialAnchorId": "a", "dwellMs": 8200}


def success(data, **headers):
    return 200, headers, json.dumps({"ok": True, "data": data, "contractVersion": "v1.0"}).encode()


def failure(status, code, more=None, **headers):
    body = {"ok": False, "error": code, "message": "a message", "contractVersion": "v1.0", **(more or {})}
    return status, {"X-Request-Id": "req-1", **headers}, json.dumps(body).encode()


ANSWERS = json.loads((Path(__file__).parents[2] / "testdata" / "answers.json").read_text())


def answered(answer):
    """A row of the table, as a server answers."""
    return answer["status"], {"X-Request-Id": "req-1", **answer["headers"]}, answer["body"].encode()


def python(name):
    """A name of the table, as this client has it."""
    return re.sub("[A-Z]", lambda m: "_" + m[0].lower(), name)


def check_pause(test, pause, after):
    """It is as long as the service says, or else as the first of a policy."""
    least, most = (after, after * 1.25) if after > 0 else (0.25, 0.5)
    test.assertTrue(least <= pause <= most, f"a pause of {pause} s")


class Server:
    """Answers requests by a function of them: (status, headers, body), or None to hang up."""

    def __init__(self, answer):
        self.sent, self.connections = [], set()
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                server.connections.add(self.client_address)
                server.sent.append({"method": self.command, "target": self.path, "headers": self.headers, "body": body})
                got = answer(server.sent[-1], len(server.sent))
                if got is None:
                    self.close_connection = True
                    return
                status, headers, text = got
                self.send_response(status)
                for name, value in {"Content-Length": "1000" if callable(text) else str(len(text)), "Content-Type": "application/json", **headers}.items():
                    self.send_header(name.replace("_", "-"), value)
                self.end_headers()
                if not callable(text):
                    self.wfile.write(text)
                    return
                self.close_connection = True
                with contextlib.suppress(OSError):
                    text(self.wfile)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any

            def log_message(self, *_):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.http.server_port}/base/"

    def close(self):
        self.http.shutdown()
        self.http.server_close()


class Calls(unittest.TestCase):
    def answering(self, answer, **config):
        """A client whose requests are answered by a function, or by one answer after the other. Its pauses take no time."""
        if isinstance(answer, list):
            answers = answer
            answer = lambda _, n: answers[min(n, len(answers)) - 1]  # noqa: E731
        server = Server(answer)
        self.addCleanup(server.close)
        self.pauses, self.now = [], 0.0

        def sleep(seconds):
            self.pauses.append(seconds)
            self.now += seconds

        client = Client(server.url, "mun_test_key", **{"sleep": sleep, "now": lambda: self.now, **config})
        self.addCleanup(client.close)
        return client, server

    def failed(self, call, *args, **named):
        with self.assertRaises(MunimentError) as raised:
            call(*args, **named)
        return raised.exception

    def keys(self, server):
        return {sent["headers"]["Idempotency-Key"] for sent in server.sent}

    def test_delivery(self):
        client, server = self.answering([success({"substrate": "DOOH"}, Idempotent_Replayed="true")])
        got = client.deliver(PLAY, idempotency_key="play-1")
        self.assertEqual(got, {"substrate": "DOOH", "idempotencyKey": "play-1", "replayed": True})
        sent = server.sent[0]
        self.assertEqual((sent["method"], sent["target"]), ("POST", "/base/v1/delivery"))
        self.assertEqual(json.loads(sent["body"]), PLAY)
        self.assertEqual((sent["headers"]["Authorization"], sent["headers"]["Idempotency-Key"]), ("Bearer mun_test_key", "play-1"))
        self.assertEqual(sent["headers"]["User-Agent"], f"muniment-python/{VERSION}")

    def test_answers(self):
        """By the table that the other clients have too."""
        for answer in ANSWERS:
            with self.subTest(answer["name"]):
                client, server = self.answering([answered(answer)], retry=RetryPolicy(attempts=2))
                err = self.failed(client.deliver, PLAY)
                self.assertEqual(
                    (err.kind, err.outcome, err.status, err.request_id, err.retry_after), (python(answer["kind"]), python(answer["outcome"]), answer["status"], "req-1", answer["retryAfter"])
                )
                self.assertEqual(len(server.sent), 2 if answer["again"] else 1)
                self.assertEqual(self.keys(server), {err.idempotency_key})
                if answer["again"]:
                    check_pause(self, self.pauses[0], answer["retryAfter"])

    def test_error_has_all_that_the_service_says(self):
        client, _ = self.answering([failure(412, "PRECONDITION_FAILED", {
            "field": "a", "validationErrors": [{"field": "a", "message": "b"}], "violations": [{"code": "c"}], "substrate": "DOOH", "requiredScopes": ["x"],
            "keyScopes": ["y"], "reason": "OVERLOADED", "pending": [{"count": 1}], "confirmationToken": "t", "preview": {"bundles": 1}, "requestId": "req-2",
        }, Retry_After="3")])
        err = self.failed(client.deliver, PLAY)
        self.assertEqual(
            (err.field, err.validation_errors, err.violations, err.substrate, err.required_scopes, err.key_scopes, err.reason, err.pending, err.confirmation_token,
             err.preview, err.request_id, err.retry_after),
            ("a", [{"field": "a", "message": "b"}], [{"code": "c"}], "DOOH", ["x"], ["y"], "OVERLOADED", [{"count": 1}], "t", {"bundles": 1}, "req-2", 3),
        )
        self.assertEqual(str(err), "POST /v1/delivery: 412 PRECONDITION_FAILED: a message (OVERLOADED) [request req-2]")

    def test_foreign(self):
        for answer in ((200, {}, b"<html>sign in"), (200, {}, b'{"ok":true}'), (404, {}, b"no"), (301, {"Location": "https://elsewhere.example"}, b""), (200, {}, b"[" * 100_000)):
            with self.subTest(answer[2][:20]):
                client, server = self.answering([answer])
                err = self.failed(client.deliver, PLAY)
                self.assertEqual((err.kind, err.outcome, err.code, len(server.sent)), ("foreign", "unknown", "", 1))
        client, server = self.answering([(502, {}, b"bad gateway"), success({})])
        client.deliver(PLAY)
        self.assertEqual(len(server.sent), 2)

    def test_cut_off_and_no_answer(self):
        torn = (200, {"Content-Length": "100", "Connection": "close"}, b'{"ok":tr')

        def answer(_, n):
            return torn if n == 1 else None if n == 2 else success({})

        client, server = self.answering(answer)
        client.deliver(PLAY)
        self.assertEqual((len(server.sent), len(self.keys(server))), (3, 1))
        self.assertTrue(0.25 <= self.pauses[0] <= 0.5 and 0.5 <= self.pauses[1] <= 1, self.pauses)
        client, _ = self.answering([torn], retry=RetryPolicy(attempts=1))
        self.assertEqual(self.failed(client.deliver, PLAY).outcome, "unknown")
        nobody = Client("http://127.0.0.1:1", "k", retry=RetryPolicy(attempts=1))
        err = self.failed(nobody.tenant)
        self.assertEqual((err.kind, err.status), ("unavailable", 0))

    def test_retry_after(self):
        client, _ = self.answering([failure(429, "RATE_LIMITED", Retry_After="7"), success({})])
        client.deliver(PLAY)
        self.assertTrue(7 <= self.pauses[0] <= 8.75, self.pauses)
        client, server = self.answering([failure(409, "STATE_CONFLICT", Retry_After="1"), success({})])
        client.deliver(PLAY)
        self.assertEqual(len(server.sent), 2, "an earlier attempt was still being answered")
        client, server = self.answering([failure(503, "INTERNAL_ERROR", Retry_After="121"), success({})])
        self.assertEqual(self.failed(client.deliver, PLAY).retry_after, 121)
        self.assertEqual(len(server.sent), 1)

    def test_deadline(self):
        client, server = self.answering([failure(500, "INTERNAL_ERROR")], retry=RetryPolicy(attempts=100, first_delay=1, max_delay=1))
        self.assertEqual(self.failed(client.having(deadline=3).deliver, PLAY).status, 500)
        self.assertTrue(3 <= len(server.sent) <= 6, len(server.sent))

    def test_slow_answers_end_with_the_timeout(self):
        hang = threading.Event()
        self.addCleanup(hang.set)
        client, server = self.answering(lambda *_: hang.wait(30) and None, timeout=0.2, retry=RetryPolicy(attempts=2))
        err = self.failed(client.tenant)
        self.assertEqual((err.kind, err.status, err.outcome, len(server.sent)), ("unavailable", 0, "unknown", 2))
        ended = threading.Event()

        def drip(out):
            while not ended.wait(0.05):
                out.write(b" ")

        client, server = self.answering([(200, {}, drip)], timeout=0.2, retry=RetryPolicy(attempts=1))
        self.assertEqual(self.failed(client.tenant).kind, "foreign")
        ended.set()
        client, server = self.answering([(200, {"Content-Length": "100"}, b"x")], timeout=0.2, retry=RetryPolicy(attempts=1))
        self.assertEqual(self.failed(client.tenant).kind, "foreign")

    def test_connections_are_kept(self):
        client, server = self.answering([success({})])
        for _ in range(5):
            client.tenant()
        self.assertEqual(len(server.connections), 1)

    def test_what_makes_no_sense_is_not_sent(self):
        client, server = self.answering([success({})])
        for id in ("", ".", "..", None):
            self.assertRaises(ValueError, client.rights.get, id)
        for more in ({"dwellMs": float("nan")}, {"dwellMs": "1"}):
            self.assertRaises(ValueError, client.deliver, {**PLAY, **more})
        for key in ("", "ä", "a\r\nb"):
            self.assertRaises(ValueError, client.deliver, PLAY, idempotency_key=key)
        for url in ("", "ledger.example", "ftp://muniment.example", "https://u:p@muniment.example", "https://muniment.example?x"):
            self.assertRaises(ValueError, Client, url, "k")
        with self.assertRaises(ValueError) as raised:
            Client("https://muniment.example", "a\nb")
        self.assertNotIn("a\nb", str(raised.exception))
        self.assertRaises(ValueError, Client(server.url, lambda: "").tenant)
        self.assertRaises(ValueError, RetryPolicy, attempts=0)
        self.assertEqual(server.sent, [])

    def test_ids_are_escaped(self):
        client, server = self.answering([success({"right": {}})])
        client.rights.get("a/b?c#d:e ä")
        self.assertEqual(server.sent[0]["target"], "/base/v1/rights/a%2Fb%3Fc%23d:e%20%C3%A4")

    def test_list(self):
        client, server = self.answering(lambda _, n: success({"rights": [{"id": n}], "nextCursor": f"c{n}" if n < 3 else None}))
        self.assertEqual([right["id"] for right in client.rights.list({"state": "ACTIVE", "limit": 1})], [1, 2, 3])
        self.assertEqual([sent["target"].partition("?")[2] for sent in server.sent], ["state=ACTIVE&limit=1", "state=ACTIVE&limit=1&cursor=c1", "state=ACTIVE&limit=1&cursor=c2"])
        next(client.rights.list())
        self.assertEqual(len(server.sent), 4)

    def row(self, n, **more):
        return {"rowId": f"r-{n}", "playedAt": "2026-05-01T12:00:00Z", "dwellMs": 1, "rightId": "rgh_1", "spatialAnchorId": "a", **more}

    def rows_of(self, sent):
        return [json.loads(line) for line in gzip.decompress(sent["body"]).splitlines()]

    def test_batches(self):
        def answer(sent, _):
            return success({"results": [{"index": n, "status": "accepted", "heldId": row["rowId"]} for n, row in enumerate(self.rows_of(sent))]})

        client, server = self.answering(answer)
        read = []
        results = client.deliver_batch(self.row(n) for n in range(2500) if read.append(n) is None)
        self.assertEqual(next(results), {"index": 0, "status": "accepted", "heldId": "r-0"})
        self.assertLessEqual(len(read), 1001, "no more are read than the next batch needs")
        self.assertEqual([(r["index"], r["heldId"]) for r in results], [(n, f"r-{n}") for n in range(1, 2500)])
        self.assertEqual([len(self.rows_of(sent)) for sent in server.sent], [1000, 1000, 500])
        server.sent.clear()
        self.assertEqual(len(list(client.deliver_batch(self.row(n, correlationId="x" * (60 << 10)) for n in range(200)))), 200)
        self.assertEqual([len(self.rows_of(sent)) for sent in server.sent], [136, 64], "a body has at most 8 MiB")

    def test_rows_that_can_be_none(self):
        client, server = self.answering(lambda sent, _: success({"results": [{"index": n, "status": "accepted"} for n, _ in enumerate(self.rows_of(sent))]}))
        rows = [self.row(0), self.row(1, dwellMs=float("inf")), self.row(2, correlationId="x" * 70_000), self.row(3, correlationId="\ud800"), self.row(4)]
        results = list(client.deliver_batch(rows))
        self.assertEqual([(r["index"], r["status"]) for r in results], [(0, "accepted"), (1, "rejected"), (2, "rejected"), (3, "rejected"), (4, "accepted")])
        self.assertEqual((error_of_row(results[1]).outcome, error_of_row(results[0]), len(server.sent)), ("refused", None, 1))

    def test_busy_rows_are_sent_again(self):
        sent_rows = []

        def answer(sent, n):
            rows = self.rows_of(sent)
            sent_rows.append([row["rowId"] for row in rows])
            busy = {"status": "rejected", "error": {"error": "INTERNAL_ERROR", "message": "busy", "reason": "RIGHTS_STALE"}}
            return success({"results": [{"index": i, **(busy if n < 3 and row["rowId"] == "r-1" else {"status": "accepted"})} for i, row in enumerate(rows)]})

        client, _ = self.answering(answer)
        results = list(client.deliver_batch([self.row(0), self.row(1), self.row(2)]))
        self.assertEqual(sent_rows, [["r-0", "r-1", "r-2"], ["r-1"], ["r-1"]])
        self.assertEqual([(r["index"], r["status"]) for r in results], [(0, "accepted"), (1, "accepted"), (2, "accepted")])

    def test_results_of_other_rows(self):
        for results in ([], [{"index": 1, "status": "accepted"}], [{"index": 0, "status": "lost"}], None):
            client, _ = self.answering([success({"results": results})])
            with self.subTest(results):
                self.assertEqual(self.failed(list, client.deliver_batch([self.row(0)])).kind, "foreign")

    def test_files(self):
        client, server = self.answering([success({"bundleUrl": "https://elsewhere.example/downloads/tok"}), (200, {}, b"zip")])
        with client.dsar.bundle("dsar:1") as file:
            self.assertEqual(file.read(), b"zip")
        self.assertEqual(server.sent[1]["target"], "/base/downloads/tok")
        client, _ = self.answering([(200, {"Content-Length": "100", "Connection": "close"}, b"half")])
        with client.proof_packs.bundle("ppk_1") as file:
            self.assertEqual(self.failed(file.read).kind, "foreign")
        client, _ = self.answering([success({"bundleUrl": "https://elsewhere.example/x"})])
        self.assertEqual(self.failed(client.dsar.bundle, "dsar:1").kind, "foreign")

    def test_threads(self):
        client, server = self.answering(lambda sent, _: success({"right": {"id": sent["target"].rpartition("/")[2]}}))
        got = {}

        def work(n):
            for k in range(20):
                got[n, k] = client.rights.get(f"r{n}-{k}")["id"]

        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(got, {(n, k): f"r{n}-{k}" for n in range(8) for k in range(20)})


if __name__ == "__main__":
    unittest.main()
