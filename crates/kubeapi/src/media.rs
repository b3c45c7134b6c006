//! Media types: in which format and shape an answer goes out, and a body came in.

use std::cmp::Reverse;

use crate::{Status, status::Details};

/// JSON.
pub const JSON: &str = "application/json";
/// YAML.
pub const YAML: &str = "application/yaml";
/// Kubernetes' protobuf, in its envelope.
pub const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// RFC 6902.
pub const JSON_PATCH: &str = "application/json-patch+json";
/// RFC 7396.
pub const MERGE_PATCH: &str = "application/merge-patch+json";
/// Kubernetes' own merge that knows lists.
pub const STRATEGIC_MERGE_PATCH: &str = "application/strategic-merge-patch+json";
/// Server-side apply.
pub const APPLY_PATCH: &str = "application/apply-patch+yaml";

const ALL: [&str; 3] = [JSON, YAML, PROTOBUF];
const STREAMS: [&str; 2] =
    ["application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"];

/// How bytes are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// JSON.
    Json,
    /// YAML; not for watches.
    Yaml,
    /// Protobuf; not for the objects of custom resources, nor for Tables.
    Protobuf,
}

impl Format {
    const OFFERED: [Format; 3] = [Format::Json, Format::Yaml, Format::Protobuf];

    /// The media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Format::Json => JSON,
            Format::Yaml => YAML,
            Format::Protobuf => PROTOBUF,
        }
    }

    /// The `Content-Type` of a watch in this format.
    pub fn watch_content_type(self) -> &'static str {
        match self {
            Format::Json => JSON,
            Format::Yaml => YAML,
            Format::Protobuf => STREAMS[1],
        }
    }

    fn of(media_type: &str) -> Option<Self> {
        Format::OFFERED.into_iter().find(|format| format.media_type() == media_type)
    }
}

/// The versions of `meta.k8s.io` that an answer may be converted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaVersion {
    /// `meta.k8s.io/v1`
    V1,
    /// `meta.k8s.io/v1beta1`
    V1Beta1,
}

impl MetaVersion {
    /// As in `apiVersion`.
    pub fn api_version(self) -> &'static str {
        match self {
            MetaVersion::V1 => "meta.k8s.io/v1",
            MetaVersion::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// What an answer consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// The object or list itself.
    Plain,
    /// Rows for people.
    Table(MetaVersion),
    /// The metadata of one object.
    Metadata(MetaVersion),
    /// The metadata of a list's objects.
    MetadataList(MetaVersion),
}

/// How an answer is to be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Its format.
    pub format: Format,
    /// Its shape.
    pub shape: Shape,
    /// Whether a person will read it.
    pub pretty: bool,
}

/// Whose objects an endpoint serves: custom ones have no protobuf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// Kinds that are built in.
    Builtin,
    /// Kinds of a CustomResourceDefinition.
    Custom,
}

/// Chooses an answer's format and shape by the `Accept` header; none (or an empty one) means JSON.
///
/// # Errors
/// 406 if nothing that is asked for can be given.
pub fn accept(header: &str, endpoint: Endpoint) -> Result<Accepted, Status> {
    if header.is_empty() {
        return Ok(Accepted { format: Format::Json, shape: Shape::Plain, pretty: false });
    }
    let clauses = clauses(header);
    let found = negotiate(&clauses, |clause, format| {
        let shape = shape_of(clause)?;
        let served = match (shape, format) {
            (Shape::Plain, Format::Protobuf) => endpoint == Endpoint::Builtin,
            (Shape::Table(_), Format::Protobuf) => false,
            _ => true,
        };
        let pretty = clause.parameter("pretty") == Some("1");
        served.then_some(Accepted { format, shape, pretty })
    });
    found.ok_or_else(|| {
        let known = negotiate(&clauses, |_, format| Some(format)).is_some();
        match endpoint == Endpoint::Builtin && !known {
            true => {
                let formats = ALL.join(", ");
                let message = format!("406: Not Acceptable\n\nAvailable representations: {formats}");
                Status { message, details: Some(Details::default()), ..Status::not_acceptable(&ALL) }
            }
            false => Status::not_acceptable(&ALL),
        }
    })
}

/// As [`accept`], for a list: whoever lists may also watch, so that a refusal names the formats of that, too.
///
/// # Errors
/// 406 if nothing that is asked for can be given.
pub fn accept_list(header: &str, endpoint: Endpoint) -> Result<Accepted, Status> {
    accept(header, endpoint).map_err(|status| match status.message.starts_with("406") {
        true => Status { message: format!("{}, {}", status.message, STREAMS.join(", ")), ..status },
        false => status,
    })
}

