use std::time::Duration;

use apiserver::store::{Error, Options, Revision, Scope};

use crate::support::{Bench, drain, on_each};

/// `/a` with five values, `/b` come and gone: revisions 1 to 7.
async fn some_history(bench: &Bench) {
    for value in ["1", "2", "3"] {
        bench.put("/a", value).await;
    }
    bench.put("/b", "1").await;
    bench.delete("/b").await;
    bench.put("/a", "4").await;
    bench.put("/a", "5").await;
}

#[test]
fn below_the_floor_nothing_can_be_read() {
    on_each(&Options::default(), |bench| async move {
        some_history(&bench).await;
        bench.store.compact(Revision(5)).await.unwrap();
        assert_eq!(bench.store.view().floor(), Revision(5));
        let read = bench.all(Some(Revision(4))).await;
        assert!(matches!(read, Err(Error::Compacted { floor: Revision(5), .. })), "{}: {read:?}", bench.name);
        let watch = bench.store.watch(Scope::prefix(""), Revision(4));
        assert!(matches!(watch, Err(Error::Compacted { .. })), "{watch:?}");
        // The floor itself can be read, and watched from.
        assert_eq!(bench.all(Some(Revision(5))).await.unwrap(), ["/a=3"]);
        let mut watch = bench.store.watch(Scope::prefix(""), Revision(5)).unwrap();
        let seen = drain(&mut watch).await.unwrap();
        assert_eq!(seen, ["6 Modified /a 3>4", "7 Modified /a 4>5"], "{}", bench.name);
    });
}

#[test]
fn the_floor_only_rises_and_not_above_the_head() {
    on_each(&Options::default(), |bench| async move {
        some_history(&bench).await;
        let above = bench.store.compact(Revision(8)).await;
        assert!(matches!(above, Err(Error::FutureRevision { .. })), "{above:?}");
        bench.store.compact(Revision(7)).await.unwrap();
        bench.store.compact(Revision(2)).await.unwrap();
        assert_eq!(bench.store.view().floor(), Revision(7));
        assert_eq!(bench.store.view().history_bytes(), 0, "{}", bench.name);
        assert_eq!(bench.all(None).await.unwrap(), ["/a=5"]);
        assert_eq!(bench.put("/a", "6").await, Revision(8));
        assert_eq!(bench.all(Some(Revision(7))).await.unwrap(), ["/a=5"]);
    });
}

#[test]
fn what_is_old_goes_and_what_is_young_stays() {
    let options = Options { history_age: Duration::from_secs(100), ..Options::default() };
    on_each(&options, |bench| async move {
        for value in 0..10 {
            bench.put("/a", &value.to_string()).await;
            bench.pass(20);
        }
        // Revision n was written at (n - 1) * 20; it is 200 now.
        assert_eq!(bench.store.trim(bench.pass(0)).await.unwrap(), Revision(6), "{}", bench.name);
        assert_eq!(bench.store.trim(bench.pass(0)).await.unwrap(), Revision(6));
        assert_eq!(bench.store.trim(bench.pass(1000)).await.unwrap(), Revision(10));
        assert_eq!(bench.all(None).await.unwrap(), ["/a=9"]);
    });
}

#[test]
fn the_oldest_goes_when_it_is_too_much() {
    let options = Options { history_bytes: 50_000, ..Options::default() };
    on_each(&options, |bench| async move {
        let value = "x".repeat(1000);
        for _ in 0..30 {
            bench.put("/a", &value).await;
        }
        let (_, before) =
            (bench.store.trim(bench.pass(0)).await.unwrap(), bench.store.view().history_bytes());
        assert_eq!(bench.store.view().floor(), Revision(0), "{}: {before}", bench.name);
        for _ in 0..100 {
            bench.put("/a", &value).await;
        }
        let floor = bench.store.trim(bench.pass(0)).await.unwrap();
        let kept = bench.store.view().history_bytes();
        assert!(kept <= 50_000 && kept > 48_000, "{}: {kept}", bench.name);
        assert!(floor > Revision(80) && floor < Revision(90), "{}: {floor}", bench.name);
    });
}

#[test]
fn time_in_the_log_does_not_go_back_with_the_clock() {
    on_each(&Options::default(), |bench| async move {
        bench.pass(1000);
        let first = bench.put("/a", "1").await;
        bench.clock.jump_to(jiff::Timestamp::UNIX_EPOCH);
        bench.put("/a", "2").await;
        let mut watch = bench.store.watch(Scope::key("/a"), Revision::ZERO).unwrap();
        let (one, two) = (watch.next().await.unwrap(), watch.next().await.unwrap());
        assert_eq!(one.revision, first);
        assert_eq!(one.time, two.time, "{}", bench.name);
    });
}
