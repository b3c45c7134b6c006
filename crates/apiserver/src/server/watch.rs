//! Watch.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use kubeapi::Status;
use kubeapi::request::{ListOptions, Verb};
use serde_json::{Value, json};

use super::admission::Warnings;
use super::lines::Lines;
use super::raw::{Head, Rest};
use super::selection::Selection;
use super::{Call, Request, Server, failure};
use crate::convert::Conversion;
use crate::registry::Resource;
use crate::store::{Error, Event, Revision, Store, Stored, Watch};

/// How many of the objects that are there already are made events of in one go.
const AT_ONCE: usize = 500;

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

/// An event on its way.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// It was looked into.
    Event(WatchEvent),
    /// A line of JSON.
    Line(Bytes),
}

impl Told {
    /// The event, whichever way it goes.
    ///
    /// # Errors
    /// 500 if what is stored is no JSON.
    fn into_event(self) -> Result<WatchEvent, Status> {
        let line = match self {
            Told::Event(event) => return Ok(event),
            Told::Line(line) => line,
        };
        let mut line: Value = serde_json::from_slice(&line).map_err(Status::internal)?;
        let types = [EventType::Added, EventType::Modified, EventType::Deleted];
        let event = types.into_iter().find(|event| line["type"] == event.as_str());
        let event = event.ok_or_else(|| Status::internal("an event of no type"))?;
        Ok(WatchEvent { event, object: line["object"].take() })
    }
}

/// A watch on the objects of one resource.
pub struct Watching {
    store: Arc<dyn Store>,
    conversion: Conversion,
    resource: Arc<Resource>,
    selection: Selection,
    /// What comes before the changes, until it is told. Boxed, as a watch goes on for long without it.
    first: Option<Box<First>>,
    /// How the objects begin that can be told as they are stored, if they are to be.
    as_stored: Option<Head>,
    /// Lines that others have made already.
    lines: Lines,
    changes: Watch,
    /// A change that was taken and is not told yet: telling it may take time, and may be given up.
    taken: Option<Arc<Event>>,
    /// When the CRD says something else of the resource, or is gone.
    retired: Option<tokio::sync::watch::Receiver<Option<Revision>>>,
}

/// What is there already when a watch begins.
struct First {
    objects: VecDeque<Arc<Stored>>,
    /// Events that are ready to be told.
    ready: VecDeque<Told>,
    /// What says that this was all.
    end: Option<WatchEvent>,
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
        let warnings = Warnings::default();
        let call = Call { request, resource: &resource, warnings: &warnings, alone: true };
        let options = ListOptions::parse_watch(&request.query)?;
        let selection = Selection::new(&resource, &options)?;
        let scope = call.scope();
        let asked = failure::plain_revision(&options.resource_version)?;
        let view = self.store.view();
        if let Some(asked) = asked.filter(|asked| *asked > view.head()) {
            // Upstream would wait. Who is ahead of the server has seen another past, and has to list anew.
            let head = view.head();
            return Err(Status::expired(format!("too large resource version: {asked} ({head})")));
        }
        let initial = options.send_initial_events == Some(true);
        let after = asked.filter(|_| !initial).unwrap_or(view.head());
        let first = initial.then(|| {
            let end = options.allow_watch_bookmarks.then(|| {
                let mut end = bookmark(&resource, view.head());
                end.object["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
                end
            });
            let objects = view.scan(&scope).cloned().collect();
            Box::new(First { objects, ready: VecDeque::new(), end })
        });
        let changes = self.store.watch(scope, after).map_err(ended)?;
        Ok(Watching {
            store: self.store.clone(),
            conversion: self.conversion.clone(),
            retired: resource.as_custom().map(|custom| custom.family.retirement()),
            resource,
            selection,
            first,
            as_stored: None,
            lines: self.lines.clone(),
            changes,
            taken: None,
        })
    }
}

