//! A real API server takes the CustomResourceDefinitions that Herdsman ships.

use std::path::Path;

use peers::{Kubernetes, command};

#[test]
#[ignore = "needs cargo xtask peers"]
fn a_real_api_server_establishes_every_definition() {
    if peers::skip("crds") {
        return;
    }
    let crds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
    let count = crds.read_dir().unwrap().count();
    let kubernetes = Kubernetes::options().controller_manager(false).start().unwrap();
    let mut apply = kubernetes.kubectl();
    command::run(apply.args(["apply", "--server-side", "--filename"]).arg(crds)).unwrap();

    let wait = ["wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"];
    let established = command::run(kubernetes.kubectl().args(wait)).unwrap();
    assert_eq!(established.lines().count(), count, "{established}");
    // Established ones may still have a schema that is not structural: then they prune nothing and serve no OpenAPI.
    let reasons = "jsonpath={range .items[*].status.conditions[?(@.type=='NonStructuralSchema')]}{.message}{'\\n'}{end}";
    let complaints = command::run(kubernetes.kubectl().args(["get", "crd", "--output", reasons])).unwrap();
    assert_eq!(complaints, "");
}
