//! The commands of `setpoint` besides `up`: clients of a running server, work on the files of a data directory, and
//! `new`.
//!
//! A command is a module with its arguments and one function that runs it. It never starts a component of the server.
//! Start reading at [`tree`].

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command prints to its user"
)]

pub mod certs;
pub mod envtest;
pub mod explain_scheduling;
pub mod new;
mod remote;
pub mod store;
pub mod template;
pub mod token;
pub mod tree;
pub mod version;
