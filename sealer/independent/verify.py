#!/usr/bin/env python3
"""Verifies what Muniment hands out, with nothing of Muniment.

    verify.py --root root.vkey FILE...         the files are verified together
    verify.py --keys keys.json FILE...         so are they, without a root key
    verify.py --root root.vkey < SETS          each line is such a set, parted by tabs

Receipts, key directories, proof packs, inclusion and consistency proofs, checkpoints,
audit exports, statements, certificates of erasure and bundles of personal data. Written from the manual alone, the package
comments in ../doc.go, of stops ../verify/doc.go, and of bundles ../dsar/bundle.go, and in its order. The root key, or the list of keys, is all that is trusted. Prints
"ok FILE", with " sandbox" behind if a key of the sandbox has signed it, and the codes of
what no other file proves; "bad FILE CODE", the code being that of the first check that
failed; or "open FILE CODE" if it can't be judged, as something is missing. The exit status is
0 if all is sound, 1 if something is not, and else 2.
"""
import argparse, base64, bisect, datetime, hashlib, io, json, math, re, struct, sys, zlib
from array import array
from collections import defaultdict, namedtuple
from decimal import Decimal
from itertools import combinations

import settle
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


class Bad(Exception):
    """A check that failed. Its text is a verdict code of the manual."""


def need(ok, code="format.invalid"):
    if not ok:
        raise Bad(code)


# Codes of what can't be judged, as something is missing. All others are of what is not sound.
UNJUDGED = {
    "input.unreadable", "format.unknown", "format.release", "key.unknown", "key.revoked", "directory.foreign", "directory.expired", "directory.revoked",
    "event.missing", "inclusion.unproven", "consistency.unproven", "statement.unproven",
}


# What to do about a code that can't be judged, where no further file helps.
NEXT = {"format.release": "run muniment-verify --root RELEASE_KEY SHA256SUMS.note in the folder of the release, with the key of whoever made it"}


def verdict(codes):
    """What codes make of a file, or of all; None is of what is sound."""
    return "unsound" if set(codes) - UNJUDGED - {None} else "unjudged" if set(codes) & UNJUDGED else "sound"


class Open:
    """What can't be judged is raised only when nothing is found that is not sound."""

    def __init__(self):
        self.bad = None

    def attempt(self, check, *args):
        try:
            return check(*args)
        except Bad as bad:
            if str(bad) not in UNJUDGED:
                raise
            self.bad = self.bad or bad

    def close(self):
        if self.bad:
            raise self.bad


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
    need(time.endswith("Z"))
    t = datetime.datetime.fromisoformat(time[:-1] + "+00:00")
    n = (t - datetime.datetime.fromtimestamp(0, datetime.timezone.utc)) // datetime.timedelta(milliseconds=1)
    need(spell(n) == time)
    return n


def spell(millis):
    t = datetime.datetime.fromtimestamp(0, datetime.timezone.utc) + datetime.timedelta(milliseconds=millis)
    return t.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def day(v):
    """Whether it is a day of the years 1 to 9999, in its one spelling."""
    return isinstance(v, str) and datetime.date.fromisoformat(v).isoformat() == v


ONE = 10_000  # impressions are counted in ten-thousandths


def impressions(v):
    """Ten-thousandths of a decimal in its one spelling; None if it is none."""
    m = re.fullmatch(r"(0|[1-9][0-9]*)(?:\.([0-9]{0,3}[1-9]))?", v) if isinstance(v, str) else None
    return int(m[1] + (m[2] or "").ljust(4, "0")) if m else None


def encode(b):
    return base64.urlsafe_b64encode(b).rstrip(b"=").decode()


def decode(s):
    """Bytes of base64url without padding, in its one spelling."""
    b = base64.urlsafe_b64decode(s + "=" * (-len(s) % 4))
    need(encode(b) == s)
    return b


def decode_standard(s):
    b = base64.b64decode(s)
    need(base64.b64encode(b) == s.encode())
    return b


def is_id(id, prefix):
    return isinstance(id, str) and re.fullmatch(prefix + "_[0-7][0-9A-HJKMNP-TV-Z]{25}", id) is not None


def ulid_millis(id, prefix):
    need(is_id(id, prefix))
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
raw = lambda size: lambda v: isinstance(v, str) and len(decode(v)) == size
text = lambda v: isinstance(v, str) and v != ""
time = lambda v: isinstance(v, str) and millis(v) is not None
whole = lambda v: type(v) is int and 0 <= v <= 2**53
pack_id = lambda v: is_id(v, "ppk")
tenant_id = lambda v: is_id(v, "tnt") or v == "tnt_system"
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
COMPLETIONS = ("none", "started", "first_quartile", "midpoint", "third_quartile", "complete")
METERING = {
    "basis": text, "completion": lambda v: v in COMPLETIONS, "impressions": lambda v: (n := impressions(v)) is not None and n <= 10_000 * ONE,
    "metered": bool, "quantityMs": whole, "reason": text, "reasons": [text],
}
DELIVERY = {
    "basisId": text, "gate": {"ruleset": HASH, "version": text}, "metering": METERING, "receipt": RECEIPT,
    "rightId": text, "rightRevision": whole, "signature": SIGNATURE, "substrate": text,
}
OPTIONAL = {  # what a delivery may have beside that
    "idempotency": HASH, "identity": lambda v: fits(v, {"hash": HASH}) or fits(v, {"day": day, "hash": HASH}),
}
KEY = {
    "algorithm": "ed25519", "keyId": text, "notAfter": maybe(time), "notBefore": time,
    "publicKey": raw(32), "purpose": text, "revokedAt": maybe(time),
}
ANSWERED_KEY = ("keyId", "algorithm", "publicKey", "notBefore", "notAfter", "revokedAt", "purpose")  # in this order
DIRECTORY = {"delegation": text, "issuedAt": time, "keys": [KEY], "signature": SIGNATURE, "snapshotId": text}
made = lambda v: (n := impressions(v)) is not None and n < 2**63
ROW = {
    "basisId": text, "impressions": made, "meteringBasis": text, "quantityMs": whole, "reason": text, "receipts": whole, "rightId": text, "substrate": text,
}
RULE = {
    "cap": maybe(text), "createdAt": time, "currency": lambda v: isinstance(v, str) and re.fullmatch("[A-Z]{3}", v) is not None,
    "effectiveFrom": time, "effectiveUntil": maybe(time), "id": text,
    "match": {
        **{name: maybe(text) for name in ("basisId", "campaign", "completion", "meteringBasis", "rightId", "substrate")},
        "label": maybe({"name": text, "value": str}),
    },
    "minimum": maybe(text), "price": text, "priority": lambda v: whole(v) and v <= 1_000_000, "revision": whole,
    "shares": [{"bps": lambda v: whole(v) and 1 <= v <= 10_000, "counterpartyId": text}],
    "state": lambda v: v in ("ACTIVE", "RETIRED"),
    "tiers": [{"above": lambda v: whole(v) and 1 <= v <= 2**53, "price": text}], "tiersMode": maybe(lambda v: v in ("GRADUATED", "VOLUME")),
    "timeZone": lambda v: text(v) and len(v.encode()) <= 64, "unit": lambda v: v in ("EVENT", "MS", "SECOND", "IMPRESSION", "CPM"),
    "updatedAt": time,
}
SETTLEMENT = {
    "lines": [{
        "amount": text, "impressions": made, "meteringBasis": text, "quantityMs": whole, "receipts": whole, "rightId": text,
        "ruleId": text, "shares": [text],
    }],
    "rules": lambda v: fits(v, [{"leaf": whole, "rule": dict}]) and v != [],
    "unrated": [{
        "impressions": made, "meteringBasis": text, "quantityMs": whole, "reason": text, "receipts": whole, "rightId": text,
    }],
}
HEADER = {
    "checkpoint": text, "consistency": [HASH], "count": whole, "directory": DIRECTORY,
    "duplicates": [{"first": whole, "leaf": whole}], "firstIndex": whole, "metering": [ROW], "packId": pack_id,
    "previous": maybe({"headerHash": HASH, "packId": pack_id, "rootHash": HASH, "treeSize": whole}),
    "rootHash": HASH, "sealedAt": time, "settlement": lambda v: fits(v, [SETTLEMENT]) and len(v) <= 1, "signingKeyId": text,
    "tenantId": tenant_id, "treeSize": whole, "v": 1,
}
EXPORT = {
    "after": [HASH], "before": [HASH], "checkpoints": [text], "count": whole, "directory": DIRECTORY,
    "firstIndex": whole, "tenantId": tenant_id, "v": 1,
}


# --- Signatures, notes and keys ---------------------------------------------------


def check_signature(public, signature, message):
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except InvalidSignature:
        raise Bad("signature.invalid") from None


def key_hash(name, kind, public):
    return hashlib.sha256(name.encode() + b"\n" + kind + public).digest()[:4]


def open_note(note):
    """The text of a C2SP signed note, and its signatures: names and bytes."""
    said, _, signatures = note.rpartition("\n\n")
    need(re.fullmatch(r"(— [^\s\0-\x1f+]+ [^\s]+\n)+", signatures))
    lines = [line.split(" ") for line in signatures.removesuffix("\n").split("\n")]
    signed = [(name, decode_standard(signature)) for _, name, signature in lines]
    need(len({(name, value[:4]) for name, value in signed}) == len(signed) <= 100)
    need(all(len(value) > 4 for _, value in signed))
    return said + "\n", signed


def check_note(said, signature, name, public):
    """One signature of a note has to be by this key under this name."""
    signer, value = signature
    need(signer == name and value[:4] == key_hash(name, b"\1", public), "signature.invalid")
    check_signature(public, value[4:], said.encode())


def root_key(vkey):
    name, hash, key = vkey.strip().split("+", 2)
    key = decode_standard(key)
    need(len(key) == 33 and key[0] == 1 and sound_key(key[1:]) and key_hash(name, b"\1", key[1:]).hex() == hash)
    return name, key[1:]


PRIME = 2**255 - 19
EIGHTH = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
SMALL_ORDER = {0, 1, PRIME - 1, EIGHTH, PRIME - EIGHTH}


def sound_key(public):
    """Whether an Ed25519 public key is spelt canonically, and is none of the eight points of
    small order, whose y-coordinates these are: anybody can sign with such a key."""
    y = int.from_bytes(public, "little") & (1 << 255) - 1
    return y < PRIME and y not in SMALL_ORDER


SANDBOX = "sandbox_proof_signing"
PURPOSES = {"proof_pack_signing": "receipt_signing", SANDBOX: SANDBOX}


def covers(not_before, not_after, moment):
    """Times are all of one width, so that their texts compare as they do."""
    return not_before <= moment and (not_after is None or moment < not_after)


def by_id(listed):
    keys = {key["keyId"]: key for key in listed}
    need(len(keys) == len(listed))
    need(all(id == key_id(key) and sound_key(decode(key["publicKey"])) for id, key in keys.items()))
    return keys


def key_id(key):
    return hashlib.sha256(decode(key["publicKey"])).hexdigest()[:32]


class Keys(dict):
    """Keys by id. Those of a directory that the root has delegated to are all that there are."""

    rooted = False


def check_directory(directory, root):
    """The rank of a directory that is signed under the root key, and its keys by id. It
    lets none of them sign at or after the end of its own delegation. Without a root key
    it proves nothing, and only has to agree with itself."""
    try:
        issued, signature = directory["issuedAt"], directory["signature"]
        keys = by_id(directory["keys"])
        public = signing_key(keys, signature["keyId"], ["directory_signing"], issued)
        said, signatures = open_note(directory["delegation"])
        ours = not root or any((signer, value[:4]) == (root[0], key_hash(root[0], b"\1", root[1])) for signer, value in signatures)
        if root and ours:
            check_note(said, signatures[0], *root)
        title, id, key, not_before, not_after, end = said.split("\n")
        need((title, id, key, end) == ("muniment/directory-key.v1", signature["keyId"], keys[id]["publicKey"], ""))
        need(time(not_before) and time(not_after) and covers(not_before, not_after, issued))
        unsigned = canonical({k: v for k, v in directory.items() if k != "signature"})
        check_signature(public, decode(signature["value"]), unsigned.encode())
        within = Keys({id: key | {"notAfter": min(key["notAfter"] or not_after, not_after), "listed": key["notAfter"]} for id, key in keys.items()})
        within.rooted = bool(root)
    except (Bad, ValueError, KeyError):
        raise Bad("directory.invalid") from None
    need(ours, "directory.foreign")
    return (not_before, issued), within


