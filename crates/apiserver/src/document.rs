use bytes::Bytes;

/// An answer that is a document and not an object: discovery, OpenAPI, health.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document {
    /// Its media type.
    pub content_type: String,
    /// What changes when it changes, for who has it already; without quotes.
    pub etag: Option<String>,
    /// Its bytes.
    pub body: Bytes,
    /// Further headers; `Cache-Control` among them stands for the usual one.
    pub headers: Vec<(&'static str, String)>,
    /// Where it is to be asked for instead: the answer is 301 with this `Location`, and has no body.
    pub moved: Option<String>,
}
