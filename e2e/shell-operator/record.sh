#!/bin/sh
# Copies the binding context of a run to a file of its own. Hooks in sh source it; others run it with their name.
record_hook=$(basename "${1:-$0}")
mkdir -p "$RECORD_DIR/$record_hook"
record_number=$(ls "$RECORD_DIR/$record_hook" | grep -c json)
cp "$BINDING_CONTEXT_PATH" "$RECORD_DIR/$record_hook/part"
mv "$RECORD_DIR/$record_hook/part" "$RECORD_DIR/$record_hook/$(printf %03d "$record_number").json"
