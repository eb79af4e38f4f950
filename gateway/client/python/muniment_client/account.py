"""API keys, members, webhooks, exports and erasures."""
from __future__ import annotations

import re
import urllib.parse
from collections.abc import Iterator

from . import document as d
from .call import Caller, File, at
from .error import MunimentError
from .rights import because


class ApiKeys:
    """The tenant's API keys."""

    def __init__(self, caller: Caller):
        self._c = caller

    def create(self, key: d.NewApiKey) -> d.CreatedApiKey:
        """Makes a key. Its scopes are at most those of the calling key."""
        return self._c.data("POST", "/v1/api-keys", key)

    def list(self, query: d.ListApiKeysQuery | None = None) -> Iterator[d.ApiKey]:
        """Newest first."""
        return self._c.pages("/v1/api-keys", "keys", query)

    def get(self, key_id: str) -> d.ApiKeyDetails:
        """The key, and what it has made that works on when it ends."""
        return self._c.data("GET", at("/v1/api-keys/", key_id))

    def rotate(self, key_id: str, how: d.ApiKeyRotation | None = None) -> d.RotatedApiKey:
        """Makes a key that takes over; the old one works on for a while."""
        return self._c.data("POST", at("/v1/api-keys/", key_id, "/rotate"), how or {})

    def revoke(self, key_id: str) -> d.RevokedApiKey:
        """Ends a key. The result says whether every node knows, and names keys that were made with it
        and still work."""
        return self._c.data("DELETE", at("/v1/api-keys/", key_id))

    def refused(self, query: d.ListRefusedRequestsQuery | None = None) -> Iterator[d.RefusedRequests]:
        """Refused requests of the last 24 hours with the tenant's keys, the last first."""
        return self._c.pages("/v1/requests", "requests", query)


class Members:
    """The persons who may sign in to the tenant's console."""

    def __init__(self, caller: Caller):
        self._c = caller

    def invite(self, invitation: d.MemberInvitation) -> d.Member:
        """Has a mail sent that says so. The caller holds all scopes of the role."""
        return self._c.record("POST", "/v1/members", "member", invitation)

    def list(self, query: d.ListMembersQuery | None = None) -> Iterator[d.Member]:
        """Newest first."""
        return self._c.pages("/v1/members", "members", query)

    def get(self, member_id: str) -> d.Member:
        return self._c.record("GET", at("/v1/members/", member_id), "member")

    def change(self, member_id: str, role: d.MemberRole) -> d.Member:
        """Gives another role, which holds from the next request of the member's sessions on."""
        return self._c.record("PATCH", at("/v1/members/", member_id), "member", role)

    def remove(self, member_id: str) -> d.Member:
        """Ends the member's sessions at once, and for good. The last owner stays."""
        return self._c.record("DELETE", at("/v1/members/", member_id), "member")


