#!/bin/sh
# rancher-machine as far as its Jobs see it. What becomes of a server's first try is in its name; every later one goes well.
# Each is written down: how often, the words, the environment.

notes=@NOTES@
[ "$1" = --storage-path ] || exit 64
storage=$2
verb=$3
shift 3
for name; do :; done
server=$storage/machines/$name
tries=$(($(cat "$notes/$name.$verb" 2>/dev/null || echo 0) + 1))
echo "$tries" >"$notes/$name.$verb"
printf '%s\n' "$@" >"$notes/$name.$verb.words"
env >"$notes/$name.$verb.env"

fail() {
    echo "$2" >&2
    exit "$1"
}

# What rancher-machine writes down before a cloud is asked for anything.
save() {
    mkdir -p "$server"
    cp "$key" "$server/id_rsa"
    printf '{"DriverName": "scripted", "Driver": {"IPAddress": "10.0.0.9", "SSHUser": "root", "SSHKeyPath": "%s"}}' \
        "$server/id_rsa" >"$server/config.json"
}

create() {
    while [ $# -gt 1 ]; do
        case $1 in
        --scripted-key-file) key=$2 ;;
        --custom-install-script) script=$2 ;;
        esac
        shift
    done
    cp "$script" "$notes/$name.script"
    case $name-$tries in
    check-1) fail 3 "Error with pre-create check: \"no quota left\"" ;;
    early-1) fail 1 "Error setting machine configuration from flags provided: no such region" ;;
    create-1) save; fail 1 "Error creating machine: Error in driver during machine creation: out of disks" ;;
    wait-1) save; fail 1 "Error creating machine: Error waiting for machine to be running: Maximum number of retries (60) exceeded" ;;
    script-1) save; fail 1 "Error creating machine: Error running provisioning: ssh command error: exit status 7" ;;
    killed-1) save; echo "Creating machine..."; kill -9 $$ ;;
    odd-1) save; fail 42 "panic: runtime error" ;;
    esac
    save
    echo "Machine created"
}

remove() {
    # It is told to read what it knows first: of nothing it knows nothing.
    [ -e "$server/config.json" ] || fail 1 "Docker machine \"$name\" does not exist"
    grep -q "\"$server/id_rsa\"" "$server/config.json" || fail 1 "Error: no key at $server/id_rsa"
    [ -e "$server/id_rsa" ] || fail 1 "Error: no key at $server/id_rsa"
    case $name-$tries in
    stays-1 | stays-2) fail 1 "Error removing host \"$name\": the cloud says no" ;;
    esac
    rm -r "$server"
}

case $verb in
create) create "$@" ;;
rm) remove ;;
*) exit 64 ;;
esac
