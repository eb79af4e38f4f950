"""Verification, by the vectors of sealer/testdata and those of the Go client."""
import base64
import hashlib
import json
import re
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from muniment_client import Trust, VerifyError, WebhookError, verify_proof, verify_receipt, verify_webhook  # noqa: E402
from muniment_client.canonical import canonical, parse_canonical  # noqa: E402

TESTDATA = Path(__file__).parents[4] / "sealer" / "testdata"
ROOT = (TESTDATA / "root.vkey").read_text()
HOOKS = json.loads((Path(__file__).parents[2] / "testdata" / "webhooks.json").read_text())


def read(name):
    return (TESTDATA / name).read_text()


def subjects():
    """Of each case that is about one receipt or proof: its name, what verifies it, file, keys and verdicts."""
    for case in json.loads(read("vectors.json")):
        keys = case.get("keys") or next((name for name in case["files"] if re.search(r"(^|/)keys[\w-]*\.json$", name)), None)
        files = [name for name in case["files"] if name != keys]
        if keys is None or len(files) != 1:
            continue
        verify = None
        if "/receipt" in files[0]:
            verify = verify_receipt
        elif re.search(r"/proof(?!-event|-receipt)[\w-]*\.json$", files[0]):
            verify = verify_proof
        if verify:
            codes = (case.get("failures") or [None] * len(case["files"]))[case["files"].index(files[0])]
            yield case["name"], verify, files[0], keys, codes or []


