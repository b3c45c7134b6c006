//! The options of each verb, read from the query and checked against each other.

use serde_json::{Value, json};

use super::Query;
use super::body;
use crate::selector::{field, label};
use crate::{FieldError, GroupKind, Path, Status};

/// How a list relates to its `resourceVersion`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// That revision.
    Exact,
    /// That revision or a later one.
    NotOlderThan,
}

/// The options of list, watch and deletecollection.
#[derive(Clone, Debug, PartialEq)]
pub struct ListOptions {
    /// Which objects, by label.
    pub label_selector: label::Selector,
    /// Which objects, by field.
    pub field_selector: field::Selector,
    /// Whether changes are asked for.
    pub watch: bool,
    /// Whether the watcher understands bookmarks.
    pub allow_watch_bookmarks: bool,
    /// As given: empty, `0`, or a revision.
    pub resource_version: String,
    /// How the list relates to it.
    pub resource_version_match: Option<Match>,
    /// When the watch ends.
    pub timeout_seconds: Option<i64>,
    /// Most objects in one answer; 0 for no limit.
    pub limit: i64,
    /// Where an earlier list stopped.
    pub continue_token: String,
    /// Whether a watch starts with what is there. Set by default for a watch from no revision or from `0`.
    pub send_initial_events: Option<bool>,
}

impl ListOptions {
    /// Reads and checks the options.
    ///
    /// # Errors
    /// 400 if one cannot be read, 422 if they do not go together.
    pub fn parse(query: &Query) -> Result<Self, Status> {
        ListOptions::checked(query, false)
    }

    /// As [`ListOptions::parse`], for a request that is a watch whether or not its query says so.
    ///
    /// # Errors
    /// The same.
    pub fn parse_watch(query: &Query) -> Result<Self, Status> {
        ListOptions::checked(query, true)
    }

    fn checked(query: &Query, watch: bool) -> Result<Self, Status> {
        let mut options = ListOptions::read(query).map_err(Status::bad_request)?;
        options.watch |= watch;
        let given = query.first("resourceVersionMatch").unwrap_or_default();
        options.set_defaults(given);
        let shown = match options.resource_version_match {
            Some(Match::NotOlderThan) => "NotOlderThan",
            Some(Match::Exact) => "Exact",
            None => given,
        };
        let errors = if options.watch { options.wrong_watch(shown) } else { options.wrong_list(shown) };
        valid("ListOptions", &errors)?;
        Ok(options)
    }

    /// Reads the options, unchecked.
    pub(super) fn read(query: &Query) -> Result<Self, String> {
        let text = |parameter: &str| query.first(parameter).unwrap_or_default().to_owned();
        Ok(ListOptions {
            label_selector: label::Selector::parse(&text("labelSelector"))
                .map_err(|error| error.to_string())?,
            field_selector: field::Selector::parse(&text("fieldSelector"))
                .map_err(|error| error.to_string())?,
            watch: query.flag("watch").unwrap_or(false),
            allow_watch_bookmarks: query.flag("allowWatchBookmarks").unwrap_or(false),
            resource_version: text("resourceVersion"),
            resource_version_match: match query.first("resourceVersionMatch") {
                Some("Exact") => Some(Match::Exact),
                Some("NotOlderThan") => Some(Match::NotOlderThan),
                _ => None,
            },
            timeout_seconds: query.number("timeoutSeconds")?,
            limit: query.number("limit")?.unwrap_or(0),
            continue_token: text("continue"),
            send_initial_events: query.flag("sendInitialEvents"),
        })
    }

    /// A watch from the start is one that sends what is there first.
    fn set_defaults(&mut self, given_match: &str) {
        let from_start = matches!(self.resource_version.as_str(), "" | "0");
        if self.watch && from_start && self.send_initial_events.is_none() && given_match.is_empty() {
            self.send_initial_events = Some(true);
            self.resource_version_match = Some(Match::NotOlderThan);
        }
    }

    fn wrong_list(&self, given: &str) -> Vec<FieldError> {
        let path = Path::new("resourceVersionMatch");
        let mut errors = Vec::new();
        let mut forbid = |wrong: bool, why: &str| {
            if wrong {
                errors.push(FieldError::forbidden(&path, why));
            }
        };
        if !given.is_empty() {
            forbid(
                self.resource_version.is_empty(),
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            );
            forbid(
                !self.continue_token.is_empty(),
                "resourceVersionMatch is forbidden when continue is provided",
            );
            if self.resource_version_match.is_none() {
                errors.push(FieldError::not_supported(&path, given, ["Exact", "NotOlderThan", ""]));
            }
            if self.resource_version_match == Some(Match::Exact) && self.resource_version == "0" {
                let why = r#"resourceVersionMatch "exact" is forbidden for resourceVersion "0""#;
                errors.push(FieldError::forbidden(&path, why));
            }
        }
        if self.send_initial_events.is_some() {
            let path = Path::new("sendInitialEvents");
            errors.push(FieldError::forbidden(&path, "sendInitialEvents is forbidden for list"));
        }
        errors
    }

