//! As much of a URL as a registry's client needs.

use std::fmt;

use crate::reference::is_authority;
use crate::registries::has_port;

/// An absolute HTTP or HTTPS URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    pub(crate) secure: bool,
    /// Host and perhaps port.
    pub(crate) authority: String,
    /// Path and query, beginning with a slash.
    pub(crate) target: String,
}

impl Url {
    /// Reads one. User names, fragments and what could be mistaken for another header are refused.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (secure, rest) = match text.split_once("://")? {
            ("https", rest) => (true, rest),
            ("http", rest) => (false, rest),
            _ => return None,
        };
        let split = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(split);
        let target = target.split('#').next().unwrap_or_default();
        let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
        let is_clean = target.bytes().all(|byte| byte.is_ascii_graphic());
        (is_authority(authority) && is_clean).then(|| Url { secure, authority: authority.into(), target })
    }

    /// Where a `Location` leads from here.
    pub(crate) fn join(&self, location: &str) -> Option<Self> {
        let scheme = if self.secure { "https" } else { "http" };
        if location.starts_with("//") {
            return Url::parse(&format!("{scheme}:{location}"));
        }
        if location.starts_with('/') {
            return Url::parse(&format!("{scheme}://{}{location}", self.authority));
        }
        Url::parse(location)
    }

    /// With one more parameter, its value encoded already.
    pub(crate) fn with_query(mut self, name: &str, value: &str) -> Self {
        let separator = if self.target.contains('?') { '&' } else { '?' };
        self.target.push_str(&format!("{separator}{name}={value}"));
        self
    }

    pub(crate) fn host(&self) -> &str {
        if !has_port(&self.authority) {
            return &self.authority;
        }
        self.authority.rsplit_once(':').map_or(&self.authority, |(host, _)| host)
    }

    pub(crate) fn port(&self) -> u16 {
        let port = has_port(&self.authority).then(|| self.authority.rsplit_once(':')).flatten();
        let port = port.and_then(|(_, port)| port.parse().ok());
        port.unwrap_or(if self.secure { 443 } else { 80 })
    }

    /// Whether what is secret for one may be sent to the other.
    pub(crate) fn same_origin(&self, other: &Url) -> bool {
        self.secure == other.secure && self.host() == other.host() && self.port() == other.port()
    }
}

/// Without the query: signed URLs carry their secrets there.
impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.secure { "https" } else { "http" };
        let path = self.target.split('?').next().unwrap_or_default();
        write!(f, "{scheme}://{}{path}", self.authority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_parts() {
        for (text, host, port, target) in [
            ("https://r.io/v2/", "r.io", 443, "/v2/"),
            ("http://r.io:5000?x=1#y", "r.io", 5000, "/?x=1"),
            ("http://[::1]/a", "[::1]", 80, "/a"),
            ("https://[::1]:8443", "[::1]", 8443, "/"),
        ] {
            let url = Url::parse(text).unwrap();
            assert_eq!((url.host(), url.port(), url.target.as_str()), (host, port, target), "{text}");
        }
        for wrong in
            ["r.io", "ftp://r.io", "https://", "https://u:p@r.io/", "https://r.io/a b", "https://r.io/\r\nx"]
        {
            assert_eq!(Url::parse(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn locations_are_joined() {
        let base = Url::parse("https://r.io/v2/x").unwrap();
        for (location, joined) in [
            ("/y?z", Some("https://r.io/y?z")),
            ("//cdn.io/y", Some("https://cdn.io/y")),
            ("http://cdn.io/y", Some("http://cdn.io/y")),
            ("y", None),
        ] {
            assert_eq!(base.join(location), joined.and_then(Url::parse), "{location}");
        }
        assert!(base.same_origin(&Url::parse("https://r.io:443/").unwrap()));
        assert!(!base.same_origin(&Url::parse("http://r.io:443/").unwrap()));
    }
}
