#!/bin/sh
# Installs the node agent as the systemd service rancher-system-agent, or brings an installed one up to date.
#
#   curl -fL https://SERVER/system-agent-install.sh | sudo sh -s - --server https://SERVER --token TOKEN --worker
#
# Every flag and variable is described in docs/install-agent.md. Nothing that is installed is touched before everything
# that is needed is here and checked; when the script fails afterwards, a service that was running runs again.
#
# POSIX sh; needs systemd, curl or GNU wget, and sha256sum.

set -eu

SERVICE=rancher-system-agent
UNIT_DIR=/etc/systemd/system
UNIT_FILE=${UNIT_DIR}/${SERVICE}.service
ENV_FILE=${UNIT_DIR}/${SERVICE}.env
# Beside it, on machines whose plan brings what it needs: the way through which the server reaches the cluster.
TUNNEL=${SERVICE}-tunnel
TUNNEL_CONFIG=/etc/rancher/agent/tunnel.yaml
DEFAULT_PREFIX=/usr/local
FALLBACK_PREFIX=/opt/rancher-system-agent

# About six hours of tries: a machine may well boot before its server does.
TRIES=${HERDSMAN_INSTALL_TRIES:-4500}
PAUSE=${HERDSMAN_INSTALL_PAUSE:-5}
# A server that is there and says no, or has a certificate that is not trusted, seldom changes its mind. Its caches may
# not be filled yet, and the clock of a machine that boots may be wrong, so it is asked for some minutes.
MAX_REFUSALS=60
MAX_UNTRUSTED=24
# How often a plan that is being applied is looked at before it is taken for dead.
MAX_APPLY_CHECKS=59

NEWLINE='
'
SCRATCH='' PENDING_FILE='' NEW_FILES='' STOPPED=false

info() { printf '[INFO]  %s\n' "$*"; }
warn() { printf '[WARN]  %s\n' "$*" >&2; }
fatal() { printf '[FATAL] %s\n' "$*" >&2 && exit 1; }

# Leaves nothing behind, whatever happened: no half-written file, no file that makes the agent wait for us.
clean_up() {
    code=$?
    trap - EXIT HUP INT TERM
    set +e
    if [ "${STOPPED}" = true ] && [ "${code}" -ne 0 ]; then
        warn "starting ${SERVICE} again, as it was before"
        systemctl start "${SERVICE}"
    fi
    [ -z "${PENDING_FILE}" ] || rm -f "${PENDING_FILE}"
    printf '%s' "${NEW_FILES}" | while IFS= read -r file; do
        rm -f "${file}"
    done
    [ -z "${SCRATCH}" ] || rm -rf "${SCRATCH}"
    exit "${code}"
}

lower() { printf '%s' "$1" | tr '[:upper:]' '[:lower:]'; }
has() { command -v "$1" >/dev/null 2>&1; }

# ---- what is asked for

need_value() { [ "$2" -ge 2 ] || fatal "$1 needs a value"; }

parse_arguments() {
    while [ $# -gt 0 ]; do
        case "$1" in
        -a | --all-roles)
            CATTLE_ROLE_CONTROLPLANE=true CATTLE_ROLE_ETCD=true CATTLE_ROLE_WORKER=true
            shift && continue
            ;;
        -p | --controlplane) CATTLE_ROLE_CONTROLPLANE=true && shift && continue ;;
        -e | --etcd) CATTLE_ROLE_ETCD=true && shift && continue ;;
        -w | --worker) CATTLE_ROLE_WORKER=true && shift && continue ;;
        --no-roles) CATTLE_ROLE_NONE=true && shift && continue ;;
        esac
        case "$1" in
        -n | --node-name) need_value "$1" $# && CATTLE_NODE_NAME=$2 ;;
        --address) need_value "$1" $# && CATTLE_ADDRESS=$2 ;;
        -i | --internal-address) need_value "$1" $# && CATTLE_INTERNAL_ADDRESS=$2 ;;
        -l | --label) need_value "$1" $# && CATTLE_LABELS=${CATTLE_LABELS:+${CATTLE_LABELS},}$2 ;;
        --taint | --taints) need_value "$1" $# && CATTLE_TAINTS=${CATTLE_TAINTS:+${CATTLE_TAINTS},}$2 ;;
        -s | --server) need_value "$1" $# && CATTLE_SERVER=$2 ;;
        -t | --token) need_value "$1" $# && CATTLE_TOKEN=$2 ;;
        -c | --ca-checksum) need_value "$1" $# && CATTLE_CA_CHECKSUM=$2 ;;
        *) fatal "unknown argument $1; docs/install-agent.md lists those that there are" ;;
        esac
        shift 2
    done
}

