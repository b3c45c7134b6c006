//! Which proxy leads to a server, by the rules of Go's `httpproxy`: `HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY` and their
//! lower-case names.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Uri;

/// An HTTP proxy.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    /// Its host.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// It is spoken to through TLS.
    pub tls: bool,
    /// `Proxy-Authorization`.
    pub authorization: Option<String>,
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// A proxy that cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not an address.
    #[error("the proxy's address is not a URL")]
    Url,
    /// Neither http nor https.
    #[error("proxies of kind {0:?} are not supported")]
    Scheme(String),
}

/// What the environment says about proxies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxies {
    http: Option<String>,
    https: Option<String>,
    none: String,
}

impl Proxies {
    /// Reads variables by name; an empty one is none.
    pub fn from_variables(get: impl Fn(&str) -> Option<String>) -> Self {
        let some = |name: &str| get(name).filter(|value| !value.is_empty());
        let either = |upper: &str| some(upper).or_else(|| some(&upper.to_lowercase()));
        let none = either("NO_PROXY").unwrap_or_default();
        Proxies { http: either("HTTP_PROXY"), https: either("HTTPS_PROXY"), none }
    }

    /// The proxy for a server; none: straight. An address of IPv6 may have its brackets.
    ///
    /// # Errors
    /// If the one that is named cannot be used.
    pub fn choose(&self, secure: bool, host: &str, port: u16) -> Result<Option<Proxy>, Error> {
        let proxy = if secure { &self.https } else { &self.http };
        let Some(proxy) = proxy else { return Ok(None) };
        match bypasses(&self.none, bare(host), port) {
            true => Ok(None),
            false => Proxy::parse(proxy).map(Some),
        }
    }

    /// The same for a URL.
    ///
    /// # Errors
    /// As [`Proxies::choose`].
    pub fn for_server(&self, server: &Uri) -> Result<Option<Proxy>, Error> {
        let secure = server.scheme_str() == Some("https");
        let port = server.port_u16().unwrap_or(if secure { 443 } else { 80 });
        self.choose(secure, server.host().unwrap_or_default(), port)
    }
}

impl Proxy {
    /// Reads a proxy's address; `http` unless it says otherwise.
    ///
    /// # Errors
    /// If it is none, or of a kind that is not supported.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let full = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let uri: Uri = full.parse().map_err(|_| Error::Url)?;
        let tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            other => return Err(Error::Scheme(other.unwrap_or_default().to_owned())),
        };
        let authority = uri.authority().ok_or(Error::Url)?;
        let user = authority.as_str().rsplit_once('@').map(|(user, _)| user);
        Ok(Proxy {
            host: bare(authority.host()).to_owned(),
            port: authority.port_u16().unwrap_or(if tls { 443 } else { 80 }),
            tls,
            authorization: user.map(|user| format!("Basic {}", STANDARD.encode(unescape(user)))),
        })
    }
}

