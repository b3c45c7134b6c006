//! Texts that resemble each other, in little room.
//!
//! A server at rest holds thousands of objects that nobody looks at, and those of one kind differ in little more than
//! names. So each is packed against a model, another text of its group, and takes the room of what it does not share
//! with it. Packing is for memory only: there is no format that anybody could keep.

mod shelf;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use lz4_flex::block::{compress, compress_with_dict, decompress, decompress_with_dict};
use shelf::{Block, Shelves};

/// Models of one group, at most. A group is mixed where one kind has several uses, as Secrets have.
const MODELS: usize = 8;

/// The longest model: what is further back than this the compression does not find.
const LONGEST_MODEL: usize = 48 << 10;

/// The shortest text that is worth a model.
const SHORTEST_MODEL: usize = 256;

/// A text that shrinks to this part needs no better model.
const GOOD: usize = 6;

/// One that no model shrinks to this part becomes a model itself, while there is room for more: the others are no help to texts of its use.
/// What is random in a text keeps it above [`GOOD`] beside the best of models.
const POOR: usize = 3;

/// Packs texts, and chooses their models.
#[derive(Debug, Default)]
pub struct Packer {
    groups: BTreeMap<Box<str>, Vec<Arc<[u8]>>>,
    shelves: Shelves,
}

/// A packed text. It has all that it needs to be opened. Clones share it.
#[derive(Clone)]
pub struct Packed {
    block: Block,
    length: usize,
    model: Option<Arc<[u8]>>,
}

impl fmt::Debug for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes in {}", self.length, self.room())
    }
}

/// A text in little room that has no place yet.
struct Loose {
    bytes: Vec<u8>,
    length: usize,
    model: Option<Arc<[u8]>>,
}

impl Loose {
    fn with(model: Option<Arc<[u8]>>, text: &[u8]) -> Self {
        let bytes = match &model {
            Some(model) => compress_with_dict(text, model),
            None => compress(text),
        };
        Loose { bytes, length: text.len(), model }
    }

    fn shrinks_to(&self, part: usize) -> bool {
        self.bytes.len() * part <= self.length
    }

    fn is_well_packed(&self) -> bool {
        self.shrinks_to(GOOD) || (self.model.is_some() && self.shrinks_to(POOR))
    }
}

impl Packer {
    /// One that has packed nothing yet.
    pub const fn new() -> Self {
        Packer { groups: BTreeMap::new(), shelves: Shelves::new() }
    }

    /// Packs a text; `group` says which others it resembles.
    pub fn pack(&mut self, group: &str, text: &[u8]) -> Packed {
        let mut packed = self.best(group, text);
        if !packed.is_well_packed()
            && (SHORTEST_MODEL..=LONGEST_MODEL).contains(&text.len())
            && let Some(model) = self.adopt(group, text)
        {
            packed = Loose::with(Some(model), text);
        }
        Packed { block: self.shelves.put(&packed.bytes), length: packed.length, model: packed.model }
    }

    /// The same text in another place, if the one where it is should be cleared: much of the room around it is not used any more.
    pub fn moved(&mut self, packed: &Packed) -> Option<Packed> {
        let block = self.shelves.moved(&packed.block)?;
        Some(Packed { block, ..packed.clone() })
    }

    /// Forgets models that no text is packed with any more.
    pub fn forget_unused(&mut self) {
        for models in self.groups.values_mut() {
            models.retain(|model| Arc::strong_count(model) > 1);
        }
        self.groups.retain(|_, models| !models.is_empty());
    }

    /// The text in the least room that there is without a new model.
    fn best(&self, group: &str, text: &[u8]) -> Loose {
        let mut best = Loose::with(None, text);
        for model in self.groups.get(group).into_iter().flatten() {
            let packed = Loose::with(Some(model.clone()), text);
            if packed.bytes.len() < best.bytes.len() {
                best = packed;
            }
            if best.shrinks_to(GOOD) {
                break;
            }
        }
        best
    }

    /// Makes a text a model, if there is room for one more.
    fn adopt(&mut self, group: &str, text: &[u8]) -> Option<Arc<[u8]>> {
        if !self.groups.contains_key(group) {
            self.groups.insert(group.into(), Vec::new());
        }
        let models = self.groups.get_mut(group).filter(|models| models.len() < MODELS)?;
        let model: Arc<[u8]> = text.into();
        models.push(model.clone());
        Some(model)
    }
}

impl Packed {
    /// The text.
    pub fn open(&self) -> Vec<u8> {
        let text = self.block.read(|bytes| match &self.model {
            Some(model) => decompress_with_dict(bytes, self.length, model),
            None => decompress(bytes, self.length),
        });
        text.expect("what was packed can be opened")
    }

    /// The length of the text.
    pub fn length(&self) -> usize {
        self.length
    }

    /// The room that it takes for itself.
    pub fn room(&self) -> usize {
        self.block.size()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Like an object of a fleet: much that is equal in all, and a little that is not.
    fn object(number: usize) -> String {
        let conditions: String =
            (0..20).map(|kind| format!("{{\"type\":\"Kind{kind}\",\"status\":\"True\"}},")).collect();
        format!(
            "{{\"name\":\"machine-{number}\",\"uid\":\"{:x}\",\"conditions\":[{conditions}]}}",
            number * 7919
        )
    }

    #[test]
    fn the_second_of_a_kind_takes_little_room() {
        let mut packer = Packer::default();
        packer.pack("machines", object(1).as_bytes());
        let second = packer.pack("machines", object(2).as_bytes());
        assert!(second.room() * 12 < second.length(), "{second:?}");
        assert_eq!(second.open(), object(2).as_bytes());
    }

    #[test]
    fn what_shrinks_by_itself_needs_no_model() {
        let mut packer = Packer::default();
        let packed = packer.pack("zeros", &[0; 10_000]);
        assert!(packed.model.is_none() && packer.groups.is_empty());
        assert_eq!(packed.open(), [0; 10_000]);
    }

    #[test]
    fn models_are_few_and_go_with_their_texts() {
        let mut packer = Packer::default();
        let random = |seed: u32| -> Vec<u8> {
            let next = |state: &u32| Some(state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
            std::iter::successors(Some(seed), next).map(|state| state.to_be_bytes()[0]).take(500).collect()
        };
        let packed: Vec<Packed> = (0..20).map(|seed| packer.pack("noise", &random(seed))).collect();
        assert_eq!(packer.groups["noise"].len(), MODELS);
        for (seed, packed) in (0..20).zip(&packed) {
            assert_eq!(packed.open(), random(seed));
        }
        packer.forget_unused();
        assert_eq!(packer.groups["noise"].len(), MODELS);
        drop(packed);
        packer.forget_unused();
        assert!(packer.groups.is_empty());
    }

    proptest! {
        #[test]
        fn nothing_is_lost(texts in prop::collection::vec(prop::collection::vec(0_u8..4, 0..3000), 1..12)) {
            let mut packer = Packer::default();
            let packed: Vec<Packed> = texts.iter().map(|text| packer.pack("", text)).collect();
            for (text, packed) in texts.iter().zip(&packed) {
                prop_assert_eq!(&packed.open(), text);
                prop_assert_eq!(packed.length(), text.len());
            }
        }
    }
}
