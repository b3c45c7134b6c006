//! What a request is about, by its path.

/// Where a request goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route<'a> {
    /// `/cacerts`: who vouches for the server.
    CaCerts,
    /// `/metrics`: ours, with those of the API behind.
    Metrics,
    /// `/readyz`: ours first, then the API's.
    Ready,
    /// `/v3/connect/agent`: a node introduces itself.
    RegisterNode,
    /// `/v3/connect/config-yaml`: a node's distribution config.
    ConfigYaml,
    /// `/v3/connect/cluster-info`: a field of the node's cluster.
    ClusterInfo,
    /// `/v3/connect`, `/v3/connect/register`: a tunnel.
    Tunnel,
    /// `/v3/import/<token>.yaml` or `/v3/import/<token>_<cluster>.yaml`: what makes a cluster dial back.
    Import {
        /// What opens the cluster's tunnel.
        token: &'a str,
        /// The cluster, where the URL names one.
        cluster: Option<&'a str>,
    },
    /// `/system-agent-install.sh`.
    InstallScript,
    /// `/wins-agent-install.ps1`.
    WindowsInstallScript,
    /// `/assets/<name>`.
    Asset(&'a str),
    /// `/k8s/clusters/<id>/<rest>`.
    Cluster {
        /// Which cluster.
        id: &'a str,
        /// The path there, with its slash.
        rest: &'a str,
    },
    /// Everything else.
    Kubernetes,
}

/// Where a request for a path goes.
pub fn of(path: &str) -> Route<'_> {
    // Agents add a slash to the server's URL now and then.
    let path = path.strip_prefix('/').map_or(path, |rest| match rest.starts_with('/') {
        true => rest,
        false => path,
    });
    if let Some(rest) = path.strip_prefix("/k8s/clusters/") {
        let (id, rest) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
        return if id.is_empty() { Route::Kubernetes } else { Route::Cluster { id, rest } };
    }
    if let Some(name) = path.strip_prefix("/assets/") {
        return Route::Asset(name);
    }
    if let Some(token) = path.strip_prefix("/v3/import/").and_then(|name| name.strip_suffix(".yaml")) {
        // A token has no underscore: what follows one is the cluster.
        let (token, cluster) = token.split_once('_').map_or((token, None), |(token, id)| (token, Some(id)));
        return Route::Import { token, cluster };
    }
    match path.strip_suffix('/').unwrap_or(path) {
        "/cacerts" | "/v3/settings/cacerts" => Route::CaCerts,
        "/metrics" => Route::Metrics,
        "/readyz" => Route::Ready,
        "/v3/connect/agent" => Route::RegisterNode,
        "/v3/connect/config-yaml" => Route::ConfigYaml,
        "/v3/connect/cluster-info" => Route::ClusterInfo,
        "/v3/connect" | "/v3/connect/register" => Route::Tunnel,
        "/system-agent-install.sh" => Route::InstallScript,
        "/wins-agent-install.ps1" => Route::WindowsInstallScript,
        _ => Route::Kubernetes,
    }
}

/// The cluster behind a URL of the proxy: `https://server/k8s/clusters/<id>`.
pub fn proxied_cluster(url: &http::Uri) -> Option<&str> {
    match of(url.path()) {
        Route::Cluster { id, rest: "/" } => Some(id),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_their_places() {
        for (path, route) in [
            ("/cacerts", Route::CaCerts),
            ("//cacerts", Route::CaCerts),
            ("/metrics", Route::Metrics),
            ("/readyz", Route::Ready),
            ("/readyz/ping", Route::Kubernetes),
            ("/healthz", Route::Kubernetes),
            ("/livez", Route::Kubernetes),
            ("/version", Route::Kubernetes),
            ("/v3/connect", Route::Tunnel),
            ("/v3/connect/register", Route::Tunnel),
            ("/v3/connect/agent", Route::RegisterNode),
            ("/v3/connect/config-yaml", Route::ConfigYaml),
            ("/v3/connect/cluster-info", Route::ClusterInfo),
            ("/v3/connectx", Route::Kubernetes),
            ("/v3/import/abc.yaml", Route::Import { token: "abc", cluster: None }),
            ("/v3/import/abc_c-m-x.yaml", Route::Import { token: "abc", cluster: Some("c-m-x") }),
            ("/v3/import/abc", Route::Kubernetes),
            ("/system-agent-install.sh", Route::InstallScript),
            ("/wins-agent-install.ps1", Route::WindowsInstallScript),
            ("/assets/rancher-system-agent-amd64", Route::Asset("rancher-system-agent-amd64")),
            ("/assets/a/b", Route::Asset("a/b")),
            ("/k8s/clusters/c-m-x", Route::Cluster { id: "c-m-x", rest: "/" }),
            ("/k8s/clusters/c-m-x/", Route::Cluster { id: "c-m-x", rest: "/" }),
            ("/k8s/clusters/c-m-x/api/v1/pods", Route::Cluster { id: "c-m-x", rest: "/api/v1/pods" }),
            ("/k8s/clusters/c-m-x//../api", Route::Cluster { id: "c-m-x", rest: "//../api" }),
            ("/k8s/clusters/", Route::Kubernetes),
            ("/api/v1/namespaces", Route::Kubernetes),
            ("/", Route::Kubernetes),
            ("", Route::Kubernetes),
            ("*", Route::Kubernetes),
        ] {
            assert_eq!(of(path), route, "{path}");
        }
    }

    #[test]
    fn urls_of_the_proxy_name_their_cluster() {
        for (url, id) in [
            ("https://h/k8s/clusters/c-m-x", Some("c-m-x")),
            ("https://h:8443/k8s/clusters/c-m-x/", Some("c-m-x")),
            ("https://h/k8s/clusters/c-m-x/api", None),
            ("https://10.0.0.1:6443", None),
            ("https://h/k8s/clusters/", None),
        ] {
            assert_eq!(proxied_cluster(&url.parse().unwrap()), id, "{url}");
        }
    }
}
