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
{{- end }}

{{/* What every container has besides its name and args. */}}
{{- define "tisnap.container" -}}
{{- with .root }}
image: {{ printf "%s:%s" .Values.image.repository .Values.image.tag | quote }}
envFrom:
  - configMapRef: {name: tisnap-{{ $.of }}}
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
{{- end }}
