//! The door, as users meet it: refusals with paths, warnings, what is filled in.

use std::sync::Arc;

use apiserver::server::{Admission, Attributes, Operation, Verdict};
use controllers::admission::{Asker, Door, Write};
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::world::{Management, NAMESPACE, World, resource, story, two_pools};

/// The door in an embedded server.
pub(crate) struct AtTheDoor(pub(crate) Arc<Door>);

fn asker(about: &Attributes<'_>) -> Asker {
    Asker { name: about.user.name.clone(), groups: about.user.groups.clone(), ..Asker::default() }
}

fn write<'a>(about: &Attributes<'a>, asker: &'a Asker) -> Write<'a> {
    Write {
        operation: match about.operation {
            Operation::Create => provisioning::admission::Operation::Create,
            Operation::Update => provisioning::admission::Operation::Update,
            Operation::Delete => provisioning::admission::Operation::Delete,
        },
        group: &about.resource.group,
        kind: &about.resource.kind,
        subresource: about.subresource,
        namespace: about.namespace,
        name: about.name,
        asker,
        old: about.old,
        dry_run: about.dry_run,
    }
}

impl Admission for AtTheDoor {
    fn mutate<'a>(&'a self, about: Attributes<'a>, object: &'a mut Value) -> Verdict<'a> {
        Box::pin(async move { self.0.fill_in(write(&about, &asker(&about)), object).await })
    }

    fn validate<'a>(&'a self, about: Attributes<'a>, object: Option<&'a Value>) -> Verdict<'a> {
        Box::pin(async move { self.0.judge(write(&about, &asker(&about)), object).await })
    }
}

/// What a refused write is told: code and message.
fn refusal(answer: Result<(), kube::Error>) -> (u16, String) {
    match answer {
        Err(kube::Error::Api(status)) => (status.code, status.message.clone()),
        other => panic!("it was not refused: {other:?}"),
    }
}

#[test]
fn bad_clusters_are_refused_with_the_path_of_what_is_wrong() {
    story(|| async {
        let world = World::new(21).await;
        let change = |change: &dyn Fn(&mut Value)| {
            let mut document = two_pools("prod", 1, 1);
            change(&mut document);
            document
        };
        // What is wrong, in the words of the API.
        type Case = (&'static str, u16, &'static str, Value);
        let cases: [Case; 6] = [
            ("-bad", 422, "metadata.name", two_pools("prod", 1, 1)),
            (
                "prod",
                400,
                "spec.kubernetesVersion",
                change(&|one| one["spec"]["kubernetesVersion"] = json!("1.34")),
            ),
            (
                "prod",
                422,
                "spec.rkeConfig.machinePools[1]",
                change(&|one| one["spec"]["rkeConfig"]["machinePools"][1]["workerRole"] = json!(false)),
            ),
            (
                "prod",
                422,
                "machineConfigRef.namespace",
                change(&|one| {
                    one["spec"]["rkeConfig"]["machinePools"][0]["machineConfigRef"]["namespace"] =
                        json!("other");
                }),
            ),
            (
                "prod",
                401,
                "spec.cloudCredentialSecretName",
                change(&|one| one["spec"]["cloudCredentialSecretName"] = json!("cc-secret")),
            ),
            (
                "prod",
                400,
                "spec.defaultPodSecurityAdmissionConfigurationTemplateName",
                change(&|one| {
                    one["spec"]["defaultPodSecurityAdmissionConfigurationTemplateName"] = json!("none");
                }),
            ),
        ];
        // Somebody who may make clusters and no more.
        world
            .create(
                "ClusterRole",
                "cluster-maker",
                json!({"rules": [
                    {"apiGroups": ["provisioning.cattle.io"], "resources": ["clusters"], "verbs": ["*"]}
                ]}),
            )
            .await;
        world
            .create("ClusterRoleBinding", "cluster-maker", json!({
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-maker"},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}]
            }))
            .await;
        let Management::Embedded(server) = &world.management else { unreachable!() };
        let bob: Api<DynamicObject> =
            Api::namespaced_with(server.client_of("bob"), NAMESPACE, &resource("ProvisioningCluster"));
        for (name, code, words, mut document) in cases {
            document["apiVersion"] = json!("provisioning.cattle.io/v1");
            document["kind"] = json!("Cluster");
            document["metadata"]["name"] = json!(name);
            let answer = bob.create(&PostParams::default(), &serde_json::from_value(document).unwrap()).await;
            let (found, message) = refusal(answer.map(drop));
            assert_eq!(found, code, "{words}: {message}");
            assert!(message.contains(words), "{words}: {message}");
        }
        assert_eq!(world.list("ProvisioningCluster").await.len(), 0);
    });
}

