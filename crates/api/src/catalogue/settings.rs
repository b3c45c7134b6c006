//! Names of Settings that change what the provisioning flows do.

words! {
    /// URL at which nodes and users reach the server.
    SERVER_URL = "server-url";
    /// URL at which the server reaches itself.
    INTERNAL_SERVER_URL = "internal-server-url";
    /// Certificates that vouch for the server, PEM.
    CA_CERTS = "cacerts";
    /// Certificates that vouch for the server inside its own cluster, PEM.
    INTERNAL_CA_CERTS = "internal-cacerts";
    /// `strict` or `system-store`: whether agents trust those certificates only.
    AGENT_TLS_MODE = "agent-tls-mode";
    /// Image of the cluster agent.
    AGENT_IMAGE = "agent-image";
    /// Image of the authenticator for direct access.
    AUTH_IMAGE = "auth-image";
    /// Version of the node agent; empty means that the server has none to offer.
    SYSTEM_AGENT_VERSION = "system-agent-version";
    /// URL of the node agent's install script.
    SYSTEM_AGENT_INSTALL_SCRIPT = "system-agent-install-script";
    /// What images of distribution installers begin with.
    SYSTEM_AGENT_INSTALLER_IMAGE = "system-agent-installer-image";
    /// Image that upgrades node agents.
    SYSTEM_AGENT_UPGRADE_IMAGE = "system-agent-upgrade-image";
    /// Whether tokens of bootstrap scripts end.
    SYSTEM_AGENT_INSTALLER_TOKEN_TTL_ENABLED = "system-agent-installer-token-ttl-enabled";
    /// How long such a token is good after its first use.
    SYSTEM_AGENT_INSTALLER_TOKEN_SHORT_TTL = "system-agent-installer-token-short-ttl";
    /// How long such a token is good unused.
    SYSTEM_AGENT_INSTALLER_TOKEN_LONG_TTL = "system-agent-installer-token-long-ttl";
    /// Clusters whose node agents are upgraded at a time.
    SYSTEM_AGENT_UPGRADER_INSTALL_CONCURRENCY = "system-agent-upgrader-install-concurrency";
    /// Clusters whose old upgraders are removed at a time.
    K3S_BASED_UPGRADER_UNINSTALL_CONCURRENCY = "k3s-based-upgrader-uninstall-concurrency";
    /// Version of the upgrade controller's chart.
    SYSTEM_UPGRADE_CONTROLLER_CHART_VERSION = "system-upgrade-controller-chart-version";
    /// Version of the Windows node agent.
    WINS_AGENT_VERSION = "wins-agent-version";
    /// URL of the Windows node agent's install script.
    WINS_AGENT_INSTALL_SCRIPT = "wins-agent-install-script";
    /// Image that upgrades Windows node agents.
    WINS_AGENT_UPGRADE_IMAGE = "wins-agent-upgrade-image";
    /// URL of the CSI proxy for Windows.
    CSI_PROXY_AGENT_URL = "csi-proxy-agent-url";
    /// Version of the CSI proxy for Windows.
    CSI_PROXY_AGENT_VERSION = "csi-proxy-agent-version";
    /// Image of rancher-machine.
    MACHINE_PROVISION_IMAGE = "machine-provision-image";
    /// Its pull policy.
    MACHINE_PROVISION_IMAGE_PULL_POLICY = "machine-provision-image-pull-policy";
    /// How long a server that could not be made is kept, a Go duration.
    DELETE_MACHINE_ON_FAILURE_AFTER = "delete-machine-on-failure-after";
    /// Variables of the server's own environment that provisioning Jobs get, separated by commas.
    WHITELIST_ENVVARS = "whitelist-envvars";
    /// Registry that images come from.
    SYSTEM_DEFAULT_REGISTRY = "system-default-registry";
    /// Its pull secrets.
    SYSTEM_DEFAULT_REGISTRY_PULL_SECRETS = "system-default-registry-pull-secrets";
    /// Whether RKE2 clusters get Prime images.
    RKE2_PROVISIONING_PRIME_DEFAULT = "rke2-provisioning-prime-default";
    /// Default version of RKE2.
    RKE2_DEFAULT_VERSION = "rke2-default-version";
    /// Default version of K3s.
    K3S_DEFAULT_VERSION = "k3s-default-version";
    /// Where release metadata comes from.
    RKE_METADATA_CONFIG = "rke-metadata-config";
    /// Repository of the autoscaler's chart.
    CLUSTER_AUTOSCALER_CHART_REPOSITORY = "cluster-autoscaler-chart-repository";
    /// Image of the autoscaler.
    CLUSTER_AUTOSCALER_IMAGE = "cluster-autoscaler-image";
    /// Affinity of cluster agents.
    CLUSTER_AGENT_DEFAULT_AFFINITY = "cluster-agent-default-affinity";
    /// Lifetime of registration tokens, in minutes.
    CRT_DEFAULT_TTL_MINUTES = "crt-default-ttl-minutes";
    /// How long the token before stays good, in minutes.
    CRT_DEFAULT_GRACE_PERIOD_MINUTES = "crt-default-grace-period-minutes";
    /// Version of the server.
    SERVER_VERSION = "server-version";
    /// Id of this installation.
    INSTALL_UUID = "install-uuid";
    /// Service whose endpoints are the server's replicas.
    PEER_SERVICE = "peer-service";
}
