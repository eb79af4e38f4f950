#!/usr/bin/env python3
"""Verifies receipts, key directories and proof packs with nothing of Muniment.

    verify.py --root root.vkey FILE...         the files are verified together
    verify.py --root root.vkey < SETS          each line is such a set, parted by tabs

Written from the manual alone, the package comment in ../doc.go, and in its order.
The root key is all that is trusted. Prints "ok FILE" or "bad FILE CODE", the code
being that of the first check that failed; the exit status is 1 if any file is bad.
"""
import argparse, base64, datetime, hashlib, json, math, re, sys
from collections import defaultdict
from decimal import Decimal
from itertools import combinations

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


class Bad(Exception):
    """A check that failed. Its text is a verdict code of the manual."""


def need(ok, code="format.invalid"):
    if not ok:
        raise Bad(code)


# --- Spelling: RFC 8785, times, base64, ids -------------------------------------


def number(x):
    """A number as ECMAScript writes it: the digits are Python's, but the point moves."""
    shortest = repr(float(x))
    if x == 0:
        return "0"
    if 1e-6 <= abs(x) < 1e21:
        return f"{Decimal(shortest):f}".removesuffix(".0")
    digits, exponent = shortest.split("e")  # "inf" and "nan" have none and are refused
    return f"{digits}e{int(exponent):+d}"


def canonical(v):
    """A JSON value in RFC 8785 form."""
    if isinstance(v, dict):
        names = sorted(v, key=lambda name: name.encode("utf-16-be"))
        return "{" + ",".join(canonical(n) + ":" + canonical(v[n]) for n in names) + "}"
    if isinstance(v, list):
        return "[" + ",".join(map(canonical, v)) + "]"
    if type(v) in (int, float):
        return number(v)
    return json.dumps(v, ensure_ascii=False)


def parse(text):
    """The value of a text in canonical form. Whatever a lenient parser would forgive
    or drop, such as a member that is there twice, comes out differently again."""
    try:
        value = json.loads(text.decode())
        same = canonical(value).encode() == text
    except (Bad, ValueError, ArithmeticError, RecursionError):
        same = False
    need(same)
    return value


def millis(time):
    t = datetime.datetime.fromisoformat(time.replace("Z", "+00:00"))
    need(t.isoformat(timespec="milliseconds").replace("+00:00", "Z") == time)
    return (t - datetime.datetime.fromtimestamp(0, datetime.timezone.utc)) // datetime.timedelta(milliseconds=1)


def decode(s, size=None):
    """Bytes of base64url without padding, in its one spelling."""
    b = base64.urlsafe_b64decode(s + "=" * (-len(s) % 4))
    need(base64.urlsafe_b64encode(b).rstrip(b"=") == s.encode() and size in (None, len(b)))
    return b


def decode_standard(s):
    b = base64.b64decode(s)
    need(base64.b64encode(b) == s.encode())
    return b


def ulid_millis(id, prefix):
    need(re.fullmatch(prefix + "_[0-7][0-9A-HJKMNP-TV-Z]{25}", id))
    n = 0
    for c in id[len(prefix) + 1 :][:10]:
        n = n * 32 + "0123456789ABCDEFGHJKMNPQRSTVWXYZ".index(c)
    return n


# --- Shapes: an object has exactly the members that are listed here ---------------


def fits(v, shape):
    if isinstance(shape, dict):
        return isinstance(v, dict) and v.keys() == shape.keys() and all(fits(v[k], shape[k]) for k in shape)
    if isinstance(shape, list):
        return isinstance(v, list) and all(fits(e, shape[0]) for e in v)
    if isinstance(shape, type):
        return type(v) is shape
    return shape(v) if callable(shape) else type(v) is type(shape) and v == shape


maybe = lambda shape: lambda v: v is None or fits(v, shape)
raw = lambda size: lambda v: isinstance(v, str) and len(decode(v, size)) == size
text = lambda v: isinstance(v, str) and v != ""
time = lambda v: isinstance(v, str) and millis(v) is not None
whole = lambda v: type(v) is int and 0 <= v <= 2**53
dwell = lambda v: type(v) in (int, float) and 0 <= v <= 2**36

