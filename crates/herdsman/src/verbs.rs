//! The words for the command line's users: what kubectl can do on the objects, with less to type and more to see.

pub(crate) mod ask;
pub(crate) mod completion;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod describe;
pub(crate) mod diff;
pub(crate) mod follow;
pub(crate) mod get;
pub(crate) mod kinds;
pub(crate) mod kubeconfig;
pub(crate) mod logs;
pub(crate) mod node_command;
pub(crate) mod output;
pub(crate) mod pool;
pub(crate) mod progress;
pub(crate) mod redact;
pub(crate) mod scale;
pub(crate) mod ssh;
pub(crate) mod support_bundle;
pub(crate) mod target;
pub(crate) mod upgrade;
