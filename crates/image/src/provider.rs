//! Kubelet's credential providers: programs that know the credentials of some images.
//!
//! The file is a `CredentialProviderConfig` of `kubelet.config.k8s.io`. A program gets a request on its standard input and
//! answers on its standard output. Answers are not kept: the agent pulls too rarely for that.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use crate::registries::Auth;

/// How long a program may take; kubelet's own limit.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The longest answer that is read.
const MAX_ANSWER: u64 = 1 << 20;

/// Why a provider is of no use.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{}: {message}", path.display())]
    Parse { path: PathBuf, message: String },
    #[error("provider `{0}` is not a plain file name")]
    Name(String),
    #[error("{}: {source}", program.display())]
    Run { program: PathBuf, source: io::Error },
    #[error("{} did not answer within {} s", program.display(), TIMEOUT.as_secs())]
    Timeout { program: PathBuf },
    #[error("{} failed: {message}", program.display())]
    Failed { program: PathBuf, message: String },
    #[error("{} answers what is not understood: {message}", program.display())]
    Answer { program: PathBuf, message: String },
}

#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    providers: Vec<Provider>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Provider {
    name: String,
    #[serde(default)]
    match_images: Vec<String>,
    #[serde(default = "default_version")]
    api_version: String,
    #[serde(default)]
    args: Option<Vec<String>>,
    #[serde(default)]
    env: Option<Vec<Variable>>,
}

#[derive(Deserialize)]
struct Variable {
    name: String,
    #[serde(default)]
    value: String,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    auth: Option<BTreeMap<String, Auth>>,
}

fn default_version() -> String {
    "credentialprovider.kubelet.k8s.io/v1".into()
}

/// The credentials for an image from the first provider that is meant for it and has some. No file is no providers.
pub(crate) async fn credentials(config: &Path, programs: &Path, image: &str) -> Result<Option<Auth>, Error> {
    let text = match std::fs::read_to_string(config) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        text => text.map_err(|source| Error::Read { path: config.into(), source })?,
    };
    let parsed: Result<Config, _> = serde_saphyr::from_str(&text);
    let parsed = parsed.map_err(|error| Error::Parse { path: config.into(), message: error.to_string() })?;
    for provider in &parsed.providers {
        if provider.match_images.iter().any(|pattern| matches(pattern, image))
            && let Some(auth) = choose(provider.ask(programs, image).await?, image)
        {
            return Ok(Some(auth));
        }
    }
    Ok(None)
}

impl Provider {
    async fn ask(&self, programs: &Path, image: &str) -> Result<Answer, Error> {
        if self.name.is_empty() || self.name.contains('/') || [".", ".."].contains(&self.name.as_str()) {
            return Err(Error::Name(self.name.clone()));
        }
        let program = programs.join(&self.name);
        let request = serde_json::json!({
            "kind": "CredentialProviderRequest", "apiVersion": self.api_version, "image": image,
        });
        let mut command = Command::new(&program);
        command.args(self.args.iter().flatten()).kill_on_drop(true);
        command.envs(self.env.iter().flatten().map(|variable| (&variable.name, &variable.value)));
        let answer = tokio::time::timeout(TIMEOUT, run(command, request.to_string()));
        let answer = answer.await.map_err(|_| Error::Timeout { program: program.clone() })?;
        let (succeeded, output, errors) =
            answer.map_err(|source| Error::Run { program: program.clone(), source })?;
        if !succeeded {
            return Err(Error::Failed { program, message: errors.trim().chars().take(300).collect() });
        }
        serde_json::from_slice(&output).map_err(|error| Error::Answer { program, message: error.to_string() })
    }
}

/// Runs a program with an input; whether it succeeded, its output and its complaints.
async fn run(mut command: Command, input: String) -> io::Result<(bool, Vec<u8>, String)> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let write = async {
        if let Some(mut stdin) = stdin {
            // A program that does not care for its input may be gone already.
            let _ = stdin.write_all(input.as_bytes()).await;
        }
    };
    let (mut output, mut errors) = (Vec::new(), Vec::new());
    let read = async {
        match stdout {
            Some(stdout) => stdout.take(MAX_ANSWER).read_to_end(&mut output).await,
            None => Ok(0),
        }
    };
    let complain = async {
        match stderr {
            Some(stderr) => stderr.take(MAX_ANSWER).read_to_end(&mut errors).await,
            None => Ok(0),
        }
    };
    let ((), read, complain) = tokio::join!(write, read, complain);
    read?;
    complain?;
    let status = child.wait().await?;
    Ok((status.success(), output, String::from_utf8_lossy(&errors).into_owned()))
}

