use proptest::prelude::*;

use super::*;

const SMALL: Bounds = Bounds { seats: 2, flow_seats: 2, flow_queue: 2, queue: 3 };

fn flow(name: &str) -> Arc<str> {
    name.into()
}

fn started(queues: &mut Queues) -> Vec<Ticket> {
    std::iter::from_fn(|| queues.next()).collect()
}

#[test]
fn seats_are_given_until_there_are_none_then_queues_fill() {
    let mut queues = Queues::new(SMALL);
    let waits = Arrival::Waits { displaced: None };
    for (name, ticket, arrival) in [
        ("a", 1, Arrival::Runs),
        ("a", 2, Arrival::Runs),
        ("a", 3, waits),
        ("a", 4, waits),
        ("a", 5, Arrival::Refused),
        ("b", 6, waits),
        // There is no more room: the longest queue gives way to a flow that has none, and not to itself.
        ("c", 7, Arrival::Waits { displaced: Some(4) }),
        ("c", 8, Arrival::Refused),
    ] {
        assert_eq!(queues.arrive(&flow(name), ticket, 1, Pace::Free), arrival, "{name} {ticket}");
    }
    assert_eq!((queues.held(), queues.waiting()), (2, 3));
    queues.finish(&flow("a"), 1);
    queues.finish(&flow("a"), 1);
    assert_eq!(started(&mut queues), [6, 7], "those that had nothing yet come first");
    queues.give_up(&flow("a"), 3);
    assert_eq!((queues.held(), queues.waiting()), (2, 0));
}

#[test]
fn a_flow_does_not_take_all_seats() {
    let mut queues = Queues::new(Bounds { seats: 4, flow_seats: 2, flow_queue: 9, queue: 9 });
    let arrivals: Vec<_> = (0..3).map(|ticket| queues.arrive(&flow("a"), ticket, 1, Pace::Free)).collect();
    assert_eq!(arrivals, [Arrival::Runs, Arrival::Runs, Arrival::Waits { displaced: None }]);
    assert_eq!(queues.arrive(&flow("b"), 3, 1, Pace::Free), Arrival::Runs);
    assert_eq!(started(&mut queues), Vec::<Ticket>::new());
    queues.finish(&flow("a"), 1);
    assert_eq!(started(&mut queues), [2]);
}

#[test]
fn wide_requests_wait_for_room_and_are_not_passed_over() {
    let mut queues = Queues::new(Bounds { seats: 4, flow_seats: 4, flow_queue: 9, queue: 9 });
    assert_eq!(queues.arrive(&flow("a"), 1, 2, Pace::Free), Arrival::Runs);
    // More than there is counts as all there is.
    assert_eq!(queues.arrive(&flow("b"), 2, 100, Pace::Free), Arrival::Waits { displaced: None });
    assert_eq!(queues.arrive(&flow("c"), 3, 1, Pace::Free), Arrival::Waits { displaced: None });
    queues.finish(&flow("a"), 2);
    assert_eq!(started(&mut queues), [2]);
    queues.finish(&flow("b"), 100);
    assert_eq!(started(&mut queues), [3]);
}

#[test]
fn a_flow_at_a_slower_pace_runs_one_request_or_none() {
    let mut queues = Queues::new(Bounds { seats: 8, flow_seats: 4, flow_queue: 9, queue: 9 });
    let waits = Arrival::Waits { displaced: None };
    assert_eq!(queues.arrive(&flow("a"), 1, 1, Pace::Free), Arrival::Runs);
    assert_eq!(queues.arrive(&flow("a"), 2, 1, Pace::Single), waits);
    assert_eq!(queues.arrive(&flow("b"), 3, 1, Pace::Held), waits);
    assert_eq!(queues.arrive(&flow("c"), 4, 1, Pace::Free), Arrival::Runs, "others do not wait with them");
    assert_eq!(started(&mut queues), Vec::<Ticket>::new());
    queues.finish(&flow("a"), 1);
    queues.set_pace(&flow("b"), Pace::Single);
    assert_eq!(started(&mut queues), [3, 2], "who was given less is first");
    assert!(!queues.waits("a") && !queues.waits("b"));
}

#[derive(Clone, Debug)]
enum Step {
    Arrive(usize, usize),
    Finish(usize),
    GiveUp(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0_usize..5, 1_usize..4).prop_map(|(flow, width)| Step::Arrive(flow, width)),
        2 => (0_usize..50).prop_map(Step::Finish),
        1 => (0_usize..50).prop_map(Step::GiveUp),
    ];
    prop::collection::vec(step, 0..200)
}