#[test]
fn what_users_leave_out_is_filled_in_and_what_they_scale_stays_scaled() {
    story(|| async {
        let world = World::new(22).await;
        world.cluster("prod", 1, 1).await;
        let cluster = world.get("ProvisioningCluster", "prod").await;
        assert_eq!(cluster["metadata"]["annotations"]["field.cattle.io/creatorId"], "test");
        let config = world.get("ToyConfig", "prod-workers").await;
        assert_eq!(config["metadata"]["annotations"]["field.cattle.io/creatorId"], "test");
        world.pool_ready("prod-workers", 1).await;
        // A tool that writes the whole cluster drops the frozen schemas: they come back.
        let document = two_pools("prod", 1, 1);
        world.patch("ProvisioningCluster", "prod", json!({"spec": document["spec"]})).await;
        let cluster = world.get("ProvisioningCluster", "prod").await;
        let schema = cluster["spec"]["rkeConfig"]["machinePools"][1]["dynamicSchemaSpec"].as_str().unwrap();
        assert!(schema.contains("size"), "{schema}");

        let scale = Patch::Merge(json!({"spec": {"replicas": 3}}));
        let deployments = world.api("MachineDeployment");
        deployments.patch_scale("prod-workers", &PatchParams::default(), &scale).await.unwrap();
        world.pool_ready("prod-workers", 3).await;
        let cluster = world.get("ProvisioningCluster", "prod").await;
        assert_eq!(cluster["spec"]["rkeConfig"]["machinePools"][1]["quantity"], 3);
        let mut pools = cluster["spec"]["rkeConfig"]["machinePools"].clone();
        pools[1]["quantity"] = json!(2);
        world
            .patch("ProvisioningCluster", "prod", json!({"spec": {"rkeConfig": {"machinePools": pools}}}))
            .await;
        world.pool_ready("prod-workers", 2).await;

        let downgrade = json!({"spec": {"kubernetesVersion": "v1.33.1+k3s1"}});
        let clusters = world.api("ProvisioningCluster");
        let answer = clusters.patch("prod", &PatchParams::default(), &Patch::Merge(downgrade)).await;
        let (_, message) = refusal(answer.map(drop));
        assert!(message.contains("spec.kubernetesVersion"), "{message}");
        let kind = json!({"spec": {"rkeConfig": null}});
        let answer = clusters.patch("prod", &PatchParams::default(), &Patch::Merge(kind)).await;
        assert!(refusal(answer.map(drop)).1.contains("spec.rkeConfig"));
    });
}

#[test]
fn a_driver_in_use_stays_on_and_a_plan_is_a_plan() {
    story(|| async {
        let world = World::new(23).await;
        let drivers: Api<DynamicObject> = Api::all_with(world.client.clone(), &resource("NodeDriver"));
        let driver = json!({
            "apiVersion": "management.cattle.io/v3", "kind": "NodeDriver", "metadata": {"name": "toy"},
            "spec": {"active": true, "displayName": "toy", "builtin": true, "url": "local://", "description": "", "externalId": "", "checksum": ""}
        });
        drivers.create(&PostParams::default(), &serde_json::from_value(driver).unwrap()).await.unwrap();
        world.cluster("prod", 1, 0).await;
        world.pool_ready("prod-servers", 1).await;
        let off = Patch::Merge(json!({"spec": {"active": false}}));
        let answer = drivers.patch("toy", &PatchParams::default(), &off).await;
        let (_, message) = refusal(answer.map(drop));
        assert!(message.contains("spec.active") && message.contains("ToyMachine"), "{message}");
        let answer = drivers.delete("toy", &Default::default()).await;
        assert!(refusal(answer.map(drop)).1.contains("uses it"));

        let machine = crate::world::name(&world.machines("prod-servers").await[0]);
        let plan = format!("{machine}-machine-plan");
        let bad = Patch::Merge(json!({"stringData": {"plan": "nonsense"}}));
        let answer = world.api("Secret").patch(&plan, &PatchParams::default(), &bad).await;
        assert!(refusal(answer.map(drop)).1.contains("data[plan]"));
        world.patch("Secret", &plan, json!({"stringData": {"plan": "{}"}})).await;
        let local = world.try_create("ProvisioningCluster", "local", two_pools("local", 1, 0)).await;
        assert!(refusal(local).1.contains("metadata.name"));
    });
}

/// Reviews write nothing, whoever sends them: what goes with a cluster is written when the cluster is there.
#[test]
fn pod_security_comes_with_the_cluster_and_goes_with_it() {
    story(|| async {
        let world = World::new(24).await;
        let template = json!({"description": "", "configuration": {"defaults": {"enforce": "restricted"}}});
        world.create("PodSecurityAdmissionConfigurationTemplate", "strict", template).await;
        let mut document = two_pools("prod", 1, 1);
        document["spec"]["defaultPodSecurityAdmissionConfigurationTemplateName"] = json!("strict");

        let door = Door::opened(world.client.clone(), Arc::default());
        let master = Asker { name: "x".into(), groups: vec!["system:masters".into()], ..Asker::default() };
        let forged = Write {
            operation: provisioning::admission::Operation::Create,
            group: "provisioning.cattle.io",
            kind: "Cluster",
            subresource: "",
            namespace: NAMESPACE,
            name: "prod",
            asker: &master,
            old: None,
            dry_run: false,
        };
        let mut sent = document.clone();
        sent["apiVersion"] = json!("provisioning.cattle.io/v1");
        sent["kind"] = json!("Cluster");
        sent["metadata"]["name"] = json!("prod");
        sent["metadata"]["namespace"] = json!(NAMESPACE);
        door.fill_in(forged, &mut sent).await.unwrap();
        door.judge(forged, Some(&sent)).await.unwrap();
        let secrets = world.api("Secret");
        let name = "prod-admission-configuration-psact";
        assert!(secrets.get_opt(name).await.unwrap().is_none(), "a review wrote it");

        world.try_create("ProvisioningCluster", "prod", document).await.unwrap();
        let is_there = async |wanted: bool| match secrets.get_opt(name).await.unwrap().is_some() == wanted {
            true => Ok(()),
            false => Err(format!("there: {}", !wanted)),
        };
        world.until(30, "the Secret is made", || is_there(true)).await;
        let file = secrets.get(name).await.unwrap();
        assert_eq!(file.metadata.owner_references.unwrap()[0].kind, "Cluster");
        secrets.delete(name, &Default::default()).await.unwrap();
        world.until(30, "it is made again", || is_there(true)).await;

        let without = json!({"spec": {"defaultPodSecurityAdmissionConfigurationTemplateName": ""}});
        world.patch("ProvisioningCluster", "prod", without).await;
        world.until(30, "it is gone", || is_there(false)).await;
    });
}
