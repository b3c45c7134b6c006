//! The kubeconfig of a cluster whose control plane nobody provides.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::capi::v1beta2::APIEndpoint;
use api::catalogue::labels;
use jiff::{Timestamp, ToSpan as _};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kit::{Object, Turn};
use kube::Api;
use kube::api::{ObjectMeta, PostParams};
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair, KeyUsagePurpose};
use serde_json::json;

use crate::context::{Context, Error, cluster_owner};

/// How long a cluster waits whose authority is not there yet.
const AUTHORITY_LOOK: Duration = Duration::from_secs(30);

/// The type of Secrets that Cluster API writes.
const SECRET_TYPE: &str = "cluster.x-k8s.io/secret";

/// Makes `<cluster>-kubeconfig` from `<cluster>-ca` if it is not there. Gives when to look again.
pub(crate) async fn ensure(
    context: &Arc<Context>,
    _: &Turn,
    cluster: &Object,
    endpoint: &APIEndpoint,
) -> Result<Option<Duration>, Error> {
    let name = api::names::kubeconfig_secret(cluster.name());
    let secrets: Api<Secret> = Api::namespaced(context.caches.client().clone(), cluster.namespace());
    let failed = |what: &'static str| move |answer| Error::Remote { what, answer: Box::new(answer) };
    if context.access.connection(&cluster.key()).is_ok()
        || secrets.get_metadata_opt(&name).await.map_err(failed("look for the kubeconfig"))?.is_some()
    {
        return Ok(None);
    }
    let authority = secrets
        .get_opt(&format!("{}-ca", cluster.name()))
        .await
        .map_err(failed("read the cluster's authority"))?;
    let Some(authority) = authority else { return Ok(Some(AUTHORITY_LOOK)) };
    let part = |key: &str| {
        let bytes = authority.data.as_ref().and_then(|data| data.get(key)).map(|bytes| bytes.0.clone());
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        text.ok_or_else(|| Error::Impossible(format!("Secret {}-ca has no {key}", cluster.name())))
    };
    let made = kubeconfig(cluster.name(), endpoint, &part("tls.crt")?, &part("tls.key")?, context.now());
    let made = made.map_err(|why| Error::Impossible(format!("Secret {}-ca: {why}", cluster.name())))?;
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(name),
            labels: Some(BTreeMap::from([(labels::CAPI_CLUSTER_NAME.into(), cluster.name().into())])),
            owner_references: Some(vec![cluster_owner(cluster, false)]),
            ..ObjectMeta::default()
        },
        type_: Some(SECRET_TYPE.into()),
        data: Some(BTreeMap::from([("value".into(), ByteString(made.into_bytes()))])),
        ..Secret::default()
    };
    match secrets.create(&PostParams::default(), &secret).await {
        Ok(_) => Ok(None),
        Err(answer) if kit::write::code(&answer) == Some(409) => Ok(None),
        Err(answer) => Err(failed("write the kubeconfig")(answer)),
    }
}

/// An administrator's kubeconfig, good for a year, signed by the authority.
fn kubeconfig(
    cluster: &str,
    endpoint: &APIEndpoint,
    certificate: &str,
    key: &str,
    now: Timestamp,
) -> Result<String, String> {
    let text = |error: rcgen::Error| error.to_string();
    let issuer =
        Issuer::from_ca_cert_pem(certificate, KeyPair::from_pem(key).map_err(text)?).map_err(text)?;
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "kubernetes-admin");
    params.distinguished_name.push(DnType::OrganizationName, "system:masters");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    let day = |time: Timestamp| {
        let date = time.to_zoned(jiff::tz::TimeZone::UTC).date();
        let (month, day) = (date.month().unsigned_abs(), date.day().unsigned_abs());
        rcgen::date_time_ymd(date.year().into(), month, day)
    };
    // A day back: clocks differ.
    params.not_before = day(now.saturating_sub(24.hours()).unwrap_or(now));
    params.not_after = day(now.saturating_add((365 * 24).hours()).unwrap_or(now));
    let own = KeyPair::generate().map_err(text)?;
    let signed = params.signed_by(&own, &issuer).map_err(text)?;
    let encode = |text: &str| ByteString(text.as_bytes().to_vec());
    let user = format!("{cluster}-admin");
    let context = format!("{user}@{cluster}");
    let document = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": context,
        "clusters": [{"name": cluster, "cluster": {
            "server": format!("https://{endpoint}"), "certificate-authority-data": encode(certificate)
        }}],
        "users": [{"name": user, "user": {
            "client-certificate-data": encode(&signed.pem()), "client-key-data": encode(&own.serialize_pem())
        }}],
        "contexts": [{"name": context, "context": {"cluster": cluster, "user": user}}]
    });
    // JSON is YAML.
    serde_json::to_string(&document).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertifiedIssuer, IsCa};

    use super::*;

    #[test]
    fn a_kubeconfig_is_signed_by_the_clusters_authority() {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let endpoint = APIEndpoint { host: "10.0.0.1".into(), port: 6443 };
        let now = "2026-02-28T12:00:00Z".parse().unwrap();
        let text =
            kubeconfig("c", &endpoint, &authority.pem(), &authority.key().serialize_pem(), now).unwrap();
        let read = kube::config::Kubeconfig::from_yaml(&text).unwrap();
        assert_eq!(read.current_context.as_deref(), Some("c-admin@c"));
        assert_eq!(
            read.clusters[0].cluster.as_ref().unwrap().server.as_deref(),
            Some("https://10.0.0.1:6443")
        );
        assert!(kubeconfig("c", &endpoint, "nonsense", "nonsense", now).is_err());
    }
}
