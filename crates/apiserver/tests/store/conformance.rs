use std::sync::Arc;
use std::time::Duration;

use apiserver::store::{Error, Expect, LogHash, Options, Query, Revision, Scope, Store, Write};

use crate::support::{Bench, benches, on_each, runtime, text};

/// The outcome of a write in a word.
fn verdict(result: &Result<apiserver::store::Commit, Error>) -> String {
    match result {
        Ok(commit) => format!("revision {} changes {}", commit.revision, commit.events.len()),
        Err(Error::AlreadyExists { found, .. }) => format!("exists at {}", found.modified),
        Err(Error::NotFound { .. }) => "not found".into(),
        Err(Error::Conflict { found, .. }) => format!("conflict with {}", found.modified),
        Err(other) => other.to_string(),
    }
}

#[test]
fn writes_find_what_they_expect_or_change_nothing() {
    // Each step goes on from the state that the ones before have left.
    let steps: Vec<(&str, Vec<Write>, &str)> = vec![
        ("create", vec![Write::create("/a", "1")], "revision 1 changes 1"),
        ("create again", vec![Write::create("/a", "x")], "exists at 1"),
        ("update", vec![Write::update("/a", "2", Revision(1))], "revision 2 changes 1"),
        ("update of an old one", vec![Write::update("/a", "x", Revision(1))], "conflict with 2"),
        ("update of none", vec![Write::update("/b", "x", Revision(1))], "not found"),
        ("put, present only", vec![Write::put("/b", "x", Expect::Present)], "not found"),
        ("put", vec![Write::put("/b", "1", Expect::Anything)], "revision 3 changes 1"),
        ("delete of an old one", vec![Write::delete("/a", Expect::Revision(Revision(1)))], "conflict with 2"),
        ("delete", vec![Write::delete("/a", Expect::Revision(Revision(2)))], "revision 4 changes 1"),
        ("delete of none", vec![Write::delete("/a", Expect::Present)], "not found"),
        ("delete of none, whatever", vec![Write::delete("/a", Expect::Anything)], "revision 4 changes 0"),
        ("check that fails", vec![Write::check("/b", Expect::Absent)], "exists at 3"),
        ("check that holds", vec![Write::check("/b", Expect::Present)], "revision 4 changes 0"),
        ("nothing", vec![], "revision 4 changes 0"),
        (
            "several, the last refused: none is there",
            vec![Write::create("/c", "1"), Write::update("/b", "2", Revision(3)), Write::create("/b", "x")],
            "exists at 6",
        ),
        (
            "several, seeing each other",
            vec![
                Write::check("/b", Expect::Revision(Revision(3))),
                Write::create("/c", "1"),
                Write::update("/c", "2", Revision(5)),
                Write::delete("/b", Expect::Present),
            ],
            "revision 7 changes 3",
        ),
        ("create after delete", vec![Write::create("/a", "3")], "revision 8 changes 1"),
    ];
    on_each(&Options::default(), |bench| {
        let steps = steps.clone();
        async move {
            for (name, transaction, expected) in steps {
                assert_eq!(
                    verdict(&bench.store.write(transaction).await),
                    expected,
                    "{}: {name}",
                    bench.name
                );
            }
            assert_eq!(bench.all(None).await.unwrap(), ["/a=3", "/c=2"]);
            let recreated = bench.store.get("/a", None).await.unwrap().unwrap();
            assert_eq!((recreated.created, recreated.modified), (Revision(8), Revision(8)));
            let updated = bench.store.get("/c", None).await.unwrap().unwrap();
            assert_eq!((updated.created, updated.modified), (Revision(5), Revision(6)));
        }
    });
}

#[test]
fn a_refused_transaction_leaves_no_trace_in_history() {
    on_each(&Options::default(), |bench| async move {
        bench.put("/a", "1").await;
        let refused =
            vec![Write::create("/b", "1"), Write::delete("/a", Expect::Present), Write::create("/b", "2")];
        bench.store.write(refused).await.unwrap_err();
        assert_eq!(bench.store.view().head(), Revision(1));
        assert_eq!(bench.store.view().history_bytes(), 0);
        assert_eq!(bench.put("/c", "1").await, Revision(2));
    });
}

