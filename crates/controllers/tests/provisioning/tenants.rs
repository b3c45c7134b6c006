//! A tenant, with every right in its own namespace, gets no other's cluster by what it writes there. Where a write is the administrator's,
//! it stands for one that admission was not asked about.

use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::world::{Management, World, condition, resource, story};

/// The tenant's namespace.
const TEAM: &str = "team-b";
const ASKED: &str = "provisioning.cattle.io/management-cluster-name";

struct Story {
    world: World,
    /// The victim's id.
    id: String,
}

impl Story {
    /// A running cluster `prod`, and a tenant beside it.
    async fn begin(seed: u64) -> Self {
        let world = World::new(seed).await;
        world.create("Namespace", TEAM, json!({})).await;
        world.cluster("prod", 1, 0).await;
        world.pool_ready("prod-servers", 1).await;
        world.condition("ProvisioningCluster", "prod", "Ready", "True", "").await;
        let id = world.get("ProvisioningCluster", "prod").await["status"]["clusterName"].clone();
        Story { world, id: id.as_str().unwrap().to_owned() }
    }

    /// The tenant's hand on a kind.
    async fn tenant(&self, kind: &str) -> Api<DynamicObject> {
        let Management::Embedded(server) = &self.world.management else { unreachable!() };
        let rules = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
        let subjects = json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "mallory"}]);
        let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "all"});
        self.make("Role", TEAM, "all", json!({"rules": rules})).await;
        self.make("RoleBinding", TEAM, "all", json!({"roleRef": role, "subjects": subjects})).await;
        Api::namespaced_with(server.client_of("mallory"), TEAM, &resource(kind))
    }

    /// Makes an object as the administrator.
    async fn make(&self, kind: &str, namespace: &str, name: &str, rest: Value) -> Value {
        let document = object(kind, namespace, name, rest);
        let made = self.world.api_in(kind, namespace).create(&PostParams::default(), &document).await;
        serde_json::to_value(made.unwrap()).unwrap()
    }

    async fn read(&self, kind: &str, namespace: &str, name: &str) -> Value {
        let found = self.world.api_in(kind, namespace).get_opt(name).await.unwrap();
        serde_json::to_value(found).unwrap()
    }

    /// Writes a status as whoever may write it.
    async fn say(&self, namespace: &str, name: &str, id: &str) {
        let patch = Patch::Merge(json!({"status": {"clusterName": id}}));
        let api = self.world.api_in("ProvisioningCluster", namespace);
        api.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Everything of the victim's that others could have changed.
    async fn victim(&self) -> Value {
        let prod = self.world.get("ProvisioningCluster", "prod").await;
        let half = self.world.get("ManagementCluster", &self.id).await;
        let namespace = self.world.get("Namespace", &self.id).await;
        let token = self.read("Secret", &self.id, "crt-token-default-token").await;
        let notes = |one: &Value| json!([one["metadata"]["annotations"], one["metadata"]["uid"]]);
        json!([prod["status"], half["status"], notes(&half), notes(&namespace), token["data"]])
    }

    /// The condition of a refused cluster.
    async fn refused(&self, namespace: &str, name: &str) {
        self.world
            .until(60, "a condition", async || {
                let found = self.read("ProvisioningCluster", namespace, name).await;
                let said = condition(&found, "RKECluster");
                let so = said["status"] == "False"
                    && said["message"].as_str().is_some_and(|text| text.contains("the id"));
                if so { Ok(()) } else { Err(found["status"].to_string()) }
            })
            .await;
    }
}

