//! Schemas of API types, and the operations on objects that a schema defines: pruning, defaulting, validation, patches,
//! server-side apply and canonical JSON.
//!
//! A [`Tree`] is a parsed object, a [`Shape`] is the schema of one type, and the [`Pack`] holds the shapes of all built-in
//! types. Everything else here is a function of a shape and a tree: [`mod@prune`] drops and reports unknown fields,
//! [`mod@write`] writes the canonical JSON.
//!
//! This crate does no I/O, awaits nothing, reads no clock, knows no wire format other than the canonical JSON it writes,
//! and never names a kind.
//!
//! Start reading at [`tree`], then [`shape`], then [`mod@prune`].

mod name;

pub mod tree;

pub mod shape;

pub mod pack;

pub mod fields;

pub mod openapi;

pub mod prune;

pub mod patch;

pub mod apply;

pub mod custom;

pub mod time;

pub mod write;

pub use pack::Pack;
pub use prune::{PruneErrors, StrictError, prune};
pub use shape::{Cardinality, Field, FieldType, Gvk, Shape, ShapeRef};
pub use tree::{Map, Tree, to_tree};
pub use write::{
    CanonicalJson, EmptyCollections, write, write_into, write_sorted, write_sorted_into,
    write_with_managed_fields,
};

/// The examples of the README, compiled with the doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
