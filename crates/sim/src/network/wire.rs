//! A byte stream that a partition can silence and a crash can break.

use std::io;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use agent::connect::Stream;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What becomes of a wire; both ends share it.
#[derive(Default)]
pub(crate) struct Fate(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    silent: bool,
    broken: bool,
    /// Who waits: reader and writer of both ends.
    waiting: [Option<Waker>; 4],
}

impl Fate {
    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(mut inner: std::sync::MutexGuard<'_, Inner>) {
        let waiting = std::mem::take(&mut inner.waiting);
        drop(inner);
        waiting.into_iter().flatten().for_each(Waker::wake);
    }

    /// No byte gets through any more, or bytes do again. Says whether it has just fallen silent.
    pub(crate) fn silence(&self, silent: bool) -> bool {
        let mut inner = self.inner();
        let fell = silent && !inner.silent;
        inner.silent = silent;
        Fate::wake(inner);
        fell
    }

    /// Both ends hear that the other is gone.
    pub(crate) fn break_now(&self) {
        let mut inner = self.inner();
        inner.broken = true;
        Fate::wake(inner);
    }

    pub(crate) fn break_if_silent(&self) {
        if self.inner().silent {
            self.break_now();
        }
    }

    /// Whether bytes may pass. `who` is woken when that changes.
    fn poll(&self, who: usize, context: &Context<'_>) -> Poll<io::Result<()>> {
        let mut inner = self.inner();
        if inner.broken {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let slot = &mut inner.waiting[who];
        if !slot.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            *slot = Some(context.waker().clone());
        }
        if inner.silent { Poll::Pending } else { Poll::Ready(Ok(())) }
    }
}

/// One end of a wire.
pub(crate) struct Wire {
    io: Box<dyn Stream>,
    fate: Arc<Fate>,
    end: usize,
}

impl Wire {
    pub(crate) fn new(io: Box<dyn Stream>, fate: Arc<Fate>, end: usize) -> Self {
        Wire { io, fate, end }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        std::task::ready!(self.fate.poll(self.end * 2, context))?;
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        std::task::ready!(self.fate.poll(self.end * 2 + 1, context))?;
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        std::task::ready!(self.fate.poll(self.end * 2 + 1, context))?;
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        std::task::ready!(self.fate.poll(self.end * 2 + 1, context))?;
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}