fn object(kind: &str, namespace: &str, name: &str, rest: Value) -> DynamicObject {
    let resource = resource(kind);
    let mut document =
        json!({"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}});
    if !["Namespace", "ManagementCluster"].contains(&kind) {
        document["metadata"]["namespace"] = namespace.into();
    }
    crate::world::merge(&mut document, &rest);
    serde_json::from_value(document).unwrap()
}

fn asking(id: &str) -> Value {
    json!({
        "metadata": {"annotations": {ASKED: id}},
        "spec": {"kubernetesVersion": "v1.34.1+k3s1", "rkeConfig": {}},
    })
}

#[test]
fn an_annotation_takes_no_cluster() {
    story(|| async {
        let story = Story::begin(31).await;
        let mallory = story.tenant("ProvisioningCluster").await;
        let evil = object("ProvisioningCluster", TEAM, "evil", asking(&story.id));
        let refused = mallory.create(&PostParams::default(), &evil).await.unwrap_err().to_string();
        assert!(refused.contains(&format!("metadata.annotations[{ASKED}]")), "{refused}");

        // Admission was not asked: the second claimant has a condition, the first notices nothing.
        let before = story.victim().await;
        story.make("ProvisioningCluster", TEAM, "evil", asking(&story.id)).await;
        story.refused(TEAM, "evil").await;
        story.world.sleep(60).await;
        assert_eq!(story.victim().await, before);
        let evil = story.read("ProvisioningCluster", TEAM, "evil").await;
        assert_eq!(evil["status"]["clusterName"].as_str().unwrap_or_default(), "");
        assert!(story.read("RKEControlPlane", TEAM, "evil").await.is_null(), "nothing was made for it");

        // Without the annotation it gets an id of its own.
        let patch = Patch::Merge(json!({"metadata": {"annotations": {ASKED: null}}}));
        mallory.patch("evil", &PatchParams::default(), &patch).await.unwrap();
        story
            .world
            .until(60, "an id", async || {
                let evil = story.read("ProvisioningCluster", TEAM, "evil").await;
                let id = evil["status"]["clusterName"].as_str().unwrap_or_default().to_owned();
                if id.starts_with("c-m-") && id != story.id {
                    Ok(())
                } else {
                    Err(evil["status"].to_string())
                }
            })
            .await;
    });
}

#[test]
fn a_status_takes_no_cluster() {
    story(|| async {
        let story = Story::begin(32).await;
        let spec = json!({"spec": {"kubernetesVersion": "v1.34.1+k3s1", "rkeConfig": {}}});
        story.make("ProvisioningCluster", TEAM, "evil", spec).await;
        let id =
            async || story.read("ProvisioningCluster", TEAM, "evil").await["status"]["clusterName"].clone();
        let said = async |wanted: &dyn Fn(&Value) -> bool| {
            story
                .world
                .until(60, "an id", async || {
                    let id = id().await;
                    if wanted(&id) { Ok(()) } else { Err(id.to_string()) }
                })
                .await;
        };
        said(&Value::is_string).await;
        story.world.sleep(10).await;
        let (own, before) = (id().await, story.victim().await);
        story.say(TEAM, "evil", &story.id).await;
        said(&|id| *id == own).await;
        story.world.sleep(60).await;
        assert_eq!(story.victim().await, before);
        let control_plane = story.read("RKEControlPlane", TEAM, "evil").await;
        assert_eq!(control_plane["spec"]["managementClusterName"], own);
    });
}

/// A second cluster of the same namespace that says the first one's id goes alone.
#[test]
fn a_cluster_takes_no_other_with_it() {
    story(|| async {
        let mut story = Story::begin(33).await;
        let before = story.victim().await;
        let namespace = crate::world::NAMESPACE;
        story.world.stop().await;
        story.make("ProvisioningCluster", namespace, "evil", asking(&story.id)).await;
        story.say(namespace, "evil", &story.id).await;
        story.world.start();
        story.refused(namespace, "evil").await;
        story.world.delete("ProvisioningCluster", "evil").await;
        story.world.gone("ProvisioningCluster", "evil").await;
        story.world.sleep(60).await;
        assert_eq!(story.victim().await, before);
    });
}

#[test]
fn a_namespace_is_not_adopted() {
    story(|| async {
        let mut story = Story::begin(34).await;
        let world = &story.world;
        world.create("Namespace", "team-a", json!({})).await;
        // As marks of a Herdsman before this one could have it.
        let marks = json!({
            "objectset.rio.cattle.io/id": "cluster-create",
            "objectset.rio.cattle.io/owner-gvk": "provisioning.cattle.io/v1, Kind=Cluster",
            "objectset.rio.cattle.io/owner-name": "evil", "objectset.rio.cattle.io/owner-namespace": TEAM,
        });
        world.create("Namespace", "marked", json!({"metadata": {"annotations": marks}})).await;
        let before = [world.get("Namespace", "team-a").await, world.get("Namespace", "marked").await];
        for id in ["team-a", "marked"] {
            story.world.stop().await;
            story.make("ProvisioningCluster", TEAM, "evil", asking(id)).await;
            story.say(TEAM, "evil", id).await;
            story.world.start();
            story.refused(TEAM, "evil").await;
            let clusters = story.world.api_in("ProvisioningCluster", TEAM);
            clusters.delete("evil", &Default::default()).await.unwrap();
            story
                .world
                .until(120, "its end", async || match clusters.get_opt("evil").await.unwrap() {
                    None => Ok(()),
                    Some(left) => Err(format!("{left:?}")),
                })
                .await;
            story.world.sleep(60).await;
            assert!(story.world.find("ManagementCluster", id).await.is_none());
        }
        let world = &story.world;
        assert_eq!([world.get("Namespace", "team-a").await, world.get("Namespace", "marked").await], before);
    });
}

/// The variables of another's cluster, passwords of proxies among them, do not come into a token of the tenant's.
#[test]
fn a_registration_token_shows_no_others_environment() {
    story(|| async {
        let story = Story::begin(35).await;
        let secret = json!([{"name": "HTTPS_PROXY", "value": "http://u:hush@proxy"}]);
        story.world.patch("ProvisioningCluster", "prod", json!({"spec": {"agentEnvVars": secret}})).await;
        let command = async |namespace: &str, name: &str| {
            story.read("ClusterRegistrationToken", namespace, name).await["status"].to_string()
        };
        story
            .world
            .until(60, "the owner's command", async || {
                let said = command(&story.id, "default-token").await;
                if said.contains("hush") { Ok(()) } else { Err(said) }
            })
            .await;
        let mallory = story.tenant("ClusterRegistrationToken").await;
        let token =
            object("ClusterRegistrationToken", TEAM, "evil", json!({"spec": {"clusterName": story.id}}));
        mallory.create(&PostParams::default(), &token).await.unwrap();
        story.world.sleep(60).await;
        let said = command(TEAM, "evil").await;
        assert!(!said.contains("hush"), "{said}");
        assert!(
            story.read("Secret", TEAM, "crt-token-evil").await.is_null(),
            "no token of another's cluster"
        );
    });
}
