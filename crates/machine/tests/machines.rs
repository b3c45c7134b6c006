//! Our own drivers against real machines: containers with systemd, and hosts with a real sshd.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use machine::docker::{Docker, Host};
use machine::record::{Record, directory};
use machine::ssh::Ssh;
use machine::{Command, Drivers, Output};
use peers::docker::{Docker as Daemon, Network};
use peers::machine::Machine;

/// One test at a time has the Docker daemon: what is left over is counted.
static DAEMON: Mutex<()> = Mutex::new(());

/// A place for states, and what drivers say.
struct Stage {
    storage: tempfile::TempDir,
    runtime: tokio::runtime::Runtime,
    said: Arc<Mutex<String>>,
}

impl Stage {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Stage { storage: tempfile::tempdir().unwrap(), runtime, said: Arc::default() }
    }

    fn run(&self, words: &[&str]) -> i32 {
        let words: Vec<String> = words.iter().map(|word| word.to_string()).collect();
        let command = Command::parse(&words).unwrap();
        self.said.lock().unwrap().clear();
        let said = self.said.clone();
        let output = Output::new(move |line| {
            println!("  {line}");
            said.lock().unwrap().push_str(&format!("{line}\n"));
        });
        let host = Daemon::shared().map(|docker| docker.host()).unwrap_or_default();
        let drivers = Drivers::default().with(Docker { host, ..Docker::default() }).with(Ssh::default());
        let driver = match words.iter().any(|word| word.starts_with("--ssh-")) || self.is_ssh(&command.name) {
            true => "ssh",
            false => "docker",
        };
        let task = machine::Task {
            command: &command,
            driver,
            owner: "default/m/u",
            environment: BTreeMap::new(),
            storage: self.storage.path(),
            files: self.storage.path(),
        };
        let done = machine::run(&drivers, task, &output);
        self.runtime.block_on(done)
    }

    /// Whether the state knows of a server of the driver `ssh`.
    fn is_ssh(&self, name: &str) -> bool {
        machine::record::driver(self.storage.path(), name).unwrap().as_deref() == Some("ssh")
    }

    fn file(&self, name: &str, content: &str) -> String {
        let path: PathBuf = self.storage.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.display().to_string()
    }

    fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    fn storage(&self) -> &Path {
        self.storage.path()
    }
}

#[test]
#[ignore = "real: node-image"]
fn a_container_comes_and_goes() {
    if peers::machine::skip("machine-docker") {
        return;
    }
    let _alone = DAEMON.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let docker = Daemon::shared().unwrap();
    let network = Network::create(&docker, "drivers").unwrap();
    let (stage, image) = (Stage::new(), peers::machine::image(&docker).unwrap());
    let script =
        stage.file("script", "#!/bin/sh\necho hello from $(hostname)\nsystemctl is-system-running > /done\n");
    let flags = [
        format!("--docker-host={}", docker.host()),
        format!("--docker-image={image}"),
        format!("--docker-network={}", network.name()),
        "--docker-memory=512".to_owned(),
        "--docker-env=COLOUR=green".to_owned(),
    ];
    let create = |script: &str, name: &'static str| {
        let script = format!("--custom-install-script={script}");
        let mut words = vec!["create", "--driver=docker", &script, "--hostname-override=host-one"];
        words.extend(flags.iter().map(String::as_str));
        words.push(name);
        stage.run(&words)
    };
    assert_eq!(create(&script, "drivers-one"), 0);
    assert!(stage.said().contains("hello from host-one"), "{}", stage.said());
    let record = Record::read(stage.storage(), "drivers-one").unwrap().unwrap();
    let address = record.driver["IPAddress"].as_str().unwrap();
    assert_eq!(docker.run(&["exec", "drivers-one", "cat", "/done"]).unwrap(), "running");
    assert!(docker.run(&["exec", "drivers-one", "ip", "addr"]).unwrap().contains(address));
    let limit = docker.run(&["inspect", "--format", "{{.HostConfig.Memory}}", "drivers-one"]).unwrap();
    assert_eq!(limit, (512 << 20).to_string());
    let environment = docker.run(&["exec", "drivers-one", "cat", "/proc/1/environ"]).unwrap();
    assert!(environment.contains("COLOUR=green"), "{environment}");

    // Another one of the same name is refused, and a state that knows of it too.
    assert_eq!(create(&script, "drivers-one"), 1);
    let failing = stage.file("failing", "echo it breaks >&2; exit 7");
    assert_eq!(create(&failing, "drivers-two"), 1);
    assert!(stage.said().contains("it breaks") && stage.said().contains("exit code 7"), "{}", stage.said());
    for name in ["drivers-one", "drivers-two"] {
        assert_eq!(stage.run(&["rm", "-y", "--update-config", name]), 0);
        assert!(!directory(stage.storage(), name).exists());
    }
    assert_eq!(docker.run(&["ps", "--all", "--quiet"]).unwrap(), "", "no container is left");
    assert_eq!(docker.run(&["volume", "ls", "--quiet"]).unwrap(), "", "no volume is left");

    // A container that somebody else runs under a machine's name stays, whatever becomes of the machine.
    docker.run(&["run", "--detach", "--name", "postgres", "--entrypoint", "sleep", &image, "600"]).unwrap();
    assert_eq!(create(&script, "postgres"), 1);
    assert_eq!(stage.run(&["rm", "-y", "--update-config", "postgres"]), 0);
    assert!(stage.said().contains("belongs to another machine"), "{}", stage.said());
    assert_eq!(docker.run(&["ps", "--format", "{{.Names}}"]).unwrap(), "postgres");
    docker.run(&["rm", "--force", "--volumes", "postgres"]).unwrap();

    // A container that is gone already can be removed.
    assert_eq!(create(&script, "drivers-three"), 0);
    docker.run(&["rm", "--force", "--volumes", "drivers-three"]).unwrap();
    assert_eq!(stage.run(&["rm", "-y", "drivers-three"]), 0);
    assert_eq!(
        stage.run(&["create", "--driver=docker", "--docker-host=unix:///nowhere", "--docker-image=x", "x"]),
        3
    );
}

