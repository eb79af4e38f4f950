//go:build tools

package deploy

import (
	"errors"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// fence is a NetworkPolicy.
type fence struct {
	Kind string
	Spec struct {
		PodSelector     labelled `yaml:"podSelector"`
		PolicyTypes     []string `yaml:"policyTypes"`
		Ingress, Egress []struct {
			Ports    []struct{ Port, Protocol string }
			From, To []peer
		}
	}
}

type labelled struct {
	MatchLabels map[string]string `yaml:"matchLabels"`
}

type peer struct {
	PodSelector       *labelled `yaml:"podSelector"`
	NamespaceSelector *labelled `yaml:"namespaceSelector"`
	IPBlock           *struct {
		CIDR   string
		Except []string
	} `yaml:"ipBlock"`
}

// place is the other end of a connection: a pod by its labels, in the namespace of the release or in another one, or
// an address outside of the cluster.
type place struct {
	component, namespace, address string
}

func (p peer) is(t *testing.T, at place) bool {
	t.Helper()
	if p.IPBlock != nil {
		address, err := netip.ParseAddr(at.address)
		contains := func(cidr string) bool { return netip.MustParsePrefix(cidr).Contains(address) }
		return err == nil && contains(p.IPBlock.CIDR) && !slices.ContainsFunc(p.IPBlock.Except, contains)
	}
	if p.NamespaceSelector != nil {
		return at.namespace != "" && p.NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"] == at.namespace
	}
	own := p.PodSelector.MatchLabels
	require.Equal(t, "m", own["app.kubernetes.io/instance"], "of another release")
	return at.namespace == "" && at.component != "" && own["app.kubernetes.io/component"] == at.component
}

// fences are the policies of the rendered chart, by component.
func fences(t *testing.T, values ...string) map[string]fence {
	t.Helper()
	text, err := helm(t, values...)
	require.NoError(t, err)
	all := map[string]fence{}
	for d := yaml.NewDecoder(strings.NewReader(text)); ; {
		var f fence
		err := d.Decode(&f)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil || f.Kind != "NetworkPolicy" {
			continue
		}
		require.Equal(t, []string{"Ingress", "Egress"}, f.Spec.PolicyTypes)
		all[f.Spec.PodSelector.MatchLabels["app.kubernetes.io/component"]] = f
	}
}

func (f fence) lets(t *testing.T, in bool, port string, at place) bool {
	t.Helper()
	rules := f.Spec.Egress
	if in {
		rules = f.Spec.Ingress
	}
	for _, r := range rules {
		peers := append(slices.Clone(r.From), r.To...)
		open := len(r.Ports) == 0
		for _, p := range r.Ports {
			open = open || p.Port == port
		}
		if open && (len(peers) == 0 || slices.ContainsFunc(peers, func(p peer) bool { return p.is(t, at) })) {
			return true
		}
	}
	return false
}

// Places that a part connects to, by the variables that name them. Each variable that holds an address of another service has to be here.
var connections = map[string]struct {
	ports []string
	at    place
}{
	"MUNIMENT_KAFKA":      {[]string{"9092", "9093"}, place{address: "10.1.2.3"}},
	"MUNIMENT_CLICKHOUSE": {[]string{"9440"}, place{address: "10.1.2.3"}},
	"MUNIMENT_DATABASE":   {[]string{"5432"}, place{namespace: "engines"}},
	"MUNIMENT_CONTROL":    {[]string{"8081"}, place{component: "control"}},
}

// TestFencesLetTheServiceWork: each connection that a process makes is allowed, at both ends where both are ours.
func TestFencesLetTheServiceWork(t *testing.T) {
	values := append(needed[:2:2], "kafka.brokers=kafka-0:9092,kafka-1:9093")
	text, err := helm(t, values...)
	require.NoError(t, err)
	all := fences(t, values...)
	require.Len(t, all, 4)
	seen := map[string]int{}
	for d := yaml.NewDecoder(strings.NewReader(text)); ; {
		var o object
		err := d.Decode(&o)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		for _, c := range o.Spec.Template.Spec.Containers {
			of := all[c.Name]
			require.True(t, of.lets(t, false, "53", place{namespace: "kube-system"}), c.Name)
			require.True(t, of.lets(t, false, "53", place{address: "169.254.20.10"}), c.Name)
			for _, v := range c.Env {
				to, known := connections[v.Name]
				if c.Name == "gateway" && v.Name == "MUNIMENT_NODES" {
					to.ports, to.at, known = []string{"8082"}, place{component: "control"}, true
				}
				require.True(t, known || !strings.Contains(v.Value, ":") || strings.HasPrefix(v.Value, "0.0.0.0:"), "%s=%s of %s: to where?", v.Name, v.Value, c.Name)
				for _, port := range to.ports {
					seen[v.Name]++
					require.True(t, of.lets(t, false, port, to.at), "%s to %s, port %s", c.Name, v.Name, port)
				}
			}
		}
	}
	require.Equal(t, map[string]int{"MUNIMENT_KAFKA": 8, "MUNIMENT_CLICKHOUSE": 3, "MUNIMENT_DATABASE": 2, "MUNIMENT_CONTROL": 1, "MUNIMENT_NODES": 1}, seen)
	for _, port := range []string{"api", "nodes"} {
		require.True(t, all["control"].lets(t, true, port, place{component: "gateway"}), port)
	}
	require.True(t, all["gateway"].lets(t, true, "api", place{address: "203.0.113.9"}), "callers")
	for _, of := range []string{"gateway", "pipeline", "control"} {
		require.True(t, all[of].lets(t, true, "admin", place{namespace: "monitoring"}), of)
	}
	for _, port := range []string{"443", "8443"} { // as control/webhook has them
		require.True(t, all["control"].lets(t, false, port, place{address: "93.184.216.34"}), "webhooks")
		require.True(t, all["control"].lets(t, false, port, place{address: "2606:2800:220:1::1"}), "webhooks")
	}
}

// TestFencesKeepOut what nothing needs.
func TestFencesKeepOut(t *testing.T) {
	all := fences(t, needed...)
	private := []string{"10.0.0.1", "172.16.0.1", "172.31.255.1", "192.168.1.1", "127.0.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.1", "224.0.0.1", "::1", "fd00::1", "fe80::1"}
	for _, address := range private {
		for _, port := range []string{"443", "8443"} {
			require.False(t, all["control"].lets(t, false, port, place{address: address}), address)
		}
	}
	internet, stranger := place{address: "93.184.216.34"}, place{component: "stranger"}
	for name, f := range all {
		for _, port := range []int{22, 80, 25, 587, 6443, 9090} {
			require.False(t, f.lets(t, false, strconv.Itoa(port), internet), "%s to port %d", name, port)
		}
		require.Equal(t, name == "control", f.lets(t, false, "443", internet), name)
		require.Equal(t, name == "control" || name == "migrate", f.lets(t, false, "5432", internet), name)
		require.Equal(t, name != "gateway", f.lets(t, false, "9440", internet), name)
		require.Equal(t, name == "gateway", f.lets(t, false, "8081", place{component: "control"}), name)
		require.False(t, f.lets(t, false, "8081", stranger), name)
		require.Equal(t, name == "gateway", f.lets(t, true, "api", stranger), name)
		require.False(t, f.lets(t, true, "nodes", stranger), name)
		for _, at := range []place{stranger, internet, {component: "gateway"}, {namespace: "other"}} {
			require.False(t, f.lets(t, true, "admin", at), "%s: %v", name, at)
		}
	}
}

// TestFencesAsConfigured: the values that open more do, and only that.
func TestFencesAsConfigured(t *testing.T) {
	far, mail := place{address: "10.2.0.7"}, place{address: "10.3.0.25"}
	all := fences(t, append(needed[:3:3], "networkPolicy.mail.ports[0]=587", "networkPolicy.mail.to[0].ipBlock.cidr=10.3.0.0/16", "networkPolicy.bucket.ports[0]=9000",
		"networkPolicy.nodes[0].ipBlock.cidr=10.2.0.0/16", "networkPolicy.more.gateway[0].to[0].ipBlock.cidr=10.2.0.0/16",
		"networkPolicy.kafka.ports[0]=19092", "networkPolicy.kafka.to[0].namespaceSelector.matchLabels.kubernetes\\.io/metadata\\.name=kafka")...)
	control := all["control"]
	require.True(t, control.lets(t, false, "587", mail))
	require.False(t, control.lets(t, false, "587", far))
	require.True(t, control.lets(t, false, "9000", mail))
	require.True(t, control.lets(t, true, "nodes", far))
	require.True(t, control.lets(t, true, "api", far))
	require.False(t, control.lets(t, true, "admin", far))
	require.True(t, all["gateway"].lets(t, false, "4317", far))
	require.False(t, all["pipeline"].lets(t, false, "4317", far))
	require.False(t, all["pipeline"].lets(t, false, "587", mail))
	for name, f := range all {
		require.True(t, f.lets(t, false, "19092", place{namespace: "kafka"}), name)
		require.False(t, f.lets(t, false, "19092", place{namespace: "other"}), name)
		require.False(t, f.lets(t, false, "9092", place{namespace: "kafka"}), name)
	}
}
