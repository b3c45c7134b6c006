//! Where a request comes from.

use std::net::{IpAddr, SocketAddr};

use ::http::HeaderMap;
use ::http::request::Parts;

/// The address of a connection's other end, as an extension of its requests.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub SocketAddr);

/// The addresses that a request came by, nearest last. All but the last are what the client says.
pub(super) fn ips(parts: &Parts) -> Vec<String> {
    let peer = parts.extensions.get::<Peer>().map(|peer| peer.0.ip());
    addresses(&parts.headers, peer).iter().map(ToString::to_string).collect()
}

fn addresses(headers: &HeaderMap, peer: Option<IpAddr>) -> Vec<IpAddr> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let forwarded = text("x-forwarded-for").split(',').filter_map(|one| one.trim().parse().ok());
    let mut found: Vec<IpAddr> = forwarded.collect();
    if let Ok(real) = text("x-real-ip").trim().parse()
        && !found.contains(&real)
    {
        found.push(real);
    }
    if let Some(peer) = peer.filter(|peer| found.last() != Some(peer)) {
        found.push(peer);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_comes_last_and_none_twice() {
        for (forwarded, real, peer, expected) in [
            ("", "", Some("10.0.0.1"), "10.0.0.1"),
            ("", "", None, ""),
            ("1.1.1.1, 2.2.2.2", "", Some("10.0.0.1"), "1.1.1.1 2.2.2.2 10.0.0.1"),
            ("1.1.1.1,x", "1.1.1.1", Some("1.1.1.1"), "1.1.1.1"),
            ("1.1.1.1", "3.3.3.3", Some("10.0.0.1"), "1.1.1.1 3.3.3.3 10.0.0.1"),
            ("", "fe80::1", None, "fe80::1"),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("x-forwarded-for", forwarded.parse().unwrap());
            headers.insert("x-real-ip", real.parse().unwrap());
            let peer = peer.map(|peer| peer.parse().unwrap());
            let found: Vec<String> = addresses(&headers, peer).iter().map(ToString::to_string).collect();
            assert_eq!(found.join(" "), expected, "{forwarded} {real}");
        }
    }
}
