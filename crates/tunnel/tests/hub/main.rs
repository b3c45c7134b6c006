//! Hubs, clients and peers in one process: over pipes, with real HTTP.

mod world;

mod clients;
mod connector;
mod peers;
