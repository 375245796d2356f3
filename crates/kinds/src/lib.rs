//! What each kind is: its names, defaults, rules, columns and subresources.
//!
//! A kind's author writes a [`Strategy`] on the document, which [`At`] walks; [`Kinds`] erases it to a [`Kind`], which is
//! all that the rest of the server sees. Nothing outside this crate names a kind in a condition.
//!
//! A rule here sees the object, its predecessor and the [`Facts`] of the request. It never looks at another object,
//! never awaits, never reads a clock, and does no I/O: what must look around is admission, what acts is a controller.
//!
//! Start reading at [`strategy`], then [`core::config_map`] for the smallest kind, then [`kind`].

pub mod strategy;

pub mod kind;

pub mod at;

pub mod kinds;

pub mod columns;

pub mod meta;

pub mod parts;

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
mod header;
mod normal;
mod spoke;

pub use at::At;
pub use builtin::Builtin;
pub use columns::Column;
pub use kind::{About, Deletion, Kind, Problem};
pub use kinds::Kinds;
pub use strategy::{Facts, Field, NameRule, Names, Part, Rules, Scope, Strategy, Subresource};
