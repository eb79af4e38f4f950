"""Lets schemathesis reach what the OpenAPI document promises.

schemathesis makes requests out of the document, and holds the answers against it. By
itself it would hardly ever see an answer of 200: it knows no id of anything. This
extension, which schemathesis.toml names to it,

- sends each operation once with its example from the document;
- puts ids of existing records into requests that are valid by the document, all but one
  in five. The records are made for it through the API itself, by the operations'
  examples; what changes a record gets a new one every time, so that no revocation, reset
  or deletion stands in the way of what comes later;
- takes a member of an answer that the document doesn't name for a fault, though the
  document lets clients expect further ones;
- carries the visitor's cookie in the sandbox (the key of /v1 is schemathesis's own header);
- counts the answers by operation and status, and fails the run when an operation of the
  document was not called, or never answered a valid request with 2xx.

CONTRACT_URL is where the service is, CONTRACT_KEY its key; without one, the sandbox is asked.
TestContract (conformance_test.go) runs both; `make contract` runs that.
"""

import collections
import copy
import datetime
import os
import re
import uuid

import requests
import schemathesis

URL = os.environ["CONTRACT_URL"]
KEY = os.environ.get("CONTRACT_KEY")
SANDBOX = "/api/sandbox/"
ONCE = ("/downloads/", "/api/access/", "/api/playground/")  # links, tokens and limits that are used up, and streams: tests of their own
COOKIE = "svc_sandbox_tenant"
UNSEEDED = 5  # one valid request in so many keeps the ids that schemathesis made up

# The operation that makes what an id stands for, and where its answer has the id. Rights
# are as wide as can be, so that the offers' examples fit into them.
MAKERS = {
    "basisId": ("create-basis", "basis.id"),
    "rightId": ("issue-right", "right.id"),
    "offerId": ("propose-offer", "offer.id"),
    "challengeId": ("open-challenge", "challenge.id"),
    "disputeId": ("open-dispute", "dispute.id"),
    "keyId": ("create-api-key", "key.keyId"),
    "memberId": ("invite-member", "member.id"),
    "mappingId": ("create-mapping", "mapping.id"),
    "webhookId": ("create-webhook", "webhook.id"),
    "counterpartyId": ("create-counterparty", "counterparty.id"),
    "ruleId": ("create-settlement-rule", "rule.id"),
    "statementId": ("draft-statement", "statement.id"),
    "payableId": ("list-payables", "payables.0.id"),
    "payeeLinkId": ("create-payee-link", "link.id"),
    "erasureId": ("erase", "erasure.id"),
    "jobId": ("create-dsar-job", "job.id"),
    "deliveryId": ("test-webhook", "delivery.id"),
    "receiptId": ("observe-delivery", "receipt.receiptId"),
    "packId": ("seal-proof-packs", "pack.packId"),
    "from": ("seal-proof-packs", "pack.packId"),
} if KEY else {
    "basisId": ("sandbox-inspect", "bases.0.id"),
    "rightId": ("sandbox-issue-right", "right.id"),
    "offerId": ("sandbox-propose-offer", "offer.id"),
    "challengeId": ("sandbox-open-challenge", "challenge.id"),
    "packId": ("sandbox-run-demo", "packId"),
}

# What has to be done for that operation to have one.
AHEAD = {"payableId": "issue-statement"}

# What of it a body has as well: its from is a moment.
IN_BODIES = set(MAKERS) - {"from"}

# Whose body is text that schemathesis makes up: the service's own tests import.
TEXT = {"import-mappings"}

# Whose bodies name records within.
RULES = {"create-settlement-rule", "change-settlement-rule", "dry-run-settlement-rule"}

# What has to be done with a record before an operation takes it, or behind that, and what
# else there has to be.
BEFORE = {"resume-right": "suspend-right", "respond-to-dispute": "investigate-dispute", "settle-statement": "issue-statement", "correct-statement": "issue-statement", "void-statement": "issue-statement"}
AFTER = {"correct-statement": "ingest-batch"}  # which is then late
BESIDE = {"seal-proof-packs": "observe-delivery", "get-receipt": "seal-proof-packs", "prove-receipt": "seal-proof-packs", "draft-statement": "observe-delivery"}


def moment(**ago):
    """A moment of the past, as the API spells it."""
    return (datetime.datetime.now(datetime.UTC) - datetime.timedelta(**ago)).strftime("%Y-%m-%dT%H:%M:%SZ")


class Operation:
    """One of the document's."""

    def __init__(self, method, path, text):
        self.id, self.method, self.path = text["operationId"], method.upper(), path
        self.parameters = text.get("parameters", [])
        body = text.get("requestBody", {}).get("content", {}).get("application/json", {})
        self.example = body.get("example")

    @property
    def label(self):
        return f"{self.method} {self.path}"

    def names(self, place):
        """The parameters in a place that name a record and have to be there."""
        return [p["name"] for p in self.parameters if p["in"] == place and p.get("required") and p["name"] in MAKERS]


