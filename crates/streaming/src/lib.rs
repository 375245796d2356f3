//! Server side of Kubernetes' streaming protocols: exec and attach ([`remote_command`]) and port-forward
//! ([`port_forward`]), over WebSockets and over SPDY/3.1.
//!
//! The crate gets an upgraded connection and presents its channels as readers and writers of bytes; it knows nothing of
//! pods and containers. All bytes that it reads are untrusted: frames, headers and the number of streams are limited, and
//! every buffer is bounded. A session ends when its command ends, when the client leaves, or after an idle timeout.
//!
//! Start reading at [`remote_command::serve`]; `websocket/` and `spdy/` have the codecs, `session.rs` what both share.

#![warn(missing_docs)]

mod channel;
mod event_reader;
pub mod negotiation;
pub mod port_forward;
pub mod remote_command;
mod session;
pub mod spdy;
pub mod status;
mod tunnel;
pub mod websocket;

pub use session::{ByteStream, Limits};
