// Package verify is the auditor's half of package sealer: it judges receipts, events, proofs,
// checkpoints, packs, exports, statements, certificates of erasure and DSAR bundles, offline. The
// package comment of sealer specifies the formats and what each check requires.
//
// # What it promises
//
//   - Each file gets verdicts: a Code, whether the check passed, and a message for people. The
//     codes are part of the format: scripts match on them. Messages may change.
//   - There are three verdicts on a file and on a run: sound, not sound, and can't be judged, which names
//     what is missing and what to do. Genuine evidence is never called not sound because something is missing.
//   - Files are judged together: packs of one log prove each other, and packs, proofs and exports
//     prove receipts. The order in which they are given changes nothing.
//   - It trusts one thing, a root key, or, weaker, a file with keys. Whatever else it reads may be
//     forged, of any size, and made to mislead: no file can crash it, make it read without bounds, or
//     write to the auditor's screen.
//
// It has no clock and no network, and writes no files. Packs and exports are streamed; of their
// entries it keeps some 50 bytes each, and 24 more of a metered receipt if a statement of its tenant
// is among the files. Nothing is counted for a statement that its key has not signed.
//
// # Verdicts
//
// Each code has one class: passed, remark, can't be judged, or not sound. The worst class decides about a
// file, and the worst file about the run.
//
// Not sound is what no further file can heal: what a listed key has signed otherwise, what contradicts
// itself or another file, and what was signed when its key must not have signed. What another file or another
// anchor may still show to be sound can't be judged, so nothing that is merely missing makes a forgery out of
// genuine evidence. Neither proves anything about other files.
//
//   - A file is of a kind by its beginning, which nobody else's files have. It is a receipt if it has, where an answer has it,
//     a receipt with one of the members spatialAnchorId, spatialPlacementId, renderedAt, dwellMs and witness, or any beside a
//     signature with a keyId; or, if it is no JSON, by "receipt" and "receiptId" in it; of several values in a row the
//     first decides. What is of a kind and not in its canonical form was cut or altered (format.invalid). All else may be
//     anybody's, such as a page, a list, or a response in another form (format.unknown).
//   - A key that the directory does not list may be another service's, or newer (key.unknown). But a directory keeps all
//     keys: if the directory in a file lists the file's key, and the newer one of the same root that decides does not, or if a signed
//     pack or export under a root key holds a receipt of a key that is not listed, they contradict each other (key.mismatch).
//   - A directory whose delegation bears no signature by the root is evidence under another anchor
//     (directory.foreign). One that bears it, and fails, or that comes with what a key of this root has signed,
//     does not (directory.invalid).
//   - After the end of its delegation a directory says nothing; a newer one may (directory.expired).
//   - A revoked key may have signed before (key.revoked). By its own word what is signed after the revocation
//     was not (key.outside_window), nor what a signed pack or export took after it: no other file can show that it had
//     been in the log before (entry.after_revocation).
//   - A checkpoint that was kept, and is larger than all that is given, may be newer (consistency.unproven), unless something
//     of what is given was sealed later than that: then the log was rolled back.
//   - A receipt is judged by its signature, also alone. If sound packs or exports are given, and no file that can be
//     judged holds it, that is remarked (receipt.unproven).
//   - A file that begins with a line as sha256sum writes it, of a name without a slash, is the list of a release's checksums
//     (format.release): the files of the release are needed to judge it.
//   - An event that nothing proves lacks its proof (inclusion.unproven). A proof with one event is about that event,
//     and fails if it does not lead from it; with several it lacks the right one (event.missing).
//
// # Stops
//
// A right that is suspended or revoked, or that derives from such a right, and an API key that
// is revoked, allow no delivery. A log has these types of events about
// that, with the right or the key as subject:
//
//	right.issued, right.suspended, right.resumed, right.revoked    subject.kind right
//	key.revoked                                                    subject.kind key
//
// The data of an event of a right has the revision of the right's record from then on, n, and
// parentRightId, the right that it derives from, or null. A member in another form is ignored, and an
// event without a revision moves no right. One counter gives the revisions of all rights of
// a service, in the order of the changes. rightRevision of a delivery is the revision of its own
// right when it was decided, and never that of an ancestor. If its actor.kind is "key", the
// delivery was requested with the API key actor.id.
//
// All moments are the events' at, of control's clock, and issuedAt, of a node's clock. A node
// learns of a stop at the latest when its lease on the state of all rights runs out. So a
// delivery is late for a stop if issuedAt is after the stop's at by more than the bound, which
// is 90 s unless another is given: the service's own bound, 30 s by default, and the
// minute that a node's clock may be ahead. A node whose clock is further ahead than that makes
// honest deliveries that are late.
//
// A verifier takes the events and deliveries of all given sound packs, exports and inclusion
// proofs of one log, in any order. For each delivery in them, and for the event that comes with
// a sound receipt, it checks:
//
//   - Whether it is late for the revocation of its API key (apikey.revoked).
//   - Whether rightRevision lies within a stop of its right (right.stopped): it is the revision
//     of a suspension or a revocation; it is above that of a revocation; or it is between a
//     suspension and the next move of the right, that is a resumption, and no leaf between the
//     two is missing. If the last move of the right below rightRevision is a suspension, and
//     there is no such resumption, the right was resumed before the delivery, or was stopped. It
//     was stopped (right.stopped) if a resumption would be at hand: if a pack was sealed later
//     than issuedAt by more than the bound and one hour, and no leaf from the suspension to the
//     end of that pack is missing. Else the resumption may be in a leaf that is not at hand, or
//     come into the log after the delivery, as they have different writers: that is remarked
//     (right.unproven).
//   - Whether it is late for a stop of its right with a revision above rightRevision. Clocks
//     may be to blame: that is remarked (right.late).
//   - Whether it was rendered in a suspension of its right or of an ancestor (right.stopped):
//     renderedAt is not before the suspension's at, and before the at of that right's next move; no
//     leaf between the two is missing. Without a next move the suspension lasts if a resumption would
//     be at hand, as above. It fails if the suspension is of its own right, the next move is the
//     resumption, and rightRevision is not below the resumption's; or if it is late for the
//     suspension. Else who decided it may not have known. A node that knows of a resumption
//     renders nothing before it, whatever its clock shows.
//   - For each ancestor: if right.issued of the delivery's own right has rightRevision, whether
//     that lies within a stop of the ancestor, as above, since nothing is derived from a right
//     that is stopped. Other revisions may: a right can be resumed while its ancestor is
//     stopped. So all else goes by time. If it is late for a revocation of the ancestor, it
//     fails where that has no revision above rightRevision (right.stopped), and else is remarked
//     (right.late). If it is late for a suspension: with a next move of the ancestor that is not
//     another suspension it is remarked if it was issued before that one's at (right.late); else
//     that the end of the suspension is not at hand is remarked (right.unproven).
//
// The hour is for this: control's events reach the log in the order of their commits, and
// sealing first waits for them. The resumption was committed before the delivery was decided, so
// a pack that is sealed an hour later holds it; an hour is far more than the difference of
// clocks and the delay of relays in a service that works. A pack counts with its sealedAt, and a
// checkpoint of an export with the second that it states. But a full pack, of 100,000 entries,
// does not count, because further events of the same time may be in the next one. Nor does a
// checkpoint of an export that is 100,000 leaves or more above the one before it there, or above
// 0 if it is the first.
//
// Of a right's moves the next one is that with the next higher revision; of moves with equal
// revisions the last one is that whose type, and then whose leaf, is the highest, and the
// first the other way round. Of several codes a delivery has the first of apikey.revoked,
// right.stopped, right.late and right.unproven. The end of a basis or of a right's window is
// not a stop. A file with a delivery that fails proves nothing about other files.
//
// # Decisions
//
//   - An edit of control's database that makes a stopped right ACTIVE again gives it some revision:
//     that of the stop, an earlier one, or one that no event of the log has made. The first fails,
//     and so does the last, for a suspended right as soon as a pack is sealed an hour later. An
//     earlier one is remarked, because an honest node's clock can look the same.
package verify
