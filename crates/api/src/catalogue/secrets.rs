//! Types and keys of Secrets.

/// Types.
pub mod types {
    words! {
        /// A machine's plan.
        MACHINE_PLAN = "rke.cattle.io/machine-plan";
        /// A machine's install script.
        BOOTSTRAP = "rke.cattle.io/bootstrap";
        /// The tokens with which nodes join a cluster.
        CLUSTER_STATE = "rke.cattle.io/cluster-state";
        /// What rancher-machine knows of a server.
        MACHINE_STATE = "rke.cattle.io/machine-state";
        /// A machine that asks to join with a registration token.
        MACHINE_REQUEST = "rke.cattle.io/machine-request";
        /// Credentials of an image registry.
        AUTH_CONFIG = "rke.cattle.io/auth-config";
        /// Credentials of a cloud.
        CLOUD_CREDENTIAL = "provisioning.cattle.io/cloud-credential";
        /// Cluster API's kubeconfigs and certificates.
        CAPI = "cluster.x-k8s.io/secret";
        /// Ours: the hash of a token with which a node agent reaches its plan.
        HERDSMAN_AGENT_TOKEN = "herdsman.io/agent-token";
        /// Kubernetes: anything.
        OPAQUE = "Opaque";
        /// Kubernetes: token of a ServiceAccount.
        SERVICE_ACCOUNT_TOKEN = "kubernetes.io/service-account-token";
        /// Kubernetes: certificate and key.
        TLS = "kubernetes.io/tls";
        /// Kubernetes: user and password.
        BASIC_AUTH = "kubernetes.io/basic-auth";
        /// Kubernetes: registry credentials in Docker's format.
        DOCKER_CONFIG_JSON = "kubernetes.io/dockerconfigjson";
    }
}

/// Keys in Secrets' data. Keys of plan Secrets begin with `PLAN_`.
pub mod keys {
    words! {
        /// The plan, as JSON; its checksum is over these very bytes.
        PLAN = "plan";
        /// `pending`, `in-progress`, `succeeded`, `failed` or `cancelled`.
        PLAN_STATE = "plan-state";
        /// Goes up by one each time the agent begins a plan.
        PLAN_REVISION = "plan-revision";
        /// Attempts that an agent without plan state makes; -1 is no limit.
        PLAN_MAX_FAILURES = "max-failures";
        /// Failures from which on the planner calls a plan failed; -1 is never.
        PLAN_FAILURE_THRESHOLD = "failure-threshold";
        /// SHA-256 of the plan that was applied, in hex.
        PLAN_APPLIED_CHECKSUM = "applied-checksum";
        /// The plan that was applied.
        PLAN_APPLIED = "appliedPlan";
        /// Output of its instructions: gzip of a JSON map.
        PLAN_APPLIED_OUTPUT = "applied-output";
        /// Output of its periodic instructions: gzip of a JSON map.
        PLAN_APPLIED_PERIODIC_OUTPUT = "applied-periodic-output";
        /// SHA-256 of the plan that failed, in hex.
        PLAN_FAILED_CHECKSUM = "failed-checksum";
        /// Output of its instructions.
        PLAN_FAILED_OUTPUT = "failed-output";
        /// Failures in a row.
        PLAN_FAILURE_COUNT = "failure-count";
        /// Successes in a row.
        PLAN_SUCCESS_COUNT = "success-count";
        /// When the agent last tried, in Go's UnixDate layout.
        PLAN_LAST_APPLY_TIME = "last-apply-time";
        /// Health of the probes: a JSON map.
        PLAN_PROBE_STATUSES = "probe-statuses";
        /// Seconds between probes.
        PLAN_PROBE_PERIOD_SECONDS = "probe-period-seconds";
        /// Bootstrap script, or kubeconfig.
        VALUE = "value";
        /// Token of a ServiceAccount, or of a kubeconfig.
        TOKEN = "token";
        /// Token of servers.
        SERVER_TOKEN = "serverToken";
        /// Token of workers.
        AGENT_TOKEN = "agentToken";
        /// gzip of tar of rancher-machine's directory.
        EXTRACTED_CONFIG = "extractedConfig";
        /// Headers of a machine's request, as JSON.
        DATA = "data";
        /// Registry: user.
        USERNAME = "username";
        /// Registry: password.
        PASSWORD = "password";
        /// Registry: user and password in one.
        AUTH = "auth";
        /// Registry: token instead of user and password.
        IDENTITY_TOKEN = "identityToken";
        /// Ours: SHA-256 of a token, in hex.
        HERDSMAN_HASH = "hash";
        /// Ours: name of the ServiceAccount that a token acts as.
        HERDSMAN_ACCOUNT = "serviceAccount";
        /// Cloud-provider config, or the token of a cluster agent's account.
        CREDENTIAL = "credential";
        /// Pod security configuration.
        ADMISSION_CONFIG_PSACT = "admission-config-psact";
        /// S3: key id.
        S3_ACCESS_KEY = "accessKey";
        /// S3: key.
        S3_SECRET_KEY = "secretKey";
        /// S3: region if the spec has none.
        S3_DEFAULT_REGION = "defaultRegion";
        /// S3: endpoint if the spec has none.
        S3_DEFAULT_ENDPOINT = "defaultEndpoint";
        /// S3: certificate if the spec has none.
        S3_DEFAULT_ENDPOINT_CA = "defaultEndpointCA";
        /// S3: whether the certificate is not checked if the spec does not say.
        S3_DEFAULT_SKIP_SSL_VERIFY = "defaultSkipSSLVerify";
        /// S3: bucket if the spec has none.
        S3_DEFAULT_BUCKET = "defaultBucket";
        /// S3: folder if the spec has none.
        S3_DEFAULT_FOLDER = "defaultFolder";
        /// Certificate.
        TLS_CERT = "tls.crt";
        /// Key of the certificate.
        TLS_KEY = "tls.key";
        /// Certificate of the server inside its own cluster.
        INTERNAL_TLS_CERT = "internal-tls.crt";
        /// Certificate authority.
        CA_CERT = "ca.crt";
        /// URL of the server, for agents.
        URL = "url";
        /// Namespace, for agents.
        NAMESPACE = "namespace";
        /// Name under which a driver gets an SSH key.
        SSH_KEY = "id_rsa";
    }
}
