//! Machines with a real systemd become nodes of the real product by every road there is: Debian's cloud-init with the bootstrap data of a
//! native provider and of a driver, the one-line command for a host, the driver `ssh`; and go again, and leave nothing.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

#[path = "nodes/world.rs"]
mod world;

use peers::machine::{Image, Machine};
use serde_json::{Value, json};
use world::{NAMESPACE, World};

/// What the agent leaves on a host.
const AGENT_FILES: &str = "/etc/rancher/agent /var/lib/rancher/agent /usr/local/bin/rancher-system-agent \
     /usr/local/bin/rancher-system-agent-uninstall.sh /etc/systemd/system/rancher-system-agent.service";

/// A provider of no particular cloud, that keeps Cluster API's contract.
fn provider() -> Value {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let kind = |kind: &str| {
        let plural = format!("{}s", kind.to_lowercase());
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.cloud.example.com"), "labels": {"cluster.x-k8s.io/v1beta2": "v1"}},
            "spec": {
                "group": "cloud.example.com", "scope": "Namespaced",
                "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
                "versions": [{
                    "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}}
                }]
            }
        })
    };
    let all = ["CloudCluster", "CloudMachine", "CloudMachineTemplate"].map(kind);
    json!({"apiVersion": "v1", "kind": "List", "items": all})
}

/// A cluster of one machine whose infrastructure is that provider's.
fn native(userdata: &str) -> Value {
    let reference =
        |kind: &str| json!({"apiVersion": "cloud.example.com/v1", "kind": kind, "name": "native"});
    let object = |kind: &str, spec: Value| {
        let metadata = json!({"name": "native", "namespace": NAMESPACE});
        json!({"apiVersion": "cloud.example.com/v1", "kind": kind, "metadata": metadata, "spec": spec})
    };
    let pool = json!({
        "name": "all", "quantity": 1, "etcdRole": true, "controlPlaneRole": true, "workerRole": true,
        "machineConfigRef": reference("CloudMachineTemplate"), "userdata": {"inlineUserdata": userdata},
    });
    let config = json!({"infrastructureRef": reference("CloudCluster"), "machinePools": [pool]});
    let items = [
        object("CloudCluster", json!({"controlPlaneEndpoint": {"host": "192.0.2.1", "port": 6443}})),
        object("CloudMachineTemplate", json!({"template": {"spec": {}}})),
        cluster("native", config),
    ];
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

fn cluster(name: &str, config: Value) -> Value {
    json!({
        "apiVersion": "provisioning.cattle.io/v1", "kind": "Cluster",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"kubernetesVersion": "v1.34.2+k3s1", "rkeConfig": config},
    })
}

/// Boots a machine whose cloud gives it this user data.
fn boot(world: &World, name: &str, userdata: &str) -> Machine {
    let seed = world.directory.path().join(name);
    std::fs::create_dir(&seed).unwrap();
    std::fs::write(seed.join("meta-data"), format!("instance-id: {name}\nlocal-hostname: {name}\n")).unwrap();
    std::fs::write(seed.join("user-data"), userdata).unwrap();
    let volume = format!("--volume={}:/var/lib/cloud/seed/nocloud:ro", seed.display());
    Machine::boot_from(Image::Cloud, &world.network, name, &[&volume]).unwrap()
}

/// The machine has registered, and its agent runs.
fn is_node(world: &World, name: &str, machine: &Machine) {
    let id = world.registered(name);
    let log = || machine.sh("cat /var/log/cloud-init-output.log 2>/dev/null || true").unwrap();
    assert_eq!(machine.sh("cat /etc/rancher/agent/cattle-id").unwrap().trim(), id, "{}", log());
    assert_eq!(machine.sh("systemctl is-active rancher-system-agent").unwrap(), "active\n", "{}", log());
}

#[test]
#[ignore = "real: kubectl, node-image, cloud-image"]
fn cloud_init_runs_merged_user_data() {
    let Some(world) = World::start("native") else { return };
    world.apply(&provider());
    world.kubectl(&["wait", "crd", "--all", "--for=condition=Established", "--timeout=60s"]);
    let userdata = "#cloud-config\nwrite_files:\n- {path: /srv/from-user, content: \"hello from {{ v1.instance_id }}\", permissions: 0640}\n\
         runcmd:\n- [sh, -c, 'test -e /etc/rancher/agent/cattle-id && echo after > /srv/order']\n";
    world.apply(&native(userdata));
    world.says("cloudclusters", "native", &json!({"initialization": {"provisioned": true}}));
    let name = world.machine("native");
    let data = world.bootstrap_data(&name);
    assert!(data.starts_with("## template: jinja\n#cloud-config\n"), "{data}");
    let machine = boot(&world, "native", &data);
    world.kubectl(&[
        "patch",
        "cloudmachines",
        &name,
        "--type=merge",
        "-p",
        r#"{"spec":{"providerID":"cloud://1"}}"#,
    ]);
    world.says("cloudmachines", &name, &json!({"initialization": {"provisioned": true}}));
    is_node(&world, &name, &machine);
    // The user's part ran too, after ours, with the cloud's own values in it.
    assert_eq!(
        machine.sh("cat /srv/from-user; stat -c %a /srv/from-user").unwrap(),
        "hello from native640\n"
    );
    assert_eq!(machine.sh("cat /srv/order").unwrap(), "after\n");
    let status = machine.sh("cloud-init status").unwrap();
    assert!(status.contains("done"), "{status}");
    // The script holds a token: nobody else reads it.
    assert_eq!(machine.sh("stat -c %a /usr/local/custom_script/install.sh").unwrap(), "600\n");
    world.kubectl(&["delete", "clusters.provisioning.cattle.io", "native", "--timeout=120s"]);
}

