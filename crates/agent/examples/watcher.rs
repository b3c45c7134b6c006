//! The least that a program of Rust and the `kube` crate can be that follows one Secret: what `cargo xtask bench agent`
//! measures the agent beside. Prints the resource version of each event.
//!
//! `watcher <kubeconfig> <namespace> <name>`

use std::error::Error;
use std::io::Write as _;

use futures_util::TryStreamExt as _;
use k8s_openapi::api::core::v1::Secret;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [kubeconfig, namespace, name] = &arguments[..] else {
        return Err("usage: watcher <kubeconfig> <namespace> <name>".into());
    };
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let secrets: Api<Secret> = Api::namespaced(Client::try_from(config)?, namespace);
    let mut events = std::pin::pin!(kube::runtime::watcher(
        secrets,
        Config::default().fields(&format!("metadata.name={name}"))
    ));
    while let Some(event) = events.try_next().await? {
        if let Event::Apply(secret) | Event::InitApply(secret) = event {
            let mut stdout = std::io::stdout().lock();
            writeln!(stdout, "{}", secret.metadata.resource_version.unwrap_or_default())?;
            stdout.flush()?;
        }
    }
    Ok(())
}
