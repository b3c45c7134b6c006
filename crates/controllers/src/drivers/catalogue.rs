//! The drivers that come with us and with rancher-machine.

use machine::Special;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::Settings;
use super::source::{LOCAL, marks};

/// A driver that needs no download.
#[derive(Clone, Debug)]
pub(super) struct Builtin {
    pub(super) name: String,
    active: bool,
    special: Special,
}

impl Builtin {
    /// Its NodeDriver.
    pub(super) fn document(&self) -> Value {
        let annotations: serde_json::Map<String, Value> =
            marks(&self.special).into_iter().map(|(key, value)| (key.to_owned(), json!(value))).collect();
        let credential = !self.special.public.is_empty() || !self.special.private.is_empty();
        json!({
            "metadata": {"name": self.name, "annotations": annotations},
            "spec": {
                "displayName": self.name, "url": LOCAL, "builtin": true, "active": self.active,
                "addCloudCredential": credential,
            },
        })
    }
}

/// One driver of rancher-machine's: name, whether it is active from the start, files, public and private fields of its
/// credential, other secrets, optional fields. As Rancher has them.
type Row = (&'static str, bool, &'static str, &'static str, &'static str, &'static str, &'static str);

const RANCHER_MACHINE: [Row; 11] = [
    ("amazonec2", true, "sshKeyContents:sshKeypath,userdata:userdata", "accessKey", "secretKey", "", ""),
    (
        "azure",
        true,
        "customData:customData",
        "clientId,subscriptionId,tenantId,environment",
        "clientSecret",
        "",
        "tenantId",
    ),
    ("digitalocean", true, "sshKeyContents:sshKeyPath,userdata:userdata", "", "accessToken", "", ""),
    ("exoscale", false, "sshKey:sshKey,userdata:userdata", "apiKey", "apiSecretKey", "", ""),
    ("generic", false, "sshKey:sshKey", "", "", "", ""),
    ("google", false, "authEncodedJson:authEncodedJson,userdata:userdata", "", "authEncodedJson", "", ""),
    (
        "openstack",
        false,
        "cacert:cacert,privateKeyFile:privateKeyFile,userDataFile:userDataFile",
        "",
        "password",
        "",
        "",
    ),
    ("pod", false, "userdata:userdata", "", "", "", ""),
    ("rackspace", false, "", "", "apiKey", "", ""),
    ("softlayer", false, "", "", "apiKey", "", ""),
    ("vmwarevsphere", true, "cloudConfig:cloud-config", "username,vcenter,vcenterPort", "password", "", ""),
];

/// Every driver that is put in place.
pub(super) fn builtins(settings: &Settings) -> Vec<Builtin> {
    let ours = settings.drivers.all();
    let ours = ours.map(|one| Builtin { name: one.name().into(), active: true, special: one.special() });
    let theirs = RANCHER_MACHINE.into_iter().filter(|_| settings.rancher_machine.is_some());
    let theirs = theirs.filter(|row| settings.drivers.get(row.0).is_none()).map(of);
    ours.chain(theirs).collect()
}

fn of((name, active, files, public, private, passwords, optional): Row) -> Builtin {
    let words = |text: &str| text.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect();
    let special = Special {
        files: Special::read_files(files),
        public: words(public),
        private: words(private),
        passwords: words(passwords),
        optional: words(optional),
    };
    Builtin { name: name.into(), active, special }
}

/// What tells two documents apart.
pub(super) fn digest(document: &Value) -> String {
    let digest = Sha256::digest(document.to_string());
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rancher_machine_s_drivers_come_with_it() {
        let mut settings = Settings {
            drivers: machine::Drivers::default(),
            rancher_machine: None,
            downloads: "/nowhere".into(),
            environment: Default::default(),
        };
        assert!(builtins(&settings).is_empty());
        settings.rancher_machine = Some("/bin/rancher-machine".into());
        let all = builtins(&settings);
        let amazon = all.iter().find(|one| one.name == "amazonec2").unwrap().document();
        assert_eq!(amazon["spec"]["active"], true);
        assert_eq!(amazon["metadata"]["annotations"]["privateCredentialFields"], "secretKey");
        let pod = all.iter().find(|one| one.name == "pod").unwrap().document();
        assert_eq!(
            (&pod["spec"]["active"], &pod["spec"]["addCloudCredential"]),
            (&json!(false), &json!(false))
        );
    }
}
