//! Random work against a plain model: whatever happens, a watch that resumes ends up with what the store has.

use std::collections::BTreeMap;
use std::sync::Arc;

use apiserver::store::{Error, Event, Expect, Options, Query, Revision, Scope, Watch, Write};
use proptest::prelude::*;

use crate::support::{Bench, benches, runtime, text};

#[derive(Clone, Debug)]
enum Step {
    Put {
        key: u8,
        value: u8,
        expect: u8,
    },
    Delete {
        key: u8,
        expect: u8,
    },
    /// Several at once.
    Transaction(Vec<(u8, u8)>),
    /// The watcher takes some changes.
    Take {
        watcher: u8,
        most: u8,
    },
    /// The watcher's connection breaks; it resumes from what it has seen, or from its last bookmark.
    Disconnect {
        watcher: u8,
        bookmark: bool,
    },
    /// The watcher is told a bookmark and goes on.
    Bookmark {
        watcher: u8,
    },
    Compact {
        behind: u8,
    },
    /// The store is closed and opened again, if it is one that lasts.
    Reopen,
    /// Reads at a revision so far back.
    Read {
        back: u8,
        page: u8,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..6_u8, any::<u8>(), 0..5_u8).prop_map(|(key, value, expect)| Step::Put { key, value, expect }),
        2 => (0..6_u8, 0..5_u8).prop_map(|(key, expect)| Step::Delete { key, expect }),
        1 => prop::collection::vec((0..6_u8, any::<u8>()), 1..12).prop_map(Step::Transaction),
        5 => (0..3_u8, 0..8_u8).prop_map(|(watcher, most)| Step::Take { watcher, most }),
        2 => (0..3_u8, any::<bool>()).prop_map(|(watcher, bookmark)| Step::Disconnect { watcher, bookmark }),
        2 => (0..3_u8).prop_map(|watcher| Step::Bookmark { watcher }),
        1 => (0..20_u8).prop_map(|behind| Step::Compact { behind }),
        1 => Just(Step::Reopen),
        2 => (0..30_u8, 1..4_u8).prop_map(|(back, page)| Step::Read { back, page }),
    ]
}

fn key(number: u8) -> String {
    format!("/{}/{number}", if number.is_multiple_of(2) { "even" } else { "odd" })
}

type State = BTreeMap<String, (String, Revision)>;

/// What the store should be: every state that it ever had, and the key that changed to make it.
struct Model {
    states: Vec<State>,
    changed: Vec<String>,
    floor: usize,
}

impl Model {
    fn head(&self) -> usize {
        self.states.len() - 1
    }

    fn now(&self) -> &State {
        &self.states[self.head()]
    }

    fn change(&mut self, key: &str, value: Option<&str>) {
        let mut next = self.now().clone();
        let revision = Revision(self.states.len() as i64);
        match value {
            Some(value) => next.insert(key.to_owned(), (value.to_owned(), revision)),
            None => next.remove(key),
        };
        self.states.push(next);
        self.changed.push(key.to_owned());
    }

    /// The first change in a scope above a revision.
    fn next_in(&self, scope: &Scope, after: Revision) -> Option<Revision> {
        let mut changes = (1..).zip(&self.changed).skip(after.0 as usize);
        changes.find(|(_, key)| scope.contains(key)).map(|(revision, _)| Revision(revision))
    }

    fn expects(&self, key: &str, choice: u8) -> (Expect, bool) {
        let found = self.now().get(key);
        match choice {
            0 => (Expect::Anything, true),
            1 => (Expect::Absent, found.is_none()),
            2 => (Expect::Present, found.is_some()),
            3 => (Expect::Revision(found.map_or(Revision(1), |found| found.1)), found.is_some()),
            _ => (Expect::Revision(Revision(i64::MAX)), false),
        }
    }
}

/// A client that keeps a copy of a part of the store by watching it.
struct Client {
    scope: Scope,
    watch: Option<Watch>,
    copy: BTreeMap<String, String>,
    seen: Revision,
    relisted: usize,
}

impl Client {
    fn follow(&mut self, model: &Model, event: &Arc<Event>) {
        // The log's next change, none left out and none twice.
        assert_eq!(Some(event.revision), model.next_in(&self.scope, self.seen), "after {}", self.seen);
        assert!(self.scope.contains(&event.key));
        self.seen = event.revision;
        let before = self.copy.get(&*event.key).cloned();
        // The object before is what this client has: nothing was missed in between.
        assert_eq!(before, event.previous.as_ref().map(|object| text(&object.value())), "{event:?}");
        match &event.current {
            Some(current) => self.copy.insert(current.key.to_string(), text(&current.value())),
            None => self.copy.remove(&*event.key),
        };
    }

    /// Believes that there is nothing to be told up to a revision.
    fn believe(&mut self, model: &Model, revision: Revision) {
        assert!(revision >= self.seen, "back from {} to {revision}", self.seen);
        let next = model.next_in(&self.scope, self.seen);
        assert!(next.is_none_or(|next| next > revision), "{next:?} was not told before {revision}");
        self.seen = revision;
    }

    async fn relist(&mut self, bench: &Bench) {
        let page = bench.store.list(Query::all(self.scope.clone())).await.unwrap();
        self.copy = page.items.iter().map(|item| (item.key.to_string(), text(&item.value()))).collect();
        self.seen = page.revision;
        self.relisted += 1;
    }