def listed_keys(content):
    """The keys of a list that is trusted: a directory, {keys, issuedAt, snapshotId}, or the
    answer of the sandbox whose data that is. An error names its place."""
    if content.startswith(b'{"delegation":'):
        directory = parse(content.rstrip(b"\r\n"))
        need(fits(directory, DIRECTORY))
        return check_directory(directory, None)[1]
    listed, at = json.loads(content.decode(), object_pairs_hook=unique), ""
    if isinstance(listed, dict) and ("data" in listed or "ok" in listed):
        fit(listed, {"ok": True, "data": lambda _: True, "contractVersion": "ws30.v1"})
        listed, at = listed["data"], "/data"
    if isinstance(listed, dict) and set(listed) == {"issuedAt", "keys", "snapshotId"}:
        fit(listed["keys"], lambda keys: keys != [], at + "/keys")  # a service without keys has no snapshotId
    fit(listed, {"issuedAt": time, "keys": [KEY], "snapshotId": text}, at)
    keys = Keys()
    for i, key in enumerate(listed["keys"]):
        fit(key["publicKey"], lambda public: sound_key(decode(public)), f"{at}/keys/{i}/publicKey")
        fit(key["keyId"], lambda id: id == key_id(key) and id not in keys, f"{at}/keys/{i}/keyId")
        keys[key["keyId"]] = key
    return keys


def unique(members):
    seen = set()
    for name, _ in members:
        if name in seen:
            raise ValueError(f"{json.dumps(name)} is twice in one object")
        seen.add(name)
    return dict(members)


def fit(v, shape, at=""):
    """Requires that a value fits a shape, or else names where it does not, as a JSON pointer."""
    if isinstance(shape, dict) and isinstance(v, dict):
        for name in [n for n in shape if n not in v] + sorted(n for n in v if n not in shape):
            pointer = at + "/" + name.replace("~", "~0").replace("/", "~1")
            raise ValueError(json.dumps(pointer) + (": there is no such member" if name in v else ": it is missing"))
        for name in shape:
            fit(v[name], shape[name], f"{at}/{name}")
    elif isinstance(shape, list) and isinstance(v, list):
        for i, element in enumerate(v):
            fit(element, shape[0], f"{at}/{i}")
    else:
        try:
            ok = fits(v, shape) and (not isinstance(v, str) or v.encode() is not None)
        except (Bad, ValueError):
            ok = False
        if not ok:
            raise ValueError(json.dumps(at) + ": it must not be this")


def signing_key(keys, id, purposes, moment, proven=None):
    """The public key, if it may sign at moment. If it is revoked, only what was there
    before does, as something else proves: at the time proven."""
    key = keys.get(id)
    need(key, "key.unknown")
    need(key["purpose"] in purposes, "key.purpose")
    need(covers(key["notBefore"], key.get("listed", key["notAfter"]), moment), "key.outside_window")
    need(key["revokedAt"] is None or moment < key["revokedAt"], "key.outside_window")
    need(covers(key["notBefore"], key["notAfter"], moment), "directory.expired")
    need(key["revokedAt"] is None or (proven and proven < key["revokedAt"]), "key.revoked")
    return decode(key["publicKey"])


def own_key(keys, id, directory, *args):
    """The key of a file that brings a directory. If that lists the key, and the newer one that decides does
    not, they contradict each other."""
    need(id in keys or not keys.rooted or all(key["keyId"] != id for key in directory["keys"]), "key.mismatch")
    return signing_key(keys, id, *args)


# --- Receipts and deliveries --------------------------------------------------------


def check_receipt(receipt, signature, keys, purposes, proven=None):
    need(ulid_millis(receipt["receiptId"], "rcp") == millis(receipt["issuedAt"]))
    need(receipt["renderedAt"] <= receipt["issuedAt"])
    need(re.fullmatch(r"edge:.+:[\w-]{43}", receipt["witness"], re.ASCII | re.DOTALL))
    public = signing_key(keys, signature["keyId"], purposes, receipt["issuedAt"], proven)
    check_signature(public, decode(signature["value"]), canonical(receipt).encode())


def read_event(line):
    try:
        event = parse(line)
        need(len(line) <= 2**20)
        need(fits(event, EVENT) and ulid_millis(event["eventId"], "evt") == millis(event["at"]))
        data, delivery = event["data"], event["type"] == "delivery.recorded"
        need(not delivery or fits(data, DELIVERY | {name: what for name, what in OPTIONAL.items() if name in data}))
        need(not delivery or not {"idempotency", "identity"} <= data.keys())
    except (Bad, ValueError):
        raise Bad("entry.altered") from None
    if delivery:
        check_delivery(event)
    return event


def check_event(line, tenant, keys, purpose, sealed):
    event = read_event(line)
    if event["type"] == "delivery.recorded":
        check_receipt(event["data"]["receipt"], event["data"]["signature"], keys, [purpose], sealed)
    need(event["tenantId"] == tenant, "tenant.mismatch")
    need(event["at"] <= sealed, "entry.after_seal")
    return event


def check_entry(line, tenant, keys, purpose, sealed):
    """An event in a signed pack or export, which vouches for it: by then its key was listed and not revoked."""
    try:
        return check_event(line, tenant, keys, purpose, sealed)
    except Bad as bad:
        need(str(bad) != "key.revoked", "entry.after_revocation")
        need(str(bad) != "key.unknown" or not keys.rooted, "key.mismatch")
        raise


def check_delivery(event):
    """All of a delivery but its receipt's signature."""
    code, data = "entry.altered", event["data"]
    receipt, metering = data["receipt"], data["metering"]
    rest = {k: v for k, v in data.items() if k not in ("receipt", "signature")}
    knot = hashlib.sha256(canonical(event | {"data": rest}).encode()).digest()
    need(re.fullmatch("edge:.+:" + encode(knot), receipt["witness"], re.DOTALL), "witness.mismatch")
    need(event["subject"] == {"id": data["rightId"], "kind": "right"}, code)
    need(event["at"] == receipt["issuedAt"] and event["eventId"][4:] == receipt["receiptId"][4:], code)
    metered = metering["metered"]
    need(metering["quantityMs"] == (math.floor(receipt["dwellMs"]) if metered else 0), code)
    need(metered == (metering["impressions"] != "0"), code)
    need(metered == (metering["reason"] == "METERED") == (metering["reasons"] == []), code)
    need(metered or metering["reasons"][0] == metering["reason"], code)


def shared(data):
    """What a delivery has in common with its duplicates: its key, None if it has none."""
    if "idempotency" in data:
        return b"k" + decode(data["idempotency"])
    if "identity" in data:
        row = data["identity"]
        return b"r" + row.get("day", "").ljust(10).encode() + decode(row["hash"])


def names_of(rules):
    """The campaigns and labels that rules name, whether or not they are sound."""
    matches = [m for rule in rules if isinstance(m := rule.get("match"), dict)]
    labels = [label for m in matches if fits(label := m.get("label"), {"name": str, "value": str})]
    return {m["campaign"] for m in matches if isinstance(m.get("campaign"), str)}, {(label["name"], label["value"]) for label in labels}


class Wanted:
    """What other files need from the entries of packs and the like: events in files of
    their own, by text, receipts, by id, and of scopes what the rules of packs name."""

    def __init__(self, texts=(), receipts=(), rules=()):
        self.texts, self.unordered, self.receipts, self.names = texts, set(texts), set(receipts), names_of(rules)


class Said:
    """What the entries of a file say, as far as something needs it later. A pack may have
    100,000, so that of deliveries only columns are kept; what many have in common stands once."""

    GROUP = ("rightId", "substrate", "basisId", "meteringBasis", "completion", "reason", "metered", "revision", "key")

    def __init__(self, wanted=Wanted()):
        self.wanted, self.count, self.tenant = wanted, 0, None
        self.found, self.lines = [], []  # what is wanted: (event, by), and texts
        self.ids, self.leaves = [], bytearray()
        self.moves, self.keys, self.rules = [], [], []  # other events that matter, with their places
        self.scopes = {}  # of the rights that were issued, what is wanted of campaigns and labels
        self.groups, self.group = {}, array("I")  # of each delivery, as all of these
        self.place, self.at, self.quantity, self.rendered = array("I"), array("q"), array("q"), array("q")
        self.impressions = array("q")  # in ten-thousandths
        self.shared = []  # of each delivery, with its duplicates
        self.issues, self.disputes, self.erasures = [], [], []  # with their places

    def note(self, event, line, by=None):
        place, at, data = self.count, millis(event["at"]), event["data"]
        subject, actor = event["subject"], event["actor"]
        self.count, self.tenant = place + 1, event["tenantId"]
        self.ids.append(event["eventId"])
        self.leaves += leaf_hash(line)
        if line in self.wanted.unordered:
            self.lines.append(line)
        if event["type"] == "delivery.recorded":
            metering, receipt = data["metering"], data["receipt"]
            if receipt["receiptId"] in self.wanted.receipts:
                self.found.append((event, by))
            group = tuple(data[name] for name in ("rightId", "substrate", "basisId"))
            group += tuple(metering[name] for name in ("basis", "completion", "reason", "metered"))
            group += data["rightRevision"], actor["id"] if actor["kind"] == "key" else None
            self.group.append(self.groups.setdefault(group, len(self.groups)))
            self.place.append(place)
            self.at.append(at)
            self.quantity.append(metering["quantityMs"])
            self.impressions.append(impressions(metering["impressions"]))
            self.rendered.append(millis(receipt["renderedAt"]))
            self.shared.append(shared(data))
        elif subject["kind"] == "key" and event["type"] == "key.revoked":
            self.keys.append((subject["id"], at))
        elif subject["kind"] == "right" and event["type"] in MOVES:
            self.moves.append((place, event["type"], subject["id"], data.get("parentRightId"), data.get("revision"), at))
            if event["type"] == "right.issued" and any(self.wanted.names):
                self.scopes.setdefault(subject["id"], []).append(named(self.wanted.names, scope_of(data)))
        elif event["type"].startswith("settlement_rule."):
            self.rules.append((place, data))
        elif event["type"] == "statement.issued" or event["type"] == "statement.voided" and data.get("voidReason") is not None:
            self.issues.append((place, subject["id"], data))
        elif event["type"] == ERASED:
            self.erasures.append((event["eventId"], data))
        elif event["type"] in ("dispute.opened", "dispute.resolved"):
            self.disputes.append((place, event))

    def deliveries(self):
        """All deliveries: the place of each, what it has in common with others, when it was issued and
        when it was rendered."""
        groups = [dict(zip(self.GROUP, group)) for group in self.groups]
        return ((place, groups[group], at, rendered) for place, group, at, rendered in zip(self.place, self.group, self.at, self.rendered))

    def close(self):
        """Drops what only the totals of a pack need."""
        self.ids, self.leaves, self.shared, self.quantity, self.impressions, self.rules = (), (), (), (), (), ()


# --- The Merkle log and its checkpoints -------------------------------------------------


def leaf_hash(event):
    return hashlib.sha256(b"\0" + event).digest()


def node(left, right):
    return hashlib.sha256(b"\1" + left + right).digest()


def half(n):
    """The largest power of two below n, where RFC 6962 parts n leaves."""
    return 1 << (n - 1).bit_length() - 1


class Tree:
    """A log as the roots of the perfect subtrees that its leaves fall into, from left to right."""

    def __init__(self, size, roots):
        widths = [1 << bit for bit in reversed(range(size.bit_length())) if size >> bit & 1]
        need(len(widths) == len(roots))
        self.size, self.parts = size, list(zip(widths, roots))

    def append(self, hash, width=1):
        self.size += width
        while self.parts and self.parts[-1][0] == width:
            hash, width = node(self.parts.pop()[1], hash), width * 2
        self.parts.append((width, hash))

    def root(self):
        *parts, (_, root) = self.parts
        for _, left in reversed(parts):
            root = node(left, root)
        return root


def included(index, size, leaf, proof):
    """The root that an RFC 6962 inclusion proof leads to."""
    proof = iter(proof)

    def walk(low, high):
        if high - low == 1:
            return leaf
        middle = low + half(high - low)
        if index < middle:
            return node(walk(low, middle), next(proof))
        right = walk(middle, high)
        return node(next(proof), right)

    return finish(walk, proof, 0, size)


def extended(old_size, size, old_root, proof):
    """The old and the new root that an RFC 6962 consistency proof leads to, and the old
    tree's parts in it."""
    proof, parts = iter(proof), []

    def walk(low, high, whole):
        if high == old_size:
            parts.append(old_root if whole else next(proof))
            return parts[0], parts[0]
        middle = low + half(high - low)
        if old_size <= middle:
            old, new = walk(low, middle, whole)
            return old, node(new, next(proof))
        old, new = walk(middle, high, False)
        parts.insert(0, next(proof))
        return node(parts[0], old), node(parts[0], new)

    return *finish(walk, proof, 0, size, True), parts


def finish(walk, proof, *args):
    """A walk that needs the whole proof and no more."""
    try:
        roots = walk(*args)
    except StopIteration:
        return None, None
    return roots if next(proof, None) is None else (None, None)


