//! The cluster's agent dials back, and its API is reached through the tunnel, with TLS.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use clock::{Clock as _, SystemClock};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, DeleteParams};
use outbound::tls::{self, Trust};
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio_rustls::TlsConnector;
use tunnel::{ClientKey, Target};

use crate::control_plane::Story;
use crate::lifecycle::{K3S, populate};
use crate::management::URL;
use crate::story;

/// What the last session said of the cluster.
fn cluster_params(story: &Story) -> Value {
    let params = story.management.tunnel_params().pop().unwrap();
    let params: Value = serde_json::from_slice(&BASE64_STANDARD.decode(params).unwrap()).unwrap();
    params["cluster"].clone()
}

/// Names of nodes, asked as the gateway asks.
async fn nodes(story: &Story) -> Result<Vec<String>, String> {
    let cluster = cluster_params(story);
    let (address, token) = (cluster["address"].as_str().unwrap(), cluster["token"].as_str().unwrap());
    let ca = BASE64_STANDARD.decode(cluster["caCert"].as_str().unwrap()).unwrap();
    let key = ClientKey::new("c-m-1").unwrap();
    let stream =
        story.management.hub().dial(&key, &Target::tcp(address)).map_err(|error| error.to_string())?;
    let config = tls::config(&Trust { authorities: Some(ca), ..Trust::default() }, None).unwrap();
    let host = address.split(':').next().unwrap().to_owned();
    let name = ServerName::try_from(host).unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
    let stream = stream.map_err(|error| error.to_string())?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = http::Request::get("/api/v1/nodes")
        .header("host", address)
        .header("authorization", format!("Bearer {token}"))
        .body(Empty::<Bytes>::new())
        .unwrap();
    let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
    assert_eq!(response.status(), 200);
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let list: Value = serde_json::from_slice(&body).unwrap();
    let name = |node: &Value| node["metadata"]["name"].as_str().unwrap().to_owned();
    Ok(list["items"].as_array().unwrap().iter().map(name).collect())
}

#[test]
fn the_api_is_reached_while_anybody_serves_it() {
    story(|| async {
        // Certificates are checked against the real time.
        let story = populate(Story::at(SystemClock.now(), K3S, 51).await, K3S).await;
        let key = ClientKey::new("c-m-1").unwrap();
        story.management.hub().wait_for(&key).await;
        assert_eq!(nodes(&story).await.unwrap(), ["s1", "s2", "s3", "w1", "w2"]);
        story.world.crash("s1").await.unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(nodes(&story).await.unwrap().len(), 5, "another node's agent, another server's API");
        story.world.crash("s2").await.unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(nodes(&story).await.is_err(), "no quorum");
    });
}

#[test]
fn a_machine_has_a_tunnel_of_its_own() {
    story(|| async {
        let story = populate(Story::at(SystemClock.now(), K3S, 52).await, K3S).await;
        let key = ClientKey::new("c-m-1").unwrap();
        story.management.hub().wait_for(&key).await;
        let params = cluster_params(&story);
        let root = story.directory.path().join("machines/s1/root");
        let write = |path: &str, content: &str| std::fs::write(root.join(path), content).unwrap();
        write("etc/rancher/agent/token", "registration-token\n");
        write("etc/rancher/agent/account", params["token"].as_str().unwrap());
        let config = format!(
            "serverUrl: {URL}\ntokenFile: /etc/rancher/agent/token\nclusterAddress: 127.0.0.1:6443\n\
             clusterTokenFile: /etc/rancher/agent/account\n\
             clusterCaFile: /var/lib/rancher/k3s/server/tls/server-ca.crt\n"
        );
        write("etc/rancher/agent/tunnel.yaml", &config);
        write("etc/systemd/system/herdsman-agent-tunnel.service", "[Service]\n");
        // The cluster's own agent is out of the way, and does not come again with the manifest.
        // A file that is gone takes nothing with it.
        let manifest = root.join("var/lib/rancher/k3s/server/manifests/rancher/cluster-agent.yaml");
        std::fs::remove_file(manifest).unwrap();
        let client = story.downstream().unwrap().client();
        let deployments: Api<Deployment> = Api::namespaced(client, "cattle-system");
        deployments.delete("cattle-cluster-agent", &DeleteParams::default()).await.unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(!story.management.hub().has(&key));
        story.world.crash("s1").await.unwrap();
        story.world.power_on("s1").unwrap();
        story.management.hub().wait_for(&key).await;
        assert_eq!(cluster_params(&story)["address"], "127.0.0.1:6443");
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(nodes(&story).await.unwrap().len(), 5);
    });
}
