use std::collections::BTreeMap;

use api::capi::v1beta2::{
    ClusterStatus, ContractVersionedObjectReference, MachineNodeReference, MachineStatus,
};
use api::rke::v1::{EnvVar, Userdata};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::*;

struct World {
    bootstrap: RKEBootstrap,
    machine: Machine,
    cluster: Cluster,
    control_plane: RKEControlPlane,
    server: Server<'static>,
}

fn world(infrastructure_group: &str) -> World {
    let text = |pairs: &[(&str, &str)]| -> Option<BTreeMap<String, String>> {
        Some(pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect())
    };
    let mut bootstrap = RKEBootstrap::default();
    bootstrap.metadata.name = Some("prod-workers-x2x7k".into());
    bootstrap.metadata.namespace = Some("fleet-default".into());
    bootstrap.metadata.uid = Some("uid-b".into());
    bootstrap.metadata.labels = text(&[("rke.cattle.io/worker-role", "true"), ("cattle.io/os", "linux")]);
    bootstrap.metadata.annotations =
        text(&[("rke.cattle.io/taints", "[]"), ("objectset.rio.cattle.io/applied", "x")]);
    bootstrap.spec.cluster_name = "prod".into();
    let mut machine = Machine::default();
    machine.metadata.name = Some("m1".into());
    machine.spec.cluster_name = "prod".into();
    machine.spec.infrastructure_ref.api_group = infrastructure_group.into();
    let mut cluster = Cluster::default();
    cluster.metadata.name = Some("prod".into());
    cluster.spec.control_plane_ref =
        Some(ContractVersionedObjectReference { kind: "RKEControlPlane".into(), ..Default::default() });
    let mut status = ClusterStatus::default();
    status.initialization.infrastructure_provisioned = Some(true);
    cluster.status = Some(status);
    let mut control_plane = RKEControlPlane::default();
    control_plane.spec.kubernetes_version = "v1.33.5+rke2r1".into();
    let variable = |name: &str, value: &str| EnvVar { name: name.into(), value: value.into() };
    control_plane.spec.agent_env_vars = vec![
        variable("HTTPS_PROXY", "http://it's:3128"),
        variable("not-a-name", "x"),
        variable("EMPTY", ""),
        variable("CATTLE_AGENT_VAR_DIR", "/ignored"),
    ];
    control_plane.spec.configuration.data_directories.system_agent = "/opt/agent".into();
    let server = Server {
        url: "https://herdsman.example.com",
        ca_checksum: "abc123",
        strict_tls: true,
        offers_agent: true,
        installer: "echo installing",
        windows_installer: "function Invoke-WinsInstaller {}",
        ..Default::default()
    };
    World { bootstrap, machine, cluster, control_plane, server }
}

impl World {
    fn decide(&self, token: Option<&str>) -> Result<Outcome, Hold> {
        decide(&Facts {
            bootstrap: &self.bootstrap,
            machine: Some(&self.machine),
            cluster: Some(&self.cluster),
            control_plane: Some(&self.control_plane),
            token,
            server: &self.server,
        })
    }
}

fn value(outcome: &Outcome) -> String {
    let secret = outcome
        .objects
        .iter()
        .find(|object| object.name().ends_with("machine-bootstrap") && object.kind() == "Secret");
    let value = secret.expect("there is bootstrap data").document()["data"]["value"].as_str().unwrap();
    String::from_utf8(STANDARD.decode(value).unwrap()).unwrap()
}

