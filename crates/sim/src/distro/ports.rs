//! What listens on a machine of a cluster, with the health that the real ones show.

use std::sync::{Arc, OnceLock};

use agent::machine::Later;
use apiserver::http::{Certificates, serve};
use apiserver::pki::Clients;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio_rustls::TlsAcceptor;

use super::cluster::{Cluster, Supervisor};
use super::process::Context;
use super::{Role, Runtime};
use crate::machine::MachineName;
use crate::network::{Listening, Reply, Service, Wire};

/// Where pods find the API: the Service `kubernetes` of the embedded server.
pub(super) const SERVICE: &str = "10.96.0.1";
/// The first byte of TLS.
const HANDSHAKE: u8 = 22;

/// What a port is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The API, and where nodes join if it is the supervisor's port too.
    Api,
    /// Where nodes join.
    Supervisor,
    /// etcd's health.
    Etcd,
    /// The controller manager or the scheduler, which need the API.
    Component,
    /// A kubelet or the network's agent, which need nobody.
    Local,
}

struct Port {
    kind: Kind,
    cluster: Arc<Cluster>,
    machine: MachineName,
    /// Names of the certificate beside the usual ones.
    names: Vec<String>,
    tls: OnceLock<Option<Arc<ServerConfig>>>,
}

/// What a server listens with.
pub(super) fn of_server(context: &Context<'_>, cluster: &Arc<Cluster>) -> Vec<Listening> {
    let runtime = context.process.runtime;
    let api = !context.config.is("disable-apiserver");
    let mut ports =
        vec![(runtime.supervisor_port(), if runtime == Runtime::K3s { Kind::Api } else { Kind::Supervisor })];
    if api && runtime == Runtime::Rke2 {
        ports.push((6443, Kind::Api));
    }
    if api {
        for (component, port) in [("kube-controller-manager-arg", 10257), ("kube-scheduler-arg", 10259)] {
            let chosen = context.config.argument(component, "secure-port").and_then(|port| port.parse().ok());
            ports.push((chosen.unwrap_or(port), Kind::Component));
        }
    }
    if runtime == Runtime::Rke2 && !context.config.is("disable-etcd") {
        ports.push((2381, Kind::Etcd));
    }
    open(context, cluster, ports)
}

/// What a kubelet listens with: it is well before it has registered, or an API server in one of its pods could not be.
pub(super) fn of_kubelet(context: &Context<'_>, cluster: &Arc<Cluster>) -> Vec<Listening> {
    open(context, cluster, vec![(10248, Kind::Local)])
}

/// What pods of the network listen with, on a node that has registered.
pub(super) fn of_network(context: &Context<'_>, cluster: &Arc<Cluster>) -> Vec<Listening> {
    let etcd_only = context.process.role == Role::Server && context.config.is("disable-apiserver");
    let calico = context.process.runtime == Runtime::Rke2 && !etcd_only;
    open(context, cluster, if calico { vec![(9099, Kind::Local)] } else { Vec::new() })
}

fn open(context: &Context<'_>, cluster: &Arc<Cluster>, ports: Vec<(u16, Kind)>) -> Vec<Listening> {
    let machine = context.machine;
    let mut names = vec![SERVICE.to_owned(), machine.address.to_string(), context.node_name()];
    names.extend(context.config.values("tls-san"));
    let listen = |(port, kind): (u16, Kind)| {
        let names = if kind == Kind::Api { names.clone() } else { Vec::new() };
        let service = Port {
            kind,
            cluster: cluster.clone(),
            machine: machine.name.clone(),
            names,
            tls: OnceLock::new(),
        };
        machine.ground.network.listen((machine.address, port), Arc::new(service))
    };
    ports.into_iter().map(listen).collect()
}