/// As [`accept`], for the events of a watch.
///
/// # Errors
/// 406 if nothing that is asked for can be given, or if the choice falls on YAML, which has no streams.
pub fn accept_watch(header: &str, endpoint: Endpoint) -> Result<Accepted, Status> {
    let accepted = accept(header, endpoint)?;
    match accepted.format {
        Format::Yaml => Err(Status::not_acceptable(&STREAMS)),
        _ => Ok(accepted),
    }
}

/// The format of a body by the `Content-Type` header; none means JSON.
///
/// # Errors
/// 415 if it is none that can be read here.
pub fn content_type(header: &str, endpoint: Endpoint) -> Result<Format, Status> {
    if header.is_empty() {
        return Ok(Format::Json);
    }
    let (media_type, parameters) = header.split_once(';').unwrap_or((header, ""));
    let sound = parameters.split(';').all(|one| one.trim().is_empty() || one.contains('='));
    let format = Format::of(&media_type.trim().to_lowercase()).filter(|_| sound);
    let readable = format.filter(|format| *format != Format::Protobuf || endpoint == Endpoint::Builtin);
    readable.ok_or_else(|| Status::unsupported_media_type(&ALL))
}

/// The kinds of patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchType {
    /// RFC 6902.
    Json,
    /// RFC 7396.
    Merge,
    /// Kubernetes' own merge that knows lists; only for kinds that are built in.
    Strategic,
    /// Server-side apply.
    Apply,
}

/// The kind of a patch by the `Content-Type` header.
///
/// # Errors
/// 415 if it is none that is taken here.
pub fn patch_type(header: &str, endpoint: Endpoint) -> Result<PatchType, Status> {
    let media_type = header.split(';').next().unwrap_or_default();
    match (media_type, endpoint) {
        (JSON_PATCH, _) => Ok(PatchType::Json),
        (MERGE_PATCH, _) => Ok(PatchType::Merge),
        (STRATEGIC_MERGE_PATCH, Endpoint::Builtin) => Ok(PatchType::Strategic),
        (APPLY_PATCH, _) => Ok(PatchType::Apply),
        (_, Endpoint::Builtin) => {
            let message = "415: Unsupported Media Type".to_owned();
            Err(Status { message, details: Some(Details::default()), ..Status::unsupported_media_type(&[]) })
        }
        (_, Endpoint::Custom) => Err(Status::unsupported_media_type(&[JSON_PATCH, MERGE_PATCH, APPLY_PATCH])),
    }
}

/// Which of the media types that are offered an `Accept` header prefers; none (or an empty one) takes the first.
/// `None`: it takes none of them.
pub fn choose<'a>(header: &str, offered: &[&'a str]) -> Option<&'a str> {
    if header.is_empty() {
        return offered.first().copied();
    }
    let takes = |clause: &Clause<'_>, offer: &str| match (clause.main, clause.sub) {
        ("*", "*") => true,
        (main, "*") => offer.split_once('/').is_some_and(|(offered, _)| offered == main),
        (main, sub) => offer.split_once('/') == Some((main, sub)),
    };
    let clauses = clauses(header);
    clauses.iter().find_map(|clause| offered.iter().copied().find(|offer| takes(clause, offer)))
}

/// In which form discovery is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discovery {
    /// Group by group.
    Legacy,
    /// All at once, `apidiscovery.k8s.io/v2`.
    V2,
    /// All at once, `apidiscovery.k8s.io/v2beta1`.
    V2Beta1,
}

impl Discovery {
    /// The form by the `Accept` header of a request for `/api` or `/apis`. An aggregated form wins over the legacy
    /// one wherever it stands.
    pub fn accept(header: &str) -> (Self, Format) {
        let aggregated = negotiate(&clauses(header), |clause, format| {
            let wanted = ["g", "v", "as"].map(|parameter| clause.parameter(parameter).unwrap_or_default());
            match wanted {
                ["apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList"] => Some((Discovery::V2, format)),
                ["apidiscovery.k8s.io", "v2beta1", "APIGroupDiscoveryList"] => {
                    Some((Discovery::V2Beta1, format))
                }
                _ => None,
            }
        });
        let legacy = || negotiate(&clauses(header), |_, format| Some(format)).unwrap_or(Format::Json);
        aggregated.unwrap_or_else(|| (Discovery::Legacy, legacy()))
    }

    /// The `Content-Type` of the answer.
    pub fn content_type(self, format: Format) -> String {
        let media_type = format.media_type();
        match self {
            Discovery::Legacy => media_type.to_owned(),
            Discovery::V2 => format!("{media_type};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"),
            Discovery::V2Beta1 => {
                format!("{media_type};g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList")
            }
        }
    }
}

/// One of the alternatives in an `Accept` header.
#[derive(Debug)]
struct Clause<'a> {
    main: &'a str,
    sub: &'a str,
    quality: f64,
    parameters: Vec<(&'a str, &'a str)>,
}

