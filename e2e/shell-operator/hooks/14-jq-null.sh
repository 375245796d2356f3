#!/bin/sh
# A jqFilter with null.
if [ "$1" = --config ]; then cat <<'END'
configVersion: v1
kubernetes:
- {name: maps, kind: ConfigMap, labelSelector: {matchLabels: {record: 'yes'}}, namespace: {nameSelector: {matchNames: [record]}}, queue: jq-null, jqFilter: .data.missing}
END
exit 0; fi
. "$RECORD_LIB"
