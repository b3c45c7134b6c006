//! gzip with bytes that depend on the content alone, and reading it without being blown up.

use std::io::{Read as _, Write as _};

use flate2::read::MultiGzDecoder;
use flate2::{Compression, GzBuilder};

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

/// `bytes` as gzip: no time stamp, operating system "unknown", as Go's writer puts there.
pub fn pack(bytes: &[u8]) -> Vec<u8> {
    let mut encoder =
        GzBuilder::new().mtime(0).operating_system(255).write(Vec::new(), Compression::default());
    // Writing to memory does not fail.
    encoder.write_all(bytes).and_then(|()| encoder.finish()).unwrap_or_default()
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
