//! Fuzzing of every reader of untrusted bytes, in process and without a server.
//!
//! A target is a file in `targets/`: seeds, and a function that reads an input and asserts what must hold of any input,
//! such as that what was read can be written and read again. The driver mutates seeds by a seeded random number
//! generator, so that an input follows from target, seed and number, and runs on stable Rust. Tests run a few thousand
//! inputs per target; `cargo xtask fuzz` runs as many as time allows.
//!
//! Nothing here ships. Start reading at [`targets::ALL`], then `driver.rs`.

mod corpus;
mod driver;
mod mutation;
pub mod targets;

pub use driver::{Finding, Plan, Report, input, run};
pub use targets::Target;
