//! Bytes between a stream of the tunnel and another one, both ways, each way to its own end.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncBufRead as _, AsyncWrite as _, ReadBuf};

use super::Io;
use crate::stream::TunnelStream;

/// What is read at once from a stream that has little to say, ...
const LEAST: usize = 4 << 10;
/// ... and from one that has a lot.
const MOST: usize = 32 << 10;
/// How many pieces are carried one way before other tasks have their turn.
const TURN: usize = 8;

/// Carries bytes until both ways have ended, or the tunnel's stream has broken. An end is passed on as an end; an error
/// of `io` is told to the other side after all that came before it.
pub async fn pump(tunnel: TunnelStream, io: impl Io) {
    let mut pump = Pump {
        tunnel,
        io,
        inward: Way::default(),
        outward: Way::default(),
        buffer: vec![0; LEAST],
        filled: 0,
        given: 0,
    };
    if let Err(error) = poll_fn(|cx| pump.poll(cx)).await {
        pump.tunnel.fail(error.to_string());
    }
}

/// How far one way is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Way {
    #[default]
    Open,
    /// All was read, and the end is to be passed on.
    Ending,
    Done,
}

struct Pump<T> {
    tunnel: TunnelStream,
    io: T,
    /// From the tunnel.
    inward: Way,
    /// Into the tunnel.
    outward: Way,
    buffer: Vec<u8>,
    filled: usize,
    given: usize,
}

impl<T: Io> Pump<T> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let inward = self.poll_inward(cx)?;
        let outward = self.poll_outward(cx)?;
        if inward.is_ready() && outward.is_ready() { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    fn poll_inward(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut turn = 0..TURN;
        while self.inward == Way::Open {
            if turn.next().is_none() {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let bytes = match Pin::new(&mut self.tunnel).poll_fill_buf(cx)? {
                Poll::Ready(bytes) => bytes,
                Poll::Pending => {
                    ready!(Pin::new(&mut self.io).poll_flush(cx))?;
                    return Poll::Pending;
                }
            };
            if bytes.is_empty() {
                self.inward = Way::Ending;
                break;
            }
            let Poll::Ready(written) = Pin::new(&mut self.io).poll_write(cx, bytes)? else {
                // Who does not read must not keep a stream that is of no use any more.
                return match self.tunnel.poll_broken(cx) {
                    Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into())),
                    Poll::Pending => Poll::Pending,
                };
            };
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            Pin::new(&mut self.tunnel).consume(written);
        }
        if self.inward == Way::Ending {
            // Who has gone already does not mind.
            let _ = ready!(Pin::new(&mut self.io).poll_shutdown(cx));
            self.inward = Way::Done;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_outward(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut turn = 0..TURN;
        while self.outward == Way::Open {
            if turn.next().is_none() {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if self.given == self.filled {
                ready!(self.poll_fill(cx))?;
                if self.filled == 0 {
                    ready!(Pin::new(&mut self.tunnel).poll_shutdown(cx))?;
                    self.outward = Way::Done;
                    break;
                }
            }
            let rest = &self.buffer[self.given..self.filled];
            match ready!(Pin::new(&mut self.tunnel).poll_write(cx, rest)) {
                Ok(written) => self.given += written,
                // Nobody wants it; that is not this side's fault.
                Err(_) => self.outward = Way::Done,
            }
        }
        Poll::Ready(Ok(()))
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.filled == self.buffer.len() && self.buffer.len() < MOST {
            self.buffer.resize(MOST, 0);
        }
        let mut into = ReadBuf::new(&mut self.buffer);
        (self.filled, self.given) = (0, 0);
        ready!(Pin::new(&mut self.io).poll_read(cx, &mut into))?;
        self.filled = into.filled().len();
        Poll::Ready(Ok(()))
    }
}
