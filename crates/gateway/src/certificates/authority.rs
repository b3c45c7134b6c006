//! Authorities of ours: what they issue, and how one gives way to the next.

use std::time::Duration;

use clock::Entropy;
use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, SerialNumber,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use serde::{Deserialize, Serialize};
use x509_parser::prelude::{ASN1Time, FromDer as _, X509Certificate};

use super::{Error, with_newline};

const DAY: Duration = Duration::from_secs(24 * 3600);
const AUTHORITY_LIFETIME: Duration = DAY.saturating_mul(3650);
const LIFETIME: Duration = DAY.saturating_mul(365);
/// The clocks of nodes may be behind ours.
const BACKDATED: Duration = Duration::from_secs(3600);

/// An authority: certificate and key, both PEM.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Authority {
    /// Its certificate.
    pub certificate: String,
    /// Its private key.
    pub key: String,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

/// The authority that issues, and those before it that nodes may still know. To be kept whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Authorities {
    /// The one that issues.
    pub current: Authority,
    /// Certificates of those before it, the last one first: PEM.
    pub before: Vec<String>,
    /// For each of those: the key of the one after it, signed by it. PEM.
    pub bridges: Vec<String>,
}

impl Authority {
    /// A new one.
    ///
    /// # Errors
    /// If no key can be made.
    pub fn new(now: Timestamp, entropy: &mut dyn Entropy) -> Result<Self, Error> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(Error::Issue)?;
        // Two authorities of one name are taken for one another: the month and a few letters tell them apart.
        let mut mark = [0; 3];
        entropy.fill(&mut mark);
        let mark: String = mark.iter().map(|byte| format!("{byte:02x}")).collect();
        let name = format!("herdsman-ca {} {mark}", now.strftime("%Y-%m"));
        let certificate = authority_params(&name, now, now + AUTHORITY_LIFETIME, entropy)
            .self_signed(&key)
            .map_err(Error::Issue)?;
        Ok(Authority { certificate: certificate.pem(), key: key.serialize_pem() })
    }

    fn issuer(&self) -> Result<Issuer<'static, KeyPair>, Error> {
        let unusable = |why: String| Error::Authority(why);
        let key = KeyPair::from_pem(&self.key).map_err(|error| unusable(error.to_string()))?;
        Issuer::from_ca_cert_pem(&self.certificate, key).map_err(|error| unusable(error.to_string()))
    }
}

fn authority_params(
    name: &str,
    now: Timestamp,
    until: Timestamp,
    entropy: &mut dyn Entropy,
) -> CertificateParams {
    let mut params = params(name, now, until, entropy);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages =
        vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    params
}

fn params(name: &str, now: Timestamp, until: Timestamp, entropy: &mut dyn Entropy) -> CertificateParams {
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, name);
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
    params.not_after = date(until);
    params
}

/// Until when a certificate in PEM format is good, and whose it is.
fn read(pem: &str) -> Result<(Timestamp, String), Error> {
    let unusable = |why: String| Error::Authority(why);
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|error| unusable(error.to_string()))?;
    let (_, parsed) = X509Certificate::from_der(&der).map_err(|error| unusable(error.to_string()))?;
    let until = Timestamp::from_second(parsed.validity().not_after.timestamp()).unwrap_or(Timestamp::MAX);
    let name = parsed.subject().iter_common_name().next().and_then(|name| name.as_str().ok());
    Ok((until, name.unwrap_or("herdsman-ca").to_owned()))
}

impl Authorities {
    /// One without predecessors.
    pub fn only(current: Authority) -> Self {
        Authorities { current, before: Vec::new(), bridges: Vec::new() }
    }

    /// The same after a new authority has taken over. Nodes that know only those before still trust what it issues, until those
    /// end.
    ///
    /// # Errors
    /// If the one that issues now cannot sign.
    pub fn succeeded(&self, now: Timestamp, entropy: &mut dyn Entropy) -> Result<Self, Error> {
        let next = Authority::new(now, entropy)?;
        let key = KeyPair::from_pem(&next.key).map_err(Error::Issue)?;
        let (_, name) = read(&next.certificate)?;
        // Not everybody looks at how long an authority itself is good: what it signed ends with it.
        let until = self.ends_at()?.min(now + AUTHORITY_LIFETIME);
        let mut params = authority_params(&name, now, until, entropy);
        params.use_authority_key_identifier_extension = true;
        let bridge = params.signed_by(&key, &self.current.issuer()?).map_err(Error::Issue)?;
        let mut before = vec![self.current.certificate.clone()];
        before.extend(self.before.iter().cloned());
        let mut bridges = vec![bridge.pem()];
        bridges.extend(self.bridges.iter().cloned());
        Ok(Authorities { current: next, before, bridges })
    }

    /// The same without those before: whoever knows only them is not at home here any more.
    #[must_use]
    pub fn alone(&self) -> Self {
        Authorities::only(self.current.clone())
    }

    /// All that are to be trusted, as PEM: the one that issues comes first.
    pub fn trusted(&self) -> String {
        let all = std::iter::once(&self.current.certificate).chain(&self.before);
        all.map(|pem| with_newline(pem)).collect()
    }

    /// A certificate for a server of these names, its chain, its key, and when to issue the next one: when a third of its time is left.
    pub(super) fn issue(
        &self,
        names: &[String],
        now: Timestamp,
        entropy: &mut dyn Entropy,
    ) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>, Timestamp), Error> {
        let common_name = names.first().map_or("herdsman", String::as_str);
        let mut params = params(common_name, now, now + LIFETIME, entropy);
        params.subject_alt_names =
            CertificateParams::new(names.to_vec()).map_err(Error::Issue)?.subject_alt_names;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(Error::Issue)?;
        let certificate = params.signed_by(&key, &self.current.issuer()?).map_err(Error::Issue)?;
        let mut chain = vec![certificate.der().clone()];
        for bridge in &self.bridges {
            let der = CertificateDer::from_pem_slice(bridge.as_bytes());
            chain.push(der.map_err(|error| Error::Authority(error.to_string()))?);
        }
        let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
        Ok((chain, key, now + LIFETIME / 3 * 2))
    }

    /// What the one that issues is called, and until when it is good; then those before it.
    ///
    /// # Errors
    /// If a certificate cannot be read.
    pub fn names(&self) -> Result<Vec<(String, Timestamp)>, Error> {
        let all = std::iter::once(&self.current.certificate).chain(&self.before);
        all.map(|pem| read(pem).map(|(until, name)| (name, until))).collect()
    }

    /// Until when the one that issues is good.
    ///
    /// # Errors
    /// If its certificate cannot be read.
    pub fn ends_at(&self) -> Result<Timestamp, Error> {
        read(&self.current.certificate).map(|(until, _)| until)
    }
}
