//! Create.

use kubeapi::request::WriteOptions;
use kubeapi::status::Cause;
use kubeapi::{GroupResource, Status, crd, meta};
use serde_json::Value;

use super::{Answer, Call, Server, body, definition, failure, kinds, object, validate};
use crate::store::{Error, Expect, Write};

/// How many names are tried for a `generateName`.
const NAMES_TRIED: usize = 8;

impl Server {
    pub(super) async fn create(&self, call: Call<'_>) -> Result<Answer, Status> {
        // Upstream does not look at the name in a custom resource's path.
        let anywhere = call.resource.plural == "namespaces" || call.resource.as_custom().is_some();
        if !call.name().is_empty() && !anywhere {
            return Err(Status::method_not_allowed());
        }
        if call.resource.as_custom().is_some_and(|custom| custom.terminating) {
            let message = "create not allowed while custom resource definition is terminating".into();
            return Err(Status { message, ..Status::method_not_allowed() });
        }
        let options = WriteOptions::create(&call.request.query)?;
        let mut wanted = call.body()?;
        let mut warnings = body::read(call.resource, &mut wanted, options.field_validation)?;
        warnings.extend(validate::warnings(call.resource, &wanted, None));
        meta::ensure_namespace(&mut wanted, call.namespace())?;
        if !matches!(meta::text(&wanted, "resourceVersion"), "" | "0") {
            return Err(failure::plain("resourceVersion should not be set on objects to be created"));
        }
        self.record(call, &options, None, &mut wanted).await;
        self.create_object(call, wanted, options.dry_run, warnings).await
    }

    /// Creates an object that was read and is at the right place, with its managed fields.
    pub(super) async fn create_object(
        &self,
        call: Call<'_>,
        mut wanted: Value,
        dry_run: bool,
        warnings: Vec<String>,
    ) -> Result<Answer, Status> {
        self.check_namespace(call, &wanted)?;
        self.admit_change(call, &mut wanted, None, dry_run).await?;
        meta::ensure_namespace(&mut wanted, call.namespace())?;
        self.check_grant(call, &wanted, None)?;
        let base = match meta::text(&wanted, "name") {
            "" => meta::text(&wanted, "generateName").to_owned(),
            _ => String::new(),
        };
        let mut taken = String::new();
        for _ in 0..NAMES_TRIED {
            let mut object = wanted.clone();
            if !base.is_empty() {
                object["metadata"]["name"] =
                    self.with_entropy(|entropy| meta::generate_name(&base, entropy)).into();
            }
            self.prepare_create(call, &mut object);
            validate::created(call.resource, &object)?;
            self.check_parameters(call, &object, None)?;
            self.admit_allocated(call, &object, None, dry_run).await?;
            let _lock = self.one_at_a_time(call.resource).await;
            if definition::is_definition(call.resource) {
                self.accept_names(call.resource, &mut object).await;
            }
            self.allocate(call.resource, &mut object, None)?;
            if let Some(created) = self.store_new(call, &object, dry_run).await? {
                return Ok(call.answer(201, created, warnings));
            }
            meta::text(&object, "name").clone_into(&mut taken);
            if base.is_empty() {
                return Err(Status::already_exists(&call.resource.group_resource(), &taken));
            }
        }
        Err(Status::generated_name_taken(&call.resource.group_resource(), &taken))
    }

    /// Everything that the server gives a new object.
    fn prepare_create(&self, call: Call<'_>, object: &mut Value) {
        let (now, uid) = (self.clock.now(), self.with_entropy(meta::new_uid));
        meta::created(object, call.resource.generation, &uid, now);
        match definition::is_definition(call.resource) {
            true => crd::prepare_create(object),
            false => kinds::prepare_create(call.resource, object, now),
        }
    }

    /// Stores a new object; `None` if there is one of that name.
    async fn store_new(&self, call: Call<'_>, new: &Value, dry_run: bool) -> Result<Option<Value>, Status> {
        let key = call.resource.key(call.namespace(), meta::text(new, "name"));
        let bytes = self.conversion.encode(call.resource, new).await?;
        let mut created = self.conversion.stored_as(call.resource, new, &bytes).await?;
        if dry_run {
            object::set_version(&mut created, None);
            return Ok(self.store.view().get(&key).is_none().then_some(created));
        }
        let mut transaction = grounds(call);
        transaction.push(kinds::lasting(call.resource, Write::create(key, bytes)));
        match self.store.write(transaction).await {
            Err(Error::AlreadyExists { .. }) => Ok(None),
            // The namespace is only asked to be there.
            Err(Error::Conflict { .. }) => Err(failure::redefined()),
            Err(Error::NotFound { .. }) => {
                self.check_namespace(call, new)?;
                // Then it is the definition that is gone.
                Err(Status::no_such_resource())
            }
            Err(error) => Err(failure::of_store(error)),
            Ok(commit) => {
                object::set_version(&mut created, Some(commit.revision));
                if definition::is_definition(call.resource) {
                    self.refresh_registry();
                }
                self.refresh_policy(call.resource);
                self.refresh_hooks(call.resource);
                Ok(Some(created))
            }
        }
    }

    /// Nothing is created in a namespace that is not there or on its way out.
    fn check_namespace(&self, call: Call<'_>, wanted: &Value) -> Result<(), Status> {
        let namespace = call.namespace();
        if namespace.is_empty() {
            return Ok(());
        }
        let view = self.store.view();
        let stored = view.get(&namespace_key(namespace)).ok_or_else(|| no_namespace(call))?;
        let object: Value = serde_json::from_slice(&stored.value()).map_err(Status::internal)?;
        if !meta::is_being_deleted(&object) {
            return Ok(());
        }
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let mut status = Status::forbidden(&call.resource.group_resource(), meta::text(wanted, "name"), &why);
        if let Some(details) = &mut status.details {
            details.causes.push(Cause {
                reason: "NamespaceTerminating".into(),
                message: format!("namespace {namespace} is being terminated"),
                field: "metadata.namespace".into(),
            });
        }
        Err(status)
    }
}

fn namespace_key(namespace: &str) -> String {
    format!("/registry/core/namespaces/{namespace}")
}

fn no_namespace(call: Call<'_>) -> Status {
    Status::not_found(&GroupResource::new("", "namespaces"), call.namespace())
}

/// What has to be there for an object to be created, also if it goes at the same moment.
fn grounds(call: Call<'_>) -> Vec<Write> {
    let mut keys = Vec::new();
    if !call.namespace().is_empty() {
        keys.push(namespace_key(call.namespace()));
    }
    let present = keys.into_iter().map(|key| Write::check(key, Expect::Present));
    present.chain(definition::unchanged(call.resource)).collect()
}

impl Call<'_> {
    /// The body of a write.
    pub(super) fn body(&self) -> Result<Value, Status> {
        self.request.body.clone().ok_or_else(|| {
            Status::bad_request(format!(
                "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json parse error: unexpected end of JSON input (<empty>)",
                self.resource.kind
            ))
        })
    }
}
