//! rancher-machine's command line: what a Job asks for.

use std::collections::BTreeMap;

use crate::{Arguments, Flag, FlagValue};

/// What is said before the verb.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Globals {
    /// Where the driver's program is downloaded; empty if it comes with rancher-machine.
    pub driver_url: String,
    /// Checksum of the download.
    pub driver_hash: String,
    /// Namespace of the Secret with the state.
    pub secret_namespace: String,
    /// Name of the Secret with the state.
    pub secret_name: String,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// What is said before the verb.
    pub globals: Globals,
    /// The verb.
    pub verb: Verb,
    /// The server.
    pub name: String,
}

/// Make it, or remove it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Make it.
    Create {
        /// With which driver.
        driver: String,
        /// File with what it runs first.
        script: String,
        /// What it calls itself, if not what others call it.
        hostname: String,
        /// The driver's own flags, `--name` or `--name=value`.
        flags: Vec<String>,
    },
    /// Remove it.
    Remove,
}

/// Why a command line is not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// It does not say what to do.
    #[error("the command line has no verb: `create` and `rm` are known")]
    NoVerb,
    /// It says something that is not done here.
    #[error("the command line says {0:?}: `create` and `rm` are known")]
    OtherVerb(String),
    /// A flag that is not known.
    #[error("flag {0:?} is not known")]
    UnknownFlag(String),
    /// It does not say for which server.
    #[error("the command line does not name a server")]
    NoName,
    /// It does not say which driver.
    #[error("the command line does not name a driver")]
    NoDriver,
}

impl Command {
    /// Reads the arguments of a Job's container.
    ///
    /// # Errors
    /// If they are not what an infrastructure machine's Job has.
    pub fn parse(arguments: &[String]) -> Result<Self, Unreadable> {
        let mut words = arguments.iter().peekable();
        let mut globals = Globals::default();
        while let Some(word) = words.next_if(|word| word.starts_with("--")) {
            let (flag, value) = word.split_once('=').unwrap_or((word, ""));
            match flag {
                "--driver-download-url" => globals.driver_url = value.into(),
                "--driver-hash" => globals.driver_hash = value.into(),
                "--secret-namespace" => globals.secret_namespace = value.into(),
                "--secret-name" => globals.secret_name = value.into(),
                other => return Err(Unreadable::UnknownFlag(other.into())),
            }
        }
        let verb = words.next().ok_or(Unreadable::NoVerb)?;
        let rest: Vec<&String> = words.collect();
        let (name, flags) = rest.split_last().ok_or(Unreadable::NoName)?;
        if name.starts_with('-') || name.is_empty() {
            return Err(Unreadable::NoName);
        }
        let verb = match verb.as_str() {
            "create" => create(flags)?,
            "rm" => remove(flags)?,
            other => return Err(Unreadable::OtherVerb(other.into())),
        };
        Ok(Command { globals, verb, name: (*name).clone() })
    }
}

fn create(words: &[&String]) -> Result<Verb, Unreadable> {
    let (mut driver, mut script, mut hostname, mut flags) =
        (String::new(), String::new(), String::new(), Vec::new());
    for word in words {
        let (flag, value) = word.split_once('=').unwrap_or((word, ""));
        match flag {
            "--driver" => driver = value.into(),
            "--custom-install-script" => script = value.into(),
            "--hostname-override" => hostname = value.into(),
            flag if flag.starts_with("--") => flags.push((*word).clone()),
            other => return Err(Unreadable::UnknownFlag(other.into())),
        }
    }
    if driver.is_empty() {
        return Err(Unreadable::NoDriver);
    }
    Ok(Verb::Create { driver, script, hostname, flags })
}

fn remove(words: &[&String]) -> Result<Verb, Unreadable> {
    let known = ["-y", "--update-config", "--force", "-f"];
    match words.iter().find(|word| !known.contains(&word.as_str())) {
        Some(other) => Err(Unreadable::UnknownFlag((*other).clone())),
        None => Ok(Verb::Remove),
    }
}

