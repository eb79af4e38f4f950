#!/usr/bin/env python3
"""Computes what a period came to straight from proof packs, with nothing of Muniment.

    settle.py --from TIME --to TIME --currency EUR BUNDLE...    prints {total, held, payees, lines} as JSON
    settle.py --statement FILE BUNDLE...                        the same for a statement's period, and
                                                                exits with 1 if it says otherwise
    settle.py --statement FILE --previous FILE BUNDLE...        the same for a correction, and what has changed
                                                                since the statement before it

The bundles are those of all packs of one log, in any order, uncompressed. Written from the
manual alone, the package comment in ../doc.go. It verifies no signature: verify.py does. All
money is decimal.Decimal.
"""
import argparse, base64, hashlib, json, sys
from collections import defaultdict
from datetime import datetime
from decimal import ROUND_HALF_EVEN, Decimal, localcontext

MICRO = Decimal("0.000001")
MOST = (2**63 - 1) * MICRO
UNITS = {
    "EVENT": lambda n: Decimal(n["receipts"]),
    "IMPRESSION": lambda n: n["impressions"],
    "CPM": lambda n: n["impressions"] / 1000,
    "MS": lambda n: Decimal(n["quantityMs"]),
    "SECOND": lambda n: Decimal(n["quantityMs"]) / 1000,
}
NAMES = ("rightId", "basisId", "substrate", "meteringBasis", "completion")


def spell(d):
    """A decimal in its one spelling."""
    return f"{d.normalize():f}" if d else "0"


def millis(text):
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def read(names, ruled):
    """The rules up to a size of the log, and all of its deliveries that count, in order."""
    packs = []
    for name in names:
        with open(name) as f:
            packs.append((json.loads(f.readline())["firstIndex"], name))
    rules, counted, size, last = {}, [], 0, None
    for first, name in sorted(packs):
        if first != size:
            sys.exit(f"{name} begins at leaf {first}, the packs before end at {size}")
        with open(name) as f:
            last = json.loads(f.readline())
            repeats = {d["leaf"] for d in last["duplicates"]}
            for leaf in range(first, last["treeSize"]):
                event = json.loads(f.readline())
                data = event["data"]
                if event["type"].startswith("settlement_rule."):
                    if leaf < ruled:
                        rules[data["id"]] = data
                elif event["type"] == "delivery.recorded" and data["metering"]["metered"] and leaf not in repeats:
                    counted.append({
                        "leaf": leaf, "receiptId": data["receipt"]["receiptId"], "renderedAt": millis(data["receipt"]["renderedAt"]),
                        "rightId": data["rightId"], "basisId": data["basisId"], "substrate": data["substrate"],
                        "meteringBasis": data["metering"]["basis"], "completion": data["metering"]["completion"],
                        "quantityMs": data["metering"]["quantityMs"], "impressions": Decimal(data["metering"]["impressions"]),
                    })
        size = last["treeSize"]
    return last, rules, counted


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


def settle(rules, counted, period, currency, counterparty):
    """Lines and adjustments of a currency, and what everybody gets."""
    begin, end = period
    windows = {
        id: (millis(r["effectiveFrom"]), millis(r["effectiveUntil"]) if r["effectiveUntil"] else float("inf"))
        for id, r in rules.items()
    }
    order = sorted(rules, key=lambda id: (-rules[id]["priority"], [rules[id]["match"][n] is None for n in NAMES], id))
    groups = defaultdict(lambda: {"receipts": 0, "quantityMs": 0, "impressions": Decimal(0)})
    for r in counted:
        for id in order:
            match, (effective, until) = rules[id]["match"], windows[id]
            if effective <= r["renderedAt"] < until and all(match[n] in (None, r[n]) for n in NAMES):
                g = groups[r["rightId"], r["meteringBasis"], id]
                g["receipts"] += 1
                g["quantityMs"] += r["quantityMs"]
                g["impressions"] += r["impressions"]
                break
        else:
            groups[r["rightId"], r["meteringBasis"], None]["receipts"] += 1
            groups[r["rightId"], r["meteringBasis"], None]["quantityMs"] += r["quantityMs"]
            groups[r["rightId"], r["meteringBasis"], None]["impressions"] += r["impressions"]
    lines, adjustments, payees, sums = [], [], defaultdict(Decimal), defaultdict(Decimal)
    unrated = defaultdict(lambda: {"receipts": 0, "quantityMs": 0, "impressions": Decimal(0)})

    def share(rule, amount):
        shown = []
        for s, part in zip(rule["shares"], [p.copy_sign(amount) if p else p for p in split(abs(amount), rule["shares"])]):
            if counterparty in (None, s["counterpartyId"]):
                payees[s["counterpartyId"]] += part
                shown.append({"amount": spell(part), "bps": s["bps"], "counterpartyId": s["counterpartyId"]})
        return shown

    for (right, basis, id), g in sorted(groups.items(), key=lambda item: (item[0][:2], item[0][2] or "")):
        rule = rules.get(id)
        amount = (Decimal(rule["price"]) * UNITS[rule["unit"]](g)).quantize(MICRO, rounding=ROUND_HALF_EVEN) if rule else None
        if rule is None or amount > MOST:
            u = unrated[right, basis, "AMOUNT_TOO_LARGE" if rule else "NO_RULE"]
            for name in u:
                u[name] += g[name]
            continue
        if rule["currency"] != currency:
            continue
        sums[id] += amount
        shares = share(rule, amount)
        if shares:
            lines.append({
                "amount": spell(amount), "impressions": spell(g["impressions"]), "meteringBasis": basis, "price": rule["price"],
                "quantityMs": g["quantityMs"], "receipts": g["receipts"], "rightId": right, "ruleId": id, "shares": shares, "unit": rule["unit"],
            })
    for id in sorted(rules):
        rule = rules[id]
        if rule["currency"] != currency or not max(begin, windows[id][0]) < min(end, windows[id][1]):
            continue
        low, high = rule["minimum"], rule["cap"]
        bounded = max(sums[id], Decimal(low)) if low is not None else sums[id]
        bounded = min(bounded, Decimal(high)) if high is not None else bounded
        change = bounded - sums[id]
        if change:
            shares = share(rule, change)
            if shares:
                adjustments.append({"amount": spell(change), "reason": "CAP" if change < 0 else "MINIMUM", "ruleId": id, "shares": shares})
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
    made = {(l["rightId"], l["meteringBasis"], l["ruleId"]): (sum(Decimal(s["amount"]) for s in l["shares"]), l["receipts"]) for l in said["lines"]}
    made.update({("", "", a["ruleId"]): (sum(Decimal(s["amount"]) for s in a["shares"]), 0) for a in said["adjustments"]})
    return made


