use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

const A: Ipv4Addr = Ipv4Addr::new(10, 42, 0, 1);
const B: Ipv4Addr = Ipv4Addr::new(10, 42, 0, 2);

/// Says back what it hears.
struct Echo;

impl Service for Echo {
    fn get(&self, path: &str) -> Option<Reply> {
        (path == "/well").then(|| Reply::new(200, "ok"))
    }

    fn serve(self: Arc<Self>, mut wire: Wire) -> Later<'static, ()> {
        Box::pin(async move {
            let mut byte = [0];
            while wire.read_exact(&mut byte).await.is_ok() && wire.write_all(&byte).await.is_ok() {}
        })
    }
}

async fn said_back(wire: &mut Wire) -> io::Result<u8> {
    wire.write_all(b"x").await?;
    wire.read_u8().await
}

#[tokio::test(start_paused = true)]
async fn wires_carry_bytes_until_a_host_is_gone() {
    let network = Network::new(Arc::new(Internet));
    let (_a, b) = (network.up(A), network.up(B));
    assert_eq!(network.connect(A, (B, 80)).err().unwrap().kind(), io::ErrorKind::ConnectionRefused);
    let listening = network.listen((B, 80), Arc::new(Echo));
    let mut wire = network.connect(A, (B, 80)).unwrap();
    assert_eq!(said_back(&mut wire).await.unwrap(), b'x');
    assert_eq!(network.get(A, (B, 80), "/well").unwrap().status, 200);
    assert_eq!(network.get(A, (B, 80), "/ill").unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    drop(b);
    assert_eq!(said_back(&mut wire).await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    assert_eq!(network.connect(A, (B, 80)).err().unwrap().kind(), io::ErrorKind::HostUnreachable);
    drop(listening);
}

#[tokio::test(start_paused = true)]
async fn a_partition_is_silent_at_first() {
    let network = Network::new(Arc::new(Internet));
    let (_a, _b) = (network.up(A), network.up(B));
    let _listening = network.listen((B, 80), Arc::new(Echo));
    let mut wire = network.connect(A, (B, 80)).unwrap();
    network.separate(&[B], 7, false);
    assert!(!network.reaches(A, B) && network.reaches(B, B));
    let soon = tokio::time::timeout(Duration::from_secs(10), said_back(&mut wire)).await;
    assert!(soon.is_err(), "nothing is heard");
    network.heal();
    assert_eq!(said_back(&mut wire).await.unwrap(), b'x', "and it goes on");
    network.separate(&[B], 7, false);
    let broken = tokio::time::timeout(Duration::from_secs(60), said_back(&mut wire)).await.unwrap();
    assert_eq!(broken.unwrap_err().kind(), io::ErrorKind::ConnectionReset, "the silence lasted");
}
