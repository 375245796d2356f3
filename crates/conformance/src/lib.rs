//! Is it Kubernetes? Asks a server and compares its answers: with recordings, with another server, with what must never
//! happen.
//!
//! For the desk and the gate only: nothing that ships builds on it, and it knows the server from outside alone, through
//! the wire. It must never repair an answer to make it equal; what may differ becomes a placeholder in [`normal`], or a
//! row with its reason in a list of known differences.
//!
//! Start reading at [`transcript`] for recorded answers, [`corpus`] and [`differ`] for two servers side by side, [`fuzz`]
//! for requests that nobody would write.

pub mod compare;
pub mod corpus;
pub mod differ;
pub mod fuzz;
pub mod normal;
pub mod pace;
pub mod server;
pub mod transcript;
pub mod wire;
