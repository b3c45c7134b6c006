//! What is written: objects of 2 KiB, of a built-in kind and of a custom one.

use bytes::Bytes;
use clock::{Entropy, SeededEntropy};
use serde_json::{Value, json};

/// Bytes of an object as it is sent.
const SIZE: usize = 2048;

const GROUP: &str = "load.herdsman.io";

/// Where the number of an object is in it.
const NUMBER: &str = "\"a-number\":\"";

/// What kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    ConfigMap,
    Custom,
}

impl Kind {
    pub(super) const ALL: [Kind; 2] = [Kind::ConfigMap, Kind::Custom];

    /// What its figures are called.
    pub(super) fn word(self) -> &'static str {
        match self {
            Kind::ConfigMap => "configmaps",
            Kind::Custom => "custom",
        }
    }

    /// Where its objects are.
    pub(super) fn path(self, namespace: &str) -> String {
        match self {
            Kind::ConfigMap => format!("/api/v1/namespaces/{namespace}/configmaps"),
            Kind::Custom => format!("/apis/{GROUP}/v1/namespaces/{namespace}/loads"),
        }
    }
}

/// Makes objects that do not look alike.
#[derive(Debug)]
pub(super) struct Objects {
    text: String,
}

impl Default for Objects {
    fn default() -> Self {
        let mut entropy = SeededEntropy::new(1);
        let mut letter = || char::from(b'a' + u8::try_from(entropy.below(26)).unwrap_or_default());
        Objects { text: (0..16 * SIZE).map(|_| letter()).collect() }
    }
}

impl Objects {
    /// An object of a kind, with a number to know it by.
    pub(super) fn make(&self, kind: Kind, name: &str, number: usize) -> Bytes {
        let empty = object(kind, name, number, "").to_string().len();
        let length = SIZE.saturating_sub(empty);
        let start = number * 37 % (self.text.len() - SIZE);
        object(kind, name, number, &self.text[start..start + length]).to_string().into()
    }
}

fn object(kind: Kind, name: &str, number: usize, text: &str) -> Value {
    let metadata = json!({"name": name, "labels": {"app": "load", "tier": "bench"}});
    let content = json!({"a-number": format!("{number:08}"), "text": text});
    match kind {
        Kind::ConfigMap => {
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": content})
        }
        Kind::Custom => {
            let version = format!("{GROUP}/v1");
            let spec = json!({"content": content, "replicas": 3, "ports": [{"name": "http", "number": 80}]});
            json!({"apiVersion": version, "kind": "Load", "metadata": metadata, "spec": spec})
        }
    }
}

/// Finds the numbers of the objects that events are about. It is nearly always in the same place, and looking there
/// first leaves the processor to the server.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    place: usize,
}

impl Numbers {
    pub(super) fn of(&mut self, event: &[u8]) -> Option<usize> {
        let is_here = |place: usize| event.get(place..)?.starts_with(NUMBER.as_bytes()).then_some(place);
        let search = || event.windows(NUMBER.len()).position(|window| window == NUMBER.as_bytes());
        self.place = is_here(self.place).or_else(search)?;
        let digits = event.get(self.place + NUMBER.len()..)?.get(..8)?;
        std::str::from_utf8(digits).ok()?.parse().ok()
    }
}

/// Defines the custom kind.
pub(super) fn definition() -> Value {
    let text = json!({"type": "string"});
    let port = json!({"type": "object", "required": ["number"], "properties": {
        "name": text, "protocol": {"type": "string", "default": "TCP", "enum": ["TCP", "UDP"]},
        "number": {"type": "integer", "minimum": 1, "maximum": 65535},
    }});
    let spec = json!({"type": "object", "required": ["content"], "properties": {
        "content": {"type": "object", "additionalProperties": text},
        "replicas": {"type": "integer", "minimum": 0},
        "ports": {"type": "array", "items": port},
    }});
    let schema = json!({"type": "object", "properties": {"spec": spec, "status": {
        "type": "object", "properties": {"ready": {"type": "boolean"}},
    }}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("loads.{GROUP}")},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": "loads", "singular": "load", "kind": "Load", "listKind": "LoadList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}},
            }],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_have_their_size_and_their_number() {
        let (objects, mut numbers) = (Objects::default(), Numbers::default());
        for kind in Kind::ALL {
            for drawn in [0, 7, 49_999] {
                let made = objects.make(kind, "one-of-them", drawn);
                assert_eq!((made.len(), numbers.of(&made)), (SIZE, Some(drawn)));
            }
        }
        assert_eq!(numbers.of(b"{}"), None);
    }
}
