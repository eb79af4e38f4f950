{{/* What the templates share. Each takes a list of the chart's root and the name of a part: gateway, pipeline, control or migrate. */}}

{{- define "muniment.name" -}}
{{ printf "%s-%s" (index . 0).Release.Name (index . 1) | trunc 52 }}
{{- end }}

{{- define "muniment.selector" -}}
app.kubernetes.io/name: muniment
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "muniment.labels" -}}
{{ include "muniment.selector" . }}
app.kubernetes.io/version: {{ (index . 0).Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ (index . 0).Release.Service }}
helm.sh/chart: {{ (index . 0).Chart.Name }}-{{ (index . 0).Chart.Version }}
{{- end }}

{{- define "muniment.meta" -}}
name: {{ include "muniment.name" . }}
labels: {{- include "muniment.labels" . | nindent 2 }}
{{- end }}

{{/* The pod's settings. Service links are off, as variables of services that are called
muniment-… would look like our flags. */}}
{{- define "muniment.pod" -}}
enableServiceLinks: false
{{- if ne (index . 1) "migrate" }}
serviceAccountName: {{ (index . 0).Release.Name }}-muniment
{{- end }}
automountServiceAccountToken: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: { type: RuntimeDefault }
{{- with (index . 0).Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- if ne (index . 1) "migrate" }}
{{/* More than the five seconds of preStop, the ten in which a gateway finishes what was begun, and what closing files takes. */ -}}
terminationGracePeriodSeconds: 60
{{- $same := include "muniment.selector" . | replace "\n" ", " }}
topologySpreadConstraints:
  {{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector: { matchLabels: { {{- $same -}} } }
  {{- end }}
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm: { topologyKey: kubernetes.io/hostname, labelSelector: { matchLabels: { {{- $same -}} } } }
{{- end }}
{{- with (index . 0).Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with (index . 0).Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The volumes that any part has; the part adds its own behind them. */}}
{{- define "muniment.volumes" -}}
- name: tmp
  emptyDir: { sizeLimit: 64Mi }
{{- with (index . 0).Values.existingFiles }}
- name: files
  secret: { secretName: {{ . }}, defaultMode: 0440 }
{{- end }}
{{- end }}

{{- define "muniment.mounts" -}}
- { name: tmp, mountPath: /tmp }
{{- if (index . 0).Values.existingFiles }}
- { name: files, mountPath: /etc/muniment, readOnly: true }
{{- end }}
{{- end }}

{{- define "muniment.container" -}}
name: {{ index . 1 }}
image: "{{ (index . 0).Values.image.repository }}:{{ (index . 0).Values.image.tag | default (index . 0).Chart.AppVersion }}"
imagePullPolicy: {{ (index . 0).Values.image.pullPolicy }}
args: [{{ index . 1 }}]
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: { drop: [ALL] }
{{- end }}

{{/* The admin listener: what watches it, and the five seconds in which balancers forget a
pod that is about to end, while it still serves. */}}
{{- define "muniment.watched" -}}
livenessProbe: { httpGet: { path: /livez, port: admin }, periodSeconds: 10, failureThreshold: 6 }
readinessProbe: { httpGet: { path: /readyz, port: admin }, periodSeconds: 2, timeoutSeconds: 2, failureThreshold: 2 }
lifecycle: { preStop: { sleep: { seconds: 5 } } }
{{- end }}

{{/* Annotations of pods: for a Prometheus that finds its targets by them. A ServiceMonitor would have it scrape them twice. */}}
{{- define "muniment.scraped" -}}
{{- if not .Values.serviceMonitor.enabled }}
prometheus.io/scrape: "true"
prometheus.io/port: "9090"
{{- end }}
{{- end }}

{{/* What kube-score calls critical and is so on purpose. An image is named by its version, which never changes: to pull it at
every start would keep a node from starting while the registry is away. */}}
{{- define "muniment.scored" -}}
kube-score/ignore: container-image-pull-policy
{{- end }}

{{- define "muniment.env" -}}
{{- $root := index . 0 }}{{ $part := index . 1 }}
- { name: MUNIMENT_KAFKA, value: {{ $root.Values.kafka.brokers | quote }} }
- { name: MUNIMENT_TOPIC, value: {{ $root.Values.kafka.topic | quote }} }
{{- if ne $part "gateway" }}
- name: MUNIMENT_CLICKHOUSE
  valueFrom: { secretKeyRef: { name: {{ $root.Values.existingSecret }}, key: clickhouse } }
{{- end }}
{{- if has $part (list "control" "migrate") }}
- name: MUNIMENT_DATABASE
  valueFrom: { secretKeyRef: { name: {{ $root.Values.existingSecret }}, key: database } }
{{- end }}
{{- if ne $part "migrate" }}
- { name: MUNIMENT_ADMIN, value: "0.0.0.0:9090" }
{{- end }}
{{- with $root.Values.env }}
{{ toYaml . }}
{{- end }}
{{- with (index $root.Values $part | default dict).env }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "muniment.budget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {{- include "muniment.meta" . | nindent 2 }}
spec:
  maxUnavailable: 1
  selector: { matchLabels: { {{- include "muniment.selector" . | replace "\n" ", " -}} } }
{{- end }}
