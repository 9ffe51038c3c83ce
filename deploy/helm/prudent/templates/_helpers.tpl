{{- define "prudent.name" -}}
{{- $name := ternary .Release.Name (printf "%s-prudent" .Release.Name) (contains "prudent" .Release.Name) -}}
{{- $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "prudent.selector" -}}
app.kubernetes.io/name: prudent
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "prudent.labels" -}}
{{ include "prudent.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "prudent.secret" -}}
{{- .Values.existingSecret | default (include "prudent.name" .) -}}
{{- end -}}

{{- /* What the workers and the migration have in common. */ -}}
{{- define "prudent.pod" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
automountServiceAccountToken: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
volumes:
  - name: tmp
    emptyDir: {}
  - name: secrets
    secret:
      secretName: {{ include "prudent.secret" . }}
      defaultMode: 0440
{{- end -}}

{{- define "prudent.container" -}}
image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
env:
  - name: PRUDENT_DATABASE_URL_FILE
    value: /run/prudent/database-url
  - name: PRUDENT_ADMIN_KEY_FILE
    value: /run/prudent/admin-key
  # The image's own, for a file, would win over the secret's.
  - name: PRUDENT_DATABASE_URL
    value: ""
  {{- if and .Values.ingress.enabled (ne .Values.ingress.path "/") }}
  - name: PRUDENT_ROOT_PATH
    value: {{ .Values.ingress.path | quote }}
  {{- end }}
  {{- range $name, $value := .Values.settings }}
  - name: PRUDENT_{{ $name }}
    value: {{ $value | toString | quote }}
  {{- end }}
volumeMounts:
  - {name: tmp, mountPath: /tmp}
  - {name: secrets, mountPath: /run/prudent, readOnly: true}
{{- end -}}