# Variables that are not set get their defaults, before flags change them.
set_defaults() {
    : "${DEBUG:=}" "${ARCH:=}" "${STRICT_VERIFY:=}"
    : "${CATTLE_SERVER:=}" "${CATTLE_TOKEN:=}" "${CATTLE_CA_CHECKSUM:=}" "${CATTLE_ID:=}"
    : "${CATTLE_ROLE_CONTROLPLANE:=false}" "${CATTLE_ROLE_ETCD:=false}"
    : "${CATTLE_ROLE_WORKER:=false}" "${CATTLE_ROLE_NONE:=false}"
    : "${CATTLE_LABELS:=}" "${CATTLE_TAINTS:=}" "${CATTLE_NODE_NAME:=}"
    : "${CATTLE_ADDRESS:=}" "${CATTLE_INTERNAL_ADDRESS:=}"
    : "${CATTLE_REMOTE_ENABLED:=true}" "${CATTLE_LOCAL_ENABLED:=false}" "${CATTLE_PRESERVE_WORKDIR:=false}"
    : "${CATTLE_AGENT_LOGLEVEL:=info}" "${CATTLE_AGENT_STRICT_VERIFY:=}" "${CATTLE_AGENT_FALLBACK_PATH:=}"
    : "${CATTLE_AGENT_CONFIG_DIR:=/etc/rancher/agent}" "${CATTLE_AGENT_VAR_DIR:=}" "${CATTLE_AGENT_BIN_PREFIX:=}"
    : "${CATTLE_AGENT_BINARY_BASE_URL:=}" "${CATTLE_AGENT_BINARY_URL:=}" "${CATTLE_AGENT_UNINSTALL_URL:=}"
    : "${CATTLE_AGENT_BINARY_LOCAL:=false}" "${CATTLE_AGENT_BINARY_LOCAL_LOCATION:=}"
    : "${CATTLE_AGENT_UNINSTALL_LOCAL:=false}" "${CATTLE_AGENT_UNINSTALL_LOCAL_LOCATION:=}"
    : "${CATTLE_AGENT_BINARY_CHECKSUM:=}" "${CATTLE_AGENT_UNINSTALL_CHECKSUM:=}"
    : "${HTTP_PROXY:=}" "${HTTPS_PROXY:=}" "${NO_PROXY:=}" "${http_proxy:=}" "${https_proxy:=}" "${no_proxy:=}"
}

settle_architecture() {
    case "${ARCH:=$(uname -m)}" in
    amd64 | x86_64) ARCH=amd64 ;;
    arm64 | aarch64) ARCH=arm64 ;;
    s390x) ARCH=s390x ;;
    arm*) ARCH=arm ;;
    *) fatal "architecture ${ARCH} is not supported; it is one of amd64, arm64, arm, s390x" ;;
    esac
}

settle_roles() {
    if [ "${CATTLE_ROLE_NONE}" = true ]; then
        CATTLE_ROLE_CONTROLPLANE=false CATTLE_ROLE_ETCD=false CATTLE_ROLE_WORKER=false
    fi
}

settle_modes() {
    CATTLE_REMOTE_ENABLED=$(lower "${CATTLE_REMOTE_ENABLED}")
    CATTLE_LOCAL_ENABLED=$(lower "${CATTLE_LOCAL_ENABLED}")
    CATTLE_PRESERVE_WORKDIR=$(lower "${CATTLE_PRESERVE_WORKDIR}")
    CATTLE_AGENT_LOGLEVEL=$(lower "${CATTLE_AGENT_LOGLEVEL}")
    CATTLE_AGENT_STRICT_VERIFY=$(lower "${CATTLE_AGENT_STRICT_VERIFY:-${STRICT_VERIFY:-false}}")
    CATTLE_SERVER=${CATTLE_SERVER%/}
    if [ "${CATTLE_REMOTE_ENABLED}" != true ]; then
        [ "${CATTLE_LOCAL_ENABLED}" = true ] ||
            fatal "neither remote nor local plans are enabled; set CATTLE_REMOTE_ENABLED or CATTLE_LOCAL_ENABLED to true"
        return 0
    fi
    [ -n "${CATTLE_SERVER}" ] || fatal "no server; pass --server URL or set CATTLE_SERVER"
    [ -n "${CATTLE_TOKEN}" ] || fatal "no token; pass --token TOKEN or set CATTLE_TOKEN"
    case "${CATTLE_TOKEN}" in *"${NEWLINE}"*) fatal "the token has a line break in it" ;; esac
    case "${CATTLE_SERVER}" in
    https://*) ;;
    # Whoever listens on the way would have the token, and could send another agent.
    http://*) [ "${HERDSMAN_INSTALL_ALLOW_HTTP:-}" = true ] ||
        fatal "the server ${CATTLE_SERVER} is not encrypted; use https://, or set HERDSMAN_INSTALL_ALLOW_HTTP=true" ;;
    *) fatal "the server ${CATTLE_SERVER} is not a URL; it begins with https://" ;;
    esac
    case "${CATTLE_ROLE_CONTROLPLANE} ${CATTLE_ROLE_ETCD} ${CATTLE_ROLE_WORKER} ${CATTLE_ROLE_NONE}" in
    *true*) ;;
    *) fatal "no role; pass at least one of --controlplane, --etcd, --worker, --all-roles, --no-roles" ;;
    esac
    if [ "${CATTLE_AGENT_STRICT_VERIFY}" = true ] && [ -z "${CATTLE_CA_CHECKSUM}" ]; then
        fatal "strict verification needs the checksum of the server's CA; pass --ca-checksum or set CATTLE_CA_CHECKSUM"
    fi
}

