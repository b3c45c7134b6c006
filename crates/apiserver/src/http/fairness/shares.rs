//! Who may use the processors: an account of processor time for each flow. Pure; the caller brings the time, and what
//! each request has cost.
//!
//! Places alone are no share of a machine: a flood that keeps within its seats has work for all processors all the
//! time. So every flow has an account. It fills at the flow's share of the processors, up to some, and requests are
//! paid from it when they are done. Who owes waits, one request at a time, as long as others ask: their requests find
//! idle processors. Who is alone has all there is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// What a flow can have saved up: a client that starts and lists everything is not a flood.
const SAVED: Duration = Duration::from_millis(100);

/// Who owes waits until this much is paid for in advance, so that not every request waits for a timer. What it does then is one burst, which
/// others have to wait for where there are few processors: the kernel does not take one away for a millisecond or more.
const ADVANCE: Duration = Duration::from_micros(200);

/// However many ask, nobody's share is smaller than one in so many.
const SMALLEST: u32 = 64;

/// Who asked within this time is there.
const RECENT: Duration = Duration::from_secs(1);

/// How often it is found out who is there.
const LOOK: Duration = Duration::from_millis(100);

/// How a flow's requests are worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// As many at once as there are seats.
    Freely,
    /// One after the other: it has used up what it had saved.
    InTurn,
    /// Not before so much time.
    NotBefore(Duration),
}

#[derive(Debug)]
struct Account {
    /// Nanoseconds of processor time; below zero are owed.
    balance: i64,
    /// When that was found out.
    at: Duration,
    asked: Duration,
    /// It has owed, and has not saved anything since.
    in_turn: bool,
}

/// The accounts of all flows.
#[derive(Debug)]
pub(super) struct Shares {
    processors: u32,
    accounts: BTreeMap<Arc<str>, Account>,
    looked: Duration,
    /// How many have asked lately.
    present: u32,
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

impl Shares {
    pub(super) fn new(processors: usize) -> Self {
        let processors = u32::try_from(processors).unwrap_or(u32::MAX).max(1);
        Shares { processors, accounts: BTreeMap::new(), looked: Duration::ZERO, present: 0 }
    }

    /// A request of a flow arrives. Times never go back.
    pub(super) fn ask(&mut self, flow: &Arc<str>, now: Duration) -> Rule {
        if !self.accounts.contains_key(flow) {
            let account = Account { balance: nanos(SAVED), at: now, asked: now, in_turn: false };
            self.accounts.insert(flow.clone(), account);
            self.present += 1;
        }
        if let Some(account) = self.accounts.get_mut(flow) {
            account.asked = now;
        }
        if now.saturating_sub(self.looked) >= LOOK {
            self.look(now);
        }
        self.rule(flow, now)
    }

    /// How a flow's requests are worked on from now on.
    pub(super) fn rule(&mut self, flow: &Arc<str>, now: Duration) -> Rule {
        let (share, alone) = (self.share(), self.present <= 1);
        let Some(account) = self.accounts.get_mut(flow) else { return Rule::Freely };
        account.settle(share, now);
        if alone {
            account.balance = account.balance.max(0);
            account.in_turn = false;
            return Rule::Freely;
        }
        match account.balance {
            owed if owed < 0 => {
                account.in_turn = true;
                Rule::NotBefore(Duration::from_secs_f64((nanos(ADVANCE) - owed) as f64 / 1e9 / share))
            }
            _ if account.in_turn => Rule::InTurn,
            _ => Rule::Freely,
        }
    }

    /// A request of a flow has taken so much processor time.
    pub(super) fn charge(&mut self, flow: &Arc<str>, cost: Duration, now: Duration) {
        let share = self.share();
        if let Some(account) = self.accounts.get_mut(flow) {
            account.settle(share, now);
            account.balance = account.balance.saturating_sub(nanos(cost));
        }
    }

    /// How many processors are one flow's.
    fn share(&self) -> f64 {
        f64::from(self.processors) / f64::from(self.present.clamp(1, SMALLEST))
    }

    /// Finds out who is there, and forgets whose account is as a new one would be.
    fn look(&mut self, now: Duration) {
        let share = self.share();
        self.looked = now;
        self.accounts.retain(|_, account| {
            account.settle(share, now);
            account.is_present(now) || account.balance < nanos(SAVED)
        });
        let present = self.accounts.values().filter(|account| account.is_present(now)).count();
        self.present = u32::try_from(present).unwrap_or(u32::MAX);
    }
}

impl Account {
    fn settle(&mut self, share: f64, now: Duration) {
        let earned = now.saturating_sub(self.at).as_secs_f64() * share * 1e9;
        self.at = self.at.max(now);
        self.balance = self.balance.saturating_add(earned as i64).min(nanos(SAVED));
        if self.balance >= nanos(SAVED) / 2 {
            self.in_turn = false;
        }
    }

