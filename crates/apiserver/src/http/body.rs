use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use http_body::{Frame, SizeHint};

/// The body of an answer: all of it, or a stream that has no end of its own.
pub struct Body {
    kind: Kind,
    /// What is to be held until the body is out or given up.
    held: Vec<Box<dyn Send>>,
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Body").field(&self.kind).finish()
    }
}

/// A whole body goes out in pieces of this size, so that one that is not read is seen to be.
const PIECE: usize = 128 * 1024;

enum Kind {
    Full(Bytes),
    Stream(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Full(bytes) => f.debug_tuple("Full").field(&bytes.len()).finish(),
            Kind::Stream(_) => f.write_str("Stream"),
        }
    }
}

impl Body {
    /// These bytes.
    pub(super) fn full(bytes: impl Into<Bytes>) -> Self {
        Body { kind: Kind::Full(bytes.into()), held: Vec::new() }
    }

    /// Bytes as they come.
    pub(super) fn stream(stream: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Body { kind: Kind::Stream(Box::pin(stream)), held: Vec::new() }
    }

    /// Whether it goes on until somebody ends it.
    pub(super) fn is_stream(&self) -> bool {
        matches!(self.kind, Kind::Stream(_))
    }

    /// The same body; `held` is dropped with it.
    pub(super) fn until_end(mut self, held: impl Send + 'static) -> Self {
        self.held.push(Box::new(held));
        self
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = |bytes| Ok(Frame::data(bytes));
        match &mut self.get_mut().kind {
            Kind::Full(bytes) if bytes.is_empty() => Poll::Ready(None),
            Kind::Full(bytes) => Poll::Ready(Some(frame(bytes.split_to(bytes.len().min(PIECE))))),
            Kind::Stream(stream) => stream.as_mut().poll_next(context).map(|next| next.map(frame)),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.kind, Kind::Full(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Kind::Stream(_) => SizeHint::default(),
        }
    }
}