    fn wrong_watch(&self, given: &str) -> Vec<FieldError> {
        let path = Path::new("resourceVersionMatch");
        let not_older = self.resource_version_match == Some(Match::NotOlderThan);
        let mut errors = Vec::new();
        if self.send_initial_events.is_some() && !not_older {
            let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            errors.push(FieldError::forbidden(&path, why));
        }
        if given.is_empty() {
            return errors;
        }
        if self.send_initial_events.is_none() {
            let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            errors.push(FieldError::forbidden(&path, why));
        }
        if !not_older {
            errors.push(FieldError::not_supported(&path, given, ["NotOlderThan"]));
        }
        if !self.continue_token.is_empty() {
            let why = "resourceVersionMatch is forbidden when continue is provided";
            errors.push(FieldError::forbidden(&path, why));
        }
        errors
    }
}

/// The options of get.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GetOptions {
    /// As given: empty, `0`, or a revision that the answer may not be older than.
    pub resource_version: String,
}

impl GetOptions {
    /// Reads the options.
    ///
    /// # Errors
    /// If an export is asked for, which is no more.
    pub fn parse(query: &Query) -> Result<Self, Status> {
        if query.flag("export") == Some(true) {
            let why = "the export parameter, deprecated since v1.14, is no longer supported";
            return Err(Status::bad_request(why));
        }
        Ok(GetOptions { resource_version: query.first("resourceVersion").unwrap_or_default().to_owned() })
    }
}

/// What happens with fields that a kind does not know, and with fields that are there twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// They are dropped.
    Ignore,
    /// They are dropped with a warning.
    #[default]
    Warn,
    /// They are refused.
    Strict,
}

/// The options of create and update, and those that patch shares with them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Whether nothing is stored.
    pub dry_run: bool,
    /// Who owns the fields that are set; empty if not said.
    pub field_manager: String,
    /// What happens with unknown fields.
    pub field_validation: FieldValidation,
}

impl WriteOptions {
    /// Reads and checks the options of a create.
    ///
    /// # Errors
    /// 422 if one is wrong.
    pub fn create(query: &Query) -> Result<Self, Status> {
        let (options, errors) = WriteOptions::read(query);
        valid("CreateOptions", &errors)?;
        Ok(options)
    }

    /// Reads and checks the options of an update.
    ///
    /// # Errors
    /// 422 if one is wrong.
    pub fn update(query: &Query) -> Result<Self, Status> {
        let (options, errors) = WriteOptions::read(query);
        valid("UpdateOptions", &errors)?;
        Ok(options)
    }

    fn read(query: &Query) -> (Self, Vec<FieldError>) {
        let field_manager = query.first("fieldManager").unwrap_or_default().to_owned();
        let mut errors = wrong_manager(&field_manager, &Path::new("fieldManager"));
        errors.extend(wrong_dry_run(query.all("dryRun")));
        let field_validation = match query.first("fieldValidation").unwrap_or_default() {
            "" => FieldValidation::default(),
            "Ignore" => FieldValidation::Ignore,
            "Warn" => FieldValidation::Warn,
            "Strict" => FieldValidation::Strict,
            other => {
                let path = Path::new("fieldValidation");
                errors.push(FieldError::not_supported(&path, other, ["", "Ignore", "Strict", "Warn"]));
                FieldValidation::default()
            }
        };
        (WriteOptions { dry_run: !query.all("dryRun").is_empty(), field_manager, field_validation }, errors)
    }
}

/// The options of patch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchOptions {
    /// What every write has.
    pub write: WriteOptions,
    /// Whether an apply takes over fields of others.
    pub force: bool,
}

impl PatchOptions {
    /// Reads and checks the options; `apply` says whether this is a server-side apply.
    ///
    /// # Errors
    /// 422 if one is wrong.
    pub fn parse(query: &Query, apply: bool) -> Result<Self, Status> {
        let (write, others) = WriteOptions::read(query);
        let force = query.flag("force");
        let mut errors = Vec::new();
        if apply && write.field_manager.is_empty() {
            errors.push(FieldError::required(&Path::new("fieldManager"), "is required for apply patch"));
        }
        if !apply && force.is_some() {
            let why = "may not be specified for non-apply patch";
            errors.push(FieldError::forbidden(&Path::new("force"), why));
        }
        errors.extend(others);
        valid("PatchOptions", &errors)?;
        Ok(PatchOptions { write, force: force.unwrap_or(false) })
    }
}

/// What becomes of an object's dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// They live on.
    Orphan,
    /// They are deleted afterwards.
    Background,
    /// They are deleted first.
    Foreground,
}

/// What has to be true of an object for it to be deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preconditions {
    /// Its UID.
    pub uid: Option<String>,
    /// Its revision.
    pub resource_version: Option<String>,
}

