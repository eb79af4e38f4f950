package auth

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"

	"muniment.example/gateway/api"
)

// Header returns the header Authorization of a request. It is empty if there is none, or several, of
// which a proxy might have checked another one.
func Header(h http.Header) string {
	if all := h.Values("Authorization"); len(all) == 1 {
		return all[0]
	}
	return ""
}

// Bearer returns the credential of the header Authorization: Bearer. If there is none the error
// is AUTH_REQUIRED and names what is missing.
func Bearer(header, what string) (string, error) {
	scheme, given, ok := strings.Cut(header, " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") || given == "" {
		return "", &api.Error{Code: api.AuthRequired, Message: "the header Authorization: Bearer <" + what + "> is missing or malformed"}
	}
	return given, nil
}

// AdminToken checks that a header Authorization presents the admin token, in constant time. An
// empty token is never accepted.
func AdminToken(header, token string) error {
	given, err := Bearer(header, "admin token")
	if err != nil {
		return err
	}
	got, want := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(token)) // of one length
	if subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
		return &api.Error{Code: api.AuthInvalid, Message: "the admin token is not valid"}
	}
	return nil
}
