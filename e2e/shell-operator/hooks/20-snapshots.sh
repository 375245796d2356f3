#!/bin/sh
# Snapshots of other bindings and of the binding itself.
if [ "$1" = --config ]; then cat <<'END'
configVersion: v1
kubernetes:
- {name: maps, kind: ConfigMap, labelSelector: {matchLabels: {record: 'yes'}}, namespace: {nameSelector: {matchNames: [record]}}, queue: snapshots, includeSnapshotsFrom: [maps, lean, nothing]}
- {name: lean, kind: Secret, labelSelector: {matchLabels: {record: 'yes'}}, namespace: {nameSelector: {matchNames: [record]}}, queue: snapshots, jqFilter: .type, keepFullObjectsInMemory: false, executeHookOnSynchronization: false, executeHookOnEvent: []}
- {name: nothing, kind: ConfigMap, nameSelector: {matchNames: [does-not-exist]}, namespace: {nameSelector: {matchNames: [record]}}, queue: snapshots, executeHookOnSynchronization: false}
END
exit 0; fi
. "$RECORD_LIB"
