//! Manifests as users have them: from the documentation, and as the Rancher dashboard writes them.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use api::Tracked;
use api::provisioning::v1::Cluster;
use serde_json::{Value, json};

fn parse(manifest: &str) -> Value {
    serde_saphyr::from_str(manifest).unwrap()
}

/// A cluster on a native Cluster API provider.
const NATIVE: &str = "
apiVersion: provisioning.cattle.io/v1
kind: Cluster
metadata:
  name: my-cluster
  namespace: fleet-default
spec:
  kubernetesVersion: v1.28.0+rke2r1
  rkeConfig:
    infrastructureRef:
      apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
      kind: VSphereCluster
      name: my-cluster-infra
      namespace: fleet-default
    machinePools:
    - name: pool1
      etcdRole: true
      controlPlaneRole: true
      workerRole: true
      quantity: 3
      machineConfigRef:
        apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
        kind: VSphereMachineTemplate
        name: my-cluster-machines
";

#[test]
fn the_native_provider_example_comes_back_unchanged() {
    let document = parse(NATIVE);
    let cluster: Cluster = serde_json::from_value(document.clone()).unwrap();
    assert_eq!(serde_json::to_value(&cluster).unwrap(), document);
    let config = cluster.spec.rke_config.unwrap();
    assert_eq!(config.infrastructure_ref.unwrap().kind.as_deref(), Some("VSphereCluster"));
    let [pool] = config.machine_pools.as_slice() else { panic!("one pool") };
    assert!(pool.etcd_role && pool.control_plane_role && pool.worker_role);
    assert_eq!(pool.quantity, Some(3));
    let template = pool.machine_config_ref.as_ref().unwrap();
    assert_eq!(template.api_version.as_deref(), Some("infrastructure.cluster.x-k8s.io/v1beta1"));
}

/// What the dashboard sends when a cluster is made with its defaults.
const DASHBOARD: &str = r##"
apiVersion: provisioning.cattle.io/v1
kind: Cluster
metadata:
  name: prod
  namespace: fleet-default
  annotations: {}
  labels: {}
spec:
  clusterAgentDeploymentCustomization: null
  fleetAgentDeploymentCustomization: null
  cloudCredentialSecretName: cattle-global-data:cc-v2x7k
  defaultPodSecurityAdmissionConfigurationTemplateName: ""
  enableNetworkPolicy: null
  agentEnvVars: null
  kubernetesVersion: v1.33.5+rke2r1
  localClusterAuthEndpoint:
    enabled: false
    caCerts: ""
    fqdn: ""
  rkeConfig:
    additionalManifest: null
    chartValues:
      rke2-calico: {}
    dataDirectories:
      systemAgent: ""
      provisioning: ""
      k8sDistro: ""
    etcd:
      disableSnapshots: false
      s3: null
      snapshotRetention: 5
      snapshotScheduleCron: 0 */5 * * *
    etcdSnapshotCreate: null
    etcdSnapshotRestore: null
    rotateCertificates: null
    rotateEncryptionKeys: null
    infrastructureRef: null
    machineGlobalConfig:
      cni: calico
      disable-kube-proxy: false
      etcd-expose-metrics: false
      ingress-controller: null
    machineSelectorConfig:
    - config:
        protect-kernel-defaults: false
      machineLabelSelector: null
    machineSelectorFiles: null
    machinePoolDefaults: null
    networking: null
    registries:
      configs: {}
      mirrors: null
    upgradeStrategy:
      controlPlaneConcurrency: "1"
      controlPlaneDrainOptions:
        deleteEmptyDirData: true
        disableEviction: false
        enabled: false
        force: false
        gracePeriod: -1
        ignoreDaemonSets: true
        ignoreErrors: null
        skipWaitForDeleteTimeoutSeconds: 0
        timeout: 120
        preDrainHooks: null
        postDrainHooks: null
      workerConcurrency: null
      workerDrainOptions: null
    machinePools:
    - name: pool1
      etcdRole: true
      controlPlaneRole: true
      workerRole: true
      hostnameLengthLimit: null
      labels: {}
      taints: null
      cloudCredentialSecretName: null
      userdata: null
      displayName: null
      drainBeforeDelete: true
      drainBeforeDeleteTimeout: null
      machineConfigRef:
        kind: Amazonec2Config
        name: nc-prod-pool1-x2x7k
      machineDeploymentAnnotations: null
      machineDeploymentLabels: null
      machineOS: linux
      maxUnhealthy: null
      nodeStartupTimeout: null
      paused: null
      quantity: 1
      rollingUpdate: null
      unhealthyNodeTimeout: 0m
      unhealthyRange: null
      dynamicSchemaSpec: null
      somethingOfTomorrow: {nested: [1, null]}
    somethingElseOfTomorrow: true
