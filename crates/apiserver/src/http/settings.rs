//! What is granted to clients, all in one place.

use std::time::Duration;

use super::fairness::Bounds;

/// How many clients may do how much at once, and how long they may take. The defaults suit one machine with some ten
/// thousand clients, most of which do no more than watch.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Connections at once.
    pub connections: usize,
    /// Connections at once from one address over which nobody has shown yet who it is: a proxy or a whole network may be behind it.
    pub connections_per_address: usize,
    /// Connections at once over which one user asks.
    pub connections_per_user: usize,
    /// Watches at once.
    pub watches: usize,
    /// Watches at once of one user.
    pub watches_per_user: usize,
    /// How long a connection may be without a request, and a request without the rest of its headers. As long as
    /// upstream's.
    pub idle: Duration,
    /// How long a body may take to arrive: as long as upstream gives a whole request.
    pub body: Duration,
    /// How long a client may leave unread what it has asked for, before it is cut off.
    pub stalled: Duration,
    /// How long a request may wait for its turn: a quarter of what upstream gives a whole request.
    pub wait: Duration,
    /// Processors to be shared: what the machine has.
    pub processors: usize,
    /// What administrators and the system itself get.
    pub system: Bounds,
    /// What nodes get.
    pub nodes: Bounds,
    /// What everybody else with credentials gets.
    pub workload: Bounds,
    /// What clients without credentials get.
    pub anonymous: Bounds,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            connections: 50_000,
            connections_per_address: 4_000,
            connections_per_user: 2_000,
            watches: 40_000,
            watches_per_user: 10_000,
            idle: Duration::from_secs(90),
            body: Duration::from_secs(60),
            stalled: Duration::from_secs(60),
            wait: Duration::from_secs(15),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            // An administrator may have it all: a restore of many objects is one flow.
            system: Bounds { seats: 64, flow_seats: 64, flow_queue: 500, queue: 2_000 },
            // Few at once: on a small machine what is worked on waits for a processor, where there is no fairness.
            nodes: Bounds { seats: 16, flow_seats: 4, flow_queue: 50, queue: 2_000 },
            workload: Bounds { seats: 16, flow_seats: 8, flow_queue: 200, queue: 2_000 },
            anonymous: Bounds { seats: 4, flow_seats: 4, flow_queue: 50, queue: 50 },
        }
    }
}