#[test]
fn an_absurd_value_is_refused() {
    on_each(&Options::default(), |bench| async move {
        let refused = bench.write(Write::create("/a", vec![0; 17 << 20])).await;
        assert!(matches!(refused, Err(Error::TooLarge { .. })), "{refused:?}");
        assert_eq!(bench.put("/a", "1").await, Revision(1));
    });
}

#[test]
fn reads_at_every_revision() {
    on_each(&Options::default(), |bench| async move {
        bench.put("/a", "1").await;
        bench.put("/b", "1").await;
        bench.put("/a", "2").await;
        bench.delete("/b").await;
        bench.put("/b", "3").await;
        let history: [&[&str]; 6] =
            [&[], &["/a=1"], &["/a=1", "/b=1"], &["/a=2", "/b=1"], &["/a=2"], &["/a=2", "/b=3"]];
        for (revision, expected) in (0..).map(Revision).zip(history) {
            assert_eq!(bench.all(Some(revision)).await.unwrap(), expected, "{} at {revision}", bench.name);
        }
        assert_eq!(bench.value("/b", Some(Revision(3))).await.unwrap().as_deref(), Some("1"));
        assert_eq!(bench.value("/b", Some(Revision(4))).await.unwrap(), None);
        assert_eq!(bench.value("/b", None).await.unwrap().as_deref(), Some("3"));
        let early = bench.value("/b", Some(Revision(6))).await;
        assert!(matches!(early, Err(Error::FutureRevision { head: Revision(5), .. })), "{early:?}");
    });
}

#[test]
fn a_scope_holds_its_keys_only() {
    let cases: &[(Scope, &[&str])] = &[
        (Scope::prefix("/pods/a/"), &["/pods/a/1", "/pods/a/2"]),
        (Scope::prefix("/pods/a"), &["/pods/a/1", "/pods/a/2", "/pods/ab/1"]),
        (Scope::prefix("/pods0"), &[]),
        (Scope::prefix("/zz"), &["/zz\u{10FFFF}\u{10FFFF}"]),
        (Scope::key("/pods/a/1"), &["/pods/a/1"]),
        (Scope::key("/pods/a/"), &[]),
    ];
    on_each(&Options::default(), |bench| async move {
        for key in ["/pods/ab/1", "/pods/a/2", "/pods/a/1", "/pod", "/zz\u{10FFFF}\u{10FFFF}"] {
            bench.put(key, "x").await;
        }
        let then = bench.store.view().head();
        for number in 0..5 {
            bench.put("/later", &number.to_string()).await;
        }
        for (scope, expected) in cases {
            for at in [None, Some(then)] {
                let page = bench.store.list(Query { at, ..Query::all(scope.clone()) }).await.unwrap();
                let keys: Vec<&str> = page.items.iter().map(|item| &*item.key).collect();
                assert_eq!(keys, *expected, "{} {scope:?} at {at:?}", bench.name);
            }
        }
    });
}

#[test]
fn the_pages_of_a_list_are_of_one_revision() {
    on_each(&Options::default(), |bench| async move {
        for number in 0..25 {
            bench.put(&format!("/p/{number:02}"), "old").await;
        }
        bench.put("/q", "other").await;
        let mut query = Query { limit: Some(10), ..Query::all(Scope::prefix("/p/")) };
        let mut seen = Vec::new();
        for (length, remaining) in [(10, 15), (10, 5), (5, 0)] {
            let page = bench.store.list(query.clone()).await.unwrap();
            assert_eq!((page.items.len(), page.remaining), (length, remaining), "{}", bench.name);
            query.at = Some(page.revision);
            query.after = page.items.last().map(|item| item.key.clone());
            seen.extend(page.items);
            // Between two pages the world changes: before, at and after the place of the next page.
            for number in [0, 9, 10, 24] {
                bench.put(&format!("/p/{number:02}"), "new").await;
            }
            bench.write(Write::delete("/p/22", Expect::Anything)).await.unwrap();
            bench.put("/p/11a", "new").await;
        }
        let seen: Vec<String> =
            seen.iter().map(|item| format!("{}={}", item.key, text(&item.value()))).collect();
        let expected: Vec<String> = (0..25).map(|number| format!("/p/{number:02}=old")).collect();
        assert_eq!(seen, expected);
    });
}

