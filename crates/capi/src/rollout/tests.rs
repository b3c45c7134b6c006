use proptest::prelude::*;

use super::*;

fn set(wanted: i32, present: i32, available: i32) -> Set {
    Set { wanted, present, available }
}

fn bounds(replicas: i32, surge: i32, unavailable: i32) -> Bounds {
    Bounds { replicas, surge, unavailable }
}

#[test]
fn bounds_are_resolved() {
    let text = |value: &str| Some(IntOrString::String(value.into()));
    let number = |value| Some(IntOrString::Int(value));
    for (replicas, surge, unavailable, expected) in [
        (3, None, None, (1, 0)),
        (10, text("25%"), text("25%"), (3, 2)),
        (3, text("0%"), text("10%"), (0, 1)),
        (3, number(0), number(0), (0, 1)),
        (3, number(0), number(5), (0, 3)),
        (0, number(1), text("50%"), (1, 0)),
    ] {
        let update = RollingUpdate { max_surge: surge, max_unavailable: unavailable };
        let found = Bounds::of(replicas, &update).unwrap();
        assert_eq!((found.surge, found.unavailable), expected, "{replicas} {update:?}");
    }
    let update = RollingUpdate { max_surge: text("many"), max_unavailable: None };
    assert_eq!(Bounds::of(1, &update), Err(NotACount("many".into())));
}

#[test]
fn steps_of_a_rolling_update() {
    let cases = [
        ("first set", bounds(3, 1, 0), set(0, 0, 0), vec![], (3, vec![])),
        ("room for one", bounds(3, 1, 0), set(0, 0, 0), vec![set(3, 3, 3)], (1, vec![3])),
        ("wait for the new one", bounds(3, 1, 0), set(1, 1, 0), vec![set(3, 3, 3)], (1, vec![3])),
        ("one old goes", bounds(3, 1, 0), set(1, 1, 1), vec![set(3, 3, 3)], (1, vec![2])),
        ("while it goes", bounds(3, 1, 0), set(1, 1, 1), vec![set(2, 3, 3)], (1, vec![2])),
        ("it has gone", bounds(3, 1, 0), set(1, 1, 1), vec![set(2, 2, 2)], (2, vec![2])),
        ("without surge one goes first", bounds(3, 0, 1), set(0, 0, 0), vec![set(3, 3, 3)], (0, vec![2])),
        ("then one comes", bounds(3, 0, 1), set(0, 0, 0), vec![set(2, 2, 2)], (1, vec![2])),
        ("scaled down in the middle", bounds(2, 1, 0), set(3, 3, 3), vec![set(1, 1, 1)], (2, vec![0])),
        (
            "the unavailable go first",
            bounds(3, 1, 1),
            set(1, 1, 1),
            vec![set(2, 2, 2), set(1, 1, 0)],
            (1, vec![1, 0]),
        ),
        (
            "the oldest goes first",
            bounds(4, 1, 0),
            set(1, 1, 1),
            vec![set(2, 2, 2), set(2, 2, 2)],
            (1, vec![1, 2]),
        ),
        (
            "a broken old machine goes in the end",
            bounds(3, 1, 0),
            set(1, 1, 1),
            vec![set(3, 3, 2)],
            (1, vec![2]),
        ),
        (
            "but not while a new one is broken",
            bounds(3, 1, 0),
            set(1, 1, 0),
            vec![set(3, 3, 2)],
            (1, vec![3]),
        ),
        ("to nothing", bounds(0, 1, 0), set(2, 2, 2), vec![set(1, 1, 1)], (0, vec![0])),
    ];
    for (name, bounds, new, old, (wanted, left)) in cases {
        assert_eq!(rolling_update(bounds, new, &old), Intents { new: wanted, old: left }, "{name}");
    }
}

#[test]
fn only_deleted_machines_are_replaced() {
    let cases = [
        ("nothing happens by itself", 3, set(0, 0, 0), vec![set(3, 3, 3)], (0, vec![3])),
        ("one was deleted", 3, set(0, 0, 0), vec![set(3, 2, 2)], (0, vec![2])),
        ("its replacement is new", 3, set(0, 0, 0), vec![set(2, 2, 2)], (1, vec![2])),
        ("scaled up", 5, set(0, 0, 0), vec![set(3, 3, 3)], (2, vec![3])),
        ("scaled down, the old go", 2, set(1, 1, 1), vec![set(2, 2, 2)], (1, vec![1])),
        ("scaled below the new", 1, set(2, 2, 2), vec![set(1, 1, 1)], (1, vec![0])),
    ];
    for (name, replicas, new, old, (wanted, left)) in cases {
        assert_eq!(on_delete(replicas, new, &old), Intents { new: wanted, old: left }, "{name}");
    }
}

