use std::sync::Arc;

use apiserver::store::{Error, Expect, Options, Revision, Scope, Write};

use crate::support::{benches, drain, on_each, shown};

#[test]
fn a_watch_tells_every_change_of_its_scope() {
    on_each(&Options::default(), |bench| async move {
        bench.put("/p/a", "1").await;
        bench.put("/q", "1").await;
        bench.put("/p/a", "2").await;
        bench.put("/p/ab", "1").await;
        bench.delete("/p/a").await;
        bench.put("/p/a", "3").await;
        let all = [
            "1 Added /p/a ->1",
            "3 Modified /p/a 1>2",
            "4 Added /p/ab ->1",
            "5 Deleted /p/a 2>-",
            "6 Added /p/a ->3",
        ];
        let one = [all[0], all[1], all[3], all[4]];
        let cases: [(Scope, i64, &[&str]); 5] = [
            (Scope::prefix("/p/"), 0, &all),
            (Scope::prefix("/p/"), 3, &all[2..]),
            (Scope::prefix("/p/"), 6, &[]),
            (Scope::key("/p/a"), 0, &one),
            (Scope::prefix("/p/a"), 4, &all[3..]),
        ];
        for (scope, after, expected) in cases {
            let mut watch = bench.store.watch(scope.clone(), Revision(after)).unwrap();
            let seen = drain(&mut watch).await.unwrap();
            assert_eq!(seen, expected, "{} {scope:?} after {after}", bench.name);
            assert_eq!(watch.progress(), Revision(6));
        }
        let early = bench.store.watch(Scope::prefix(""), Revision(7));
        assert!(matches!(early, Err(Error::FutureRevision { .. })), "{early:?}");
    });
}

#[test]
fn a_watch_waits_for_what_comes() {
    on_each(&Options::default(), |bench| async move {
        let bench = Arc::new(bench);
        let mut watch = bench.store.watch(Scope::prefix("/p/"), Revision::ZERO).unwrap();
        let writer = async {
            tokio::task::yield_now().await;
            bench.put("/q", "1").await;
            bench.put("/p/1", "1").await;
        };
        let (event, ()) = tokio::join!(watch.next(), writer);
        assert_eq!(shown(&event.unwrap()), "2 Added /p/1 ->1");
        assert_eq!(drain(&mut watch).await.unwrap(), Vec::<String>::new());
    });
}

#[test]
fn who_hears_of_a_change_can_read_it() {
    on_each(&Options::default(), |bench| async move {
        let mut watch = bench.store.watch(Scope::prefix(""), Revision::ZERO).unwrap();
        let write = bench.write(Write::create("/a", "1"));
        let reader = async {
            let event = watch.next().await.unwrap();
            assert!(bench.store.view().head() >= event.revision);
        };
        tokio::join!(reader, async { write.await.unwrap() });
    });
}

#[test]
fn progress_never_runs_ahead_of_what_was_given() {
    on_each(&Options::default(), |bench| async move {
        let mut watch = bench.store.watch(Scope::prefix("/p/"), Revision::ZERO).unwrap();
        assert_eq!(watch.progress(), Revision::ZERO);
        bench.put("/p/1", "1").await;
        bench.put("/p/2", "1").await;
        bench.put("/q", "1").await;
        assert_eq!(watch.progress(), Revision::ZERO, "{}", bench.name);
        watch.next().await.unwrap();
        assert_eq!(watch.progress(), Revision(1), "{}", bench.name);
        watch.next().await.unwrap();
        assert_eq!(watch.progress(), Revision(3), "{}", bench.name);
        bench.put("/q", "2").await;
        assert_eq!(watch.progress(), Revision(4), "{}", bench.name);
        // What it has yet to give does not take back what it said.
        bench.put("/p/3", "1").await;
        assert_eq!(watch.progress(), Revision(4), "{}", bench.name);
    });
}

