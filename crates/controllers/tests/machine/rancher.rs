//! The real rancher-machine: its flags over the plugin protocol, and a server of its driver `generic` on a host with a
//! real sshd, in real time.

use std::time::Duration;

use peers::docker::{Docker, Network};
use peers::machine::Machine;
use serde_json::json;

use crate::world::{World, condition};

/// What rancher-machine wants on a host beside sshd. The package is there already, and its lists are not.
pub(crate) const PREPARE: &str = r#"
printf '#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\nexec "$@"\n' > /usr/local/bin/sudo
printf '#!/bin/sh\nexit 0\n' > /usr/local/bin/apt-get
chmod +x /usr/local/bin/sudo /usr/local/bin/apt-get
ssh-keygen -q -t ed25519 -N '' -f /root/key
mkdir -m 700 -p /root/.ssh
cp /root/key.pub /root/.ssh/authorized_keys
cat /root/key
"#;

#[test]
#[ignore = "peers: rancher-machine"]
fn rancher_machine_makes_and_removes_a_server() {
    if peers::machine::skip("rancher-machine") {
        return;
    }
    let program = peers::Peer::RancherMachine.provide().unwrap().path.join("rancher-machine");
    let network = Network::create(&Docker::shared().unwrap(), "generic").unwrap();
    let host = Machine::boot(&network, "host", &[]).unwrap();
    let key = host.sh(PREPARE).unwrap();
    let address = host.sh("hostname -I").unwrap().split_whitespace().next().unwrap().to_owned();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let mut world = World::empty().await;
        world.rancher_machine = Some(program);
        world.start();
        world.condition("NodeDriver", "amazonec2", "Active", "True").await;
        let schema = world.get("DynamicSchema", "amazonec2config").await;
        let fields = &schema["spec"]["resourceFields"];
        assert_eq!(fields["region"]["default"]["stringValue"], "us-east-1");
        assert_eq!(fields["secretKey"]["type"], "password");
        assert_eq!(fields["securityGroup"]["type"], "array[string]");
        assert_eq!((fields.get("sshKeypath"), &fields["sshKeyContents"]["type"]), (None, &json!("password")));
        world.condition("NodeDriver", "vmwarevsphere", "Active", "True").await;

        world.patch("NodeDriver", "generic", json!({"spec": {"active": true}})).await;
        world.condition("NodeDriver", "generic", "Active", "True").await;
        world.cluster().await;
        let spec = json!({"ipAddress": address, "sshUser": "root", "sshKey": key});
        world.machine_of("GenericMachine", "m", spec.clone()).await;
        world.condition("GenericMachine", "m", "Ready", "True").await;
        assert_eq!(host.sh("cat /hello").unwrap().trim(), "hello");
        assert_eq!(host.sh("hostname").unwrap().trim(), "m");
        let state = world.get("Secret", "m-machine-state").await;
        assert!(state["data"]["extractedConfig"].is_string(), "{state}");
        world.delete("GenericMachine", "m").await;
        world.gone("GenericMachine", "m").await;
        assert_eq!(world.leftovers("m").await, Vec::<String>::new());

        // A host that is not there: rancher-machine's own words come back.
        let wrong = json!({"ipAddress": "", "sshUser": "root", "sshKey": key});
        world.machine_of("GenericMachine", "w", wrong).await;
        world.condition("GenericMachine", "w", "CreateJob", "False").await;
        let failed = world.get("GenericMachine", "w").await;
        let words = condition(&failed, "CreateJob")["message"].as_str().unwrap().to_owned();
        assert!(words.contains("generic driver requires the --generic-ip-address option"), "{words}");
        world.delete("GenericMachine", "w").await;
        world.gone("GenericMachine", "w").await;

        // This process stops while rancher-machine works: it ends too, and what it left is known.
        // The file is a mount, so that rancher-machine's second name for the host could not replace the first.
        host.sh("rm -f /hello; sed /127.0.1.1/d /etc/hosts > /root/hosts; cat /root/hosts > /etc/hosts")
            .unwrap();
        world.bootstrap = "sleep 600".into();
        world.machine_of("GenericMachine", "k", spec).await;
        world
            .until(300, "rancher-machine runs its script", async || {
                let runs = host.sh("pgrep -f '[i]nstall_script.sh' || true").unwrap();
                if runs.trim().is_empty() { Err(world.log("k")) } else { Ok(()) }
            })
            .await;
        world.stop().await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        world.start();
        world.condition("GenericMachine", "k", "CreateJob", "False").await;
        assert!(world.log("k").contains("was interrupted"), "{}", world.log("k"));
        world.delete("GenericMachine", "k").await;
        world.gone("GenericMachine", "k").await;
        assert_eq!(world.leftovers("k").await, Vec::<String>::new());
        world.stop().await;
    });
}
