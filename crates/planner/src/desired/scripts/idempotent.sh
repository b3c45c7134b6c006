#!/bin/sh
# Runs a command once for each value: idempotent.sh KEY VALUE-HASH COMMAND-HASH COMMAND DIRECTORY [ARGUMENT...]
# A run that fails is not remembered: the next attempt runs the command again.
set -eu
key=$1 value=$2 hash=$3 command=$4 directory=$5
shift 5
mark="$directory/idempotence/$key/$hash/$value/done"
if [ -e "$mark" ]; then
    echo "$key: done before for this value"
    exit 0
fi
mkdir -p "${mark%/*}"
"$command" "$@"
: > "$mark"
