#!/bin/sh
# A jqFilter with two results.
if [ "$1" = --config ]; then cat <<'END'
configVersion: v1
kubernetes:
- {name: maps, kind: ConfigMap, labelSelector: {matchLabels: {record: 'yes'}}, namespace: {nameSelector: {matchNames: [record]}}, queue: jq-many, jqFilter: '.data.k, .metadata.name'}
END
exit 0; fi
. "$RECORD_LIB"