HASH = raw(32)
REF = {"id": text, "kind": text}
SIGNATURE = {"algorithm": "ed25519", "keyId": text, "value": raw(64)}
RECEIPT = {
    "correlationId": maybe(str), "dwellMs": dwell, "issuedAt": time, "nonce": raw(16), "receiptId": text,
    "renderedAt": time, "spatialAnchorId": text, "spatialPlacementId": maybe(str), "version": "1", "witness": text,
}
EVENT = {
    "actor": REF, "at": time, "data": dict, "eventId": text, "privateCommitment": maybe(HASH),
    "subject": REF, "tenantId": text, "type": text, "v": 1,
}
DELIVERY = {
    "basisId": text, "gate": {"ruleset": HASH, "version": text},
    "metering": {"basis": text, "metered": bool, "quantityMs": whole, "reason": text, "reasons": [text]},
    "receipt": RECEIPT, "rightId": text, "rightRevision": whole, "signature": SIGNATURE, "substrate": text,
}
KEY = {
    "algorithm": "ed25519", "keyId": text, "notAfter": maybe(time), "notBefore": time,
    "publicKey": raw(32), "purpose": text, "revokedAt": maybe(time),
}
DIRECTORY = {"delegation": text, "issuedAt": time, "keys": [KEY], "signature": SIGNATURE, "snapshotId": text}
ROW = {
    "basisId": text, "meteringBasis": text, "quantityMs": whole, "reason": text,
    "receipts": whole, "rightId": text, "substrate": text,
}
HEADER = {
    "checkpoint": text, "consistency": [HASH], "count": whole, "directory": DIRECTORY,
    "duplicates": [{"first": whole, "leaf": whole}], "firstIndex": whole, "metering": [ROW], "packId": text,
    "previous": maybe({"packId": text, "rootHash": HASH, "treeSize": whole}), "rootHash": HASH, "sealedAt": time,
    "settlement": lambda v: v == [], "signingKeyId": text, "tenantId": text, "treeSize": whole, "v": 1,
}


# --- Signatures, notes and keys ---------------------------------------------------


def check_signature(public, signature, message, code="signature.invalid"):
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except InvalidSignature:
        raise Bad(code) from None


def key_hash(name, kind, public):
    return hashlib.sha256(name.encode() + b"\n" + kind + public).digest()[:4]


def open_note(note, code):
    """The text of a C2SP signed note, and its signatures: names and bytes."""
    said, _, signatures = note.rpartition("\n\n")
    need(re.fullmatch(r"(— [^ \n+]+ [^ \n]+\n)+", signatures), code)
    lines = [line.split(" ") for line in signatures.splitlines()]
    return said + "\n", [(name, decode_standard(signature)) for _, name, signature in lines]


def check_note(said, signature, name, public, code):
    """One signature of a note, which has to be by this key under this name."""
    signer, value = signature
    need(signer == name and value[:4] == key_hash(name, b"\1", public), code)
    check_signature(public, value[4:], said.encode(), code)


def check_checkpoint(note, tenant, public, code="checkpoint.mismatch"):
    """Size, root and second of sealing of a checkpoint that the key has signed twice."""
    said, signatures = open_note(note, code)
    need(len(signatures) >= 2, code)
    check_note(said, signatures[0], f"muniment/{tenant}", public, code)
    signer, value = signatures[1]
    seconds = int.from_bytes(value[4:12], "big")
    need(signer == "muniment/sealed" and value[:4] == key_hash(signer, b"\4", public), code)
    check_signature(public, value[12:], f"cosignature/v1\ntime {seconds}\n{said}".encode(), code)
    origin, size, root = said.splitlines()
    need(said == f"muniment/{tenant}\n{int(size)}\n{root}\n", code)
    return int(size), decode_standard(root), seconds


def root_key(vkey):
    name, hash, key = vkey.strip().split("+", 2)
    key = decode_standard(key)
    need(len(key) == 33 and key[0] == 1 and key_hash(name, b"\1", key[1:]).hex() == hash)
    return name, key[1:]


def covers(not_before, not_after, moment):
    """Times are all of one width, so that their texts compare as they do."""
    return not_before <= moment and (not_after is None or moment < not_after)


def check_directory(directory, root):
    """The keys by id of a directory that is signed under the root key."""
    code, issued, signature = "directory.invalid", directory["issuedAt"], directory["signature"]
    keys = {key["keyId"]: key for key in directory["keys"]}
    need(len(keys) == len(directory["keys"]), code)
    for id, key in keys.items():
        need(id == hashlib.sha256(decode(key["publicKey"])).hexdigest()[:32], code)
    key = keys.get(signature["keyId"])
    need(key and key["purpose"] == "directory_signing" and key["revokedAt"] is None, code)
    need(covers(key["notBefore"], key["notAfter"], issued), code)
    said, signatures = open_note(directory["delegation"], code)
    check_note(said, signatures[0], *root, code)
    lines = said.split("\n")
    need(len(lines) == 6 and lines[:3] == ["muniment/directory-key.v1", key["keyId"], key["publicKey"]], code)
    not_before, not_after = lines[3], None if lines[4] == "-" else lines[4]
    need(time(not_before) and (not_after is None or time(not_after)), code)
    need(covers(not_before, not_after, issued), code)
    unsigned = canonical({k: v for k, v in directory.items() if k != "signature"})
    check_signature(decode(key["publicKey"]), decode(signature["value"]), unsigned.encode(), code)
    return keys