#[test]
fn every_machine_gets_its_own_objects() {
    let world = world("rke-machine.cattle.io");
    let outcome = world.decide(Some("token-1")).unwrap();
    let ids: Vec<String> = outcome.objects.iter().map(|object| object.id().to_string()).collect();
    assert_eq!(
        ids,
        [
            "ServiceAccount fleet-default/prod-workers-x2x7k-machine-plan",
            "Secret fleet-default/prod-workers-x2x7k-machine-plan",
            "Role fleet-default/prod-workers-x2x7k-machine-plan",
            "RoleBinding fleet-default/prod-workers-x2x7k-machine-plan",
            "ServiceAccount fleet-default/prod-workers-x2x7k-machine-bootstrap",
            "Secret fleet-default/prod-workers-x2x7k-machine-bootstrap",
        ]
    );
    for object in &outcome.objects {
        assert_eq!(object.document()["metadata"]["ownerReferences"][0]["uid"], "uid-b", "{}", object.id());
    }
    let plan = &outcome.objects[1];
    assert_eq!(plan.document()["type"], "rke.cattle.io/machine-plan");
    assert!(plan.document().get("data").is_none(), "what is in it is not ours");
    assert_eq!(plan.label("plan.cattle.io/machine-kind"), Some("Machine"));
    assert_eq!(plan.label("plan.cattle.io/cluster-name"), Some("prod"));
    assert_eq!(plan.label("rke.cattle.io/worker-role"), Some("true"));
    assert_eq!(plan.annotation("rke.cattle.io/taints"), Some("[]"));
    assert_eq!(plan.annotation("objectset.rio.cattle.io/applied"), None);
    let rule = &outcome.objects[2].document()["rules"][0];
    assert_eq!(rule["resourceNames"][0], "prod-workers-x2x7k-machine-plan");
    assert_eq!(rule["verbs"], serde_json::json!(["watch", "get", "update", "list"]));
    assert_eq!(outcome.objects[4].label("rke.cattle.io/service-account-role"), Some("bootstrap"));
    assert_eq!(outcome.objects[5].label("cluster.x-k8s.io/cluster-name"), Some("prod"));
    assert_eq!(outcome.status.data_secret_name.as_deref(), Some("prod-workers-x2x7k-machine-bootstrap"));
    assert_eq!(outcome.wait, None);
}

#[test]
fn the_script_introduces_the_server() {
    let world = world("rke-machine.cattle.io");
    let script = value(&world.decide(Some("token-1")).unwrap());
    assert_eq!(
        script,
        "#!/usr/bin/env sh\n\
         export HTTPS_PROXY='http://it'\\''s:3128'\n\
         export CATTLE_AGENT_VAR_DIR='/opt/agent'\n\
         export STRICT_VERIFY='true'\n\
         CATTLE_AGENT_BINARY_BASE_URL='https://herdsman.example.com/assets'\n\
         CATTLE_SERVER='https://herdsman.example.com'\n\
         CATTLE_CA_CHECKSUM='abc123'\n\
         CATTLE_ROLE_NONE='true'\n\
         CATTLE_TOKEN='token-1'\n\
         \n\
         echo installing\n"
    );
}

#[test]
fn who_runs_needs_no_installer() {
    let mut world = world("rke-machine.cattle.io");
    let script = |world: &World| value(&world.decide(Some("token-1")).unwrap());
    let whole = script(&world);
    let node = MachineNodeReference { name: "node".into() };
    world.machine.status = Some(MachineStatus { node_ref: Some(node), ..Default::default() });
    let short = script(&world);
    assert_eq!(short, whole.replace("echo installing", NO_INSTALLER), "the rest is there");
    world.machine.status = None;
    world.machine.spec.infrastructure_ref.kind = "CustomMachine".into();
    assert_eq!(script(&world), short, "it ran before there was a Machine");
}

#[test]
fn windows_gets_powershell_and_native_windows_gets_a_refusal() {
    let mut world = world("rke-machine.cattle.io");
    world.machine.metadata.labels = Some([("cattle.io/os".to_owned(), "windows".to_owned())].into());
    let script = value(&world.decide(Some("t")).unwrap());
    assert!(script.starts_with("function Invoke-WinsInstaller {}\n"), "{script}");
    assert!(script.contains("$env:HTTPS_PROXY = 'http://it''s:3128'\n"), "{script}");
    assert!(
        script.contains("$env:CSI_PROXY_KUBELET_PATH = 'C:/var/lib/rancher/rke2/bin/kubelet.exe'\n"),
        "{script}"
    );
    assert!(script.ends_with("Invoke-WinsInstaller @PSBoundParameters\nexit 0\n"), "{script}");
    world.machine.spec.infrastructure_ref.api_group = "infrastructure.cluster.x-k8s.io".into();
    assert_eq!(world.decide(Some("t")), Err(Hold::Refused(Refusal::Windows)));
}

