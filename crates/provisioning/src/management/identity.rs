//! Which management cluster is a provisioning cluster's own.
//!
//! `status.clusterName` and the annotation `provisioning.cattle.io/management-cluster-name` are the user's to write: they choose among
//! what the server has written down as this cluster's, and never add to it.

use api::catalogue::annotations;
use api::management::Owner;
use api::provisioning::v1::Cluster;

use super::{annotation, owner};
use crate::graph::Refusal;

/// Letters and digits after `c-m-` in the ids that servers give.
const ID_LENGTH: usize = 8;

/// What exists under an id, and whose it is. The outer option: whether it exists; the inner: its owner, if it has one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The management cluster.
    pub management: Option<Option<Owner>>,
    /// The namespace of that name.
    pub namespace: Option<Option<Owner>>,
}

/// Who claims what.
#[derive(Clone, Copy, Debug)]
pub struct Claims<'a> {
    /// Management clusters that were made for a cluster of this namespace and name, by id.
    pub mine: &'a [(String, Owner)],
    /// What exists under [`Claims::named_id`].
    pub named: &'a Found,
}

impl Claims<'_> {
    /// The id that the cluster itself names: its status, else its annotation.
    pub fn named_id(cluster: &Cluster) -> Option<&str> {
        in_status(cluster).or_else(|| in_annotation(cluster))
    }
}

/// The id of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// It has this one: a management cluster was made for it.
    Has(String),
    /// It takes this one, under which nothing of another's exists.
    Takes(String),
    /// It gets a new one.
    Fresh,
    /// It names one that is not its own.
    Refused(Refusal),
}

fn in_status(cluster: &Cluster) -> Option<&str> {
    let name = cluster.status.as_ref().map(|status| status.cluster_name.as_str());
    name.filter(|name| !name.is_empty())
}

fn in_annotation(cluster: &Cluster) -> Option<&str> {
    annotation(cluster, annotations::MANAGEMENT_CLUSTER_NAME).filter(|name| !name.is_empty())
}

/// Whether it has the form of an id that a server gave.
fn is_id(name: &str) -> bool {
    let letters = name.strip_prefix("c-m-").unwrap_or_default();
    letters.len() == ID_LENGTH && letters.bytes().all(|one| one.is_ascii_lowercase() || one.is_ascii_digit())
}

/// Whether a namespace was made for a cluster, by the owner that it names. An owner without a UID counts only where the name has the form
/// of an id: before owners were written, a namespace of any name could be taken.
pub fn owns_namespace(cluster: &Cluster, name: &str, found: Option<&Owner>) -> bool {
    found.is_some_and(|found| is_us(cluster, found) && (found.is_bound() || is_id(name)))
}

fn is_us(cluster: &Cluster, found: &Owner) -> bool {
    let us = owner(cluster);
    found.is(&us.namespace, &us.name, &us.uid)
}

