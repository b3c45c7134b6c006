//! Provisioning clusters.

use ::provisioning::admission::{
    Answers, Operation, Question, Request, SecretRef, mutate, questions, validate,
};
use api::Tracked;
use api::catalogue::features;
use api::management::v3::{Cluster as ManagementCluster, Feature, PodSecurityAdmissionConfigurationTemplate};
use api::provisioning::v1::Cluster;
use api::rke::v1::{ETCDSnapshot, RKEControlPlane};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::PostParams;
use kubeapi::Status;
use planner::Version;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Answer, Asker, Door, Write, refused, unknown};
use crate::controlplane::preview_warnings;

/// Where the effect on nodes is shown if not here.
const NO_PREVIEW: &str =
    "what would happen to nodes is not shown to webhooks that anybody may ask: see `herdsman plan -f FILE`";

/// Completes a cluster.
pub(super) async fn fill_in(door: &Door, write: Write<'_>, object: &mut Value) -> Result<(), Status> {
    let mut edit: Tracked<Cluster> = read_tracked(object)?;
    let old = write.old.map(read::<Cluster>).transpose()?;
    let asked = request(&write, old.as_ref(), &edit);
    let answers = look_up(door, &write, &asked).await?;
    *edit = mutate(&asked, &answers);
    *object = edit.document().map_err(|error| Status::bad_request(error.to_string()))?;
    Ok(())
}

/// Judges a cluster.
pub(super) async fn judge(door: &Door, write: Write<'_>, object: Option<&Value>) -> Answer {
    let Some(document) = object.or(write.old) else { return Ok(Vec::new()) };
    let new: Cluster = read(document)?;
    let old = write.old.map(read::<Cluster>).transpose()?;
    let asked = request(&write, old.as_ref(), &new);
    let answers = look_up(door, &write, &asked).await?;
    let verdict = validate(&asked, &answers);
    if !verdict.is_admitted() {
        let errors: Vec<_> = verdict.refusals.iter().map(|refusal| refusal.error.clone()).collect();
        return Err(refused(&write, verdict.code(), &errors));
    }
    let mut warnings = verdict.warnings;
    // `kubectl diff` and `--dry-run=server` show what would happen to nodes.
    if write.dry_run && write.operation == Operation::Update {
        match door.anybody_asks {
            true => warnings.push(NO_PREVIEW.to_owned()),
            false => warnings.extend(preview_warnings(door.client()?, &door.releases, &new).await),
        }
    }
    Ok(warnings)
}

fn request<'a>(write: &Write<'a>, old: Option<&'a Cluster>, new: &'a Cluster) -> Request<'a> {
    let Write { operation, asker, dry_run, .. } = *write;
    Request { operation, user: &asker.name, master: asker.is_master(), old, new, dry_run }
}

fn read<T: DeserializeOwned>(document: &Value) -> Result<T, Status> {
    T::deserialize(document).map_err(|error| Status::bad_request(error.to_string()))
}

fn read_tracked(document: &Value) -> Result<Tracked<Cluster>, Status> {
    Tracked::from_document(document.clone()).map_err(|error| Status::bad_request(error.to_string()))
}

/// Answers the questions that a request raises.
async fn look_up<'d>(door: &'d Door, write: &Write<'_>, asked: &Request<'_>) -> Result<Answers<'d>, Status> {
    let mut answers = Answers { known_versions: door.versions.as_ref(), ..Answers::default() };
    let version = asked.new.spec.kubernetes_version.parse::<Version>();
    answers.known_arguments = version.ok().map(|version| door.releases.arguments(&version));
    for question in questions(asked) {
        answer(door, write, question, &mut answers).await?;
    }
    let spec = &asked.new.spec;
    let customized = spec.cluster_agent_deployment_customization.is_some()
        || spec.fleet_agent_deployment_customization.is_some();
    if customized && asked.operation != Operation::Delete {
        let features: Api<Feature> = Api::all(door.client()?.clone());
        let name = features::AGENT_SCHEDULING_CUSTOMIZATION;
        let found = features.get_opt(name).await.map_err(|error| unknown("a feature", &error))?;
        answers.agent_scheduling = found.is_some_and(|feature| feature.enabled());
    }
    Ok(answers)
}

async fn answer(
    door: &Door,
    write: &Write<'_>,
    question: Question,
    answers: &mut Answers<'_>,
) -> Result<(), Status> {
    let client = door.client()?.clone();
    let namespace = write.namespace;
    match question {
        Question::ManagementCluster(name) => {
            let found = Api::<ManagementCluster>::all(client).get_opt(&name).await;
            if found.map_err(|error| unknown("management clusters", &error))?.is_some() {
                answers.management_clusters.insert(name);
            }
        }
        Question::Access(secret) => {
            if may_read(&client, write.asker, &secret).await? {
                answers.accessible.insert(secret);
            }
        }
        Question::Secret(secret) => {
            let found = Api::<Secret>::namespaced(client, &secret.namespace).get_opt(&secret.name).await;
            if found.map_err(|error| unknown("secrets", &error))?.is_some() {
                answers.secrets.insert(secret);
            }
        }
        Question::Snapshot(name) => {
            let found = Api::<ETCDSnapshot>::namespaced(client, namespace).get_opt(&name).await;
            if let Some(snapshot) = found.map_err(|error| unknown("snapshots", &error))? {
                answers.snapshots.insert(name, snapshot);
            }
        }
        Question::PodSecurityTemplate(name) => {
            let api = Api::<PodSecurityAdmissionConfigurationTemplate>::all(client);
            let found = api.get_opt(&name).await;
            if let Some(template) = found.map_err(|error| unknown("pod security templates", &error))? {
                answers.pod_security_templates.insert(name, template);
            }
        }
        Question::ControlPlane => {
            let found = Api::<RKEControlPlane>::namespaced(client, namespace).get_opt(write.name).await;
            let found = found.map_err(|error| unknown("control planes", &error))?;
            answers.control_plane = found.and_then(|plane| plane.status);
        }
    }
    Ok(())
}

/// Whether whoever asks may read a Secret himself.
pub(super) async fn may_read(
    client: &kube::Client,
    asker: &Asker,
    secret: &SecretRef,
) -> Result<bool, Status> {
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(asker.name.clone()),
            uid: Some(asker.uid.clone()).filter(|uid| !uid.is_empty()),
            groups: Some(asker.groups.clone()),
            extra: Some(asker.extra.clone()),
            resource_attributes: Some(ResourceAttributes {
                verb: Some("get".into()),
                version: Some("v1".into()),
                resource: Some("secrets".into()),
                namespace: Some(secret.namespace.clone()),
                name: Some(secret.name.clone()),
                ..Default::default()
            }),
            ..Default::default()
        },
        ..Default::default()
    };
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let answer = reviews.create(&PostParams::default(), &review).await;
    let answer = answer.map_err(|error| unknown("who may read the credential", &error))?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}
