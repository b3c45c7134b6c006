//! Watches over HTTP/1.1, in little room.
//!
//! The agent of a machine watches one Secret for as long as it lives, and there are thousands of them. The HTTP library keeps
//! 24 KB of buffers for every connection, and as much again of its own state. So a connection whose answer is a watch is taken
//! from it: pieces are written as they come, and it is noticed when the client goes. That answer is the connection's last.

use std::fmt::Write as _;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use ::http::header::{CONNECTION, TRANSFER_ENCODING};
use ::http::{Request, Response, Version, response};
use bytes::Bytes;
use http_body::Body;
use tokio::io::{AsyncRead, AsyncWrite};

use super::gather::Sender;

/// Marks an answer that goes on for ever, in its extensions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lasting;

/// Whether a request is one whose answer can be taken from the HTTP library: older clients know no pieces, newer ones have several
/// answers on a connection.
pub(super) fn is_possible<B>(request: &Request<B>) -> bool {
    request.version() == Version::HTTP_11
}

/// Where the answer of a connection is put that is to be taken from the HTTP library.
pub(super) struct Taken<B>(Arc<Mutex<Option<Response<B>>>>);

impl<B> Clone for Taken<B> {
    fn clone(&self) -> Self {
        Taken(self.0.clone())
    }
}

impl<B> Default for Taken<B> {
    fn default() -> Self {
        Taken(Arc::default())
    }
}

impl<B> Taken<B> {
    /// Gives the answer back, if it does not last. One that does is kept, and whoever has asked for it waits for ever.
    pub(super) async fn unless_lasting(&self, response: Response<B>) -> Response<B> {
        if response.extensions().get::<Lasting>().is_none() {
            return response;
        }
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(response);
        std::future::pending().await
    }

    /// The answer that lasts, once there is one.
    pub(super) fn take(&self) -> Option<Response<B>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Writes an answer to its end, or until the client goes.
///
/// # Errors
/// If the client cannot be written to, or the answer breaks off: then it has no end, so that the client knows.
pub(super) async fn write<S, B>(response: Response<B>, sender: &Sender<S>) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
    B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Unpin,
{
    let (head, mut body) = response.into_parts();
    sender.put(head_bytes(&head).as_bytes());
    drop(head);
    let is_whole = std::future::poll_fn(|context| poll_pieces(&mut body, sender, context)).await?;
    if is_whole {
        sender.put(b"0\r\n\r\n");
    }
    std::future::poll_fn(|context| sender.poll_shutdown(context)).await
}

/// Writes what there is of a body. Ready at its end, and when the client goes: then it is not whole.
fn poll_pieces<S, B>(body: &mut B, sender: &Sender<S>, context: &mut Context<'_>) -> Poll<io::Result<bool>>
where
    S: AsyncRead + AsyncWrite + Unpin,
    B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Unpin,
{
    loop {
        // No more is asked for while the client has not taken what there is.
        ready!(sender.poll_send(context))?;
        let frame = match Pin::new(&mut *body).poll_frame(context) {
            Poll::Ready(Some(frame)) => frame.map_err(io::Error::other)?,
            Poll::Ready(None) => return Poll::Ready(Ok(true)),
            Poll::Pending => return sender.poll_gone(context).map_ok(|()| false),
        };
        // A piece without bytes would be the end.
        if let Ok(data) = frame.into_data()
            && !data.is_empty()
        {
            sender.put(format!("{:x}\r\n", data.len()).as_bytes());
            sender.put(&data);
            sender.put(b"\r\n");
        }
    }
}

fn head_bytes(head: &response::Parts) -> String {
    let mut text = format!("HTTP/1.1 {}\r\n", head.status);
    for (name, value) in &head.headers {
        // What is no text has no place in the head of a watch.
        if let Ok(value) = value.to_str() {
            let _ = write!(text, "{name}: {value}\r\n");
        }
    }
    let _ = write!(text, "{TRANSFER_ENCODING}: chunked\r\n{CONNECTION}: close\r\n\r\n");
    text
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use futures_util::StreamExt as _;
    use http_body::Frame;
    use http_body_util::StreamBody;
    use tokio::io::AsyncReadExt;
    use tokio::sync::mpsc;

    use super::super::gather::gather;
    use super::*;

    type Pieces = mpsc::UnboundedSender<&'static str>;

    fn lasting() -> (Pieces, Response<impl Body<Data = Bytes, Error = Infallible> + Unpin>) {
        let (pieces, mut given) = mpsc::unbounded_channel::<&'static str>();
        let stream = futures_util::stream::poll_fn(move |context| given.poll_recv(context));
        let body = StreamBody::new(stream.map(|piece| Ok(Frame::data(Bytes::from_static(piece.as_bytes())))));
        let mut response = Response::new(body);
        response.headers_mut().insert("x-one", "1".parse().unwrap());
        response.extensions_mut().insert(Lasting);
        (pieces, response)
    }

    #[tokio::test]
    async fn pieces_go_out_as_they_come_and_the_end_is_said() {
        let (near, mut far) = tokio::io::duplex(1024);
        let (_stream, sender) = gather(near);
        let (pieces, response) = lasting();
        let writing = tokio::spawn(async move { write(response, &sender).await });
        pieces.send("first").unwrap();
        let (mut received, first) = (Vec::new(), b"5\r\nfirst\r\n");
        while !received.ends_with(first) {
            far.read_buf(&mut received).await.unwrap();
        }
        pieces.send("").unwrap();
        pieces.send("the second one").unwrap();
        drop(pieces);
        far.read_to_end(&mut received).await.unwrap();
        let expected = "HTTP/1.1 200 OK\r\nx-one: 1\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n\
            5\r\nfirst\r\ne\r\nthe second one\r\n0\r\n\r\n";
        assert_eq!(String::from_utf8(received).unwrap(), expected);
        writing.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_client_that_goes_is_noticed() {
        let (near, far) = tokio::io::duplex(1024);
        let (_stream, sender) = gather(near);
        let (pieces, response) = lasting();
        let writing = tokio::spawn(async move { write(response, &sender).await });
        tokio::time::sleep(Duration::from_millis(10)).await;
        drop(far);
        let _ = writing.await.unwrap();
        assert!(pieces.is_closed(), "nobody listens any more");
    }

    #[tokio::test]
    async fn a_client_that_does_not_read_holds_the_pieces_up() {
        let (near, mut far) = tokio::io::duplex(16);
        let (_stream, sender) = gather(near);
        let (pieces, response) = lasting();
        let writing = tokio::spawn(async move { write(response, &sender).await });
        for _ in 0..1000 {
            pieces.send("0123456789").unwrap();
        }
        drop(pieces);
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert!(!writing.is_finished());
        let mut received = String::new();
        far.read_to_string(&mut received).await.unwrap();
        assert_eq!(received.matches("a\r\n0123456789\r\n").count(), 1000);
        assert!(received.ends_with("\r\n0\r\n\r\n"));
    }

    #[tokio::test]
    async fn only_what_lasts_is_taken() {
        let taken = Taken::default();
        assert_eq!(taken.unless_lasting(Response::new(7)).await.into_body(), 7);
        let mut lasts = Response::new(8);
        lasts.extensions_mut().insert(Lasting);
        assert!(tokio::time::timeout(Duration::ZERO, taken.unless_lasting(lasts)).await.is_err());
        assert_eq!(taken.take().map(Response::into_body), Some(8));
    }
}
