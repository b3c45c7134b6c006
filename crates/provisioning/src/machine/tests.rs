use std::collections::BTreeMap;

use api::capi::v1beta2 as capi;
use api::machine::Driver;
use api::rke::v1::RKEMachineStatus;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::{Code, Object};

const NOW: &str = "2026-01-01T10:00:00Z";

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn infra(kind: &str, spec: Value, status: Value) -> Machine {
    serde_json::from_value(json!({
        "apiVersion": "rke-machine.cattle.io/v1", "kind": kind,
        "metadata": {
            "name": "prod-workers-x2x7k.a", "namespace": "fleet-default",
            "labels": {"rke.cattle.io/capi-machine-name": "m1"},
        },
        "spec": spec, "status": status,
    }))
    .unwrap()
}

fn ordered(machine: &Machine, aliases: &str, bootstrap_secret: Option<&str>) -> Vec<Object> {
    let driver = Driver::of_machine_kind(&machine.kind).unwrap();
    let credential = BTreeMap::from([("amazonec2credentialConfig-accessKey".to_owned(), b"key".to_vec())]);
    let passed_on = BTreeMap::from([("HTTPS_PROXY".to_owned(), "http://p".to_owned())]);
    let installation = Installation {
        image: "rancher/machine:v1",
        pull_policy: "Always",
        pull_secrets: &["pull".to_owned()],
        certificates: BTreeMap::from([("tls.crt".to_owned(), b"PEM".to_vec())]),
        managed_by: None,
    };
    let ordered = order(&Order {
        machine,
        driver: &driver,
        program: &Program { url: "https://d/driver".into(), hash: "abc".into(), remembered: false },
        aliases: &flags::Special::read_files(aliases),
        environment: &environment(&driver, &passed_on, &credential),
        bootstrap_secret,
        cluster: arguments::Cluster { name: "prod", management_name: "c-m-x" },
        installation: &installation,
    });
    ordered.objects.into_iter().chain([ordered.job]).collect()
}

fn args(objects: &[Object]) -> Vec<String> {
    let job = objects.last().unwrap().document();
    serde_json::from_value(job["spec"]["template"]["spec"]["containers"][0]["args"].clone()).unwrap()
}

#[test]
fn no_path_is_a_user_s() {
    let aliases = "sshKey:keyFile,userdata:userdata,cloudConfig:cloud-config";
    let flags = |spec: Value| {
        let all = args(&ordered(&infra("ShedMachine", spec, json!({})), aliases, Some("boot")));
        all.into_iter().filter(|word| word.starts_with("--shed-")).collect::<Vec<_>>()
    };
    // Where content belongs, a path is content; the driver's own field, however it is spelt, and what is no text are left out.
    assert_eq!(
        flags(json!({"userdata": "/etc/shadow", "keyFile": "/etc/shadow", "cloud-config": "/etc/shadow"})),
        ["--shed-userdata=/path/to/machine/files/userdata"]
    );
    assert_eq!(
        flags(json!({"sshKey": "KEY", "keyFile": "/etc/shadow", "key-file": "/etc/shadow"})),
        ["--shed-key-file=/path/to/machine/files/id_rsa"]
    );
    assert!(
        flags(json!({"userdata": ["/etc/shadow"], "sshKey": {"a": 1}, "keyFile": ["/etc/shadow"]}))
            .is_empty()
    );
}

