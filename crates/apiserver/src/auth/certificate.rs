//! Users by client certificate. That an authority of ours has issued it was checked when the connection was made.

use jiff::Timestamp;
use kubeapi::authn::User;
use rustls::pki_types::CertificateDer;
use sha2::{Digest, Sha256};
use x509_parser::der_parser::asn1_rs::{Oid, oid};
use x509_parser::prelude::{FromDer, X509Certificate};

/// The attribute of a subject that upstream takes for the UID.
const UID: Oid<'static> = oid!(1.3.6.1.4.1.57683.2);

/// Why a certificate says nothing about a user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum CertificateError {
    #[error("x509: malformed certificate")]
    Malformed,
    #[error("x509: certificate has expired or is not yet valid")]
    OutOfTime,
    #[error("expected 1 UID, but found multiple: {0:?}")]
    SeveralUids(Vec<String>),
    #[error("UID cannot be an empty string")]
    EmptyUid,
}

/// Who a certificate is of: the common name, with the organisations as groups. `None` if it has no common name.
pub(super) fn user(
    certificate: &CertificateDer<'_>,
    now: Timestamp,
) -> Result<Option<User>, CertificateError> {
    let (_, parsed) = X509Certificate::from_der(certificate).map_err(|_| CertificateError::Malformed)?;
    let validity = parsed.validity();
    let now = now.as_second();
    if now < validity.not_before.timestamp() || now > validity.not_after.timestamp() {
        return Err(CertificateError::OutOfTime);
    }
    let subject = parsed.subject();
    let text = |one: &x509_parser::x509::AttributeTypeAndValue<'_>| one.as_str().map(str::to_owned).ok();
    // Of several common names the last counts, as in Go.
    let name = subject.iter_common_name().filter_map(text).last().unwrap_or_default();
    if name.is_empty() {
        return Ok(None);
    }
    let uids: Vec<String> = subject.iter_by_oid(&UID).filter_map(text).collect();
    let uid = match uids.as_slice() {
        [] => String::new(),
        [one] if one.is_empty() => return Err(CertificateError::EmptyUid),
        [one] => one.clone(),
        _ => return Err(CertificateError::SeveralUids(uids)),
    };
    let print: String = Sha256::digest(certificate).iter().map(|byte| format!("{byte:02x}")).collect();
    let credential =
        ("authentication.kubernetes.io/credential-id".to_owned(), vec![format!("X509SHA256={print}")]);
    let groups = subject.iter_organization().filter_map(text).collect();
    Ok(Some(User { name, uid, groups, extra: [credential].into() }))
}
