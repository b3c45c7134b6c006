//! Hosts: which there are, which one a server has.

use std::fmt;
use std::path::Path;
use std::{fs, io};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::session::Error;
use crate::archive::{self, write_private};
use crate::{Arguments, Failure};

/// The file in a server's state that says which host it has.
pub const NOTE: &str = "host.json";

/// A host that is reached by SSH.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Host {
    pub(super) address: String,
    pub(super) port: u16,
    pub(super) user: String,
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address.contains(':') {
            true => write!(f, "[{}]:{}", self.address, self.port),
            false => write!(f, "{}:{}", self.address, self.port),
        }
    }
}

/// The hosts that a server may take.
pub(super) fn all(arguments: &Arguments) -> Result<Vec<Host>, Failure> {
    let port = arguments.number("port")?.unwrap_or(22);
    let user = arguments.text("user").unwrap_or("root");
    if !user.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) {
        return Err(Failure::Check(format!("user: {user:?} is not a user's name")));
    }
    let addresses = arguments.list("address");
    if addresses.is_empty() {
        return Err(Failure::Check("address: name at least one host".into()));
    }
    addresses.iter().map(|text| one(text.trim(), port, user)).collect()
}

fn one(text: &str, port: u16, user: &str) -> Result<Host, Failure> {
    let wrong =
        || Failure::Check(format!("address: {text:?} is not address, address:port or [address]:port"));
    let (address, port) = match (text.strip_prefix('['), text.matches(':').count()) {
        (Some(rest), _) => {
            let (address, rest) = rest.split_once(']').ok_or_else(wrong)?;
            let given = rest.strip_prefix(':').map(|port| port.parse().map_err(|_| wrong())).transpose()?;
            (address, given.unwrap_or(port))
        }
        (None, 1) => {
            let (address, given) = text.split_once(':').ok_or_else(wrong)?;
            (address, given.parse().map_err(|_| wrong())?)
        }
        // None, or an IPv6 address by itself.
        _ => (text, port),
    };
    if address.is_empty() || address.contains(char::is_whitespace) {
        return Err(wrong());
    }
    Ok(Host { address: address.into(), port, user: user.into() })
}

/// Keys of hosts that a user vouches for, as `type base64`.
pub(super) fn trusted(arguments: &Arguments) -> Result<Vec<String>, Failure> {
    arguments.list("host-key").iter().map(|line| trusted_key(line)).collect()
}

/// The keys that a host may show: those that a user gave, else the one that it showed when this server tried it before. None: any, once.
pub(super) fn trusted_of(host: &Host, given: Vec<String>, before: Option<Note>) -> Vec<String> {
    match before.filter(|note| given.is_empty() && note.host == *host && !note.host_key.is_empty()) {
        Some(note) => vec![note.host_key],
        None => given,
    }
}

/// A key, given as `type base64`, as people compare it: `type SHA256:...`, as `ssh-keygen -l` prints it.
pub(super) fn fingerprint(key: &str) -> Option<String> {
    let (kind, blob) = key.split_once(' ')?;
    let digest = Sha256::digest(STANDARD.decode(blob).ok()?);
    Some(format!("{kind} SHA256:{}", STANDARD_NO_PAD.encode(digest)))
}

/// The fingerprint of the key by which a server's host is known, from its packed state.
pub fn shown_key(packed: &[u8]) -> Option<String> {
    fingerprint(&known_key(&archive::find(packed, NOTE)?)?)
}

/// The key in a line of `known_hosts` or of a `.pub` file.
fn trusted_key(line: &str) -> Result<String, Failure> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words.iter().position(|word| word.starts_with("ssh-") || word.starts_with("ecdsa-"));
    match at.and_then(|at| words.get(at..at + 2)) {
        Some([kind, key]) => Ok(format!("{kind} {key}")),
        _ => Err(Failure::Check(format!(
            "hostKey: {line:?} is not a public key, such as \"ssh-ed25519 AAAA...\""
        ))),
    }
}

/// Which host a server has, and by which key it is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Note {
    pub(super) host: Host,
    pub(super) host_key: String,
}

/// The key by which a server's host is known, as `type base64`, from the note in its state.
pub fn known_key(note: &[u8]) -> Option<String> {
    let note: Note = serde_json::from_slice(note).ok()?;
    Some(note.host_key).filter(|key| !key.is_empty())
}

