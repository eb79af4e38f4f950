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

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
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
		"no secret":               {needed[1:], "existingSecret"},
		"no certificate":          {append(needed[:1:1], needed[2]), "existingTLS"},
		"no brokers":              {needed[:2], "brokers"},
		"a broker without a port": {append(needed[:2:2], "kafka.brokers=kafka"), "brokers"},
		"a secret as a value":     {append(needed[:3:3], "database=postgres://a:b@c/d"), "database"},
		"fewer than no edge":      {append(needed[:3:3], "gateway.replicas=-1"), "replicas"},
		"a misspelt value":        {append(needed[:3:3], "gateway.replica=3"), "replica"},
		"two ways to join":        {append(issued[:5:5], "gateway.existingInvitation=invitation"), "existingInvitation"},
		"two certificates":        {append(issued[:5:5], "gateway.certificates.existingSecret=pods"), "certificates"},
		"no certificates":         {issued[:4], "certificates"},
		"no authority":            {append(needed[:3:3], issued[4]), "certificates"},
		"two controls, one disk":  {append(needed[:3:3], "control.storage.accessMode=ReadWriteOnce"), "accessMode"},
	} {
		_, err := helm(t, bad.values...)
		require.ErrorContains(t, err, bad.saying, name)
		require.ErrorContains(t, err, "schema", name)
	}
}

func TestChart(t *testing.T) {
	for name, values := range map[string][]string{
		"least": needed,
		"most": append(needed[:3:3], "existingFiles=certs", "networkPolicy.enabled=true", "imagePullSecrets[0].name=pull",
			"networkPolicy.monitoring[0].namespaceSelector.matchLabels.name=monitoring", "gateway.storage.className=fast",
			"control.storage.existingClaim=packs", "env[0].name=MUNIMENT_KAFKA_CA", "env[0].value=/etc/muniment/kafka.pem",
			"gateway.service.annotations.a=b", "gateway.existingInvitation=invitation", "image.tag=sha"),
		"issued":      issued,
		"handed":      handed,
		"one control": append(needed[:3:3], "control.replicas=1", "control.storage.accessMode=ReadWriteOnce"),
	} {
		text, err := helm(t, values...)
		require.NoError(t, err, name)
		file := filepath.Join(t.TempDir(), "chart.yaml")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		for _, version := range []string{"1.30", "1.37"} {
			out, err := exec.Command("kubernetes-validate", "--strict", "-k", version, file).CombinedOutput()
			require.NoError(t, err, "%s on %s: %s", name, version, out)
		}
		requireHardened(t, text)
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
	EnableServiceLinks           *bool `yaml:"enableServiceLinks"`
	AutomountServiceAccountToken *bool `yaml:"automountServiceAccountToken"`
	SecurityContext              struct {
		RunAsNonRoot bool `yaml:"runAsNonRoot"`
	} `yaml:"securityContext"`
	Containers []struct {
		Name            string
		Args            []string
		Env             []struct{ Name string }
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
// to be there, or must not.
func requireHardened(t *testing.T, text string) {
	t.Helper()
	kinds := map[string]int{}
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
			require.False(t, *c.SecurityContext.AllowPrivilegeEscalation, o.Metadata.Name)
			require.True(t, c.SecurityContext.ReadOnlyRootFilesystem, o.Metadata.Name)
			require.Equal(t, []string{"ALL"}, c.SecurityContext.Capabilities.Drop, o.Metadata.Name)
			require.Equal(t, c.Name, c.Args[0])
			if c.Name != "migrate" {
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
}
