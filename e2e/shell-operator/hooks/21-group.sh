#!/bin/sh
# Two bindings of a group.
if [ "$1" = --config ]; then cat <<'END'
configVersion: v1
kubernetes:
- {name: maps, kind: ConfigMap, labelSelector: {matchLabels: {record: 'yes'}}, namespace: {nameSelector: {matchNames: [record]}}, queue: group, group: main, jqFilter: .data.k, keepFullObjectsInMemory: false}
- {name: secrets, kind: Secret, labelSelector: {matchLabels: {record: 'yes'}}, namespace: {nameSelector: {matchNames: [record]}}, queue: group, group: main, jqFilter: .type, keepFullObjectsInMemory: false}
END
exit 0; fi
. "$RECORD_LIB"
