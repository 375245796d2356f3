//! Certificates and keys of a cluster: its CAs, the server and client certificates that they sign, and the keys of
//! service account tokens.
//!
//! The crate reads and writes files and signs certificates; it opens no connection and knows neither the API nor HTTP.
//! Time is an argument. The files are the only state: a running server opens them again and again, and so notices what a
//! command has changed. Start reading at [`Pki::open`].

mod authority;
mod certificates;
mod dynamic_files;
mod error;
mod hosted;
mod inventory;
mod issue;
mod lifetime;
mod pair;
mod pin;
mod private_directory;
mod renew;
pub mod service_account;
mod webhook;

pub use authority::{Authority, Rotation};
pub use certificates::{LOOPBACK_NAME, Pki};
pub use dynamic_files::DynamicFiles;
pub use error::Error;
pub use hosted::HostedPki;
pub use inventory::{CertificateInfo, Entry, inventory};
pub use pair::CertKeyPair;
pub use pin::{public_key_pins, with_public_key_pin};
pub use private_directory::PrivateDirectory;
pub use renew::{renew_certificates, rotate_authorities};
pub use webhook::WebhookPki;