class Checkpoint:
    """A checkpoint that one of the keys has signed, and with it the second of sealing."""

    def __init__(self, note, keys):
        said, signatures = open_note(note)
        origin, size, root, end = said.split("\n")
        self.tenant = origin.removeprefix("muniment/")
        need(origin == "muniment/" + self.tenant and tenant_id(self.tenant) and len(signatures) >= 2)
        (name, signature), (sealed, cosignature) = signatures[:2]
        need(name == origin and sealed == "muniment/sealed" and len(cosignature) == 4 + 8 + 64)
        signed = (k for k in keys.values() if key_hash(origin, b"\1", decode(k["publicKey"])) == signature[:4])
        self.key = next(signed, None)
        need(self.key, "key.unknown")
        need(self.key["purpose"] in PURPOSES, "key.purpose")
        self.receipts, public = PURPOSES[self.key["purpose"]], decode(self.key["publicKey"])
        check_note(said, signatures[0], origin, public)
        self.second = int.from_bytes(cosignature[4:12], "big")
        need(cosignature[:4] == key_hash(sealed, b"\4", public), "signature.invalid")
        check_signature(public, cosignature[12:], f"cosignature/v1\ntime {self.second}\n{said}".encode())
        self.size, self.root = int(size), decode_standard(root)
        need(size == str(self.size) and len(self.root) == 32 and end == "")
        self.first, self.latest = spell(self.second * 1000), spell(self.second * 1000 + 999)


# --- Packs ------------------------------------------------------------------------------

HOUR = 3600 * 1000
DAY = 24 * HOUR
FULL = 100_000  # the most entries of a pack


def answered(content):
    """The pack and the key of an answer of the sandbox, or of its data. What it is spelt
    like is fixed."""
    data = content
    if data.startswith(b'{"ok":true,"data":'):
        need(data.endswith(b"}"))
        data = data[len(b'{"ok":true,"data":') : -1]
    m = re.fullmatch(rb'{"pack":(.*),"verificationKey":({[^{}]*})}', data, re.DOTALL)
    need(m)
    key = json.loads(m[2].decode())
    need(fits(key, KEY))
    need("{" + ",".join(canonical(n) + ":" + canonical(key[n]) for n in ANSWERED_KEY) + "}" == m[2].decode())
    return m[1], key


LINES = (b'{"checkpoint":"', b'{"after":[', b'{"adjustments":[')  # how files begin that are lines, and begin as an object does


def plain(content):
    """A file as it was before a program changed its line ends: they are newlines, with one at the end of a file of lines, and
    none at the end of others."""
    content = content.replace(b"\r\n", b"\n").rstrip(b"\n")
    return content + b"\n" * (content.startswith(LINES) or not content.startswith(b"{"))


def plain_lines(file):
    """The lines of such a file."""
    blank = 0
    for line in file:
        line = line[:-1].removesuffix(b"\r") if line.endswith(b"\n") else line
        if line:
            for _ in range(blank):
                yield b""
            blank = 0
            yield line
        else:
            blank += 1


def bundled(name):
    """The entries of a bundle, between its header and its signature."""
    with open(name, "rb") as file:
        lines = plain_lines(file)
        next(lines)
        entry = next(lines)
        for behind in lines:
            yield entry
            entry = behind


