//! Rules that look at other objects before a write.
//!
//! A rule of a kind sees only the object; a rule here may look around: does the namespace exist, is there room in the
//! quota. [`Chain`] runs the rules in order, inside each write, on every try.
//!
//! A rule never writes, never waits, and refuses in Kubernetes' words. What must change along with the object it hands
//! over as a companion of the write.
//!
//! Start reading at [`chain`], then `plugins/namespace_lifecycle.rs`.

pub mod chain;

mod plugins;

mod about;
mod amounts;

pub use chain::{BadRules, Chain, Config, Plugin, Right, Rights};
