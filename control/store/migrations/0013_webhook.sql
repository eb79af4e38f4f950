-- +goose Up

-- Whom events are sent to. The secrets stand here as they are: signing by HMAC takes them
-- whole. replaced_secrets is JSON: each signs as well until its time. backlog is how many deliveries
-- waited when the webhook was last enabled. failing_since is when the attempts
-- began to fail, since the last that did not. Until waits_until its messages wait, for wait_reason.
CREATE TABLE webhooks (
    webhook_id      TEXT   PRIMARY KEY,
    tenant_id       TEXT   NOT NULL REFERENCES tenants (tenant_id),
    url             TEXT   NOT NULL,
    events          TEXT   NOT NULL,
    description     TEXT   NOT NULL,
    key_id          TEXT   NOT NULL,
    state           TEXT   NOT NULL,
    state_reason    TEXT,
    secret          TEXT   NOT NULL,
    replaced_secrets TEXT  NOT NULL,
    backlog         BIGINT NOT NULL,
    failing_since   BIGINT,
    waits_until     BIGINT,
    wait_reason     TEXT,
    created_at      BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL,
    revision        BIGINT NOT NULL
);
CREATE INDEX webhooks_by_tenant ON webhooks (tenant_id, webhook_id);
CREATE INDEX webhooks_by_state ON webhooks (state, webhook_id);

-- What is sent, or was: one event, or a batch of event_count, which event_id begins. The events
-- are in the log, and in the warehouse later, from first_at up to last_at; both are empty of one
-- that is not in the log yet. claim is the number of the attempt at hand: who has it writes down
-- how that went. While state is PENDING, next_at is when the next attempt is due; of one at
-- hand, when it is taken for lost. tries are the attempts of the schedule, attempts all of them
-- that are kept, as JSON. Batches of a webhook may have one event_id, as the log may have copies.
CREATE TABLE webhook_deliveries (
    delivery_id TEXT   PRIMARY KEY,
    webhook_id  TEXT   NOT NULL,
    tenant_id   TEXT   NOT NULL,
    event_id    TEXT   NOT NULL,
    event_type  TEXT   NOT NULL,
    event_at    BIGINT NOT NULL,
    event_count BIGINT NOT NULL,
    first_at    TEXT   NOT NULL,
    last_at     TEXT   NOT NULL,
    state       TEXT   NOT NULL,
    tries       BIGINT NOT NULL,
    claim       BIGINT NOT NULL,
    attempts    TEXT   NOT NULL,
    next_at     BIGINT,
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL
);
CREATE UNIQUE INDEX webhook_deliveries_by_event ON webhook_deliveries (webhook_id, event_id) WHERE event_type <> 'delivery.recorded';
CREATE INDEX webhook_deliveries_by_webhook ON webhook_deliveries (webhook_id, delivery_id);
CREATE INDEX webhook_deliveries_by_state ON webhook_deliveries (webhook_id, state, delivery_id);
CREATE INDEX webhook_deliveries_by_tenant ON webhook_deliveries (tenant_id);
CREATE INDEX webhook_deliveries_by_time ON webhook_deliveries (state, updated_at);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (webhook_id, next_at) WHERE state = 'PENDING';

-- Up to where each partition of the log was looked through for events to be sent.
CREATE TABLE webhook_cursors (
    log_partition BIGINT PRIMARY KEY,
    position      TEXT   NOT NULL
);

-- When a host last agreed to get messages, by the echo of a challenge.
CREATE TABLE webhook_hosts (
    host      TEXT   PRIMARY KEY,
    agreed_at BIGINT NOT NULL
);

-- What was sent to a host: by a tenant, or, of the hosts of a domain that have not agreed, by all of
-- them, where tenant_id is empty. Each time is up to where a budget is used that refills steadily: an hour ago
-- or earlier means that it is full, and now that it is used up.
CREATE TABLE webhook_budgets (
    tenant_id   TEXT   NOT NULL,
    host        TEXT   NOT NULL,
    messages_at BIGINT NOT NULL,
    bytes_at    BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, host)
);
