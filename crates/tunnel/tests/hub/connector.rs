//! HTTP clients through a hub: Kubernetes' too.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use k8s_openapi::apimachinery::pkg::version::Info;
use kube::client::ConfigExt as _;
use tower::Layer as _;
use tunnel::serve::{Dial, Io, Later};
use tunnel::{Connector, Target};

use crate::world::{Way, client_with, hub, key};

/// A cluster's API, as far as asking for its version goes.
struct Api;

impl Dial for Api {
    fn dial(&self, target: Target) -> Later<'static, io::Result<Box<dyn Io>>> {
        Box::pin(async move {
            let (near, far) = tokio::io::duplex(64 << 10);
            let service = service_fn(move |request: Request<Incoming>| {
                let address = target.address.clone();
                async move {
                    let body = match request.uri().path() {
                        "/version" => serde_json::json!({
                            "major": "1", "minor": "34", "gitVersion": "v1.34.4", "gitCommit": "", "gitTreeState": "",
                            "buildDate": "", "goVersion": "", "compiler": "", "platform": address,
                        }),
                        path => serde_json::json!({ "path": path, "dialled": address }),
                    };
                    let response = Response::builder().header("content-type", "application/json");
                    response.body(Full::<Bytes>::from(body.to_string()))
                }
            });
            let http = hyper::server::conn::http1::Builder::new();
            tokio::spawn(http.serve_connection(TokioIo::new(far), service));
            Ok(Box::new(near) as Box<dyn Io>)
        })
    }
}

#[tokio::test]
async fn a_kubernetes_client_dials_through_it() {
    let hub = hub(1);
    let _agent = client_with(&Way::to(&hub), "token-of-c-1", Api);
    let connector = Connector::new(hub, key("c-1")).with_patience(Duration::from_secs(60));
    let http = Client::builder(TokioExecutor::new()).build(connector);
    let config = kube::Config::new("http://10.43.0.1:6443".parse().unwrap());
    let kube = kube::Client::new(config.base_uri_layer().layer(http), "default");
    let version: Info = kube.apiserver_version().await.unwrap();
    assert_eq!((version.git_version.as_str(), version.platform.as_str()), ("v1.34.4", "10.43.0.1:6443"));
}

#[tokio::test(start_paused = true)]
async fn a_client_without_a_session_is_waited_for_no_longer_than_asked() {
    let hub = hub(1);
    let ask = async |patience| {
        let connector = Connector::new(hub.clone(), key("c-1")).with_patience(patience);
        let http = Client::builder(TokioExecutor::new()).build::<_, Full<Bytes>>(connector);
        let answer = http.get("http://10.43.0.1:6443/healthz".parse().unwrap()).await?;
        Ok::<_, hyper_util::client::legacy::Error>(answer.into_body().collect().await.unwrap().to_bytes())
    };
    let error = ask(Duration::from_secs(5)).await.unwrap_err();
    let cause = std::error::Error::source(&error).map(ToString::to_string);
    assert_eq!(cause.as_deref(), Some("failed to find Session for client c-1"));
    let way = Way::to(&hub);
    let late = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(20)).await;
        client_with(&way, "token-of-c-1", Api).await
    });
    let body = ask(Duration::from_secs(60)).await.unwrap();
    assert_eq!(body, r#"{"dialled":"10.43.0.1:6443","path":"/healthz"}"#);
    late.abort();
}
