//! The two ends of a tunnel.

use std::sync::Arc;
use std::time::Duration;

use clock::RuntimeClock;
use jiff::Timestamp;
use tokio::io::DuplexStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Role as Side;
use tunnel::mux::Role;
use tunnel::serve::{Forward, Nothing};
use tunnel::session::{Ended, Session, Settings};
use tunnel::{Target, websocket};

use crate::link::{Weather, link};
use crate::places::Places;

pub(crate) struct Tunnel {
    pub(crate) server: Session,
    pub(crate) client: Session,
    pub(crate) server_end: JoinHandle<Ended>,
    pub(crate) client_end: JoinHandle<Ended>,
    /// Whether anything passes.
    pub(crate) open: watch::Sender<bool>,
}

impl Tunnel {
    pub(crate) async fn new(seed: u64, weather: Weather) -> Self {
        Tunnel::with(seed, weather, Settings::default()).await
    }

    pub(crate) async fn with(seed: u64, weather: Weather, settings: Settings) -> Self {
        let open = watch::Sender::new(true);
        let (one, two) = link(seed, weather, open.subscribe());
        Tunnel::over(one, two, settings, open).await
    }

    pub(crate) async fn over(
        one: DuplexStream,
        two: DuplexStream,
        settings: Settings,
        open: watch::Sender<bool>,
    ) -> Self {
        let clock = Arc::new(RuntimeClock::starting_at(Timestamp::UNIX_EPOCH));
        let socket = websocket::serve(one).await;
        let (server, server_driver) =
            Session::new(socket, Role::Server, settings, Arc::new(Nothing), clock.clone(), 1);
        let socket = WebSocketStream::from_raw_socket(two, Side::Client, Some(websocket::config())).await;
        let handler = Arc::new(Forward::new(|target: &Target| target.address != "denied", Places));
        let (client, client_driver) = Session::new(socket, Role::Client, settings, handler, clock, 1);
        Tunnel {
            server,
            client,
            server_end: tokio::spawn(server_driver),
            client_end: tokio::spawn(client_driver),
            open,
        }
    }

    /// Both ends forget all streams, soon.
    pub(crate) async fn forgets(&self) {
        for _ in 0..600 {
            if self.server.streams() == 0 && self.client.streams() == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("streams stay: {:?} {:?}", self.server.view(), self.client.view());
    }
}
