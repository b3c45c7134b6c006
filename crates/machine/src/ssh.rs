//! The driver `ssh`: servers are hosts that are there already and are reached by SSH.
//!
//! A pool names its hosts; each server takes one that is free. That it is taken is written on the host itself, so that
//! no other server, cluster or installation takes it too. Removing the server uninstalls what was installed and lets the
//! host go.

mod host;
mod key;
mod session;

use std::fmt::Write as _;
use std::fs;

use host::{Host, Note};
pub use host::{NOTE, known_key, shown_key};
use key::Key;
use session::{Error, Session};

use crate::archive::write_private;
use crate::driver::Ssh as Reached;
use crate::{Driver, Failure, Flag, FlagValue, Order, Output, Server, Special, Working};

/// Exit code of a script that found the host taken.
const TAKEN: u32 = 9;
/// Where a host says whose it is.
const CLAIM: &str = "/var/lib/herdsman/machine";
/// Where the bootstrap script is put, as rancher-machine does.
const SCRIPT: &str = "/usr/local/custom_script/install.sh";
/// Name of the private key in the server's state, as everybody calls it.
const KEY: &str = "id_rsa";

/// What uninstalls what a bootstrap script and its agent install, in the order in which it goes.
const UNINSTALLERS: [&str; 7] = [
    "/usr/local/bin/rancher-system-agent-uninstall.sh",
    "/opt/rancher-system-agent/bin/rancher-system-agent-uninstall.sh",
    "/usr/local/bin/k3s-uninstall.sh",
    "/usr/local/bin/k3s-agent-uninstall.sh",
    "/usr/local/bin/rke2-uninstall.sh",
    "/opt/rke2/bin/rke2-uninstall.sh",
    "/usr/bin/rke2-uninstall.sh",
];

/// The driver.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ssh {
    /// Whether a host is taken only with a key that a user gave, instead of trusting the first one seen.
    pub strict: bool,
}

impl Driver for Ssh {
    fn name(&self) -> &str {
        "ssh"
    }

    fn flags(&self) -> Vec<Flag> {
        let flag =
            |name: &str, usage: &str, value| Flag { name: format!("ssh-{name}"), usage: usage.into(), value };
        let text = |default: &str| FlagValue::Text(default.into());
        let list = || FlagValue::List(Vec::new());
        vec![
            flag("address", "Host, as address or address:port; each server takes one that is free", list()),
            flag("user", "User, root or one who may use sudo without a password", text("root")),
            flag("port", "Port of hosts that do not say another", FlagValue::Number(22)),
            flag("key-file", "Private key, Ed25519, ECDSA or RSA, without a passphrase", text("")),
            flag(
                "host-key",
                "Public key of a host, as in known_hosts; if none is given, the first one seen is trusted from then on",
                list(),
            ),
            flag("keep-hostname", "Leave the host's name as it is", FlagValue::Switch),
            flag("keep-software", "Uninstall nothing when the server is removed", FlagValue::Switch),
        ]
    }

    fn special(&self) -> Special {
        Special { files: Special::read_files("sshKey:keyFile"), ..Special::default() }
    }

    fn check<'a>(&'a self, order: &'a Order) -> Working<'a, ()> {
        Box::pin(async move {
            host::all(&order.arguments)?;
            if host::trusted(&order.arguments)?.is_empty() && self.strict {
                let words = "hostKey: name the keys of the hosts, as ssh-keyscan prints them: this server trusts no key that it sees first \
                             (--strict-host-keys)";
                return Err(Failure::Check(words.into()));
            }
            Key::read(&key(order)?).map(drop).map_err(|error| Failure::Check(error.to_string()))
        })
    }

    fn create<'a>(&'a self, order: &'a Order, output: &'a Output) -> Working<'a, Server> {
        Box::pin(create(order, output))
    }

    fn remove<'a>(&'a self, order: &'a Order, output: &'a Output) -> Working<'a, ()> {
        Box::pin(remove(order, output))
    }
}

