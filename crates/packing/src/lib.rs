//! Texts that resemble each other, in little room.
//!
//! A server at rest holds thousands of objects that nobody looks at, and those of one kind differ in little more than
//! names. So each is packed against a model, some other texts of its group, and takes the room of what it does not share
//! with them. Packing is for memory only: there is no format that anybody could keep.

mod shelf;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use shelf::{Block, Shelves};
use zstd_safe::{CCtx, DCtx, compress_bound};

/// How hard it is tried: harder gains hundredths only, as most is found in the model.
const LEVEL: i32 = 1;

/// Texts that a model is made of, and their bytes, at most.
const TEXTS: usize = 8;
const LONGEST_MODEL: usize = 48 << 10;

/// A text is helped by its model if it shrinks to this part.
const HELPED: usize = 2;

/// Texts that a model may fail to help before the group gets another one.
const UNHELPED: u32 = 64;

/// Packs texts against models, which it makes of the first ones of their group.
#[derive(Default)]
pub struct Packer {
    groups: BTreeMap<Box<str>, Group>,
    shelves: Shelves,
    /// Large, and only there while much is packed.
    compressor: Option<CCtx<'static>>,
}

/// Texts that resemble each other.
#[derive(Default)]
struct Group {
    model: Arc<Model>,
    /// What the model will be made of.
    texts: Vec<u8>,
    count: usize,
    unhelped: u32,
}

/// What the texts of a group have in common, once it is known.
#[derive(Default)]
struct Model(OnceLock<Box<[u8]>>);

impl Model {
    fn bytes(&self) -> Option<&[u8]> {
        self.0.get().map(|bytes| &**bytes)
    }
}

/// A packed text. It has all that it needs to be opened. Clones share it.
#[derive(Clone)]
pub struct Packed {
    block: Block,
    length: usize,
    model: Arc<Model>,
    /// Whether it was packed against the model, or before there was one.
    is_modelled: bool,
}

impl fmt::Debug for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes in {}", self.length, self.room())
    }
}

impl fmt::Debug for Packer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.groups.keys()).finish()
    }
}

impl Group {
    /// Lets a text help to make the model.
    fn learn(&mut self, text: &[u8]) {
        if self.model.bytes().is_some() || text.len() > LONGEST_MODEL {
            return;
        }
        let room = LONGEST_MODEL - self.texts.len();
        self.texts.extend_from_slice(&text[..text.len().min(room)]);
        self.count += 1;
        if self.count == TEXTS || self.texts.len() == LONGEST_MODEL {
            let _ = self.model.0.set(std::mem::take(&mut self.texts).into());
        }
    }

    /// Begins anew when the model has not been of help for too long.
    fn judge(&mut self, packed: &Packed) {
        if packed.is_modelled && packed.room() * HELPED > packed.length {
            self.unhelped += 1;
        }
        if self.unhelped == UNHELPED {
            *self = Group::default();
        }
    }
}

impl Packer {
    /// One that has packed nothing yet.
    pub const fn new() -> Self {
        Packer { groups: BTreeMap::new(), shelves: Shelves::new(), compressor: None }
    }

    /// Packs a text; `group` says which others it resembles.
    pub fn pack(&mut self, group: &str, text: &[u8]) -> Packed {
        let group = self.groups.entry(group.into()).or_default();
        group.learn(text);
        let model = group.model.clone();
        let packed = put(&mut self.compressor, &mut self.shelves, model, text);
        group.judge(&packed);
        packed
    }

    /// The same text in another place, if it takes less room there: a model has come since it was packed, or much of the room around it is
    /// not used any more.
    pub fn moved(&mut self, packed: &Packed) -> Option<Packed> {
        if !packed.is_modelled && packed.model.bytes().is_some() {
            let model = packed.model.clone();
            return Some(put(&mut self.compressor, &mut self.shelves, model, &packed.open()));
        }
        let block = self.shelves.moved(&packed.block)?;
        Some(Packed { block, ..packed.clone() })
    }

    /// Forgets groups that no text is packed in any more, and what is needed only while much is packed.
    pub fn forget_unused(&mut self) {
        self.groups.retain(|_, group| Arc::strong_count(&group.model) > 1);
        self.compressor = None;
    }
}

