//! The library against the real registry, on a store in memory and a clock that only the test moves.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod controller;
mod factory;
mod leader;
mod rows;
mod series;
