//! Why a webhook's certificate is not trusted, in the words of Go.

use std::io;

use jiff::Timestamp;
use rustls::CertificateError;
use rustls::pki_types::{ServerName, UnixTime};

/// What went wrong when TLS was to be spoken.
pub(super) fn explain(error: &io::Error) -> String {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidCertificate(why)) => {
            format!("tls: failed to verify certificate: x509: {}", distrust(why))
        }
        _ => error.to_string(),
    }
}

fn distrust(why: &CertificateError) -> String {
    let outside = "certificate has expired or is not yet valid";
    match why {
        // A bad signature is that of another authority of the same name.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "certificate signed by unknown authority".to_owned()
        }
        CertificateError::Expired | CertificateError::NotValidYet => outside.to_owned(),
        CertificateError::ExpiredContext { time, not_after } => {
            format!("{outside}: current time {} is after {}", shown(*time), shown(*not_after))
        }
        CertificateError::NotValidYetContext { time, not_before } => {
            format!("{outside}: current time {} is before {}", shown(*time), shown(*not_before))
        }
        CertificateError::NotValidForNameContext { expected, presented } => other_names(expected, presented),
        other => format!("{other:?}"),
    }
}

fn shown(time: UnixTime) -> String {
    let time = i64::try_from(time.as_secs()).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    time.map(|time| time.to_string()).unwrap_or_default()
}

/// The names that count are of the same sort as the one that is expected. Presented ones say of what sort they are:
/// `DnsName("a.b")`, `IpAddress(127.0.0.1)`.
fn other_names(expected: &ServerName<'_>, presented: &[String]) -> String {
    let is_address = matches!(expected, ServerName::IpAddress(_));
    let sort = if is_address { "IpAddress(" } else { "DnsName(" };
    let names = presented.iter().filter_map(|name| name.strip_prefix(sort));
    let names: Vec<&str> = names.map(|name| name.trim_end_matches(')').trim_matches('"')).collect();
    let expected = expected.to_str();
    match (names.is_empty(), is_address) {
        (true, true) => {
            format!("cannot validate certificate for {expected} because it doesn't contain any IP SANs")
        }
        (true, false) => {
            format!("certificate is not valid for any names, but wanted to match {expected}")
        }
        (false, _) => format!("certificate is valid for {}, not {expected}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn named(expected: &str, presented: &[&str]) -> CertificateError {
        CertificateError::NotValidForNameContext {
            expected: ServerName::try_from(expected.to_owned()).unwrap(),
            presented: presented.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    #[test]
    fn reasons_are_those_of_go() {
        let at = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let both = [r#"DnsName("a.b.svc")"#, "IpAddress(127.0.0.1)", r#"DnsName("*.c.svc")"#];
        for (why, wanted) in [
            (CertificateError::BadSignature, "certificate signed by unknown authority"),
            (named("x.y.svc", &both), "certificate is valid for a.b.svc, *.c.svc, not x.y.svc"),
            (named("10.0.0.1", &both), "certificate is valid for 127.0.0.1, not 10.0.0.1"),
            (
                named("x.y.svc", &both[1..2]),
                "certificate is not valid for any names, but wanted to match x.y.svc",
            ),
            (
                named("10.0.0.1", &both[..1]),
                "cannot validate certificate for 10.0.0.1 because it doesn't contain any IP SANs",
            ),
            (
                CertificateError::ExpiredContext { time: at(60), not_after: at(0) },
                "certificate has expired or is not yet valid: current time 1970-01-01T00:01:00Z is after 1970-01-01T00:00:00Z",
            ),
            (
                CertificateError::NotValidYetContext { time: at(0), not_before: at(60) },
                "certificate has expired or is not yet valid: current time 1970-01-01T00:00:00Z is before 1970-01-01T00:01:00Z",
            ),
        ] {
            assert_eq!(distrust(&why), wanted);
        }
    }
}
