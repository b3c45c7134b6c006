//! What headers say, and which of them go on to whom.

use std::collections::BTreeMap;
use std::net::IpAddr;

use api::catalogue::headers::{CATTLE_ID, CATTLE_PREFIX};
use http::header::{
    AUTHORIZATION, CONNECTION, COOKIE, HOST, HeaderMap, HeaderName, HeaderValue, SEC_WEBSOCKET_PROTOCOL,
    UPGRADE,
};
use kubeapi::authn::impersonation::Impersonation;
use kubeapi::authn::{MASTERS, User};

/// Headers that are about one connection only.
const HOP: [&str; 8] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// What the names of service accounts begin with.
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// How browsers send a token with a websocket, which lets them set no header: as a protocol that they offer.
const BEARER_PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

/// What a front proxy says of its user. Nobody says it to us, and we do not hand it on.
const FRONT_PROXY: &str = "x-remote-";

/// The token of an `Authorization` header.
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// A header's text; empty if there is none, or it is none.
pub fn text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().trim()
}

/// The id of a host that introduces itself.
pub fn machine_id(headers: &HeaderMap) -> Option<&str> {
    Some(text(headers, CATTLE_ID)).filter(|id| !id.is_empty())
}

/// Everything that a host says of itself: its `X-Cattle-*` headers as JSON, in lower case and without the prefix, each a list.
pub fn introduction(headers: &HeaderMap) -> serde_json::Value {
    let prefix = CATTLE_PREFIX.to_ascii_lowercase();
    let mut said: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, value) in headers {
        let (Some(name), Ok(value)) = (name.as_str().strip_prefix(&prefix), value.to_str()) else { continue };
        said.entry(name).or_default().push(value);
    }
    serde_json::json!(said)
}

/// The protocol that a request asks to go over to.
pub fn upgrade(headers: &HeaderMap) -> Option<HeaderValue> {
    let asked = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let asked =
        asked.flat_map(|value| value.split(',')).any(|word| word.trim().eq_ignore_ascii_case("upgrade"));
    headers.get(UPGRADE).filter(|_| asked).cloned()
}

/// Whether somebody would act as somebody else by this header.
fn acts_as(name: &HeaderName) -> bool {
    Impersonation::is_header(name.as_str()) || name.as_str().starts_with(FRONT_PROXY)
}

/// Takes away what belongs to the connection that a request or an answer came over. An upgrade that is asked for or granted
/// stays one.
pub fn strip_hop(headers: &mut HeaderMap) {
    let upgrade = upgrade(headers);
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|word| word.trim().to_ascii_lowercase().parse().ok())
        .collect();
    for name in named {
        headers.remove(name);
    }
    for name in HOP {
        headers.remove(name);
    }
    if let Some(protocol) = upgrade {
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, protocol);
    }
}

/// Makes the headers of a client those of a request that carries other credentials: nothing of theirs that says who they
/// are, or as whom they would act, is left.
pub fn strip_identity(headers: &mut HeaderMap) {
    headers.remove(AUTHORIZATION);
    headers.remove(COOKIE);
    headers.remove(HOST);
    strip_bearer_protocols(headers);
    for name in headers.keys().filter(|name| acts_as(name)).cloned().collect::<Vec<_>>() {
        headers.remove(name);
    }
}

/// Takes tokens out of the protocols that a websocket's client offers; the others stay.
fn strip_bearer_protocols(headers: &mut HeaderMap) {
    let without_tokens = |value: &HeaderValue| {
        let offered = value.to_str().ok()?.split(',').map(str::trim);
        let others: Vec<&str> = offered.filter(|one| !one.starts_with(BEARER_PROTOCOL)).collect();
        HeaderValue::from_str(&others.join(", ")).ok().filter(|value| !value.is_empty())
    };
    let kept: Vec<HeaderValue> =
        headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(without_tokens).collect();
    headers.remove(SEC_WEBSOCKET_PROTOCOL);
    for value in kept {
        headers.append(SEC_WEBSOCKET_PROTOCOL, value);
    }
}

/// Takes away what a client says as if it were a front proxy; who it is and as whom it would act is the server's to judge.
pub fn strip_front_proxy(headers: &mut HeaderMap) {
    headers.remove(HOST);
    for name in
        headers.keys().filter(|name| name.as_str().starts_with(FRONT_PROXY)).cloned().collect::<Vec<_>>()
    {
        headers.remove(name);
    }
}