def signing_key(keys, id, purposes, moment, proven=None):
    """The public key, if it may sign at moment. If it is revoked, only what was there
    before does, as something else proves: at the time proven."""
    key = keys.get(id)
    need(key, "key.unknown")
    need(key["purpose"] in purposes, "key.purpose")
    need(covers(key["notBefore"], key["notAfter"], moment), "key.outside_window")
    need(key["revokedAt"] is None or (proven and max(moment, proven) < key["revokedAt"]), "key.revoked")
    return decode(key["publicKey"])


# --- Receipts and deliveries --------------------------------------------------------


def check_receipt(receipt, signature, keys, purposes, proven=None):
    need(fits(receipt, RECEIPT) and fits(signature, SIGNATURE))
    need(ulid_millis(receipt["receiptId"], "rcp") == millis(receipt["issuedAt"]))
    need(receipt["renderedAt"] <= receipt["issuedAt"])
    need(re.fullmatch(r"edge:.+:[\w-]{43}", receipt["witness"], re.ASCII | re.DOTALL))
    public = signing_key(keys, signature["keyId"], purposes, receipt["issuedAt"], proven)
    check_signature(public, decode(signature["value"]), canonical(receipt).encode())


def check_event(line):
    try:
        event = parse(line)
        need(fits(event, EVENT) and ulid_millis(event["eventId"], "evt") == millis(event["at"]))
        data, delivery = event["data"], event["type"] == "delivery.recorded"
        need(not delivery or fits(data, DELIVERY) or fits(data, DELIVERY | {"idempotency": HASH}))
    except (Bad, ValueError):
        raise Bad("entry.altered") from None
    return event


def check_delivery(event, keys, purpose, proven):
    code, data = "entry.altered", event["data"]
    receipt, metering = data["receipt"], data["metering"]
    rest = {k: v for k, v in data.items() if k not in ("receipt", "signature")}
    knot = hashlib.sha256(canonical(event | {"data": rest}).encode()).digest()
    need(decode(receipt["witness"].rpartition(":")[2]) == knot, "witness.mismatch")
    check_receipt(receipt, data["signature"], keys, [purpose], proven)
    need(event["subject"] == {"id": data["rightId"], "kind": "right"}, code)
    need(event["at"] == receipt["issuedAt"] and event["eventId"][4:] == receipt["receiptId"][4:], code)
    metered = metering["metered"]
    need(metering["quantityMs"] == (math.floor(receipt["dwellMs"]) if metered else 0), code)
    need(metered == (metering["reason"] == "METERED") == (metering["reasons"] == []), code)
    need(metered or metering["reasons"][0] == metering["reason"], code)


# --- The Merkle log -------------------------------------------------------------------


def node(left, right):
    return hashlib.sha256(b"\1" + left + right).digest()


def half(n):
    """The largest power of two below n, where RFC 6962 parts n leaves."""
    return 1 << (n - 1).bit_length() - 1


def tree(leaves):
    if len(leaves) == 1:
        return leaves[0]
    return node(tree(leaves[: half(len(leaves))]), tree(leaves[half(len(leaves)) :]))


def extend(old_size, size, old_root, proof, leaves=None):
    """Walks down an RFC 6962 consistency proof. Returns three roots: the old and the new
    one that it leads to, and what the old nodes in it make with the new leaves themselves."""
    proof = iter(proof)

    def walk(low, high, whole):
        if high == old_size:
            root = old_root if whole else next(proof)
            return root, root, root
        middle = low + half(high - low)
        if old_size <= middle:
            old, new, made = walk(low, middle, whole)
            right = next(proof)
            own = tree(leaves[middle - old_size : high - old_size]) if leaves else right
            return old, node(new, right), node(made, own)
        old, new, made = walk(middle, high, False)
        left = next(proof)
        return node(left, old), node(left, new), node(left, made)

    try:
        roots = walk(0, size, True)
    except StopIteration:
        raise Bad("consistency.mismatch") from None
    need(next(proof, None) is None, "consistency.mismatch")
    return roots


# --- Packs ------------------------------------------------------------------------------

