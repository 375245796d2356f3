//! Encoding and decoding of objects: JSON, YAML, protobuf, strict decoding, watch frames, media types.
//!
//! [`strict::decode`] is what the API server calls on a request body: it parses the bytes, checks that they are of the
//! expected kind, drops unknown fields and reports them in the messages that clients match on. [`json`], [`yaml`] and
//! [`protobuf`] are the formats by themselves.
//!
//! This crate knows bytes and shapes. It opens no socket and no file, checks nothing of an object beyond its shape, and
//! never names a kind.
//!
//! Start reading at [`strict`], then [`json`].

pub mod media;

pub mod json;

pub mod yaml;

pub mod protobuf;

pub mod strict;

pub mod frame;

pub mod typed;

pub use strict::{DecodeError, DecodedObject, FieldValidation, decode};
pub use typed::{from_json, from_tree, to_tree};

/// The examples of the README, compiled with the doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
