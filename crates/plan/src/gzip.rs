//! gzip with bytes that depend on the content alone, and reading it without being blown up.

use std::cell::RefCell;
use std::io::Read as _;

use flate2::read::MultiGzDecoder;
use flate2::{Compress, Compression, Crc, FlushCompress, Status};

/// The header: deflate, no flags, no time stamp, no hint of the level, operating system "unknown", as Go's writer has it.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];

thread_local! {
    /// It takes some hundred KB, which cost more to get from the system and to give back than a small text to pack.
    static DEFLATE: RefCell<Compress> = RefCell::new(Compress::new(Compression::default(), false));
}

/// What a value in a Secret may unpack to. A Secret holds at most 1 MiB, and deflate at best makes 1 of 1,032: text of
/// commands does not come near either; a bomb does.
pub const MAX_UNPACKED: u64 = 64 << 20;

/// Why bytes could not be unpacked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not gzip, or cut off, or its checksum is wrong.
    #[error("not gzip")]
    Unpack(#[from] std::io::Error),
    /// More than [`MAX_UNPACKED`].
    #[error("unpacks to more than {MAX_UNPACKED} bytes")]
    TooLarge,
}

/// `bytes` as gzip, with nothing in it of when and where.
pub fn pack(bytes: &[u8]) -> Vec<u8> {
    let mut packed = Vec::with_capacity(HEADER.len() + bytes.len() / 2 + 64);
    packed.extend(HEADER);
    DEFLATE.with_borrow_mut(|deflate| {
        deflate.reset();
        loop {
            let taken = usize::try_from(deflate.total_in()).unwrap_or(bytes.len());
            // Packing in memory does not fail.
            match deflate.compress_vec(&bytes[taken..], &mut packed, FlushCompress::Finish) {
                Ok(Status::Ok | Status::BufError) => packed.reserve(packed.len().max(64)),
                Ok(Status::StreamEnd) | Err(_) => break,
            }
        }
    });
    let mut sum = Crc::new();
    sum.update(bytes);
    packed.extend(sum.sum().to_le_bytes());
    // Modulo 2^32, as the format has it.
    packed.extend(sum.amount().to_le_bytes());
    packed
}

/// What is in a gzip stream.
///
/// # Errors
/// If it is none, is cut off, or unpacks to more than [`MAX_UNPACKED`].
pub fn unpack(bytes: &[u8]) -> Result<Vec<u8>, Error> {
    let mut unpacked = Vec::new();
    MultiGzDecoder::new(bytes).take(MAX_UNPACKED + 1).read_to_end(&mut unpacked)?;
    match unpacked.len() as u64 > MAX_UNPACKED {
        true => Err(Error::TooLarge),
        false => Ok(unpacked),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_says_nothing_about_when_and_where() {
        let packed = pack(b"x");
        assert_eq!(packed[4..8], [0; 4], "time");
        assert_eq!(packed[9], 255, "operating system");
        assert_eq!(unpack(&packed).unwrap(), b"x");
    }

    #[test]
    fn what_was_packed_before_leaves_no_trace() {
        use std::io::Write as _;
        let mixed: Vec<u8> =
            (0..200_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        for bytes in [&b""[..], b"x", &mixed, b"x", &vec![7; 100_000]] {
            let by_library = flate2::GzBuilder::new().mtime(0).operating_system(255);
            let mut by_library = by_library.write(Vec::new(), Compression::default());
            by_library.write_all(bytes).unwrap();
            assert_eq!(pack(bytes), by_library.finish().unwrap(), "{} bytes", bytes.len());
            assert_eq!(unpack(&pack(bytes)).unwrap(), bytes);
        }
    }

    #[test]
    fn a_bomb_is_refused() {
        let bomb = pack(&vec![0; usize::try_from(MAX_UNPACKED).unwrap() + 1]);
        assert!(bomb.len() < 100_000);
        assert!(matches!(unpack(&bomb), Err(Error::TooLarge)));
    }

    #[test]
    fn a_torn_value_is_refused() {
        let packed = pack(b"something that is long enough to be cut");
        assert!(matches!(unpack(&packed[..packed.len() - 1]), Err(Error::Unpack(_))));
        assert!(matches!(unpack(b"plain"), Err(Error::Unpack(_))));
    }
}
