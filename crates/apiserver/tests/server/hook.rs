//! A webhook on this machine, over real TLS.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::PrivateKeyDer;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::conversion::converted;

/// How it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    Good,
    OtherUid,
    Failure,
    Nothing,
    Untouched,
    Renamed,
    Code500,
    Code404,
}

/// What it answers to a document that is posted to a URL; nothing if it never does.
type Answering = dyn Fn(&str, &Value) -> Option<Response<Full<Bytes>>> + Send + Sync;

/// Runs until it is dropped.
pub(crate) struct Hook {
    pub(crate) port: u16,
    certificate: String,
    seen: Arc<Mutex<Vec<Value>>>,
    connections: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Drop for Hook {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Hook {
    /// One that converts.
    pub(crate) async fn start(manner: Manner) -> Self {
        Hook::answering(move |url, review| {
            assert_eq!(url, "/convert?timeout=30s");
            Some(answer(manner, review))
        })
        .await
    }

    pub(crate) async fn answering(
        answer: impl Fn(&str, &Value) -> Option<Response<Full<Bytes>>> + Send + Sync + 'static,
    ) -> Self {
        let names = ["127.0.0.1".to_owned(), "hook.default.svc".to_owned()];
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).unwrap();
        let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (seen, connections) = (Arc::<Mutex<Vec<Value>>>::default(), Arc::<AtomicUsize>::default());
        let task = tokio::spawn(accept(
            listener,
            Arc::new(config),
            Arc::new(answer),
            seen.clone(),
            connections.clone(),
        ));
        Hook { port, certificate: cert.pem(), seen, connections, task }
    }

    /// Its certificate, as a `clientConfig` has it.
    pub(crate) fn ca_bundle(&self) -> String {
        STANDARD.encode(&self.certificate)
    }

    /// What it was asked so far.
    pub(crate) fn seen(&self) -> Vec<Value> {
        self.seen.lock().unwrap().clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

async fn accept(
    listener: TcpListener,
    config: Arc<rustls::ServerConfig>,
    answering: Arc<Answering>,
    seen: Arc<Mutex<Vec<Value>>>,
    connections: Arc<AtomicUsize>,
) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        // A client that does not trust it hangs up.
        let Ok(stream) = TlsAcceptor::from(config.clone()).accept(stream).await else { continue };
        connections.fetch_add(1, Ordering::SeqCst);
        let (seen, answering) = (seen.clone(), answering.clone());
        let service = service_fn(move |request: Request<Incoming>| {
            let (seen, answering) = (seen.clone(), answering.clone());
            async move {
                let url = request.uri().to_string();
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let review: Value = serde_json::from_slice(&body).unwrap();
                seen.lock().unwrap().push(review.clone());
                let answer = answering(&url, &review);
                match answer {
                    Some(answer) => Ok::<_, std::convert::Infallible>(answer),
                    None => std::future::pending().await,
                }
            }
        });
        tokio::spawn(
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service),
        );
    }
}

fn answer(manner: Manner, review: &Value) -> Response<Full<Bytes>> {
    let with = |code: u16, body: String| {
        Response::builder().status(code).body(Full::new(Bytes::from(body))).unwrap()
    };
    let request = &review["request"];
    let to = request["desiredAPIVersion"].as_str().unwrap();
    let objects = request["objects"].as_array().unwrap();
    let mut objects: Vec<Value> = objects.iter().map(|object| converted(object.clone(), to)).collect();
    let mut uid = request["uid"].clone();
    let mut result = json!({"status": "Success"});
    match manner {
        Manner::Good => {}
        Manner::OtherUid => uid = json!("other"),
        Manner::Failure => result = json!({"status": "Failure", "message": "cannot do it"}),
        Manner::Nothing => objects.clear(),
        Manner::Untouched => objects = request["objects"].as_array().unwrap().clone(),
        Manner::Renamed => objects[0]["metadata"]["name"] = json!("other"),
        Manner::Code500 => return with(500, "broken\n".into()),
        Manner::Code404 => return with(404, String::new()),
    }
    let response = json!({"uid": uid, "result": result, "convertedObjects": objects});
    let answer = json!({"kind": review["kind"], "apiVersion": review["apiVersion"], "response": response});
    with(200, answer.to_string())
}