class Webhooks:
    """URLs to which events are sent. verify_webhook verifies what they receive."""

    def __init__(self, caller: Caller):
        self._c = caller

    def create(self, webhook: d.NewWebhook) -> d.CreatedWebhook:
        """Makes a webhook. Its secret is in the result, and nowhere else."""
        return self._c.data("POST", "/v1/webhooks", webhook)

    def list(self, query: d.ListWebhooksQuery | None = None) -> Iterator[d.Webhook]:
        """Newest first."""
        return self._c.pages("/v1/webhooks", "webhooks", query)

    def get(self, webhook_id: str) -> d.Webhook:
        return self._c.record("GET", at("/v1/webhooks/", webhook_id), "webhook")

    def change(self, webhook_id: str, change: d.WebhookChange) -> d.Webhook:
        return self._c.record("PATCH", at("/v1/webhooks/", webhook_id), "webhook", change)

    def delete(self, webhook_id: str) -> d.Webhook:
        """Ends a webhook."""
        return self._c.record("DELETE", at("/v1/webhooks/", webhook_id), "webhook")

    def rotate_secret(self, webhook_id: str) -> d.RotatedWebhook:
        """Makes a new secret; the old one signs beside it for a day."""
        return self._c.data("POST", at("/v1/webhooks/", webhook_id, "/rotate-secret"))

    def test(self, webhook_id: str) -> d.WebhookDelivery:
        """Sends an event of its own to a webhook."""
        return self._c.record("POST", at("/v1/webhooks/", webhook_id, "/test"), "delivery")

    def deliveries(self, webhook_id: str, query: d.ListWebhookDeliveriesQuery | None = None) -> Iterator[d.WebhookDelivery]:
        """What was sent to a webhook, newest first."""
        return self._c.pages(at("/v1/webhooks/", webhook_id, "/deliveries"), "deliveries", query)

    def resend(self, webhook_id: str, delivery_id: str) -> d.WebhookDelivery:
        """Sends a delivery again, under its id."""
        return self._c.record("POST", at("/v1/webhooks/", webhook_id, "/deliveries/", delivery_id, "/resend"), "delivery")

    def recover(self, webhook_id: str, what: d.NewWebhookRecovery) -> d.WebhookRecovery:
        """Sends what a webhook has not received of a stretch of time."""
        return self._c.record("POST", at("/v1/webhooks/", webhook_id, "/recover"), "recovery", what)


class Dsar:
    """Exports of what is stored about a person, or of a tenant."""

    def __init__(self, caller: Caller):
        self._c = caller

    def create(self, job: d.NewDSARJob) -> d.CreatedDSARJob:
        """Makes a job. Nothing happens until run. A tenant has at most five active ones."""
        return self._c.data("POST", "/v1/compliance/dsar", job)

    def list(self, query: d.ListDsarJobsQuery | None = None) -> Iterator[d.DSARJob]:
        """Newest first."""
        return self._c.pages("/v1/compliance/dsar", "jobs", query)

    def get(self, job_id: str) -> d.DSARJob:
        return self._c.record("GET", at("/v1/compliance/dsar/", job_id), "job")

    def run(self, job_id: str) -> d.DSARJob:
        """Queues a job. It is READY or FAILED some time later."""
        return self._c.record("POST", at("/v1/compliance/dsar/", job_id, "/run"), "job")

    def cancel(self, job_id: str, reason: str | None = None) -> d.DSARJob:
        """Ends a job that no worker has begun; later it is a conflict."""
        return self._c.record("POST", at("/v1/compliance/dsar/", job_id, "/cancel"), "job", because(reason))

    def link(self, job_id: str) -> d.DSARBundleLink:
        """A link to the bundle of a job that is READY. It works without a key, for 15 minutes and until
        the bundle was downloaded whole."""
        return self._c.data("GET", at("/v1/compliance/dsar/", job_id, "/bundle"))

    def bundle(self, job_id: str) -> File:
        """The bundle of a job that is READY, a zip file for muniment verify."""
        # The key goes to no other host than that of the client, whatever host the link has.
        token = re.search(r"/downloads/([^/?#]+)$", self.link(job_id)["bundleUrl"])
        if token is None:
            raise MunimentError(f"GET {at('/v1/compliance/dsar/', job_id, '/bundle')}", "foreign", "its link leads to no download", status=200)
        return self._c.stream(at("/downloads/", urllib.parse.unquote(token[1])))


class Erasures:
    """Erasures of persons."""

    def __init__(self, caller: Caller):
        self._c = caller

    def list(self, query: d.ListErasuresQuery | None = None) -> Iterator[d.Erasure]:
        """Newest first."""
        return self._c.pages("/v1/compliance/erasures", "erasures", query)

    def get(self, erasure_id: str) -> d.Erasure:
        """With its certificate once it is COMPLETED."""
        return self._c.record("GET", at("/v1/compliance/erasures/", erasure_id), "erasure")