#[test]
fn a_create_job() {
    let machine = infra(
        "Amazonec2Machine",
        json!({
            "common": {"labels": {"a": "b"}}, "providerID": "x",
            "region": "eu", "zone": "", "monitoring": true, "retries": 5, "privateAddressOnly": false,
            "ipv6AddressCount": "1", "securityGroup": ["mine"], "sshKeyContents": "KEY", "userdata": "#!/bin/sh\n",
        }),
        json!({}),
    );
    let objects = ordered(&machine, "sshKeyContents:sshKeypath,userdata:userdata", Some("boot"));
    assert_eq!(
        args(&objects),
        [
            "--driver-download-url=https://d/driver",
            "--driver-hash=abc",
            "--secret-namespace=fleet-default",
            "--secret-name=prod-workers-x2x7k.a-machine-state",
            "create",
            "--driver=amazonec2",
            "--custom-install-script=/run/secrets/machine/value",
            "--amazonec2-ipv6-address-count=1",
            "--amazonec2-monitoring",
            "--amazonec2-region=eu",
            "--amazonec2-retries=5",
            "--amazonec2-security-group-readonly",
            "--amazonec2-security-group=mine",
            "--amazonec2-ssh-keypath=/path/to/machine/files/id_rsa",
            "--amazonec2-tags=kubernetes.io/cluster/c-m-x,owned",
            "--amazonec2-userdata=/path/to/machine/files/userdata",
            "prod-workers-x2x7k-a",
        ]
    );
    let ids: Vec<String> =
        objects.iter().map(|object| format!("{} {}", object.kind(), object.name())).collect();
    assert_eq!(
        ids,
        [
            "Secret prod-workers-x2x7k.a-machine-driver-secret",
            "Secret prod-workers-x2x7k.a-machine-state",
            "ServiceAccount prod-workers-x2x7k.a-machine-provision",
            "Role prod-workers-x2x7k.a-machine-provision",
            "RoleBinding prod-workers-x2x7k.a-machine-provision",
            "Secret prod-workers-x2x7k.a-machine-provision",
            "Secret machine-certs-4c6d0b7f0ffb17cd46dab4b6fce6bef5",
            "RoleBinding prod-workers-x2x7k.a-machine-provision-extension",
            "Job prod-workers-x2x7k.a-machine-provision",
        ]
    );
    let environment = &objects[0].document()["data"];
    assert_eq!(environment["AWS_ACCESS_KEY"], "a2V5");
    assert!(environment["HTTPS_PROXY"].is_string());
    assert_eq!(objects[5].document()["data"]["id_rsa"], "S0VZCg==", "a key ends in a newline");
    let job = objects.last().unwrap();
    assert!(!deletes(job));
    assert_eq!(job.document()["spec"]["backoffLimit"], 0);
    assert_eq!(job.label("rke.cattle.io/capi-machine-name"), Some("m1"));
    let pod = &job.document()["spec"]["template"]["spec"];
    let mounts: Vec<&str> = pod["containers"][0]["volumeMounts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["mountPath"].as_str().unwrap())
        .collect();
    assert_eq!(mounts, ["/etc/rancher/ssl/tls.crt", "/path/to/machine/files", "/run/secrets/machine"]);
    assert_eq!(pod["containers"][0]["securityContext"]["runAsUser"], 1000);
    assert_eq!(pod["imagePullSecrets"][0]["name"], "pull");
    assert_eq!(ordered(&machine, "", Some("boot")), ordered(&machine, "", Some("boot")), "the same twice");
}

#[test]
fn a_delete_job() {
    let machine = infra("SimMachine", json!({"cpus": "2"}), json!({}));
    let objects = ordered(&machine, "", None);
    assert_eq!(args(&objects)[4..], ["rm", "-y", "--update-config", "prod-workers-x2x7k-a"]);
    let job = objects.last().unwrap();
    assert!(deletes(job));
    assert_eq!(job.document()["spec"]["backoffLimit"], 3);
    let text = job.document().to_string();
    assert!(!text.contains("/run/secrets/machine"), "nothing to boot");
}

#[test]
fn special_drivers_and_names() {
    let of = |kind: &str, spec: Value| args(&ordered(&infra(kind, spec, json!({})), "", Some("b")));
    let aws = |spec: Value| of("Amazonec2Machine", spec).join(" ");
    assert!(!aws(json!({"securityGroup": ["rancher-nodes"]})).contains("readonly"));
    assert!(!aws(json!({"securityGroup": ["mine"], "securityGroupReadonly": false})).contains("readonly"));
    assert!(aws(json!({"tags": "a,b"})).contains("--amazonec2-tags=a,b,kubernetes.io/cluster/c-m-x,owned"));
    assert!(
        aws(json!({"tags": "kubernetes.io/cluster/y,shared"}))
            .contains("--amazonec2-tags=kubernetes.io/cluster/y,shared ")
    );
    assert!(of("HarvesterMachine", json!({})).contains(&"--harvester-cluster-name=prod".to_owned()));
    let mut short = infra("SimMachine", json!({}), json!({}));
    short.metadata.annotations = Some([("rke.cattle.io/hostname-length-limit".into(), "15".into())].into());
    let hostname =
        args(&ordered(&short, "", Some("b"))).into_iter().find(|one| one.starts_with("--hostname-override="));
    assert_eq!(hostname.unwrap().len(), "--hostname-override=".len() + 15);
}

#[test]
fn a_driver_that_is_gone_is_remembered() {
    let machine = infra("SimMachine", json!({}), json!({"driverUrl": "https://old", "driverHash": "h"}));
    let mut driver = NodeDriver::default();
    driver.spec.url = "https://new".into();
    let offered = Program { url: "https://server/assets/d".into(), hash: "s".into(), remembered: false };
    assert_eq!(program(None, None, &machine).url, "https://old");
    assert_eq!(program(Some(&driver), None, &machine).url, "https://new");
    assert_eq!(program(Some(&driver), Some(&offered), &machine), offered);
    driver.spec.url = "local://".into();
    assert_eq!(program(Some(&driver), Some(&offered), &machine), Program::default());
}

struct World {
    infra: Machine,
    machine: capi::Machine,
    cluster: capi::Cluster,
    job: Option<JobView>,
    state_is_empty: bool,
    policy: Policy,
    now: Timestamp,
    jobs: u32,
}

fn world() -> World {
    let mut machine = capi::Machine::default();
    machine.metadata.name = Some("m1".into());
    machine.spec.bootstrap.data_secret_name = Some("boot".into());
    let mut cluster = capi::Cluster::default();
    let mut status = capi::ClusterStatus::default();
    status.initialization.infrastructure_provisioned = Some(true);
    cluster.status = Some(status);
    World {
        infra: infra("SimMachine", json!({}), json!({})),
        machine,
        cluster,
        job: None,
        state_is_empty: true,
        policy: Policy::default(),
        now: at(NOW),
        jobs: 0,
    }
}

impl World {
    fn create(&self) -> Create {
        create(&CreateFacts {
            infra: &self.infra,
            machine: Some(&self.machine),
            cluster: Some(&self.cluster),
            job: self.job.as_ref(),
            state_is_empty: self.state_is_empty,
            program: Some(&Program::default()),
            policy: &self.policy,
            now: self.now,
        })
    }

    /// Does what a shell would do, until something is waited for. Gives that.
    fn settle(&mut self) -> Create {
        for _ in 0..10 {
            let step = self.create();
            match &step {
                Create::Status { status, failures, wait: None } => {
                    self.write(status);
                    if let Some(failures) = failures {
                        let marks = self.infra.metadata.annotations.get_or_insert_default();
                        marks.insert("herdsman.io/create-failures".into(), failures.to_string());
                    }
                }
                Create::Run { cleans_up } => {
                    self.jobs += 1;
                    let uid = format!("uid-{}", self.jobs);
                    self.job = Some(JobView {
                        name: "j".into(),
                        uid,
                        deletes: *cleans_up,
                        state: JobState::Running,
                    });
                }
                Create::Label(name) => {
                    let labels = self.infra.metadata.labels.get_or_insert_default();
                    labels.insert("rke.cattle.io/capi-machine-name".into(), name.clone());
                }
                _ => return step,
            }
        }
        panic!("it does not settle: {:?}", self.create());
    }

    fn write(&mut self, status: &RKEMachineStatus) {
        self.infra.status = Some(status.clone());
    }

    fn end(&mut self, exit_code: Option<i32>) {
        let state = match exit_code {
            None => JobState::Complete,
            Some(code) => {
                JobState::Failed { at: self.now, exit_code: Some(code), message: "no quota\n".into() }
            }
        };
        self.job.as_mut().unwrap().state = state;
    }
}

fn code(step: &Create) -> Code {
    match step {
        Create::Wait(wait) | Create::Pause { wait, .. } | Create::Status { wait: Some(wait), .. } => {
            wait.code
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_server_comes_to_be() {
    let mut world = world();
    let Create::Status { status, .. } = world.create() else { panic!() };
    assert_eq!(
        status.conditions[0].message, "creating machine provision job",
        "announced before anything exists"
    );
    assert_eq!(world.job, None);
    assert_eq!(code(&world.settle()), Code::CreatingServer);
    world.end(None);
    assert_eq!(code(&world.settle()), Code::WaitingForNode);
    let status = world.infra.status.clone().unwrap();
    assert!(api::GenericCondition::find(&status.conditions, "Ready").unwrap().is_true());
    assert_eq!(status.initialization.unwrap().provisioned, Some(false));
    world.infra.spec.provider_id = "k3s://n".into();
    let Create::Settled(status) = world.settle() else { panic!() };
    assert_eq!(status.initialization.unwrap().provisioned, Some(true));
}

#[test]
fn waits_in_order() {
    let mut world = world();
    world.infra.metadata.labels = None;
    assert_eq!(world.create(), Create::Label("m1".into()));
    world.infra.metadata.labels = Some([("rke.cattle.io/capi-machine-name".into(), "m1".into())].into());
    world.machine.spec.bootstrap.data_secret_name = None;
    assert_eq!(code(&world.create()), Code::WaitingForBootstrapData);
    world.cluster.status = None;
    assert_eq!(code(&world.create()), Code::WaitingForInfrastructure);
    world.cluster.spec.paused = Some(true);
    assert_eq!(code(&world.create()), Code::Paused);
}

#[test]
fn a_server_that_is_there_stays_ready_while_paused() {
    let mut world = world();
    world.infra = infra(
        "Amazonec2Machine",
        json!({"providerID": "x"}),
        json!({"conditions": [{"type": "CreateJob", "status": "True"}, {"type": "Ready", "status": "False"}]}),
    );
    let Create::Settled(status) = world.create() else { panic!("{:?}", world.create()) };
    assert!(status.conditions.iter().any(|one| one.type_ == "Ready" && one.status == "True"), "{status:?}");
    world.cluster.spec.paused = Some(true);
    assert!(matches!(world.create(), Create::Pause { until: None, .. }));
}

#[test]
fn a_failed_create_is_tried_again_with_pauses() {
    let mut world = world();
    assert_eq!(code(&world.settle()), Code::CreatingServer);
    world.end(Some(1));
    let step = world.settle();
    assert_eq!(code(&step), Code::CreateFailed);
    let Create::Pause { wait, until } = step else { panic!() };
    assert_eq!(wait.evidence, "no quota", "the driver's own words");
    assert_eq!(until, Some(at("2026-01-01T10:00:30Z")));
    let status = world.infra.status.clone().unwrap();
    let ready = api::GenericCondition::find(&status.conditions, "Ready").unwrap();
    assert_eq!(
        ready.message,
        "failed creating server [fleet-default/prod-workers-x2x7k.a] of kind (SimMachine) for machine m1 in \
         infrastructure provider: CreateError: no quota"
    );
    assert_eq!(status.failure_reason, "CreateError");

    // Nothing was left: the next try is a create.
    world.now = at("2026-01-01T10:00:30Z");
    assert_eq!(code(&world.settle()), Code::CreatingServer);
    assert!(!world.job.as_ref().unwrap().deletes);

    // Something was left: it is deleted first.
    world.state_is_empty = false;
    world.end(Some(1));
    let Create::Pause { until, .. } = world.settle() else { panic!() };
    assert_eq!(until, Some(at("2026-01-01T10:01:30Z")), "twice as long");
    world.now = at("2026-01-01T10:01:30Z");
    assert_eq!(code(&world.settle()), Code::DeletingServer);
    assert!(world.job.as_ref().unwrap().deletes);
    world.end(None);
    world.state_is_empty = true;
    assert_eq!(code(&world.settle()), Code::CreatingServer);
    assert!(!world.job.as_ref().unwrap().deletes);
    world.end(None);
    assert_eq!(code(&world.settle()), Code::WaitingForNode);
    assert_eq!(world.infra.status.clone().unwrap().failure_reason, "");
}

#[test]
fn a_failed_check_leaves_nothing_to_clean_up() {
    let mut world = world();
    world.state_is_empty = false;
    world.settle();
    world.end(Some(3));
    world.settle();
    world.now = at("2026-01-01T11:00:00Z");
    assert_eq!(code(&world.settle()), Code::CreatingServer);
    assert!(!world.job.as_ref().unwrap().deletes);
}

#[test]
fn tries_end_and_settings_may_delete_the_machine() {
    let mut world = world();
    for _ in 0..10 {
        assert_eq!(code(&world.settle()), Code::CreatingServer);
        world.end(Some(1));
        world.settle();
        world.now = world.now.checked_add(jiff::SignedDuration::from_hours(1)).unwrap();
    }
    let step = world.settle();
    assert_eq!(code(&step), Code::CreateGivenUp);
    assert!(matches!(step, Create::Pause { until: None, .. }));
    world.policy.delete_after = jiff::SignedDuration::from_secs(60);
    assert_eq!(world.settle(), Create::DeleteMachine);
}

struct Going<'a> {
    status: Value,
    job: Option<JobView>,
    annotation: Option<&'a str>,
    state_is_empty: bool,
}

fn going(one: &Going<'_>, now: &str) -> Remove {
    let mut machine = infra("SimMachine", json!({}), one.status.clone());
    machine.metadata.annotations = one
        .annotation
        .map(|value| [("provisioning.cattle.io/force-machine-remove".into(), value.into())].into());
    remove(&RemoveFacts {
        infra: &machine,
        namespace_goes: false,
        owned_by_set: false,
        job: one.job.as_ref(),
        state_is_empty: one.state_is_empty,
        policy: &Policy::default(),
        now: at(now),
    })
}

fn conditions(create: &str, delete: Option<&str>, reason: &str) -> Value {
    let mut all = vec![json!({"type": "CreateJob", "status": create, "reason": reason})];
    all.extend(
        delete.map(|status| json!({"type": "DeleteJob", "status": status, "lastTransitionTime": NOW})),
    );
    json!({ "conditions": all })
}

#[test]
fn a_server_goes() {
    let job =
        |deletes: bool, state: JobState| Some(JobView { name: "j".into(), uid: "u".into(), deletes, state });
    let failed = || JobState::Failed { at: at(NOW), exit_code: Some(1), message: "denied".into() };
    let remove = |status: Value, job: Option<JobView>| {
        going(&Going { status, job, annotation: None, state_is_empty: true }, NOW)
    };
    assert_eq!(remove(json!({}), None), Remove::Release, "nothing was ever announced");
    assert_eq!(remove(conditions("Unknown", None, ""), None), Remove::Prune, "announced, and never made");
    let unfinished = remove(conditions("Unknown", None, ""), job(false, JobState::Running));
    assert!(
        matches!(unfinished, Remove::Status { wait: Some(wait), .. } if wait.code == Code::CreateUnfinished)
    );
    let ended = remove(conditions("Unknown", None, ""), job(false, JobState::Complete));
    assert!(matches!(ended, Remove::Status { wait: None, status } if status.conditions[0].status == "True"));
    let announced = remove(conditions("True", None, ""), job(false, JobState::Complete));
    assert!(
        matches!(announced, Remove::Status { status, .. } if status.conditions[1].message == "creating machine deletion job")
    );
    assert_eq!(remove(conditions("True", Some("Unknown"), ""), job(false, JobState::Complete)), Remove::Run);
    assert_eq!(remove(conditions("True", Some("Unknown"), ""), None), Remove::Run);
    let runs = remove(conditions("True", Some("Unknown"), ""), job(true, JobState::Running));
    assert!(matches!(runs, Remove::Status { wait: Some(wait), .. } if wait.code == Code::DeletingServer));
    assert_eq!(remove(conditions("True", Some("Unknown"), ""), job(true, JobState::Complete)), Remove::Prune);
    let fails = remove(conditions("True", Some("Unknown"), ""), job(true, failed()));
    assert!(matches!(fails, Remove::Status { status, .. } if status.failure_reason == "DeleteError"));
    let pauses = remove(conditions("True", Some("False"), ""), job(true, failed()));
    assert!(
        matches!(pauses, Remove::Pause { wait, .. } if wait.code == Code::DeleteFailed && wait.evidence == "denied")
    );
    let later = Going {
        status: conditions("True", Some("False"), ""),
        job: job(true, failed()),
        annotation: None,
        state_is_empty: false,
    };
    assert_eq!(going(&later, "2026-01-01T10:00:30Z"), Remove::Run, "tried again");
    assert_eq!(remove(conditions("False", Some("False"), "CreateError"), job(true, failed())), Remove::Prune);
    let left = Going { status: conditions("False", Some("False"), "CreateError"), ..later };
    assert!(matches!(going(&left, NOW), Remove::Pause { .. }), "something was made, and is there");
    let forced = Going { annotation: Some("True"), ..left };
    assert_eq!(going(&forced, NOW), Remove::Prune, "given up");
}

#[test]
fn machines_that_were_never_taken_go_at_once() {
    let machine = infra("SimMachine", json!({}), conditions("True", None, ""));
    for (namespace_goes, owned_by_set) in [(true, false), (false, true)] {
        let facts = RemoveFacts {
            infra: &machine,
            namespace_goes,
            owned_by_set,
            job: None,
            state_is_empty: true,
            policy: &Policy::default(),
            now: at(NOW),
        };
        assert_eq!(remove(&facts), Remove::Release);
    }
}

#[test]
fn a_node_gives_its_machine_id_and_addresses() {
    let node = |uid: &str, ready: &str, id: &str| -> k8s_openapi::api::core::v1::Node {
        serde_json::from_value(json!({
            "metadata": {"name": "n", "labels": {"rke.cattle.io/machine": uid}},
            "spec": {"providerID": id},
            "status": {
                "conditions": [{"type": "Ready", "status": ready}],
                "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": "n"}],
            },
        }))
        .unwrap()
    };
    let yes = [api::GenericCondition { type_: "Ready".into(), status: "True".into(), ..Default::default() }];
    let look = |group: &str, known: &str, conditions: &[api::GenericCondition], node| {
        joined(group, known, conditions, ("u1", false), &[node])
    };
    let ours = "rke-machine.cattle.io";
    let found = look(ours, "", &yes, node("u1", "True", "k3s://n"));
    let Joined::Yes { addresses, provider_id } = found else { panic!("{found:?}") };
    assert_eq!((addresses.len(), provider_id.as_str()), (2, "k3s://n"));
    assert_eq!(look(ours, "", &[], node("u1", "True", "k3s://n")), Joined::NotYet, "the server is not there");
    assert_eq!(look(ours, "", &yes, node("u2", "True", "k3s://n")), Joined::NotYet, "another's node");
    assert_eq!(look(ours, "", &yes, node("u1", "False", "k3s://n")), Joined::NotYet);
    assert_eq!(look(ours, "", &yes, node("u1", "True", "")), Joined::NotYet);
    assert_eq!(look(ours, "k3s://n", &yes, node("u1", "True", "k3s://n")), Joined::Nothing);
    let native = "infrastructure.cluster.x-k8s.io";
    assert_eq!(
        look(native, "", &yes, node("u1", "True", "k3s://n")),
        Joined::Nothing,
        "the provider says its own"
    );
}

#[test]
fn a_kubelet_does_not_take_the_place_of_a_server() {
    let node = |name: &str, more: &[&str]| -> k8s_openapi::api::core::v1::Node {
        let mut labels = json!({"rke.cattle.io/machine": "u1"});
        more.iter().for_each(|label| labels[*label] = "true".into());
        serde_json::from_value(json!({
            "metadata": {"name": name, "labels": labels},
            "spec": {"providerID": format!("k3s://{name}")},
            "status": {"conditions": [{"type": "Ready", "status": "True"}], "addresses": [{"type": "InternalIP", "address": name}]},
        }))
        .unwrap()
    };
    let yes = [api::GenericCondition { type_: "Ready".into(), status: "True".into(), ..Default::default() }];
    let look = |server: bool, nodes: &[k8s_openapi::api::core::v1::Node]| match joined(
        "rke-machine.cattle.io",
        "",
        &yes,
        ("u1", server),
        nodes,
    ) {
        Joined::Yes { provider_id, .. } => Some(provider_id),
        _ => None,
    };
    let (evil, etcd) = (node("evil", &[]), node("s1", &["node-role.kubernetes.io/etcd"]));
    let plane = node("s2", &["node-role.kubernetes.io/control-plane"]);
    let found = |name: &str| Some(format!("k3s://{name}"));
    for (server, nodes, expected) in [
        (true, vec![evil.clone()], None),
        (true, vec![evil.clone(), etcd.clone()], found("s1")),
        (true, vec![plane.clone(), evil.clone()], found("s2")),
        (true, vec![plane, etcd], None),
        (false, vec![evil.clone()], found("evil")),
        (false, vec![evil, node("w1", &[])], None),
    ] {
        assert_eq!(look(server, &nodes), expected, "server: {server}, {} nodes", nodes.len());
    }
}
