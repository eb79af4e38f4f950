// Package sealer signs and hashes: it owns every format that third parties verify. This
// comment specifies those formats; with it you can write a verifier without reading the code.
// testdata has vectors for that.
//
// # What it promises
//
//   - A receipt belongs to one event of one tenant: under another right, tenant or
//     event it is refused.
//   - Signatures and hashes cover every byte of a proof pack but its line ends: if one changes, verification fails.
//   - A value has one encoding. Readers accept exactly what writers write, and a verifier other line ends besides.
//   - Totals and amounts are recomputed from the entries, never trusted.
//   - Personal data is not hashed, so erasing it breaks no proof.
//
// The package keeps no state, reads no clock, and uses no randomness. Keys are passed in as crypto.Signer and may be
// in another process. All functions are safe for concurrent use. Package canonical writes and reads JSON in its one
// form, package merkle has the tree that the events of a log are leaves of. What is made of events has packages of its
// own, which import this one: keydir, checkpoint, settlement, pack, statement. Package verify judges what was signed.
//
// # Encoding
//
// All JSON is in RFC 8785 form: members sorted by UTF-16 code units, no spaces,
// strings and numbers as ECMAScript writes them. Readers refuse any other form,
// and members that are not listed here. Also:
//
//   - A time is RFC 3339 in UTC with exactly three decimals, 2026-05-01T12:00:00.000Z, of
//     the years 1 to 9999.
//   - Hashes, keys, nonces, salts and signatures are base64url without padding,
//     their unused bits zero. Only C2SP notes use standard base64, as C2SP requires.
//   - An id is a prefix and a ULID in upper case: 26 characters, the first of them
//     0 to 7. The ULID of an event's id holds the event's moment in milliseconds. A
//     verifier checks that for the ids of events and receipts. It checks the form of the ids of
//     packs (ppk_) and tenants (tnt_) wherever a header or an origin names them. All other ids
//     are opaque to it. One tenant has no ULID: tnt_system, which owns the events of nodes and
//     operators.
//   - n is a whole number of 0 to 2^53; only dwellMs may have a fraction.
//   - A file that is neither a pack nor an export has at most 2^24 bytes, a pack as an object
//     at most 2^28. A longer one is refused, not cut off.
//   - Programs change line ends, which say nothing. So a verifier takes a file of any kind, before it compares or hashes
//     anything, with a newline for each CRLF, and at its end without newlines if it begins with { and is no pack as a bundle,
//     export or statement, and else with one. No other white space is passed over, but in receipts and lists of keys.
//   - No string is empty, except correlationId and spatialPlacementId.
//   - A signature is {"algorithm":"ed25519","keyId":…,"value":…}. It is Ed25519 of
//     RFC 8032 over the named bytes themselves, not over a hash of them.
//
// The signed texts of different formats can't be confused, even under one key:
// receipts begin with {"correlationId":, pack headers with {"checkpoint":,
// directories with {"delegation":, statements with {"adjustments":, and notes with their origin.
//
// # Receipt
//
// Ten fields, always all:
//
//	{"correlationId":…|null,"dwellMs":n,"issuedAt":…,"nonce":…,"receiptId":"rcp_…","renderedAt":…,
//	 "spatialAnchorId":…,"spatialPlacementId":…|null,"version":"1","witness":"edge:NODE:HASH"}
//
// The nonce is 128 bits. renderedAt ≤ issuedAt; the ULID of receiptId is of issuedAt;
// 0 ≤ dwellMs ≤ 2^36. The signature is over this text. HASH is explained below.
//
// A caller has receipt and signature as members of one object: the data of a response, or the
// response, {"ok":true,"data":{"receipt":{…},"signature":{…},…},"contractVersion":"v1.0"}.
// Spacing, the order of members and the escapes in strings are free there; the RFC 8785
// form of the receipt is what was signed. Besides the two the data may have
//
//	"event":{…}, "metering":{…}, "position":…, "sealed":{"leafIndex":n,"packId":…}|null, "substrate":…
//
// and nothing else: no other member, none twice, and nothing after the object.
//
// The signature does not cover these members, except the event, by the witness in the receipt:
// the event's RFC 8785 form must be that of this receipt, as described next (witness.mismatch,
// entry.altered). If the event is available, there or in a pack, a proof or an export that is
// verified with the file, metering and substrate must be the event's (entry.altered). If it is
// not, and always for position and sealed, a verifier remarks that the file states more than is
// proven (receipt.uncovered).
//
// # Event
//
//	{"actor":{"id":…,"kind":…},"at":…,"data":{…},"eventId":"evt_…","privateCommitment":…|null,
//	 "subject":{"id":…,"kind":…},"tenantId":…,"type":…,"v":1}
//
// Its text, of at most 2^20 bytes, is a leaf of the tenant's Merkle log.
// privateCommitment is SHA-256(salt ‖ committed), of the private part, the canonical text of what
// erasure deletes; its salt is 128 random bits and is a member of it as well:
//
//	{"attentionMs":n,"dataSubjects":[{"dataSubject":…,"salt":…},…],"notes":{NAME:{"salt":…,"text":…},…},"requestHash":…,
//	 "salt":…,"telemetry":{…}}
//
// where all but the salt may be missing, and a note's text is a string or an object. committed is this text
// with a HASH in place of each person: SHA-256(salt ‖ dataSubject), with the person's own salt; and in place
// of each note: SHA-256(salt ‖ text), with the note's own salt. A person or a note that was erased, or that an
// export of another person leaves out, has this HASH in the private part, too. requestHash is
// SHA-256(salt ‖ the salts of the persons ‖ request). An event of type delivery.recorded has
// subject.kind "right", subject.id equal to data.rightId, at equal to issuedAt, the
// ULID of its receipt, and this data:
//
//	{"basisId":…,"gate":{"ruleset":HASH,"version":…},"idempotency":HASH,"identity":{"day":…,"hash":HASH},
//	 "metering":{"basis":…,"completion":…,"impressions":DECIMAL,"metered":bool,"quantityMs":n,"reason":…,"reasons":[…]},
//	 "receipt":{…},"rightId":…,"rightRevision":n,"signature":{…},"substrate":…}
//
// idempotency is SHA-256(tenantId ‖ 0x00 ‖ key) and is missing without a key. A delivery that is
// a row of a vendor's report has identity and no idempotency. Its hash is
// SHA-256(tenantId ‖ 0x01 ‖ what names the row); day, such as 2026-10-24, is the UTC day of the
// play, of the years 1 to 9999, and missing if the row has an id of its own. Two identities are
// the same if both hash and day are.
//
// A DECIMAL is digits in a string, and if there is a fraction a point and digits after it:
// no sign, no exponent, no needless zero; "0", "0.5" and "10" are valid.
//
// metered goes with reason METERED, no reasons, quantityMs = floor(dwellMs), and impressions
// above 0, at most 10000 and with at most four digits after the point: what the report stated,
// or 1. Otherwise quantityMs is 0, impressions are "0", and reason is the first of reasons.
// completion is how far a video was played, metered or not: started, first_quartile, midpoint,
// third_quartile or complete, and none if that is not known.
//
// The witness binds the receipt to its event. To compute its HASH, take the event's text, cut out
// the members data.receipt and data.signature with the comma before each, and
// take SHA-256 of what is left. The receipt contains the witness, and the
// signature covers the receipt; so it covers tenant, right, revision, gate and
// metering too, although a caller has only ten fields.
//
// # Merkle log and checkpoint
//
// One log a tenant, hashed as in RFC 6962: a leaf is SHA-256(0x00 ‖ event), a node
// SHA-256(0x01 ‖ left ‖ right). A checkpoint is a C2SP tlog-checkpoint, a signed
// note of three lines
//
//	muniment/TENANT
//	SIZE in decimal
//	ROOT in standard base64
//
// with two signatures by one key, in this order: an Ed25519 signature under the
// name muniment/TENANT, and a C2SP cosignature/v1 under the name muniment/sealed,
// which states the second in which it was sealed. Further signatures, such as those of
// witnesses, may follow, 100 in all, but no two of one name and one key hash; that holds for
// every note. Extension lines are not allowed.
//
// # Certificate of erasure
//
// A signed note of two lines, the first "muniment/erasure.v1" and the second
//
//	{"completedAt":…,"copiesGoneBy":…,"counts":{"bundles":n,"permanent":{TYPE:n,…},"privateParts":n,
//	 "records":{KIND:n,…},"setAside":n,"statements":[…]},"erasureId":…,"eventId":…,"logGoneBy":…,"note":…,"subjectHash":…,"tenantId":…,"until":…}
//
// with an Ed25519 signature under the name muniment/erasure by a key for packs. eventId names
// the tombstone, an event of type subject.erased whose data has the same subjectHash and until.
// subjectHash is a keyed hash, which does not reveal who was erased. If no given file has that
// event, a verifier remarks erasure.unproven.
//
// A verifier takes an HTTP answer about an erasure as it takes the note. It begins {"ok":true,"data":{"erasure":{"id":"era_,
// is JSON without repeated names, and has the note as the member certificate of erasure. Its erasure has exactly the members
// id, tenantId, subjectHash, until, eventId, requestedBy, state, counts, certificate, completedAt, createdAt, updatedAt and
// revision. The state is COMPLETED. Where erasure has a member of a name that the note's object has, its value is the same,
// and its id is the note's erasureId. An answer that differs is refused (format.invalid). The other members, such as
// requestedBy, are not signed. A certificate of null can't be judged (format.unknown).
//
// # Key directory
//
//	{"delegation":NOTE,"issuedAt":…,"keys":[…],"signature":{…},"snapshotId":…}
//	key: {"algorithm":"ed25519","keyId":…,"notAfter":…|null,"notBefore":…,"publicKey":…,"purpose":…,"revokedAt":…|null}
//
// keyId is the first 16 bytes of SHA-256(publicKey) in lower-case hex. A public
// key is refused if signatures by it can be forged, or if its encoding is not canonical: read as a
// little-endian number without its highest bit, it is below p = 2^255 − 19, and is none of
// 0, 1, p − 1, q and p − q, the y-coordinates of the points of small order, where q is
// 0x5fc536d880238b13933c6d305acdfd5f098eff289f4c345b027b2c28f95e826. That applies to the keys of
// a directory and of a list, and for the root key. The
// signature is over the same object without its member signature. The key that
// made it is in the list, with purpose directory_signing, valid at issuedAt and
// revoked at no time, and NOTE delegates to it: a C2SP signed note by the root key, of
// five lines
//
//	muniment/directory-key.v1
//	KEYID
//	PUBLICKEY in base64url
//	NOTBEFORE
//	NOTAFTER
//
// whose window, NOTBEFORE ≤ moment < NOTAFTER, is not empty and holds issuedAt. No key
// is listed twice. The root key, a C2SP vkey, is the one thing that a verifier must be given.
//
// If several directories under the root key are given, one decides about all keys:
// that of the delegation with the latest NOTBEFORE, and of one delegation that with
// the latest issuedAt. The thief of a directory key can write any issuedAt and any
// list, but no delegation. Once the root has delegated to another key, a directory of that
// key outranks all that the thief signs. As only the deciding directory says which directory
// keys are revoked, the thief can't revoke a key that was delegated to later. The root signs no
// two delegations with the same NOTBEFORE.
//
// A directory is refused if the deciding one lists its key as revoked, whatever its
// issuedAt. In the header of a pack or an export it is only ignored: these are judged by
// the keys of the deciding directory, and the revoked key has signed nothing else in them.
//
// A verifier has no clock. It compares the end of a delegation with moments in the
// evidence: with issuedAt, and with the moments of the signatures that the directory has
// keys for, as no key of it may sign at or after NOTAFTER. So an old pack stays sound forever,
// by the directory in it, which was valid when it was sealed; and a stolen key proves nothing
// that is dated after the end, even if the theft is not known. There is no such bound at
// NOTBEFORE: a directory lists all keys that ever signed. To detect what a thief dates before
// the end, a verifier needs a later directory, or a pack with one.
//
// A key may sign at notBefore ≤ moment < notAfter, for its purpose only. The moment of
// a receipt is its issuedAt, that of a pack its sealedAt. A revoked key is refused
// whatever moment is written, because a thief can write any. It is accepted only for a
// moment before revokedAt that something else proves: for a receipt, a pack that holds it and
// was sealed before revokedAt; for a pack, the next pack of the log, whenever that was sealed,
// if it is sound and its key is not revoked, or a further pack proves it in the same way.
//
// Without a root key, a verifier may be given one list of keys to trust. It is a directory,
// whose delegation is then not verified by a root key; or
//
//	{"issuedAt":…,"keys":[…],"snapshotId":…}
//
// with keys as above, at least one, and each once; or the sandbox's response with that as its
// data, {"ok":true,"data":…,"contractVersion":"ws30.v1"}. In the last two spacing, the order
// of members and the escapes in strings are free, as in all JSON. Nothing else is: a list
// is refused if a member is missing, there twice or not listed here, or if something
// follows. A verifier names what it refuses and, in a list or a response, the place. Only
// the list decides about keys: a directory in the evidence need only be consistent.
//
// # Proof pack
//
// A pack is a contiguous slice of one log, 1 to 100,000 entries.
// As a bundle it is lines, each ended by one newline: header, entries (events
// verbatim), and {"signature":{…}}, over the text of the header. As an object it is
//
//	{"entries":["…",…],"header":{…},"signature":{…}}
//
// with each event's text in a string and no newline at the end. The sandbox returns such an
// object and the key that signed it, in this order and without spaces:
//
//	{"ok":true,"data":{"pack":{"entries":…},"verificationKey":{"keyId":…,"algorithm":"ed25519","publicKey":…,
//	 "notBefore":…,"notAfter":…|null,"revokedAt":…|null,"purpose":…}}}
//
// Response and data are the same file. The key in it is never
// trusted: it must be that of signingKeyId, and agree with the trusted keys. Only notAfter and
// revokedAt may be null on one side, as one may be newer; a moment in the response counts
// against the key as if the trusted keys had it.
//
// The header is
//
//	{"checkpoint":NOTE,"consistency":[HASH,…],"count":n,"directory":{…},
//	 "duplicates":[{"first":leaf,"leaf":leaf},…],"firstIndex":leaf,
//	 "metering":[{"basisId":…,"impressions":DECIMAL,"meteringBasis":…,"quantityMs":n,"reason":…,"receipts":n,"rightId":…,"substrate":…},…],
//	 "packId":…,"previous":{"headerHash":HASH,"packId":…,"rootHash":HASH,"treeSize":n}|null,"rootHash":HASH,
//	 "sealedAt":…,"settlement":[…],"signingKeyId":…,"tenantId":…,"treeSize":n,"v":1}
//
// Leaves count from 0; treeSize = firstIndex + count; previous is null exactly if
// firstIndex is 0, else its treeSize is firstIndex, and its headerHash the SHA-256 of
// the text of that pack's header: so the signature of a pack covers all that the one
// before states, not only its entries. signingKeyId names a key for
// proof_pack_signing, and then receipts are by keys for receipt_signing; or it
// names one for sandbox_proof_signing, and then so do the receipts. The same key has
// signed the checkpoint, in the second of sealedAt. A receipt by itself may be by a
// key of either purpose.
//
// Anyone can make evidence with a key for sandbox_proof_signing, about rights, rules and
// organisations of any name, and it passes every check. So a verifier remarks it for each
// receipt, pack, proof, checkpoint and export (key.sandbox), and refuses them if an option
// says so.
//
// consistency is the RFC 6962 proof from previous to this tree. It serves twice.
// Its nodes over leaves below firstIndex are the perfect subtrees of the previous
// tree (or, for a size of a power of two, previous.rootHash is the only one): a
// verifier starts from those, checks that they make previous.rootHash, appends the
// entries' leaves, and must get rootHash. That proves that every entry is included, in its
// place, and that nothing before was changed.
//
// A delivery is a duplicate if a lower leaf holds a delivery with the same identity, however
// old; or one with the same idempotency hash that is at most 24 h older by the events' at, or
// younger. first is the lowest such leaf. duplicates rise by leaf; each leaf is one of the pack,
// and each first is lower than its leaf, be it of the pack or not. A header that breaks that is
// format.invalid; any other fault of the list is duplicates.mismatch. metering adds up the
// deliveries by the five names of a row, sorted by
// rightId, substrate, basisId, meteringBasis and reason, byte by byte; a duplicate counts
// with reason DUPLICATE, meteringBasis none and quantity 0. impressions adds up those
// of the deliveries that are not duplicates; it has at most four digits after the point and is
// at most 922337203685477.5807. settlement is an empty list
// while the log holds no settlement rule; else it is explained below.
//
// To check what a delivery repeats in an earlier pack, a verifier needs that pack. While any
// earlier leaf is missing, only the header vouches for what the list names and what it does
// not: a verifier remarks that for each pack that has deliveries with an idempotency hash or
// an identity (duplicates.unproven). But the list must not contradict rows, entries or itself
// (duplicates.mismatch). Rows must count as many duplicates as the list names. An earlier leaf
// is repeated under one hash or identity only. And where a delivery repeats an earlier leaf,
// every other one of the pack that has its identity, or has its hash and is not younger, repeats
// that leaf as well, or a lower one: for it, too, the leaf is at most 24 h older. What two packs
// state about missing leaves is not compared.
//
// duplicates is a list of its own, so that a biller can see what is not billed.
//
// To verify a pack: read it strictly; verify the directory; then the signature of the
// header; the checkpoint, its size and root; the proof; for each entry the form, the
// tenant, that its at is not after sealedAt, that no known earlier entry has its eventId, and,
// if it is a delivery, witness, signature and the agreement of its parts; then count, root,
// duplicates, metering and settlement. Known are the entries of the sound packs that end before
// this one, whatever is missing in between, and of those whose key was revoked later, even if
// nothing proves them older. A pack that its key has not signed, or whose entries are not the
// signed ones, proves nothing about others. Of two adjacent packs, the later must name the
// earlier in previous, and no
// leaf may be in two packs, though a pack may be given twice. Verdicts have named codes:
// see Code.
//
// # Settlement
//
// A tenant's rules state what its receipts are worth, and who is paid. An event whose type
// begins with settlement_rule. has the record of a rule as its data:
//
//	{"cap":DECIMAL|null,"createdAt":…,"currency":…,"effectiveFrom":…,"effectiveUntil":…|null,"id":…,
//	 "match":{"basisId":…|null,"campaign":…|null,"completion":…|null,"label":{"name":…,"value":…}|null,"meteringBasis":…|null,
//	          "rightId":…|null,"substrate":…|null},
//	 "minimum":DECIMAL|null,"price":DECIMAL,"priority":n,"revision":n,"shares":[{"bps":n,"counterpartyId":…},…],
//	 "state":"ACTIVE"|"RETIRED","tiers":[{"above":n,"price":DECIMAL},…],"tiersMode":"GRADUATED"|"VOLUME"|null,"timeZone":…,
//	 "unit":"EVENT"|"MS"|"SECOND"|"IMPRESSION"|"CPM","updatedAt":…}
//
// The times are of 1970 or later. effectiveUntil is after effectiveFrom; only of a RETIRED rule they
// may be equal: it ended before it began, so it matches nothing and has no adjustment. currency is
// three capital letters, priority at most 1,000,000. The 1 to 10 shares are of different
// counterparties; each has 1 to 10,000 bps, 10,000 in total. A price has up to
// nine digits after the point and is at most 9223372036.854775807, an amount up to six and is
// at most 9223372036854.775807. minimum and cap are amounts, and the minimum is not above the
// cap. At most 20 tiers have rising volumes from 1 to 2^53, and tiersMode is null without any. timeZone is a
// name of the IANA time zone database, of at most 64 bytes. Tiers, minimum and cap act on the rule's sum in
// a calendar month of that zone, over many packs, in statements: no pack applies them.
//
// Of several events with the record of one id the last one counts. The rules that a log
// holds at the end of a pack, whichever of its entries and packs they are in, are listed in
// that pack with the leaf of that last event and its record verbatim, by rising leaf. What
// an earlier pack lists is known from there: the next known pack lists the same, except for
// rules of its own leaves and of those in between, if any, for which only its header vouches.
// No id that was listed is ever missing. Once there is a rule, settlement is a list of one:
//
//	[{"lines":[{"amount":DECIMAL,"impressions":DECIMAL,"meteringBasis":…,"quantityMs":n,"receipts":n,"rightId":…,"ruleId":…,"shares":[DECIMAL,…]},…],
//	  "rules":[{"leaf":n,"rule":{…}},…],
//	  "unrated":[{"impressions":DECIMAL,"meteringBasis":…,"quantityMs":n,"reason":…,"receipts":n,"rightId":…},…]}]
//
// The receipts of the pack that are metered and not duplicates are rated. A rule matches
// a receipt if each of rightId, basisId, substrate, meteringBasis and completion is null in its
// match or equal to that of the receipt's event, if its campaign is null or among those of the
// right, if its label is null or one of those of the right, and if effectiveFrom ≤ renderedAt <
// effectiveUntil; its leaf may be after the receipt's, and its state does not count. Of several
// that match, the one with the highest priority rates the receipt; of those, one whose match
// names the rightId before one whose match does not, and so on with basisId, campaign, label,
// substrate, meteringBasis and completion; and of those the one with the lowest id, byte by byte.
//
// Campaigns and labels are scope.campaigns, a list of strings, and scope.labels, an object of strings,
// in the data of the event right.issued, whose subject has the kind "right" and the id of the right;
// no later event changes them. Each may be absent. If one of them is of another type, null included, or
// scope is no object, the right has neither campaigns nor labels. That event may be in any pack, and
// there is one for each right: if there are several, those at hand must not differ in what rules name.
// The lines of a pack are the header's word for rights whose event is not at hand: a right has the
// campaign and the label of each rule that rates it, and no others. By these the receipts must make the
// same lines.
//
// A line takes together the receipts of one right and one metering basis that one rule
// rates: how many they are, their quantityMs, and their impressions. Its amount is the price
// times the receipts (EVENT), the quantityMs (MS), a thousandth of the quantityMs (SECOND), the
// impressions (IMPRESSION), or a thousandth of the impressions (CPM), rounded once to six
// digits after the point, half to even. shares are the parts of rule.shares, in that order:
// bps ten-thousandths of the amount, each rounded down to six digits. The remaining millionths
// go one each to the shares that lost most by rounding, of equal ones to the lowest
// counterpartyId. A line is in the currency of its rule.
//
// unrated are the receipts without a line: with reason NO_RULE if no rule matches, and with
// reason AMOUNT_TOO_LARGE if the line's amount would be above the largest amount. So lines
// and unrated together hold each receipt that is METERED, once. Lines are sorted by
// rightId, meteringBasis and ruleId, unrated by rightId, meteringBasis and reason.
//
// # Statement
//
// A statement settles the receipts of a period, in one currency. It is two lines, each
// ended by a newline: the text that is signed, and {"signature":{…}} by a key for packs.
//
//	{"adjustments":[{"amount":AMOUNT,"month":NAME,"reason":"TIER"|"MINIMUM"|"CAP","ruleId":…,"ruleLeaf":leaf,"shares":[SHARE,…],"timeZone":…},…],
//	 "asOf":PACK,"correction":CORRECTION|null,"counterpartyId":…|null,"currency":…,
//	 "excluded":[{"disputeId":…,"from":…|null,"receiptIds":[…],"rightId":…|null,"state":"HELD"|"UPHELD","to":…|null},…],
//	 "from":…,"heldAmount":AMOUNT,"issuedAt":…,
//	 "lines":[{"amount":AMOUNT,"impressions":DECIMAL,"meteringBasis":…,"price":DECIMAL,"quantityMs":n,"receipts":n,"rightId":…,
//	   "ruleId":…,"ruleLeaf":leaf,"shares":[SHARE,…],"unit":…},…],
//	 "localFrom":LOCAL,"localTo":LOCAL,"months":[{"from":…,"month":NAME,"timeZone":…,"to":…},…],
//	 "overlaps":[{"sha256":HASH,"statementId":…},…],
//	 "payees":[{"amount":AMOUNT,"counterpartyId":…,"name":…},…],
//	 "rights":[{"campaigns":[…],"labels":{NAME:VALUE,…},"rightId":…},…],"since":…,"statementId":…,"tenantId":…,"timeZone":…,"to":…,"total":AMOUNT,
//	 "unrated":[{"impressions":DECIMAL,"meteringBasis":…,"quantityMs":n,"reason":…,"receipts":n,"rightId":…},…],"v":1}
//	SHARE: {"amount":AMOUNT,"bps":n,"counterpartyId":…}
//	PACK: {"packId":…,"rootHash":HASH,"treeSize":n}
//	CORRECTION: {"changes":[{"amount":AMOUNT,"meteringBasis":…,"reason":"DISPUTE"|"RULES"|"LATE"|"VOID","receipts":n,"rightId":…,"ruleId":…},…],
//	 "difference":AMOUNT,"of":…,"payees":[{"amount":AMOUNT,"counterpartyId":…,"name":…},…],
//	 "previous":{"asOf":PACK,"sha256":HASH,"statementId":…,"total":AMOUNT},"voidReason":…|null}
//
// An AMOUNT is a DECIMAL of at most six digits after the point, with a minus sign if it is below
// zero. NAME is a month, as 2026-11. localFrom and localTo are from and to as clocks in timeZone show them, in
// RFC 3339 with milliseconds and the offset. asOf names the pack up to whose end the statement covers the log: the receipts of all
// leaves up to there with from ≤ renderedAt < to that are metered, not duplicates and not
// excluded. They are rated as in a pack, by the rules that the log holds there, except those that are
// stated: see below. A line takes together what one text of a rule rates, that of ruleLeaf, in all of
// the period: it is rounded once. Lines are sorted by rightId, meteringBasis, ruleId and ruleLeaf;
// lines of rules in another currency are omitted. unrated is as in a pack.
//
// A receipt is stated once, by the terms under which it was stated. An event statement.issued, whose
// subject is the statement, has the SHA-256 of the file, signature included, as data.sha256; its from, to, currency and
// counterpartyId as the text has them; asOf as data.packId, data.rootHash and data.treeSize;
// data.voidReason null; and as data.corrects null, or for a correction the first statement of its chain.
// An event statement.voided with a data.voidReason that is not null is the same for a statement that
// voids the chain of data.corrects. Overlaps are all statements of such events below asOf whose
// periods overlap with the time from since to to; sorted by statementId. Of a statement that voids, it is empty.
//
// A statement states the receipts of its period with a leaf below its treeSize that its rules rate, if
// the rule is in its currency and, with a counterpartyId, gives that one a share; whether they are
// excluded or not. For another statement behind it, a receipt that a statement of overlaps states is
// rated by the rule, with the text, by which it is stated there, unless the chain of that was voided
// before, by one of overlaps too. Statements that precede each other have the order of the leaves of
// these events. All that are not voided state a receipt by the same rule, because each keeps that of
// those before it. What was voided counts for those that were issued before the void. The rules at a
// treeSize, which after a restore need not be the end of a pack, follow from the pack that ends before
// it and the events of rules from there on.
//
// rights lists the campaigns and labels of the rights whose receipts were rendered from since on, before to,
// if they are stated or HELD: those that a match of the rules names by which the statement rates, which are
// the rules at its own treeSize and those at the treeSize of each of its overlaps that is no void. It is
// sorted by rightId, campaigns are sorted byte by byte, nothing is listed twice or empty, and rights of
// which nothing is named are omitted. Where the event of a right is at hand, rights must agree with it.
//
// A receipt is excluded if its id is in receiptIds, or if it is of rightId with from ≤ renderedAt
// < to, of an exclusion; UPHELD takes precedence over HELD. Exclusions are sorted by disputeId.
// Each repeats an event dispute.opened; the UPHELD ones have a dispute.resolved with the outcome
// UPHELD before the statement's issue, and the HELD ones have none. Every dispute that was opened
// before, and whose window overlaps the time from since to to, or that names a receipt that was rendered
// within it, is among the exclusions, unless it was resolved otherwise; others may be. Before the issue is a leaf
// below that of the event of the issue, which is described below. Only if that event is not at hand,
// it is an event whose at is not later than issuedAt: clocks differ, and the log has one order.
//
// Months are the calendar months that end at from < end ≤ to, in the timeZone of a rule of the end of the log
// that is stated, in the statement's currency, that has tiers, a minimum or a cap, gives the counterpartyId a
// share, and whose window overlaps the month; sorted by timeZone and month. Their moments are stated, as the
// rules of time zones change; a verifier whose time zones differ can't judge the statement. since is the
// earliest of from and their from; of a correction, not later than that of the statement before it.
//
// Such a rule adjusts each month of its timeZone that its window overlaps. What counts are the receipts of
// the month with a leaf below the end, which are neither suppressed, duplicates nor excluded, and which the
// rule rates, by whichever of its texts in that currency, whether this statement has them in its lines,
// another one or none. They make lines, as if the month was stated. Volume is what these lines count in the
// rule's unit. Lines by texts with another unit or price come first in it, and keep their price. TIER: with
// GRADUATED, for each tier its price less the rule's price, times what the other lines have of the volume
// above the tier's, up to that of the next tier; with VOLUME, that difference for the last tier that the
// whole volume is above, times what the other lines have of it; rounded once to six digits, half to even. Then the sum of the lines and
// TIER is below the minimum (MINIMUM) or above the cap (CAP): the difference. Adjustments of 0 are omitted.
// Shares are those of the same amount above zero, with a minus where it is below. Adjustments are sorted by
// ruleId, month, and TIER before the other.
//
// With a counterpartyId the statement shows the shares of that counterparty alone, and no line
// without one. payees add up the shares by counterparty, sorted by counterpartyId, and total adds
// up payees. No event proves their names. heldAmount is by how much total would be larger if no
// receipt were HELD; it is below zero if a line would then be too large, or
// the month be cheaper.
//
// A correction restates a period in full. Its period, currency and counterparty are those of the
// statement that previous names, by id and by the SHA-256 of its file; asOf is a later end of the
// log, and excluded are the disputes as of then. of is the first statement of the period, with which
// the chain of corrections begins. previous is the newest of the chain among overlaps. What the chain
// states keeps its rule, as any that is stated. difference is total minus that of previous, so that the
// first total and the differences of a chain add up to its newest total.
//
// changes are the differences of each line, by rightId, meteringBasis and ruleId, and of each rule's
// adjustments, with rightId and meteringBasis empty, in three steps: DISPUTE leads from previous to what
// it would be, in its months, with the exclusions of the correction, RULES from there to what the rules of the correction
// make of the receipts below the treeSize of previous, LATE from there to the correction.
// amount is the sum of the shares that are shown, minus the sum before, and receipts
// likewise; a missing line counts as zero. Changes of zero are omitted. Changes are sorted by rightId,
// meteringBasis, ruleId and reason; their amounts add up to difference. So do the amounts of payees:
// each is what a counterparty gets more or less than by previous.
//
// With a voidReason it ends the chain. It states nothing: asOf is that of previous, since is from, total and
// heldAmount are 0, and all lists but those of the correction are empty. changes, all VOID, and payees take back
// what previous states. No statement of the chain states anything from the leaf of its event on.
//
// No receipt is billed twice. Two first statements whose periods overlap are in different currencies, or
// for single, different counterparties, unless one was voided before the other was issued. A statement is
// refused if one of overlaps breaks this, or if overlaps lacks one below its asOf or its own event, or has
// another one (statement.overlap).
//
// A statement file is at most 16 MiB. To verify a statement: its form, its sums, and its signature by a key for packs, or
// for a sandbox, that was valid at issuedAt; the pack of asOf, and all packs before it that were
// sealed later than an hour before since, as no receipt is sealed before it is rendered; then
// recompute all of it. These packs hold the events of overlaps. A correction also needs the statement
// before it, which no second one corrects; without that, only the changes of RULES and LATE are
// recomputed. What is missing can't be judged (statement.unproven); that a statement was voided since is remarked
// (statement.voided).
//
// # Proofs
//
// An event can be proven without its pack. An inclusion proof is a
// C2SP tlog-proof without an extra line, given with the event's text:
//
//	c2sp.org/tlog-proof@v1
//	index LEAF
//	HASH in standard base64, one a line, from the leaf's sibling to below the root
//
//	CHECKPOINT, verbatim
//
// or both in one object, as the service returns them: {"event":{…},"proof":"…"}. An event
// in a file of its own must be proven by another file. To verify a proof: the
// signatures of the checkpoint, by a key for packs, or for a sandbox, that was valid
// at some moment of the second that it states; that the hashes lead from the event's
// leaf hash to the root; the event itself, as in a pack. The receipt in it is then at least as
// old as the checkpoint, to the second: a key that was revoked within that second counts as
// revoked before, and an event of that second may be later than the seal.
//
// A consistency proof shows that a log only grew:
//
//	{"consistency":[HASH,…],"from":CHECKPOINT,"to":CHECKPOINT}
//
// with the RFC 6962 proof between the two sizes, which may be equal.
//
// An audit export is a run of events under the checkpoints of the packs that they
// were sealed in: rising, each covering an event that none before it does, the last
// covering all. It is lines, each ended by one newline: a header, and the events
// verbatim.
//
//	{"after":[HASH,…],"before":[HASH,…],"checkpoints":[CHECKPOINT,…],"count":n,"directory":{…},
//	 "firstIndex":leaf,"tenantId":…,"v":1}
//
// before are the roots of the perfect subtrees that cover the leaves below firstIndex, from
// left to right, as in the tree of that size. after are those from the last event to the size
// of the last checkpoint: subtrees as large as their place in the tree allows, from left to
// right. To verify it: start from before, append the events' leaves, and compare the root at
// the size of each checkpoint with the checkpoint's; for the last, append after first. Each
// event is judged at the time of the first checkpoint that covers it.
//
// A proof may be given as the HTTP response, {"ok":true,"data":…,"contractVersion":"v1.0"}, or
// as its data, and a checkpoint also as the response whose data is {"checkpoint":CHECKPOINT}.
//
// Files that are verified together prove each other: a root that a sound file holds,
// or that follows from its entries, vouches for a checkpoint of a revoked key; two
// roots of one size are a fork. A checkpoint that was kept elsewhere is compared with
// all of them: one that is shorter, and was sealed later, was rolled back.
//
// # Decisions
//
//   - The objects have fixed members in a fixed order, so a reader is a row of literals
//     (Scanner) and has nothing to be lenient about.
//   - Ed25519 of the standard library, one signature at a time. Batch verification
//     accepts signatures that single verification refuses.
//   - A pack has no list of leaf hashes. If the root does not match and every
//     entry is sound by itself, nothing shows which one was changed.
//   - Rating is a parameter, because prices are not part of the format. A pack with rules is
//     not sound unless it was rated.
//   - Not here: storage, key management, time stamps by third parties.
package sealer