# Whether a directory takes a new file.
is_writable() { (: >"$1/.herdsman-write-test") 2>/dev/null && rm -f "$1/.herdsman-write-test"; }
is_mount_point() { grep -q -F " $1 " /proc/self/mounts 2>/dev/null; }

# A file system that is put together anew, or not written to, at an update is no place for us.
default_prefix_is_unsuitable() { is_mount_point "${DEFAULT_PREFIX}" || ! is_writable "${DEFAULT_PREFIX}"; }

# Inside of transactional-update: what is in /var, /opt and /usr/local is not part of the snapshot.
is_transactional_update() { [ -x /usr/sbin/transactional-update ] && is_writable /; }

settle_places() {
    [ -d "${DEFAULT_PREFIX}" ] || mkdir -p "${DEFAULT_PREFIX}" 2>/dev/null || true
    if [ -z "${CATTLE_AGENT_VAR_DIR}" ]; then
        CATTLE_AGENT_VAR_DIR=/var/lib/rancher/agent
        if is_transactional_update; then
            CATTLE_AGENT_VAR_DIR=/etc/rancher/agent/var
        fi
    fi
    if [ -z "${CATTLE_AGENT_BIN_PREFIX}" ]; then
        CATTLE_AGENT_BIN_PREFIX=${DEFAULT_PREFIX}
        if is_transactional_update; then
            CATTLE_AGENT_BIN_PREFIX=/usr
            warn "inside of transactional-update: installing to ${CATTLE_AGENT_BIN_PREFIX}"
        elif default_prefix_is_unsuitable; then
            CATTLE_AGENT_BIN_PREFIX=${FALLBACK_PREFIX}
            warn "${DEFAULT_PREFIX} is read-only or a mount point: installing to ${CATTLE_AGENT_BIN_PREFIX}"
        fi
    fi
    for path in "${CATTLE_AGENT_CONFIG_DIR}" "${CATTLE_AGENT_VAR_DIR}" "${CATTLE_AGENT_BIN_PREFIX}"; do
        case "${path}" in
        /*[!A-Za-z0-9/._@+-]* | [!/]*) fatal "the directory ${path} is not an absolute path of plain characters" ;;
        esac
    done
    BIN_DIR=${CATTLE_AGENT_BIN_PREFIX}/bin
    BINARY=${BIN_DIR}/rancher-system-agent
    UNINSTALLER=${BIN_DIR}/rancher-system-agent-uninstall.sh
    CONNECTION_INFO=${CATTLE_AGENT_VAR_DIR}/rancher2_connection_info.json
}

# A file that is copied must be there; what is downloaded needs a place to come from.
check_source() {
    if [ "$2" = true ]; then
        [ -f "$3" ] || fatal "there is no file ${3:-(no path given)}; CATTLE_AGENT_$1_LOCAL_LOCATION names the one to copy"
    else
        [ -n "$4" ] || fatal "nothing to download from; set CATTLE_AGENT_BINARY_BASE_URL or CATTLE_AGENT_$1_URL"
    fi
}

settle_sources() {
    base=${CATTLE_AGENT_BINARY_BASE_URL:-${CATTLE_SERVER:+${CATTLE_SERVER}/assets}}
    base=${base%/}
    : "${CATTLE_AGENT_BINARY_URL:=${base:+${base}/rancher-system-agent-${ARCH}}}"
    : "${CATTLE_AGENT_UNINSTALL_URL:=${base:+${base}/system-agent-uninstall.sh}}"
    check_source BINARY "${CATTLE_AGENT_BINARY_LOCAL}" "${CATTLE_AGENT_BINARY_LOCAL_LOCATION}" \
        "${CATTLE_AGENT_BINARY_URL}"
    check_source UNINSTALL "${CATTLE_AGENT_UNINSTALL_LOCAL}" "${CATTLE_AGENT_UNINSTALL_LOCAL_LOCATION}" \
        "${CATTLE_AGENT_UNINSTALL_URL}"
}

check_tools() {
    has systemctl || fatal "systemctl is missing; the agent runs as a service of systemd"
    has sha256sum || fatal "sha256sum is missing; install coreutils"
    if has curl; then
        DOWNLOADER=curl
    elif has wget && wget --help 2>&1 | grep -q -e --ca-certificate; then
        DOWNLOADER=wget
    else
        fatal "there is neither curl nor a wget that can be told which CA to trust; install curl"
    fi
}

# ---- downloads

# curl takes the plain proxy only in lower case, wget takes all of them so.
export_proxies() {
    http_proxy=${http_proxy:-${HTTP_PROXY}}
    https_proxy=${https_proxy:-${HTTPS_PROXY}}
    no_proxy=${no_proxy:-${NO_PROXY}}
    export http_proxy https_proxy no_proxy
}

host_of() {
    host=${1#*://}
    host=${host%%/*}
    host=${host##*@}
    case "${host}" in
    \[*) host=${host#\[} && printf '%s' "${host%%]*}" ;;
    *) printf '%s' "${host%%:*}" ;;
    esac
}

# An IPv4 address as a number; fails for true else.
ipv4_number() {
    number=0 count=0 rest=$1.
    while [ -n "${rest}" ]; do
        part=${rest%%.*} rest=${rest#*.}
        case "${part}" in
        '' | *[!0-9]* | ????*) return 1 ;;
        esac
        # A leading zero would make it octal.
        part=$(printf '%s' "${part}" | sed 's/^0*\(.\)/\1/')
        [ "${part}" -le 255 ] || return 1
        number=$((number * 256 + part))
        count=$((count + 1))
    done
    [ "${count}" -eq 4 ] && printf '%s' "${number}"
}

# Whether an address is in a network of NO_PROXY. Older versions of curl and wget know no networks.
is_in_no_proxy_network() {
    address=$(ipv4_number "$(host_of "$1")") || return 1
    entries=${no_proxy},
    while [ -n "${entries}" ]; do
        entry=${entries%%,*} entries=${entries#*,}
        entry=$(printf '%s' "${entry}" | tr -d ' ')
        bits=${entry#*/}
        case "${entry}" in
        */*) ;;
        *) continue ;;
        esac
        case "${bits}" in
        '' | *[!0-9]* | ???*) continue ;;
        esac
        network=$(ipv4_number "${entry%%/*}") || continue
        [ "${bits}" -le 32 ] || continue
        size=$((1 << (32 - bits)))
        if [ $((address / size)) -eq $((network / size)) ]; then
            return 0
        fi
    done
    return 1
}

# fetch URL FILE SECONDS TRUST [HEADERS]: puts what is at a URL into a file, once.
# TRUST is `system`, `ca` (the server's CA), `both` or `none`; HEADERS is a file with a header on each line. A request
# with headers is not redirected: they may be secrets.
# Sets STATUS (000 without an answer), UNTRUSTED (whether that is for the certificate) and RETRY_AFTER.
fetch() {
    STATUS=000 UNTRUSTED=false RETRY_AFTER=
    rm -f "$2"
    : >"${SCRATCH}/head"
    "fetch_by_${DOWNLOADER}" "$@"
    RETRY_AFTER=$(tr -d '\r' <"${SCRATCH}/head" |
        sed -n 's/^[[:space:]]*[Rr]etry-[Aa]fter:[[:space:]]*\([0-9]\{1,3\}\)[[:space:]]*$/\1/p' | tail -n 1)
}

fetch_by_curl() {
    url=$1 file=$2 seconds=$3 trust=$4 headers=${5:-}
    # Headers go by a file: command lines can be read by everybody on the machine.
    config=${SCRATCH}/curlrc
    : >"${config}"
    set -- --silent --show-error --connect-timeout 60 --max-time "${seconds}" --config "${config}"
    if [ -n "${headers}" ]; then
        sed 's/\\/\\\\/g; s/"/\\"/g; s/^/header = "/; s/$/"/' "${headers}" >"${config}"
    else
        set -- "$@" --location --max-redirs 10
        case "${url}" in https://*) set -- "$@" --proto-redir =https ;; esac
    fi
    case "${trust}" in
    none) set -- "$@" --insecure ;;
    ca) set -- "$@" --cacert "${SCRATCH}/ca.pem" ;;
    both) set -- "$@" --cacert "${SCRATCH}/bundle.pem" ;;
    esac
    if is_in_no_proxy_network "${url}"; then set -- "$@" --noproxy '*'; fi
    # It would show the headers, the token among them.
    if [ "${DEBUG}" = 1 ] && [ -z "${headers}" ]; then set -- "$@" --verbose; fi
    code=0
    STATUS=$(curl "$@" --dump-header "${SCRATCH}/head" --write-out '%{http_code}' --output "${file}" "${url}") || code=$?
    case "${code}" in
    0) ;;
    51 | 60 | 77) STATUS=000 UNTRUSTED=true ;;
    *) STATUS=000 ;;
    esac
}

fetch_by_wget() {
    url=$1 file=$2 trust=$4 headers=${5:-}
    rc=${SCRATCH}/wgetrc
    : >"${rc}"
    set -- --server-response --tries=1 --timeout=60 --output-document="${file}"
    if [ -n "${headers}" ]; then
        sed 's/^/header = /' "${headers}" >"${rc}"
        set -- "$@" --max-redirect=0
    fi
    # It trusts a directory of the system beside a file unless it is told of another.
    case "${trust}" in
    none) set -- "$@" --no-check-certificate ;;
    ca) set -- "$@" --ca-certificate="${SCRATCH}/ca.pem" --ca-directory="${SCRATCH}/none" ;;
    both) set -- "$@" --ca-certificate="${SCRATCH}/bundle.pem" --ca-directory="${SCRATCH}/none" ;;
    esac
    if is_in_no_proxy_network "${url}"; then
        set -- "$@" --no-proxy
    fi
    code=0
    WGETRC=${rc} wget "$@" "${url}" 2>"${SCRATCH}/head" || code=$?
    STATUS=$(sed -n 's/^[[:space:]]*HTTP\/[0-9.]* \([0-9]\{3\}\).*/\1/p' "${SCRATCH}/head" | tail -n 1)
    : "${STATUS:=000}"
    # A transfer that broke off is no answer.
    case "${code} ${STATUS}" in
    0\ * | *\ [345]*) ;;
    *) STATUS=000 ;;
    esac
    if [ "${code}" -eq 5 ]; then
        UNTRUSTED=true
    fi
}

