#!/usr/bin/env python3
"""Computes what a period came to straight from proof packs, with nothing of Muniment. Time zones are those of Python's zoneinfo.

    settle.py --from TIME --to TIME --currency EUR BUNDLE...    prints {total, held, payees, lines} as JSON
    settle.py --statement FILE BUNDLE...                        the same for a statement's period, and
                                                                exits with 1 if it says otherwise
    settle.py --statement FILE --previous FILE BUNDLE...        the same for a correction or a void, and what
                                                                has changed since the statement before it;
                                                                without that, what can be known

The bundles are those of all packs of one log, up to the end that is stated, in any order,
uncompressed. The rules of what other statements state follow from them too. Written from the manual alone, the package comment in ../doc.go. It verifies no signature: verify.py does. All
money is decimal.Decimal.
"""
import argparse, base64, hashlib, json, sys
from collections import defaultdict
from datetime import datetime
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

MICRO = Decimal("0.000001")
UTC = ZoneInfo("UTC")
MOST = (2**63 - 1) * MICRO
UNITS = {
    "EVENT": lambda n: Decimal(n["receipts"]),
    "IMPRESSION": lambda n: n["impressions"],
    "CPM": lambda n: n["impressions"] / 1000,
    "MS": lambda n: Decimal(n["quantityMs"]),
    "SECOND": lambda n: Decimal(n["quantityMs"]) / 1000,
}
NAMES = ("rightId", "basisId", "substrate", "meteringBasis", "completion")
ORDER = ("rightId", "basisId", "campaign", "label", "substrate", "meteringBasis", "completion")


