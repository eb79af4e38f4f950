//go:build tools

package deploy

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"muniment.example/gateway"
)

// issued and handed are those by which edges join by certificates, of cert-manager or of a Secret.
var (
	issued = append(needed[:3:3], "gateway.certificates.existingCA=nodes", "gateway.certificates.issuer.name=nodes")
	handed = append(needed[:3:3], "gateway.certificates.existingCA=nodes", "gateway.certificates.existingSecret=pods")
)

// needed are the values without which the chart has to be refused.
var needed = []string{"existingSecret=engines", "existingTLS=control", "kafka.brokers=kafka-0:9092,kafka-1:9092"}

func helm(t *testing.T, values ...string) (text string, err error) {
	t.Helper()
	args := []string{"template", "m", "helm", "--kube-version", "1.30.0"}
	for _, v := range values {
		args = append(args, "--set", strings.ReplaceAll(v, ",", `\,`))
	}
	out, err := exec.Command("helm", args...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "", errors.New(string(exit.Stderr))
	}
	return string(out), err
}

func TestChartRefuses(t *testing.T) {
	for name, bad := range map[string]struct {
		values []string
		saying string
	}{
		"no secret":                {needed[1:], "existingSecret"},
		"no certificate":           {append(needed[:1:1], needed[2]), "existingTLS"},
		"no brokers":               {needed[:2], "brokers"},
		"a broker without a port":  {append(needed[:2:2], "kafka.brokers=kafka"), "brokers"},
		"a secret as a value":      {append(needed[:3:3], "database=postgres://a:b@c/d"), "database"},
		"fewer than no edge":       {append(needed[:3:3], "gateway.replicas=-1"), "replicas"},
		"a misspelt value":         {append(needed[:3:3], "gateway.replica=3"), "replica"},
		"two ways to join":         {append(issued[:5:5], "gateway.existingInvitation=invitation"), "existingInvitation"},
		"two certificates":         {append(issued[:5:5], "gateway.certificates.existingSecret=pods"), "certificates"},
		"no certificates":          {issued[:4], "certificates"},
		"no authority":             {append(needed[:3:3], issued[4]), "certificates"},
		"more nodes by invitation": {append(needed[:3:3], "gateway.autoscaling.enabled=true"), "autoscaling"},
		"less than two nodes":      {append(issued[:5:5], "gateway.autoscaling.enabled=true", "gateway.autoscaling.minReplicas=1"), "minReplicas"},
		"a port by name":           {append(needed[:3:3], "networkPolicy.postgres.ports[0]=pg"), "ports"},
		"no way to an engine":      {append(needed[:3:3], "networkPolicy.clickhouse.ports=null"), "clickhouse"},
		"two controls, one disk":   {append(needed[:3:3], "control.storage.accessMode=ReadWriteOnce"), "accessMode"},
	} {
		_, err := helm(t, bad.values...)
		require.ErrorContains(t, err, bad.saying, name)
		require.ErrorContains(t, err, "schema", name)
	}
}

// installations are ways to install the chart.
func installations() map[string][]string {
	return map[string][]string{
		"least": needed,
		"most": append(needed[:3:3], "existingFiles=certs", "imagePullSecrets[0].name=pull", "nodeSelector.disk=fast", "tolerations[0].key=dedicated",
			"serviceAccount.annotations.role=bucket", "networkPolicy.mail.ports[0]=587", "networkPolicy.bucket.ports[0]=9000",
			"networkPolicy.nodes[0].ipBlock.cidr=10.2.0.0/16", "networkPolicy.more.gateway[0].to[0].ipBlock.cidr=10.9.0.0/16",
			"networkPolicy.monitoring[0].namespaceSelector.matchLabels.name=monitoring", "gateway.storage.className=fast",
			"control.storage.existingClaim=packs", "env[0].name=MUNIMENT_KAFKA_CA", "env[0].value=/etc/muniment/kafka.pem",
			"gateway.service.annotations.a=b", "gateway.existingInvitation=invitation", "image.tag=sha"),
		"issued":      issued,
		"handed":      handed,
		"one control": append(needed[:3:3], "control.replicas=1", "control.storage.accessMode=ReadWriteOnce"),
		"scaled": append(issued[:5:5], "gateway.autoscaling.enabled=true", "gateway.autoscaling.metrics[0].type=Pods",
			"gateway.autoscaling.metrics[0].pods.metric.name=muniment_gateway_requests_in_flight", "gateway.autoscaling.metrics[0].pods.target.type=AverageValue",
			"gateway.autoscaling.metrics[0].pods.target.averageValue=500"),
		"watched":  append(needed[:3:3], "serviceMonitor.enabled=true", "serviceMonitor.labels.release=prometheus"),
		"unfenced": append(needed[:3:3], "networkPolicy.enabled=false"),
	}
}

func TestChart(t *testing.T) {
	for name, values := range installations() {
		text, err := helm(t, values...)
		require.NoError(t, err, name)
		file := filepath.Join(t.TempDir(), "chart.yaml")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		for _, version := range []string{"1.30", "1.37"} {
			out, err := exec.Command("kubernetes-validate", "--strict", "-k", version, file).CombinedOutput()
			require.NoError(t, err, "%s on %s: %s", name, version, out)
		}
		kinds := requireHardened(t, text)
		once := func(want bool) int {
			if want {
				return 1
			}
			return 0
		}
		require.Equal(t, once(name == "scaled"), kinds["HorizontalPodAutoscaler"], name)
		require.Equal(t, once(name == "watched"), kinds["ServiceMonitor"], name)
		require.Equal(t, 4*once(name != "unfenced"), kinds["NetworkPolicy"], name)
		require.Equal(t, name != "watched", strings.Contains(text, "prometheus.io/scrape"), "%s: each target is found once", name)
		require.Equal(t, name != "scaled", strings.Contains(text, "\n  replicas: 3\n"), "%s: an autoscaler alone sets the replicas", name)
	}
}

