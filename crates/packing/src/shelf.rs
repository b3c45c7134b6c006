//! Blocks one behind the other in large pieces of memory.
//!
//! Blocks live long, and are made amid much that does not. Each by itself would keep a page of the allocator's from being
//! given back. On shelves they have pages of their own.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// The room of the first shelf. Each next one is twice as large, up to the largest: who has few blocks needs little.
const FIRST: usize = 4 << 10;
const LARGEST: usize = 64 << 10;

/// A shelf is to be cleared when less than so many quarters of what was put there are still in use.
const SPARSE: usize = 3;

struct Shelf {
    /// It grows up to its capacity, and what is there stays where it is.
    bytes: RwLock<Vec<u8>>,
    /// Bytes that blocks still use.
    used: AtomicUsize,
}

/// Puts blocks on shelves.
#[derive(Default)]
pub(crate) struct Shelves {
    current: Option<Arc<Shelf>>,
}

impl fmt::Debug for Shelves {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shelves")
    }
}

/// Bytes on a shelf, which lasts as long as the blocks on it.
pub(crate) struct Block {
    shelf: Arc<Shelf>,
    start: u32,
    size: u32,
}

impl Shelves {
    pub(crate) const fn new() -> Self {
        Shelves { current: None }
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) -> Block {
        // A shelf to itself wastes nothing.
        if bytes.len() > LARGEST / 4 {
            return Shelf::with_room(bytes.len()).put(bytes).expect("it has room for this");
        }
        let before = match &self.current {
            Some(shelf) => match shelf.put(bytes) {
                Some(block) => return block,
                None => shelf.room(),
            },
            None => 0,
        };
        let shelf = Shelf::with_room((before * 2).clamp(FIRST, LARGEST).max(bytes.len()));
        let block = shelf.put(bytes).expect("it has room for this");
        self.current = Some(shelf);
        block
    }

    /// The block in another place, if its shelf is to be cleared.
    pub(crate) fn moved(&mut self, block: &Block) -> Option<Block> {
        let is_filled_still = self.current.as_ref().is_some_and(|current| Arc::ptr_eq(current, &block.shelf));
        if is_filled_still || !block.shelf.is_sparse() {
            return None;
        }
        let bytes = block.read(<[u8]>::to_vec);
        Some(self.put(&bytes))
    }
}

impl Shelf {
    fn with_room(room: usize) -> Arc<Self> {
        Arc::new(Shelf { bytes: RwLock::new(Vec::with_capacity(room)), used: AtomicUsize::new(0) })
    }

    fn room(&self) -> usize {
        self.bytes.read().unwrap_or_else(PoisonError::into_inner).capacity()
    }

    /// None if there is no room for it.
    fn put(self: &Arc<Self>, block: &[u8]) -> Option<Block> {
        let mut bytes = self.bytes.write().unwrap_or_else(PoisonError::into_inner);
        if bytes.capacity() - bytes.len() < block.len() {
            return None;
        }
        let (start, size) = (u32::try_from(bytes.len()).ok()?, u32::try_from(block.len()).ok()?);
        bytes.extend_from_slice(block);
        drop(bytes);
        self.used.fetch_add(block.len(), Ordering::Relaxed);
        Some(Block { shelf: self.clone(), start, size })
    }

    fn is_sparse(&self) -> bool {
        let all = self.bytes.read().unwrap_or_else(PoisonError::into_inner).len();
        self.used.load(Ordering::Relaxed) * 4 < all * SPARSE
    }
}

impl Block {
    pub(crate) fn size(&self) -> usize {
        self.size as usize
    }

    pub(crate) fn read<T>(&self, read: impl FnOnce(&[u8]) -> T) -> T {
        let bytes = self.shelf.bytes.read().unwrap_or_else(PoisonError::into_inner);
        let start = self.start as usize;
        read(&bytes[start..start + self.size()])
    }
}

impl Clone for Block {
    fn clone(&self) -> Self {
        self.shelf.used.fetch_add(self.size(), Ordering::Relaxed);
        Block { shelf: self.shelf.clone(), ..*self }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.shelf.used.fetch_sub(self.size(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(block: &Block) -> Vec<u8> {
        block.read(<[u8]>::to_vec)
    }

    #[test]
    fn blocks_lie_side_by_side_on_shelves_that_grow() {
        let mut shelves = Shelves::default();
        let blocks: Vec<Block> = (0..=255).map(|number| shelves.put(&[number; 1000])).collect();
        for (number, block) in (0..=255).zip(&blocks) {
            assert_eq!(text(block), [number; 1000]);
        }
        let mut rooms: Vec<usize> = blocks.iter().map(|block| block.shelf.room()).collect();
        rooms.dedup();
        assert_eq!(rooms, [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10]);
    }

    #[test]
    fn a_large_block_has_a_shelf_to_itself() {
        let mut shelves = Shelves::default();
        let small = shelves.put(b"small");
        let large = shelves.put(&[7; 100_000]);
        assert_eq!((large.shelf.room(), text(&large).len()), (100_000, 100_000));
        assert!(Arc::ptr_eq(&small.shelf, &shelves.put(b"more").shelf));
    }

    #[test]
    fn what_is_left_on_a_sparse_shelf_is_moved_and_the_shelf_goes() {
        let mut shelves = Shelves::default();
        let mut blocks: Vec<Block> = (0..5).map(|number| shelves.put(&[number; 800])).collect();
        let first = Arc::downgrade(&blocks[0].shelf);
        let next = shelves.put(&[9; 1000]);
        assert!(!Arc::ptr_eq(&next.shelf, &blocks[4].shelf));
        assert!(shelves.moved(&blocks[0]).is_none(), "all of it is in use");
        blocks.drain(1..3);
        let copy = blocks[0].clone();
        assert!(shelves.moved(&blocks[0]).is_none(), "a copy counts");
        drop(copy);
        for block in &mut blocks {
            *block = shelves.moved(block).expect("the shelf is to be cleared");
        }
        assert_eq!((text(&blocks[0]), text(&blocks[2])), (vec![0; 800], vec![4; 800]));
        assert!(first.upgrade().is_none());
        drop(next);
        assert!(shelves.moved(&blocks[1]).is_none(), "its shelf is being filled");
    }
}