class Pack:
    """A pack, in a file whose name it may keep: the lines of a bundle are read when they are
    checked, and none is kept."""

    def __init__(self, file):
        self.beside = None  # the key that the sandbox answers with
        if not file.peek(16).startswith(b'{"checkpoint":'):
            content = plain(file.read())
            need(len(content) <= 2**28)
            if not content.startswith(b'{"entries":'):
                content, self.beside = answered(content)
            pack = parse(content)
            need(fits(pack, {"entries": [text], "header": HEADER, "signature": SIGNATURE}))
            self.header, entries = pack["header"], [entry.encode() for entry in pack["entries"]]
            self.texts, count = lambda: iter(entries), len(entries)
        else:
            lines = plain_lines(file)
            self.header, self.texts, count = parse(next(lines)), lambda: bundled(file.name), -1
            for last in lines:
                count += 1
            need(count >= 0)
            pack = parse(last)
            need(fits(self.header, HEADER) and fits(pack, {"signature": SIGNATURE}))
        h, self.signature = self.header, pack["signature"]
        self.tenant, self.first, self.end, self.previous = h["tenantId"], h["firstIndex"], h["treeSize"], h["previous"]
        need(self.end == self.first + h["count"] and 1 <= h["count"] <= FULL and count <= h["count"])
        need(self.previous["treeSize"] == self.first > 0 if self.previous else self.first == 0)
        need(self.signature["keyId"] == h["signingKeyId"])
        listed = [(d["leaf"], d["first"]) for d in h["duplicates"]]
        need(all(first < leaf and self.first <= leaf < self.end for leaf, first in listed))
        self.repeated = dict(listed)
        need(list(self.repeated) == sorted(self.repeated) and len(self.repeated) == len(listed))
        self.rules = h["settlement"][0]["rules"] if h["settlement"] else []
        leaves = [r["leaf"] for r in self.rules]
        need(leaves == sorted(set(leaves)) and all(leaf < self.end for leaf in leaves))
        self.said, self.unproven, self.sums = Said(), [], []
        self.seals = [(self.end, millis(h["sealedAt"]))] if h["count"] < FULL else []
        self.revoked = False  # its key is, but after sealedAt: the next pack has to vouch for it

    def check_beside(self, keys):
        """The key beside the pack has to be the one that signed it, and is not believed. But
        an answer may be newer than the keys: what it says against the key counts."""
        key, signer, sealed = self.beside, dict(keys[self.header["signingKeyId"]]), self.header["sealedAt"]
        signer["notAfter"] = signer.pop("listed", signer["notAfter"])  # the answer knows no delegation
        ends = ("notAfter", "revokedAt")
        need({k: v for k, v in key.items() if k not in ends} == {k: v for k, v in signer.items() if k not in ends}, "key.mismatch")
        need(all(key[end] in (None, signer[end]) or signer[end] is None for end in ends), "key.mismatch")
        need(key["notAfter"] is None or sealed < key["notAfter"], "key.outside_window")
        need(key["revokedAt"] is None or sealed < key["revokedAt"], "key.outside_window")
        self.revoked = self.revoked or key["revokedAt"] is not None

    def signers(self, keys):
        """The listed keys by which it is signed."""
        return {self.header["signingKeyId"]} & keys.keys()

    def follows(self, p):
        hash = hashlib.sha256(canonical(p.header).encode()).digest()
        name = {k: p.header[k] for k in ("packId", "rootHash", "treeSize")} | {"headerHash": encode(hash)}
        return self.tenant == p.tenant and self.previous == name

    def check(self, keys, wanted):
        """Checks all that the pack says by itself, but for duplicates and totals."""
        self.said = said = Said(wanted)
        h, sealed, root = self.header, self.header["sealedAt"], decode(self.header["rootHash"])
        public = own_key(keys, h["signingKeyId"], h["directory"], PURPOSES, sealed, sealed)
        key = keys[h["signingKeyId"]]
        self.revoked = key["revokedAt"] is not None
        if self.beside:
            self.check_beside(keys)
        check_signature(public, decode(self.signature["value"]), canonical(h).encode())
        self.sandbox = key["purpose"] == SANDBOX

        try:
            c = Checkpoint(h["checkpoint"], keys)
            need((c.tenant, c.size, c.root, c.second, c.key) == (self.tenant, self.end, root, millis(sealed) // 1000, key))
        except (Bad, ValueError, ArithmeticError):
            raise Bad("checkpoint.mismatch") from None

        unproven = Open()
        for line in self.texts():
            said.note(unproven.attempt(check_entry, line, self.tenant, keys, PURPOSES[key["purpose"]], sealed) or read_event(line), line, sealed)
        need(said.count == h["count"], "count.mismatch")

        proof, parts = [decode(hash) for hash in h["consistency"]], []
        if self.previous:
            before = decode(self.previous["rootHash"])
            old, new, parts = extended(self.first, self.end, before, proof)
            need(old == before and new == root, "consistency.mismatch")
        else:
            need(proof == [], "consistency.mismatch")
        tree = Tree(self.first, parts)
        for i in range(0, len(said.leaves), 32):
            tree.append(bytes(said.leaves[i : i + 32]))
        need(tree.root() == root, "root.mismatch")
        unproven.close()

    def check_totals(self, log):
        """Checks event ids, duplicates, totals and settlement, in the light of the packs before."""
        listed, said = dict(self.repeated), self.said
        rows, metered, deliveries = defaultdict(lambda: [0, 0, 0]), [], defaultdict(Sightings)
        ids = set()

        def check_ids(end):
            for leaf in range(self.first + len(ids), end):
                id = said.ids[leaf - self.first]
                need(id not in ids and log.leaf(id) in (None, leaf), "entry.repeated")
                ids.add(id)

        for i, (place, group, at, _) in enumerate(said.deliveries()):
            leaf, key, first = self.first + place, said.shared[i], None
            check_ids(leaf + 1)
            if key is not None:
                at = at if key.startswith(b"k") else 0  # rows have no window: all are of one moment
                same = log.repeats(key, at), deliveries[key].first(at)
                first = min((l for l in same if l is not None and l < leaf), default=None)
                deliveries[key].add(leaf, at)
                claimed = listed.get(leaf)
                if claimed is not None and claimed < self.first and claimed not in log:
                    first = claimed if first is None else min(first, claimed)  # unknown
            need(listed.pop(leaf, None) == first, "duplicates.mismatch")
            basis, reason, quantity, made = group["meteringBasis"], group["reason"], said.quantity[i], said.impressions[i]
            if first is not None:
                basis, reason, quantity, made = "none", "DUPLICATE", 0, 0
            elif group["metered"]:
                metered.append(i)
            row = rows[group["rightId"], group["substrate"], group["basisId"], basis, reason]
            row[:] = row[0] + 1, row[1] + quantity, row[2] + made
        check_ids(self.end)
        need(not listed, "duplicates.mismatch")
        self.check_repeated(log, deliveries)
        repetitions = [row["receipts"] for row in self.header["metering"] if (row["meteringBasis"], row["reason"]) == ("none", "DUPLICATE")]
        need(sum(repetitions) == sum(n for row, (n, _, _) in rows.items() if row[3:] == ("none", "DUPLICATE")), "duplicates.mismatch")
        names = ("rightId", "substrate", "basisId", "meteringBasis", "reason")
        totals = sorted(rows.items(), key=lambda row: [name.encode() for name in row[0]])
        want = [dict(zip(names, row), receipts=n, quantityMs=ms, impressions=decimal(made, 4)) for row, (n, ms, made) in totals]
        need(self.header["metering"] == want, "metering.mismatch")
        rules = self.check_settlement(log, metered)
        if not log.complete(self.first):  # what the other leaves hold is the header's word
            self.unproven = ["duplicates.unproven"] * bool(deliveries) + ["settlement.unproven"]
        log.note(range(self.first, self.end), said.ids, deliveries, rules)  # unless something is wrong
        said.close()

    def check_repeated(self, log, deliveries):
        """Of leaves that are not at hand the list can say much, but not that one holds two
        keys, nor that one is repeated by a delivery, and neither it nor a lower one by
        another that has the same key and is not younger."""
        keys = {}
        for key, same in deliveries.items():
            lowest = self.end
            for _, first in sorted((-at, self.repeated.get(leaf, leaf)) for at, leaf in [*same.rising, *same.others]):
                need(first <= lowest and keys.setdefault(first, key) == key, "duplicates.mismatch")
                if first < self.first and first not in log:
                    lowest = first

    def check_settlement(self, log, metered):
        """Checks the rules, of which those of leaves that lie between the packs at hand and
        this one are taken on trust, and what they make of the metered deliveries."""
        code, rules = "settlement.mismatch", dict(log.rules)  # by id, by rising leaf
        need(all(text(r["rule"].get("id")) for r in self.rules), code)
        for r in self.rules:
            if log.settled <= r["leaf"] < self.first:
                rules.pop(r["rule"]["id"], None)
                rules[r["rule"]["id"]] = r
        for place, rule in self.said.rules:
            id = rule.get("id")
            need(text(id), code)
            rules.pop(id, None)
            rules[id] = {"leaf": self.first + place, "rule": rule}
        need(canonical(list(rules.values())) == canonical(self.rules), code)
        if rules:
            need(self.header["settlement"], code)
            texts = [r["rule"] for r in self.rules]
            sums = summed(texts, self.said, metered)
            lines, unrated = rate(texts, sums, implied(texts, self.header["settlement"][0]["lines"]))
            want = {"lines": lines, "rules": self.rules, "unrated": unrated}
            need(canonical([want]) == canonical(self.header["settlement"]), code)
            if any(r["match"]["campaign"] or r["match"]["label"] for r in texts):
                self.sums = sums
        return rules


# --- Settlement -----------------------------------------------------------------------------

MOST = 2**63 - 1  # of the smallest parts that a price and an amount are counted in


def check_rule(rule):
    """The price of a rule in billionths."""
    try:
        need(fits(rule, RULE))
        need(all(rule[at] is None or rule[at] >= "1970" for at in ("createdAt", "updatedAt", "effectiveFrom", "effectiveUntil")))
        need(rule["effectiveUntil"] is None or rule["effectiveFrom"] < rule["effectiveUntil"]
                 or rule["state"] == "RETIRED" and rule["effectiveFrom"] == rule["effectiveUntil"])
        need(1 <= len(rule["shares"]) <= 10 and sum(s["bps"] for s in rule["shares"]) == 10_000)
        need(len({s["counterpartyId"] for s in rule["shares"]}) == len(rule["shares"]))
        least, most = (bound and parts(bound, 6) for bound in (rule["minimum"], rule["cap"]))
        need(least is None or most is None or least <= most)
        need(len(rule["tiers"]) <= 20 and (rule["tiersMode"] is not None) == bool(rule["tiers"]))
        need(all(a["above"] < b["above"] for a, b in zip(rule["tiers"], rule["tiers"][1:])))
        for tier in rule["tiers"]:
            parts(tier["price"], 9)
        return parts(rule["price"], 9)
    except (Bad, ValueError):
        raise Bad("settlement.mismatch") from None


def parts(v, digits):
    """How many smallest parts a decimal has, that has at most so many digits behind the point."""
    m = re.fullmatch(r"(0|[1-9][0-9]*)(?:\.([0-9]*[1-9]))?", v)
    need(m and len(m[2] or "") <= digits)
    n = int(m[1] + (m[2] or "").ljust(digits, "0"))
    need(n <= MOST)
    return n


def amount(rule, price, receipts, quantity, made):
    """What the rule makes of receipts, their quantity and their impressions, in millionths, half to even."""
    times, part = {
        "EVENT": (receipts, 10**3), "MS": (quantity, 10**3), "SECOND": (quantity, 10**6), "IMPRESSION": (made, 10**7), "CPM": (made, 10**10),
    }[rule["unit"]]
    n, rest = divmod(price * times, part)
    return n + (2 * rest > part or 2 * rest == part and n % 2 == 1)


def decimal(parts, digits=6):
    return f"{parts // 10**digits}.{parts % 10**digits:0{digits}}".rstrip("0").removesuffix(".")


def shares(rule, total):
    parts = [divmod(total * s["bps"], 10_000) for s in rule["shares"]]
    left = total - sum(n for n, _ in parts)
    first = sorted(range(len(parts)), key=lambda i: (-parts[i][1], rule["shares"][i]["counterpartyId"].encode()))
    return [decimal(n + (i in first[:left])) for i, (n, _) in enumerate(parts)]


NOTHING = (set(), {})


def scope_of(right):
    """The campaigns and labels in the record of a right: none if its scope is not of their form."""
    scope = right.get("scope")
    if not isinstance(scope, dict):
        return NOTHING
    campaigns, labels = scope.get("campaigns", []), scope.get("labels", {})
    if not fits(campaigns, [str]) or not isinstance(labels, dict) or not fits(list(labels.values()), [str]):
        return NOTHING
    return set(campaigns), labels


def named(names, scope):
    """What names has of a scope."""
    return scope[0] & names[0], {name: value for name, value in scope[1].items() if (name, value) in names[1]}


def implied(rules, lines):
    """The scopes of which lines are the word: a right has what a rule that rates it names."""
    matches, scopes = {r["id"]: r["match"] for r in rules if fits(r, RULE)}, defaultdict(lambda: (set(), {}))
    for line in lines:
        match = matches.get(line["ruleId"], {"campaign": None, "label": None})
        if match["campaign"] is not None:
            scopes[line["rightId"]][0].add(match["campaign"])
        if match["label"] is not None:
            scopes[line["rightId"]][1][match["label"]["name"]] = match["label"]["value"]
    return dict(scopes)


def within(match, scope):
    campaigns, labels = scope or NOTHING
    label = match["label"]
    return (match["campaign"] is None or match["campaign"] in campaigns) and (label is None or labels.get(label["name"]) == label["value"])


def summed(rules, said, metered):
    """The sums of deliveries, of which metered are the indexes, that only the scopes of rights can tell apart."""
    for rule in rules:
        check_rule(rule)
    edges = sorted({rule[name] for rule in rules for name in ("effectiveFrom", "effectiveUntil") if rule[name]})
    sums, shared = {}, [dict(zip(said.GROUP, group)) for group in said.groups]
    for d in metered:
        at = spell(said.rendered[d])
        tally = sums.setdefault((said.group[d], bisect.bisect(edges, at)), [shared[said.group[d]], at, 0, 0, 0])
        tally[2:] = tally[2] + 1, tally[3] + said.quantity[d], tally[4] + said.impressions[d]
    return list(sums.values())


def rate(rules, sums, scopes):
    """What rules make of sums: lines, and what is unrated."""
    names = ("rightId", "basisId", "substrate", "meteringBasis", "completion")
    order = ("rightId", "basisId", "campaign", "label", "substrate", "meteringBasis", "completion")
    prices = {r["id"]: check_rule(r) for r in rules}
    need(len(prices) == len(rules), "settlement.mismatch")
    rules = sorted(rules, key=lambda r: (-r["priority"], [r["match"][n] is None for n in order], r["id"].encode()))
    groups, lines, unrated = defaultdict(lambda: [0, 0, 0]), [], defaultdict(lambda: [0, 0, 0])
    for group, at, n, ms, made in sums:
        fitting = (
            i for i, r in enumerate(rules)
            if all(r["match"][n] in (None, group[n]) for n in names) and within(r["match"], scopes.get(group["rightId"])) and covers(r["effectiveFrom"], r["effectiveUntil"], at)
        )
        tally = groups[group["rightId"], group["meteringBasis"], next(fitting, None)]
        tally[:] = tally[0] + n, tally[1] + ms, tally[2] + made
    for (right, basis, i), (n, ms, made) in groups.items():
        total = None if i is None else amount(rules[i], prices[rules[i]["id"]], n, ms, made)
        if total is None or total > MOST:
            tally = unrated[right, basis, "NO_RULE" if total is None else "AMOUNT_TOO_LARGE"]
            tally[:] = tally[0] + n, tally[1] + ms, tally[2] + made
        else:
            lines.append({
                "amount": decimal(total), "impressions": decimal(made, 4), "meteringBasis": basis, "quantityMs": ms, "receipts": n,
                "rightId": right, "ruleId": rules[i]["id"], "shares": shares(rules[i], total),
            })
    counts = [
        {"impressions": decimal(made, 4), "meteringBasis": basis, "quantityMs": ms, "reason": reason, "receipts": n, "rightId": right}
        for (right, basis, reason), (n, ms, made) in unrated.items()
    ]
    by = lambda last: lambda row: [row[name].encode() for name in ("rightId", "meteringBasis", last)]
    return sorted(lines, key=by("ruleId")), sorted(counts, key=by("reason"))


# --- Proofs and exports ---------------------------------------------------------------------


class Note:
    """A checkpoint by itself, or evidence that rests on some."""

    unproven, seals = [], []

    def __init__(self, note):
        self.notes, self.said = [note], Said()

    def check(self, keys, wanted):
        """Opens the checkpoints. Each is by a key that was valid in its second, and is not
        revoked: that something else may vouch for one is left to our own verifier."""
        self.heads, self.revoked, opened = [], Open(), Open()
        for note in self.notes:
            opened.attempt(self.open, note, keys)
        opened.close()
        self.sandbox = any(c.key["purpose"] == SANDBOX for c in self.heads)
        self.said = Said(wanted)
        self.judge(keys)
        self.revoked.close()

    def open(self, note, keys):
        c = Checkpoint(note, keys)
        began = c.key["notBefore"]
        try:
            signing_key(keys, c.key["keyId"], PURPOSES, began if c.first <= began <= c.latest else c.first)
        except Bad as bad:
            need(str(bad) == "key.revoked", str(bad))
            self.revoked.bad = bad
        self.heads.append(c)

    def judge(self, keys):
        pass


class Proof(Note):
    """An inclusion proof: a tlog-proof, and its event unless that is in another file."""

    def __init__(self, event, proof):
        m = re.fullmatch(r"c2sp.org/tlog-proof@v1\nindex (0|[1-9][0-9]*)\n((?:[^\n]+\n)*)\n(.*)", proof, re.DOTALL)
        need(m)
        super().__init__(m[3])
        self.event, self.index = event, int(m[1])
        self.hashes = [decode_standard(line) for line in m[2].splitlines()]
        need(all(len(hash) == 32 for hash in self.hashes))

    def leads(self, event):
        c = self.heads[0]
        return self.index < c.size and included(self.index, c.size, leaf_hash(event), self.hashes) == c.root

    def judge(self, keys):
        c, loose = self.heads[0], self.said.wanted.texts
        if self.event is None:
            matching = [event for event in loose if self.leads(event)] or (loose if len(loose) == 1 else [])
            need(matching, "event.missing")
            self.event = matching[0]
        need(self.leads(self.event), "inclusion.mismatch")
        self.revoked.close()  # nothing says when the event stood there
        self.first = self.index
        self.said.note(check_event(self.event, c.tenant, keys, c.receipts, c.latest), self.event, c.latest)


class Growth(Note):
    """A consistency proof."""

    def __init__(self, content):
        proof = parse(content)
        need(fits(proof, {"consistency": [HASH], "from": text, "to": text}))
        super().__init__(proof["to"])
        self.hashes = [decode(hash) for hash in proof["consistency"]]
        self.notes += [proof["from"]]

    def judge(self, keys):
        to, old = self.heads
        need(to.tenant == old.tenant, "tenant.mismatch")
        need(0 < old.size <= to.size, "consistency.mismatch")
        need(extended(old.size, to.size, old.root, self.hashes)[:2] == (old.root, to.root), "consistency.mismatch")


class Export(Note):
    """Sealed events, and the checkpoints of their packs."""

    def __init__(self, content):
        head, *self.entries, end = content.split(b"\n")
        self.header = h = parse(head)
        need(fits(h, EXPORT) and end == b"" and len(self.entries) == h["count"] > 0 and h["checkpoints"])
        self.notes, self.said = h["checkpoints"], Said()
        self.first, self.end = h["firstIndex"], h["firstIndex"] + h["count"]

    def signers(self, keys):
        """The listed keys by which checkpoints are signed."""
        name = "muniment/" + self.header["tenantId"]
        starts = [f"— {name} " + base64.b64encode(key_hash(name, b"\1", decode(k["publicKey"]))).decode()[:5] for k in keys.values()]
        return [start for start in starts if any("\n\n" + start in note for note in self.notes)]

    def open(self, note, keys):
        covered = self.heads[-1].size if self.heads else self.first
        super().open(note, keys)
        c = self.heads[-1]
        need(c.tenant == self.header["tenantId"], "tenant.mismatch")
        need(covered < min(c.size, self.end), "checkpoint.mismatch")

    def judge(self, keys):
        h = self.header
        need(self.heads[-1].size >= self.end, "checkpoint.mismatch")
        self.revoked.close()
        ends = [0] + [c.size for c in self.heads]
        self.seals = [(c.size, c.second * 1000) for c, before in zip(self.heads, ends) if c.size - before < FULL]

        tree, ids, unproven = Tree(self.first, [decode(hash) for hash in h["before"]]), set(), Open()
        after = [decode(hash) for hash in h["after"]]
        for c in self.heads:
            for line in self.entries[tree.size - self.first : c.size - self.first]:
                event = unproven.attempt(check_entry, line, c.tenant, keys, c.receipts, c.latest) or read_event(line)
                need(event["eventId"] not in ids, "entry.repeated")
                ids.add(event["eventId"])
                self.said.note(event, line, c.latest)
                tree.append(leaf_hash(line))
            while tree.size < c.size:  # behind the last entry
                width = tree.size & -tree.size
                while tree.size + width > c.size:
                    width //= 2
                need(after)
                tree.append(after.pop(0), width)
            need(tree.root() == c.root, "root.mismatch")
        need(after == [])
        unproven.close()


# --- Rights and API keys that were stopped ---------------------------------------------------

STOPS = ("right.suspended", "right.revoked")
MOVES = ("right.issued", "right.resumed") + STOPS


class Moves:
    """The moves of one right, (revision, type, leaf, at), sorted."""

    def __init__(self, moves):
        self.all = sorted(moves)
        self.revisions = [m[0] for m in self.all]
        self.revoked = min((m[0] for m in self.all if m[1] == "right.revoked"), default=math.inf)
        self.issued = {m[0] for m in self.all if m[1] == "right.issued"}
        self.stopped = {m[0] for m in self.all if m[1] in STOPS}
        self.stops, following = [], None  # with the next move
        self.suspensions = []  # likewise
        for m, behind in zip(reversed(self.all), [None, *reversed(self.all)]):
            # the first of the next higher revision is the last that was seen of it
            following = behind if behind and behind[0] > m[0] else following
            if m[1] in STOPS:
                self.stops.append((m, following))
            if m[1] == "right.suspended":
                self.suspensions.append((m, following))
        self.earliest, earliest = [], math.inf  # at of the stops from each move on
        for m in reversed(self.all):
            earliest = min(earliest, m[3]) if m[1] in STOPS else earliest
            self.earliest.append(earliest)
        self.earliest.reverse()
        self.earliest.append(math.inf)

    def beside(self, revision):
        """The last move up to a revision, the first behind it, and when the first stop behind
        it was."""
        i = bisect.bisect_right(self.revisions, revision)
        return self.all[i - 1] if i else None, self.all[i] if i < len(self.all) else None, self.earliest[i]


class Stops:
    """What the sound files of one tenant's log say of rights and API keys."""

    def __init__(self, files, bound):
        self.bound, self.ranges = bound, []  # of leaves at hand, with gaps in between
        self.parents, self.keys = defaultdict(set), {}
        moves, seals = defaultdict(set), set()
        for f in sorted(files, key=lambda f: f.holds.first):
            first, end = f.holds.first, f.holds.first + f.holds.said.count
            if self.ranges and first <= self.ranges[-1].stop:
                first, end = self.ranges[-1].start, max(self.ranges.pop().stop, end)
            self.ranges.append(range(first, end))
            seals.update(f.holds.seals)
            self.learn(f.holds.first, f.holds.said, moves)
        self.moves = defaultdict(lambda: Moves(()), {right: Moves(of) for right, of in moves.items()})
        self.seals = []  # sizes, and the latest at of those from there on in the range
        for r in reversed(self.ranges):
            latest = 0
            for size, at in sorted((seal for seal in seals if r.start < seal[0] <= r.stop), reverse=True):
                latest = max(latest, at)
                self.seals.append((size, latest))
        self.seals.reverse()

    def learn(self, first, said, moves):
        for id, at in said.keys:
            self.keys[id] = min(self.keys.get(id, at), at)
        for place, kind, id, parent, revision, at in said.moves:
            if text(parent):
                self.parents[id].add(parent)
            if whole(revision):
                moves[id].add((revision, kind, first + place, at))

    def ancestors(self, right):
        found = [right]
        for id in found:
            found += sorted(self.parents[id] - set(found))
        return found[1:]

    def complete(self, *leaves):
        i = bisect.bisect_right(self.ranges, min(leaves), key=lambda r: r.start)
        return i > 0 and max(leaves) in self.ranges[i - 1]

    def sealed(self, leaf):
        """When the latest pack was sealed up to whose end all leaves from one on are at hand."""
        i = bisect.bisect_right(self.seals, leaf, key=lambda seal: seal[0])
        return self.seals[i][1] if i < len(self.seals) and self.complete(leaf, self.seals[i][0] - 1) else 0

    def within(self, moves, revision, issued):
        """Whether a revision lies within a stop of the right: what is wrong, or None."""
        if moves.revoked <= revision or revision in moves.stopped:
            return "right.stopped"
        last, behind, _ = moves.beside(revision)
        if not last or last[1] != "right.suspended":
            return None
        ended = behind and behind[1] == "right.resumed" and self.complete(last[2], behind[2])
        return "right.stopped" if ended or self.sealed(last[2]) > issued + self.bound + HOUR else "right.unproven"

    def played(self, moves, issued, rendered, revision=None):
        """Whether a delivery was rendered in a suspension that who decided it must have known; the
        revision is given if the suspensions are those of its own right."""
        for m, following in moves.suspensions:
            if rendered < m[3]:
                continue
            if following is None:
                lasts = self.sealed(m[2]) > issued + self.bound + HOUR
            else:
                lasts = rendered < following[3] and self.complete(m[2], following[2])
            resumed = revision is not None and following is not None and following[1] == "right.resumed" and revision >= following[0]
            if lasts and (resumed or issued > m[3] + self.bound):
                return "right.stopped"
        return None

    def codes(self, delivery, issued, rendered):
        """All codes of what is to be said of a delivery."""
        right, revision, key = (delivery[name] for name in ("rightId", "revision", "key"))
        if key is not None and issued > self.keys.get(key, issued) + self.bound:
            yield "apikey.revoked"
        own = self.moves[right]
        yield self.within(own, revision, issued)
        yield self.played(own, issued, rendered, revision)
        if issued > own.beside(revision)[2] + self.bound:
            yield "right.late"
        for ancestor in self.ancestors(right):
            if revision in own.issued:  # which takes an ancestor that is not stopped
                yield self.within(self.moves[ancestor], revision, issued)
            yield self.played(self.moves[ancestor], issued, rendered)
            for m, following in self.moves[ancestor].stops:
                if issued <= m[3] + self.bound:
                    continue
                if m[1] == "right.revoked":
                    yield "right.stopped" if m[0] <= revision else "right.late"
                elif following is None or following[1] == "right.suspended":
                    yield "right.unproven"
                elif issued < following[3]:
                    yield "right.late"


def check_stops(files, bound):
    """Holds the deliveries of files against the stops that stand in them, and returns the stops
    by tenant. Files that are not sound prove nothing."""
    logs, stops = defaultdict(list), {}
    for f in files:
        if f.code is None and f.holds.said.count:
            logs[f.holds.said.tenant].append(f)
    for tenant, together in logs.items():
        stops[tenant] = Stops(together, bound)
        for f in together:
            judge(f, stops[tenant], f.holds.said)
    return stops


def check_scopes(packs, files):
    """Rates the receipts of packs again, by what the events that issued the rights say of the scopes."""
    issued = defaultdict(lambda: defaultdict(list))
    for f in files:
        for id, scopes in f.holds.said.scopes.items():
            issued[f.holds.said.tenant][id] += scopes
    for f in packs:
        if f.code is None and f.holds.sums:
            rules, stated, known = [r["rule"] for r in f.holds.rules], f.holds.header["settlement"][0], issued[f.holds.tenant]
            names, scopes, rights = names_of(rules), implied(rules, stated["lines"]), {group["rightId"] for group, *_ in f.holds.sums}
            for id in rights & known.keys():
                scopes[id], *others = [named(names, scope) for scope in known[id]]
                if any(other != scopes[id] for other in others):
                    f.code = "settlement.mismatch"  # it was issued twice
            if rate(rules, f.holds.sums, scopes) != (stated["lines"], stated["unrated"]):
                f.code = "settlement.mismatch"
            if not rights <= known.keys():
                f.holds.unproven = f.holds.unproven + ["settlement.unproven"]


def judge(f, stops, said):
    """Notes what is to be said of the deliveries of a sound file."""
    codes = {code for _, delivery, *times in said.deliveries() for code in judged(stops, delivery, *times)}
    f.holds.unproven = f.holds.unproven + [code for code in ("right.late", "right.unproven") if code in codes]
    f.code = next((code for code in ("apikey.revoked", "right.stopped") if code in codes), None)


def judged(stops, delivery, issued, rendered):
    """What is said of a delivery: of several codes, the first of these."""
    codes = set(stops.codes(delivery, issued, rendered))
    return [code for code in ("apikey.revoked", "right.stopped", "right.late", "right.unproven") if code in codes][:1]


# --- Files that are verified together ------------------------------------------------------


class Sightings:
    """The deliveries of one key in a pack, by rising leaf."""

    __slots__ = ("rising", "others")

    def __init__(self):
        self.rising, self.others = [], []  # (at, leaf): those that are younger than all before, and others

    def add(self, leaf, at):
        younger = not self.rising or at > self.rising[-1][0]
        (self.rising if younger else self.others).append((at, leaf))

    def first(self, at):
        """The lowest leaf that is at most 24 h older, or younger."""
        i = bisect.bisect_left(self.rising, (at - DAY,))
        return self.rising[i][1] if i < len(self.rising) else None


EPOCH = 2**62  # makes a time positive, so that its bytes compare as it does


class Log:
    """What the given packs hold of one tenant's log. Event ids with their leaves, and
    keys of deliveries with their times and leaves, are texts of bytes in their order: a
    long log has millions."""

    def __init__(self):
        self.ranges = []  # of leaves, rising, with gaps in between
        self.ids, self.sightings = [], []
        self.rules, self.settled = {}, 0  # settlement rules by id, as of a size

    def leaf(self, id):
        """Where an event stands."""
        return self.behind(self.ids, id.encode())

    def repeats(self, key, at):
        """The lowest leaf with that key that is at most 24 h older, or younger."""
        return self.behind(self.sightings, key, (at - DAY + EPOCH).to_bytes(8, "big"))

    @staticmethod
    def behind(ordered, start, rest=b""):
        """The leaf at the end of the first text from one on, if it starts alike."""
        i = bisect.bisect_left(ordered, start + rest)
        return int.from_bytes(ordered[i][-8:], "big") if i < len(ordered) and ordered[i].startswith(start) else None

    def rises(self, key, at):
        """Whether a delivery is younger than all with its key."""
        i = bisect.bisect_left(self.sightings, key + (at + EPOCH).to_bytes(8, "big"))
        return i == len(self.sightings) or not self.sightings[i].startswith(key)

    def __contains__(self, leaf):
        return any(leaf in r for r in self.ranges)

    def complete(self, end):
        """Whether all leaves below end are at hand."""
        return end == 0 or bool(self.ranges) and self.ranges[0].start == 0 and end <= self.ranges[0].stop

    def note(self, leaves, ids, deliveries, rules):
        """Adds a sound pack behind those that are there, which may be the last of them again."""
        last = self.ranges[-1] if self.ranges else range(0)
        if leaves.start == last.stop:
            self.ranges[-1:] = [range(last.start, leaves.stop)]
        elif leaves.start > last.stop:
            self.ranges.append(leaves)
        order(self.ids, [id.encode() + leaf.to_bytes(8, "big") for leaf, id in enumerate(ids, leaves.start)])
        order(self.sightings, [
            key + (at + EPOCH).to_bytes(8, "big") + leaf.to_bytes(8, "big")
            for key, same in deliveries.items() for at, leaf in same.rising if self.rises(key, at)
        ])
        self.rules, self.settled = rules, leaves.stop


def order(all, more):
    """Puts more texts among those that are in order."""
    if len(more) < len(all) // 100:
        for m in more:
            bisect.insort(all, m)
    else:
        all += more
        all.sort()


class Directory:
    def __init__(self, content):
        directory = parse(content)
        need(fits(directory, DIRECTORY))
        self.header = {"directory": directory}

    def check(self, keys):
        own = keys.get(self.header["directory"]["signature"]["keyId"])
        need(own is None or own["revokedAt"] is None, "directory.revoked")


class Event:
    """An event in a file of its own, which something else has to prove."""

    def __init__(self, content):
        need(fits(parse(content), EVENT))
        self.text = content

    def check(self, sound):
        read_event(self.text)
        proofs = [proof for proof in sound if self.text in proof.said.lines]
        need(proofs, "inclusion.unproven")
        self.sandbox = any(proof.sandbox for proof in proofs)


def no_number(word):
    raise ValueError(f"{word} is no number")


class Receipt:
    """A receipt and its signature, as a caller holds them: in the data of an answer, where
    they may stand beside what the signature does not cover."""

    BESIDE = {
        "substrate": text, "metering": METERING, "event": dict, "position": text,
        "sealed": maybe({"packId": pack_id, "leafIndex": whole}),
    }

    def __init__(self, content):
        answer = json.loads(content.decode(), object_pairs_hook=unique, parse_constant=no_number)
        answer = json.loads(canonical(answer).encode())  # each number in one spelling
        need(isinstance(answer, dict))
        if "ok" in answer or "data" in answer:
            need(fits(answer, {"ok": True, "data": dict, "contractVersion": "v1.0"}))
            answer = answer["data"]
        shape = {"receipt": RECEIPT, "signature": SIGNATURE}
        need(fits(answer, shape | {name: what for name, what in self.BESIDE.items() if name in answer}))
        self.receipt, self.signature, self.beside = answer["receipt"], answer["signature"], answer
        self.unproven = []

    def stands(self, event):
        """Requires that the event holds the receipt, and states what this file states of it."""
        data = event["data"]
        need(event["type"] == "delivery.recorded", "entry.altered")
        need((data["receipt"], data["signature"]) == (self.receipt, self.signature), "entry.altered")
        need(all(self.beside.get(name, data[name]) == data[name] for name in ("substrate", "metering")), "entry.altered")

    def check(self, keys, others):
        """By itself, or with files that hold its event and prove how old it is."""
        proven, unsound = None, False
        if "event" in self.beside:
            self.stands(read_event(canonical(self.beside["event"]).encode()))
        for f in others:
            if verdict([f.code]) == "unjudged":
                continue  # nobody knows whose word it is
            for event, by in f.holds.said.found:
                if event["data"]["receipt"]["receiptId"] == self.receipt["receiptId"]:
                    self.stands(event)
                    unsound = unsound or f.code is not None
                    proven = min(proven or by, by) if f.code is None else proven
        need(proven or not unsound, "inclusion.mismatch")
        check_receipt(self.receipt, self.signature, keys, PURPOSES.values(), proven)
        self.sandbox = keys[self.signature["keyId"]]["purpose"] == SANDBOX
        lacking = not proven and any(f.code is None and isinstance(f.holds, (Pack, Export)) for f in others)
        uncovered = {name for name in ("position", "sealed") if self.beside.get(name) is not None}
        if not proven and "event" not in self.beside:
            uncovered |= {"substrate", "metering"} & self.beside.keys()
        self.unproven = ["receipt.uncovered"] * bool(uncovered) + ["receipt.unproven"] * lacking


# --- Statements ---------------------------------------------------------------------------------

money = lambda v: isinstance(v, str) and re.fullmatch(r"0|-?(0|[1-9][0-9]*)(\.[0-9]{0,5}[1-9])?", v) is not None and v not in ("-0", "")
month = lambda v: isinstance(v, str) and re.fullmatch(r"[0-9]{4}-[0-9]{2}", v) is not None
SHARES = [{"amount": money, "bps": whole, "counterpartyId": text}]
PAYEES = [{"amount": money, "counterpartyId": text, "name": str}]
AS_OF = {"packId": pack_id, "rootHash": HASH, "treeSize": whole}
STATEMENT = {
    "adjustments": [{
        "amount": money, "month": month, "reason": lambda v: v in ("TIER", "MINIMUM", "CAP"), "ruleId": text, "ruleLeaf": whole,
        "shares": SHARES, "timeZone": text,
    }],
    "asOf": AS_OF, "counterpartyId": maybe(text), "currency": text,
    "correction": maybe({
        "changes": [{
            "amount": money, "meteringBasis": str, "reason": lambda v: v in ("DISPUTE", "RULES", "LATE", "VOID"), "receipts": int, "rightId": str, "ruleId": text,
        }],
        "difference": money, "of": text, "payees": PAYEES, "previous": {"asOf": AS_OF, "sha256": HASH, "statementId": text, "total": money}, "voidReason": maybe(text),
    }),
    "excluded": [{
        "disputeId": text, "from": maybe(time), "receiptIds": [text], "rightId": maybe(text), "state": lambda v: v in ("HELD", "UPHELD"), "to": maybe(time),
    }],
    "from": time, "heldAmount": money, "issuedAt": time,
    "lines": [{
        "amount": money, "impressions": made, "meteringBasis": text, "price": text, "quantityMs": whole, "receipts": whole, "rightId": text,
        "ruleId": text, "ruleLeaf": whole, "shares": SHARES, "unit": text,
    }],
    "localFrom": text, "localTo": text, "months": [{"from": time, "month": month, "timeZone": text, "to": time}],
    "overlaps": [{"sha256": HASH, "statementId": text}], "payees": PAYEES,
    "rights": [{"campaigns": [text], "labels": dict, "rightId": text}], "since": time, "statementId": text, "tenantId": tenant_id, "timeZone": text,
    "to": time, "total": money, "unrated": [{
        "impressions": made, "meteringBasis": text, "quantityMs": whole, "reason": text, "receipts": whole, "rightId": text,
    }],
    "v": 1,
}


def adds_up(rows, total):
    return sum(Decimal(row["amount"]) for row in rows) == Decimal(total)


class Statement:
    """What a period came to: settle.py recomputes it from the packs."""

    def __init__(self, content):
        lines = content.split(b"\n")
        need(len(lines) == 3 and lines[2] == b"")
        self.text, self.said, signed = lines[0], parse(lines[0]), parse(lines[1])
        said, c = self.said, self.said.get("correction") if isinstance(self.said, dict) else None
        need(fits(said, STATEMENT) and fits(signed, {"signature": SIGNATURE}))
        need(adds_up(said["payees"], said["total"]) and said["from"] < said["to"] and said["since"] <= said["from"])
        if c:
            need(adds_up(c["changes"], c["difference"]) and adds_up(c["payees"], c["difference"]))
            need(Decimal(said["total"]) - Decimal(c["previous"]["total"]) == Decimal(c["difference"]))
            need(all((change["reason"] == "VOID") == (c["voidReason"] is not None) for change in c["changes"]))
        rows = [("payees", ["counterpartyId"]), ("overlaps", ["statementId"]), ("excluded", ["disputeId"]), ("months", ["timeZone", "month"]),
                ("lines", ["rightId", "meteringBasis", "ruleId"]), ("rights", ["rightId"])]
        need(all(said[name] == sorted(said[name], key=lambda row: [row[n].encode() for n in by]) for name, by in rows))
        self.signature, self.unproven = signed["signature"], []
        self.sha256 = encode(hashlib.sha256(content).digest())
        self.tenant, self.chain = said["tenantId"], c["of"] if c else said["statementId"]
        self.signed, self.issue = False, None

    def authenticate(self, keys, files):
        """Checks who signed it. Files are those that are sound; one may hold the event of its issue."""
        said, c, sealed = self.said, self.said["correction"], None
        files = [f for f in files if f.holds.said.tenant == self.tenant]
        issues = {f.holds.first + place: (id, data, f) for f in files for place, id, data in f.holds.said.issues}
        self.issues = [(leaf, *issues[leaf][:2]) for leaf in sorted(issues)]
        for leaf, (id, data, f) in sorted(issues.items()):
            if id == said["statementId"]:
                wanted = {name: said[name] for name in ("from", "to", "currency", "counterpartyId")} | said["asOf"]
                wanted |= {"sha256": self.sha256, "corrects": c and c["of"], "voidReason": c and c["voidReason"]}
                need(all(data.get(name) == v for name, v in wanted.items()), "entry.altered")
                self.issue, sealed = leaf, f.holds.header["sealedAt"] if isinstance(f.holds, Pack) else None
                break
        public = signing_key(keys, self.signature["keyId"], PURPOSES, said["issuedAt"], sealed)
        check_signature(public, decode(self.signature["value"]), self.text)
        self.sandbox, self.signed = keys[self.signature["keyId"]]["purpose"] == SANDBOX, True
        voided = any(data.get("voidReason") is not None and data.get("corrects") == self.chain and id != said["statementId"] for _, id, data in self.issues)
        self.unproven = ["issue.unproven"] * (self.issue is None) + ["statement.voided"] * voided

    def check(self, packs, files, statements):
        """Checks what it says. Packs are all of its log, files those that are sound."""
        said, c, unproven = self.said, self.said["correction"], Open()
        previous = self.previous(statements, unproven) if c else None
        if settle.is_void(said):
            if self.issue is not None:
                self.newest([i for i in self.issues if i[0] < self.issue])
            if previous:
                self.judge(previous, None)
            return unproven.close()
        issued = self.issued_before()
        named = next((f for f in packs if f.holds.header["packId"] == said["asOf"]["packId"]), None)
        need(named and named.verdict() != "unjudged", "statement.unproven")
        h = named.holds.header
        need(named.code is None and (h["treeSize"], h["rootHash"]) == (said["asOf"]["treeSize"], said["asOf"]["rootHash"]), "statement.log")
        if c:
            self.newest(issued)
        packs = [f.holds for f in packs if f.code is None]
        sizes = {h["treeSize"]} | {data["treeSize"] for _, _, data in issued} | ({c["previous"]["asOf"]["treeSize"]} if c else set())
        need(all(self.ruled(packs, size) for size in sizes), "statement.unproven")
        log, whole = self.log(packs, issued)
        self.disputes(files, log, unproven)
        need(whole, "statement.unproven")
        self.judge(previous, log)
        unproven.close()

    def judge(self, previous, log):
        try:
            settle.exactly(settle.judge, self.said, previous, log, True)
        except settle.Differs as differs:
            raise Bad(differs.code) from None
        except settle.ZoneInfoNotFoundError:
            raise Bad("statement.unproven") from None

    def previous(self, statements, unproven):
        """The statement before a correction, which no second one corrects."""
        said, c = self.said, self.said["correction"]
        rivals = [s for s in statements if s.signed and s.sha256 != self.sha256 and s.said["correction"]]
        need(all(s.said["correction"]["previous"]["sha256"] != c["previous"]["sha256"] for s in rivals), "statement.correction")
        p = next((s for s in statements if s.sha256 == c["previous"]["sha256"]), None)
        if p is None:
            return unproven.attempt(need, False, "statement.unproven")
        same = ("tenantId", "from", "to", "currency", "counterpartyId")
        need(p.chain == c["of"] and all(p.said[name] == said[name] for name in same), "statement.correction")
        need(all(p.said[name] == c["previous"][name] for name in ("statementId", "asOf", "total")), "statement.correction")
        return p.said

    def newest(self, issued):
        """Requires that what is corrected is the newest of its chain among those before."""
        c = self.said["correction"]
        chain = [(id, data) for _, id, data in issued if (data["corrects"] or id) == c["of"]]
        need(chain, "statement.unproven" if c["voidReason"] is not None else "statement.correction")
        id, data = chain[-1]
        need((id, data["sha256"]) == (c["previous"]["statementId"], c["previous"]["sha256"]), "statement.correction")

    def issued_before(self):
        """The events of overlaps, which have to be all that are in the log before."""
        said, before = self.said, []
        listed = {o["statementId"]: o["sha256"] for o in said["overlaps"]}
        for leaf, id, data in self.issues:
            overlaps = id != said["statementId"] and data["from"] < said["to"] and said["since"] < data["to"]
            stated = leaf < said["asOf"]["treeSize"]
            if id in listed:
                need(data["treeSize"] <= leaf and stated and listed.pop(id) == data["sha256"] and overlaps, "statement.overlap")
                before.append((leaf, id, data))
            else:
                need(not overlaps or not (stated or self.issue is not None and leaf < self.issue), "statement.overlap")
        need(not listed, "statement.unproven")
        return before

    def ruled(self, packs, size):
        """Whether the packs at hand show the rules at a size."""
        around = next((p for p in packs if p.first < size <= p.end), None)
        return size == 0 or around is not None and (size == around.end or self.ruled(packs, around.first))

    def log(self, packs, issued):
        """What settle.py reads of packs, and whether all are there that can hold a receipt since then."""
        said, log, chain = self.said, settle.empty(), []
        end = said["asOf"]["treeSize"]
        while end > 0 and (p := next((p for p in packs if p.end == end), None)):
            if millis(p.header["sealedAt"]) + HOUR < millis(said["since"]):
                end = 0
                break
            chain, end = [range(p.first, p.end), *chain], p.first
        for p in packs:
            log["rules"] |= {r["leaf"]: r["rule"] for r in p.rules}
            for leaf, line in enumerate(p.texts(), p.first):
                settle.note(log, leaf, json.loads(line), p.repeated)
        log["header"] = {"treeSize": said["asOf"]["treeSize"], "rootHash": said["asOf"]["rootHash"]}
        log["counted"] = sorted((r for r in log["counted"] if any(r["leaf"] in of for of in chain)), key=lambda r: r["leaf"])
        log["issues"] = [data | {"id": id} for _, id, data in issued]
        return log, end == 0

    def disputes(self, files, log, unproven):
        """Checks that what is left out is what was disputed, and all of it."""
        said, code = self.said, "statement.excluded"
        opened, resolved = {}, {}
        for f in files:
            for place, event in f.holds.said.disputes if f.holds.said.tenant == self.tenant else ():
                before = f.holds.first + place < self.issue if self.issue is not None else event["at"] <= said["issuedAt"]
                if before:
                    (opened if event["type"] == "dispute.opened" else resolved)[event["subject"]["id"]] = event["data"]
        upheld = lambda id: id in resolved and resolved[id].get("outcome") == "UPHELD"
        window = lambda d: ((d.get("window") or {}).get("from"), (d.get("window") or {}).get("to"))
        for x in said["excluded"]:
            d = opened.pop(x["disputeId"], None)
            if d is None:
                unproven.attempt(need, False, "statement.unproven")
                continue
            need((d.get("receiptIds") or [], d.get("rightId"), window(d)) == (x["receiptIds"], x["rightId"], (x["from"], x["to"])), code)
            need(x["state"] != "UPHELD" or upheld(x["disputeId"]), code)
            need(x["state"] != "HELD" or x["disputeId"] not in resolved, code)
        rendered = {r["receiptId"] for r in log["counted"] if millis(said["since"]) <= r["renderedAt"] < millis(said["to"])}
        for id, d in opened.items():
            begin, end = window(d)
            meets = begin < said["to"] and said["since"] < end if d.get("rightId") and begin and end else rendered & set(d.get("receiptIds") or [])
            if meets and (id not in resolved or upheld(id)):
                unproven.attempt(need, False, code if id in resolved or self.issue is not None else "statement.unproven")


# --- Certificates of erasure ----------------------------------------------------------------------

ERASED = "subject.erased"
numbers = lambda v: isinstance(v, dict) and all(text(name) and whole(n) for name, n in v.items())
ERASURE = {
    "completedAt": time, "copiesGoneBy": time, "counts": {
        "bundles": whole, "permanent": numbers, "privateParts": whole, "records": numbers, "setAside": whole, "statements": [text],
    },
    "erasureId": text, "eventId": text, "logGoneBy": time, "note": text, "subjectHash": text, "tenantId": text, "until": time,
}
RECORD = {  # of an erasure, in an answer; the certificate decides about what it has, too
    name: lambda v: True for name in (
        "id", "tenantId", "subjectHash", "until", "eventId", "requestedBy", "state", "counts", "certificate", "completedAt", "createdAt", "updatedAt", "revision",
    )
}


class Erasure:
    """That what is known of a person was erased, up to a moment."""

    def __init__(self, content):
        note, beside = (self.answered(content) if content.startswith(ERASED_ANSWER) else (content.decode(), {}))
        said, self.signatures = open_note(note)
        title, body, end = said.split("\n")
        self.text, self.said, self.unproven = said, parse(body.encode()), []
        need(title == "muniment/erasure.v1" and end == "" and fits(self.said, ERASURE))
        need(all(canonical(beside.get(name, value)) == canonical(value) for name, value in self.said.items()))

    def answered(self, content):
        """The certificate in the answer about an erasure, and what stands beside it."""
        answer = json.loads(content.decode(), object_pairs_hook=unique, parse_constant=no_number)
        answer = json.loads(canonical(answer).encode())  # each number in one spelling
        need(fits(answer, {"ok": True, "data": {"erasure": dict}, "contractVersion": "v1.0"}))
        record = answer["data"]["erasure"]
        need(fits(record, RECORD))
        need(record["certificate"] is not None, "format.unknown")
        need(text(record["certificate"]) and record["state"] == "COMPLETED")
        return record["certificate"], {name: v for name, v in record.items() if name != "id"} | {"erasureId": record["id"]}

    def check(self, keys, files):
        said, name = self.said, "muniment/erasure"
        need(self.signatures[0][0] == name)
        key = next((k for k in keys.values() if key_hash(name, b"\1", decode(k["publicKey"])) == self.signatures[0][1][:4]), None)
        need(key, "key.unknown")
        need(key["purpose"] in PURPOSES, "key.purpose")
        check_note(self.text, self.signatures[0], name, decode(key["publicKey"]))
        signing_key(keys, key["keyId"], PURPOSES, said["completedAt"])
        self.sandbox, stone = key["purpose"] == SANDBOX, None
        for f in files:
            for id, data in f.holds.said.erasures if f.holds.said.tenant == said["tenantId"] else ():
                if stone is None and id == said["eventId"] and f.verdict() != "unjudged":
                    need(f.code is None, "inclusion.mismatch")
                    need((data.get("subjectHash"), data.get("until")) == (said["subjectHash"], said["until"]), "entry.altered")
                    stone = id
        self.unproven = ["erasure.unproven"] * (stone is None)


# --- Bundles of personal data ---------------------------------------------------------------------

BUNDLES = tuple(b"PK\3\4\x14\0\x08\0" + method + b"\0\0\0\0\0" for method in (b"\0", b"\x08"))  # how they begin
SECTION = {"bytes": int, "name": str, "packedBytes": int, "packedSha256": str, "rows": int, "sha256": str}
MANIFEST = {
    "asOf": str, "createdAt": time, "directory": lambda v: True, "files": [SECTION], "format": str, "jobId": str, "kind": str,
    "pending": maybe(lambda v: isinstance(v, dict) and all(type(n) is int for n in v.values())), "signingKeyId": text, "tenantId": str, "v": 1,
}
Entry = namedtuple("Entry", "name method crc packed plain at")
MANY, MUCH = 2**16 - 1, 2**32 - 1  # from which on numbers of a zip file are in fields of Zip64


def zip_entries(f):
    """What the directory of a zip file lists, whatever else the zip file holds. That of a bundle is not longer than a manifest."""
    size = f.seek(0, 2)
    f.seek(max(0, size - 65 * 1024))
    tail = f.read(65 * 1024)
    end = tail.rfind(b"PK\5\6", 0, max(0, len(tail) - 18))
    need(end >= 0)
    count, length, begin, comment = struct.unpack_from("<HIIH", tail, end + 10)
    need(end + 22 + comment <= len(tail))
    far, end = tail[max(0, end - 76) : end], end + size - len(tail)
    if (count == MANY or MUCH in (length, begin)) and len(far) == 76 and far[:4] == b"PK\6\6":
        (count, length, begin), end = struct.unpack_from("<QQQ", far, 32), end - 76
    need(length <= min(end, LARGEST))
    f.seek(end - length)
    listed, at, entries, base = f.read(length), 0, [], end - length - begin
    while listed[at : at + 4] == b"PK\1\2" and len(listed) >= at + 46:
        method, crc, packed, plain, name, extra, comment, offset = struct.unpack_from("<H4xIIIHHH8xI", listed, at + 10)
        at += 46 + name
        if listed[at : at + 2] == b"\1\0" and extra >= 28:
            further = iter(struct.unpack_from("<QQQ", listed + b"\0" * 28, at + 4))
            plain, packed, offset = (next(further) if n == MUCH else n for n in (plain, packed, offset))
        entries.append(Entry(listed[at - name : at], method, crc, packed, plain, base + offset))
        at += extra + comment
    need(at <= len(listed) and len(entries) % 2**16 == count % 2**16)
    return entries


def zip_around(e):
    """What is before the bytes of a file in a zip file, behind them, and in its directory."""
    before = b"PK\3\4" + struct.pack("<HHHIIIIHH", 20, 8, e.method, 0, 0, 0, 0, len(e.name), 0) + e.name
    sizes, version = ("<IQQ", 45) if max(e.packed, e.plain) >= MUCH else ("<III", 20)
    behind = b"PK\7\x08" + struct.pack(sizes, e.crc, e.packed, e.plain)
    packed, plain, extra = e.packed, e.plain, b""
    if max(packed, plain, e.at) >= MUCH:
        packed, plain, extra = MUCH, MUCH, struct.pack("<HHQQQ", 1, 24, plain, packed, e.at)
    fixed = struct.pack("<HHHHIIIIHHHHHII", 20, version, 8, e.method, 0, e.crc, packed, plain, len(e.name), len(extra), 0, 0, 0, 0, min(e.at, MUCH))
    return before, behind, b"PK\1\2" + fixed + e.name + extra


def zip_end(count, length, begin):
    end = b""
    if count >= MANY or max(length, begin) >= MUCH:
        end = b"PK\6\6" + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, count, count, length, begin)
        end += b"PK\6\7" + struct.pack("<IQI", 0, begin + length, 1)
        count, length, begin = MANY, MUCH, MUCH
    return end + b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, count, count, length, begin, 0)


