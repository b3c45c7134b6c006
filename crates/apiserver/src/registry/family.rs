//! What the versions of a custom resource have in common.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubeapi::crd::{Definition, Version};
use kubeapi::schema::Structural;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::sync::watch;

use crate::store::Revision;
use crate::webhook::ClientConfig;

/// A kind that a CRD defines, in all of its versions. It does not change: a CRD that says something else of them makes
/// another family, and retires this one.
#[derive(Debug)]
pub struct Family {
    /// By name, also those that are not served: objects may be stored in them.
    pub versions: BTreeMap<String, Member>,
    /// How one version becomes another.
    pub strategy: Strategy,
    /// Objects that were written at this revision or later were written by these schemas.
    pub since: Revision,
    /// Of what the CRD says.
    fingerprint: [u8; 32],
    /// The revision at which it was retired.
    retired: watch::Sender<Option<Revision>>,
}

/// A version of a custom resource.
#[derive(Debug)]
pub struct Member {
    /// The version's part of the CRD.
    pub version: Arc<Version>,
    /// The schema, ready for use.
    pub schema: Option<Arc<Structural>>,
}

/// How objects are converted.
#[derive(Debug)]
pub enum Strategy {
    /// Only `apiVersion` changes.
    None,
    /// By a webhook, or by who takes its place.
    Webhook(ConversionWebhook),
}

/// A webhook that converts.
#[derive(Clone, Debug)]
pub struct ConversionWebhook {
    /// Where it is.
    pub client: ClientConfig,
    /// The versions of ConversionReview that it understands, the best first.
    pub review_versions: Vec<String>,
}

impl Family {
    /// The newest version that is served, not deprecated, and newer than this one.
    pub fn newer_than(&self, version: &str) -> Option<&str> {
        let served = self.versions.values().map(|member| &member.version);
        let sound = served.filter(|one| one.served && !one.deprecated).map(|one| one.name.as_str());
        let newest = sound.min_by(|left, right| kubeapi::compare_versions(left, right))?;
        kubeapi::compare_versions(newest, version).is_lt().then_some(newest)
    }

    /// What an established CRD says, its schemas not compiled yet. `None` before its names are accepted.
    pub(super) fn read(crd: &Value, since: Revision) -> Option<Self> {
        let conditions = crd["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
        let established =
            conditions.iter().any(|one| one["type"] == "Established" && one["status"] == "True");
        let definition = Definition::read(crd);
        // After a change of names the new ones are served once they are accepted.
        let accepted = crd["status"]["acceptedNames"]["plural"] == definition.names.plural.as_str();
        if !established || !accepted {
            return None;
        }
        // Another object of the same name has another UID: it is not the same family.
        let said = [&crd["metadata"]["uid"], &crd["spec"], &crd["status"]["acceptedNames"]];
        let fingerprint = Sha256::digest(said.map(Value::to_string).concat()).into();
        let members = definition
            .versions
            .into_iter()
            .map(|version| (version.name.clone(), Member { version: Arc::new(version), schema: None }));
        Some(Family {
            versions: members.collect(),
            strategy: strategy(&crd["spec"]["conversion"]),
            since,
            fingerprint,
            retired: watch::Sender::new(None),
        })
    }

    /// The same with schemas that are ready for use.
    pub(super) fn compiled(mut self) -> Self {
        for member in self.versions.values_mut() {
            let schema = member.version.schema.as_ref();
            member.schema = schema.and_then(|schema| Structural::compile(&schema.read()).ok()).map(Arc::new);
        }
        self
    }

    pub(super) fn says_the_same(&self, other: &Family) -> bool {
        self.fingerprint == other.fingerprint
    }

    pub(super) fn retire(&self, at: Revision) {
        self.retired.send_replace(Some(at));
    }

    /// Tells when the family is retired.
    pub(crate) fn retirement(&self) -> watch::Receiver<Option<Revision>> {
        self.retired.subscribe()
    }
}

fn strategy(conversion: &Value) -> Strategy {
    if conversion["strategy"] != "Webhook" {
        return Strategy::None;
    }
    let webhook = &conversion["webhook"];
    let versions = webhook["conversionReviewVersions"].as_array().into_iter().flatten();
    Strategy::Webhook(ConversionWebhook {
        client: ClientConfig::read(&webhook["clientConfig"]),
        review_versions: versions.filter_map(|one| one.as_str().map(str::to_owned)).collect(),
    })
}
