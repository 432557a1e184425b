{{- define "edge.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "edge.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
# A volume that is the group's already is left as it is: the program refuses keys and
# compiled modules that others than their owner may write.
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "edge.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- /* What the pods of origins and nodes have in common. */ -}}
{{- define "edge.pod" -}}
automountServiceAccountToken: false
# Else each Service would be in the environment, under names that begin as the program's.
enableServiceLinks: false
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
securityContext:
  {{- include "edge.podSecurity" . | nindent 2 }}
{{- end }}

{{- /* Both of these are given a pause in seconds: requests go on to come until everybody has
heard that a pod stops. Then it takes 15 s at most for what is under way. */ -}}
{{- define "edge.lifecycle" -}}
preStop: {sleep: {seconds: {{ . }}}}
{{- end }}

{{- define "edge.grace" -}}
terminationGracePeriodSeconds: {{ add . 25 }}
{{- end }}

{{- /* The ports of the URLs that nodes ask, as a NetworkPolicy has them. */ -}}
{{- define "edge.natsPorts" -}}
{{- $ports := list }}
{{- range splitList "," (include "edge.natsURL" .) }}
{{- $ports = append $ports (regexFind ":[0-9]+$" (trimSuffix "/" .) | trimPrefix ":" | default "4222") }}
{{- end }}
{{- range $i, $port := uniq $ports }}{{ if $i }}, {{ end }}{port: {{ $port }}}{{ end }}
{{- end }}

{{- define "edge.natsURL" -}}
{{- if .Values.nodes.origin -}}
{{ .Values.nodes.origin }}
{{- else if .Values.origin.nats.urls -}}
{{ .Values.origin.nats.urls }}
{{- else if .Values.origin.natsTLSSecret -}}
tls://{{ .Release.Name }}-origin:4222
{{- else -}}
nats://{{ .Release.Name }}-origin:4222
{{- end -}}
{{- end }}

{{- /* Refuses those of .flags, the value .name, that the rest of the chart would contradict:
.instead says of each what to do instead. */ -}}
{{- define "edge.refuseFlags" -}}
{{- range .flags }}
{{- $flag := regexFind "^--[a-z-]+" . }}
{{- with index $.instead $flag }}
{{- fail (printf "%s: %s: %s" $.name $flag .) }}
{{- end }}
{{- end }}
{{- end }}
