//! How large an image may be: enough for any installer, too little to fill a disk by mistake or on purpose.

/// Limits on one image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a manifest or an index.
    pub manifest: u64,
    /// Bytes of all its layers as they are stored.
    pub packed: u64,
    /// Bytes of all files in its layers.
    pub unpacked: u64,
    /// Entries in all its layers.
    pub entries: u64,
}

impl Default for Limits {
    fn default() -> Self {
        // What registries accept as a manifest at most; an RKE2 image with everything is below 2 GiB.
        Limits { manifest: 4 << 20, packed: 16 << 30, unpacked: 32 << 30, entries: 1_000_000 }
    }
}
