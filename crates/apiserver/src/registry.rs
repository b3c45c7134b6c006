//! What is served: one table of resources, of the built-in kinds and of the CustomResourceDefinitions in the store.

mod family;
mod resource;

use std::collections::BTreeMap;
use std::sync::Arc;

use kubeapi::{GroupVersion, builtin};
use serde_json::Value;

pub use family::{ConversionWebhook, Family, Strategy};
pub use resource::{Custom, Origin, Resource, Subresource};

use crate::store::{Revision, Scope, Stored, View};

/// The prefix of all keys of CustomResourceDefinitions.
pub(crate) const DEFINITIONS: &str = "/registry/apiextensions.k8s.io/customresourcedefinitions/";

/// Group, version and plural: what a path names a resource by.
type Place = (String, String, String);

/// Everything that is served at one moment. It does not change: a new CRD makes a new registry.
#[derive(Debug, Default)]
pub struct Registry {
    resources: BTreeMap<Place, Arc<Resource>>,
    /// What each CRD added: compiling schemas again is dear.
    definitions: BTreeMap<Arc<str>, Defined>,
}

/// What a CRD added.
#[derive(Clone, Debug)]
struct Defined {
    /// The revision that it was read at.
    revision: Revision,
    /// What its versions have in common; none before its names are accepted.
    family: Option<Arc<Family>>,
    resources: Vec<Arc<Resource>>,
}

impl Registry {
    /// The built-in resources, and what the established CRDs in `view` add. CRDs that have not changed since
    /// `previous` are taken over from it.
    pub fn build(view: &View, previous: &Registry) -> Self {
        let mut registry = Registry::default();
        builtin::resources().iter().for_each(|one| registry.add(Arc::new(Resource::builtin(one))));
        for stored in view.scan(&Scope::prefix(DEFINITIONS)) {
            let known = previous.definitions.get(&stored.key);
            let defined = match known.filter(|known| known.revision == stored.modified) {
                Some(known) => known.clone(),
                None => defined(stored, known.and_then(|known| known.family.as_ref())),
            };
            defined.resources.iter().for_each(|one| registry.add(one.clone()));
            registry.definitions.insert(stored.key.clone(), defined);
        }
        registry
    }

    /// What was there first stays: a CRD does not replace what is built in.
    fn add(&mut self, resource: Arc<Resource>) {
        let place = (resource.group.clone(), resource.version.clone(), resource.plural.clone());
        self.resources.entry(place).or_insert(resource);
    }

    /// The resource at a path.
    pub fn get(&self, group_version: &GroupVersion, plural: &str) -> Option<&Arc<Resource>> {
        let GroupVersion { group, version } = group_version.clone();
        self.resources.get(&(group, version, plural.to_owned()))
    }

    /// Tells the families that are in `previous` and not in this registry that they are no more: watches end then.
    pub(crate) fn retire(&self, previous: &Registry, at: Revision) {
        for (key, defined) in &previous.definitions {
            let Some(before) = &defined.family else { continue };
            let after = self.definitions.get(key).and_then(|defined| defined.family.as_ref());
            if !after.is_some_and(|after| Arc::ptr_eq(before, after)) {
                before.retire(at);
            }
        }
    }

    /// All resources by group, version and plural, for discovery.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.values()
    }
}

/// What a stored CRD adds; nothing before its names are accepted. The family stays the same if the CRD still says the
/// same of it.
fn defined(stored: &Stored, known: Option<&Arc<Family>>) -> Defined {
    let revision = stored.modified;
    let nothing = Defined { revision, family: None, resources: Vec::new() };
    let Ok(crd) = serde_json::from_slice::<Value>(&stored.value()) else { return nothing };
    let Some(family) = Family::read(&crd, revision) else { return nothing };
    let family = match known.filter(|known| known.says_the_same(&family)) {
        Some(known) => known.clone(),
        None => Arc::new(family.compiled()),
    };
    let resources = Resource::custom(&crd, &family, revision).into_iter().map(Arc::new).collect();
    Defined { revision, family: Some(family), resources }
}