impl Port {
    fn tls(&self) -> Option<Arc<ServerConfig>> {
        let make = || {
            let config = self.cluster.pki.server_config(&self.names, Clients::MayShowCertificates);
            let complain =
                |error: &apiserver::pki::Error| self.cluster.say(format!("no TLS: {}", agent::chain(error)));
            config.inspect_err(complain).ok()
        };
        self.tls.get_or_init(make).clone()
    }

    async fn serve_api(self: Arc<Self>, wire: Wire) {
        let mut stream = BufReader::new(wire);
        let first = match stream.fill_buf().await {
            Ok(bytes) => bytes.first().copied(),
            Err(_) => None,
        };
        let api = self.cluster.api.clone();
        match first {
            None => {}
            Some(HANDSHAKE) => {
                let Some(config) = self.tls() else { return };
                let Ok(stream) = TlsAcceptor::from(config).accept(stream).await else { return };
                let shown = stream.get_ref().1.peer_certificates().unwrap_or_default().to_vec();
                serve(api, stream, Certificates(shown.into())).await;
            }
            Some(_) => serve(api, stream, Certificates::default()).await,
        }
    }

    async fn serve_simply(self: Arc<Self>, wire: Wire) {
        let answer = service_fn(move |request: Request<Incoming>| {
            let reply = self.get(request.uri().path()).unwrap_or_else(|| Reply::new(503, ""));
            let response = Response::builder().status(reply.status);
            std::future::ready(response.body(Full::new(Bytes::from(reply.body))))
        });
        // Whoever asked is gone if it fails.
        let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(wire), answer).await;
    }

    /// As `/db/info` of a supervisor says it.
    fn members(&self) -> String {
        let members = self.cluster.members();
        let one = |(_, member): (_, &super::etcd::Member)| json!({"name": member.name, "clientURLs": [format!("https://{}:2379", member.address)]});
        format!("{}\n", json!({"members": members.iter().map(one).collect::<Vec<_>>()}))
    }
}

impl Service for Port {
    fn get(&self, path: &str) -> Option<Reply> {
        let healthy = |well: bool| if well { Reply::new(200, "ok") } else { Reply::new(503, "not ready") };
        match (self.kind, path) {
            (Kind::Api | Kind::Supervisor, "/cacerts") => {
                Some(Reply::new(200, self.cluster.pki.ca_certificate()))
            }
            (Kind::Api | Kind::Supervisor, "/ping") => Some(Reply::new(200, "pong")),
            (Kind::Api | Kind::Supervisor, "/db/info") if self.cluster.has_quorum_at(&self.machine) => {
                Some(Reply::new(200, self.members()))
            }
            (Kind::Api, "/readyz" | "/livez" | "/healthz") => {
                Some(healthy(self.cluster.has_api_at(&self.machine)))
            }
            (Kind::Api | Kind::Supervisor, _) => Some(Reply::new(503, "not ready")),
            (Kind::Etcd, _) => Some(healthy(self.cluster.has_quorum_at(&self.machine))),
            (Kind::Component, _) => self.cluster.has_api_at(&self.machine).then(|| Reply::new(200, "ok")),
            (Kind::Local, _) => Some(Reply::new(200, "ok")),
        }
    }

    fn serve(self: Arc<Self>, wire: Wire) -> Later<'static, ()> {
        let this = self.clone();
        let (cluster, machine) = (self.cluster.clone(), self.machine.clone());
        match self.kind {
            Kind::Api => Box::pin(async move {
                // What is being answered when the quorum goes stays unanswered.
                tokio::select! {
                    biased;
                    () = cluster.until(|cluster| !cluster.has_api_at(&machine)) => {}
                    () = this.serve_api(wire) => {}
                }
            }),
            _ => Box::pin(this.serve_simply(wire)),
        }
    }

    fn supervisor(&self) -> Option<Supervisor> {
        let runtime = self.cluster.runtime;
        let joins = self.kind == Kind::Supervisor || (self.kind == Kind::Api && runtime == Runtime::K3s);
        joins.then(|| Supervisor { cluster: self.cluster.clone(), machine: self.machine.clone() })
    }
}