status: null
"##;

#[test]
fn nulls_of_the_dashboard_read_as_not_set() {
    let cluster: Cluster = serde_json::from_value(parse(DASHBOARD)).unwrap();
    assert_eq!(cluster.status, None);
    assert_eq!(cluster.spec.agent_env_vars, []);
    let config = cluster.spec.rke_config.unwrap();
    let strategy = &config.configuration.upgrade_strategy;
    assert_eq!(strategy.worker_concurrency, "");
    assert_eq!(strategy.control_plane_drain_options.pre_drain_hooks, []);
    assert_eq!(strategy.control_plane_drain_options.timeout, 120);
    assert_eq!(config.configuration.machine_selector_config[0].machine_label_selector, None);
    assert_eq!(config.configuration.machine_global_config["ingress-controller"], Value::Null);
    assert_eq!(config.configuration.etcd.unwrap().s3, None);
    assert_eq!(config.machine_pools[0].common.taints, []);
    assert!(!config.machine_pools[0].paused);
}

#[test]
fn an_unrelated_change_leaves_every_null_where_it_was() {
    let document = parse(DASHBOARD);
    let mut cluster: Tracked<Cluster> = Tracked::from_document(document.clone()).unwrap();
    assert_eq!(cluster.document().unwrap(), document);
    let config = cluster.spec.rke_config.as_mut().unwrap();
    config.machine_pools[0].quantity = Some(3);
    config.configuration.provision_generation = 1;
    let mut expected = document;
    expected["spec"]["rkeConfig"]["machinePools"][0]["quantity"] = json!(3);
    expected["spec"]["rkeConfig"]["provisionGeneration"] = json!(1);
    assert_eq!(cluster.document().unwrap(), expected);
}

#[test]
fn a_change_inside_a_part_with_nulls_touches_only_itself() {
    let document = parse(DASHBOARD);
    let mut cluster: Tracked<Cluster> = Tracked::from_document(document.clone()).unwrap();
    let strategy = &mut cluster.spec.rke_config.as_mut().unwrap().configuration.upgrade_strategy;
    strategy.control_plane_drain_options.enabled = true;
    strategy.worker_drain_options.enabled = true;
    let mut expected = document;
    let written = &mut expected["spec"]["rkeConfig"]["upgradeStrategy"];
    written["controlPlaneDrainOptions"]["enabled"] = json!(true);
    written["workerDrainOptions"] = json!({
        "enabled": true, "force": false, "deleteEmptyDirData": false, "disableEviction": false,
        "gracePeriod": 0, "timeout": 0, "skipWaitForDeleteTimeoutSeconds": 0,
    });
    assert_eq!(cluster.document().unwrap(), expected);
}

#[test]
fn a_wrong_type_is_refused() {
    let mut document = parse(NATIVE);
    document["spec"]["rkeConfig"]["machinePools"][0]["quantity"] = json!("three");
    let refusal = serde_json::from_value::<Cluster>(document).unwrap_err();
    assert!(refusal.to_string().contains("three"), "{refusal}");
}
