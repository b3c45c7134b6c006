//! Where machines join: the URL of each server, and which one each machine uses.
//!
//! A machine stays joined where it is joined for as long as that server stays: another URL in its config restarts the
//! distribution. (Upstream points every server at the init node, and restarts them all when that changes.)

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::catalogue::annotations;
use serde::Deserialize;

use crate::desired::Placement;
use crate::desired::install::{CAPTURE_ADDRESS, ETCD_NAME};
use crate::members::is_healthy;
use crate::snapshot::{Machine, MachineName, Snapshot};
use crate::version::Runtime;

/// URLs of servers, and who goes where.
#[derive(Clone, Debug, Default)]
pub(crate) struct Joins {
    urls: BTreeMap<MachineName, String>,
    init: Option<MachineName>,
    /// For servers that have no place yet.
    target: Option<String>,
    /// URLs that servers may stay joined to.
    servers: BTreeSet<String>,
    /// URLs that workers may stay joined to.
    for_workers: BTreeSet<String>,
    /// URLs that workers are spread over, in the order of machines.
    control_planes: Vec<String>,
    fresh: bool,
}

/// The URL at which others join a server: as computed now, or as written down before. Nobody joins a worker.
pub(crate) fn url(runtime: Runtime, machine: &Machine) -> Option<String> {
    if !machine.roles().is_server() {
        return None;
    }
    let known = machine.note(annotations::JOIN_URL).map(str::to_owned);
    if machine.bootstrap.annotations.contains_key(annotations::JOIN_URL_AUTOSET_DISABLED) {
        return known;
    }
    let host = if machine.roles().is_only_etcd() && machine.is_marked_init() {
        member_host(machine)
    } else {
        node_host(machine)
    };
    host.map(|host| format!("https://{host}:{}", runtime.supervisor_port())).or(known)
}

/// The last internal address of the node, or the last external one.
fn node_host(machine: &Machine) -> Option<String> {
    let node = machine.node.as_ref().filter(|node| !node.kubelet_version.is_empty())?;
    let last = |kind: &str| node.addresses.iter().rfind(|address| address.kind == kind);
    let address = &last("InternalIP").or_else(|| last("ExternalIP"))?.address;
    Some(bracketed(address))
}

fn bracketed(address: &str) -> String {
    if address.contains(':') { format!("[{address}]") } else { address.to_owned() }
}

#[derive(Deserialize)]
struct Info {
    #[serde(default)]
    members: Vec<Member>,
}

#[derive(Deserialize)]
struct Member {
    #[serde(default)]
    name: String,
    #[serde(rename = "clientURLs", default)]
    client_urls: Vec<String>,
}

/// What etcd says of the member with the machine's own name.
fn member_host(machine: &Machine) -> Option<String> {
    let info: Info = serde_json::from_slice(machine.plan.periodic.get(CAPTURE_ADDRESS)?).ok()?;
    let name = String::from_utf8_lossy(machine.plan.periodic.get(ETCD_NAME)?).trim().to_owned();
    let member = info.members.into_iter().find(|member| member.name == name)?;
    let rest = member.client_urls.first()?.split_once("://")?.1.to_owned();
    let host = rest.split('/').next()?.rsplit_once(':').map_or(rest.as_str(), |(host, _)| host);
    (!host.is_empty()).then(|| host.to_owned())
}

impl Joins {
    pub(crate) fn of(runtime: Runtime, snapshot: &Snapshot) -> Self {
        let found =
            |(name, machine): (&MachineName, &Arc<Machine>)| Some((name.clone(), url(runtime, machine)?));
        Joins { urls: snapshot.machines.iter().filter_map(found).collect(), ..Joins::default() }
    }

    /// The same, once it is known who starts the cluster.
    pub(crate) fn around(mut self, snapshot: &Snapshot, init: &MachineName, fresh: bool) -> Self {
        let url = |name: &MachineName| self.urls.get(name).cloned();
        let staying = || {
            let all = snapshot.machines.iter().filter(|(_, machine)| !machine.is_deleting());
            all.filter_map(|(name, machine)| Some((machine, url(name)?)))
        };
        let init_url = url(init);
        let init_is_well = snapshot.machines.get(init).is_some_and(|machine| is_healthy(machine));
        let well = || staying().find(|(machine, _)| is_healthy(machine)).map(|(_, url)| url);
        self.target = if init_is_well { init_url.clone() } else { well().or_else(|| init_url.clone()) };
        self.servers = staying().map(|(_, url)| url).chain(init_url.clone()).collect();
        let control_planes = staying().filter(|(machine, _)| machine.roles().control_plane);
        self.control_planes = control_planes.map(|(_, url)| url).collect();
        self.for_workers = self.control_planes.iter().cloned().chain(init_url).collect();
        self.fresh = fresh;
        self.init = Some(init.clone());
        self
    }