impl Clause<'_> {
    fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().rev().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }

    fn takes(&self, format: Format) -> bool {
        match (self.main, self.sub) {
            ("*", "*") | ("application", "*") => true,
            (main, sub) => format.media_type().split_once('/') == Some((main, sub)),
        }
    }
}

/// The alternatives, the preferred ones first.
fn clauses(header: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<Clause<'_>> = header.split(',').filter_map(clause).collect();
    clauses.sort_by(|left, right| {
        let specific = |clause: &Clause<'_>| Reverse((clause.main != "*", clause.sub != "*"));
        right.quality.total_cmp(&left.quality).then_with(|| specific(left).cmp(&specific(right)))
    });
    clauses
}

fn clause(text: &str) -> Option<Clause<'_>> {
    let (range, rest) = text.trim().split_once(';').unwrap_or((text.trim(), ""));
    let (main, sub) = match range.split('/').map(str::trim).collect::<Vec<_>>()[..] {
        ["*"] => ("*", "*"),
        [main, sub] if !sub.is_empty() => (main, sub),
        _ => return None,
    };
    let mut clause = Clause { main, sub, quality: 1.0, parameters: Vec::new() };
    for pair in rest.split(';') {
        match pair.split_once('=').map(|(key, value)| (key.trim(), value)) {
            Some((_, value)) if value.contains('=') || value.is_empty() => {}
            Some(("q", value)) => clause.quality = value.parse().unwrap_or(0.0),
            Some((key, value)) => clause.parameters.push((key, value.trim())),
            None => {}
        }
    }
    Some(clause)
}

fn negotiate<T>(clauses: &[Clause<'_>], choose: impl Fn(&Clause<'_>, Format) -> Option<T>) -> Option<T> {
    let pairs = clauses.iter().flat_map(|clause| Format::OFFERED.map(|format| (clause, format)));
    pairs.filter(|(clause, format)| clause.takes(*format)).find_map(|(clause, format)| {
        let streams = match clause.parameter("stream") {
            None | Some("") => true,
            Some(stream) => stream == "watch" && format != Format::Yaml,
        };
        if streams { choose(clause, format) } else { None }
    })
}

