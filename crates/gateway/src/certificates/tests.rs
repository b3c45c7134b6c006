use std::time::Duration;

use clock::{ManualClock, SeededEntropy};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::pki_types::ServerName;

use super::*;

const DAY: Duration = Duration::from_secs(86_400);

fn start() -> Arc<ManualClock> {
    Arc::new(ManualClock::at("2026-01-01T00:00:00Z".parse().unwrap()))
}

fn chain(certificates: &Certificates) -> Vec<CertificateDer<'static>> {
    certificates.0.shown.load().key.cert.clone()
}

/// Whether somebody who trusts `roots` takes the server for `name`.
fn trusts(roots: &str, certificates: &Certificates, name: &str) -> Result<(), rustls::Error> {
    let mut store = RootCertStore::empty();
    for root in read(roots).unwrap() {
        store.add(root).unwrap();
    }
    let provider = certificates.0.provider.clone();
    let verifier = WebPkiServerVerifier::builder_with_provider(store.into(), provider).build().unwrap();
    let shown = chain(certificates);
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let now = Time(certificates.0.clock.clone()).current_time().unwrap();
    verifier.verify_server_cert(&shown[0], &shown[1..], &name, &[], now).map(drop)
}

fn issued_by_new(clock: &Arc<ManualClock>) -> (Authorities, Certificates) {
    let mut entropy = SeededEntropy::new(1);
    let authorities = Authorities::only(Authority::new(clock.now(), &mut entropy).unwrap());
    let names = vec!["herd.example.com".to_owned(), "10.0.0.7".to_owned()];
    let shown = Certificates::issued(authorities.clone(), names, clock.clone(), Box::new(entropy)).unwrap();
    (authorities, shown)
}

#[test]
fn what_our_authority_issues_is_trusted_for_its_names() {
    let clock = start();
    let (authorities, shown) = issued_by_new(&clock);
    assert_eq!(shown.trusted(), authorities.trusted());
    trusts(&shown.trusted(), &shown, "herd.example.com").unwrap();
    trusts(&shown.trusted(), &shown, "10.0.0.7").unwrap();
    assert!(trusts(&shown.trusted(), &shown, "other.example.com").is_err());
    let other = Authority::new(clock.now(), &mut SeededEntropy::new(9)).unwrap();
    assert!(trusts(&other.certificate, &shown, "herd.example.com").is_err());
}

#[test]
fn a_certificate_is_renewed_in_time() {
    let clock = start();
    let (_, shown) = issued_by_new(&clock);
    let first = chain(&shown);
    clock.advance(DAY * 200);
    shown.renew().unwrap();
    assert_eq!(chain(&shown), first, "not yet");
    clock.advance(DAY * 60);
    shown.renew().unwrap();
    assert_ne!(chain(&shown), first);
    trusts(&shown.trusted(), &shown, "herd.example.com").unwrap();
}

#[test]
fn nodes_follow_when_authorities_change() {
    let clock = start();
    let (first, shown) = issued_by_new(&clock);
    let mut entropy = SeededEntropy::new(2);
    clock.advance(DAY * 3000);
    let second = first.succeeded(clock.now(), &mut entropy).unwrap();
    let names = vec!["herd.example.com".to_owned()];
    shown.replace_issued(second.clone(), names.clone()).unwrap();
    // A node that registered before, one that does now, one that knows the new one alone.
    for roots in [first.trusted(), second.trusted(), second.alone().trusted()] {
        trusts(&roots, &shown, "herd.example.com").unwrap();
    }
    let third = second.succeeded(clock.now(), &mut entropy).unwrap();
    shown.replace_issued(third.clone(), names.clone()).unwrap();
    for roots in [first.trusted(), second.trusted(), third.alone().trusted()] {
        trusts(&roots, &shown, "herd.example.com").unwrap();
    }
    // Ten years after it was made the first one is over, and what it vouches for.
    clock.advance(DAY * 660);
    shown.renew().unwrap();
    assert!(trusts(&first.trusted(), &shown, "herd.example.com").is_err());
    trusts(&second.trusted(), &shown, "herd.example.com").unwrap();
    shown.replace_issued(third.alone(), names).unwrap();
    assert!(trusts(&second.alone().trusted(), &shown, "herd.example.com").is_err());
    trusts(&third.trusted(), &shown, "herd.example.com").unwrap();
    assert!(third.ends_at().unwrap() > clock.now());
}

#[test]
fn somebodys_own_certificate_is_shown_and_replaced() {
    let clock = start();
    let (authorities, _) = issued_by_new(&clock);
    let mut entropy = SeededEntropy::new(3);
    let mut make = || {
        let (chain, key, _) =
            authorities.issue(&["own.example.com".to_owned()], clock.now(), &mut entropy).unwrap();
        let pem = |label: &str, der: &[u8]| {
            use base64::Engine as _;
            let text = base64::engine::general_purpose::STANDARD.encode(der);
            format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")
        };
        (pem("CERTIFICATE", &chain[0]), pem("PRIVATE KEY", key.secret_der()))
    };
    let (certificate, key) = make();
    let shown = Certificates::own(&certificate, &key, &authorities.trusted(), clock.clone()).unwrap();
    trusts(&shown.trusted(), &shown, "own.example.com").unwrap();
    let first = chain(&shown);
    let (other_certificate, other_key) = make();
    // A key of another certificate: nothing changes.
    assert!(matches!(shown.replace_own(&other_certificate, &key, ""), Err(Error::Mismatch(_))));
    assert_eq!(chain(&shown), first);
    shown.replace_own(&other_certificate, &other_key, "").unwrap();
    assert_ne!(chain(&shown), first);
    assert_eq!(shown.trusted(), "", "everybody trusts it anyway");
    for (certificate, key, ca) in
        [("", key.as_str(), ""), (&certificate, "", ""), (&certificate, &key, "nonsense")]
    {
        assert!(shown.replace_own(certificate, key, ca).is_err());
    }
}
