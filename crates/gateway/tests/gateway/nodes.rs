//! A node as the installer and the agent make it.

use std::path::Path;
use std::sync::{Arc, Mutex};

use agent::apply::Applier;
use agent::client::Client;
use agent::config::Config;
use agent::connect::{Connect, Error, Stream};
use agent::journal::Journal;
use agent::kubeconfig::Kubeconfig;
use agent::machine::{Ended, Executor, Later, Machine, NoImages, Prober, Program, Root};
use agent::remote::{Remote, Unobserved};
use agent::watch::Place;
use clock::SeededEntropy;
use gateway::Gateway;
use http::StatusCode;
use plan::document::Probe;
use serde_json::Value;

use crate::world::{World, pipe};

/// Runs nothing.
struct Idle;

impl Executor for Idle {
    fn run<'a>(&'a self, _: &'a Program) -> Later<'a, Ended> {
        Box::pin(std::future::ready(Ended::default()))
    }

    fn is_alive(&self, _: u32) -> bool {
        false
    }
}

impl Prober for Idle {
    fn ask<'a>(&'a self, _: &'a Probe) -> Later<'a, Result<(), String>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// The way to the gateway.
pub(crate) struct Wire(pub(crate) Gateway);

impl Connect for Wire {
    fn connect(&self) -> Later<'_, Result<Box<dyn Stream>, Error>> {
        let stream = pipe(&self.0, "203.0.113.8:1000".parse().unwrap());
        Box::pin(std::future::ready(Ok(Box::new(stream) as Box<dyn Stream>)))
    }
}

/// What the installer sends.
pub(crate) fn introduction<'a>(token: &'a str, id: &'a str) -> Vec<(&'static str, &'a str)> {
    vec![
        ("authorization", token),
        ("x-cattle-id", id),
        ("x-cattle-role-etcd", "true"),
        ("x-cattle-role-control-plane", "true"),
        ("x-cattle-role-worker", "true"),
        ("x-cattle-node-name", "node-1"),
        ("x-cattle-address", "203.0.113.7"),
        ("x-cattle-internal-address", ""),
        ("x-cattle-labels", "cattle.io/os=linux,foo=bar"),
        ("x-cattle-taints", ""),
    ]
}

impl World {
    /// Registers as the installer does.
    pub(crate) async fn register(&self, token: &str, id: &str) -> (StatusCode, String) {
        let bearer = format!("Bearer {token}");
        self.ask("/v3/connect/agent", &introduction(&bearer, id)).await
    }

    /// The same, and it has to work; gives the connection info.
    pub(crate) async fn registered(&self, token: &str, id: &str) -> Value {
        let (code, body) = self.register(token, id).await;
        assert_eq!(code, StatusCode::OK, "{body}");
        serde_json::from_str(&body).unwrap()
    }
}

/// The token in a node's connection info.
pub(crate) fn token_of(connection: &Value) -> String {
    let kubeconfig = Kubeconfig::parse(connection["kubeConfig"].as_str().unwrap()).unwrap();
    kubeconfig.token.unwrap()
}

/// An agent with the connection info of its node, in a root of its own. It runs until it is aborted.
pub(crate) fn agent(world: &World, root: &Path, connection: &Value) -> tokio::task::JoinHandle<()> {
    let machine = Machine {
        root: Root::at(root),
        executor: Arc::new(Idle),
        images: Arc::new(NoImages),
        prober: Arc::new(Idle),
        clock: world.clock.clone(),
        entropy: Arc::new(Mutex::new(Box::new(SeededEntropy::new(7)))),
        environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
        process: 17,
    };
    let value =
        serde_json::json!({"remoteEnabled": true, "connectionInfoFile": "/c.json", "workDirectory": "/work"});
    let file = root.join("config.json");
    std::fs::write(&file, value.to_string()).unwrap();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let config = Config::load(&file).unwrap();
    let kubeconfig = Kubeconfig::parse(connection["kubeConfig"].as_str().unwrap()).unwrap();
    let text = |key: &str| connection[key].as_str().unwrap();
    let remote = Remote {
        client: Client::new(
            Arc::new(Wire(world.gateway.clone())),
            &kubeconfig.server,
            kubeconfig.token.as_deref(),
        )
        .unwrap(),
        place: Place::new(text("namespace"), text("secretName")).unwrap(),
        journal: Journal::open(&machine.root, &config.state_directory).unwrap(),
        applier: Arc::new(Applier::new(machine, &config)),
        observer: Arc::new(Unobserved),
        authority: None,
    };
    tokio::spawn(remote.run())
}
