use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use packing::{Packed, Packer};

/// What is shorter is not worth the trouble.
const SHORTEST: usize = 512;

/// A value in memory: as it is while somebody reads it, packed while nobody does.
pub(super) struct Content {
    length: usize,
    form: Mutex<Form>,
    /// Whether it was read since it was last asked to fold.
    is_read: AtomicBool,
}

/// One of them is there, or both.
struct Form {
    open: Option<Bytes>,
    packed: Option<Packed>,
}

impl Content {
    pub(super) fn new(value: Bytes) -> Self {
        let length = value.len();
        let form = Mutex::new(Form { open: Some(value), packed: None });
        Content { length, form, is_read: AtomicBool::new(true) }
    }

    pub(super) fn length(&self) -> usize {
        self.length
    }

    pub(super) fn value(&self) -> Bytes {
        if !self.is_read.load(Ordering::Relaxed) {
            self.is_read.store(true, Ordering::Relaxed);
        }
        let mut form = self.form();
        let Form { open, packed } = &mut *form;
        let unpack = || Bytes::from(packed.as_ref().expect("a value is open or packed").open());
        open.get_or_insert_with(unpack).clone()
    }

    /// Packs the value if nobody has read it since this was last called. One that is packed already may be moved to where it keeps less room.
    pub(super) fn fold(&self, packer: &mut Packer, group: impl FnOnce() -> String) {
        if self.length < SHORTEST || self.is_read.swap(false, Ordering::Relaxed) {
            return;
        }
        let mut form = self.form();
        let packed = match (&form.open, &form.packed) {
            (Some(value), None) => Some(packer.pack(&group(), value)),
            (_, Some(packed)) => packer.moved(packed),
            (None, None) => None,
        };
        if packed.is_some() {
            form.packed = packed;
        }
        form.open = None;
    }

    fn form(&self) -> MutexGuard<'_, Form> {
        // One of the two is there at every moment, whatever panics.
        self.form.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clone for Content {
    fn clone(&self) -> Self {
        Content::new(self.value())
    }
}

impl PartialEq for Content {
    fn eq(&self, other: &Self) -> bool {
        self.length == other.length && self.value() == other.value()
    }
}

impl Eq for Content {}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group() -> String {
        "g".to_owned()
    }

    #[test]
    fn what_nobody_reads_is_packed_and_opens_again() {
        let (mut packer, long) = (Packer::default(), Bytes::from("0123456789".repeat(1000)));
        let content = Content::new(long.clone());
        let is_open = || content.form().open.is_some();
        content.fold(&mut packer, group);
        assert!(is_open(), "it is as good as read when it comes");
        content.fold(&mut packer, group);
        assert!(!is_open());
        assert_eq!((content.length(), content.value()), (long.len(), long));
        assert!(is_open());
        content.fold(&mut packer, group);
        assert!(is_open(), "it was read since");
        content.fold(&mut packer, group);
        assert!(!is_open());
    }

    #[test]
    fn what_is_short_stays_as_it_is() {
        let content = Content::new(Bytes::from_static(b"short"));
        (0..3).for_each(|_| content.fold(&mut Packer::default(), group));
        assert!(content.form().open.is_some());
    }
}
