//! Pulls from registries that a test plays.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

#[path = "support/http.rs"]
mod http;
#[path = "support/image.rs"]
mod image_files;

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Response, Server, as_registry};
use image::{Options, Proxies, Staged, stage};
use image_files::Image;

const ALICE: &str = "Basic YWxpY2U6c2VjcmV0";

/// Where a test extracts to, and its `registries.yaml`.
struct Setup(tempfile::TempDir);

impl Setup {
    fn new(registries: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("registries.yaml"), registries).unwrap();
        Setup(directory)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn options(&self) -> Options {
        Options {
            images: self.path().join("images"),
            registries: vec![self.path().join("registries.yaml")],
            credential_providers: None,
            docker_config: Some(self.path().join("config.json")),
            ..Options::from_variables(|_| None)
        }
    }

    async fn stage(&self, image: &str) -> Result<Staged, image::Error> {
        self.stage_with(&self.options(), image).await
    }

    async fn stage_with(&self, options: &Options, image: &str) -> Result<Staged, image::Error> {
        let into = self.path().join("out");
        let result = stage(options, image, &into).await;
        assert!(!self.path().join("out.layers").exists());
        result
    }

    fn hello(&self) -> String {
        std::fs::read_to_string(self.path().join("out/hello")).unwrap()
    }
}

#[tokio::test]
async fn by_tag_and_by_digest() {
    let image = Image::new("hi");
    let references = [":v1".to_owned(), format!("@{}", image.index), format!(":v1@{}", image.manifest)];
    let server = Server::start(move |request| as_registry(&image, request)).await;
    for reference in references {
        let setup = Setup::new("");
        let staged = setup.stage(&format!("127.0.0.1:{}/team/app{reference}", server.port)).await.unwrap();
        assert_eq!(setup.hello(), "hi", "{reference}");
        assert_eq!(staged.source, format!("http://127.0.0.1:{}/v2", server.port));
    }
    assert!(server.requests().iter().all(|request| !request.target.contains("ns=")));
}

#[tokio::test]
async fn a_token_is_bought_with_the_password() {
    let (image, tokens) = (Image::new("hi"), AtomicUsize::new(0));
    let server = Server::start(move |request| {
        if request.target.starts_with("/token") {
            assert_eq!(request.target, "/token?service=reg&scope=repository:team/app:pull");
            assert_eq!(request.authorization(), ALICE);
            let number = tokens.fetch_add(1, Ordering::Relaxed);
            return Response::new(200, format!("{{\"token\":\"t{number}\"}}"));
        }
        // The first token ends after the manifests.
        let wanted = if request.target.contains("/blobs/") { "Bearer t1" } else { "Bearer t0" };
        if request.authorization() == wanted {
            return as_registry(&image, request);
        }
        let realm = format!("Bearer realm=\"http://{}/token\",service=\"reg\"", request.headers["host"]);
        Response::new(401, "").with("WWW-Authenticate", realm)
    })
    .await;
    let host = format!("127.0.0.1:{}", server.port);
    let setup =
        Setup::new(&format!("configs: {{\"{host}\": {{auth: {{username: alice, password: secret}}}}}}"));
    setup.stage(&format!("{host}/team/app:v1")).await.unwrap();
    assert_eq!(setup.hello(), "hi");
}

#[tokio::test]
async fn an_identity_buys_a_token_by_oauth() {
    let image = Image::new("hi");
    let server = Server::start(move |request| {
        if request.target == "/token" {
            assert_eq!(request.method, "POST");
            assert!(request.body.contains("grant_type=refresh_token"), "{}", request.body);
            assert!(request.body.contains("refresh_token=me%2Bmine"), "{}", request.body);
            return Response::new(200, "{\"access_token\":\"a\"}");
        }
        if request.authorization() == "Bearer a" {
            return as_registry(&image, request);
        }
        let realm = format!("Bearer realm=\"http://{}/token\"", request.headers["host"]);
        Response::new(401, "").with("WWW-Authenticate", realm)
    })
    .await;
    let host = format!("127.0.0.1:{}", server.port);
    let setup = Setup::new(&format!("configs: {{\"{host}\": {{auth: {{identity_token: me+mine}}}}}}"));
    setup.stage(&format!("{host}/team/app:v1")).await.unwrap();
}

#[tokio::test]
async fn passwords_come_from_dockers_file_too() {
    let image = Image::new("hi");
    let server = Server::start(move |request| match request.authorization() {
        ALICE => as_registry(&image, request),
        _ => Response::new(401, "").with("WWW-Authenticate", "Basic realm=\"x\""),
    })
    .await;
    let host = format!("127.0.0.1:{}", server.port);
    let setup = Setup::new("");
    let error = setup.stage(&format!("{host}/team/app:v1")).await.unwrap_err().to_string();
    assert!(error.contains(&format!("there are no credentials for {host}")), "{error}");
    let auth = ALICE.trim_start_matches("Basic ");
    let config = serde_json::json!({"auths": {&host: {"auth": auth}}}).to_string();
    std::fs::write(setup.path().join("config.json"), config).unwrap();
    setup.stage(&format!("{host}/team/app:v1")).await.unwrap();
    assert_eq!(setup.hello(), "hi");
}

