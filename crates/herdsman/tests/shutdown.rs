//! `herdsman apiserver` ends when it is told to, whatever its clients do.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use clock::{Clock, Deadline, SystemClock};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{PostParams, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

const WATCHES: usize = 50;

/// A server of its own; it does not outlive the test.
struct Server {
    process: Child,
    kubeconfig: String,
    address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Server {
    fn start(directory: &std::path::Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_herdsman"));
        command.args(["apiserver", "--listen", "127.0.0.1:0", "--data-dir"]).arg(directory);
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut ready = String::new();
        let stdout = process.stdout.as_mut().unwrap();
        BufReader::new(stdout.by_ref()).read_line(&mut ready).unwrap();
        let field = |name: &str| {
            let word = ready.split_whitespace().find_map(|word| word.strip_prefix(name));
            word.unwrap_or_else(|| panic!("{ready:?}")).to_owned()
        };
        let (url, kubeconfig) = (field("url="), field("kubeconfig="));
        Server { process, kubeconfig, address: url.strip_prefix("https://").unwrap().to_owned() }
    }

    async fn client(&self) -> Client {
        let kubeconfig = Kubeconfig::read_from(&self.kubeconfig).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        Client::try_from(config).unwrap()
    }

    /// Asks it to end; gives how it did.
    async fn terminate(&mut self, within: Duration) -> ExitStatus {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        let deadline = Deadline::after(&SystemClock, within);
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status;
            }
            assert!(!deadline.passed(&SystemClock), "the server goes on");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

fn map(name: &str, size: usize) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"k": "x".repeat(size)}})).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn it_ends_in_time_with_watches_open_and_a_client_stuck() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::start(directory.path());
    let maps: Api<ConfigMap> = Api::namespaced(server.client().await, "default");
    let mut watches = Vec::new();
    for _ in 0..WATCHES {
        let watch = maps.watch(&WatchParams::default(), "0").await.unwrap();
        watches.push(tokio::spawn(async move {
            use futures_util::TryStreamExt;
            let mut watch = std::pin::pin!(watch);
            let mut events = 0_usize;
            loop {
                match watch.try_next().await {
                    Ok(Some(_)) => events += 1,
                    Ok(None) => return Ok(events),
                    Err(error) => return Err(error),
                }
            }
        }));
    }
    // One client asks for everything and reads nothing; one is silent in the middle of its hello; one has half sent a
    // request.
    let stuck: Api<ConfigMap> = Api::namespaced(server.client().await, "default");
    let _unread = stuck.watch(&WatchParams::default(), "0").await.unwrap();
    let mut silent = TcpStream::connect(&server.address).await.unwrap();
    silent.write_all(&[0x16, 0x03, 0x01]).await.unwrap();
    for number in 0..8 {
        maps.create(&PostParams::default(), &map(&format!("m{number}"), 400_000)).await.unwrap();
    }
    let started = SystemClock.monotonic();
    let status = server.terminate(Duration::from_secs(10)).await;
    let took = SystemClock.monotonic().since(started);
    assert_eq!(status.code(), Some(0), "after {took:?}");
    for watch in watches {
        // Ended, not cut: clients watch on from where they were.
        let events = watch.await.unwrap().expect("a watch ends properly");
        assert!(events >= 8, "{events}");
    }
    // What was acknowledged is there for the next one.
    let mut server = Server::start(directory.path());
    let maps: Api<ConfigMap> = Api::namespaced(server.client().await, "default");
    assert!(maps.get("m7").await.is_ok());
    drop(maps);
    assert_eq!(server.terminate(Duration::from_secs(10)).await.code(), Some(0));
}
