#!/bin/sh
# Custom resources.
if [ "$1" = --config ]; then cat <<'END'
configVersion: v1
kubernetes:
- {name: things, apiVersion: record.example.com/v1, kind: Thing, namespace: {nameSelector: {matchNames: [record]}}, queue: custom, jqFilter: .spec}
END
exit 0; fi
. "$RECORD_LIB"