#[test]
fn progress_holds_while_others_write() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for bench in benches(&Options { watch_buffer: 50, ..Options::default() }) {
        let store = bench.store.clone();
        let writer = runtime.spawn(async move {
            for number in 0..500 {
                let key = ["/p", "/q"][number % 2];
                store.write(vec![Write::put(key, "1", Expect::Anything)]).await.unwrap();
            }
        });
        runtime.block_on(async {
            let mut watch = bench.store.watch(Scope::prefix("/p"), Revision::ZERO).unwrap();
            let mut said = Revision::ZERO;
            while said < Revision(500) {
                let before = watch.progress();
                assert!(before >= said, "{}: back from {said} to {before}", bench.name);
                said = before;
                match watch.next_ready().await {
                    // A change that comes later was not part of what had been said.
                    Ok(Some(event)) => assert!(event.revision > said, "{}: {}", bench.name, event.revision),
                    Ok(None) => tokio::task::yield_now().await,
                    Err(Error::Lagged { resume }) => {
                        assert!(resume >= said);
                        watch = bench.store.watch(Scope::prefix("/p"), resume).unwrap();
                    }
                    Err(other) => panic!("{other}"),
                }
            }
        });
        runtime.block_on(writer).unwrap();
    }
}

#[test]
fn a_slow_watch_ends_and_can_be_resumed_and_others_do_not_notice() {
    let options = Options { watch_buffer: 5, ..Options::default() };
    on_each(&options, |bench| async move {
        let mut slow = bench.store.watch(Scope::prefix("/p"), Revision::ZERO).unwrap();
        let mut fast = bench.store.watch(Scope::prefix("/p"), Revision::ZERO).unwrap();
        let mut elsewhere = bench.store.watch(Scope::prefix("/q"), Revision::ZERO).unwrap();
        let mut seen = Vec::new();
        for value in 0..10 {
            bench.put("/p", &value.to_string()).await;
            seen.extend(drain(&mut fast).await.unwrap());
        }
        assert_eq!(seen.len(), 10);
        for value in 0..5 {
            assert!(slow.progress() < Revision(6), "{}", bench.name);
            assert!(shown(&slow.next().await.unwrap()).ends_with(&format!(">{value}")));
        }
        // It has given all that it holds, but not all that happened.
        assert_eq!(slow.progress(), Revision(5), "{}", bench.name);
        let ended = slow.next().await.unwrap_err();
        assert!(matches!(ended, Error::Lagged { resume: Revision(5) }), "{}: {ended:?}", bench.name);
        assert!(matches!(slow.next().await, Err(Error::Lagged { resume: Revision(5) })));
        assert_eq!(slow.progress(), Revision(5));
        let mut resumed = bench.store.watch(Scope::prefix("/p"), Revision(5)).unwrap();
        assert_eq!(drain(&mut resumed).await.unwrap(), seen[5..]);
        assert_eq!(drain(&mut elsewhere).await.unwrap(), Vec::<String>::new());
        bench.put("/q", "1").await;
        assert_eq!(drain(&mut elsewhere).await.unwrap(), ["11 Added /q ->1"]);
    });
}

#[test]
fn a_watch_that_reads_the_log_ends_if_it_is_compacted_away() {
    on_each(&Options::default(), |bench| async move {
        let many = (0..2500).map(|n| Write::put("/a", n.to_string(), Expect::Anything));
        bench.store.write(many.collect()).await.unwrap();
        let mut watch = bench.store.watch(Scope::key("/a"), Revision(1)).unwrap();
        assert_eq!(watch.next().await.unwrap().revision, Revision(2));
        bench.store.compact(Revision(2400)).await.unwrap();
        // What it had already read it still gives, without a gap; then it says that it cannot go on, or it can.
        let mut last = Revision(2);
        let ended = loop {
            match watch.next_ready().await {
                Ok(Some(event)) => {
                    assert_eq!(event.revision, Revision(last.0 + 1), "{}", bench.name);
                    last = event.revision;
                }
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
        };
        match ended {
            None => assert_eq!(last, Revision(2500), "{}", bench.name),
            Some(Error::Compacted { floor: Revision(2400), .. }) => {
                assert!(bench.name.starts_with("sqlite, "), "{}", bench.name);
                assert!(watch.progress() <= Revision(2400));
            }
            Some(other) => panic!("{}: {other}", bench.name),
        }
    });
}

#[test]
fn a_watch_ends_with_its_store() {
    on_each(&Options::default(), |bench| async move {
        bench.put("/a", "1").await;
        let mut watch = bench.store.watch(Scope::prefix(""), Revision::ZERO).unwrap();
        let name = bench.name;
        drop(bench);
        if name == "memory" {
            // It has no end of its own: what it had is still given.
            assert_eq!(drain(&mut watch).await.unwrap().len(), 1);
        } else {
            assert_eq!(watch.next().await.unwrap().revision, Revision(1));
            assert!(matches!(watch.next().await, Err(Error::Closed)), "{name}");
        }
    });
}
