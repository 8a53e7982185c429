{{/* The labels of everything that the chart makes. */}}
{{- define "egress.labels" -}}
app.kubernetes.io/name: egress
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
# Once: at each later start it would open the state folder to the group, and the proxy refuses that.
fsGroupChangePolicy: OnRootMismatch
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

{{/* A list of strings in the language of admission policies. */}}
{{- define "egress.cel-list" -}}
[{{ range $n, $each := . }}{{ if $n }}, {{ end }}'{{ $each }}'{{ end }}]
{{- end }}

{{/* Whether each egress rule leads to pods of the gateway in the own namespace. */}}
{{- define "egress.cel-to-gateway" -}}
{{ .rules }}.all(rule, has(rule.to) && size(rule.to) > 0 &&
        rule.to.all(peer, !has(peer.ipBlock) && has(peer.podSelector) && has(peer.podSelector.matchLabels) &&
        'app' in peer.podSelector.matchLabels && peer.podSelector.matchLabels['app'] == 'egress-proxy' &&
        (!has(peer.namespaceSelector) || (has(peer.namespaceSelector.matchLabels) &&
        'kubernetes.io/metadata.name' in peer.namespaceSelector.matchLabels &&
        peer.namespaceSelector.matchLabels['kubernetes.io/metadata.name'] == '{{ .namespace }}'))))
{{- end }}

{{/* What every gate dials. The cluster fills in the variables. */}}
{{- define "egress.gate-arguments" -}}
- --blocked=$(KUBERNETES_SERVICE_HOST):$(KUBERNETES_SERVICE_PORT)
- --blocked=$(NODE_IP):10250
- --blocked={{ .Values.cluster.nameServer.address }}:53
- --blocked=169.254.169.254:80
- --blocked={{ .Values.gate.canary }}
- --gateway={{ .Values.service.address }}:3128
- --uid=$(POD_UID)
{{- end }}

{{/* The gate: the first init container of every sandbox. */}}
{{- define "egress.gate" -}}
name: egress-gate
{{ include "egress.image" . }}
args:
  - gate
  {{- include "egress.gate-arguments" . | nindent 2 }}
env:
  - { name: NODE_IP, valueFrom: { fieldRef: { fieldPath: status.hostIP } } }
  # The gateway has to know this very pod at its address, which another pod may have had before.
  - { name: POD_UID, valueFrom: { fieldRef: { fieldPath: metadata.uid } } }
# The reason why a pod does not start stands in its status.
terminationMessagePolicy: FallbackToLogsOnError
securityContext:
  {{- include "egress.no-rights" . | nindent 2 }}
resources: { requests: { cpu: 50m, memory: 64Mi }, limits: { cpu: 500m, memory: 128Mi } }
{{- end }}

{{/* The variables by which programs find the gateway and its certificate. */}}
{{- define "egress.variables" -}}
{{- $proxy := printf "http://%s:3128" .Values.service.address }}
{{- range list "HTTPS_PROXY" "https_proxy" "HTTP_PROXY" "http_proxy" "WSS_PROXY" "wss_proxy" "WS_PROXY" "ws_proxy" "YARN_HTTPS_PROXY" "YARN_HTTP_PROXY" }}
- { name: {{ . }}, value: "{{ $proxy }}" }
{{- end }}
{{- range list "NO_PROXY" "no_proxy" }}
- { name: {{ . }}, value: "localhost,127.0.0.1,::1" }
{{- end }}
{{- range list "NODE_USE_ENV_PROXY" "PERL_LWP_ENV_PROXY" }}
- { name: {{ . }}, value: "1" }
{{- end }}
{{- range list "SSL_CERT_FILE" "CURL_CA_BUNDLE" "REQUESTS_CA_BUNDLE" "PIP_CERT" "GIT_SSL_CAINFO" "CARGO_HTTP_CAINFO" "npm_config_cafile" "PERL_LWP_SSL_CA_FILE" "AWS_CA_BUNDLE" "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE" "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH" "HTTPLIB2_CA_CERTS" "NIX_SSL_CERT_FILE" }}
- { name: {{ . }}, value: /etc/egress-trust/bundle.pem }
{{- end }}
{{- range list "NODE_EXTRA_CA_CERTS" "DENO_CERT" }}
- { name: {{ . }}, value: /etc/egress-trust/ca.pem }
{{- end }}
{{- end }}

{{/* A value in the language of admission policies, whose maps have one type of values: dyn. */}}
{{- define "egress.cel-value" -}}
{{- if kindIs "map" . -}}
{ {{- $first := true }}{{ range $key, $value := . }}{{ if not $first }}, {{ end }}{{ $first = false }}'{{ $key }}': dyn({{ include "egress.cel-value" $value }}){{ end -}} }
{{- else if kindIs "slice" . -}}
[{{ range $n, $each := . }}{{ if $n }}, {{ end }}{{ include "egress.cel-value" $each }}{{ end }}]
{{- else if kindIs "string" . -}}
'{{ . }}'
{{- else -}}
{{ . }}
{{- end -}}
{{- end }}