/// Which management cluster is a cluster's own.
///
/// # Guarantees
/// Two clusters never have one id: a management cluster has one owner.
pub fn identify(cluster: &Cluster, claims: &Claims<'_>) -> Identity {
    let (status, asked) = (in_status(cluster), in_annotation(cluster));
    let is_named = |id: &str| status == Some(id) || (status.is_none() && asked == Some(id));
    // An unbound one that the cluster does not name may be left of an earlier cluster of that name.
    let ours = |(id, found): &&(String, Owner)| is_us(cluster, found) && (found.is_bound() || is_named(id));
    let mut mine: Vec<&str> = claims.mine.iter().filter(ours).map(|(id, _)| id.as_str()).collect();
    mine.sort_by_key(|id| (!is_named(id), *id));
    if let Some(id) = mine.first() {
        return Identity::Has((*id).to_owned());
    }
    let Found { management, namespace } = claims.named;
    let manages = management.as_ref().map(|found| found.as_ref().is_some_and(|found| is_us(cluster, found)));
    let houses =
        |id: &str| namespace.as_ref().is_none_or(|found| owns_namespace(cluster, id, found.as_ref()));
    match (status, asked) {
        // The server ended between the status and the management cluster, or that was deleted.
        (Some(id), _) if is_id(id) && manages.unwrap_or(true) && houses(id) => Identity::Takes(id.into()),
        // Import and move make the management cluster first, with its owner.
        (None, Some(id)) if manages == Some(true) && houses(id) => Identity::Takes(id.into()),
        (Some(id), _) | (None, Some(id)) => Identity::Refused(Refusal::IdTaken(id.into())),
        (None, None) => Identity::Fresh,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use api::provisioning::v1::ClusterStatus;
    use proptest::prelude::*;

    use super::*;

    const ID: &str = "c-m-aaaaaaaa";
    const OTHER: &str = "c-m-bbbbbbbb";

    fn cluster(status: &str, asked: &str) -> Cluster {
        let mut cluster = Cluster::default();
        cluster.metadata.namespace = Some("team".into());
        cluster.metadata.name = Some("prod".into());
        cluster.metadata.uid = Some("u1".into());
        cluster.status = Some(ClusterStatus { cluster_name: status.into(), ..Default::default() });
        cluster.metadata.annotations =
            Some(BTreeMap::from([(annotations::MANAGEMENT_CLUSTER_NAME.into(), asked.into())]));
        cluster
    }

    fn refused(id: &str) -> Identity {
        Identity::Refused(Refusal::IdTaken(id.into()))
    }

    /// One row: what it is; status, annotation; management clusters by (ns, name); what exists under the named id; the outcome.
    type Row = (&'static str, &'static str, &'static str, Vec<(String, Owner)>, Found, Identity);

    fn rows() -> Vec<Row> {
        let mine = |id: &str, text: &str| vec![(id.to_owned(), text.parse::<Owner>().unwrap())];
        let found = |management: Option<&str>, namespace: Option<&str>| {
            let read = |text: Option<&str>| text.map(|text| text.parse().ok());
            Found { management: read(management), namespace: read(namespace) }
        };
        let none = || found(None, None);
        let (has, takes) = (|id: &str| Identity::Has(id.into()), |id: &str| Identity::Takes(id.into()));
        let us = "team/prod/u1";
        let theirs = "team-a/prod/u9";
        vec![
            ("nothing yet", "", "", vec![], none(), Identity::Fresh),
            ("bound", ID, "", mine(ID, us), none(), has(ID)),
            ("the status is wrong", OTHER, "", mine(ID, us), found(Some(theirs), None), has(ID)),
            ("the annotation is wrong", "", OTHER, mine(ID, us), none(), has(ID)),
            ("unbound, named", ID, "", mine(ID, "team/prod/"), none(), has(ID)),
            ("unbound, not named", "", "", mine(ID, "team/prod/"), none(), Identity::Fresh),
            ("of an earlier one", "", "", mine(ID, "team/prod/u0"), none(), Identity::Fresh),
            ("named, of an earlier one", ID, "", vec![], found(Some("team/prod/u0"), None), refused(ID)),
            ("given, not made yet", ID, "", vec![], none(), takes(ID)),
            ("given, with its namespace", ID, "", vec![], found(None, Some(us)), takes(ID)),
            ("the namespace is nobody's", ID, "", vec![], found(None, Some("")), refused(ID)),
            ("the namespace is another's", ID, "", vec![], found(None, Some(theirs)), refused(ID)),
            ("the status says another's", ID, "", vec![], found(Some(theirs), None), refused(ID)),
            ("the status says nobody's", ID, "", vec![], found(Some(""), None), refused(ID)),
            ("no id", "kube-system", "", vec![], none(), refused("kube-system")),
            ("an unbound namespace", "x", "", vec![], found(None, Some("team/prod/")), refused("x")),
            ("the annotation says another's", "", ID, vec![], found(Some(theirs), None), refused(ID)),
            ("the annotation says nothing that exists", "", ID, vec![], none(), refused(ID)),
            ("the annotation says a namespace", "", "x", vec![], found(None, Some("")), refused("x")),
            ("imported", "", "c-abc", vec![], found(Some(us), None), takes("c-abc")),
        ]
    }

    #[test]
    fn an_id_is_the_clusters_own() {
        for (what, status, asked, mine, named, expected) in rows() {
            let claims = Claims { mine: &mine, named: &named };
            assert_eq!(identify(&cluster(status, asked), &claims), expected, "{what}");
        }
    }

    type Objects = BTreeMap<String, Found>;

    /// What a cluster is told in a world of management clusters and namespaces.
    fn told(all: &Objects, cluster: &Cluster) -> Identity {
        let us = owner(cluster);
        let mine = all.iter().filter_map(|(id, found)| Some((id.clone(), found.management.clone()??)));
        let mine: Vec<(String, Owner)> =
            mine.filter(|(_, owner)| owner.is_at(&us.namespace, &us.name)).collect();
        let named = Claims::named_id(cluster).and_then(|id| all.get(id)).cloned().unwrap_or_default();
        identify(cluster, &Claims { mine: &mine, named: &named })
    }

    const NAMES: [&str; 4] = ["c-m-aaaaaaaa", "c-m-bbbbbbbb", "c-x", "kube-system"];

    fn names() -> impl Strategy<Value = String> {
        prop::sample::select(NAMES.to_vec()).prop_map(str::to_owned)
    }

    fn owners() -> impl Strategy<Value = Option<Option<Owner>>> {
        let all = ["a/prod/u1", "a/prod/", "b/prod/u2", "b/prod/", "b/prod/u1", "nobody"];
        prop::option::of(prop::sample::select(all.to_vec()).prop_map(|text| text.parse().ok()))
    }

    proptest! {
        #[test]
        fn two_clusters_never_have_one_id(
            objects in prop::collection::btree_map(
                names(),
                (owners(), owners()).prop_map(|(management, namespace)| Found { management, namespace }),
                0..4,
            ),
            said in prop::collection::vec((prop::option::of(names()), prop::option::of(names())), 2),
        ) {
            let told: Vec<Identity> = said
                .into_iter()
                .zip([("a", "u1"), ("b", "u2")])
                .map(|((status, asked), (namespace, uid))| {
                    let mut cluster = cluster(&status.unwrap_or_default(), &asked.unwrap_or_default());
                    cluster.metadata.namespace = Some(namespace.into());
                    cluster.metadata.uid = Some(uid.into());
                    told(&objects, &cluster)
                })
                .collect();
            // Under an id that both take nothing exists yet: whoever creates the management cluster first has it.
            match (&told[0], &told[1]) {
                (Identity::Takes(one), Identity::Takes(other)) if one == other => {
                    prop_assert!(!objects.contains_key(one) || objects[one] == Found::default());
                }
                (Identity::Has(one) | Identity::Takes(one), Identity::Has(other) | Identity::Takes(other)) => {
                    prop_assert_ne!(one, other);
                }
                _ => {}
            }
        }
    }
}
