// Package client is a Go client of a Muniment service: deliveries and their receipts, and the
// resources under /v1.
//
//	c, err := client.New(client.Config{URL: "https://muniment.example", Key: key})
//	got, err := c.Deliver(ctx, client.Delivery{RightID: right, SpatialAnchorID: "screen-7", DwellMs: 8200})
//
// # What it promises
//
//   - A call that returns no error was answered by the service. For a delivery that means that
//     its receipt is durable.
//   - A call is made again only where that is safe: each POST carries an Idempotency-Key, by
//     which the service knows a second attempt, and rows of a batch are known by their identity.
//     What is tried again, and for how long, is in RetryPolicy. A request that the service
//     refuses for what is in it is not tried again.
//   - Every error of a call is an *Error, unless nothing was sent: the context had ended, a value
//     can't be written as JSON, Config.KeyFunc failed. Compare with the sentinels, one for each
//     reaction: errors.Is(err, client.ErrNotFound).
//   - What does not come from the service, such as the error page of a proxy, is never taken for
//     an answer of it: see ErrForeign.
//
// A Client is safe for concurrent use and keeps no state but the connections of its HTTP client.
//
// # Plays that must survive the device
//
// Deliver needs the service at the moment of the play. A device that may be offline puts its
// plays into a Buffer, which keeps them on disk and uploads them as rows. The service takes
// plays of up to 30 days ago.
//
// # Verification
//
// VerifyReceipt and VerifyWebhook need no service: they verify a receipt that somebody holds, and
// a request that came in. For packs, proofs and exports there is the command muniment verify.
//
// # Lists
//
// A list is an iterator over all pages. It ends with the first error, which it yields:
//
//	for right, err := range c.Rights().List(ctx, client.RightFilter{State: "ACTIVE"}) {
//		if err != nil {
//			return err
//		}
//		…
//	}
//
// # Records
//
// Types have the members of the service's document, /openapi.json, of which they are made, under the
// same names. An empty text, a zero time and a nil pointer in an answer stand for null; an optional
// member of a request with such a value, or a zero number, is left out. Members and texts that a newer
// service adds are ignored, or are as they came. Of a list that is empty nothing tells whether it was null.
// The zero value of a filter selects all: zero fields are not sent.
//
// In the folders typescript and python are clients in these languages, which do the same.
//
// One operation has no method: the erasure of a person, which is for people and not for programs.
package client
