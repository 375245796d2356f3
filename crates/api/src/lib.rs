//! Core types of the API: objects, keys, requests, responses, verbs, statuses, selectors, quantities, the clock.
//!
//! Every other crate uses these types. Servers and clients of the API meet in one trait, [`Serve`]: a typed request in,
//! a typed response out. This crate does no I/O, spawns no tasks and names no kind.
//!
//! Start reading at [`call`], then [`object`].

pub mod audit_annotation;
pub mod call;
pub mod change;
pub mod clock;
pub mod field;
pub mod go_duration;
pub mod go_quote;
pub mod gvk;
pub mod json;
pub mod key;
pub mod name;
pub mod object;
pub mod off_worker;
pub mod options;
pub mod quantity;
pub mod selector;
pub mod status;
pub mod table;
pub mod user;
pub mod verb;
pub mod version;

pub use audit_annotation::AuditAnnotation;
pub use call::{Body, List, Payload, Request, Response, Serve, ServeFuture, Target, Verb, Watch};
pub use change::{Bookmark, Change, Event};
pub use clock::{Clock, SystemClock};
pub use gvk::{GroupResource, Gvk, Gvr};
pub use key::Key;
pub use object::{Header, Stored};
pub use off_worker::off_worker;
pub use quantity::Quantity;
pub use status::Status;
pub use user::User;
pub use verb::{ApiVerb, ApiVerbs, HttpVerb};
pub use version::ResourceVersion;

/// The examples of the README, compiled with the doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
