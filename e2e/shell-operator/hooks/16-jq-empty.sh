#!/bin/sh
# A jqFilter without a result.
if [ "$1" = --config ]; then cat <<'END'
configVersion: v1
kubernetes:
- {name: maps, kind: ConfigMap, labelSelector: {matchLabels: {record: 'yes'}}, namespace: {nameSelector: {matchNames: [record]}}, queue: jq-empty, jqFilter: 'empty'}
END
exit 0; fi
. "$RECORD_LIB"