# insist WHAT CHECK URL FILE SECONDS TRUST [HEADERS]: fetches until there is an answer 200 that CHECK accepts.
# Fails, with WHY set, when that has no prospect any more.
insist() {
    what=$1 check=$2
    shift 2
    tries=0 refusals=0 untrusted=0
    while :; do
        tries=$((tries + 1))
        fetch "$@"
        WHY="status ${STATUS}"
        if [ "${STATUS}" = 200 ]; then
            if "${check}" "$2"; then
                return 0
            fi
            WHY="the answer is not what it should be"
        elif [ "${UNTRUSTED}" = true ]; then
            untrusted=$((untrusted + 1))
            WHY="the certificate is not trusted"
        elif [ "${STATUS}" = 000 ]; then
            WHY="no answer"
        fi
        case "${STATUS}" in
        408 | 429) ;;
        4??) refusals=$((refusals + 1)) ;;
        esac
        if [ "${tries}" -ge "${TRIES}" ] || [ "${refusals}" -ge "${MAX_REFUSALS}" ] ||
            [ "${untrusted}" -ge "${MAX_UNTRUSTED}" ]; then
            WHY="${WHY} (from $1, ${tries} times)"
            return 1
        fi
        pause=${RETRY_AFTER:-${PAUSE}}
        warn "${what}: ${WHY}; once more in ${pause} s"
        sleep "${pause}"
    done
}

