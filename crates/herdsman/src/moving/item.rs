//! Objects on their way: in which order they are made, and what of them is carried. Without IO.

use std::collections::{BTreeMap, BTreeSet};

use api::catalogue::annotations;
use api::catalogue::secrets::types;
use api::management::Owner;
use kube::core::ApiResource;
use plan::authority::{TRUSTED, WANTED};
use plan::secret::AGENT_EXPECTED_ANNOTATION as EXPECTED;
use serde_json::{Map, Value, json};

/// On a copy: the uid of what it is a copy of.
pub(super) const COPY_OF: &str = "herdsman.io/copy-of";
/// What only the API server of an object writes.
const OF_THE_SERVER: [&str; 7] = [
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "managedFields",
    "selfLink",
    "deletionGracePeriodSeconds",
];
/// Which account a token is of: another server gives it another uid.
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

/// What becomes of an object where it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is moved: it goes when it has arrived.
    Moves,
    /// Others may need it too: it stays, and one that is there already is left alone.
    Shared,
}

/// An object.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) resource: ApiResource,
    pub(super) namespaced: bool,
    pub(super) has_status: bool,
    pub(super) fate: Fate,
    pub(super) document: Value,
}

impl Item {
    fn metadata(&self, field: &str) -> &str {
        self.document["metadata"][field].as_str().unwrap_or_default()
    }

    pub(super) fn name(&self) -> &str {
        self.metadata("name")
    }

    pub(super) fn namespace(&self) -> &str {
        self.metadata("namespace")
    }

    pub(super) fn uid(&self) -> &str {
        self.metadata("uid")
    }

    pub(super) fn annotation(&self, name: &str) -> Option<&str> {
        self.document["metadata"]["annotations"][name].as_str()
    }

    /// Whether it is of a kind.
    pub(super) fn is(&self, group: &str, kind: &str) -> bool {
        self.resource.group == group && self.resource.kind == kind
    }

    /// Whether it is the Secret that a machine's plan is in.
    pub(super) fn is_plan(&self) -> bool {
        self.is("", "Secret") && self.document["type"] == types::MACHINE_PLAN
    }

    /// For people.
    pub(super) fn title(&self) -> String {
        match self.namespace() {
            "" => format!("{} {}", self.resource.kind, self.name()),
            namespace => format!("{} {namespace}/{}", self.resource.kind, self.name()),
        }
    }

    /// Whether it is a management cluster.
    pub(super) fn is_management(&self) -> bool {
        self.is("management.cattle.io", "Cluster")
    }

    /// The provisioning cluster that a management cluster was made for.
    pub(super) fn made_for(&self) -> Option<Owner> {
        Owner::of(|key| self.annotation(key)).filter(|_| self.is_management())
    }

    /// The same where it is copied to: `uids` has what the cluster is called there. A cluster that is not there is named without a UID.
    pub(super) fn made_for_there(&self, uids: &BTreeMap<String, String>) -> Option<Owner> {
        let owner = self.made_for()?;
        let uid = uids.get(&owner.uid).cloned().unwrap_or_default();
        Some(Owner { uid, ..owner })
    }

    pub(super) fn owners(&self) -> impl Iterator<Item = &Value> {
        self.document["metadata"]["ownerReferences"].as_array().into_iter().flatten()
    }

    /// What is sent to the other server. `uids` has what owners are called there; an owner that is not there is none.
    pub(super) fn copy(&self, uids: &BTreeMap<String, String>) -> Value {
        let mut document = self.document.clone();
        let Some(metadata) = document["metadata"].as_object_mut() else { return document };
        OF_THE_SERVER.iter().for_each(|field| drop(metadata.remove(*field)));
        let owners: Vec<Value> = self.owners().filter_map(|owner| renamed(owner, uids)).collect();
        metadata.insert("ownerReferences".into(), owners.into());
        let notes = metadata.entry("annotations").or_insert_with(|| Value::Object(Map::new()));
        if notes.is_null() {
            *notes = json!({});
        }
        notes[COPY_OF] = self.uid().into();
        if let Some(owner) = self.made_for_there(uids) {
            notes[annotations::HERDSMAN_OWNER] = owner.to_string().into();
        }
        // Ids are the server's to give: the management cluster that comes along says whose it is.
        if self.is("provisioning.cattle.io", "Cluster")
            && let Some(notes) = notes.as_object_mut()
        {
            notes.remove(annotations::MANAGEMENT_CLUSTER_NAME);
        }
        if self.is_plan() {
            notes[EXPECTED] = "true".into();
            // Who vouches for a server is that server's to say, and what agents should run.
            if let Some(notes) = notes.as_object_mut() {
                [WANTED, TRUSTED, plan::binary::WANTED].iter().for_each(|note| drop(notes.remove(*note)));
            }
        }
        if document["type"] == types::SERVICE_ACCOUNT_TOKEN {
            // The other server fills it in.
            document["data"] = json!({});
            if let Some(notes) = document["metadata"]["annotations"].as_object_mut() {
                notes.remove(ACCOUNT_UID);
            }
        }
        if self.is("", "ServiceAccount")
            && let Some(account) = document.as_object_mut()
        {
            account.remove("secrets");
        }
        document
    }
}

