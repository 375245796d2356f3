#!/bin/sh
# A validating webhook of a group.
if [ "$1" = --config ]; then cat <<'END'
configVersion: v1
kubernetes:
- {name: maps, kind: ConfigMap, nameSelector: {matchNames: [one]}, namespace: {nameSelector: {matchNames: [record]}}, queue: validating-group, group: main, executeHookOnSynchronization: false, executeHookOnEvent: [], jqFilter: .metadata.name, keepFullObjectsInMemory: false}
kubernetesValidating:
- name: group.record.example.com
  group: main
  rules: [{apiGroups: [record.example.com], apiVersions: ['*'], operations: [CREATE], resources: [things], scope: Namespaced}]
END
exit 0; fi
. "$RECORD_LIB"
echo "{\"allowed\":true}" > "$VALIDATING_RESPONSE_PATH"
