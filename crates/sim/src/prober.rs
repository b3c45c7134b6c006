//! Probes on a simulated machine: they ask the simulated network. TLS is not spoken for them, but the files that it would
//! need have to be there.

use std::sync::Arc;

use agent::machine::{Later, Prober};
use http::Uri;
use plan::document::Probe;

use crate::machine::Machine;

/// Asks probes.
pub(crate) struct Asks(Arc<Machine>);

impl Asks {
    pub(crate) fn new(machine: Arc<Machine>) -> Self {
        Asks(machine)
    }

    fn ask_now(&self, probe: &Probe) -> Result<(), String> {
        let get = &probe.http_get;
        let url: Uri = get.url.parse().map_err(|error| format!("{:?} is not a URL: {error}", get.url))?;
        let secure = url.scheme_str() == Some("https");
        for path in [&get.ca_cert, &get.client_cert, &get.client_key] {
            if secure && !path.is_empty() && !self.0.root.locate(path).exists() {
                return Err(format!("cannot read {path}"));
            }
        }
        let host = url.host().unwrap_or_default().trim_matches(['[', ']']);
        let address = match host {
            "localhost" | "127.0.0.1" | "::1" => self.0.address,
            other => other.parse().map_err(|_| format!("{other:?} is no host of this network"))?,
        };
        let port = url.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let reply = self.0.ground.network.get(self.0.address, (address, port), url.path());
        match reply.map_err(|error| error.to_string())?.status {
            200..300 => Ok(()),
            status => Err(format!("HTTP probe failed with statuscode: {status}")),
        }
    }
}

impl Prober for Asks {
    fn ask<'a>(&'a self, probe: &'a Probe) -> Later<'a, Result<(), String>> {
        Box::pin(std::future::ready(self.ask_now(probe)))
    }
}