#[test]
fn native_machines_get_cloud_config() {
    let mut world = world("infrastructure.cluster.x-k8s.io");
    world.bootstrap.spec.userdata = Some(Userdata { inline_userdata: "runcmd: [echo user]".into() });
    let text = value(&world.decide(Some("t")).unwrap());
    assert!(text.starts_with("## template: jinja\n#cloud-config\n"), "{text}");
    assert!(text.contains("- sh /usr/local/custom_script/install.sh\n- echo user\n"), "{text}");
    for group in ["rke.cattle.io", "elemental.cattle.io"] {
        world.machine.spec.infrastructure_ref.api_group = group.into();
        assert!(value(&world.decide(Some("t")).unwrap()).starts_with("#!"), "{group}");
    }
    world.machine.spec.infrastructure_ref.api_group = "infrastructure.cluster.x-k8s.io".into();
    world.bootstrap.spec.userdata = Some(Userdata { inline_userdata: "- list".into() });
    assert!(matches!(world.decide(Some("t")), Err(Hold::Refused(Refusal::Userdata(_)))));
}

#[test]
fn waits_in_order() {
    let code = |facts: &Facts<'_>| match decide(facts) {
        Err(Hold::Waiting(wait)) => wait.code,
        Ok(outcome) => outcome.wait.expect("it waits").code,
        Err(other) => panic!("{other:?}"),
    };
    let mut world = world("rke-machine.cattle.io");
    world.cluster.status = None;
    world.cluster.spec.paused = Some(true);
    let (machine, mut cluster) = (world.machine.clone(), world.cluster.clone());
    let mut facts = Facts {
        bootstrap: &world.bootstrap,
        machine: None,
        cluster: None,
        control_plane: None,
        token: None,
        server: &world.server,
    };
    assert_eq!(code(&facts), Code::WaitingForMachine);
    facts.machine = Some(&machine);
    assert_eq!(code(&facts), Code::WaitingForCluster);
    facts.cluster = Some(&world.cluster);
    assert_eq!(code(&facts), Code::Paused);
    cluster.spec.paused = None;
    facts.cluster = Some(&cluster);
    assert_eq!(code(&facts), Code::WaitingForInfrastructure);
    let ready = super::tests::world("rke-machine.cattle.io").cluster;
    facts.cluster = Some(&ready);
    assert_eq!(code(&facts), Code::WaitingForCluster, "the control plane");
    facts.control_plane = Some(&world.control_plane);
    assert_eq!(code(&facts), Code::WaitingForToken);
}

#[test]
fn a_machine_that_goes_loses_its_data_and_keeps_its_plan() {
    let mut world = world("rke-machine.cattle.io");
    for phase in ["Deleting", "Deleted", "Failed"] {
        world.machine.status = Some(MachineStatus { phase: phase.into(), ..Default::default() });
        let outcome = world.decide(Some("t")).unwrap();
        assert!(outcome.objects.iter().all(|object| object.name().ends_with("machine-plan")), "{phase}");
    }
    world.machine.status = Some(MachineStatus { phase: "Running".into(), ..Default::default() });
    assert_eq!(world.decide(Some("t")).unwrap().objects.len(), 6);
    world.cluster.spec.control_plane_ref.as_mut().unwrap().kind = "KubeadmControlPlane".into();
    assert_eq!(world.decide(Some("t")).unwrap().objects.len(), 4, "not our cluster to bootstrap");
}
