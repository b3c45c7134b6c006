//! The protobuf format against bytes that Go's types have written (`data/generate`).

use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubeapi::proto::{self, DefaultKind, Error, Limits};
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Vector {
    name: String,
    json: Value,
    protobuf: String,
}

impl Vector {
    fn bytes(&self) -> Vec<u8> {
        STANDARD.decode(&self.protobuf).expect("it is base64")
    }
}

/// The frame of a watch, then one object on each line.
static VECTORS: LazyLock<Vec<Vector>> =
    LazyLock::new(|| serde_json::from_str(include_str!("data/protobuf.json")).expect("it is JSON"));

fn vectors() -> (&'static Vector, &'static [Vector]) {
    VECTORS.split_first().expect("it is not empty")
}

#[test]
fn bytes_of_go_become_the_json_of_go() {
    for vector in vectors().1 {
        let decoded =
            proto::decode(&vector.bytes()).unwrap_or_else(|error| panic!("{}: {error}", vector.name));
        assert_eq!(decoded, vector.json, "{}", vector.name);
    }
}

#[test]
fn json_of_go_becomes_the_bytes_of_go() {
    for vector in vectors().1 {
        let encoded = proto::encode(&vector.json).unwrap_or_else(|error| panic!("{}: {error}", vector.name));
        assert_eq!(STANDARD.encode(encoded), vector.protobuf, "{}", vector.name);
    }
}

#[test]
fn watch_frames_are_those_of_go() {
    let (frame, _) = vectors();
    let (bytes, event) = (frame.bytes(), frame.json["type"].as_str().unwrap());
    assert_eq!(proto::encode_watch_frame(event, &frame.json["object"]).unwrap(), bytes);

    let twice = [bytes.as_slice(), &bytes].concat();
    let (first, rest) = proto::split_watch_frame(&twice, Limits::REQUEST).unwrap().unwrap();
    assert_eq!(rest, bytes);
    let decoded = proto::decode_watch_event(first, Limits::REQUEST).unwrap();
    assert_eq!(decoded, (event.to_owned(), frame.json["object"].clone()));

    for end in 0..bytes.len() {
        assert_eq!(proto::split_watch_frame(&bytes[..end], Limits::REQUEST), Ok(None));
    }
    let huge = proto::split_watch_frame(&[0xff; 4], Limits::REQUEST);
    assert_eq!(huge, Err(Error::TooLarge("bytes")));
}

/// A field that has a length.
fn field(number: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2];
    let mut length = body.len();
    while length >= 0x80 {
        bytes.push(u8::try_from(length & 0x7f).expect("it is masked") | 0x80);
        length >>= 7;
    }
    bytes.push(u8::try_from(length).expect("it is small"));
    [bytes.as_slice(), body].concat()
}

fn envelope(api_version: &str, kind: &str, body: &[u8], content_type: &str) -> Vec<u8> {
    let types = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    [b"k8s\0".to_vec(), field(1, &types), field(2, body), field(4, content_type.as_bytes())].concat()
}

#[test]
fn envelopes_hold_protobuf_or_json_and_may_leave_the_kind_to_the_path() {
    let config_map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}});
    let default = DefaultKind { api_version: "v1", kind: "ConfigMap" };
    let text = config_map.to_string();
    let unknown = |api_version: &str, kind: &str| {
        Err(Error::UnknownKind { api_version: api_version.into(), kind: kind.into() })
    };
    let cases = [
        (envelope("v1", "ConfigMap", b"", ""), Ok(config_map.clone())),
        (envelope("v1", "ConfigMap", b"", "application/vnd.kubernetes.protobuf"), Ok(config_map.clone())),
        (envelope("v1", "ConfigMap", text.as_bytes(), "application/json"), Ok(config_map.clone())),
        (envelope("", "", b"", ""), Ok(config_map)),
        (envelope("example.com/v1", "Widget", b"", ""), unknown("example.com/v1", "Widget")),
        (envelope("example.com/v1", "ConfigMap", b"", ""), unknown("example.com/v1", "ConfigMap")),
        (
            envelope("example.com/v1", "DeleteOptions", b"", ""),
            Ok(json!({"apiVersion": "example.com/v1", "kind": "DeleteOptions"})),
        ),
        (envelope("v1", "ConfigMap", b"", "text/plain"), Err(Error::UnknownContent("text/plain".into()))),
        (b"{}".to_vec(), Err(Error::NotEnveloped)),
        (vec![], Err(Error::NotEnveloped)),
    ];
    for (bytes, object) in cases {
        assert_eq!(proto::decode_with(&bytes, default, Limits::REQUEST), object, "{bytes:?}");
    }
    assert_eq!(proto::decode(&envelope("", "", b"", "")), unknown("", ""));
}

