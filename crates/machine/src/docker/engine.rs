//! Docker's own API, over its socket: the few requests that a server takes.

use std::io;
use std::path::PathBuf;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::UnixStream;

use crate::Output;

/// A version of the API that every Docker of the last years has.
const API: &str = "/v1.41";
/// Output of a program comes in frames with a head of so many bytes.
const FRAME: usize = 8;

/// Why Docker does not do it.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// It is not reached.
    #[error("Docker is not reached at {}: {source}; is it running?", socket.display())]
    Connect { socket: PathBuf, source: io::Error },
    /// A place that is no socket.
    #[error("host: {0:?} is not unix:///path/of/a/socket")]
    Host(String),
    /// The connection broke.
    #[error("Docker's answer breaks off: {0}")]
    Http(#[from] hyper::Error),
    /// A request that cannot be written.
    #[error("Docker cannot be asked that: {0}")]
    Request(#[from] http::Error),
    /// It refuses.
    #[error("Docker: {0}")]
    Refused(String),
    /// It says something else than it should.
    #[error("Docker's answer is not understood: {0}")]
    Answer(String),
}

/// A Docker.
#[derive(Clone, Debug)]
pub(super) struct Engine {
    socket: PathBuf,
}

impl Engine {
    pub(super) fn at(host: &str) -> Result<Self, Error> {
        let path = host.strip_prefix("unix://").filter(|path| path.starts_with('/'));
        Ok(Engine { socket: path.ok_or_else(|| Error::Host(host.into()))?.into() })
    }

    pub(super) async fn ping(&self) -> Result<(), Error> {
        self.ask_for(Method::GET, "/_ping", Value::Null).await.map(drop)
    }

    pub(super) async fn has_image(&self, image: &str) -> Result<bool, Error> {
        let (status, answer) =
            self.send(Method::GET, &format!("/images/{}/json", path(image)), Value::Null).await?;
        match status {
            StatusCode::OK => Ok(true),
            StatusCode::NOT_FOUND => Ok(false),
            _ => Err(refusal(&answer)),
        }
    }

    pub(super) async fn pull(&self, image: &str) -> Result<(), Error> {
        let tag = if image.rsplit('/').next().is_some_and(|name| name.contains([':', '@'])) {
            ""
        } else {
            "&tag=latest"
        };
        let path = format!("/images/create?fromImage={}{tag}", query(image));
        let answer = self.ask_for(Method::POST, &path, Value::Null).await?;
        // It says 200 and then what went wrong, in the last of many lines.
        let last =
            answer.split(|byte| *byte == b'\n').rev().find(|line| !line.is_empty()).unwrap_or_default();
        let last: Value = serde_json::from_slice(last.trim_ascii()).unwrap_or_default();
        match last["error"].as_str() {
            Some(words) => Err(Error::Refused(words.into())),
            None => Ok(()),
        }
    }

    /// Makes a container; gives its id.
    pub(super) async fn create(&self, name: &str, specification: &Value) -> Result<String, Error> {
        let path = format!("/containers/create?name={}", query(name));
        let answer = self.ask_for(Method::POST, &path, specification.clone()).await?;
        text(&answer, "Id")
    }

    pub(super) async fn start(&self, id: &str) -> Result<(), Error> {
        self.ask_for(Method::POST, &format!("/containers/{id}/start"), Value::Null).await.map(drop)
    }

    pub(super) async fn inspect(&self, id: &str) -> Result<Value, Error> {
        let answer = self.ask_for(Method::GET, &format!("/containers/{id}/json"), Value::Null).await?;
        serde_json::from_slice(&answer).map_err(|error| Error::Answer(error.to_string()))
    }

    /// A container by name, if it is there.
    pub(super) async fn find(&self, name: &str) -> Result<Option<Value>, Error> {
        let (status, answer) =
            self.send(Method::GET, &format!("/containers/{}/json", path(name)), Value::Null).await?;
        match status {
            StatusCode::NOT_FOUND => Ok(None),
            status if status.is_success() => {
                serde_json::from_slice(&answer).map(Some).map_err(|error| Error::Answer(error.to_string()))
            }
            _ => Err(refusal(&answer)),
        }
    }

    /// Removes a container with its volumes, running or not. Gives whether it was there.
    pub(super) async fn remove(&self, name: &str) -> Result<bool, Error> {
        let path = format!("/containers/{}?force=true&v=true", path(name));
        let (status, answer) = self.send(Method::DELETE, &path, Value::Null).await?;
        match status {
            StatusCode::NOT_FOUND => Ok(false),
            status if status.is_success() => Ok(true),
            _ => Err(refusal(&answer)),
        }
    }

    /// A network, if it is there.
    pub(super) async fn network(&self, name: &str) -> Result<Option<Value>, Error> {
        let (status, answer) =
            self.send(Method::GET, &format!("/networks/{}", path(name)), Value::Null).await?;
        match status {
            StatusCode::NOT_FOUND => Ok(None),
            status if status.is_success() => {
                serde_json::from_slice(&answer).map(Some).map_err(|error| Error::Answer(error.to_string()))
            }
            _ => Err(refusal(&answer)),
        }
    }

    pub(super) async fn create_network(&self, name: &str) -> Result<(), Error> {
        let order = json!({"Name": name, "CheckDuplicate": true});
        self.ask_for(Method::POST, "/networks/create", order).await.map(drop)
    }

    pub(super) async fn remove_network(&self, id: &str) -> Result<(), Error> {
        self.ask_for(Method::DELETE, &format!("/networks/{}", path(id)), Value::Null).await.map(drop)
    }

    /// The containers in a network that have a label, running or not.
    pub(super) async fn labelled(&self, label: &str, network: &str) -> Result<Vec<String>, Error> {
        let filters = json!({"label": [label], "network": [network]}).to_string();
        let path = format!("/containers/json?all=true&filters={}", query(&filters));
        let answer = self.ask_for(Method::GET, &path, Value::Null).await?;
        let all: Vec<Value> =
            serde_json::from_slice(&answer).map_err(|error| Error::Answer(error.to_string()))?;
        Ok(all.iter().filter_map(|one| one["Id"].as_str().map(str::to_owned)).collect())
    }

    /// Writes a file into a container, for root only.
    pub(super) async fn put_file(&self, id: &str, place: &str, content: &[u8]) -> Result<(), Error> {
        let mut archive = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o700);
        header.set_size(content.len() as u64);
        let packed = archive.append_data(&mut header, place, content).and_then(|()| archive.into_inner());
        let packed = packed.map_err(|error| Error::Answer(error.to_string()))?;
        let request = Request::builder()
            .method(Method::PUT)
            .uri(format!("{API}/containers/{id}/archive?path=/"))
            .header("host", "docker")
            .header("content-type", "application/x-tar")
            .body(Full::from(packed))?;
        self.done(request).await.map(drop)
    }

    /// Runs a program in a container; what it says goes to `output`. Gives its exit code.
    pub(super) async fn exec(&self, id: &str, command: &[&str], output: &Output) -> Result<i64, Error> {
        let mut lines = Lines::new(|line: &str| output.say(line));
        let code = self.run(id, command, |bytes| lines.add(bytes)).await?;
        lines.end();
        Ok(code)
    }

    /// The same; gives what it said.
    pub(super) async fn ask(&self, id: &str, command: &[&str]) -> Result<(i64, String), Error> {
        let mut said = Vec::new();
        let code = self.run(id, command, |bytes| said.extend_from_slice(bytes)).await?;
        Ok((code, String::from_utf8_lossy(&said).into_owned()))
    }

    async fn run(&self, id: &str, command: &[&str], mut each: impl FnMut(&[u8])) -> Result<i64, Error> {
        let order = json!({"AttachStdout": true, "AttachStderr": true, "Tty": false, "Cmd": command});
        let answer = self.ask_for(Method::POST, &format!("/containers/{id}/exec"), order).await?;
        let exec = text(&answer, "Id")?;
        let start = json!({"Detach": false, "Tty": false});
        let request = request(Method::POST, &format!("/exec/{exec}/start"), start)?;
        let mut stream = self.open(request).await?;
        let mut pending = Vec::new();
        while let Some(part) = stream.body.frame().await {
            if let Ok(bytes) = part?.into_data() {
                pending.extend_from_slice(&bytes);
                take_frames(&mut pending, &mut each);
            }
        }
        let answer = self.ask_for(Method::GET, &format!("/exec/{exec}/json"), Value::Null).await?;
        let answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
        answer["ExitCode"].as_i64().ok_or_else(|| Error::Answer("a program has no exit code".into()))
    }

    async fn ask_for(&self, method: Method, path: &str, body: Value) -> Result<Vec<u8>, Error> {
        self.done(request(method, path, body)?).await
    }

    async fn done(&self, request: Request<Full<Bytes>>) -> Result<Vec<u8>, Error> {
        let Stream { status, body, _sender, _connection } = self.open_any(request).await?;
        let answer = body.collect().await?.to_bytes().to_vec();
        if status.is_success() || status == StatusCode::NOT_MODIFIED {
            Ok(answer)
        } else {
            Err(refusal(&answer))
        }
    }

    async fn send(&self, method: Method, path: &str, body: Value) -> Result<(StatusCode, Vec<u8>), Error> {
        let Stream { status, body, _sender, _connection } =
            self.open_any(request(method, path, body)?).await?;
        Ok((status, body.collect().await?.to_bytes().to_vec()))
    }

    async fn open(&self, request: Request<Full<Bytes>>) -> Result<Stream, Error> {
        let stream = self.open_any(request).await?;
        if stream.status.is_success() {
            return Ok(stream);
        }
        Err(refusal(&stream.body.collect().await?.to_bytes()))
    }

    async fn open_any(&self, request: Request<Full<Bytes>>) -> Result<Stream, Error> {
        let connected = UnixStream::connect(&self.socket).await;
        let stream = connected.map_err(|source| Error::Connect { socket: self.socket.clone(), source })?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let connection = Connection(tokio::spawn(async move {
            // What goes wrong with it is seen by whoever reads the answer.
            let _ = connection.await;
        }));
        let (head, body) = sender.send_request(request).await?.into_parts();
        Ok(Stream { status: head.status, body, _sender: sender, _connection: connection })
    }
}