#[test]
fn a_view_stays_as_it_is() {
    on_each(&Options::default(), |bench| async move {
        bench.put("/a", "1").await;
        let view = bench.store.view();
        bench.put("/a", "2").await;
        bench.put("/b", "1").await;
        assert_eq!(view.head(), Revision(1));
        assert_eq!((view.len(), view.is_empty()), (1, false));
        assert_eq!(text(&view.get("/a").unwrap().value()), "1");
        assert_eq!(view.scan(&Scope::prefix("/")).count(), 1);
    });
}

#[test]
fn what_has_a_lifetime_goes_when_it_is_over() {
    on_each(&Options::default(), |bench| async move {
        let hour = Duration::from_secs(3600);
        for key in ["/e/1", "/e/2", "/e/3"] {
            bench.write(Write::create(key, "e").for_at_most(hour)).await.unwrap();
        }
        bench.put("/o", "stays").await;
        let now = bench.pass(1800);
        // Written again: its hour begins anew. Written without a lifetime: it stays.
        bench.write(Write::put("/e/2", "e", Expect::Present).for_at_most(hour)).await.unwrap();
        bench.put("/e/3", "stays").await;
        assert_eq!(bench.store.expire(now).await.unwrap(), 0);
        let mut watch = bench.store.watch(Scope::prefix("/e/"), bench.store.view().head()).unwrap();
        let now = bench.pass(1800);
        assert_eq!(bench.store.expire(now).await.unwrap(), 1, "{}", bench.name);
        assert_eq!(crate::support::drain(&mut watch).await.unwrap(), ["7 Deleted /e/1 e>-"]);
        let now = bench.pass(1800);
        assert_eq!(bench.store.expire(now).await.unwrap(), 1);
        assert_eq!(bench.all(None).await.unwrap(), ["/e/3=stays", "/o=stays"]);
        assert_eq!(bench.store.expire(bench.pass(100_000)).await.unwrap(), 0);
    });
}

#[test]
fn many_lifetimes_end_in_steps() {
    on_each(&Options::default(), |bench| async move {
        let events =
            (0..1200).map(|n| Write::create(format!("/e/{n}"), "e").for_at_most(Duration::from_secs(1)));
        bench.store.write(events.collect()).await.unwrap();
        assert_eq!(bench.store.expire(bench.pass(2)).await.unwrap(), 1200);
        assert!(bench.store.view().is_empty());
    });
}

/// The same work on any store.
async fn work(bench: &Bench, seed: u8) -> LogHash {
    for number in 0..40_u8 {
        bench.pass(u64::from(number));
        let key = format!("/k/{}", number.wrapping_mul(seed) % 7);
        bench.put(&key, &number.to_string()).await;
        if number % 5 == 0 {
            bench.delete(&key).await;
        }
    }
    bench.write(Write::create("/e", "x").for_at_most(Duration::from_secs(9))).await.unwrap();
    bench.store.log_hash().await.unwrap()
}

#[test]
fn the_same_work_gives_the_same_log_on_every_backend() {
    let hashes = |seed| -> Vec<LogHash> {
        benches(&Options::default()).iter().map(|bench| runtime().block_on(work(bench, seed))).collect()
    };
    let (first, second, other) = (hashes(3), hashes(3), hashes(5));
    assert_eq!(first, second);
    assert!(first.iter().all(|hash| *hash == first[0]), "{first:?}");
    assert_ne!(first[0], other[0]);
}

#[test]
fn the_hash_of_a_memory_store_covers_what_was_compacted() {
    let hash = |first: &str| {
        let bench = benches(&Options::default()).remove(0);
        runtime().block_on(async {
            bench.put("/a", first).await;
            bench.put("/a", "2").await;
            bench.store.compact(Revision(2)).await.unwrap();
            bench.store.log_hash().await.unwrap()
        })
    };
    assert_eq!(hash("1"), hash("1"));
    assert_ne!(hash("1"), hash("x"));
}

#[test]
fn a_store_is_an_object() {
    fn takes(_: Arc<dyn Store>) {}
    benches(&Options::default()).into_iter().for_each(|bench| takes(bench.store));
}
