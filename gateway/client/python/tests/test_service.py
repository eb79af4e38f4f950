"""The client and a service: a tenant's days, every operation of the document, and the README.

URL is where the service is, KEY a key of its tenant with all scopes, ROOT a file with its root key, RIGHTS the tenant's
rights by substrate, HOOK a receiver of webhooks, and HOOKED where it shows what it has received.
"""
import datetime
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse
import urllib.request
from pathlib import Path

FOLDER = Path(__file__).parents[1]
sys.path.insert(0, str(FOLDER))
sys.path.insert(0, str(Path(__file__).parent))
from muniment_client import (  # noqa: E402
    Client, MunimentError, RetryPolicy, Trust, proof_file, receipt_file, verify_proof, verify_receipt, verify_webhook,
)
from operations import OPERATIONS  # noqa: E402
from test_buffer import device  # noqa: E402
from test_call import Server  # noqa: E402

URL = os.environ.get("URL")


def until(condition):
    while not (got := condition()):
        time.sleep(0.02)
    return got


@unittest.skipUnless(URL, "URL is not set: make test-clients starts a service")
class OfAService(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.client = Client(URL, os.environ["KEY"])
        cls.addClassCleanup(cls.client.close)
        cls.root = Path(os.environ["ROOT"]).read_text()
        cls.trust = Trust(cls.root, cls.client.key_directory())

    def failed(self, kind, call, *args, **named):
        with self.assertRaises(MunimentError) as raised:
            call(*args, **named)
        self.assertEqual(raised.exception.kind, kind, raised.exception)
        return raised.exception

    def test_a_tenants_days(self):
        c = self.client
        tenant_id = c.tenant()["tenant"]["tenantId"]
        self.assertEqual(tenant_id, os.environ["TENANT"])
        basis = c.bases.create({"kind": "LICENSE", "title": "Spring", "effectiveFrom": "2026-01-01T00:00:00Z"})
        issue = {"basisId": basis["id"], "substrate": "AUTOMOTIVE", "effectiveFrom": "2026-01-01T00:00:00Z", "scope": {"campaigns": ["spring"]}}
        once = c.having(idempotency_key="py-issue-1")
        right = once.rights.issue(issue)
        self.assertEqual(once.rights.issue(issue), right)

        play = {"rightId": right["id"], "spatialAnchorId": "dash-1", "dwellMs": 8200.5, "telemetry": {"speedMph": 0}}
        first, second = (c.deliver(play, idempotency_key="py-play-1") for _ in range(2))
        self.assertEqual((first["replayed"], second["replayed"]), (False, True))
        self.assertEqual(first["receipt"], second["receipt"])
        receipt_id = first["receipt"]["receiptId"]
        self.assertEqual(verify_receipt(receipt_file(first), self.trust).receipt["receiptId"], receipt_id)

        self.failed("conflict", c.deliver, {**play, "dwellMs": 1}, idempotency_key="py-play-1")
        err = self.failed("precondition", c.deliver, {**play, "telemetry": {"speedMph": 65}})
        self.assertEqual((err.violations[0]["observed"], err.outcome), (65, "refused"))
        self.failed("not_found", c.rights.get, basis["id"])

        self.assertEqual(c.rights.suspend(right["id"], "a look")["right"]["state"], "SUSPENDED")
        until(lambda: c.rights.propagation(right["id"])["propagation"]["applied"])
        self.failed("conflict", c.deliver, {"rightId": right["id"], "spatialAnchorId": "dash-1", "dwellMs": 1})
        c.rights.resume(right["id"])
        until(lambda: c.rights.propagation(right["id"])["propagation"]["applied"])

        now = datetime.datetime.now(datetime.timezone.utc).isoformat()
        row = {"rowId": "py-r-1", "playedAt": now, "dwellMs": 1000, "rightId": json.loads(os.environ["RIGHTS"])["DOOH"], "spatialAnchorId": "a"}
        results = c.deliver_batch([row, row, {**row, "rowId": "py-r-2", "rightId": "rgh_none"}])
        self.assertEqual([r["status"] for r in results], ["accepted", "duplicate", "rejected"])

        c.proof_packs.seal()
        proven = verify_proof(proof_file(c.receipts.proof(receipt_id)), self.trust)
        self.assertEqual((proven.receipt["receiptId"], proven.event["data"]["rightId"], proven.tenant_id), (receipt_id, right["id"], tenant_id))
        until(lambda: c.receipts.get(receipt_id)["sealed"])  # the warehouse has it
        logged = c.receipts.get(receipt_id)
        whole = json.dumps({name: logged[name] for name in ("receipt", "signature", "event")})
        self.assertEqual(verify_receipt(whole, self.trust).event["tenantId"], tenant_id)
        with c.proof_packs.bundle(logged["sealed"]["packId"]) as file:
            bundle = file.read()
        self.assertTrue(bundle.startswith(b'{"checkpoint":') and bundle.endswith(b"}\n"))
        self.assertEqual(len(list(c.receipts.list({"rightId": right["id"], "limit": 1}))), 1)
        self.assertGreaterEqual(len(list(c.events.list({"type": ["right.issued", "right.suspended"], "limit": 1, "rightId": right["id"]}))), 2)
        self.assertEqual(c.metering.get({"rightId": right["id"]})["totals"]["receipts"], 1)

        made = c.api_keys.create({"label": "device", "scopes": ["delivery:write"]})
        with Client(URL, made["apiKey"]) as device:
            err = self.failed("auth", device.tenant)
        self.assertEqual(err.required_scopes, ["rights:read"])
        c.api_keys.revoke(made["key"]["keyId"])

    def test_webhook(self):
        hook = self.client.webhooks.create({"url": os.environ["HOOK"], "events": ["webhook.tested"]})
        webhook_id = hook["webhook"]["id"]
        self.client.webhooks.test(webhook_id)

        def received():
            with urllib.request.urlopen(os.environ["HOOKED"], timeout=30) as answer:
                return [m for m in json.load(answer) if webhook_id in m["body"]]

        got = until(received)[0]
        for keys in ({"secrets": [hook["secret"]]}, {"trust": self.trust, "webhook_id": webhook_id}):
            message = verify_webhook(got["headers"], got["body"].encode(), **keys)
            self.assertEqual((message.webhook_id, len(message.events)), (webhook_id, 1))
        self.client.webhooks.delete(webhook_id)

    def test_a_device_that_is_offline(self):
        """For ten minutes, and killed twice meanwhile, it has each of its plays metered once."""
        plays = 150  # one in five seconds
        c = self.client
        basis = c.bases.create({"kind": "LICENSE", "title": "A screen"})
        right = c.rights.issue({"basisId": basis["id"], "substrate": "DOOH", "effectiveFrom": "2026-01-01T00:00:00Z", "scope": {}})
        start = int(time.time()) - 15 * 60
        env = {"RIGHT": right["id"], "COUNT": str(plays), "START": str(start), "NOW": str(start), "FIRST": "0"}
        with tempfile.TemporaryDirectory() as base:
            folder = Path(base) / "plays"
            for kill_after in (41, 60):
                last, now = device(folder, {**env, "HOLD": str(kill_after)}, kill_after)[-1].split()
                # Whether the next play was kept is not known: it is added again.
                env |= {"FIRST": str(int(last) + 1), "NOW": str(float(now) + 5)}
                self.assertTrue(int(last) < plays and float(now) < start + 600, "it was killed while it was offline")
            said = device(folder, env)
        self.assertRegex(said[-1], "^lost [1-9]")
        totals = until(lambda: (got := c.metering.get({"rightId": right["id"]})["totals"])["receipts"] >= plays and got)
        self.assertEqual((totals["receipts"], totals["metered"], totals["duplicates"]), (plays, plays, 0))

    def test_operations(self):
        """Each operation of the document has a method, which sends what the document has."""
        with urllib.request.urlopen(f"{URL}/openapi.json", timeout=30) as answer:
            document = json.load(answer)
        left = {"erase"}  # a person, for good, with a confirmation: for people, by a tool of theirs
        seen = set()
        for path, item in document["paths"].items():
            if path != "/v1" and not path.startswith("/v1/"):
                continue
            for method, operation in item.items():
                id = operation["operationId"]
                if id not in left:
                    seen.add(id)
                    with self.subTest(id):
                        self.operation(path, method, operation)
        self.assertEqual(OPERATIONS.keys() - seen, set(), "in no document")

    def operation(self, path, method, operation):
        content = operation["responses"]["200"]["content"]

        def answer(sent, _):
            if sent["target"].startswith("/downloads/") or "application/json" not in content or "format=" in sent["target"]:
                return 200, {}, b"a file"
            media = content["application/json"]
            example = media.get("example") or next(iter(media.get("examples", {}).values()))["value"]
            data = {**example["data"], "nextCursor": None, "more": False}
            if operation["operationId"] == "ingest-batch":
                data["results"] = [{**data["results"][0], "index": 0}]  # for one row
            return 200, {}, json.dumps({**example, "data": data}).encode()

        server = Server(answer)
        self.addCleanup(server.close)
        with Client(server.url.removesuffix("base/"), "k", retry=RetryPolicy(attempts=1)) as client:
            self.assertIn(operation["operationId"], OPERATIONS, "there is no method for it")
            self.assertIsNotNone(OPERATIONS[operation["operationId"]](client))
        pattern = re.sub(r"\{[^}]+\}", "[^/]+", path)
        allowed = {p["name"] for p in operation.get("parameters", []) if p["in"] == "query"}
        for sent in server.sent:
            at = urllib.parse.urlsplit(sent["target"])
            if at.path.startswith("/downloads/"):
                continue
            self.assertRegex(at.path, f"^{pattern}$")
            self.assertEqual(sent["method"], method.upper())
            self.assertLessEqual(urllib.parse.parse_qs(at.query).keys(), allowed)
            body = operation.get("requestBody", {})
            kind = sent["headers"]["Content-Type"]
            if operation["operationId"] == "ingest-batch":
                self.assertEqual(kind, "application/x-ndjson")  # which its description has
                continue
            self.assertTrue(kind in body.get("content", {}) if kind else not body.get("required"), f"the body is {kind}")
        self.assertTrue(server.sent)

    def test_readme(self):
        """The snippets of the README."""
        snippets = re.findall(r"^```python\n(.*?)^```$", (FOLDER / "README.md").read_text(), re.M | re.S)
        self.assertGreaterEqual(len(snippets), 4)
        plays = tempfile.TemporaryDirectory()
        self.addCleanup(plays.cleanup)
        env = {
            **os.environ, "PLAYS": str(Path(plays.name) / "plays"), "PYTHONPATH": str(FOLDER), "MUNIMENT_URL": URL, "MUNIMENT_API_KEY": os.environ["KEY"], "RIGHT_ID": json.loads(os.environ["RIGHTS"])["DOOH"],
            "ROOT_KEY": self.root, "WEBHOOK_SECRET": "whsec_c2VjcmV0",
        }
        for snippet in snippets:
            with self.subTest(snippet.splitlines()[0]):
                ended = subprocess.run([sys.executable, "-c", snippet], env=env, capture_output=True, text=True, timeout=60, check=False)
                self.assertEqual(ended.returncode, 0, ended.stderr)
                says = re.search(r"# prints: (.*)$", snippet, re.M)
                if says:
                    self.assertIn(says[1], ended.stdout)


if __name__ == "__main__":
    unittest.main()
