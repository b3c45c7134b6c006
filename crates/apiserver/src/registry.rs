//! What is served: one table of resources, of the built-in kinds and of the CustomResourceDefinitions in the store.

mod resource;

use std::collections::BTreeMap;
use std::sync::Arc;

use kubeapi::{GroupVersion, builtin};
use serde_json::Value;

pub use resource::{Custom, Origin, Resource, Subresource};

use crate::store::{Revision, Scope, View};

/// The prefix of all keys of CustomResourceDefinitions.
pub(crate) const DEFINITIONS: &str = "/registry/apiextensions.k8s.io/customresourcedefinitions/";

/// Group, version and plural: what a path names a resource by.
type Place = (String, String, String);

/// Everything that is served at one moment. It does not change: a new CRD makes a new registry.
#[derive(Debug, Default)]
pub struct Registry {
    resources: BTreeMap<Place, Arc<Resource>>,
    /// What each CRD added, with the revision it was read at: compiling schemas again is dear.
    definitions: BTreeMap<Arc<str>, (Revision, Vec<Arc<Resource>>)>,
}

impl Registry {
    /// The built-in resources, and what the established CRDs in `view` add. CRDs that have not changed since
    /// `previous` are taken over from it.
    pub fn build(view: &View, previous: &Registry) -> Self {
        let mut registry = Registry::default();
        builtin::resources().iter().for_each(|one| registry.add(Arc::new(Resource::builtin(one))));
        for stored in view.scan(&Scope::prefix(DEFINITIONS)) {
            let known = previous.definitions.get(&stored.key);
            let resources = match known.filter(|(revision, _)| *revision == stored.modified) {
                Some((_, resources)) => resources.clone(),
                None => defined(&stored.value),
            };
            resources.iter().for_each(|one| registry.add(one.clone()));
            registry.definitions.insert(stored.key.clone(), (stored.modified, resources));
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

    /// All resources by group, version and plural, for discovery.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.values()
    }
}

/// What a stored CRD adds; nothing before its names are accepted.
fn defined(crd: &[u8]) -> Vec<Arc<Resource>> {
    let Ok(crd) = serde_json::from_slice::<Value>(crd) else { return Vec::new() };
    Resource::custom(&crd).into_iter().map(Arc::new).collect()
}
