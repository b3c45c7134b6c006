//! One attempt at a Job: what a kubelet and rancher-machine's image do together.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::{Container, PodSpec, Secret, SecretVolumeSource};
use kit::Object;
use machine::{Command, Output, Task};
use serde::Deserialize as _;
use tokio::sync::oneshot;

use super::context::Context;
use super::documents::{self, End};
use super::files::{self, Files};
use super::{paths, process, state};
use crate::machine::rendering::Rendered;

/// Exit code of a program that was killed.
const KILLED: i32 = 137;
/// How much of what a program says is remembered for its pod.
const REMEMBERED: usize = 8 << 10;

/// Runs a Job's program to its end, or until it is not wanted any more.
pub(super) async fn begin(
    context: Arc<Context>,
    job: Arc<Object>,
    pod: Arc<Object>,
    rendered: Result<Rendered, String>,
    unwanted: oneshot::Receiver<()>,
) {
    let files = Files::of(&context.settings.directory, pod.uid());
    let transcript = Transcript::open(&context, &job, &pod);
    let end = tokio::select! {
        biased;
        _ = unwanted => {
            transcript.say("ended: the Job was deleted");
            None
        }
        exit_code = work(&context, (&job, &pod), rendered, &files, &transcript) => {
            Some(End { exit_code, words: transcript.words() })
        }
    };
    if let Some(end) = &end
        && let Err(error) = files.note_end(end)
    {
        tracing::warn!(job = %job.key(), %error, "how a Job ended is not noted");
    }
    finish(&context, &job, &pod, &files, end).await;
}

/// Ends an attempt that another process of ours began: it is over, in whatever way.
pub(super) async fn recover(context: Arc<Context>, job: Arc<Object>, pod: Arc<Object>) {
    let files = Files::of(&context.settings.directory, pod.uid());
    process::end_noted(&files).await;
    let end = files.noted_end().unwrap_or_else(|| {
        let transcript = Transcript::open(&context, &job, &pod);
        transcript.say("the driver was interrupted: the server that ran it was stopped");
        End { exit_code: KILLED, words: transcript.words() }
    });
    finish(&context, &job, &pod, &files, Some(end)).await;
}

/// First what is known of the server is kept, then everybody may know how it ended.
async fn finish(context: &Context, job: &Object, pod: &Object, files: &Files, end: Option<End>) {
    state::save(context, job, files).await;
    if let Some(end) = end {
        loop {
            let known = context.pods.get(&pod.key());
            let started = known.as_ref().and_then(|pod| pod.document()["status"]["startTime"].as_str());
            let status = documents::ended(pod, &end, started.map(str::to_owned), context.clock.now());
            match context.put_status(&context.pods, pod, status).await {
                Ok(Some(revision)) => {
                    context.pods.expect_revision(revision).wait().await;
                    break;
                }
                Ok(None) => break,
                Err(error) => tracing::warn!(job = %job.key(), %error, "how a Job ended is not written yet"),
            }
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        }
    }
    files.remove();
    context.ended(pod.uid());
}

/// Prepares what the program needs and runs it. Gives its exit code.
async fn work(
    context: &Context,
    (job, pod): (&Object, &Object),
    rendered: Result<Rendered, String>,
    files: &Files,
    transcript: &Transcript,
) -> i32 {
    let prepared = match rendered {
        Ok(rendered) => prepare(context, job, &rendered, files).await.map(|prepared| (rendered, prepared)),
        Err(words) => Err(words),
    };
    let (rendered, prepared) = match prepared {
        Ok(both) => both,
        Err(words) => {
            transcript.say(words);
            return machine::run::FAILURE;
        }
    };
    // That it runs is for people to see; work does not stop for it.
    let status = documents::running(pod, context.clock.now());
    if let Err(error) = context.put_status(&context.pods, pod, status).await {
        tracing::debug!(job = %job.key(), %error, "that a Job runs is not written");
    }
    let Prepared { command, environment, words } = prepared;
    let (output, driver) = (transcript.output(), rendered.driver.as_str());
    if context.settings.drivers.get(driver).is_some() {
        let (storage, mounts) = (files.storage(), files.mounted(""));
        let (owner, command) = (rendered.owner.as_str(), &command);
        let task = Task { command, driver, owner, environment, storage: &storage, files: &mounts };
        return machine::run(&context.settings.drivers, task, &output).await;
    }
    if let Some(words) = machine::drivers::off(driver) {
        transcript.say(words);
        return machine::run::FAILURE;
    }
    let authorities = context.server.borrow().ca_certificates.clone();
    let job = process::Asked {
        command: &command,
        driver,
        words: &words,
        authorities: &authorities,
        remembered: rendered.remembered,
    };
    let _turn = context.processes.acquire().await;
    process::run(&context.settings, job, environment, files, &output).await
}