    async fn take(&mut self, bench: &Bench, model: &Model, most: usize) {
        for _ in 0..most {
            if self.watch.is_none() {
                match bench.store.watch(self.scope.clone(), self.seen) {
                    Ok(watch) => self.watch = Some(watch),
                    Err(Error::Compacted { .. }) => {
                        self.relist(bench).await;
                        continue;
                    }
                    Err(other) => panic!("{other}"),
                }
            }
            match self.watch.as_mut().unwrap().next_ready().await {
                Ok(Some(event)) => self.follow(model, &event),
                Ok(None) => return,
                Err(Error::Lagged { resume }) => {
                    self.believe(model, resume);
                    self.watch = None;
                }
                Err(Error::Closed) => self.watch = None,
                Err(Error::Compacted { .. }) => {
                    self.watch = None;
                    self.relist(bench).await;
                }
                Err(other) => panic!("{other}"),
            }
        }
    }
}

async fn write(bench: &Bench, model: &mut Model, step: &Step) {
    let (transaction, fine, changes) = match step {
        Step::Put { key: number, value, expect } => {
            let (key, value) = (key(*number), value.to_string());
            let (expect, fine) = model.expects(&key, *expect);
            (vec![Write::put(key.clone(), value.clone(), expect)], fine, vec![(key, Some(value))])
        }
        Step::Delete { key: number, expect } => {
            let key = key(*number);
            let (expect, fine) = model.expects(&key, *expect);
            let there = model.now().contains_key(&key);
            let changes = if there { vec![(key.clone(), None)] } else { vec![] };
            (vec![Write::delete(key, expect)], fine, changes)
        }
        Step::Transaction(puts) => {
            let changes: Vec<_> =
                puts.iter().map(|(number, value)| (key(*number), Some(value.to_string()))).collect();
            let writes = changes.iter().map(|(key, value)| {
                Write::put(key.clone(), value.clone().unwrap_or_default(), Expect::Anything)
            });
            (writes.collect(), true, changes)
        }
        _ => return,
    };
    let result = bench.store.write(transaction).await;
    assert_eq!(result.is_ok(), fine, "{step:?}: {result:?}");
    if fine {
        changes.iter().for_each(|(key, value)| model.change(key, value.as_deref()));
    }
    assert_eq!(bench.store.view().head(), Revision(model.head() as i64));
}

async fn read(bench: &Bench, model: &Model, back: u8, page: u8) {
    let revision = model.head().saturating_sub(back.into());
    let mut query = Query {
        at: Some(Revision(revision as i64)),
        limit: Some(page.into()),
        ..Query::all(Scope::prefix("/even/"))
    };
    let mut found = Vec::new();
    loop {
        let page = match bench.store.list(query.clone()).await {
            Ok(page) => page,
            Err(error) => {
                assert!(matches!(error, Error::Compacted { .. }) && revision < model.floor, "{error}");
                return;
            }
        };
        query.after = page.items.last().map(|item| item.key.clone());
        found.extend(
            page.items.iter().map(|item| (item.key.to_string(), (text(&item.value()), item.modified))),
        );
        if page.remaining == 0 {
            break;
        }
    }
    let expected = model.states[revision].iter().filter(|(key, _)| key.starts_with("/even/"));
    assert_eq!(found, expected.map(|(key, value)| (key.clone(), value.clone())).collect::<Vec<_>>());
    assert!(revision >= model.floor);
}

async fn run(bench: &mut Bench, steps: &[Step]) {
    let mut model = Model { states: vec![State::new()], changed: Vec::new(), floor: 0 };
    let scopes = [Scope::prefix(""), Scope::prefix("/odd/"), Scope::key(key(2))];
    let mut clients = scopes.map(|scope| Client {
        scope,
        watch: None,
        copy: BTreeMap::new(),
        seen: Revision::ZERO,
        relisted: 0,
    });
    for step in steps {
        match step {
            Step::Put { .. } | Step::Delete { .. } | Step::Transaction(_) => {
                write(bench, &mut model, step).await
            }
            Step::Take { watcher, most } => {
                clients[usize::from(*watcher)].take(bench, &model, (*most).into()).await;
            }
            Step::Disconnect { watcher, bookmark } => {
                let client = &mut clients[usize::from(*watcher)];
                if let Some(watch) = client.watch.take()
                    && *bookmark
                {
                    client.believe(&model, watch.progress());
                }
            }
            Step::Bookmark { watcher } => {
                let client = &mut clients[usize::from(*watcher)];
                if let Some(bookmark) = client.watch.as_ref().map(Watch::progress) {
                    client.believe(&model, bookmark);
                }
            }
            Step::Reopen => bench.reopen(),
            Step::Compact { behind } => {
                let floor = model.head().saturating_sub((*behind).into());
                bench.store.compact(Revision(floor as i64)).await.unwrap();
                model.floor = model.floor.max(floor);
            }
            Step::Read { back, page } => read(bench, &model, *back, *page).await,
        }
    }
    for client in &mut clients {
        client.take(bench, &model, 10_000).await;
        let expected: BTreeMap<String, String> = model
            .now()
            .iter()
            .filter(|(key, _)| client.scope.contains(key))
            .map(|(key, (value, _))| (key.clone(), value.clone()))
            .collect();
        assert_eq!(client.copy, expected, "{} {:?}", bench.name, client.scope);
        assert_eq!(client.watch.as_ref().unwrap().progress(), bench.store.view().head());
        assert!(client.relisted == 0 || model.floor > 0, "a list was needed although nothing was compacted");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn a_client_that_resumes_ends_with_what_the_store_has(steps in prop::collection::vec(step(), 1..150)) {
        let options = Options { watch_buffer: 6, ..Options::default() };
        for mut bench in benches(&options) {
            runtime().block_on(run(&mut bench, &steps));
        }
    }
}