def changes(before, after, reason):
    before, after, nothing = amounts(before), amounts(after), (Decimal(0), 0)
    found = []
    for name in set(before) | set(after):
        (was, some), (is_now, more) = before.get(name, nothing), after.get(name, nothing)
        if (was, some) != (is_now, more):
            found.append({
                "amount": spell(is_now - was), "meteringBasis": name[1], "reason": reason, "receipts": more - some, "rightId": name[0], "ruleId": name[2],
            })
    return found


def corrected(previous, then, now, said):
    """The members of a correction that follow from the statement before it."""
    payees = defaultdict(Decimal)
    for of, sign in (now, 1), (previous, -1):
        for p in of["payees"]:
            payees[p["counterpartyId"]] += sign * Decimal(p["amount"])
    made = changes(previous, then, "DISPUTE") + changes(then, now, "LATE")
    return {
        "changes": sorted(made, key=lambda c: (c["rightId"], c["meteringBasis"], c["ruleId"], c["reason"])),
        "difference": spell(Decimal(now["total"]) - Decimal(previous["total"])),
        "payees": [{"amount": spell(payees[id]), "counterpartyId": id} for id in sorted(payees) if payees[id]],
        "previous": {"asOf": previous["asOf"], "sha256": said["previous"]["sha256"], "statementId": previous["statementId"], "total": previous["total"]},
        "of": previous["correction"]["of"] if previous["correction"] else previous["statementId"],
        "rules": previous["correction"]["rules"] if previous["correction"] else previous["asOf"],
    }


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
    said = {"correction": None, "excluded": [], "counterpartyId": None, "from": args.begin, "to": args.to, "currency": args.currency}
    if args.statement:
        with open(args.statement) as f:
            said = json.loads(f.readline())
    correction = said["correction"]
    if correction and not args.previous:
        flags.error("a correction needs --previous, the statement before it")
    header, rules, counted = read(args.bundles, correction["rules"]["treeSize"] if correction else float("inf"))
    period = millis(said["from"]), millis(said["to"])
    state = excluded(said)
    counted = [(state(r), r) for r in counted if period[0] <= r["renderedAt"] < period[1]]
    stated = [r for s, r in counted if s == ""]
    made = settle(rules, stated, period, said["currency"], said["counterpartyId"])
    held = [r for s, r in counted if s == "HELD"]
    more = settle(rules, stated + held, period, said["currency"], said["counterpartyId"])
    made["heldAmount"] = spell(Decimal(more["total"]) - Decimal(made["total"]))
    if not args.statement:
        print(json.dumps(made))
        return
    if (header["treeSize"], header["rootHash"]) != (said["asOf"]["treeSize"], said["asOf"]["rootHash"]):
        sys.exit("the statement is of another end of the log")
    for name, stripped in {
        "lines": without(said["lines"], "ruleLeaf"), "adjustments": without(said["adjustments"], "ruleLeaf"),
        "payees": without(said["payees"], "name"), "unrated": said["unrated"], "total": said["total"], "heldAmount": said["heldAmount"],
    }.items():
        if made[name] != stripped:
            sys.exit(f"{name}: the packs make {made[name]}, the statement says {stripped}")
    if correction:
        with open(args.previous, "rb") as f:
            text = f.readline().rstrip(b"\n")
        if base64.urlsafe_b64encode(hashlib.sha256(text).digest()).decode().rstrip("=") != correction["previous"]["sha256"]:
            sys.exit(f"{args.previous} is not what the statement corrects")
        size = correction["previous"]["asOf"]["treeSize"]
        then = settle(rules, [r for r in stated if r["leaf"] < size], period, said["currency"], said["counterpartyId"])
        told = {**correction, "payees": without(correction["payees"], "name")}
        if (found := corrected(json.loads(text), then, made, correction)) != told:
            sys.exit(f"the packs make the correction {found}, the statement says {told}")
    print(f"ok {args.statement} {made['total']} {said['currency']} of {len(stated)} receipts, held {made['heldAmount']}")


with localcontext() as context:
    context.prec = 60
    main()