/// Lines of objects that are there already, if all of them can be told as they are stored.
fn lines<'a>(
    resource: &Resource,
    selection: &Selection,
    head: Option<&Head>,
    objects: impl Iterator<Item = &'a Arc<Stored>>,
) -> Option<Vec<Told>> {
    let head = head?;
    let line = |stored: &Arc<Stored>| {
        let rest = head.rest(resource, stored)?;
        let chosen = head.is_chosen(selection, stored);
        Some(chosen.then(|| Told::Line(line(head, EventType::Added, &rest, stored.modified))))
    };
    let lines: Option<Vec<Option<Told>>> = objects.map(line).collect();
    Some(lines?.into_iter().flatten().collect())
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
    /// The next event. Waits for it if need be; nothing is lost if the future is dropped. `None` if there will be no
    /// more, because the CRD of the resource has changed or is gone: who watches asks anew.
    ///
    /// # Errors
    /// 410 if history was compacted before it could be told, 500 if an object cannot be converted. The watch is over
    /// then.
    pub async fn next(&mut self) -> Result<Option<WatchEvent>, Status> {
        self.next_told().await?.map(Told::into_event).transpose()
    }

    /// The same; after [`Watching::as_lines`], events that need not be looked into come as lines of JSON.
    ///
    /// # Errors
    /// As [`Watching::next`].
    pub async fn next_told(&mut self) -> Result<Option<Told>, Status> {
        while let Some(first) = &mut self.first {
            if let Some(event) = first.ready.pop_front() {
                return Ok(Some(event));
            }
            if !first.objects.is_empty() {
                Box::pin(self.tell_first()).await?;
            } else if let Some(end) = first.end.take() {
                return Ok(Some(Told::Event(end)));
            } else {
                self.first = None;
            }
        }
        while self.taken.is_some() || self.take().await? {
            if let Some(told) = self.tell_taken().await? {
                return Ok(Some(told));
            }
        }
        Ok(None)
    }

    /// The same watch for a client that wants plain JSON.
    pub fn as_lines(mut self) -> Self {
        self.as_stored = self.selection.is_by_metadata().then(|| Head::of(&self.resource));
        self
    }

    /// Whether [`Watching::next`] would have something to say without waiting for a change.
    pub fn has_ready(&self) -> bool {
        self.has_first() || self.taken.is_some() || self.changes.has_ready()
    }

    /// A bookmark, if all that has happened so far has been told.
    pub fn bookmark(&self) -> Option<WatchEvent> {
        let told = !self.has_first() && self.taken.is_none();
        told.then(|| bookmark(&self.resource, self.changes.progress()))
    }

    /// Whether something of what was there already is still to be told.
    fn has_first(&self) -> bool {
        let has = |first: &First| !first.objects.is_empty() || !first.ready.is_empty() || first.end.is_some();
        self.first.as_deref().is_some_and(has)
    }

    /// The resource that is watched.
    pub fn resource(&self) -> &Arc<Resource> {
        &self.resource
    }

    /// Waits for a change and takes it; gives whether there was one.
    async fn take(&mut self) -> Result<bool, Status> {
        loop {
            let change = match &mut self.retired {
                None => self.changes.next().await.map(Some),
                Some(retired) => tokio::select! {
                    biased;
                    change = self.changes.next() => change.map(Some),
                    // A sender that is gone cannot retire anything; the resource in hand keeps it.
                    () = async { drop(retired.wait_for(Option::is_some).await) } => {
                        self.changes.next_ready().await
                    }
                },
            };
            let last = self.retired.as_ref().and_then(|retired| *retired.borrow());
            match change {
                Ok(Some(change)) if last.is_none_or(|last| change.revision <= last) => {
                    self.taken = Some(change);
                    return Ok(true);
                }
                Ok(_) => return Ok(false),
                // The log still has what this watch was too slow for.
                Err(Error::Lagged { resume }) => {
                    self.changes = self.store.watch(self.changes.scope().clone(), resume).map_err(ended)?;
                }
                Err(error) => return Err(ended(error)),
            }
        }
    }

    /// Makes events of some of what is there already.
    async fn tell_first(&mut self) -> Result<(), Status> {
        let Some(first) = &mut self.first else { return Ok(()) };
        let some = first.objects.len().min(AT_ONCE);
        let lines = {
            let objects = first.objects.iter().take(some);
            lines(&self.resource, &self.selection, self.as_stored.as_ref(), objects)
        };
        if let Some(lines) = lines {
            first.objects.drain(..some);
            first.ready.extend(lines);
            return Ok(());
        }
        let stored = first.objects.iter().take(some).map(|stored| (&**stored, stored.modified));
        let objects = self.conversion.decode_all(&self.resource, stored).await?;
        first.objects.drain(..some);
        let chosen = objects.into_iter().filter(|object| self.selection.matches(object));
        let events = chosen.map(|object| WatchEvent { event: EventType::Added, object });
        first.ready.extend(events.map(Told::Event));
        Ok(())
    }

    /// What a change that was taken is told as, if the selection sees it. What leaves it is told as it was, with
    /// the revision of the change.
    async fn tell_taken(&mut self) -> Result<Option<Told>, Status> {
        let Some(change) = self.taken.clone() else { return Ok(None) };
        let told = match self.line_of(&change) {
            Some(line) => line.map(Told::Line),
            // Boxed, as every watch has room for this future, and few ever need it.
            None => Box::pin(self.event_of(&change)).await?.map(Told::Event),
        };
        self.taken = None;
        Ok(told)
    }

    /// The line of a change, if it can be told as it is stored; inside, none if the selection does not see it.
    fn line_of(&self, change: &Event) -> Option<Option<Bytes>> {
        let head = self.as_stored.as_ref()?;
        // Whoever sees everything is told the same.
        let shared = self.selection.is_everything();
        if let Some(line) = shared.then(|| self.lines.get(change.revision, &self.resource)).flatten() {
            return Some(Some(line));
        }
        let is = self.look(head, change.current.as_deref())?;
        // Of what is chosen anyway it does not matter how it was.
        let skip = change.current.is_some() && shared;
        let was = if skip { None } else { self.look(head, change.previous.as_deref())? };
        let was_chosen = was.is_some() || (skip && change.previous.is_some());
        let line = told(was_chosen, was, is).map(|(event, rest)| line(head, event, &rest, change.revision));
        if let Some(line) = line.as_ref().filter(|_| shared) {
            self.lines.put(change.revision, &self.resource, line);
        }
        Some(line)
    }

    /// What an object is told as, if it is there and chosen; outside, none if it cannot be told as it is stored.
    fn look(&self, head: &Head, stored: Option<&Stored>) -> Option<Option<Rest>> {
        let Some(stored) = stored else { return Some(None) };
        let rest = head.rest(&self.resource, stored)?;
        Some(Some(rest).filter(|_| head.is_chosen(&self.selection, stored)))
    }

    async fn event_of(&self, change: &Event) -> Result<Option<WatchEvent>, Status> {
        let (before, after) = (change.previous.as_deref(), change.current.as_deref());
        let is_new = before.is_none();
        // Of what is chosen anyway it does not matter how it was.
        let before = before.filter(|_| after.is_none() || !self.selection.is_everything());
        let stored = before.map(|stored| (stored, change.revision));
        let stored = stored.into_iter().chain(after.map(|stored| (stored, stored.modified)));
        let mut objects = self.conversion.decode_all(&self.resource, stored).await?.into_iter();
        let chosen = |object: &Value| self.selection.matches(object);
        let was = before.and_then(|_| objects.next()).filter(chosen);
        let is = after.and_then(|_| objects.next()).filter(chosen);
        let was_chosen = was.is_some() || (!is_new && before.is_none());
        Ok(told(was_chosen, was, is).map(|(event, object)| WatchEvent { event, object }))
    }
}

/// What is told of an object that was chosen or not, and is chosen or not; nothing if it never was.
fn told<T>(was_chosen: bool, was: Option<T>, is: Option<T>) -> Option<(EventType, T)> {
    match (was, is) {
        (_, Some(object)) if was_chosen => Some((EventType::Modified, object)),
        (_, Some(object)) => Some((EventType::Added, object)),
        (Some(object), None) => Some((EventType::Deleted, object)),
        (None, None) => None,
    }
}

/// An event as a line of JSON.
fn line(head: &Head, event: EventType, rest: &Rest, revision: Revision) -> Bytes {
    let mut line = Vec::with_capacity(rest.len() + head.around() + 40);
    line.extend_from_slice(b"{\"type\":\"");
    line.extend_from_slice(event.as_str().as_bytes());
    line.extend_from_slice(b"\",\"object\":");
    head.write(rest, revision, &mut line);
    line.extend_from_slice(b"}\n");
    line.into()
}