#[tokio::test]
async fn mirrors_are_asked_in_order_with_their_own_names() {
    let image = Image::new("hi");
    let broken = Server::start(|_| Response::new(404, "nothing here")).await;
    let mirror = Server::start(move |request| as_registry(&image, request)).await;
    let setup = Setup::new(&format!(
        "mirrors: {{registry.invalid: {{endpoint: [\"http://127.0.0.1:{}\", \"http://127.0.0.1:{}/proxy/r\"], rewrite: {{\"^team/(.*)\": \"mirrored/$1\"}}}}}}",
        broken.port, mirror.port
    ));
    setup.stage("registry.invalid/team/app:v1").await.unwrap();
    assert_eq!(setup.hello(), "hi");
    let targets =
        |server: &Server| server.requests().into_iter().map(|request| request.target).collect::<Vec<_>>();
    assert_eq!(targets(&broken), ["/v2/mirrored/app/manifests/v1?ns=registry.invalid"]);
    let all = targets(&mirror);
    assert_eq!(all[0], "/proxy/r/mirrored/app/manifests/v1?ns=registry.invalid");
    assert!(all.iter().all(|target| target.starts_with("/proxy/r/mirrored/app/")), "{all:?}");
}

#[tokio::test]
async fn what_is_not_what_it_should_be_is_refused() {
    let image = Image::new("hi");
    let (layer, other) = (image.layer.clone(), Image::new("other"));
    let index = image.index.clone();
    let server = Server::start(move |request| {
        let name = request.target.rsplit('/').next().unwrap();
        if name == layer {
            let mut changed = image.blobs[&layer].clone();
            changed[20] ^= 1;
            return Response::new(200, changed);
        }
        if name == index {
            return Response::new(200, other.manifests[&other.index].clone());
        }
        as_registry(&image, request)
    })
    .await;
    let image = Image::new("hi");
    for (reference, expected) in
        [(":v1".to_owned(), &image.layer), (format!("@{}", image.index), &image.index)]
    {
        let setup = Setup::new("");
        let error = setup.stage(&format!("127.0.0.1:{}/team/app{reference}", server.port)).await.unwrap_err();
        assert!(error.to_string().contains(&format!("asked for {expected}, got sha256:")), "{error}");
        assert!(!setup.path().join("out/hello").exists());
    }
}

#[tokio::test]
async fn a_moment_of_trouble_is_waited_for() {
    let (image, count) = (Image::new("hi"), AtomicUsize::new(0));
    let server = Server::start(move |request| match count.fetch_add(1, Ordering::Relaxed) {
        0 => Response::new(503, "later"),
        _ => as_registry(&image, request),
    })
    .await;
    let setup = Setup::new("");
    setup.stage(&format!("127.0.0.1:{}/team/app:v1", server.port)).await.unwrap();
    assert_eq!(setup.hello(), "hi");
}

#[tokio::test]
async fn passwords_do_not_follow_to_other_hosts() {
    let image = Image::new("hi");
    let blobs = image.blobs.clone();
    let store = Server::start(move |request| {
        let name = request.target.rsplit('/').next().unwrap();
        Response::new(200, blobs[name].clone())
    })
    .await;
    let elsewhere = format!("http://localhost:{}", store.port);
    let server = Server::start(move |request| {
        if request.authorization() != ALICE {
            return Response::new(401, "").with("WWW-Authenticate", "Basic");
        }
        match request.target.split_once("/blobs/") {
            Some((_, name)) => Response::new(307, "").with("Location", format!("{elsewhere}/{name}")),
            None => as_registry(&image, request),
        }
    })
    .await;
    let host = format!("127.0.0.1:{}", server.port);
    let setup =
        Setup::new(&format!("configs: {{\"{host}\": {{auth: {{username: alice, password: secret}}}}}}"));
    setup.stage(&format!("{host}/team/app:v1")).await.unwrap();
    assert_eq!(setup.hello(), "hi");
    let requests = store.requests();
    assert!(
        !requests.is_empty() && requests.iter().all(|request| request.authorization().is_empty()),
        "{requests:?}"
    );
}

#[tokio::test]
async fn a_proxy_is_used_where_the_environment_names_one() {
    let image = Image::new("hi");
    let proxy = Server::start(move |request| as_registry(&image, request)).await;
    let setup = Setup::new("mirrors: {registry.invalid: {endpoint: [\"http://registry.invalid:80\"]}}");
    let address = format!("http://127.0.0.1:{}", proxy.port);
    let proxies = Proxies::from_variables(|name| (name == "HTTP_PROXY").then(|| address.clone()));
    let options = Options { proxies, ..setup.options() };
    setup.stage_with(&options, "registry.invalid/team/app:v1").await.unwrap();
    assert_eq!(setup.hello(), "hi");
    let target = &proxy.requests()[0].target;
    assert!(target.starts_with("http://registry.invalid:80/v2/team/app/manifests/v1"), "{target}");
}

#[tokio::test]
async fn limits_hold() {
    let image = Image::new("hi");
    let server = Server::start(move |request| as_registry(&image, request)).await;
    for (limits, message) in [
        (image::Limits { manifest: 10, ..image::Limits::default() }, "the manifest is larger than 10 bytes"),
        (image::Limits { packed: 10, ..image::Limits::default() }, "the image is larger than 10 bytes"),
        (image::Limits { unpacked: 1, ..image::Limits::default() }, "more than 1 bytes unpacked"),
    ] {
        let setup = Setup::new("");
        let options = Options { limits, ..setup.options() };
        let image = format!("127.0.0.1:{}/team/app:v1", server.port);
        let error = setup.stage_with(&options, &image).await.unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
    }
}

/// An agent's task may run on any thread.
#[test]
fn staging_can_be_a_task() {
    fn can_be_spawned<T: Send>(_: T) {}
    let options = Options::from_variables(|_| None);
    can_be_spawned(stage(&options, "a/b", Path::new("/nowhere")));
}
