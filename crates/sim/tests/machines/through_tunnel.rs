//! The cluster's agent dials back, and its API is reached through the tunnel, with TLS.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use clock::{Clock as _, SystemClock};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use outbound::tls::{self, Trust};
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio_rustls::TlsConnector;
use tunnel::{ClientKey, Target};

use crate::control_plane::Story;
use crate::lifecycle::{K3S, populate};
use crate::story;

/// Names of nodes, asked as the gateway asks.
async fn nodes(story: &Story) -> Result<Vec<String>, String> {
    let params = story.management.tunnel_params().pop().unwrap();
    let params: Value = serde_json::from_slice(&BASE64_STANDARD.decode(params).unwrap()).unwrap();
    let cluster = &params["cluster"];
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