    fn is_present(&self, now: Duration) -> bool {
        now.saturating_sub(self.asked) < RECENT
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn flow(name: &str) -> Arc<str> {
        name.into()
    }

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn who_is_alone_has_all_there_is() {
        let mut shares = Shares::new(2);
        for second in 0..100 {
            let now = Duration::from_secs(second);
            assert_eq!(shares.ask(&flow("a"), now), Rule::Freely);
            shares.charge(&flow("a"), Duration::from_secs(2), now);
        }
    }

    #[test]
    fn who_has_used_up_what_it_saved_waits_until_it_has_paid() {
        let mut shares = Shares::new(2);
        let (a, b) = (flow("a"), flow("b"));
        assert_eq!((shares.ask(&a, millis(0)), shares.ask(&b, millis(0))), (Rule::Freely, Rule::Freely));
        shares.charge(&a, SAVED + millis(9), millis(0));
        // Its share is one of two processors: nine milliseconds are owed, and some is to be in advance.
        assert_eq!(shares.rule(&a, millis(0)), Rule::NotBefore(millis(9) + ADVANCE));
        assert_eq!(shares.rule(&b, millis(0)), Rule::Freely);
        assert_eq!(shares.rule(&a, millis(10)), Rule::InTurn);
        // It can save again.
        assert_eq!(shares.rule(&a, millis(100)), Rule::Freely);
        // When the other has gone, nothing is owed.
        shares.charge(&a, Duration::from_secs(60), millis(100));
        assert!(matches!(shares.ask(&a, millis(500)), Rule::NotBefore(_)));
        assert_eq!(shares.ask(&a, millis(1500)), Rule::Freely);
    }

    #[test]
    fn a_share_is_never_too_small_and_nobody_is_remembered_in_vain() {
        let mut shares = Shares::new(2);
        for number in 0..1000 {
            shares.ask(&flow(&format!("f{number}")), millis(0));
        }
        let one = flow("f7");
        shares.charge(&one, SAVED + millis(1), millis(0));
        let wait = (millis(1) + ADVANCE) * (SMALLEST / 2);
        assert_eq!(shares.rule(&one, millis(0)), Rule::NotBefore(wait));
        shares.ask(&one, Duration::from_secs(10));
        assert_eq!(shares.accounts.len(), 1);
    }

    proptest! {
        /// A flood beside others gets its share and what it had saved, and no more, whatever its requests cost; and
        /// others that take less than theirs never wait.
        #[test]
        fn a_flood_gets_its_share(
            costs in prop::collection::vec(50_u64..20_000, 1..50),
            others in 1_u32..40,
        ) {
            let mut shares = Shares::new(2);
            let (flood, good) = (flow("flood"), (0..others).map(|number| flow(&format!("g{number}"))));
            let good: Vec<_> = good.collect();
            let (mut used, mut free) = (Duration::ZERO, Duration::ZERO);
            let mut costs = costs.iter().map(|micros| Duration::from_micros(*micros)).cycle();
            let end = 10_000;
            for now in (0..end).map(millis) {
                if now.subsec_millis() % 200 == 0 {
                    for one in &good {
                        prop_assert_eq!(shares.ask(one, now), Rule::Freely);
                        shares.charge(one, Duration::from_micros(150), now);
                    }
                }
                // As many as can be done in this millisecond by one processor.
                free = free.max(now);
                while free < now + millis(1) {
                    match shares.ask(&flood, free) {
                        Rule::NotBefore(wait) => free += wait,
                        _ => {
                            let cost = costs.next().unwrap_or_default();
                            shares.charge(&flood, cost, free);
                            used += cost;
                            free += cost;
                        }
                    }
                }
            }
            let share = 2.0 / f64::from((others + 1).min(SMALLEST));
            let granted = share * 10.0 + SAVED.as_secs_f64();
            let possible = granted.min(10.0);
            prop_assert!(used.as_secs_f64() <= granted + 0.05, "{used:?} of {granted}");
            prop_assert!(used.as_secs_f64() >= possible * 0.8 - 0.1, "{used:?} of {possible}");
        }
    }
}