class Unpacked(io.RawIOBase):
    """The bytes of a file in a zip file, from where the zip file stands, counted and hashed as they are read."""

    def __init__(self, f, e):
        self.f, self.left, self.plain, self.count, self.crc, self.hash = f, e.packed, e.plain, 0, 0, hashlib.sha256()
        self.inflate = zlib.decompressobj(-15) if e.method == 8 else None
        need(e.method in (0, 8), "file.mismatch")

    def readable(self):
        return True

    def packed(self, n):
        piece = self.f.read(min(self.left, n))
        self.left -= len(piece)
        return piece

    def readinto(self, buffer):
        if not self.inflate:
            piece = self.packed(len(buffer))
        else:
            piece = b""
            while not piece and not self.inflate.eof:
                more = self.inflate.unconsumed_tail or self.packed(2**16)
                need(more or not self.left, "file.mismatch")
                piece = self.inflate.decompress(more, len(buffer))
                need(piece or more or self.inflate.eof, "file.mismatch")  # it ends in the middle
        self.count, self.crc = self.count + len(piece), zlib.crc32(piece, self.crc)
        need(self.count <= self.plain, "file.mismatch")
        self.hash.update(piece)
        buffer[: len(piece)] = piece
        return len(piece)


def csv_rows(lines):
    """The rows of RFC 4180 behind the first, which names the columns. All have as many fields."""
    rows, columns, row, quoted = -1, None, [], 0
    for line in lines:
        row.append(line)
        quoted ^= line.count(b'"') & 1
        if not quoted and row != [b"\n"] and row != [b"\r\n"]:
            fields = re.sub(rb'"[^"]*"', b'"', b"".join(row)).removesuffix(b"\n").removesuffix(b"\r").split(b",")
            need(all(b'"' not in field or not field.strip(b'"') for field in fields) and len(fields) == (columns or len(fields)), "file.mismatch")
            rows, columns = rows + 1, len(fields)
        row = row if quoted else []
    need(not quoted, "file.mismatch")
    return rows


