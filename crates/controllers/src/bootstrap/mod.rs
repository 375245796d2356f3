//! Bootstrap tokens: Secrets with which a joining node and a cluster authenticate each other. One controller signs the
//! `cluster-info` ConfigMap with them, so that a node that has a token can verify it; another deletes expired tokens.
//!
//! Neither runs unless `--controllers` names it. [`token`] parses tokens and signs, and is pure.

mod token;

pub mod bootstrap_signer;
pub mod token_cleaner;
