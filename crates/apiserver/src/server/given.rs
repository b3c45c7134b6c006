//! Get and list for clients that want JSON as it is stored.

use std::sync::Arc;

use bytes::Bytes;
use kubeapi::Status;
use kubeapi::request::{GetOptions, ListOptions, Verb};
use serde_json::json;

use super::admission::Warnings;
use super::raw::Head;
use super::read::{Choose, list_metadata};
use super::selection::Selection;
use super::{Call, Request, Server, deprecation};
use crate::registry::Resource;
use crate::store::Stored;

/// A long answer is made in pieces of about this many bytes, as fast as the client takes them.
const PIECE: usize = 256 * 1024;

const END_OF_LIST: &[u8] = b"]}\n";

/// An object or a list as JSON, in pieces.
#[derive(Debug)]
pub struct Given {
    /// For `Warning` headers.
    pub warnings: Vec<String>,
    head: Head,
    resource: Arc<Resource>,
    /// What is around the objects.
    opening: Vec<u8>,
    closing: &'static [u8],
    objects: std::vec::IntoIter<Arc<Stored>>,
    /// Whether the objects say what they are.
    typed: bool,
    is_first: bool,
    /// The most bytes that are still to come.
    left: usize,
}

/// Objects that nobody has looked into, but for their metadata.
struct AsStored<'a> {
    head: Head,
    resource: &'a Resource,
    selection: &'a Selection,
}

impl Choose for AsStored<'_> {
    type Item = Arc<Stored>;

    async fn choose(&self, stored: &[Arc<Stored>]) -> Result<Vec<Option<Arc<Stored>>>, Status> {
        let chosen = stored.iter().map(|stored| {
            // What cannot be given as it is stored is noticed by who gives it.
            let unknown = self.head.rest(self.resource, stored).is_none();
            (unknown || self.head.is_chosen(self.selection, stored)).then(|| stored.clone())
        });
        Ok(chosen.collect())
    }
}

impl Server {
    /// What [`Server::serve`] gives, as JSON and without a look into the objects. `None` if that is not enough, and
    /// for everything but get and list of whole objects.
    ///
    /// # Errors
    /// As [`Server::serve`].
    pub async fn give(&self, request: &Request) -> Result<Option<Given>, Status> {
        let is_read = matches!(request.target.verb, Verb::Get | Verb::List);
        if !is_read || !request.target.subresource.is_empty() {
            return Ok(None);
        }
        let resource = self.resource(&request.target)?;
        let warnings = Warnings::default();
        let call = Call { request, resource: &resource, warnings: &warnings, alone: false };
        let (opening, objects) = match request.target.verb {
            Verb::Get => {
                let options = GetOptions::parse(&request.query)?;
                (None, vec![self.find_one(call, &options)?])
            }
            Verb::List => {
                let options = ListOptions::parse(&request.query)?;
                let selection = Selection::new(&resource, &options)?;
                if !selection.is_by_metadata() {
                    return Ok(None);
                }
                let (opening, objects) = self.give_list(call, &options, &selection).await?;
                (Some(opening), objects)
            }
            _ => return Ok(None),
        };
        let head = Head::of(&resource);
        let mut left = opening.as_ref().map_or(0, Vec::len) + END_OF_LIST.len();
        for stored in &objects {
            let Some(rest) = head.rest(&resource, stored) else { return Ok(None) };
            left += rest.len() + head.around();
        }
        Ok(Some(Given {
            left,
            warnings: deprecation(&resource).into_iter().collect(),
            head,
            // The items of a built-in kind's list do not say what they are: the list does.
            typed: opening.is_none() || resource.as_custom().is_some(),
            closing: if opening.is_some() { END_OF_LIST } else { b"\n" },
            opening: opening.unwrap_or_default(),
            objects: objects.into_iter(),
            resource,
            is_first: true,
        }))
    }

    /// The beginning of a list, and its objects.
    async fn give_list(
        &self,
        call: Call<'_>,
        options: &ListOptions,
        selection: &Selection,
    ) -> Result<(Vec<u8>, Vec<Arc<Stored>>), Status> {
        let as_stored = AsStored { head: Head::of(call.resource), resource: call.resource, selection };
        let found = self.find(call, options, selection, &as_stored).await?;
        let resource = call.resource;
        let opening = json!({
            "kind": resource.list_kind,
            "apiVersion": resource.group_version().to_string(),
            "metadata": list_metadata(call, selection, &found),
        });
        let mut opening = serde_json::to_vec(&opening).map_err(Status::internal)?;
        opening.pop();
        opening.extend_from_slice(b",\"items\":[");
        Ok((opening, found.items))
    }
}

impl Given {
    fn write(&mut self, stored: &Stored, into: &mut Vec<u8>) {
        let Some(rest) = self.head.rest(&self.resource, stored) else { return };
        if !std::mem::replace(&mut self.is_first, false) {
            into.push(b',');
        }
        match self.typed {
            true => self.head.write(&rest, stored.modified, into),
            false => self.head.write_untyped(&rest, stored.modified, into),
        }
    }

    /// The most bytes that it has.
    pub fn most_bytes(&self) -> usize {
        self.left
    }
}

impl Iterator for Given {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.closing.is_empty() {
            return None;
        }
        let mut piece = std::mem::take(&mut self.opening);
        piece.reserve(self.left.min(PIECE + PIECE / 16));
        while piece.len() < PIECE {
            let Some(stored) = self.objects.next() else {
                piece.extend_from_slice(std::mem::take(&mut self.closing));
                break;
            };
            self.write(&stored, &mut piece);
        }
        self.left = self.left.saturating_sub(piece.len());
        Some(piece.into())
    }
}