struct Prepared {
    command: Command,
    environment: BTreeMap<String, String>,
    /// The command line, with paths as they are here.
    words: Vec<String>,
}

async fn prepare(
    context: &Context,
    job: &Object,
    rendered: &Rendered,
    files: &Files,
) -> Result<Prepared, String> {
    let file_error = |error: std::io::Error| format!("cannot write the files of the Job: {error}");
    files.create().map_err(file_error)?;
    let spec = &rendered.ordered.job.document()["spec"]["template"]["spec"];
    let spec =
        PodSpec::deserialize(spec).map_err(|error| format!("the Job's pod cannot be read: {error}"))?;
    let container = spec.containers.first().ok_or("the Job has no container")?;
    let mut words = container.args.clone().unwrap_or_default();
    let secrets = Secrets { context, job, rendered };
    let mut environment = environment(&secrets, container).await?;
    for mount in mounts(&secrets, &spec, container).await? {
        let here = files.mounted(&mount.at);
        for (name, content) in &mount.files {
            let path = if name.is_empty() { here.clone() } else { here.join(name) };
            files.mount(&path, content, mount.mode).map_err(file_error)?;
        }
        words.iter_mut().for_each(|word| *word = moved(word, &mount.at, &here.display().to_string()));
        // The image trusts what is in this directory.
        if let Some(directory) = here.parent().filter(|_| mount.at.starts_with("/etc/rancher/ssl/")) {
            environment.insert("SSL_CERT_DIR".into(), format!("{}:/etc/ssl/certs", directory.display()));
        }
    }
    let command = Command::parse(&words).map_err(|error| error.to_string())?;
    // Drivers of our own open files of their order only; rancher-machine opens every path in its arguments.
    let is_process = context.settings.drivers.get(&rendered.driver).is_none();
    if let Some(path) = paths::outside(&words, &files.mounted(""), &paths::roots()).filter(|_| is_process) {
        return Err(format!("{path} is not a file of the Job: its command reads nothing else on the server"));
    }
    state::load(context, job, files).await?;
    Ok(Prepared { command, environment, words })
}

async fn environment(
    secrets: &Secrets<'_>,
    container: &Container,
) -> Result<BTreeMap<String, String>, String> {
    let mut all = BTreeMap::new();
    for source in container.env_from.iter().flatten() {
        let Some(secret) = &source.secret_ref else { continue };
        let data = secrets.read(&secret.name).await?;
        let texts = data.into_iter().filter_map(|(key, value)| Some((key, String::from_utf8(value).ok()?)));
        all.extend(texts);
    }
    Ok(all)
}

struct Mount {
    at: String,
    mode: u32,
    /// By name; a single file has none.
    files: BTreeMap<String, Vec<u8>>,
}

async fn mounts(secrets: &Secrets<'_>, spec: &PodSpec, container: &Container) -> Result<Vec<Mount>, String> {
    let mut all = Vec::new();
    for mount in container.volume_mounts.iter().flatten() {
        let volume = spec.volumes.iter().flatten().find(|volume| volume.name == mount.name);
        let Some(source) = volume.and_then(|volume| volume.secret.as_ref()) else {
            return Err(format!("volume {:?} is not a Secret", mount.name));
        };
        let data = secrets.read(source.secret_name.as_deref().unwrap_or_default()).await?;
        let mut files = chosen(source, data);
        if let Some(key) = &mount.sub_path {
            let content = files.remove(key).ok_or_else(|| format!("a Secret has no key {key:?}"))?;
            files = BTreeMap::from([(String::new(), content)]);
        }
        let mode = source.default_mode.and_then(|mode| u32::try_from(mode).ok()).unwrap_or(0o644);
        all.push(Mount { at: mount.mount_path.clone(), mode, files });
    }
    Ok(all)
}

