//! The side that connects: again and again, with growing patience.

mod backoff;

use std::io;
use std::sync::Arc;

use clock::{Clock, Entropy};
use http::{HeaderMap, Uri};

use crate::mux::Role;
use crate::serve::{Handler, Io, Later};
use crate::session::{Ended, Session, Settings};
use crate::websocket;

pub use backoff::Backoff;

/// A way to the server: a byte stream to it, TLS and proxies included.
pub trait Transport: Send + Sync {
    /// A new stream.
    fn connect(&self) -> Later<'_, io::Result<Box<dyn Io>>>;
}

/// What is asked of the server.
#[derive(Clone, Debug)]
pub struct Hello {
    /// Where.
    pub url: Uri,
    /// Who we are.
    pub headers: HeaderMap,
}

/// What a client goes through.
#[derive(Debug)]
pub enum Progress<'a> {
    /// There is a session.
    Connected(&'a Session),
    /// It is over.
    Ended(&'a Ended),
    /// There is none.
    Failed(&'a websocket::Error),
}

/// A client of one server.
pub struct Client {
    /// The way there.
    pub transport: Arc<dyn Transport>,
    /// What the server may ask of us.
    pub handler: Arc<dyn Handler>,
    /// How sessions are kept.
    pub settings: Settings,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Chance.
    pub entropy: Box<dyn Entropy>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Client {
    /// One session, from the first byte to its end. `progress` hears of it when it is there.
    ///
    /// # Errors
    /// If there was none.
    pub async fn once(
        &mut self,
        hello: &Hello,
        progress: &mut (dyn FnMut(Progress<'_>) + Send),
    ) -> Result<Ended, websocket::Error> {
        let io = self.transport.connect().await?;
        let socket = websocket::connect(io, &hello.url, &hello.headers, self.entropy.as_mut()).await?;
        let number = number(self.entropy.as_mut());
        let (session, driver) = Session::new(
            socket,
            Role::Client,
            self.settings,
            self.handler.clone(),
            self.clock.clone(),
            number,
        );
        progress(Progress::Connected(&session));
        Ok(driver.await)
    }

    /// Sessions for ever, one after the other. `hello` is asked each time what to say.
    pub async fn run(
        mut self,
        mut hello: impl FnMut() -> Hello + Send,
        mut progress: impl FnMut(Progress<'_>) + Send,
    ) -> std::convert::Infallible {
        let mut backoff = Backoff::default();
        loop {
            let began = self.clock.monotonic();
            match self.once(&hello(), &mut progress).await {
                Ok(ended) => progress(Progress::Ended(&ended)),
                Err(error) => progress(Progress::Failed(&error)),
            }
            let lasted = self.clock.monotonic().since(began);
            tokio::time::sleep(backoff.next(lasted, self.entropy.as_mut())).await;
        }
    }
}

/// The number of a session's first message: not negative, as Go's.
pub(crate) fn number(entropy: &mut dyn Entropy) -> i64 {
    let mut bytes = [0; 8];
    entropy.fill(&mut bytes);
    i64::from_le_bytes(bytes) & i64::MAX
}
