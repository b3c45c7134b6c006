//! What every machine of a cluster shall do next.
//!
//! One question: [`decide`]. A [`Snapshot`] of everything that was seen, with the time in it, goes in; a [`Decision`] comes
//! out: plans to deliver, marks on plan Secrets, etcd members to let go, status, what is waited for, when to ask again.
//! No client, no clock, no randomness, no async; the same snapshot gives the same decision.
//!
//! | module | what |
//! |---|---|
//! | `snapshot`, `plan_view` | what goes in |
//! | `decision`, `wait` | what comes out |
//! | `process` | the order of a pass |
//! | `desired/` | the plan that a machine should have; `epoch`, `release`, `version`, `memo` beside it |
//! | `election`, `join` | who starts the cluster, who joins where |
//! | `tier`, `drain`, `retry`, `impact` | how changes reach machines |
//! | `members`, `removal` | etcd: who votes, who may be disturbed, who may go |
//! | `preview` | what a change would do |
//! | `lint` | the rules that no decision may break |

mod decision;
mod desired;
mod drain;
mod election;
mod epoch;
mod impact;
mod join;
mod lint;
mod members;
mod memo;
mod plan_view;
mod preview;
mod process;
mod release;
mod removal;
mod retry;
mod selector;
mod snapshot;
mod tier;
mod version;
mod wait;

pub use decision::*;
pub use desired::{Error as RenderError, Placement, Rendered, render};
pub use epoch::Epoch;
pub use impact::{FileChange, Impact};
pub use lint::{LARGEST_PLAN, Rule, Violation, lint};
pub use memo::Memo;
pub use plan_view::PlanView;
pub use preview::{NodePreview, Preview, preview};
pub use process::{decide, decide_with};
pub use release::{Argument, ArgumentType, Error as ReleaseError, Releases};
pub use snapshot::*;
pub use tier::Tier;
pub use version::{NotAVersion, Runtime, Version};
pub use wait::{Code, Subject, Wait};