fn chosen(source: &SecretVolumeSource, mut data: BTreeMap<String, Vec<u8>>) -> BTreeMap<String, Vec<u8>> {
    match &source.items {
        None => data,
        Some(items) => {
            let pick = |item: &k8s_openapi::api::core::v1::KeyToPath| {
                Some((item.path.clone(), data.remove(&item.key)?))
            };
            items.iter().map(pick).collect::<Vec<_>>().into_iter().flatten().collect()
        }
    }
}

/// The Secrets that a Job takes.
struct Secrets<'a> {
    context: &'a Context,
    job: &'a Object,
    rendered: &'a Rendered,
}

impl Secrets<'_> {
    /// What is rendered is not read again: somebody may have written it meanwhile. What is left is the bootstrap Secret.
    async fn read(&self, name: &str) -> Result<BTreeMap<String, Vec<u8>>, String> {
        let cannot = |error: &dyn std::fmt::Display| format!("cannot read Secret {name}: {error}");
        let mut objects = self.rendered.ordered.objects.iter();
        let secret = match objects.find(|object| object.kind() == "Secret" && object.name() == name) {
            Some(made) => Secret::deserialize(made.document()).map_err(|error| cannot(&error))?,
            None => state::secrets(self.context, self.job).get(name).await.map_err(|error| cannot(&error))?,
        };
        Ok(secret.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0)).collect())
    }
}

/// A word of the command line whose value is a path under `from`.
fn moved(word: &str, from: &str, to: &str) -> String {
    let Some((flag, value)) = word.split_once('=').filter(|(flag, _)| flag.starts_with("--")) else {
        return word.to_owned();
    };
    match value.strip_prefix(from) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("{flag}={to}{rest}"),
        _ => word.to_owned(),
    }
}

/// What a program says: into the log, and the end of it into memory.
#[derive(Clone)]
struct Transcript {
    inner: Arc<Mutex<Said>>,
}

struct Said {
    log: Option<std::fs::File>,
    words: String,
}

impl Transcript {
    fn open(context: &Context, job: &Object, pod: &Object) -> Self {
        let path = files::log(&context.settings.directory, job.namespace(), job.name());
        let log = files::open_log(&path).and_then(|mut log| {
            writeln!(log, "--- {} {}", kit::conditions::seconds(context.clock.now()).0, pod.name())?;
            Ok(log)
        });
        let log = log.map_err(|error| tracing::warn!(path = %path.display(), %error, "there is no log")).ok();
        Transcript { inner: Arc::new(Mutex::new(Said { log, words: String::new() })) }
    }

    fn say(&self, words: impl AsRef<str>) {
        let mut said = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        for line in words.as_ref().lines() {
            if let Some(log) = &mut said.log {
                // A full disk does not stop work.
                let _ = writeln!(log, "{line}");
            }
            said.words.push_str(line);
            said.words.push('\n');
        }
        let too_much = said.words.len().saturating_sub(REMEMBERED);
        if let Some(end) = said.words[floor(&said.words, too_much)..].find('\n').filter(|_| too_much > 0) {
            let cut = floor(&said.words, too_much) + end + 1;
            said.words.drain(..cut);
        }
    }

    fn output(&self) -> Output {
        let transcript = self.clone();
        Output::new(move |line| transcript.say(line))
    }

    fn words(&self) -> String {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).words.clone()
    }
}

/// The next place from `at` on where a letter begins.
fn floor(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_the_container_are_paths_here() {
        let here = |word: &str| moved(word, "/path/to/machine/files", "/data/u/files");
        assert_eq!(here("--x-key=/path/to/machine/files/id_rsa"), "--x-key=/data/u/files/id_rsa");
        assert_eq!(here("--x-key=/path/to/machine/filesystem"), "--x-key=/path/to/machine/filesystem");
        assert_eq!(here("--x-text=see /path/to/machine/files/a"), "--x-text=see /path/to/machine/files/a");
        assert_eq!(here("/path/to/machine/files/a"), "/path/to/machine/files/a", "names are not paths");
    }

    #[test]
    fn only_the_end_is_remembered() {
        let transcript = Transcript { inner: Arc::new(Mutex::new(Said { log: None, words: String::new() })) };
        for number in 0..5000 {
            transcript.say(format!("line {number} ä"));
        }
        let words = transcript.words();
        assert!(words.len() <= REMEMBERED + 20 && words.starts_with("line "), "{}", words.len());
        assert!(words.ends_with("line 4999 ä\n"));
    }
}
