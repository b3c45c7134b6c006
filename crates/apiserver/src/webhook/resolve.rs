//! From a Service to an address that can be called.

use serde_json::Value;

use crate::store::{Scope, View};

/// The address of a ready endpoint behind a Service's port; without endpoints the Service's own address.
///
/// # Errors
/// A sentence in upstream's words.
pub(super) fn resolve(view: &View, namespace: &str, name: &str, port: u16) -> Result<(String, u16), String> {
    let read = |value: &[u8]| serde_json::from_slice::<Value>(value).ok();
    let key = format!("/registry/core/services/{namespace}/{name}");
    let service = view.get(&key).and_then(|stored| read(&stored.value()));
    let service = service.ok_or_else(|| format!("service {name:?} not found"))?;
    let of_service = |slice: &Value| slice["metadata"]["labels"]["kubernetes.io/service-name"] == name;
    let scope = Scope::prefix(format!("/registry/discovery.k8s.io/endpointslices/{namespace}/"));
    let slices = view.scan(&scope).filter_map(|stored| read(&stored.value())).filter(of_service);
    let key = format!("/registry/core/endpoints/{namespace}/{name}");
    let endpoints = view.get(&key).and_then(|stored| read(&stored.value())).unwrap_or_default();
    choose(&service, &slices.collect::<Vec<_>>(), &endpoints, port)
}

fn choose(service: &Value, slices: &[Value], endpoints: &Value, port: u16) -> Result<(String, u16), String> {
    let spec = &service["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = text(&spec["type"]);
    if kind == "ExternalName" {
        return Ok((text(&spec["externalName"]), port));
    }
    if !matches!(kind.as_str(), "" | "ClusterIP" | "NodePort" | "LoadBalancer") {
        return Err(format!("unsupported service type {kind:?}"));
    }
    let name = text(&service["metadata"]["name"]);
    let wanted = list(&spec["ports"]).iter().find(|one| one["port"] == port);
    let wanted =
        wanted.ok_or_else(|| format!("no service port {port} found for service {name:?}"))?["name"].clone();
    let ready = ready_in_slices(slices, &text(&wanted)).or_else(|| ready_endpoint(endpoints, &text(&wanted)));
    match (ready, text(&spec["clusterIP"]).as_str()) {
        (Some(address), _) => Ok(address),
        (None, "None" | "") => Err(format!("no endpoints available for service {name:?}")),
        (None, address) => Ok((address.to_owned(), port)),
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn is_port(port: &Value, name: &str) -> bool {
    port["name"].as_str().unwrap_or_default() == name
}

fn number(port: &Value) -> Option<u16> {
    port["port"].as_u64()?.try_into().ok()
}

fn ready_in_slices(slices: &[Value], port: &str) -> Option<(String, u16)> {
    slices.iter().find_map(|slice| {
        let port = list(&slice["ports"]).iter().find(|one| is_port(one, port)).and_then(number)?;
        let ready = list(&slice["endpoints"]).iter().find(|one| one["conditions"]["ready"] != false)?;
        Some((ready["addresses"][0].as_str()?.to_owned(), port))
    })
}

fn ready_endpoint(endpoints: &Value, port: &str) -> Option<(String, u16)> {
    list(&endpoints["subsets"]).iter().find_map(|subset| {
        let port = list(&subset["ports"]).iter().find(|one| is_port(one, port)).and_then(number)?;
        Some((subset["addresses"][0]["ip"].as_str()?.to_owned(), port))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn services_are_resolved() {
        let service = |spec: Value| json!({"metadata": {"name": "s"}, "spec": spec});
        let ports = json!([{"name": "hook", "port": 443, "targetPort": 9443}]);
        let plain = service(json!({"type": "ClusterIP", "clusterIP": "10.0.0.1", "ports": ports}));
        let headless = service(json!({"clusterIP": "None", "ports": ports}));
        let slice = |ready: bool| {
            json!({
                "ports": [{"name": "other", "port": 1}, {"name": "hook", "port": 9443}],
                "endpoints": [{"addresses": ["10.1.0.1"], "conditions": {"ready": false}},
                              {"addresses": ["10.1.0.2"], "conditions": {"ready": ready}}],
            })
        };
        let old =
            json!({"subsets": [{"addresses": [{"ip": "10.2.0.1"}], "ports": [{"name": "hook", "port": 9}]}]});
        let none = Value::Null;
        let at = |host: &str, port| Ok((host.to_owned(), port));
        let no = |why: &str| Err(why.to_owned());
        for (service, slices, endpoints, port, wanted) in [
            (&plain, vec![slice(true)], &none, 443, at("10.1.0.2", 9443)),
            (&plain, vec![slice(false)], &old, 443, at("10.2.0.1", 9)),
            (&plain, vec![slice(false)], &none, 443, at("10.0.0.1", 443)),
            (&plain, vec![], &none, 80, no("no service port 80 found for service \"s\"")),
            (&headless, vec![], &none, 443, no("no endpoints available for service \"s\"")),
            (
                &service(json!({"type": "ExternalName", "externalName": "a.b"})),
                vec![],
                &none,
                443,
                at("a.b", 443),
            ),
            (&service(json!({"type": "Odd"})), vec![], &none, 443, no("unsupported service type \"Odd\"")),
        ] {
            assert_eq!(choose(service, &slices, endpoints, port), wanted, "{service} {slices:?} {port}");
        }
    }
}