PURPOSES = {"proof_pack_signing": "receipt_signing", "sandbox_proof_signing": "sandbox_proof_signing"}
DAY = 24 * 3600 * 1000


class Pack:
    def __init__(self, content):
        if content.startswith(b'{"entries":'):
            pack = parse(content)
            need(fits(pack, {"entries": [text], "header": HEADER, "signature": SIGNATURE}))
            self.header, self.lines = pack["header"], [entry.encode() for entry in pack["entries"]]
        else:
            head, *self.lines, last, end = content.split(b"\n")
            self.header, pack = parse(head), parse(last)
            need(fits(self.header, HEADER) and fits(pack, {"signature": SIGNATURE}) and end == b"")
        h, self.signature = self.header, pack["signature"]
        self.tenant, self.first, self.end, self.previous = h["tenantId"], h["firstIndex"], h["treeSize"], h["previous"]
        need(self.end == self.first + h["count"] and 1 <= h["count"] <= 100_000 and len(self.lines) <= h["count"])
        need(all(len(line) <= 2**20 for line in self.lines))
        need(self.previous["treeSize"] == self.first > 0 if self.previous else self.first == 0)
        need(self.signature["keyId"] == h["signingKeyId"])
        self.events = []
        self.revoked = False  # its key is, but after sealedAt: the next pack has to vouch for it

    def follows(self, p):
        name = {k: p.header[k] for k in ("packId", "rootHash", "treeSize")}
        return self.tenant == p.tenant and self.previous == name

    def check(self, keys):
        """Checks all that the pack says by itself, but for duplicates and totals."""
        h, sealed, root = self.header, self.header["sealedAt"], decode(self.header["rootHash"])
        public = signing_key(keys, h["signingKeyId"], PURPOSES, sealed, sealed)
        key = keys[h["signingKeyId"]]
        self.revoked = key["revokedAt"] is not None
        check_signature(public, decode(self.signature["value"]), canonical(h).encode())

        point = self.end, root, millis(sealed) // 1000
        need(check_checkpoint(h["checkpoint"], self.tenant, public) == point, "checkpoint.mismatch")

        for line in self.lines:
            event = check_event(line)
            if event["type"] == "delivery.recorded":
                check_delivery(event, keys, PURPOSES[key["purpose"]], sealed)
            need(event["tenantId"] == self.tenant, "tenant.mismatch")
            self.events.append(event)
        need(len(self.events) == h["count"], "count.mismatch")

        leaves = [hashlib.sha256(b"\0" + line).digest() for line in self.lines]
        proof = [decode(hash) for hash in h["consistency"]]
        if self.previous:
            before = decode(self.previous["rootHash"])
            old, new, made = extend(self.first, self.end, before, proof, leaves)
            need(old == before and new == root, "consistency.mismatch")
        else:
            need(proof == [], "consistency.mismatch")
            made = tree(leaves)
        need(made == root, "root.mismatch")

    def check_totals(self, log):
        """Checks event ids, duplicates and totals, in the light of the packs before."""
        listed = {d["leaf"]: d["first"] for d in self.header["duplicates"]}
        need(self.header["duplicates"] == [{"first": listed[l], "leaf": l} for l in sorted(listed)], "duplicates.mismatch")
        rows = defaultdict(lambda: [0, 0])
        for leaf, event in enumerate(self.events, self.first):
            need(log.ids.setdefault(event["eventId"], leaf) == leaf, "entry.repeated")
            if event["type"] != "delivery.recorded":
                continue
            data, first = event["data"], None
            if "idempotency" in data:
                at, same = millis(event["at"]), log.deliveries[data["idempotency"]]
                same[leaf] = at
                first = min((l for l in same if l < leaf and at - same[l] <= DAY), default=None)
                claimed = listed.get(leaf)
                if claimed is not None and claimed < self.first and claimed not in log:
                    first = claimed if first is None else min(first, claimed)  # can't be told
            need(listed.pop(leaf, None) == first, "duplicates.mismatch")
            basis, reason, quantity = (data["metering"][k] for k in ("basis", "reason", "quantityMs"))
            if first is not None:
                basis, reason, quantity = "none", "DUPLICATE", 0
            row = rows[data["rightId"], data["substrate"], data["basisId"], basis, reason]
            row[:] = row[0] + 1, row[1] + quantity
        need(not listed, "duplicates.mismatch")
        names = ("rightId", "substrate", "basisId", "meteringBasis", "reason")
        totals = sorted(rows.items(), key=lambda row: [name.encode() for name in row[0]])
        want = [dict(zip(names, row), receipts=n, quantityMs=ms) for row, (n, ms) in totals]
        need(self.header["metering"] == want, "metering.mismatch")


