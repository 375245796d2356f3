//! Kinds as the server sees them: the interface [`Kind`], and what implements it for built-in and for custom kinds.
//!
//! The author of a kind implements [`Strategy`] on the object tree, which validation walks with [`FieldRef`];
//! [`BuiltinKind`] turns it into a [`Kind`], the only type that the rest of the server sees. [`Kinds`] is the table of
//! the kinds that a server serves. [`custom`] implements [`Kind`] for the versions of a CustomResourceDefinition.
//!
//! This crate has no rule of a built-in kind: those are in the crate `kinds`, which is above this one, so that the
//! registry and the API server are compiled without them. Like those rules it never awaits, never reads a clock, and
//! does no I/O.
//!
//! Start reading at [`strategy`], then [`kind`], then [`builtin`].

pub mod strategy;

pub mod kind;

pub mod kinds;

pub mod builtin;

pub mod converted;

pub mod custom;

pub mod bootstrap;

pub mod field;

pub mod meta;

pub mod columns;

pub mod normal_form;

pub mod top_level;

pub mod name;

pub mod label_selector;

pub mod ip;

pub mod display;
pub mod go_dump;

mod header;

mod new_members;

pub use bootstrap::{BootstrapObject, Recheck};
pub use builtin::{BuiltinKind, shape_of};
pub use columns::Column;
pub use converted::{ConvertedKind, VersionConversion};
pub use field::FieldRef;
pub use kind::{
    ConversionWebhook, Convert, Decode, Deletion, Describe, InvalidObject, Kind, KindInfo, Present, Storage,
    UpdateContext, WebhookConversion, WriteStrategy,
};
pub use kinds::Kinds;
pub use new_members::NewMember;
pub use strategy::{
    Action, ConnectKind, EtcdEncoding, FieldLabel, NameRule, Names, PartialRules, RequestFacts, Rules, Scope,
    Strategy, Subresource, SubresourceKind,
};