/// Makes a request one of ours that acts as a user, whatever it says of itself. Somebody who may do everything may act as anybody
/// else. False if it cannot be: then it must not be sent.
#[must_use]
pub fn become_user(headers: &mut HeaderMap, user: User) -> bool {
    // First, while none of them is ours: a client that names `Impersonate-User` in `Connection` would have it taken away again
    // before the request leaves, and act as this server.
    strip_hop(headers);
    let asked: Vec<(HeaderName, HeaderValue)> = headers
        .iter()
        .filter(|(name, _)| user.is_in(MASTERS) && Impersonation::is_header(name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    strip_identity(headers);
    if asked.is_empty() {
        return act_as(headers, &user);
    }
    headers.extend(asked);
    // Groups alone would be ours.
    headers.contains_key("impersonate-user")
}

/// Has a request act as a user. A user whose name no header can carry acts as nobody: then nothing is set, and this is false.
fn act_as(headers: &mut HeaderMap, user: &User) -> bool {
    let mut set = Vec::new();
    let mut add = |name: &str, value: &str| {
        let pair = (name.parse::<HeaderName>(), HeaderValue::from_str(value));
        match pair {
            (Ok(name), Ok(value)) => set.push((name, value)),
            _ => set.clear(),
        }
    };
    add("impersonate-user", &user.name);
    // A service account's groups follow from its name, and the server adds them: we need no right to act for groups then.
    let account = user.name.starts_with(SERVICE_ACCOUNT);
    let (uid, groups) = if account { ("", &[][..]) } else { (&*user.uid, &user.groups[..]) };
    if !uid.is_empty() {
        add("impersonate-uid", uid);
    }
    for group in groups {
        add("impersonate-group", group);
    }
    let whole = set.first().is_some_and(|(name, _)| name == "impersonate-user")
        && set.len() == 1 + usize::from(!uid.is_empty()) + groups.len();
    if whole {
        for (name, value) in set {
            headers.append(name, value);
        }
    }
    whole
}

/// Networks of load balancers in front of the server, whose word on where a request came from is taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxies(Vec<(IpAddr, u8)>);

/// A network that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither an address nor a network such as 10.0.0.0/8")]
pub struct NoNetwork(String);

impl Proxies {
    /// These addresses and networks.
    ///
    /// # Errors
    /// If one of them is none.
    pub fn new(networks: &[String]) -> Result<Self, NoNetwork> {
        let read = |text: &String| {
            let (address, bits) = text.split_once('/').map_or((text.as_str(), None), |(a, b)| (a, Some(b)));
            let no = || NoNetwork(text.clone());
            let address: IpAddr = address.trim().parse().map_err(|_| no())?;
            let most = if address.is_ipv4() { 32 } else { 128 };
            let bits = bits.map_or(Ok(most), |bits| bits.trim().parse::<u8>().map_err(|_| no()))?;
            if bits > most { Err(no()) } else { Ok((address, bits)) }
        };
        networks.iter().map(read).collect::<Result<_, _>>().map(Proxies)
    }

    /// Whether an address is one of theirs.
    pub fn contain(&self, address: IpAddr) -> bool {
        self.0.iter().any(|(network, bits)| match (network, address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(*bits)).unwrap_or(0);
                network.to_bits() & mask == address.to_bits() & mask
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(*bits)).unwrap_or(0);
                network.to_bits() & mask == address.to_bits() & mask
            }
            _ => false,
        })
    }

    /// Where a request came from: the other end of its connection, or, if that is a load balancer, the last address before
    /// it that is none.
    pub fn origin(&self, headers: &HeaderMap, peer: IpAddr) -> IpAddr {
        let mut nearest = peer.to_canonical();
        let said = headers.get_all("x-forwarded-for").iter().filter_map(|value| value.to_str().ok());
        let named: Vec<&str> = said.flat_map(|value| value.split(',')).collect();
        // The last one was written by whoever is nearest; what stands before something that is no address is anybody's.
        let before = named.into_iter().rev().map_while(|one| one.trim().parse::<IpAddr>().ok());
        for before in before {
            if !self.contain(nearest) {
                break;
            }
            nearest = before.to_canonical();
        }
        nearest
    }
}

#[cfg(test)]
#[path = "headers/tests.rs"]
mod tests;
