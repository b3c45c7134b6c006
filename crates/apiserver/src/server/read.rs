//! Get and list.

use std::sync::Arc;

use kubeapi::Status;
use kubeapi::request::{GetOptions, ListOptions, Match};
use serde_json::{Value, json};

use super::selection::Selection;
use super::token::Token;
use super::{Answer, Call, Server, failure};
use crate::convert::Conversion;
use crate::store::{Error, Query, Revision, Stored};

/// How many objects are looked at in one go while a page is filled.
const STRIDE: usize = 500;

/// What a list found.
pub(super) struct Found<T> {
    pub(super) items: Vec<T>,
    revision: Revision,
    /// The last key that was looked at, and how many more there are, if the page is full.
    rest: Option<(Arc<str>, usize)>,
}

/// Says which of the objects that were read are in a list, and as what.
pub(super) trait Choose: Sync {
    /// What becomes of an object.
    type Item: Send;

    /// For each object what becomes of it, if it is chosen.
    fn choose(
        &self,
        stored: &[Arc<Stored>],
    ) -> impl Future<Output = Result<Vec<Option<Self::Item>>, Status>> + Send;
}

/// Objects in the version that is asked for.
struct Parsed<'a> {
    conversion: &'a Conversion,
    call: Call<'a>,
    selection: &'a Selection,
}

impl Choose for Parsed<'_> {
    type Item = Value;

    async fn choose(&self, stored: &[Arc<Stored>]) -> Result<Vec<Option<Value>>, Status> {
        let stored = stored.iter().map(|stored| (&**stored, stored.modified));
        let objects = self.conversion.decode_all(self.call.resource, stored).await?.into_iter();
        Ok(objects.map(|object| self.selection.matches(&object).then_some(object)).collect())
    }
}

impl Server {
    pub(super) async fn get(&self, call: Call<'_>) -> Result<Answer, Status> {
        let options = GetOptions::parse(&call.request.query)?;
        let stored = self.find_one(call, &options)?;
        Ok(call.answer(200, self.conversion.decode(call.resource, &stored).await?, Vec::new()))
    }

    /// The object that a get asks for.
    pub(super) fn find_one(&self, call: Call<'_>, options: &GetOptions) -> Result<Arc<Stored>, Status> {
        let view = self.store.view();
        let asked = failure::plain_revision(&options.resource_version)?;
        if let Some(asked) = asked.filter(|asked| *asked > view.head()) {
            return Err(failure::too_large_version(asked, view.head()));
        }
        view.get(&call.key()).cloned().ok_or_else(|| call.not_found())
    }

    pub(super) async fn list(&self, call: Call<'_>) -> Result<Answer, Status> {
        let list = self.list_objects(call).await?;
        Ok(call.answer(200, list, Vec::new()))
    }

    /// The objects that a request chooses, as a list.
    pub(super) async fn list_objects(&self, call: Call<'_>) -> Result<Value, Status> {
        let options = ListOptions::parse(&call.request.query)?;
        let selection = Selection::new(call.resource, &options)?;
        let parsed = Parsed { conversion: &self.conversion, call, selection: &selection };
        let found = self.find(call, &options, &selection, &parsed).await?;
        Ok(json!({
            "kind": call.resource.list_kind,
            "apiVersion": call.resource.group_version().to_string(),
            "metadata": list_metadata(call, &selection, &found),
            "items": found.items,
        }))
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

    /// Finds the objects of a list.
    pub(super) async fn find<C: Choose>(
        &self,
        call: Call<'_>,
        options: &ListOptions,
        selection: &Selection,
        choice: &C,
    ) -> Result<Found<C::Item>, Status> {
        let prefix = call.resource.prefix(call.namespace());
        let (at, after, token) = self.start(options, &prefix)?;
        let limit = usize::try_from(options.limit).ok().filter(|limit| *limit > 0);
        let stride = limit.map(|limit| if selection.is_everything() { limit } else { limit.max(STRIDE) });
        let query = Query { scope: call.scope(), at, after, limit: stride };
        match self.page(query, limit, choice).await {
            Err(Error::Compacted { .. }) if token.is_some() => Err(token_expired(token.as_ref())),
            found => found.map_err(failure::of_store)?,
        }
    }

    /// Reads until the page is full or there is no more.
    async fn page<C: Choose>(
        &self,
        mut query: Query,
        limit: Option<usize>,
        choice: &C,
    ) -> Result<Result<Found<C::Item>, Status>, Error> {
        let mut items = Vec::new();
        loop {
            let page = self.store.list(query.clone()).await?;
            let count = page.items.len();
            let some = match choice.choose(&page.items).await {
                Ok(some) => some,
                Err(status) => return Ok(Err(status)),
            };
            for (index, (stored, item)) in page.items.iter().zip(some).enumerate() {
                items.extend(item);
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

/// What a list says of itself.
pub(super) fn list_metadata<T>(call: Call<'_>, selection: &Selection, found: &Found<T>) -> Value {
    let mut metadata = json!({"resourceVersion": found.revision.to_string()});
    if call.resource.as_custom().is_some() {
        metadata["continue"] = json!("");
    }
    if let Some((last, remaining)) = &found.rest {
        let prefix = call.resource.prefix(call.namespace());
        metadata["continue"] = Token::after(last, &prefix, found.revision).encode().into();
        if selection.is_everything() {
            metadata["remainingItemCount"] = json!(remaining);
        }
    }
    metadata
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
