use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};

use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};

/// The program with arguments, in an environment that says nothing.
pub(crate) fn herdsman(arguments: &[&str]) -> Command {
    let mut herdsman = Command::new(env!("CARGO_BIN_EXE_herdsman"));
    herdsman.args(arguments).env_remove("HERDSMAN_DATA_DIR");
    herdsman
}

pub(crate) fn run(arguments: &[&str]) -> Output {
    herdsman(arguments).output().unwrap()
}

/// What a command says that has to succeed.
pub(crate) fn succeed(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What a command says that has to fail with this code.
pub(crate) fn fail(arguments: &[&str], code: i32) -> String {
    let output = run(arguments);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    said
}

/// A server on a data directory.
pub(crate) struct Server {
    child: Child,
    pub(crate) secrets: Api<Secret>,
}

impl Server {
    pub(crate) async fn start(directory: &Path) -> Self {
        Server::start_with(directory, &[]).await
    }

    pub(crate) async fn start_with(directory: &Path, more: &[&str]) -> Self {
        let mut command = herdsman(&["apiserver", "--listen", "127.0.0.1:0", "--data-dir", text(directory)]);
        let mut child = command.args(more).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("ready url=https://"), "{line:?}");
        let kubeconfig = Kubeconfig::read_from(directory.join("admin.kubeconfig")).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        let client = Client::try_from(config).unwrap();
        Server { child, secrets: Api::default_namespaced(client) }
    }

    /// Creates a Secret.
    pub(crate) async fn create(&self, name: &str, word: &str) {
        let metadata = ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() };
        let secret = Secret { metadata, string_data: Some(data(word)), ..Secret::default() };
        self.secrets.create(&PostParams::default(), &secret).await.unwrap();
    }

    /// Changes it.
    pub(crate) async fn change(&self, name: &str, word: &str) {
        let patch = Secret { string_data: Some(data(word)), ..Secret::default() };
        self.secrets.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    }

    /// The word in it, and its revision.
    pub(crate) async fn read(&self, name: &str) -> (String, i64) {
        let secret = self.secrets.get(name).await.unwrap();
        let word = String::from_utf8(secret.data.unwrap()["word"].0.clone()).unwrap();
        (word, secret.metadata.resource_version.unwrap().parse().unwrap())
    }

    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    pub(crate) fn stop(mut self) -> ExitStatus {
        self.signal("-TERM");
        self.child.wait().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // One that was stopped is not there any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn data(word: &str) -> std::collections::BTreeMap<String, String> {
    [("word".to_owned(), word.to_owned())].into()
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Whether a word is in one of the files of a directory that begin with `herdsman.db`.
pub(crate) fn is_in_database(directory: &Path, word: &str) -> bool {
    let entries = directory.read_dir().unwrap().map(|entry| entry.unwrap().path());
    let files = entries.filter(|path| text(path).contains("herdsman.db"));
    files
        .map(|path| std::fs::read(path).unwrap())
        .any(|file| file.windows(word.len()).any(|window| window == word.as_bytes()))
}
