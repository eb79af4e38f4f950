"""Metering, settlement, statements and disputes."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from . import document as d
from .call import Caller, File, at


class Metering:
    """Sums of what the gate decided about deliveries."""

    def __init__(self, caller: Caller):
        self._c = caller

    def get(self, query: d.GetMeteringQuery | None = None) -> d.Metering:
        """A page of sums. Its totals are over all rows."""
        return self._c.data("GET", "/v1/metering", query=query)

    def rows(self, query: d.GetMeteringQuery | None = None) -> Iterator[d.MeteringRow]:
        """The sums of all pages."""
        return self._c.pages("/v1/metering", "rows", query)

    def file(self, format: Literal["csv", "ndjson"], query: d.GetMeteringQuery | None = None) -> File:
        """All sums, as a file."""
        return self._c.stream("/v1/metering", {**(query or {}), "format": format})

    def refusals(self, query: d.GetRefusalsQuery | None = None) -> d.Refusals:
        """A page of how often rules have refused."""
        return self._c.data("GET", "/v1/metering/refusals", query=query)


class SettlementRules:
    """What receipts are worth."""

    def __init__(self, caller: Caller):
        self._c = caller

    def create(self, rule: d.NewSettlementRule) -> d.SettlementRule:
        return self._c.record("POST", "/v1/settlement/rules", "rule", rule)

    def list(self, query: d.ListSettlementRulesQuery | None = None) -> Iterator[d.SettlementRule]:
        """Newest first."""
        return self._c.pages("/v1/settlement/rules", "rules", query)

    def get(self, rule_id: str) -> d.SettlementRule:
        return self._c.record("GET", at("/v1/settlement/rules/", rule_id), "rule")

    def change(self, rule_id: str, rule: d.SettlementRuleChange) -> d.SettlementRule:
        """Replaces a rule."""
        return self._c.record("PUT", at("/v1/settlement/rules/", rule_id), "rule", rule)

    def retire(self, rule_id: str) -> d.SettlementRule:
        """Ends a rule."""
        return self._c.record("DELETE", at("/v1/settlement/rules/", rule_id), "rule")

    def dry_run(self, rule: d.NewSettlementRule, begin: str, end: str) -> d.DryRunData:
        """What a rule would have changed between two moments, the second exclusive. Nothing is kept."""
        return self._c.data("POST", "/v1/settlement/rules/dry-run", {"rule": rule, "from": begin, "to": end})


class Counterparties:
    """Who is paid."""

    def __init__(self, caller: Caller):
        self._c = caller

    def create(self, counterparty: d.NewCounterparty) -> d.Counterparty:
        return self._c.record("POST", "/v1/settlement/counterparties", "counterparty", counterparty)

    def list(self, query: d.ListCounterpartiesQuery | None = None) -> Iterator[d.Counterparty]:
        """Newest first."""
        return self._c.pages("/v1/settlement/counterparties", "counterparties", query)

    def get(self, counterparty_id: str) -> d.Counterparty:
        return self._c.record("GET", at("/v1/settlement/counterparties/", counterparty_id), "counterparty")

    def change(self, counterparty_id: str, counterparty: d.NewCounterparty) -> d.Counterparty:
        """Replaces a counterparty."""
        return self._c.record("PUT", at("/v1/settlement/counterparties/", counterparty_id), "counterparty", counterparty)

    def deactivate(self, counterparty_id: str) -> d.Counterparty:
        """Ends a counterparty: new rules can't name it."""
        return self._c.record("DELETE", at("/v1/settlement/counterparties/", counterparty_id), "counterparty")