#[test]
fn a_paused_rollout_scales_in_proportion() {
    let share = |wanted, most| Share { wanted, available: wanted, desired: Some(10), most: Some(most) };
    assert_eq!(paused(bounds(5, 1, 0), &[share(3, 4)], Some(0)), [5], "one active set");
    assert_eq!(paused(bounds(5, 1, 0), &[share(0, 4)], Some(0)), [5], "none active");
    assert_eq!(paused(bounds(20, 2, 0), &[share(8, 11), share(3, 11)], Some(1)), [16, 6], "doubled");
    assert_eq!(paused(bounds(0, 1, 0), &[share(8, 11), share(3, 11)], Some(1)), [0, 0]);
    let full = Share { wanted: 10, available: 10, desired: Some(10), most: Some(11) };
    assert_eq!(paused(bounds(10, 1, 0), &[full, share(1, 11)], Some(0)), [10, 0], "saturated");
}

/// Machines of one set: how many are available, and how many are there but are not.
#[derive(Clone, Copy, Debug, Default)]
struct Machines {
    wanted: i32,
    available: i32,
    broken: i32,
}

impl Machines {
    fn seen(self) -> Set {
        set(self.wanted, self.available + self.broken, self.available)
    }
}

/// What happens between two steps.
#[derive(Clone, Debug)]
enum Happening {
    /// A set creates what it lacks.
    Create(usize),
    /// A machine of a set becomes available.
    Ready(usize),
    /// An available machine of a set fails.
    Fail(usize),
    /// A set deletes one that it has too many, the available ones first: the worst case.
    Delete(usize),
    /// Somebody asks for another number.
    Scale(i32),
    /// Somebody changes the template.
    Change,
    /// The MachineDeployment is looked at.
    Step,
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    use Happening::{Change, Create, Delete, Fail, Ready, Scale, Step};
    let one = prop_oneof![
        (0_usize..4).prop_map(Create),
        (0_usize..4).prop_map(Ready),
        (0_usize..4).prop_map(Fail),
        (0_usize..4).prop_map(Delete),
        (0_i32..8).prop_map(Scale),
        Just(Change),
        Just(Step),
        Just(Step),
        Just(Step),
    ];
    proptest::collection::vec(one, 0..120)
}

/// A MachineDeployment, its sets (the current one last) and how they behave.
struct Story {
    bounds: Bounds,
    sets: Vec<Machines>,
}

impl Story {
    fn total(&self) -> i32 {
        self.sets.iter().map(|set| set.wanted.max(set.available + set.broken)).sum()
    }

    fn available(&self) -> i32 {
        self.sets.iter().map(|set| set.available).sum()
    }

    /// Those that will still be there, at worst, when what was asked to go has gone.
    fn staying(&self) -> i32 {
        let staying = |set: &Machines| {
            set.available - set.available.min((set.available + set.broken - set.wanted).max(0))
        };
        self.sets.iter().map(staying).sum()
    }

    fn step(&mut self) -> Result<(), TestCaseError> {
        let (total, staying) = (self.total(), self.staying());
        let (new, old) = self.sets.split_last_mut().unwrap();
        let before: Vec<i32> = old.iter().map(|set| set.wanted).collect();
        let settled = new.available >= new.wanted;
        let views: Vec<Set> = old.iter().map(|set| set.seen()).collect();
        let intents = rolling_update(self.bounds, new.seen(), &views);
        prop_assert!(intents.old.iter().zip(&before).all(|(next, before)| (0..=*before).contains(next)));
        prop_assert!(intents.new >= 0);
        let shrunk = new.wanted > self.bounds.replicas;
        for (set, intent) in old.iter_mut().zip(&intents.old) {
            set.wanted = *intent;
        }
        new.wanted = intents.new;
        let most = self.bounds.replicas + self.bounds.surge;
        prop_assert!(self.total() <= total.max(most), "{} of at most {most}", self.total());
        // A deadlock is broken, and a smaller number taken at once, at the price of a machine that may be available.
        let forced =
            intents.old.iter().zip(&before).map(|(next, before)| before - next).sum::<i32>() == 1 && settled;
        if !shrunk && !forced {
            let least = self.bounds.least_available().min(staying);
            prop_assert!(self.staying() >= least, "{} stay of at least {least}", self.staying());
        }
        Ok(())
    }

