#!/bin/sh
# What the plan's instruction runs, in the directory that the image's files are in: K3s's own install.sh, told not to download
# anything, and to restart the service when the plan says so by a new stamp.
set -eu

stamp=${K3S_DATA_DIR:-/var/lib/rancher/k3s}/restart_stamp
restart=false
if [ -n "${RESTART_STAMP:-}" ] && [ "$(cat "$stamp" 2>/dev/null)" != "$RESTART_STAMP" ]; then
    restart=true
fi

# Another file under the name: the one that runs cannot be written to.
mkdir -p /usr/local/bin
cp k3s /usr/local/bin/.k3s.new
chmod 755 /usr/local/bin/.k3s.new
mv /usr/local/bin/.k3s.new /usr/local/bin/k3s

INSTALL_K3S_FORCE_RESTART=$restart INSTALL_K3S_SKIP_DOWNLOAD=true \
    INSTALL_K3S_SKIP_SELINUX_RPM=true INSTALL_K3S_SELINUX_WARN=true sh ./installer.sh

if [ -n "${RESTART_STAMP:-}" ]; then
    mkdir -p "${stamp%/*}"
    printf '%s' "$RESTART_STAMP" > "$stamp"
fi