#[test]
#[ignore = "real: kubectl, node-image, cloud-image"]
fn cloud_init_runs_the_script() {
    let Some(world) = World::start("script") else { return };
    // A driver whose servers never come: its bootstrap data are given to a server by hand.
    let absent = ["--driver=ssh", "--driver-option=address=[\"127.0.0.1:1\"]"];
    let words = ["create", "cluster", "script", "--pool=all:1:all"];
    world.herdsman(&[&words[..], &absent].concat());
    let name = world.machine("script");
    let data = world.bootstrap_data(&name);
    assert!(data.starts_with("#!"), "{data}");
    let machine = boot(&world, "script", &data);
    is_node(&world, &name, &machine);
}

/// A host is taken by one command and let go by one, and nothing of ours is on it afterwards.
#[test]
#[ignore = "real: kubectl, node-image, cloud-image"]
fn a_removed_host_is_clean() {
    let Some(world) = World::start("pets") else { return };
    world.herdsman(&["create", "cluster", "pets"]);
    let host = Machine::boot(&world.network, "host", &[]).unwrap();
    // What K3s's installer would have left; the installer itself is not to be had here.
    host.sh(
        "mkdir -p /etc/rancher/k3s /var/lib/rancher/k3s; \
         printf '#!/bin/sh\\nrm -r /etc/rancher/k3s /var/lib/rancher/k3s \"$0\"\\n' > /usr/local/bin/k3s-uninstall.sh; \
         chmod +x /usr/local/bin/k3s-uninstall.sh",
    )
    .unwrap();
    let found = "find /usr/local /etc/systemd /opt | sort";
    let before = host.sh(found).unwrap().replace("/usr/local/bin/k3s-uninstall.sh\n", "");
    let words = ["node-command", "pets", "--insecure", "--label", "rack=7"];
    let line = world.until("the command", || world.try_herdsman(&words).ok());
    host.sh(&line.replace("sudo ", "")).unwrap();
    let machine = world.machine("pets");
    let id = world.registered(&machine);
    assert_eq!(host.sh("cat /etc/rancher/agent/cattle-id").unwrap().trim(), id);

    world.kubectl(&["delete", "machines.cluster.x-k8s.io", &machine, "--timeout=240s"]);
    let gone = format!(
        "for path in {AGENT_FILES} /etc/rancher/k3s /var/lib/rancher/k3s; do test ! -e $path || exit 1; done; \
         test \"$(systemctl is-active rancher-system-agent)\" = inactive"
    );
    world.until("the host is clean", || host.sh(&gone).ok());
    assert_eq!(host.sh(found).unwrap(), before);
    assert_eq!(host.sh("pgrep -f '[r]ancher-system-agent' || true").unwrap(), "");
    // Nothing was given up: the host said that it is done.
    let events = world.list("events");
    assert!(!events.iter().any(|event| event["reason"] == "HostNotCleaned"), "{events:#?}");
    for kind in ["custommachines.rke.cattle.io", "rkebootstraps.rke.cattle.io"] {
        world.until("it is forgotten", || world.list(kind).is_empty().then_some(()));
    }

    // It may come back.
    host.sh(&line.replace("sudo ", "")).unwrap();
    let machine = world.machine("pets");
    assert_ne!(world.registered(&machine), id, "as another one");
}

/// Hosts of the driver `ssh`, with the key that most people have; `herdsman ssh` uses what the driver kept.
#[test]
#[ignore = "real: kubectl, node-image, cloud-image"]
fn the_keys_of_a_server_open_it() {
    let Some(world) = World::start("ssh") else { return };
    let host = Machine::boot(&world.network, "host", &[]).unwrap();
    let key = host
        .sh("umask 077; mkdir -p /root/.ssh; ssh-keygen -q -t rsa -b 2048 -N '' -f /root/key; \
             cp /root/key.pub /root/.ssh/authorized_keys; cat /root/key; rm /root/key /root/key.pub")
        .unwrap();
    let address = host.sh("hostname -I").unwrap().split_whitespace().next().unwrap().to_owned();
    world.apply(&json!({
        "apiVersion": "rke-machine-config.cattle.io/v1", "kind": "SshConfig",
        "metadata": {"name": "hosts", "namespace": NAMESPACE}, "address": [address], "sshKey": key,
    }));
    let pool = json!({
        "name": "all", "quantity": 1, "etcdRole": true, "controlPlaneRole": true, "workerRole": true,
        "machineConfigRef": {"kind": "SshConfig", "name": "hosts"},
    });
    world.apply(&cluster("ssh", json!({"machinePools": [pool]})));
    let machine = world.machine("ssh");
    let id = world.registered(&machine);
    let said = world.until("its keys", || {
        let secrets = world.list("secrets");
        let state = secrets.iter().find(|one| one["type"] == "rke.cattle.io/machine-state")?;
        state["data"]["extractedConfig"].as_str().filter(|text| !text.is_empty())?;
        let ready = world.list("sshmachines.rke-machine.cattle.io");
        let conditions = ready[0]["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().find(|one| one["type"] == "Ready" && one["status"] == "True")?;
        Some(world.herdsman(&["ssh", &machine, "--", "cat", "/etc/rancher/agent/cattle-id"]))
    });
    assert_eq!(said.trim(), id);

    // Whoever answers there now is not who did.
    host.sh("rm /etc/ssh/ssh_host_*; ssh-keygen -A; systemctl restart ssh").unwrap();
    let refused = world.try_herdsman(&["ssh", &machine, "--", "true"]).unwrap_err().to_string();
    assert!(refused.contains("Host key verification failed"), "{refused}");
}
