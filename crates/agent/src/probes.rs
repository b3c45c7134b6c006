//! Probes over HTTP, as Kubernetes asks them: no proxy, a connection for each try, redirects followed on the same
//! host only, and nothing but 2xx is a success.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use bytes::Bytes;
use http::header::{ACCEPT, CONNECTION, HOST, LOCATION, USER_AGENT};
use http::{Request, Response, Uri};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use outbound::tls::{self, Trust};
use plan::document::{HttpGet, Probe};
use plan::probe;
use rustls::ClientConfig;

use crate::connect::{Connect as _, Network};
use crate::machine::{Later, Prober, Root};

/// What is read of an answer.
const LARGEST: usize = 10 << 10;
/// How often a server may send us elsewhere.
const REDIRECTS: usize = 10;
/// How many TLS configurations are kept: more than a plan has probes.
const KEPT: usize = 32;
/// Servers know a prober by this.
const AGENT: &str = "kube-probe/1.34";

/// Asks probes over the network.
#[derive(Debug)]
pub struct HttpProber {
    root: Root,
    /// Reading the system's authorities takes longer than most probes.
    configs: Mutex<BTreeMap<Key, Arc<ClientConfig>>>,
}

/// What a TLS configuration depends on: files, and when they were last written.
type Key = (bool, Vec<(PathBuf, Option<SystemTime>)>);

impl HttpProber {
    /// For a machine with its files below `root`.
    pub fn new(root: Root) -> Self {
        HttpProber { root, configs: Mutex::default() }
    }

    async fn try_once(&self, get: &HttpGet) -> Result<(), String> {
        let mut url: Uri = get.url.parse().map_err(|error| format!("{:?} is not a URL: {error}", get.url))?;
        if !matches!(url.scheme_str(), Some("http" | "https")) {
            return Err(format!("{:?} is not an http or https URL", get.url));
        }
        for _ in 0..=REDIRECTS {
            let response = self.fetch(&url, get).await?;
            let code = response.status();
            let elsewhere = code.is_redirection().then(|| redirect(&url, &response)).flatten();
            drain(response).await?;
            match elsewhere {
                Some(next) => url = next,
                None if code.is_success() => return Ok(()),
                None => return Err(format!("HTTP probe failed with statuscode: {}", code.as_u16())),
            }
        }
        Err(format!("stopped after {REDIRECTS} redirects"))
    }

    async fn fetch(&self, url: &Uri, get: &HttpGet) -> Result<Response<Incoming>, String> {
        let tls = match url.scheme_str() {
            Some("https") => Some(self.tls(get)?),
            _ => None,
        };
        let stream = Network::to(url, tls, None).connect().await.map_err(|error| crate::chain(&error))?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| crate::chain(&error))?;
        // It ends with the answer's body.
        tokio::spawn(connection);
        let authority = url.authority().map(ToString::to_string).unwrap_or_default();
        let path = url.path_and_query().map_or("/", |path| path.as_str());
        let request = Request::get(path)
            .header(HOST, authority)
            .header(USER_AGENT, AGENT)
            .header(ACCEPT, "*/*")
            .header(CONNECTION, "close")
            .body(Empty::<Bytes>::new())
            .map_err(|error| error.to_string())?;
        sender.send_request(request).await.map_err(|error| crate::chain(&error))
    }

    fn tls(&self, get: &HttpGet) -> Result<Arc<ClientConfig>, String> {
        let paths: Vec<_> = [&get.ca_cert, &get.client_cert, &get.client_key]
            .into_iter()
            .map(|path| if path.is_empty() { PathBuf::new() } else { self.root.locate(path) })
            .collect();
        let written = |path: &PathBuf| fs::metadata(path).and_then(|meta| meta.modified()).ok();
        let key = (get.insecure, paths.iter().map(|path| (path.clone(), written(path))).collect());
        let mut configs = self.configs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(config) = configs.get(&key) {
            return Ok(config.clone());
        }
        let config = Arc::new(build(get.insecure, &paths).map_err(|error| crate::chain(&error))?);
        if configs.len() >= KEPT {
            configs.clear();
        }
        configs.insert(key, config.clone());
        Ok(config)
    }
}

/// `paths` are authority, certificate and key. What cannot be read is done without, as Rancher's agent does: the
/// server has the last word.
fn build(insecure: bool, paths: &[PathBuf]) -> Result<ClientConfig, tls::Error> {
    if insecure {
        return tls::config(&Trust { anyone: true, ..Trust::default() }, None);
    }
    let read = |index: usize| {
        let path = paths.get(index).filter(|path| !path.as_os_str().is_empty())?;
        let read = fs::read(path);
        read.inspect_err(
            |error| tracing::warn!(path = %path.display(), %error, "a probe goes without this file"),
        )
        .ok()
    };
    let trust = Trust { system: true, authorities: read(0), anyone: false };
    let identity = read(1).zip(read(2));
    tls::config(&trust, identity.as_ref()).or_else(|error| {
        tracing::warn!(error = %crate::chain(&error), "a probe goes without its certificates");
        tls::config(&Trust { authorities: None, ..trust }, None)
    })
}

impl Prober for HttpProber {
    fn ask<'a>(&'a self, probe: &'a Probe) -> Later<'a, Result<(), String>> {
        Box::pin(async {
            let patience = probe::timeout(probe);
            let answer = tokio::time::timeout(patience, self.try_once(&probe.http_get)).await;
            answer.unwrap_or_else(|_| Err(format!("no answer within {} s", patience.as_secs())))
        })
    }
}

/// Where an answer sends us, if that is on the same host.
fn redirect(from: &Uri, response: &Response<Incoming>) -> Option<Uri> {
    let location = response.headers().get(LOCATION)?.to_str().ok()?;
    let authority = from.authority()?.as_str();
    let full = match location {
        absolute if absolute.contains("://") => absolute.to_owned(),
        path if path.starts_with('/') => format!("{}://{authority}{path}", from.scheme_str()?),
        relative => {
            let directory = from.path().rsplit_once('/').map_or("", |(directory, _)| directory);
            format!("{}://{authority}{directory}/{relative}", from.scheme_str()?)
        }
    };
    let to: Uri = full.parse().ok()?;
    (to.host() == from.host() && matches!(to.scheme_str(), Some("http" | "https"))).then_some(to)
}

/// A server that is cut off in the middle of a long answer has answered.
async fn drain(response: Response<Incoming>) -> Result<(), String> {
    match Limited::new(response.into_body(), LARGEST).collect().await {
        Ok(_) => Ok(()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// Asks some probes of a plan, all at once; gives whether each succeeded.
pub async fn ask(
    prober: &Arc<dyn Prober>,
    probes: &BTreeMap<String, Probe>,
    names: &[String],
) -> BTreeMap<String, bool> {
    let mut tries = tokio::task::JoinSet::new();
    for name in names {
        let Some(probe) = probes.get(name).cloned() else { continue };
        let (name, prober) = (name.clone(), prober.clone());
        tries.spawn(async move {
            let answer = prober.ask(&probe).await;
            if let Err(why) = &answer {
                tracing::debug!(name, why, "probe failed");
            }
            (name, answer.is_ok())
        });
    }
    tries.join_all().await.into_iter().collect()
}