/// The flags of a driver of ours, read by what it says of them; what was not given has the driver's default.
///
/// # Errors
/// If a flag is not the driver's.
pub fn arguments(driver: &str, known: &[Flag], given: &[String]) -> Result<Arguments, Unreadable> {
    let prefix = format!("{driver}-");
    let short = |name: &str| name.strip_prefix(&prefix).unwrap_or(name).to_owned();
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for word in given {
        let (name, value) =
            word.split_once('=').map_or((word.as_str(), None), |(name, value)| (name, Some(value)));
        let name = name.trim_start_matches("--");
        if !known.iter().any(|flag| flag.name == name) {
            return Err(Unreadable::UnknownFlag(format!("--{name}")));
        }
        all.entry(short(name)).or_default().extend(value.map(str::to_owned));
    }
    for flag in known {
        let default = match &flag.value {
            FlagValue::Text(text) if !text.is_empty() => vec![text.clone()],
            FlagValue::Number(number) => vec![number.to_string()],
            FlagValue::List(items) if !items.is_empty() => items.clone(),
            _ => continue,
        };
        all.entry(short(&flag.name)).or_insert(default);
    }
    Ok(Arguments(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn a_job_is_understood() {
        let line = "--driver-download-url= --driver-hash= --secret-namespace=n --secret-name=s create --driver=sim \
                    --custom-install-script=/run/secrets/machine/value --hostname-override=h --sim-fast --sim-cpus=2 m";
        let command = Command::parse(&words(line)).unwrap();
        assert_eq!((command.name.as_str(), command.globals.secret_name.as_str()), ("m", "s"));
        let Verb::Create { driver, script, hostname, flags } = command.verb else { panic!() };
        assert_eq!((driver.as_str(), script.as_str()), ("sim", "/run/secrets/machine/value"));
        assert_eq!((hostname.as_str(), flags), ("h", words("--sim-fast --sim-cpus=2")));
        let gone = Command::parse(&words("--secret-name=s rm -y --update-config m")).unwrap();
        assert_eq!((gone.verb, gone.name.as_str()), (Verb::Remove, "m"));
    }

    #[test]
    fn everything_else_is_refused() {
        let refusal = |line: &str| Command::parse(&words(line)).unwrap_err();
        assert_eq!(refusal(""), Unreadable::NoVerb);
        assert_eq!(refusal("ssh m"), Unreadable::OtherVerb("ssh".into()));
        assert_eq!(
            refusal("--storage-path=/etc create --driver=x m"),
            Unreadable::UnknownFlag("--storage-path".into())
        );
        assert_eq!(refusal("create --driver=x"), Unreadable::NoName);
        assert_eq!(refusal("create m"), Unreadable::NoDriver);
        assert_eq!(refusal("rm -y --native m"), Unreadable::UnknownFlag("--native".into()));
    }

    #[test]
    fn arguments_have_defaults() {
        let flag = |name: &str, value| Flag { name: name.into(), usage: String::new(), value };
        let known = [
            flag("sim-cpus", FlagValue::Number(2)),
            flag("sim-zone", FlagValue::Text("a".into())),
            flag("sim-fast", FlagValue::Switch),
            flag("sim-tag", FlagValue::List(vec!["x".into()])),
        ];
        let read = |line: &str| arguments("sim", &known, &words(line));
        let all = read("--sim-fast --sim-zone=b --sim-tag=y --sim-tag=z").unwrap();
        assert_eq!((all.text("zone"), all.text("cpus")), (Some("b"), Some("2")));
        assert_eq!(all.list("tag"), ["y", "z"], "a list that is given replaces the default");
        assert!(all.switch("fast") && !read("").unwrap().switch("fast"));
        assert_eq!(read("--sim-size=1"), Err(Unreadable::UnknownFlag("--sim-size".into())));
    }
}
