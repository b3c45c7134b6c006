//! ClusterRoles that gather the rules of others.

use std::collections::BTreeMap;

use kubeapi::Status;
use kubeapi::rbac::{ClusterRole, GROUP, aggregation};
use kubeapi::selector::label;
use serde_json::{Value, json};

use super::client::{At, Client, or_gone};
use super::engine::{After, Controller, Work};
use super::place::Place;
use super::queue::Item;
use crate::store::{Event, Revision, Scope, View};

/// One look settles all roles, for they depend on one another.
const ALL: &str = "all";

/// Keeps the rules of ClusterRoles that gather others up to date.
pub(super) struct Aggregation {
    client: Client,
}

impl Aggregation {
    pub(super) fn new(client: Client) -> Self {
        Aggregation { client }
    }
}

impl Controller for Aggregation {
    fn name(&self) -> &'static str {
        "ClusterRole aggregation"
    }

    fn begin(&mut self, _view: &View) -> Vec<Item> {
        vec![ALL.into()]
    }

    fn note(&mut self, place: &Place<'_>, _event: &Event) -> Vec<Item> {
        match place.is(GROUP, "clusterroles") {
            true => vec![ALL.into()],
            false => Vec::new(),
        }
    }

    fn start(&mut self, _item: &Item) -> Work {
        let client = self.client.clone();
        Box::pin(async move {
            gather(&client).await?;
            Ok(After::Done)
        })
    }
}

async fn gather(client: &Client) -> Result<(), Status> {
    let view = client.server().store().view();
    let (mut roles, mut versions): (BTreeMap<String, ClusterRole>, BTreeMap<String, Revision>) =
        (BTreeMap::new(), BTreeMap::new());
    for stored in view.scan(&Scope::prefix(format!("/registry/{GROUP}/clusterroles/"))) {
        let object = serde_json::from_slice::<Value>(&stored.value());
        let role = object.and_then(|object| ClusterRole::from_object(&object));
        let (Ok(role), Some(place)) = (role, Place::of(&stored.key)) else { continue };
        roles.insert(place.name.into(), role);
        versions.insert(place.name.into(), stored.modified);
    }
    let out_of_date = aggregation::out_of_date(&roles, |selector, labels| {
        label::from_object(Some(selector)).is_ok_and(|selector| selector.matches(labels))
    });
    for (name, rules) in out_of_date {
        let version = versions.get(&name).map(Revision::to_string);
        let change = json!({"metadata": {"resourceVersion": version}, "rules": rules});
        or_gone(client.patch(at(&name), change).await)?;
    }
    Ok(())
}

pub(super) fn at(name: &str) -> At<'_> {
    At { group: GROUP, version: "v1", plural: "clusterroles", name, ..At::default() }
}