class Service:
    """The service, asked by its own examples."""

    def __init__(self):
        self.session = requests.Session()
        if KEY:
            self.session.headers["Authorization"] = "Bearer " + KEY
        document = self.session.get(URL + "/openapi.json").json()
        self.operations = {}
        for path, item in document["paths"].items():
            for method, text in item.items():
                if path.startswith(SANDBOX) != bool(KEY) and not path.startswith(ONCE):
                    o = Operation(method, path, text)
                    self.operations[o.id] = o
        self.by_label = {o.label: o for o in self.operations.values()}
        self.kept = {}
        self.cookie = None if KEY else self.visit()
        if KEY:  # the earlier one of two packs
            self.record(self.operations["prove-consistency"], "from")

    def visit(self):
        """The cookie of a new tenant of the sandbox."""
        answer = requests.post(URL + SANDBOX + "tenant")
        answer.raise_for_status()
        return answer.cookies[COOKIE]

    def perform(self, operation, **ids):
        """What an operation answers to its example."""
        path, query, body = self.request(operation, ids)
        if operation.id == "create-dsar-job":  # of which few may be active
            self.cancel_jobs()
        if operation.id == "create-webhook":  # of which there may be a hundred
            self.delete_webhooks()
        if operation.id == "test-webhook":  # which another operation may have paused
            self.session.patch(URL + "/v1/webhooks/" + path["webhookId"], json={"state": "ACTIVE"})
        if "basisId" in (body or {}):
            body["scope"] = {}
        if body:
            body.pop("upTo", None)  # goes on with a seal that came before: this is the first
        answer = self.session.request(
            operation.method, URL + operation.path.format(**path), params=query, json=body, cookies={COOKIE: self.cookie} if self.cookie else None
        )
        if answer.status_code != 200:
            raise RuntimeError(f"{operation.id} answers its example with {answer.status_code}: {answer.text}")
        return answer.json()["data"]

    def cancel_jobs(self):
        """Makes room for a DSAR job. One that a worker has begun ends by itself."""
        jobs = self.session.get(URL + "/v1/compliance/dsar", params={"state": "REQUESTED"}).json()["data"]["jobs"]
        for job in jobs:
            self.session.post(f"{URL}/v1/compliance/dsar/{job['id']}/cancel")

    def delete_webhooks(self):
        """Makes room for a webhook, of those that valid requests have made."""
        hooks = self.session.get(URL + "/v1/webhooks", params={"limit": 100}).json()["data"]["webhooks"]
        for hook in hooks if len(hooks) > 80 else []:
            if hook["id"] != self.kept.get("webhookId"):
                self.session.delete(f"{URL}/v1/webhooks/{hook['id']}")

    def request(self, operation, ids={}):
        """An operation's example, with ids of records that are there."""
        if operation.id in BESIDE:
            self.perform(self.operations[BESIDE[operation.id]])
        if operation.id == "create-payee-link":  # for whom something is stated
            ids = self.payee()
        path = {name: ids.get(name) or self.record(operation, name) for name in operation.names("path")}
        query = {name: self.record(operation, name) for name in operation.names("query")}
        body = copy.deepcopy(operation.example)
        for name in body or {}:
            if name in IN_BODIES:
                body[name] = ids.get(name) or self.record(operation, name)
        if operation.id == "create-beacon":
            body["expiresAt"] = moment(days=-1)
        if operation.id == "create-mapping":  # two of one id would overlap
            body["target"]["rightId"] = self.record(operation, "rightId")
            body["vendorId"] = str(uuid.uuid4())
        if operation.id == "invite-member":  # an address is one member
            body["email"] = f"{uuid.uuid4()}@studio-north.example"
        if operation.id in RULES:
            rule = body.get("rule", body)
            rule["match"].update({name: self.record(operation, name) for name in ("rightId", "basisId")})
            rule["shares"] = [{"counterpartyId": self.record(operation, "counterpartyId"), "bps": 10000}]
        if operation.id == "open-dispute":  # a receipt that was just issued may not be loaded
            del body["receiptIds"]
            body.update(rightId=self.record(operation, "rightId"), window={"from": "2026-11-01", "to": "2026-12-01"})
        if operation.id == "draft-statement":
            body.update({"from": moment(days=1), "to": moment(minutes=30)})
        if operation.id == "ingest-batch":
            for row in body["rows"]:
                row.update(rowId=str(uuid.uuid4()), playedAt=moment(hours=1), rightId=self.record(operation, "rightId"))
        if operation.id == "erase":
            self.confirm(operation, body)
        return path, query, body

    def payee(self):
        """A payee of an issued statement, without links that are in force: few may be."""
        self.perform(self.operations["issue-statement"])
        payable = self.perform(self.operations["list-payables"])["payables"][0]
        of = {"statementId": payable["statementId"], "counterpartyId": payable["counterpartyId"]}
        links = self.session.get(URL + "/v1/settlement/payee-links", params={"statementId": of["statementId"], "limit": 100}).json()["data"]["links"]
        for link in links:
            if link["state"] == "ACTIVE" and link["id"] != self.kept.get("payeeLinkId"):
                self.session.delete(f"{URL}/v1/settlement/payee-links/{link['id']}")
        return of

    def confirm(self, operation, body):
        """Gives an erasure the token that its refusal has."""
        body.pop("confirmationToken", None)
        body["confirmationToken"] = self.session.post(URL + operation.path, json=body).json().get("confirmationToken", "")

    def record(self, operation, name):
        """The id of a record that an operation takes: for one that only reads always the same, as of webhooks, of which there may be few."""
        if (operation.method == "GET" or name == "webhookId" and operation.method != "DELETE") and name in self.kept:
            return self.kept[name]
        if name in AHEAD:
            self.perform(self.operations[AHEAD[name]])
        maker, place = MAKERS[name]
        found = self.perform(self.operations[maker])
        for step in place.split("."):
            found = found[int(step) if step.isdigit() else step]
        if operation.id in BEFORE:
            self.perform(self.operations[BEFORE[operation.id]], **{name: found})
        if operation.id in AFTER:
            self.perform(self.operations[AFTER[operation.id]])
        if operation.method != "DELETE":
            self.kept[name] = found
        return found


