use serde_json::json;

use super::*;

fn verbs(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn gadget<'a>(schema: Option<&'a Document>, all: &'a [String]) -> Resource<'a> {
    Resource {
        group: "my.example.com",
        version: "v1",
        kind: "Gadget",
        list_kind: "GadgetList",
        plural: "gadgets",
        namespaced: false,
        verbs: all,
        subresources: Vec::new(),
        custom: Some(Custom { schema, selectable_fields: &[] }),
    }
}

fn published(schema: Value) -> (Value, Value) {
    let schema = Document::of(&json!({"type": "object", "properties": {"it": schema}}));
    let resource = gadget(Some(&schema), &[]);
    let it =
        |schemas: BTreeMap<String, Value>| schemas["com.example.my.v1.Gadget"]["properties"]["it"].clone();
    let resources = [resource];
    (it(schemas(&resources, Dialect::V3)), it(schemas(&resources, Dialect::V2)))
}

#[test]
fn schemas_of_definitions_are_published() {
    let either = json!([{"type": "integer"}, {"type": "string"}]);
    for (schema, v3, v2) in [
        (
            json!({"type": "string", "default": "", "example": 1}),
            json!({"type": "string", "default": ""}),
            json!({"type": "string"}),
        ),
        (
            json!({"x-kubernetes-int-or-string": true}),
            json!({"x-kubernetes-int-or-string": true, "anyOf": either}),
            json!({"x-kubernetes-int-or-string": true}),
        ),
        (
            json!({"x-kubernetes-int-or-string": true, "anyOf": [{"pattern": "a"}]}),
            json!({"x-kubernetes-int-or-string": true, "anyOf": [{"pattern": "a"}], "allOf": [{"anyOf": either}]}),
            json!({"x-kubernetes-int-or-string": true}),
        ),
        (
            json!({"type": "array", "nullable": true, "items": {"type": "string"}}),
            json!({"type": "array", "nullable": true, "items": {"type": "string"}}),
            json!({}),
        ),
        (
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {"type": "string"}}}),
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {"type": "string"}}}),
            json!({"x-kubernetes-preserve-unknown-fields": true}),
        ),
        (
            json!({"type": "object", "required": ["a", "b"], "properties": {"a": {"type": "string", "nullable": true}, "b": {"type": "string"}}}),
            json!({"type": "object", "required": ["a", "b"], "properties": {"a": {"type": "string", "nullable": true}, "b": {"type": "string"}}}),
            json!({"type": "object", "required": ["b"], "properties": {"a": {}, "b": {"type": "string"}}}),
        ),
    ] {
        assert_eq!(published(schema.clone()), (v3, v2), "{schema}");
    }
}

#[test]
fn a_root_that_keeps_everything_is_told_as_any_object_in_version_2() {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let gvk = json!([{"group": "my.example.com", "version": "v1", "kind": "Gadget"}]);
    let told = |schema: Option<&Value>, dialect| {
        schemas(&[gadget(schema.map(Document::of).as_ref(), &[])], dialect)["com.example.my.v1.Gadget"]
            .clone()
    };
    let any = json!({"type": "object", "x-kubernetes-group-version-kind": gvk});
    assert_eq!(told(Some(&schema), Dialect::V2), any);
    assert_eq!(told(None, Dialect::V3), any);
    let properties = &told(Some(&schema), Dialect::V3)["properties"];
    assert_eq!(
        properties.as_object().unwrap().keys().collect::<Vec<_>>(),
        ["apiVersion", "kind", "metadata"]
    );
}

#[test]
fn operations_are_named_by_group_and_version() {
    let all = verbs(&["create", "get", "list", "patch", "deletecollection"]);
    let document = v3(&[gadget(None, &all)]);
    let path = &document["paths"]["/apis/my.example.com/v1/gadgets"];
    assert_eq!(path["get"]["operationId"], "listMyExampleComV1Gadget");
    assert_eq!(path["delete"]["operationId"], "deleteMyExampleComV1CollectionGadget");
    assert_eq!(path["post"]["tags"], json!(["myExampleCom_v1"]));
    let one = &document["paths"]["/apis/my.example.com/v1/gadgets/{name}"];
    assert!(one.get("put").is_none() && one.get("delete").is_none());
    let parameters = one["patch"]["parameters"].as_array().unwrap();
    // kubectl looks for this one before it sends anything.
    assert!(parameters.iter().any(|one| one["name"] == "fieldValidation" && one["in"] == "query"));
    let types: Vec<&String> = one["patch"]["requestBody"]["content"].as_object().unwrap().keys().collect();
    assert_eq!(
        types,
        ["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"]
    );
}

#[test]
fn every_reference_leads_somewhere() {
    fn follow(value: &Value, known: &Value, prefix: &str) {
        match value {
            Value::Object(object) => {
                if let Some(name) = object.get("$ref").and_then(Value::as_str) {
                    assert!(known.get(name.strip_prefix(prefix).unwrap()).is_some(), "{name}");
                }
                object.values().for_each(|inner| follow(inner, known, prefix));
            }
            Value::Array(list) => list.iter().for_each(|inner| follow(inner, known, prefix)),
            _ => {}
        }
    }
    let all = verbs(&["create", "delete", "deletecollection", "get", "list", "patch", "update"]);
    let lists: Vec<String> =
        crate::builtin::resources().iter().map(|one| format!("{}List", one.kind)).collect();
    let resources: Vec<Resource<'_>> = crate::builtin::resources()
        .iter()
        .zip(&lists)
        .filter(|(one, _)| one.stored)
        .map(|(one, list_kind)| Resource {
            group: one.group,
            version: one.version,
            kind: one.kind,
            list_kind,
            plural: one.plural,
            namespaced: one.namespaced,
            verbs: &all,
            subresources: Vec::new(),
            custom: None,
        })
        .collect();
    let document = v3(&resources);
    follow(&document, &document["components"]["schemas"], "#/components/schemas/");
    let document = v2(&resources);
    follow(&document, &document["definitions"], "#/definitions/");
}

#[test]
fn version_2_in_protobuf_has_gnostics_numbers() {
    let document = json!({"swagger": "2.0", "definitions": {"A": {"type": "object", "additionalProperties": true, "x-b": 1}}});
    let expected: &[u8] = &[
        0x0a, 3, b'2', b'.', b'0', // swagger
        0x4a, 37, 0x0a, 35, // definitions, the first pair
        0x0a, 1, b'A', 0x12, 30, // its name, its schema
        0xaa, 1, 2, 0x10, 1, // additionalProperties
        0xb2, 1, 8, 0x0a, 6, b'o', b'b', b'j', b'e', b'c', b't', // type
        0xfa, 1, 11, 0x0a, 3, b'x', b'-', b'b', 0x12, 4, 0x12, 2, b'1', b'\n', // the extension, as YAML
    ];
    assert_eq!(encode_v2(&document), expected);
}
