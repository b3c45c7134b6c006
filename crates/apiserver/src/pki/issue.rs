//! Making keys and certificates.

use std::time::Duration;

use clock::Entropy;
use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData, SerialNumber,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use x509_parser::prelude::{ASN1Time, FromDer, X509Certificate};

use super::{Error, Keys, Pki};

const DAY: Duration = Duration::from_secs(24 * 3600);
const CA_LIFETIME: Duration = DAY.saturating_mul(3650);
const LIFETIME: Duration = DAY.saturating_mul(365);
/// The clocks of clients may be behind ours.
const BACKDATED: Duration = Duration::from_secs(3600);

/// A certificate with its private key.
#[derive(Debug)]
pub struct Issued {
    /// The certificate.
    pub certificate: CertificateDer<'static>,
    /// In PEM format.
    pub certificate_pem: String,
    /// Its key.
    pub key: PrivateKeyDer<'static>,
    /// In PEM format.
    pub key_pem: String,
    /// When it should be replaced: there is a third of its time left then.
    pub renew_at: Timestamp,
}

pub(super) fn new_key() -> Result<String, Error> {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(Error::Make)?;
    Ok(key.serialize_pem())
}

/// The certificate of a new authority.
pub(super) fn authority(key: &str, now: Timestamp, entropy: &mut dyn Entropy) -> Result<String, Error> {
    let key = KeyPair::from_pem(key).map_err(Error::CaKey)?;
    let mut params = params("herdsman-ca", None, CA_LIFETIME, now, entropy);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages =
        vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    Ok(params.self_signed(&key).map_err(Error::Make)?.pem())
}

/// Reads an authority, and makes sure that it is one.
pub(super) fn open_authority(
    keys: &Keys,
    now: Timestamp,
) -> Result<(CertificateDer<'static>, Issuer<'static, KeyPair>), Error> {
    let damaged = |why: &dyn std::fmt::Display| Error::CaCertificate(why.to_string());
    let key = KeyPair::from_pem(&keys.ca_key).map_err(Error::CaKey)?;
    let certificate =
        CertificateDer::from_pem_slice(keys.ca_certificate.as_bytes()).map_err(|error| damaged(&error))?;
    let (_, parsed) = X509Certificate::from_der(&certificate).map_err(|error| damaged(&error))?;
    if parsed.public_key().raw != key.subject_public_key_info() {
        return Err(Error::Mismatch);
    }
    if !parsed.is_ca() {
        return Err(damaged(&"it is not an authority's"));
    }
    let time = |time: ASN1Time| Timestamp::from_second(time.timestamp()).unwrap_or(Timestamp::MAX);
    let (from, until) = (time(parsed.validity().not_before), time(parsed.validity().not_after));
    if now < from || now > until {
        return Err(Error::OutOfTime { from, until, now });
    }
    let issuer = Issuer::from_ca_cert_der(&certificate, key).map_err(|error| damaged(&error))?;
    Ok((certificate.clone(), issuer))
}

impl Pki {
    /// A certificate for a server of these names and addresses.
    pub(super) fn issue_server(&self, names: &[String]) -> Result<Issued, Error> {
        let common_name = names.first().map_or("kubernetes", String::as_str);
        let mut params = self.params(common_name, None);
        params.subject_alt_names =
            CertificateParams::new(names.to_vec()).map_err(Error::Make)?.subject_alt_names;
        self.issue(params, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// A certificate for a user who is in one group.
    ///
    /// # Errors
    /// If none can be made.
    pub fn issue_client(&self, user: &str, group: &str) -> Result<Issued, Error> {
        self.issue(self.params(user, Some(group)), ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn params(&self, common_name: &str, organization: Option<&str>) -> CertificateParams {
        let now = self.clock.now();
        self.with_entropy(|entropy| params(common_name, organization, LIFETIME, now, entropy))
    }

    fn issue(&self, mut params: CertificateParams, usage: ExtendedKeyUsagePurpose) -> Result<Issued, Error> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(Error::Make)?;
        let certificate = params.signed_by(&key, &self.authority).map_err(Error::Make)?;
        Ok(Issued {
            certificate_pem: certificate.pem(),
            certificate: certificate.into(),
            key: PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
            key_pem: key.serialize_pem(),
            renew_at: self.clock.now() + LIFETIME / 3 * 2,
        })
    }
}

fn params(
    common_name: &str,
    organization: Option<&str>,
    lifetime: Duration,
    now: Timestamp,
    entropy: &mut dyn Entropy,
) -> CertificateParams {
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, common_name);
    if let Some(organization) = organization {
        subject.push(DnType::OrganizationName, organization);
    }
    let mut serial = [0; 16];
    entropy.fill(&mut serial);
    // A serial number is positive, and the first byte says so.
    serial[0] = serial[0] & 0x3f | 0x40;
    // The library that reads certificates makes the times for the one that issues them.
    let date = |at: Timestamp| {
        let read = ASN1Time::from_timestamp(at.as_second());
        read.map_or_else(|_| rcgen::date_time_ymd(9999, 12, 31), |time| time.to_datetime())
    };
    let mut params = CertificateParams::default();
    params.distinguished_name = subject;
    params.serial_number = Some(SerialNumber::from(serial.to_vec()));
    params.not_before = date(now - BACKDATED);
    params.not_after = date(now + lifetime);
    params
}