service = Service()
valid_calls = collections.Counter()
used_keys = collections.Counter()


def schemas(document, part):
    """The names of all schemas that a part of the document leads to."""
    found, ahead = set(), [part]
    while ahead:
        value = ahead.pop()
        if isinstance(value, dict):
            kind, _, name = value.get("$ref", "").rpartition("/")
            if name and (kind, name) not in found:
                found.add((kind, name))
                ahead.append(document["components"][kind.rpartition("/")[2]][name])
            ahead.extend(value.values())
        elif isinstance(value, list):
            ahead.extend(value)
    return {name for kind, name in found if kind.endswith("/schemas")}


@schemathesis.hook
def before_load_schema(context, document):
    operations = [o for item in document["paths"].values() for o in item.values()]
    answers = schemas(document, [o["responses"] for o in operations])
    for name in answers - schemas(document, [o.get("requestBody") for o in operations]):
        schema = document["components"]["schemas"][name]
        if "properties" in schema:
            schema["additionalProperties"] = False


@schemathesis.hook
def before_add_examples(context, examples):
    """The example of the document in place of those that schemathesis makes of it."""
    operation = service.by_label[context.operation.label]
    path, query, body = service.request(operation)
    given = {} if body is None else {"body": body, "media_type": "application/json"}
    examples[:] = [context.operation.Case(path_parameters=path, query=query, **given)]


def valid(case):
    """Whether a request is one that the document allows."""
    return case.meta is None or case.meta.generation.mode.is_positive


CONTROLS = re.compile("[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f]")


def written(value):
    """A body without control characters, which the overview forbids in texts, and a schema can't: their pattern would be in each."""
    if isinstance(value, str):
        return CONTROLS.sub("x", value)
    if isinstance(value, list):
        return [written(item) for item in value]
    if isinstance(value, dict):
        return {written(name): written(item) for name, item in value.items()}
    return value


@schemathesis.hook
def before_call(context, case, kwargs):
    operation = service.by_label[case.operation.label]
    if service.cookie:
        case.cookies = {**(case.cookies or {}), COOKIE: service.visit() if operation.id == "sandbox-reset" else service.cookie}
    if not valid(case):
        key = (case.headers or {}).get("Idempotency-Key")
        if key and case.meta.phase.name == "fuzzing":  # one that was used with another body would be refused for that
            used_keys[key] += 1
            if used_keys[key] > 1:
                case.headers["Idempotency-Key"] = f"{key}-{used_keys[key]}"
        return
    if case.meta is None:
        return
    if written(case.body) != case.body:
        case.body = written(case.body)
    valid_calls[operation.id] += 1
    if "Idempotency-Key" in case.headers:  # one that was used with another body would be refused
        case.headers["Idempotency-Key"] = f"valid-{valid_calls[operation.id]}"
    if valid_calls[operation.id] % UNSEEDED == 0:
        return
    for name in case.path_parameters:
        if name in MAKERS:
            case.path_parameters[name] = service.record(operation, name)
    for name in case.query or {}:
        if name in operation.names("query"):
            case.query[name] = service.record(operation, name)
    if isinstance(case.body, dict):
        for name in case.body:
            if name in IN_BODIES:
                case.body[name] = service.record(operation, name)
        if operation.id == "erase":
            service.confirm(operation, case.body)


@schemathesis.check
class Reached:
    """Counts, and judges at the end."""

    def __init__(self):
        self.answers = collections.defaultdict(collections.Counter)
        self.reached = set()

    def after_response(self, context, response, case):
        label = case.operation.label
        if case.method.upper() == case.operation.method.upper():
            self.answers[label][response.status_code] += 1
            if valid(case) and 200 <= response.status_code < 300:
                self.reached.add(label)

    def after_run(self, context):
        missing = []
        for label, operation in sorted(service.by_label.items()):
            told = " ".join(f"{status}x{n}" for status, n in sorted(self.answers[label].items()))
            print(f"  {operation.id:28} {told}")
            if label not in self.reached and operation.id not in TEXT:
                missing.append(operation.id)
        if missing:
            raise AssertionError("never answered a valid request with 2xx: " + ", ".join(missing))
