{{- define "endpointd.labels" -}}
app.kubernetes.io/name: endpointd
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: controller
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "endpointd.selector" -}}
app.kubernetes.io/name: endpointd
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* Roles that are not in a namespace, so that a shadow and the real one can stand beside each other. */ -}}
{{- define "endpointd.clusterName" -}}
{{ if eq .Release.Name .Release.Namespace }}{{ .Release.Name }}{{ else }}{{ printf "%s-%s" .Release.Namespace .Release.Name }}{{ end }}
{{- end }}

{{- define "endpointd.image" -}}
{{ if .Values.image.digest }}{{ printf "%s@%s" .Values.image.repository .Values.image.digest }}{{ else }}{{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) }}{{ end }}
{{- end }}

{{- define "endpointd.config" -}}
apiVersion: endpointd.dev/v1alpha1
kind: EndpointdConfiguration
metricsBindAddress: {{ printf ":%d" (int .Values.serving.port) | quote }}
healthzBindAddress: {{ printf ":%d" (int .Values.serving.healthPort) | quote }}
{{- if .Values.serving.secretName }}
tlsCertFile: /etc/endpointd/serving/tls.crt
tlsPrivateKeyFile: /etc/endpointd/serving/tls.key
metricsTokenFile: /etc/endpointd/serving/token
{{- else }}
metricsAllowRemote: true
{{- end }}
{{- if .Values.shadow }}
shadow: true
{{- else }}
leaderElectResourceName: {{ .Release.Name }}
leaderElectResourceNamespace: {{ .Release.Namespace }}
{{- end }}
{{- with .Values.config }}
{{ toYaml . }}
{{- end }}
{{- end }}