struct Stream {
    status: StatusCode,
    body: Incoming,
    /// Kept, as the connection, for as long as the answer is read.
    _sender: http1::SendRequest<Full<Bytes>>,
    _connection: Connection,
}

/// A connection that is served as long as somebody needs it.
struct Connection(tokio::task::JoinHandle<()>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn request(method: Method, path: &str, body: Value) -> Result<Request<Full<Bytes>>, Error> {
    let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
    let request = Request::builder().method(method).uri(format!("{API}{path}")).header("host", "docker");
    Ok(request.header("content-type", "application/json").body(Full::new(body))?)
}

fn refusal(answer: &[u8]) -> Error {
    let words = serde_json::from_slice::<Value>(answer)
        .ok()
        .and_then(|one| one["message"].as_str().map(str::to_owned));
    Error::Refused(words.unwrap_or_else(|| String::from_utf8_lossy(answer).into_owned()))
}

fn text(answer: &[u8], field: &str) -> Result<String, Error> {
    let answer: Value = serde_json::from_slice(answer).map_err(|error| Error::Answer(error.to_string()))?;
    answer[field].as_str().map(str::to_owned).ok_or_else(|| Error::Answer(format!("there is no {field}")))
}

/// Takes whole frames off what has come so far.
fn take_frames(pending: &mut Vec<u8>, each: &mut impl FnMut(&[u8])) {
    while let Some(head) = pending.first_chunk::<FRAME>() {
        let length = u32::from_be_bytes([head[4], head[5], head[6], head[7]]) as usize;
        let Some(content) = pending.get(FRAME..FRAME + length) else { return };
        each(content);
        pending.drain(..FRAME + length);
    }
}

/// Lines of what comes in pieces.
struct Lines<F> {
    begun: Vec<u8>,
    each: F,
}

impl<F: FnMut(&str)> Lines<F> {
    fn new(each: F) -> Self {
        Lines { begun: Vec::new(), each }
    }

    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match byte {
                b'\n' => self.end(),
                byte => self.begun.push(*byte),
            }
        }
    }

    fn end(&mut self) {
        if !self.begun.is_empty() {
            (self.each)(String::from_utf8_lossy(&std::mem::take(&mut self.begun)).trim_end());
        }
    }
}