#[test]
#[ignore = "real: node-image"]
fn a_network_is_made_and_cleared() {
    if peers::machine::skip("machine-docker") {
        return;
    }
    let _alone = DAEMON.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let docker = Daemon::shared().unwrap();
    let (stage, image) = (Stage::new(), peers::machine::image(&docker).unwrap());
    let host = stage.runtime.block_on(Host::reach(&docker.host())).unwrap();
    assert!(stage.runtime.block_on(host.has_image(&image)).unwrap());
    assert!(!stage.runtime.block_on(host.has_image("no-such-image:v1")).unwrap());
    let address = stage.runtime.block_on(host.network("ground")).unwrap();
    assert_eq!(stage.runtime.block_on(host.network("ground")).unwrap(), address, "made once");
    let flags = [
        format!("--docker-host={}", docker.host()),
        format!("--docker-image={image}"),
        "--docker-network=ground".into(),
    ];
    let mut words = vec!["create", "--driver=docker"];
    words.extend(flags.iter().map(String::as_str));
    words.push("ground-one");
    assert_eq!(stage.run(&words), 0);
    let routes = docker.run(&["exec", "ground-one", "ip", "route"]).unwrap();
    assert!(routes.contains(&address.to_string()), "{address} in {routes}");
    for _ in 0..2 {
        stage.runtime.block_on(host.clear("ground")).unwrap();
        assert_eq!(docker.run(&["ps", "--all", "--quiet"]).unwrap(), "", "no container is left");
        assert_eq!(docker.run(&["network", "ls", "--quiet", "--filter", "name=ground"]).unwrap(), "");
    }
    let nowhere = stage.runtime.block_on(Host::reach("unix:///nowhere")).unwrap_err();
    assert!(nowhere.to_string().contains("/nowhere"), "{nowhere}");
}

/// A host with a key that lets us in.
fn host(network: &Arc<Network>, name: &str, key: Option<&str>) -> (Machine, String, String) {
    let machine = Machine::boot(network, name, &[]).unwrap();
    let key = key.map_or_else(
        || machine.sh("ssh-keygen -q -t ed25519 -N '' -f /root/key; cat /root/key").unwrap(),
        str::to_owned,
    );
    let public = format!(
        "umask 077; mkdir -p /root/.ssh; cat > /root/key2 <<'X'\n{}\nX\nssh-keygen -y -f /root/key2 > /root/.ssh/authorized_keys",
        key.trim_end()
    );
    machine.sh(&public).unwrap();
    let address = machine.sh("hostname -I").unwrap().split_whitespace().next().unwrap().to_owned();
    (machine, address, key)
}

