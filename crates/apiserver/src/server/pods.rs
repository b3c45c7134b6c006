//! What can be done to pods beside writing them: eviction and binding.

use kubeapi::builtin::{self, Node, eviction};
use kubeapi::request::{DeleteOptions, Query, WriteOptions};
use kubeapi::{FieldError, GroupResource, Path, Status, meta};
use serde_json::{Value, json};

use super::delete::Outcome;
use super::update::ATTEMPTS;
use super::{Answer, Call, Server, failure, fits};
use crate::store::{Error, Revision, Scope, Stored, Write};

impl Server {
    /// Deletes a pod as far as the budgets that guard it allow.
    pub(super) async fn evict(&self, call: Call<'_>) -> Result<Answer, Status> {
        let wanted = WriteOptions::create(&call.request.query)?;
        let mut eviction = call.part()?;
        self.admit_change(call, &mut eviction, None, wanted.dry_run).await?;
        self.admit(call, &eviction, None, wanted.dry_run).await?;
        let given = Some(&eviction["deleteOptions"]).filter(|options| !options.is_null());
        let mut options = DeleteOptions::parse(&Query::default(), given)?;
        options.dry_run |= wanted.dry_run;
        for _ in 0..ATTEMPTS {
            let (stored, pod) = self.current(call).await?;
            let free = match eviction::is_free(&pod) {
                true => true,
                false => self.charge_budget(call, &pod, options.dry_run).await?,
            };
            if self.finish_eviction(call, &stored, pod, &options, free).await? {
                return Ok(call.success(201));
            }
        }
        Err(Status::modified(&call.resource.group_resource(), call.name()))
    }

    /// Marks the pod and deletes it. A pod that goes without being counted has to be as it was looked at: if it is
    /// not, nothing happens and the answer is false.
    async fn finish_eviction(
        &self,
        call: Call<'_>,
        stored: &Stored,
        pod: Value,
        options: &DeleteOptions,
        free: bool,
    ) -> Result<bool, Status> {
        let mut options = options.clone();
        if !options.dry_run {
            let marked = match free {
                true => self.mark_evicted(call, stored, pod).await?,
                false => self.mark_latest(call).await?,
            };
            let Some(revision) = marked else { return Ok(false) };
            if free || options.preconditions.resource_version.is_some() {
                options.preconditions.resource_version = Some(revision.to_string());
            }
        }
        match self.remove(call, &options).await {
            Ok(Outcome::Gone(_) | Outcome::Held(_)) => Ok(true),
            Err(status) if free && status.code == 409 => Ok(false),
            Err(status) => Err(status),
        }
    }

    async fn mark_latest(&self, call: Call<'_>) -> Result<Option<Revision>, Status> {
        for _ in 0..ATTEMPTS {
            let (stored, pod) = self.current(call).await?;
            if let Some(revision) = self.mark_evicted(call, &stored, pod).await? {
                return Ok(Some(revision));
            }
        }
        Err(Status::modified(&call.resource.group_resource(), call.name()))
    }

    async fn mark_evicted(
        &self,
        call: Call<'_>,
        stored: &Stored,
        mut pod: Value,
    ) -> Result<Option<Revision>, Status> {
        eviction::mark(&mut pod, self.clock.now());
        let bytes = self.conversion.encode(call.resource, &pod).await?;
        if bytes == stored.value() {
            return Ok(Some(stored.modified));
        }
        self.swap(call, Write::update(stored.key.clone(), bytes, stored.modified)).await
    }

    /// Takes a disruption from the pod's budget. Gives whether the pod may go without.
    async fn charge_budget(&self, call: Call<'_>, pod: &Value, dry_run: bool) -> Result<bool, Status> {
        let scope = Scope::prefix(format!("/registry/policy/poddisruptionbudgets/{}/", call.namespace()));
        for _ in 0..ATTEMPTS {
            let view = self.store.view();
            let mut guarding = Vec::new();
            for stored in view.scan(&scope) {
                let budget: Value = serde_json::from_slice(&stored.value()).map_err(Status::internal)?;
                if eviction::guards(&budget, pod) {
                    guarding.push((stored, budget));
                }
            }
            let Some((stored, mut budget)) = guarding.pop() else { return Ok(false) };
            if !guarding.is_empty() {
                return Err(failure::plain(
                    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
                ));
            }
            if eviction::is_spared(&budget, pod) {
                return Ok(true);
            }
            eviction::take(&mut budget, call.name(), self.clock.now())?;
            if dry_run {
                return Ok(false);
            }
            let bytes = serde_json::to_vec(&budget).map_err(Status::internal)?;
            match self.store.write(vec![Write::update(stored.key.clone(), bytes, stored.modified)]).await {
                Ok(_) => return Ok(false),
                Err(Error::Conflict { .. } | Error::NotFound { .. }) => {}
                Err(error) => return Err(failure::of_store(error)),
            }
        }
        Err(Status::timeout("couldn't update PodDisruptionBudget due to conflicts", 10))
    }