sha256_of() {
    sha256sum "$1" | cut -d ' ' -f 1
}

# ---- the server

# Without strict verification a CA that the system trusts anyway needs no checksum.
check_ca_is_needed() {
    tries=0
    while :; do
        tries=$((tries + 1))
        fetch "${CATTLE_SERVER}/healthz" "${SCRATCH}/healthz" 60 system
        if [ "${UNTRUSTED}" = true ]; then
            return 0
        fi
        if [ "${STATUS}" != 000 ]; then
            info "the system trusts ${CATTLE_SERVER} already: its CA is not needed"
            CATTLE_CA_CHECKSUM=
            return 0
        fi
        [ "${tries}" -lt "${TRIES}" ] || fatal "no answer from ${CATTLE_SERVER}; check the address, the network and the proxy settings"
        warn "no answer from ${CATTLE_SERVER}; once more in ${PAUSE} s"
        sleep "${PAUSE}"
    done
}

# The CA comes over a connection that nobody vouches for: its checksum does.
get_ca() {
    insist "getting the CA" true "${CATTLE_SERVER}/cacerts" "${SCRATCH}/ca.pem" 60 none ||
        fatal "cannot get the server's CA: ${WHY}"
    [ -s "${SCRATCH}/ca.pem" ] ||
        fatal "a CA checksum is given, but ${CATTLE_SERVER}/cacerts has no CA; leave --ca-checksum out if the system trusts the server"
    grep -q -e '-----BEGIN CERTIFICATE-----' "${SCRATCH}/ca.pem" ||
        fatal "what ${CATTLE_SERVER}/cacerts answers is not a certificate; is this the right server?"
    actual=$(sha256_of "${SCRATCH}/ca.pem") expected=$(lower "${CATTLE_CA_CHECKSUM}")
    [ "${actual}" = "${expected}" ] ||
        fatal "the CA at ${CATTLE_SERVER}/cacerts has the checksum ${actual}, not ${expected}: either the checksum is of an older CA, or somebody is between us and the server"
    cp "${SCRATCH}/ca.pem" "${SCRATCH}/bundle.pem"
    for bundle in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/ca-bundle.pem /etc/ssl/cert.pem; do
        if [ -r "${bundle}" ]; then
            cat "${bundle}" >>"${SCRATCH}/bundle.pem"
            break
        fi
    done
    SERVER_TRUST=ca OTHER_TRUST=both
    info "the server's CA has the right checksum"
}

check_server() {
    SERVER_TRUST=system OTHER_TRUST=system
    if [ "${CATTLE_REMOTE_ENABLED}" != true ] && [ -z "${CATTLE_SERVER}" ]; then
        return 0
    fi
    if [ -n "${CATTLE_CA_CHECKSUM}" ] && [ "${CATTLE_AGENT_STRICT_VERIFY}" != true ]; then
        check_ca_is_needed
    fi
    if [ -n "${CATTLE_CA_CHECKSUM}" ]; then
        get_ca
    fi
    if [ "${CATTLE_REMOTE_ENABLED}" = true ]; then
        insist "asking the server" true "${CATTLE_SERVER}/healthz" "${SCRATCH}/healthz" 60 "${SERVER_TRUST}" ||
            fatal "cannot use the server: ${WHY}; for a certificate that is not trusted, pass --ca-checksum"
    fi
}

