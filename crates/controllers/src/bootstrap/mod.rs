//! Bootstrap tokens: secrets by which a new node and a cluster get to know each other. One controller signs with them
//! what the cluster says of itself, so that whoever has a token can tell; another takes away those that are over.
//!
//! Neither runs unless it is asked for by name. [`token`] reads and signs, and is pure.

mod token;

pub mod cleaning;
pub mod signing;