/// Packs a text against a model, if there is one, and puts it on a shelf.
fn put(
    compressor: &mut Option<CCtx<'static>>,
    shelves: &mut Shelves,
    model: Arc<Model>,
    text: &[u8],
) -> Packed {
    let compressor = compressor.get_or_insert_with(CCtx::create);
    let known = model.bytes();
    let mut bytes = Vec::with_capacity(compress_bound(text.len()));
    compressor
        .compress_using_dict(&mut bytes, text, known.unwrap_or_default(), LEVEL)
        .expect("there is room for whatever a text is packed into");
    let (block, is_modelled) = (shelves.put(&bytes), known.is_some());
    Packed { block, length: text.len(), model, is_modelled }
}

thread_local! {
    /// As large as many texts, and good for all of them.
    static DECOMPRESSOR: RefCell<DCtx<'static>> = RefCell::new(DCtx::create());
}

impl Packed {
    /// The text.
    pub fn open(&self) -> Vec<u8> {
        let model = self.model.bytes().filter(|_| self.is_modelled).unwrap_or_default();
        let mut text = Vec::with_capacity(self.length);
        let opened = self.block.read(|bytes| {
            DECOMPRESSOR.with_borrow_mut(|opener| opener.decompress_using_dict(&mut text, bytes, model))
        });
        opened.expect("what was packed can be opened");
        text
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

    fn noise(seed: u32) -> Vec<u8> {
        let next = |state: &u32| Some(state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
        std::iter::successors(Some(seed), next).map(|state| state.to_be_bytes()[0]).take(500).collect()
    }

    #[test]
    fn once_there_is_a_model_texts_take_little_room() {
        let mut packer = Packer::default();
        let first: Vec<Packed> =
            (0..TEXTS).map(|number| packer.pack("m", object(number).as_bytes())).collect();
        let next = packer.pack("m", object(100).as_bytes());
        assert!(next.room() * 12 < next.length(), "{next:?}");
        assert_eq!(next.open(), object(100).as_bytes());
        let again = packer.moved(&first[1]).expect("it was packed without the model");
        assert!(again.room() * 12 < again.length() && first[1].room() > again.room(), "{again:?}");
        assert_eq!((again.open(), first[1].open()), (object(1).into_bytes(), object(1).into_bytes()));
        assert!(packer.moved(&again).is_none(), "once is enough");
    }

    #[test]
    fn a_model_that_helps_nobody_makes_room_for_another() {
        let mut packer = Packer::default();
        let mut packed: Vec<(Vec<u8>, Packed)> = Vec::new();
        let mut pack = |text: Vec<u8>| {
            let one = packer.pack("g", &text);
            packed.push((text, one));
        };
        (0..TEXTS + UNHELPED as usize).for_each(|seed| pack(noise(seed as u32)));
        (0..=TEXTS).for_each(|number| pack(object(number).into_bytes()));
        let (_, last) = packed.last().unwrap();
        assert!(last.room() * 12 < last.length(), "{last:?}");
        assert!(packed.iter().all(|(text, packed)| packed.open() == *text), "older ones are as they were");
    }

    #[test]
    fn groups_go_with_their_texts() {
        let mut packer = Packer::default();
        let packed = packer.pack("m", object(1).as_bytes());
        packer.forget_unused();
        assert_eq!(packer.groups.len(), 1);
        drop(packed);
        packer.forget_unused();
        assert!(packer.groups.is_empty());
    }

    #[test]
    fn a_text_may_be_of_any_length() {
        let mut packer = Packer::default();
        for length in [0, 1, LONGEST_MODEL, LONGEST_MODEL + 1, 1 << 20] {
            let text: Vec<u8> = noise(7).into_iter().cycle().take(length).collect();
            for _ in 0..3 {
                assert_eq!(packer.pack("g", &text).open(), text, "{length} bytes");
            }
        }
    }

    proptest! {
        #[test]
        fn nothing_is_lost(texts in prop::collection::vec(prop::collection::vec(0_u8..4, 0..3000), 1..24)) {
            let mut packer = Packer::default();
            let packed: Vec<Packed> = texts.iter().map(|text| packer.pack("", text)).collect();
            for (text, packed) in texts.iter().zip(&packed) {
                let moved = packer.moved(packed).unwrap_or_else(|| packed.clone());
                prop_assert_eq!((&packed.open(), &moved.open()), (text, text));
                prop_assert_eq!(packed.length(), text.len());
            }
        }
    }
}
