//! TokenReviews: whose token is this?

use kubeapi::authn::User;
use kubeapi::request::WriteOptions;
use kubeapi::{Status, meta};
use serde_json::{Value, json};

use super::issue::texts;
use super::verify::Accepted;
use super::{Auth, INVALID};
use crate::registry::Resource;
use crate::server::{Answer, Request, read_body};

impl Auth {
    /// Answers a TokenReview.
    pub(super) async fn review_token(
        &self,
        request: &Request,
        reviews: std::sync::Arc<Resource>,
    ) -> Result<Answer, Status> {
        let options = WriteOptions::create(&request.query)?;
        let mut body = request.body.clone().unwrap_or(Value::Null);
        let warnings = read_body(&reviews, &mut body, options.field_validation)?;
        meta::ensure_namespace(&mut body, "")?;
        let token = body["spec"]["token"].as_str().unwrap_or_default();
        if token.is_empty() {
            return Err(Status::bad_request("token is required for TokenReview in authentication"));
        }
        let wanted = texts(&body["spec"]["audiences"]);
        let wanted = if wanted.is_empty() { &self.audiences } else { &wanted };
        body["status"] = match self.holder(token, wanted).await {
            Ok(accepted) => recognised(accepted),
            Err(why) if why == INVALID => json!({"user": {}, "error": why}),
            // Upstream asks two authenticators, of which the first knows only the server's own token.
            Err(why) => json!({"user": {}, "error": format!("[{INVALID}, {why}]")}),
        };
        Ok(Answer { code: 201, body, warnings, resource: reviews })
    }
}

fn recognised(accepted: Accepted) -> Value {
    let user = user_info(&accepted.user.authenticated());
    json!({"authenticated": true, "user": user, "audiences": accepted.audiences})
}

/// A user as reviews show it.
pub(crate) fn user_info(user: &User) -> Value {
    let mut info = json!({"username": user.name});
    if !user.uid.is_empty() {
        info["uid"] = json!(user.uid);
    }
    if !user.groups.is_empty() {
        info["groups"] = json!(user.groups);
    }
    if !user.extra.is_empty() {
        info["extra"] = json!(user.extra);
    }
    info
}
