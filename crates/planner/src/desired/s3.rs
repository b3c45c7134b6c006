//! The bucket for snapshots: arguments of etcd nodes, and the certificate of the service.

use api::catalogue::secrets::keys;
use api::names;
use api::rke::v1::FreeMap;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use plan::document::File;

use super::{Context, Error, file};

/// What the bucket comes to; nothing where there is none.
#[derive(Default)]
pub(super) struct S3 {
    pub(super) arguments: FreeMap,
    pub(super) files: Vec<File>,
}

pub(super) fn s3(context: &Context<'_>) -> Result<S3, Error> {
    let etcd = context.cluster.spec.configuration.etcd.as_ref().filter(|_| context.roles.etcd);
    let Some(s3) = etcd.and_then(|etcd| etcd.s3.as_ref()) else { return Ok(S3::default()) };
    let enabled = [&s3.bucket, &s3.endpoint, &s3.folder, &s3.cloud_credential_name, &s3.region];
    if enabled.iter().all(|text| text.is_empty()) {
        return Ok(S3::default());
    }
    let credential = credential(context, &s3.cloud_credential_name)?;
    let of = |key: &str| credential.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone());
    let or = |own: &str, key: &str| match own {
        "" => of(key).unwrap_or_default(),
        own => own.to_owned(),
    };
    let mut arguments = FreeMap::new();
    let mut set = |key: &str, value: String| {
        if !value.is_empty() {
            arguments.insert(format!("etcd-s3{key}"), value.into());
        }
    };
    set("-bucket", or(&s3.bucket, keys::S3_DEFAULT_BUCKET));
    set("-access-key", of(keys::S3_ACCESS_KEY).unwrap_or_default());
    set("-secret-key", of(keys::S3_SECRET_KEY).unwrap_or_default());
    set("-region", or(&s3.region, keys::S3_DEFAULT_REGION));
    set("-folder", or(&s3.folder, keys::S3_DEFAULT_FOLDER));
    set("-endpoint", or(&s3.endpoint, keys::S3_DEFAULT_ENDPOINT));
    let (ca, files) = certificate(context, &or(&s3.endpoint_ca, keys::S3_DEFAULT_ENDPOINT_CA));
    set("-endpoint-ca", ca);
    let skip = s3.skip_ssl_verify || of(keys::S3_DEFAULT_SKIP_SSL_VERIFY).is_some_and(|text| text == "true");
    if skip {
        arguments.insert("etcd-s3-skip-ssl-verify".into(), true.into());
    }
    if s3.retention > 0 {
        arguments.insert("etcd-s3-retention".into(), s3.retention.into());
    }
    arguments.insert("etcd-s3".into(), true.into());
    Ok(S3 { arguments, files })
}

/// Keys may bear the name of a form before the last dash.
fn credential(context: &Context<'_>, name: &str) -> Result<Vec<(String, String)>, Error> {
    if name.is_empty() {
        return Ok(Vec::new());
    }
    let missing =
        || Error::reference("spec.etcd.s3.cloudCredentialName", format!("Secret {name:?} does not exist"));
    let secret = context.cluster.secrets.get(name).ok_or_else(missing)?;
    let pair = |(key, value): (&String, &Vec<u8>)| {
        let key = key.rsplit('-').next().unwrap_or(key);
        (key.to_owned(), String::from_utf8_lossy(value).into_owned())
    };
    Ok(secret.data.iter().map(pair).collect())
}

/// The path of a certificate: an existing file, or one that the plan writes.
fn certificate(context: &Context<'_>, ca: &str) -> (String, Vec<File>) {
    if ca.is_empty() || ca.ends_with(".crt") {
        return (ca.to_owned(), Vec::new());
    }
    let content = BASE64_STANDARD.decode(ca.trim()).unwrap_or_else(|_| ca.as_bytes().to_vec());
    let digits = names::md5_hex(&String::from_utf8_lossy(&content), 5);
    let path = format!("{}/etc/config-files/s3-endpoint-ca-{digits}.crt", context.data_dir);
    (path.clone(), vec![file(path, content)])
}