/// A name in a path: what would end the path is written otherwise.
fn path(name: &str) -> String {
    escaped(name, "-._~:/@")
}

fn query(name: &str) -> String {
    escaped(name, "-._~")
}

fn escaped(name: &str, kept: &str) -> String {
    let escape = |byte: u8| match byte {
        byte if byte.is_ascii_alphanumeric() || kept.as_bytes().contains(&byte) => {
            char::from(byte).to_string()
        }
        byte => format!("%{byte:02X}"),
    };
    name.bytes().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_comes_in_frames_and_is_read_in_lines() {
        let frame = |text: &str| {
            let mut frame = vec![1, 0, 0, 0];
            frame.extend((text.len() as u32).to_be_bytes());
            frame.extend(text.as_bytes());
            frame
        };
        let stream = [frame("one\ntw"), frame("o\n"), frame("three")].concat();
        let mut said = Vec::new();
        let mut lines = Lines::new(|line: &str| said.push(line.to_owned()));
        let mut pending = Vec::new();
        for byte in stream {
            pending.push(byte);
            take_frames(&mut pending, &mut |bytes| lines.add(bytes));
        }
        lines.end();
        assert_eq!(said, ["one", "two", "three"]);
    }

    #[test]
    fn names_stay_names() {
        assert_eq!(path("registry:5000/a/b:c"), "registry:5000/a/b:c");
        assert_eq!(path("a?x=1#y"), "a%3Fx%3D1%23y");
        assert_eq!(query("a/b:c&d"), "a%2Fb%3Ac%26d");
        assert!(matches!(Engine::at("tcp://x:1"), Err(Error::Host(_))));
    }

    #[tokio::test]
    async fn a_docker_that_is_not_there_is_told() {
        let error = Engine::at("unix:///nowhere/docker.sock").unwrap().ping().await.unwrap_err();
        assert!(error.to_string().contains("/nowhere/docker.sock"), "{error}");
    }
}