# Whom to trust at a URL: the server's CA may have signed other hosts too.
trust_for() {
    case "$1" in
    "${CATTLE_SERVER}"/*) printf '%s' "${SERVER_TRUST}" ;;
    *) printf '%s' "${OTHER_TRUST}" ;;
    esac
}

# The checksum beside a file, if there is one.
published_checksum() {
    fetch "$1.sha256" "${SCRATCH}/checksum" 60 "$(trust_for "$1")"
    if [ "${STATUS}" = 200 ]; then
        sed -n '1s/^\([0-9a-f]\{64\}\)\([[:space:]].*\)\{0,1\}$/\1/p' "${SCRATCH}/checksum"
    fi
}

# provide WHAT TARGET LOCAL LOCATION URL CHECKSUM: puts a program beside its target, checked. It does not replace it yet.
provide() {
    program=$1 new_file=$2.new is_local=$3 location=$4 source=$5 checksum=$6
    NEW_FILES="${NEW_FILES}${new_file}
"
    if [ "${is_local}" = true ]; then
        info "copying ${program} from ${location}"
        cp -f "${location}" "${new_file}" || fatal "cannot copy ${location} to ${new_file}"
    else
        info "downloading ${program} from ${source}"
        insist "downloading ${program}" true "${source}" "${new_file}" 300 "$(trust_for "${source}")" ||
            fatal "cannot download ${program}: ${WHY}"
        [ -n "${checksum}" ] || checksum=$(published_checksum "${source}")
    fi
    if [ -n "${checksum}" ]; then
        actual=$(sha256_of "${new_file}")
        [ "${actual}" = "$(lower "${checksum}")" ] ||
            fatal "${program} has the checksum ${actual}, not ${checksum}: it is another version, or it was changed on the way"
        info "${program} has the right checksum"
    fi
    chmod 0755 "${new_file}"
    chown root:root "${new_file}"
}

provide_programs() {
    mkdir -p "${BIN_DIR}" || fatal "cannot make ${BIN_DIR}; set CATTLE_AGENT_BIN_PREFIX to a directory that can be written"
    provide "the agent" "${BINARY}" "${CATTLE_AGENT_BINARY_LOCAL}" "${CATTLE_AGENT_BINARY_LOCAL_LOCATION}" \
        "${CATTLE_AGENT_BINARY_URL}" "${CATTLE_AGENT_BINARY_CHECKSUM}"
    provide "the uninstall script" "${UNINSTALLER}" "${CATTLE_AGENT_UNINSTALL_LOCAL}" \
        "${CATTLE_AGENT_UNINSTALL_LOCAL_LOCATION}" "${CATTLE_AGENT_UNINSTALL_URL}" "${CATTLE_AGENT_UNINSTALL_CHECKSUM}"
}

# ---- who this machine is

metadata() {
    printf '%s\n' "${2:-Accept: */*}" >"${SCRATCH}/metadata-headers"
    fetch "$1" "${SCRATCH}/metadata" 60 system "${SCRATCH}/metadata-headers"
    if [ "${STATUS}" = 200 ]; then
        head -n 1 "${SCRATCH}/metadata"
    else
        warn "$1 does not tell the address (status ${STATUS}): it is left out"
    fi
}

# Amazon may insist on a token for its metadata.
aws_metadata() {
    header="Accept: */*"
    if [ "${DOWNLOADER}" = curl ]; then
        token=$(curl --silent --fail --noproxy '*' --connect-timeout 5 --max-time 10 --request PUT \
            --header 'X-aws-ec2-metadata-token-ttl-seconds: 60' http://169.254.169.254/latest/api/token) || token=
        [ -z "${token}" ] || header="X-aws-ec2-metadata-token: ${token}"
    fi
    metadata "http://169.254.169.254/latest/meta-data/$1" "${header}"
}

# The address that a word stands for: an interface's first, a cloud's answer, or the word itself.
address_of() {
    azure='http://169.254.169.254/metadata/instance/network/interface/0/ipv4/ipAddress/0'
    google='http://metadata.google.internal/computeMetadata/v1/instance/network-interfaces/0'
    case "$1" in
    '') ;;
    awslocal) aws_metadata local-ipv4 ;;
    awspublic) aws_metadata public-ipv4 ;;
    doprivate) metadata http://169.254.169.254/metadata/v1/interfaces/private/0/ipv4/address ;;
    dopublic) metadata http://169.254.169.254/metadata/v1/interfaces/public/0/ipv4/address ;;
    azprivate) metadata "${azure}/privateIpAddress?api-version=2017-08-01&format=text" Metadata:true ;;
    azpublic) metadata "${azure}/publicIpAddress?api-version=2017-08-01&format=text" Metadata:true ;;
    gceinternal) metadata "${google}/ip" 'Metadata-Flavor: Google' ;;
    gceexternal) metadata "${google}/access-configs/0/external-ip" 'Metadata-Flavor: Google' ;;
    packetlocal) metadata https://metadata.packet.net/2009-04-04/meta-data/local-ipv4 ;;
    packetpublic) metadata https://metadata.packet.net/2009-04-04/meta-data/public-ipv4 ;;
    ipify) metadata https://api.ipify.org ;;
    */*) printf '%s\n' "$1" ;;
    *)
        if [ -e "/sys/class/net/$1" ]; then
            ip -o addr show dev "$1" | sed -n 's/.* inet \([0-9.]*\).*/\1/p' | head -n 1
        else
            printf '%s\n' "$1"
        fi
        ;;
    esac
}