    /// Puts a pod on a node.
    pub(super) async fn bind(&self, call: Call<'_>) -> Result<Answer, Status> {
        let options = WriteOptions::create(&call.request.query)?;
        let mut binding = call.part()?;
        self.admit_change(call, &mut binding, None, options.dry_run).await?;
        self.admit(call, &binding, None, options.dry_run).await?;
        check_target(&binding["target"])?;
        for _ in 0..ATTEMPTS {
            let (stored, mut pod) = self.current(call).await?;
            super::update::check_claims(call, &stored, &pod, &binding)?;
            place(&mut pod, &binding).map_err(|why| {
                Status::conflict(&GroupResource::new("", "pods/binding"), call.name(), &why)
            })?;
            let condition = json!({"type": "PodScheduled", "status": "True"});
            eviction::set_condition(&mut pod["status"], condition, self.clock.now());
            if options.dry_run {
                return Ok(call.success(201));
            }
            let write = Write::update(
                stored.key.clone(),
                self.conversion.encode(call.resource, &pod).await?,
                stored.modified,
            );
            if self.swap(call, write).await?.is_some() {
                return Ok(call.success(201));
            }
        }
        Err(Status::modified(&call.resource.group_resource(), call.name()))
    }
}

fn check_target(target: &Value) -> Result<(), Status> {
    let text = |field: &str| target[field].as_str().unwrap_or_default();
    let path = Path::new("target");
    let mut errors = Vec::new();
    if !matches!(text("kind"), "" | "Node") {
        errors.push(FieldError::not_supported(&path.child("kind"), text("kind"), ["Node", "<empty>"]));
    }
    if text("name").is_empty() {
        errors.push(FieldError::required(&path.child("name"), ""));
    }
    let texts: Vec<String> = errors.iter().map(FieldError::to_string).collect();
    match texts.as_slice() {
        [] => Ok(()),
        [one] => Err(failure::plain(one)),
        more => Err(failure::plain(&format!("[{}]", more.join(", ")))),
    }
}

/// Gives a pod its node and the binding's annotations.
fn place(pod: &mut Value, binding: &Value) -> Result<(), String> {
    let name = meta::text(pod, "name");
    if meta::is_being_deleted(pod) {
        return Err(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    if let Some(node) = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) {
        return Err(format!("pod {name} is already assigned to node {node:?}"));
    }
    if pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
        return Err(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    pod["spec"]["nodeName"] = binding["target"]["name"].clone();
    for (key, value) in binding["metadata"]["annotations"].as_object().into_iter().flatten() {
        pod["metadata"]["annotations"][key] = value.clone();
    }
    if let Some(status) = pod["status"].as_object_mut() {
        status.remove("nominatedNodeName");
    }
    Ok(())
}

impl Call<'_> {
    /// The body of a subresource that has its own kind, checked for its structure and name.
    fn part(&self) -> Result<Value, Status> {
        let mut body = self.body()?;
        let Some(sub) = self.resource.subresource(self.subresource()) else {
            return Err(Status::no_such_resource());
        };
        let (kind, version) = (&sub.kind.kind, &sub.kind.version);
        let wrong = |why: String| {
            Status::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}"))
        };
        match body["kind"].as_str() {
            None | Some("") => {}
            Some(found) if found == kind => {}
            Some(found) => {
                let from = body["apiVersion"].as_str().unwrap_or_default();
                return Err(wrong(format!("no kind {found:?} is registered for version {from:?}")));
            }
        }
        fits::fit(Node::of_kind(builtin::types(), &sub.kind), &mut body, kind).map_err(wrong)?;
        match meta::text(&body, "name") == self.name() {
            true => Ok(body),
            false => Err(Status::bad_request(format!("name in URL does not match name in {kind} object"))),
        }
    }

    /// What says nothing but that it is done.
    fn success(&self, code: u16) -> Answer {
        let body = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code,
        });
        self.answer(code, body, Vec::new())
    }
}
