#!/bin/sh
# Removes the node agent: its service, its files, and at last this script. What the agent has installed on the machine,
# such as RKE2 or K3s, stays.
#
# CATTLE_AGENT_CONFIG_DIR, CATTLE_AGENT_VAR_DIR and CATTLE_AGENT_BIN_PREFIX must be what they were at the installation.

set -eu

SERVICE=rancher-system-agent
TUNNEL=${SERVICE}-tunnel
UNIT_DIR=/etc/systemd/system
DEFAULT_PREFIX=/usr/local
FALLBACK_PREFIX=/opt/rancher-system-agent

fatal() {
    printf '[FATAL] %s\n' "$*" >&2
    exit 1
}

is_mount_point() {
    grep -q -F " $1 " /proc/self/mounts 2>/dev/null
}

is_writable() {
    (: >"$1/.herdsman-write-test") 2>/dev/null && rm -f "$1/.herdsman-write-test"
}

# The prefix is where this script lies; one that lies elsewhere goes by the installer's rule.
find_prefix() {
    case "$0" in
    /*/bin/rancher-system-agent-uninstall.sh) printf '%s' "${0%/bin/*}" ;;
    *)
        if is_mount_point "${DEFAULT_PREFIX}" || ! is_writable "${DEFAULT_PREFIX}"; then
            printf '%s' "${FALLBACK_PREFIX}"
        else
            printf '%s' "${DEFAULT_PREFIX}"
        fi
        ;;
    esac
}

# Only what can be a directory of ours is removed with everything in it.
remove_directory() {
    case "$1" in
    *..*) fatal "$1 is not removed: it has .. in it" ;;
    /*/*/?*) rm -rf "$1" ;;
    *) fatal "$1 is not removed: it is too near to the top to be the agent's" ;;
    esac
}

# systemd may be unreachable, in a chroot for example, and the service may be gone already.
tell_systemd() {
    if command -v systemctl >/dev/null 2>&1; then
        systemctl "$@" >/dev/null 2>&1 || true
    fi
}

main() {
    [ "$(id -u)" -eq 0 ] || fatal "this must be run as root"
    config_dir=${CATTLE_AGENT_CONFIG_DIR:-/etc/rancher/agent}
    var_dir=${CATTLE_AGENT_VAR_DIR:-/var/lib/rancher/agent}
    prefix=${CATTLE_AGENT_BIN_PREFIX:-$(find_prefix)}

    tell_systemd stop "${SERVICE}"
    tell_systemd disable "${SERVICE}"
    # The path first: it would start the service again.
    tell_systemd stop "${TUNNEL}.path"
    tell_systemd stop "${TUNNEL}.service"
    tell_systemd disable "${TUNNEL}.path"
    rm -f "${UNIT_DIR}/${SERVICE}.service" "${UNIT_DIR}/${SERVICE}.env"
    rm -f "${UNIT_DIR}/${TUNNEL}.service" "${UNIT_DIR}/${TUNNEL}.path"
    rm -f /etc/rancher/agent/tunnel.yaml /etc/rancher/agent/tunnel-token /etc/rancher/agent/tunnel-ca.crt
    tell_systemd daemon-reload
    tell_systemd reset-failed "${SERVICE}"
    remove_directory "${var_dir}"
    remove_directory "${config_dir}"
    rm -f "${prefix}/bin/rancher-system-agent"
    rm -f "${prefix}/bin/rancher-system-agent-uninstall.sh"
    # Only if it was made for the agent and is empty now.
    if [ "${prefix}" = "${FALLBACK_PREFIX}" ]; then
        rmdir "${prefix}/bin" "${prefix}" 2>/dev/null || true
    fi
    printf '[INFO]  %s is removed\n' "${SERVICE}"
}

main "$@"
