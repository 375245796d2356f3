//! Every API kind: its names, defaults, validation, printer columns, versions and subresources.
//!
//! The author of a kind implements [`Strategy`] on the object tree, which validation walks with [`FieldRef`];
//! [`Kinds`] erases it to a [`Kind`], the only type that the rest of the server sees. No code outside this crate has
//! a condition on a particular kind.
//!
//! A rule here sees the object, its old version and the [`RequestFacts`]. It never looks at another object, never
//! awaits, never reads a clock, and does no I/O: rules about other objects belong to admission, actions to
//! controllers.
//!
//! Start reading at [`strategy`], then [`core::config_map`] for the smallest kind, then [`kind`].

pub mod strategy;

pub mod kind;

pub mod field;

pub mod kinds;

pub mod columns;

pub mod meta;

pub mod top_level;

pub mod custom;

pub mod shared;

pub mod admissionregistration;
pub mod apiextensions;
pub mod apiregistration;
pub mod apps;
pub mod authentication;
pub mod authorization;
pub mod autoscaling;
pub mod batch;
pub mod bootstrap;
pub mod certificates;
pub mod coordination;
pub mod core;
pub mod discovery;
pub mod events;
pub mod flowcontrol;
pub mod networking;
pub mod node_k8s;
pub mod policy;
pub mod rbac;
pub mod resource;
pub mod scheduling;
pub mod storage;
pub mod storagemigration;

mod builtin;
mod converted;
mod header;
mod normal_form;

pub use builtin::BuiltinKind;
pub use columns::Column;
pub use field::FieldRef;
pub use kind::{Deletion, InvalidObject, Kind, KindInfo, UpdateContext};
pub use kinds::Kinds;
pub use strategy::{
    FieldLabel, NameRule, Names, RequestFacts, Rules, Scope, Strategy, Subresource, SubresourceKind,
};
