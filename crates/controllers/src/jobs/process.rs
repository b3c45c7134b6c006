//! rancher-machine as a process of ours.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use machine::run::FAILURE;
use machine::{Command, Output, download};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};

use super::files::Files;
use super::{Confinement, Settings};

/// What a Job asks of rancher-machine.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    /// What its command line means.
    pub(super) command: &'a Command,
    /// The driver.
    pub(super) driver: &'a str,
    /// Its command line, with paths as they are here.
    pub(super) words: &'a [String],
    /// Whom to trust beside the system's authorities, as PEM.
    pub(super) authorities: &'a str,
    /// Whether only the machine remembers where the driver comes from: it is not fetched then.
    pub(super) remembered: bool,
}

/// Runs rancher-machine with a Job's command line. Gives its exit code.
///
/// It is not given the Secret with the state, nor a way to it: the state is unpacked in its storage directory.
pub(super) async fn run(
    settings: &Settings,
    job: Asked<'_>,
    environment: BTreeMap<String, String>,
    files: &Files,
    output: &Output,
) -> i32 {
    match try_run(settings, job, environment, files, output).await {
        Ok(code) => code,
        Err(words) => {
            output.say(words);
            FAILURE
        }
    }
}

async fn try_run(
    settings: &Settings,
    job: Asked<'_>,
    environment: BTreeMap<String, String>,
    files: &Files,
    output: &Output,
) -> Result<i32, String> {
    let binary = settings.rancher_machine.as_deref().ok_or(
        "there is no rancher-machine here: install it and name it with --machine-binary, or put it on the PATH",
    )?;
    of_this_driver(&job, files)?;
    let (path, kept) = search_path(settings, binary, &job, &environment, output).await?;
    let storage = files.storage();
    let readable = [binary.to_owned(), files.mounted("")].into_iter().chain(kept).collect::<Vec<_>>();
    let line = line(settings.confinement.as_ref(), binary, &readable, &storage);
    let mut program = tokio::process::Command::new(&line[0]);
    program
        .args(&line[1..])
        .arg("--storage-path")
        .arg(&storage)
        .args(arguments(job.words))
        .env_clear()
        .envs(environment.into_iter().filter(|(name, _)| is_for_a_driver(name)))
        .env("HOME", &storage)
        .env("PATH", path)
        // The only place where it may write.
        .env("TMPDIR", &storage)
        .current_dir(&storage)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // Its own group, so that the plugins that it starts end with it.
        .process_group(0)
        .kill_on_drop(true);
    let mut child = program.spawn().map_err(|error| format!("cannot start {}: {error}", binary.display()))?;
    let group = Group::of(&child);
    if let Some(pid) = child.id() {
        let note = format!("{pid} {}", start_of(pid).unwrap_or_default());
        files.note_process(&note).map_err(|error| format!("cannot write a file: {error}"))?;
    }
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let ended = async {
        tokio::join!(say(out, output), say(err, output));
        child.wait().await
    };
    let ended = ended.await;
    drop(group);
    match ended {
        Ok(status) => Ok(status.code().unwrap_or(137)),
        Err(error) => Err(format!("cannot wait for {}: {error}", binary.display())),
    }
}

/// A state that names another driver is not followed: users can write it, and it says what rancher-machine starts.
fn of_this_driver(job: &Asked<'_>, files: &Files) -> Result<(), String> {
    let named =
        machine::record::driver(&files.storage(), &job.command.name).map_err(|error| error.to_string())?;
    match named {
        Some(named) if named != job.driver => Err(machine::run::other_driver(job.driver, &named)),
        _ => Ok(()),
    }
}

/// The program to start and its first arguments: rancher-machine, confined if it is to be.
fn line(
    confinement: Option<&Confinement>,
    binary: &Path,
    readable: &[PathBuf],
    storage: &Path,
) -> Vec<OsString> {
    let Some(confinement) = confinement else { return vec![binary.into()] };
    let mut line: Vec<OsString> = vec![confinement.program.clone().into(), "confined".into()];
    for path in confinement.read.iter().chain(readable) {
        line.extend(["--read".into(), path.into()]);
    }
    line.extend(["--write".into(), storage.into(), "--".into(), binary.into()]);
    line
}

/// Whether a variable of a Job is one that a driver may have: not one that says what code runs in its process.
fn is_for_a_driver(name: &str) -> bool {
    !name.is_empty() && !name.starts_with("LD_") && !name.contains(['=', '\0'])
}

/// The entry point of rancher-machine's image splits what it is given, so that values may have spaces; it takes the
/// download out, and we the Secret.
fn arguments(words: &[String]) -> Vec<String> {
    let ours = ["--driver-download-url", "--driver-hash", "--secret-namespace", "--secret-name"];
    let mut all = Vec::new();
    for word in words {
        match word.split_once('=').filter(|(flag, _)| flag.starts_with("--")) {
            Some((flag, _)) if ours.contains(&flag) => {}
            Some((flag, value)) => all.extend([flag.to_owned(), value.to_owned()]),
            None => all.push(word.clone()),
        }
    }
    all
}