class Differs(Exception):
    """What a statement says otherwise than the packs. Its code is a verdict code of the manual."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def spell(d):
    """A decimal in its one spelling."""
    return f"{d.normalize():f}" if d else "0"


def millis(text):
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def read(names):
    """All of a log that statements rest on, in its order."""
    packs = []
    for name in names:
        with open(name) as f:
            packs.append((json.loads(f.readline())["firstIndex"], name))
    log, size = empty(), 0
    for first, name in sorted(packs):
        if first != size:
            sys.exit(f"{name} begins at leaf {first}, the packs before end at {size}")
        with open(name) as f:
            log["header"] = json.loads(f.readline())
            size = log["header"]["treeSize"]
            repeats = {d["leaf"] for d in log["header"]["duplicates"]}
            for leaf in range(first, size):
                note(log, leaf, json.loads(f.readline()), repeats)
    return log


def empty():
    return {"rules": {}, "issues": [], "counted": [], "rights": {}, "header": None}


def note(log, leaf, event, repeats):
    """Notes what statements rest on of an event."""
    data = event["data"]
    if event["type"].startswith("settlement_rule."):
        log["rules"][leaf] = data
    elif event["type"] == "statement.issued" or event["type"] == "statement.voided" and data["voidReason"] is not None:
        log["issues"].append(data)
    elif event["type"] == "right.issued" and event["subject"]["kind"] == "right":
        log["rights"].setdefault(event["subject"]["id"], scope_of(data))
    elif event["type"] == "delivery.recorded" and data["metering"]["metered"] and leaf not in repeats:
        log["counted"].append({
            "leaf": leaf, "receiptId": data["receipt"]["receiptId"], "renderedAt": millis(data["receipt"]["renderedAt"]),
            "rightId": data["rightId"], "basisId": data["basisId"], "substrate": data["substrate"],
            "meteringBasis": data["metering"]["basis"], "completion": data["metering"]["completion"],
            "quantityMs": data["metering"]["quantityMs"], "impressions": Decimal(data["metering"]["impressions"]),
        })


def scope_of(right):
    """The campaigns and labels in the record of a right: none if its scope is not of their form."""
    scope = right.get("scope")
    strings = lambda v: all(isinstance(one, str) for one in v)
    if isinstance(scope, dict):
        campaigns, labels = scope.get("campaigns", []), scope.get("labels", {})
        if isinstance(campaigns, list) and isinstance(labels, dict) and strings(campaigns) and strings(labels.values()):
            return campaigns, labels
    return [], {}


class Terms:
    """By which rule a receipt is rated: a leaf, or None."""

    def __init__(self, log, issues, size):
        """issues are the earlier statements with overlapping periods, in their order; the rules of others are those at a size."""
        self.texts, self.issues, self.size, self.rights, self.orders = log["rules"], issues, size, log["rights"], {}

    def rules(self, size):
        """The leaves of the rules at a size, in the order in which they match."""
        if size not in self.orders:
            newest = {}
            for leaf in sorted(l for l in self.texts if l < size):
                newest[self.texts[leaf]["id"]] = leaf
            self.orders[size] = sorted(newest.values(), key=lambda l: (-self.texts[l]["priority"], [self.texts[l]["match"][n] is None for n in ORDER], self.texts[l]["id"]))
        return self.orders[size]

    def matching(self, r, size):
        campaigns, labels = self.rights.get(r["rightId"], ([], {}))
        for leaf in self.rules(size):
            match, (effective, until) = self.texts[leaf]["match"], window(self.texts[leaf])
            campaign, label = match["campaign"], match["label"] or {"name": None}
            scoped = campaign in (None, *campaigns) and (label["name"] is None or labels.get(label["name"]) == label["value"])
            if scoped and effective <= r["renderedAt"] < until and all(match[n] in (None, r[n]) for n in NAMES):
                return leaf

    def scopes(self, counted):
        """What the rules name of the rights of receipts: those of one's own, and of the statements that are not voids."""
        texts = [self.texts[leaf] for size in {self.size, *(i["treeSize"] for i in self.issues if i["voidReason"] is None)} for leaf in self.rules(size)]
        matches, found = [t["match"] for t in texts], []
        for id in sorted({r["rightId"] for r in counted} & set(self.rights), key=str.encode):
            campaigns, labels = self.rights[id]
            some = sorted({m["campaign"] for m in matches} & set(campaigns), key=str.encode)
            of = {m["label"]["name"]: m["label"]["value"] for m in matches if m["label"] and labels.get(m["label"]["name"]) == m["label"]["value"]}
            if some or of:
                found.append({"campaigns": some, "labels": of, "rightId": id})
        return found

    def rule(self, r):
        """By definition: what the first statement says that is not voided, else the rules of one's own."""
        known = {}

        def among(world, size):
            voided = {i["corrects"] for i in self.issues[:world] if i["voidReason"] is not None}
            for n, issue in enumerate(self.issues[:world]):
                if (issue["corrects"] or issue["id"]) not in voided and states(n) is not None:
                    return states(n)
            return self.matching(r, size)

        def states(n):
            if n not in known:
                issue, known[n] = self.issues[n], None
                if issue["voidReason"] is None and r["leaf"] < issue["treeSize"] and millis(issue["from"]) <= r["renderedAt"] < millis(issue["to"]):
                    leaf = among(n, issue["treeSize"])
                    text = self.texts.get(leaf)
                    if text and text["currency"] == issue["currency"] and issue["counterpartyId"] in [None] + [s["counterpartyId"] for s in text["shares"]]:
                        known[n] = leaf
            return known[n]

        return among(len(self.issues), self.size)


def window(rule):
    return millis(rule["effectiveFrom"]), millis(rule["effectiveUntil"]) if rule["effectiveUntil"] else float("inf")


def excluded(statement):
    """What a receipt is left out as: HELD, UPHELD, or not at all."""
    receipts, windows = {}, defaultdict(list)
    for x in statement["excluded"]:
        for id in x["receiptIds"]:
            receipts[id] = max(receipts.get(id, ""), x["state"])
        if x["rightId"] is not None:
            windows[x["rightId"]].append((millis(x["from"]), millis(x["to"]), x["state"]))

    def state(r):
        found = [receipts.get(r["receiptId"], "")]
        found += [s for begin, end, s in windows[r["rightId"]] if begin <= r["renderedAt"] < end]
        return max(found)

    return state


def split(amount, shares):
    """The parts of an amount: rounded down, what is left to the largest remainders."""
    exact = [amount * s["bps"] / 10000 for s in shares]
    parts = [e.quantize(MICRO, rounding="ROUND_DOWN") for e in exact]
    left = int((amount - sum(parts)) / MICRO)
    order = sorted(range(len(shares)), key=lambda i: (parts[i] - exact[i], shares[i]["counterpartyId"]))
    for i in order[:left]:
        parts[i] += MICRO
    return parts