fn renamed(owner: &Value, uids: &BTreeMap<String, String>) -> Option<Value> {
    let uid = uids.get(owner["uid"].as_str()?)?;
    let mut owner = owner.clone();
    owner["uid"] = uid.clone().into();
    Some(owner)
}

/// Owners before what they own, clusters before the management clusters that were made for them, those before what is in their
/// namespaces. Owners that own each other come in the order of their names.
pub(super) fn in_order(items: Vec<Item>) -> Vec<Item> {
    let depth = depths(&items);
    let mut items: Vec<(usize, Item)> = items.into_iter().map(|item| (depth[item.uid()], item)).collect();
    items.sort_by_cached_key(|(depth, item)| (*depth, item.fate == Fate::Moves, item.title()));
    items.into_iter().map(|(_, item)| item).collect()
}

fn depths(items: &[Item]) -> BTreeMap<String, usize> {
    let mut depths: BTreeMap<String, usize> = items.iter().map(|item| (item.uid().to_owned(), 0)).collect();
    let management = items.iter().filter(|item| item.is_management());
    let management: BTreeMap<&str, &str> = management.map(|item| (item.name(), item.uid())).collect();
    let above = |item: &Item| {
        let owners = item.owners().filter_map(|owner| owner["uid"].as_str());
        let mut all: Vec<String> = owners.map(str::to_owned).collect();
        all.extend(item.made_for().map(|owner| owner.uid));
        all.extend(management.get(item.namespace()).map(|uid| (*uid).to_owned()));
        all
    };
    // As many rounds as there are levels; more than there are objects would be a circle.
    for _ in 0..items.len() {
        let mut changed = false;
        for item in items {
            let highest = above(item).iter().filter_map(|uid| depths.get(uid)).max().copied();
            let Some(wanted) = highest.map(|depth| depth + 1).filter(|wanted| *wanted <= items.len()) else {
                continue;
            };
            if depths[item.uid()] < wanted {
                depths.insert(item.uid().to_owned(), wanted);
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    depths
}

/// Core objects that go with what is moved: those that it owns, by whatever way. All others are shared.
pub(super) fn assign_fates(items: &mut [Item]) {
    let mut moving: BTreeSet<String> =
        items.iter().filter(|item| item.fate == Fate::Moves).map(|item| item.uid().to_owned()).collect();
    loop {
        let before = moving.len();
        for item in items.iter_mut().filter(|item| item.fate == Fate::Shared) {
            let owned =
                item.owners().any(|owner| owner["uid"].as_str().is_some_and(|uid| moving.contains(uid)));
            if owned {
                item.fate = Fate::Moves;
                moving.insert(item.uid().to_owned());
            }
        }
        if moving.len() == before {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(kind: &str, name: &str, fate: Fate, document: Value) -> Item {
        let resource = ApiResource {
            group: String::new(),
            version: "v1".into(),
            api_version: "v1".into(),
            kind: kind.into(),
            plural: kind.to_lowercase() + "s",
        };
        let mut document = document;
        document["metadata"]["name"] = name.into();
        document["metadata"]["namespace"] = "ns".into();
        document["metadata"]["uid"] = format!("uid-{name}").into();
        Item { resource, namespaced: true, has_status: false, fate, document }
    }

    fn owned_by(owners: &[&str]) -> Value {
        let owners: Vec<Value> = owners
            .iter()
            .map(|name| json!({"apiVersion": "v1", "kind": "A", "name": name, "uid": format!("uid-{name}")}))
            .collect();
        json!({"metadata": {"ownerReferences": owners}})
    }

    #[test]
    fn owners_come_first_and_circles_end() {
        let all = vec![
            item("A", "leaf", Fate::Moves, owned_by(&["middle", "elsewhere"])),
            item("A", "middle", Fate::Moves, owned_by(&["root"])),
            item("A", "root", Fate::Moves, json!({})),
            item("A", "one", Fate::Moves, owned_by(&["other"])),
            item("A", "other", Fate::Moves, owned_by(&["one"])),
        ];
        let sorted = in_order(all);
        let names: Vec<&str> = sorted.iter().map(Item::name).collect();
        let place = |name: &str| names.iter().position(|one| *one == name).unwrap();
        assert!(place("root") < place("middle") && place("middle") < place("leaf"), "{names:?}");
        assert_eq!(names.len(), 5);
    }

    #[test]
    fn management_clusters_keep_their_owners() {
        let of = |group: &str, name: &str, namespace: &str, document: Value| {
            let mut item = item("Cluster", name, Fate::Moves, document);
            item.resource.group = group.into();
            item.document["metadata"]["namespace"] = namespace.into();
            item
        };
        let notes = |key: &str, value: &str| json!({"metadata": {"annotations": {key: value}}});
        let asked = annotations::MANAGEMENT_CLUSTER_NAME;
        let prod = of("provisioning.cattle.io", "prod", "ns", notes(asked, "c-m-1"));
        let half =
            of("management.cattle.io", "c-m-1", "", notes(annotations::HERDSMAN_OWNER, "ns/prod/uid-prod"));
        let token = item("Secret", "token", Fate::Moves, json!({}));
        let mut token = token;
        token.document["metadata"]["namespace"] = "c-m-1".into();
        let sorted = in_order(vec![token, half.clone(), prod.clone()]);
        assert_eq!(sorted.iter().map(Item::name).collect::<Vec<_>>(), ["prod", "c-m-1", "token"]);

        let owner = |uids: &BTreeMap<String, String>| {
            half.copy(uids)["metadata"]["annotations"][annotations::HERDSMAN_OWNER].clone()
        };
        assert_eq!(owner(&BTreeMap::from([("uid-prod".into(), "new".into())])), "ns/prod/new");
        assert_eq!(owner(&BTreeMap::new()), "ns/prod/");
        assert_eq!(prod.copy(&BTreeMap::new())["metadata"]["annotations"].get(asked), None);
    }

    #[test]
    fn what_is_owned_goes_along() {
        let mut all = vec![
            item("A", "root", Fate::Moves, json!({})),
            item("Secret", "plan", Fate::Shared, owned_by(&["root"])),
            item("Secret", "token", Fate::Shared, owned_by(&["plan"])),
            item("Secret", "credential", Fate::Shared, json!({})),
        ];
        all.reverse();
        assign_fates(&mut all);
        let moved: Vec<&str> = all.iter().filter(|one| one.fate == Fate::Moves).map(Item::name).collect();
        assert_eq!(moved, ["token", "plan", "root"]);
    }

    #[test]
    fn a_copy_has_all_but_what_is_the_servers() {
        let mut document = owned_by(&["root", "elsewhere"]);
        document["type"] = types::MACHINE_PLAN.into();
        document["metadata"]["resourceVersion"] = "7".into();
        document["metadata"]["finalizers"] = json!(["f"]);
        document["metadata"]["labels"] = json!({"a": "b"});
        document["data"] = json!({"plan": "e30="});
        let item = item("Secret", "plan", Fate::Moves, document);
        let copy = item.copy(&BTreeMap::from([("uid-root".into(), "new-root".into())]));
        let root = json!({"apiVersion": "v1", "kind": "A", "name": "root", "uid": "new-root"});
        let expected = json!({
            "type": types::MACHINE_PLAN,
            "data": {"plan": "e30="},
            "metadata": {
                "name": "plan", "namespace": "ns", "finalizers": ["f"], "labels": {"a": "b"}, "ownerReferences": [root],
                "annotations": {COPY_OF: "uid-plan", EXPECTED: "true"},
            },
        });
        assert_eq!(copy, expected);
    }

    #[test]
    fn tokens_of_accounts_are_filled_in_there() {
        let document = json!({
            "type": types::SERVICE_ACCOUNT_TOKEN,
            "metadata": {"annotations": {ACCOUNT_UID: "old", "kubernetes.io/service-account.name": "a"}},
            "data": {"token": "c2VjcmV0"},
        });
        let copy = item("Secret", "t", Fate::Moves, document).copy(&BTreeMap::new());
        assert_eq!(copy["data"], json!({}));
        assert_eq!(
            copy["metadata"]["annotations"],
            json!({COPY_OF: "uid-t", "kubernetes.io/service-account.name": "a"})
        );
    }
}
