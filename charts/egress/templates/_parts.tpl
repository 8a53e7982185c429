{{/* The labels of everything that the chart makes. */}}
{{- define "egress.labels" -}}
app.kubernetes.io/name: egress
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/* The rights of every container: none. */}}
{{- define "egress.no-rights" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end }}

{{/* A pod of Egress: the user of the image, whose files belong to its group. */}}
{{- define "egress.pod-rights" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: { type: RuntimeDefault }
{{- end }}

{{- define "egress.image" -}}
image: {{ .Values.image.name }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end }}

{{/* The API servers: those of the values, and those that a cluster names, as ADDRESS PORT lines. */}}
{{- define "egress.api-servers" -}}
{{- $found := list -}}
{{- range .Values.cluster.apiServers }}{{ $found = append $found (printf "%s %v" .address .port) }}{{ end -}}
{{- $slices := lookup "discovery.k8s.io/v1" "EndpointSlice" "default" "" -}}
{{- range (get $slices "items") | default list }}
{{- if eq (index (.metadata.labels | default dict) "kubernetes.io/service-name" | default "") "kubernetes" }}
{{- $ports := .ports }}
{{- range .endpoints }}{{ range $address := .addresses }}{{ range $ports }}
{{- $found = append $found (printf "%s %v" $address .port) }}
{{- end }}{{ end }}{{ end }}
{{- end }}
{{- end -}}
{{- join "\n" (uniq $found) -}}
{{- end }}

{{/* An address as a network that holds nothing else. */}}
{{- define "egress.network" -}}
{{ . }}/{{ if contains ":" . }}128{{ else }}32{{ end }}
{{- end }}

{{/* The rule of a network policy that leads to the API servers. */}}
{{- define "egress.to-api-servers" -}}
{{- range $n, $line := splitList "\n" (include "egress.api-servers" .) }}
{{- $place := splitList " " $line }}
{{- if $n }}
{{ end -}}
- to: [{ ipBlock: { cidr: "{{ include "egress.network" (first $place) }}" } }]
  ports: [{ port: {{ last $place }} }]
{{- end }}
{{- end }}

{{/* The ports at which the gateway serves sandboxes. */}}
{{- define "egress.ports" -}}
- { port: 3128 }
- { port: 443 }
- { port: 80 }
- { port: 53, protocol: UDP }
- { port: 53, protocol: TCP }
{{- end }}

{{/* The service account as files: a short token, the authority of the cluster, and the namespace. */}}
{{- define "egress.account-volume" -}}
projected:
  defaultMode: 288
  sources:
    - serviceAccountToken: { path: token, expirationSeconds: 3600 }
    - configMap: { name: kube-root-ca.crt, items: [{ key: ca.crt, path: ca.crt }] }
    - downwardAPI: { items: [{ path: namespace, fieldRef: { fieldPath: metadata.namespace } }] }
{{- end }}