def varint(b, at):
    n = shift = 0
    while b[at] >= 128:
        n, at, shift = n | (b[at] & 127) << shift, at + 1, shift + 7
    need((n := n | b[at] << shift) < 2**64, "file.mismatch")
    return n, at + 1


def thrift_field(b, at, id):
    """The type of a field in Thrift's compact protocol, its id, and where its value is."""
    kind, delta = b[at] & 15, b[at] >> 4
    if kind and not delta:
        n, at = varint(b, at + 1)
        return kind, n >> 1 ^ -(n & 1), at
    return kind, id + delta, at + 1


def thrift_skip(b, at, kind, depth=0, element=False):
    """Where the value behind one is."""
    need(depth <= 32 and at <= len(b), "file.mismatch")
    if kind in (1, 2):  # a boolean, which a field has in its header
        return at + element
    if kind in (4, 5, 6):
        return varint(b, at)[1]
    if kind == 8:
        n, at = varint(b, at)
        return at + n
    if kind in (9, 10, 11):
        n, at = varint(b, at) if kind == 11 else (b[at] >> 4, at)
        kinds = (b[at] >> 4, b[at] & 15) if kind == 11 and n else (b[at] & 15,) if kind != 11 else ()
        at += bool(kinds)
        if kind != 11 and n == 15:
            n, at = varint(b, at)
        need(n <= len(b), "file.mismatch")  # each takes a byte at least
        for _ in range(n):
            for of in kinds:
                at = thrift_skip(b, at, of, depth + 1, True)
        return at
    if kind == 12:
        inner, id, at = thrift_field(b, at, 0)
        while inner:
            inner, id, at = thrift_field(b, thrift_skip(b, at, inner, depth + 1), id)
        return at
    need(kind in (3, 7, 13), "file.mismatch")
    return at + {3: 1, 7: 8, 13: 16}[kind]


