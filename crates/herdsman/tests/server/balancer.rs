//! What stands in front of replicas: connections go to the first of them that takes one.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::net::{TcpListener, TcpStream};

/// A load balancer of TCP on the loopback.
#[derive(Clone)]
pub(crate) struct Balancer {
    pub(crate) address: SocketAddr,
    behind: Arc<Mutex<Vec<SocketAddr>>>,
}

impl Balancer {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let balancer = Balancer { address: listener.local_addr().unwrap(), behind: Arc::default() };
        let this = balancer.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let this = this.clone();
                tokio::spawn(async move {
                    let behind = this.behind.lock().unwrap().clone();
                    for one in behind {
                        if let Ok(mut there) = TcpStream::connect(one).await {
                            let _ = tokio::io::copy_bidirectional(&mut stream, &mut there).await;
                            return;
                        }
                    }
                });
            }
        });
        balancer
    }

    /// From now on new connections go there.
    pub(crate) fn set(&self, behind: &[SocketAddr]) {
        *self.behind.lock().unwrap() = behind.to_vec();
    }

    pub(crate) fn url(&self) -> String {
        format!("https://{}", self.address)
    }
}

/// A port that was free a moment ago.
pub(crate) fn free() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}
