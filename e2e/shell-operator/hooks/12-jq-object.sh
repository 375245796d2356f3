#!/bin/sh
# A jqFilter with an object of several types.
if [ "$1" = --config ]; then cat <<'END'
configVersion: v1
kubernetes:
- {name: maps, kind: ConfigMap, labelSelector: {matchLabels: {record: 'yes'}}, namespace: {nameSelector: {matchNames: [record]}}, queue: jq-object, jqFilter: '{name: .metadata.name, number: (.data.k | tonumber), half: ((.data.k | tonumber) / 2), list: [.data | keys[]], nothing: null, yes: true, text: "<a & \"b\">"}'}
END
exit 0; fi
. "$RECORD_LIB"
