//! Random families, random deletions: what is left is what a small model says.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::support::{World, owner};

/// An object with references to earlier ones, and whether they block. Some name owners that never were.
type Family = Vec<Vec<(usize, bool)>>;

#[derive(Clone, Debug)]
struct Deletion {
    index: usize,
    policy: &'static str,
    /// Whether everything settles before the next one.
    settle: bool,
}

fn families() -> impl Strategy<Value = Family> {
    let references = |index: usize| {
        let earlier = (0..index + 1, any::<bool>());
        prop::collection::btree_map(0..index.max(1), earlier, 0..3).prop_map(move |chosen| {
            // Index `usize::MAX` is nobody.
            let nobody = |target: usize| if target >= index { usize::MAX } else { target };
            let mut references: BTreeMap<usize, bool> = BTreeMap::new();
            for (target, (other, blocks)) in chosen {
                references.insert(nobody(if other == index { index } else { target }), blocks);
            }
            references.into_iter().collect::<Vec<_>>()
        })
    };
    (1_usize..12).prop_flat_map(move |count| (0..count).map(references).collect::<Vec<_>>())
}

fn deletions() -> impl Strategy<Value = Vec<Deletion>> {
    let policy = prop::sample::select(vec!["Background", "Foreground", "Orphan"]);
    let one = (0_usize..12, policy, any::<bool>()).prop_map(|(index, policy, settle)| Deletion {
        index,
        policy,
        settle,
    });
    prop::collection::vec(one, 0..6)
}

/// Objects with the owners that they still refer to.
#[derive(Clone, Debug, PartialEq)]
struct Model(BTreeMap<usize, BTreeSet<usize>>);

impl Model {
    fn delete(&mut self, index: usize, policy: &str) {
        if policy == "Orphan" && self.0.contains_key(&index) {
            for owners in self.0.values_mut() {
                owners.remove(&index);
            }
        }
        self.0.remove(&index);
        self.collect();
    }

    /// Who has lost all owners goes; who has lost some forgets them.
    fn collect(&mut self) {
        loop {
            let before = self.clone();
            let present: BTreeSet<usize> = self.0.keys().copied().collect();
            self.0.retain(|_, owners| owners.is_empty() || !owners.is_disjoint(&present));
            self.0.values_mut().for_each(|owners| owners.retain(|owner| present.contains(owner)));
            if *self == before {
                return;
            }
        }
    }
}

async fn state(world: &World) -> Model {
    let list = world.get("/api/v1/namespaces/n/configmaps").await;
    let index = |name: &Value| name.as_str().unwrap().strip_prefix("m-").and_then(|text| text.parse().ok());
    let mut found = BTreeMap::new();
    for item in list["items"].as_array().unwrap() {
        let Some(own) = index(&item["metadata"]["name"]) else { continue };
        let owners = item["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        found.insert(own, owners.map(|owner| index(&owner["name"]).unwrap()).collect());
    }
    Model(found)
}

async fn run(family: &Family, deletions: &[Deletion]) {
    let world = World::new().await;
    let mut model = Model(BTreeMap::new());
    let mut uids = Vec::new();
    for (index, references) in family.iter().enumerate() {
        let refer = |(target, blocks): &(usize, bool)| {
            let uid = uids.get(*target).map_or("nobody", String::as_str);
            owner(&format!("m-{target}"), uid, *blocks)
        };
        let owners: Vec<Value> = references.iter().map(refer).collect();
        uids.push(world.map("n", &format!("m-{index}"), json!(owners)).await);
        model.0.insert(index, references.iter().map(|(target, _)| *target).collect());
    }
    model.collect();
    world.settle().await;
    assert_eq!(state(&world).await, model);
    for deletion in deletions {
        // Who is let go while other owners go at the same time depends on who is faster, upstream too.
        if deletion.policy == "Orphan" {
            world.settle().await;
        }
        let url = format!(
            "/api/v1/namespaces/n/configmaps/m-{}?propagationPolicy={}",
            deletion.index, deletion.policy
        );
        if let Err(status) = world.ask("DELETE", &url, Value::Null).await {
            assert_eq!(status.code, 404, "{status:?}");
        }
        model.delete(deletion.index, deletion.policy);
        if deletion.settle || deletion.policy == "Orphan" {
            world.settle().await;
        }
    }
    world.settle().await;
    assert_eq!(state(&world).await, model);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_left_is_what_the_model_says(family in families(), deletions in deletions()) {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(true).build().unwrap();
        runtime.block_on(run(&family, &deletions));
    }
}