def parquet_rows(f, at, size):
    """What a Parquet file states: field 3 of FileMetaData, which is at its end."""
    code = "file.mismatch"
    need(size >= 12, code)
    f.seek(at)
    start = f.read(4)
    f.seek(at + size - 8)
    length, magic = struct.unpack("<I4s", f.read(8))
    need(start == magic == b"PAR1" and length <= min(size - 12, 2**26), code)
    f.seek(at + size - 8 - length)
    footer = f.read(length)
    kind, id, at = thrift_field(footer, 0, 0)
    while kind and (kind, id) != (6, 3):
        kind, id, at = thrift_field(footer, thrift_skip(footer, at, kind), id)
    n, _ = varint(footer, at)
    need(kind and not n & 1, code)
    return n >> 1


class Bundle:
    """Tables of personal data, in a zip file whose name it keeps: its files are read when they are checked, and
    unpacked only if they are what was signed."""

    def __init__(self, f):
        self.name, self.entries, self.unproven = f.name, zip_entries(f), []
        need(any(e.name == b"manifest.json" for e in self.entries), "format.unknown")
        last = self.entries[-1]
        need(last.name == b"manifest.json" and last.method == 0 and last.packed == last.plain <= LARGEST and last.at >= 0)
        f.seek(last.at)
        local = f.read(30)
        need(len(local) == 30 and local[:4] == b"PK\3\4")
        f.seek(sum(struct.unpack_from("<HH", local, 26)), 1)
        content = f.read(last.packed)
        need(len(content) == last.plain and zlib.crc32(content) == last.crc)
        content = parse(content)
        need(fits(content, {"manifest": MANIFEST, "signature": SIGNATURE}))
        self.header, self.signature = content["manifest"], content["signature"]
        need(self.signature["keyId"] == self.header["signingKeyId"])
        need(fits(self.header["directory"], DIRECTORY), "directory.invalid")

    def signers(self, keys):
        """The listed keys by which it is signed."""
        return {self.header["signingKeyId"]} & keys.keys()

    def check(self, keys):
        h, files = self.header, self.entries[:-1]
        public = own_key(keys, h["signingKeyId"], h["directory"], PURPOSES, h["createdAt"])
        check_signature(public, decode(self.signature["value"]), canonical(h).encode())
        self.sandbox = keys[h["signingKeyId"]]["purpose"] == SANDBOX
        with open(self.name, "rb") as f:
            need([e.name.decode() for e in files] == [want["name"] for want in h["files"]])
            need(all((e.packed, e.plain) == (want["packedBytes"], want["bytes"]) for e, want in zip(files, h["files"])), "file.mismatch")
            self.check_layout(f)
            for e, want in zip(files, h["files"]):
                try:
                    self.check_file(f, e, want)
                except (IndexError, zlib.error):
                    raise Bad("file.mismatch") from None

    def check_layout(self, f):
        """Requires that no byte of the zip file is any that does not follow from its files. It reads none of them."""
        at, listed = f.seek(0), []
        for e in self.entries:
            before, behind, line = zip_around(e)
            need(e.at == at and f.read(len(before)) == before)
            at += len(before) + e.packed + len(behind)
            f.seek(e.packed, 1)
            need(f.read(len(behind)) == behind)
            listed.append(line)
        rest = b"".join(listed)
        rest += zip_end(len(listed), len(rest), at)
        need(f.read(len(rest) + 1) == rest)

    def check_file(self, f, e, want):
        code, at, packed, left = "file.mismatch", e.at + 30 + len(e.name), hashlib.sha256(), e.packed
        f.seek(at)
        while left:
            piece = f.read(min(left, 2**16))
            need(piece, code)
            packed.update(piece)
            left -= len(piece)
        need(encode(packed.digest()) == want["packedSha256"], code)
        f.seek(at)
        plain, format, rows = Unpacked(f, e), "" if e.name == b"README.txt" else self.header["format"], 0
        stream = io.BufferedReader(plain, 2**16)
        if format == "CSV":
            rows = csv_rows(stream)
        while piece := stream.read(2**16):
            rows += piece.count(b"\n") if format in ("JSON", "NDJSON") else 0
        rows -= 2 if format == "JSON" else 0  # its brackets are lines
        need((plain.count, plain.crc, encode(plain.hash.digest())) == (e.plain, e.crc, want["sha256"]), code)
        need((parquet_rows(f, at, e.packed) if format == "PARQUET" else rows) == want["rows"], "count.mismatch")