#[test]
#[ignore = "real: node-image"]
fn hosts_are_taken_and_let_go() {
    if peers::machine::skip("machine-ssh") {
        return;
    }
    let _alone = DAEMON.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let network = Network::create(&Daemon::shared().unwrap(), "hosts").unwrap();
    let rsa = include_str!("../testdata/rsa.openssh");
    let (first, first_address, key) = host(&network, "first", Some(rsa));
    let (second, second_address, _) = host(&network, "second", Some(&key));
    let stage = Stage::new();
    let key = stage.file("key", &key);
    let script = stage.file(
        "script",
        "#!/bin/sh\necho hello from $(hostname)\nprintf 'touch /uninstalled' > /usr/local/bin/k3s-uninstall.sh\n\
         chmod +x /usr/local/bin/k3s-uninstall.sh\n",
    );
    let create = |name: &str, more: &[&str]| {
        let (key, script) = (format!("--ssh-key-file={key}"), format!("--custom-install-script={script}"));
        let addresses = [&first_address, &second_address].map(|address| format!("--ssh-address={address}"));
        let mut words = vec!["create", "--driver=ssh", &script, &key];
        words.extend(addresses.iter().map(String::as_str));
        words.extend(more);
        words.push(name);
        stage.run(&words)
    };
    assert_eq!(create("one", &[]), 0);
    assert!(stage.said().contains("hello from one"), "{}", stage.said());
    let record = Record::read(stage.storage(), "one").unwrap().unwrap();
    assert_eq!(record.driver["IPAddress"], first_address.as_str());
    assert!(Path::new(record.driver["SSHKeyPath"].as_str().unwrap()).is_file());
    assert_eq!(first.sh("cat /var/lib/herdsman/machine").unwrap().trim(), "one");
    let named = second.sh("hostname").unwrap();
    assert_eq!(create("two", &["--ssh-keep-hostname"]), 0);
    assert_eq!(
        Record::read(stage.storage(), "two").unwrap().unwrap().driver["IPAddress"],
        second_address.as_str()
    );
    assert_eq!(second.sh("hostname").unwrap(), named);
    assert_eq!(create("three", &[]), 1);
    assert!(
        stage.said().contains("no host is free") && stage.said().contains("is taken"),
        "{}",
        stage.said()
    );
    assert_eq!(stage.run(&["rm", "-y", "three"]), 0, "it leaves others' hosts alone");
    assert_eq!(second.sh("cat /var/lib/herdsman/machine").unwrap().trim(), "two");

    assert_eq!(stage.run(&["rm", "-y", "one"]), 0);
    first.sh("test -e /uninstalled; test ! -e /var/lib/herdsman/machine").unwrap();
    assert_eq!(create("four", &[]), 0, "a host that was let go is free");
    assert_eq!(stage.run(&["rm", "-y", "four"]), 0);

    // Somebody else answers at the address of a server that we know.
    second.sh("rm /etc/ssh/ssh_host_*; ssh-keygen -A; systemctl restart ssh").unwrap();
    assert_eq!(stage.run(&["rm", "-y", "two"]), 1);
    assert!(stage.said().contains("not the one that is trusted"), "{}", stage.said());
    assert!(directory(stage.storage(), "two").exists(), "it is not forgotten");
    let shown = second.sh("cat /etc/ssh/ssh_host_ed25519_key.pub").unwrap();
    assert_eq!(
        create("five", &[&format!("--ssh-host-key={}", shown.trim())]),
        1,
        "first has another key, second is taken"
    );
    assert!(
        stage.said().contains("not the one that is trusted") && stage.said().contains("is taken"),
        "{}",
        stage.said()
    );
    // Other keys than RSA do as well.
    let other = host(&network, "other", None);
    let file = stage.file("other", &other.2);
    let script = format!("--custom-install-script={script}");
    let words = [format!("--ssh-key-file={file}"), format!("--ssh-address={}", other.1)];
    assert_eq!(stage.run(&["create", "--driver=ssh", &script, &words[0], &words[1], "seven"]), 0);
    assert_eq!(create("six", &["--ssh-user=nobody"]), 1);
    assert!(stage.said().contains("is not let in"), "{}", stage.said());
}