/// The credentials of an answer for an image: the most specific pattern first.
fn choose(answer: Answer, image: &str) -> Option<Auth> {
    let auths = answer.auth.unwrap_or_default();
    auths.into_iter().rev().find(|(pattern, _)| matches(pattern, image)).map(|(_, auth)| auth)
}

/// Whether an image is meant: as many host segments, each matching, the same port, and the path's beginning.
fn matches(pattern: &str, image: &str) -> bool {
    let split = |text: &str| {
        let text = text.split_once("://").map_or(text, |(_, rest)| rest);
        let (authority, path) = text.split_once('/').unwrap_or((text, ""));
        let (host, port) = authority.rsplit_once(':').unwrap_or((authority, ""));
        (host.to_owned(), port.to_owned(), path.to_owned())
    };
    let ((host, port, path), (image_host, image_port, image_path)) = (split(pattern), split(image));
    let (segments, image_segments): (Vec<_>, Vec<_>) =
        (host.split('.').collect(), image_host.split('.').collect());
    segments.len() == image_segments.len()
        && port == image_port
        && image_path.starts_with(&path)
        && segments.iter().zip(&image_segments).all(|(pattern, text)| glob(pattern, text))
}

/// `*` is any number of characters.
fn glob(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((before, after)) => text.strip_prefix(before).is_some_and(|rest| {
            rest.char_indices()
                .map(|(index, _)| index)
                .chain([rest.len()])
                .any(|index| glob(after, &rest[index..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn patterns_match_images() {
        for (pattern, image, expected) in [
            ("r.io", "r.io/a/b", true),
            ("r.io", "s.io/a/b", false),
            ("*.r.io", "x.r.io/a", true),
            ("*.r.io", "r.io/a", false),
            ("*.*.r.io", "x.y.r.io/a", true),
            ("*.dkr.ecr.*.amazonaws.com", "123.dkr.ecr.eu-1.amazonaws.com/a", true),
            ("app*.r.io", "app1.r.io/a", true),
            ("app*x.r.io", "app1.r.io/a", false),
            ("r.io/team", "r.io/team/a", true),
            ("r.io/team", "r.io/other", false),
            ("r.io:5000", "r.io/a", false),
            ("r.io:5000", "r.io:5000/a", true),
        ] {
            assert_eq!(matches(pattern, image), expected, "{pattern} {image}");
        }
    }

    fn provider(script: &str) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("p");
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let config = directory.path().join("config.yaml");
        let text = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n- name: p\n  \
                    matchImages: [\"*.r.io\"]\n  defaultCacheDuration: 1m\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n  \
                    args: [from-args]\n  env: [{name: SECRET, value: from-env}]\n";
        std::fs::write(&config, text).unwrap();
        (directory, config)
    }

    /// One test: a program that is being written while another test starts one cannot be started itself.
    #[tokio::test]
    async fn a_program_is_asked_and_its_failure_told() {
        let script = r#"#!/bin/sh
            grep -q '"image":"x.r.io/a"' || exit 1
            echo "{\"auth\":{\"x.r.io\":{\"username\":\"$1\",\"password\":\"$SECRET\"},\"*.r.io\":{\"username\":\"less specific\"}}}""#;
        let (directory, config) = provider(script);
        let auth = credentials(&config, directory.path(), "x.r.io/a").await.unwrap().unwrap();
        assert_eq!((auth.username.as_str(), auth.password.as_str()), ("from-args", "from-env"));
        assert!(credentials(&config, directory.path(), "other.io/a").await.unwrap().is_none());

        let (directory, config) = provider("#!/bin/sh\necho it is broken >&2\nexit 3\n");
        let error = credentials(&config, directory.path(), "x.r.io/a").await.unwrap_err();
        assert!(error.to_string().contains("it is broken"), "{error}");
        let missing = directory.path().join("none.yaml");
        assert!(credentials(&missing, directory.path(), "x.r.io/a").await.unwrap().is_none());
    }
}
