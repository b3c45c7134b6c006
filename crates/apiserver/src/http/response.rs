//! Answers as HTTP: the headers that all of them have, and the forms that are not negotiated.

use std::collections::BTreeSet;

use ::http::header::{
    CACHE_CONTROL, CONTENT_TYPE, DATE, ETAG, HeaderName, IF_NONE_MATCH, LOCATION, RETRY_AFTER, WARNING,
    X_CONTENT_TYPE_OPTIONS,
};
use ::http::{HeaderMap, HeaderValue, Response, StatusCode};
use bytes::Bytes;
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;

use super::lasting::Lasting;
use super::{Body, compression};
use crate::Document;

/// Upstream's own name for the number of a request.
pub(super) const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

const TEXT: &str = "text/plain; charset=utf-8";

/// A header's text; empty if there is none.
pub(super) fn header(headers: &HeaderMap, name: HeaderName) -> &str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// An answer with a body of a media type.
pub(super) fn with_body(code: u16, content_type: &str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    set(&mut response, CONTENT_TYPE, content_type);
    response
}

/// Text, as Go's `http.Error` gives it.
pub(super) fn text(code: u16, text: impl Into<Bytes>) -> Response<Body> {
    let mut response = with_body(code, TEXT, Body::full(text));
    set(&mut response, X_CONTENT_TYPE_OPTIONS, "nosniff");
    response
}

/// What paths answer that are no place at all.
pub(super) fn nowhere() -> Response<Body> {
    text(404, "404 page not found\n")
}

/// A document, or that it has not changed since the client had it.
pub(super) fn document(document: Document, headers: &HeaderMap) -> Response<Body> {
    if let Some(place) = &document.moved {
        let mut response = with_body(301, &document.content_type, Body::full(Bytes::new()));
        set(&mut response, LOCATION, place);
        return response;
    }
    let known = header(headers, IF_NONE_MATCH);
    let unchanged = document.etag.as_deref().is_some_and(|etag| is_known(etag, known));
    let mut response = match unchanged {
        true => with_body(304, &document.content_type, Body::full(Bytes::new())),
        false => {
            let gzip = compression::is_wanted(headers);
            compression::with_bytes(200, &document.content_type, document.body, gzip)
        }
    };
    if let Some(etag) = &document.etag {
        set(&mut response, ETAG, &format!("\"{etag}\""));
    }
    for (name, value) in &document.headers {
        if let Ok(name) = HeaderName::from_bytes(name.as_bytes()) {
            set(&mut response, name, value);
        }
    }
    response
}

/// Whether an `If-None-Match` header names this version.
fn is_known(etag: &str, header: &str) -> bool {
    let bare = |tag: &str| tag.trim().trim_start_matches("W/").trim_matches('"').to_owned();
    header.trim() == "*" || header.split(',').any(|one| !one.is_empty() && bare(one) == bare(etag))
}

/// Sets a header, unless its value cannot be one.
pub(super) fn set(response: &mut Response<Body>, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
        response.headers_mut().insert(name, value);
    }
}

/// Sets what every answer has.
pub(super) fn finish(response: &mut Response<Body>, audit_id: &HeaderValue) {
    let headers = response.headers_mut();
    headers.insert(AUDIT_ID, audit_id.clone());
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache, private"));
}

/// Marks an answer that goes on for ever. Whoever writes it has no clock for the header that the HTTP library would add.
pub(super) fn last(response: &mut Response<Body>, now: Timestamp) {
    response.extensions_mut().insert(Lasting);
    if let Ok(date) = DateTimePrinter::new().timestamp_to_rfc9110_string(&now) {
        set(response, DATE, &date);
    }
}

/// Says when to come back.
pub(super) fn retry_after(response: &mut Response<Body>, seconds: u32) {
    if seconds > 0 {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
}

/// The most characters of all warnings together, and of each once it comes to that.
const WARNINGS: usize = 4 * 1024;
const SHORT_WARNING: usize = 256;

/// Adds `Warning` headers: each text once, all of them cut short if they are too long together.
pub(super) fn warn(response: &mut Response<Body>, warnings: &[String]) {
    let mut seen = BTreeSet::new();
    let warnings: Vec<&String> =
        warnings.iter().filter(|text| !text.is_empty() && seen.insert(text.as_str())).collect();
    let total: usize = warnings.iter().map(|text| text.chars().count()).sum();
    let most = if total > WARNINGS { SHORT_WARNING } else { usize::MAX };
    let mut written = 0;
    for text in warnings {
        let text: String = text.chars().take(most).collect();
        // Of what is already cut short, what starts beyond the limit is left out.
        if total > WARNINGS && written >= WARNINGS {
            break;
        }
        written += text.chars().count();
        if let Some(value) = warning(&text) {
            response.headers_mut().append(WARNING, value);
        }
    }
}

/// A `Warning` header's value; none if the text has characters that no header has.
fn warning(text: &str) -> Option<HeaderValue> {
    if text.chars().any(char::is_control) {
        return None;
    }
    let quoted = text.replace('\\', r"\\").replace('"', "\\\"");
    HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warnings(texts: &[String]) -> Vec<String> {
        let mut response = nowhere();
        warn(&mut response, texts);
        let values = response.headers().get_all(WARNING).iter();
        values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
    }

    #[test]
    fn warnings_are_quoted_and_given_once() {
        let texts = ["a \"b\" \\ c", "", "ü", "a \"b\" \\ c", "line\nbreak"].map(str::to_owned);
        assert_eq!(warnings(&texts), ["299 - \"a \\\"b\\\" \\\\ c\"", "299 - \"ü\""]);
    }

    #[test]
    fn many_long_warnings_are_cut_short() {
        let texts: Vec<String> = (0..30).map(|number| format!("{number:02}{}", "x".repeat(998))).collect();
        let given = warnings(&texts);
        assert_eq!(given.len(), WARNINGS / SHORT_WARNING);
        assert!(given.iter().all(|text| text.len() == "299 - \"\"".len() + SHORT_WARNING));
        assert_eq!(warnings(&texts[..4]).len(), 4);
        assert!(warnings(&texts[..4])[0].len() > 1000);
    }

    #[test]
    fn documents_that_are_known_are_not_sent_again() {
        let made = Document {
            content_type: "application/json".into(),
            etag: Some("A".into()),
            body: Bytes::from_static(b"{}"),
            ..Document::default()
        };
        for (known, code) in [("\"A\"", 304), ("\"B\"", 200)] {
            let headers = HeaderMap::from_iter([(IF_NONE_MATCH, HeaderValue::from_static(known))]);
            let response = document(made.clone(), &headers);
            assert_eq!(
                (response.status().as_u16(), &response.headers()[ETAG]),
                (code, &HeaderValue::from_static("\"A\""))
            );
            assert_eq!(http_body::Body::is_end_stream(response.body()), code == 304);
        }
    }

    #[test]
    fn etags_match_in_all_their_forms() {
        for (header, known) in [
            ("\"A\"", true),
            ("W/\"A\"", true),
            ("A", true),
            ("\"B\", \"A\"", true),
            ("*", true),
            ("\"B\"", false),
            ("", false),
        ] {
            assert_eq!(is_known("A", header), known, "{header}");
        }
    }
}
