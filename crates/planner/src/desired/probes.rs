//! What tells whether a machine is well.

use std::collections::BTreeMap;

use api::rke::v1::FreeMap;
use plan::document::{HttpGet, Probe};

use super::Context;
use super::config::{argument, texts};
use crate::version::Runtime;

pub(super) fn probes(context: &Context<'_>, config: &FreeMap) -> BTreeMap<String, Probe> {
    let (roles, runtime, host) = (context.roles, context.runtime(), context.loopback());
    let plain =
        |port: u16, path: &str| HttpGet { url: format!("http://{host}:{port}/{path}"), ..HttpGet::default() };
    let mut probes = BTreeMap::new();
    let mut add = |name: &str, http_get: HttpGet| probes.insert(name.to_owned(), probe(http_get));
    if roles.etcd && runtime == Runtime::Rke2 {
        add("etcd", plain(2381, "health"));
    }
    if roles.control_plane {
        let tls = format!("{}/server/tls", context.data_dir);
        add(
            "kube-apiserver",
            HttpGet {
                url: format!("https://{host}:6443/readyz"),
                ca_cert: format!("{tls}/server-ca.crt"),
                client_cert: format!("{tls}/client-kube-apiserver.crt"),
                client_key: format!("{tls}/client-kube-apiserver.key"),
                ..HttpGet::default()
            },
        );
        for (component, port) in [("kube-controller-manager", "10257"), ("kube-scheduler", "10259")] {
            add(component, secure(context, config, component, port));
        }
    }
    if !(runtime == Runtime::K3s && roles.is_only_etcd()) {
        add("kubelet", plain(10248, "healthz"));
    }
    if runtime == Runtime::Rke2
        && uses_calico(context)
        && !roles.is_only_etcd()
        && !context.machine.is_windows()
    {
        add("calico", plain(9099, "liveness"));
    }
    probes
}

fn probe(http_get: HttpGet) -> Probe {
    Probe {
        initial_delay_seconds: 1,
        timeout_seconds: 5,
        success_threshold: 1,
        failure_threshold: 5,
        http_get,
        ..Probe::default()
    }
}

/// A component that signs its own certificate: that one is trusted.
fn secure(context: &Context<'_>, config: &FreeMap, component: &str, port: &str) -> HttpGet {
    let of = |name: &str| argument(config, &format!("{component}-arg"), name);
    let directory =
        of("cert-dir").map_or_else(|| format!("{}/server/tls/{component}", context.data_dir), str::to_owned);
    let certificate =
        of("tls-cert-file").map_or_else(|| format!("{directory}/{component}.crt"), str::to_owned);
    let port = of("secure-port").unwrap_or(port);
    let url = format!("https://{}:{port}/healthz", context.loopback());
    HttpGet { url, ca_cert: certificate, ..HttpGet::default() }
}

/// By the arguments of this machine, selectors included, in both spellings: a word, or a list.
fn uses_calico(context: &Context<'_>) -> bool {
    let configuration = &context.cluster.spec.configuration;
    let mut cni = configuration.machine_global_config.get("cni");
    for entry in &configuration.machine_selector_config {
        if crate::selector::matches(entry.machine_label_selector.as_ref(), &context.machine.labels) {
            cni = entry.config.get("cni").or(cni);
        }
    }
    let mut words =
        texts(cni).flat_map(|text| text.split(',')).map(str::trim).filter(|word| !word.is_empty()).peekable();
    words.peek().is_none() || words.any(|word| word == "calico")
}