BOUND = 90_000  # milliseconds: how long a node may sign after a stop, by its own clock


class File:
    """What a file holds, and the code of what is wrong with it."""

    def __init__(self, name):
        self.name, self.code = name, None
        self.holds = self.attempt(read, name)

    def verdict(self):
        return verdict([self.code])

    def sandbox(self):
        """Whether it is sound and by a key of the sandbox: anyone can make such evidence."""
        return self.code is None and getattr(self.holds, "sandbox", False)

    def unproven(self):
        """Codes of what is, in a sound pack, the word of its header alone."""
        return getattr(self.holds, "unproven", []) if self.code is None else []

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


ANSWER = re.compile(rb'{"ok":true,"data":(.*),"contractVersion":"v1.0"}', re.DOTALL)
PROVEN = re.compile(rb'{"event":({.*}),"proof":("(?:[^"\\]|\\.)*")}', re.DOTALL)

# How files begin, by which their kind is known. Nobody else's do.
ANSWERED = b'{"ok":true,"data":'
PACKS = (b'{"checkpoint":"muniment/', b'{"entries":["{\\"', b'{"pack":{"entries":["{\\"', ANSWERED + b'{"pack":{"entries":["{\\"')
EXPORTS = (b'{"after":["', b'{"after":[],"before":[')
PROOFS = (b'{"event":{"actor":{"', ANSWERED + b'{"event":{"actor":{"')
GROWTHS = (b'{"consistency":["', b'{"consistency":[],"from":"muniment/', ANSWERED + b'{"consistency":[')
STATEMENTS = (b'{"adjustments":[{"amount":"', b'{"adjustments":[],"asOf":{"')
ERASED_ANSWER = ANSWERED + b'{"erasure":{"id":"era_'
CHECKPOINT = ANSWERED + b'{"checkpoint":"muniment/'
RELEASE = re.compile(rb"[0-9a-f]{64}  [!-.0-~]+\n")  # a line of a release's checksums, as sha256sum writes it
LARGEST = 2**24


def read(name):
    """The beginning of a file shows its kind."""
    with open(name, "rb") as f:
        if f.peek(64).startswith(PACKS):
            return Pack(f)
        if f.peek(64).startswith(BUNDLES):
            return Bundle(f)
        given = f.read()
    content = plain(given)
    if content.startswith(EXPORTS):
        return Export(content)
    if content.startswith(b'{"delegation":"muniment/'):
        kind = Directory
    elif content.startswith((b"muniment/erasure.v1", ERASED_ANSWER)):
        kind = Erasure
    elif content.startswith(b"muniment/"):
        kind = lambda content: Note(content.decode())
    elif content.startswith(b"c2sp.org/tlog-proof@v1\n") and b"\n\nmuniment/" in content:
        kind = lambda content: Proof(None, content.decode())
    elif content.startswith(b'{"actor":{"id":"'):
        kind = lambda content: Event(unwrapped(content))
    elif content.startswith(PROOFS) and not is_receipt(content):  # a receipt may have its event first
        kind = read_proof
    elif content.startswith(GROWTHS):
        kind = lambda content: Growth(unwrapped(content))
    elif content.startswith(CHECKPOINT):
        kind = read_note
    elif content.startswith(STATEMENTS):
        kind = Statement
    else:
        content = given
        need(len(content) <= LARGEST, "format.unknown")
        need(not RELEASE.match(content), "format.release")
        need(is_receipt(content), "format.unknown")
        kind = Receipt
    need(len(content) <= LARGEST)
    return kind(content)


def unwrapped(content):
    answer = ANSWER.fullmatch(content)
    return answer[1] if answer else content


def read_proof(content):
    proven = PROVEN.fullmatch(unwrapped(content))
    need(proven)
    return Proof(proven[1], parse(proven[2]))


def read_note(content):
    note = parse(unwrapped(content))
    need(fits(note, {"checkpoint": text}))
    return Note(note["checkpoint"])


RECEIPT_MEMBERS = {"spatialAnchorId", "spatialPlacementId", "renderedAt", "dwellMs", "witness"}  # which no others' receipts have


def is_receipt(content):
    """Whether it is meant to be a receipt: where an answer has it, there is one with a member of ours, or beside a signature
    with a keyId; or it is no JSON, as it was cut or altered, and has what only a receipt has. Of several values in a row the
    first decides."""
    begins = content.lstrip(b" \t\r\n")
    try:
        read = json.JSONDecoder(object_pairs_hook=unique, parse_constant=no_number, parse_int=float)
        answer, _ = read.raw_decode(begins.decode())
        json.dumps(answer, ensure_ascii=False).encode()  # halves of characters are no JSON
    except (ValueError, RecursionError):
        return begins.startswith(b"{") and b'"receipt"' in content and b'"receiptId"' in content
    members = lambda v: v if isinstance(v, dict) else {}
    return any(
        "receipt" in place and "keyId" in members(place.get("signature")) or RECEIPT_MEMBERS & members(place.get("receipt")).keys()
        for place in (members(answer), members(members(answer).get("data")))
    )


def verify(names, root, listed, bound=BOUND):
    """Verifies files together, under a root key or a list of keys."""
    files = [File(name) for name in names]
    of = lambda *kinds: [f for f in files if isinstance(f.holds, kinds)]
    known = [f.attempt(check_directory, f.holds.header["directory"], root) for f in of(Directory, Pack, Export, Bundle)]
    if root:
        _, listed = max(filter(None, known), key=lambda d: d[0], default=("", Keys()))
        for f in of(Directory):
            f.attempt(f.holds.check, listed)
    keys = listed
    for f in of(Pack, Export, Bundle):  # a directory of another root beside a key of this one belongs to no service
        if f.code == "directory.foreign" and f.holds.signers(keys):
            f.code = "directory.invalid"

    wanted = Wanted([f.holds.text for f in of(Event)], [f.holds.receipt["receiptId"] for f in of(Receipt)], [r["rule"] for f in of(Pack) for r in f.holds.rules])
    check_packs(sorted(of(Pack), key=lambda f: (f.holds.first, f.holds.end)), keys, wanted)
    for f in of(Note):
        f.attempt(f.holds.check, keys, wanted)
    for f in of(Bundle):
        f.attempt(f.holds.check, keys)
    for f in of(Event):
        f.attempt(f.holds.check, [g.holds for g in of(Pack, Note) if g.code is None])
    stops = check_stops(of(Pack, Note), bound)
    check_scopes(of(Pack), [f for f in of(Pack, Note) if f.code is None])
    for f in of(Receipt):
        f.attempt(f.holds.check, keys, of(Pack, Note))
        event = f.holds.beside.get("event")
        if event and f.code is None and event["tenantId"] in stops:
            said = Said()
            said.note(event, b"")
            judge(f, stops[event["tenantId"]], said)
    sound = [f for f in of(Pack, Note) if f.code is None and f.holds.said.count]
    for f in of(Erasure):
        f.attempt(f.holds.check, keys, of(Pack, Note))
    for f in of(Statement):
        f.attempt(f.holds.authenticate, keys, sound)
    for f in of(Statement):
        same = lambda g: g.holds.tenant == f.holds.tenant
        f.attempt(f.holds.check, list(filter(same, of(Pack))), sound, [g.holds for g in filter(same, of(Statement))])
    return files


def check_packs(packs, keys, wanted):
    for f in packs:
        f.attempt(f.holds.check, keys, wanted)
    for f, g in list(combinations([f for f in packs if f.code is None], 2)):
        p, q = f.holds, g.holds
        if p.tenant == q.tenant and p.header != q.header:
            if q.first < p.end:
                f.code = g.code = "chain.fork"
            elif q.first == p.end and not q.follows(p):
                g.code = "consistency.mismatch"
    logs = defaultdict(Log)
    for f in packs:
        f.attempt(f.holds.check_totals, logs[f.holds.tenant])
    for f in reversed(packs):
        if f.holds.revoked and not any(g.code is None and g.holds.follows(f.holds) for g in packs):
            f.code = f.code or "key.revoked"


def seconds(written):
    """Milliseconds of a number of seconds, which may be followed by an s."""
    try:
        number = Decimal(written.removesuffix("s"))
        if 0 < float(number) < math.inf:
            return math.floor(number * 1000)
    except ArithmeticError:
        pass
    raise ValueError


class Once(argparse.Action):
    """What is trusted is one thing: of two, the first would be dropped."""

    def __call__(self, parser, options, value, name=None):
        if getattr(options, self.dest) is not None:
            parser.error(f"{name} is given twice")
        setattr(options, self.dest, value)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    anchor = parser.add_mutually_exclusive_group(required=True)
    anchor.add_argument("--root", action=Once, help="a file with the root key, a C2SP vkey")
    anchor.add_argument("--keys", action=Once, help="a file with the keys to trust: a weaker anchor, because its author can forge everything")
    parser.add_argument("--bound", type=seconds, default=BOUND, help="longest delay in seconds between a stop and the last honest receipt: the service's --bound, and a minute for clock differences (default 90s)")
    parser.add_argument("--no-sandbox", action="store_true", help="refuse what a key of the sandbox has signed")
    parser.add_argument("--json", action="store_true", help="print an object a file")
    parser.add_argument("files", nargs="*", metavar="FILE")
    options = parser.parse_args()
    root = listed = None
    by_root = options.root is not None
    name = options.root if by_root else options.keys
    try:
        with open(name, "rb") as f:
            content = f.read()
        if by_root:
            root = root_key(content.decode())
        else:
            listed = listed_keys(content)
    except (OSError, Bad, ValueError, ArithmeticError, RecursionError) as wrong:
        parser.error(f"{name} holds no {'root key' if by_root else 'list of keys'}: {wrong}")
    sets = [options.files] if options.files else (line.rstrip("\n").split("\t") for line in sys.stdin)
    codes = set()
    for f in (f for names in sets for f in verify(names, root, listed, options.bound)):
        if options.no_sandbox and f.sandbox():
            f.code = "key.sandbox"
        codes.add(f.code)
        if options.json:
            said = {"file": f.name, "ok": f.code is None, "verdict": f.verdict(), "code": f.code, "sandbox": f.sandbox(), "unproven": f.unproven()}
            print(json.dumps(said | ({"next": NEXT[f.code]} if f.code in NEXT else {})))
        elif f.code is None:
            print(" ".join(["ok", f.name] + ["sandbox"] * f.sandbox() + f.unproven()))
        else:
            print({"unsound": "bad", "unjudged": "open"}[f.verdict()], f.name, f.code)
            if f.code in NEXT:
                print("    next:", NEXT[f.code])
    return {"sound": 0, "unsound": 1, "unjudged": 2}[verdict(codes)]


if __name__ == "__main__":
    sys.exit(main())