class Vectors(unittest.TestCase):
    def refused(self, code, call, *args, **named):
        with self.assertRaises(VerifyError) as raised:
            call(*args, **named)
        self.assertEqual(raised.exception.code, code, raised.exception)

    def test_receipts_and_proofs(self):
        count = 0
        for name, verify, file, keys, codes in subjects():
            count += 1
            with self.subTest(name):
                trust = Trust(ROOT, read(keys))
                if codes:
                    self.refused(codes[0], verify, read(file), trust)
                else:
                    self.assertTrue(verify(read(file), trust).receipt["receiptId"])
        self.assertGreaterEqual(count, 30)

    def test_proof_of_an_event_that_is_no_delivery(self):
        event = read("good/proof-event.json").strip()
        text = '{"event":%s,"proof":%s}' % (event, json.dumps(read("good/proof.tlog-proof"), ensure_ascii=False))
        proven = verify_proof(text, Trust(ROOT, read("good/proof-keys.json")))
        self.assertIsNone(proven.receipt)
        self.assertEqual(proven.event, json.loads(event))

    def test_directories(self):
        for name in ("delegation-open", "delegation-over", "delegation-backwards", "keys-weak-key", "keys-unreduced-key"):
            with self.subTest(name):
                self.refused("directory.invalid", Trust, ROOT, read(f"bad/{name}.json"))
        for name in ("keys", "keys-with-revocation", "keys-of-the-successor", "proof-keys"):
            Trust(ROOT, read(f"good/{name}.json").encode())
        Trust(None, read("good/keys.json"))
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        key = b"\1" + Ed25519PrivateKey.generate().public_key().public_bytes_raw()
        stranger = f"root.example+{hashlib.sha256(b'root.example' + bytes([10]) + key).hexdigest()[:8]}+{base64.b64encode(key).decode()}"
        for root in (stranger, "root.example", ""):
            self.refused("directory.invalid", Trust, root, read("good/keys.json"))
        self.refused("directory.invalid", Trust, ROOT, b"\xff")

    def test_every_altered_character_is_found(self):
        receipt = json.loads(read("good/receipt.json"))["data"]
        plain = json.dumps({"receipt": receipt["receipt"], "signature": receipt["signature"]})
        proof = read("good/proof-data.json").strip()
        for verify, text, keys in ((verify_receipt, plain, "keys"), (verify_proof, proof, "proof-keys")):
            trust = Trust(ROOT, read(f"good/{keys}.json"))
            verify(text, trust)
            for at in range(0, len(text), 1 if verify is verify_receipt else 3):
                other = text[:at] + ("8" if text[at] == "7" else "7") + text[at + 1 :]
                with self.assertRaises(VerifyError, msg=f"character {at}"):
                    verify(other, trust)

    def test_windows(self):
        """A key signs within its window, and within the delegation of its directory."""
        trust = Trust(ROOT, read("good/keys.json"))
        key_id = json.loads(read("good/receipt.json"))["data"]["signature"]["keyId"]
        end = 1840795200000  # of the delegation, 2028-05-01T12:00:00Z
        trust.find(key_id, "receipt_signing", end - 1)
        self.refused("key.outside_window", trust.find, key_id, "receipt_signing", end)
        self.refused("key.outside_window", trust.find, key_id, "receipt_signing", 1777636799000)

    def test_a_member_twice(self):
        trust = Trust(ROOT, read("good/keys.json"))
        data = json.loads(read("good/receipt.json"))["data"]
        text = json.dumps({"receipt": data["receipt"], "signature": data["signature"]})
        verify_receipt(text, trust)
        for old, new in (("{", '{"receipt":{},'), ('"nonce":', '"nonce":"","nonce":'), ('"nonce":', '"n\\u006fnce":"","nonce" :')):
            self.refused("format.invalid", verify_receipt, text.replace(old, new, 1), trust)

    def test_what_is_no_answer(self):
        trust = Trust(ROOT, read("good/keys.json"))
        deep = "[" * 100_000 + "]" * 100_000
        texts = ("", "null", "[]", "{}", '{"receipt":1,"signature":2}', '{"ok":false,"error":"X"}', b"\xff", '{"a":1,"a":2}', '{"receipt":{"dwellMs":1e999},"signature":{}}',
                 '{"receipt":{"a":"\\ud800"},"signature":{}}', '{"receipt":%s,"signature":{}}' % deep, '{"event":{"a":%s},"proof":""}' % deep)
        for text in texts:
            for verify in (verify_receipt, verify_proof):
                with self.subTest(text[:40], verify=verify.__name__):
                    self.refused("format.invalid", verify, text, trust)

    def test_rfc_8785(self):
        self.assertEqual(
            canonical({"é": 1, "a": [1e21, 0.000001, -0.0, 4.50, 1e-7, 123456789012345680000, 1.5e300], "\U0001f600": None, "\ufb33": '\u2028"\\\x07'}),
            '{"a":[1e+21,0.000001,0,4.5,1e-7,123456789012345680000,1.5e+300],"é":1,"\U0001f600":null,"\ufb33":"\u2028\\"\\\\\\u0007"}',
        )
        for other in ('{"b":1,"a":2}', '{"a":1,"a":1}', '{ "a":1}', "1.0", "-0", '"\\u0041"', '"\\/"', '"\\ud800"', "9007199254740993", "[1,]", "", "NaN"):
            with self.subTest(other), self.assertRaises(VerifyError):
                parse_canonical(other)

    def test_webhooks(self):
        for case in HOOKS["cases"]:
            with self.subTest(case["name"]):
                trust = Trust(HOOKS["root"], HOOKS["directory"]) if case["trust"] else None
                headers = {name.title(): value for name, value in case["header"].items()}

                def verify():
                    return verify_webhook(headers, case["body"].encode(), secrets=case["secrets"], trust=trust, webhook_id=case["webhookId"] or None, now=case["now"])

                if case["says"]:
                    with self.assertRaisesRegex(ValueError if case["wrongKeys"] else WebhookError, re.escape(case["says"])):
                        verify()
                    continue
                message = verify()
                self.assertEqual((message.id, message.type, message.webhook_id, message.events), ("dlv_1", "right.revoked", "whk_1", [{"v": 1}]))


if __name__ == "__main__":
    unittest.main()
