//! A webhook that the tables' definitions can point at, with TLS and an authority of its own. It converts, and is
//! asked about writes.

use std::convert::Infallible;
use std::sync::Arc;

use anyhow::{Context, Result};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::admission;

/// Where it is and whom to trust.
#[derive(Debug)]
pub(super) struct Webhook {
    url: String,
    authority: String,
}

impl Webhook {
    /// Starts one that runs as long as this program.
    pub(super) async fn start() -> Result<Self> {
        let mut params = CertificateParams::new(Vec::<String>::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let key = KeyPair::generate()?;
        let names = vec!["127.0.0.1".to_owned(), "*.default.svc".to_owned()];
        let certificate = CertificateParams::new(names)?.signed_by(&key, &authority)?;
        let private = PrivateKeyDer::try_from(key.serialize_der()).map_err(anyhow::Error::msg)?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], private)?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("https://{}", listener.local_addr()?);
        tokio::spawn(accept(listener, TlsAcceptor::from(Arc::new(config))));
        Ok(Webhook { url, authority: BASE64_STANDARD.encode(authority.pem()) })
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// The port behind which it is on this machine.
    pub(super) fn port(&self) -> &str {
        self.url.rsplit(':').next().unwrap_or_default()
    }

    /// As a `caBundle` has it.
    pub(super) fn authority(&self) -> &str {
        &self.authority
    }
}

async fn accept(listener: TcpListener, tls: TlsAcceptor) {
    while let Ok((stream, _)) = listener.accept().await {
        // A client that goes away is the client's business.
        tokio::spawn(serve(stream, tls.clone()));
    }
}

async fn serve(stream: TcpStream, tls: TlsAcceptor) -> Result<()> {
    let stream = tls.accept(stream).await?;
    let service = service_fn(|request: http::Request<Incoming>| async move {
        let answer = answer(request).await.unwrap_or_else(|error| (400, json!({"error": error.to_string()})));
        let response = http::Response::builder()
            .status(answer.0)
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(answer.1.to_string())));
        Ok::<_, Infallible>(response.unwrap_or_default())
    });
    let served =
        auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
    served.map_err(anyhow::Error::from_boxed)
}

/// A code and a document.
async fn answer(request: http::Request<Incoming>) -> Result<(u16, Value)> {
    let path = request.uri().path().to_owned();
    let review: Value = serde_json::from_slice(&request.into_body().collect().await?.to_bytes())?;
    if review["kind"] == "AdmissionReview" {
        return match admission::answer(path.trim_start_matches('/'), &review)? {
            Some(answer) => Ok(answer),
            None => std::future::pending().await,
        };
    }
    let asked = &review["request"];
    let version = asked["desiredAPIVersion"].as_str().context("no version")?;
    let objects = asked["objects"].as_array().context("no objects")?;
    let mut response = match path.as_str() {
        "/convert" => {
            let converted: Vec<Value> = objects.iter().map(|object| converted(object, version)).collect();
            json!({"result": {"status": "Success"}, "convertedObjects": converted})
        }
        _ => json!({"result": {"status": "Failed", "message": "not today"}}),
    };
    response["uid"] = asked["uid"].clone();
    let review =
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": response});
    Ok((200, review))
}

/// Version v1 has `spec.address` as `host:port`; any other has `spec.host` and `spec.port`.
fn converted(object: &Value, version: &str) -> Value {
    let mut object = object.clone();
    object["apiVersion"] = json!(version);
    let Some(spec) = object["spec"].as_object_mut() else { return object };
    if version.ends_with("/v1") {
        let parts = (spec.remove("host"), spec.remove("port"));
        if let (Some(Value::String(host)), Some(Value::String(port))) = parts {
            spec.insert("address".into(), json!(format!("{host}:{port}")));
        }
    } else if let Some(Value::String(address)) = spec.remove("address") {
        let (host, port) = address.split_once(':').unwrap_or((&address, ""));
        spec.insert("host".into(), json!(host));
        spec.insert("port".into(), json!(port));
    }
    object
}