class Log:
    """What the packs at hand tell of one tenant's log."""

    def __init__(self):
        self.ranges = []
        self.ids = {}  # leaf by event id
        self.deliveries = defaultdict(dict)  # moment by leaf, by idempotency hash

    def __contains__(self, leaf):
        return any(leaf in r for r in self.ranges)


# --- Files that are verified together ------------------------------------------------------


class File:
    """What a file holds, and the code of what is wrong with it."""

    def __init__(self, name):
        self.name, self.code = name, None
        self.holds = self.attempt(read, name)

    def attempt(self, check, *args):
        if self.code is None:
            try:
                return check(*args)
            except Bad as bad:
                self.code = str(bad)
            except OSError:
                self.code = "input.unreadable"
            except (ValueError, ArithmeticError, RecursionError):
                self.code = "format.invalid"


def unique(members):
    need(len(dict(members)) == len(members))
    return dict(members)


def read(name):
    """A Pack, a directory as a dict, or a receipt and its signature as a tuple."""
    with open(name, "rb") as f:
        content = f.read()
    if content.startswith((b'{"checkpoint":', b'{"entries":')):
        return Pack(content)
    if content.startswith(b'{"delegation":'):
        directory = parse(content)
        need(fits(directory, DIRECTORY))
        return directory
    answer = json.loads(content.decode(), object_pairs_hook=unique)
    need(isinstance(answer, dict))
    answer = answer.get("data") or answer
    need(isinstance(answer, dict) and fits(answer.get("receipt"), RECEIPT))
    return answer["receipt"], answer.get("signature")


def verify(names, root):
    files = [File(name) for name in names]
    packs = sorted((f for f in files if isinstance(f.holds, Pack)), key=lambda f: (f.holds.first, f.holds.end))

    newest, keys = "", {}
    for f in files:
        if isinstance(f.holds, (Pack, dict)):
            directory = f.holds.header["directory"] if isinstance(f.holds, Pack) else f.holds
            listed = f.attempt(check_directory, directory, root)
            if listed and directory["issuedAt"] > newest:
                newest, keys = directory["issuedAt"], listed

    for f in packs:
        f.attempt(f.holds.check, keys)

    for f, g in list(combinations([f for f in packs if f.code is None], 2)):
        p, q = f.holds, g.holds
        if p.tenant == q.tenant and p.header != q.header:
            if q.first < p.end:
                f.code = g.code = "chain.fork"
            elif q.first == p.end and not q.follows(p):
                g.code = "consistency.mismatch"

    logs = defaultdict(Log)
    for f in packs:
        log = logs[f.holds.tenant]
        f.attempt(f.holds.check_totals, log)
        if f.code is None:
            log.ranges.append(range(f.holds.first, f.holds.end))

    for f in reversed(packs):
        if f.holds.revoked and not any(g.code is None and g.holds.follows(f.holds) for g in packs):
            f.code = f.code or "key.revoked"

    for f in files:
        if isinstance(f.holds, tuple):
            f.attempt(check_alone, *f.holds, keys, packs)
    return files


def check_alone(receipt, signature, keys, packs):
    """A receipt by itself, or with a pack that has it."""
    proven = None
    for f in packs:
        for line in f.holds.lines if f.code else []:
            need(f'"receipt":{canonical(receipt)}'.encode() not in line, "inclusion.mismatch")
        for data in (event["data"] for event in f.holds.events if event["type"] == "delivery.recorded"):
            if data["receipt"]["receiptId"] == receipt["receiptId"]:
                need(data["receipt"] == receipt and data["signature"] == signature, "entry.altered")
                proven = f.holds.header["sealedAt"]
    check_receipt(receipt, signature, keys, PURPOSES.values(), proven)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--root", required=True, help="a file with the root key, a C2SP vkey")
    options.add_argument("--json", action="store_true", help="print an object a file")
    options.add_argument("files", nargs="*", metavar="FILE")
    options = options.parse_args()
    with open(options.root, encoding="utf-8") as f:
        root = root_key(f.read())
    sets = [options.files] if options.files else (line.rstrip("\n").split("\t") for line in sys.stdin)
    bad = False
    for f in (f for names in sets for f in verify(names, root)):
        bad = bad or f.code is not None
        if options.json:
            print(json.dumps({"file": f.name, "ok": f.code is None, "code": f.code}))
        else:
            print(f"bad {f.name} {f.code}" if f.code else f"ok {f.name}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
