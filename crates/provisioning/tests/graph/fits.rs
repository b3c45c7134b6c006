//! What is rendered fits the definitions of its kinds, and what the API server fills in is no difference.

use std::collections::BTreeMap;

use kubeapi::schema::Structural;
use provisioning::Object;
use provisioning::management::{Images, objects};
use serde_json::Value;

use crate::golden::SHAPES;
use crate::shape::Shape;

/// The schemas of our kinds, by group, version and kind.
fn schemas() -> BTreeMap<(String, String), Structural> {
    let mut all = BTreeMap::new();
    for crd in api::crd::all().into_iter().map(|crd| serde_json::to_value(crd).unwrap()) {
        let group = crd["spec"]["group"].as_str().unwrap();
        let kind = crd["spec"]["names"]["kind"].as_str().unwrap();
        for version in crd["spec"]["versions"].as_array().unwrap() {
            let api_version = format!("{group}/{}", version["name"].as_str().unwrap());
            let schema = Structural::compile(&version["schema"]["openAPIV3Schema"]);
            all.insert(
                (api_version, kind.to_owned()),
                schema.unwrap_or_else(|errors| panic!("{kind}: {errors:?}")),
            );
        }
    }
    all
}

fn schema_of<'a>(
    schemas: &'a BTreeMap<(String, String), Structural>,
    object: &Object,
) -> Option<&'a Structural> {
    let id = object.id();
    schemas.get(&(id.api_version, id.kind))
}

#[test]
fn rendered_objects_fit_their_definitions() {
    let schemas = schemas();
    let mut checked = 0;
    for name in SHAPES {
        let shape = Shape::read(name);
        let graph = shape.render().unwrap().objects;
        for object in graph.iter().chain(&objects(&shape.cluster, "c-m-w2bfx9xq", Images::default())) {
            let Some(schema) = schema_of(&schemas, object) else { continue };
            let mut document = object.document().clone();
            assert_eq!(schema.prune(&mut document), Vec::<String>::new(), "{name}: {}", object.id());
            let errors: Vec<String> =
                schema.validate(&document, None).iter().map(ToString::to_string).collect();
            assert_eq!(errors, Vec::<String>::new(), "{name}: {}", object.id());
            checked += 1;
        }
    }
    assert!(checked > 80, "{checked} objects were checked");
}

#[test]
fn what_the_api_server_fills_in_is_no_difference() {
    let schemas = schemas();
    for name in SHAPES {
        let shape = Shape::read(name);
        let stored = shape.apply(&shape.foreign).into_iter().map(|object| {
            let mut document: Value = object.document().clone();
            if let Some(schema) = schema_of(&schemas, &object) {
                schema.default(&mut document);
            }
            Object::from_document(document)
        });
        assert_eq!(shape.changes(&stored.collect::<Vec<_>>()).unwrap(), [], "{name}");
    }
}