/// Where rancher-machine finds itself and the driver, which is downloaded if it is not here; and where the driver is kept.
async fn search_path(
    settings: &Settings,
    binary: &Path,
    job: &Asked<'_>,
    environment: &BTreeMap<String, String>,
    output: &Output,
) -> Result<(String, Option<PathBuf>), String> {
    let own = binary.parent().map(|directory| directory.display().to_string()).unwrap_or_default();
    let usual = format!("{own}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    let globals = &job.command.globals;
    if globals.driver_url.is_empty() {
        return Ok((usual, None));
    }
    let wanted = download::Wanted {
        driver: job.driver,
        url: &globals.driver_url,
        checksum: &globals.driver_hash,
        authorities: job.authorities,
    };
    if job.remembered {
        let kept = download::kept(&settings.downloads, &wanted).ok_or_else(|| {
            format!(
                "NodeDriver {0} is gone, and its program from {1} is not kept here: create NodeDriver {0} again with spec.url and \
                 spec.checksum",
                job.driver, globals.driver_url
            )
        })?;
        return Ok((format!("{}:{usual}", kept.display()), Some(kept)));
    }
    output.say(format!("Downloading driver from {}", globals.driver_url));
    let kept = download::provide(&settings.downloads, &wanted, &super::proxies(environment)).await;
    let kept = kept.map_err(|error| error.to_string())?;
    Ok((format!("{}:{usual}", kept.display()), Some(kept)))
}

async fn say(stream: Option<impl AsyncRead + Unpin>, output: &Output) {
    let Some(stream) = stream else { return };
    let mut lines = BufReader::new(stream).split(b'\n');
    while let Ok(Some(line)) = lines.next_segment().await {
        output.say(String::from_utf8_lossy(&line).trim_end());
    }
}

/// A group of processes; when it is dropped, they end.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &tokio::process::Child) -> Self {
        Group(child.id().and_then(|id| Pid::from_raw(id.cast_signed())))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(pid) = self.0 {
            // One that is gone is as good.
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

/// Ends the process that an attempt noted, if it still runs and is the very same.
pub(super) async fn end_noted(files: &Files) {
    let Some(note) = files.noted_process() else { return };
    let mut words = note.split_whitespace();
    let (pid, started) = (words.next().and_then(|pid| pid.parse::<u32>().ok()), words.next());
    let Some(pid) = pid.filter(|pid| start_of(*pid).as_deref() == started && started.is_some()) else {
        return;
    };
    drop(Group(Pid::from_raw(pid.cast_signed())));
    // Its files are used next: it has to be gone.
    while start_of(pid).as_deref() == started {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// When a process started, in the kernel's ticks since it did: that and the number tell it from all others. Nothing of
/// one that has ended.
fn start_of(pid: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in brackets and may have anything in it.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    (!["Z", "X"].contains(&state)).then(|| fields.nth(18).map(str::to_owned))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_variable_brings_code_along() {
        for (name, is) in [
            ("AWS_ACCESS_KEY_ID", true),
            ("HTTPS_PROXY", true),
            ("LD_PRELOAD", false),
            ("LD_LIBRARY_PATH", false),
            ("", false),
            ("A=B", false),
        ] {
            assert_eq!(is_for_a_driver(name), is, "{name}");
        }
    }

    #[test]
    fn a_confined_driver_has_its_own_files_only() {
        let (binary, storage) = (Path::new("/usr/bin/rancher-machine"), Path::new("/data/jobs/u/storage"));
        assert_eq!(line(None, binary, &[], storage), ["/usr/bin/rancher-machine"]);
        let confinement = Confinement { program: "/proc/self/exe".into(), read: vec!["/opt/vendor".into()] };
        let readable = [binary.to_owned(), PathBuf::from("/data/jobs/u/mounts")];
        let words = line(Some(&confinement), binary, &readable, storage);
        let words: Vec<&str> = words.iter().map(|word| word.to_str().unwrap()).collect();
        assert_eq!(
            words.join(" "),
            "/proc/self/exe confined --read /opt/vendor --read /usr/bin/rancher-machine --read /data/jobs/u/mounts \
             --write /data/jobs/u/storage -- /usr/bin/rancher-machine"
        );
    }

    #[test]
    fn the_command_line_is_the_image_s_without_the_secret() {
        let words = [
            "--driver-download-url=",
            "--secret-name=s",
            "create",
            "--driver=x",
            "--x-tag=a b=c",
            "--x-fast",
            "m",
        ];
        let words = words.map(str::to_owned);
        assert_eq!(arguments(&words), ["create", "--driver", "x", "--x-tag", "a b=c", "--x-fast", "m"]);
    }

    #[tokio::test]
    async fn a_noted_process_ends_and_another_does_not() {
        let directory = tempfile::tempdir().unwrap();
        let files = Files::of(directory.path(), "u");
        files.create().unwrap();
        let sleeper = || {
            let mut command = tokio::process::Command::new("sleep");
            command.arg("600").process_group(0).kill_on_drop(true).spawn().unwrap()
        };
        let (mut one, mut other) = (sleeper(), sleeper());
        let pid = one.id().unwrap();
        files.note_process(&format!("{} 1", other.id().unwrap())).unwrap();
        end_noted(&files).await;
        assert!(other.try_wait().unwrap().is_none(), "it started at another time: it is not the one");
        files.note_process(&format!("{pid} {}", start_of(pid).unwrap())).unwrap();
        let (_, status) = tokio::join!(end_noted(&files), one.wait());
        assert_eq!(status.unwrap().code(), None, "killed");
        other.kill().await.unwrap();
    }
}