async fn create(order: &Order, output: &Output) -> Result<Server, Failure> {
    let key = key(order)?;
    write_private(&order.directory.join(KEY), key.as_bytes())
        .map_err(|error| Failure::Failed(error.to_string()))?;
    let (session, host) = take_one(order, &key, output).await?;
    if !order.arguments.switch("keep-hostname") {
        let rename = format!(
            "hostnamectl set-hostname {0} 2>/dev/null || {{ echo {0} > /etc/hostname; hostname {0}; }}",
            order.hostname
        );
        session.sh(&rename, "", output).await.map_err(failed)?;
    }
    if !order.bootstrap.is_empty() {
        output.say("running the bootstrap script");
        let put = format!("umask 077; mkdir -p \"$(dirname {SCRIPT})\"; cat > {SCRIPT}");
        session.sh(&put, &order.bootstrap, output).await.map_err(failed)?;
        let code = session.run(&format!("sh {SCRIPT}"), "", output).await.map_err(failed)?;
        if code != 0 {
            return Err(Failure::Failed(format!("the bootstrap script failed with exit code {code}")));
        }
    }
    let ssh = Reached { user: host.user.clone(), port: host.port, key: KEY.into() };
    Ok(Server { id: host.to_string(), address: host.address, ssh: Some(ssh), ..Server::default() })
}

/// The first host that is free, and a way to it.
async fn take_one(order: &Order, key: &str, output: &Output) -> Result<(Session, Host), Failure> {
    let mut reasons = String::new();
    for host in host::all(&order.arguments)? {
        output.say(format!("trying {host}"));
        match take(order, &host, key, output).await {
            Ok(Some(session)) => return Ok((session, host)),
            Ok(None) => drop(write!(reasons, "; {host} is taken")),
            Err(error) => drop(write!(reasons, "; {host}: {error}")),
        }
    }
    Err(Failure::Failed(format!("no host is free{reasons}")))
}

/// Takes a host, if it is free or was ours already.
async fn take(order: &Order, host: &Host, key: &str, output: &Output) -> Result<Option<Session>, Error> {
    let given = host::trusted(&order.arguments).map_err(|failure| Error::Key(failure.to_string()))?;
    let trusted = host::trusted_of(host, given, Note::read(&order.directory)?);
    let (session, seen) = Session::open(host, key, &trusted).await?;
    let how = if trusted.is_empty() { "first seen, trusted from now on" } else { "as expected" };
    output.say(format!("host key of {host}: {} ({how})", host::fingerprint(&seen).unwrap_or_default()));
    // First it is noted which host it is: whatever happens next, it is found again.
    let note = Note { host: host.clone(), host_key: seen };
    note.write(&order.directory)?;
    let claim = format!(
        "umask 022; mkdir -p \"$(dirname {CLAIM})\"; (set -C; echo {0} > {CLAIM}) 2>/dev/null || \
         [ \"$(cat {CLAIM})\" = {0} ] || exit {TAKEN}",
        order.name
    );
    match session.run(&claim, "", output).await? {
        0 => Ok(Some(session)),
        TAKEN => Ok(None),
        code => Err(Error::Script(code)),
    }
}

async fn remove(order: &Order, output: &Output) -> Result<(), Failure> {
    let Some(note) = Note::read(&order.directory).map_err(failed)? else {
        output.say("no host was ever taken");
        return Ok(());
    };
    let key = fs::read_to_string(order.directory.join(KEY));
    let key = key.map_err(|error| Failure::Failed(format!("cannot read the server's key: {error}")))?;
    let trusted = vec![note.host_key];
    let (session, _) = Session::open(&note.host, &key, &trusted).await.map_err(failed)?;
    let mut script = format!("[ \"$(cat {CLAIM} 2>/dev/null)\" = {} ] || exit {TAKEN}\n", order.name);
    if !order.arguments.switch("keep-software") {
        for uninstaller in UNINSTALLERS {
            // One that fails does not keep the next from running; the host must not stay half removed for it.
            let _ = writeln!(
                script,
                "if [ -x {uninstaller} ]; then echo running {uninstaller}; sh {uninstaller} || echo {uninstaller} failed; fi"
            );
        }
    }
    let _ = writeln!(script, "rm -f {SCRIPT} {CLAIM}");
    match session.run(&script, "", output).await.map_err(failed)? {
        0 => Ok(()),
        TAKEN => {
            output.say(format!("{} is not {}'s: nothing is done to it", note.host, order.name));
            Ok(())
        }
        code => Err(failed(Error::Script(code))),
    }
}

fn key(order: &Order) -> Result<String, Failure> {
    let missing = || Failure::Check("sshKey: give the private key with which hosts are reached".into());
    let path = order.arguments.text("key-file").ok_or_else(missing)?;
    order.file(path).map_err(|failure| Failure::Check(format!("sshKey: {failure}")))
}

fn failed(error: Error) -> Failure {
    Failure::Failed(error.to_string())
}
