//! Drivers that are programs of others: rancher-machine's plugin protocol, as far as it takes to ask for create flags.
//!
//! A plugin is started with a token in its environment, says on which port of this machine it listens, and answers Go's
//! `net/rpc` there. It ends by itself when nobody talks to it for ten seconds.

mod gob;

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use gob::{Decoder, Value};

use crate::{Flag, FlagValue};

/// What plugins expect, to tell that they were not started by hand.
const TOKEN: (&str, &str) = ("MACHINE_PLUGIN_TOKEN", "42");
/// Which of the drivers in a program is meant.
const DRIVER: &str = "MACHINE_PLUGIN_DRIVER_NAME";
/// The only version of the protocol.
const VERSION: Value = Value::Int(1);
/// Names of the service: of today, and of old plugins.
const SERVICES: [&str; 2] = ["RPCServerDriver", "RpcServerDriver"];
/// How long a plugin may take to start, and then to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// How many answers there are in what a plugin has sent, up to the first that is not understood.
pub fn answers(sent: &[u8]) -> usize {
    let mut decoder = Decoder::new(sent);
    std::iter::from_fn(|| decoder.read().ok()).count()
}

/// Why a plugin's flags are not known.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It does not start.
    #[error("cannot start {}: {source}", program.display())]
    Start {
        /// Which program.
        program: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// It does not say where it listens.
    #[error("{} is not a driver: it does not say where it listens; it says {said:?}", program.display())]
    Silent {
        /// Which program.
        program: PathBuf,
        /// Its first words.
        said: String,
    },
    /// It is not reached, or does not answer.
    #[error("the driver does not answer: {0}")]
    Io(#[from] io::Error),
    /// Its answer is not understood.
    #[error(transparent)]
    Gob(#[from] gob::Error),
    /// It refuses.
    #[error("the driver answers {method}: {words}")]
    Refused {
        /// What was asked.
        method: String,
        /// Its words.
        words: String,
    },
    /// It is of another kind.
    #[error("the driver speaks another version of the protocol")]
    OtherVersion,
}

/// The create flags of a driver: `program` is rancher-machine for the drivers that it has, else the driver itself.
///
/// It blocks, for up to a minute if the program is of no use.
///
/// # Errors
/// If the program does not start, or is no driver.
pub fn flags(program: &Path, driver: &str) -> Result<Vec<Flag>, Error> {
    let plugin = Plugin::start(program, driver)?;
    let mut client = Client::connect(plugin.address)?;
    let service = client.service()?;
    let answer = client.call(&format!("{service}.GetCreateFlags"))?;
    // It may end before it answers.
    let _ = client.call(&format!("{service}.Close"));
    let Value::List(all) = answer else {
        return Err(gob::Error::Meaningless("flags are not a list").into());
    };
    Ok(all.iter().filter_map(flag).collect())
}

fn flag(value: &Value) -> Option<Flag> {
    let Value::Named(kind, flag) = value else { return None };
    let text = |field: &str| flag.field(field).and_then(Value::text).unwrap_or_default().to_owned();
    let value = match (kind.rsplit_once('.')?.1, flag.field("Value")) {
        ("StringFlag", _) => FlagValue::Text(text("Value")),
        ("IntFlag", Some(Value::Int(number))) => FlagValue::Number(*number),
        ("IntFlag", _) => FlagValue::Number(0),
        ("BoolFlag", _) => FlagValue::Switch,
        ("StringSliceFlag", Some(Value::List(items))) => {
            FlagValue::List(items.iter().filter_map(Value::text).map(str::to_owned).collect())
        }
        ("StringSliceFlag", _) => FlagValue::List(Vec::new()),
        _ => return None,
    };
    Some(Flag { name: text("Name"), usage: text("Usage"), value })
}

/// A plugin that runs; it ends with this.
struct Plugin {
    child: Child,
    address: SocketAddr,
}

impl Plugin {
    fn start(program: &Path, driver: &str) -> Result<Self, Error> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let started = Command::new(program)
            .env_clear()
            .env("PATH", path)
            .env(TOKEN.0, TOKEN.1)
            .env(DRIVER, driver)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut child = started.map_err(|source| Error::Start { program: program.into(), source })?;
        let said = child.stdout.take().map(first_line).unwrap_or_default();
        match said.trim().parse() {
            Ok(address) => Ok(Plugin { child, address }),
            Err(_) => {
                end(&mut child);
                Err(Error::Silent { program: program.into(), said: said.trim().into() })
            }
        }
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

fn end(child: &mut Child) {
    // One that has ended is as good.
    let _ = child.kill();
    let _ = child.wait();
}

/// The first line that a plugin says. The rest is read too: a plugin that cannot say what it wants stands still.
fn first_line(from: ChildStdout) -> String {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let mut lines = BufReader::new(from);
        let mut first = String::new();
        let _ = lines.read_line(&mut first);
        let _ = tell.send(first);
        let _ = io::copy(&mut lines, &mut io::sink());
    });
    told.recv_timeout(PATIENCE).unwrap_or_default()
}

struct Client {
    stream: TcpStream,
    decoder: Decoder<TcpStream>,
    requests: u64,
}

impl Client {
    fn connect(address: SocketAddr) -> Result<Self, Error> {
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.write_all(b"CONNECT /_goRPC_ HTTP/1.0\r\n\r\n")?;
        let answer = head(&mut stream)?;
        if !answer.starts_with("HTTP/1.0 200") {
            let words = answer.lines().next().unwrap_or_default().to_owned();
            return Err(Error::Refused { method: "CONNECT".into(), words });
        }
        stream.write_all(gob::DEFINITIONS)?;
        let decoder = Decoder::new(stream.try_clone()?);
        Ok(Client { stream, decoder, requests: 0 })
    }

    /// The name of the service that answers.
    fn service(&mut self) -> Result<&'static str, Error> {
        let [today, old] = SERVICES;
        let (name, version) = match self.call(&format!("{today}.GetVersion")) {
            Err(Error::Refused { .. }) => (old, self.call(&format!("{old}.GetVersion"))?),
            answer => (today, answer?),
        };
        if version == VERSION { Ok(name) } else { Err(Error::OtherVersion) }
    }

    fn call(&mut self, method: &str) -> Result<Value, Error> {
        self.stream.write_all(&gob::request(method, self.requests))?;
        self.requests += 1;
        let head = self.decoder.read()?;
        let answer = self.decoder.read()?;
        match head.field("Error").and_then(Value::text) {
            Some(words) => Err(Error::Refused { method: method.into(), words: words.into() }),
            None => Ok(answer),
        }
    }
}

/// What a server says before the stream begins, up to an empty line.
fn head(stream: &mut TcpStream) -> io::Result<String> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\n\n") && !head.ends_with(b"\r\n\r\n") && head.len() < 4096 {
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_driver_is_told() {
        let missing = flags(Path::new("/nowhere/driver"), "x").unwrap_err();
        assert!(matches!(missing, Error::Start { .. }), "{missing}");
        let other = flags(Path::new("/bin/pwd"), "x").unwrap_err();
        assert!(matches!(other, Error::Silent { .. }), "{other}");
    }
}
