//! Watch.

use std::collections::VecDeque;
use std::sync::Arc;

use kubeapi::Status;
use kubeapi::request::{ListOptions, Verb};
use serde_json::{Value, json};

use super::selection::Selection;
use super::{Call, Request, Server, failure, object};
use crate::registry::Resource;
use crate::store::{Error, Event, Revision, Scope, Store, View, Watch};

/// What an event says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// An object is there, or has come into the selection.
    Added,
    /// An object has changed.
    Modified,
    /// An object is gone, or has left the selection.
    Deleted,
    /// All changes up to the object's `resourceVersion` have been told.
    Bookmark,
}

impl EventType {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            EventType::Added => "ADDED",
            EventType::Modified => "MODIFIED",
            EventType::Deleted => "DELETED",
            EventType::Bookmark => "BOOKMARK",
        }
    }
}

/// An event of a watch.
#[derive(Clone, Debug, PartialEq)]
pub struct WatchEvent {
    /// What it says.
    pub event: EventType,
    /// About what.
    pub object: Value,
}

/// A watch on the objects of one resource.
pub struct Watching {
    store: Arc<dyn Store>,
    resource: Arc<Resource>,
    selection: Selection,
    scope: Scope,
    /// What comes before the changes.
    first: VecDeque<WatchEvent>,
    changes: Watch,
}

impl std::fmt::Debug for Watching {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watching").field("changes", &self.changes).finish_non_exhaustive()
    }
}

impl Server {
    /// Follows the changes that a request asks for. How long it lasts and when it gives bookmarks (see
    /// [`Watching::bookmark`]) is the caller's to decide.
    ///
    /// # Errors
    /// 410 if the revision is too old, 504 if it is not there yet; what [`Server::serve`] says of a wrong request.
    pub fn watch(&self, request: &Request) -> Result<Watching, Status> {
        if request.target.verb != Verb::Watch || !request.target.subresource.is_empty() {
            return Err(Status::method_not_allowed());
        }
        let resource = self.resource(&request.target)?;
        let call = Call { request, resource: &resource };
        let options = ListOptions::parse(&request.query)?;
        let selection = Selection::new(&resource, &options)?;
        let scope = call.scope();
        let asked = failure::revision(&options.resource_version)?;
        let view = self.store.view();
        if let Some(asked) = asked.filter(|asked| *asked > view.head()) {
            return Err(failure::too_large_version(asked, view.head()));
        }
        let (first, after) = match (options.send_initial_events, asked) {
            (Some(true), _) => (initial(&resource, &selection, &scope, &view, &options)?, view.head()),
            (_, asked) => (VecDeque::new(), asked.unwrap_or(view.head())),
        };
        let changes = self.store.watch(scope.clone(), after).map_err(ended)?;
        Ok(Watching { store: self.store.clone(), resource, selection, scope, first, changes })
    }
}

/// What is there, and (for who understands it) a bookmark that says that this was all.
fn initial(
    resource: &Resource,
    selection: &Selection,
    scope: &Scope,
    view: &View,
    options: &ListOptions,
) -> Result<VecDeque<WatchEvent>, Status> {
    let mut events = VecDeque::new();
    for stored in view.scan(scope) {
        let object = object::decode(resource, stored)?;
        if selection.matches(&object) {
            events.push_back(WatchEvent { event: EventType::Added, object });
        }
    }
    if options.allow_watch_bookmarks {
        let mut bookmark = bookmark(resource, view.head());
        bookmark.object["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        events.push_back(bookmark);
    }
    Ok(events)
}

fn bookmark(resource: &Resource, revision: Revision) -> WatchEvent {
    let object = json!({
        "kind": resource.kind,
        "apiVersion": resource.group_version().to_string(),
        "metadata": {"resourceVersion": revision.to_string(), "creationTimestamp": null},
    });
    WatchEvent { event: EventType::Bookmark, object }
}

fn ended(error: Error) -> Status {
    match error {
        Error::Compacted { asked, floor } => {
            Status::expired(format!("too old resource version: {asked} ({floor})"))
        }
        other => failure::of_store(other),
    }
}

impl Watching {
    /// The next event. Waits for it if need be; nothing is lost if the future is dropped.
    ///
    /// # Errors
    /// 410 if history was compacted before it could be told. The watch is over then.
    pub async fn next(&mut self) -> Result<WatchEvent, Status> {
        loop {
            if let Some(event) = self.first.pop_front() {
                return Ok(event);
            }
            match self.changes.next().await {
                Ok(change) => {
                    if let Some(event) = self.translate(&change)? {
                        return Ok(event);
                    }
                }
                // The log still has what this watch was too slow for.
                Err(Error::Lagged { resume }) => {
                    self.changes = self.store.watch(self.scope.clone(), resume).map_err(ended)?;
                }
                Err(error) => return Err(ended(error)),
            }
        }
    }

    /// A bookmark, if all that has happened so far has been told.
    pub fn bookmark(&self) -> Option<WatchEvent> {
        self.first.is_empty().then(|| bookmark(&self.resource, self.changes.progress()))
    }

    /// The resource that is watched.
    pub fn resource(&self) -> &Arc<Resource> {
        &self.resource
    }

    /// A change as the selection sees it. What leaves it is told as it was, with the revision of the change.
    fn translate(&self, change: &Event) -> Result<Option<WatchEvent>, Status> {
        let before = change.previous.as_ref();
        let before =
            before.map(|stored| object::decode_at(&self.resource, stored, change.revision)).transpose()?;
        let before = before.filter(|object| self.selection.matches(object));
        let after = change.current.as_ref();
        let after = after.map(|stored| object::decode(&self.resource, stored)).transpose()?;
        let after = after.filter(|object| self.selection.matches(object));
        Ok(match (before, after) {
            (None, None) => None,
            (None, Some(object)) => Some(WatchEvent { event: EventType::Added, object }),
            (Some(_), Some(object)) => Some(WatchEvent { event: EventType::Modified, object }),
            (Some(object), None) => Some(WatchEvent { event: EventType::Deleted, object }),
        })
    }
}