#[test]
fn messages_in_pieces_add_up_and_the_last_number_counts() {
    // Two pieces of metadata, and an unknown field.
    let body = [field(1, &field(1, b"a")), field(15, b"?"), field(1, &field(3, b"n"))].concat();
    let object = proto::decode(&envelope("v1", "ConfigMap", &body, "")).unwrap();
    assert_eq!(object["metadata"], json!({"name": "a", "namespace": "n"}));
    // spec.minReadySeconds of a Deployment, twice; and once packed where a list of numbers is wanted.
    let deployment =
        proto::decode(&envelope("apps/v1", "Deployment", &field(2, &[5 << 3, 1, 5 << 3, 2]), ""));
    assert_eq!(deployment.unwrap()["spec"]["minReadySeconds"], 2);
    let context = field(14, &field(4, &[1, 2]));
    let pod = proto::decode(&envelope("v1", "Pod", &field(2, &context), "")).unwrap();
    assert_eq!(pod["spec"]["securityContext"]["supplementalGroups"], json!([1, 2]));
}

#[test]
fn wrong_values_are_named_by_their_place() {
    let cases = [
        (
            json!({"apiVersion": "v1", "kind": "Secret", "data": {"a": "%"}}),
            "data[a]: must be base64: Invalid symbol 37, offset 0.",
        ),
        (
            json!({"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 1}, {"port": "x"}]}}),
            "spec.ports[1].port: must be an integer from -2147483648 to 2147483647",
        ),
        (json!({"apiVersion": "v1", "kind": "Pod", "metadata": []}), "metadata: must be an object"),
        (
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a": 1}}}),
            "metadata.labels[a]: must be a string",
        ),
        (
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"creationTimestamp": "today"}}),
            "metadata.creationTimestamp: must be an RFC 3339 time",
        ),
        (
            json!({"apiVersion": "v1", "kind": "Pods"}),
            r#"no protobuf format is known for kind "Pods" in version "v1""#,
        ),
    ];
    for (object, problem) in cases {
        assert_eq!(proto::encode(&object).unwrap_err().to_string(), problem);
    }
    let not_text = envelope("v1", "ConfigMap", &field(1, &field(1, &[0xff])), "");
    assert_eq!(proto::decode(&not_text).unwrap_err().to_string(), "metadata.name: must be valid UTF-8");
}

#[test]
fn few_bytes_do_not_become_much_memory_or_stack() {
    // Empty containers: two bytes each.
    let containers: Vec<u8> = [2 << 3 | 2, 0].repeat(1 << 20);
    let pod = envelope("v1", "Pod", &field(2, &containers), "");
    assert_eq!(proto::decode(&pod), Err(Error::TooLarge("values")));
    // A schema whose `not` has a `not`, and so on; and lists of lists.
    let mut schema = Vec::new();
    let mut list = Vec::new();
    for _ in 0..1000 {
        // Field 28 needs a tag of two bytes.
        schema = [&[0xe2, 0x01][..], &field(0, &schema)[1..]].concat();
        list = envelope("v1", "List", &field(2, &field(1, &list)), "");
    }
    let version = field(4, &field(1, &schema));
    let crd =
        envelope("apiextensions.k8s.io/v1", "CustomResourceDefinition", &field(2, &field(7, &version)), "");
    assert_eq!(proto::decode(&crd), Err(Error::TooLarge("levels")));
    assert_eq!(proto::decode(&list), Err(Error::TooLarge("levels")));
    let limits = Limits { bytes: 10, ..Limits::REQUEST };
    assert_eq!(proto::decode_with(&crd, DefaultKind::default(), limits), Err(Error::TooLarge("bytes")));
}

#[test]
fn cut_off_objects_are_errors() {
    for vector in vectors().1.iter().filter(|vector| vector.name.ends_with(" full")) {
        let bytes = vector.bytes();
        for end in 0..bytes.len() {
            // After the envelope's kind, and after its object, the fields that follow may be missing, as in Go.
            let object = proto::decode(&bytes[..end]);
            let known =
                object.is_ok_and(|object| object == vector.json || object["kind"] == vector.json["kind"]);
            let boundary = end + 4 >= bytes.len() || end == 6 + usize::from(bytes[5]);
            assert!(!known || boundary, "{} at {end} of {}", vector.name, bytes.len());
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_an_object_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        for (api_version, kind) in [("v1", "Pod"), ("apiextensions.k8s.io/v1", "CustomResourceDefinition"), ("v1", "List")] {
            if let Ok(object) = proto::decode(&envelope(api_version, kind, &bytes, "")) {
                prop_assert!(proto::encode(&object).is_ok());
            }
        }
        let _ = proto::decode(&bytes);
        let _ = proto::decode_watch_event(&bytes, Limits::REQUEST);
    }

    #[test]
    fn damaged_objects_still_make_sense_when_they_decode(
        which in any::<proptest::sample::Index>(),
        damage in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let all = vectors().1;
        let mut bytes = which.get(all).bytes();
        for (place, byte) in damage {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        if let Ok(object) = proto::decode(&bytes) {
            let again = proto::encode(&object).unwrap();
            prop_assert_eq!(proto::decode(&again).unwrap(), object);
        }
    }
}