// TestChartScores has kube-score find nothing in the chart. CPU has no limit, on purpose: the kernel would stop a process in mid-request
// although its machine has time, and the p99 of deliveries would be that of the pauses. What else is ignored says why in
// _helpers.tpl.
func TestChartScores(t *testing.T) {
	for name, values := range installations() {
		if name == "unfenced" || name == "one control" {
			continue // which it finds fault with, rightly: whoever chooses them knows why
		}
		text, err := helm(t, values...)
		require.NoError(t, err, name)
		score := exec.Command("kube-score", "score", "-", "--kubernetes-version", "v1.30", "--ignore-container-cpu-limit", "--exit-one-on-warning", "--output-format", "ci")
		score.Stdin = strings.NewReader(text)
		out, err := score.CombinedOutput()
		require.NoError(t, err, "%s: %s", name, out)
		require.Contains(t, string(out), "[OK]", name)
	}
}

type object struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		Template struct{ Spec pod }
	}
}

type pod struct {
	EnableServiceLinks           *bool  `yaml:"enableServiceLinks"`
	AutomountServiceAccountToken *bool  `yaml:"automountServiceAccountToken"`
	Grace                        int    `yaml:"terminationGracePeriodSeconds"`
	Spread                       []any  `yaml:"topologySpreadConstraints"`
	ServiceAccount               string `yaml:"serviceAccountName"`
	SecurityContext              struct {
		RunAsNonRoot   bool                  `yaml:"runAsNonRoot"`
		SeccompProfile struct{ Type string } `yaml:"seccompProfile"`
	} `yaml:"securityContext"`
	Containers []struct {
		Name      string
		Args      []string
		Env       []struct{ Name, Value string }
		Resources struct{ Requests, Limits map[string]string }
		Lifecycle struct {
			PreStop struct{ Sleep struct{ Seconds int } } `yaml:"preStop"`
		}
		LivenessProbe   probe `yaml:"livenessProbe"`
		ReadinessProbe  probe `yaml:"readinessProbe"`
		SecurityContext struct {
			AllowPrivilegeEscalation *bool `yaml:"allowPrivilegeEscalation"`
			ReadOnlyRootFilesystem   bool  `yaml:"readOnlyRootFilesystem"`
			Capabilities             struct{ Drop []string }
		} `yaml:"securityContext"`
	}
}

type probe struct {
	HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
}

// requireHardened looks at every pod of the rendered chart, and for objects that have
// to be there, or must not. It returns how many there are of each kind.
func requireHardened(t *testing.T, text string) (kinds map[string]int) {
	t.Helper()
	kinds = map[string]int{}
	for d := yaml.NewDecoder(strings.NewReader(text)); ; {
		var o object
		err := d.Decode(&o)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		kinds[o.Kind]++
		pod := o.Spec.Template.Spec
		for _, c := range pod.Containers {
			require.False(t, *pod.EnableServiceLinks, o.Metadata.Name)
			require.False(t, *pod.AutomountServiceAccountToken, o.Metadata.Name)
			require.True(t, pod.SecurityContext.RunAsNonRoot, o.Metadata.Name)
			require.Equal(t, "RuntimeDefault", pod.SecurityContext.SeccompProfile.Type, o.Metadata.Name)
			for _, resource := range []string{"cpu", "memory", "ephemeral-storage"} {
				require.NotEmpty(t, c.Resources.Requests[resource], "%s: %s", o.Metadata.Name, resource)
				require.Equal(t, resource != "cpu", c.Resources.Limits[resource] != "", "%s: %s", o.Metadata.Name, resource)
			}
			require.False(t, *c.SecurityContext.AllowPrivilegeEscalation, o.Metadata.Name)
			require.True(t, c.SecurityContext.ReadOnlyRootFilesystem, o.Metadata.Name)
			require.Equal(t, []string{"ALL"}, c.SecurityContext.Capabilities.Drop, o.Metadata.Name)
			require.Equal(t, c.Name, c.Args[0])
			if c.Name != "migrate" {
				require.Equal(t, "m-muniment", pod.ServiceAccount)
				require.Len(t, pod.Spread, 2)
				require.Positive(t, c.Lifecycle.PreStop.Sleep.Seconds, "balancers go on sending")
				require.Greater(t, time.Duration(pod.Grace-c.Lifecycle.PreStop.Sleep.Seconds)*time.Second, 2*gateway.DrainTimeout, "a drain is cut off")
				require.Equal(t, [2]string{"/livez", "admin"}, [2]string{c.LivenessProbe.HTTPGet.Path, c.LivenessProbe.HTTPGet.Port})
				require.Equal(t, [2]string{"/readyz", "admin"}, [2]string{c.ReadinessProbe.HTTPGet.Path, c.ReadinessProbe.HTTPGet.Port})
			}
		}
	}
	require.Zero(t, kinds["Secret"])
	require.Equal(t, 1, kinds["StatefulSet"])
	require.Equal(t, 2, kinds["Deployment"])
	require.Equal(t, 3, kinds["PodDisruptionBudget"])
	require.Equal(t, 1, kinds["Job"])
	require.Equal(t, 1, kinds["ServiceAccount"])
	return kinds
}
