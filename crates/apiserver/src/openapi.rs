//! The schemas of what is served, as OpenAPI documents.

mod described;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;
use kubeapi::media::{self, JSON};
use kubeapi::openapi::Resource;
use kubeapi::request::Query;
use kubeapi::{GroupVersion, Status, openapi};
use serde_json::json;

use crate::Document;
use crate::discovery::hash;
use crate::registry::Registry;
use described::described;

/// OpenAPI 2 in protobuf: as clients ask for it, and as the answer is marked.
const V2_PROTOBUF: [&str; 2] = [
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
];

/// The hashes of version 3's documents.
type Hashes = Arc<BTreeMap<GroupVersion, String>>;

/// The documents of built-in groups that no CRD adds to. They are the same in every server of a process.
static BUILTIN: Mutex<BTreeMap<GroupVersion, Bytes>> = Mutex::new(BTreeMap::new());

/// The OpenAPI documents. They are made when they are asked for. Hashes, and the one document that every kubectl asks
/// for again and again, are kept for as long as what is served stays the same.
#[derive(Debug, Default)]
pub struct OpenApi {
    kept: Mutex<Kept>,
}

/// What is known of a registry.
#[derive(Clone, Debug, Default)]
struct Kept {
    of: Weak<Registry>,
    hashes: Hashes,
    /// OpenAPI 2 in protobuf, once somebody has asked for it.
    v2: Option<Bytes>,
}

impl OpenApi {
    /// The document at a path, if there is one.
    ///
    /// # Errors
    /// 406 for a format that there is not.
    pub fn answer(
        &self,
        registry: &Arc<Registry>,
        path: &str,
        query: &Query,
        accept: &str,
    ) -> Option<Result<Document, Status>> {
        let segments: Vec<&str> = path.strip_prefix("/openapi/")?.split('/').collect();
        let group_version = match segments[..] {
            ["v2"] => return Some(self.v2(registry, accept)),
            ["v3"] => return Some(Ok(self.index(registry))),
            ["v3", "api", version] => GroupVersion::new("", version),
            ["v3", "apis", group, version] => GroupVersion::new(group, version),
            _ => return None,
        };
        let hashes = self.kept(registry).hashes;
        let hash = hashes.get(&group_version)?;
        Some(v3(registry, &group_version, hash, query, accept))
    }

    /// The table of version 3's documents.
    fn index(&self, registry: &Arc<Registry>) -> Document {
        let hashes = self.kept(registry).hashes;
        let paths: serde_json::Map<String, _> = hashes
            .iter()
            .map(|(group_version, hash)| {
                (below(group_version), json!({"serverRelativeURL": url(group_version, hash)}))
            })
            .collect();
        let body = json!({"paths": paths}).to_string().into();
        Document { content_type: JSON.into(), body, ..Document::default() }
    }

    fn kept(&self, registry: &Arc<Registry>) -> Kept {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let of = Arc::downgrade(registry);
        if !kept.of.ptr_eq(&of) {
            let found = described(registry).into_iter();
            let hashes = found.map(|(group_version, all)| (group_version, hash(&input(&all)))).collect();
            *kept = Kept { of, hashes: Arc::new(hashes), v2: None };
        }
        kept.clone()
    }

    fn v2(&self, registry: &Arc<Registry>, accept: &str) -> Result<Document, Status> {
        let offered = [JSON, V2_PROTOBUF[0], V2_PROTOBUF[1]];
        let chosen = media::choose(accept, &offered).ok_or_else(|| Status::not_acceptable(&offered))?;
        let kept = self.kept(registry);
        let make = || {
            let resources: Vec<Resource<'_>> = described(registry).into_values().flatten().collect();
            openapi::v2(&resources)
        };
        let (content_type, body) = match (chosen, kept.v2) {
            (JSON, _) => (JSON, make().to_string().into()),
            (_, Some(body)) => (V2_PROTOBUF[1], body),
            (_, None) => (V2_PROTOBUF[1], self.keep(registry, openapi::encode_v2(&make()).into())),
        };
        let parts: String = kept.hashes.values().map(String::as_str).collect();
        Ok(Document {
            content_type: content_type.into(),
            etag: Some(hash(parts.as_bytes())),
            body,
            headers: vec![("Vary", "Accept".into())],
            moved: None,
        })
    }

    fn keep(&self, registry: &Arc<Registry>, body: Bytes) -> Bytes {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.of.ptr_eq(&Arc::downgrade(registry)) {
            kept.v2 = Some(body.clone());
        }
        body
    }
}

/// All that a document is made of: it changes with it, and it is had without making the document.
fn input(resources: &[Resource<'_>]) -> Vec<u8> {
    let mut input = concat!("apiserver ", env!("CARGO_PKG_VERSION")).as_bytes().to_vec();
    for one in resources {
        input.extend(format!("{one:?}").as_bytes());
    }
    input
}

fn below(GroupVersion { group, version }: &GroupVersion) -> String {
    match group.as_str() {
        "" => format!("api/{version}"),
        group => format!("apis/{group}/{version}"),
    }
}

fn url(group_version: &GroupVersion, hash: &str) -> String {
    format!("/openapi/v3/{}?hash={hash}", below(group_version))
}

fn v3(
    registry: &Registry,
    group_version: &GroupVersion,
    hash: &str,
    query: &Query,
    accept: &str,
) -> Result<Document, Status> {
    media::choose(accept, &[JSON]).ok_or_else(|| Status::not_acceptable(&[JSON]))?;
    let mut document = Document {
        content_type: JSON.into(),
        etag: Some(hash.to_owned()),
        headers: vec![("Vary", "Accept".into())],
        ..Document::default()
    };
    match query.first("hash").filter(|asked| !asked.is_empty()) {
        Some(asked) if asked != hash => {
            document.moved = Some(url(group_version, hash));
            return Ok(document);
        }
        // With another content it has another address.
        Some(_) => {
            document.headers.push(("Cache-Control", "public, immutable, max-age=31536000".into()));
        }
        None => {}
    }
    document.body = v3_body(registry, group_version);
    Ok(document)
}

fn v3_body(registry: &Registry, group_version: &GroupVersion) -> Bytes {
    let resources = described(registry).remove(group_version).unwrap_or_default();
    let make = || Bytes::from(openapi::v3(&resources).to_string());
    match resources.iter().all(|one| one.custom.is_none()) {
        false => make(),
        true => {
            let mut kept = BUILTIN.lock().unwrap_or_else(PoisonError::into_inner);
            kept.entry(group_version.clone()).or_insert_with(make).clone()
        }
    }
}
