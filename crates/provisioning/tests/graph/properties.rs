//! For any cluster that the API lets in.

use api::Kind as _;
use api::provisioning::v1::Cluster;
use proptest::prelude::*;
use provisioning::Object;
use serde_json::{Value, json};

use crate::shape::Shape;

/// Clusters that fit the CRD, each with a graph: what a graph needs is filled in.
fn shapes() -> BoxedStrategy<Shape> {
    let name = format!("{}.{}", Cluster::PLURAL, Cluster::GROUP);
    let crds = api::crd::all().into_iter().map(|crd| serde_json::to_value(crd).unwrap());
    let crd = crds.into_iter().find(|crd| crd["metadata"]["name"] == name).unwrap();
    samples::custom_objects(&crd, Cluster::VERSION, special).unwrap().prop_map(renderable).boxed()
}

fn special(field: &str) -> Option<BoxedStrategy<Value>> {
    match field {
        "drainBeforeDeleteTimeout" | "unhealthyNodeTimeout" => samples::cluster_api_fields("timeout"),
        _ => samples::cluster_api_fields(field),
    }
}

fn renderable(document: Value) -> Shape {
    let mut shape = Shape::read("02-ha");
    let mut cluster: Cluster = serde_json::from_value(document).unwrap();
    cluster.metadata = shape.cluster.metadata.clone();
    cluster.status = shape.cluster.status.clone();
    if cluster.spec.kubernetes_version.is_empty() {
        cluster.spec.kubernetes_version = "v1.33.5+k3s1".into();
    }
    let config = cluster.spec.rke_config.get_or_insert_default();
    config.infrastructure_ref = None;
    let pattern = shape.cluster.spec.rke_config.take().unwrap().machine_pools.remove(0);
    for (index, pool) in config.machine_pools.iter_mut().enumerate() {
        pool.name = format!("pool{index}");
        pool.machine_config_ref = pattern.machine_config_ref.clone();
        pool.dynamic_schema_spec = pattern.dynamic_schema_spec.clone();
        pool.worker_role |= !pool.etcd_role && !pool.control_plane_role;
        shape.credentials.insert(pool.common.cloud_credential_secret_name.clone());
    }
    shape.credentials.insert(cluster.spec.cloud_credential_secret_name.clone());
    shape.cluster = cluster;
    shape
}

/// What others write on every object that we make.
fn written_by_others(object: &Object) -> Object {
    let mut document = object.document().clone();
    document["metadata"]["uid"] = json!("assigned");
    document["metadata"]["resourceVersion"] = json!("1");
    document["metadata"]["labels"]["others.example.com/label"] = json!("theirs");
    document["metadata"]["annotations"]["others.example.com/annotation"] = json!("theirs");
    document["metadata"]["finalizers"] = json!(["others.example.com/finalizer"]);
    document["spec"]["othersField"] = json!({"deep": [1, 2]});
    document["status"] = json!({"ready": true});
    let mut owners = document["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
    owners.push(json!({"apiVersion": "others.example.com/v1", "kind": "O", "name": "o", "uid": "theirs"}));
    document["metadata"]["ownerReferences"] = owners.into();
    Object::from_document(document)
}

fn assert_theirs(object: &Object) -> Result<(), TestCaseError> {
    let document = object.document();
    prop_assert_eq!(&document["metadata"]["labels"]["others.example.com/label"], "theirs");
    prop_assert_eq!(&document["metadata"]["annotations"]["others.example.com/annotation"], "theirs");
    prop_assert_eq!(&document["metadata"]["finalizers"], &json!(["others.example.com/finalizer"]));
    prop_assert_eq!(&document["spec"]["othersField"], &json!({"deep": [1, 2]}));
    prop_assert_eq!(&document["status"], &json!({"ready": true}));
    let owners = document["metadata"]["ownerReferences"].as_array().unwrap();
    prop_assert!(owners.iter().any(|owner| owner["uid"] == "theirs"));
    Ok(())
}

#[test]
fn rendering_is_a_function_and_settles_and_leaves_others_fields() {
    let outcome = samples::runner(60).run(&(shapes(), shapes()), |(shape, changed)| {
        prop_assert_eq!(shape.render(), shape.render(), "the same twice");
        let made: Vec<Object> = shape.apply(&[]).iter().map(written_by_others).collect();
        prop_assert_eq!(shape.changes(&made).unwrap(), [], "others' fields are no difference");

        let after = changed.apply(&made);
        prop_assert_eq!(changed.changes(&after).unwrap(), [], "one pass is enough");
        for object in after.iter().filter(|object| object.document()["metadata"]["uid"] == "assigned") {
            assert_theirs(object)?;
        }
        let back = shape.apply(&after);
        prop_assert_eq!(shape.changes(&back).unwrap(), []);
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn admission_takes_anything_and_fills_in_once() {
    use provisioning::admission::{Answers, Operation, Request, mutate, questions, validate};
    let outcome = samples::runner(60).run(&(shapes(), shapes()), |(before, after)| {
        let (old, new) = (&before.cluster, &after.cluster);
        let create = Request {
            operation: Operation::Create,
            user: "u",
            old: None,
            new,
            dry_run: false,
            master: false,
        };
        let update = Request { operation: Operation::Update, old: Some(old), ..create };
        for request in [create, update] {
            let answers = Answers::default();
            let _ = questions(&request);
            let verdict = validate(&request, &answers);
            prop_assert_eq!(verdict.is_admitted(), verdict.message().is_empty());
            let filled = mutate(&request, &answers);
            let again = Request { new: &filled, ..request };
            prop_assert_eq!(&mutate(&again, &answers), &filled, "twice is once");
        }
        // What is in the cluster already is not asked about again.
        let kept = Request { operation: Operation::Update, old: Some(new), ..create };
        let verdict = validate(&kept, &Answers::default());
        prop_assert!(verdict.refusals.iter().all(|refusal| refusal.code != 401), "{}", verdict.message());
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}
