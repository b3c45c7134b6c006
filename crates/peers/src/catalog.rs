//! The peers there are.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clock::{Clock, SystemClock};

use crate::availability::{Unavailable, available};
use crate::cache::{self, Cache, Key};
use crate::debian;
use crate::fleet;
use crate::go::{self, Build, Pin};
use crate::k3s;
use crate::machine;

/// The directory under `peers/` that pins Cluster API.
const CLUSTER_API: &str = "cluster-api";
/// The Debian package that brings etcd.
const ETCD_PACKAGE: &str = "etcd-server";
/// The Debian package that brings a busybox that needs no libraries.
const BUSYBOX_PACKAGE: &str = "busybox-static";
/// The Debian package that brings shellcheck.
const SHELLCHECK_PACKAGE: &str = "shellcheck";

/// The Debian package that brings kubectl.
const KUBECTL_PACKAGE: &str = "kubectl";
/// The release of Debian whose kubectl stays the same, and is new enough for us.
const STABLE: &str = "trixie";
/// The release of Debian that everything new comes to first.
const UNSTABLE: &str = "sid";

/// Why a peer cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The cache refuses, or the builder that fills it failed.
    #[error(transparent)]
    Cache(#[from] cache::Error),
    /// Go does not do it.
    #[error(transparent)]
    Go(#[from] go::Error),
    /// Debian does not have it.
    #[error(transparent)]
    Debian(#[from] debian::Error),
    /// What K3s's machines are made from cannot be read.
    #[error(transparent)]
    Fleet(#[from] Box<fleet::Error>),
}

/// A program or a set of files that tests run against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// kube-apiserver, kube-controller-manager and kubectl.
    Kubernetes,
    /// etcd.
    Etcd,
    /// The source of Cluster API, for its CRDs.
    ClusterApi,
    /// The source of the native provider for vSphere, for its CRDs.
    ProviderVsphere,
    /// The source of the native provider for AWS, for its CRDs.
    ProviderAws,
    /// The source of the native provider for Azure, for its CRDs.
    ProviderAzure,
    /// A program that converts objects with Cluster API's own code.
    CapiConvert,
    /// The command line of Cluster API.
    Clusterctl,
    /// The controllers and webhooks of Cluster API.
    CapiManager,
    /// Helm.
    Helm,
    /// A container registry.
    Registry,
    /// The kubectl of a stable Debian: downloaded, not built.
    Kubectl,
    /// The newest kubectl that Debian has.
    NewestKubectl,
    /// Rancher's reverse tunnel, both ends, in a small program of ours.
    Remotedialer,
    /// The shell and the tools of small systems.
    Busybox,
    /// A linter for shell scripts.
    Shellcheck,
    /// Rancher's node agent, one that knows `plan-state`.
    SystemAgent,
    /// Rancher's node agent from before `plan-state`.
    SystemAgentLegacy,
    /// Rancher's program with the drivers of clouds.
    RancherMachine,
    /// A driver of somebody else's for it, in two versions.
    ThirdPartyDriver,
    /// What machines are made from.
    NodeImage,
    /// What machines are made from that read user data, as those of clouds do.
    CloudImage,
    /// K3s in two versions, and containerd's helper.
    K3s,
    /// What machines are made from that K3s runs on.
    Fleet,
}

/// A peer that is on this machine.
#[derive(Clone, Debug)]
pub struct Provided {
    /// Its version.
    pub version: String,
    /// The directory it is in.
    pub path: PathBuf,
    /// How long it took to get; `None` if it was there already.
    pub took: Option<Duration>,
}

impl Peer {
    /// Every peer: downloads first, then what most suites need, and last what takes longest and few need.
    pub const ALL: [Peer; 24] = [
        Peer::Etcd,
        Peer::Kubectl,
        Peer::NewestKubectl,
        Peer::Busybox,
        Peer::Shellcheck,
        Peer::ClusterApi,
        Peer::ProviderVsphere,
        Peer::ProviderAws,
        Peer::ProviderAzure,
        Peer::Remotedialer,
        Peer::Kubernetes,
        Peer::NodeImage,
        Peer::CapiConvert,
        Peer::Registry,
        Peer::Helm,
        Peer::Clusterctl,
        Peer::CapiManager,
        Peer::SystemAgent,
        Peer::SystemAgentLegacy,
        Peer::RancherMachine,
        Peer::ThirdPartyDriver,
        Peer::CloudImage,
        Peer::K3s,
        Peer::Fleet,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Peer::Kubernetes => "kubernetes",
            Peer::Etcd => "etcd",
            Peer::ClusterApi => CLUSTER_API,
            Peer::ProviderVsphere => "provider-vsphere",
            Peer::ProviderAws => "provider-aws",
            Peer::ProviderAzure => "provider-azure",
            Peer::CapiConvert => "capi-convert",
            Peer::Clusterctl => "clusterctl",
            Peer::CapiManager => "capi-manager",
            Peer::Helm => "helm",
            Peer::Registry => "registry",
            Peer::Kubectl => "kubectl",
            Peer::NewestKubectl => "kubectl-newest",
            Peer::Remotedialer => "remotedialer",
            Peer::Busybox => "busybox",
            Peer::Shellcheck => "shellcheck",
            Peer::SystemAgent => "system-agent",
            Peer::SystemAgentLegacy => "system-agent-legacy",
            Peer::RancherMachine => "rancher-machine",
            Peer::ThirdPartyDriver => "third-party-driver",
            Peer::NodeImage => "node-image",
            Peer::CloudImage => "cloud-image",
            Peer::K3s => "k3s",
            Peer::Fleet => "fleet",
        }
    }

    /// The peer of this name.
    pub fn by_name(name: &str) -> Option<Peer> {
        Peer::ALL.into_iter().find(|peer| peer.name() == name)
    }

    /// Gets it onto this machine unless it is there.
    pub fn provide(self) -> Result<Provided, Error> {
        match self {
            Peer::Kubernetes => program(self, self.name(), kubernetes_build),
            Peer::Etcd => package(self, ETCD_PACKAGE),
            Peer::Kubectl => package_of(STABLE, self, KUBECTL_PACKAGE),
            Peer::NewestKubectl => package_of(UNSTABLE, self, KUBECTL_PACKAGE),
            Peer::Busybox => package(self, BUSYBOX_PACKAGE),
            Peer::Shellcheck => package(self, SHELLCHECK_PACKAGE),
            Peer::ClusterApi | Peer::ProviderVsphere | Peer::ProviderAws | Peer::ProviderAzure => {
                module(self.name())
            }
            Peer::CapiConvert => program(self, CLUSTER_API, capi_convert_build),
            Peer::Clusterctl => program(self, self.name(), clusterctl_build),
            Peer::CapiManager => program(self, self.name(), capi_manager_build),
            Peer::Helm => program(self, self.name(), helm_build),
            Peer::Registry => program(self, self.name(), registry_build),
            Peer::Remotedialer => program(self, self.name(), remotedialer_build),
            Peer::SystemAgent | Peer::SystemAgentLegacy => program(self, self.name(), system_agent_build),
            Peer::RancherMachine => program(self, self.name(), rancher_machine_build),
            Peer::ThirdPartyDriver => program(self, self.name(), third_party_driver_build),
            Peer::NodeImage => node_image(self),
            Peer::CloudImage => cloud_image(self),
            Peer::K3s => k3s(self),
            Peer::Fleet => fleet(self),
        }
    }

    /// Whether this machine can have it.
    pub fn available(self) -> Result<(), Unavailable> {
        match self {
            Peer::NodeImage | Peer::CloudImage => machine::available(),
            Peer::K3s => k3s::available(),
            Peer::Fleet => machine::available().and_then(|()| k3s::available()),
            _ => available(),
        }
    }
}

/// The directory with the files of a Go module that `peers/<name>/go.mod` pins.
pub fn go_module(name: &str) -> Result<PathBuf, Error> {
    Ok(pin(name)?.download()?)
}

/// Programs built from the module that `peers/<pinned>/go.mod` pins.
fn program(peer: Peer, pinned: &str, build: fn(&str) -> Build) -> Result<Provided, Error> {
    let pin = pin(pinned)?;
    let build = build(&pin.version);
    let key = Key::new(peer.name(), pin.plain_version()).with_recipe(pin.recipe(&build)?);
    let entry = Cache::from_env()?.provide(&key, |directory| pin.build(&build, directory))?;
    Ok(Provided { version: pin.plain_version().to_owned(), path: entry.path, took: entry.took })
}

fn capi_convert_build(_: &str) -> Build {
    Build { packages: vec!["./capi-convert".into()], variables: Vec::new() }
}

fn clusterctl_build(version: &str) -> Build {
    cluster_api_build("cmd/clusterctl", version)
}

/// The program is called as its package is: `core`.
fn capi_manager_build(version: &str) -> Build {
    cluster_api_build("core", version)
}

/// Programs of Cluster API look at their own version before they do anything.
fn cluster_api_build(package: &str, version: &str) -> Build {
    let module = "sigs.k8s.io/cluster-api";
    let mut numbers = version.trim_start_matches('v').split('.');
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    let variables =
        [("gitVersion", version), ("gitMajor", major), ("gitMinor", minor), ("gitTreeState", "clean")];
    Build {
        packages: vec![format!("{module}/{package}")],
        variables: variables
            .map(|(name, value)| (format!("{module}/version.{name}"), value.to_owned()))
            .to_vec(),
    }
}

/// Helm says which version it is to servers and in what it prints.
fn helm_build(version: &str) -> Build {
    let package = "helm.sh/helm/v3/internal/version";
    let variables = [("version", version), ("gitTreeState", "clean")];
    Build {
        packages: vec!["helm.sh/helm/v3/cmd/helm".into()],
        variables: variables.map(|(name, value)| (format!("{package}.{name}"), value.to_owned())).to_vec(),
    }
}

fn registry_build(_: &str) -> Build {
    Build {
        packages: vec!["github.com/distribution/distribution/v3/cmd/registry".into()],
        variables: Vec::new(),
    }
}

/// The program is called as its module is: `system-agent`.
fn system_agent_build(version: &str) -> Build {
    let package = "github.com/rancher/system-agent";
    let variables = vec![(format!("{package}/pkg/version.Version"), version.to_owned())];
    Build { packages: vec![package.into()], variables }
}

/// It tells its version to whoever asks for it.
fn rancher_machine_build(version: &str) -> Build {
    let variables = vec![("github.com/rancher/machine/version.Version".to_owned(), version.to_owned())];
    Build { packages: vec!["github.com/rancher/machine/cmd/rancher-machine".into()], variables }
}

fn third_party_driver_build(_: &str) -> Build {
    Build { packages: vec!["./first".into(), "./second".into()], variables: Vec::new() }
}

fn node_image(peer: Peer) -> Result<Provided, Error> {
    let key = Key::new(peer.name(), machine::SUITE).with_recipe(machine::Image::Plain.recipe());
    let entry = Cache::from_env()?.provide(&key, machine::build)?;
    Ok(Provided { version: machine::SUITE.to_owned(), path: entry.path, took: entry.took })
}

fn cloud_image(peer: Peer) -> Result<Provided, Error> {
    let plain = Peer::NodeImage.provide()?;
    let key = Key::new(peer.name(), machine::SUITE).with_recipe(machine::Image::Cloud.recipe());
    let build = |directory: &Path| machine::build_cloud(&plain.path, directory);
    let entry = Cache::from_env()?.provide(&key, build)?;
    Ok(Provided { version: machine::SUITE.to_owned(), path: entry.path, took: entry.took })
}

fn k3s(peer: Peer) -> Result<Provided, Error> {
    let pin = pin(peer.name())?;
    let version = k3s::VERSIONS[0].trim_start_matches('v').to_owned();
    let key = Key::new(peer.name(), &version).with_recipe(k3s::recipe(&pin)?);
    let entry = Cache::from_env()?.provide(&key, |directory| k3s::build(&pin, directory))?;
    Ok(Provided { version, path: entry.path, took: entry.took })
}

fn fleet(peer: Peer) -> Result<Provided, Error> {
    let k3s = Peer::K3s.provide()?;
    let key = Key::new(peer.name(), &k3s.version).with_recipe(fleet::recipe(&k3s).map_err(Box::new)?);
    let entry = Cache::from_env()?.provide(&key, |directory| fleet::build(&k3s, directory))?;
    Ok(Provided { version: k3s.version, path: entry.path, took: entry.took })
}

fn remotedialer_build(_: &str) -> Build {
    Build { packages: vec!["./tunnel-peer".into()], variables: Vec::new() }
}

fn kubernetes_build(version: &str) -> Build {
    let commands = ["kube-apiserver", "kube-controller-manager", "kubectl"];
    let mut numbers = version.trim_start_matches('v').split('.');
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    let values =
        [("gitVersion", version), ("gitMajor", major), ("gitMinor", minor), ("gitTreeState", "clean")];
    // The servers and kubectl report the first, clients' user agents the second.
    let packages = ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"];
    let variable =
        |package: &str, (name, value): (&str, &str)| (format!("{package}.{name}"), value.to_owned());
    Build {
        packages: commands.iter().map(|command| format!("k8s.io/kubernetes/cmd/{command}")).collect(),
        variables: packages.iter().flat_map(|package| values.map(|value| variable(package, value))).collect(),
    }
}

fn package(peer: Peer, package: &str) -> Result<Provided, Error> {
    let release = debian::release();
    let key = Key::new(peer.name(), &release).with_recipe(debian::recipe(package, &release));
    let entry = Cache::from_env()?.provide(&key, |directory| debian::fetch(package, directory))?;
    Ok(Provided { version: debian::version(&entry.path)?, path: entry.path, took: entry.took })
}

/// A package of another release of Debian than the machine's.
fn package_of(release: &str, peer: Peer, package: &str) -> Result<Provided, Error> {
    let key = Key::new(peer.name(), release).with_recipe(debian::recipe(package, release));
    let entry =
        Cache::from_env()?.provide(&key, |directory| debian::fetch_from(release, package, directory))?;
    Ok(Provided { version: debian::version(&entry.path)?, path: entry.path, took: entry.took })
}

/// Go's own module cache keeps it.
fn module(name: &str) -> Result<Provided, Error> {
    let started = SystemClock.monotonic();
    let pin = pin(name)?;
    let version = pin.plain_version().to_owned();
    if let Some(path) = pin.downloaded() {
        return Ok(Provided { version, path, took: None });
    }
    let path = pin.download()?;
    Ok(Provided { version, path, took: Some(SystemClock.monotonic().since(started)) })
}

fn pin(name: &str) -> Result<Pin, go::Error> {
    let pins = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../peers");
    Pin::read(&pins.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubernetes_knows_its_version() {
        let variables = kubernetes_build("v1.34.4").variables;
        for (name, value) in [("gitVersion", "v1.34.4"), ("gitMajor", "1"), ("gitMinor", "34")] {
            let variable = format!("k8s.io/component-base/version.{name}");
            assert!(variables.contains(&(variable, value.to_owned())), "{variables:?}");
        }
    }

    #[test]
    fn the_pins_are_readable() {
        assert_eq!(pin("kubernetes").unwrap().module, "k8s.io/kubernetes");
        assert_eq!(pin("helm").unwrap().module, "helm.sh/helm/v3");
        for (name, module) in [
            ("cluster-api", "sigs.k8s.io/cluster-api"),
            ("clusterctl", "sigs.k8s.io/cluster-api"),
            ("capi-manager", "sigs.k8s.io/cluster-api"),
            ("provider-vsphere", "sigs.k8s.io/cluster-api-provider-vsphere"),
            ("provider-aws", "sigs.k8s.io/cluster-api-provider-aws/v2"),
            ("provider-azure", "sigs.k8s.io/cluster-api-provider-azure"),
        ] {
            assert_eq!(pin(name).unwrap().module, module);
        }
        assert_eq!(pin("registry").unwrap().module, "github.com/distribution/distribution/v3");
        for agent in ["system-agent", "system-agent-legacy"] {
            assert_eq!(pin(agent).unwrap().module, "github.com/rancher/system-agent");
        }
        assert_eq!(pin("k3s").unwrap().module, "github.com/k3s-io/k3s");
        for machine in ["rancher-machine", "third-party-driver"] {
            assert_eq!(pin(machine).unwrap().module, "github.com/rancher/machine");
        }
        assert_eq!(pin("remotedialer").unwrap().module, "github.com/rancher/remotedialer");
        assert!(pin("no-such-peer").is_err());
    }
}
