//! What others need to check the tokens of ServiceAccounts by themselves.

use serde_json::{Value, json};

use super::Auth;
use crate::Document;

const CONFIGURATION: &str = "/.well-known/openid-configuration";
const KEYS: &str = "/openid/v1/jwks";

impl Auth {
    /// The documents of OpenID Connect discovery, at their paths. `None` for other paths.
    pub fn answer(&self, path: &str) -> Option<Document> {
        let key = self.key.as_ref()?;
        let document = |content_type: &str, body: Value| Document {
            content_type: content_type.into(),
            body: body.to_string().into(),
            ..Document::default()
        };
        match path {
            CONFIGURATION => Some(document(
                "application/json",
                json!({
                    "issuer": self.issuer,
                    "jwks_uri": format!("{}{KEYS}", self.issuer.trim_end_matches('/')),
                    "response_types_supported": ["id_token"],
                    "subject_types_supported": ["public"],
                    "id_token_signing_alg_values_supported": [key.algorithm()],
                }),
            )),
            KEYS => Some(document("application/jwk-set+json", key.public_keys())),
            _ => None,
        }
    }
}
