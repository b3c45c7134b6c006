//! Documents that nobody has looked at for a while, in little room.
//!
//! A tree of JSON values takes far more room than its text, and most objects of a fleet at rest are looked at by nobody.

use std::io::Write as _;
use std::sync::Arc;

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use serde_json::Value;

/// A document in little room. Clones share it.
#[derive(Clone)]
pub(crate) struct Packed(Arc<[u8]>);

impl Packed {
    /// None if it cannot be done, which only a lack of memory could be the reason for.
    pub(crate) fn new(document: &Value) -> Option<Self> {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(&serde_json::to_vec(document).ok()?).ok()?;
        Some(Packed(encoder.finish().ok()?.into()))
    }

    /// The document.
    pub(crate) fn document(&self) -> Value {
        let text = std::io::read_to_string(DeflateDecoder::new(&*self.0));
        let document = text.ok().and_then(|text| serde_json::from_str(&text).ok());
        document.expect("what was packed is a document")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn documents() -> impl Strategy<Value = Value> {
        let leaves = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            ".*".prop_map(Value::from),
        ];
        leaves.prop_recursive(4, 32, 5, |inner| {
            let list = prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from);
            let map = prop::collection::btree_map(".*", inner, 0..5);
            prop_oneof![list, map.prop_map(|map| Value::Object(map.into_iter().collect()))]
        })
    }

    proptest! {
        #[test]
        fn nothing_is_lost(document in documents()) {
            prop_assert_eq!(Packed::new(&document).unwrap().document(), document);
        }
    }

    #[test]
    fn it_takes_little_room() {
        let conditions = vec![json!({"type": "Ready", "status": "True", "reason": "Ready"}); 20];
        let document = json!({"status": {"conditions": conditions}});
        assert!(Packed::new(&document).unwrap().0.len() * 5 < document.to_string().len());
    }
}