class Statements:
    """What is owed for periods."""

    def __init__(self, caller: Caller):
        self._c = caller

    def draft(self, statement: d.NewStatement) -> d.Statement:
        return self._c.record("POST", "/v1/settlement/statements", "statement", statement)

    def list(self, query: d.ListStatementsQuery | None = None) -> Iterator[d.Statement]:
        """Newest first."""
        return self._c.pages("/v1/settlement/statements", "statements", query)

    def get(self, statement_id: str) -> d.StatementDocument:
        """A statement and what is signed of it."""
        return self._c.data("GET", at("/v1/settlement/statements/", statement_id))

    def file(self, statement_id: str, format: Literal["csv", "html", "pdf", "signed"], query: d.GetStatementQuery | None = None) -> File:
        """A statement as a file: signed is what muniment verify takes."""
        return self._c.stream(at("/v1/settlement/statements/", statement_id), {**(query or {}), "format": format})

    def discard(self, statement_id: str) -> d.Statement:
        """Throws a draft away."""
        return self._c.record("DELETE", at("/v1/settlement/statements/", statement_id), "statement")

    def issue(self, statement_id: str) -> d.Statement:
        """Signs a draft. It is frozen from then on."""
        return self._c.record("POST", at("/v1/settlement/statements/", statement_id, "/issue"), "statement")

    def correct(self, statement_id: str) -> d.Statement:
        """Drafts a correction of an issued statement."""
        return self._c.record("POST", at("/v1/settlement/statements/", statement_id, "/correct"), "statement")

    def void(self, statement_id: str, reason: str) -> d.Statement:
        """Takes an issued statement back, with its corrections: its period can be stated again."""
        return self._c.record("POST", at("/v1/settlement/statements/", statement_id, "/void"), "statement", {"reason": reason})

    def settle(self, statement_id: str, payment: d.Payment) -> d.Statement:
        """Notes a payment of a statement, or takes payments back. It is SETTLED once nothing is open, ISSUED again once something is."""
        return self._c.record("POST", at("/v1/settlement/statements/", statement_id, "/settle"), "statement", payment)

    def receipts(self, statement_id: str, query: d.ListStatementReceiptsQuery | None = None) -> Iterator[d.LineReceipt]:
        """The receipts behind the lines of a statement."""
        return self._c.pages(at("/v1/settlement/statements/", statement_id, "/receipts"), "receipts", query)


class PayeeLinks:
    """Links by which payees read their parts of statements, without an account."""

    def __init__(self, caller: Caller):
        self._c = caller

    def create(self, link: d.NewPayeeLink) -> d.CreatedPayeeLink:
        """The url is returned this once: anyone who has it can read the page."""
        return self._c.data("POST", "/v1/settlement/payee-links", link)

    def list(self, query: d.ListPayeeLinksQuery | None = None) -> Iterator[d.PayeeLink]:
        """Newest first."""
        return self._c.pages("/v1/settlement/payee-links", "links", query)

    def revoke(self, payee_link_id: str) -> d.PayeeLink:
        """Ends a link for good."""
        return self._c.record("DELETE", at("/v1/settlement/payee-links/", payee_link_id), "link")


class Payables:
    """What payees are due."""

    def __init__(self, caller: Caller):
        self._c = caller

    def list(self, query: d.ListPayablesQuery | None = None) -> Iterator[d.Payable]:
        """Newest first."""
        return self._c.pages("/v1/settlement/payables", "payables", query)

    def get(self, payable_id: str) -> d.Payable:
        return self._c.record("GET", at("/v1/settlement/payables/", payable_id), "payable")

    def payouts(self, query: d.ListPayoutsQuery | None = None) -> Iterator[d.Payout]:
        """What is to be paid, the longest due first."""
        return self._c.pages("/v1/settlement/payouts", "payouts", query)

    def payout_file(self, query: d.ListPayoutsQuery | None = None) -> File:
        """All of it as a CSV file for a payment system."""
        return self._c.stream("/v1/settlement/payouts", {**(query or {}), "format": "csv"})

    def issuer(self) -> d.Issuer | None:
        """The organisation that issues statements; None until it is set."""
        return self._c.data("GET", "/v1/settlement/issuer").get("issuer")

    def set_issuer(self, issuer: d.NewIssuer) -> d.Issuer:
        return self._c.record("PUT", "/v1/settlement/issuer", "issuer", issuer)


class Disputes:
    """Disputes contest receipts, which are held out of settlement until it is resolved."""

    def __init__(self, caller: Caller):
        self._c = caller

    def open(self, dispute: d.NewDispute) -> d.Dispute:
        return self._c.record("POST", "/v1/disputes", "dispute", dispute)

    def list(self, query: d.ListDisputesQuery | None = None) -> Iterator[d.DisputeSummary]:
        """Newest first."""
        return self._c.pages("/v1/disputes", "disputes", query)

    def get(self, dispute_id: str, query: d.GetDisputeQuery | None = None) -> d.PricedDispute:
        """A dispute, and what it holds out of settlement; with plays, also what each of its receipts is worth."""
        return self._c.record("GET", at("/v1/disputes/", dispute_id), "dispute", query=query)

    def investigate(self, dispute_id: str) -> d.Dispute:
        """Notes that a dispute is looked into."""
        return self._c.record("POST", at("/v1/disputes/", dispute_id, "/investigate"), "dispute")

    def respond(self, dispute_id: str, answer: d.NewDisputeResponse) -> d.Dispute:
        """Answers a dispute."""
        return self._c.record("POST", at("/v1/disputes/", dispute_id, "/respond"), "dispute", answer)

    def resolve(self, dispute_id: str, how: d.DisputeResolution) -> d.Dispute:
        """Decides a dispute."""
        return self._c.record("POST", at("/v1/disputes/", dispute_id, "/resolve"), "dispute", how)
