//! Long answers are compressed, for who takes it.

use std::io::Write;

use ::http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, VARY};
use ::http::{HeaderMap, Response};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::stream;

use super::Body;
use super::response::{header, set, with_body};
use crate::server::Given;

/// What is longer than this is compressed, as upstream has it.
const WORTH_COMPRESSING: usize = 128 * 1024;

/// Whether the client takes compressed answers.
pub(super) fn is_wanted(headers: &HeaderMap) -> bool {
    header(headers, ACCEPT_ENCODING).split(',').any(|one| one.trim() == "gzip")
}

/// An answer with these bytes, compressed if that is wanted and worth it.
pub(super) fn with_bytes(code: u16, content_type: &str, bytes: Bytes, wanted: bool) -> Response<Body> {
    let worth = wanted && bytes.len() > WORTH_COMPRESSING;
    let Some(small) = worth.then(|| gzip(&bytes)).flatten() else {
        return with_body(code, content_type, Body::full(bytes));
    };
    with_compressed(code, content_type, small)
}

fn with_compressed(code: u16, content_type: &str, compressed: Vec<u8>) -> Response<Body> {
    let mut response = with_body(code, content_type, Body::full(compressed));
    set(&mut response, CONTENT_ENCODING, "gzip");
    set(&mut response, VARY, "Accept-Encoding");
    response
}

/// An answer of many pieces. A short one goes out in one, a long one piece by piece as the client takes it, unless it
/// is compressed.
pub(super) fn with_pieces(content_type: &str, mut given: Given, wanted: bool) -> Response<Body> {
    if given.most_bytes() <= WORTH_COMPRESSING {
        let all = given.next().unwrap_or_default();
        return with_bytes(200, content_type, all, wanted);
    }
    if !wanted {
        return with_body(200, content_type, Body::stream(stream::iter(given)));
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    // Writing to memory does not fail.
    given.for_each(|piece| drop(encoder.write_all(&piece)));
    with_compressed(200, content_type, encoder.finish().unwrap_or_default())
}

/// Compressed for speed, as upstream does.
fn gzip(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).ok()?;
    encoder.finish().ok()
}