proptest! {
    /// Whatever comes: no more seats than there are, no more waiting than there may be, nobody lost, nobody twice;
    /// and in the end everybody who waits gets a turn.
    #[test]
    fn bounds_are_kept_and_nobody_is_lost(steps in steps()) {
        let bounds = Bounds { seats: 5, flow_seats: 3, flow_queue: 4, queue: 8 };
        let mut queues = Queues::new(bounds);
        let names: Vec<Arc<str>> = (0..5).map(|index| format!("f{index}").into()).collect();
        let (mut running, mut waiting) = (Vec::<(Ticket, usize, usize)>::new(), Vec::<(Ticket, usize, usize)>::new());
        for (ticket, step) in (0..).zip(steps) {
            match step {
                Step::Arrive(flow, width) => match queues.arrive(&names[flow], ticket, width, Pace::Free) {
                    Arrival::Runs => running.push((ticket, flow, width)),
                    Arrival::Waits { displaced } => {
                        waiting.push((ticket, flow, width));
                        waiting.retain(|(waiting, ..)| Some(*waiting) != displaced);
                    }
                    Arrival::Refused => {}
                },
                Step::Finish(index) if !running.is_empty() => {
                    let (_, flow, width) = running.swap_remove(index % running.len());
                    queues.finish(&names[flow], width);
                }
                Step::GiveUp(index) if !waiting.is_empty() => {
                    let (ticket, flow, _) = waiting.swap_remove(index % waiting.len());
                    queues.give_up(&names[flow], ticket);
                }
                _ => {}
            }
            for ticket in started(&mut queues) {
                let place = waiting.iter().position(|(waiting, ..)| *waiting == ticket);
                running.push(waiting.swap_remove(place.expect("it waits")));
            }
            let seats: usize = running.iter().map(|(.., width)| width.min(&bounds.flow_seats)).sum();
            prop_assert_eq!((queues.held(), queues.waiting()), (seats, waiting.len()));
            prop_assert!(seats <= bounds.seats && waiting.len() <= bounds.queue);
            for flow in 0..names.len() {
                let own = |list: &[(Ticket, usize, usize)]| list.iter().filter(|one| one.1 == flow).count();
                prop_assert!(own(&waiting) <= bounds.flow_queue && own(&running) <= bounds.flow_seats);
            }
        }
        while let Some((_, flow, width)) = running.pop() {
            queues.finish(&names[flow], width);
            for ticket in started(&mut queues) {
                let place = waiting.iter().position(|(waiting, ..)| *waiting == ticket);
                running.push(waiting.swap_remove(place.expect("it waits")));
            }
        }
        prop_assert!(waiting.is_empty() && queues.flows.is_empty());
    }

    /// Flows that always have requests get the same number of seats, whatever each request costs; and one that comes
    /// with a single request has its turn after one round.
    #[test]
    fn flows_share_alike(widths in prop::collection::vec(1_usize..4, 2..6), rounds in 20_usize..60) {
        let bounds = Bounds { seats: 4, flow_seats: 4, flow_queue: 10_000, queue: 100_000 };
        let mut queues = Queues::new(bounds);
        let names: Vec<Arc<str>> = (0..widths.len()).map(|index| format!("f{index}").into()).collect();
        let blocker = flow("blocker");
        prop_assert_eq!(queues.arrive(&blocker, 0, 4, Pace::Free), Arrival::Runs);
        let owner = |ticket: Ticket| (ticket as usize - 1) % widths.len();
        for ticket in 1..=(widths.len() * 200) as Ticket {
            queues.arrive(&names[owner(ticket)], ticket, widths[owner(ticket)], Pace::Free);
        }
        let mut given = vec![0; widths.len()];
        let mut running = VecDeque::new();
        queues.finish(&blocker, 4);
        for _ in 0..rounds {
            for ticket in started(&mut queues) {
                given[owner(ticket)] += widths[owner(ticket)];
                running.push_back(owner(ticket));
            }
            let done = running.pop_front().expect("something runs");
            queues.finish(&names[done], widths[done]);
        }
        let (least, most) = (given.iter().min().copied().unwrap_or(0), given.iter().max().copied().unwrap_or(0));
        prop_assert!(most - least <= 6, "{:?}", given);
        let single = flow("single");
        if queues.arrive(&single, u64::MAX, 1, Pace::Free) == Arrival::Runs {
            return Ok(());
        }
        let mut others = 0;
        loop {
            let tickets = started(&mut queues);
            if tickets.contains(&u64::MAX) {
                break;
            }
            others += tickets.len();
            running.extend(tickets.into_iter().map(owner));
            let done = running.pop_front().expect("something runs");
            queues.finish(&names[done], widths[done]);
        }
        prop_assert!(others <= 4 * widths.len(), "{}", others);
    }
}
