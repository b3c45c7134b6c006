//! Conversion between the versions of a kind.
//!
//! A custom resource says how its versions relate: they differ in nothing but `apiVersion`, or a webhook converts
//! them. In process, a [`Converter`] takes the webhook's place. Among the built-in kinds only Events are served in
//! two shapes.

mod check;
mod events;
mod review;

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use clock::Entropy;
use kubeapi::meta;
use serde_json::{Value, json};

use crate::registry::{Family, Resource, Strategy};
use crate::store::Store;
use crate::webhook::Caller;

/// What a converter gives: the objects in the other version, or why not.
pub type Converting<'a> = Pin<Box<dyn Future<Output = Result<Vec<Value>, String>> + Send + 'a>>;

/// Converts objects in process, in place of the webhook that their CRD names.
///
/// It is asked only for kinds whose CRD says `strategy: Webhook`, and its answers are checked as a webhook's are.
pub trait Converter: Send + Sync {
    /// Whether it knows a kind.
    fn handles(&self, group: &str, kind: &str) -> bool;

    /// Converts objects of one kind to `to`, a group and version. Gives as many as it got, in the same order. Of
    /// their metadata only labels and annotations may change. The objects have no `resourceVersion`.
    ///
    /// # Errors
    /// A sentence for the client that asked.
    fn convert<'a>(&'a self, objects: Vec<Value>, to: &'a str) -> Converting<'a>;
}

/// Everything that conversions need. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Conversion {
    converters: Vec<Arc<dyn Converter>>,
    caller: Arc<Caller>,
    entropy: Arc<Mutex<Box<dyn Entropy>>>,
}

impl Conversion {
    pub(crate) fn new(store: Arc<dyn Store>, entropy: Arc<Mutex<Box<dyn Entropy>>>) -> Self {
        Conversion { converters: Vec::new(), caller: Arc::new(Caller::new(store)), entropy }
    }

    pub(crate) fn add(&mut self, converter: Arc<dyn Converter>) {
        self.converters.push(converter);
    }

    /// What calls webhooks.
    pub(crate) fn caller(&self) -> &Arc<Caller> {
        &self.caller
    }

    /// Draws from the source of randomness.
    pub(crate) fn draw<T>(&self, draw: impl FnOnce(&mut dyn Entropy) -> T) -> T {
        draw(&mut **self.entropy.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Converts those objects that are not yet in the version `to`, in one go.
    ///
    /// # Errors
    /// A sentence for the client, in upstream's words.
    pub(crate) async fn convert(
        &self,
        resource: &Resource,
        mut objects: Vec<Value>,
        to: &str,
    ) -> Result<Vec<Value>, String> {
        let differs = |object: &Value| object["apiVersion"] != to;
        if !objects.iter().any(differs) {
            return Ok(objects);
        }
        let Some(custom) = resource.as_custom() else {
            objects
                .iter_mut()
                .filter(|object| differs(object))
                .for_each(|object| events::convert(object, to));
            return Ok(objects);
        };
        for object in &objects {
            check::known_version(&custom.family, &resource.group, object)?;
        }
        match &custom.family.strategy {
            Strategy::None => objects.iter_mut().for_each(|object| object["apiVersion"] = json!(to)),
            Strategy::Webhook(_) => {
                let places: Vec<usize> =
                    (0..objects.len()).filter(|place| differs(&objects[*place])).collect();
                let originals: Vec<Value> = places.iter().map(|place| objects[*place].clone()).collect();
                let converted = self.by_others(resource, &custom.family, originals, to).await?;
                for (place, object) in places.into_iter().zip(converted) {
                    objects[place] = object;
                }
            }
        }
        Ok(objects)
    }

    /// By who knows how: a converter in process, or else the webhook.
    async fn by_others(
        &self,
        resource: &Resource,
        family: &Family,
        originals: Vec<Value>,
        to: &str,
    ) -> Result<Vec<Value>, String> {
        let from = originals[0]["apiVersion"].as_str().unwrap_or_default();
        let about = format!("conversion webhook for {from}, Kind={}", resource.kind);
        let failed = |why: String| format!("{about} failed: {why}");
        let converter = self.converters.iter().find(|one| one.handles(&resource.group, &resource.kind));
        let converted = match (converter, &family.strategy) {
            (Some(converter), _) => converter.convert(originals.clone(), to).await.map_err(failed)?,
            (None, Strategy::Webhook(webhook)) => {
                let uid = self.draw(meta::new_uid);
                review::ask(&self.caller, webhook, &originals, to, &uid).await.map_err(
                    |error| match error {
                        review::Error::NoVersion => error.to_string(),
                        other => failed(other.to_string()),
                    },
                )?
            }
            (None, Strategy::None) => return Err(failed("no converter".into())),
        };
        check::all(&about, &originals, converted, to)
    }
}
