//! Bytes to documents and back: JSON, YAML, protobuf, strictness, watch frames, media types.
//!
//! [`strict::decode`] is what a server calls on a request's body: it reads the bytes, sees that they are the kind they
//! should be, drops what the kind does not know and says so in the words clients match on. [`json`], [`yaml`] and
//! [`protobuf`] are the formats by themselves.
//!
//! This room knows bytes and shapes. It opens no socket and no file, decides nothing about an object's content beyond
//! its shape, and never names a kind.
//!
//! Start reading at [`strict`], then [`json`].

pub mod media;

pub mod json;

pub mod yaml;

pub mod protobuf;

pub mod strict;

pub mod frame;

pub mod typed;

pub use strict::{DecodeError, Decoded, Validation, decode};
pub use typed::{from_json, from_tree, to_tree};
