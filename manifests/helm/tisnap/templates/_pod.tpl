{{/* What every pod has besides its containers. */}}
{{- define "tisnap.pod" -}}
serviceAccountName: {{ .Values.serviceAccount.name }}
restartPolicy: Never
terminationGracePeriodSeconds: 60
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- include "tisnap.scheduling" . }}
{{- end }}

{{/* Where pods run, and how their image is pulled. */}}
{{- define "tisnap.scheduling" -}}
{{- range $field := list "imagePullSecrets" "nodeSelector" "tolerations" "affinity" "priorityClassName" }}
{{- with index $.Values $field }}
{{ $field }}: {{ toJson . }}
{{- end }}
{{- end }}
{{- end }}

{{/* Labels as KEY=VALUE,… of --worker-node-selector. */}}
{{- define "tisnap.labels" -}}
{{- $out := list }}
{{- range $key, $value := . }}
{{- $out = append $out (printf "%s=%s" $key $value) }}
{{- end }}
{{- join "," $out }}
{{- end }}

{{/* Tolerations as KEY=VALUE:EFFECT,… of --worker-toleration; KEY:EFFECT is of any value, and nothing of any. */}}
{{- define "tisnap.taints" -}}
{{- $out := list }}
{{- range . }}
{{- $value := printf "=%v" (default "" .value) }}
{{- if eq (default "Equal" .operator) "Exists" }}
{{- $value = "" }}
{{- end }}
{{- $out = append $out (printf "%s%s:%s" (default "" .key) $value (default "" .effect)) }}
{{- end }}
{{- join "," $out }}
{{- end }}

{{/* The annotations of a Job, CronJob or Deployment. */}}
{{- define "tisnap.objectAnnotations" -}}
{{- with .Values.annotations }}
  annotations: {{ toJson . }}
{{- end }}
{{- end }}

{{/* What every container has besides its name and args. */}}
{{- define "tisnap.container" -}}
{{- with .root }}
image: {{ printf "%s:%s" .Values.image.repository .Values.image.tag | quote }}
envFrom:
  - configMapRef: {name: tisnap-{{ $.of }}}
{{- with .Values.extraEnv }}
env: {{ toJson . }}
{{- end }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
resources:
  {{- toYaml .Values.resources | nindent 2 }}
{{- end }}
{{- end }}

{{/* A pod that is running a backup or restore must not be moved. */}}
{{- define "tisnap.annotations" -}}
karpenter.sh/do-not-disrupt: "true"
cluster-autoscaler.kubernetes.io/safe-to-evict: "false"
{{- with .Values.podAnnotations }}
{{ toYaml . }}
{{- end }}
{{- end }}
