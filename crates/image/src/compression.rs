//! Compressed streams, told apart by how they begin.

use std::io::{self, BufRead, BufReader, Read};

use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

/// A decoder keeps as much as this of what it has put out; `zstd --long=25`. More would be too much for small machines.
const ZSTD_WINDOW: u64 = 32 << 20;

/// How a stream is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Plain,
    Gzip,
    Zstd,
    Bzip2,
    Lz4,
}

/// What the stream is after decompression.
pub(crate) fn reader<'a>(source: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let mut source = BufReader::with_capacity(64 << 10, source);
    let format = Format::of(source.fill_buf()?);
    Ok(match format {
        Format::Plain => Box::new(source),
        Format::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(source)),
        Format::Zstd => Box::new(ZstdFrames { source: Some(source), frame: None }),
        Format::Bzip2 => Box::new(bzip2::bufread::MultiBzDecoder::new(source)),
        Format::Lz4 => Box::new(lz4_flex::frame::FrameDecoder::new(source)),
    })
}

impl Format {
    fn of(start: &[u8]) -> Self {
        match start {
            [0x1f, 0x8b, ..] => Format::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Format::Zstd,
            [b'B', b'Z', b'h', b'1'..=b'9', ..] => Format::Bzip2,
            [0x04, 0x22, 0x4d, 0x18, ..] => Format::Lz4,
            _ => Format::Plain,
        }
    }
}

/// A frame's source: its first bytes, which have been looked at, and the rest.
type Source<R> = io::Chain<io::Cursor<Vec<u8>>, R>;

/// All frames of a stream one after the other; the decoder itself knows one.
struct ZstdFrames<R: Read> {
    /// The source, between frames.
    source: Option<R>,
    /// The frame that is being read, which has the source.
    frame: Option<StreamingDecoder<Source<R>, FrameDecoder>>,
}

impl<R: Read> ZstdFrames<R> {
    /// Begins the next frame that has contents; none is left if there is no frame afterwards.
    fn begin(&mut self) -> io::Result<()> {
        let Some(mut source) = self.source.take() else { return Ok(()) };
        loop {
            let magic = up_to(&mut source, 4)?;
            match magic[..] {
                [] => return Ok(()),
                [0x50..=0x5f, 0x2a, 0x4d, 0x18] => skip(&mut source)?,
                _ => {
                    let source = io::Cursor::new(magic).chain(source);
                    let frame = StreamingDecoder::new_with_max_window_size(source, ZSTD_WINDOW);
                    self.frame =
                        Some(frame.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?);
                    return Ok(());
                }
            }
        }
    }
}

impl<R: Read> Read for ZstdFrames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if self.frame.is_none() {
                self.begin()?;
            }
            let Some(frame) = &mut self.frame else { return Ok(0) };
            let count = frame.read(buffer)?;
            if count > 0 {
                return Ok(count);
            }
            self.source = self.frame.take().map(|frame| frame.into_inner().into_inner().1);
        }
    }
}

/// Passes over the rest of a skippable frame: its length and as many bytes.
fn skip(source: &mut impl Read) -> io::Result<()> {
    let mut length = [0; 4];
    source.read_exact(&mut length)?;
    let length = u64::from(u32::from_le_bytes(length));
    let skipped = io::copy(&mut source.take(length), &mut io::sink())?;
    if skipped == length { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// As many bytes, or fewer if there are no more.
fn up_to(source: &mut impl Read, count: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(count).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn text() -> Vec<u8> {
        (0..20_000u32).flat_map(|n| format!("line {n}\n").into_bytes()).collect()
    }

    fn read(compressed: &[u8]) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        reader(compressed)?.read_to_end(&mut out).map(|_| out)
    }

    #[test]
    fn every_format_is_read() {
        let text = text();
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&text).unwrap();
        let mut bzip2 = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
        bzip2.write_all(&text).unwrap();
        let mut lz4 = lz4_flex::frame::FrameEncoder::new(Vec::new());
        lz4.write_all(&text).unwrap();
        let zstd = ruzstd::encoding::compress_to_vec(&text[..], ruzstd::encoding::CompressionLevel::Fastest);
        for (format, compressed) in [
            (Format::Plain, text.clone()),
            (Format::Gzip, gzip.finish().unwrap()),
            (Format::Bzip2, bzip2.finish().unwrap()),
            (Format::Lz4, lz4.finish().unwrap()),
            (Format::Zstd, zstd),
        ] {
            assert_eq!(Format::of(&compressed), format);
            assert!(read(&compressed).unwrap() == text, "{format:?}");
        }
        assert!(read(&[]).unwrap().is_empty());
    }

    #[test]
    fn zstd_goes_on_after_a_frame() {
        let frame = |text: &str| {
            ruzstd::encoding::compress_to_vec(text.as_bytes(), ruzstd::encoding::CompressionLevel::Fastest)
        };
        let skipped = [&[0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"xyz"].concat();
        let stream = [skipped.clone(), frame("one "), skipped.clone(), frame("two"), skipped].concat();
        assert_eq!(read(&stream).unwrap(), b"one two");
    }

    #[test]
    fn a_torn_stream_is_an_error() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&text()).unwrap();
        let whole = gzip.finish().unwrap();
        assert!(read(&whole[..whole.len() / 2]).is_err());
    }
}
