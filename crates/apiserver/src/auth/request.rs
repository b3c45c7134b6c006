//! The `token` subresource of ServiceAccounts: TokenRequests.

use std::sync::Arc;

use jiff::Timestamp;
use kubeapi::request::WriteOptions;
use kubeapi::{FieldError, GroupKind, GroupResource, GroupVersion, Path, Status, meta};
use serde_json::{Value, json};

use super::Auth;
use super::issue::{Bound, Ref, Wanted, texts};
use super::key::SigningKey;
use crate::registry::Resource;
use crate::server::{Answer, Request, read_body};

const DEFAULT_SECONDS: i64 = 3600;
const LEAST_SECONDS: i64 = 600;
const MOST_SECONDS: i64 = 1 << 32;
/// Pods that ask for this many seconds were written when tokens had no end: they get a year, and a mark in the token.
const WARN_ONLY_SECONDS: i64 = 3607;
const EXTENDED_SECONDS: i64 = 365 * 24 * 3600;

impl Auth {
    /// Makes a token for the account that a request names.
    pub(super) async fn request_token(
        &self,
        request: &Request,
        accounts: &Arc<Resource>,
        key: &SigningKey,
    ) -> Result<Answer, Status> {
        let (namespace, name) = (&request.target.namespace, &request.target.name);
        let kind = accounts.of_subresource("token").ok_or_else(Status::no_such_resource)?;
        let options = WriteOptions::create(&request.query)?;
        let mut body = request.body.clone().unwrap_or(Value::Null);
        let mut warnings = read_body(&kind, &mut body, options.field_validation)?;
        let dry_run = options.dry_run;
        warnings.extend(self.server.change_part(request, accounts, &mut body, dry_run).await?);
        let said = meta::text(&body, "name");
        if !said.is_empty() && said != name {
            let path = Path::new("metadata").child("name");
            let why = "must match the service account name if specified";
            return Err(Status::invalid(&kind.group_kind(), name, &[FieldError::invalid(&path, said, why)]));
        }
        meta::ensure_namespace(&mut body, namespace)?;
        let account = self.named("serviceaccounts", namespace, name)?;
        check_uid(&body, &account, name)?;
        let now = self.server.clock().now();
        self.settle(&mut body, &account, now);
        check_seconds(&body, &kind.group_kind())?;
        warnings.extend(self.server.judge_part(request, accounts, &body, dry_run).await?);
        let bound = self.bound(&body["spec"]["boundObjectRef"], namespace, name)?;
        let audiences = texts(&body["spec"]["audiences"]);
        let asked = seconds(&body);
        let of_pod = bound.pod.is_some() && audiences.iter().all(|one| self.audiences.contains(one));
        let extended = of_pod && asked == WARN_ONLY_SECONDS;
        let wanted = Wanted {
            namespace,
            account: Ref { name: name.clone(), uid: meta::text(&account, "uid").into() },
            audiences: &audiences,
            bound,
            now,
            seconds: if extended { EXTENDED_SECONDS } else { asked },
            warn_after: extended.then_some(asked),
            id: self.server.with_entropy(meta::new_uid),
        };
        let token = wanted
            .sign(&self.issuer, key)
            .map_err(|error| Status::internal(format!("failed to generate token: {error}")))?;
        body["status"] =
            json!({"token": token, "expirationTimestamp": time(now.as_second().saturating_add(asked))});
        Ok(Answer { code: 201, body, warnings, resource: kind.into() })
    }

    /// What a request leaves open.
    fn settle(&self, body: &mut Value, account: &Value, now: Timestamp) {
        for field in ["name", "namespace", "uid"] {
            body["metadata"][field] = account["metadata"][field].clone();
        }
        body["metadata"]["creationTimestamp"] = time(now.as_second());
        if texts(&body["spec"]["audiences"]).is_empty() {
            body["spec"]["audiences"] = json!(self.audiences);
        }
        if body["spec"]["expirationSeconds"].is_null() {
            body["spec"]["expirationSeconds"] = json!(DEFAULT_SECONDS);
        }
        // As Go writes it: there, and null if there is none.
        body["spec"]["boundObjectRef"] = body["spec"]["boundObjectRef"].take();
    }

