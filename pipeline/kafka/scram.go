package kafka

import (
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"strconv"
	"strings"

	"github.com/segmentio/kafka-go/sasl"
)

// scram is the client of SCRAM (RFC 5802, RFC 7677) without channel binding. Names
// and passwords are ASCII, for which SASLprep changes nothing.
type scram struct {
	name           string
	hash           func() hash.Hash
	user, password string
}

var (
	errNotASCII = errors.New("SCRAM: user and password must be printable ASCII")
	errServer   = errors.New("SCRAM: the server doesn't know the password")
)

// mostIterations keeps a server from having us hash for minutes.
const mostIterations = 1 << 20

func newScram(name string, s SASL) (sasl.Mechanism, error) {
	m := &scram{name: name, hash: sha256.New, user: s.User, password: s.Password}
	if name == "SCRAM-SHA-512" {
		m.hash = sha512.New
	}
	for _, r := range s.User + s.Password {
		if r < ' ' || r > '~' {
			return nil, errNotASCII
		}
	}
	return m, nil
}

// Name implements sasl.Mechanism.
func (m *scram) Name() string { return m.name }

// Start implements sasl.Mechanism.
func (m *scram) Start(context.Context) (sasl.StateMachine, []byte, error) {
	return m.start(rand.Text())
}

func (m *scram) start(nonce string) (sasl.StateMachine, []byte, error) {
	user := strings.NewReplacer("=", "=3D", ",", "=2C").Replace(m.user)
	x := &scramExchange{scram: m, nonce: nonce, first: "n=" + user + ",r=" + nonce}
	return x, []byte("n,," + x.first), nil
}

type scramExchange struct {
	*scram
	nonce  string
	first  string // our first message without its header
	server []byte // the signature that the server has to show; nil before the proof
}

// Next implements sasl.StateMachine.
func (x *scramExchange) Next(_ context.Context, challenge []byte) (done bool, response []byte, err error) {
	if x.server == nil {
		response, err = x.proof(string(challenge))
		return false, response, err
	}
	fields := attributes(string(challenge))
	if reason, refused := fields['e']; refused {
		return false, nil, fmt.Errorf("SCRAM: %s", reason)
	}
	signature, err := base64.StdEncoding.DecodeString(fields['v'])
	if err != nil || !hmac.Equal(signature, x.server) {
		return false, nil, errServer
	}
	return true, nil, nil
}

// proof answers the server's salt with a proof that we know the password.
func (x *scramExchange) proof(challenge string) ([]byte, error) {
	fields := attributes(challenge)
	salt, saltErr := base64.StdEncoding.DecodeString(fields['s'])
	iterations, countErr := strconv.Atoi(fields['i'])
	nonce := fields['r']
	if saltErr != nil || countErr != nil || iterations < 1 || iterations > mostIterations || !strings.HasPrefix(nonce, x.nonce) || nonce == x.nonce {
		return nil, errors.New("SCRAM: unusable challenge")
	}
	salted, err := pbkdf2.Key(x.hash, x.password, salt, iterations, x.hash().Size())
	if err != nil {
		return nil, fmt.Errorf("SCRAM: %w", err)
	}
	clientKey := x.mac(salted, "Client Key")
	stored := x.hash()
	stored.Write(clientKey)
	final := "c=biws,r=" + nonce
	signed := x.first + "," + challenge + "," + final
	proof := x.mac(stored.Sum(nil), signed)
	for i := range proof {
		proof[i] ^= clientKey[i]
	}
	x.server = x.mac(x.mac(salted, "Server Key"), signed)
	return fmt.Appendf(nil, "%s,p=%s", final, base64.StdEncoding.EncodeToString(proof)), nil
}

func (x *scramExchange) mac(key []byte, text string) []byte {
	h := hmac.New(x.hash, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// attributes reads "a=x,b=y".
func attributes(message string) map[byte]string {
	fields := map[byte]string{}
	for part := range strings.SplitSeq(message, ",") {
		if name, value, ok := strings.Cut(part, "="); ok && len(name) == 1 {
			fields[name[0]] = value
		}
	}
	return fields
}