impl Note {
    pub(super) fn read(directory: &Path) -> Result<Option<Self>, Error> {
        match fs::read(directory.join(NOTE)) {
            Ok(bytes) => {
                serde_json::from_slice(&bytes).map(Some).map_err(|error| Error::State(error.to_string()))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::State(error.to_string())),
        }
    }

    pub(super) fn write(&self, directory: &Path) -> Result<(), Error> {
        let bytes = serde_json::to_vec(self).map_err(|error| Error::State(error.to_string()))?;
        write_private(&directory.join(NOTE), &bytes).map_err(|error| Error::State(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn arguments(addresses: &[&str], user: &str) -> Arguments {
        Arguments(BTreeMap::from([
            ("address".to_owned(), addresses.iter().map(|text| text.to_string()).collect()),
            ("user".to_owned(), vec![user.to_owned()]),
            ("port".to_owned(), vec!["2022".to_owned()]),
        ]))
    }

    #[test]
    fn hosts_are_read() {
        let hosts =
            all(&arguments(&["10.0.0.1", "a.example:22", "fd00::1", "[fd00::2]:23", "[fd00::3]"], "u"))
                .unwrap();
        let texts: Vec<String> = hosts.iter().map(Host::to_string).collect();
        assert_eq!(
            texts,
            ["10.0.0.1:2022", "a.example:22", "[fd00::1]:2022", "[fd00::2]:23", "[fd00::3]:2022"]
        );
        for wrong in [&[][..], &["a:b"], &[""], &["[x"], &["a b"]] {
            assert!(matches!(all(&arguments(wrong, "u")), Err(Failure::Check(_))), "{wrong:?}");
        }
        assert!(all(&arguments(&["a"], "root; reboot")).is_err());
    }

    #[test]
    fn a_host_keeps_the_key_that_it_showed_first() {
        let host = |address: &str| Host { address: address.into(), port: 22, user: "root".into() };
        let note = |address: &str, key: &str| Some(Note { host: host(address), host_key: key.into() });
        let given = |keys: &[&str]| keys.iter().map(|key| key.to_string()).collect::<Vec<_>>();
        for (given_keys, before, expected) in [
            (given(&[]), None, given(&[])),
            (given(&[]), note("a", "k1"), given(&["k1"])),
            (given(&[]), note("b", "k1"), given(&[])),
            (given(&["k2"]), note("a", "k1"), given(&["k2"])),
        ] {
            assert_eq!(trusted_of(&host("a"), given_keys, before), expected);
        }
    }

    #[test]
    fn a_key_is_shown_as_ssh_shows_it() {
        let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f";
        let shown = fingerprint(key).unwrap();
        assert!(shown.starts_with("ssh-ed25519 SHA256:") && !shown.ends_with('='), "{shown}");
        assert_eq!(shown.len(), "ssh-ed25519 SHA256:".len() + 43);
        assert_eq!(fingerprint("no key"), None);
        let storage = tempfile::tempdir().unwrap();
        let directory = crate::record::directory(storage.path(), "m");
        fs::create_dir_all(&directory).unwrap();
        assert_eq!(shown_key(&archive::pack(storage.path()).unwrap()), None);
        let host = Host { address: "a".into(), port: 22, user: "root".into() };
        Note { host, host_key: key.into() }.write(&directory).unwrap();
        assert_eq!(shown_key(&archive::pack(storage.path()).unwrap()), Some(shown));
    }

    #[tokio::test]
    async fn a_strict_driver_takes_no_host_of_which_no_key_is_given() {
        use crate::{Driver as _, Order};
        let order = Order { arguments: arguments(&["10.0.0.1"], "u"), ..Order::default() };
        let refused = crate::ssh::Ssh { strict: true }.check(&order).await.unwrap_err().to_string();
        assert!(refused.starts_with("hostKey: "), "{refused}");
        let usual = crate::ssh::Ssh::default().check(&order).await.unwrap_err().to_string();
        assert!(usual.starts_with("sshKey: "), "{usual}");
    }

    #[test]
    fn keys_of_hosts_are_read_from_either_file() {
        assert_eq!(trusted_key("ssh-ed25519 AAAA comment").unwrap(), "ssh-ed25519 AAAA");
        assert_eq!(trusted_key("a,10.0.0.1 ecdsa-sha2-nistp256 BBBB").unwrap(), "ecdsa-sha2-nistp256 BBBB");
        assert!(trusted_key("AAAA").is_err());
    }
}