/// The options of delete and deletecollection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// Seconds until the object goes; the kind's own if not said.
    pub grace_period_seconds: Option<i64>,
    /// What has to be true of it.
    pub preconditions: Preconditions,
    /// What becomes of its dependents, by the deprecated option.
    pub orphan_dependents: Option<bool>,
    /// What becomes of its dependents.
    pub propagation: Option<Propagation>,
    /// Whether nothing is deleted.
    pub dry_run: bool,
}

impl DeleteOptions {
    /// Reads and checks the options: of the body if there is one, else of the query.
    ///
    /// # Errors
    /// 400 if one cannot be read, 422 if they are wrong.
    pub fn parse(query: &Query, body: Option<&Value>) -> Result<Self, Status> {
        let raw = match body {
            Some(body) => body::delete_options(body).map_err(Status::bad_request)?,
            None => body::from_query(query).map_err(Status::bad_request)?,
        };
        let path = Path::new("propagationPolicy");
        let mut errors = Vec::new();
        if let (Some(policy), Some(_)) = (&raw.propagation, raw.orphan_dependents) {
            let why = "orphanDependents and deletionPropagation cannot be both set";
            errors.push(FieldError::invalid(&path, policy.as_str(), why));
        }
        let propagation = match raw.propagation.as_deref() {
            None => None,
            Some("Foreground") => Some(Propagation::Foreground),
            Some("Background") => Some(Propagation::Background),
            Some("Orphan") => Some(Propagation::Orphan),
            Some(other) => {
                let known = ["Foreground", "Background", "Orphan", "nil"];
                errors.push(FieldError::not_supported(&path, other, known));
                None
            }
        };
        errors.extend(wrong_dry_run(&raw.dry_run));
        valid("DeleteOptions", &errors)?;
        Ok(DeleteOptions {
            grace_period_seconds: raw.grace_period_seconds,
            preconditions: raw.preconditions,
            orphan_dependents: raw.orphan_dependents,
            propagation,
            dry_run: !raw.dry_run.is_empty(),
        })
    }
}

/// What a Table's rows carry of their objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IncludeObject {
    /// Their metadata.
    #[default]
    Metadata,
    /// All of them.
    Object,
    /// Nothing.
    None,
}

/// The options of a Table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableOptions {
    /// What rows carry.
    pub include_object: IncludeObject,
}

impl TableOptions {
    /// Reads the options.
    ///
    /// # Errors
    /// 400 if one is wrong.
    pub fn parse(query: &Query) -> Result<Self, Status> {
        let include_object = match query.first("includeObject").unwrap_or_default() {
            "" | "Metadata" => IncludeObject::Metadata,
            "Object" => IncludeObject::Object,
            "None" => IncludeObject::None,
            other => {
                let why = "must be 'Metadata', 'Object', 'None', or empty";
                let error = FieldError::invalid(&Path::new("includeObject"), other, why);
                let message = format!("Unable to convert to Table as requested: {error}");
                return Err(Status::bad_request(message));
            }
        };
        Ok(TableOptions { include_object })
    }
}

/// Whether the answer is for people: asked for, or a browser or a simple tool that cannot ask.
pub fn pretty(query: &Query, user_agent: &str) -> bool {
    match query.first("pretty") {
        Some(value) if !value.is_empty() => matches!(value, "1" | "t" | "T" | "true" | "TRUE" | "True"),
        _ => ["curl", "Wget", "Mozilla/5.0"].iter().any(|agent| user_agent.starts_with(agent)),
    }
}

fn valid(kind: &str, errors: &[FieldError]) -> Result<(), Status> {
    match errors.is_empty() {
        true => Ok(()),
        false => Err(Status::invalid(&GroupKind::new("meta.k8s.io", kind), "", errors)),
    }
}

fn wrong_dry_run(values: &[String]) -> Option<FieldError> {
    let wrong = values.iter().any(|value| value != "All");
    wrong.then(|| FieldError::not_supported(&Path::new("dryRun"), json!(values), ["All"]))
}

const FIELD_MANAGER_LENGTH: usize = 128;

/// What is wrong with the name of a field manager.
pub(crate) fn wrong_manager(manager: &str, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if manager.len() > FIELD_MANAGER_LENGTH {
        errors.push(FieldError::too_long(path, FIELD_MANAGER_LENGTH));
    }
    for (position, character) in manager.char_indices().filter(|(_, character)| !printable(*character)) {
        let why = format!("invalid character U+{:04X} (at position {position})", u32::from(character));
        errors.push(FieldError::invalid(path, manager, why));
    }
    errors
}

/// Whether Go takes the character for printable: everything visible, and of all spaces only the plain one.
pub fn printable(character: char) -> bool {
    if character.is_ascii() {
        return !character.is_ascii_control();
    }
    // After a letter, so that a combining character is not escaped for lack of one.
    let shown = ['a', character].iter().collect::<String>();
    !character.is_whitespace() && shown.escape_debug().to_string() == shown
}
