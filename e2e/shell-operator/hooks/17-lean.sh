#!/bin/sh
# keepFullObjectsInMemory: false with a jqFilter.
if [ "$1" = --config ]; then cat <<'END'
configVersion: v1
kubernetes:
- {name: maps, kind: ConfigMap, labelSelector: {matchLabels: {record: 'yes'}}, namespace: {nameSelector: {matchNames: [record]}}, queue: lean, jqFilter: .data, keepFullObjectsInMemory: false}
END
exit 0; fi
. "$RECORD_LIB"
