//! Everything behind the one port: the Kubernetes API, registration of nodes, tunnels, the proxy to clusters, assets.
//!
//! `docs/gateway.md` has the endpoints, who may do what, and how tokens and certificates live.
//!
//! | module | what | IO |
//! |---|---|---|
//! | [`route`], [`headers`], [`limit`] | what a request is about, what of it goes on, who fails too often | no |
//! | [`credential`], [`params`] | what a token is worth, what a tunnel tells of its cluster | no |
//! | [`book`], [`issue`] | tokens: looked up by their hash, made, replaced | yes |
//! | `kubeconfigs` | tokens of kubeconfigs, each good for one cluster | no |
//! | [`admin`], [`import`] | the administrator's kubeconfig; the manifest of a cluster that is imported | no |
//! | [`certificates`] | the server's own certificate, replaced while it runs | no |
//! | [`kubernetes`] | the API behind the port: in this process, or somewhere else | yes |
//! | [`connect`] | registration of nodes | yes |
//! | [`downstream`], [`dial`] | clusters with a tunnel, and clients through it | yes |
//! | [`forward`], [`clusters`], [`reviews`] | requests that are handed on, upgrades too; `/k8s/clusters`, and who may | yes |
//! | [`assets`], [`metrics`], [`body`] | scripts and programs for nodes, what is counted, what answers are made of | yes |
//! | [`gateway`](mod@gateway) | all of it as one service | yes |

pub mod admin;
pub mod assets;
pub mod body;
pub mod book;
pub mod certificates;
pub mod clusters;
pub mod connect;
pub mod credential;
pub mod dial;
pub mod downstream;
pub mod forward;
pub mod gateway;
pub mod headers;
pub mod import;
pub mod issue;
mod kubeconfigs;
pub mod kubernetes;
pub mod limit;
mod lineage;
pub mod metrics;
pub mod params;
pub mod reviews;
pub mod route;
mod waiting;

pub use book::Book;
pub use certificates::{Authorities, Certificates};
pub use dial::TunnelDial;
pub use downstream::Downstreams;
pub use gateway::{Gateway, Parts, Public, Settings, listen};
pub use kubernetes::{Embedded, Kubernetes, PassThrough};

/// What a trait's asynchronous function gives.
pub type Later<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;