    pub(crate) fn url(&self, name: &MachineName) -> Option<&str> {
        self.urls.get(name).map(String::as_str)
    }

    /// The URL for machines that have no place yet.
    pub(crate) fn target(&self) -> Option<&str> {
        self.target.as_deref()
    }

    /// A control plane that takes workers in is there.
    pub(crate) fn has_control_plane(&self) -> bool {
        !self.control_planes.is_empty()
    }

    /// Where a machine stands; none if there is nowhere to join yet.
    pub(crate) fn placement(&self, name: &MachineName, machine: &Machine) -> Option<Placement> {
        if self.init.as_ref() == Some(name) {
            return Some(Placement { init: true, server: None, fresh: self.fresh });
        }
        let joined = |urls: &BTreeSet<String>| {
            let stays = |url: &&str| urls.contains(*url) && self.url(name) != Some(url);
            machine.joined_to().filter(stays).map(str::to_owned)
        };
        let server = if machine.roles().is_server() {
            joined(&self.servers).or_else(|| self.target.clone())
        } else {
            joined(&self.for_workers).or_else(|| self.share(&machine.id))
        };
        Some(Placement { init: false, server: Some(server?), fresh: false })
    }

    /// Workers spread over the control planes, each always to the same.
    fn share(&self, id: &str) -> Option<String> {
        let count = self.control_planes.len() as u64;
        let index = u64::from(crc32(id.as_bytes())) * count / u64::from(u32::MAX);
        self.control_planes.get(index.min(count.saturating_sub(1)) as usize).cloned()
    }
}

/// CRC-32 (IEEE), by which upstream spreads workers.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    };
    !bytes.iter().fold(!0, step)
}

#[cfg(test)]
mod tests {
    use api::catalogue::labels;

    use super::*;

    #[test]
    fn crc_is_the_usual_one() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn only_servers_are_joined() {
        let noted = |role: &str, keys: &[&str]| {
            let mut machine = Machine::default();
            machine.bootstrap.labels.insert(role.into(), "true".into());
            let words = keys.iter().map(|key| ((*key).to_owned(), "https://evil:9345".to_owned()));
            machine.bootstrap.annotations.extend(words);
            url(Runtime::Rke2, &machine)
        };
        let fixed = [annotations::JOIN_URL, annotations::JOIN_URL_AUTOSET_DISABLED];
        let known = Some("https://evil:9345");
        for (role, keys, expected) in [
            (labels::WORKER_ROLE, &fixed[..], None),
            (labels::WORKER_ROLE, &fixed[..1], None),
            (labels::ETCD_ROLE, &fixed[..], known),
            (labels::CONTROL_PLANE_ROLE, &fixed[..1], known),
        ] {
            assert_eq!(noted(role, keys).as_deref(), expected, "{role} {keys:?}");
        }
    }

    #[test]
    fn a_plan_secret_says_nothing_of_roles_and_urls() {
        let mut machine = Machine::default();
        let forged = [annotations::JOIN_URL, annotations::JOIN_URL_AUTOSET_DISABLED, annotations::JOINED_TO];
        machine.plan.handshake.extend(forged.map(|key| (key.to_owned(), "https://evil:9345".to_owned())));
        machine.bootstrap.labels.insert(labels::ETCD_ROLE.into(), "true".into());
        assert_eq!(url(Runtime::Rke2, &machine), None);
        assert_eq!(machine.joined_to(), None);
    }

    #[test]
    fn etcd_tells_the_address_of_its_member() {
        let mut machine = Machine::default();
        let info = br#"{"members":[{"name":"a","clientURLs":["https://10.0.0.1:2379"]},
            {"name":"b","clientURLs":["https://[fd00::2]:2379","https://10.0.0.2:2379"]}]}"#;
        machine.plan.periodic.insert(CAPTURE_ADDRESS.into(), info.to_vec());
        for (name, host) in [("a\n", Some("10.0.0.1")), ("b", Some("[fd00::2]")), ("c", None)] {
            machine.plan.periodic.insert(ETCD_NAME.into(), name.into());
            assert_eq!(member_host(&machine).as_deref(), host, "{name}");
        }
    }
}
