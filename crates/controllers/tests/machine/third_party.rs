//! A driver of somebody else's, named by URL and checksum: fetched, checked, asked for its flags, run by the real rancher-machine; and its
//! next version. In real time, on a host with a real sshd.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::{Arc, Mutex};

use peers::docker::{Docker, Network};
use peers::machine::Machine;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::rancher::PREPARE;
use crate::world::{World, condition};

/// A web server with files to download; it counts.
#[derive(Clone, Default)]
struct Web {
    files: BTreeMap<String, Vec<u8>>,
    served: Arc<Mutex<Vec<String>>>,
}

impl Web {
    /// Serves until the runtime ends. Gives its URL.
    async fn start(self) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(self.clone().answer(stream));
            }
        });
        url
    }

    async fn answer(self, mut stream: tokio::net::TcpStream) {
        let mut request = vec![0; 4096];
        let length = stream.read(&mut request).await.unwrap_or(0);
        let request = String::from_utf8_lossy(&request[..length]).into_owned();
        let path = request.split_whitespace().nth(1).unwrap_or_default().to_owned();
        let empty = Vec::new();
        let (status, body) = match self.files.get(&path) {
            Some(body) => ("200 OK", body),
            None => ("404 Not Found", &empty),
        };
        self.served.lock().unwrap().push(path);
        let head =
            format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
        let _ = stream.write_all(head.as_bytes()).await;
        let _ = stream.write_all(body).await;
    }
}

/// The second version comes as an archive, with a file beside the program.
fn packed(program: &std::path::Path) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    std::fs::copy(program, directory.path().join("docker-machine-driver-shed")).unwrap();
    std::fs::write(directory.path().join("LICENSE"), "free").unwrap();
    let mut tar = Command::new("tar");
    tar.args(["czf", "shed.tar.gz", "LICENSE", "docker-machine-driver-shed"]).current_dir(directory.path());
    peers::command::run(&mut tar).unwrap();
    std::fs::read(directory.path().join("shed.tar.gz")).unwrap()
}

fn checksum(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The fields of one of the driver's kinds, as its CRD has them.
async fn fields(world: &World, kind: &str, place: &str) -> Value {
    let all = world.list("CustomResourceDefinition").await;
    let kind = all.iter().find(|one| one["spec"]["names"]["kind"] == kind).unwrap();
    kind["spec"]["versions"][0]["schema"]["openAPIV3Schema"].pointer(place).unwrap().clone()
}

#[test]
#[ignore = "peers: third-party-driver, rancher-machine"]
fn a_driver_by_url_makes_a_server_and_its_next_version_follows() {
    if peers::machine::skip("third-party-driver") {
        return;
    }
    let rancher_machine = peers::Peer::RancherMachine.provide().unwrap().path.join("rancher-machine");
    let driver = peers::Peer::ThirdPartyDriver.provide().unwrap().path;
    let network = Network::create(&Docker::shared().unwrap(), "shed").unwrap();
    let host = Machine::boot(&network, "host", &[]).unwrap();
    let key = host.sh(PREPARE).unwrap();
    let address = host.sh("hostname -I").unwrap().split_whitespace().next().unwrap().to_owned();
    let (first, second) = (std::fs::read(driver.join("first")).unwrap(), packed(&driver.join("second")));
    let checksums = [checksum(&first), checksum(&second)];
    let files = BTreeMap::from([("/first".to_owned(), first), ("/second.tar.gz".to_owned(), second)]);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let web = Web { files, served: Arc::default() };
        let served = web.served.clone();
        let url = web.start().await;
        let mut world = World::empty().await;
        world.rancher_machine = Some(rancher_machine);
        world.start();
        world.cluster().await;

        // Another file than the one that was meant is not run.
        let marks = json!({
            "privateCredentialFields": "token", "nodedriver.cattle.io/file-to-field-aliases": "sshKey:sshKeyPath",
        });
        let spec = json!({"active": true, "displayName": "shed", "url": format!("{url}/first"), "checksum": "0".repeat(64)});
        world.create("NodeDriver", "shed", json!({"metadata": {"annotations": marks}, "spec": spec})).await;
        world.condition("NodeDriver", "shed", "Downloaded", "False").await;
        let refused = world.get("NodeDriver", "shed").await;
        let words = condition(&refused, "Downloaded")["message"].as_str().unwrap().to_owned();
        assert!(words.contains(&checksums[0]) && words.contains("not 0000"), "{words}");
        assert_eq!(world.find("DynamicSchema", "shedconfig").await, None);

        world.patch("NodeDriver", "shed", json!({"spec": {"checksum": checksums[0]}})).await;
        world.condition("NodeDriver", "shed", "Active", "True").await;
        let config = fields(&world, "ShedConfig", "/properties").await;
        assert_eq!(config["sshPort"]["default"], "22");
        assert_eq!((config.get("sshKeyPath"), config.get("shelf")), (None, None));
        assert!(config["sshKey"].is_object() && config["tag"]["type"] == "array", "{config}");
        let machine = fields(&world, "ShedMachine", "/properties/spec/properties").await;
        assert!(machine["address"].is_object(), "{machine}");

        // What an annotation says of a field later on is so from then on, though the program is the same.
        let mark = json!({"metadata": {"annotations": {"passwordFields": "address"}}});
        world.patch("NodeDriver", "shed", mark).await;
        world
            .until(120, "the field is a password", async || {
                let schema = world.get("DynamicSchema", "shedconfig").await;
                let field = schema["spec"]["resourceFields"]["address"]["type"].clone();
                if field == "password" { Ok(()) } else { Err(field.to_string()) }
            })
            .await;

        // A machine of it: its words when it refuses, then a server.
        let credential = |token: &str| json!({"stringData": {"shedcredentialConfig-token": token}});
        world.create("Secret", "cc", credential("guess")).await;
        let spec = json!({"address": address, "sshKey": key, "common": {"cloudCredentialSecretName": "cc"}});
        world.machine_of("ShedMachine", "w", spec.clone()).await;
        world.condition("ShedMachine", "w", "CreateJob", "False").await;
        let failed = world.get("ShedMachine", "w").await;
        let words = condition(&failed, "CreateJob")["message"].as_str().unwrap().to_owned();
        assert!(words.contains("the shed stays closed: wrong token"), "{words}");
        world.delete("ShedMachine", "w").await;
        world.gone("ShedMachine", "w").await;
        world.patch("Secret", "cc", credential("open sesame")).await;
        world.machine_of("ShedMachine", "m", spec).await;
        world.condition("ShedMachine", "m", "Ready", "True").await;
        assert_eq!(host.sh("cat /hello; hostname").unwrap(), "hello\nm\n");

        // The next version has a field more.
        let next = json!({"spec": {"url": format!("{url}/second.tar.gz"), "checksum": checksums[1]}});
        world.patch("NodeDriver", "shed", next).await;
        for (kind, place) in [("ShedConfig", "/properties"), ("ShedMachine", "/properties/spec/properties")] {
            world
                .until(120, "the kinds follow", async || {
                    let fields = fields(&world, kind, place).await;
                    if fields["shelf"].is_object() { Ok(()) } else { Err(fields.to_string()) }
                })
                .await;
        }
        let config = fields(&world, "ShedConfig", "/properties").await;
        assert_eq!(config["shelf"]["default"], "top");
        world.stop().await;
        let count = |path: &str| served.lock().unwrap().iter().filter(|one| *one == path).count();
        assert!(count("/first") >= 2, "once for the wrong checksum, once for the right one");
    });
}
