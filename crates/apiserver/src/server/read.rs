//! Get and list.

use std::sync::Arc;

use kubeapi::Status;
use kubeapi::request::{GetOptions, ListOptions, Match};
use serde_json::{Value, json};

use super::selection::Selection;
use super::token::Token;
use super::{Answer, Call, Server, failure, object};
use crate::store::{Error, Query, Revision, Stored};

/// How many objects are looked at in one go while a page is filled.
const STRIDE: usize = 500;

/// What a list found.
struct Found {
    items: Vec<Value>,
    revision: Revision,
    /// The last key that was looked at, and how many more there are, if the page is full.
    rest: Option<(Arc<str>, usize)>,
}

impl Server {
    pub(super) async fn get(&self, call: Call<'_>) -> Result<Answer, Status> {
        let options = GetOptions::parse(&call.request.query)?;
        let view = self.store.view();
        if let Some(asked) =
            failure::revision(&options.resource_version)?.filter(|asked| *asked > view.head())
        {
            return Err(failure::too_large_version(asked, view.head()));
        }
        let stored = view.get(&call.key()).ok_or_else(|| call.not_found())?;
        Ok(call.answer(200, object::decode(call.resource, stored)?, Vec::new()))
    }

    pub(super) async fn list(&self, call: Call<'_>) -> Result<Answer, Status> {
        let options = ListOptions::parse(&call.request.query)?;
        let selection = Selection::new(call.resource, &options)?;
        let prefix = call.resource.prefix(call.namespace());
        let (at, after, token) = self.start(&options, &prefix)?;
        let limit = usize::try_from(options.limit).ok().filter(|limit| *limit > 0);
        let found = match self.page(call, &selection, at, after, limit).await {
            Err(Error::Compacted { .. }) if token.is_some() => return Err(token_expired(token.as_ref())),
            found => found.map_err(failure::of_store)??,
        };
        let mut metadata = json!({"resourceVersion": found.revision.to_string()});
        if let Some((last, remaining)) = found.rest {
            metadata["continue"] = Token::after(&last, &prefix, found.revision).encode().into();
            if selection.is_everything() {
                metadata["remainingItemCount"] = remaining.into();
            }
        }
        let list = json!({
            "kind": call.resource.list_kind,
            "apiVersion": call.resource.group_version().to_string(),
            "metadata": metadata,
            "items": found.items,
        });
        Ok(call.answer(200, list, Vec::new()))
    }

    /// The revision that a list is to be read at (if not the newest), and the key that it goes on after.
    #[expect(clippy::type_complexity, reason = "three answers of one decision, used in one place")]
    fn start(
        &self,
        options: &ListOptions,
        prefix: &str,
    ) -> Result<(Option<Revision>, Option<Arc<str>>, Option<Token>), Status> {
        let asked = failure::revision(&options.resource_version)?;
        if !options.continue_token.is_empty() {
            if asked.is_some() {
                let why = "specifying resource version is not allowed when using continue";
                return Err(Status::bad_request(why));
            }
            let token = Token::decode(&options.continue_token)?;
            return Ok((token.revision(), Some(token.key(prefix).into()), Some(token)));
        }
        let head = self.store.view().head();
        if let Some(asked) = asked.filter(|asked| *asked > head) {
            return Err(failure::too_large_version(asked, head));
        }
        // With a limit, a revision without a match has always meant exactly that one.
        let exact = match options.resource_version_match {
            Some(Match::Exact) => true,
            Some(Match::NotOlderThan) => false,
            None => options.limit > 0,
        };
        Ok((asked.filter(|_| exact), None, None))
    }

    /// Reads until the page is full or there is no more.
    async fn page(
        &self,
        call: Call<'_>,
        selection: &Selection,
        at: Option<Revision>,
        after: Option<Arc<str>>,
        limit: Option<usize>,
    ) -> Result<Result<Found, Status>, Error> {
        let mut query = Query { scope: call.scope(), at, after, limit: limit.map(|limit| limit.max(STRIDE)) };
        let mut items = Vec::new();
        loop {
            let page = self.store.list(query.clone()).await?;
            let count = page.items.len();
            for (index, stored) in page.items.iter().enumerate() {
                match select(call, selection, stored) {
                    Ok(chosen) => items.extend(chosen),
                    Err(status) => return Ok(Err(status)),
                }
                let remaining = count - index - 1 + page.remaining;
                if limit == Some(items.len()) && remaining > 0 {
                    let rest = Some((stored.key.clone(), remaining));
                    return Ok(Ok(Found { items, revision: page.revision, rest }));
                }
            }
            match page.items.last() {
                Some(last) if page.remaining > 0 => query.after = Some(last.key.clone()),
                _ => return Ok(Ok(Found { items, revision: page.revision, rest: None })),
            }
            query.at = Some(page.revision);
        }
    }
}

fn select(call: Call<'_>, selection: &Selection, stored: &Stored) -> Result<Option<Value>, Status> {
    let object = object::decode(call.resource, stored)?;
    Ok(selection.matches(&object).then_some(object))
}

/// The rest of the list cannot be had as it was; the client may go on with what there is now.
fn token_expired(token: Option<&Token>) -> Status {
    let mut status = Status::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.",
    );
    if let Some(token) = token {
        status.metadata.insert("continue".into(), token.inconsistent().encode().into());
    }
    status
}
