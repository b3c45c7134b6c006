//! A tunnel from a simulated host to the server: what it offers, and one session of it with the real client.

use std::sync::Arc;

use api::catalogue::headers;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use clock::{Clock, Entropy};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::json;
use tunnel::Target;
use tunnel::client::{Client, Hello, Progress};
use tunnel::serve::{Dial, Forward};
use tunnel::session::Settings;

use crate::upstream::Upstream;

/// What the server is offered: a cluster, and the token that says which one it is.
pub(crate) struct Offer {
    /// URL of the server.
    pub(crate) server: String,
    /// The tunnel's token.
    pub(crate) token: Vec<u8>,
    /// Where the cluster's API is, as the host reaches it.
    pub(crate) address: String,
    /// What the server authenticates with there.
    pub(crate) account: String,
    /// Whom it trusts there, in PEM.
    pub(crate) authority: String,
}

impl Offer {
    /// What a session begins with.
    fn hello(&self, registered: bool) -> Result<Hello, String> {
        let params = json!({"cluster": {
            "address": self.address,
            "token": self.account,
            "caCert": BASE64_STANDARD.encode(&self.authority),
        }});
        let mut all = HeaderMap::new();
        let mut set = |name: &str, value: &[u8]| -> Result<(), String> {
            let name = HeaderName::try_from(name).map_err(|error| error.to_string())?;
            all.insert(name, HeaderValue::from_bytes(value).map_err(|error| error.to_string())?);
            Ok(())
        };
        set(headers::TUNNEL_TOKEN, &self.token)?;
        set(headers::TUNNEL_PARAMS, BASE64_STANDARD.encode(params.to_string()).as_bytes())?;
        let path = if registered { "/v3/connect" } else { "/v3/connect/register" };
        let url = format!("{}{path}", self.server.trim_end_matches('/'));
        Ok(Hello { url: url.parse().map_err(|_| format!("{url:?} is no URL"))?, headers: all })
    }
}

/// One session from its first byte to its end; gives why it ended. The server may dial the offered address, and nothing else.
///
/// # Errors
/// Why there was none.
pub(crate) async fn hold(
    way: Upstream,
    offer: Offer,
    dial: impl Dial + 'static,
    clock: Arc<dyn Clock>,
    entropy: Box<dyn Entropy>,
    registered: &mut bool,
    mut connected: impl FnMut() + Send,
) -> Result<String, String> {
    let hello = offer.hello(*registered)?;
    let gate = move |target: &Target| target.proto == "tcp" && target.address == offer.address;
    let handler = Arc::new(Forward::new(gate, dial));
    let mut client =
        Client { transport: Arc::new(way), handler, settings: Settings::default(), clock, entropy };
    let mut progress = |progress: Progress<'_>| {
        if let Progress::Connected(_) = progress {
            connected();
            *registered = true;
        }
    };
    match client.once(&hello, &mut progress).await {
        Ok(ended) => Ok(format!("the session ended: {ended}")),
        Err(error) => Err(agent::chain(&error)),
    }
}
