//! A network of one connection.

use std::time::Duration;

use clock::{Entropy as _, SeededEntropy};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::watch;

/// What a network does to what passes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weather {
    /// Each piece takes up to so long.
    pub(crate) delay: Duration,
    /// Pieces have up to so many bytes.
    pub(crate) piece: u32,
    /// After so many bytes the connection is cut.
    pub(crate) cut_after: Option<u64>,
}

impl Weather {
    /// Weather by a seed.
    pub(crate) fn of(seed: u64) -> Self {
        let mut entropy = SeededEntropy::new(seed);
        // Some 50 KB a second at least: what is slower than that is taken for dead.
        let (delay, piece) =
            [(0, 100), (0, 1 << 16), (5, 1500), (40, 1 << 13), (300, 1 << 16)][entropy.below(5) as usize];
        let delay = Duration::from_millis(delay);
        let cut_after = (entropy.below(2) == 0).then(|| u64::from(entropy.below(400_000)));
        Weather { delay, piece, cut_after }
    }
}

/// Both ends of a connection. While `open` is false nothing passes, and nobody is told.
pub(crate) fn link(seed: u64, weather: Weather, open: watch::Receiver<bool>) -> (DuplexStream, DuplexStream) {
    let (one, near_one) = tokio::io::duplex(64 << 10);
    let (two, near_two) = tokio::io::duplex(64 << 10);
    let (from_one, to_one) = tokio::io::split(near_one);
    let (from_two, to_two) = tokio::io::split(near_two);
    let forth = carry(from_one, to_two, seed, weather, open.clone());
    let back = carry(from_two, to_one, seed + 1, weather, open);
    tokio::spawn(async move {
        // One direction that ends ends both: all that was on the way is lost.
        tokio::select! {
            () = forth => {}
            () = back => {}
        }
    });
    (one, two)
}

async fn carry(
    mut from: ReadHalf<DuplexStream>,
    mut to: WriteHalf<DuplexStream>,
    seed: u64,
    weather: Weather,
    mut open: watch::Receiver<bool>,
) {
    let mut entropy = SeededEntropy::new(seed);
    let mut buffer = vec![0; weather.piece.max(1) as usize];
    let mut passed = 0;
    loop {
        let most = entropy.below(weather.piece.max(1)) as usize + 1;
        let Ok(length @ 1..) = from.read(&mut buffer[..most]).await else { return };
        passed += length as u64;
        if weather.cut_after.is_some_and(|most| passed > most) {
            return;
        }
        if !weather.delay.is_zero() {
            let millis = u32::try_from(weather.delay.as_millis()).expect("it is short");
            tokio::time::sleep(Duration::from_millis(entropy.below(millis + 1).into())).await;
        }
        if open.wait_for(|open| *open).await.is_err() || to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}
