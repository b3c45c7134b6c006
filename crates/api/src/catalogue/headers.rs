//! HTTP headers, spelt as upstream sends them; names compare without regard to case.

words! {
    /// What every header of a registering machine begins with.
    CATTLE_PREFIX = "X-Cattle-";
    /// The machine's id.
    CATTLE_ID = "X-Cattle-Id";
    /// `true` if it shall run etcd.
    CATTLE_ROLE_ETCD = "X-Cattle-Role-Etcd";
    /// `true` if it shall run the control plane.
    CATTLE_ROLE_CONTROL_PLANE = "X-Cattle-Role-Control-Plane";
    /// `true` if it shall take pods.
    CATTLE_ROLE_WORKER = "X-Cattle-Role-Worker";
    /// Name that the node shall have.
    CATTLE_NODE_NAME = "X-Cattle-Node-Name";
    /// Its external address.
    CATTLE_ADDRESS = "X-Cattle-Address";
    /// Its internal address.
    CATTLE_INTERNAL_ADDRESS = "X-Cattle-Internal-Address";
    /// Labels, `key=value` separated by commas.
    CATTLE_LABELS = "X-Cattle-Labels";
    /// Taints, `key=value:effect` separated by commas.
    CATTLE_TAINTS = "X-Cattle-Taints";
    /// Which field of the cluster is asked for.
    CATTLE_FIELD = "X-Cattle-Field";
    /// Who a tunnel's client is: a registration token.
    TUNNEL_TOKEN = "X-API-Tunnel-Token";
    /// What a tunnel's client tells of itself: base64 of JSON.
    TUNNEL_PARAMS = "X-API-Tunnel-Params";
    /// Id of a peer server.
    TUNNEL_ID = "X-API-Tunnel-ID";
    /// Shared secret of the tunnel proxy.
    TUNNEL_SECRET = "X-API-Tunnel-Secret";
}
