//! The shape of documents: what fields a kind has and what may be done with a document that claims to be of that kind.
//!
//! A [`Tree`] is a parsed document, a [`Shape`] says what its fields mean, and the [`Pack`] holds the shapes of all
//! built-in kinds. Everything else here is a function of a shape and a tree: [`mod@prune`] drops what the shape does not
//! know and names it, [`mod@write`] makes the one canonical JSON form.
//!
//! This room does no I/O, awaits nothing, reads no clock, knows no bytes on a wire other than the canonical JSON it
//! writes, and never names a kind.
//!
//! Start reading at [`tree`], then [`shape`], then [`mod@prune`].

pub mod tree;

pub mod shape;

pub mod pack;

pub mod openapi;

pub mod prune;

pub mod patch;

pub mod apply;

pub mod custom;

pub mod time;

pub mod write;

pub use pack::Pack;
pub use prune::{Problem, Problems, prune};
pub use shape::{Card, Field, Gvk, Link, Of, Shape};
pub use tree::{Map, Tree, to_tree};
pub use write::{Empty, Written, write, write_into};
