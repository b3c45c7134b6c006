//! The CRDs on a real Kubernetes: they install, hold every kind's objects, and refuse wrong ones with the field's path.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use api::machine::{Driver, definitions};
use api::management::v3::DynamicSchema;
use peers::{Kubernetes, command};
use serde_json::{Value, json};

#[test]
#[ignore = "peers: kubernetes, etcd"]
fn definitions_on_a_real_api_server() {
    if peers::skip("crds") {
        return;
    }
    // Without controllers: the garbage collector would take objects whose owners are only named.
    let kubernetes = Kubernetes::options().controller_manager(false).start().unwrap();
    manifests_install_without_a_warning(&kubernetes);
    the_command_installs_over_them(&kubernetes);
    every_kind_holds_an_object(&kubernetes);
    nulls_stand_for_nothing(&kubernetes);
    wrong_objects_are_refused(&kubernetes);
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn manifests_install_without_a_warning(kubernetes: &Kubernetes) {
    let crds = repository().join("deploy/crds");
    let mut create = kubernetes.kubectl();
    command::run(create.args(["create", "--warnings-as-errors", "--filename"]).arg(&crds)).unwrap();
    let wait = ["wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"];
    let established = command::run(kubernetes.kubectl().args(wait)).unwrap();
    assert_eq!(established.lines().count(), crds.read_dir().unwrap().count(), "{established}");
    // Established ones may still have a schema that is not structural: then nothing is pruned and no OpenAPI served.
    let reasons = "jsonpath={range .items[*].status.conditions[?(@.type=='NonStructuralSchema')]}{.message}{'\\n'}{end}";
    assert_eq!(command::run(kubernetes.kubectl().args(["get", "crd", "--output", reasons])).unwrap(), "");
}

fn the_command_installs_over_them(kubernetes: &Kubernetes) {
    let herdsman = || {
        let mut herdsman = Command::new(env!("CARGO_BIN_EXE_herdsman"));
        herdsman.args(["crds", "install"]);
        herdsman
    };
    let installed = command::run(herdsman().env("KUBECONFIG", kubernetes.kubeconfig_path())).unwrap();
    assert_eq!(installed.lines().count(), api::crd::all().len(), "{installed}");

    let failed = herdsman().env("KUBECONFIG", "/no/such/kubeconfig").output().unwrap();
    assert_eq!(failed.status.code(), Some(1));
    assert!(text(&failed.stderr).contains("set KUBECONFIG"), "{}", text(&failed.stderr));
}

/// One object of each kind goes in and comes out as it was.
fn every_kind_holds_an_object(kubernetes: &Kubernetes) {
    for definition in driver_definitions() {
        apply(kubernetes, &definition);
    }
    command::run(kubernetes.kubectl().args(["wait", "--for=condition=Established", "crd", "--all"])).unwrap();

    let mut kinds = Vec::new();
    for fixture in fixtures() {
        let namespace = &fixture["metadata"]["namespace"];
        if !namespace.is_null() {
            apply(
                kubernetes,
                &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
            );
        }
        let created =
            kubectl(kubernetes, &["create", "--validate=strict", "--output=json", "--filename=-"], &fixture);
        assert!(created.status.success(), "{fixture}: {}", text(&created.stderr));
        assert_eq!(stored(kubernetes, &fixture), without_server_fields(fixture.clone()), "as it was given");
        kinds.push(format!("{} {}", fixture["apiVersion"], fixture["kind"]));
    }
    for definition in api::crd::all() {
        let version = definition.spec.versions.iter().find(|version| version.storage).unwrap();
        let kind =
            format!("\"{}/{}\" \"{}\"", definition.spec.group, version.name, definition.spec.names.kind);
        assert!(kinds.contains(&kind), "no fixture of {kind}");
    }
}

/// What the API server has of an object, its status written as well where the kind has one of its own.
fn stored(kubernetes: &Kubernetes, fixture: &Value) -> Value {
    let name = fixture["metadata"]["name"].as_str().unwrap();
    let namespace = fixture["metadata"]["namespace"].as_str().unwrap_or("default");
    let (group, version) = fixture["apiVersion"].as_str().unwrap().split_once('/').unwrap();
    let resource = format!("{}.{version}.{group}", fixture["kind"].as_str().unwrap().to_lowercase());
    let here = ["--namespace", namespace, &resource, name];
    if let Some(status) = fixture.get("status").filter(|_| has_status_subresource(group, &fixture["kind"])) {
        let patch = json!({ "status": status }).to_string();
        let arguments = ["patch", "--subresource=status", "--type=merge", "--patch", &patch];
        command::run(kubernetes.kubectl().args(arguments).args(here)).unwrap();
    }
    let object = command::run(kubernetes.kubectl().args(["get", "--output=json"]).args(here)).unwrap();
    without_server_fields(serde_json::from_str(&object).unwrap())
}

/// Without one, a status is stored with the rest of the object.
fn has_status_subresource(group: &str, kind: &Value) -> bool {
    let ours = api::crd::all().into_iter().map(|definition| serde_json::to_value(definition).unwrap());
    let mut all = ours.chain(driver_definitions());
    let found =
        all.find(|one| one["spec"]["group"] == group && one["spec"]["names"]["kind"] == *kind).unwrap();
    let versions = found["spec"]["versions"].as_array().unwrap();
    versions
        .iter()
        .any(|version| version["storage"] == true && version["subresources"].get("status").is_some())
}

fn without_server_fields(mut object: Value) -> Value {
    let metadata = object["metadata"].as_object_mut().unwrap();
    for field in ["uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"] {
        metadata.remove(field);
    }
    object
}

/// A wrong object, made from a fixture: its file, the field to set, the value, and what the refusal has to say.
const WRONG: &[(&str, &str, &str, &str)] = &[
    (
        "provisioning.cattle.io/cluster",
        "/spec/rkeConfig/machinePools/0/quantity",
        "-1",
        "spec.rkeConfig.machinePools[0].quantity: Invalid value: -1",
    ),
    (
        "provisioning.cattle.io/cluster",
        "/spec/rkeConfig/machinePools/0/hostnameLengthLimit",
        "5",
        "spec.rkeConfig.machinePools[0].hostnameLengthLimit: Invalid value: 5",
    ),
    (
        "provisioning.cattle.io/cluster",
        "/spec/rkeConfig/upgradeStrategy/workerConcurrency",
        r#""many""#,
        "spec.rkeConfig.upgradeStrategy.workerConcurrency: Invalid value",
    ),
    (
        "provisioning.cattle.io/cluster",
        "/spec/rkeConfig/machinePools",
        r#"[{"name": "pool1", "machineConfigRef": {}}, {"name": "pool1", "machineConfigRef": {}}]"#,
        r#"spec.rkeConfig.machinePools[1]: Duplicate value: {"name":"pool1"}"#,
    ),
    (
        "provisioning.cattle.io/cluster",
        "/spec/rkeConfig/machinePools/0",
        r#"{"name": "pool", "etcdRole": true, "autoscalingMinSize": 0, "autoscalingMaxSize": 3, "machineConfigRef": {}}"#,
        "AutoscalingMinSize must be greater than 0 when EtcdRole is true",
    ),
    (
        "provisioning.cattle.io/cluster",
        "/spec/rkeConfig/machinePools/0",
        r#"{"name": "pool", "workerRole": true, "autoscalingMaxSize": 3, "machineConfigRef": {}}"#,
        "spec.rkeConfig.machinePools[0]: Invalid value",
    ),
    (
        "provisioning.cattle.io/cluster",
        "/spec/kubernetesVersion",
        "1.33",
        r#"spec.kubernetesVersion: Invalid value: "number": spec.kubernetesVersion in body must be of type string"#,
    ),
    ("cluster.x-k8s.io/machine", "/spec/clusterName", "null", "spec.clusterName: Required value"),
    (
        "cluster.x-k8s.io/machinehealthcheck",
        "/spec/checks/unhealthyMachineConditions",
        r#"[{"type": "Ready", "status": "False", "timeoutSeconds": 5}]"#,
        "spec.checks.unhealthyMachineConditions[0].type",
    ),
    (
        "cluster.x-k8s.io/cluster",
        "/spec/controlPlaneEndpoint/port",
        "70000",
        "spec.controlPlaneEndpoint.port",
    ),
    ("ipam.cluster.x-k8s.io/ipaddress", "/spec/prefix", "129", "spec.prefix"),
];

/// A right object, made from a fixture: null stands for "not given" in manifests from Rancher's UI.
const NULLS: &[(&str, &str)] = &[
    (
        "/spec/rkeConfig/machinePools/0",
        r#"{"name": "pool", "quantity": null, "etcdRole": null, "controlPlaneRole": true, "autoscalingMinSize": null,
            "autoscalingMaxSize": null, "labels": null, "taints": null, "machineConfigRef": {"kind": "A", "name": "b"}}"#,
    ),
    (
        "/spec/rkeConfig/upgradeStrategy/controlPlaneDrainOptions",
        r#"{"preDrainHooks": null, "postDrainHooks": null}"#,
    ),
    ("/spec/rkeConfig/networking", r#"{"stackPreference": null}"#),
    ("/spec/rkeConfig/machineSelectorConfig", r#"[{"config": {}, "machineLabelSelector": null}]"#),
    ("/spec/rkeConfig", "null"),
];

fn nulls_stand_for_nothing(kubernetes: &Kubernetes) {
    for (number, (field, value)) in NULLS.iter().enumerate() {
        let mut object = read(&directory().join("provisioning.cattle.io/cluster.yaml"));
        object["metadata"]["name"] = format!("nulls-{number}").into();
        *object.pointer_mut(field).unwrap_or_else(|| panic!("the fixture has no {field}")) =
            serde_json::from_str(value).unwrap();
        let created = kubectl(kubernetes, &["create", "--validate=strict", "--filename=-"], &object);
        assert!(created.status.success(), "{field} = {value}: {}", text(&created.stderr));
    }
}

fn wrong_objects_are_refused(kubernetes: &Kubernetes) {
    let refusal = |object: &Value| {
        let refused = kubectl(kubernetes, &["create", "--validate=false", "--filename=-"], object);
        assert_eq!(refused.status.code(), Some(1), "{object}: {}", text(&refused.stdout));
        text(&refused.stderr)
    };
    for (file, field, value, expected) in WRONG {
        let mut object = read(&directory().join(format!("{file}.yaml")));
        object["metadata"]["name"] = "wrong".into();
        *object.pointer_mut(field).unwrap_or_else(|| panic!("{file} has no {field}")) =
            serde_json::from_str(value).unwrap();
        let said = refusal(&object);
        assert!(said.contains(expected), "{file} {field} = {value}: {said}");
    }
    // And of every kind: a field that has to be an object, given as text.
    for mut object in fixtures() {
        object["metadata"]["name"] = "wrong".into();
        let Some(field) = ["spec", "status"].into_iter().find(|field| object[field].is_object()) else {
            continue;
        };
        object[field] = "text".into();
        let said = refusal(&object);
        assert!(said.contains(&format!("{field}: Invalid value: \"string\"")), "{}: {said}", object["kind"]);
    }
}

fn directory() -> PathBuf {
    repository().join("crates/api/fixtures")
}

/// The fixtures of kinds that are installed on a management cluster.
fn fixtures() -> Vec<Value> {
    let downstream = ["helm.cattle.io", "k3s.cattle.io", "upgrade.cattle.io"];
    let mut paths: Vec<PathBuf> = Vec::new();
    for group in directory().read_dir().unwrap().map(|entry| entry.unwrap().path()) {
        if !downstream.iter().any(|name| group.ends_with(name)) {
            paths.extend(group.read_dir().unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    paths.sort();
    paths.iter().map(|path| read(path)).collect()
}

/// The three definitions that the fixture of a node driver's schema gives.
fn driver_definitions() -> Vec<Value> {
    let schema = read(&directory().join("management.cattle.io/dynamicschema.yaml"));
    let schema: DynamicSchema = serde_json::from_value(schema).unwrap();
    let made = definitions(&Driver::named("amazonec2").unwrap(), &schema.spec.resource_fields).unwrap();
    made.into_iter().map(|definition| serde_json::to_value(definition).unwrap()).collect()
}

fn read(path: &Path) -> Value {
    serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn apply(kubernetes: &Kubernetes, object: &Value) {
    let applied = kubectl(kubernetes, &["apply", "--server-side", "--filename=-"], object);
    assert!(applied.status.success(), "{}", text(&applied.stderr));
}

fn kubectl(kubernetes: &Kubernetes, arguments: &[&str], input: &Value) -> Output {
    let mut kubectl = kubernetes.kubectl();
    kubectl.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = kubectl.spawn().unwrap();
    running.stdin.take().unwrap().write_all(input.to_string().as_bytes()).unwrap();
    running.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