/// Without the brackets of an IPv6 address.
pub fn bare(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

/// `%40` and the like.
fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let escaped = (first == b'%').then(|| after.get(..2)).flatten();
        let byte = escaped.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        bytes.push(byte.unwrap_or(first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    bytes
}

/// Whether `NO_PROXY` names a host. What is on this very machine needs no proxy.
fn bypasses(list: &str, host: &str, port: u16) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let address: Option<IpAddr> = host.parse().ok();
    if host == "localhost" || address.is_some_and(|address| address.is_loopback()) {
        return true;
    }
    list.split(',').map(|entry| entry.trim().to_ascii_lowercase()).filter(|entry| !entry.is_empty()).any(
        |entry| {
            if entry == "*" {
                return true;
            }
            if let Some((network, bits)) = entry.split_once('/') {
                return address.is_some_and(|address| within(address, network, bits));
            }
            let (name, said_port) = split_port(&entry);
            if said_port.is_some_and(|said| said != port) {
                return false;
            }
            match (address, bare(name).parse::<IpAddr>()) {
                (Some(address), Ok(named)) => address == named,
                (None, Err(_)) => names(name, &host),
                _ => false,
            }
        },
    )
}

fn split_port(entry: &str) -> (&str, Option<u16>) {
    // An IPv6 address without brackets has colons, but no port.
    if entry.parse::<IpAddr>().is_ok() {
        return (entry, None);
    }
    match entry.rsplit_once(':').map(|(name, port)| (name, port.parse())) {
        Some((name, Ok(port))) => (name, Some(port)),
        _ => (entry, None),
    }
}

/// `a.b` is itself and all below it; `.a.b` and `*.a.b` are only what is below.
fn names(entry: &str, host: &str) -> bool {
    let entry = entry.strip_prefix('*').filter(|rest| rest.starts_with('.')).unwrap_or(entry);
    match entry.strip_prefix('.') {
        Some(domain) => host.strip_suffix(domain).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
        None => host.strip_suffix(entry).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')),
    }
}

fn within(address: IpAddr, network: &str, bits: &str) -> bool {
    let (Ok(network), Ok(bits)) = (network.parse::<IpAddr>(), bits.parse::<u32>()) else { return false };
    let (address, network, width) = match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) => {
            (u128::from(address.to_bits()), u128::from(network.to_bits()), 32)
        }
        (IpAddr::V6(address), IpAddr::V6(network)) => (address.to_bits(), network.to_bits(), 128),
        _ => return false,
    };
    bits <= width && (address ^ network).checked_shr(width - bits).unwrap_or(0) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceptions() {
        let table = [
            ("", "a.example", 443, false),
            ("*", "a.example", 443, true),
            ("a.example", "a.example", 443, true),
            ("A.Example", "x.a.example", 443, true),
            ("a.example", "xa.example", 443, false),
            (".a.example", "a.example", 443, false),
            (".a.example", "x.a.example", 443, true),
            ("*.a.example", "x.a.example", 443, true),
            ("a.example:8443", "a.example", 443, false),
            ("a.example:8443", "a.example", 8443, true),
            ("b, a.example ,c", "a.example", 443, true),
            ("10.0.0.0/8", "10.1.2.3", 443, true),
            ("10.0.0.0/8", "11.1.2.3", 443, false),
            ("0.0.0.0/0", "11.1.2.3", 443, true),
            ("10.1.2.3", "10.1.2.3", 443, true),
            ("10.1.2.3:80", "10.1.2.3", 443, false),
            ("fd00::/8", "fd12::1", 443, true),
            ("fd12::1", "fd12::1", 443, true),
            ("[fd12::1]:443", "fd12::1", 443, true),
            ("10.0.0.0/33", "10.0.0.0", 443, false),
            ("10.0.0.0/8", "ten.example", 443, false),
            ("", "localhost", 443, true),
            ("", "127.0.0.1", 443, true),
            ("", "::1", 443, true),
        ];
        for (list, host, port, straight) in table {
            assert_eq!(bypasses(list, host, port), straight, "{list:?} {host}:{port}");
        }
    }

    #[test]
    fn the_environment() {
        let settings = |pairs: &[(&str, &str)]| {
            let pairs: Vec<_> = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            let get = |name: &str| pairs.iter().find(|(k, _)| k == name).map(|(_, v)| v.clone());
            Proxies::from_variables(get)
        };
        let proxy = |settings: &Proxies, server: &str| {
            settings.for_server(&server.parse().unwrap()).unwrap().map(|proxy| format!("{proxy:?}"))
        };
        let both =
            settings(&[("HTTPS_PROXY", "http://p:3128"), ("http_proxy", "q"), ("NO_PROXY", "n.example")]);
        assert_eq!(proxy(&both, "https://a.example").as_deref(), Some("p:3128"));
        assert_eq!(proxy(&both, "http://a.example").as_deref(), Some("q:80"));
        assert_eq!(proxy(&both, "https://n.example"), None);
        assert_eq!(proxy(&settings(&[("HTTPS_PROXY", "")]), "https://a.example"), None);
        let lower = settings(&[("HTTPS_PROXY", ""), ("https_proxy", "r:1")]);
        assert_eq!(proxy(&lower, "https://a.example").as_deref(), Some("r:1"));
    }

    #[test]
    fn addresses() {
        let proxy = Proxy::parse("https://us%40er:pa%3Ass@p.example").unwrap();
        assert_eq!((proxy.port, proxy.tls), (443, true));
        assert_eq!(proxy.authorization.unwrap(), format!("Basic {}", STANDARD.encode("us@er:pa:ss")));
        assert_eq!(Proxy::parse("socks5://p"), Err(Error::Scheme("socks5".into())));
        assert_eq!(Proxy::parse("[fd00::1]:8080").unwrap().host, "fd00::1");
    }
}
