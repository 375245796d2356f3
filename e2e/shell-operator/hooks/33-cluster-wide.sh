#!/bin/sh
# Objects without a namespace.
if [ "$1" = --config ]; then cat <<'END'
configVersion: v1
kubernetes:
- {name: namespaces, kind: Namespace, nameSelector: {matchNames: [record]}, queue: cluster-wide}
END
exit 0; fi
. "$RECORD_LIB"