    fn happen(&mut self, happening: &Happening) -> Result<(), TestCaseError> {
        let count = self.sets.len();
        match happening {
            Happening::Create(index) => {
                let set = &mut self.sets[index % count];
                set.broken += (set.wanted - set.available - set.broken).max(0);
            }
            Happening::Ready(index) => {
                let set = &mut self.sets[index % count];
                let step = set.broken.min(1);
                set.broken -= step;
                set.available += step;
            }
            Happening::Fail(index) => {
                let set = &mut self.sets[index % count];
                let step = set.available.min(1);
                set.available -= step;
                set.broken += step;
            }
            Happening::Delete(index) => {
                let set = &mut self.sets[index % count];
                if set.available + set.broken > set.wanted {
                    if set.available > 0 {
                        set.available -= 1;
                    } else {
                        set.broken -= 1;
                    }
                }
            }
            Happening::Scale(replicas) => {
                self.bounds.replicas = *replicas;
                self.bounds.unavailable = self.bounds.unavailable.min(*replicas);
                if self.bounds.surge == 0 && self.bounds.unavailable == 0 {
                    self.bounds.surge = 1;
                }
            }
            Happening::Change if count < 4 => self.sets.push(Machines::default()),
            Happening::Change => {}
            Happening::Step => self.step()?,
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn bounds_hold_and_every_rollout_ends(
        replicas in 0_i32..8,
        (surge, unavailable) in (0_i32..4, 0_i32..4).prop_filter("one may move", |(a, b)| a + b > 0),
        happenings in happenings(),
    ) {
        let unavailable = unavailable.min(replicas);
        let surge = if unavailable == 0 { surge.max(1) } else { surge };
        let bounds = Bounds { replicas, surge, unavailable };
        let mut story = Story { bounds, sets: vec![Machines::default()] };
        for happening in &happenings {
            story.happen(happening)?;
        }
        // Nothing fails any more, but machines of old sets that are broken stay so.
        for _ in 0..200 {
            story.step()?;
            let last = story.sets.len() - 1;
            for index in 0..story.sets.len() {
                story.happen(&Happening::Delete(index))?;
                if index == last {
                    story.happen(&Happening::Create(index))?;
                    story.happen(&Happening::Ready(index))?;
                }
            }
        }
        let (new, old) = story.sets.split_last().unwrap();
        prop_assert!(old.iter().all(|set| set.wanted == 0 && set.available + set.broken == 0), "{:?}", story.sets);
        prop_assert_eq!((new.wanted, new.available), (story.bounds.replicas, story.bounds.replicas));
        prop_assert_eq!(story.available(), story.bounds.replicas);
    }

    #[test]
    fn on_delete_never_touches_more_than_it_must(
        replicas in 0_i32..8,
        new in 0_i32..8,
        old in proptest::collection::vec((0_i32..5, 0_i32..5), 0..4),
    ) {
        let old: Vec<Set> = old.iter().map(|(wanted, present)| set(*wanted, *present, 0)).collect();
        let intents = on_delete(replicas, set(new, new, new), &old);
        prop_assert!(intents.old.iter().zip(&old).all(|(next, set)| *next <= set.wanted.min(set.present)));
        let total = intents.new + intents.old.iter().sum::<i32>();
        prop_assert!(total <= replicas.max(intents.new));
    }

    #[test]
    fn a_paused_rollout_ends_at_the_number(
        replicas in 1_i32..50, surge in 0_i32..5,
        sets in proptest::collection::vec((0_i32..30, 1_i32..60), 1..4),
    ) {
        let sets: Vec<Share> = sets.iter().map(|(wanted, most)| Share {
            wanted: *wanted, available: 0, desired: None, most: Some(*most),
        }).collect();
        let intents = paused(bounds(replicas, surge, 0), &sets, Some(0));
        prop_assert!(intents.iter().all(|intent| *intent >= 0));
        let active = sets.iter().filter(|set| set.wanted > 0).count();
        if active > 1 {
            prop_assert_eq!(intents.iter().sum::<i32>(), replicas + surge);
        } else {
            prop_assert_eq!(intents.iter().sum::<i32>(), replicas);
        }
    }
}