/// The shape that a clause asks for; `None` if there is no such.
fn shape_of(clause: &Clause<'_>) -> Option<Shape> {
    let [group, version, kind] = ["g", "v", "as"].map(|parameter| clause.parameter(parameter));
    if (group, version, kind) == (None, None, None) {
        return Some(Shape::Plain);
    }
    let version = match (group, version) {
        (Some("meta.k8s.io"), Some("v1")) => MetaVersion::V1,
        (Some("meta.k8s.io"), Some("v1beta1")) => MetaVersion::V1Beta1,
        _ => return None,
    };
    match kind {
        Some("Table") => Some(Shape::Table(version)),
        Some("PartialObjectMetadata") => Some(Shape::Metadata(version)),
        Some("PartialObjectMetadataList") => Some(Shape::MetadataList(version)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::Endpoint::{Builtin, Custom};
    use super::Format::{Json, Protobuf, Yaml};
    use super::MetaVersion::{V1, V1Beta1};
    use super::*;

    #[test]
    fn answers_have_the_format_that_is_preferred() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        for (header, endpoint, format, shape) in [
            ("", Builtin, Json, Shape::Plain),
            ("*/*", Builtin, Json, Shape::Plain),
            ("*", Custom, Json, Shape::Plain),
            ("application/*", Builtin, Json, Shape::Plain),
            ("application/yaml", Custom, Yaml, Shape::Plain),
            ("application/json;q=0.5,application/yaml", Builtin, Yaml, Shape::Plain),
            ("*/*,application/yaml", Builtin, Yaml, Shape::Plain),
            ("text/html,application/xhtml+xml,*/*;q=0.8", Builtin, Json, Shape::Plain),
            ("application/vnd.kubernetes.protobuf,application/json", Builtin, Protobuf, Shape::Plain),
            ("application/vnd.kubernetes.protobuf,application/json", Custom, Json, Shape::Plain),
            (table, Custom, Json, Shape::Table(V1)),
            ("application/json;as=Table;v=v1beta1;g=meta.k8s.io", Builtin, Json, Shape::Table(V1Beta1)),
            (
                "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,*/*",
                Builtin,
                Json,
                Shape::Plain,
            ),
            (
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
                Custom,
                Protobuf,
                Shape::Metadata(V1),
            ),
            (
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
                Custom,
                Json,
                Shape::MetadataList(V1),
            ),
            ("application/json;as=Other;g=meta.k8s.io;v=v1,application/yaml", Custom, Yaml, Shape::Plain),
            ("application/json;stream=watch", Builtin, Json, Shape::Plain),
            ("application/json; charset=utf-8", Builtin, Json, Shape::Plain),
        ] {
            let found = accept(header, endpoint).unwrap();
            assert_eq!((found.format, found.shape), (format, shape), "{header}");
        }
        assert!(accept("application/json;pretty=1", Builtin).unwrap().pretty);
    }

    #[test]
    fn what_cannot_be_given_is_refused() {
        let listed = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
        let plain = format!("only the following media types are accepted: {listed}");
        let unknown = format!("406: Not Acceptable\n\nAvailable representations: {listed}");
        for (header, endpoint, message) in [
            ("text/plain", Builtin, &unknown),
            ("text/plain", Custom, &plain),
            ("application/vnd.kubernetes.protobuf", Custom, &plain),
            ("application/json;as=Table;v=v2;g=meta.k8s.io", Builtin, &plain),
            ("application/json;as=Table", Builtin, &plain),
            ("application/json;stream=other", Custom, &plain),
        ] {
            let status = accept(header, endpoint).unwrap_err();
            assert_eq!((status.code, &status.message), (406, message), "{header}");
        }
    }

    #[test]
    fn other_types_are_chosen_by_preference() {
        let offered = ["application/json", "application/x+protobuf"];
        for (header, chosen) in [
            ("", Some("application/json")),
            ("*/*", Some("application/json")),
            ("application/*", Some("application/json")),
            ("application/x+protobuf", Some("application/x+protobuf")),
            ("application/json;q=0.5, application/x+protobuf", Some("application/x+protobuf")),
            ("text/plain, */*;q=0.1", Some("application/json")),
            ("text/*", None),
        ] {
            assert_eq!(choose(header, &offered), chosen, "{header}");
        }
    }

    #[test]
    fn watches_are_not_yaml() {
        let status = accept_watch("application/yaml", Builtin).unwrap_err();
        assert_eq!(
            status.message,
            "only the following media types are accepted: application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
        );
        let accepted = accept_watch("application/vnd.kubernetes.protobuf;stream=watch", Builtin).unwrap();
        assert_eq!(accepted.format.watch_content_type(), "application/vnd.kubernetes.protobuf;stream=watch");
        assert_eq!(Json.watch_content_type(), "application/json");
    }

    #[test]
    fn bodies_are_known_by_their_type() {
        for (header, endpoint, wanted) in [
            ("", Custom, Some(Json)),
            ("application/json", Custom, Some(Json)),
            ("Application/JSON; charset=utf-8", Custom, Some(Json)),
            ("application/yaml", Builtin, Some(Yaml)),
            ("application/vnd.kubernetes.protobuf", Builtin, Some(Protobuf)),
            ("application/vnd.kubernetes.protobuf", Custom, None),
            ("application/json; x", Builtin, None),
            ("text/plain", Builtin, None),
        ] {
            let found = content_type(header, endpoint);
            assert_eq!(found.as_ref().ok().copied(), wanted, "{header}");
            if let Err(status) = found {
                assert_eq!(
                    status.message,
                    "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf"
                );
            }
        }
    }

    #[test]
    fn patches_are_known_by_their_type() {
        for (header, endpoint, wanted) in [
            (JSON_PATCH, Custom, Ok(PatchType::Json)),
            (MERGE_PATCH, Builtin, Ok(PatchType::Merge)),
            ("application/merge-patch+json; charset=utf-8", Custom, Ok(PatchType::Merge)),
            (APPLY_PATCH, Custom, Ok(PatchType::Apply)),
            (STRATEGIC_MERGE_PATCH, Builtin, Ok(PatchType::Strategic)),
            (
                STRATEGIC_MERGE_PATCH,
                Custom,
                Err(
                    "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
                ),
            ),
            (JSON, Builtin, Err("415: Unsupported Media Type")),
            ("", Builtin, Err("415: Unsupported Media Type")),
        ] {
            let found = patch_type(header, endpoint).map_err(|status| status.message);
            assert_eq!(found, wanted.map_err(str::to_owned), "{header}");
        }
    }

    #[test]
    fn discovery_is_aggregated_where_asked() {
        let kubectl = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
        for (header, wanted) in [
            (kubectl, (Discovery::V2, Json)),
            (
                "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
                (Discovery::V2Beta1, Json),
            ),
            (
                "application/json,application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
                (Discovery::V2, Protobuf),
            ),
            ("application/json", (Discovery::Legacy, Json)),
            (
                "application/json;g=apidiscovery.k8s.io;v=v3;as=APIGroupDiscoveryList,application/yaml",
                (Discovery::Legacy, Json),
            ),
            ("", (Discovery::Legacy, Json)),
        ] {
            assert_eq!(Discovery::accept(header), wanted, "{header}");
        }
        assert_eq!(
            Discovery::V2.content_type(Json),
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        );
    }
}
