package drills

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system"
	"muniment.example/bench/system/systemtest"
	"muniment.example/gate"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
	"muniment.example/sealer/keydir"
)

// rowsChanged has somebody write to ClickHouse beside the loaders.
func rowsChanged(s *stage) act {
	s.deliver(10)
	require.NoError(s, s.client.Do(s.Context(), "POST", "/v1/proof-packs/seal", map[string]any{}, nil))
	change := func(by string) {
		s.until("the rows are changed", func() bool {
			return systemtest.Query("ALTER TABLE "+path.Base(s.ClickHouse)+".events UPDATE quantity_ms = quantity_ms "+by+" 1000 WHERE quantity_ms > 0 SETTINGS mutations_sync = 2") == nil
		})
	}
	return act{
		fault: func() { change("+") },
		look:  func() { s.requireLogged("control1", "kind=pack") },
		mend:  func() { change("-") },
	}
}

// forged has somebody write a receipt into the topic that no node has signed.
func forged(s *stage) act {
	key := systemtest.CreateTenant(s.T, s.Operator().Data)
	client := system.Client{API: s.client.API, Key: key.APIKey}
	rights := systemtest.IssueRights(s.T, client)
	_, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(s, err)
	signer := sealer.Signer{KeyID: keydir.KeyID(private.Public().(ed25519.PublicKey)), Node: api.NewID(api.PrefixNode, time.Now()), Key: private}
	right, err := gate.ParseRight(gate.DOOH, nil)
	require.NoError(s, err)
	const dwellMs = 4200
	seen := gate.Telemetry{}
	verdict := gate.Evaluate(&right, &seen, dwellMs)
	return act{
		fault: func() {
			now := time.Now()
			receipt := sealer.Receipt{
				ReceiptID: api.NewID(api.PrefixReceipt, now), SpatialAnchorID: "a", IssuedAt: now, RenderedAt: now, DwellMs: dwellMs,
				Nonce: base64.RawURLEncoding.EncodeToString(make([]byte, 16)),
			}
			text, err := signer.SealDelivery(nil, &sealer.Delivery{
				TenantID: key.TenantID, Actor: sealer.Ref{Kind: "key", ID: key.KeyID}, RightID: rights["DOOH"], RightRevision: 1,
				BasisID: api.NewID("bas_", now), Substrate: right.Substrate, Metering: verdict.Meter(&seen, dwellMs),
			}, &receipt)
			require.NoError(s, err)
			log := systemtest.OpenTopic(s.T, s.Cluster)
			defer log.Close()
			_, err = log.Append(s.Context(), &sealer.Record{
				TenantID: key.TenantID, EventID: "evt_" + receipt.ReceiptID[len(api.PrefixReceipt):], Node: signer.Node, Epoch: 1, Seq: 1, Event: text,
			})
			require.NoError(s, err)
		},
		look: func() { require.Contains(s, s.command("quarantine", "list"), key.TenantID) },
		mend: func() { s.command("quarantine", "release", "--all", "--reason", "a drill") },
	}
}

// packsAway has the folder of packs be gone: its volume isn't mounted.
func packsAway(s *stage) act {
	packs, aside := filepath.Join(s.Operator().Data, "packs"), filepath.Join(s.Operator().Data, "packs-aside")
	return act{
		fault: func() {
			require.NoError(s, os.Rename(packs, aside))
			require.NoError(s, os.WriteFile(packs, nil, 0o600))
			s.deliver(10)
		},
		look: func() { s.requireLogged("control1", "cannot seal a tenant automatically") },
		mend: func() {
			require.NoError(s, os.Remove(packs))
			require.NoError(s, os.Rename(aside, packs))
		},
	}
}

// jobsLocked has somebody's open transaction hold the table of jobs.
func jobsLocked(s *stage) act {
	var open *exec.Cmd
	return act{
		fault: func() {
			open = exec.Command("psql", s.Database, "-c", "BEGIN; LOCK TABLE jobs IN EXCLUSIVE MODE; SELECT pg_sleep(3600)")
			require.NoError(s, open.Start())
			s.Cleanup(func() { _ = open.Process.Kill(); _ = open.Wait() })
		},
		mend: func() {
			require.NoError(s, exec.Command("psql", s.Database, "-c",
				"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%LOCK TABLE jobs%' AND pid <> pg_backend_pid()").Run())
		},
	}
}

// delegationShort has the root, which is offline, delegate for hours.
func delegationShort(s *stage) act {
	offline := filepath.Join(s.workspace, "offline")
	require.NoError(s, os.Mkdir(offline, 0o700))
	require.NoError(s, os.Rename(filepath.Join(s.Operator().Data, "keys", "root.skey"), filepath.Join(offline, "root.skey")))
	_, text, found := strings.Cut(string(systemtest.ReadFile(s.T, "deploy/procedures.md")), "\n## Renew the delegation\n")
	require.True(s, found)
	_, text, _ = strings.Cut(text, "```sh\n")
	procedure, _, _ := strings.Cut(text, "```\n")
	renew := func(commands string) {
		cmd := exec.CommandContext(s.Context(), "sh", "-e")
		cmd.Dir, cmd.Env, cmd.Stdin = s.workspace, s.Command(s.Context()).Env, strings.NewReader(commands)
		out, err := cmd.CombinedOutput()
		require.NoError(s, err, "%s", out)
	}
	return act{
		fault: func() { renew(strings.ReplaceAll(procedure, "8760h", "1h")) },
		mend:  func() { renew(procedure) },
	}
}
