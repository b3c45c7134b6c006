//! Many streams, one after the other: nothing is left behind. A program of its own: the memory of the process is looked at.

#![expect(clippy::unwrap_used, reason = "in a test the panic is the message")]

#[expect(dead_code, reason = "other tests use more of it")]
#[path = "network/link.rs"]
mod link;
#[path = "network/places.rs"]
mod places;
#[expect(dead_code, reason = "other tests use more of it")]
#[path = "network/sessions.rs"]
mod sessions;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::watch;
use tunnel::Target;
use tunnel::session::Settings;

use sessions::Tunnel;

/// What this process has in memory, in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse().unwrap()
}

/// Opens streams that end in every way there is.
async fn open(tunnel: &Tunnel, streams: usize) {
    for index in 0..streams {
        let address = ["echo", "refuse", "denied", "source:1:10"][index % 4];
        let mut stream = tunnel.server.open(Target::tcp(address)).unwrap();
        match index % 3 {
            // Left at once, ...
            0 => {}
            // ... after a word, ...
            1 => drop(stream.write_all(b"hello").await),
            // ... or at its end.
            _ => {
                let _ = stream.write_all(b"hello").await;
                let _ = stream.shutdown().await;
                let _ = stream.read_to_end(&mut Vec::new()).await;
            }
        }
        drop(stream);
        // No more at once than a session takes.
        if index % 1000 == 999 {
            tunnel.forgets().await;
        }
    }
    tunnel.forgets().await;
}

#[tokio::test(start_paused = true)]
async fn a_hundred_thousand_streams_leave_nothing() {
    let (one, two) = tokio::io::duplex(64 << 10);
    let tunnel = Tunnel::over(one, two, Settings::default(), watch::Sender::new(true)).await;
    open(&tunnel, 20_000).await;
    let before = resident();
    open(&tunnel, 80_000).await;
    let after = resident();
    assert_eq!(tunnel.server.totals().opened, 100_000);
    // 100 bytes each would be 8 MB.
    assert!(after < before + 4096, "{before} KiB became {after} KiB");
}