    /// What the token is to be bound to.
    fn bound(&self, reference: &Value, namespace: &str, account: &str) -> Result<Bound, Status> {
        if reference.is_null() {
            return Ok(Bound::default());
        }
        let text = |field: &str| reference[field].as_str().unwrap_or_default();
        let (kind, name) = (text("kind"), text("name"));
        let version = GroupVersion::parse(text("apiVersion")).unwrap_or_default();
        let of_kind = |object: &Value| Ref { name: name.into(), uid: meta::text(object, "uid").into() };
        let (bound, found) = match (version.group.as_str(), kind) {
            ("", "Pod") => {
                let pod = self.named("pods", namespace, name)?;
                let (pod_ref, node) = (of_kind(&pod), self.node_of(&pod, account)?);
                (Bound { pod: Some(pod_ref.clone()), node, ..Bound::default() }, pod_ref)
            }
            ("", "Node") => {
                let node = of_kind(&self.named("nodes", "", name)?);
                (Bound { node: Some(node.clone()), ..Bound::default() }, node)
            }
            ("", "Secret") => {
                let secret = of_kind(&self.named("secrets", namespace, name)?);
                (Bound { secret: Some(secret.clone()), ..Bound::default() }, secret)
            }
            (group, kind) => {
                let shown = format!("{group}/{}, Kind={kind}", version.version);
                return Err(Status::bad_request(format!("cannot bind token to object of type {shown}")));
            }
        };
        let claimed = text("uid");
        if !claimed.is_empty() && claimed != found.uid {
            let why = format!(
                "the UID in the bound object reference ({claimed}) does not match the UID in record. The object might have been deleted and then recreated"
            );
            return Err(Status::conflict(&GroupResource::new(&*version.group, kind), name, &why));
        }
        Ok(bound)
    }

    /// The Node that a Pod runs on, if the Pod is one of the account.
    fn node_of(&self, pod: &Value, account: &str) -> Result<Option<Ref>, Status> {
        if pod["spec"]["serviceAccountName"].as_str().unwrap_or("default") != account {
            return Err(Status::bad_request(format!(
                "cannot bind token for serviceaccount {account:?} to pod running with different serviceaccount name."
            )));
        }
        let Some(name) = pod["spec"]["nodeName"].as_str().filter(|name| !name.is_empty()) else {
            return Ok(None);
        };
        // A Node that is not there is still worth its name.
        let node = self.named("nodes", "", name).unwrap_or_default();
        Ok(Some(Ref { name: name.into(), uid: meta::text(&node, "uid").into() }))
    }

    /// A core object.
    fn named(&self, plural: &str, namespace: &str, name: &str) -> Result<Value, Status> {
        let place = if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") };
        let view = self.server.store().view();
        let stored = view.get(&format!("/registry/core/{plural}/{place}"));
        let stored = stored.ok_or_else(|| Status::not_found(&GroupResource::new("", plural), name))?;
        serde_json::from_slice(&stored.value()).map_err(Status::internal)
    }
}

fn check_uid(body: &Value, account: &Value, name: &str) -> Result<(), Status> {
    let (claimed, found) = (meta::text(body, "uid"), meta::text(account, "uid"));
    if claimed.is_empty() || claimed == found {
        return Ok(());
    }
    let why = format!(
        "the UID in the token request ({claimed}) does not match the UID of the service account ({found})"
    );
    Err(Status::conflict(&GroupResource::new("authentication.k8s.io", "TokenRequest"), name, &why))
}

fn check_seconds(body: &Value, kind: &GroupKind) -> Result<(), Status> {
    let seconds = seconds(body);
    let why = match seconds {
        ..LEAST_SECONDS => "may not specify a duration less than 10 minutes",
        LEAST_SECONDS..=MOST_SECONDS => return Ok(()),
        _ => "may not specify a duration larger than 2^32 seconds",
    };
    let path = Path::new("spec").child("expirationSeconds");
    Err(Status::invalid(kind, "", &[FieldError::invalid(&path, seconds, why)]))
}

fn seconds(body: &Value) -> i64 {
    body["spec"]["expirationSeconds"].as_i64().unwrap_or(0)
}

fn time(seconds: i64) -> Value {
    json!(Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX).to_string())
}