settle_identity() {
    if [ -n "${CATTLE_ID}" ]; then
        return 0
    fi
    id_file=${CATTLE_AGENT_CONFIG_DIR}/cattle-id
    if [ -f "${id_file}" ]; then
        CATTLE_ID=$(cat "${id_file}")
        [ -n "${CATTLE_ID}" ] ||
            fatal "${id_file} is empty; remove it to register this machine as a new one"
        return 0
    fi
    dd if=/dev/urandom of="${SCRATCH}/random" bs=512 count=1 2>/dev/null
    CATTLE_ID=$(sha256_of "${SCRATCH}/random" | cut -c 1-63)
    printf '%s\n' "${CATTLE_ID}" | write_file "${id_file}" 0600
}

connection_info_is_valid() {
    chmod 0600 "$1"
    "${BINARY}.new" validate-connection "$1" >"${SCRATCH}/validation" 2>&1 || {
        cat "${SCRATCH}/validation" >&2
        return 1
    }
}

get_connection_info() {
    values="${CATTLE_ID}${CATTLE_NODE_NAME}${CATTLE_ADDRESS}${CATTLE_INTERNAL_ADDRESS}${CATTLE_LABELS}${CATTLE_TAINTS}"
    case "${values}" in *"${NEWLINE}"*) fatal "the name, an address, a label or a taint has a line break in it" ;; esac
    headers=${SCRATCH}/headers
    # A shell that shows every step does not show what it writes here, the token.
    cat >"${headers}" <<EOF
Authorization: Bearer ${CATTLE_TOKEN}
X-Cattle-Id: ${CATTLE_ID}
X-Cattle-Role-Etcd: ${CATTLE_ROLE_ETCD}
X-Cattle-Role-Control-Plane: ${CATTLE_ROLE_CONTROLPLANE}
X-Cattle-Role-Worker: ${CATTLE_ROLE_WORKER}
X-Cattle-Node-Name: ${CATTLE_NODE_NAME}
X-Cattle-Address: ${CATTLE_ADDRESS}
X-Cattle-Internal-Address: ${CATTLE_INTERNAL_ADDRESS}
X-Cattle-Labels: ${CATTLE_LABELS}
X-Cattle-Taints: ${CATTLE_TAINTS}
EOF
    # The agent goes by a file's name: this one must end like the real one.
    info "registering at ${CATTLE_SERVER}"
    insist registering connection_info_is_valid "${CATTLE_SERVER}/v3/connect/agent" "${SCRATCH}/connection.json" 60 \
        "${SERVER_TRUST}" "${headers}" ||
        fatal "cannot register: ${WHY}; a status 401 means that the server does not know the token: get a new one from it"
}

# ---- putting it there

# write_file PATH MODE: the standard input becomes a file, whole or not at all.
write_file() {
    part=$1.part
    if ! { (umask 077 && cat >"${part}") && chmod "$2" "${part}" && chown root:root "${part}" && mv -f "${part}" "$1"; }; then
        rm -f "${part}"
        fatal "cannot write $1"
    fi
}

make_directories() {
    for directory in "${CATTLE_AGENT_CONFIG_DIR}" "${CATTLE_AGENT_VAR_DIR}" "${CATTLE_AGENT_VAR_DIR}/interlock"; do
        if ! { mkdir -p "${directory}" && chmod 0700 "${directory}" && chown root:root "${directory}"; }; then
            fatal "cannot make ${directory}"
        fi
    done
}

# Tells the agent not to begin with a plan, and waits for one that it is at.
hold_plans() {
    PENDING_FILE=${CATTLE_AGENT_VAR_DIR}/interlock/restart-pending
    : >"${PENDING_FILE}"
    active=${CATTLE_AGENT_VAR_DIR}/interlock/applyinator-active
    checks=0
    while [ -f "${active}" ] && [ "${checks}" -lt "${MAX_APPLY_CHECKS}" ]; do
        owner=$(sed -n 's/^pid=\([0-9][0-9]*\)$/\1/p' "${active}" 2>/dev/null | head -n 1)
        if [ -n "${owner}" ] && [ ! -d "/proc/${owner}" ]; then
            break
        fi
        checks=$((checks + 1))
        info "the agent is applying a plan; looking again in ${PAUSE} s"
        sleep "${PAUSE}"
    done
}

write_config() {
    {
        cat <<EOF
workDirectory: ${CATTLE_AGENT_VAR_DIR}/work
appliedPlanDirectory: ${CATTLE_AGENT_VAR_DIR}/applied
remoteEnabled: ${CATTLE_REMOTE_ENABLED}
localEnabled: ${CATTLE_LOCAL_ENABLED}
localPlanDirectory: ${CATTLE_AGENT_VAR_DIR}/plans
interlockDirectory: ${CATTLE_AGENT_VAR_DIR}/interlock
preserveWorkDirectory: ${CATTLE_PRESERVE_WORKDIR}
EOF
        if [ "${CATTLE_REMOTE_ENABLED}" = true ]; then
            printf 'connectionInfoFile: %s\n' "${CONNECTION_INFO}"
        fi
    } | write_file "${CATTLE_AGENT_CONFIG_DIR}/config.yaml" 0600
}

