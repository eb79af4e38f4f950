// Made by generate.js of a service's /openapi.json: do not edit.

export interface components {
    schemas: {
        AcceptedOffer: {
            offer: components["schemas"]["Offer"];
            /** @description The derived right; its contentHash is that of the offer. */
            right: components["schemas"]["Right"];
        };
        AcceptedOfferResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["AcceptedOffer"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        ApiKey: {
            /**
             * Format: date-time
             * @description When the record was made.
             */
            createdAt: string;
            /** @description The key or the member that created it, or operator or system. */
            createdBy: string;
            /** @description The developer whose key it is. */
            developerId: string;
            /**
             * Format: date-time
             * @description When it expires; null or absent if never.
             */
            expiresAt: string | null;
            /** @description The key's id. */
            keyId: string;
            /** @description What the key is for. */
            label: string;
            /**
             * Format: date-time
             * @description Where a key is read: when a request with it was last admitted, or a beacon made by it called, to the minute, as far as it is known within seconds; null for never. What a process has counted in its last seconds is lost if it is killed.
             */
            lastUsedAt?: string | null;
            /** @description The part of the key before its secret. */
            prefix: string;
            /**
             * Format: int64
             * @description Grows with every change.
             */
            revision: number;
            /**
             * Format: date-time
             * @description When it was revoked; null if it was not.
             */
            revokedAt: string | null;
            /** @description What the key may do. */
            scopes: string[];
            /** @description The key that replaced it in a rotation. */
            successorKeyId: string | null;
            /**
             * Format: date-time
             * @description When the record was last changed.
             */
            updatedAt: string;
        };
        ApiKeyDetails: {
            key: components["schemas"]["ApiKey"];
            /** @description Keys in force that the key created, or that what it made created, newest first, at most 100: revoke them too unless they are yours. */
            madeKeys?: components["schemas"]["MadeApiKey"][];
            /** @description Members whom the key invited, or whom what it made invited, newest first, at most 100: remove them unless you know them. */
            madeMembers?: components["schemas"]["MadeMember"][];
            /** @description Links in force by which payees read their parts of statements, and that the key or what it made has made, newest first, at most 100: revoke them unless they are yours. */
            madePayeeLinks?: components["schemas"]["MadePayeeLink"][];
            /** @description Whether there are more than these: revoke some, and repeat the request. */
            moreMadeKeys?: boolean;
            /** @description Whether there are more than these: remove some, and repeat the request. */
            moreMadeMembers?: boolean;
            /** @description Whether there are more than these: revoke some, and repeat the request. */
            moreMadePayeeLinks?: boolean;
        };
        ApiKeyDetailsResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["ApiKeyDetails"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        ApiKeyList: {
            /** @description The keys of this page. */
            keys: components["schemas"]["ApiKey"][];
            /** @description `cursor` of the next page; null ends the list. */
            nextCursor: string | null;
        };
        ApiKeyListResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["ApiKeyList"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        ApiKeyRotation: {
            /** @description When the new key expires; when absent it lives as long as the old key was meant to. It does not expire later than the calling key. */
            expiresAt?: string | null;
            /**
             * Format: int64
             * @description How long the old key still works; a day when absent, at most 30 days.
             */
            overlapSeconds?: number | null;
        };
        Basis: {
            /** @description SHA-256 of the document, base64url. */
            contentHash: string | null;
            /**
             * Format: date-time
             * @description When the record was made.
             */
            createdAt: string;
            /**
             * Format: date-time
             * @description Null is since ever.
             */
            effectiveFrom: string | null;
            /**
             * Format: date-time
             * @description Exclusive; null is open.
             */
            effectiveUntil: string | null;
            /** @description The organisation that holds it. */
            holderOrgId: string;
            /** @description The record's id. */
            id: string;
            /** @description Where the basis applies, as the caller spells it. */
            jurisdiction: string | null;
            /**
             * @description What kind of basis it is.
             * @enum {string}
             */
            kind: "LICENSE" | "CONSENT" | "CONTRACT" | "STATUTE" | "LEGITIMATE_INTEREST";
            /** @description Where to read about it. */
            reference: string | null;
            /**
             * Format: int64
             * @description Grows with every change.
             */
            revision: number;
            /**
             * @description The record's own state.
             * @enum {string}
             */
            state: "ACTIVE" | "EXPIRED";
            /** @description Its title, for people. */
            title: string;
            /**
             * Format: date-time
             * @description When the record was last changed.
             */
            updatedAt: string;
        };
        BasisData: {
            basis: components["schemas"]["Basis"];
        };
        BasisList: {
            /** @description The bases of this page. */
            bases: components["schemas"]["Basis"][];
            /** @description `cursor` of the next page; null ends the list. */
            nextCursor: string | null;
        };
        BasisListResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["BasisList"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        BasisResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["BasisData"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        BeaconURL: {
            /**
             * Format: date-time
             * @description When the beacon expires.
             */
            expiresAt: string;
            /** @description What the player calls, with ?eid= and an id of the play's own, and dwellMs=. Anyone who has it can report plays. */
            url: string;
        };
        BeaconURLResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["BeaconURL"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        CallingKey: {
            /** @description The key's id. */
            keyId: string;
            /** @description What the key is for. */
            label: string;
            /** @description The part of the key before its secret. */
            prefix: string;
            /** @description What the key may do. */
            scopes: string[];
        };
        Challenge: {
            /** @description The organisation that challenges it. */
            challengerOrgId: string;
            /**
             * Format: date-time
             * @description When the record was made.
             */
            createdAt: string;
            /** @description The record's id. */
            id: string;
            /** @description The challenger's reason. */
            reason: string;
            /** @description The text given when it was resolved or withdrawn. */
            resolution: string | null;
            /**
             * Format: int64
             * @description Grows with every change.
             */
            revision: number;
            /** @description The right that is challenged. */
            rightId: string;
            /**
             * @description The record's own state.
             * @enum {string}
             */
            state: "OPEN" | "UPHELD" | "OVERTURNED" | "WITHDRAWN";
            /**
             * Format: date-time
             * @description When the record was last changed.
             */
            updatedAt: string;
        };
        ChallengeData: {
            challenge: components["schemas"]["Challenge"];
        };
        ChallengeList: {
            /** @description The challenges of this page. */
            challenges: components["schemas"]["Challenge"][];
            /** @description `cursor` of the next page; null ends the list. */
            nextCursor: string | null;
        };
        ChallengeListResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["ChallengeList"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        ChallengeResolution: {
            /** @description Kept in the audit log permanently: no place for personal data. */
            resolution?: string | null;
            /** @description true: the right is revoked. false: the challenge is overturned. */
            upheld: boolean;
        };
        ChallengeResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["ChallengeData"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        ChallengeWithdrawal: {
            /** @description Becomes the resolution. Kept in the audit log permanently: no place for personal data. */
            reason?: string | null;
        };
        CheckpointData: {
            /** @description C2SP signed note. */
            checkpoint: string;
        };
        CheckpointResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["CheckpointData"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        ConsistencyProof: {
            /** @description RFC 6962 consistency proof, base64url. */
            consistency: string[];
            /** @description Checkpoint of the earlier pack, a C2SP signed note. */
            from: string;
            /** @description Checkpoint of the later pack. */
            to: string;
        };
        ConsistencyProofResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["ConsistencyProof"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        Contract: {
            /** @description The version of this contract. */
            contractVersion: string;
            /** @description Version of the constraint gate's rules. */
            gateVersion: string;
            /** @description SHA-256 of the whole table of rules, base64url. */
            ruleset: string;
            /** @description The service's name. */
            service: string;
            /** @description Version of the service; devel if it is not a release. */
            version: string;
        };
        ContractResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["Contract"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        Counted: {
            /**
             * Format: int64
             * @description Events of all types.
             */
            entries: number;
            /** @description Decimal: the metered impressions. */
            impressions: string;
            /**
             * Format: int64
             * @description Receipts that are neither suppressed nor duplicates.
             */
            metered: number;
            /**
             * Format: int64
             * @description The metered milliseconds.
             */
            quantityMs: number;
            /**
             * Format: int64
             * @description How many receipts there are.
             */
            receipts: number;
        };
        CounteredOffer: {
            /** @description The offer that it answers. */
            countered: components["schemas"]["Offer"];
            /** @description The counter-offer. */
            offer: components["schemas"]["Offer"];
        };
        CounteredOfferResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["CounteredOffer"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        CounterOffer: {
            /** @description When the right that accepting issues begins, within the right's window; it may lie in the past. Absent: when it is accepted, or with the right if that begins later. */
            effectiveFrom?: string | null;
            /** @description When the right that accepting issues ends, within the right's window; exclusive. Absent: with the right. */
            effectiveUntil?: string | null;
            /** @description The first moment at which it can't be accepted any more; absent: in 7 days. */
            expiresAt?: string | null;
            /** @description As in an offer: what it does not name is inherited from the right, not from the offer that it answers. */
            scope?: {
                [key: string]: unknown;
            } | string | null;
            /** @description Where the terms are; no place for personal data. */
            termsRef?: string | null;
        };
        Counterparty: {
            /** @description Its postal address on papers, in lines. Never written to events. */
            address: string | null;
            /**
             * Format: date-time
             * @description When the record was made.
             */
            createdAt: string;
            /** @description The currency of its payments, a code of ISO 4217. */
            currency: string;
            /** @description Where it gets papers. Never written to events. */
            email: string | null;
            /** @description The record's id. */
            id: string;
            /**
             * @description The counterparty's role.
             * @enum {string}
             */
            kind: "RIGHTS_HOLDER" | "PUBLISHER" | "PLATFORM" | "AGENCY" | "OTHER";
            /** @description Its name on papers; null: name. Never written to events. */
            legalName: string | null;
            /** @description Kept in the audit log permanently: no place for personal data. */
            name: string;
            /** @description The counterparty's organisation in this service, if it has one. */
            orgId: string | null;
            /**
             * Format: int64
             * @description How many days after the issue of a paper its amount is due; null: as many as the issuer's.
             */
            paymentDays: number | null;
            /** @description The payment destination, as your payment system names it. Never written to events. */
            payoutRef: string | null;
            /** @description Whether the recipient of its services owes the tax instead; papers say so. */
            reverseCharge: boolean;
            /**
             * Format: int64
             * @description Grows with every change.
             */
            revision: number;
            /**
             * @description The record's own state.
             * @enum {string}
             */
            state: "ACTIVE" | "INACTIVE";
            /**
             * Format: int64
             * @description The tax on what it gets, in hundredths of a per cent: 1900 is 19 %.
             */
            taxBps: number;
            /** @description Its tax number on papers. Never written to events. */
            taxId: string | null;
            /**
             * Format: date-time
             * @description When the record was last changed.
             */
            updatedAt: string;
        };
        CounterpartyData: {
            counterparty: components["schemas"]["Counterparty"];
        };
        CounterpartyList: {
            /** @description The counterparties of this page. */
            counterparties: components["schemas"]["Counterparty"][];
            /** @description `cursor` of the next page; null ends the list. */
            nextCursor: string | null;
        };
        CounterpartyListResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["CounterpartyList"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        CounterpartyResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["CounterpartyData"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        CreatedApiKey: {
            /** @description The key itself; it can't be shown again. */
            apiKey: string;
            key: components["schemas"]["ApiKey"];
        };
        CreatedApiKeyResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["CreatedApiKey"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        CreatedDSARJob: {
            /**
             * Format: int64
             * @description How many jobs of the tenant may be active.
             */
            activeLimit: number;
            /** @description The new job. */
            job: components["schemas"]["DSARJob"];
        };
        CreatedDSARJobResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["CreatedDSARJob"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        CreatedPayeeLink: {
            link: components["schemas"]["PayeeLink"];
            /** @description What to send to the payee. It is returned this once: anyone who has it can read the page. */
            url: string;
        };
        CreatedPayeeLinkResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["CreatedPayeeLink"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        CreatedWebhook: {
            /** @description The secret with which receivers verify v1 signatures; it can't be shown again. */
            secret: string;
            /** @description The public keys with which receivers verify v1a signatures, as libraries of Standard Webhooks take them, the current one first: whpk_ and the base64 of publicKey of each key of the purpose webhook_signing in /.well-known/muniment/keys.json that is not revoked. */
            verifyingKeys: string[];
            webhook: components["schemas"]["Webhook"];
        };
        CreatedWebhookResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["CreatedWebhook"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        Delivered: {
            metering: components["schemas"]["MeteringDecision"];
            receipt: components["schemas"]["Receipt"];
            signature: components["schemas"]["Signature"];
            /**
             * @description The substrate whose rules were applied.
             * @enum {string}
             */
            substrate: "DOOH" | "CTV" | "MOBILE" | "STREAMING" | "AUDIO" | "MESSAGING" | "GAMING" | "GLASSES" | "AR_CONTACTS" | "HUD" | "VOLUMETRIC" | "HOLOGRAM" | "WEARABLES" | "AMBIENT" | "NEURAL" | "AUTOMOTIVE" | "SMART_HOME" | "ROBOTICS" | "DRONE" | "SATELLITE" | "AVIATION" | "MARITIME" | "SOCIAL_FEED" | "ANY";
        };
        DeliveredResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["Delivered"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        Developer: {
            /** @description The developer's id. */
            developerId: string;
            /** @description Empty when none was given. */
            email: string;
            /** @description The organisation's id. */
            orgId: string;
        };
        Dismissal: {
            /** @description The ids of the plays. */
            rejectedIds: string[];
        };
        Dismissed: {
            /**
             * Format: int64
             * @description How many were there.
             */
            dismissed: number;
        };
        DismissedResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["Dismissed"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        Dispute: {
            /**
             * Format: date-time
             * @description When the record was made.
             */
            createdAt: string;
            /** @description The submitted evidence, oldest first. */
            evidence: components["schemas"]["DisputeEvidence"][];
            /** @description The record's id. */
            id: string;
            /**
             * @description How it was resolved; null until it is. UPHELD excludes the deliveries from settlement permanently.
             * @enum {string|null}
             */
            outcome: "UPHELD" | "REJECTED" | null;
            /** @description The organisation that raised the dispute. */
            raisedByOrgId: string;
            /** @description The reason that it gave. */
            reason: string;
            /** @description The disputed receipts; empty if the dispute is about a right and a window. */
            receiptIds: string[];
            /** @description The text given with the resolution. */
            resolution: string | null;
            /**
             * Format: int64
             * @description Grows with every change.
             */
            revision: number;
            /** @description The right whose deliveries are disputed; null if the dispute is about receipts. */
            rightId: string | null;
            /**
             * @description The record's own state.
             * @enum {string}
             */
            state: "OPEN" | "INVESTIGATING" | "RESPONDED" | "RESOLVED";
            /**
             * Format: date-time
             * @description When the record was last changed.
             */
            updatedAt: string;
            /** @description When the deliveries were rendered; null if the dispute is about receipts. */
            window: components["schemas"]["DisputeWindow"];
        };
        DisputedAmount: {
            /** @description Decimal. */
            amount: string;
            /** @description A code of ISO 4217. */
            currency: string;
        };
        DisputeData: {
            dispute: components["schemas"]["Dispute"];
        };
        DisputedPlay: {
            /**
             * Format: double
             * @description How long it was rendered, in milliseconds.
             */
            dwellMs: number;
            /** @description Whether it was recorded as billed. One that repeats another is billed by that alone. */
            metered: boolean;
            /** @description The receipt: GET /v1/receipts/{receiptId} returns it. */
            receiptId: string;
            /**
             * Format: date-time
             * @description When it was rendered.
             */
            renderedAt: string;
            /** @description The right that it was delivered on. */
            rightId: string;
            /** @description Where it was rendered: the receipt's anchor. */
            spatialAnchorId: string;
            /** @description What it is worth alone, by currency, as heldAmount: empty if it is not billed or no rule rates it; null without settlement:read, and of all while it can't be computed within some seconds, which may also be because very many that were rendered in the same millisecond repeat each other. Lines round several together, so these may add up to something else than heldAmount in the sixth fractional digit. */
            worth: components["schemas"]["DisputedAmount"][] | null;
        };
        DisputeEvidence: {
            /**
             * Format: date-time
             * @description When it was submitted.
             */
            at: string;
            /** @description The organisation that submitted it. */
            byOrgId: string;
            /** @description Where to find more. */
            references: string[];
            /** @description The evidence. */
            text: string;
        };
        DisputeList: {
            /** @description The disputes of this page. */
            disputes: components["schemas"]["DisputeSummary"][];
            /** @description `cursor` of the next page; null ends the list. */
            nextCursor: string | null;
        };
        DisputeListResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["DisputeList"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        DisputeResolution: {
            /**
             * @description UPHELD excludes the deliveries from settlement permanently; REJECTED includes them again.
             * @enum {string}
             */
            outcome: "UPHELD" | "REJECTED";
            /** @description Kept in the audit log permanently: no place for personal data. */
            resolution?: string | null;
        };
        DisputeResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["DisputeData"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        DisputeSummary: {
            /**
             * Format: date-time
             * @description When the record was made.
             */
            createdAt: string;
            /** @description The record's id. */
            id: string;
            /**
             * @description How it was resolved; null until it is. UPHELD excludes the deliveries from settlement permanently.
             * @enum {string|null}
             */
            outcome: "UPHELD" | "REJECTED" | null;
            /** @description The organisation that raised the dispute. */
            raisedByOrgId: string;
            /** @description The reason that it gave. */
            reason: string;
            /** @description The disputed receipts; empty if the dispute is about a right and a window. */
            receiptIds: string[];
            /** @description The text given with the resolution. */
            resolution: string | null;
            /**
             * Format: int64
             * @description Grows with every change.
             */
            revision: number;
            /** @description The right whose deliveries are disputed; null if the dispute is about receipts. */
            rightId: string | null;
            /**
             * @description The record's own state.
             * @enum {string}
             */
            state: "OPEN" | "INVESTIGATING" | "RESPONDED" | "RESOLVED";
            /**
             * Format: date-time
             * @description When the record was last changed.
             */
            updatedAt: string;
            /** @description When the deliveries were rendered; null if the dispute is about receipts. */
            window: components["schemas"]["DisputeWindow"];
        };
        DisputeWindow: {
            /**
             * Format: date-time
             * @description Start of the window.
             */
            from: string;
            /**
             * Format: date-time
             * @description End of the window, exclusive.
             */
            to: string;
        } | null;
        DryRun: {
            /** @description Start of the period, by renderedAt; without period. */
            from?: string | null;
            /** @description A month, a week of ISO 8601 or a day of timeZone; absent: from and to. */
            period?: string | null;
            /** @description The rule, as in a request to create it. */
            rule: components["schemas"]["NewSettlementRule"];
            /** @description IANA time zone of the period, and of dates without a time; absent: the tenant's. */
            timeZone?: string | null;
            /** @description End of the period, exclusive; without period. A draft can be issued if it was made after the end. */
            to?: string | null;
        };
        DryRunData: {
            /** @description What the rule's tiers, minimum and cap change in the months that end in the period. */
            adjustments: components["schemas"]["SettlementAdjustment"][];
            /** @description The same totals with this rule. */
            after: components["schemas"]["SettlementTotal"][];
            /** @description The log position before which receipts are counted. Null while nothing is loaded. */
            asOf: string | null;
            /** @description Totals of all rules without this one, by currency, without tiers, minimums and caps. */
            before: components["schemas"]["SettlementTotal"][];
            /**
             * Format: date-time
             * @description Start of the requested period.
             */
            from: string;
            /** @description The lines of the rule. */
            lines: components["schemas"]["SettlementLine"][];
            /**
             * Format: date-time
             * @description End of the requested period, exclusive.
             */
            to: string;
            /** @description The sum of lines and adjustments. */
            total: components["schemas"]["SettlementTotal"];
        };
        DryRunResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["DryRunData"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        DSARBundleLink: {
            /** @description Anyone who has this link can download the bundle: keep it out of logs. */
            bundleUrl: string;
            /**
             * Format: date-time
             * @description The end of the link.
             */
            expiresAt: string;
            /** @description The job, with the link in its delivery. */
            job: components["schemas"]["DSARJob"];
        };
        DSARBundleLinkResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["DSARBundleLink"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        DSARCancellation: {
            /** @description Recorded in the timeline, and in the private part of the event. */
            reason?: string | null;
        };
        DSARDelivery: {
            /** @description Base64url. */
            bundleSha256: string;
            /**
             * Format: int64
             * @description The size of the bundle.
             */
            bundleSizeBytes: number;
            /** @description Null once the bundle is deleted. */
            bundleStoreKey: string | null;
            /** @description The operation that gives a link to download the bundle; in its own response, that link. Null once the bundle is deleted, and in events. */
            bundleUrl: string | null;
            /**
             * @description Why the bundle is deleted: its time was over, or it may have had data of a person who was erased. Absent while it is kept.
             * @enum {string}
             */
            deletedBecause?: "EXPIRED" | "ERASURE";
            /**
             * Format: date-time
             * @description When it was last downloaded completely.
             */
            downloadedAt: string | null;
            /** @description The API key or member that requested the link. */
            downloadedBy: string | null;
            /**
             * Format: date-time
             * @description When the bundle is deleted; once an erasure has ended it, when that was.
             */
            expiresAt: string;
        };
        DSARFailure: {
            /**
             * @description The failure code.
             * @enum {string}
             */
            code: "MANUAL_CANCEL" | "SOURCE_READ_FAILED" | "PACKAGING_FAILED" | "WORKER_LOST";
            /**
             * Format: date-time
             * @description When it failed.
             */
            failedAt: string;
            /** @description Explanation of the code; the text may change. */
            message: string;
            /** @description The process whose work failed; null if none began. */
            workerId: string | null;
        };
        DSARJob: {
            /** @description Whether each CSV file begins with a byte order mark. */
            bom: boolean;
            /**
             * Format: date-time
             * @description When the record was made.
             */
            createdAt: string;
            /** @description The bundle, once the job is READY. */
            delivery?: components["schemas"]["DSARDelivery"];
            /** @description Why the job failed, once it is FAILED. */
            failure?: components["schemas"]["DSARFailure"];
            /**
             * @description The format of the bundle's sections.
             * @enum {string}
             */
            format: "JSON" | "CSV" | "NDJSON" | "PARQUET";
            /** @description Begins with dsar:, which may be written as dsar%3A in paths. */
            id: string;
            /** @description The organisation's id. */
            orgId: string;
            /** @description The worker's progress. */
            progress: components["schemas"]["DSARProgress"];
            /** @description The requester as stated in the request; by default the key's developer. */
            requestedBy: string;
            /** @description The reason of the request. */
            requestNotes: string | null;
            /**
             * Format: int64
             * @description Grows with every change.
             */
            revision: number;
            /** @description What is exported. */
            scope: components["schemas"]["DSARScope"];
            /**
             * @description READY and FAILED are final.
             * @enum {string}
             */
            state: "REQUESTED" | "COLLECTING" | "PACKAGING" | "READY" | "FAILED";
            /** @description The job's moves, oldest first. */
            timeline: components["schemas"]["DSARTimelineEntry"][];
            /**
             * Format: date-time
             * @description When the record was last changed.
             */
            updatedAt: string;
        };
        DSARJobData: {
            job: components["schemas"]["DSARJob"];
        };
        DSARJobList: {
            /** @description The jobs of this page. */
            jobs: components["schemas"]["DSARJob"][];
            /** @description `cursor` of the next page; null ends the list. */
            nextCursor: string | null;
        };
        DSARJobListResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["DSARJobList"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        DSARJobResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["DSARJobData"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        DSARProgress: {
            /**
             * Format: int64
             * @description How many bytes of the bundle are written.
             */
            bytesPackaged: number;
            /**
             * Format: date-time
             * @description When the worker last reported its progress.
             */
            lastHeartbeatAt: string | null;
            /**
             * Format: int64
             * @description How many rows are in the bundle so far.
             */
            rowsCollected: number;
            /**
             * Format: int64
             * @description How many rows are expected, as far as known: rows that can't be counted beforehand are added as they are read.
             */
            rowsExpected: number;
            /** @description The process that works on the job, or last did. */
            workerId: string | null;
        };
        DSARScope: {
            /** @description Only data about rights whose scope lists one of these campaigns; empty: all. */
            campaignIds: string[];
            /** @description For DATA_SUBJECT: the person whose data is exported. */
            dataSubjectId: string | null;
            /**
             * @description The kind of export.
             * @enum {string}
             */
            kind: "DATA_SUBJECT" | "TENANT_FULL" | "TENANT_SLICE";
            /** @description Only these substrates; empty, or with ANY: all. */
            substrates: string[];
            /**
             * Format: date-time
             * @description For TENANT_SLICE: end of the window, exclusive.
             */
            windowEnd: string | null;
            /**
             * Format: date-time
             * @description For TENANT_SLICE: start of the window.
             */
            windowStart: string | null;
        };
        DSARTimelineEntry: {
            /** @description An API key, or control. */
            actor: string;
            /**
             * Format: date-time
             * @description When.
             */
            at: string;
            /** @description The previous state; null when the job was created. */
            fromState: string | null;
            /** @description Notes, for example the reason of a cancellation. */
            notes: string | null;
            /** @description The new state. */
            toState: string;
        };
        EraseRequest: {
            /** @description The token of a 412 response to the same request. */
            confirmationToken?: string | null;
            /** @description The person, as deliveries name them. */
            dataSubjectId: string;
        };
        Erasure: {
            /** @description A signed note for muniment verify, which names no person; null until it is COMPLETED. */
            certificate: string | null;
            /**
             * Format: date-time
             * @description When it became COMPLETED; null until then.
             */
            completedAt: string | null;
            /** @description What was found when the erasure was confirmed. */
            counts: components["schemas"]["ErasureCounts"];
            /**
             * Format: date-time
             * @description When the record was made.
             */
            createdAt: string;
            /** @description The event that is the tombstone: subject.erased. */
            eventId: string;
            /** @description The record's id. */
            id: string;
            /** @description The API key that confirmed it. */
            requestedBy: string;
            /**
             * Format: int64
             * @description Grows with every change.
             */
            revision: number;
            /**
             * @description COMPLETED once everything is deleted and the certificate is signed.
             * @enum {string}
             */
            state: "REQUESTED" | "COMPLETED";
            /** @description Represents the person in events and records: a keyed hash, the same one in every erasure of the person. */
            subjectHash: string;
            /** @description The tenant's id. */
            tenantId: string;
            /**
             * Format: date-time
             * @description Personal data in events up to this time is deleted, whenever the events arrive. It is a minute after the request, because clocks of nodes may be ahead by that.
             */
            until: string;
            /**
             * Format: date-time
             * @description When the record was last changed.
             */
            updatedAt: string;
        };
        ErasureCounts: {
            /**
             * Format: int64
             * @description Bundles of exports that may hold data of the person.
             */
            bundles: number;
            /** @description Events that will still name the person, by type, because events are permanent: by a text that everybody may see, such as a dispute's reason or a label; delivery.recorded by a correlation id, an anchor or a placement. telemetry counts the deliveries to others, or to nobody, whose telemetry names the person, and quarantined the records that could not be loaded and name the person otherwise than as a data subject; heldRow and rejectedPlay count rows whose vendor's id names the person, until they are gone. */
            permanent: {
                [key: string]: number;
            };
            /**
             * Format: int64
             * @description Events in the warehouse with a private part that names the person.
             */
            privateParts: number;
            /** @description Rows of the database that name the person, by kind, such as counterparty, developer, dsarJob, dsarNote, heldRow, rejectedPlay and webhookDelivery. An export of the person shows them. */
            records: {
                [key: string]: number;
            };
            /**
             * Format: int64
             * @description Quarantined records that name the person.
             */
            setAside: number;
            /** @description Issued statements that keep the public name of a counterparty which names the person: the newest 1,000. They are signed, so it stays there. */
            statements: string[];
        };
        ErasureData: {
            erasure: components["schemas"]["Erasure"];
        };
        ErasureList: {
            /** @description The erasures of this page. */
            erasures: components["schemas"]["Erasure"][];
            /** @description `cursor` of the next page; null ends the list. */
            nextCursor: string | null;
        };
        ErasureListResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["ErasureList"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        ErasureResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["ErasureData"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        Error: {
            /** @description Of an erasure: what confirms it, within 10 minutes. */
            confirmationToken?: string;
            /** @description The version of this contract. */
            contractVersion: string;
            /**
             * @description What went wrong, of a closed list.
             * @enum {string}
             */
            error: "AUTH_INVALID" | "AUTH_REQUIRED" | "BAD_REQUEST" | "INTERNAL_ERROR" | "PRECONDITION_FAILED" | "RATE_LIMITED" | "RESOURCE_NOT_FOUND" | "SCOPE_MISSING" | "STATE_CONFLICT" | "VALIDATION_FAILED";
            /** @description The first field at fault. */
            field?: string;
            /** @description The version of the rules. */
            gate?: string;
            /** @description The scopes that the key has. */
            keyScopes?: string[];
            /** @description For people; it may change. */
            message: string;
            /**
             * @description Always false.
             * @enum {boolean}
             */
            ok: false;
            /** @description What sealing still waits for. */
            pending?: unknown;
            /** @description Of an erasure: how much would be deleted, by where it is kept. */
            preview?: unknown;
            /**
             * @description Why the service can't answer now.
             * @enum {string}
             */
            reason?: "RIGHTS_STALE" | "LOG_UNAVAILABLE" | "NO_SIGNING_KEY" | "DELEGATION_ENDED" | "OVERLOADED" | "DRAINING" | "CONTROL_UNAVAILABLE" | "WAREHOUSE_BEHIND" | "QUARANTINED" | "STORAGE_FULL" | "DATABASE_UNAVAILABLE" | "DATABASE_BUSY" | "ENGINE_UNAVAILABLE";
            /** @description Repeats the header X-Request-Id. */
            requestId?: string;
            /** @description The scopes that the operation needs. */
            requiredScopes?: string[];
            /**
             * @description The substrate whose rules were applied.
             * @enum {string}
             */
            substrate?: "DOOH" | "CTV" | "MOBILE" | "STREAMING" | "AUDIO" | "MESSAGING" | "GAMING" | "GLASSES" | "AR_CONTACTS" | "HUD" | "VOLUMETRIC" | "HOLOGRAM" | "WEARABLES" | "AMBIENT" | "NEURAL" | "AUTOMOTIVE" | "SMART_HOME" | "ROBOTICS" | "DRONE" | "SATELLITE" | "AVIATION" | "MARITIME" | "SOCIAL_FEED" | "ANY";
            /** @description The faults, at most the first 20. */
            validationErrors?: components["schemas"]["ValidationError"][];
            /** @description Every rule that refused the delivery. */
            violations?: components["schemas"]["Violation"][];
        };
        EventList: {
            /** @description The log position up to which events were searched; null while nothing is loaded. */
            asOf: string | null;
            /** @description The events of this page. */
            events: components["schemas"]["LoggedEvent"][];
            /** @description `cursor` of the next page; null ends the list. */
            nextCursor: string | null;
        };
        EventListResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["EventList"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        FoundReceipt: {
            /** @description Verbatim: its canonical bytes are the leaf of the tenant's Merkle log. */
            event: Record<string, never>;
            /** @description The event's position, opaque. */
            position: string;
            /** @description The signed content, verbatim. */
            receipt: components["schemas"]["Receipt"];
            signature: components["schemas"]["Signature"];
        };
        Health: {
            /**
             * @description Whether requests are answered.
             * @enum {string}
             */
            status: "ok";
        };
        HealthResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["Health"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        HeldRow: {
            /**
             * Format: date-time
             * @description When the record was made.
             */
            createdAt: string;
            /** @description Why the delivery was refused. The row may be sent again. */
            error?: components["schemas"]["RowError"];
            /**
             * Format: date-time
             * @description When a HELD row becomes too old to be delivered: 30 days after its play, or as the operator has configured. For other states: when the row is deleted.
             */
            expiresAt: string;
            /** @description The record's id. */
            id: string;
            /** @description The vendor's type of id, of a row with a vendor's id. */
            idType?: string;
            /**
             * Format: date-time
             * @description When the content was played.
             */
            playedAt: string;
            /**
             * @description What the row waits for, or waited for last: a mapping of its vendor's id, or the end of a suspension of its right or of a right above it.
             * @enum {string}
             */
            reason: "UNMAPPED" | "RIGHT_SUSPENDED";
            /** @description The row's receipt. */
            receiptId: string | null;
            /** @description The right of a row that waits for it; null of one that waits for a mapping. */
            rightId: string | null;
            /** @description The row as it was sent, without dataSubjectId, dataSubjectIds and telemetry; null once it is no longer HELD. */
            row: Record<string, never> | null;
            /**
             * @description REPLAYED once it was delivered, with its receiptId, or refused, with the error.
             * @enum {string}
             */
            state: "HELD" | "REPLAYED" | "EXPIRED";
            /**
             * Format: date-time
             * @description When the record was last changed.
             */
            updatedAt: string;
            /** @description The row's vendor, if it has one. */
            vendor?: string;
            /** @description The vendor's id, of a row that has one. */
            vendorId?: string;
        };
        HeldRowList: {
            /** @description The rows of this page. */
            held: components["schemas"]["HeldRow"][];
            /** @description `cursor` of the next page; null ends the list. */
            nextCursor: string | null;
        };
        HeldRowListResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["HeldRowList"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        Import: {
            /** @description The number of lines by status. */
            counts: components["schemas"]["ImportCounts"];
            /** @description The result of each line, in their order; empty lines are omitted. */
            rows: components["schemas"]["ImportedRow"][];
        };
        ImportCounts: {
            /**
             * Format: int64
             * @description Mappings that were created.
             */
            created: number;
            /**
             * Format: int64
             * @description Lines that were refused.
             */
            refused: number;
            /**
             * Format: int64
             * @description Mappings that existed already.
             */
            unchanged: number;
        };
        ImportedRow: {
            /** @description Why the line is refused. */
            error?: components["schemas"]["RowError"];
            /**
             * Format: int64
             * @description The line of the body, from 1; in CSV the header is line 1.
             */
            line: number;
            /** @description The mapping; for a refused line, the mapping that it would overlap. */
            mappingId?: string;
            /**
             * @description unchanged: an identical mapping existed already.
             * @enum {string}
             */
            status: "created" | "unchanged" | "refused";
        };
        ImportResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["Import"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        InclusionProof: {
            /** @description Verbatim: it is the leaf. */
            event: Record<string, never>;
            /** @description C2SP tlog-proof. */
            proof: string;
        };
        InclusionProofResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["InclusionProof"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        IngestBatch: {
            /** @description The plays, each of which has a result of its own. */
            rows: components["schemas"]["Row"][];
            /** @description The vendor of rows that name none. */
            vendor?: string | null;
        };
        Ingested: {
            counts: components["schemas"]["RowCounts"];
            /** @description One for each row, in their order. */
            results: components["schemas"]["RowResult"][];
            /** @description What the sender of a document should know of its rows, such as that each of them sums up several plays. */
            warnings?: string[];
        };
        IngestedResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["Ingested"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        Issuer: {
            /** @description Its postal address on papers, in lines. Never written to events. */
            address: string | null;
            /**
             * Format: date-time
             * @description When the record was made.
             */
            createdAt: string;
            /** @description Where it is asked about papers. Never written to events. */
            email: string | null;
            /** @description The record's id. */
            id: string;
            /** @description Its name on papers. Never written to events. */
            legalName: string;
            /** @description What each paper says besides, in lines. Never written to events. */
            note: string | null;
            /**
             * Format: int64
             * @description How many days after its issue a paper is due, unless the counterparty's terms say otherwise.
             */
            paymentDays: number;
            /**
             * Format: int64
             * @description Grows with every change.
             */
            revision: number;
            /** @description Its tax number on papers. Never written to events. */
            taxId: string | null;
            /**
             * Format: date-time
             * @description When the record was last changed.
             */
            updatedAt: string;
        };
        IssuerData: {
            /** @description Absent until it is set. */
            issuer?: components["schemas"]["Issuer"];
        };
        IssuerResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["IssuerData"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        LineReceipt: {
            /** @description Decimal: the metered impressions. */
            impressions: string;
            /** @description The metering basis of the line. */
            meteringBasis: string;
            /**
             * Format: int64
             * @description The metered milliseconds.
             */
            quantityMs: number;
            /** @description The receipt: GET /v1/receipts/{receiptId} returns it, with its proof at .../proof. */
            receiptId: string;
            /**
             * Format: date-time
             * @description When the content was rendered.
             */
            renderedAt: string;
            /** @description The right of the line. */
            rightId: string;
            /** @description The rule of the line. */
            ruleId: string;
            /**
             * Format: int64
             * @description The leaf of the log with the rule's text by which the line is rated.
             */
            ruleLeaf: number;
        };
        LineReceipts: {
            /** @description `cursor` of the next page; null ends the list. */
            nextCursor: string | null;
            /** @description The receipts of this page, in the order of the log. A page may have fewer receipts than the limit, or none, while nextCursor is set. */
            receipts: components["schemas"]["LineReceipt"][];
        };
        LineReceiptsResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["LineReceipts"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        LoggedEvent: {
            /** @description Verbatim: its canonical bytes are the leaf of the tenant's Merkle log. */
            event: Record<string, never>;
            /** @description Opaque; usable wherever a position is a parameter. */
            position: string;
        };
        LoggedReceipt: {
            /** @description Verbatim: its canonical bytes are the leaf of the tenant's Merkle log. */
            event: Record<string, never>;
            /** @description The event's position, opaque. */
            position: string;
            /** @description The signed content, verbatim. */
            receipt: components["schemas"]["Receipt"];
            /** @description Null until a proof pack holds the event. */
            sealed: components["schemas"]["SealedLeaf"];
            signature: components["schemas"]["Signature"];
        };
        LoggedReceiptResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["LoggedReceipt"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        MadeApiKey: {
            /**
             * Format: date-time
             * @description When the record was made.
             */
            createdAt: string;
            /** @description The key or the member that created it. */
            createdBy: string;
            /**
             * Format: date-time
             * @description When it expires; null or absent if never.
             */
            expiresAt: string | null;
            /** @description The key's id. */
            keyId: string;
            /** @description What the key is for. */
            label: string;
        };
        MadeMember: {
            /**
             * Format: date-time
             * @description When the record was made.
             */
            createdAt: string;
            /** @description The key or the member who invited the member. */
            invitedBy: string;
            /** @description The member. */
            memberId: string;
            /**
             * @description What the member may do.
             * @enum {string}
             */
            role: "owner" | "finance" | "operations" | "viewer";
            /**
             * @description Whether the member has signed in: ACTIVE, or not yet: INVITED.
             * @enum {string}
             */
            state: "INVITED" | "ACTIVE";
        };
        MadePayeeLink: {
            /**
             * Format: date-time
             * @description When the record was made.
             */
            createdAt: string;
            /** @description The key or the member that made it. */
            createdBy: string;
            /**
             * Format: date-time
             * @description When it stops to work.
             */
            expiresAt: string;
            /** @description The link. */
            payeeLinkId: string;
            /** @description The statement that it shows a part of. */
            statementId: string;
        };
        Mapping: {
            /**
             * Format: date-time
             * @description When the record was made.
             */
            createdAt: string;
            /**
             * Format: date-time
             * @description Start of the window: plays at this moment or later resolve.
             */
            effectiveFrom: string;
            /**
             * Format: date-time
             * @description End of the window, exclusive; null is open. Equal to effectiveFrom if the mapping was retired before it began.
             */
            effectiveUntil: string | null;
            /** @description The record's id. */
            id: string;
            /** @description The vendor's type of id. */
            idType: string;
            /**
             * Format: int64
             * @description Grows with every change.
             */
            revision: number;
            /**
             * @description RETIRED once its window was ended; earlier plays still resolve.
             * @enum {string}
             */
            state: "ACTIVE" | "RETIRED";
            target: components["schemas"]["MappingTarget"];
            /**
             * Format: date-time
             * @description When the record was last changed.
             */
            updatedAt: string;
            /** @description The vendor that issued the id. */
            vendor: string;
            /** @description The id. */
            vendorId: string;
        };
        MappingData: {
            mapping: components["schemas"]["Mapping"];
        };
        MappingList: {
            /** @description The mappings of this page. */
            mappings: components["schemas"]["Mapping"][];
            /** @description `cursor` of the next page; null ends the list. */
            nextCursor: string | null;
            /**
             * Format: int64
             * @description The number of mappings that the filters select, over all pages.
             */
            total: number;
        };
        MappingListResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["MappingList"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        MappingResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["MappingData"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        MappingTarget: {
            /** @description The right that its plays are deliveries on. */
            rightId: string;
            /** @description The anchor where the content is shown. */
            spatialAnchorId: string;
            /** @description The placement within the anchor, for rows that name none. */
            spatialPlacementId: string | null;
        };
        Member: {
            /** @description Whether the member has signed in at the OpenID Connect provider of the service: no other account there signs in as the member. */
            bound: boolean;
            /**
             * Format: date-time
             * @description When the record was made.
             */
            createdAt: string;
            /** @description Where links to sign in are sent. Never written to events. */
            email: string;
            /** @description The record's id. */
            id: string;
            /** @description The API key or the member that invited the member, or operator or system. */
            invitedBy: string;
            /** @description The OpenID Connect provider by which the member has signed in; empty: by none yet, or by one that the service doesn't know since its database was restored (bound). Never written to events. */
            issuer: string;
            /** @description Empty when none was given. Never written to events. */
            name: string;
            /**
             * Format: int64
             * @description Grows with every change.
             */
            revision: number;
            /**
             * @description What the member may do: owner holds *; finance reads, settles and disputes; operations reads, and changes rights, offers, challenges, webhooks, disputes and packs; viewer reads.
             * @enum {string}
             */
            role: "owner" | "finance" | "operations" | "viewer";
            /**
             * @description INVITED until the member has signed in.
             * @enum {string}
             */
            state: "INVITED" | "ACTIVE" | "REMOVED";
            /** @description Who the member is there: no other account of the provider signs in as the member. Never written to events. */
            subject: string;
            /**
             * Format: date-time
             * @description When the record was last changed.
             */
            updatedAt: string;
        };
        MemberChange: {
            /**
             * @description What the member may do from now on. The caller has to hold all scopes of the roles before and after.
             * @enum {string}
             */
            role: "owner" | "finance" | "operations" | "viewer";
        };
        MemberData: {
            member: components["schemas"]["Member"];
        };
        MemberInvitation: {
            /** @description Where links to sign in are sent. Never written to events. */
            email: string;
            /** @description What the person is called. Never written to events. */
            name?: string | null;
            /**
             * @description What the member may do. The caller has to hold all scopes of the role.
             * @enum {string}
             */
            role: "owner" | "finance" | "operations" | "viewer";
        };
        MemberList: {
            /** @description A page of the members, newest first. */
            members: components["schemas"]["Member"][];
            /** @description `cursor` of the next page; null ends the list. */
            nextCursor: string | null;
        };
        MemberListResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["MemberList"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        MemberResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["MemberData"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        Metering: {
            /** @description The log position that the response holds for: everything before it is counted. Null while nothing is loaded. */
            asOf: string | null;
            /** @description The size of the buckets; null without any. */
            bucket: string | null;
            /**
             * Format: date-time
             * @description Start of the requested window; null is open.
             */
            from: string | null;
            /** @description `cursor` of the next page; null ends the list. */
            nextCursor: string | null;
            /** @description The sums of this page. */
            rows: components["schemas"]["MeteringRow"][];
            /** @description The IANA time zone of the buckets, and of dates without a time; null if there are no buckets and none was given. */
            timeZone: string | null;
            /**
             * Format: date-time
             * @description The end of the requested window; null if it is open.
             */
            to: string | null;
            totals: components["schemas"]["MeteringTotals"];
        };
        MeteringDecision: {
            /**
             * @description What the quantity is of.
             * @enum {string}
             */
            basis: "viewable" | "gross" | "audible" | "delivered" | "none";
            /**
             * @description How far a video was played: telemetry's completionState, none if it says nothing.
             * @enum {string}
             */
            completion: "none" | "started" | "first_quartile" | "midpoint" | "third_quartile" | "complete";
            /** @description A decimal: how many impressions the delivery makes. 0 if it is not billed, else the row's multiplier, or 1. */
            impressions: string;
            /** @description Whether it is billed. */
            metered: boolean;
            /**
             * Format: int64
             * @description What is billed, in milliseconds.
             */
            quantityMs: number;
            /** @description METERED, or the first of reasons. */
            reason: string;
            /** @description Every reason for which the delivery is not billed. */
            reasons: string[];
        };
        MeteringResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["Metering"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        MeteringRow: {
            /** @description The legal basis that it rests on. */
            basisId: string;
            /**
             * Format: date-time
             * @description Start of the bucket, with the zone's offset; absent without buckets.
             */
            bucket?: string;
            /** @description With by=campaign alone: a campaign that the right's scope lists; null if it lists none. */
            campaignId?: string | null;
            /** @description Decimal: the sum of the multipliers of metered receipts; a receipt without one counts 1. */
            impressions: string;
            /**
             * @description The tier at which the quantity is metered.
             * @enum {string}
             */
            meteringBasis: "viewable" | "gross" | "audible" | "delivered" | "none";
            /**
             * Format: int64
             * @description What is billed, in milliseconds.
             */
            quantityMs: number;
            /** @description METERED, why it was suppressed, or DUPLICATE. */
            reason: string;
            /**
             * Format: int64
             * @description How many receipts there are.
             */
            receipts: number;
            /** @description The right's id. */
            rightId: string;
            /** @description With by=anchor alone. */
            spatialAnchorId?: string;
            /** @description With by=placement alone; null for receipts without one. */
            spatialPlacementId?: string | null;
            /**
             * @description The medium, whose rules apply.
             * @enum {string}
             */
            substrate: "DOOH" | "CTV" | "MOBILE" | "STREAMING" | "AUDIO" | "MESSAGING" | "GAMING" | "GLASSES" | "AR_CONTACTS" | "HUD" | "VOLUMETRIC" | "HOLOGRAM" | "WEARABLES" | "AMBIENT" | "NEURAL" | "AUTOMOTIVE" | "SMART_HOME" | "ROBOTICS" | "DRONE" | "SATELLITE" | "AVIATION" | "MARITIME" | "SOCIAL_FEED" | "ANY";
        };
        MeteringTotals: {
            /**
             * Format: int64
             * @description Deliveries that repeat an earlier one; they are not billed.
             */
            duplicates: number;
            /** @description Decimal: the sum over all rows. */
            impressions: string;
            /**
             * Format: int64
             * @description What is billed.
             */
            metered: number;
            /**
             * Format: int64
             * @description What is billed, in milliseconds.
             */
            quantityMs: number;
            /**
             * Format: int64
             * @description How many receipts there are.
             */
            receipts: number;
            /**
             * Format: int64
             * @description What is not billed, by reason.
             */
            suppressed: number;
        };
        MonthDue: {
            /** @description The calendar month, in the rule's time zone. */
            month: string;
            /** @description Decimal: the amount that a correction would have; 0 for none. */
            now: string;
            /**
             * @description Why the rule adjusts the month.
             * @enum {string}
             */
            reason: "TIER" | "MINIMUM" | "CAP";
            /** @description The rule. */
            ruleId: string;
            /** @description Decimal: the amount that the statement has; 0 for none. */
            stated: string;
            /** @description The rule's IANA time zone. */
            timeZone: string;
        };
        MovedRight: {
            propagation: components["schemas"]["Propagation"];
            right: components["schemas"]["Right"];
        };
        MovedRightResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["MovedRight"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        NewApiKey: {
            /** @description When the key expires; not later than the calling key, whose expiry is the default. */
            expiresAt?: string | null;
            /** @description What the key is for. */
            label: string;
            /** @description Scopes that the calling key holds as well; every scope but the wildcard when absent. */
            scopes?: ("rights:read" | "rights:write" | "offers:read" | "offers:write" | "challenges:read" | "challenges:write" | "delivery:write" | "audit:read" | "proof:write" | "metering:read" | "settlement:read" | "settlement:write" | "webhooks:read" | "webhooks:write" | "disputes:read" | "disputes:write" | "keys:write" | "*")[];
        };
        NewBasis: {
            /** @description SHA-256 of the document, base64url. */
            contentHash?: string | null;
            /** @description Absent: since ever. */
            effectiveFrom?: string | null;
            /** @description Exclusive; absent: open. */
            effectiveUntil?: string | null;
            /** @description The tenant's organisation when absent. */
            holderOrgId?: string | null;
            /** @description Where the basis applies, as the caller spells it. */
            jurisdiction?: string | null;
            /**
             * @description What kind of basis it is.
             * @enum {string}
             */
            kind: "LICENSE" | "CONSENT" | "CONTRACT" | "STATUTE" | "LEGITIMATE_INTEREST";
            /** @description Where to read about it. */
            reference?: string | null;
            /** @description Its title, for people. */
            title: string;
        };
        NewBeacon: {
            /** @description Its end, at most 90 days ahead. It ends with the calling API key as well. */
            expiresAt: string;
            /**
             * Format: int64
             * @description How many receipts each node issues within any hour; more calls are passed over.
             */
            maxReceiptsPerHour: number;
            /** @description The right, ACTIVE now and at each call. */
            rightId: string;
            /** @description Where it is shown. */
            spatialAnchorId: string;
        };
        NewChallenge: {
            /** @description The organisation that challenges it. */
            challengerOrgId: string;
            /** @description Kept in the audit log permanently: no place for personal data. */
            reason: string;
            /** @description The right to challenge. */
            rightId: string;
        };
        NewCounterparty: {
            /** @description Its postal address on papers, in lines. Never written to events; removed when a person whom it names is erased. */
            address?: string | null;
            /** @description The currency of its payments: a code of ISO 4217. */
            currency: string;
            /** @description Where it gets papers. Never written to events; removed when a person whom it names is erased. */
            email?: string | null;
            /**
             * @description Its role.
             * @enum {string}
             */
            kind: "RIGHTS_HOLDER" | "PUBLISHER" | "PLATFORM" | "AGENCY" | "OTHER";
            /** @description Its name on papers; absent: name. Never written to events; removed when a person whom it names is erased. */
            legalName?: string | null;
            /** @description A business name or a pseudonym. Kept in the audit log permanently: no place for personal data. */
            name: string;
            /** @description The counterparty's organisation in this service, if it has one. */
            orgId?: string | null;
            /**
             * Format: int64
             * @description How many days after the issue of a paper its amount is due; absent: as many as the issuer's.
             */
            paymentDays?: number | null;
            /** @description The payment destination, as your payment system names it. Never written to events; removed when a person whom it names is erased. */
            payoutRef?: string | null;
            /**
             * @description Whether the recipient of its services owes the tax instead; papers say so. taxBps is 0 then.
             * @default false
             */
            reverseCharge?: boolean | null;
            /**
             * Format: int64
             * @description The tax on what it gets, in hundredths of a per cent: 1900 is 19 %.
             * @default 0
             */
            taxBps?: number | null;
            /** @description Its tax number on papers. Never written to events; removed when a person whom it names is erased. */
            taxId?: string | null;
        };
        NewDispute: {
            /** @description Evidence to submit with it. */
            evidence?: components["schemas"]["NewDisputeEvidence"][] | null;
            /** @description The organisation that raises the dispute. Default: the tenant's. */
            raisedByOrgId?: string | null;
            /** @description Kept in the audit log permanently: no place for personal data. */
            reason: string;
            /** @description The receipts to dispute, each once. Can't be combined with rightId and window. */
            receiptIds?: string[] | null;
            /** @description The right whose deliveries are disputed, without those on derived rights; requires window. */
            rightId?: string | null;
            /** @description When the deliveries were rendered, at most 400 days; requires rightId. */
            window?: components["schemas"]["NewDisputeWindow"];
        };
        NewDisputeEvidence: {
            /** @description Where to find more: URLs or names of documents, each up to 256 bytes. Kept in the audit log permanently: no place for personal data. */
            references?: string[] | null;
            /** @description The evidence, up to 4096 bytes. Kept in the audit log permanently: no place for personal data. */
            text: string;
        };
        NewDisputeResponse: {
            /** @description The organisation that responds. Default: the tenant's. */
            byOrgId?: string | null;
            /** @description The evidence to submit. */
            evidence: components["schemas"]["NewDisputeEvidence"][];
        };
        NewDisputeWindow: {
            /** @description Start of the window. */
            from: string;
            /** @description End of the window, exclusive. */
            to: string;
        } | null;
        NewDSARJob: {
            /** @description Requires format CSV: each file begins with a byte order mark, as spreadsheets need it to read UTF-8. */
            bom?: boolean | null;
            /** @description JSON, CSV, NDJSON or PARQUET; anything else is JSON. */
            format?: string | null;
            /** @description The requester; the key's developer when absent. In the private part of events only. */
            requestedBy?: string | null;
            /** @description Why, for the audit trail. In the private part of events only. */
            requestNotes?: string | null;
            /** @description What is exported. */
            scope: components["schemas"]["NewDSARScope"];
        };
        NewDSARScope: {
            /** @description For TENANT_SLICE: only data about rights whose scope lists one of these campaigns. */
            campaignIds?: string[];
            /** @description Required for DATA_SUBJECT: the person, as deliveries name them. */
            dataSubjectId?: string | null;
            /**
             * @description The kind of export.
             * @enum {string}
             */
            kind: "DATA_SUBJECT" | "TENANT_FULL" | "TENANT_SLICE";
            /** @description For TENANT_SLICE: only data about these substrates. ANY selects all. */
            substrates?: ("DOOH" | "CTV" | "MOBILE" | "STREAMING" | "AUDIO" | "MESSAGING" | "GAMING" | "GLASSES" | "AR_CONTACTS" | "HUD" | "VOLUMETRIC" | "HOLOGRAM" | "WEARABLES" | "AMBIENT" | "NEURAL" | "AUTOMOTIVE" | "SMART_HOME" | "ROBOTICS" | "DRONE" | "SATELLITE" | "AVIATION" | "MARITIME" | "SOCIAL_FEED" | "ANY")[];
            /** @description Required for TENANT_SLICE: end of the window, exclusive. */
            windowEnd?: string | null;
            /** @description Required for TENANT_SLICE: start of the window. It selects deliveries by the time of their rendering, everything else by the time of its event. */
            windowStart?: string | null;
        };
        NewIssuer: {
            /** @description Its postal address on papers, in lines. Never written to events. */
            address?: string | null;
            /** @description Where it is asked about papers. Never written to events. */
            email?: string | null;
            /** @description Its name on papers. Never written to events. */
            legalName: string;
            /** @description What each paper says besides, in lines: for example that it is a self-billed invoice. Never written to events. */
            note?: string | null;
            /**
             * Format: int64
             * @description How many days after its issue a paper is due, unless the counterparty's terms say otherwise.
             * @default 30
             */
            paymentDays?: number | null;
            /** @description Its tax number on papers. Never written to events. */
            taxId?: string | null;
        };
        NewMapping: {
            /** @description Start of the window: plays at this moment or later resolve; it may be in the past. */
            effectiveFrom: string;
            /** @description Exclusive; absent: until it is retired. */
            effectiveUntil?: string | null;
            /** @description The vendor's type of id. */
            idType: string;
            /** @description The right and anchor that it is mapped to. */
            target: components["schemas"]["NewMappingTarget"];
            /** @description The vendor that issued the id, as rows of batches name it. */
            vendor: string;
            /** @description The id of a player or placement. Kept in the audit log permanently: it must not name a person. */
            vendorId: string;
        };
        NewMappingTarget: {
            /** @description The right that its plays are deliveries on. */
            rightId: string;
            /** @description The anchor where the content is shown. */
            spatialAnchorId: string;
            /** @description The placement within the anchor, for rows that name none. */
            spatialPlacementId?: string | null;
        };
        NewOffer: {
            /** @description When the right that accepting issues begins, within the right's window; it may lie in the past. Absent: when it is accepted, or with the right if that begins later. */
            effectiveFrom?: string | null;
            /** @description When the right that accepting issues ends, within the right's window; exclusive. Absent: with the right. */
            effectiveUntil?: string | null;
            /** @description The first moment at which it can't be accepted any more; absent: in 7 days. */
            expiresAt?: string | null;
            /** @description The organisation that proposes; the right's holder when absent. */
            fromOrgId?: string | null;
            /** @description The right of which a part is requested. */
            rightId: string;
            /** @description The scope of the right that accepting issues: an object of limits, or a string, which is kept as its description. What it does not name is inherited from the right. Never wider than the right's. */
            scope?: {
                [key: string]: unknown;
            } | string | null;
            /** @description Where the terms are; no place for personal data. */
            termsRef?: string | null;
            /** @description The organisation that may accept; one of the two holds the right. */
            toOrgId: string;
        };
        NewPayeeLink: {
            /** @description The payee whose part it shows. */
            counterpartyId: string;
            /** @description When it stops to work: at most 400 days from now. Absent: in 30 days. */
            expiresAt?: string | null;
            /** @description The statement, which has to be issued. */
            statementId: string;
        };
        NewRight: {
            /** @description The legal basis that it rests on. */
            basisId: string;
            /** @description A date or a time of ISO 8601, with its offset from UTC. */
            effectiveFrom: string;
            /** @description Exclusive; absent: the end of the parent or the basis. */
            effectiveUntil?: string | null;
            /** @description The tenant's organisation when absent. */
            holderOrgId?: string | null;
            /** @description The right to derive this one from. */
            parentRightId?: string | null;
            /** @description An object of limits: regions, maxSpeedMph, bvlos, channels and campaigns; besides them description, labels (an object of strings) and keys of your own that begin with x-. A string is kept as the description. Optional for a right that derives from another, which inherits what is not named, each label by itself. */
            scope?: {
                [key: string]: unknown;
            } | string;
            /**
             * @description The medium, whose rules apply.
             * @enum {string}
             */
            substrate: "DOOH" | "CTV" | "MOBILE" | "STREAMING" | "AUDIO" | "MESSAGING" | "GAMING" | "GLASSES" | "AR_CONTACTS" | "HUD" | "VOLUMETRIC" | "HOLOGRAM" | "WEARABLES" | "AMBIENT" | "NEURAL" | "AUTOMOTIVE" | "SMART_HOME" | "ROBOTICS" | "DRONE" | "SATELLITE" | "AVIATION" | "MARITIME" | "SOCIAL_FEED" | "ANY";
        };
        NewSettlementLabel: {
            /** @description Its name. */
            name: string;
            /** @description Its value. */
            value: string;
        };
        NewSettlementMatch: {
            /** @description Receipts on rights under this basis; absent: under any. */
            basisId?: string | null;
            /** @description Receipts on rights whose scope lists this campaign; absent: any. */
            campaign?: string | null;
            /**
             * @description Receipts of videos that were played exactly this far; absent: however far.
             * @enum {string|null}
             */
            completion?: "started" | "first_quartile" | "midpoint" | "third_quartile" | "complete" | null;
            /** @description Receipts on rights whose scope has this label; absent: any. */
            label?: components["schemas"]["NewSettlementLabel"];
            /**
             * @description Receipts metered at this tier; absent: at any.
             * @enum {string|null}
             */
            meteringBasis?: "gross" | "viewable" | "audible" | "delivered" | null;
            /** @description Receipts on this right; absent: on any. */
            rightId?: string | null;
            /**
             * @description Receipts on this substrate; absent or ANY: on any.
             * @enum {string|null}
             */
            substrate?: "DOOH" | "CTV" | "MOBILE" | "STREAMING" | "AUDIO" | "MESSAGING" | "GAMING" | "GLASSES" | "AR_CONTACTS" | "HUD" | "VOLUMETRIC" | "HOLOGRAM" | "WEARABLES" | "AMBIENT" | "NEURAL" | "AUTOMOTIVE" | "SMART_HOME" | "ROBOTICS" | "DRONE" | "SATELLITE" | "AVIATION" | "MARITIME" | "SOCIAL_FEED" | "ANY" | null;
        };
        NewSettlementRule: {
            /** @description Decimal with at most six fractional digits: the largest amount of a calendar month. Not applied to packs. */
            cap?: string | null;
            /** @description A code of ISO 4217. */
            currency: string;
            /** @description The rule rates receipts rendered at this moment or later; it may be in the past. Absent: now. */
            effectiveFrom?: string | null;
            /** @description Exclusive; absent: until it is retired. */
            effectiveUntil?: string | null;
            /** @description Which receipts the rule is for; absent: all. */
            match?: components["schemas"]["NewSettlementMatch"];
            /** @description Decimal with at most six fractional digits: the least amount of a calendar month in which the rule is in force, whole. Not applied to packs. */
            minimum?: string | null;
            /** @description Decimal price of one unit, with at most nine fractional digits; with tiers, that of the first units of a month. */
            price: string;
            /**
             * Format: int64
             * @description If several rules fit a receipt, the one with the highest priority rates it.
             * @default 0
             */
            priority?: number | null;
            /** @description How the rule's amounts are divided: 10,000 basis points in total. */
            shares: components["schemas"]["NewSettlementShare"][];
            /** @description Prices for more units in a month, by rising volume; absent: there is one price. Not applied to packs. */
            tiers?: components["schemas"]["NewTier"][] | null;
            /**
             * @description GRADUATED: each tier's price is for the units above its volume, up to the next tier. VOLUME: the price of the highest tier that is reached is for all units of the month. Absent: GRADUATED.
             * @enum {string|null}
             */
            tiersMode?: "GRADUATED" | "VOLUME" | null;
            /** @description IANA time zone of the calendar months to which tiers, minimum and cap belong, and of dates without a time; absent: the tenant's, or of a rule that is changed its own. */
            timeZone?: string | null;
            /**
             * @description What the price applies to: one metered receipt, millisecond, second or impression, or a thousand impressions.
             * @enum {string}
             */
            unit: "EVENT" | "MS" | "SECOND" | "IMPRESSION" | "CPM";
        };
        NewSettlementShare: {
            /**
             * Format: int64
             * @description Basis points: 10,000 are the whole.
             */
            bps: number;
            /** @description An active counterparty that is paid in the rule's currency. */
            counterpartyId: string;
        };
        NewStatement: {
            /** @description The counterparty whose shares to state; absent: all counterparties. */
            counterpartyId?: string | null;
            /** @description A code of ISO 4217. */
            currency: string;
            /** @description Start of the period, by renderedAt; without period. */
            from?: string | null;
            /** @description A month, a week of ISO 8601 or a day of timeZone; absent: from and to. */
            period?: string | null;
            /** @description IANA time zone of the period, and of dates without a time; absent: the tenant's. */
            timeZone?: string | null;
            /** @description End of the period, exclusive; without period. A draft can be issued if it was made after the end. */
            to?: string | null;
        };
        NewTier: {
            /**
             * Format: int64
             * @description The price is for units above so many in the month.
             */
            above: number;
            /** @description Decimal price of one unit, with at most nine fractional digits. */
            price: string;
        };
        NewWebhook: {
            /** @description What it is for. Kept in the audit log permanently: no place for personal data. */
            description?: string | null;
            /** @description Kinds of events such as offer.accepted, all kinds of a noun, such as right.*, or all kinds, *. x-event-kinds in this document lists them with the scopes of which the calling key needs one. Only its full name selects delivery.recorded, which is sent in batches. */
            events: ("*" | "basis.*" | "basis.created" | "beacon.*" | "beacon.created" | "challenge.*" | "challenge.opened" | "challenge.overturned" | "challenge.upheld" | "challenge.withdrawn" | "counterparty.*" | "counterparty.changed" | "counterparty.created" | "counterparty.deactivated" | "delivery.*" | "delivery.recorded" | "dispute.*" | "dispute.investigation_started" | "dispute.opened" | "dispute.resolved" | "dispute.responded" | "dsar.*" | "dsar.cancelled" | "dsar.collecting" | "dsar.download_started" | "dsar.downloaded" | "dsar.expired" | "dsar.failed" | "dsar.packaging" | "dsar.queued" | "dsar.ready" | "dsar.requested" | "erasure.*" | "erasure.completed" | "events.*" | "events.exported" | "gate.*" | "gate.refusals" | "held_row.*" | "held_row.expired" | "issuer.*" | "issuer.changed" | "key.*" | "key.created" | "key.revoked" | "key.rotated" | "mapping.*" | "mapping.created" | "mapping.retired" | "member.*" | "member.bound" | "member.changed" | "member.invited" | "member.joined" | "member.removed" | "offer.*" | "offer.accepted" | "offer.countered" | "offer.expired" | "offer.proposed" | "offer.rejected" | "offer.withdrawn" | "pack.*" | "pack.downloaded" | "pack.sealed" | "payable.*" | "payable.issued" | "payable.paid" | "payee_link.*" | "payee_link.created" | "payee_link.revoked" | "record.*" | "record.released" | "rejected_play.*" | "rejected_play.dismissed" | "right.*" | "right.issued" | "right.resumed" | "right.revoked" | "right.suspended" | "settlement_rule.*" | "settlement_rule.changed" | "settlement_rule.created" | "settlement_rule.retired" | "statement.*" | "statement.created" | "statement.discarded" | "statement.issued" | "statement.paid" | "statement.reopened" | "statement.settled" | "statement.voided" | "subject.*" | "subject.erased" | "tenant.*" | "tenant.created" | "tenant.dropped" | "webhook.*" | "webhook.changed" | "webhook.created" | "webhook.deleted" | "webhook.disabled" | "webhook.paused" | "webhook.recovered" | "webhook.resent" | "webhook.secret_rotated" | "webhook.tested")[];
            /** @description Where events are sent: https, without user info and fragment; http leads to a loopback address alone that the operator allows by --webhook-allow. Kept in the audit log permanently: no place for secrets. */
            url: string;
        };
        NewWebhookRecovery: {
            /** @description Count only. */
            dryRun?: boolean | null;
            /** @description Only events at this time or later. */
            since: string;
            /** @description Exclusive; absent: until now. */
            until?: string | null;
        };
        NodeState: {
            /**
             * Format: int64
             * @description The revision that the node has applied.
             */
            appliedRevision: number;
            /** @description It may hold a lease: it polled within the bound. */
            live: boolean;
            /** @description The node's id. */
            nodeId: string;
        };
        Observation: {
            /** @description The caller's own tracing id. */
            correlationId?: string | null;
            /** @description The person it was shown to, for export and erasure. Kept in the private part of the event, which is not hashed. */
            dataSubjectId?: string | null;
            /** @description More persons it was shown to, each found by export and erasure, and each erased alone. One who is named twice counts once. */
            dataSubjectIds?: string[] | null;
            /**
             * Format: double
             * @description How long, in milliseconds.
             */
            dwellMs: number;
            /** @description The ACTIVE right that permits the delivery. */
            rightId: string;
            /** @description Where it was shown. */
            spatialAnchorId: string;
            /** @description Placement within the anchor. */
            spatialPlacementId?: string | null;
            /** @description What the device observed. */
            telemetry?: components["schemas"]["Telemetry"];
        };
        Offer: {
            /** @description The counter-offer that replaced it. */
            counteredBy: string | null;
            /** @description The termsRef that was given with a counter-offer. */
            counterTermsRef: string | null;
            /**
             * Format: date-time
             * @description When the record was made.
             */
            createdAt: string;
            /** @description The right that accepting it issued. */
            derivedRightId: string | null;
            /**
             * Format: date-time
             * @description When the right that accepting it issues begins. Null while it is to begin when the offer is accepted, or with the right if that begins later.
             */
            effectiveFrom: string | null;
            /**
             * Format: date-time
             * @description When the right that accepting it issues ends; exclusive, null is open.
             */
            effectiveUntil: string | null;
            /**
             * Format: date-time
             * @description The first moment at which it can't be accepted any more.
             */
            expiresAt: string;
            /** @description The organisation that proposed it. */
            fromOrgId: string;
            /** @description The record's id. */
            id: string;
            /**
             * Format: int64
             * @description Grows with every change.
             */
            revision: number;
            /** @description The right of which a part is requested. */
            rightId: string;
            /** @description The scope of the right that accepting it issues, with what it inherits. */
            scope: Record<string, never>;
            /**
             * @description The record's own state.
             * @enum {string}
             */
            state: "PROPOSED" | "COUNTERED" | "WITHDRAWN" | "REJECTED" | "ACCEPTED" | "EXPIRED";
            /** @description The reason given with a withdrawal or rejection. */
            stateReason: string | null;
            /** @description Where the terms are; counter_of:<id> for a counter-offer. */
            termsRef: string | null;
            /** @description The organisation that may accept, counter or reject it. */
            toOrgId: string;
            /**
             * Format: date-time
             * @description When the record was last changed.
             */
            updatedAt: string;
        };
        OfferData: {
            offer: components["schemas"]["Offer"];
        };
        OfferList: {
            /** @description `cursor` of the next page; null ends the list. */
            nextCursor: string | null;
            /** @description The offers of this page. */
            offers: components["schemas"]["Offer"][];
        };
        OfferListResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["OfferList"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        OfferResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["OfferData"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        Payable: {
            /** @description Decimal: what the exact amounts of all that the payee got so far in the currency are more than their nets. The next payable takes it up. */
            carried: string;
            /** @description The payee's first number of the chain, which it corrects; null if this is that. */
            corrects: string | null;
            /** @description The payee. */
            counterpartyId: string;
            /**
             * Format: date-time
             * @description When the record was made.
             */
            createdAt: string;
            /** @description A code of ISO 4217. */
            currency: string;
            /**
             * Format: date
             * @description The day on which it is due.
             */
            dueOn: string;
            /** @description Decimal: the payee's part of the statement, or of the difference that a correction makes. */
            exact: string;
            /** @description The first statement of its chain: the same, or the one that is corrected or voided. */
            firstStatementId: string;
            /** @description Decimal: net and tax, which is due. Below zero for a credit. */
            gross: string;
            /** @description The record's id. */
            id: string;
            /**
             * Format: date
             * @description The day of its issue, in the tenant's time zone.
             */
            issuedOn: string;
            issuer: components["schemas"]["PayableParty"];
            /**
             * @description A credit note is one whose net is below zero; a debit note is any other of a correction or a void.
             * @enum {string}
             */
            kind: "STATEMENT" | "DEBIT_NOTE" | "CREDIT_NOTE";
            /** @description Decimal, in the currency's minor unit: what exact adds to the rounded sum so far. */
            net: string;
            /** @description Its number: unbroken a tenant and year. */
            number: string;
            /** @description Decimal: the sum of payments. */
            paidAmount: string;
            /** @description What was paid or set off, in the order of its recording. */
            payments: components["schemas"]["PayablePayment"][];
            recipient: components["schemas"]["PayableParty"];
            /** @description Whether the issuer, who receives the payee's services, owes the tax. */
            reverseCharge: boolean;
            /**
             * Format: int64
             * @description Grows with every change.
             */
            revision: number;
            /**
             * Format: int64
             * @description Its place among the tenant's, from 1.
             */
            sequence: number;
            /**
             * @description The record's own state.
             * @enum {string}
             */
            state: "DUE" | "PAID";
            /** @description The statement that states it. */
            statementId: string;
            /** @description Decimal: the tax on net. */
            tax: string;
            /**
             * Format: int64
             * @description The tax rate, in hundredths of a per cent.
             */
            taxBps: number;
            /**
             * Format: date-time
             * @description When the record was last changed.
             */
            updatedAt: string;
        };
        PayableData: {
            payable: components["schemas"]["Payable"];
        };
        PayableList: {
            /** @description `cursor` of the next page; null ends the list. */
            nextCursor: string | null;
            /** @description The payables of this page. */
            payables: components["schemas"]["Payable"][];
        };
        PayableListResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["PayableList"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        PayableParty: {
            /** @description Never written to events. */
            address: string | null;
            /** @description Never written to events. */
            email: string | null;
            /** @description Never written to events. */
            legalName: string | null;
            /** @description What the issuer says on each paper. Never written to events. */
            note: string | null;
            /** @description Never written to events. */
            taxId: string | null;
        };
        PayablePayment: {
            /** @description Decimal; below zero for what was taken back, of a credit for what the payee paid. */
            amount: string;
            /**
             * Format: date
             * @description The day of the payment.
             */
            date: string;
            /** @description The payment's reference, or the number of the payable that it was set off against. */
            reference: string;
            /** @description Whether it was set off, so no money moved. */
            setOff: boolean;
        };
        PayableResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["PayableData"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        PayeeLink: {
            /** @description The payee whose part it shows. */
            counterpartyId: string;
            /**
             * Format: date-time
             * @description When the record was made.
             */
            createdAt: string;
            /** @description The API key or the member that made it. */
            createdBy: string;
            /**
             * Format: date-time
             * @description When it stops to work.
             */
            expiresAt: string;
            /** @description The record's id. */
            id: string;
            /**
             * Format: int64
             * @description Grows with every change.
             */
            revision: number;
            /**
             * Format: date-time
             * @description When it was revoked; null until then.
             */
            revokedAt: string | null;
            /**
             * @description ACTIVE links work until expiresAt.
             * @enum {string}
             */
            state: "ACTIVE" | "REVOKED";
            /** @description The statement that it shows a part of. */
            statementId: string;
            /**
             * Format: date-time
             * @description When the record was last changed.
             */
            updatedAt: string;
        };
        PayeeLinkData: {
            link: components["schemas"]["PayeeLink"];
        };
        PayeeLinkList: {
            /** @description The links of this page. */
            links: components["schemas"]["PayeeLink"][];
            /** @description `cursor` of the next page; null ends the list. */
            nextCursor: string | null;
        };
        PayeeLinkListResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["PayeeLinkList"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        PayeeLinkResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["PayeeLinkData"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        Payment: {
            /** @description Decimal: a part of what is open, of a credit below zero; of the other sign, what is taken back of the payments that were recorded. Absent: all that is open. */
            amount?: string | null;
            /** @description The payee who was paid. Absent: all of the statement, which with an amount can be only one. */
            counterpartyId?: string | null;
            /**
             * Format: date
             * @description The day of the payment, today or before, at most a year before the statement was issued; absent: today, in the tenant's time zone.
             */
            date?: string | null;
            /** @description The payment's reference. Kept in the audit log permanently: no place for personal data. */
            reference: string;
        };
        Payout: {
            /** @description Decimal: what is open. */
            amount: string;
            /** @description The payee. */
            counterpartyId: string;
            /** @description A code of ISO 4217. */
            currency: string;
            /**
             * Format: date
             * @description The day on which it is due.
             */
            dueOn: string;
            /** @description The payable's number, for the payment. */
            number: string;
            /** @description The payable. */
            payableId: string;
            /** @description The payee's legal name, or its name. */
            payee: string;
            /** @description The payment destination that the counterparty has now. */
            payoutRef: string | null;
            /** @description The statement that states it. */
            statementId: string;
        };
        PayoutList: {
            /** @description `cursor` of the next page; null ends the list. */
            nextCursor: string | null;
            /** @description The longest due first. */
            payouts: components["schemas"]["Payout"][];
        };
        PayoutListResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["PayoutList"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        PendingEvents: {
            /**
             * Format: int64
             * @description How many there are.
             */
            count: number;
            /** @description The node whose spool alone has the events: only a later call can seal them. */
            nodeId?: string;
            /**
             * @description warehouse, instead of a node: counts the records of the log before upTo, of all tenants, that the warehouse has not loaded yet.
             * @enum {string}
             */
            source?: "warehouse";
        };
        PricedDispute: {
            /**
             * Format: date-time
             * @description When the record was made.
             */
            createdAt: string;
            /** @description The submitted evidence, oldest first. */
            evidence: components["schemas"]["DisputeEvidence"][];
            /** @description What its deliveries are worth alone, by the current rules, by currency, without minimums and caps, so it may differ in the sixth fractional digit from what they add to lines with others, which are rounded once; null while it can't be computed, for example because the warehouse is unavailable. A delivery under several disputes counts in each. Once it is RESOLVED: the amount that UPHELD excludes permanently; empty if it was REJECTED. */
            heldAmount: components["schemas"]["DisputedAmount"][] | null;
            /** @description The record's id. */
            id: string;
            /**
             * @description How it was resolved; null until it is. UPHELD excludes the deliveries from settlement permanently.
             * @enum {string|null}
             */
            outcome: "UPHELD" | "REJECTED" | null;
            /** @description With plays=true: the disputed receipts that the warehouse has, in the order of receiptIds. Absent for a dispute about a right and a window, whose receipts GET /v1/receipts lists. */
            plays?: components["schemas"]["DisputedPlay"][];
            /** @description The organisation that raised the dispute. */
            raisedByOrgId: string;
            /** @description The reason that it gave. */
            reason: string;
            /** @description The disputed receipts; empty if the dispute is about a right and a window. */
            receiptIds: string[];
            /** @description The text given with the resolution. */
            resolution: string | null;
            /**
             * Format: int64
             * @description Grows with every change.
             */
            revision: number;
            /** @description The right whose deliveries are disputed; null if the dispute is about receipts. */
            rightId: string | null;
            /**
             * @description The record's own state.
             * @enum {string}
             */
            state: "OPEN" | "INVESTIGATING" | "RESPONDED" | "RESOLVED";
            /**
             * Format: date-time
             * @description When the record was last changed.
             */
            updatedAt: string;
            /** @description When the deliveries were rendered; null if the dispute is about receipts. */
            window: components["schemas"]["DisputeWindow"];
        };
        PricedDisputeData: {
            dispute: components["schemas"]["PricedDispute"];
        };
        PricedDisputeResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["PricedDisputeData"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        ProofPack: {
            /**
             * Format: int64
             * @description Size of the bundle.
             */
            bytes: number;
            /**
             * Format: int64
             * @description Entries of this pack.
             */
            count: number;
            /**
             * Format: date-time
             * @description When the record was made.
             */
            createdAt: string;
            /**
             * Format: int64
             * @description Deliveries of this pack that repeat an earlier one and are not billed; the header lists them as {leaf, first}.
             */
            duplicates: number;
            /**
             * Format: int64
             * @description Leaf index of the first entry.
             */
            firstIndex: number;
            /** @description The record's id. */
            id: string;
            /**
             * Format: int64
             * @description Receipts of this pack that a settlement rule rates; the header has the amounts.
             */
            rated: number;
            /**
             * Format: int64
             * @description Grows with every change.
             */
            revision: number;
            /** @description Root of the tenant's Merkle log with this pack, base64url. */
            rootHash: string;
            /**
             * Format: date-time
             * @description When it was sealed.
             */
            sealedAt: string;
            /** @description SHA-256 of the bundle, base64url. */
            sha256: string;
            /** @description The key that signed it, by its id in the directory. */
            signingKeyId: string;
            /**
             * Format: int64
             * @description Leaves of the tenant's log with this pack.
             */
            treeSize: number;
            /**
             * Format: int64
             * @description Metered receipts of this pack that no settlement rule rates; 0 while the tenant has no rules.
             */
            unrated: number;
            /**
             * Format: date-time
             * @description When the record was last changed.
             */
            updatedAt: string;
        };
        ProofPackData: {
            /** @description The signed header, verbatim. */
            header: Record<string, never>;
            /** @description The key directory at the time of sealing, from the header. */
            keys: Record<string, never>;
            summary: components["schemas"]["ProofPack"];
        };
        ProofPackList: {
            /** @description `cursor` of the next page; null ends the list. */
            nextCursor: string | null;
            /** @description The proof packs of this page. */
            packs: components["schemas"]["ProofPack"][];
        };
        ProofPackListResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["ProofPackList"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        ProofPackResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["ProofPackData"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        Propagation: {
            /** @description Every live node has applied it. */
            applied: boolean;
            /** @description The state of each node. */
            nodes: components["schemas"]["NodeState"][];
            /**
             * Format: int64
             * @description The revision to be applied.
             */
            revision: number;
        };
        Provenance: {
            basis: components["schemas"]["Basis"];
            /** @description Rights derived directly from it, newest first, 500 at most. */
            derived: components["schemas"]["Right"][];
            /** @description Root right first, the right itself last. */
            lineage: components["schemas"]["Right"][];
        };
        ProvenanceResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["Provenance"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        Reason: {
            /** @description Kept permanently in the audit log: must not contain personal data. */
            reason?: string | null;
        };
        Receipt: {
            /** @description The caller's own tracing id. */
            correlationId: string | null;
            /**
             * Format: double
             * @description How long it was shown, in milliseconds.
             */
            dwellMs: number;
            /**
             * Format: date-time
             * @description When it was signed.
             */
            issuedAt: string;
            /** @description 128 random bits, base64url. */
            nonce: string;
            /** @description The receipt's id. */
            receiptId: string;
            /**
             * Format: date-time
             * @description When the observation arrived; of a row of a batch, when it was played.
             */
            renderedAt: string;
            /** @description Where it was shown. */
            spatialAnchorId: string;
            /** @description Placement within the anchor. */
            spatialPlacementId: string | null;
            /**
             * @description The version of the form.
             * @enum {string}
             */
            version: "1";
            /** @description edge:<node>:<SHA-256 of the event without receipt and signature>: binds it to tenant, right, rules and metering. */
            witness: string | null;
        };
        ReceiptList: {
            /** @description The log position up to which receipts were searched; null while nothing is loaded. */
            asOf: string | null;
            /** @description `cursor` of the next page; null ends the list. */
            nextCursor: string | null;
            /** @description The receipts of this page. */
            receipts: components["schemas"]["FoundReceipt"][];
        };
        ReceiptListResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["ReceiptList"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        Recomputed: {
            /** @description Decimal. */
            heldAmount: string;
            /**
             * Format: int64
             * @description How many receipts are behind its lines.
             */
            receipts: number;
            /** @description Decimal. */
            total: string;
        } | null;
        ReconciledDifference: {
            /**
             * @description What differs.
             * @enum {string}
             */
            code: "PACK_DIFFERS" | "STATEMENT_DIFFERS";
            /** @description The id of the pack or the statement. */
            id: string;
            /** @description A sentence that says what does not agree. */
            message: string;
        };
        ReconciledPacks: {
            /**
             * Format: int64
             * @description How many packs.
             */
            count: number;
            /** @description Null if there is no pack. */
            firstPackId: string | null;
            /** @description Null if there is no pack. */
            lastPackId: string | null;
            /** @description The warehouse's current counts for the same part of the log. */
            loaded: components["schemas"]["Counted"];
            /** @description The counts in the packs' headers, computed from what nodes have signed. */
            sealed: components["schemas"]["Counted"];
        };
        ReconciledStatement: {
            /** @description The statement that it corrects; null for a first statement. */
            corrects: string | null;
            /** @description The counterparty whose shares it states; null: all counterparties. */
            counterpartyId: string | null;
            /** @description A code of ISO 4217. */
            currency: string;
            /**
             * Format: date-time
             * @description Start of its period.
             */
            from: string;
            /**
             * Format: int64
             * @description Metered receipts of its period after its asOf. They are in none of its lines; a correction states them.
             */
            late: number;
            /** @description What a correction of it would change of the months that end in its period, by the current rules: for example because an earlier part of a month was corrected. Empty for a statement that was corrected since. */
            months: components["schemas"]["MonthDue"][];
            /** @description The same sums recomputed from the warehouse, by the statement's own rules and disputes; null if the database lacks the data for that, or if its record or text differs from what was signed. */
            recomputed: components["schemas"]["Recomputed"];
            /**
             * @description The record's own state.
             * @enum {string}
             */
            state: "ISSUED" | "SETTLED";
            /** @description The sums that it states. */
            stated: components["schemas"]["Stated"];
            /** @description The statement. */
            statementId: string;
            /**
             * Format: date-time
             * @description End of its period, exclusive.
             */
            to: string;
        };
        Reconciliation: {
            /** @description What does not agree; empty if everything agrees. At most 20 packs are listed. */
            differences: components["schemas"]["ReconciledDifference"][];
            /**
             * Format: date-time
             * @description Start of the requested period; null is open.
             */
            from: string | null;
            /** @description The packs that were sealed in the period, in the hour before it, and up to the newest pack that its statements state. They contain everything that is stated. */
            packs: components["schemas"]["ReconciledPacks"];
            /** @description The statements that are ISSUED or SETTLED and whose period overlaps with this one, sorted by their ends, each followed by its corrections. */
            statements: components["schemas"]["ReconciledStatement"][];
            /**
             * Format: date-time
             * @description The end of the requested window; null if it is open.
             */
            to: string | null;
            /** @description What an issued statement lacks: receipts of times that it covers, in the currency of the rule that rates them, and for a counterparty that the rule pays. They came late, or their rule did. A correction of that statement states them. */
            unstated: components["schemas"]["SettlementLine"][];
        };
        ReconciliationResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["Reconciliation"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        RefusalRow: {
            /**
             * Format: date-time
             * @description Start of the bucket, with the zone's offset.
             */
            bucket: string | null;
            /**
             * Format: int64
             * @description How many deliveries were refused.
             */
            refusals: number;
            /** @description Null where a node had too many counts to separate them by right. */
            rightId: string | null;
            /** @description A rule of the gate; beacon-prefetch, beacon-macro, beacon-malformed, beacon-expired, beacon-key and beacon-limited count beacon calls that were not recorded. */
            rule: string;
        };
        Refusals: {
            /** @description The log position that the response holds for: everything before it is counted. Null while nothing is loaded. */
            asOf: string | null;
            /** @description The size of the buckets; null without any. */
            bucket: string | null;
            /**
             * Format: date-time
             * @description Start of the requested window; null is open.
             */
            from: string | null;
            /** @description `cursor` of the next page; null ends the list. */
            nextCursor: string | null;
            /** @description The sums of this page. */
            rows: components["schemas"]["RefusalRow"][];
            /** @description The IANA time zone of the buckets, and of dates without a time; null if there are no buckets and none was given. */
            timeZone: string | null;
            /**
             * Format: date-time
             * @description The end of the requested window; null if it is open.
             */
            to: string | null;
            totals: components["schemas"]["RefusalTotals"];
            /** @description Misspelt fields of telemetry: the gate did not see their values. The newest 1000, on the first page, and none if a right or a rule is asked for. */
            unrecognised: components["schemas"]["UnrecognisedRow"][];
        };
        RefusalsResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["Refusals"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        RefusalTotals: {
            /**
             * Format: int64
             * @description How many deliveries were refused.
             */
            refusals: number;
        };
        RefusedRequests: {
            /** @description What to do about it, for people; it may change. */
            advice: string;
            /** @description What is known besides: the reason of a 503, the scopes that the key lacks, the first rule of the gate that is broken, or the field that is missing or wrong. Empty for nothing. */
            cause: string;
            /** @description The error of the responses; empty in a line without an operation. */
            code: string;
            /**
             * Format: int64
             * @description How many there were since firstAt. It begins again once firstAt is more than a day ago.
             */
            count: number;
            /**
             * Format: date-time
             * @description When the first was refused, to the minute.
             */
            firstAt: string;
            /** @description The API key that they have shown; empty in the line for all that is in no other. */
            keyId: string;
            /** @description The label of the key. */
            keyLabel: string;
            /**
             * Format: date-time
             * @description When the last was refused, to the minute: at most 24 hours ago.
             */
            lastAt: string;
            /** @description The id of the operation in this document; or broadsign, of a player; forwarded, which a node refused before control has seen it; unmatched, of an unknown path or method. Empty in a line for what is in no other. */
            operation: string;
            /** @description The x-request-id of the last. */
            requestId: string;
            /**
             * Format: int64
             * @description The HTTP status of the responses; 0 in a line without an operation.
             */
            status: number;
        };
        RefusedRequestsList: {
            /** @description `cursor` of the next page; null ends the list. */
            nextCursor: string | null;
            /** @description A page of the lines, the last first. */
            requests: components["schemas"]["RefusedRequests"][];
        };
        RefusedRequestsListResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["RefusedRequestsList"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        RejectedPlay: {
            /**
             * Format: date-time
             * @description When the record was made.
             */
            createdAt: string;
            /** @description Why it was rejected when it came first. */
            error: components["schemas"]["RowError"];
            /** @description The format of the player's document. */
            format: string;
            /** @description The record's id. */
            id: string;
            /** @description The API key with which it was sent. */
            keyId: string;
            /** @description Where row is null: what the player said of it, in its own words, without what the format does not use; null if that could not be read. */
            play: unknown;
            /** @description The play as a row of POST /v1/delivery/ingest-batch; null if it could not be read as one. */
            row: Record<string, never> | null;
        };
        RejectedPlayList: {
            /** @description `cursor` of the next page; null ends the list. */
            nextCursor: string | null;
            /** @description The plays of this page. */
            rejected: components["schemas"]["RejectedPlay"][];
        };
        RejectedPlayListResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["RejectedPlayList"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        ResolvedChallenge: {
            challenge: components["schemas"]["Challenge"];
            propagation: components["schemas"]["Propagation"];
            right: components["schemas"]["Right"];
        };
        ResolvedChallengeResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["ResolvedChallenge"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        RetiredMapping: {
            mapping: components["schemas"]["Mapping"];
            propagation: components["schemas"]["Propagation"];
        };
        RetiredMappingResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["RetiredMapping"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        RevokedApiKey: {
            key: components["schemas"]["ApiKey"];
            /** @description Keys in force that the key created, or that what it made created, newest first, at most 100: revoke them too unless they are yours. */
            madeKeys?: components["schemas"]["MadeApiKey"][];
            /** @description Members whom the key invited, or whom what it made invited, newest first, at most 100: remove them unless you know them. */
            madeMembers?: components["schemas"]["MadeMember"][];
            /** @description Links in force by which payees read their parts of statements, and that the key or what it made has made, newest first, at most 100: revoke them unless they are yours. */
            madePayeeLinks?: components["schemas"]["MadePayeeLink"][];
            /** @description Whether there are more than these: revoke some, and repeat the request. */
            moreMadeKeys?: boolean;
            /** @description Whether there are more than these: remove some, and repeat the request. */
            moreMadeMembers?: boolean;
            /** @description Whether there are more than these: revoke some, and repeat the request. */
            moreMadePayeeLinks?: boolean;
            propagation: components["schemas"]["Propagation"];
            /** @description Keys that replaced the key in rotations, and still work: revoke them too unless they are yours. */
            successors?: string[];
            /** @description Members whom the key had invited and who had not signed in yet: they were removed with it. */
            withdrawnInvitations?: string[];
        };
        RevokedApiKeyResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["RevokedApiKey"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        Right: {
            /** @description The legal basis that it rests on. */
            basisId: string;
            /** @description What the effective state comes from, if not from this right alone: the ancestor that stops it, or the ancestor or basis that has not begun yet or has ended with it. */
            blockedBy: string | null;
            /** @description SHA-256 of the accepted offer that it comes from, base64url; null if it comes from none. */
            contentHash: string | null;
            /**
             * Format: date-time
             * @description When the record was made.
             */
            createdAt: string;
            /**
             * Format: date-time
             * @description The beginning of its validity.
             */
            effectiveFrom: string;
            /**
             * @description Whether the right is in force now: the most severe of its own state, its ancestors' states, and NOT_BEGUN before effectiveFrom or EXPIRED from effectiveUntil on. They are listed from least to most severe.
             * @enum {string}
             */
            effectiveState: "ACTIVE" | "NOT_BEGUN" | "SUSPENDED" | "EXPIRED" | "REVOKED";
            /**
             * Format: date-time
             * @description Exclusive; null is open.
             */
            effectiveUntil: string | null;
            /** @description The organisation that holds it. */
            holderOrgId: string;
            /** @description The record's id. */
            id: string;
            /** @description The right that this one was derived from. */
            parentRightId: string | null;
            /**
             * Format: int64
             * @description Grows with every change.
             */
            revision: number;
            /** @description Limits: regions, maxSpeedMph, bvlos, channels and campaigns, with what was inherited from the parent; labels, which are inherited too; description, and the caller's own keys, which begin with x-. */
            scope: Record<string, never>;
            /**
             * @description The record's own state.
             * @enum {string}
             */
            state: "ACTIVE" | "SUSPENDED" | "REVOKED";
            /** @description The reason given with the last suspension or revocation. */
            stateReason: string | null;
            /**
             * @description The medium, whose rules apply.
             * @enum {string}
             */
            substrate: "DOOH" | "CTV" | "MOBILE" | "STREAMING" | "AUDIO" | "MESSAGING" | "GAMING" | "GLASSES" | "AR_CONTACTS" | "HUD" | "VOLUMETRIC" | "HOLOGRAM" | "WEARABLES" | "AMBIENT" | "NEURAL" | "AUTOMOTIVE" | "SMART_HOME" | "ROBOTICS" | "DRONE" | "SATELLITE" | "AVIATION" | "MARITIME" | "SOCIAL_FEED" | "ANY";
            /**
             * Format: date-time
             * @description When the record was last changed.
             */
            updatedAt: string;
        };
        RightData: {
            right: components["schemas"]["Right"];
        };
        RightList: {
            /** @description `cursor` of the next page; null ends the list. */
            nextCursor: string | null;
            /** @description The rights of this page. */
            rights: components["schemas"]["Right"][];
        };
        RightListResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["RightList"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        RightPropagation: {
            propagation: components["schemas"]["Propagation"];
            /** @description The right's id. */
            rightId: string;
        };
        RightPropagationResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["RightPropagation"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        RightResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["RightData"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        RotatedApiKey: {
            /** @description The new key itself; it can't be shown again. */
            apiKey: string;
            key: components["schemas"]["ApiKey"];
            propagation: components["schemas"]["Propagation"];
            /** @description The old key, with its end. */
            replaced: components["schemas"]["ApiKey"];
        };
        RotatedApiKeyResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["RotatedApiKey"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        RotatedWebhook: {
            /**
             * Format: date-time
             * @description Until when the previous secret signs as well.
             */
            previousUntil: string;
            /** @description The new secret; it can't be shown again. */
            secret: string;
            /** @description The public keys with which receivers verify v1a signatures, the current one first; a rotation of the secret does not change them. */
            verifyingKeys: string[];
            webhook: components["schemas"]["Webhook"];
        };
        RotatedWebhookResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["RotatedWebhook"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        Row: {
            /** @description The caller's own tracing id. */
            correlationId?: string | null;
            /** @description The person it was shown to, for export and erasure. Kept in the private part of the event, which is not hashed. */
            dataSubjectId?: string | null;
            /** @description More persons it was shown to, as in POST /v1/delivery. */
            dataSubjectIds?: string[] | null;
            /**
             * Format: double
             * @description How long, in milliseconds.
             */
            dwellMs: number;
            /** @description Which of the vendor's kinds of ids vendorId is. */
            idType?: string | null;
            /** @description Impressions that the play counts as, as a number or a decimal string: more than 0, at most 10000, up to four decimals. */
            multiplier?: number | string | null;
            /**
             * Format: date-time
             * @description When it was shown, with its zone: up to 30 days ago, at most 5 minutes ahead.
             */
            playedAt: string;
            /** @description The right: in force at playedAt, and not revoked since. While it is suspended the row is held. */
            rightId?: string | null;
            /** @description The vendor's own id of the play, if it gives each play one and never two: the row's identity, with vendor. */
            rowId?: string | null;
            /** @description Where it was shown. */
            spatialAnchorId?: string | null;
            /** @description Placement within the anchor. */
            spatialPlacementId?: string | null;
            /** @description What the device observed. */
            telemetry?: components["schemas"]["Telemetry"];
            /** @description Whose ids vendorId and rowId are. */
            vendor?: string | null;
            /** @description The id that a mapping resolves to a right and an anchor; in place of both. */
            vendorId?: string | null;
        };
        RowCounts: {
            /**
             * Format: int64
             * @description Rows whose receipt is new.
             */
            accepted: number;
            /**
             * Format: int64
             * @description Rows that were delivered before, or stand in the batch twice.
             */
            duplicate: number;
            /**
             * Format: int64
             * @description Rows that are held until their right is resumed.
             */
            held: number;
            /**
             * Format: int64
             * @description Rows without a receipt.
             */
            rejected: number;
            /**
             * Format: int64
             * @description Rows that are held until a mapping knows their vendor's id.
             */
            unmapped: number;
        };
        RowError: {
            /** @description What went wrong, of the list of errors. */
            error: string;
            /** @description The first field at fault. */
            field?: string;
            /** @description The version of the rules. */
            gate?: string;
            /** @description For people; it may change. */
            message: string;
            /**
             * @description Of INTERNAL_ERROR: why the service can't decide now; send the row again. RIGHT_NOT_IN_FORCE with STATE_CONFLICT: the right was not in force when this was played, which is final.
             * @enum {string}
             */
            reason?: "RIGHTS_STALE" | "LOG_UNAVAILABLE" | "NO_SIGNING_KEY" | "DELEGATION_ENDED" | "OVERLOADED" | "DRAINING" | "CONTROL_UNAVAILABLE" | "WAREHOUSE_BEHIND" | "QUARANTINED" | "STORAGE_FULL" | "DATABASE_UNAVAILABLE" | "DATABASE_BUSY" | "ENGINE_UNAVAILABLE" | "RIGHT_NOT_IN_FORCE";
            /**
             * @description The substrate whose rules were applied.
             * @enum {string}
             */
            substrate?: "DOOH" | "CTV" | "MOBILE" | "STREAMING" | "AUDIO" | "MESSAGING" | "GAMING" | "GLASSES" | "AR_CONTACTS" | "HUD" | "VOLUMETRIC" | "HOLOGRAM" | "WEARABLES" | "AMBIENT" | "NEURAL" | "AUTOMOTIVE" | "SMART_HOME" | "ROBOTICS" | "DRONE" | "SATELLITE" | "AVIATION" | "MARITIME" | "SOCIAL_FEED" | "ANY";
            /** @description The faults, at most the first 20. */
            validationErrors?: components["schemas"]["ValidationError"][];
            /** @description Every rule that refused the delivery. */
            violations?: unknown;
        };
        RowResult: {
            /** @description Of a row that is rejected. INTERNAL_ERROR may be sent again. */
            error?: components["schemas"]["RowError"];
            /** @description Of a row that is unmapped or held, or equal to one. */
            heldId?: string;
            /**
             * Format: int64
             * @description The row's place in the body, from 0.
             */
            index: number;
            metering?: components["schemas"]["MeteringDecision"];
            /**
             * @description Of a row whose status is held: what it waits for.
             * @enum {string}
             */
            reason?: "RIGHT_SUSPENDED";
            receipt?: components["schemas"]["Receipt"];
            /** @description Of a row that has one: the caller's, or what its format makes it of. */
            rowId?: string;
            signature?: components["schemas"]["Signature"];
            /**
             * @description accepted: the receipt is durable. duplicate: the play was delivered before, and the receipt is that of then, where this node has it; or the row is equal to an unmapped or held one of the batch, and has its heldId. rejected: no receipt was signed. unmapped: no mapping knows the vendor's id at the time of the play; the row is held until one does. held: the right is suspended, and was not when this was played; the row is held until the right is resumed.
             * @enum {string}
             */
            status: "accepted" | "duplicate" | "rejected" | "unmapped" | "held";
            /**
             * @description The substrate whose rules were applied.
             * @enum {string}
             */
            substrate?: "DOOH" | "CTV" | "MOBILE" | "STREAMING" | "AUDIO" | "MESSAGING" | "GAMING" | "GLASSES" | "AR_CONTACTS" | "HUD" | "VOLUMETRIC" | "HOLOGRAM" | "WEARABLES" | "AMBIENT" | "NEURAL" | "AUTOMOTIVE" | "SMART_HOME" | "ROBOTICS" | "DRONE" | "SATELLITE" | "AVIATION" | "MARITIME" | "SOCIAL_FEED" | "ANY";
        };
        SealedLeaf: {
            /**
             * Format: int64
             * @description Leaf index in the tenant's Merkle log, from 0.
             */
            leafIndex: number;
            /** @description The proof pack's id. */
            packId: string;
        } | null;
        SealedPacks: {
            /** @description Something before upTo is in no pack yet: call again with this upTo. */
            more: boolean;
            /** @description The header of the newest pack; null while the tenant has none. */
            pack: Record<string, never> | null;
            /** @description Headers of the packs sealed since the call began, oldest first, or of the last pack alone if nothing was new. */
            packs: Record<string, never>[];
            /** @description Acknowledged events that are in no pack yet. */
            pending: components["schemas"]["PendingEvents"][];
            /** @description Every event that was acknowledged into the log before the first call is before this position. Packs may go beyond it. */
            upTo: string;
        };
        SealedPacksResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["SealedPacks"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        SealRequest: {
            /** @description The upTo of the previous response; absent: the end of the log now. */
            upTo?: string | null;
        };
        Settlement: {
            /** @description The log position before which receipts are counted. Null while nothing is loaded. */
            asOf: string | null;
            /**
             * Format: date-time
             * @description Start of the requested window; null is open.
             */
            from: string | null;
            /** @description The lines of this page. */
            lines: components["schemas"]["SettlementLine"][];
            /** @description `cursor` of the next page; null ends the list. */
            nextCursor: string | null;
            /**
             * Format: date-time
             * @description The end of the requested window; null if it is open.
             */
            to: string | null;
            /** @description Totals by currency, over all pages. */
            totals: components["schemas"]["SettlementTotal"][];
            /** @description Metered receipts that no rule rates. On the first page only. */
            unrated: components["schemas"]["SettlementUnrated"][];
        };
        SettlementAdjustment: {
            /** @description Decimal; below zero if it takes off. */
            amount: string;
            /** @description The calendar month, in the rule's time zone. */
            month: string;
            /**
             * @description Why.
             * @enum {string}
             */
            reason: "TIER" | "MINIMUM" | "CAP";
            /** @description The rule's IANA time zone. */
            timeZone: string;
        };
        SettlementLabel: {
            /** @description Its name. */
            name: string;
            /** @description Its value. */
            value: string;
        } | null;
        SettlementLine: {
            /** @description Decimal: the price times the counted units, rounded once to six fractional digits, half to even. */
            amount: string;
            /** @description With by=campaign: a campaign that the right's scope lists; null if it lists none. */
            campaignId?: string | null;
            /** @description A code of ISO 4217. */
            currency: string;
            /** @description Decimal: the metered impressions. */
            impressions: string;
            /** @description The tier at which they are metered. */
            meteringBasis: string;
            /** @description Decimal: the price of one unit. */
            price: string;
            /**
             * Format: int64
             * @description What is billed, in milliseconds.
             */
            quantityMs: number;
            /**
             * Format: int64
             * @description How many receipts there are.
             */
            receipts: number;
            /** @description The right's id. */
            rightId: string;
            /** @description The rule that rates them. */
            ruleId: string;
            /** @description How the amount is divided. The shares sum to the amount. */
            shares: components["schemas"]["SettlementLineShare"][];
            /**
             * @description What the price applies to.
             * @enum {string}
             */
            unit: "EVENT" | "IMPRESSION" | "CPM" | "MS" | "SECOND";
        };
        SettlementLineShare: {
            /** @description Decimal. */
            amount: string;
            /**
             * Format: int64
             * @description Basis points: 10,000 are the whole.
             */
            bps: number;
            /** @description The counterparty. */
            counterpartyId: string;
        };
        SettlementMatch: {
            /** @description Receipts on rights under this basis. */
            basisId: string | null;
            /** @description Receipts on rights whose scope lists this campaign. */
            campaign: string | null;
            /** @description Receipts of videos that were played exactly this far. */
            completion: string | null;
            /** @description Receipts on rights whose scope has this label. */
            label: components["schemas"]["SettlementLabel"];
            /** @description Receipts metered at this tier. */
            meteringBasis: string | null;
            /** @description Receipts on this right. */
            rightId: string | null;
            /**
             * @description Receipts on this substrate.
             * @enum {string|null}
             */
            substrate: "DOOH" | "CTV" | "MOBILE" | "STREAMING" | "AUDIO" | "MESSAGING" | "GAMING" | "GLASSES" | "AR_CONTACTS" | "HUD" | "VOLUMETRIC" | "HOLOGRAM" | "WEARABLES" | "AMBIENT" | "NEURAL" | "AUTOMOTIVE" | "SMART_HOME" | "ROBOTICS" | "DRONE" | "SATELLITE" | "AVIATION" | "MARITIME" | "SOCIAL_FEED" | "ANY" | null;
        };
        SettlementPayee: {
            /** @description Decimal: the sum of its shares. */
            amount: string;
            /** @description The counterparty. */
            counterpartyId: string;
            /** @description Its current name. */
            name: string;
        };
        SettlementResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["Settlement"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        SettlementRule: {
            /** @description Decimal with at most six fractional digits: the largest amount of a calendar month. */
            cap: string | null;
            /**
             * Format: date-time
             * @description When the record was made.
             */
            createdAt: string;
            /** @description A code of ISO 4217. */
            currency: string;
            /**
             * Format: date-time
             * @description A receipt is rated by the rules in force when it was rendered.
             */
            effectiveFrom: string;
            /**
             * Format: date-time
             * @description Exclusive; null is open. Equal to effectiveFrom if the rule was retired before it began: it never was in force.
             */
            effectiveUntil: string | null;
            /** @description The record's id. */
            id: string;
            match: components["schemas"]["SettlementMatch"];
            /** @description Decimal with at most six fractional digits: the least amount of a calendar month in which the rule is in force. */
            minimum: string | null;
            /** @description Decimal price of one unit, with at most nine fractional digits; with tiers, that of the first units of a month. */
            price: string;
            /**
             * Format: int64
             * @description If several rules fit a receipt, the one with the highest priority rates it; then the most specific one; then the one with the lowest id.
             */
            priority: number;
            /**
             * Format: int64
             * @description Grows with every change.
             */
            revision: number;
            /** @description How its amounts are divided: 10,000 basis points in total. */
            shares: components["schemas"]["SettlementShare"][];
            /**
             * @description The record's own state.
             * @enum {string}
             */
            state: "ACTIVE" | "RETIRED";
            /** @description Prices for more units in a month, by rising volume; empty: there is one price. */
            tiers: components["schemas"]["Tier"][];
            /**
             * @description GRADUATED: each tier's price is for the units above its volume, up to the next tier. VOLUME: the price of the highest tier that is reached is for all units of the month. Null without tiers.
             * @enum {string|null}
             */
            tiersMode: "GRADUATED" | "VOLUME" | null;
            /** @description The IANA time zone of the calendar months to which tiers, minimum and cap belong. */
            timeZone: string;
            /**
             * @description What the price applies to.
             * @enum {string}
             */
            unit: "EVENT" | "MS" | "SECOND" | "IMPRESSION" | "CPM";
            /**
             * Format: date-time
             * @description When the record was last changed.
             */
            updatedAt: string;
        };
        SettlementRuleChange: {
            /** @description Decimal with at most six fractional digits: the largest amount of a calendar month. Not applied to packs. */
            cap?: string | null;
            /** @description A code of ISO 4217. */
            currency: string;
            /** @description The rule rates receipts rendered at this moment or later; it may be in the past. */
            effectiveFrom: string;
            /** @description Exclusive; absent: until it is retired. */
            effectiveUntil?: string | null;
            /** @description Which receipts the rule is for; absent: all. */
            match?: components["schemas"]["NewSettlementMatch"];
            /** @description Decimal with at most six fractional digits: the least amount of a calendar month in which the rule is in force, whole. Not applied to packs. */
            minimum?: string | null;
            /** @description Decimal price of one unit, with at most nine fractional digits; with tiers, that of the first units of a month. */
            price: string;
            /**
             * Format: int64
             * @description If several rules fit a receipt, the one with the highest priority rates it.
             * @default 0
             */
            priority?: number | null;
            /** @description How the rule's amounts are divided: 10,000 basis points in total. */
            shares: components["schemas"]["NewSettlementShare"][];
            /** @description Prices for more units in a month, by rising volume; absent: there is one price. Not applied to packs. */
            tiers?: components["schemas"]["NewTier"][] | null;
            /**
             * @description GRADUATED: each tier's price is for the units above its volume, up to the next tier. VOLUME: the price of the highest tier that is reached is for all units of the month. Absent: GRADUATED.
             * @enum {string|null}
             */
            tiersMode?: "GRADUATED" | "VOLUME" | null;
            /** @description IANA time zone of the calendar months to which tiers, minimum and cap belong, and of dates without a time; absent: the tenant's, or of a rule that is changed its own. */
            timeZone?: string | null;
            /**
             * @description What the price applies to: one metered receipt, millisecond, second or impression, or a thousand impressions.
             * @enum {string}
             */
            unit: "EVENT" | "MS" | "SECOND" | "IMPRESSION" | "CPM";
        };
        SettlementRuleData: {
            rule: components["schemas"]["SettlementRule"];
        };
        SettlementRuleList: {
            /** @description `cursor` of the next page; null ends the list. */
            nextCursor: string | null;
            /** @description The rules of this page. */
            rules: components["schemas"]["SettlementRule"][];
        };
        SettlementRuleListResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["SettlementRuleList"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        SettlementRuleResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["SettlementRuleData"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        SettlementShare: {
            /**
             * Format: int64
             * @description Basis points: 10,000 are the whole.
             */
            bps: number;
            /** @description The counterparty. */
            counterpartyId: string;
        };
        SettlementTotal: {
            /** @description Decimal: the sum of the lines. Each right counts once. */
            amount: string;
            /** @description A code of ISO 4217. */
            currency: string;
            /** @description Decimal: what receipts under open disputes would add: the lines with them minus the lines without. As a line is rounded once, it may differ in the sixth fractional digit from what they are worth alone. */
            heldAmount: string;
            /** @description How the amount is divided, sorted by counterpartyId. */
            payees: components["schemas"]["SettlementPayee"][];
        };
        SettlementUnrated: {
            /** @description Decimal: the metered impressions. */
            impressions: string;
            /** @description The tier at which they are metered. */
            meteringBasis: string;
            /**
             * Format: int64
             * @description What is billed, in milliseconds.
             */
            quantityMs: number;
            /**
             * @description Why.
             * @enum {string}
             */
            reason: "NO_RULE" | "AMOUNT_TOO_LARGE";
            /**
             * Format: int64
             * @description How many receipts there are.
             */
            receipts: number;
            /** @description The right's id. */
            rightId: string;
        };
        Signature: {
            /**
             * @description The signature algorithm.
             * @enum {string}
             */
            algorithm: "ed25519";
            /** @description The key's id in the directory of verification keys. */
            keyId: string;
            /** @description 64 bytes, base64url. */
            value: string;
        };
        Stated: {
            /** @description Decimal. */
            heldAmount: string;
            /**
             * Format: int64
             * @description How many receipts are behind its lines.
             */
            receipts: number;
            /** @description Decimal. */
            total: string;
        };
        Statement: {
            /** @description The log position up to which receipts are stated: the end of the pack. */
            asOf: string;
            /**
             * Format: int64
             * @description Its number among the corrections of the first statement, from 1; 0 for a first statement.
             */
            correction: number;
            /** @description The first statement of the period, which this one corrects. Null for a first statement. */
            corrects: string | null;
            /** @description The counterparty whose shares it states; null: all counterparties. */
            counterpartyId: string | null;
            /**
             * Format: date-time
             * @description When the record was made.
             */
            createdAt: string;
            /** @description A code of ISO 4217. */
            currency: string;
            /** @description Decimal, of a correction: its total minus the total of the previous statement; null for a first statement. */
            difference: string | null;
            /** @description Decimal, in the currency's minor unit: what is open of its payables, credits subtracted, so below zero if they are more; null until it is ISSUED. */
            dueAmount: string | null;
            /**
             * Format: date-time
             * @description Start of the period: receipts rendered at or after it count.
             */
            from: string;
            /** @description Decimal: what receipts under open disputes would add to the total: the lines with them minus the lines without. As a line is rounded once, it may differ in the sixth fractional digit from what they are worth alone. */
            heldAmount: string;
            /** @description The record's id. */
            id: string;
            /**
             * Format: date-time
             * @description When it was signed; null until it is ISSUED.
             */
            issuedAt: string | null;
            /** @description The number of its payable, of a statement for one counterparty; null until it is ISSUED. In a statement for all, the payable of each payee has one. */
            number: string | null;
            /** @description The newest pack that it states. This pack and all before it verify the statement. */
            packId: string;
            /** @description Decimal: what was paid or set off of its payables. */
            paidAmount: string;
            /** @description The month, week or day of timeZone that it states, such as 2026-11, 2026-W48 or 2026-11-28; null for any other period. */
            period: string | null;
            /**
             * Format: int64
             * @description How many receipts are behind its lines.
             */
            receipts: number;
            /** @description The newest payment's reference; null until one is recorded. */
            reference: string | null;
            /**
             * Format: int64
             * @description Grows with every change.
             */
            revision: number;
            /** @description The root hash of the log there. */
            rootHash: string;
            /**
             * Format: int64
             * @description Its place among the statements and corrections that were issued, from 1, in the order of their issue; 0 until it is ISSUED.
             */
            sequence: number;
            /**
             * Format: date-time
             * @description When it was paid in full; null until it is SETTLED.
             */
            settledAt: string | null;
            /** @description SHA-256 of the signed file, base64url; null until it is ISSUED. */
            sha256: string | null;
            /**
             * @description Where a statement is read or listed, of a DRAFT that was overtaken, so that it can't be issued any more. CORRECTED: what it corrects was corrected or voided since; OVERLAPPED: another statement of its time was issued or voided; DISPUTED: a dispute of its time was opened or resolved: draft it again. STATED: another statement of the same was issued: correct that. A list says it of its newest 100 drafts.
             * @enum {string}
             */
            stale?: "CORRECTED" | "STATED" | "OVERLAPPED" | "DISPUTED";
            /**
             * @description The record's own state.
             * @enum {string}
             */
            state: "DRAFT" | "DISCARDED" | "ISSUED" | "SETTLED" | "VOIDED";
            /** @description The IANA time zone of its dates. */
            timeZone: string;
            /**
             * Format: date-time
             * @description End of the period: receipts rendered before it count.
             */
            to: string;
            /** @description Decimal: the sum of all stated shares. */
            total: string;
            /**
             * Format: int64
             * @description How many events the log has up to there.
             */
            treeSize: number;
            /**
             * Format: date-time
             * @description When the record was last changed.
             */
            updatedAt: string;
            /** @description Why the period's statements were voided, on the statement that voids them; otherwise null. */
            voidReason: string | null;
        };
        StatementData: {
            statement: components["schemas"]["Statement"];
        };
        StatementDocument: {
            /** @description The signed text, or, of a DRAFT, the text to be signed: RFC 8785 JSON. Null once it is DISCARDED, or if a restored database lacks it. */
            document: Record<string, never> | null;
            statement: components["schemas"]["Statement"];
        };
        StatementDocumentResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["StatementDocument"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        StatementList: {
            /** @description `cursor` of the next page; null ends the list. */
            nextCursor: string | null;
            /** @description The statements of this page. */
            statements: components["schemas"]["Statement"][];
        };
        StatementListResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["StatementList"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        StatementResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["StatementData"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        /** @description What the device observed. Every field is optional, and further fields are accepted. The gate reads all of them; the description of each says what is kept afterwards. Of further fields the gate reads optOut (or optedOut), guardianConsent, profiled, bvlos, neuralDataConsent and substrate, and keeps none. */
        Telemetry: {
            /**
             * @description State of the host application. Kept always.
             * @enum {string}
             */
            appState?: "foreground" | "background";
            /** @description Sound is actually audible. Kept always. */
            audible?: boolean;
            /** @description The spot beam that serves. Kept unless minorMode. */
            beamId?: string;
            /**
             * @description Where the viewer is, seen from the boundary. Kept never.
             * @enum {string}
             */
            boundaryProximity?: "inside" | "near_edge" | "outside";
            /** @description A drone's waiver for flight beyond visual line of sight. Kept never. */
            bvlosWaiverId?: string | null;
            /**
             * @description Bystanders may be captured. Kept never.
             * @enum {string}
             */
            bystanderCaptureRisk?: "none" | "possible";
            /**
             * @description Derived risk of motion sickness. Kept never.
             * @enum {string}
             */
            comfortVectionRisk?: "low" | "med" | "high";
            /**
             * @description Progress of a video. Kept always.
             * @enum {string}
             */
            completionState?: "started" | "first_quartile" | "midpoint" | "third_quartile" | "complete";
            /** @description The coverage cell. Kept unless minorMode. */
            coverageCellId?: string;
            /** @description Tracking lock is established. Kept always. */
            dopplerLocked?: boolean;
            /** @description Derived dwell of the eyes, in milliseconds. Kept with eyeTrackingConsent, unless minorMode. */
            dwellInViewMs?: number;
            /** @description Explicit, revocable consent to eye tracking. Kept always. */
            eyeTrackingConsent?: boolean;
            /** @description Code of the licensed footprint's region. Kept always. */
            footprintRegion?: string;
            /** @description The content is inside the field of view. Kept always. */
            fovPresence?: boolean;
            /** @description Derived: it was looked at. Never raw gaze. Kept with eyeTrackingConsent, unless minorMode. */
            gazeInView?: boolean;
            /** @description The anchor is georeferenced. Kept with spatialMappingConsent, unless minorMode or bystanders may be captured. */
            geoAnchored?: boolean;
            /** @description The gateway on the ground that serves. Kept always. */
            groundStationId?: string;
            /** @description Headset or glasses are actually worn. Kept always. */
            headsetWorn?: boolean;
            /**
             * @description How much of the view is rendered. Kept never.
             * @enum {string}
             */
            immersionLevel?: "mixed" | "progressive" | "full";
            /** @description The serving cell is inside the right's licensed footprint; false refuses. Kept always. */
            licensedRegionMatch?: boolean;
            /**
             * @description Estimate of the ambient light. Kept always.
             * @enum {string}
             */
            lightingState?: "ok" | "too_dark" | "too_bright";
            /**
             * @description State of the downlink. Kept always.
             * @enum {string}
             */
            linkState?: "acquired" | "degraded" | "lost";
            /**
             * @description Derived state of motion. Kept never.
             * @enum {string}
             */
            locomotionState?: "stationary" | "seated" | "walking" | "in_vehicle";
            /** @description The viewer is or may be a minor; rules are stricter. Kept never. */
            minorMode?: boolean;
            /** @description The player is muted. Kept always. */
            muted?: boolean;
            /** @description Real things hide rendered ones behind them. Kept with spatialMappingConsent, unless minorMode or bystanders may be captured. */
            occlusionResolved?: boolean;
            /** @description Processed in orbit. Kept always. */
            onboardProcessed?: boolean;
            /** @description The viewer sees through to the room. Kept never. */
            passthroughActive?: boolean;
            /** @description A drone's remote identification is on. Kept never. */
            remoteIdActive?: boolean;
            /** @description The boundary of the play area is defined. Kept never. */
            roomScaleBounded?: boolean;
            /** @description The anchor stays from session to session. Kept with spatialMappingConsent, unless minorMode or bystanders may be captured. */
            spatialAnchorPersistent?: boolean;
            /** @description Explicit consent for the mapped space. Kept always. */
            spatialMappingConsent?: boolean;
            /** @description The spectrum band. Kept always. */
            spectrumBand?: string;
            /** @description Speed of the vehicle, in miles per hour. Kept never. */
            speedMph?: number;
            /** @description Met the viewability bar: half of the pixels for 2 s of video or 1 s of display. Kept always. */
            viewable?: boolean;
            /**
             * @description Visibility of the session; what is not visible is not billed. Kept always.
             * @enum {string}
             */
            visibilityState?: "visible" | "blurred" | "hidden";
            /** @description A voice prompt or announcement is being played. Kept never. */
            voicePromptActive?: boolean;
            /** @description Attenuation by weather, in dB. Kept always. */
            weatherAttenuationDb?: number;
        };
        Tenant: {
            counts: components["schemas"]["TenantCounts"];
            /**
             * Format: date-time
             * @description When the record was made.
             */
            createdAt: string;
            /** @description The organisation's id. */
            orgId: string;
            /** @description The tenant's id. */
            tenantId: string;
            /** @description The IANA time zone of its statements and rules, unless they name another. */
            timeZone: string;
        };
        TenantCounts: {
            /**
             * Format: int64
             * @description How many there are.
             */
            bases: number;
            /**
             * Format: int64
             * @description How many there are.
             */
            challenges: number;
            /**
             * Format: int64
             * @description How many are durable; while the warehouse is more than 2 seconds behind, how many it has loaded.
             */
            events: number;
            /**
             * Format: int64
             * @description How many there are.
             */
            offers: number;
            /**
             * Format: int64
             * @description How many there are.
             */
            proofPacks: number;
            /**
             * Format: int64
             * @description How many there are.
             */
            rights: number;
        };
        TenantData: {
            developer: components["schemas"]["Developer"];
            key: components["schemas"]["CallingKey"];
            tenant: components["schemas"]["Tenant"];
        };
        TenantResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["TenantData"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        Tier: {
            /**
             * Format: int64
             * @description The price is for units above so many in the month.
             */
            above: number;
            /** @description Decimal price of one unit, with at most nine fractional digits. */
            price: string;
        };
        UnrecognisedRow: {
            /**
             * Format: date-time
             * @description Start of the bucket, with the zone's offset.
             */
            bucket: string | null;
            /**
             * Format: int64
             * @description How often it was sent, in deliveries that were refused as well.
             */
            deliveries: number;
            /** @description The field of telemetry that it stands for: the same but for case, _ and -, or one edit. */
            meant: string;
            /** @description As it was sent. Null where a node had too many names to separate them. */
            name: string | null;
        };
        ValidationError: {
            /** @description The field at fault. */
            field: string;
            /** @description For people; it may change. */
            message: string;
        };
        Violation: {
            /** @description The error code; it doesn't change within a version of the rules. */
            code: string;
            /** @description The field at fault. */
            field: string;
            /** @description Every field that the rule reads. */
            fields: string[];
            /**
             * Format: double
             * @description The limit that was broken, where the rule has one.
             */
            limit?: number;
            /** @description For people; it may change. */
            message: string;
            /** @description The value that the gate read; null if there was none. */
            observed: unknown;
            /** @description Where to read about it. */
            reference: string;
            /** @description What the rule requires. */
            required: string;
            /** @description The rule's name. */
            rule: string;
            /**
             * @description The medium, whose rules apply.
             * @enum {string}
             */
            substrate: "DOOH" | "CTV" | "MOBILE" | "STREAMING" | "AUDIO" | "MESSAGING" | "GAMING" | "GLASSES" | "AR_CONTACTS" | "HUD" | "VOLUMETRIC" | "HOLOGRAM" | "WEARABLES" | "AMBIENT" | "NEURAL" | "AUTOMOTIVE" | "SMART_HOME" | "ROBOTICS" | "DRONE" | "SATELLITE" | "AVIATION" | "MARITIME" | "SOCIAL_FEED" | "ANY";
            /** @description What made the rule stricter than usual. */
            tightenedBy?: string;
            /** @description The unit of the limit. */
            unit?: string;
        };
        Voiding: {
            /** @description Why. It is signed, and kept in the audit log permanently: no place for personal data. */
            reason: string;
        };
        Webhook: {
            /**
             * Format: date-time
             * @description When the record was made.
             */
            createdAt: string;
            /** @description What it is for. */
            description: string;
            /** @description The kinds of events that are sent. */
            events: string[];
            /**
             * Format: date-time
             * @description The first failure since the last successful attempt; null while attempts succeed.
             */
            failingSince: string | null;
            /** @description The record's id. */
            id: string;
            /** @description The key, or the member, under whom events are sent: the one that last set url or events, or that resumed the webhook after the end of that key or a change of that member. A key's successors in rotations take its place. */
            keyId: string;
            /**
             * Format: int64
             * @description Grows with every change.
             */
            revision: number;
            /**
             * @description While it is PAUSED, events wait; while it is DISABLED, none are queued.
             * @enum {string}
             */
            state: "ACTIVE" | "PAUSED" | "DISABLED";
            /** @description Why the service paused or disabled it; null if it did not. */
            stateReason: string | null;
            /**
             * Format: date-time
             * @description When the record was last changed.
             */
            updatedAt: string;
            /** @description Where events are sent. */
            url: string;
            /** @description The limit for which its messages wait, and what ends it; null if they don't. */
            waitReason: string | null;
            /**
             * Format: date-time
             * @description Until when its messages wait, because the limit that waitReason names is reached; null if they don't.
             */
            waitsUntil: string | null;
        };
        WebhookAttempt: {
            /**
             * Format: date-time
             * @description When it began.
             */
            at: string;
            /** @description The beginning of the response's body, at most 1 KiB; null if there was none, or if it came from what only --webhook-allow admits. */
            bodyExcerpt: string | null;
            /**
             * Format: int64
             * @description How long it took, in milliseconds.
             */
            durationMs: number;
            /** @description Why there was no response; null if there was one. Without details, if it leads to what only --webhook-allow admits. */
            error: string | null;
            /**
             * Format: int64
             * @description The status of the receiver's response; null if there was none.
             */
            status: number | null;
        };
        WebhookChange: {
            /** @description New description. */
            description?: string | null;
            /** @description New kinds of events. */
            events?: ("*" | "basis.*" | "basis.created" | "beacon.*" | "beacon.created" | "challenge.*" | "challenge.opened" | "challenge.overturned" | "challenge.upheld" | "challenge.withdrawn" | "counterparty.*" | "counterparty.changed" | "counterparty.created" | "counterparty.deactivated" | "delivery.*" | "delivery.recorded" | "dispute.*" | "dispute.investigation_started" | "dispute.opened" | "dispute.resolved" | "dispute.responded" | "dsar.*" | "dsar.cancelled" | "dsar.collecting" | "dsar.download_started" | "dsar.downloaded" | "dsar.expired" | "dsar.failed" | "dsar.packaging" | "dsar.queued" | "dsar.ready" | "dsar.requested" | "erasure.*" | "erasure.completed" | "events.*" | "events.exported" | "gate.*" | "gate.refusals" | "held_row.*" | "held_row.expired" | "issuer.*" | "issuer.changed" | "key.*" | "key.created" | "key.revoked" | "key.rotated" | "mapping.*" | "mapping.created" | "mapping.retired" | "member.*" | "member.bound" | "member.changed" | "member.invited" | "member.joined" | "member.removed" | "offer.*" | "offer.accepted" | "offer.countered" | "offer.expired" | "offer.proposed" | "offer.rejected" | "offer.withdrawn" | "pack.*" | "pack.downloaded" | "pack.sealed" | "payable.*" | "payable.issued" | "payable.paid" | "payee_link.*" | "payee_link.created" | "payee_link.revoked" | "record.*" | "record.released" | "rejected_play.*" | "rejected_play.dismissed" | "right.*" | "right.issued" | "right.resumed" | "right.revoked" | "right.suspended" | "settlement_rule.*" | "settlement_rule.changed" | "settlement_rule.created" | "settlement_rule.retired" | "statement.*" | "statement.created" | "statement.discarded" | "statement.issued" | "statement.paid" | "statement.reopened" | "statement.settled" | "statement.voided" | "subject.*" | "subject.erased" | "tenant.*" | "tenant.created" | "tenant.dropped" | "webhook.*" | "webhook.changed" | "webhook.created" | "webhook.deleted" | "webhook.disabled" | "webhook.paused" | "webhook.recovered" | "webhook.resent" | "webhook.secret_rotated" | "webhook.tested")[];
            /**
             * @description New state.
             * @enum {string|null}
             */
            state?: "ACTIVE" | "PAUSED" | "DISABLED" | null;
            /** @description Another URL. */
            url?: string | null;
        };
        WebhookData: {
            webhook: components["schemas"]["Webhook"];
        };
        WebhookDelivery: {
            /** @description The last 20 attempts, oldest first. */
            attempts: components["schemas"]["WebhookAttempt"][];
            /**
             * Format: date-time
             * @description When the record was made.
             */
            createdAt: string;
            /**
             * Format: date-time
             * @description The event's time; for a batch, the time of the first event.
             */
            eventAt: string;
            /**
             * Format: int64
             * @description How many events are sent.
             */
            eventCount: number;
            /** @description The event that is sent; for a batch, the first one. */
            eventId: string;
            /** @description The type of the event, or of all events in the batch. */
            eventType: string;
            /** @description The value of the header webhook-id of each attempt. */
            id: string;
            /**
             * Format: date-time
             * @description When the next attempt is due; null if there is none, or while the event is not in the log yet.
             */
            nextAttemptAt: string | null;
            /**
             * @description FAILED after the last attempt.
             * @enum {string}
             */
            state: "PENDING" | "DELIVERED" | "FAILED";
            /**
             * Format: date-time
             * @description When the record was last changed.
             */
            updatedAt: string;
            /** @description The webhook's id. */
            webhookId: string;
        };
        WebhookDeliveryData: {
            delivery: components["schemas"]["WebhookDelivery"];
        };
        WebhookDeliveryList: {
            /** @description The deliveries of this page. */
            deliveries: components["schemas"]["WebhookDelivery"][];
            /** @description `cursor` of the next page; null ends the list. */
            nextCursor: string | null;
        };
        WebhookDeliveryListResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["WebhookDeliveryList"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        WebhookDeliveryResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["WebhookDeliveryData"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        WebhookList: {
            /** @description `cursor` of the next page; null ends the list. */
            nextCursor: string | null;
            /** @description The webhooks of this page. */
            webhooks: components["schemas"]["Webhook"][];
        };
        WebhookListResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["WebhookList"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        WebhookRecovery: {
            /**
             * Format: int64
             * @description How many deliveries are queued, but for those beyond the 100,000 that may wait: recover again once these are sent.
             */
            count: number;
            /** @description True if they were only counted. */
            dryRun: boolean;
            /** @description True if there are more than could be counted in 5 seconds. */
            more: boolean;
        };
        WebhookRecoveryData: {
            recovery: components["schemas"]["WebhookRecovery"];
        };
        WebhookRecoveryResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["WebhookRecoveryData"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
        WebhookResponse: {
            /** @description The version of this contract. */
            contractVersion: string;
            data: components["schemas"]["WebhookData"];
            /**
             * @description always true
             * @enum {boolean}
             */
            ok: true;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export interface operations {
    "get-contract": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ContractResponse"];
                };
            };
        };
    };
    "list-api-keys": {
        parameters: {
            query?: {
                /** @description The nextCursor of the previous response. */
                cursor?: string;
                /** @description The most records in the response. */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiKeyListResponse"];
                };
            };
        };
    };
    "create-api-key": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewApiKey"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CreatedApiKeyResponse"];
                };
            };
        };
    };
    "get-api-key": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiKeyDetailsResponse"];
                };
            };
        };
    };
    "revoke-api-key": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RevokedApiKeyResponse"];
                };
            };
        };
    };
    "rotate-api-key": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ApiKeyRotation"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RotatedApiKeyResponse"];
                };
            };
        };
    };
    "list-bases": {
        parameters: {
            query?: {
                /** @description The nextCursor of the previous response. */
                cursor?: string;
                /** @description Only those that end, and later than this: a date or a time, as in bodies. With the current time, those that have not ended yet. */
                endsAfter?: string;
                /** @description Only those that end at this time or before it: a date or a time, as in bodies. */
                endsBy?: string;
                /** @description The most records in the response. */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BasisListResponse"];
                };
            };
        };
    };
    "create-basis": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewBasis"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BasisResponse"];
                };
            };
        };
    };
    "get-basis": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BasisResponse"];
                };
            };
        };
    };
    "list-challenges": {
        parameters: {
            query?: {
                /** @description The nextCursor of the previous response. */
                cursor?: string;
                /** @description The most records in the response. */
                limit?: number;
                /** @description Only challenges of this right. */
                rightId?: string;
                /** @description Only challenges in this state. */
                state?: "OPEN" | "UPHELD" | "OVERTURNED" | "WITHDRAWN";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ChallengeListResponse"];
                };
            };
        };
    };
    "open-challenge": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewChallenge"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ChallengeResponse"];
                };
            };
        };
    };
    "get-challenge": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ChallengeResponse"];
                };
            };
        };
    };
    "resolve-challenge": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ChallengeResolution"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResolvedChallengeResponse"];
                };
            };
        };
    };
    "withdraw-challenge": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ChallengeWithdrawal"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ChallengeResponse"];
                };
            };
        };
    };
    "list-dsar-jobs": {
        parameters: {
            query?: {
                /** @description The nextCursor of the previous response. */
                cursor?: string;
                /** @description The most records in the response. */
                limit?: number;
                /** @description Only jobs in this state. */
                state?: "REQUESTED" | "COLLECTING" | "PACKAGING" | "READY" | "FAILED";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DSARJobListResponse"];
                };
            };
        };
    };
    "create-dsar-job": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewDSARJob"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CreatedDSARJobResponse"];
                };
            };
        };
    };
    "get-dsar-job": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DSARJobResponse"];
                };
            };
        };
    };
    "get-dsar-bundle": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DSARBundleLinkResponse"];
                };
            };
        };
    };
    "cancel-dsar-job": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["DSARCancellation"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DSARJobResponse"];
                };
            };
        };
    };
    "run-dsar-job": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DSARJobResponse"];
                };
            };
        };
    };
    erase: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["EraseRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErasureResponse"];
                };
            };
        };
    };
    "list-erasures": {
        parameters: {
            query?: {
                /** @description The nextCursor of the previous response. */
                cursor?: string;
                /** @description The most records in the response. */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErasureListResponse"];
                };
            };
        };
    };
    "get-erasure": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErasureResponse"];
                };
            };
        };
    };
    "observe-delivery": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Observation"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DeliveredResponse"];
                };
            };
        };
    };
    "create-beacon": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewBeacon"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BeaconURLResponse"];
                };
            };
        };
    };
    "list-held-rows": {
        parameters: {
            query?: {
                /** @description The nextCursor of the previous response. */
                cursor?: string;
                /** @description The most records in the response. */
                limit?: number;
                /** @description Only rows that wait for this, or did last. */
                reason?: "UNMAPPED" | "RIGHT_SUSPENDED";
                /** @description Only rows that wait for this right, or did last. */
                rightId?: string;
                /** @description Only rows in this state. */
                state?: "HELD" | "REPLAYED" | "EXPIRED";
                /** @description Only rows of this id. */
                vendorId?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["HeldRowListResponse"];
                };
            };
        };
    };
    "ingest-batch": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["IngestBatch"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["IngestedResponse"];
                };
            };
        };
    };
    "list-mappings": {
        parameters: {
            query?: {
                /** @description The nextCursor of the previous response. */
                cursor?: string;
                /** @description Only mappings of ids of this kind. */
                idType?: string;
                /** @description The most records in the response. */
                limit?: number;
                /** @description Only mappings to this right. */
                rightId?: string;
                /** @description Only mappings in this state. */
                state?: "ACTIVE" | "RETIRED";
                /** @description Only mappings of this vendor's ids. */
                vendor?: string;
                /** @description Only mappings of this id. */
                vendorId?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MappingListResponse"];
                };
            };
        };
    };
    "create-mapping": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewMapping"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MappingResponse"];
                };
            };
        };
    };
    "retire-mapping": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RetiredMappingResponse"];
                };
            };
        };
    };
    "import-mappings": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/x-ndjson": string;
                "text/csv": string;
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ImportResponse"];
                };
            };
        };
    };
    "list-rejected-plays": {
        parameters: {
            query?: {
                /** @description The nextCursor of the previous response. */
                cursor?: string;
                /** @description The most records in the response. */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RejectedPlayListResponse"];
                };
            };
        };
    };
    "dismiss-rejected-plays": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Dismissal"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DismissedResponse"];
                };
            };
        };
    };
    "list-disputes": {
        parameters: {
            query?: {
                /** @description The nextCursor of the previous response. */
                cursor?: string;
                /** @description The most records in the response. */
                limit?: number;
                /** @description Only disputes that name this receipt. */
                receiptId?: string;
                /** @description Only disputes about this right by its id, not those about its receipts. */
                rightId?: string;
                /** @description Only disputes in this state. */
                state?: "OPEN" | "INVESTIGATING" | "RESPONDED" | "RESOLVED";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DisputeListResponse"];
                };
            };
        };
    };
    "open-dispute": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewDispute"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DisputeResponse"];
                };
            };
        };
    };
    "get-dispute": {
        parameters: {
            query?: {
                /** @description true: also when and where each disputed receipt was, which requires audit:read, and what it is worth, which is null without settlement:read. */
                plays?: "true" | "false";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PricedDisputeResponse"];
                };
            };
        };
    };
    "investigate-dispute": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DisputeResponse"];
                };
            };
        };
    };
    "resolve-dispute": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["DisputeResolution"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DisputeResponse"];
                };
            };
        };
    };
    "respond-to-dispute": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewDisputeResponse"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DisputeResponse"];
                };
            };
        };
    };
    "list-events": {
        parameters: {
            query?: {
                /** @description Only events caused by this actor. */
                actorId?: string;
                /** @description Only events caused by this kind of actor. */
                actorKind?: "key" | "member" | "node" | "operator" | "system";
                /** @description Only events after this position. */
                after?: string;
                /** @description A position from an earlier response: only what is before it counts. Default: everything that is loaded now. */
                asOf?: string;
                /** @description Only events before this position. */
                before?: string;
                /** @description The nextCursor of the previous response. */
                cursor?: string;
                /** @description The beginning of the period, inclusive: a date or a time, as in bodies. Open when absent. */
                from?: string;
                /** @description The most records in the response. */
                limit?: number;
                /** @description desc: newest first. asc: oldest first; to continue a listing later, pass the position of its last event as after. */
                order?: "asc" | "desc";
                /** @description Only events about this right, including its deliveries; short for subjectKind=right and subjectId. */
                rightId?: string;
                /** @description Only events about the thing with this id. */
                subjectId?: string;
                /** @description Only events about this kind of thing, such as right or key. */
                subjectKind?: string;
                /** @description The end of the period, exclusive: a date or a time, as in bodies. Open when absent. */
                to?: string;
                /** @description Only events of these kinds, such as delivery.recorded; repeat the parameter, or separate values with commas. x-event-kinds in this document lists all kinds. */
                type?: string[];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EventListResponse"];
                };
            };
        };
    };
    "export-events": {
        parameters: {
            query?: {
                /** @description Position; only events after it. Default: from the first event on. */
                after?: string;
                /** @description Position; only events up to and including it. Default: up to the newest sealed event. */
                upTo?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/x-ndjson": unknown;
                };
            };
        };
    };
    "get-health": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["HealthResponse"];
                };
            };
        };
    };
    "list-members": {
        parameters: {
            query?: {
                /** @description The nextCursor of the previous response. */
                cursor?: string;
                /** @description The most records in the response. */
                limit?: number;
                /** @description Those in this state. Default: all. */
                state?: "INVITED" | "ACTIVE" | "REMOVED";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MemberListResponse"];
                };
            };
        };
    };
    "invite-member": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["MemberInvitation"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MemberResponse"];
                };
            };
        };
    };
    "get-member": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MemberResponse"];
                };
            };
        };
    };
    "remove-member": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MemberResponse"];
                };
            };
        };
    };
    "change-member": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["MemberChange"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MemberResponse"];
                };
            };
        };
    };
    "get-metering": {
        parameters: {
            query?: {
                /** @description A position from an earlier response: only what is before it counts. Default: everything that is loaded now. */
                asOf?: string;
                /** @description Requires format csv: the file begins with a byte order mark, as spreadsheets need it to read UTF-8. */
                bom?: "true" | "false";
                /** @description Also sum by buckets of time in timeZone. Weeks begin on Monday. */
                bucket?: "minute" | "hour" | "day" | "week" | "month";
                /** @description Also sum by anchor, placement or campaign. Repeat the parameter, or separate values with commas. */
                by?: string[];
                /** @description The nextCursor of the previous response. */
                cursor?: string;
                /** @description json: a page in the envelope, with totals. csv, ndjson: a file of all rows, without limit and cursor. */
                format?: "json" | "csv" | "ndjson";
                /** @description The beginning of the period, inclusive: a date or a time, as in bodies. Open when absent. */
                from?: string;
                /** @description The most records in the response. */
                limit?: number;
                /** @description One right only. */
                rightId?: string;
                /** @description IANA time zone of the buckets, and of dates without a time in from and to. Default: UTC. */
                timeZone?: string;
                /** @description The end of the period, exclusive: a date or a time, as in bodies. Open when absent. */
                to?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MeteringResponse"];
                    "application/x-ndjson": unknown;
                    "text/csv": string;
                };
            };
        };
    };
    "get-refusals": {
        parameters: {
            query?: {
                /** @description A position from an earlier response: only what is before it counts. Default: everything that is loaded now. */
                asOf?: string;
                /** @description Also sum by buckets of time in timeZone. Weeks begin on Monday. */
                bucket?: "minute" | "hour" | "day" | "week" | "month";
                /** @description The nextCursor of the previous response. */
                cursor?: string;
                /** @description The beginning of the period, inclusive: a date or a time, as in bodies. Open when absent. */
                from?: string;
                /** @description The most records in the response. */
                limit?: number;
                /** @description One right only. */
                rightId?: string;
                /** @description One rule only. */
                rule?: string;
                /** @description IANA time zone of the buckets, and of dates without a time in from and to. Default: UTC. */
                timeZone?: string;
                /** @description The end of the period, exclusive: a date or a time, as in bodies. Open when absent. */
                to?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RefusalsResponse"];
                };
            };
        };
    };
    "list-offers": {
        parameters: {
            query?: {
                /** @description The nextCursor of the previous response. */
                cursor?: string;
                /** @description The most records in the response. */
                limit?: number;
                /** @description Only offers about this right. */
                rightId?: string;
                /** @description Only offers in this state. */
                state?: "PROPOSED" | "COUNTERED" | "WITHDRAWN" | "REJECTED" | "ACCEPTED" | "EXPIRED";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OfferListResponse"];
                };
            };
        };
    };
    "propose-offer": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewOffer"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OfferResponse"];
                };
            };
        };
    };
    "get-offer": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OfferResponse"];
                };
            };
        };
    };
    "accept-offer": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AcceptedOfferResponse"];
                };
            };
        };
    };
    "counter-offer": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CounterOffer"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CounteredOfferResponse"];
                };
            };
        };
    };
    "reject-offer": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Reason"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OfferResponse"];
                };
            };
        };
    };
    "withdraw-offer": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Reason"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OfferResponse"];
                };
            };
        };
    };
    "list-proof-packs": {
        parameters: {
            query?: {
                /** @description The nextCursor of the previous response. */
                cursor?: string;
                /** @description The beginning of the period, inclusive: a date or a time, as in bodies. Open when absent. */
                from?: string;
                /** @description The most records in the response. */
                limit?: number;
                /** @description The end of the period, exclusive: a date or a time, as in bodies. Open when absent. */
                to?: string;
                /** @description Only this pack and those before it. */
                upTo?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProofPackListResponse"];
                };
            };
        };
    };
    "get-proof-pack": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProofPackResponse"];
                };
            };
        };
    };
    "download-proof-pack": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/x-ndjson": unknown;
                };
            };
        };
    };
    "prove-consistency": {
        parameters: {
            query: {
                /** @description Id of the earlier pack; may be the same. */
                from: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ConsistencyProofResponse"];
                };
            };
        };
    };
    "get-checkpoint": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CheckpointResponse"];
                };
            };
        };
    };
    "seal-proof-packs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["SealRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SealedPacksResponse"];
                };
            };
        };
    };
    "list-receipts": {
        parameters: {
            query?: {
                /** @description A position from an earlier response: only what is before it counts. Default: everything that is loaded now. */
                asOf?: string;
                /** @description Requires format csv: the file begins with a byte order mark, as spreadsheets need it to read UTF-8. */
                bom?: "true" | "false";
                /** @description Only receipts with this tracing id, byte for byte. */
                correlationId?: string;
                /** @description The nextCursor of the previous response. */
                cursor?: string;
                /** @description json: a page in the envelope. csv, ndjson, parquet: a file of all receipts, without limit and cursor. */
                format?: "json" | "csv" | "ndjson" | "parquet";
                /** @description The beginning of the period, inclusive: a date or a time, as in bodies. Open when absent. */
                from?: string;
                /** @description The most records in the response. */
                limit?: number;
                /** @description Only receipts whose id ends with these characters, as somebody reads them from a paper: small letters count as large, I and L as 1, O as 0. Requires from and to, at most 7 days apart. */
                receiptIdEnd?: string;
                /** @description Only receipts of deliveries under this right. */
                rightId?: string;
                /** @description Only receipts of deliveries at this anchor. */
                spatialAnchorId?: string;
                /** @description The end of the period, exclusive: a date or a time, as in bodies. Open when absent. */
                to?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ReceiptListResponse"];
                    "application/vnd.apache.parquet": unknown;
                    "application/x-ndjson": unknown;
                    "text/csv": string;
                };
            };
        };
    };
    "get-receipt": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LoggedReceiptResponse"];
                };
            };
        };
    };
    "prove-receipt": {
        parameters: {
            query?: {
                /** @description pack: the checkpoint of the pack that holds the receipt, which is the oldest one possible; if that pack's key is revoked, the checkpoint of the first later pack whose key is not. latest: the checkpoint of the tenant's newest pack. */
                checkpoint?: "pack" | "latest";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InclusionProofResponse"];
                };
            };
        };
    };
    "list-refused-requests": {
        parameters: {
            query?: {
                /** @description Only those with this error. */
                code?: "AUTH_INVALID" | "SCOPE_MISSING" | "RESOURCE_NOT_FOUND" | "STATE_CONFLICT" | "PRECONDITION_FAILED" | "VALIDATION_FAILED" | "RATE_LIMITED" | "BAD_REQUEST" | "INTERNAL_ERROR";
                /** @description The nextCursor of the previous response. */
                cursor?: string;
                /** @description Only those with this key. */
                keyId?: string;
                /** @description The most records in the response. */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RefusedRequestsListResponse"];
                };
            };
        };
    };
    "list-rights": {
        parameters: {
            query?: {
                /** @description Only rights under this basis. */
                basisId?: string;
                /** @description The nextCursor of the previous response. */
                cursor?: string;
                /** @description Only those that end, and later than this: a date or a time, as in bodies. With the current time, those that have not ended yet. */
                endsAfter?: string;
                /** @description Only those that end at this time or before it: a date or a time, as in bodies. */
                endsBy?: string;
                /** @description The most records in the response. */
                limit?: number;
                /** @description Only rights derived directly from this one. */
                parentRightId?: string;
                /** @description Only rights whose own state it is. */
                state?: "ACTIVE" | "SUSPENDED" | "REVOKED";
                /** @description Only rights on this substrate. */
                substrate?: "DOOH" | "CTV" | "MOBILE" | "STREAMING" | "AUDIO" | "MESSAGING" | "GAMING" | "GLASSES" | "AR_CONTACTS" | "HUD" | "VOLUMETRIC" | "HOLOGRAM" | "WEARABLES" | "AMBIENT" | "NEURAL" | "AUTOMOTIVE" | "SMART_HOME" | "ROBOTICS" | "DRONE" | "SATELLITE" | "AVIATION" | "MARITIME" | "SOCIAL_FEED" | "ANY";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RightListResponse"];
                };
            };
        };
    };
    "issue-right": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewRight"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RightResponse"];
                };
            };
        };
    };
    "get-right": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RightResponse"];
                };
            };
        };
    };
    "get-right-propagation": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RightPropagationResponse"];
                };
            };
        };
    };
    "get-right-provenance": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProvenanceResponse"];
                };
            };
        };
    };
    "resume-right": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Reason"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MovedRightResponse"];
                };
            };
        };
    };
    "revoke-right": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Reason"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MovedRightResponse"];
                };
            };
        };
    };
    "suspend-right": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Reason"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MovedRightResponse"];
                };
            };
        };
    };
    "get-settlement": {
        parameters: {
            query?: {
                /** @description A position from an earlier response: only what is before it counts. Default: everything that is loaded now. */
                asOf?: string;
                /** @description right: lines by right. campaign: each line is repeated for every campaign that the right's scope lists, also if its rule matches another one of them; totals count it once. */
                by?: "right" | "campaign";
                /** @description Only lines in this currency. */
                currency?: string;
                /** @description The nextCursor of the previous response. */
                cursor?: string;
                /** @description The beginning of the period, inclusive: a date or a time, as in bodies. Open when absent. */
                from?: string;
                /** @description The most records in the response. */
                limit?: number;
                /** @description Only receipts of deliveries under these rights, in lines, totals and unrated; repeat the parameter, or separate values with commas. */
                rightId?: string[];
                /** @description The end of the period, exclusive: a date or a time, as in bodies. Open when absent. */
                to?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SettlementResponse"];
                };
            };
        };
    };
    "list-counterparties": {
        parameters: {
            query?: {
                /** @description The nextCursor of the previous response. */
                cursor?: string;
                /** @description The most records in the response. */
                limit?: number;
                /** @description Only counterparties in this state. */
                state?: "ACTIVE" | "INACTIVE";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CounterpartyListResponse"];
                };
            };
        };
    };
    "create-counterparty": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewCounterparty"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CounterpartyResponse"];
                };
            };
        };
    };
    "get-counterparty": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CounterpartyResponse"];
                };
            };
        };
    };
    "change-counterparty": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewCounterparty"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CounterpartyResponse"];
                };
            };
        };
    };
    "deactivate-counterparty": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CounterpartyResponse"];
                };
            };
        };
    };
    "get-issuer": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["IssuerResponse"];
                };
            };
        };
    };
    "set-issuer": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewIssuer"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["IssuerResponse"];
                };
            };
        };
    };
    "list-payables": {
        parameters: {
            query?: {
                /** @description Only those of this payee. */
                counterpartyId?: string;
                /** @description The nextCursor of the previous response. */
                cursor?: string;
                /** @description Only what is due on this day or before. */
                dueBy?: string;
                /** @description Only what is due on this day or later, in the tenant's time zone. */
                dueSince?: string;
                /** @description Only what was issued on this day or before. */
                issuedBy?: string;
                /** @description Only what was issued on this day or later, in the tenant's time zone. */
                issuedSince?: string;
                /** @description The most records in the response. */
                limit?: number;
                /** @description Only the one with this number. */
                number?: string;
                /** @description true: only what is still open although it was due before today, in the tenant's time zone; no credits, which nobody pays. */
                overdue?: "true" | "false";
                /** @description Only those in this state. */
                state?: "DUE" | "PAID";
                /** @description Only those of this statement. */
                statementId?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PayableListResponse"];
                };
            };
        };
    };
    "get-payable": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PayableResponse"];
                };
            };
        };
    };
    "list-payee-links": {
        parameters: {
            query?: {
                /** @description Only those of this payee. */
                counterpartyId?: string;
                /** @description The nextCursor of the previous response. */
                cursor?: string;
                /** @description The most records in the response. */
                limit?: number;
                /** @description Only those in this state. */
                state?: "ACTIVE" | "REVOKED";
                /** @description Only those to parts of this statement. */
                statementId?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PayeeLinkListResponse"];
                };
            };
        };
    };
    "create-payee-link": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewPayeeLink"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CreatedPayeeLinkResponse"];
                };
            };
        };
    };
    "revoke-payee-link": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PayeeLinkResponse"];
                };
            };
        };
    };
    "list-payouts": {
        parameters: {
            query?: {
                /** @description Requires format csv: the file is for spreadsheets. It begins with a byte order mark, and an apostrophe precedes text that would be a formula. */
                bom?: "true" | "false";
                /** @description Only those in this currency. */
                currency?: string;
                /** @description The nextCursor of the previous response. */
                cursor?: string;
                /** @description Only what is due on this day or before; absent: today, in the tenant's time zone. */
                dueBy?: string;
                /** @description The format of the response. A file has all payouts: limit and cursor require json. */
                format?: "json" | "csv";
                /** @description The most records in the response. */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PayoutListResponse"];
                    "text/csv": string;
                };
            };
        };
    };
    "reconcile-settlement": {
        parameters: {
            query?: {
                /** @description The beginning of the period, inclusive: a date or a time, as in bodies. Open when absent. */
                from?: string;
                /** @description The end of the period, exclusive: a date or a time, as in bodies. Open when absent. */
                to?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ReconciliationResponse"];
                };
            };
        };
    };
    "list-settlement-rules": {
        parameters: {
            query?: {
                /** @description Only rules that give this counterparty a share. */
                counterpartyId?: string;
                /** @description The nextCursor of the previous response. */
                cursor?: string;
                /** @description The most records in the response. */
                limit?: number;
                /** @description Only rules whose match names this right. */
                rightId?: string;
                /** @description Only rules in this state. */
                state?: "ACTIVE" | "RETIRED";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SettlementRuleListResponse"];
                };
            };
        };
    };
    "create-settlement-rule": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewSettlementRule"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SettlementRuleResponse"];
                };
            };
        };
    };
    "get-settlement-rule": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SettlementRuleResponse"];
                };
            };
        };
    };
    "change-settlement-rule": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SettlementRuleChange"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SettlementRuleResponse"];
                };
            };
        };
    };
    "retire-settlement-rule": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SettlementRuleResponse"];
                };
            };
        };
    };
    "dry-run-settlement-rule": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["DryRun"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DryRunResponse"];
                };
            };
        };
    };
    "list-statements": {
        parameters: {
            query?: {
                /** @description Only corrections of this statement, which is the first one of its period. */
                corrects?: string;
                /** @description Only statements of this counterparty. */
                counterpartyId?: string;
                /** @description Only statements in this currency. */
                currency?: string;
                /** @description The nextCursor of the previous response. */
                cursor?: string;
                /** @description The most records in the response. */
                limit?: number;
                /** @description Only statements in this state. */
                state?: "DRAFT" | "DISCARDED" | "ISSUED" | "SETTLED" | "VOIDED";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StatementListResponse"];
                };
            };
        };
    };
    "draft-statement": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewStatement"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StatementResponse"];
                };
            };
        };
    };
    "get-statement": {
        parameters: {
            query?: {
                /** @description Requires format csv: the file begins with a byte order mark, as spreadsheets need it to read UTF-8. */
                bom?: "true" | "false";
                /** @description The format of the response. */
                format?: "json" | "csv" | "html" | "pdf" | "signed";
                /** @description Requires format csv, html or pdf: only the part of this counterparty. */
                payee?: string;
                /** @description Requires format csv: which table. lines, the default, has a row for each line and adjustment, whose amounts sum to the total; shares one for each share of them; changes one for each change of a correction, which sum to its difference, and with payee to what that one gets more or less: then a row may have several reasons, separated by spaces. */
                table?: "lines" | "shares" | "changes";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StatementDocumentResponse"];
                    "application/pdf": unknown;
                    "application/x-ndjson": unknown;
                    "text/csv": string;
                    "text/html": string;
                };
            };
        };
    };
    "discard-statement": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StatementResponse"];
                };
            };
        };
    };
    "correct-statement": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StatementResponse"];
                };
            };
        };
    };
    "issue-statement": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StatementResponse"];
                };
            };
        };
    };
    "list-statement-receipts": {
        parameters: {
            query?: {
                /** @description The nextCursor of the previous response. */
                cursor?: string;
                /** @description The most records in the response. */
                limit?: number;
                /** @description Only receipts behind lines of this metering basis. */
                meteringBasis?: "gross" | "viewable" | "audible" | "delivered";
                /** @description Only receipts behind lines of this right. */
                rightId?: string;
                /** @description Only receipts behind lines of this rule. */
                ruleId?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LineReceiptsResponse"];
                };
            };
        };
    };
    "settle-statement": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Payment"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StatementResponse"];
                };
            };
        };
    };
    "void-statement": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Voiding"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StatementResponse"];
                };
            };
        };
    };
    "get-tenant": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TenantResponse"];
                };
            };
        };
    };
    "list-webhooks": {
        parameters: {
            query?: {
                /** @description The nextCursor of the previous response. */
                cursor?: string;
                /** @description The most records in the response. */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WebhookListResponse"];
                };
            };
        };
    };
    "create-webhook": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewWebhook"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CreatedWebhookResponse"];
                };
            };
        };
    };
    "get-webhook": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WebhookResponse"];
                };
            };
        };
    };
    "delete-webhook": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WebhookResponse"];
                };
            };
        };
    };
    "change-webhook": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["WebhookChange"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WebhookResponse"];
                };
            };
        };
    };
    "list-webhook-deliveries": {
        parameters: {
            query?: {
                /** @description The nextCursor of the previous response. */
                cursor?: string;
                /** @description The most records in the response. */
                limit?: number;
                /** @description Only deliveries in this state. */
                state?: "PENDING" | "DELIVERED" | "FAILED";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WebhookDeliveryListResponse"];
                };
            };
        };
    };
    "resend-webhook-delivery": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WebhookDeliveryResponse"];
                };
            };
        };
    };
    "recover-webhook": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewWebhookRecovery"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WebhookRecoveryResponse"];
                };
            };
        };
    };
    "rotate-webhook-secret": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RotatedWebhookResponse"];
                };
            };
        };
    };
    "test-webhook": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WebhookDeliveryResponse"];
                };
            };
        };
    };
}
