//! One connection to a host.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use russh::ChannelMsg;
use russh::client::{self, AuthResult, Handle};
use russh::keys::PublicKeyOrCertificate;

use super::host::Host;
use super::key::Key;
use crate::Output;

/// How long a host may take to answer, all in all.
const CONNECT_WITHIN: Duration = Duration::from_secs(30);
/// A host that says nothing for three times this long is gone.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// Why a host does not do it.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// It is not reached.
    #[error("cannot connect: {0}")]
    Connect(String),
    /// It is another one than it should be.
    #[error(
        "its host key is {seen}, which is not the one that is trusted: it is another host, or somebody is in between"
    )]
    OtherHost { seen: String },
    /// Our key is not readable.
    #[error("sshKey: {0}")]
    Key(String),
    /// It does not know our key.
    #[error("user {0} is not let in with this key")]
    Refused(String),
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Broken(#[from] russh::Error),
    /// A script failed.
    #[error("a script failed with exit code {0}")]
    Script(u32),
    /// What is known of the server is not.
    #[error("the server's state: {0}")]
    State(String),
}

/// A connection.
pub(super) struct Session {
    handle: Handle<Greeter>,
    /// What is written before scripts that need root.
    sudo: &'static str,
}

/// Looks at the key that a host shows.
struct Greeter {
    trusted: Vec<String>,
    seen: Arc<Mutex<String>>,
}

impl client::Handler for Greeter {
    type Error = russh::Error;

    async fn check_server_key(&mut self, shown: &PublicKeyOrCertificate) -> Result<bool, Self::Error> {
        let PublicKeyOrCertificate::PublicKey { key, .. } = shown else { return Ok(false) };
        let text = key.to_openssh().unwrap_or_default();
        // Without the comment.
        let text = text.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
        let accepted = self.trusted.is_empty() || self.trusted.contains(&text);
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = text;
        Ok(accepted)
    }
}

impl Session {
    /// Connects to a host that shows one of the trusted keys, or any if none is named. Gives the key that it showed.
    pub(super) async fn open(host: &Host, key: &str, trusted: &[String]) -> Result<(Self, String), Error> {
        match tokio::time::timeout(CONNECT_WITHIN, connect(host, key, trusted)).await {
            Ok(session) => session,
            Err(_) => Err(Error::Connect(format!("no answer within {} s", CONNECT_WITHIN.as_secs()))),
        }
    }

    /// Runs a script as root; what it says goes to `output`. Gives its exit code.
    pub(super) async fn run(&self, script: &str, input: &str, output: &Output) -> Result<u32, Error> {
        let mut channel = self.handle.channel_open_session().await?;
        let quoted = script.replace('\'', r"'\''");
        channel.exec(true, format!("{}sh -c '{quoted}'", self.sudo)).await?;
        if !input.is_empty() {
            channel.data(input.as_bytes()).await?;
        }
        channel.eof().await?;
        let (mut code, mut said) = (None, Vec::new());
        while let Some(message) = channel.wait().await {
            match message {
                ChannelMsg::Data { data } | ChannelMsg::ExtendedData { data, .. } => {
                    said.extend_from_slice(&data);
                    if let Some(end) = said.iter().rposition(|byte| *byte == b'\n') {
                        output.say(String::from_utf8_lossy(&said[..end]));
                        said.drain(..=end);
                    }
                }
                ChannelMsg::ExitStatus { exit_status } => code = Some(exit_status),
                ChannelMsg::Failure => return Err(Error::Connect("the host runs no commands".into())),
                _ => {}
            }
        }
        output.say(String::from_utf8_lossy(&said));
        // Killed, or the host went away.
        code.ok_or(Error::Broken(russh::Error::Disconnect))
    }

    /// The same for a script that has to work.
    pub(super) async fn sh(&self, script: &str, input: &str, output: &Output) -> Result<(), Error> {
        match self.run(script, input, output).await? {
            0 => Ok(()),
            code => Err(Error::Script(code)),
        }
    }
}

async fn connect(host: &Host, key: &str, trusted: &[String]) -> Result<(Session, String), Error> {
    let key = Key::read(key)?;
    let config = client::Config {
        keepalive_interval: Some(KEEPALIVE),
        keepalive_max: 3,
        inactivity_timeout: None,
        ..client::Config::default()
    };
    let seen: Arc<Mutex<String>> = Arc::default();
    let greeter = Greeter { trusted: trusted.to_vec(), seen: seen.clone() };
    let connected = client::connect(Arc::new(config), (host.address.as_str(), host.port), greeter).await;
    let seen = seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let mut handle = match connected {
        Ok(handle) => handle,
        Err(russh::Error::UnknownKey) => return Err(Error::OtherHost { seen }),
        Err(error) => return Err(Error::Connect(error.to_string())),
    };
    match key.show(&mut handle, &host.user).await? {
        AuthResult::Success => {}
        AuthResult::Failure { .. } => return Err(Error::Refused(host.user.clone())),
    }
    let sudo = if host.user == "root" { "" } else { "sudo -n " };
    Ok((Session { handle, sudo }, seen))
}