def local(at, zone):
    """A moment in RFC 3339, with the zone's offset."""
    return datetime.fromtimestamp(at / 1000, zone).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def bounds(rule):
    return rule["minimum"] is not None or rule["cap"] is not None or rule["tiers"]


def months(terms, period, currency, counterparty):
    """The months that end in the period, and in which a rule that pays has something to adjust."""
    found = {}
    for rule in (terms.texts[leaf] for leaf in terms.rules(terms.size)):
        if not bounds(rule) or rule["currency"] != currency or counterparty not in [None] + [s["counterpartyId"] for s in rule["shares"]]:
            continue
        zone, (effective, until) = ZoneInfo(rule["timeZone"]), window(rule)
        first = datetime.fromtimestamp(period[0] / 1000, zone)
        year, month = first.year, first.month
        while True:
            after = (year + month // 12, month % 12 + 1)
            begin, end = (round(datetime(y, m, 1, tzinfo=zone).timestamp() * 1000) for y, m in ((year, month), after))
            if end > period[1]:
                break
            if year >= 1970 and end > period[0] and max(begin, effective) < min(end, until):
                named = {"month": f"{year:04}-{month:02}", "timeZone": rule["timeZone"]}
                found[rule["timeZone"], named["month"]] = {**named, "from": local(begin, UTC), "to": local(end, UTC)}
            year, month = after
    return [found[name] for name in sorted(found)]


def tiered(rule, own, older):
    """What the prices of tiers change of an amount by the first one; older units come first, and keep theirs."""
    change, first, volume = Decimal(0), Decimal(rule["price"]), own + older
    for tier, after in zip(rule["tiers"], [t["above"] for t in rule["tiers"][1:]] + [volume]):
        if volume > tier["above"]:
            more = Decimal(tier["price"]) - first
            change = more * own if rule["tiersMode"] == "VOLUME" else change + more * max(min(volume, after) - max(older, tier["above"]), 0)
    return change.quantize(MICRO, rounding=ROUND_HALF_EVEN)


def grouped(terms, counted):
    """Sums by right, metering basis and leaf of the rule, with their amounts; none without a rule, or if it is too large."""
    groups = defaultdict(lambda: {"receipts": 0, "quantityMs": 0, "impressions": Decimal(0)})
    for r in counted:
        g = groups[r["rightId"], r["meteringBasis"], terms.rule(r)]
        g["receipts"] += 1
        g["quantityMs"] += r["quantityMs"]
        g["impressions"] += r["impressions"]
    for (_, _, leaf), g in groups.items():
        rule = terms.texts.get(leaf)
        g["amount"] = (Decimal(rule["price"]) * UNITS[rule["unit"]](g)).quantize(MICRO, rounding=ROUND_HALF_EVEN) if rule else None
        if rule and g["amount"] > MOST:
            g["amount"] = None
    return groups


def settle(terms, counted, period, currency, counterparty, reached):
    """Lines and adjustments of a currency, and what everybody gets; counted are all since the first of the months begins."""
    texts = terms.texts

    def between(begin, end):
        return grouped(terms, [r for r in counted if begin <= r["renderedAt"] < end])

    lines, adjustments, payees = [], [], defaultdict(Decimal)
    unrated = defaultdict(lambda: {"receipts": 0, "quantityMs": 0, "impressions": Decimal(0)})

    def share(rule, amount):
        shown = []
        for s, part in zip(rule["shares"], [p.copy_sign(amount) if p else p for p in split(abs(amount), rule["shares"])]):
            if counterparty in (None, s["counterpartyId"]):
                payees[s["counterpartyId"]] += part
                shown.append({"amount": spell(part), "bps": s["bps"], "counterpartyId": s["counterpartyId"]})
        return shown

    for (right, basis, leaf), g in sorted(between(*period).items(), key=lambda item: (item[0][:2], texts[item[0][2]]["id"] if item[0][2] is not None else "", item[0][2] or 0)):
        rule, amount = texts.get(leaf), g["amount"]
        if amount is None:
            u = unrated[right, basis, "AMOUNT_TOO_LARGE" if rule else "NO_RULE"]
            for name in u:
                u[name] += g[name]
            continue
        if rule["currency"] != currency:
            continue
        shares = share(rule, amount)
        if shares:
            lines.append({
                "amount": spell(amount), "impressions": spell(g["impressions"]), "meteringBasis": basis, "price": rule["price"],
                "quantityMs": g["quantityMs"], "receipts": g["receipts"], "rightId": right, "ruleId": rule["id"], "ruleLeaf": leaf, "shares": shares, "unit": rule["unit"],
            })
    whole = [(m, between(millis(m["from"]), millis(m["to"]))) for m in reached]
    for id, leaf in sorted((texts[leaf]["id"], leaf) for leaf in terms.rules(terms.size)):
        rule = texts[leaf]
        effective, until = window(rule)
        for month, groups in whole:
            begin, end = millis(month["from"]), millis(month["to"])
            if not bounds(rule) or rule["currency"] != currency or rule["timeZone"] != month["timeZone"] or not max(begin, effective) < min(end, until):
                continue
            rated = [(texts[l], g) for (_, _, l), g in groups.items() if g["amount"] is not None and texts[l]["id"] == id and texts[l]["currency"] == currency]
            total = sum((g["amount"] for _, g in rated), Decimal(0))
            volumes = {True: Decimal(0), False: Decimal(0)}
            for text, g in rated:
                volumes[(text["unit"], text["price"]) == (rule["unit"], rule["price"])] += UNITS[rule["unit"]](g)
            tier = tiered(rule, volumes[True], volumes[False])
            low, high = rule["minimum"], rule["cap"]
            bounded = max(total + tier, Decimal(low)) if low is not None else total + tier
            bounded = min(bounded, Decimal(high)) if high is not None else bounded
            change = bounded - total - tier
            for reason, change in ("TIER", tier), ("CAP" if change < 0 else "MINIMUM", change):
                shares = share(rule, change) if change else []
                if shares:
                    adjustments.append({
                        "amount": spell(change), "month": month["month"], "reason": reason, "ruleId": id, "ruleLeaf": leaf, "shares": shares, "timeZone": month["timeZone"],
                    })
    return {
        "adjustments": adjustments, "lines": lines, "total": spell(sum(payees.values(), Decimal(0))),
        "unrated": [
            {"impressions": spell(u["impressions"]), "meteringBasis": basis, "quantityMs": u["quantityMs"], "reason": reason, "receipts": u["receipts"], "rightId": right}
            for (right, basis, reason), u in sorted(unrated.items())
        ],
        "payees": [{"amount": spell(payees[id]), "counterpartyId": id} for id in sorted(payees)],
    }


def amounts(said):
    """What each line and adjustment shows, and of how many receipts."""
    made = defaultdict(lambda: (Decimal(0), 0))
    for l in said["lines"]:
        amount, receipts = made[l["rightId"], l["meteringBasis"], l["ruleId"]]
        made[l["rightId"], l["meteringBasis"], l["ruleId"]] = amount + sum(Decimal(s["amount"]) for s in l["shares"]), receipts + l["receipts"]
    for a in said["adjustments"]:
        amount, _ = made["", "", a["ruleId"]]
        made["", "", a["ruleId"]] = (amount + sum(Decimal(s["amount"]) for s in a["shares"]), 0)
    return made


def changes(before, *steps):
    found = []
    for reason, after in steps:
        was, now = amounts(before), amounts(after)
        for name in set(was) | set(now):
            amount, receipts = now[name][0] - was[name][0], now[name][1] - was[name][1]
            if amount or receipts:
                found.append({"amount": spell(amount), "meteringBasis": name[1], "reason": reason, "receipts": receipts, "rightId": name[0], "ruleId": name[2]})
        before = after
    return sorted(found, key=lambda c: (c["rightId"], c["meteringBasis"], c["ruleId"], c["reason"]))


def corrected(previous, now, said, *steps):
    """The members of a correction that follow from the statement before it."""
    payees = defaultdict(Decimal)
    for of, sign in (now, 1), (previous, -1):
        for p in of["payees"]:
            payees[p["counterpartyId"]] += sign * Decimal(p["amount"])
    return {
        "changes": changes(previous, *steps),
        "difference": spell(Decimal(now["total"]) - Decimal(previous["total"])),
        "payees": [{"amount": spell(payees[id]), "counterpartyId": id} for id in sorted(payees) if payees[id]],
        "previous": {"asOf": previous["asOf"], "sha256": said["previous"]["sha256"], "statementId": previous["statementId"], "total": previous["total"]},
        "of": previous["correction"]["of"] if previous["correction"] else previous["statementId"],
        "voidReason": said["voidReason"],
    }


def text_of(name, sha256):
    with open(name, "rb") as f:
        signed = f.read()
    if base64.urlsafe_b64encode(hashlib.sha256(signed).digest()).decode().rstrip("=") != sha256:
        sys.exit(f"{name} is not what the statement corrects")
    return json.loads(signed.splitlines()[0])


def overlaps(log, said):
    """The earlier statements of the log with overlapping periods, which a statement lists."""
    begin, end = millis(said["since"]), millis(said["to"])
    issues = [i for i in log["issues"] if i["id"] != said.get("statementId") and millis(i["from"]) < end and begin < millis(i["to"])]
    found = sorted(({"sha256": i["sha256"], "statementId": i["id"]} for i in issues), key=lambda o: o["statementId"])
    if "overlaps" in said and found != said["overlaps"]:
        raise Differs("statement.overlap", f"the log has the statements {found}, the statement lists {said['overlaps']}")
    voided = {i["corrects"] for i in issues if i["voidReason"] is not None}
    for i in issues:
        meets = millis(said["from"]) < millis(i["to"])
        one = None in (i["counterpartyId"], said["counterpartyId"]) or i["counterpartyId"] == said["counterpartyId"]
        if "overlaps" in said and not said["correction"] and i["currency"] == said["currency"] and one and meets and (i["corrects"] or i["id"]) not in voided:
            raise Differs("statement.overlap", f"the statement {i['id']} bills the same receipts")
    return issues


def without(v, *names):
    return [{k: x for k, x in one.items() if k not in names} for one in v]


def main():
    flags = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    flags.add_argument("--statement")
    flags.add_argument("--previous")
    flags.add_argument("--from", dest="begin")
    flags.add_argument("--to")
    flags.add_argument("--currency")
    flags.add_argument("bundles", nargs="+")
    args = flags.parse_args()
    said = {"correction": None, "excluded": [], "counterpartyId": None, "from": args.begin, "since": args.begin, "to": args.to, "currency": args.currency}
    if args.statement:
        with open(args.statement) as f:
            said = json.loads(f.readline())
    previous = text_of(args.previous, said["correction"]["previous"]["sha256"]) if args.previous else None
    try:
        said_log = None if is_void(said) else read(args.bundles)
        made, counted = judge(said, previous, said_log, args.statement)
    except Differs as differs:
        sys.exit(str(differs))
    if not args.statement:
        print(json.dumps(made))
    elif is_void(said):
        print(f"ok {args.statement} voids {said['correction']['of']}")
    else:
        print(f"ok {args.statement} {made['total']} {said['currency']} of {counted} receipts, held {made['heldAmount']}")


def is_void(said):
    return said["correction"] is not None and said["correction"]["voidReason"] is not None


def judge(said, previous, log, stated):
    """What a period came to, and of how many receipts; if a statement is given, it has to say the same."""
    correction = said["correction"]
    need = lambda ok, code, message: ok or differ(code, message)
    if previous and (other := [n for n in ("tenantId", "from", "to", "currency", "counterpartyId") if previous[n] != said[n]]):
        differ("statement.correction", f"the statement before has another {other[0]}")
    if stated and [local(millis(said[n]), ZoneInfo(said["timeZone"])) for n in ("from", "to")] != [said["localFrom"], said["localTo"]]:
        differ("statement.unproven", "the local times of its period are not those of this machine")
    if is_void(said):
        need(said["total"] == said["heldAmount"] == "0" and not any(said[n] for n in ("lines", "adjustments", "excluded", "months", "overlaps", "payees", "rights", "unrated")), "format.invalid", "it voids a statement, and states something")
        nothing = {"lines": [], "adjustments": [], "payees": [], "total": "0"}
        told = {**correction, "payees": without(correction["payees"], "name")}
        if previous and (found := corrected(previous, nothing, correction, ("VOID", nothing))) != told:
            differ("statement.correction", f"the statement before makes the void {found}, the statement says {told}")
        return nothing, 0
    for r in said.get("rights", []):  # the event of a right may be later in the log
        log["rights"].setdefault(r["rightId"], (r["campaigns"], r["labels"]))
    header, period = log["header"], (millis(said["from"]), millis(said["to"]))
    reached = months(Terms(log, [], header["treeSize"]), period, said["currency"], said["counterpartyId"])
    since = min([said["from"]] + [m["from"] for m in reached], key=millis)
    if previous:
        since = min(since, previous["since"], key=millis)
    if stated:
        need(reached == said["months"], "statement.rule", f"months: the rules make {reached}, the statement says {said['months']}")
        need(millis(said["since"]) <= millis(since) and (millis(said["since"]) == millis(since) or correction and not previous), "statement.rule", f"the statement counts since {said['since']}, it has to since {since}")
    else:
        said["since"] = since
    issues = overlaps(log, said)
    terms = Terms(log, issues, header["treeSize"])
    state = excluded(said)
    counted = [(state(r), r) for r in log["counted"] if millis(said["since"]) <= r["renderedAt"] < period[1]]
    free = [r for s, r in counted if s == ""]
    of = period, said["currency"], said["counterpartyId"]
    made = settle(terms, free, *of, reached)
    held = [r for s, r in counted if s == "HELD"]
    more = settle(terms, free + held, *of, reached)
    made["heldAmount"] = spell(Decimal(more["total"]) - Decimal(made["total"]))
    made["rights"] = terms.scopes(free + held)
    if not stated:
        return made, len(free)
    need((header["treeSize"], header["rootHash"]) == (said["asOf"]["treeSize"], said["asOf"]["rootHash"]), "statement.log", "the statement is of another end of the log")
    for name, stripped in {
        "lines": said["lines"], "adjustments": said["adjustments"], "rights": said["rights"],
        "payees": without(said["payees"], "name"), "unrated": said["unrated"], "total": said["total"], "heldAmount": said["heldAmount"],
    }.items():
        need(made[name] == stripped, line_code(made[name], stripped) if name == "lines" else CODES[name], f"{name}: the packs make {made[name]}, the statement says {stripped}")
    if correction:
        chain = [i["id"] for i in issues if (i["corrects"] or i["id"]) == correction["of"]]
        need(chain[-1:] == [correction["previous"]["statementId"]], "statement.correction", f"the statement corrects {correction['previous']['statementId']}, the newest of its chain is {chain[-1:]}")
        size = correction["previous"]["asOf"]["treeSize"]
        before = [r for r in free if r["leaf"] < size]
        earlier = issues[: [i["id"] for i in issues].index(chain[-1])]
        then = Terms(log, earlier, size)
        disputed = settle(then, before, *of, previous["months"] if previous else months(then, *of))
        ruled = settle(terms, before, *of, reached)
        told = {**correction, "payees": without(correction["payees"], "name")}
        if not previous:
            found, told = changes(disputed, ("RULES", ruled), ("LATE", made)), [c for c in told["changes"] if c["reason"] != "DISPUTE"]
        else:
            found = corrected(previous, made, correction, ("DISPUTE", disputed), ("RULES", ruled), ("LATE", made))
        need(found == told, "statement.correction", f"the packs make the correction {found}, the statement says {told}")
    return made, len(free)


CODES = {
    "lines": "statement.receipts", "adjustments": "statement.rule", "rights": "statement.rule", "payees": "statement.total",
    "unrated": "statement.receipts", "total": "statement.total", "heldAmount": "statement.total",
}


def line_code(made, told):
    """What the first difference between lines is about."""
    key = lambda line: tuple(line[name] for name in ("rightId", "meteringBasis", "ruleId", "ruleLeaf"))
    known = {key(line): line for line in made}
    for line in told:
        for code, names in (("rule", ("unit", "price")), ("receipts", ("receipts", "quantityMs", "impressions")), ("amount", ("amount",)), ("share", ("shares",))):
            if key(line) in known and any(line[name] != known[key(line)][name] for name in names):
                return "statement." + code
    return CODES["lines"]


def differ(code, message):
    raise Differs(code, message)


def exactly(run, *args):
    """Runs with decimals of enough digits."""
    with localcontext() as context:
        context.prec = 60
        return run(*args)


if __name__ == "__main__":
    exactly(main)
