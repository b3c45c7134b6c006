//! Which replicas live, by what is heard of them. Nobody's clock is compared with ours: what counts is that a Lease changes.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use clock::Monotonic;
use jiff::Timestamp;

use super::{FORGOTTEN, GONE};

/// A replica's Lease.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) id: String,
    pub(super) address: SocketAddr,
    pub(super) renewed: Timestamp,
}

/// What is new.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// A replica is there.
    Came { id: String, address: SocketAddr },
    /// It is there no more.
    Went { id: String },
    /// It has been gone for long: its Lease may go, too.
    Forgotten { id: String },
}

struct Heard {
    seen: Seen,
    /// When its Lease was last seen to change.
    at: Monotonic,
    lives: bool,
}

/// All that were heard of.
#[derive(Default)]
pub(super) struct Roster(BTreeMap<String, Heard>);

impl Roster {
    /// Takes in the Leases that there are. Who is seen for the first time lives, until it turns out that it does not.
    pub(super) fn hear(&mut self, all: Vec<Seen>, now: Monotonic) -> Vec<News> {
        let mut news = Vec::new();
        self.0.retain(|id, heard| {
            let stays = all.iter().any(|seen| seen.id == *id && seen.address == heard.seen.address);
            if !stays && heard.lives {
                news.push(News::Went { id: id.clone() });
            }
            stays
        });
        for seen in all {
            let (id, address) = (seen.id.clone(), seen.address);
            let heard = self.0.entry(id.clone());
            let first = matches!(heard, std::collections::btree_map::Entry::Vacant(_));
            let heard = heard.or_insert_with(|| Heard { seen: seen.clone(), at: now, lives: false });
            let changed = first || heard.seen.renewed != seen.renewed;
            if changed {
                (heard.seen, heard.at) = (seen, now);
            }
            let silent = now.since(heard.at);
            match (heard.lives, changed) {
                (false, true) => {
                    heard.lives = true;
                    news.push(News::Came { id, address });
                }
                (true, _) if silent >= GONE => {
                    heard.lives = false;
                    news.push(News::Went { id });
                }
                (false, false) if silent >= FORGOTTEN => news.push(News::Forgotten { id }),
                _ => {}
            }
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use clock::{Clock as _, ManualClock};

    use super::*;

    fn seen(id: &str, port: u16, renewed: i64) -> Seen {
        let renewed = Timestamp::from_second(renewed).unwrap();
        Seen { id: id.into(), address: SocketAddr::from(([10, 0, 0, 1], port)), renewed }
    }

    fn came(id: &str, port: u16) -> News {
        News::Came { id: id.into(), address: SocketAddr::from(([10, 0, 0, 1], port)) }
    }

    fn went(id: &str) -> News {
        News::Went { id: id.into() }
    }

    #[test]
    fn replicas_come_and_go() {
        let clock = ManualClock::at(Timestamp::UNIX_EPOCH);
        let mut roster = Roster::default();
        let mut hear = |all: &[Seen]| roster.hear(all.to_vec(), clock.monotonic());
        assert_eq!(hear(&[seen("a", 1, 0), seen("b", 2, 0)]), [came("a", 1), came("b", 2)]);
        assert_eq!(hear(&[seen("a", 1, 5), seen("b", 2, 0)]), []);
        clock.advance(GONE);
        // Renewed, whatever its clock says; the other one is silent.
        assert_eq!(hear(&[seen("a", 1, 3), seen("b", 2, 0)]), [went("b")]);
        assert_eq!(hear(&[seen("a", 1, 3), seen("b", 2, 0)]), [], "it is said once");
        clock.advance(FORGOTTEN);
        let forgotten = News::Forgotten { id: "b".into() };
        assert_eq!(hear(&[seen("a", 1, 9), seen("b", 2, 0)]), [forgotten]);
        assert_eq!(hear(&[seen("a", 1, 9), seen("b", 2, 1)]), [came("b", 2)], "it was only slow");
        assert_eq!(hear(&[seen("b", 3, 2)]), [went("a"), went("b"), came("b", 3)], "one left, one moved");
    }
}
