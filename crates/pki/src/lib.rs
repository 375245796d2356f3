//! Certificates of a cluster: its CAs, and the server and client certificates that they sign.
//!
//! The crate reads and writes files of one directory and signs certificates; it opens no connection and knows neither the
//! API nor HTTP. Time is an argument. Start reading at [`Pki::open`].

mod certificates;
mod error;
mod issue;
mod pair;
mod reuse;

pub use certificates::Pki;
pub use error::Error;
pub use pair::CertKeyPair;
