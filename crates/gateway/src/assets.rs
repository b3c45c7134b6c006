//! Scripts and programs for nodes.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};

use api::rke::v1::RKEControlPlaneSpec;
use bytes::{Bytes, BytesMut};
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, HeaderValue};
use http::{Response, StatusCode};
use http_body::{Frame, SizeHint};
use plan::binary::{self, Binaries};
use provisioning::bootstrap::Server;
use provisioning::bootstrap::script;
use sha2::{Digest as _, Sha256};
use tokio::fs::File;
use tokio::io::AsyncRead;

use crate::body::{self, Body};
use crate::gateway::Public;

/// The installer of the node agent.
pub const INSTALL: &str = include_str!("../../agent/install/install.sh");
/// What removes it.
pub const UNINSTALL: &str = include_str!("../../agent/install/uninstall.sh");

/// What agents there may be for.
const ARCHITECTURES: [&str; 4] = ["amd64", "arm64", "arm", "s390x"];

/// A file goes out in pieces of this size.
const PIECE: usize = 64 * 1024;

/// What nodes may download.
#[derive(Clone, Debug, Default)]
pub struct Assets {
    directories: Vec<PathBuf>,
}

/// The SHA-256 of what `/cacerts` answers, in hex; empty if that is nothing.
pub fn ca_checksum(trusted: &str) -> String {
    match trusted {
        "" => String::new(),
        trusted => Sha256::digest(trusted).iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

/// The install script for a host, with everything but its token and its roles.
pub fn install_script(public: &Public) -> String {
    let checksum = ca_checksum(&public.ca_certificates);
    let server = Server {
        url: &public.url,
        ca_checksum: &checksum,
        offers_agent: true,
        installer: INSTALL,
        ..Server::default()
    };
    script::linux(&server, &RKEControlPlaneSpec::default(), "")
}

/// Files that anybody may download, beside the agents and the CSI proxy for Windows.
const OFFERED: [&str; 4] =
    ["system-agent-install.sh", "system-agent-uninstall.sh", "wins-agent-install.ps1", "wins.exe"];

/// Whether a name is one of the files that nodes download. Nothing else in the directories is anybody's business: one of them
/// is where the server's own program lies.
fn is_offered(name: &str) -> bool {
    let is_agent = |architecture: &&str| {
        let file = binary::file(architecture);
        name == file || name.strip_suffix(".sha256") == Some(file.as_str())
    };
    OFFERED.contains(&name) || ARCHITECTURES.iter().any(is_agent) || is_csi_proxy(name)
}

/// `csi-proxy-<version>.tar.gz`.
fn is_csi_proxy(name: &str) -> bool {
    let version = name.strip_prefix("csi-proxy-").and_then(|rest| rest.strip_suffix(".tar.gz"));
    version.is_some_and(|version| {
        let safe = |letter: char| letter.is_ascii_alphanumeric() || "-.+".contains(letter);
        !version.is_empty() && version.chars().all(safe)
    })
}

impl Assets {
    /// Programs from these directories; the first that has one gives it.
    pub fn new(directories: Vec<PathBuf>) -> Self {
        Assets { directories }
    }

    /// Whether there is an agent to download, for any architecture.
    pub fn offer_agent(&self) -> bool {
        ARCHITECTURES.iter().any(|architecture| self.find(&binary::file(architecture)).is_some())
    }

    /// The agents that there are, by what is in their files. One that cannot be read is not there.
    pub fn agents(&self) -> Binaries {
        let digest = |architecture: &&str| {
            let bytes = std::fs::read(self.find(&binary::file(architecture))?).ok()?;
            let digest = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
            Some(((*architecture).to_owned(), digest))
        };
        ARCHITECTURES.iter().filter_map(digest).collect()
    }

    fn find(&self, name: &str) -> Option<PathBuf> {
        self.directories.iter().map(|directory| directory.join(name)).find(|path| path.is_file())
    }

    /// Answers a request for a file.
    pub(crate) async fn answer(&self, name: &str) -> Response<Body> {
        if name == "system-agent-uninstall.sh" && self.find(name).is_none() {
            return body::answer(StatusCode::OK, "text/x-shellscript; charset=utf-8", UNINSTALL);
        }
        if !is_offered(name) {
            return missing(name);
        }
        match self.find(name) {
            Some(path) => send(&path, name).await,
            None => missing(name),
        }
    }
}

fn missing(name: &str) -> Response<Body> {
    let what = match name.starts_with("wins") {
        true => {
            "hosts with Windows run Rancher's wins, which is not part of this server: put its install.ps1, as \
             wins-agent-install.ps1, and its wins.exe into a directory that the server is given with --assets"
        }
        false => {
            "agents for nodes are looked for beside the server's own program and in the directories that it is given with \
             --assets; `cargo xtask dist` builds them"
        }
    };
    body::text(StatusCode::NOT_FOUND, format!("this server has no {name:?}: {what}"))
}

async fn send(path: &Path, name: &str) -> Response<Body> {
    let opened = async {
        let file = File::open(path).await?;
        let length = file.metadata().await?.len();
        Ok::<_, std::io::Error>((file, length))
    };
    match opened.await {
        Ok((file, length)) => {
            let mut response =
                Response::new(Body::stream(Sending { file, left: length, piece: BytesMut::new() }));
            let headers = response.headers_mut();
            headers.insert(CONTENT_LENGTH, length.into());
            headers.insert("content-type", HeaderValue::from_static("application/octet-stream"));
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
            response
        }
        Err(error) => {
            tracing::warn!(%error, path = %path.display(), "an asset cannot be read");
            missing(name)
        }
    }
}

/// A file that is being sent.
struct Sending {
    file: File,
    left: u64,
    piece: BytesMut,
}

impl http_body::Body for Sending {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = self.get_mut();
        if this.left == 0 {
            return Poll::Ready(None);
        }
        let wanted = usize::try_from(this.left).unwrap_or(PIECE).min(PIECE);
        this.piece.resize(wanted, 0);
        let mut buffer = tokio::io::ReadBuf::new(&mut this.piece);
        match Pin::new(&mut this.file).poll_read(context, &mut buffer) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(error)) => Poll::Ready(Some(Err(error.into()))),
            Poll::Ready(Ok(())) => {
                let read = buffer.filled().len();
                if read == 0 {
                    return Poll::Ready(Some(Err("the file was cut short".into())));
                }
                this.left -= read as u64;
                Poll::Ready(Some(Ok(Frame::data(this.piece.split_to(read).freeze()))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    #[test]
    fn only_files_for_nodes_are_offered() {
        for (name, offered) in [
            ("rancher-system-agent-amd64", true),
            ("rancher-system-agent-amd64.sha256", true),
            ("rancher-system-agent-amd64.key", false),
            ("rancher-system-agent-..", false),
            ("system-agent-uninstall.sh", true),
            ("wins.exe", true),
            ("csi-proxy-v1.1.3.tar.gz", true),
            ("csi-proxy-../x.tar.gz", false),
            ("csi-proxy-.tar.gz", false),
            ("herdsman", false),
            ("admin.kubeconfig", false),
            ("encryption.key", false),
            ("herdsman.db", false),
            ("..", false),
            ("../x", false),
            ("a/b", false),
            ("", false),
        ] {
            assert_eq!(is_offered(name), offered, "{name}");
        }
    }

    #[tokio::test]
    async fn files_beside_the_program_stay_there() {
        let directory = tempfile::tempdir().unwrap();
        let assets = Assets::new(vec![directory.path().into()]);
        for name in ["admin.kubeconfig", "encryption.key", "admin-password", "herdsman.db", "herdsman"] {
            std::fs::write(directory.path().join(name), "secret").unwrap();
            assert_eq!(assets.answer(name).await.status(), StatusCode::NOT_FOUND, "{name}");
        }
    }

    #[tokio::test]
    async fn files_are_sent_whole() {
        let directory = tempfile::tempdir().unwrap();
        let content: Vec<u8> = (0..200_000_u32).map(|number| number.to_le_bytes()[0]).collect();
        std::fs::write(directory.path().join("rancher-system-agent-amd64"), &content).unwrap();
        let assets = Assets::new(vec!["/nowhere".into(), directory.path().into()]);
        assert!(assets.offer_agent());
        let found = assets.agents();
        assert_eq!(found.keys().collect::<Vec<_>>(), ["amd64"]);
        assert_eq!(found["amd64"].len(), 64);
        let answer = assets.answer("rancher-system-agent-amd64").await;
        assert_eq!(answer.headers()[CONTENT_LENGTH], "200000");
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), content);
        for missing in ["rancher-system-agent-arm64", "../x"] {
            assert_eq!(assets.answer(missing).await.status(), StatusCode::NOT_FOUND);
        }
        let uninstall = assets.answer("system-agent-uninstall.sh").await;
        assert_eq!(uninstall.into_body().collect().await.unwrap().to_bytes(), UNINSTALL);
    }

    #[test]
    fn the_script_knows_its_server() {
        let public = Public { url: "https://herd.example.com".into(), ca_certificates: "PEM\n".into() };
        let script = install_script(&public);
        assert!(script.starts_with("#!"));
        assert!(script.contains("CATTLE_SERVER='https://herd.example.com'"));
        assert!(script.contains("CATTLE_AGENT_BINARY_BASE_URL='https://herd.example.com/assets'"));
        assert!(script.contains(&format!("CATTLE_CA_CHECKSUM='{}'", ca_checksum("PEM\n"))));
        assert!(!script.contains("\nCATTLE_TOKEN='") && script.contains("main \"$@\""));
        assert_eq!(ca_checksum(""), "");
    }
}
