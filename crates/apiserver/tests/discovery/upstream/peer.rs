use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use anyhow::{Context, Result, ensure};
use kube::Client;
use peers::Kubernetes;
use serde_json::Value;

use crate::support::DEFINITIONS;

/// A real server with our definitions, behind `kubectl proxy`: plain HTTP, as administrator.
pub(super) struct Peer {
    /// Ends before the server does.
    proxy: Child,
    client: Client,
    _kubernetes: Kubernetes,
}

impl Drop for Peer {
    fn drop(&mut self) {
        // If it has ended already there is nothing to do.
        let _ = self.proxy.kill();
        let _ = self.proxy.wait();
    }
}

impl Peer {
    pub(super) async fn start() -> Result<Self> {
        let kubernetes = Kubernetes::options().controller_manager(false).start()?;
        let file = kubernetes.data_dir().join("definitions.yaml");
        std::fs::write(&file, DEFINITIONS)?;
        let applied = kubernetes.kubectl().args(["apply", "-f"]).arg(&file).status()?;
        ensure!(applied.success(), "the definitions were not taken");
        let awaited = ["wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"];
        ensure!(
            kubernetes.kubectl().args(awaited).status()?.success(),
            "the definitions are not established"
        );
        let mut proxy = kubernetes.kubectl().args(["proxy", "--port=0"]).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(proxy.stdout.take().context("no output")?).read_line(&mut line)?;
        let address = line.trim().rsplit(' ').next().unwrap_or_default();
        let client = Client::try_from(kube::Config::new(format!("http://{address}").parse()?))?;
        let peer = Peer { proxy, client, _kubernetes: kubernetes };
        peer.await_publication().await?;
        Ok(peer)
    }

    /// A document as JSON.
    pub(super) async fn json(&self, path: &str, accept: &str) -> Result<Value> {
        let accept = if accept.is_empty() { "application/json" } else { accept };
        let request = http::Request::get(path).header("Accept", accept).body(Vec::new())?;
        let text = self.client.request_text(request).await.with_context(|| path.to_owned())?;
        serde_json::from_str(&text).with_context(|| path.to_owned())
    }

    /// Definitions are established before they are published everywhere.
    async fn await_publication(&self) -> Result<()> {
        let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        for _ in 0..300 {
            let published = [
                self.json("/apis", "").await?.to_string(),
                self.json("/apis", accept).await?.to_string(),
                self.json("/openapi/v3", "").await?.to_string(),
                self.json("/openapi/v2", "").await?["definitions"].to_string(),
            ];
            let names = ["shop.example.com", "forest.example.com"];
            let wanted = ["com.example.shop.v1beta1.Widget", "com.example.forest.v1alpha1.Oak"];
            let all = published[..3].iter().all(|text| names.iter().all(|name| text.contains(name)));
            if all && wanted.iter().all(|name| published[3].contains(name)) {
                return Ok(());
            }
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
        anyhow::bail!("the definitions are not published")
    }
}
