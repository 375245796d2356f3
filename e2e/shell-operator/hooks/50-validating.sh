#!/bin/sh
# A validating webhook with snapshots.
if [ "$1" = --config ]; then cat <<'END'
configVersion: v1
kubernetes:
- {name: maps, kind: ConfigMap, nameSelector: {matchNames: [one]}, namespace: {nameSelector: {matchNames: [record]}}, queue: validating, executeHookOnSynchronization: false, executeHookOnEvent: [], jqFilter: .metadata.name, keepFullObjectsInMemory: false}
kubernetesValidating:
- name: validate.record.example.com
  includeSnapshotsFrom: [maps]
  rules: [{apiGroups: [record.example.com], apiVersions: ['*'], operations: ['*'], resources: [things], scope: Namespaced}]
END
exit 0; fi
. "$RECORD_LIB"
echo "{\"allowed\":true}" > "$VALIDATING_RESPONSE_PATH"