write_unit() {
    mkdir -p "${UNIT_DIR}"
    write_file "${UNIT_FILE}" 0644 <<EOF
[Unit]
Description=Rancher System Agent
Documentation=https://www.rancher.com
Wants=network-online.target
After=network-online.target

[Install]
WantedBy=multi-user.target

[Service]
EnvironmentFile=-/etc/default/rancher-system-agent
EnvironmentFile=-/etc/sysconfig/rancher-system-agent
EnvironmentFile=-${ENV_FILE}
Type=simple
Restart=always
RestartSec=5s
Environment=CATTLE_LOGLEVEL=${CATTLE_AGENT_LOGLEVEL}
Environment=CATTLE_AGENT_CONFIG=${CATTLE_AGENT_CONFIG_DIR}/config.yaml
Environment=CATTLE_AGENT_STRICT_VERIFY=${CATTLE_AGENT_STRICT_VERIFY}
ExecStart=${BINARY} sentinel
EOF
}

# Rancher's agent has no tunnel.
has_tunnel() { "${BINARY}" help 2>/dev/null | grep -q '^  tunnel '; }

# The agent's own unit with another command. It is started as soon as a plan has written its configuration, and at every
# boot from then on.
write_tunnel_units() {
    sed -e 's/^Description=.*/Description=Tunnel of the Rancher System Agent/' -e '/^\[Install\]/,/^$/d' \
        -e "s|^Environment=CATTLE_AGENT_CONFIG=.*|Environment=CATTLE_TUNNEL_CONFIG=${TUNNEL_CONFIG}|" \
        -e "s|^ExecStart=.*|ExecStart=${BINARY} tunnel|" "${UNIT_FILE}" | write_file "${UNIT_DIR}/${TUNNEL}.service" 0644
    write_file "${UNIT_DIR}/${TUNNEL}.path" 0644 <<EOF
[Unit]
Description=Tunnel of the Rancher System Agent, once there is a cluster
[Path]
PathExists=${TUNNEL_CONFIG}
[Install]
WantedBy=multi-user.target
EOF
}

write_environment() {
    {
        for name in HTTP_PROXY HTTPS_PROXY NO_PROXY; do
            eval "value=\${${name}}"
            other=$(lower "${name}")
            if [ -z "${value}" ]; then
                eval "value=\${${other}}"
            fi
            [ -z "${value}" ] || printf '%s=%s\n' "${name}" "${value}"
        done
        if default_prefix_is_unsuitable; then
            printf 'PATH=%s:%s\n' "${PATH}" "${CATTLE_AGENT_FALLBACK_PATH:-/opt/rke2/bin:/opt/bin}"
        fi
    } | write_file "${ENV_FILE}" 0600
}

stop_service() {
    if systemctl is-active --quiet "${SERVICE}.service"; then
        info "stopping ${SERVICE}"
        STOPPED=true
        systemctl stop "${SERVICE}"
    fi
}

put_in_place() {
    mv -f "${BINARY}.new" "${BINARY}"
    mv -f "${UNINSTALLER}.new" "${UNINSTALLER}"
    if [ "${CATTLE_REMOTE_ENABLED}" = true ]; then
        write_file "${CONNECTION_INFO}" 0600 <"${SCRATCH}/connection.json"
    fi
    write_config
    write_unit
    ! has_tunnel || write_tunnel_units
    write_environment
    if has restorecon; then
        # The labels that the policy has for these places; without SELinux this does nothing.
        restorecon "${BINARY}" "${UNINSTALLER}" "${UNIT_FILE}" "${ENV_FILE}" 2>/dev/null || true
        restorecon -R "${CATTLE_AGENT_CONFIG_DIR}" "${CATTLE_AGENT_VAR_DIR}" 2>/dev/null || true
    fi
}

start_service() {
    systemctl daemon-reload
    systemctl enable "${SERVICE}" || fatal "systemd does not enable ${SERVICE}; \`systemctl status ${SERVICE}\` tells why"
    systemctl restart "${SERVICE}" || fatal "systemd does not start ${SERVICE}; \`journalctl -u ${SERVICE}\` tells why"
    STOPPED=false
    if has_tunnel; then
        systemctl enable --now "${TUNNEL}.path" || fatal "systemd does not start ${TUNNEL}.path"
        # One that runs is of the binary before.
        systemctl try-restart "${TUNNEL}.service" || warn "${TUNNEL} was not restarted"
    fi
}

main() {
    set_defaults
    [ "$(id -u)" -eq 0 ] || fatal "this must be run as root"
    parse_arguments "$@"
    settle_architecture
    settle_roles
    settle_modes
    # Not before: arguments have the token in them.
    [ "${DEBUG}" != 1 ] || set -x
    settle_places
    settle_sources
    check_tools
    export_proxies

    trap clean_up EXIT
    trap 'exit 129' HUP && trap 'exit 130' INT && trap 'exit 143' TERM
    SCRATCH=$(mktemp -d) || fatal "cannot make a temporary directory"

    make_directories
    check_server
    provide_programs
    if [ "${CATTLE_REMOTE_ENABLED}" = true ]; then
        CATTLE_ADDRESS=$(address_of "${CATTLE_ADDRESS}")
        CATTLE_INTERNAL_ADDRESS=$(address_of "${CATTLE_INTERNAL_ADDRESS}")
        settle_identity
        get_connection_info
    fi
    hold_plans
    stop_service
    put_in_place
    start_service
    info "${SERVICE} is installed and runs; ${UNINSTALLER} removes it"
}

# The last line, so that a script that was cut off on its way does nothing.
main "$@"
